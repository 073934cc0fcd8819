"""Parses serialized Examples to tensors, with TensorFlow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from transforms.core.features.feature_sources import SIZES, Role
from transforms.core.features.layouts import Feature

_ImageShape = tuple[int | None, int | None, int]


class TensorParser:
    """Parses serialized Examples to tensors, inside a graph."""

    def __init__(
        self,
        tf: Any,
        features: Sequence[Feature],
        stored: _ImageShape,
        image_size: tuple[int, int] | None,
        decode: bool,
        depth: int,
    ) -> None:
        """Takes the features of the records.

        Args:
            tf: the package.
            features: those of the manifest.
            stored: height, width and channels of stored images; None for what differs.
            image_size: height and width that images are resized to, or None.
            decode: whether to decode images and packed arrays; otherwise both stay bytes.
            depth: bits of the samples of decoded images, 8 or 16.
        """
        self._tf = tf
        self._depth = depth
        self._spec = {feature.name: self._spec_of(feature) for feature in features}
        decoded = features if decode else ()
        self._images = [f.name for f in decoded if f.role in (Role.IMAGE, Role.FURTHER_IMAGE)]
        self._shown = next((f.name for f in decoded if f.role in (Role.IMAGE, Role.PIXELS)), "")
        self._masks = [f.name for f in decoded if f.role is Role.MASK]
        self._object_masks = [f.name for f in decoded if f.role is Role.OBJECT_MASK]
        self._packed = [f for f in decoded if f.encoding]
        # Packed pixels of variable size store their shape in another feature.
        by_source = {feature.source: feature.name for feature in features}
        sizes = [by_source.get(source) for source in SIZES]
        self._sizes = [name for name in sizes if name is not None and None not in sizes]
        self._stored = stored
        self._image_size = image_size

    def parse(self, record: Any) -> Mapping[str, Any]:
        """Tensors by feature name."""
        tf = self._tf
        example = tf.io.parse_single_example(record, self._spec)
        for name in self._images:
            example[name] = self._image(example[name])
        for name in self._masks:
            example[name] = self._mask(example[name])
        for feature in self._packed:
            values = tf.io.decode_raw(example[feature.name], tf.as_dtype(feature.encoding))
            shape = feature.shape or [example[name] for name in self._sizes] or [-1]
            example[feature.name] = tf.reshape(values, shape)
        for name in self._object_masks:
            example[name] = self._masks_of(example[name], example.get(self._shown))
        return dict(example)

    def _spec_of(self, feature: Feature) -> Any:
        tf = self._tf
        dtype = {"bytes": tf.string, "int64": tf.int64, "float": tf.float32}[feature.dtype]
        if feature.is_list:
            return tf.io.RaggedFeature(dtype)
        return tf.io.FixedLenFeature(() if feature.encoding else feature.shape, dtype)

    def _mask(self, data: Any) -> Any:
        tf = self._tf
        *size, _ = self._stored
        mask = tf.io.decode_png(data, channels=1)
        mask.set_shape((*size, 1))
        if self._image_size is None:
            return mask
        # Class indices cannot be mixed.
        nearest = tf.image.ResizeMethod.NEAREST_NEIGHBOR
        return tf.image.resize(mask, self._image_size, nearest)

    def _masks_of(self, files: Any, shown: Any) -> Any:
        """The masks of the objects in an image (`shown`), of which there may be none."""
        tf = self._tf
        height, width = self._image_size or self._stored[:2]
        size = (0, 0) if shown is None else tf.unstack(tf.shape(shown)[:2])
        spec = tf.TensorSpec((height, width, 1), tf.uint8)
        masks = tf.cond(
            tf.size(files) > 0,
            lambda: tf.map_fn(self._mask, files, fn_output_signature=spec),
            lambda: tf.zeros((0, height or size[0], width or size[1], 1), tf.uint8),
        )
        masks.set_shape((None, height, width, 1))
        return masks

    def _image(self, data: Any) -> Any:
        tf = self._tf
        *size, channels = self._stored
        # With `channels` given, TensorFlow refuses a WebP with alpha and a gray JPEG XL.
        image = self._decoded(data)
        found = tf.shape(image)[-1]
        # Most images need no copy.
        image = tf.case(
            [
                (found == channels, lambda: image),
                (found >= 3, lambda: image[..., :channels]),
            ],
            # `tf.repeat` takes no uint16.
            default=lambda: tf.concat([image[..., :1]] * channels, -1),
        )
        image.set_shape((*size, channels))
        if self._image_size is None:
            return image
        resized = tf.image.resize(image, self._image_size)
        return tf.saturate_cast(tf.round(resized), image.dtype)

    def _decoded(self, data: Any) -> Any:
        tf = self._tf
        if self._depth == 8:
            return tf.io.decode_image(data, expand_animations=False)

        # TensorFlow gives the same for other formats, but takes no WebP for 16 bits.
        def widened() -> Any:
            image = tf.io.decode_image(data, expand_animations=False)
            return tf.cast(image, tf.uint16) * 256

        is_png = tf.strings.substr(data, 0, 4) == b"\x89PNG"
        return tf.cond(is_png, lambda: tf.io.decode_png(data, dtype=tf.uint16), widened)
