"""Images to serialized `tf.train.Example`s, through Arrow and tfx-bsl, without TensorFlow."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
from tfx_bsl.coders.example_coder import ExampleToNumpyDict, RecordBatchToExamplesEncoder

from transforms.core.check import ImageInfo
from transforms.core.layouts import Feature
from transforms.core.records import ShardImage


class CheckedImage(NamedTuple):
    """An image that may land in a shard: its plan, its bytes as read, and what they hold."""

    image: ShardImage
    data: bytes
    info: ImageInfo


_SOURCES: dict[str, Callable[[CheckedImage], bytes | int]] = {
    "image.bytes": lambda checked: checked.data,
    "image.format": lambda checked: checked.info.format.encode(),
    "image.height": lambda checked: checked.info.height,
    "image.width": lambda checked: checked.info.width,
    "image.channels": lambda checked: checked.info.channels,
    "image.path": lambda checked: checked.image.path.encode(),
    "image.key": lambda checked: checked.image.key.encode(),
    "label.id": lambda checked: checked.image.label_id,
    "label.text": lambda checked: checked.image.label.encode(),
}

_ARROW_TYPES = {"bytes": pa.large_binary(), "int64": pa.int64()}


class ExampleEncoder:
    """Encodes batches of images with the features of one layout.

    The bytes are those of protobuf's deterministic serialization: features sorted by name.
    """

    def __init__(self, features: Sequence[Feature]) -> None:
        self._features = tuple(features)
        self._encoder = RecordBatchToExamplesEncoder()

    def encode(self, images: Sequence[CheckedImage]) -> list[bytes]:
        """Serialized Examples, one for each image, in their order."""
        offsets = pa.array(range(len(images) + 1), type=pa.int64())
        columns = [
            pa.LargeListArray.from_arrays(offsets, self._values(feature, images))
            for feature in self._features
        ]
        batch = pa.RecordBatch.from_arrays(columns, names=[f.name for f in self._features])
        return [sort_features(example) for example in self._encoder.encode(batch)]

    @staticmethod
    def _values(feature: Feature, images: Sequence[CheckedImage]) -> Any:
        source = _SOURCES[feature.source]
        return pa.array([source(image) for image in images], type=_ARROW_TYPES[feature.dtype])


def sort_features(example: bytes) -> bytes:
    """The same serialized Example with its features sorted by name.

    tfx-bsl writes the feature map in the order of a hash table that is seeded anew for every
    Example, so equal Examples get different bytes. An Example is one field, `features`, whose
    map entries are `0A LENGTH (0A NAME_LENGTH NAME ...)`; only the entries are moved
    (https://protobuf.dev/programming-guides/encoding/#maps).

    Args:
        example: a serialized Example with at least one feature.
    """
    _, start = _read_varint(example, 1)
    entries = sorted(_map_entries(example, start), key=_entry_name)
    return b"".join([example[:start], *entries])


def decode_example(example: bytes) -> dict[str, Any]:
    """The features of a serialized Example.

    Returns:
        name to a numpy array of one dimension: `object` (bytes), `int64` or `float32`.

    Raises:
        ValueError: when the bytes are no Example.
    """
    try:
        return dict(ExampleToNumpyDict(example))
    except (RuntimeError, ValueError) as error:
        raise ValueError("its bytes are no tf.train.Example") from error


def _map_entries(example: bytes, start: int) -> Iterator[bytes]:
    """Every entry with its tag and length."""
    while start < len(example):
        length, body = _read_varint(example, start + 1)
        end = body + length
        yield example[start:end]
        start = end


def _entry_name(entry: bytes) -> bytes:
    _, body = _read_varint(entry, 1)
    length, name = _read_varint(entry, body + 1)
    return entry[name : name + length]


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
