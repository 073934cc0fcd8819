"""Images to serialized `tf.train.Example`s, in protobuf's wire format, without TensorFlow."""

from __future__ import annotations

import functools
import hashlib
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from transforms.core.features.feature_sources import EMBEDDING, IMAGE, PIXELS
from transforms.core.features.layouts import Feature
from transforms.core.images.checked_image import CheckedImage

# The value of a feature; an embedding is already packed.
VALUES: dict[str, Callable[[CheckedImage], bytes | int | float]] = {
    "image.bytes": lambda checked: checked.data,
    "image.format": lambda checked: checked.info.format.encode(),
    "image.height": lambda checked: checked.info.height,
    "image.width": lambda checked: checked.info.width,
    "image.channels": lambda checked: checked.info.channels,
    "image.path": lambda checked: checked.image.path.encode(),
    "image.key": lambda checked: checked.image.key.encode(),
    "image.sha256": lambda checked: hashlib.sha256(checked.data).hexdigest().encode(),
    PIXELS: lambda checked: checked.raw,
    EMBEDDING: lambda checked: checked.embedding,
    "label.id": lambda checked: checked.image.label_id,
    "label.text": lambda checked: checked.image.label.encode(),
}

# The field of `tf.train.Feature` that holds the list of each type.
_LISTS = {"bytes": 1, "float": 2, "int64": 3}


class ExampleEncoder:
    """Encodes images with the features of one layout.

    An Example is one field, `features`, whose map entries are `0A SIZE (0A NAME) (12 FEATURE)`
    (https://protobuf.dev/programming-guides/encoding/#maps). They are sorted by name, as in
    protobuf's deterministic serialization. An image, nearly all of its record, is copied once.
    """

    def __init__(self, features: Sequence[Feature]) -> None:
        in_order = sorted(features, key=lambda feature: feature.name)
        self._entries = [_entry_of(feature) for feature in in_order]
        self._images = [each.name for each in in_order if each.source == IMAGE]

    def encode(self, image: CheckedImage) -> bytes:
        """The serialized Example of an image.

        Raises:
            OverflowError: an integer has more than 64 bits.
        """
        parts = [part for entry in self._entries for part in entry(image)]
        return b"".join((_field_head(1, sum(map(len, parts))), *parts))

    def image_bytes(self, image: CheckedImage, length: int) -> int | None:
        """The bytes of the image file in an Example of which all else is known.

        Args:
            image: without its bytes.
            length: of the serialized Example.

        Returns:
            None if no image file, or not exactly one, gives an Example of this length.
        """
        if len(self._images) != 1:
            return None
        key, number = _field(1, self._images[0].encode()), _LISTS["bytes"]
        empty = sum(len(part) for entry in self._entries for part in entry(image))
        rest = empty - len(_head_of_one(key, number, 0))

        def other(size: int) -> int:
            """All bytes but those of an image of this size."""
            values = rest + len(_head_of_one(key, number, size))
            return len(_field_head(1, values + size)) + values

        # More bytes need longer lengths, so it is not smaller, and larger by a few bytes at most.
        least = length - other(length)
        most = length - other(max(0, least))
        sizes = range(max(1, least), most + 1)
        return next((size for size in sizes if size + other(size) == length), None)


def _entry_of(feature: Feature) -> Callable[[CheckedImage], tuple[bytes, bytes]]:
    """A function that returns a feature's map entry in two parts: the values, and what precedes."""
    name, dtype = feature.name, feature.dtype
    key, number, pack = _field(1, name.encode()), _LISTS[dtype], _PACKERS[dtype]
    value_of = VALUES.get(feature.source) or (lambda image: image.values[name])

    def entry_of_one(image: CheckedImage) -> tuple[bytes, bytes]:
        value = pack(value_of(image))
        return _head_of_one(key, number, len(value)), value

    def entry_of_many(image: CheckedImage) -> tuple[bytes, bytes]:
        values: Any = value_of(image)
        body = _list_body(values, dtype)
        return _entry_head(key, number, len(body)), body

    return entry_of_many if feature.holds_many else entry_of_one


def _list_body(values: Any, dtype: str) -> bytes:
    """The fields of a list of values; numbers are packed into one field, or none if it is empty."""
    if dtype == "bytes":
        return b"".join(_field(1, value) for value in values)
    if dtype == "int64":
        packed = b"".join(map(_varint, values))
    else:
        packed = values if isinstance(values, bytes) else np.array(values, "<f4").tobytes()
    return _field(1, packed) if packed else b""


def _float(value: float | bytes) -> bytes:
    return value if isinstance(value, bytes) else _FLOAT.pack(value)


def _varint(value: int) -> bytes:
    """The base-128 bytes of an integer: of its two's complement in 64 bits, if it is negative."""
    if 0 <= value < 0x80:
        return _ONE_BYTE[value]
    if not -(2**63) <= value < 2**63:
        raise OverflowError(f"{value} has more than 64 bits")
    value &= 2**64 - 1
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


_FLOAT = struct.Struct("<f")
_ONE_BYTE = [bytes([value]) for value in range(0x80)]
_PACKERS: dict[str, Callable[[Any], bytes]] = {"bytes": bytes, "int64": _varint, "float": _float}


def _entry_head(key: bytes, number: int, size: int) -> bytes:
    """The map entry of a feature, up to its list, which is field `number` and has `size` bytes."""
    values = _field_head(number, size)
    feature = _field_head(2, len(values) + size)
    return _field_head(1, len(key) + len(feature) + len(values) + size) + key + feature + values


@functools.lru_cache(maxsize=4096)
def _head_of_one(key: bytes, number: int, size: int) -> bytes:
    """The map entry of a feature, up to its only value, which has `size` bytes."""
    head = _field_head(1, size)
    return _entry_head(key, number, len(head) + size) + head


def _field(number: int, value: bytes) -> bytes:
    return _field_head(number, len(value)) + value


def _field_head(number: int, length: int) -> bytes:
    """Tag and length of a field that is length-delimited."""
    return bytes([number << 3 | 2]) + _varint(length)
