"""The values of a decoded Example as a reader gets them: scalars, arrays of their shape, images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from transforms.core.examples.decoder import SingleValues, decode_example
from transforms.core.features.feature_sources import RAW, SIZES, Role
from transforms.core.features.layouts import Feature
from transforms.core.images.image_limits import Limits

# The type of the arrays that `decode_example` returns, by that of the feature.
_KINDS: Mapping[str, Any] = {"bytes": np.object_, "int64": np.int64, "float": np.float32}

_PACKED: Mapping[str, Any] = {RAW: np.uint8, "bfloat16": ml_dtypes.bfloat16}


class RecordParser:
    """Parses serialized Examples to values, as `load` gives them, without TensorFlow."""

    def __init__(
        self,
        features: Sequence[Feature],
        *,
        channels: int,
        limits: Limits,
        decode: bool,
        depth: int = 8,
    ) -> None:
        """Takes the features of the records.

        Args:
            features: those of the manifest.
            channels: 3 or 1, of decoded images.
            limits: of an image that is decoded.
            decode: whether to decode images and packed arrays; otherwise both stay bytes.
            depth: bits of the samples of decoded images, 8 or 16.
        """
        self._depth = depth
        self._features = tuple(features)
        self._channels = channels
        self._limits = limits
        self._decode = decode
        # Packed pixels of variable size store their shape in other features.
        by_source = {feature.source: feature.name for feature in features}
        sizes = [by_source.get(source) for source in SIZES]
        has_lists = any(feature.holds_many for feature in self._features)
        dtypes = {feature.name: feature.dtype for feature in self._features}
        self._single = None if has_lists else SingleValues(dtypes)
        self._sizes = [name for name in sizes if name is not None and None not in sizes]
        # Whose size the masks of objects have, so it is decoded before them.
        of_image = (Role.IMAGE, Role.PIXELS)
        self._shown = next((each.name for each in features if each.role in of_image), "")
        self._decoded = sorted(features, key=lambda each: each.role is Role.OBJECT_MASK)

    def parse(self, record: bytes) -> dict[str, Any]:
        """Values by feature name.

        Returns:
            `bytes`, `numpy.int64` or `numpy.float32` for a single value, and an array otherwise:
            of one dimension for a list, of dtype object if it holds bytes.

        Raises:
            ValueError: the record is not an Example of these features.
            RejectedImageError: an image cannot be decoded.
        """
        single = None if self._single is None else self._single.read(record)
        if single is None:
            stored = decode_example(record)
            values = {feature.name: _stored_value(feature, stored) for feature in self._features}
        else:
            values = {feature.name: single[feature.name] for feature in self._features}
        if self._decode:
            for feature in self._decoded:
                if feature.role in (Role.IMAGE, Role.FURTHER_IMAGE):
                    values[feature.name] = self._image(
                        values[feature.name], self._channels, self._depth
                    )
                elif feature.role is Role.MASK:
                    values[feature.name] = self._image(values[feature.name], 1, 8)
                elif feature.role is Role.OBJECT_MASK:
                    masks = [self._image(mask, 1, 8) for mask in values[feature.name]]
                    values[feature.name] = np.stack(masks) if masks else self._no_masks(values)
                elif feature.encoding:
                    values[feature.name] = self._array(feature, values)
        return values

    def _no_masks(self, values: Mapping[str, Any]) -> Any:
        """The masks of an image without objects, which have its size if the record holds it."""
        height, width = values[self._shown].shape[:2] if self._shown else (0, 0)
        return np.empty((0, height, width, 1), np.uint8)

    def _image(self, data: bytes, channels: int, depth: int) -> Any:
        # Records that stay bytes need no Pillow.
        from transforms.core.images.stored_pixels import stored_pixels

        return stored_pixels(data, channels, self._limits, depth=depth)

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
