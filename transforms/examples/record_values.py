"""Values of a record for people and for programs."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from transforms.core.rejections import RejectedImageError
from transforms.examples.decoder import decode_example
from transforms.examples.layouts import (
    COLUMN,
    RAW,
    SIZES,
    SOURCES,
    Feature,
    Role,
    partner_of,
    source_of,
)
from transforms.images.check import AS_TENSORFLOW, checked_header, decode_jpeg, decode_pixels
from transforms.images.deep_pixels import deep_pixels
from transforms.images.headers import image_format
from transforms.images.pillow_images import decode, open_image
from transforms.images.pixel_options import Limits

# Decodes the image of a record for training, with simplejpeg and Pillow.

# Formats that Pillow decodes to the pixels that TensorFlow gives.
_OF_PILLOW = {"gif": "GIF", "png": "PNG", "webp": "WEBP"}


def stored_pixels(data: bytes, channels: int, limits: Limits, *, depth: int = 8) -> Any:
    """The pixels of a stored image, those that `tf.io.decode_image` gives.

    JPEG, PNG, WebP and GIF need no TensorFlow. BMP, JPEG XL, CMYK and files with a defect that
    TensorFlow ignores are decoded by it; the first one imports it.

    Args:
        data: the file, whole.
        channels: 3, or 1 if all images are gray. Alpha is dropped.
        limits: of every image, checked before anything is decoded.
        depth: bits of the samples, 8 or 16.

    Returns:
        uint8 `[height, width, channels]`, or uint16; of an animation, the first frame.

    Raises:
        RejectedImageError: it is above the limits, or neither reads it.
    """
    header = checked_header(data, limits)
    format_, pixels = header.format, None
    if depth == 16 and (deep := deep_pixels(data, header, None, limits)) is not None:
        return _of_channels(deep, channels)
    if format_ == "jpeg" and header.plain:
        pixels = decode_jpeg(data, header, "GRAY" if channels == 1 else "RGB", **AS_TENSORFLOW)
    elif format_ in _OF_PILLOW:
        pixels = _pillow_pixels(data, _OF_PILLOW[format_], limits)
    if pixels is None:
        pixels = decode_pixels(data, format_, expand_animations=False).numpy()
    pixels = _of_channels(pixels, channels)
    # Those that `tf.io.decode_image` gives for this dtype.
    return pixels if depth == 8 else pixels * np.uint16(257 if format_ == "png" else 256)


def _of_channels(pixels: Any, channels: int) -> Any:
    if pixels.shape[2] < 3:
        return np.repeat(pixels[:, :, :1], channels, axis=2)
    return pixels if pixels.shape[2] == channels else np.ascontiguousarray(pixels[:, :, :channels])


def _pillow_pixels(data: bytes, format_: str, limits: Limits) -> Any:
    """The first frame; None in doubt."""
    try:
        # A copy, which may be written to.
        pixels = np.array(decode(open_image(data, (format_,), limits)))
    except RejectedImageError:
        return None
    if pixels.dtype == np.uint16:
        pixels = (pixels >> 8).astype(np.uint8)
    return pixels[:, :, None] if pixels.ndim == 2 else pixels


# The values of a decoded Example as a reader gets them: scalars, arrays of their shape, images.

# The type of the arrays that `decode_example` returns, by that of the feature.
_KINDS: Mapping[str, Any] = {"bytes": np.object_, "int64": np.int64, "float": np.float32}

_PACKED: Mapping[str, Any] = {RAW: np.uint8, "bfloat16": ml_dtypes.bfloat16}


@dataclasses.dataclass
class RecordParser:
    """Parses serialized Examples to values, as `load` gives them, without TensorFlow.

    Attributes:
        features: those of the manifest.
        channels: 3 or 1, of decoded images.
        limits: of an image that is decoded.
        decode: whether to decode images and packed arrays; otherwise both stay bytes.
        depth: bits of the samples of decoded images, 8 or 16.
    """

    features: Sequence[Feature]
    _: dataclasses.KW_ONLY
    channels: int
    limits: Limits
    decode: bool
    depth: int = 8

    def __post_init__(self) -> None:
        # Packed pixels of variable size store their shape in other features.
        by_source = {feature.source: feature.name for feature in self.features}
        has_sizes = by_source.keys() >= {*SIZES}
        self._sizes = [by_source[source] for source in SIZES] if has_sizes else []
        # Whose size the masks of objects have, so it is decoded before them.
        of_image = (Role.IMAGE, Role.PIXELS)
        self._shown = next((each.name for each in self.features if each.role in of_image), "")
        self._decoded = sorted(self.features, key=lambda each: each.role is Role.OBJECT_MASK)

    def parse(self, record: bytes) -> dict[str, Any]:
        """Values by feature name.

        Returns:
            `bytes`, `numpy.int64` or `numpy.float32` for a single value, and an array otherwise:
            of one dimension for a list, of dtype object if it holds bytes.

        Raises:
            ValueError: the record is not an Example of these features.
            RejectedImageError: an image cannot be decoded.
        """
        stored = decode_example(record)
        values = {feature.name: _stored_value(feature, stored) for feature in self.features}
        if self.decode:
            for feature in self._decoded:
                if feature.role in (Role.IMAGE, Role.FURTHER_IMAGE):
                    values[feature.name] = self._image(
                        values[feature.name], self.channels, self.depth
                    )
                elif feature.role is Role.MASK:
                    values[feature.name] = self._image(values[feature.name], 1, 8)
                elif feature.role is Role.OBJECT_MASK:
                    masks = [self._image(mask, 1, 8) for mask in values[feature.name]]
                    # Without objects, they have the size of the image if the record holds it.
                    size = values[self._shown].shape[:2] if self._shown else (0, 0)
                    no_masks = np.empty((0, *size, 1), np.uint8)
                    values[feature.name] = np.stack(masks) if masks else no_masks
                elif feature.encoding:
                    values[feature.name] = self._array(feature, values)
        return values

    def _image(self, data: bytes, channels: int, depth: int) -> Any:
        return stored_pixels(data, channels, self.limits, depth=depth)

    def _array(self, feature: Feature, values: Mapping[str, Any]) -> Any:
        data, dtype = values[feature.name], np.dtype(_PACKED[feature.encoding])
        if len(data) % dtype.itemsize:
            raise ValueError(f"{feature.name!r} has {len(data)} bytes, not whole values")
        flat = np.frombuffer(data, dtype)
        shape = feature.shape or [int(values[name]) for name in self._sizes] or (-1,)
        try:
            # A copy, which may be written to.
            return flat.reshape(shape).copy()
        except ValueError as error:
            raise ValueError(f"{feature.name!r} has {flat.size} values: {error}") from error


def _stored_value(feature: Feature, stored: Mapping[str, Any]) -> Any:
    """The value of a feature as it is stored.

    Raises:
        ValueError: it is missing, or has another type or number of values.
    """
    values, kind = stored.get(feature.name), _KINDS[feature.dtype]
    if values is None:
        if feature.is_list:
            return np.empty(0, kind)
        raise ValueError(f"it has no {feature.name!r}")
    if values.dtype != kind:
        raise ValueError(f"{feature.name!r} is not of type {feature.dtype}")
    if feature.is_list:
        return values
    if feature.shape and not feature.encoding:
        try:
            return values.reshape(feature.shape)
        except ValueError:
            problem = f"{feature.name!r} has {len(values)} values, not those of {feature.shape}"
            raise ValueError(problem) from None
    if len(values) != 1:
        raise ValueError(f"{feature.name!r} has {len(values)} values, not 1")
    return values[0]


# Finds the features with a record's image, class and key; guesses without a manifest.

_CLASSES = (Role.CLASS_ID, Role.CLASS_TEXT)

# Names of such features in TFRecords of other programs.
_CLASS_NAME = re.compile(r"(?:^|[/_])(?:label|class|category)s?(?:$|[/_])", re.IGNORECASE)
_KEY_NAME = re.compile(
    r"(?:^|[/_])(?:id|key|name|file_?name|path|source_id|uri|url)$", re.IGNORECASE
)


class RecordFields(NamedTuple):
    """The meaning of the features in the records of one dataset.

    Attributes:
        sources: source of each feature by its name, None without a manifest.
        labels: class names by class id; empty when they are not known.
    """

    sources: Mapping[str, str] | None = None
    labels: Mapping[int, str] = {}

    def class_features(self, names: Sequence[str]) -> list[str]:
        """The features that hold a class: its id or its text."""
        if self.sources is None:
            return [name for name in names if _CLASS_NAME.search(name)]
        return [name for name in names if self._role(name) in _CLASSES]

    def key_features(self, names: Sequence[str]) -> list[str]:
        """The features that identify the record: the join key, the image's path or an id."""
        if self.sources is None:
            return [n for n in names if _KEY_NAME.search(n) and not _CLASS_NAME.search(n)]
        known = [name for name in names if self._role(name) is Role.KEY]
        columns = [name for name in names if self.sources.get(name, "").startswith(COLUMN)]
        return known + [name for name in columns if _KEY_NAME.search(name)]

    def has_class(self, example: Mapping[str, Any], wanted: str) -> bool:
        """Whether a record is of a class, or holds an object of it.

        Args:
            example: as `decode_example` gives it.
            wanted: the class's text or id.
        """
        ids = {int(wanted)} if re.fullmatch(r"-?\d+", wanted) else set()
        ids |= {number for number, label in self.labels.items() if label == wanted}
        return any(
            value == wanted.encode() if isinstance(value, bytes) else value in ids
            for name in self.class_features(list(example))
            for value in _values(example, name)
        )

    def has_key(self, example: Mapping[str, Any], wanted: str) -> bool:
        """Whether a record has a key: one of its names, with or without folder and extension."""
        return any(
            wanted in _spellings(value)
            for name in self.key_features(list(example))
            for value in _values(example, name)
        )

    def name_feature(self) -> str | None:
        """The feature with the image's path, or else its key, according to the manifest."""
        names = {source: name for name, source in (self.sources or {}).items()}
        keys = (each.name for each in SOURCES.values() if each.role is Role.KEY)
        return next((names[key] for key in keys if key in names), None)

    def image_feature(self, example: Mapping[str, Any]) -> str | None:
        """The feature that holds the image, or None."""
        if self.sources is not None:
            return next((name for name in self.sources if self._role(name) is Role.IMAGE), None)
        found = (name for name, values in sorted(example.items()) if _is_image(values))
        return next(found, None)

    def partner_features(self) -> dict[str, str]:
        """The features that hold masks and further images, with the names of these."""
        found = {name: partner_of(source) for name, source in (self.sources or {}).items()}
        roles = (Role.MASK, Role.FURTHER_IMAGE)
        return {name: each[0] for name, each in found.items() if each and self._role(name) in roles}

    def _role(self, name: str) -> Role:
        return source_of((self.sources or {}).get(name, "")).role


def _values(example: Mapping[str, Any], name: str) -> Sequence[Any]:
    values: Sequence[Any] | None = example[name]
    return () if values is None else values


def _spellings(value: Any) -> Iterator[str]:
    text = value.decode(errors="replace") if isinstance(value, bytes) else str(value)
    file = text.rpartition("/")[2]
    yield from (text, file, file.rpartition(".")[0] or file)


def _is_image(values: Sequence[Any] | None) -> bool:
    if values is None or len(values) != 1 or not isinstance(values[0], bytes):
        return False
    return bool(image_format(values[0]))
