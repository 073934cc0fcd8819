"""Serialized `tf.train.Example`s to arrays, through tfx-bsl, without TensorFlow."""

from __future__ import annotations

from typing import Any

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
                # The feature, its list and the only value of it end with the entry.
                feature, feature_end = _field(example, key_end, tag=_VALUE)
                values, list_end = _field(example, feature)
                value, value_end = _field(example, values)
                if feature_end == list_end == value_end == position:
                    return example[value:position]
                break
    except IndexError as error:
        raise ValueError("its bytes are not a tf.train.Example") from error
    raise ValueError(f"it has no single value of {name!r}")


def _field(example: bytes, position: int, *, tag: int = _FIRST) -> tuple[int, int]:
    """The first byte of a length-delimited field, after its length, and the first one after it."""
    if example[position] != tag:
        raise ValueError("its bytes are not a tf.train.Example")
    length, start = _read_varint(example, position + 1)
    return start, start + length


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
