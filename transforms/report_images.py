"""Reads the images of a report: records of shards, by their offsets, and rejected files."""

from __future__ import annotations

import gzip
import io
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, BinaryIO, NamedTuple, cast

from transforms.core.dataset.manifest import manifest_shards
from transforms.core.dataset.output_names import STATISTICS
from transforms.core.examples.decoder import decode_example
from transforms.core.examples.tfrecord import read_records
from transforms.core.features.feature_sources import Role, with_role
from transforms.core.guard.decoder_guard import DecoderGuard
from transforms.core.guard.decoding_child import Budget, DecodingChild
from transforms.core.guard.in_flight import image_note
from transforms.core.planning.keys import is_inside
from transforms.core.rejections import Reason, RejectedImageError, Rejection
from transforms.core.report.report_tables import PICTURED_GROUPS, SHOWN_TWINS, Place
from transforms.storage.files import join, storage_of
from transforms.storage.read_ahead import ReadAhead, reading_threads

# Bytes of all thumbnails of records, and of one; small enough for 1,400 of them in 5 MB of page.
_PICTURE_BYTES = 1_600_000
_MAX_PICTURE = 4096
_MIN_PICTURE = 800

# About how many pixels the longer side of a thumbnail has, also where there are many.
_EDGE = 160
_MANY = 150
_EDGE_OF_MANY = 112

# A record that is larger is not read for its thumbnail.
_MAX_RECORD = 64 << 20

# How far a report reads into compressed shards, in uncompressed bytes: a position in them can
# only be reached by reading everything before it.
_MAX_GZIP = 256 << 20

# Limits for thumbnails of rejected files: per reason, in total, and in bytes read.
_REASON_PICTURES = 8
_REJECTED_PICTURES = 48
_REJECTED_BYTES = 64 << 20
_FILE_BYTES = 8 << 20

# CPU seconds for a thumbnail of a rejected file, and how many files may crash their process
# before the rest are skipped.
_SECONDS = 10.0
_MAX_FAILURES = 3

# Reasons without a thumbnail: nothing to show, or too costly to decode.
_UNSEEN = {
    Reason.UNREADABLE,
    Reason.OUTSIDE_ROOT,
    Reason.EMPTY_FILE,
    Reason.TOO_MANY_BYTES,
    Reason.TOO_MANY_PIXELS,
    Reason.TOO_COSTLY,
    Reason.DECODER_CRASH,
    Reason.NAME_NOT_UTF8,
}


class _Wanted(NamedTuple):
    """A record to show: its shard, its offset there and the length of its data."""

    file: str
    offset: int
    length: int


def picture_records(
    output: str, manifest: Mapping[str, Any], statistics: Mapping[str, Any], notes: list[str]
) -> dict[Place, str]:
    """Thumbnails of the samples and the duplicates of a dataset, read from its shards.

    Args:
        output: the dataset's folder.
        manifest: of the dataset.
        statistics: the content of `statistics.json`.
        notes: a sentence is added for everything that cannot be read.

    Returns:
        data URIs by the places of the records.

    Raises:
        KeyError, TypeError: the statistics do not have the expected structure.
    """
    name = next(iter(with_role(manifest["features"], Role.IMAGE)), None)
    occurrences = _occurrences(manifest, statistics, notes)
    if name is None or not occurrences:
        return {}
    count = occurrences.total()
    max_bytes = max(_MIN_PICTURE, min(_MAX_PICTURE, _PICTURE_BYTES // count))
    edge = _EDGE if count <= _MANY else _EDGE_OF_MANY
    wanted = sorted(occurrences)
    from transforms.core.report.thumbnails import LIMITS, thumbnail

    guard = DecoderGuard(LIMITS.max_pixels)

    def picture(one: _Wanted, record: bytes) -> str:
        note = image_note(join(output, one.file), one.offset)
        image = decode_example(record)[name][0]
        try:
            return guard.call(note, thumbnail, image, edge=edge, max_bytes=max_bytes)
        except RejectedImageError:
            # It crashes Pillow, which the check did not use; the dataset is already published.
            return ""

    def load(one: _Wanted) -> str | Exception:
        try:
            return picture(one, _read_record(join(output, one.file), one))
        except (LookupError, OSError, ValueError) as error:
            return error

    plain = [one for one in wanted if not one.file.endswith(".gz")]
    ahead = ReadAhead(threads=reading_threads(output))
    uris: dict[Place, str] = {}
    failed: list[Exception] = []
    loaded = zip(plain, ahead.map(load, plain, size=lambda one: one.length), strict=True)
    for one, result in loaded:
        if isinstance(result, str):
            uris[one.file, one.offset] = result
        else:
            failed.append(result)
    for one, record in _read_compressed(output, wanted, notes):
        uris[one.file, one.offset] = picture(one, record)
    if failed:
        notes.append(f"The images of {len(failed)} records cannot be read: {failed[0]}.")
    return uris


def _occurrences(
    manifest: Mapping[str, Any], statistics: Mapping[str, Any], notes: list[str]
) -> Counter[_Wanted]:
    """How often each record is shown; a file that is not a shard gets a note."""
    listed = {shard["file"] for shard in manifest_shards(manifest)}
    shown = [i for i in _shown_images(statistics) if _is_readable(i)]
    named = [image["file"] for image in shown if image["file"]]
    if foreign := [file for file in named if file not in listed]:
        notes.append(
            f"{STATISTICS} names {foreign[0]!r:.100}, which is not a file of this dataset."
        )
    return Counter(
        _Wanted(image["file"], image["offset"], image["length"])
        for image in shown
        if image["file"] in listed
    )


def _is_readable(image: Mapping[str, Any]) -> bool:
    """Whether a record is small enough; images that were left out have no record."""
    return not image["file"] or (0 <= image["offset"] and 0 <= image["length"] <= _MAX_RECORD)


def _shown_images(statistics: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield from statistics.get("samples", ())
    duplicates = statistics.get("duplicates") or {}
    for kind in ("exact", "near"):
        for group in duplicates.get(kind, {}).get("listed", ())[:PICTURED_GROUPS]:
            # Those left out have no record, and those of holdouts have it elsewhere.
            images = [image for image in group["images"][:SHOWN_TWINS] if image["file"]]
            # One picture for all: they are the same bytes.
            yield from images[:1] if kind == "exact" else images


def _read_record(path: str, wanted: _Wanted) -> bytes:
    """One record of an uncompressed shard.

    Raises:
        OSError: the shard cannot be read.
        ValueError: there is no intact record.
    """
    data = storage_of(path).read_range(path, wanted.offset, wanted.length + 16, follow_links=False)
    for record in read_records(io.BytesIO(data)):
        return record
    raise ValueError(f"{wanted.file} ends before byte {wanted.offset}")


def _read_compressed(
    output: str, wanted: Iterable[_Wanted], notes: list[str]
) -> Iterator[tuple[_Wanted, bytes]]:
    """Records of gzip shards, each read from its start to the last wanted record within reach."""
    room = _MAX_GZIP
    by_file: dict[str, list[_Wanted]] = {}
    for one in wanted:
        if one.file.endswith(".gz"):
            by_file.setdefault(one.file, []).append(one)
    for file, ones in by_file.items():
        near = {one.offset: one for one in ones if one.offset + one.length <= room}
        if not near:
            continue
        end = max(near)
        room -= end
        try:
            opened = storage_of(output).open_reader(join(output, file), follow_links=False)
            with opened as stream, gzip.open(stream) as plain:
                offset = 0
                for record in read_records(cast(BinaryIO, plain), max_bytes=_MAX_GZIP):
                    if offset in near:
                        yield near[offset], record
                    if offset >= end:
                        break
                    offset += len(record) + 16
        except (OSError, ValueError) as error:
            notes.append(f"The images of {file} cannot be read ({error!s:.100}).")


def picture_rejected(rejections: Iterable[Rejection], root: str) -> dict[str, str]:
    """Thumbnails of the first rejected files of each reason that can still be read.

    Args:
        rejections: the rejections, in order.
        root: of the dataset's images, from its manifest; files outside it are not opened.

    Returns:
        data URIs by path.
    """
    found: dict[str, bytes] = {}
    read: Counter[str] = Counter()
    for rejection in rejections:
        if (
            rejection.subject != "image"
            or rejection.reason in _UNSEEN
            or read[rejection.reason] >= _REASON_PICTURES
            or len(found) >= _REJECTED_PICTURES
            or sum(map(len, found.values())) >= _REJECTED_BYTES
            or not is_inside(rejection.path, root)
            or not storage_of(rejection.path).reads_ranges
        ):
            continue
        read[rejection.reason] += 1
        if data := _read_original(rejection.path):
            found[rejection.path] = data
    if not found:
        return {}
    return {path: uri for path, uri in _rejected_thumbnails(found) if uri}


def _rejected_thumbnails(found: Mapping[str, bytes]) -> Iterator[tuple[str, str]]:
    """Thumbnails of unchecked files, made in a process with limits."""
    from transforms.core.report.pillow_thumbnails import rejected_thumbnail
    from transforms.core.report.thumbnails import LIMITS

    # A separate process, because the setting for truncated files is global.
    child = DecodingChild()
    budget = Budget.of_pixels(LIMITS.max_pixels)._replace(seconds=_SECONDS)
    failures = 0
    try:
        for path, data in found.items():
            try:
                yield (
                    path,
                    child.call(
                        budget,
                        rejected_thumbnail,
                        data,
                        edge=_EDGE_OF_MANY,
                        max_bytes=_MAX_PICTURE,
                    ),
                )
            except (RejectedImageError, RuntimeError):
                # It crashes a decoder or takes too long: the page omits it.
                failures += 1
                if failures == _MAX_FAILURES:
                    return
    finally:
        child.close()


def _read_original(path: str) -> bytes:
    """The beginning of a rejected file, nothing when it is gone."""
    try:
        storage = storage_of(path)
        return storage.read_range(path, 0, _FILE_BYTES) if storage.is_ordinary(path) else b""
    except (OSError, ValueError):
        return b""
