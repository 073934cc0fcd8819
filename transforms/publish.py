"""PublishDataset: checks the ledger, then makes the whole dataset appear, the manifest last."""

from __future__ import annotations

import dataclasses
import json
import logging
import re
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple, NoReturn

import apache_beam as beam
from apache_beam.pvalue import AsIter, AsSingleton

from transforms import files
from transforms.convert import image_uri
from transforms.core.labels import Vocabulary
from transforms.core.limits import RejectionLimit
from transforms.core.manifest import (
    LABELS,
    MANIFEST,
    REJECTED,
    REPORT,
    Dataset,
    build_manifest,
    dataset_recipe,
    manifest_shards,
    to_text,
)
from transforms.core.records import Count
from transforms.core.rejections import Reason, Rejection
from transforms.core.shards import ShardName
from transforms.core.splits import splits_in_order
from transforms.core.stats import Ledger, PlanTotals, ShardSummary, count_reasons

# Why a run did not publish, left in the staging folder for its launcher to read.
OUTCOME = "outcome.json"

# The manifest of the dataset that is being replaced, in the staging folder.
FORMER = "former.json"

# A staged shard, its sidecar, or what a run that was killed had written of it.
_STAGED = re.compile(
    r"(?P<shard>(?P<file>[^/]+\.tfrecord(?:\.gz)?)\.[0-9a-f]{32})(?:\.json|\.[0-9a-f]{32}\.partial)?"
)

_LOGGER = logging.getLogger(__name__)


class NotPublishedError(RuntimeError):
    """A run ends without a dataset, for a reason that its one line tells."""


class Gathered(NamedTuple):
    """Everything a run counted, in a fixed order.

    Attributes:
        splits: names of the splits in their order.
        totals: totals of the plan.
        shards: sorted by split and number.
        planned: rejections of the join and the plan, sorted.
        rejections: all of them, sorted.
        counts: numbers of the listing, the reading and the join.
    """

    splits: tuple[str, ...]
    totals: PlanTotals
    shards: list[ShardSummary]
    planned: list[Rejection]
    rejections: list[Rejection]
    counts: Counter[str]

    @property
    def ledger(self) -> Ledger:
        """What went in and where it went."""
        rows = Counter(r.reason for r in self.rejections if r.subject == "row")
        return Ledger(
            images_matched=self.counts["images_found"] - self.counts["images_found_again"],
            records_written=sum(shard.records for shard in self.shards),
            images_rejected=sum(r.subject == "image" for r in self.rejections),
            rows_read=self.counts["rows_read"],
            rows_used=self.totals.rows_used,
            rows_repeated=self.totals.rows_repeated,
            rows_unmatched=rows[Reason.ROW_WITHOUT_IMAGE.value],
            rows_rejected=rows[Reason.MALFORMED_ROW.value] + self.counts["rows_rejected"],
        )


def gather(
    splits: Iterable[str],
    totals: PlanTotals,
    shards: Iterable[ShardSummary],
    rejections: Iterable[Rejection],
    counts: Iterable[Count],
) -> Gathered:
    """Puts what arrives in any order into its fixed order.

    Args:
        splits: the splits in order; if there is none, those that occur in `totals`.
        totals: totals of the plan.
        shards: all of them.
        rejections: those of the join and the plan.
        counts: numbers of the listing, the reading and the join.
    """
    in_order = tuple(splits) or splits_in_order(totals.images)
    rank = {split: position for position, split in enumerate(in_order)}
    added: Counter[str] = Counter()
    for count in counts:
        added[count.name] += count.value

    def place(shard: ShardSummary) -> tuple[int, int]:
        name = ShardName.parse(shard.file)
        return rank[name.split], name.number

    # Away from the process that built the graph, Beam decodes rows to a class of its own making.
    planned = sorted(Rejection(*rejection) for rejection in rejections)
    placed = sorted(shards, key=place)
    all_rejections = sorted([*planned, *(r for shard in placed for r in shard.rejections)])
    return Gathered(in_order, totals, placed, planned, all_rejections, added)


class PublishDataset(beam.PTransform):
    """Publishes a dataset, or leaves an outcome that says why not and fails.

    Input: `ShardSummary` of every shard; by side input the totals, the rejections and the
    counts. Output: `published` or `up_to_date`. Runs once; a retry finds renamed shards in place.

    Raises in the job:
        NotPublishedError: more images were rejected than may be, or the output folder holds
            another dataset or a damaged one.
        LedgerError: the counts do not add up.
    """

    def __init__(
        self,
        output: str,
        dataset: Dataset,
        *,
        totals: beam.PCollection[PlanTotals],
        rejections: beam.PCollection[Rejection],
        counts: beam.PCollection[Count],
        max_rejected: RejectionLimit,
        class_names: tuple[str, ...] | None,
        overwrite: bool,
    ) -> None:
        super().__init__()
        self._sides = (AsSingleton(totals), AsIter(rejections), AsIter(counts))
        self._fn = _PublishFn(
            output,
            dataset,
            max_rejected=max_rejected,
            class_names=class_names,
            overwrite=overwrite,
        )

    def expand(self, shards: beam.PCollection[ShardSummary]) -> beam.PCollection[str]:
        totals, rejections, counts = self._sides
        return (
            shards.pipeline
            | "Once" >> beam.Create([None])
            | "Check the ledger and publish"
            >> beam.ParDo(self._fn, totals, AsIter(shards), rejections, counts).with_output_types(
                str
            )
        )


class _PublishFn(beam.DoFn):
    def __init__(
        self,
        output: str,
        dataset: Dataset,
        *,
        max_rejected: RejectionLimit,
        class_names: tuple[str, ...] | None,
        overwrite: bool,
    ) -> None:
        self._output = output
        self._staging = files.join(output, files.STAGING)
        self._dataset = dataset
        self._max_rejected = max_rejected
        self._class_names = class_names
        self._overwrite = overwrite

    def process(
        self,
        _: None,
        totals: PlanTotals,
        shards: Iterable[ShardSummary],
        rejections: Iterable[Rejection],
        counts: Iterable[Count],
    ) -> Iterable[str]:
        gathered = gather(self._dataset.splits, totals, shards, rejections, counts)
        recipe = dataset_recipe(gathered.shards, gathered.planned)
        manifest_path = files.join(self._output, MANIFEST)
        published = None if self._overwrite else files.read_manifest(manifest_path)
        if published is not None:
            self._compare(recipe, published)
            files.remove_folder(self._staging)
            yield "up_to_date"
            return
        ledger = gathered.ledger
        ledger.check()
        if not self._max_rejected.allows(ledger.images_rejected, ledger.images_matched):
            self._refuse(ledger, gathered.rejections)
        self._publish(gathered, ledger, recipe)
        yield "published"

    def _compare(self, recipe: str, manifest: dict[str, object]) -> None:
        """Checks that the finished dataset in the output folder is the one asked for, and whole."""
        if manifest["recipe"] != recipe:
            self._fail(
                "inputs_differ",
                f"--output {self._output} holds a dataset of other inputs (images or labels were "
                "added, removed or changed since). Use --overwrite or another --output",
            )
        missing = [
            shard["file"]
            for shard in manifest_shards(manifest)
            if not files.has_size(files.join(self._output, shard["file"]), shard["bytes"])
        ]
        if missing:
            self._fail(
                "damaged",
                f"--output {self._output} has a manifest, but {len(missing)} of its files are "
                f"missing or cut ({', '.join(missing[:3])}). Use --overwrite to write them again",
            )

    def _refuse(self, ledger: Ledger, rejections: list[Rejection]) -> NoReturn:
        rejected = files.join(self._staging, REJECTED)
        files.write_whole(rejected, self._rejected_lines(rejections))
        counts = count_reasons(rejections).items()
        reasons = ", ".join(f"{count} {reason}" for reason, count in counts)
        self._fail(
            "too_many_rejected",
            f"{ledger.images_rejected} of {ledger.images_matched} images rejected, more than "
            f"--max_rejected ({self._max_rejected}); nothing published. Left out: {reasons}; see "
            f"{rejected}, then mend them or raise --max_rejected",
        )

    def _fail(self, status: str, message: str) -> NoReturn:
        """Leaves the outcome for the launcher, and fails the job for whoever watches only that."""
        outcome = json.dumps({"status": status, "message": message})
        files.make_directory(self._staging)
        files.write_whole(files.join(self._staging, OUTCOME), outcome.encode())
        raise NotPublishedError(message)

    def _publish(self, gathered: Gathered, ledger: Ledger, recipe: str) -> None:
        labels = gathered.totals.labels
        vocabulary = Vocabulary.build(labels, self._class_names)
        small_files = {
            LABELS: "".join(f"{line}\n" for line in vocabulary.lines()).encode(),
            REJECTED: self._rejected_lines(gathered.rejections),
        }
        kind = "text" if vocabulary.is_named else "integer"
        manifest = build_manifest(
            dataclasses.replace(self._dataset, splits=gathered.splits),
            gathered.shards,
            ledger,
            recipe=recipe,
            rejected=count_reasons(gathered.rejections),
            label_kind=kind if any(labels) else "none",
            files=small_files,
        )
        keep = {shard.file for shard in gathered.shards}
        self._remove_former(keep)
        self._drop_stale({f"{shard.file}.{shard.recipe}" for shard in gathered.shards}, keep)
        for shard in gathered.shards:
            staged = files.join(self._staging, f"{shard.file}.{shard.recipe}")
            final = files.join(self._output, shard.file)
            if files.exists(staged):
                files.rename(staged, final)
            elif not files.has_size(final, shard.bytes):
                raise OSError(f"shard {shard.file} was written, but is neither staged nor in place")
        for name, content in small_files.items():
            files.write_whole(files.join(self._output, name), content)
        path = files.join(self._output, MANIFEST)
        files.write_whole(path, to_text(manifest).encode(), must_be_new=True)
        files.remove_folder(self._staging)

    def _remove_former(self, keep: set[str]) -> None:
        """Removes a former dataset: its manifest first, then the shards that get no successor.

        The manifest waits in the staging folder, so that a rerun still knows those shards.
        """
        manifest = files.join(self._output, MANIFEST)
        former = files.join(self._staging, FORMER)
        if files.exists(manifest):
            files.rename(manifest, former)
        replaced = files.read_manifest(former)
        if replaced is None:
            return
        files.remove(files.join(self._output, REPORT))
        names = {shard["file"] for shard in manifest_shards(replaced)}
        for name in sorted(names - keep):
            files.remove(files.join(self._output, name))

    def _drop_stale(self, ours: set[str], keep: set[str]) -> None:
        """Forgets the shards of a former run with other inputs or options that did not end.

        Some may have got their final names already; their sidecars are still staged.
        """
        found = (_STAGED.fullmatch(name) for name in files.names_below(self._staging))
        stale = {match["shard"]: match["file"] for match in found if match}
        stale = {shard: file for shard, file in stale.items() if shard not in ours}
        for file in sorted(set(stale.values()) - keep):
            files.remove(files.join(self._output, file))
        if stale:
            _LOGGER.warning(
                "dropped %d shards staged by a former run with other inputs or options", len(stale)
            )

    def _rejected_lines(self, rejections: Iterable[Rejection]) -> bytes:
        """`rejected.jsonl`: a line for each rejection, images by the path they were read from."""
        root = self._dataset.root
        listed = (
            r._replace(path=image_uri(root, r.path)) if r.subject == "image" else r
            for r in rejections
        )
        return "".join(f"{rejection.to_json()}\n" for rejection in listed).encode()
