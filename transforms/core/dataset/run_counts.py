"""All counts of a finished run, in a fixed order."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from transforms.core import rejections
from transforms.core.dataset.dataset_warnings import DatasetWarning, split_warnings
from transforms.core.dataset.ledger import (
    Ledger,
    LedgerError,
    PlanTotals,
    ShardSummary,
    count_reasons,
)
from transforms.core.dataset.output_names import REJECTED
from transforms.core.dataset.shard_totals import ShardTotals
from transforms.core.planning.rejection_limit import RejectionLimit
from transforms.core.planning.shards import ShardName, empty_shards_warning
from transforms.core.planning.splits import splits_in_order
from transforms.core.records import RejectedPart
from transforms.core.rejections import Reason, Rejection, RejectionTotals


class Gathered(NamedTuple):
    """All counts of a run, in a fixed order.

    Attributes:
        splits: names of the splits in their order.
        totals: totals of the plan.
        shards: sorted by split and number.
        planned: digest of the rejections of the join and the plan, see `RejectionTotals`.
        rejected: totals of all rejections.
        rejections: all of them, sorted; of those in parts, a sample.
        counts: numbers of the listing, the reading and the join.
        written: totals of the shards; moved here from `shards`.
        of_rows: whether records are made of rows, without images.
        parts: the parts of `rejected.jsonl` that workers wrote; None if there are no workers.
    """

    splits: tuple[str, ...]
    totals: PlanTotals
    shards: list[ShardSummary]
    planned: bytes
    rejected: RejectionTotals
    rejections: list[Rejection]
    counts: Counter[str]
    written: ShardTotals
    of_rows: bool = False
    parts: list[RejectedPart] | None = None

    @property
    def reasons(self) -> Counter[tuple[str, str]]:
        """The number of all rejections by subject and reason."""
        return self.rejected.reasons

    @property
    def failed(self) -> tuple[int, int]:
        """The number of rejections, and the total: of images, or of rows without images.

        Exact duplicates, also of holdouts, that were dropped as requested do not count as rejected.
        """
        ledger = self.ledger
        if self.of_rows:
            return ledger.rows_rejected, ledger.rows_read
        dropped = self.reasons["image", Reason.DUPLICATE_IMAGE.value]
        dropped += self.reasons["image", Reason.HOLDOUT_IMAGE.value]
        return ledger.images_rejected - dropped, ledger.images_selected

    @property
    def unlisted(self) -> int:
        """The number of rejections that were too many for `rejected.jsonl`."""
        is_listed = self.parts is None or self.rejected.count <= rejections.MAX_LISTED
        return 0 if is_listed else self.rejected.count

    def check(self) -> None:
        """Checks that every input is accounted for.

        Raises:
            LedgerError: one is not.
        """
        self.ledger.check()
        if self.parts is not None and not self.unlisted:
            lines = sum(part.lines for part in self.parts)
            if lines != self.rejected.count:
                raise LedgerError(f"{lines} of {self.rejected.count} lines of {REJECTED} written")

    @property
    def unselected(self) -> str:
        """Why a run whose images are all left out is not published; empty if some are kept."""
        ledger = self.ledger
        if not ledger.images_left_out or ledger.images_selected:
            return ""
        left = ledger.images_left_out
        images = f"all {left} images were" if left > 1 else "the only image was"
        return f"no image has a key in --keys: {images} left out; nothing published"

    def refusal(self, limit: RejectionLimit, lines: str) -> str:
        """Why a run with too many rejections is not published, and what to do.

        Args:
            limit: those that may be rejected.
            lines: the path of the file that lists them.
        """
        rejected, count = self.failed
        why = f"{rejected} of {count} {'rows' if self.of_rows else 'images'} rejected, more than "
        why += f"--max_rejected ({limit})"
        listed, action = "", "fix these inputs, or raise --max_rejected"
        if self.unlisted:
            listed = f" ({len(self.rejections)} of them)"
            if limit.allows(rejected, count):
                why = f"{self.unlisted} images and rows left out, more than "
                why += f"{REJECTED} can list ({rejections.MAX_LISTED})"
                action = "fix these inputs"
        reasons = ", ".join(f"{n} {reason}" for reason, n in count_reasons(self.reasons).items())
        return f"{why}; nothing published. Left out: {reasons}; see {lines}{listed}, then {action}"

    def warnings(
        self, options: Mapping[str, Any], shards: Mapping[str, int]
    ) -> list[DatasetWarning]:
        """Warnings about the splits and their shards.

        Args:
            options: those of the dataset, by flag name.
            shards: of each split, including empty ones; none if every record has its own file.
        """
        records = dict.fromkeys(self.splits, 0)
        for shard in self.shards:
            records[ShardName.parse(shard.file).split] += shard.records
        texts = (empty_shards_warning(name, records[name], count) for name, count in shards.items())
        empty = [DatasetWarning("empty_shards", text) for text in texts if text]
        return (
            self._no_records(sum(records.values()))
            + self._absent_keys()
            + empty
            + split_warnings(
                records,
                self.written.split_classes(self.splits),
                planned=self.totals.images,
                options=options,
                what="row" if self.of_rows else "image",
            )
        )

    def _no_records(self, records: int) -> list[DatasetWarning]:
        """The warning about a dataset without records: no image counts as rejected in a holdout."""
        if records:
            return []
        what = "row" if self.of_rows else "image"
        text = f"the dataset has no record: {REJECTED} says why each {what} was left out"
        return [DatasetWarning("no_records", text)]

    def _absent_keys(self) -> list[DatasetWarning]:
        """The warning about keys of `--keys` that no image has."""
        reason = Reason.KEY_NOT_FOUND.value
        count = self.reasons["key", reason]
        if not count:
            return []
        shown = ", ".join(repr(each.key[:80]) for each in self.rejected.first_of(reason))
        keys = f"{count} key{'' if count == 1 else 's'}"
        text = f"{keys} in --keys {'is' if count == 1 else 'are'} of no image, such as {shown}"
        return [DatasetWarning("keys_not_found", f"{text}; {REJECTED} lists them")]

    @property
    def ledger(self) -> Ledger:
        """All inputs and what became of them."""
        rows = Counter({why: n for (what, why), n in self.reasons.items() if what == "row"})
        unmatched = rows.pop(Reason.ROW_WITHOUT_IMAGE.value, 0)
        partners = Counter({why: n for (what, why), n in self.reasons.items() if what == "partner"})
        alone = partners.pop(Reason.PARTNER_WITHOUT_IMAGE.value, 0)
        records = sum(shard.records for shard in self.shards)
        return Ledger(
            images_matched=self.counts["images_found"] - self.counts["images_found_again"],
            records_written=records,
            images_rejected=sum(n for (what, _), n in self.reasons.items() if what == "image"),
            rows_read=self.counts["rows_read"],
            rows_used=self.totals.rows_used,
            rows_repeated=self.totals.rows_repeated,
            rows_unmatched=unmatched,
            rows_rejected=rows.total() + self.counts["rows_rejected"],
            rows_written=records if self.of_rows else 0,
            images_left_out=self.counts["images_left_out"],
            rows_left_out=self.counts["rows_left_out"],
            partners_matched=self.counts["partners_found"] - self.counts["partners_found_again"],
            partners_used=self.totals.partners_used,
            partners_unmatched=alone,
            partners_rejected=partners.total() + self.counts["partners_rejected"],
            partners_left_out=self.counts["partners_left_out"],
        )


def in_order(
    splits: Iterable[str], everything: Mapping[str, list[Any]], *, of_rows: bool = False
) -> Gathered:
    """Sorts counts that arrive in any order.

    Args:
        splits: the splits in order; if empty, those that occur in the totals.
        everything: `totals`, one `PlanTotals`; `shards`, all `ShardSummary`; `rejections`, those of
            the join and the plan; `counts` of the listing, the reading and the join. On runners
            with workers, one `RejectionTotals` each: `rejected` of the join and the plan, and
            `rejected_of_shards`; and the `parts` of `rejected.jsonl`, with a `sample` of it, one
            list of tuples. With `written`, one `ShardTotals`, the shards are without labels,
            statistics and rejections.
        of_rows: whether records are made of rows, without images.
    """
    (totals,) = everything["totals"]
    ordered = tuple(splits) or splits_in_order(totals.images)
    rank = {split: position for position, split in enumerate(ordered)}
    added: Counter[str] = Counter()
    for count in everything["counts"]:
        added[count.name] += count.value

    def place(shard: ShardSummary) -> tuple[int, int]:
        name = ShardName.parse(shard.file)
        return rank[name.split], name.number

    shards: list[ShardSummary] = sorted(everything["shards"], key=place)
    listed = sorted(_listed(everything, shards))
    rejected, planned = _totals(everything, shards)
    if "written" in everything:
        [written] = everything["written"]
    else:
        written = ShardTotals.of(shards)
        shards = [dataclasses.replace(shard, statistics={}) for shard in shards]
    return Gathered(
        ordered,
        totals,
        shards,
        planned,
        rejected,
        listed,
        added,
        written,
        of_rows,
        everything.get("parts"),
    )


def _listed(
    everything: Mapping[str, list[Any]], shards: Iterable[ShardSummary]
) -> Iterator[Rejection]:
    """All rejections, or a sample of those in parts."""
    yield from everything.get("rejections", ())
    for sample in everything.get("sample", ()):
        yield from (Rejection(*each) for each in sample)
    for shard in shards:
        yield from shard.rejections


def _totals(
    everything: Mapping[str, list[Any]], shards: Iterable[ShardSummary]
) -> tuple[RejectionTotals, bytes]:
    """Totals of all rejections, and the digest of those before the shards."""
    if "rejected" in everything:
        [planned] = everything["rejected"]
        of_shards = everything.get("rejected_of_shards", [])
    else:
        planned = RejectionTotals.of(everything["rejections"])
        of_shards = [RejectionTotals.of(r for shard in shards for r in shard.rejections)]
    rejected = RejectionTotals()
    for each in (planned, *of_shards):
        rejected.merge(each)
    return rejected, planned.digest
