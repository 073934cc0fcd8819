"""Groups of images that are equal or similar, here and in datasets that are held out."""

from __future__ import annotations

import bisect
import dataclasses
import functools
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from transforms.core.messages import and_more
from transforms.core.records import BucketDuplicates, FingerprintBatch, Plain, PlannedImage
from transforms.core.rejections import Reason, Rejection
from transforms.images.pixel_options import HOLDOUT
from transforms.labels.joins import image_labels
from transforms.labels.shards import ShardName
from transforms.records.record_index import class_lists, has_fingerprints, source_contents

if TYPE_CHECKING:
    import pyarrow as pa


# Fingerprints of images: a content hash and a perceptual hash, small enough to shuffle.
#
# Those of one shard are kept in its index (`record_index`), so that a shard that exists has its
# fingerprints. A packed `FingerprintBatch` crosses the shuffle. Of many images with the same
# content in one shard, the first `MAX_IMAGES` cross it, and one for all others.

# Number of groups in the shuffle; each has a share of all contents, and costs a millisecond.
BUCKETS = 8

MANY_BUCKETS = 256
"""The same where each worker has its own memory: of 100 million images, a group is 25 MB."""

MAX_IMAGES = 20
"""Images of a group of exact duplicates that `statistics.json` lists."""

FINGERPRINT = np.dtype(
    [
        ("content", "<u8"),
        ("content2", "<u8"),
        ("hash", "<u8"),
        ("has_hash", "u1"),
        ("classes", "<u8"),
        ("record", "<u4"),
        ("images", "<u4"),
    ]
)
"""A fingerprint; its last field is the number of images with this content for which it stands."""


def md5_hash(data: bytes) -> str:
    """The MD5 of a file's content, as 32 hexadecimal digits: the hash that buckets store."""
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


def fingerprint_batches(
    index: pa.Table, file: str, buckets: int = BUCKETS
) -> Iterator[tuple[int, FingerprintBatch]]:
    """The fingerprints of the records of a shard, by bucket; nothing when nothing was compared.

    Args:
        index: of the shard, see `record_index`.
        file: name of the shard.
        buckets: their number, a power of two.
    """
    contents = source_contents(index)
    if not has_fingerprints(index):
        return
    rows = np.zeros(len(contents), FINGERPRINT)
    halves = np.frombuffer(b"".join(filter(None, contents)), "<u8").reshape(-1, 2)
    rows["content"], rows["content2"] = halves[:, 0], halves[:, 1]
    hashes = index.column("perceptual_hash").to_pylist()
    rows["hash"] = [int.from_bytes(each or b"", "big") for each in hashes]
    rows["has_hash"] = [each is not None for each in hashes]
    rows["classes"] = [_classes_hash(tuple(classes)) for classes in class_lists(index)]
    rows["record"], rows["images"] = np.arange(len(rows)), 1
    rows = _bounded(rows)
    rows = rows[np.argsort(rows["content"] % buckets, kind="stable")]
    numbers, starts = np.unique(rows["content"] % buckets, return_index=True)
    for number, part in zip(numbers, np.split(rows, starts[1:]), strict=True):
        yield int(number), FingerprintBatch(file, part.tobytes())


def _bounded(rows: Any) -> Any:
    """The first `MAX_IMAGES` rows of each content, and one more that stands for all others.

    All fingerprints of an image that is in the dataset a million times are in one bucket.
    """
    rows = rows[np.lexsort((rows["has_hash"], rows["content2"], rows["content"]))]
    starts = _starts(rows, "content", "content2", "has_hash")
    sizes = np.diff(np.append(starts, len(rows)))
    is_large = sizes > MAX_IMAGES
    for start, size in zip(starts[is_large], sizes[is_large], strict=True):
        others = rows[start + MAX_IMAGES : start + size]
        # Other classes than those of the first image make it a conflict.
        others[0] = others[(others["classes"] != rows["classes"][start]).argmax()]
        others["images"][0] = len(others)
    rank = np.arange(len(rows)) - np.repeat(starts, sizes)
    return rows[rank <= MAX_IMAGES]


def _starts(rows: Any, *names: str) -> Any:
    """The positions in sorted rows at which the values of some fields change."""
    changes = [rows[name][1:] != rows[name][:-1] for name in names]
    return np.flatnonzero(np.concatenate(([True], np.any(changes, axis=0))))


def described(key: str, path: str, classes: Sequence[str]) -> dict[str, Any]:
    """An image as `statistics.json` names it, in a shard or not."""
    return {"key": key, "path": path, "class": ", ".join(classes)}


# Most datasets have far fewer sets of classes than images.
@functools.lru_cache(maxsize=1024)
def _classes_hash(classes: tuple[str, ...]) -> int:
    text = json.dumps(sorted(classes))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


# Datasets that are held out: none of their images may be in the new one.
#
# Their fingerprints are compared with those of the new images as if they were shards of further
# splits. A shard of the first one is `0:test-00000-of-00001.tfrecord`.

_BETWEEN = ":"


def held_file(number: int, file: str) -> str:
    """The name of a shard that is held out among those of the new dataset.

    >>> held_file(0, "test-00000-of-00001.tfrecord")
    '0:test-00000-of-00001.tfrecord'
    """
    return f"{number}{_BETWEEN}{file}"


def held_out_of(file: str) -> tuple[int, str] | None:
    """The number of the dataset that holds a shard out, and its name there; None for a new one.

    >>> held_out_of("1:test-00000-of-00001.tfrecord"), held_out_of("test-00000-of-00001.tfrecord")
    ((1, 'test-00000-of-00001.tfrecord'), None)
    """
    number, colon, name = file.rpartition(_BETWEEN)
    return (int(number), name) if colon else None


def is_held(file: str) -> bool:
    """Whether a shard is held out."""
    return _BETWEEN in file


def split_of(file: str) -> str:
    """The split of a shard; each split of each dataset held out is one of its own."""
    number, colon, name = file.rpartition(_BETWEEN)
    return number + colon + ShardName.parse(name).split


def held_image(
    folder: str, row: Mapping[str, Any], content: bytes, classes: list[str]
) -> PlannedImage:
    """An image held out next to those of the run; it is in no split.

    Args:
        folder: of its dataset.
        row: of its index.
        content: the hash of its original.
        classes: its labels.
    """
    stored = folder, row["split"], content.hex()
    label = ", ".join(classes)
    place = (row["record"], row["key"], row["path"], row["size"] or 0)
    return PlannedImage(*place, 0, label, stored=stored)


def is_held_image(image: PlannedImage) -> bool:
    """Whether an image is held out."""
    return not image.split


def held_place(image: PlannedImage) -> tuple[str, str, str]:
    """The folder, the split and the content hash of an image held out."""
    folder, split, content = image.stored
    return folder, split, content


# Finds exact and near-duplicates from fingerprints alone.

# Limits for the lists in `statistics.json`.
MAX_GROUPS = 100
MAX_PAIRS = 100

# Maximum images shown of a group of duplicates; they are nearly identical.
SHOWN_TWINS = 6

# Groups of exact duplicates with a picture, and pairs of near-duplicates with two: making one costs
# as much as converting an image. Conflicts and groups across splits come first.
PICTURED_GROUPS = 12

# Maximum Hamming distance of near-duplicates' perceptual hashes: a photo and its half size differ
# in 0 to 3 bits, two photos in 8 or more. With four bands of 16 bits, at least one band is equal.
MAX_DISTANCE = 3
_BANDS = (0, 16, 32, 48)
_BAND_MASK = np.uint64(0xFFFF)

MAX_COMPARED = 1_000_000
"""Limit for images to compare by their perceptual hashes; above it, a fair sample is used."""

# Images held out that are listed of a group.
_MAX_HELD = 3

# Images with the same band with which each image is compared.
_WINDOW = 100

# The first image of each content in each split, and the number of these images.
HASHED = np.dtype(
    [("content", "<u8"), ("hash", "<u8"), ("file", "<u4"), ("record", "<u4"), ("images", "<u4")]
)

Record = tuple[str, int]
"""A record: the name of its shard and its number there."""


class Equal(NamedTuple):
    """Groups of images with equal content, counted; the first `MAX_GROUPS` of them one by one.

    Attributes:
        groups: how many there are.
        images: in all buckets.
        across_splits: groups with images of several splits.
        conflicts: groups whose images have different classes.
        dropped: images that were left out as exact duplicates.
        held: groups with an image held out; their images there are not counted.
        listed: groups as JSON objects: `conflict`, `across_splits`, and `images`, which are either
            records `[file, number]` or, outside of all shards, their entries in `statistics.json`.
    """

    groups: int = 0
    images: int = 0
    across_splits: int = 0
    conflicts: int = 0
    dropped: int = 0
    held: int = 0
    listed: tuple[dict[str, Any], ...] = ()

    def listing(self, images: Iterable[Any]) -> Equal:
        """This one group with its images: the first `MAX_IMAGES`, and some that are held out."""
        group: dict[str, Any] = {
            "conflict": self.conflicts > 0,
            "across_splits": self.across_splits > 0,
            "images": list(images),
        }
        return self._replace(listed=({**group, "held": True} if self.held else group,))


class Near(NamedTuple):
    """Pairs of near-duplicates whose content differs.

    Attributes:
        pairs: how many were found.
        across_splits: pairs whose images are in different splits.
        compared: images that have a perceptual hash and were compared.
        held: pairs of an image with one held out, which are in no other number.
        listed: `(distance, record, record)` of the first `MAX_PAIRS`; then with held ones.
    """

    pairs: int
    across_splits: int
    compared: int
    held: int
    listed: tuple[tuple[int, Record, Record], ...]


def find_equal(
    batches: Iterable[FingerprintBatch], *, images: int | None = None
) -> BucketDuplicates:
    """Finds exact duplicates in one bucket; the order of the batches does not matter.

    Args:
        batches: all of the bucket.
        images: in all buckets, to keep only the sample of hashes that `find_near` compares; None
            to keep all.
    """
    bucket = _Bucket(batches)
    equal = merge_equal(bucket.groups())
    hashes = bucket.hashes()
    if images is not None:
        hashes = _sample(hashes, images)
    numbers, hashes["file"] = np.unique(hashes["file"], return_inverse=True)
    files = [bucket.files[number] for number in numbers]
    return BucketDuplicates(tuple(equal), tuple(files), hashes.tobytes())


class _Bucket:
    """The fingerprints of one bucket, sorted by content, file and record.

    Attributes:
        files: the names of the shards, sorted.
    """

    def __init__(self, batches: Iterable[FingerprintBatch]) -> None:
        in_order = sorted(batches)
        files, numbers = np.unique([batch.file for batch in in_order], return_inverse=True)
        self.files, numbers = files.tolist(), numbers.astype(np.uint32)
        splits = [split_of(file) for file in self.files]
        self._splits = np.unique(splits, return_inverse=True)[1]
        held_files = np.array([is_held(file) for file in self.files], bool)
        parts = [np.frombuffer(batch.rows, FINGERPRINT) for batch in in_order]
        rows, file = np.concatenate(parts), np.repeat(numbers, [len(part) for part in parts])
        held = held_files[file]
        order = np.lexsort((rows["record"], file, held, rows["content2"], rows["content"]))
        self._rows, self._file, self._held = rows[order], file[order], held[order]

    def groups(self) -> Iterator[Equal]:
        """Each group of images with the same content."""
        rows, file = self._rows, self._file
        starts = _starts(rows, "content", "content2")
        sizes = np.diff(np.append(starts, len(rows)))
        several = sizes > 1
        if not several.any():
            return
        # Whole columns at once: calls of NumPy for each group would take most of the time.
        in_group = np.repeat(several, sizes)
        rows, file, sizes = rows[in_group], file[in_group], sizes[several]
        starts = np.cumsum(sizes) - sizes
        # The images held out come last in a group, and count as the first one.
        held = self._held[in_group]
        held_sizes = np.add.reduceat(held.astype(np.int64), starts)
        images = np.add.reduceat(np.where(held, 0, rows["images"]), starts)
        first_row = np.repeat(starts, sizes)
        own = np.where(held, first_row, np.arange(len(rows)))
        across = _differ_within(self._splits[file][own], starts)
        differ = _differ_within(rows["classes"][own], starts)
        names = (self.files[number] for number in file.tolist())
        places = [*zip(names, rows["record"].tolist(), strict=True)]
        numbers = (each.tolist() for each in (starts, sizes, held_sizes, images))
        each = zip(*numbers, across, differ, strict=True)
        for start, size, others, count, is_across, is_conflict in each:
            end = start + size - others
            if end == start:
                continue
            shown = min(others, _MAX_HELD)
            group = Equal(1, count, int(is_across), int(is_conflict), held=int(others > 0))
            first = places[start : min(end, start + MAX_IMAGES - shown)]
            yield group.listing([*first, *places[end : end + shown]])

    def hashes(self) -> Any:
        """As `HASHED`: the first image of each content and split represents all of them."""
        has_hash = self._rows["has_hash"] > 0
        rows, file = self._rows[has_hash], self._file[has_hash]
        splits = self._splits[file]
        order = np.lexsort((rows["record"], file, splits, rows["content"]))
        rows, file, splits = rows[order], file[order], splits[order]
        content = rows["content"]
        is_first = np.ones(len(rows), bool)
        is_first[1:] = (content[1:] != content[:-1]) | (splits[1:] != splits[:-1])
        starts = np.flatnonzero(is_first)
        hashes = np.zeros(len(starts), HASHED)
        for name in ("content", "hash", "record"):
            hashes[name] = rows[name][starts]
        hashes["file"] = file[starts]
        hashes["images"] = np.add.reduceat(rows["images"], starts)
        return hashes


def _differ_within(values: Any, starts: Any) -> list[bool]:
    """Whether the values of each group differ; a group ends where the next one starts."""
    differ: list[bool] = (
        np.maximum.reduceat(values, starts) > np.minimum.reduceat(values, starts)
    ).tolist()
    return differ


def _sample(hashes: Any, images: int) -> Any:
    """The hashes of a fair sample of all contents, the same in every run.

    The low bits select the bucket, so other bits are used, which are uniform in every bucket.
    """
    if images <= MAX_COMPARED:
        return hashes
    return hashes[hashes["content"] < np.uint64((MAX_COMPARED << 64) // images)]


def merge_equal(parts: Iterable[Plain]) -> Equal:
    """Adds up `Equal`s; conflicts and groups across splits are listed first."""
    total: list[int] = [0] * (len(Equal._fields) - 1)
    listed: list[dict[str, Any]] = []
    for *counts, groups in parts:
        total = [one + other for one, other in zip(total, counts, strict=True)]
        listed += groups
        if len(listed) > 4 * MAX_GROUPS:
            listed = sorted(listed, key=_urgency)[:MAX_GROUPS]
    return Equal._make([*total, tuple(sorted(listed, key=_urgency)[:MAX_GROUPS])])


def _urgency(group: Mapping[str, Any]) -> tuple[bool, bool, bool, str]:
    is_held = "held" in group
    place = json.dumps(group["images"])
    return not is_held, not group["conflict"], not group["across_splits"], place


def find_near(buckets: Sequence[BucketDuplicates], *, images: int, held: int = 0) -> Near:
    """Finds near-duplicates among the perceptual hashes of all buckets, in any order.

    Near-duplicates have hashes that differ in at most `MAX_DISTANCE` bits; all such
    pairs are found, except among more than `_WINDOW` images that share 16 bits of their hashes.
    Of more than `MAX_COMPARED` images, those are compared whose content's hash is smallest: a fair
    sample, and the same in every run.

    Args:
        buckets: all of them.
        images: in all buckets.
        held: images held out; if they are more, the sample is one of as many.
    """
    files = sorted({file for bucket in buckets for file in bucket.files})
    number = {file: at for at, file in enumerate(files)}
    parts = [np.zeros(0, HASHED)]
    for bucket in buckets:
        hashes = np.frombuffer(bucket.hashes, HASHED).copy()
        numbers = np.array([number[file] for file in bucket.files], "<u4")
        hashes["file"] = numbers[hashes["file"]]
        parts.append(_sample(hashes, max(images, held)))
    hashes = np.concatenate(parts)
    hashes = hashes[np.lexsort((hashes["record"], hashes["file"]))]
    is_of_holdout = np.array([is_held(file) for file in files], bool)[hashes["file"]]
    near = _similar(hashes[~is_of_holdout], files)
    if not is_of_holdout.any():
        return near
    others = _similar(hashes, files, is_of_holdout)
    pairs = tuple((distance, own, other) for distance, other, own in others.listed)
    return near._replace(listed=(*near.listed, *pairs), held=others.pairs)


def _similar(hashes: Any, files: Sequence[str], groups: Any = None) -> Near:
    """The pairs among these images, in the order of their records; only those of two groups."""
    splits = np.unique([split_of(file) for file in files], return_inverse=True)[1]
    # One image of each content and split represents all of them.
    own = np.rec.fromarrays([hashes["content"], splits[hashes["file"]]])
    kept = np.sort(np.unique(own, return_index=True)[1])
    first = hashes[kept]
    count, across, pairs = _pairs(
        first["hash"],
        first["content"],
        splits[first["file"]],
        None if groups is None else groups[kept],
    )

    def record(at: int) -> Record:
        return files[first["file"][at]], int(first["record"][at])

    listed = tuple((int(distance), record(one), record(other)) for distance, one, other in pairs)
    return Near(count, across, int(hashes["images"].sum()), 0, listed)


def _pairs(hashes: Any, contents: Any, splits: Any, groups: Any) -> tuple[int, int, Any]:
    """All pairs with the same value of one band; a pair counts at its first such band.

    Only those of two groups, if there are any.

    Returns:
        the number of pairs, that of pairs in two splits, and `[distance, index, index]` of the
        first `MAX_PAIRS`.
    """
    count, across, first_pairs = 0, 0, np.zeros((0, 4), np.int64)
    bands = [(hashes >> np.uint64(shift)) & _BAND_MASK for shift in _BANDS]
    for at, band in enumerate(bands):
        # Sorted within the band, images that share the bits below it are close together.
        turn = np.uint64(_BANDS[at])
        turned = (hashes >> turn) | (hashes << ((np.uint64(64) - turn) & np.uint64(63)))
        order = np.argsort((turned << np.uint64(48)) | (turned >> np.uint64(16)), kind="stable")
        ordered = band[order]
        first = np.arange(len(order))
        for step in range(1, _WINDOW + 1):
            first = first[first + step < len(order)]
            first = first[ordered[first] == ordered[first + step]]
            if not len(first):
                break
            one = np.minimum(order[first], order[first + step])
            other = np.maximum(order[first], order[first + step])
            distance = np.bitwise_count(hashes[one] ^ hashes[other])
            good = (distance <= MAX_DISTANCE) & (contents[one] != contents[other])
            if groups is not None:
                good &= groups[one] != groups[other]
            for former in bands[:at]:
                good &= former[one] != former[other]
            one, other = one[good], other[good]
            within = splits[one] == splits[other]
            count += len(one)
            across += int((~within).sum())
            rows = np.stack([within, distance[good], one, other], axis=1).astype(np.int64)
            rows = np.concatenate([first_pairs, rows])
            first_pairs = rows[np.lexsort(rows.T[::-1])][:MAX_PAIRS]
    return count, across, first_pairs[:, 1:]


# Labels named in one detail.
_MAX_NAMED = 5

CONTENT = "xxh3:"
"""Precedes a `content_hash` where an MD5 is expected: the hash that indexes have."""

PARTS = 64
"""Parts of the images with one content, which may be most of a dataset."""


@dataclasses.dataclass
class ContentGroup:
    """Images with the same content, added up in any order.

    Attributes:
        images: how many there are.
        first: those whose keys sort first, at most `MAX_IMAGES`.
        classes: the labels of each image, sorted.
        splits: their splits.
        parts: numbers of the parts that they are in, see `part_of`.
        held: the first image held out with this content, which is none of them.
    """

    images: int = 0
    first: list[PlannedImage] = dataclasses.field(default_factory=list)
    classes: set[tuple[str, ...]] = dataclasses.field(default_factory=set)
    splits: set[str] = dataclasses.field(default_factory=set)
    parts: set[int] = dataclasses.field(default_factory=set)
    held: PlannedImage | None = None

    @property
    def has_several(self) -> bool:
        """Whether an image has this content that equals another one, or one held out."""
        return bool(self.images) and self.images + (self.held is not None) > 1

    def add(self, image: PlannedImage) -> None:
        """Adds an image."""
        if is_held_image(image):
            self.held = image if self.held is None else min(self.held, image)
            return
        self.images += 1
        self._list(image)
        self.classes.add(tuple(sorted(image_labels(image))))
        self.splits.add(image.split)
        self.parts.add(part_of(image))

    def merge(self, other: ContentGroup) -> None:
        """Adds the images of another group."""
        self.images += other.images
        for image in other.first:
            self._list(image)
        self.classes |= other.classes
        self.splits |= other.splits
        self.parts |= other.parts
        if other.held is not None:
            self.add(other.held)

    def _list(self, image: PlannedImage) -> None:
        bisect.insort(self.first, image, key=lambda each: each.key)
        del self.first[MAX_IMAGES:]


# An image that is in no shard, in `statistics.json`.
_NO_PLACE = {"file": None, "offset": None, "length": None}


class Verdict(NamedTuple):
    """What happens to images with the same content.

    Attributes:
        kept: the key of the image that is kept; empty if none is.
        reason: the code of the `Reason` for rejecting the others.
        detail: of their rejections.
    """

    kept: str
    reason: str
    detail: str

    def rejection(self, image: PlannedImage) -> Rejection | None:
        """The rejection of an image; None for the one that is kept."""
        if image.key == self.kept:
            return None
        return Rejection("image", self.reason, self.detail, image.path, image.key)


def decide(group: ContentGroup, *, md5: str) -> tuple[Verdict, Equal]:
    """Keeps the image whose key sorts first, or none if their classes differ, or one is held out.

    Args:
        group: all images with one content, see `ContentGroup.has_several`.
        md5: of that content, to detect a file that was overwritten since; or `CONTENT` and its
            `content_hash`.
    """
    is_conflict = len(group.classes) > 1 and group.held is None
    first, second, *_ = (*group.first, *group.first)
    if group.held is not None:
        folder, split, _ = held_place(group.held)
        detail = f"an exact duplicate of {group.held.path!r} in {HOLDOUT} {folder}, split {split}"
        verdict = Verdict("", Reason.HOLDOUT_IMAGE.code, detail)
    elif is_conflict:
        said = [" and ".join(labels) or "nothing" for labels in sorted(group.classes)]
        detail = (
            f"{group.images} exact duplicates, such as {first.path!r} and {second.path!r}, are "
            f"labelled {and_more([*map(repr, said[:_MAX_NAMED])], len(said))}"
        )
        verdict = Verdict("", Reason.CONFLICTING_LABELS.code, detail)
    else:
        detail = f"an exact duplicate of {first.path!r}, which is kept"
        verdict = Verdict(first.key, Reason.DUPLICATE_IMAGE.code, detail)
    named = [_named(image, md5, is_kept=image.key == verdict.kept) for image in group.first]
    if group.held is not None:
        named.append(_named_held(group.held))
    dropped = 0 if is_conflict else group.images - bool(verdict.kept)
    across, held = int(len(group.splits) > 1), int(group.held is not None)
    equal = Equal(1, group.images, across, int(is_conflict), dropped, held)
    return verdict, equal.listing(named)


def _named_held(image: PlannedImage) -> dict[str, object]:
    """The image held out for `statistics.json`."""
    folder, split, _ = held_place(image)
    named = described(image.key, image.path, [image.label])
    return {**named, "split": split, **_NO_PLACE, "dataset": folder}


def part_of(image: PlannedImage) -> int:
    """The part of an image among those with its content: at random, and always the same."""
    return image.order % PARTS


def _named(image: PlannedImage, md5: str, *, is_kept: bool) -> dict[str, object]:
    """The image for `statistics.json`; the order gives the future position of a kept image."""
    return {
        **described(image.key, image.path, image_labels(image)),
        "split": image.split,
        **_NO_PLACE,
        **({"content": md5.removeprefix(CONTENT)} if md5.startswith(CONTENT) else {"md5": md5}),
        **({"order": image.order} if is_kept else {}),
    }
