"""Indexes of shards for tests, made of a few values for each record."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from transforms.core.records import PlannedImage
from transforms.images.check import CheckedImage, ImageInfo
from transforms.images.pixel_options import Original
from transforms.records.record_index import IndexRows

if TYPE_CHECKING:
    import pyarrow as pa


class IndexedImage(NamedTuple):
    """A record of an index.

    Attributes:
        key: its key.
        path: of its image.
        classes: its labels.
        content: hash of its image, 32 hexadecimal digits, or empty.
        perceptual_hash: of its pixels, or None.
    """

    key: str = "a"
    path: str = "a.jpg"
    classes: Sequence[str] = ("cat",)
    content: str = ""
    perceptual_hash: int | None = None


def index_of(images: Sequence[IndexedImage], shard: str) -> pa.Table:
    """The index of a shard whose images may have several labels."""
    rows = IndexRows()
    for image in images:
        cells = json.dumps([["a.csv:2", [[0, name] for name in image.classes], []]])
        planned = PlannedImage(0, image.key, image.path, 1, 1, "", 0, cells)
        rows.add(
            CheckedImage(
                b"",
                ImageInfo("jpeg", 30, 40, 3),
                Original(30, 40, 1),
                perceptual_hash=image.perceptual_hash,
                image=planned,
                content=image.content,
                stored_content=image.content,
            )
        )
        rows.lengths.append(7)
    return rows.table(shard, many_labels=True)
