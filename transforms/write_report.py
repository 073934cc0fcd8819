"""The report of a dataset that was just published: the page that shows what went in and out."""

from __future__ import annotations

import functools
import io
import itertools
import json
import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from transforms.core.messages import first_line, parse_json
from transforms.core.rejections import Reason, RejectedImageError, Rejection
from transforms.dataset.image_statistics import MAX_SAMPLES
from transforms.dataset.manifest import content_digest, manifest_shards
from transforms.dataset.output_names import MANIFEST, REJECTED, REPORT, STATISTICS
from transforms.examples.decoder import decode_example
from transforms.examples.layouts import Role, with_role
from transforms.examples.tfrecord import FRAME_BYTES, read_frames, read_records
from transforms.images.checked_images import LOOKS
from transforms.images.guard import Budget, DecoderGuard, DecodingChild, is_again
from transforms.labels.keys import is_inside
from transforms.records.record_index import classes_of, indexed_files
from transforms.records.written_index import open_records, read_listed_index, stored_lines
from transforms.selection.duplicates import PICTURED_GROUPS, SHOWN_TWINS
from transforms.storage.files import join, read_manifest, storage_of
from transforms.storage.read_ahead import ReadAhead, reading_threads

if TYPE_CHECKING:
    import pyarrow as pa

# Reads the images of a report: records of shards, by their offsets, and rejected files.

# Bytes of all thumbnails of records, and of one; small enough for 1,400 of them in 5 MB of page.
_PICTURE_BYTES = 1_600_000
_MAX_PICTURE = 16_000
_MIN_PICTURE = 800

# About how many pixels the longer side of a thumbnail has, also where there are many.
_EDGE = 320
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
_REJECTED_PICTURE = 4096
_REJECTED_BYTES = 64 << 20
_FILE_BYTES = 8 << 20

# Rejected files that are listed for one reason.
MAX_LISTED = 200

# CPU seconds for a thumbnail of a rejected file, and how many files may crash their process
# before the rest are skipped.
_SECONDS = 10.0
_MAX_FAILURES = 3

# Reasons without a thumbnail: nothing to show, or too costly to decode.
_UNSEEN = {
    reason.code
    for reason in (
        Reason.UNREADABLE,
        Reason.OUTSIDE_ROOT,
        Reason.EMPTY_FILE,
        Reason.TOO_MANY_BYTES,
        Reason.TOO_MANY_PIXELS,
        Reason.TOO_COSTLY,
        Reason.DECODER_CRASH,
        Reason.NAME_NOT_UTF8,
    )
}


# Records whose sizes are compared, of so many indexes: a third of a second and 90 MB.
_INDEXED = 100_000
_INDEXES = 64
_COLUMNS = ("key", "path", "label", "split", "height", "width", "length")

# Shown of each kind of odd images.
_SHOWN_ODD = 6

# As cleanvision has them: the share of the other side below which a side is odd, and how many
# times the width of the middle half a size is away from it. Nearer sizes are usual, and classes of
# fewer images have no usual size.
_ODD_ASPECT = 0.35
_ODD_SIZE = 3
_NEAR = 1 / 8
_USUAL = 20

# Where cleanvision agrees with `LOOKS` most often.
_DARK, _BRIGHT, _BLURRY, _BLANK = 80, 242, 29, 15


class _Wanted(NamedTuple):
    """A record to show: its shard, its offset there and the length of its data."""

    file: str
    offset: int
    length: int


def unusual_images(output: str, manifest: Mapping[str, Any], notes: list[str]) -> dict[str, Any]:
    """The smallest and the largest images and odd ones, by the indexes of the first records.

    Args:
        output: the dataset's folder.
        manifest: of the dataset.
        notes: a sentence is added if an index cannot be read.

    Returns:
        the number of `records`, and of those whose pixels were `looked` at; two images for each of
        `ends`; of each kind of `odd`, the number of images and the first ones, as `statistics.json`
        names samples. Nothing without images.
    """
    try:
        found = _indexed(output, manifest)
    except (LookupError, OSError, TypeError, ValueError) as error:
        notes.append(f"The sizes of the images cannot be read ({error!s:.100}).")
        return {}
    if found is None or not len(found[0]) or found[0].column("height").null_count:
        return {}
    table, files, offsets = found

    def image(at: int) -> dict[str, Any]:
        [row] = table.slice(at, 1).select(_COLUMNS).to_pylist()
        place = {"file": files[at], "offset": offsets[at]}
        return {**row, **place, "class": ", ".join(classes_of(row["label"]))}

    def images(numbers: Iterable[Any]) -> list[dict[str, Any]]:
        return [image(int(at)) for at in numbers]

    def odd(score: Any) -> dict[str, Any]:
        numbers = np.argsort(-score, kind="stable")[: (score > 0).sum()]
        return {"count": len(numbers), "images": images(numbers[:_SHOWN_ODD])}

    # `to_numpy` would import pandas.
    height, width, length, *looks = (
        np.array(table.column(each).to_pylist(), np.float64) for each in (*_COLUMNS[-3:], *LOOKS)
    )
    # Not a number where nobody looked.
    darkest, lightest, sharpness, entropy = looks
    aspect = width / height
    measured = {"height": height, "width": width, "aspect": aspect, "bytes": length}
    longer = np.maximum(aspect, 1 / aspect)
    return {
        "records": len(table),
        "looked": int(np.isfinite(entropy).sum()),
        "ends": {
            name: images((values.argmin(), values.argmax()))
            for name, values in measured.items()
            if values.min() < values.max()
        },
        "odd": {
            "aspect": odd(np.where(longer > 1 / _ODD_ASPECT, longer, 0)),
            "size": odd(_odd_sizes(np.sqrt(width * height), table.column("label").to_pylist())),
            "dark": odd(_DARK - lightest),
            "bright": odd(darkest - _BRIGHT),
            "blurry": odd(_BLURRY - sharpness),
            "blank": odd(_BLANK - entropy),
        },
    }


def _indexed(
    output: str, manifest: Mapping[str, Any]
) -> tuple[pa.Table, list[str], list[int]] | None:
    """The first rows of the indexes, and the file and the offset of each record."""
    import pyarrow as pa

    tables: list[pa.Table] = []
    files: list[str] = []
    # Indexes of compressed shards have none.
    offsets: list[int] = []
    for entry, listed in itertools.islice(indexed_files(manifest), _INDEXES):
        if not listed or len(files) >= _INDEXED:
            continue
        table = read_listed_index(output, entry, [*_COLUMNS, *LOOKS]).slice(0, _INDEXED)
        names = [each["file"] for each in listed]
        sizes = (size + FRAME_BYTES for size in table.column("length").to_pylist())
        is_single = len(names) > 1
        files += names[: len(table)] if is_single else names * len(table)
        ends = itertools.accumulate(sizes, initial=0)
        offsets += [0] * len(table) if is_single else [*ends][:-1]
        tables.append(table)
    return (pa.concat_tables(tables), files, offsets) if tables else None


def _odd_sizes(sizes: Any, labels: Sequence[Any]) -> Any:
    """How many times larger or smaller than the middle of its class each odd size is; else 0."""
    ids: dict[Any, int] = {}
    names = (tuple(each) if isinstance(each, list) else each for each in labels)
    classes = np.array([ids.setdefault(each, len(ids)) for each in names])
    order = np.lexsort((sizes, classes))
    _, starts, counts = np.unique(classes[order], return_index=True, return_counts=True)
    low, middle, high = (sizes[order][starts + counts * part // 4] for part in (1, 2, 3))
    reach = np.maximum(_ODD_SIZE * (high - low), _NEAR * middle)
    is_far = (sizes < (low - reach)[classes]) | (sizes > (high + reach)[classes])
    times = np.maximum(sizes / middle[classes], middle[classes] / sizes)
    return np.where(is_far & (counts >= _USUAL)[classes], times, 0)


def picture_records(
    output: str,
    manifest: Mapping[str, Any],
    statistics: Mapping[str, Any],
    notes: list[str],
    unusual: Mapping[str, Any] = MappingProxyType({}),
) -> dict[tuple[str, int], dict[str, Any]]:
    """Thumbnails of the samples and the duplicates of a dataset, read from its shards.

    Args:
        output: the dataset's folder.
        manifest: of the dataset.
        statistics: the content of `statistics.json`.
        notes: a sentence is added for everything that cannot be read.
        unusual: the result of `unusual_images`, which are shown, too.

    Returns:
        results of `thumbnail` by the places of the records.

    Raises:
        KeyError, TypeError: the statistics do not have the expected structure.
    """
    name = next(iter(with_role(manifest["features"], Role.IMAGE)), None)
    shown = itertools.chain(_shown_images(statistics), _unusual_shown(unusual))
    occurrences = _occurrences(manifest, shown, notes)
    if name is None or not occurrences:
        return {}
    count = occurrences.total()
    max_bytes = max(_MIN_PICTURE, min(_MAX_PICTURE, _PICTURE_BYTES // count))
    edge = _EDGE if count <= _MANY else _EDGE_OF_MANY
    wanted = sorted(occurrences)
    from transforms.report.thumbnails import LIMITS, thumbnail

    guard = DecoderGuard(LIMITS.max_pixels, isolates=is_again())

    def picture(one: _Wanted, record: bytes) -> dict[str, Any]:
        image = decode_example(record)[name][0]
        try:
            return guard.call("", thumbnail, image, edge=edge, max_bytes=max_bytes)
        except RejectedImageError:
            # It crashes Pillow, which the check did not use; the dataset is already published.
            return {}

    def load(one: _Wanted) -> dict[str, Any] | Exception:
        try:
            return picture(one, _read_record(join(output, one.file), one))
        except (LookupError, OSError, ValueError) as error:
            return error

    plain = [one for one in wanted if not one.file.endswith(".gz")]
    ahead = ReadAhead(threads=reading_threads(output))
    pictures: dict[tuple[str, int], dict[str, Any]] = {}
    failed: list[Exception] = []
    loaded = zip(plain, ahead.map(load, plain, size=lambda one: one.length), strict=True)
    for one, result in loaded:
        if isinstance(result, Exception):
            failed.append(result)
        else:
            pictures[one.file, one.offset] = result
    for one, record in _read_compressed(output, wanted, notes):
        pictures[one.file, one.offset] = picture(one, record)
    if failed:
        notes.append(f"The images of {len(failed)} records cannot be read: {failed[0]}.")
    return pictures


def _occurrences(
    manifest: Mapping[str, Any], images: Iterable[Mapping[str, Any]], notes: list[str]
) -> Counter[_Wanted]:
    """How often each record is shown; a file that is not a shard gets a note."""
    listed = {shard["file"] for shard in manifest_shards(manifest)}
    # Small enough; images that were left out have no record.
    shown = [
        i for i in images if not i["file"] or (0 <= i["offset"] and 0 <= i["length"] <= _MAX_RECORD)
    ]
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


def _shown_images(statistics: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield from statistics.get("samples", ())[:MAX_SAMPLES]
    duplicates = statistics.get("duplicates") or {}
    for kind in ("exact", "near"):
        for group in duplicates.get(kind, {}).get("listed", ())[:PICTURED_GROUPS]:
            # Those left out have no record, and those held out have it elsewhere.
            images = [image for image in group["images"][:SHOWN_TWINS] if image["file"]]
            # One picture for all: they are the same bytes.
            yield from images[:1] if kind == "exact" else images


def _unusual_shown(unusual: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Those of uncompressed shards: no image is worth a read of all that is before it."""
    odd = (each["images"] for each in unusual.get("odd", {}).values())
    for images in itertools.chain(unusual.get("ends", {}).values(), odd):
        yield from (image for image in images if not image["file"].endswith(".gz"))


def _read_record(path: str, wanted: _Wanted) -> bytes:
    """One record of an uncompressed shard.

    Raises:
        OSError: the shard cannot be read.
        ValueError: there is no intact record.
    """
    read = functools.partial(storage_of(path, follow_links=False).read_range, path)
    data = read_frames(read, wanted.offset, wanted.length + FRAME_BYTES)
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
            path = join(output, file)
            with open_records(path, follow_links=False, max_bytes=_MAX_GZIP) as records:
                offset = 0
                for record in records:
                    if offset in near:
                        yield near[offset], record
                    if offset >= end:
                        break
                    offset += len(record) + FRAME_BYTES
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
    return {path: uri for path, uri in _rejected_thumbnails(found) if uri} if found else {}


def _rejected_thumbnails(found: Mapping[str, bytes]) -> Iterator[tuple[str, str]]:
    """Thumbnails of unchecked files, made in a process with limits."""
    from transforms.report.thumbnails import LIMITS, rejected_thumbnail

    # A separate process, because the setting for truncated files is global.
    child = DecodingChild()
    budget = Budget.of_pixels(LIMITS.max_pixels)._replace(seconds=_SECONDS)
    make = functools.partial(rejected_thumbnail, edge=_EDGE_OF_MANY, max_bytes=_REJECTED_PICTURE)
    failures = 0
    try:
        for path, data in found.items():
            try:
                yield path, child.call(budget, make, data)
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


# Writes `report.html` from the files of a finished dataset.

# Errors caused by statistics without the expected structure.
_DAMAGE = (ArithmeticError, AttributeError, LookupError, StopIteration, TypeError, ValueError)

_LOGGER = logging.getLogger(__name__)


def report_written(published: str, output: str) -> str:
    """Writes the report of a dataset that was just published or has no report.

    A failed report is only logged: the dataset is complete without it.

    Args:
        published: the output of `PublishDataset`.
        output: the folder.

    Returns:
        `written`, `there` or `failed`.
    """
    if published != "published" and storage_of(output).exists(join(output, REPORT)):
        return "there"
    try:
        # Read before the manifest: another run may replace the dataset and its report.
        found = storage_of(output).find(join(output, REPORT))
        former = found.version if found else 0
        manifest = read_manifest(join(output, MANIFEST))
        write_report(output, manifest or {}, former)
    except Exception as error:  # any error; the dataset is published
        _LOGGER.warning("%s could not be written (%s): %s", REPORT, output, first_line(error))
        return "failed"
    return "written"


def write_report(output: str, manifest: Mapping[str, Any], former: int | None = None) -> int:
    """Writes `report.html` from a dataset's folder, replacing a former one.

    Args:
        output: the folder.
        manifest: the dataset's.
        former: the generation of the report that it replaces, 0 for a new one, None for any.

    Returns:
        its size in bytes.

    Raises:
        OSError: it cannot be written.
    """
    page = make_report(output, manifest).encode()
    storage_of(output).write_whole(join(output, REPORT), page, generation=former)
    return len(page)


def make_report(output: str, manifest: Mapping[str, Any]) -> str:
    """The report of a dataset; unreadable parts become notes in the page.

    Args:
        output: its folder.
        manifest: the dataset's.
    """
    # These modules import Jinja2 and Pillow, which are not needed before.
    from transforms.report.page import Sources, page_template, render

    notes: list[str] = []
    there = set(storage_of(output).names_below(output))
    missing = [s["file"] for s in manifest_shards(manifest) if s["file"] not in there]
    statistics = _read_statistics(output, manifest, notes)
    rejections = read_rejections(output, manifest, notes)
    unusual = unusual_images(output, manifest, notes)
    with ThreadPoolExecutor(2) as pool:
        # Runs in another process, while this one reads the shards.
        rejected = pool.submit(picture_rejected, rejections, manifest["root"])
        # Importing Jinja2 takes as long as the pictures, which other threads make.
        prepared = pool.submit(page_template)
        try:
            pictures = picture_records(output, manifest, statistics, notes, unusual)
        except _DAMAGE as error:
            statistics, pictures = _without(statistics, error, notes), {}
        sources = Sources(
            dataset_name(output),
            manifest,
            statistics,
            rejections,
            pictures,
            rejected.result(),
            missing,
            notes,
            unusual,
        )
        prepared.result()
    try:
        return render(sources)
    except _DAMAGE as error:
        return render(sources._replace(statistics=_without(statistics, error, notes)))


def dataset_name(output: str) -> str:
    """The name of the dataset in a folder: that of the folder or the bucket."""
    return storage_of(output).absolute(output).rstrip("/").rpartition("/")[2] or "/"


def _without(
    statistics: Mapping[str, Any], error: Exception, notes: list[str]
) -> Mapping[str, Any]:
    """Returns empty statistics instead of unusable ones, with a note."""
    if not statistics:
        raise error
    notes.append(f"{STATISTICS} is ignored because it is not valid ({error!r:.100}).")
    return {}


def _read_statistics(
    output: str, manifest: Mapping[str, Any], notes: list[str]
) -> Mapping[str, Any]:
    try:
        text = storage_of(output, follow_links=False).read_text(join(output, STATISTICS))
        if text is None:
            if STATISTICS in manifest["files"]:
                notes.append(
                    f"{STATISTICS} is missing, so the page has no sizes, samples and duplicates."
                )
            return {}
        return dict(parse_json(text))
    except (OSError, TypeError, ValueError) as error:
        notes.append(f"{STATISTICS} cannot be read ({error!s:.100}).")
        return {}


def read_rejections(output: str, manifest: Mapping[str, Any], notes: list[str]) -> list[Rejection]:
    """The first lines of each reason; the file may have one for every image.

    An edited file is not used, because the files that it lists are opened for thumbnails.

    Args:
        output: the dataset's folder.
        manifest: of the dataset.
        notes: takes what cannot be read.
    """
    # Those to find of each reason, by its word in a line.
    left = {
        json.dumps(reason).encode(): min(count, MAX_LISTED)
        for reason, count in manifest["rejected"].items()
        if count
    }
    found: list[Rejection] = []
    if not left:
        return found
    path = join(output, REJECTED)
    try:
        listed = manifest["files"].get(REJECTED, {"bytes": 0, "crc32c": None})
        found_crc32c = storage_of(path).checksum(path, size=listed["bytes"])
        if content_digest(manifest) != manifest.get("digest") or found_crc32c != listed["crc32c"]:
            notes.append(
                f"{REJECTED} is ignored because it or {MANIFEST} is missing or was edited."
            )
            return found
        for line in stored_lines(path, listed["bytes"]):
            if not left:
                break
            # Millions of lines may have a reason of which enough are found.
            if not any(map(line.__contains__, left)):
                continue
            rejection = Rejection(**parse_json(line))
            if not all(isinstance(field, str) for field in rejection):
                raise ValueError("a line is not a rejection")
            word = json.dumps(rejection.reason).encode()
            if word in left:
                found.append(rejection)
                left[word] -= 1
                if not left[word]:
                    del left[word]
    except (OSError, TypeError, ValueError) as error:
        notes.append(f"{REJECTED} cannot be read to its end ({error!s:.100}).")
    return found
