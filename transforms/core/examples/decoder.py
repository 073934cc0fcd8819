"""Serialized `tf.train.Example`s to arrays, through tfx-bsl, without TensorFlow."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from tfx_bsl.coders.example_coder import ExampleToNumpyDict

# Tags of length-delimited fields: number 1, and number 2, the feature in an entry of the map.
_FIRST, _VALUE = 0x0A, 0x12


def decode_example(example: bytes) -> dict[str, Any]:
    """The features of a serialized Example.

    Returns:
        name to a numpy array of one dimension: `object` (bytes), `int64` or `float32`.

    Raises:
        ValueError: the bytes are not an Example.
    """
    # The decoder skips unknown fields, so it takes many inputs for an Example without features.
    if example[:1] == b"\x12" or _tag_after_first_field(example) == 0x12:
        raise ValueError("it is a tf.train.SequenceExample, not a tf.train.Example")
    try:
        return dict(ExampleToNumpyDict(example))
    except (RuntimeError, ValueError) as error:
        raise ValueError("its bytes are not a tf.train.Example") from error


def only_bytes(example: bytes, name: str) -> bytes:
    """The value of a feature that holds one value of bytes, in an Example of `ExampleEncoder`.

    Nothing else is decoded or checked: `decode_example` takes three times as long for a photo.

    Raises:
        ValueError: the bytes are no such Example, or it has no such feature.
    """
    wanted = name.encode()
    try:
        position, end = _field(example, 0)
        while position < end:
            entry, position = _field(example, position)
            key, key_end = _field(example, entry)
            if example[key:key_end] == wanted:
                if (value := _only_value(example, key_end, position)) is not None:
                    return value
                break
    except IndexError as error:
        raise ValueError("its bytes are not a tf.train.Example") from error
    raise ValueError(f"it has no single value of {name!r}")


class SingleValues:
    """Reads Examples of `ExampleEncoder` in which each feature has one value.

    Faster than `decode_example`, which copies an image twice: threads that share Python's lock
    read a tenth more records a second.
    """

    def __init__(self, dtypes: Mapping[str, str]) -> None:
        """Sets what to read.

        Args:
            dtypes: type of each feature by its name: `bytes`, `int64` or `float`.
        """
        self._features = {name.encode(): (name, *_SINGLE[dtypes[name]]) for name in dtypes}

    def read(self, example: bytes) -> dict[str, Any] | None:
        """The values by name: `bytes`, `numpy.int64` or `numpy.float32`.

        None for all other bytes: `decode_example` says what they are.
        """
        found: dict[str, Any] = {}
        try:
            position, end = _field(example, 0)
            while position < end:
                entry, position = _field(example, position)
                key, key_end = _field(example, entry)
                name, tag, value_of = self._features[example[key:key_end]]
                value = _only_value(example, key_end, position, tag)
                if value is None or name in found:
                    return None
                found[name] = value_of(value)
        except (IndexError, KeyError, ValueError):
            return None
        is_whole = position == end == len(example) and len(found) == len(self._features)
        return found if is_whole else None


def _only_value(example: bytes, start: int, end: int, tag: int = _FIRST) -> bytes | None:
    """The bytes of the only value of a feature, whose list has a tag; None if there is not one.

    The feature, its list and the value end where its entry does.
    """
    feature, feature_end = _field(example, start, _VALUE)
    values, list_end = _field(example, feature, tag)
    value, value_end = _field(example, values)
    return example[value:end] if feature_end == list_end == value_end == end else None


def _field(example: bytes, position: int, tag: int = _FIRST) -> tuple[int, int]:
    """The first byte of a length-delimited field, after its length, and the first one after it."""
    if example[position] != tag:
        raise ValueError("its bytes are not a tf.train.Example")
    length = example[position + 1]
    if length < 0x80:
        return position + 2, position + 2 + length
    length, start = _read_varint(example, position + 1)
    return start, start + length


def _int64(data: bytes) -> np.int64:
    """A packed list of one integer: base-128 bytes of its two's complement in 64 bits."""
    value, end = _read_varint(data, 0)
    if end != len(data) or value >= 2**64:
        raise ValueError("it is not one integer")
    return np.int64(value if value < 2**63 else value - 2**64)


def _float32(data: bytes) -> np.float32:
    if len(data) != _FLOAT.size:
        raise ValueError("it is not one number")
    return np.float32(_FLOAT.unpack(data)[0])


_FLOAT = struct.Struct("<f")

# The tag of the list of each type in a feature, and what reads the only value in it.
_SINGLE: Mapping[str, tuple[int, Callable[[bytes], Any]]] = {
    "bytes": (0x0A, bytes),
    "float": (0x12, _float32),
    "int64": (0x1A, _int64),
}


def _tag_after_first_field(example: bytes) -> int:
    """The tag after the field `features`, or 0 if the record ends with it."""
    try:
        length, body = _read_varint(example, 1)
        return example[body + length]
    except IndexError:
        return 0


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
    """The base-128 number at `position`, and the position after it."""
    value = shift = 0
    while True:
        byte = data[position]
        value |= (byte & 0x7F) << shift
        position += 1
        if byte < 0x80:
            return value, position
        shift += 7
