"""PublishDataset: moves staged files into place, the manifest last."""

from __future__ import annotations

import dataclasses
import errno
import functools
import hashlib
import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn, TypeAlias, cast

import apache_beam as beam

from transforms.core.messages import quantity
from transforms.core.records import BucketDuplicates, Count, FileBatch, RejectedPart
from transforms.core.rejections import Rejection
from transforms.dataset.image_statistics import KEYS_UNMATCHED, strict_message
from transforms.dataset.ledger import (
    Gathered,
    Ledger,
    PlanTotals,
    RunTotals,
    ShardSummary,
    in_order,
    shortened,
)
from transforms.dataset.manifest import (
    Dataset,
    FileContent,
    content_summary,
    data_files,
    dataset_recipe,
    index_files,
    manifest_shards,
)
from transforms.dataset.output_names import (
    FORMER,
    MANIFEST,
    OUTCOME,
    PARTIAL,
    REJECTED,
    REPORT,
    SMALL,
    STAGING,
    is_source,
    staged_shard,
    waiting_file,
)
from transforms.dataset_files import DatasetTarget, completed, rejected_file, small_files
from transforms.labels.shards import changed_libraries
from transforms.list_rejections import ListRejections
from transforms.packing import (
    AddTogether,
    AddUp,
    Collections,
    Everything,
    Gather,
    by_type,
    named,
)
from transforms.records.existing_shards import check_output, staged_files
from transforms.storage.beam_storage import report_sink
from transforms.storage.files import (
    join,
    read_dataset_file,
    read_manifest,
    sidecar_path,
    storage_of,
)
from transforms.storage.metrics import PROGRESS, UP_TO_DATE, counter
from transforms.storage.output_changes import Leftover, OutputChanges, Put
from transforms.storage.read_ahead import ReadAhead, reading_threads

# Publication: puts a staged dataset in place: the former one away, the files, the manifest last.
#
# `prepare`, `OutputChanges.put_in_place` and `finish` may run on different workers. A runner may
# repeat each of them, and a worker that it has given up may still be at work: whatever was done
# before is found done, and every name and content is the same in each attempt. So a second
# `prepare` does not take away the manifest that the first one's `finish` has published.

_LOGGER = logging.getLogger(__name__)

JOINED_AHEAD = 16 << 20
"""Bytes of parts that are read while others are written."""


class Prepared(NamedTuple):
    """The moves that are left after `Publication.prepare`.

    Attributes:
        puts: files to move first, in any order.
        small: files to move then: the last one, the manifest, after all others.
    """

    puts: list[Put]
    small: list[Put]


@dataclasses.dataclass
class Publication:
    """Makes a dataset appear in an output folder.

    Attributes:
        output: the folder.
        overwrite: whether a dataset in it may be replaced.
        run: see `OutputChanges`.
    """

    output: str
    overwrite: bool
    run: str

    def changes(self) -> OutputChanges:
        """What changes the folder; each part of publishing begins with a new one."""
        return OutputChanges(self.output, self.run)

    def prepare(
        self,
        puts: Sequence[Put],
        shards: Iterable[ShardSummary],
        small_files: Mapping[str, FileContent],
    ) -> Prepared:
        """Stages the small files, and removes the former dataset and other runs' staged files.

        Args:
            puts: all other files of the dataset.
            shards: of the dataset.
            small_files: the files next to them, by name; the manifest last.

        Raises:
            OSError: another run wrote a dataset or took the output over, or a file is neither
                staged nor in place.
        """
        storage, attempt = storage_of(self.output), _attempt(small_files)
        small = [
            Put(f"{STAGING}/{waiting_file(attempt, number)}", name, *content_summary(content))
            for number, (name, content) in enumerate(small_files.items())
        ]
        list(storage.for_each(lambda put: self._stage(put, small_files[put.target]), small))
        ours = {(shard.file, shard.recipe) for shard in shards}
        # The folder was named before it was known whether an image would be changed.
        ours |= {begun for shard in shards if (begun := staged_shard(shard.folder))}
        keep = {put.target for put in (*puts, *small)}
        changes = self.changes()
        changes.begin()
        is_published = changes.has_content(small[-1])
        if not self.overwrite and not is_published:
            self._check_unpublished(changes)
        former = read_manifest(join(self.output, MANIFEST))
        left = check_output(self.output, former, keep, changes.staged_names())
        # A run that was taken over must not publish its staged files any more.
        is_other = functools.partial(is_source, shards=ours, attempt=attempt)
        changes.remove(f"{STAGING}/{name}" for name in left.staged if is_other(name))
        changes.begin()
        moves = changes.find_staged(puts)
        if is_published:
            # Every file is replaced by the same bytes, so the dataset stays whole meanwhile.
            keep |= {REPORT}
        elif changes.exists(MANIFEST):
            # Before its files; kept in the staging folder, so that a rerun still knows them.
            changes.move(MANIFEST, f"{STAGING}/{FORMER}")
        changes.remove(left.names - keep)
        # Staged shards of an unfinished run with other inputs or options; some may have their final
        # names already, and their sidecars are still staged.
        stale = left.shards - ours
        files = storage.for_each(lambda shard: staged_files(self.output, *shard), stale)
        names = set[str]().union(*files) - keep
        storage.check_folders(self.output, names, are_replaced=True)
        changes.remove(names)
        # With an incomplete shard, no work is lost.
        if dropped := left.complete - ours:
            _LOGGER.warning(
                "dropped %s staged by an earlier run with other inputs or options",
                quantity(len(dropped), "shard"),
            )
        changes.write(f"{STAGING}/{SMALL}", json.dumps([*small_files][:-1]).encode())
        for folder in sorted({put.target.rpartition("/")[0] for put in puts} - {""}):
            storage.make_directory(join(self.output, folder))
        return Prepared(moves, small)

    def _stage(self, put: Put, content: FileContent) -> None:
        try:
            # The list of these files follows, and puts the names of all on disk.
            write_content(self.output, put.source, content, is_synced=False)
        except FileNotFoundError:
            # Its parts are removed after it is in place.
            target = join(self.output, put.target)
            if not storage_of(target).has_checksum(target, put.crc32c, put.bytes):
                raise

    def _check_unpublished(self, changes: OutputChanges) -> None:
        if changes.exists(MANIFEST):
            path = join(self.output, MANIFEST)
            raise FileExistsError(errno.EEXIST, "another run wrote it", path)

    def finish(self, puts: Iterable[Put], small: Sequence[Put]) -> list[Leftover]:
        """Checks the files that were moved, and moves the small ones, the manifest last.

        Args:
            puts: of `Prepared`, after `OutputChanges.put_in_place` for all of them.
            small: of `Prepared`.

        Returns:
            staged files that are left, for `OutputChanges.remove_leftovers`.

        Raises:
            OSError: another run wrote a dataset or took the output over, or a file is gone.
        """
        changes = self.changes()
        changes.begin()
        if not changes.has_content(small[-1]):
            self._check_unpublished(changes)
        changes.check_placed(puts)
        *others, manifest = changes.find_staged(small)
        changes.move_all(others)
        changes.move_all([manifest])
        report_sink(self.output)
        # Any worker may remove those with generations.
        if not changes.has_generations:
            changes.remove_staging()
        return changes.leftovers()


def publication_of(target: DatasetTarget) -> Publication:
    """What makes a dataset appear at its destination."""
    return Publication(target.folder.output, target.folder.overwrite, target.run)


def _attempt(small_files: Mapping[str, FileContent]) -> str:
    """The name of an attempt at publishing.

    It is the same for the same dataset, so that a repeated attempt finds its own files.
    """
    digest = hashlib.blake2b(digest_size=16)
    for name, content in small_files.items():
        digest.update(f"{name} {content_summary(content)} ".encode())
    # The manifest has digests of all others.
    digest.update(cast(bytes, small_files[MANIFEST]))
    return digest.hexdigest()


def write_content(output: str, name: str, content: FileContent, *, is_synced: bool = True) -> None:
    """Writes a file of an output folder; parts are joined, and never held as a whole.

    Args:
        output: the folder.
        name: of the file, below the folder.
        content: its bytes, or its parts in the staging folder.
        is_synced: whether its name is on disk, too, when this returns.

    Raises:
        OSError: a part is missing or was changed.
    """
    path, storage = join(output, name), storage_of(output)
    read = functools.partial(_read_part, output)
    if not isinstance(content, bytes) and len(content) < 2:
        # As most have it: nothing is left out, or little. A stream takes more requests.
        content = b"".join(map(read, content))
    if isinstance(content, bytes):
        storage.write_whole(path, content, is_synced=is_synced)
        return
    # In a bucket a stream makes a new object only.
    storage.remove(path + PARTIAL)
    ahead = ReadAhead(max_bytes=JOINED_AHEAD, threads=reading_threads(output))
    with storage.open_writer(path + PARTIAL) as stream:
        for data in ahead.map(read, content, size=lambda part: part.bytes):
            stream.write(data)
    storage.rename(path + PARTIAL, path, is_synced=is_synced)


def _read_part(output: str, part: RejectedPart) -> bytes:
    path = join(output, STAGING, part.name)
    data = read_dataset_file(path, part._asdict())
    if data is None:
        raise OSError(f"{path} was changed meanwhile: run the command again")
    return data


# PublishDataset: checks the ledger, then makes the whole dataset appear, the manifest last.

_BATCH = 64
"""Files of a batch: two rounds of requests by the threads of a worker; 20 kB."""

_ONE_KEY = 0

# The number of the batch that holds what the last step does.
_LAST_STEP = -1

_Part: TypeAlias = tuple[int, FileBatch]


class NotPublishedError(RuntimeError):
    """A run ends without a dataset; the message gives the reason in one line."""


@dataclasses.dataclass(eq=False, repr=False)
class PublishDataset(beam.PTransform):
    """Publishes a dataset, or writes the reason why not to the outcome file and fails.

    Input: `ShardSummary` of every shard; it is gathered with the totals, the rejections, the
    counts and the duplicates (None when nothing was compared). Output: `published` or
    `up_to_date`. A retry of a step finds renamed shards in place.

    Raises in the job:
        NotPublishedError: more images were rejected than allowed, or the output folder holds
            another dataset or a damaged one.
        LedgerError: the counts do not add up.
    """

    target: DatasetTarget
    _: dataclasses.KW_ONLY
    totals: beam.PCollection[PlanTotals]
    rejections: Collections[Rejection]
    counts: Collections[Count]
    duplicates: beam.PCollection[BucketDuplicates] | None = None

    def expand(self, shards: beam.PCollection[ShardSummary]) -> beam.PCollection[str]:
        rejections, target = self.rejections, self.target
        run = added_up(shards, rejections, self.counts)
        parts = rejections | "List rejections" >> ListRejections(
            target.folder, target.dataset.root, shards, run
        )
        short = shards | "Shorten summaries" >> beam.Map(shortened).with_output_types(ShardSummary)
        everything = {"totals": self.totals, "run": run, "shards": short, "parts": parts}
        if self.duplicates is not None:
            everything["duplicates"] = self.duplicates
        return _published(everything | "Gather what was written" >> Gather(), target)


def added_up(
    shards: beam.PCollection[ShardSummary],
    rejections: Collections[Rejection],
    counts: Collections[Count],
) -> beam.PCollection[RunTotals]:
    """The totals of what one worker need not hold of each image and shard."""
    added = {**named("rejections", rejections), **named("counts", counts), "shards": shards}
    adder = AddUp(RunTotals, RunTotals.add, RunTotals.merge)
    return added | "Add up the run" >> AddTogether(adder)


def _published(
    gathered: beam.PCollection[Everything], target: DatasetTarget
) -> beam.PCollection[str]:
    """Publishes with all workers: one decides, all move the files, one moves the manifest.

    Files move in batches, two requests for each. Staged files that are left are removed by all
    workers, too.
    """
    publication = publication_of(target)
    changes = publication.changes()
    prepare = functools.partial(_prepared, target=target)
    prepared = gathered | "Check the ledger and prepare" >> by_type(
        prepare, "last", _Part, puts=FileBatch
    )
    moved = (
        prepared.puts
        | "Spread files" >> beam.Reshuffle()
        | "Move files" >> beam.Map(_moved, changes).with_output_types(_Part)
    )
    finish = functools.partial(_finished, publication=publication)
    finished = (
        (prepared.last, moved)
        | "All parts" >> beam.Flatten()
        | "Wait for all files" >> beam.GroupByKey()
        | "Publish the manifest" >> by_type(finish, "published", str, leftovers=FileBatch)
    )
    if changes.has_generations:
        _ = (
            finished.leftovers
            | "Spread staged files" >> beam.Reshuffle()
            | "Remove staged files" >> beam.Map(_removed, changes)
        )
    return finished.published


def _prepared(everything: Everything, target: DatasetTarget) -> Iterator[_Part | FileBatch]:
    status, (puts, small) = _decided(everything, target)
    PROGRESS.begin("publishing", len(puts))
    last = {"status": status, "batches": -(-len(puts) // _BATCH), "small": small}
    yield _ONE_KEY, FileBatch(_LAST_STEP, json.dumps(last))
    yield from _batches(puts)


def _moved(batch: FileBatch, changes: OutputChanges) -> _Part:
    changes.put_in_place(_puts(batch), count=lambda: PROGRESS.count("publishing"))
    return _ONE_KEY, FileBatch(batch.number, batch.files)


def _finished(
    group: tuple[int, Iterable[FileBatch]], publication: Publication
) -> Iterator[str | FileBatch]:
    batches = {batch.number: batch for batch in group[1]}
    last = json.loads(batches.pop(_LAST_STEP).files)
    # A runner that loses one would publish a dataset without files.
    if sorted(batches) != list(range(last["batches"])):
        raise RuntimeError(f"{len(batches)} of {last['batches']} batches of files were moved")
    if last["small"]:
        # One by one: there are two for each shard.
        puts = (put for batch in batches.values() for put in _puts(batch))
        small = [Put(*each) for each in last["small"]]
        yield from _batches(publication.finish(puts, small))
    yield last["status"]


def _removed(batch: FileBatch, changes: OutputChanges) -> None:
    changes.remove_leftovers(Leftover(*each) for each in json.loads(batch.files))


def _batches(files: Sequence[Put] | Sequence[Leftover]) -> Iterator[FileBatch]:
    for number, start in enumerate(range(0, len(files), _BATCH)):
        yield FileBatch(number, json.dumps(files[start : start + _BATCH]))


def _puts(batch: FileBatch) -> list[Put]:
    return [Put(*each) for each in json.loads(batch.files)]


def _decided(everything: Everything, target: DatasetTarget) -> tuple[str, Prepared]:
    """Checks the ledger, and prepares the output folder for the dataset.

    Returns:
        whether it is `published`, and what is left to do.

    Raises:
        NotPublishedError, LedgerError, OSError: nothing is published.
    """
    dataset, folder, nothing = target.dataset, target.folder, Prepared([], [])
    gathered = in_order(dataset.splits, everything, of_rows=dataset.of_rows)
    recipe = dataset_recipe(gathered.shards, gathered.run.rejected.digest)
    published = None if folder.overwrite else read_manifest(join(folder.output, MANIFEST))
    if published is not None:
        _compare(target, gathered, recipe, published)
        counter(UP_TO_DATE).inc()
        return "up_to_date", nothing
    gathered.check()
    if unselected := gathered.unselected:
        _fail(target, "nothing_selected", unselected)
    if gathered.unlisted or not target.checks.max_rejected.allows(*gathered.failed):
        _refuse(target, gathered)
    described = completed(dataset, target.rules, gathered)
    if described.is_strict and described.warnings:
        _fail(target, "warned", strict_message(described.warnings))
    if _is_published(folder.output, gathered, recipe):
        return "published", nothing
    data, target = data_files(gathered.shards), target._replace(dataset=described)
    files = small_files(target, gathered, data, recipe, everything.get("duplicates"))
    puts = [
        Put(f"{STAGING}/{file.staged}", file.file, file.bytes, file.crc32c)
        for file in (*data, *index_files(gathered.shards))
    ]
    return "published", publication_of(target).prepare(puts, gathered.shards, files)


def _compare(
    target: DatasetTarget, gathered: Gathered, recipe: str, manifest: dict[str, Any]
) -> None:
    """Checks that the finished dataset in the output folder is complete and of these inputs.

    Removes the staging folder next to it.
    """
    output = target.folder.output
    # A rejected image that was removed leaves no trace in the bytes of a shard.
    selected = Ledger(**manifest["ledger"]).images_selected
    if manifest["recipe"] != recipe or selected != gathered.ledger.images_selected:
        others = changed_libraries(manifest) if "pixels" in manifest else []
        written = f"; it was written with {'; '.join(others)}" if others else ""
        written = f"{_elsewhere(target.dataset, manifest)}{written}"
        inputs = "images, masks or labels" if "partners" in manifest else "images or labels"
        _fail(
            target,
            "inputs_differ",
            f"--output {output} holds a dataset of other inputs ({inputs} were added, removed or "
            f"changed, or have become readable{written}). Use --overwrite or another --output",
        )
    listed = [*manifest_shards(manifest), *manifest["index"]]
    changes = publication_of(target).changes()
    changes.begin()
    missing = changes.missing({each["file"]: each["bytes"] for each in listed})
    if missing:
        _fail(
            target,
            "damaged",
            f"--output {output} has a manifest, but {len(missing)} of its files are missing or "
            f"truncated ({', '.join(missing[:3])}). Use --overwrite to write them again",
        )
    changes.remove_staging()


def _elsewhere(dataset: Dataset, manifest: dict[str, Any]) -> str:
    """The folders of the former inputs, for a message; empty if they are those of this run."""
    former = [manifest["root"], *manifest.get("partners", {}).values()]
    now = [dataset.root, *dataset.partners.values()]
    others = [repr(was or ".") for was in former if was not in now]
    return f"; it was made of files in {', '.join(others)}" if others else ""


def _is_published(output: str, gathered: Gathered, recipe: str) -> bool:
    """Whether an earlier attempt of this step finished: nothing is staged any more."""
    for first in gathered.shards[:1]:
        path = sidecar_path(output, first.file, first.recipe)
        if storage_of(path).exists(path):
            return False
    manifest = read_manifest(join(output, MANIFEST))
    return manifest is not None and manifest["recipe"] == recipe


def _refuse(target: DatasetTarget, gathered: Gathered) -> NoReturn:
    output, rejected = target.folder.output, f"{STAGING}/{REJECTED}"
    write_content(output, rejected, rejected_file(target, gathered))
    found = target.dataset.warnings
    why = [warning.text for warning in found if warning.code == KEYS_UNMATCHED]
    refusal = gathered.refusal(target.checks.max_rejected, join(output, rejected))
    _fail(target, "too_many_rejected", "; ".join((refusal, *why)))


def _fail(target: DatasetTarget, status: str, message: str) -> NoReturn:
    """Writes the outcome for the launcher, and fails the job."""
    outcome = json.dumps({"status": status, "message": message})
    staging = join(target.folder.output, STAGING)
    storage = storage_of(staging)
    storage.make_directory(staging)
    storage.write_whole(join(staging, OUTCOME), outcome.encode())
    raise NotPublishedError(message)
