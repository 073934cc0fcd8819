"""PublishDataset: checks the ledger, then makes the whole dataset appear, the manifest last."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, NoReturn, TypeAlias

import apache_beam as beam

from transforms.add_counts import AddCounts
from transforms.core.arguments import path_text
from transforms.core.dataset.dataset_warnings import strict_message
from transforms.core.dataset.ledger import Ledger, PlanTotals, ShardSummary
from transforms.core.dataset.manifest import (
    Dataset,
    data_files,
    dataset_recipe,
    index_files,
    manifest_indexes,
    manifest_shards,
)
from transforms.core.dataset.output_names import MANIFEST, OUTCOME, REJECTED, STAGING
from transforms.core.dataset.run_counts import Gathered, in_order
from transforms.core.duplicates.holdouts import Holdout
from transforms.core.labels.label_rules import ANY_LABELS, LabelRules
from transforms.core.planning.recipes import changed_libraries
from transforms.core.planning.rejection_limit import RejectionLimit
from transforms.core.records import BucketDuplicates, Count, FileBatch
from transforms.core.rejections import Rejection
from transforms.dataset_files import DatasetFiles
from transforms.gather import Everything, Gather
from transforms.list_rejections import ListRejections
from transforms.metrics import PROGRESS, UP_TO_DATE, counter
from transforms.publication import Prepared, Publication, write_content
from transforms.runners import runs_in_process
from transforms.storage.files import join, read_manifest, sidecar_path, storage_of
from transforms.storage.output_changes import Leftover, Put, changes_of
from transforms.summarize_shards import SummarizeShards

_LEFTOVERS = "leftovers"
_PUTS = "puts"

_BATCH = 64
"""Files of a batch: two rounds of requests by the threads of a worker; 20 kB."""

_ONE_KEY = 0

# The number of the batch that holds what the last step does.
_LAST_STEP = -1

_Part: TypeAlias = tuple[int, FileBatch]

beam.coders.registry.register_coder(FileBatch, beam.coders.RowCoder)


class NotPublishedError(RuntimeError):
    """A run ends without a dataset; the message gives the reason in one line."""


class PublishDataset(beam.PTransform):
    """Publishes a dataset, or writes the reason why not to the outcome file and fails.

    Input: `ShardSummary` of every shard; it is gathered with the totals, the rejections, the
    counts and the duplicates (None when nothing was compared). Output: `published` or
    `up_to_date`. A retry of a step finds renamed shards in place. On several machines, all of them
    move the files: see `_MoveOverWorkers`.

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
        holdouts: tuple[Holdout, ...] = (),
    ) -> None:
        super().__init__()
        output = path_text("output", output)
        self._others = {"totals": totals, "rejections": rejections, "counts": counts}
        if duplicates is not None:
            self._others["duplicates"] = duplicates
        self._publisher = _Publisher(
            output,
            dataset,
            max_rejected=max_rejected,
            rules=rules,
            overwrite=overwrite,
            run=run,
            holdouts=holdouts,
        )

    def expand(self, shards: beam.PCollection[ShardSummary]) -> beam.PCollection[str]:
        if runs_in_process(shards.pipeline):
            return (
                {"shards": shards, **self._others}
                | "Gather what was written" >> Gather()
                | "Check the ledger and publish"
                >> beam.ParDo(_PublishFn(self._publisher)).with_output_types(str)
            )
        return (
            self._bounded(shards)
            | "Gather what was written" >> Gather()
            | "Publish over workers" >> _PublishOverWorkers(self._publisher)
        )

    def _bounded(self, shards: beam.PCollection[ShardSummary]) -> dict[str, beam.PCollection[Any]]:
        """Collections that one worker can hold, however many images there are."""
        summarized = shards | "Summarize shards" >> SummarizeShards()
        others = dict(self._others)
        listed = others.pop("rejections") | "List rejections" >> ListRejections(
            self._publisher.lines, summarized.rejections, overwrite=self._publisher.overwrite
        )
        return {
            **others,
            "counts": others["counts"] | "Add up counts" >> AddCounts(),
            "shards": summarized.shards,
            "written": summarized.totals,
            "rejected": listed.planned,
            "rejected_of_shards": listed.of_shards,
            "sample": listed.sample,
            "parts": listed.parts,
        }


class _PublishOverWorkers(beam.PTransform):
    """Publishes with all workers: one decides, all move the files, one moves the manifest.

    Input: `Everything`. Output: `published` or `up_to_date`. Files move in batches, two requests
    for each. Staged files that are left are removed by all workers, too.
    """

    def __init__(self, publisher: _Publisher) -> None:
        super().__init__()
        self._publisher = publisher

    def expand(self, gathered: beam.PCollection[Everything]) -> beam.PCollection[str]:
        publication = self._publisher.publication
        prepared = gathered | "Check the ledger and prepare" >> beam.ParDo(
            _PrepareFn(self._publisher)
        ).with_output_types(_Part, **{_PUTS: FileBatch}).with_outputs(_PUTS, main="last")
        moved = (
            prepared[_PUTS]
            | "Spread files" >> beam.Reshuffle()
            | "Move files" >> beam.ParDo(_MoveFn(publication)).with_output_types(_Part)
        )
        finished = (
            (prepared.last, moved)
            | "All parts" >> beam.Flatten()
            | "Wait for all files" >> beam.GroupByKey()
            | "Publish the manifest"
            >> beam.ParDo(_FinishFn(publication))
            .with_output_types(str, **{_LEFTOVERS: FileBatch})
            .with_outputs(_LEFTOVERS, main="published")
        )
        _ = (
            finished[_LEFTOVERS]
            | "Spread staged files" >> beam.Reshuffle()
            | "Remove staged files" >> beam.ParDo(_RemoveFn(publication))
        )
        return finished.published


class _PublishFn(beam.DoFn):
    def __init__(self, publisher: _Publisher) -> None:
        self._publisher = publisher

    def process(self, everything: Everything) -> Iterator[str]:
        decided, publication = self._publisher.decide(everything), self._publisher.publication
        if decided.prepared is not None:
            puts, small = decided.prepared
            PROGRESS.begin("publishing", len(puts))
            publication.put_in_place(puts, count=lambda: PROGRESS.count("publishing"))
            publication.remove(publication.finish(puts, small))
        yield decided.status


class _PrepareFn(beam.DoFn):
    def __init__(self, publisher: _Publisher) -> None:
        self._publisher = publisher

    def process(self, everything: Everything) -> Iterator[_Part | beam.pvalue.TaggedOutput]:
        status, prepared = self._publisher.decide(everything)
        puts = prepared.puts if prepared else []
        small = prepared.small if prepared else []
        last = {"status": status, "batches": -(-len(puts) // _BATCH), "small": small}
        yield _ONE_KEY, FileBatch(_LAST_STEP, json.dumps(last))
        for batch in _batches(puts):
            yield beam.pvalue.TaggedOutput(_PUTS, batch)


class _MoveFn(beam.DoFn):
    def __init__(self, publication: Publication) -> None:
        self._publication = publication

    def process(self, batch: FileBatch) -> Iterator[_Part]:
        self._publication.put_in_place(_puts(batch), count=_uncounted)
        yield _ONE_KEY, FileBatch(batch.number, batch.files)


class _FinishFn(beam.DoFn):
    def __init__(self, publication: Publication) -> None:
        self._publication = publication

    def process(
        self, group: tuple[int, Iterable[FileBatch]]
    ) -> Iterator[str | beam.pvalue.TaggedOutput]:
        batches = {batch.number: batch for batch in group[1]}
        last = json.loads(batches.pop(_LAST_STEP).files)
        # A runner that loses one would publish a dataset without files.
        if sorted(batches) != list(range(last["batches"])):
            raise RuntimeError(f"{len(batches)} of {last['batches']} batches of files were moved")
        if last["small"]:
            # One by one: there are two for each shard.
            puts = (put for batch in batches.values() for put in _puts(batch))
            small = [Put(*each) for each in last["small"]]
            for batch in _batches(self._publication.finish(puts, small)):
                yield beam.pvalue.TaggedOutput(_LEFTOVERS, batch)
        yield last["status"]


class _RemoveFn(beam.DoFn):
    def __init__(self, publication: Publication) -> None:
        self._publication = publication

    def process(self, batch: FileBatch) -> None:
        self._publication.remove(Leftover(*each) for each in json.loads(batch.files))


def _batches(files: Sequence[Put] | Sequence[Leftover]) -> Iterator[FileBatch]:
    for number, start in enumerate(range(0, len(files), _BATCH)):
        yield FileBatch(number, json.dumps(files[start : start + _BATCH]))


def _puts(batch: FileBatch) -> list[Put]:
    return [Put(*each) for each in json.loads(batch.files)]


def _uncounted() -> None:
    """A remote job has no bar for these files."""


class _Decided(NamedTuple):
    """Whether a dataset is published, and what is left to do; None if nothing is."""

    status: str
    prepared: Prepared | None = None


class _Publisher:
    """Checks the results of a run, and decides whether and how its dataset is published."""

    def __init__(
        self,
        output: str,
        dataset: Dataset,
        *,
        max_rejected: RejectionLimit,
        rules: LabelRules,
        overwrite: bool,
        run: str,
        holdouts: tuple[Holdout, ...],
    ) -> None:
        self.publication = Publication(output, overwrite=overwrite, run=run)
        self._run = run
        self._output = output
        self._staging = join(output, STAGING)
        self._dataset = dataset
        self._files = DatasetFiles(output, dataset, rules, holdouts)
        self._max_rejected = max_rejected
        self.overwrite = overwrite
        self.lines = self._files.lines

    def decide(self, everything: Everything) -> _Decided:
        """Checks the ledger, and prepares the output folder for the dataset.

        Raises:
            NotPublishedError, LedgerError, OSError: nothing is published.
        """
        duplicates: list[BucketDuplicates] | None = everything.get("duplicates")
        gathered = in_order(self._dataset.splits, everything, of_rows=self._dataset.of_rows)
        recipe = dataset_recipe(gathered.shards, gathered.planned)
        published = None if self.overwrite else read_manifest(join(self._output, MANIFEST))
        if published is not None:
            self._compare(gathered, recipe, published)
            counter(UP_TO_DATE).inc()
            return _Decided("up_to_date")
        gathered.check()
        if unselected := gathered.unselected:
            self._fail("nothing_selected", unselected)
        if gathered.unlisted or not self._max_rejected.allows(*gathered.failed):
            self._refuse(gathered)
        described = self._files.described(gathered)
        if described.is_strict and described.warnings:
            self._fail("warned", strict_message(described.warnings))
        if self._is_published(gathered, recipe):
            return _Decided("published")
        data = data_files(gathered.shards)
        files = self._files.make(
            described, gathered, data=data, recipe=recipe, duplicates=duplicates
        )
        puts = [
            Put(f"{STAGING}/{file.staged}", file.file, file.bytes, file.crc32c)
            for file in (*data, *index_files(gathered.shards))
        ]
        return _Decided("published", self.publication.prepare(puts, gathered.shards, files))

    def _compare(self, gathered: Gathered, recipe: str, manifest: dict[str, Any]) -> None:
        """Checks that the finished dataset in the output folder is complete and of these inputs.

        Removes the staging folder next to it.
        """
        # A rejected image that was removed leaves no trace in the bytes of a shard.
        selected = Ledger(**manifest["ledger"]).images_selected
        if manifest["recipe"] != recipe or selected != gathered.ledger.images_selected:
            others = changed_libraries(manifest) if "pixels" in manifest else []
            written = f"; it was written with {'; '.join(others)}" if others else ""
            written = f"{self._elsewhere(manifest)}{written}"
            inputs = "images, masks or labels" if "partners" in manifest else "images or labels"
            self._fail(
                "inputs_differ",
                f"--output {self._output} holds a dataset of other inputs ({inputs} were added, "
                f"removed or changed, or have become readable{written}). Use --overwrite or "
                "another --output",
            )
        listed = [*manifest_shards(manifest), *manifest_indexes(manifest)]
        changes = changes_of(self._output, self._run)
        changes.begin()
        missing = changes.missing({each["file"]: each["bytes"] for each in listed})
        if missing:
            self._fail(
                "damaged",
                f"--output {self._output} has a manifest, but {len(missing)} of its files are "
                f"missing or truncated ({', '.join(missing[:3])}). Use --overwrite to write them "
                "again",
            )
        changes.remove_staging()

    def _elsewhere(self, manifest: dict[str, Any]) -> str:
        """The folders of the former inputs, for a message; empty if they are those of this run."""
        former = [manifest["root"], *manifest.get("partners", {}).values()]
        now = [self._dataset.root, *self._dataset.partners.values()]
        others = [repr(was or ".") for was in former if was not in now]
        return f"; it was made of files in {', '.join(others)}" if others else ""

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
        write_content(self._output, f"{STAGING}/{REJECTED}", self._files.rejected(gathered))
        self._fail("too_many_rejected", gathered.refusal(self._max_rejected, rejected))

    def _fail(self, status: str, message: str) -> NoReturn:
        """Writes the outcome for the launcher, and fails the job."""
        outcome = json.dumps({"status": status, "message": message})
        storage = storage_of(self._output)
        storage.make_directory(self._staging)
        storage.write_whole(join(self._staging, OUTCOME), outcome.encode())
        raise NotPublishedError(message)
