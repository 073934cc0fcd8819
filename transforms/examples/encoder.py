"""Encodes Examples."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from transforms.core.messages import LabelsError
from transforms.core.rejections import Reason, RejectedImageError
from transforms.examples.layouts import (
    COLUMN,
    EMBEDDING,
    IMAGE,
    PIXELS,
    Feature,
    Role,
    stores_pixels,
)
from transforms.images.check import checked_header, unchanged_image
from transforms.images.checked_images import CheckedImage
from transforms.images.pixel_options import AS_THEY_ARE, Limits, PixelOptions
from transforms.images.tags import orientation_tag, strip_metadata
from transforms.labels.label_rows import column_finder

# Decodes one image file in one call: the stored image, its pixels and a model's input.
#
# A pure function of bytes and options, so that it can be called in another process.


@dataclasses.dataclass(frozen=True)
class Decoding:
    """What to decode from each image.

    Attributes:
        features: of the Examples.
        limits: bytes and pixels an image may have.
        check: `full` or `header`.
        pixels: the changes to the pixels.
        with_hash: whether to hash the pixels that are decoded.
        model_shape: height, width and channels of a model's input, or None without a model.
    """

    features: tuple[Feature, ...]
    limits: Limits
    check: str
    pixels: PixelOptions = AS_THEY_ARE
    with_hash: bool = False
    model_shape: tuple[int, int, int] | None = None

    # Cached, because each image asks for both.
    @functools.cached_property
    def stores_pixels(self) -> bool:
        """Whether decoded pixels are stored."""
        return stores_pixels(self.features)

    @functools.cached_property
    def stores_files(self) -> bool:
        """Whether image files are stored, which they are unless pixels are."""
        roles = {feature.role for feature in self.features}
        return Role.IMAGE in roles or Role.PIXELS not in roles

    @functools.cached_property
    def needs_pixels(self) -> bool:
        """Whether the pixels of a stored file are needed."""
        return self.stores_pixels or self.model_shape is not None

    @functools.cached_property
    def changes_nothing(self) -> bool:
        """Whether files are stored as they are; their records then have the orientation's tag."""
        return self.stores_files and self.pixels.changes_nothing


def decode_image(data: bytes, decoding: Decoding) -> CheckedImage:
    """Decodes a file; the rest of the record is empty.

    Args:
        data: the file, whole.
        decoding: what to decode.

    Raises:
        RejectedImageError: see `check_image`, `change_pixels`, `raw_pixels` and `input_pixels`;
            with reason `BAD_SHAPE` when its pixels are not of the shape of their feature.
    """
    # What is checked is what is stored.
    file = _stripped(data, decoding.limits) if decoding.pixels.strip_metadata else data
    stored = _stored(file, decoding)
    return add_pixels(stored, decoding) if decoding.needs_pixels else stored


def add_pixels(stored: CheckedImage, decoding: Decoding) -> CheckedImage:
    """Adds the pixels of a stored image, and a model's input.

    Args:
        stored: the image file as it is stored, or its pixels if no files are stored.
        decoding: what to decode.

    Raises:
        RejectedImageError: see `decode_image`.
    """
    if decoding.stores_pixels:
        shape, shown = stored.info[1:], stored
        for feature in decoding.features:
            if feature.source == PIXELS and feature.shape not in ((), shape):
                wanted = f"{feature.name!r} has shape {list(feature.shape or ())}"
                raise RejectedImageError(Reason.BAD_SHAPE, f"{list(shape)}, but {wanted}")
        if decoding.stores_files:
            from transforms.images.pixels import raw_pixels

            shown = raw_pixels(stored.data, AS_THEY_ARE, limits=decoding.limits)
        stored = stored._replace(raw=shown.data)
    if decoding.model_shape is not None:
        from transforms.images.embeddings import input_pixels

        pixels = input_pixels(stored.data, stored.info.format, decoding.model_shape)
        stored = stored._replace(model_pixels=pixels)
    return stored


def _stripped(data: bytes, limits: Limits) -> bytes:
    try:
        header = checked_header(data, limits)
    except RejectedImageError:
        # It is rejected, or converted, which leaves all metadata out.
        return data
    return strip_metadata(data, header.format, orientation_tag(data, header.format))


def _stored(data: bytes, decoding: Decoding) -> CheckedImage:
    pixels, limits = decoding.pixels, decoding.limits
    if not decoding.stores_files:
        # Skips encoding an image only to decode it again.
        from transforms.images.pixels import raw_pixels

        return raw_pixels(data, pixels, limits=limits)
    if decoding.changes_nothing:
        header = checked_header(data, limits)
        return unchanged_image(data, header, (), mode=decoding.check, with_hash=decoding.with_hash)
    # This imports Pillow, which other runs do not need.
    from transforms.images.pixels import change_pixels

    return change_pixels(
        data, pixels, limits=limits, check=decoding.check, with_hash=decoding.with_hash
    )


# Images to serialized `tf.train.Example`s, in protobuf's wire format, without TensorFlow.

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
        key, number = length_delimited(1, self._images[0].encode()), _LISTS["bytes"]
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
    key, number, pack = length_delimited(1, name.encode()), _LISTS[dtype], _PACKERS[dtype]
    value_of = VALUES.get(feature.source) or (lambda image: image.values[name])
    # One cache for all features would hold none of a table of more columns than it has entries.
    # Small images have hundreds of lengths.
    head_of_one = functools.lru_cache(1024)(functools.partial(_head_of_one, key, number))

    def entry_of_one(image: CheckedImage) -> tuple[bytes, bytes]:
        value = pack(value_of(image))
        return head_of_one(len(value)), value

    def entry_of_many(image: CheckedImage) -> tuple[bytes, bytes]:
        values: Any = value_of(image)
        body = _list_body(values, dtype)
        return _entry_head(key, number, len(body)), body

    return entry_of_many if feature.holds_many else entry_of_one


def _list_body(values: Any, dtype: str) -> bytes:
    """The fields of a list of values; numbers are packed into one field, or none if it is empty."""
    if dtype == "bytes":
        return b"".join(length_delimited(1, value) for value in values)
    if dtype == "int64":
        packed = b"".join(map(_varint, values))
    else:
        packed = values if isinstance(values, bytes) else np.array(values, "<f4").tobytes()
    return length_delimited(1, packed) if packed else b""


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


def _head_of_one(key: bytes, number: int, size: int) -> bytes:
    """The map entry of a feature, up to its only value, which has `size` bytes."""
    head = _field_head(1, size)
    return _entry_head(key, number, len(head) + size) + head


def length_delimited(number: int, value: bytes) -> bytes:
    """A field of a message of protobuf whose value is bytes, a text or a message."""
    return _field_head(number, len(value)) + value


def _field_head(number: int, length: int) -> bytes:
    """Tag and length of a field that is length-delimited."""
    return bytes([number << 3 | 2]) + _varint(length)


# Rows that become records: a CSV without images.

# Approximate overhead in bytes: of TFRecord per Example, and of an Example per feature.
_RECORD_BYTES = 20
_FEATURE_BYTES = 10

MAX_COLUMNS = 10_000
"""The most columns of a table that become features: each takes 0.3 ms of a run, without any row."""

# Of a column, in characters: it is printed, and in the manifest.
_MAX_NAME = 256


def table_features(header: Sequence[str], but: str | None, *, path: str) -> tuple[Feature, ...]:
    """A feature for each column, with the type still open.

    Args:
        header: the names of the columns.
        but: a column to leave out, or None.
        path: the name of the file for messages.

    Raises:
        LabelsError: a column has no name, one that is too long, or the same name as another.
    """
    if len(header) > MAX_COLUMNS:
        raise LabelsError(
            f"{path} has {len(header)} columns, more than {MAX_COLUMNS}: name those that you need "
            "in a layout of your own (docs/layouts.md)"
        )
    find = column_finder(header, path=path)
    for at, name in enumerate(header, 1):
        if not 0 < len(name) <= _MAX_NAME:
            problem = f"has {len(name)} characters in its name" if name else "has no name"
            raise LabelsError(
                f"{path}: column {at} {problem}: give it 1 to {_MAX_NAME} in the first line, or "
                "leave it out with a layout of your own (docs/layouts.md)"
            )
        find(name)  # raises if it is repeated
    names = (name for name in header if name != but)
    return tuple(Feature(name, COLUMN + name, "") for name in names)


def row_bytes(features: Iterable[Feature]) -> int:
    """The approximate size of a record without the text of its cells, in bytes."""
    return _RECORD_BYTES + sum(len(f.name.encode()) + _FEATURE_BYTES for f in features)
