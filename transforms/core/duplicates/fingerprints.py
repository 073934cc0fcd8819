"""Fingerprints of images: a content hash and a perceptual hash, small enough to shuffle.

Those of one shard are kept in its sidecar (`ShardIndex`), so that a reused shard
has its fingerprints. A packed `FingerprintBatch` crosses the shuffle. Of many images with the
same content in one shard, the first `MAX_IMAGES` cross it, and the number of the others.
"""

from __future__ import annotations

import base64
import dataclasses
import functools
import hashlib
import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import xxhash

from transforms.core.json_text import parse_json
from transforms.core.planning.shards import ShardName
from transforms.core.records import FingerprintBatch

# Number of groups in the shuffle; each has a share of all contents.
BUCKETS = 32

MANY_BUCKETS = 256
"""The same where each worker has its own memory: of 100 million images, a group is 25 MB."""

MAX_IMAGES = 20
"""Images of a group of exact duplicates that `statistics.json` lists."""

# The bytes of a TFRecord's frame: its length, the length's checksum, and the data's.
_FRAME_BYTES = 16

_FINGERPRINT = np.dtype(
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
_LEFT_OUT = np.dtype(
    [
        ("content", "<u8"),
        ("content2", "<u8"),
        ("classes", "<u8"),
        ("images", "<u4"),
        ("hashed", "<u4"),
    ]
)


def content_hash(data: bytes) -> str:
    """128 bits of a file's content, as 32 hexadecimal digits.

    XXH3, because SHA-256 would take 30 times as long and 5% of a conversion.
    """
    return xxhash.xxh3_128_hexdigest(data)


def md5_hash(data: bytes) -> str:
    """The MD5 of a file's content, as 32 hexadecimal digits: the hash that buckets store."""
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


@dataclasses.dataclass
class ShardIndex:
    """The records of one shard as columns, in order.

    Attributes:
        keys: join keys.
        paths: of the image files, below the root.
        classes: the classes that each record counts for.
        lengths: bytes of each record's data, without its frame.
        contents: `content_hash` of each file; None when nothing was compared.
        perceptual_hashes: of each image, 16 hexadecimal digits, or empty when it has none.
    """

    keys: list[str] = dataclasses.field(default_factory=list)
    paths: list[str] = dataclasses.field(default_factory=list)
    classes: list[list[str]] = dataclasses.field(default_factory=list)
    lengths: list[int] = dataclasses.field(default_factory=list)
    contents: list[str] | None = None
    perceptual_hashes: list[str] = dataclasses.field(default_factory=list)

    def to_text(self) -> str:
        """One line that `from_text` reads."""
        return json.dumps(vars(self), separators=(",", ":"))

    @classmethod
    def from_text(cls, text: str) -> ShardIndex | None:
        """Reads the result of `to_text`; None if it is truncated or damaged."""
        try:
            return cls(**parse_json(text))
        except (ValueError, TypeError):
            return None

    def describe(self, file: str, record: int) -> dict[str, Any]:
        """A record as `statistics.json` names it.

        Args:
            file: name of the shard.
            record: its number.
        """
        return {
            **described(self.keys[record], self.paths[record], self.classes[record]),
            "split": ShardName.parse(file).split,
            "file": file,
            "offset": sum(self.lengths[:record]) + _FRAME_BYTES * record,
            "length": self.lengths[record],
        }

    def fingerprint_batches(
        self, file: str, buckets: int = BUCKETS
    ) -> Iterator[tuple[int, FingerprintBatch]]:
        """The fingerprints of all records, by bucket; nothing when nothing was compared.

        Args:
            file: name of the shard.
            buckets: their number, a power of two.
        """
        if not self.contents:
            return
        rows = np.zeros(len(self.contents), _FINGERPRINT)
        halves = np.frombuffer(bytes.fromhex("".join(self.contents)), "<u8").reshape(-1, 2)
        rows["content"], rows["content2"] = halves[:, 0], halves[:, 1]
        rows["hash"] = [int(digits or "0", 16) for digits in self.perceptual_hashes]
        rows["has_hash"] = [bool(digits) for digits in self.perceptual_hashes]
        rows["classes"] = [_classes_hash(tuple(classes)) for classes in self.classes]
        rows["record"] = np.arange(len(rows))
        rows, left_out = _bounded(rows)
        rows = rows[np.argsort(rows["content"] % buckets, kind="stable")]
        numbers, starts = np.unique(rows["content"] % buckets, return_index=True)
        for number, part in zip(numbers, np.split(rows, starts[1:]), strict=True):
            others = left_out[left_out["content"] % buckets == number]
            yield int(number), FingerprintBatch(file, pack(part), pack(others))


def _bounded(rows: Any) -> tuple[Any, Any]:
    """The first `MAX_IMAGES` rows of each content, and the others as `_LEFT_OUT`.

    All fingerprints of an image that is in the dataset a million times are in one bucket.
    """
    order = np.lexsort((rows["content2"], rows["content"]))
    starts = content_starts(rows[order])
    sizes = np.diff(np.append(starts, len(rows)))
    is_large = sizes > MAX_IMAGES
    left_out = np.zeros(int(is_large.sum()), _LEFT_OUT)
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


def described(key: str, path: str, classes: Sequence[str]) -> dict[str, Any]:
    """An image as `statistics.json` names it, in a shard or not."""
    return {"key": key, "path": path, "class": ", ".join(classes)}


# Most datasets have far fewer sets of classes than images.
@functools.lru_cache(maxsize=1024)
def _classes_hash(classes: tuple[str, ...]) -> int:
    text = json.dumps(sorted(classes))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def unpack_batch(batch: FingerprintBatch) -> Any:
    """The rows of some fingerprints, as an array with named fields."""
    return unpack(batch.rows, _FINGERPRINT)


def unpack_left_out(batch: FingerprintBatch) -> Any:
    """Further images with the contents of these rows, as an array with a row for each content."""
    return unpack(batch.left_out, _LEFT_OUT)


def pack(rows: Any) -> str:
    """An array as text."""
    return base64.b64encode(rows.tobytes()).decode()


def unpack(text: str, dtype: Any) -> Any:
    """The array that `pack` packed."""
    return np.frombuffer(base64.b64decode(text), dtype)


@dataclasses.dataclass(frozen=True)
class Sidecar:
    """The sidecar of a staged shard: the line of its summary, and its index.

    Attributes:
        summary: the result of `ShardSummary.to_text`.
        index: of its records.
    """

    summary: str
    index: ShardIndex

    def to_text(self) -> str:
        """Lines that `from_text` reads: the last is a digest of the others."""
        lines = f"{self.summary}\n{self.index.to_text()}\n"
        return f"{lines}{content_hash(lines.encode())}\n"

    @classmethod
    def from_text(cls, text: str) -> Sidecar | None:
        """Reads the result of `to_text`; None if it is truncated or damaged."""
        lines = text.split("\n")
        sealed = text[: -len(lines[-2]) - 1] if len(lines) == 4 else ""
        if not sealed or content_hash(sealed.encode()) != lines[2]:
            return None
        index = ShardIndex.from_text(lines[1])
        return None if index is None else cls(lines[0], index)
