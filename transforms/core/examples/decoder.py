"""Serialized `tf.train.Example`s to arrays, through tfx-bsl, without TensorFlow."""

from __future__ import annotations

from typing import Any

from tfx_bsl.coders.example_coder import ExampleToNumpyDict


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
