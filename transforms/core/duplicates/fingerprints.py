"""Fingerprints of images: a content hash and a perceptual hash, small enough to shuffle.

Those of one shard are kept in its sidecar (`ShardIndex`), so that a reused shard
has its fingerprints. A packed `FingerprintBatch` crosses the shuffle: 37 bytes per image.
packed.
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

    def fingerprint_batches(self, file: str) -> Iterator[tuple[int, FingerprintBatch]]:
        """The fingerprints of all records, by bucket; nothing when nothing was compared."""
        if not self.contents:
            return
        rows = np.zeros(len(self.contents), _FINGERPRINT)
        halves = np.frombuffer(bytes.fromhex("".join(self.contents)), "<u8").reshape(-1, 2)
        rows["content"], rows["content2"] = halves[:, 0], halves[:, 1]
        rows["hash"] = [int(digits or "0", 16) for digits in self.perceptual_hashes]
        rows["has_hash"] = [bool(digits) for digits in self.perceptual_hashes]
        rows["classes"] = [_classes_hash(tuple(classes)) for classes in self.classes]
        rows["record"] = np.arange(len(rows))
        buckets = rows["content"] % BUCKETS
        for bucket in np.unique(buckets):
            yield int(bucket), FingerprintBatch(file, pack(rows[buckets == bucket]))


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
