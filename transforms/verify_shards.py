"""VerifyShards: reads groups of shards and reports their problems and contents."""

from __future__ import annotations

import dataclasses
import errno
import functools
import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

import apache_beam as beam

from transforms.core.messages import check_final
from transforms.dataset.output_names import LABELS, MANIFEST
from transforms.dataset.record_checks import (
    Problem,
    RecordCheck,
    RecordVerifier,
    Verified,
    class_problems,
)
from transforms.examples.tfrecord import FRAME_BYTES, TFRecordError
from transforms.images.check import check_image
from transforms.images.checked_images import ImageInfo
from transforms.images.guard import DecoderGuard, is_again
from transforms.images.pixel_options import Limits
from transforms.labels.vocabulary import parse_labels
from transforms.packing import AddTogether, AddUp, rules_of
from transforms.records.record_index import index_places, row_problems
from transforms.records.written_index import IndexedRows, open_stored, stored_records
from transforms.storage.files import join, read_manifest, storage_of
from transforms.storage.metrics import PROGRESS
from transforms.storage.read_ahead import TOGETHER, ReadAhead

# Maximum number of problems reported per shard, so that a damaged file does not fill the screen.
_MAX_PROBLEMS = 20

# Problems of records, and records beyond those that a shard should have, after which the rest of it
# is not checked: a small gzip file can hold a hundred million records.
_ENOUGH = 1000

# Bytes behind damage that are read for the checksum of the file: a sparse file may have terabytes.
_MOST_BEHIND = 1 << 30

# Maximum length of a problem, in characters: names in a record may be of any length.
_MAX_DETAIL = 500

# Bytes of shards that are verified in one call. A large shard goes alone; files of single images
# would cost more to distribute than to read.
_GROUP_BYTES = 64 << 20

# What was found in each split.
_Splits: TypeAlias = dict[str, Verified]


def group_shards(manifest: Mapping[str, Any]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """The shards of a manifest with their split and their place in an index; small ones grouped."""
    places = index_places(manifest)
    for name, split in manifest["splits"].items():
        group: list[dict[str, Any]] = []
        size = 0
        for listed in split["shards"]:
            place = places.get(listed["file"])
            shard = listed if place is None else {**listed, **place._asdict()}
            if group and size + shard["bytes"] > _GROUP_BYTES:
                yield name, group
                group, size = [], 0
            group.append(shard)
            size += shard["bytes"]
        if group:
            yield name, group


@dataclasses.dataclass(eq=False, repr=False)
class VerifyShards(beam.PTransform):
    """Compares shards with their entries in the manifest.

    Input: the pipeline's begin. Output: one path, of the file that holds a line of
    `Verified.to_text` for each split, without its classes, which a worker compares. Workers read
    the manifest, which may be larger than a graph can be; each shard is read once, and again in a
    retry.

    Attributes:
        output: the dataset's folder.
        verifier: checks records.
        fast: whether to skip the content of the records, see `verify_shard`.
        records: how many there are, for the progress.
        results: the file to write, which every worker can reach.
    """

    output: str
    verifier: RecordVerifier
    _: dataclasses.KW_ONLY
    fast: bool
    records: int
    results: str

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection[str]:
        manifest = begin | "Name the manifest" >> beam.Create([join(self.output, MANIFEST)])
        restarts = rules_of(begin.pipeline).restarts
        verify = _VerifyFn(self.output, self.verifier, self.fast, self.records, restarts)
        verified = (
            manifest
            | "List the shards" >> beam.FlatMap(lambda path: group_shards(_read_manifest(path)))
            | "Spread the shards" >> beam.Reshuffle()
            | "Verify each shard" >> beam.ParDo(verify).with_output_types(str)
        )
        # The classes of 73,000 groups are gigabytes.
        together = AddTogether(AddUp(dict, _add_line, _merge))
        combined = {"results": verified} | "Combine results" >> together
        tells_classes = any(feature.from_label for feature in self.verifier.features)
        has_classes = tells_classes and not self.fast
        write = beam.Map(_write_results, self.results, self.output, has_classes)
        return combined | "Write results" >> write.with_output_types(str)


def _read_manifest(path: str) -> dict[str, Any]:
    manifest = read_manifest(path)
    if manifest is None:
        raise FileNotFoundError(errno.ENOENT, "it was removed meanwhile", path)
    return manifest


def _add_line(splits: _Splits, line: str) -> None:
    found = Verified.from_text(line)
    _merge(splits, {found.split: found})


def _merge(splits: _Splits, others: _Splits) -> None:
    for split, found in others.items():
        splits.setdefault(split, Verified(split)).merge(found)


def _write_results(splits: _Splits, path: str, output: str, has_classes: bool) -> str:
    """Compares the classes of splits with the manifest, and writes what the launcher prints.

    Returns:
        the path of the file, which has a line for each split.
    """
    manifest = _read_manifest(join(output, MANIFEST)) if has_classes else {}
    for name, found in splits.items():
        if has_classes and not found.damaged:
            listed = manifest["splits"][name].get("classes", {})
            details = class_problems(name, found.labels, listed)
            found.add_problems(Problem(MANIFEST, None, detail) for detail in details)
        found.labels.clear()
    lines = (f"{found.to_text()}\n" for found in splits.values())
    storage_of(path).write_whole(path, "".join(lines).encode())
    return path


@dataclasses.dataclass(eq=False, repr=False)
class _VerifyFn(beam.DoFn):
    output: str
    verifier: RecordVerifier
    fast: bool
    records: int
    restarts: bool

    def setup(self) -> None:
        PROGRESS.begin("verifying", self.records)
        # The names of a million classes are too large for a graph.
        labels = read_labels(self.output) or self.verifier.labels
        self._verifier = dataclasses.replace(self.verifier, labels=labels)
        isolates = is_again() or self.restarts
        self._guard = DecoderGuard(self._verifier.limits.max_pixels, isolates=isolates)

    def process(self, group: tuple[str, list[dict[str, Any]]]) -> Iterator[str]:
        split, shards = group
        total = Verified(split)
        indexes = IndexedRows(self.output)
        for shard in shards:
            found = verify_shard(
                self.output, shard, self._verifier, self._guard, fast=self.fast, indexes=indexes
            )
            total.merge(found)
            PROGRESS.count("verifying", shard["records"])
        yield total.to_text()


def read_labels(output: str) -> dict[int, str]:
    """The names in `labels.txt`; a damaged file is reported separately.

    Raises:
        OSError: another attempt may read the file.
    """
    path = join(output, LABELS)
    try:
        text = storage_of(path, follow_links=False).read_text(path) or ""
    except UnicodeDecodeError:
        return {}
    except OSError as error:
        check_final(error, path)
        return {}
    return parse_labels(text)


def verify_shard(
    output: str,
    shard: Mapping[str, Any],
    verifier: RecordVerifier,
    guard: DecoderGuard,
    *,
    fast: bool = False,
    indexes: IndexedRows | None = None,
) -> Verified:
    """Re-reads one shard: size, checksum, framing, count; schema, label and pixels of its records.

    Args:
        output: the dataset's folder.
        shard: the shard as the manifest lists it, with its `IndexPlace` if it has an index.
        verifier: checks its records, several at once.
        guard: decodes the images in them.
        fast: whether to skip the content of the records. Of a `gs://` object only the size
            and the checksum that the service keeps are compared then: nothing is downloaded.
        indexes: keeps the index of several files.
    """
    name = shard["file"]
    path = join(output, name)
    found = Verified(shards=1)
    of_index: list[Problem] = []
    try:
        storage = storage_of(path)
        indexes = indexes or IndexedRows(output)
        rows, problem = indexes.checked(shard, fast=fast)
        of_index += [Problem(shard["entry"]["file"], None, problem)] if problem else []
        stored = storage.find(path)
        if stored is None and not storage.exists(path):
            found.problems = [Problem(name, None, "the file is missing")]
        elif stored is not None and fast and storage.lists_checksums:
            found.records, found.bytes = shard["records"], stored.size
            found.problems += _byte_problems(shard, stored.size, stored.crc32c, is_damaged=True)
        else:
            kind = shard.get("entry", {}).get("keys")
            check = None if fast else _GuardedCheck(verifier, guard, rows, kind)
            _read_shard(path, shard, check, found, max_bytes=verifier.largest_record)
    except OSError as error:
        # A temporary failure says nothing about the file.
        check_final(error, path)
        found.problems.append(Problem(name, None, f"cannot be read: {error.strerror or error}"))
    found.problems += of_index
    found.damaged = bool(found.problems)
    return found


def _read_shard(
    path: str,
    shard: Mapping[str, Any],
    check: _GuardedCheck | None,
    found: Verified,
    *,
    max_bytes: int,
) -> None:
    name = shard["file"]
    with open_stored(path, follow_links=False) as stored:
        most = shard["records"] + _ENOUGH
        records = itertools.islice(stored_records(stored, max_bytes=max_bytes), most)
        undamaged = _until_damage(records, name, found.problems)
        for record, checked in enumerate(_checks(undamaged, check)):
            details = (detail[:_MAX_DETAIL] for detail in checked.problems)
            found.problems += [Problem(name, record, detail) for detail in details]
            found.labels.update(checked.labels)
            found.records = record + 1
            if len(found.problems) > _ENOUGH:
                break
        is_damaged, is_read = bool(found.problems), len(found.problems) <= _ENOUGH
        end = min(shard["bytes"], stored.bytes + _MOST_BEHIND if is_damaged else shard["bytes"])
        stored.drain(end)
    found.bytes = stored.bytes
    if found.records != shard["records"] and is_read:
        shown = f"at least {most}" if found.records == most else found.records
        detail = f"{shown} records can be read, the manifest says {shard['records']}"
        found.problems.append(Problem(name, None, detail))
    if end == shard["bytes"] or stored.bytes <= end:
        found.problems += _byte_problems(shard, stored.bytes, stored.crc32c, is_damaged=is_damaged)
    found.problems = _shortened(found.problems, "" if is_read else "at least ")


# The place of a record in the file, its bytes, and its row of the index.
_Placed: TypeAlias = tuple[int, bytes, Mapping[str, Any] | None]


class _GuardedCheck(NamedTuple):
    """Checks the records of one shard; an image that crashes its decoder is one problem."""

    verifier: RecordVerifier
    guard: DecoderGuard
    rows: Iterator[Mapping[str, Any]]
    kind: str | None

    def check(self, placed: _Placed) -> RecordCheck:
        """Checks a record."""
        offset, record, row = placed

        def decode(data: bytes, *, limits: Limits) -> ImageInfo:
            return self.guard.call("", check_image, data, limits=limits)

        more = functools.partial(row_problems, row, record, offset, kind=self.kind) if row else None
        return self.verifier.check(record, decode=decode, more=more)


def _checks(records: Iterator[bytes], check: _GuardedCheck | None) -> Iterator[RecordCheck]:
    if check is None:
        return (RecordCheck((), ()) for _ in records)
    placed = _placed(records, check.rows)
    return ReadAhead(together=TOGETHER).map(check.check, placed, size=lambda placed: len(placed[1]))


def _placed(records: Iterable[bytes], rows: Iterator[Mapping[str, Any]]) -> Iterator[_Placed]:
    offset = 0
    for record in records:
        yield offset, record, next(rows, None)
        offset += len(record) + FRAME_BYTES


def _until_damage(stream: Iterator[bytes], name: str, problems: list[Problem]) -> Iterator[bytes]:
    try:
        yield from stream
    except TFRecordError as error:
        problems.append(Problem(name, error.record, error.problem))


def _byte_problems(
    shard: Mapping[str, Any], size: int, crc32c: str, *, is_damaged: bool
) -> Iterator[Problem]:
    name, listed = shard["file"], shard["bytes"]
    if size < listed:
        yield Problem(name, None, f"is truncated: {size} of {listed} bytes are there")
    elif size > listed:
        yield Problem(name, None, f"is longer than the {listed} bytes in the manifest")
    elif crc32c != shard["crc32c"]:
        where = "" if is_damaged else "; every record is intact: the rest of the file differs"
        detail = f"the file's CRC32C is {crc32c}, the manifest says {shard['crc32c']}"
        yield Problem(name, None, f"its bytes differ: {detail}{where}")


def _shortened(problems: list[Problem], at_least: str) -> list[Problem]:
    more = len(problems) - _MAX_PROBLEMS
    rest = [Problem(problems[0].file, None, f"{at_least}{more} more problems")] if more > 0 else []
    return problems[:_MAX_PROBLEMS] + rest


def read_results(path: str, splits: Iterable[str]) -> dict[str, Verified]:
    """The results of `VerifyShards` for each split, with problems sorted by file and record."""
    text = storage_of(path).read_text(path) or ""
    found = {each.split: each for each in map(Verified.from_text, text.splitlines())}
    for each in found.values():
        each.sort_problems()
    return {split: found.get(split, Verified(split)) for split in splits}
