"""All counts of a finished run, in a fixed order."""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from transforms.core.dataset.dataset_warnings import DatasetWarning, split_warnings
from transforms.core.dataset.ledger import Ledger, PlanTotals, ShardSummary, count_reasons
from transforms.core.dataset.output_names import REJECTED
from transforms.core.dataset.shard_totals import ShardTotals
from transforms.core.planning.rejection_limit import RejectionLimit
from transforms.core.planning.shards import ShardName, empty_shards_warning
from transforms.core.planning.splits import splits_in_order
from transforms.core.records import Count
from transforms.core.rejections import Reason, Rejection

MAX_LISTED = 1_000_000
"""Rejections that the publishing worker holds as a list; 827 bytes each."""

# Maximum number of keys in a warning.
_MAX_KEYS = 3

# The beginning of the names of `rejection_counts`.
_REJECTED = "rejected"


class Gathered(NamedTuple):
    """All counts of a run, in a fixed order.

    Attributes:
        splits: names of the splits in their order.
        totals: totals of the plan.
        shards: sorted by split and number.
        planned: rejections of the join and the plan, sorted.
        rejections: all of them, sorted; a sample if they are too many.
        reasons: the number of all rejections by subject and reason.
        counts: numbers of the listing, the reading and the join.
        written: totals of the shards; moved here from `shards`.
        of_rows: whether records are made of rows, without images.
    """

    splits: tuple[str, ...]
    totals: PlanTotals
    shards: list[ShardSummary]
    planned: list[Rejection]
    rejections: list[Rejection]
    reasons: Counter[tuple[str, str]]
    counts: Counter[str]
    written: ShardTotals
    of_rows: bool = False

    @property
    def failed(self) -> tuple[int, int]:
        """The number of rejections, and the total: of images, or of rows without images.

        Exact duplicates that were dropped as requested do not count as rejected.
        """
        ledger = self.ledger
        if self.of_rows:
            return ledger.rows_rejected, ledger.rows_read
        dropped = self.reasons["image", Reason.DUPLICATE_IMAGE.value]
        return ledger.images_rejected - dropped, ledger.images_selected

    @property
    def unlisted(self) -> int:
        """The number of rejections that were too many for a list."""
        return self.reasons.total() - len(self.rejections)

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
                why = f"{self.reasons.total()} images and rows left out, more than "
                why += f"{REJECTED} can list ({MAX_LISTED})"
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
            self._absent_keys()
            + empty
            + split_warnings(
                records,
                self.written.split_classes(self.splits),
                planned=self.totals.images,
                options=options,
                what="row" if self.of_rows else "image",
            )
        )

    def _absent_keys(self) -> list[DatasetWarning]:
        """The warning about keys of `--keys` that no image has."""
        reason = Reason.KEY_NOT_FOUND.value
        count = self.reasons["key", reason]
        if not count:
            return []
        names = (repr(each.key[:80]) for each in self.rejections if each.reason == reason)
        shown = ", ".join(itertools.islice(names, _MAX_KEYS))
        keys = f"{count} key{'' if count == 1 else 's'}"
        text = f"{keys} in --keys {'is' if count == 1 else 'are'} of no image, such as {shown}"
        return [DatasetWarning("keys_not_found", f"{text}; {REJECTED} lists them")]

    @property
    def ledger(self) -> Ledger:
        """All inputs and what became of them."""
        rows = Counter({why: n for (what, why), n in self.reasons.items() if what == "row"})
        unmatched = rows.pop(Reason.ROW_WITHOUT_IMAGE.value, 0)
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
        )


def in_order(
    splits: Iterable[str], everything: Mapping[str, list[Any]], *, of_rows: bool = False
) -> Gathered:
    """Sorts counts that arrive in any order.

    Args:
        splits: the splits in order; if empty, those that occur in the totals.
        everything: `totals`, one `PlanTotals`; `shards`, all `ShardSummary`; `rejections`, those of
            the join and the plan; `counts` of the listing, the reading and the join, and
            those of `rejection_counts` if the rejections are only a sample. With `written`, one
            `ShardTotals`, the shards are without labels and statistics, their rejections
            are `shard_rejections`, and `rejection_counts` includes them.
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

    planned = sorted(everything["rejections"])
    shards: list[ShardSummary] = sorted(everything["shards"], key=place)
    reasons = _counted_reasons(added) or count_by_reason(planned)
    if "written" in everything:
        [written] = everything["written"]
        of_shards = everything["shard_rejections"]
    else:
        written = ShardTotals.of(shards)
        of_shards = [r for shard in shards for r in shard.rejections]
        reasons.update(count_by_reason(of_shards))
        shards = [dataclasses.replace(shard, statistics={}) for shard in shards]
    rejections = sorted([*planned, *of_shards])
    return Gathered(ordered, totals, shards, planned, rejections, reasons, added, written, of_rows)


def count_by_reason(rejections: Iterable[Rejection]) -> Counter[tuple[str, str]]:
    """The number of rejections by subject and reason."""
    return Counter((rejection.subject, rejection.reason) for rejection in rejections)


def rejection_counts(reasons: Mapping[tuple[str, str], int]) -> list[Count]:
    """Counts of rejections, for `in_order`, where not all are listed.

    >>> rejection_counts({("row", "no_label"): 3})
    [Count(name='rejected/row/no_label', value=3)]
    """
    return [Count(f"{_REJECTED}/{what}/{why}", n) for (what, why), n in reasons.items()]


def _counted_reasons(added: Mapping[str, int]) -> Counter[tuple[str, str]]:
    counted: Counter[tuple[str, str]] = Counter()
    for name, number in added.items():
        kind, _, rest = name.partition("/")
        if kind == _REJECTED:
            subject, _, reason = rest.partition("/")
            counted[subject, reason] = number
    return counted
