"""Images to serialized `tf.train.Example`s, through Arrow and tfx-bsl, without TensorFlow."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from tfx_bsl.coders.example_coder import ExampleToNumpyDict, RecordBatchToExamplesEncoder

from transforms.core.features.layouts import EMBEDDING, PIXELS, Feature
from transforms.core.images.check import ImageInfo
from transforms.core.images.pixel_options import Original
from transforms.core.records import ShardImage


class CheckedImage(NamedTuple):
    """An image that may land in a shard.

    Attributes:
        image: its plan.
        data: the bytes to store.
        info: what they hold.
        original: what the file held.
        changes: what was done to its pixels, names from `pixel_options.CHANGES`.
        values: of the features that nothing else here fills, by name; a list for a list.
        pixels: float32 `[height, width, channels]` for a model that has not seen it yet.
        embedding: the model's output as it is stored, see `embeddings.stored_embedding`.
        raw: what is decoded, for a layout that asks for it: see `pixels.raw_pixels`.
        orientation: of the file's EXIF tag, 1 to 8; 0 when it has none.
        content: `content_hash` of the file; empty when nothing is compared.
        look: of the pixels, see `looks`; None when it is unknown.
    """

    image: ShardImage
    data: bytes
    info: ImageInfo
    original: Original
    changes: tuple[str, ...] = ()
    values: Mapping[str, Any] = MappingProxyType({})
    pixels: Any = None
    embedding: bytes = b""
    raw: bytes = b""
    orientation: int = 0
    content: str = ""
    look: int | None = None


# What is spliced into a record, not encoded: it is nearly all of it.
_LARGE: dict[str, Callable[[CheckedImage], bytes]] = {
    "image.bytes": lambda checked: checked.data,
    EMBEDDING: lambda checked: checked.embedding,
    PIXELS: lambda checked: checked.raw,
}

# The field of `tf.train.Feature` that a large value is in.
_LISTS = {"bytes": 1, "float": 2}

_NO_FEATURES = b"\x0a\x00"

_SOURCES: dict[str, Callable[[CheckedImage], bytes | int]] = {
    "image.format": lambda checked: checked.info.format.encode(),
    "image.height": lambda checked: checked.info.height,
    "image.width": lambda checked: checked.info.width,
    "image.channels": lambda checked: checked.info.channels,
    "image.path": lambda checked: checked.image.path.encode(),
    "image.key": lambda checked: checked.image.key.encode(),
    "image.sha256": lambda checked: hashlib.sha256(checked.data).hexdigest().encode(),
    "label.id": lambda checked: checked.image.label_id,
    "label.text": lambda checked: checked.image.label.encode(),
}


class ExampleEncoder:
    """Encodes batches of images with the features of one layout.

    The bytes are those of protobuf's deterministic serialization: features sorted by name. Arrow
    and tfx-bsl encode all features but the image's bytes, pixels and embedding. These are put in at
    their place: they are nearly all of a record, and so are copied once and not five times.
    """

    def __init__(self, features: Sequence[Feature]) -> None:
        self._large = [f for f in features if f.source in _LARGE]
        self._small = [f for f in features if f.source not in _LARGE]
        self._encoder = RecordBatchToExamplesEncoder()

    def encode(self, images: Sequence[CheckedImage]) -> list[bytes]:
        """Serialized Examples, one for each image, in their order."""
        return [
            sort_features(example, [_large_value(feature, image) for feature in self._large])
            for example, image in zip(self._encode_small(images), images, strict=True)
        ]

    def _encode_small(self, images: Sequence[CheckedImage]) -> Sequence[bytes]:
        if not self._small:
            return [_NO_FEATURES] * len(images)
        offsets = _int64_array(range(len(images) + 1))
        columns = [
            _lists(feature, images)
            if feature.holds_many
            else pa.LargeListArray.from_arrays(offsets, self._values(feature, images))
            for feature in self._small
        ]
        batch = pa.RecordBatch.from_arrays(columns, names=[f.name for f in self._small])
        examples: Sequence[bytes] = self._encoder.encode(batch)
        return examples

    @staticmethod
    def _values(feature: Feature, images: Sequence[CheckedImage]) -> Any:
        source = _SOURCES.get(feature.source)
        values: list[Any] = [
            source(image) if source else image.values[feature.name] for image in images
        ]
        return _ARRAYS[feature.dtype](values)


def _large_value(feature: Feature, image: CheckedImage) -> tuple[bytes, bytes, int]:
    return feature.name.encode(), _LARGE[feature.source](image), _LISTS[feature.dtype]


def _lists(feature: Feature, images: Sequence[CheckedImage]) -> Any:
    """The column of a feature that has a list of values in each image."""
    lists = [image.values[feature.name] for image in images]
    ends = np.cumsum([0, *map(len, lists)], dtype=np.int64)
    values = [value for each in lists for value in each]
    return pa.LargeListArray.from_arrays(_int64_array(ends), _ARRAYS[feature.dtype](values))


# `pa.array` imports pandas, which takes 0.3 s and 25 MB, to see whether a list is a Series.
def _int64_array(values: Any) -> Any:
    buffer = pa.py_buffer(np.array(values, np.int64))
    return pa.Array.from_buffers(pa.int64(), len(values), [None, buffer])


def _float_array(values: Sequence[float]) -> Any:
    buffer = pa.py_buffer(np.array(values, np.float32))
    return pa.Array.from_buffers(pa.float32(), len(values), [None, buffer])


def _bytes_array(values: Sequence[bytes]) -> Any:
    ends = np.cumsum([0, *map(len, values)], dtype=np.int64)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(b"".join(values))]
    return pa.Array.from_buffers(pa.large_binary(), len(values), buffers)


_ARRAYS: dict[str, Callable[[Sequence[Any]], Any]] = {
    "bytes": _bytes_array,
    "int64": _int64_array,
    "float": _float_array,
}


def sort_features(example: bytes, large: Sequence[tuple[bytes, bytes, int]] = ()) -> bytes:
    """The same serialized Example with its features sorted by name, and more features.

    tfx-bsl writes the feature map in the order of a hash table that is seeded anew for every
    Example, so equal Examples get different bytes. An Example is one field, `features`, whose
    map entries are `0A LENGTH (0A NAME_LENGTH NAME ...)`; only the entries are moved
    (https://protobuf.dev/programming-guides/encoding/#maps).

    Args:
        example: a serialized Example whose field `features` is set.
        large: name, value and list of features to be added. The list is 1 for a feature of one
            bytes value, 2 for one of floats, whose value is these packed (little endian).
    """
    _, start = _read_varint(example, 1)
    entries = [(_entry_name(entry), entry, b"") for entry in _map_entries(example, start)]
    entries += [
        (name, _large_entry_head(name, len(value), list_), value) for name, value, list_ in large
    ]
    parts = [part for _, head, value in sorted(entries) for part in (head, value)]
    return b"".join([_field_head(1, sum(map(len, parts))), *parts])


def decode_example(example: bytes) -> dict[str, Any]:
    """The features of a serialized Example.

    Returns:
        name to a numpy array of one dimension: `object` (bytes), `int64` or `float32`.

    Raises:
        ValueError: when the bytes are no Example.
    """
    # The decoder skips what it does not know, and finds an Example without features in much.
    if example[:1] == b"\x12" or _tag_after_first_field(example) == 0x12:
        raise ValueError("it is a tf.train.SequenceExample, not a tf.train.Example")
    try:
        return dict(ExampleToNumpyDict(example))
    except (RuntimeError, ValueError) as error:
        raise ValueError("its bytes are no tf.train.Example") from error


def _tag_after_first_field(example: bytes) -> int:
    """The tag after the field `features`, or 0 where the record ends with it."""
    try:
        length, body = _read_varint(example, 1)
        return example[body + length]
    except IndexError:
        return 0


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


def _large_entry_head(name: bytes, size: int, list_: int) -> bytes:
    """The map entry of a feature that holds one value of `size` bytes, up to that value."""
    value = _field_head(1, size)
    values = _field_head(list_, len(value) + size) + value
    feature = _field_head(2, len(values) + size) + values
    key = _field_head(1, len(name)) + name
    return _field_head(1, len(key) + len(feature) + size) + key + feature


def _field_head(number: int, length: int) -> bytes:
    """Tag and length of a field that is length-delimited."""
    head = bytearray([number << 3 | 2])
    while length >= 0x80:
        head.append(length & 0x7F | 0x80)
        length >>= 7
    head.append(length)
    return bytes(head)


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
