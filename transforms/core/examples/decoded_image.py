"""Decodes one image file in one call: the stored image, its pixels and a model's input.

A pure function of bytes and options, so that it can be called in another process.
"""

from __future__ import annotations

import dataclasses
import functools

from transforms.core.features.feature_sources import PIXELS, Role
from transforms.core.features.layouts import Feature, stores_pixels
from transforms.core.formats.exif import orientation_tag, read_tags
from transforms.core.formats.headers import CostlyImageError
from transforms.core.formats.stripping import strip_metadata
from transforms.core.images.check import ImageInfo, Limits, checked_header, examine_image
from transforms.core.images.checked_image import CheckedImage
from transforms.core.images.pixel_options import AS_THEY_ARE, Original, PixelOptions
from transforms.core.rejections import Reason, RejectedImageError


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
        strips: whether stored files lose their metadata.
    """

    features: tuple[Feature, ...]
    limits: Limits
    check: str
    pixels: PixelOptions = AS_THEY_ARE
    with_hash: bool = False
    model_shape: tuple[int, int, int] | None = None
    strips: bool = False

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
    file = _stripped(data, decoding.limits) if decoding.strips else data
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
        _check_shape(decoding, stored.info)
        shown = stored
        if decoding.stores_files:
            from transforms.core.images.pixels import raw_pixels

            shown = raw_pixels(stored.data, AS_THEY_ARE, limits=decoding.limits)
        stored = stored._replace(raw=shown.data)
    if decoding.model_shape is not None:
        from transforms.core.images.embeddings import input_pixels

        pixels = input_pixels(stored.data, stored.info.format, decoding.model_shape)
        stored = stored._replace(model_pixels=pixels)
    return stored


def _stripped(data: bytes, limits: Limits) -> bytes:
    try:
        header = checked_header(data, limits)
    except RejectedImageError:
        # It is rejected, or converted, which leaves all metadata out.
        return data
    try:
        return strip_metadata(data, header.format, orientation_tag(data, header.format))
    except CostlyImageError as error:
        raise RejectedImageError(Reason.TOO_COSTLY, str(error)) from error


def _stored(data: bytes, decoding: Decoding) -> CheckedImage:
    pixels, limits = decoding.pixels, decoding.limits
    if not decoding.stores_files:
        # Skips encoding an image only to decode it again.
        from transforms.core.images.pixels import raw_pixels

        return raw_pixels(data, pixels, limits=limits)
    if decoding.changes_nothing:
        header = checked_header(data, limits)
        info, perceptual_hash = examine_image(
            data, header, mode=decoding.check, with_hash=decoding.with_hash
        )
        # Most JPEGs have no block for a tag, which the walk over their markers for the size shows.
        has_tag = header.has_app1 or header.format != "jpeg"
        orientation, has_place = read_tags(data, header.format) if has_tag else (0, False)
        original = Original(info.height, info.width, 1)
        return CheckedImage(
            data, info, original, (), perceptual_hash, orientation, has_place=has_place
        )
    # This imports Pillow, which other runs do not need.
    from transforms.core.images.pixels import change_pixels

    return change_pixels(
        data, pixels, limits=limits, check=decoding.check, with_hash=decoding.with_hash
    )


def _check_shape(decoding: Decoding, info: ImageInfo) -> None:
    """Rejects an image whose pixels do not have the shape of their feature."""
    for feature in decoding.features:
        if feature.source == PIXELS and feature.shape not in ((), info[1:]):
            wanted = f"{feature.name!r} has shape {list(feature.shape or ())}"
            raise RejectedImageError(Reason.BAD_SHAPE, f"{list(info[1:])}, but {wanted}")
