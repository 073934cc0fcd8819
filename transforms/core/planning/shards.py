"""Shards: their number, the shard of each image, and the names of their files."""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from transforms.core.label_errors import LabelsError
from transforms.core.planning.splits import splits_in_order
from transforms.core.records import ShardImage, ShardRow

# The largest shard number that fits into the file name.
MAX_SHARDS = 99_999

MAX_SHARD_NAMES = 220_000
"""Images of one shard on runners whose workers are elsewhere.

A planned image is 238 bytes with a key and a path of 100 characters each, and about 200 more with
its record in another dataset (`--reuse`). The names of a shard are one element, and Beam's limit
for an element is 100 MB.
"""

MAX_FILES = 1_000_000
"""Files of a dataset with a file for each image.

One worker makes the manifest, which lists all of them: 207 bytes each with a key of 43 characters,
and 2,065 bytes of memory at its peak, before the folder is listed.
"""

# Fields of a `ShardImage` before `stored` and `partners`; a `ShardRow` has fewer.
_RECIPE_FIELDS = 8

# The default size of a shard in bytes.
DEFAULT_SHARD_SIZE = 150_000_000

SHARD_BY = ("hash", "records")
"""What divides a split into shards: equal ranges of the hash, or equal numbers of records."""

_NAME = re.compile(
    r"(?P<split>[A-Za-z][A-Za-z0-9_]*)-(?P<number>\d{5})-of-(?P<total>\d{5})\.tfrecord(?P<gz>\.gz)?"
)


class ShardName(NamedTuple):
    """The name of one shard file, as TensorFlow Datasets and TF-Slim spell it.

    >>> str(ShardName("train", 0, 8))
    'train-00000-of-00008.tfrecord'
    >>> ShardName.parse("train-00000-of-00008.tfrecord").total
    8
    """

    split: str
    number: int
    total: int
    gzip: bool = False

    def __str__(self) -> str:
        suffix = ".tfrecord.gz" if self.gzip else ".tfrecord"
        return f"{self.split}-{self.number:05d}-of-{self.total:05d}{suffix}"

    @classmethod
    def parse(cls, name: str) -> ShardName:
        """Reads a file name.

        Raises:
            ValueError: when it is not the name of a shard.
        """
        match = _NAME.fullmatch(name)
        if not match:
            raise ValueError(f"{name!r} is not the name of a shard")
        number, total = int(match["number"]), int(match["total"])
        if number >= total:
            raise ValueError(f"{name!r}: shard {number} of {total} cannot be")
        return cls(match["split"], number, total, match["gz"] is not None)


def shard_count(total_bytes: int, records: int, *, shard_size: int, num_shards: int | None) -> int:
    """How many shards a split gets: `num_shards` if given, else as many as its bytes fill.

    Only `num_shards` makes more shards than there are records.

    Args:
        total_bytes: listed bytes of the split's images.
        records: planned records of the split.
        shard_size: bytes that one shard should hold.
        num_shards: a fixed number for each split, or None.

    >>> shard_count(430_000_000, 4000, shard_size=150_000_000, num_shards=None)
    3
    >>> shard_count(430_000_000, 2, shard_size=150_000_000, num_shards=None)
    2
    """
    if num_shards is not None:
        return num_shards
    return max(1, min(MAX_SHARDS, records, -(-total_bytes // shard_size)))


def empty_shards_warning(split: str, records: int, shards: int) -> str | None:
    """The warning about more shards than records; None if there are enough records.

    >>> empty_shards_warning("train", 47, 300)
    "split 'train' has 47 records in 300 shards: at least 253 are empty; lower --num_shards"
    """
    if shards <= max(1, records):
        return None
    return (
        f"split {split!r} has {records} records in {shards} shards: at least {shards - records} "
        "are empty; lower --num_shards"
    )


def shard_index(order: int, count: int, starts: Sequence[int] = ()) -> int:
    """The shard of an image: shards are ranges of the order, so a shard's images follow each other
    and the next shard's follow them.

    Args:
        order: the image's place in the order.
        count: shards of the split.
        starts: the orders at which they begin, without the first; if empty, the ranges are equal.

    >>> shard_index(-(2**63), 8), shard_index(2**63 - 1, 8), shard_index(5, 3, (5, 9))
    (0, 7, 1)
    """
    return bisect_right(starts, order) if starts else ((order + 2**63) * count) >> 64


def shard_recipe(options_digest: str, name: str, images: Iterable[ShardImage | ShardRow]) -> str:
    """The digest of everything that affects a shard's bytes: its inputs and the options.

    Two runs with equal recipes write equal files, so a shard with this recipe need not be
    written again.

    Args:
        options_digest: digest of the options that affect output bytes.
        name: the shard's file name.
        images: the shard's images, or rows, in their order.

    Returns:
        32 hexadecimal digits.
    """
    digest = hashlib.blake2b(f"{options_digest}\n{name}\n".encode(), digest_size=16)
    for image in images:
        # Where the image was stored before affects no byte.
        fields = tuple(image)
        digest.update(repr(fields[:_RECIPE_FIELDS]).encode())
        # No call: nearly all images have no masks.
        if fields[_RECIPE_FIELDS + 1 :] > ("",):
            digest.update(f"\n{fields[_RECIPE_FIELDS + 1]}\n".encode())
    return digest.hexdigest()


class PlanSizes(Protocol):
    """Images and bytes of each split, as `PlanTotals` has them."""

    images: Counter[str]
    bytes: Counter[str]


class ShardPlan(NamedTuple):
    """How a dataset is cut into shards.

    Attributes:
        splits: names of the splits, in the order given; empty if the inputs define them.
        shard_size: bytes a shard should hold.
        num_shards: shards of each split, or None to plan them from the bytes.
        gzip: whether the files are compressed.
        per_image: whether every image gets its own file; the shards are groups of them.
        partners: files of masks and further images that each image has.
        by_records: whether the shards of a split have equal numbers of records.
    """

    splits: tuple[str, ...]
    shard_size: int
    num_shards: int | None
    gzip: bool
    per_image: bool = False
    partners: int = 0
    by_records: bool = False

    def files(
        self, split_bytes: Mapping[str, int], split_records: Mapping[str, int]
    ) -> dict[str, list[str]]:
        """The names of every split's shards, in their order.

        Args:
            split_bytes: listed bytes of each split's images; none is 0.
            split_records: planned records of each split; none is 0.

        Raises:
            LabelsError: see `splits_in_order`; or every image gets its own file, and these are
                too many.
        """
        records = sum(split_records.values())
        if self.per_image and records > MAX_FILES:
            raise LabelsError(
                f"--files per_image: {records} images are more than {MAX_FILES}, since one worker "
                "writes a manifest of all files; use --files sharded"
            )
        splits = self.splits or splits_in_order(split_bytes)
        return {
            split: self._names(split, split_bytes.get(split, 0), split_records.get(split, 0))
            for split in splits
        }

    def check_sizes(self, totals: PlanSizes) -> None:
        """Checks that the names of a shard fit in one element.

        Raises:
            LabelsError: they do not; the message has the number of shards that fits.
        """
        # The name of a mask, and what a record in another dataset says of it, is half as long.
        most = 2 * MAX_SHARD_NAMES // (2 + self.partners)
        for split, names in self.files(totals.bytes, totals.images).items():
            images = totals.images[split]
            in_one = -(-images // max(1, len(names)))
            if in_one > most:
                raise LabelsError(
                    f"split {split!r} has {images} images in {len(names)} shards, {in_one} in one: "
                    f"more than {most}, which a worker of this runner can take; use "
                    f"--num_shards {-(-images // most)} or more"
                )

    def _names(self, split: str, total_bytes: int, records: int) -> list[str]:
        count = shard_count(
            total_bytes, records, shard_size=self.shard_size, num_shards=self.num_shards
        )
        return [str(ShardName(split, index, count, self.gzip)) for index in range(count)]
