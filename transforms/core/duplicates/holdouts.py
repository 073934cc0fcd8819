"""Datasets of `--holdout`, none of whose images may be in the new one.

Their fingerprints are compared with those of the new images as if they were shards of further
splits. A shard of the first holdout is `0:test-00000-of-00001.tfrecord`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from transforms.core.planning.shards import ShardName
from transforms.core.records import LabelledImage

_BETWEEN = ":"


class Holdout(NamedTuple):
    """A dataset, or one of its splits, that is held out.

    Attributes:
        folder: of the dataset.
        split: the split; empty for all.
        digest: of its manifest; another one ends the run.
        records: their number.
        has_sizes: whether its index has the sizes of all originals; not if some of its images were
            records of a dataset that had changed them.
    """

    folder: str
    split: str
    digest: str
    records: int
    has_sizes: bool = True


def held_file(number: int, file: str) -> str:
    """The name of a shard of a holdout among those of the new dataset.

    >>> held_file(0, "test-00000-of-00001.tfrecord")
    '0:test-00000-of-00001.tfrecord'
    """
    return f"{number}{_BETWEEN}{file}"


def holdout_of(file: str) -> tuple[int, str] | None:
    """The number of the holdout that a shard is of, and the shard's name there; None for a new one.

    >>> holdout_of("1:test-00000-of-00001.tfrecord"), holdout_of("test-00000-of-00001.tfrecord")
    ((1, 'test-00000-of-00001.tfrecord'), None)
    """
    number, colon, name = file.rpartition(_BETWEEN)
    return (int(number), name) if colon else None


def is_held(file: str) -> bool:
    """Whether a shard is one of a holdout."""
    return _BETWEEN in file


def split_of(file: str) -> str:
    """The split of a shard; each split of each holdout is one of its own."""
    holdout, colon, name = file.rpartition(_BETWEEN)
    return holdout + colon + ShardName.parse(name).split


def held_image(
    folder: str, row: Mapping[str, Any], content: bytes, classes: list[str]
) -> LabelledImage:
    """An image of a holdout next to those of the run; it is in no split.

    Args:
        folder: of the holdout.
        row: of its index.
        content: the hash of its original.
        classes: its labels.
    """
    stored = json.dumps([folder, row["split"], content.hex()])
    label = ", ".join(classes)
    place = (row["key"], row["path"], row["size"] or 0)
    return LabelledImage("", row["record"], *place, 0, label, 0, stored=stored)


def is_held_image(image: LabelledImage) -> bool:
    """Whether an image is one of a holdout."""
    return not image.split


def held_place(image: LabelledImage) -> tuple[str, str, str]:
    """The folder, the split and the content hash of an image of a holdout."""
    folder, split, content = json.loads(image.stored)
    return folder, split, content
