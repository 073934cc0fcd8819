"""Indexes of shards for tests, made of a few values for each record."""

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa

from transforms.core.records import PlannedImage
from transforms.images.checked_images import CheckedImage, ImageInfo, Seen
from transforms.images.pixel_options import Original
from transforms.records.record_index import IndexRows


class IndexedImage(NamedTuple):
    """A record of an index; `content` is 32 hexadecimal digits, or empty."""

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
                seen=Seen(image.perceptual_hash),
                image=planned,
                content=image.content,
                stored_content=image.content,
            )
        )
        rows.lengths.append(7)
    return rows.table(shard, many_labels=True)


def with_footer(data: bytes, numbers: Mapping[int, int]) -> bytes:
    """A Parquet file whose footer says other numbers than it should, none of them larger."""
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    footer = data[start:]
    for number, other in numbers.items():
        size = -(-(2 * number).bit_length() // 7)
        assert _varint(2 * number, size) in footer
        footer = footer.replace(_varint(2 * number, size), _varint(2 * other, size))
    return data[:start] + footer


def _varint(value: int, size: int) -> bytes:
    return bytes(value >> 7 * at & 0x7F | (at < size - 1) << 7 for at in range(size))


@contextlib.contextmanager
def small_memory(most: int) -> Iterator[None]:
    """Checks that Arrow does not take more than `most` bytes."""
    before, pool = pa.default_memory_pool(), pa.proxy_memory_pool(pa.default_memory_pool())
    pa.set_memory_pool(pool)
    try:
        yield
    finally:
        pa.set_memory_pool(before)
    assert (pool.max_memory() or 0) < most
