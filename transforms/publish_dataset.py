"""PublishDataset: checks the ledger, then makes the whole dataset appear, the manifest last."""

from __future__ import annotations

import dataclasses
import errno
import json
import logging
import os
import uuid
from collections.abc import Iterable, Mapping, Sequence, Set
from functools import partial
from typing import Any, NoReturn

import apache_beam as beam

from transforms.bound_rejections import BoundRejections
from transforms.core.arguments import path_text
from transforms.core.dataset.dataset_warnings import strict_message
from transforms.core.dataset.label_map import label_map
from transforms.core.dataset.ledger import Ledger, PlanTotals, ShardSummary, count_reasons
from transforms.core.dataset.manifest import (
    DataFile,
    Dataset,
    build_manifest,
    data_files,
    dataset_recipe,
    manifest_shards,
    to_text,
)
from transforms.core.dataset.output_names import (
    FORMER,
    LABEL_MAP,
    LABELS,
    MANIFEST,
    OUTCOME,
    REJECTED,
    SCHEMA,
    SMALL,
    STAGING,
    STATISTICS,
    is_source,
    staged_shard,
    waiting_file,
)
from transforms.core.dataset.run_counts import Gathered, in_order
from transforms.core.dataset.tfds_metadata import tfds_files
from transforms.core.dataset.tfx_schema import schema_text
from transforms.core.images.pixel_options import stored_shape
from transforms.core.labels.label_decisions import label_decisions
from transforms.core.labels.vocabulary import ANY_LABELS, LabelRules, Vocabulary
from transforms.core.planning.keys import full_uri
from transforms.core.planning.recipes import changed_libraries
from transforms.core.planning.rejection_limit import RejectionLimit
from transforms.core.planning.shards import ShardName
from transforms.core.planning.staged_images import MEMORY
from transforms.core.records import BucketDuplicates, Count
from transforms.core.rejections import Rejection
from transforms.describe_dataset import DatasetDescriber
from transforms.gather import Everything, Gather
from transforms.metrics import PROGRESS, UP_TO_DATE, counter
from transforms.original_images import originals_root
from transforms.runners import runs_in_process
from transforms.staging import check_output, staged_files
from transforms.storage.files import join, read_manifest, sidecar_path, storage_of
from transforms.storage.output_changes import OutputChanges, Put, changes_of, remove_staging

_LOGGER = logging.getLogger(__name__)


class NotPublishedError(RuntimeError):
    """A run ends without a dataset; the message gives the reason in one line."""


class PublishDataset(beam.PTransform):
    """Publishes a dataset, or writes the reason why not to the outcome file and fails.

    Input: `ShardSummary` of every shard; it is gathered with the totals, the rejections, the
    counts and the duplicates (None when nothing was compared). Output: `published` or
    `up_to_date`. Runs once; a retry finds renamed shards in place.

    Raises in the job:
        NotPublishedError: more images were rejected than allowed, or the output folder holds
            another dataset or a damaged one.
        LedgerError: the counts do not add up.
    """

    def __init__(
        self,
        output: str | os.PathLike[str],
        dataset: Dataset,
        *,
        totals: beam.PCollection[PlanTotals],
        rejections: beam.PCollection[Rejection],
        counts: beam.PCollection[Count],
        duplicates: beam.PCollection[BucketDuplicates] | None = None,
        max_rejected: RejectionLimit,
        rules: LabelRules = ANY_LABELS,
        overwrite: bool,
        run: str = "",
    ) -> None:
        super().__init__()
        output = path_text("output", output)
        self._others = {"totals": totals, "rejections": rejections, "counts": counts}
        if duplicates is not None:
            self._others["duplicates"] = duplicates
        self._fn = _PublishFn(
            output,
            dataset,
            max_rejected=max_rejected,
            rules=rules,
            overwrite=overwrite,
            run=run,
        )

    def expand(self, shards: beam.PCollection[ShardSummary]) -> beam.PCollection[str]:
        others = dict(self._others)
        if not runs_in_process(shards.pipeline):
            bounded = others["rejections"] | "Bound rejections" >> BoundRejections()
            others["rejections"] = bounded.listed
            others["counts"] = (
                others["counts"],
                bounded.counts,
            ) | "Counts with reasons" >> beam.Flatten()
        return (
            {"shards": shards, **others}
            | "Gather what was written" >> Gather()
            | "Check the ledger and publish" >> beam.ParDo(self._fn).with_output_types(str)
        )


class _PublishFn(beam.DoFn):
    def __init__(
        self,
        output: str,
        dataset: Dataset,
        *,
        max_rejected: RejectionLimit,
        rules: LabelRules,
        overwrite: bool,
        run: str,
    ) -> None:
        self._run = run
        self._output = output
        self._staging = join(output, STAGING)
        self._dataset = dataset
        self._max_rejected = max_rejected
        self._rules = rules
        self._overwrite = overwrite

    def process(self, everything: Everything) -> Iterable[str]:
        duplicates: list[BucketDuplicates] | None = everything.get("duplicates")
        gathered = in_order(self._dataset.splits, everything, of_rows=self._dataset.of_rows)
        recipe = dataset_recipe(gathered.shards, gathered.planned)
        manifest_path = join(self._output, MANIFEST)
        published = None if self._overwrite else read_manifest(manifest_path)
        if published is not None:
            self._compare(gathered, recipe, published)
            remove_staging(self._output, self._run)
            counter(UP_TO_DATE).inc()
            yield "up_to_date"
            return
        ledger = gathered.ledger
        ledger.check()
        if unselected := gathered.unselected:
            self._fail("nothing_selected", unselected)
        if gathered.unlisted or not self._max_rejected.allows(*gathered.failed):
            self._refuse(gathered)
        dataset = self._described(gathered)
        if dataset.is_strict and dataset.warnings:
            self._fail("warned", strict_message(dataset.warnings))
        if not self._is_published(gathered, recipe):
            self._publish(dataset, gathered, ledger, recipe, duplicates)
        yield "published"

    def _compare(self, gathered: Gathered, recipe: str, manifest: dict[str, Any]) -> None:
        """Checks that the finished dataset in the output folder is complete and of these inputs."""
        # A rejected image that was removed leaves no trace in the bytes of a shard.
        selected = Ledger(**manifest["ledger"]).images_selected
        if manifest["recipe"] != recipe or selected != gathered.ledger.images_selected:
            others = changed_libraries(manifest) if "pixels" in manifest else []
            written = f"; it was written with {'; '.join(others)}" if others else ""
            self._fail(
                "inputs_differ",
                f"--output {self._output} holds a dataset of other inputs (images or labels were "
                f"added, removed or changed, or have become readable{written}). Use --overwrite "
                "or another --output",
            )
        listed, storage = manifest_shards(manifest), storage_of(self._output)

        def is_there(shard: dict[str, Any]) -> bool:
            return storage.has_size(join(self._output, shard["file"]), shard["bytes"])

        there = storage.for_each(is_there, listed)
        missing = [shard["file"] for shard, ok in zip(listed, there, strict=True) if not ok]
        if missing:
            self._fail(
                "damaged",
                f"--output {self._output} has a manifest, but {len(missing)} of its files are "
                f"missing or truncated ({', '.join(missing[:3])}). Use --overwrite to write them "
                "again",
            )

    def _is_published(self, gathered: Gathered, recipe: str) -> bool:
        """Whether an earlier attempt of this step finished: nothing is staged any more."""
        for first in gathered.shards[:1]:
            path = sidecar_path(self._output, first.file, first.recipe)
            if storage_of(path).exists(path):
                return False
        manifest = read_manifest(join(self._output, MANIFEST))
        return manifest is not None and manifest["recipe"] == recipe

    def _refuse(self, gathered: Gathered) -> NoReturn:
        rejected = join(self._staging, REJECTED)
        storage_of(rejected).write_whole(rejected, self._rejected_lines(gathered.rejections))
        self._fail("too_many_rejected", gathered.refusal(self._max_rejected, rejected))

    def _fail(self, status: str, message: str) -> NoReturn:
        """Writes the outcome for the launcher, and fails the job."""
        outcome = json.dumps({"status": status, "message": message})
        storage = storage_of(self._output)
        storage.make_directory(self._staging)
        storage.write_whole(join(self._staging, OUTCOME), outcome.encode())
        raise NotPublishedError(message)

    def _described(self, gathered: Gathered) -> Dataset:
        """The dataset, completed with the results of the whole run."""
        totals, options = gathered.totals, self._dataset.options
        vocabulary = self._rules.vocabulary(totals.labels, totals.label_kind)
        decided = label_decisions(vocabulary, totals.labels, totals.cells, self._rules)
        is_per_image = options.get("files") == "per_image"
        names = [] if is_per_image else [ShardName.parse(s.file).split for s in gathered.shards]
        shards = {name: names.count(name) for name in gathered.splits}
        return dataclasses.replace(
            self._dataset,
            splits=gathered.splits,
            decisions=(*self._dataset.decisions, *decided),
            warnings=(*self._dataset.warnings, *gathered.warnings(options, shards)),
        )

    def _publish(
        self,
        dataset: Dataset,
        gathered: Gathered,
        ledger: Ledger,
        recipe: str,
        duplicates: Iterable[BucketDuplicates] | None,
    ) -> None:
        labels = gathered.totals.labels
        vocabulary = self._rules.vocabulary(labels, gathered.totals.label_kind)
        data = data_files(gathered.shards)
        small_files = self._small_files(gathered, vocabulary, duplicates, data)
        kind = "integer" if vocabulary.is_integer else "text"
        manifest = build_manifest(
            dataset,
            gathered.shards,
            ledger,
            data=data,
            recipe=recipe,
            rejected=count_reasons(gathered.reasons),
            label_kind=kind if any(labels) else "none",
            files=small_files,
        )
        small_files[MANIFEST] = to_text(manifest).encode()
        self._put_in_place(data, gathered.shards, small_files)

    def _put_in_place(
        self,
        data: Sequence[DataFile],
        shards: Sequence[ShardSummary],
        small_files: Mapping[str, bytes],
    ) -> None:
        """Makes the dataset appear.

        Args:
            data: the staged files of records.
            shards: the shards of these files.
            small_files: the files next to them, by name; the manifest last.
        """
        storage, attempt = storage_of(self._output), uuid.uuid4().hex
        changes = changes_of(self._output, self._run)
        waiting = {
            name: f"{STAGING}/{waiting_file(attempt, number)}"
            for number, name in enumerate(small_files)
        }
        for name, content in small_files.items():
            storage.write_whole(join(self._output, waiting[name]), content)
        ours = {(shard.file, shard.recipe) for shard in shards}
        # The folder was named before it was known whether an image would be changed.
        ours |= {begun for shard in shards if (begun := staged_shard(shard.folder))}
        keep = {file.file for file in data} | set(small_files)
        changes.begin()
        path = join(self._output, MANIFEST)
        if not self._overwrite and changes.exists(MANIFEST):
            raise FileExistsError(errno.EEXIST, "another run wrote it", path)
        there = read_manifest(path)
        left = check_output(self._output, there, keep)
        # A run that was taken over must not publish its staged files any more.
        is_other = partial(is_source, shards=ours, attempt=attempt)
        changes.remove(f"{STAGING}/{name}" for name in left.staged if is_other(name))
        changes.begin()
        puts = [
            Put(f"{STAGING}/{file.staged}", file.file, file.bytes, file.crc32c) for file in data
        ]
        staged = changes.find_staged(puts)
        self._remove_former(changes, left.names - keep)
        self._drop_stale(changes, left.shards - ours, keep)
        changes.write(f"{STAGING}/{SMALL}", json.dumps([*small_files][:-1]).encode())
        for folder in sorted({file.file.rpartition("/")[0] for file in data} - {""}):
            storage.make_directory(join(self._output, folder))
        PROGRESS.begin("publishing", len(data))
        changes.put_in_place(puts, staged, count=lambda: PROGRESS.count("publishing"))
        for name in small_files:
            changes.move(waiting[name], name)
        changes.remove_staging()

    def _small_files(
        self,
        gathered: Gathered,
        vocabulary: Vocabulary,
        duplicates: Iterable[BucketDuplicates] | None,
        data: Sequence[DataFile],
    ) -> dict[str, bytes]:
        """The files next to the shards and the manifest, by name."""
        features, names = self._dataset.features, vocabulary.id_names
        small_files = {
            LABELS: vocabulary.labels_text().encode(),
            REJECTED: self._rejected_lines(gathered.rejections),
            SCHEMA: schema_text(
                features,
                class_names=vocabulary.lines(),
                id_count=vocabulary.id_count,
                first_id=self._rules.first_id,
            ).encode(),
            **tfds_files(
                features,
                gathered.shards,
                gathered.splits,
                class_names=names,
                id_count=vocabulary.id_count,
                formats=gathered.statistics.formats,
                image_shape=stored_shape(self._dataset.options),
            ),
        }
        if self._rules.first_id:
            ids = dict(zip(vocabulary.lines(), vocabulary.ids, strict=True))
            small_files[LABEL_MAP] = label_map(ids).encode()
        if not self._dataset.of_rows:
            root = originals_root(self._output, self._dataset.root)
            describer = DatasetDescriber(self._output, root, gathered.shards, data)
            small_files[STATISTICS] = describer.describe(gathered.statistics, duplicates)
        return small_files

    def _remove_former(self, changes: OutputChanges, names: Set[str]) -> None:
        """Removes the existing dataset: its manifest first, then the files that are not replaced.

        The manifest is kept in the staging folder, so that a rerun still knows those shards.
        """
        if changes.exists(MANIFEST):
            changes.move(MANIFEST, f"{STAGING}/{FORMER}")
        changes.remove(names)

    def _drop_stale(
        self, changes: OutputChanges, stale: Set[tuple[str, str]], keep: Set[str]
    ) -> None:
        """Removes staged shards of an unfinished run with other inputs or options.

        Some may have their final names already; their sidecars are still staged.
        """
        names: set[str] = set()
        for file, recipe in stale:
            names |= staged_files(self._output, file, recipe)
        storage_of(self._output).check_replaced(self._output, names - keep)
        changes.remove(names - keep)
        if stale:
            _LOGGER.warning(
                "dropped %d shards staged by an earlier run with other inputs or options",
                len(stale),
            )

    def _rejected_lines(self, rejections: Iterable[Rejection]) -> bytes:
        """`rejected.jsonl`: a line for each rejection, images by the path they were read from."""
        root = self._dataset.root
        # The file of an image from memory is removed: its key is its name.
        has_files = root != MEMORY
        listed = (
            r._replace(path=full_uri(root, r.path)) if has_files and r.subject == "image" else r
            for r in rejections
        )
        return "".join(f"{rejection.to_json()}\n" for rejection in listed).encode()
