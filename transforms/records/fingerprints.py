"""Fingerprints of images: a content hash and a perceptual hash, small enough to shuffle.

Those of one shard are kept in its index (`record_index`), so that a shard that exists has its
fingerprints. A packed `FingerprintBatch` crosses the shuffle. Of many images with the same content
in one shard, the first `MAX_IMAGES` cross it, and the number of the others.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from transforms.core.records import FingerprintBatch
from transforms.records.record_index import class_lists, source_contents

if TYPE_CHECKING:
    import pyarrow as pa

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
    ]
)

# Images with one content in one shard whose fingerprints are left out: the classes of one of
# them, their number, and how many of them have a perceptual hash.
LEFT_OUT = np.dtype(
    [
        ("content", "<u8"),
        ("content2", "<u8"),
        ("classes", "<u8"),
        ("images", "<u4"),
        ("hashed", "<u4"),
    ]
)


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
    rows["record"] = np.arange(len(rows))
    rows, left_out = _bounded(rows)
    rows = rows[np.argsort(rows["content"] % buckets, kind="stable")]
    numbers, starts = np.unique(rows["content"] % buckets, return_index=True)
    for number, part in zip(numbers, np.split(rows, starts[1:]), strict=True):
        others = left_out[left_out["content"] % buckets == number]
        yield int(number), FingerprintBatch(file, part.tobytes(), others.tobytes())


def has_fingerprints(index: pa.Table) -> bool:
    """Whether all records of a shard have the hash of their file; False if there is no record."""
    return bool(index.num_rows) and not index.column("content").null_count


def _bounded(rows: Any) -> tuple[Any, Any]:
    """The first `MAX_IMAGES` rows of each content, and the others as `LEFT_OUT`.

    All fingerprints of an image that is in the dataset a million times are in one bucket.
    """
    order = np.lexsort((rows["content2"], rows["content"]))
    starts = content_starts(rows[order])
    sizes = np.diff(np.append(starts, len(rows)))
    is_large = sizes > MAX_IMAGES
    left_out = np.zeros(int(is_large.sum()), LEFT_OUT)
    if not len(left_out):
        return rows, left_out
    for at, (start, size) in enumerate(zip(starts[is_large], sizes[is_large], strict=True)):
        others = rows[order[start + MAX_IMAGES : start + size]]
        # Other classes than those of the first image make it a conflict.
        differs = others["classes"] != rows["classes"][order[start]]
        shown = others[int(differs.argmax())]
        counts = len(others), int(others["has_hash"].sum())
        left_out[at] = (shown["content"], shown["content2"], shown["classes"], *counts)
    rank = np.arange(len(rows)) - np.repeat(starts, sizes)
    return rows[np.sort(order[rank < MAX_IMAGES])], left_out


def content_starts(rows: Any) -> Any:
    """The positions in rows, sorted by content, at which each content begins."""
    same = (rows["content"][1:] == rows["content"][:-1]) & (
        rows["content2"][1:] == rows["content2"][:-1]
    )
    return np.flatnonzero(np.concatenate(([True], ~same)))


def differ_within(values: Any, starts: Any) -> list[bool]:
    """Whether the values of each group differ; a group ends where the next one starts."""
    differ: list[bool] = (
        np.maximum.reduceat(values, starts) > np.minimum.reduceat(values, starts)
    ).tolist()
    return differ


def described(key: str, path: str, classes: Sequence[str]) -> dict[str, Any]:
    """An image as `statistics.json` names it, in a shard or not."""
    return {"key": key, "path": path, "class": ", ".join(classes)}


# Most datasets have far fewer sets of classes than images.
@functools.lru_cache(maxsize=1024)
def _classes_hash(classes: tuple[str, ...]) -> int:
    text = json.dumps(sorted(classes))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")
