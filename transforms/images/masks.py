"""Masks of images: a class index for each pixel, stored as gray PNG in step with the image.

A mask shows its image upright, as viewers do: the EXIF orientations of both are applied before
their sizes are compared. The stored mask has the orientation of the stored image, and its size by
nearest neighbours, so no index is ever mixed with another one.

All functions may be called from several threads.
"""

from __future__ import annotations

import numpy as np
from PIL import Image

from transforms.core.messages import shown_size
from transforms.core.rejections import Reason, RejectedImageError
from transforms.images.check import check_image, checked_header, examine_image
from transforms.images.headers import Header
from transforms.images.pillow_images import BACK, TURNS, decode_as_stored, frame_count, open_image
from transforms.images.pixel_options import Frame, Limits
from transforms.images.pixels import encode_image, scaled
from transforms.images.tags import orientation_tag, strip_metadata

# Formats that keep every index.
_LOSSLESS = ("png", "gif", "bmp")

_LARGEST = 255
_OPAQUE = (255, 255)


def store_mask(
    data: bytes,
    frame: Frame,
    *,
    limits: Limits,
    check: str = "full",
    keeps_tag: bool = True,
    strips: bool = False,
) -> bytes:
    """The mask to store: a PNG whose gray values are the class indices.

    A palette's indices are kept, not its colors. A gray PNG that already fits is stored byte for
    byte.

    Args:
        data: the file, whole.
        frame: the image that it has to fit.
        limits: checked before anything is decoded.
        check: mode of `check_image` for a file that is stored as it is; others are decoded.
        keeps_tag: whether the stored image says the orientation that it still needs.
        strips: whether a file that is stored as it is loses its metadata.

    Raises:
        RejectedImageError: as `check_image`; `UNSUPPORTED_IMAGE` if its pixels are not indices;
            `MASK_SIZE` if it does not have the size of the image.
    """
    header = checked_header(data, limits)
    if header.format not in _LOSSLESS:
        detail = f"a {header.format} does not keep class indices: save masks as PNG"
        raise RejectedImageError(Reason.UNSUPPORTED_IMAGE, detail)
    tag = orientation_tag(data, header.format)
    own = tag or 1
    _check_size(header, own, frame)
    is_same_size = frame.stored == (header.height, header.width)
    stored_tag = frame.turn if keeps_tag else 1
    is_in_step = own == frame.turn == stored_tag and is_same_size
    is_gray = header.format == "png" and header.channels == 1 and header.bits <= 8
    # Every reader decodes an ordinary file to the same indices of 8 bits.
    is_plain = is_gray and data[12:16] == b"IHDR"
    if is_in_step and is_plain:
        examine_image(data, header, mode=check, with_hash=False)
        return strip_metadata(data, "png", tag) if strips else data
    if header.format == "png":
        # Also what Pillow would ignore. The decoded mask is encoded again, which is the check.
        check_image(data, limits=limits)
    opened = open_image(data, (header.format.upper(),), limits)
    if frame_count(opened) > 1:
        raise RejectedImageError(Reason.UNSUPPORTED_IMAGE, "it has several frames")
    # Pillow would keep only the upper 8 of 16 bits, which are 0 for class indices.
    if str(opened.tile[0].args).endswith(";16B") and not opened.mode.startswith("I"):
        detail = "16 bits of color or with alpha: save masks as gray or palette PNG"
        raise RejectedImageError(Reason.UNSUPPORTED_IMAGE, detail)
    indices = _indices(decode_as_stored(opened))
    if indices.size != (header.width, header.height):
        detail = f"{shown_size(indices.height, indices.width)}, but its header says otherwise"
        raise RejectedImageError(Reason.CORRUPT_IMAGE, detail)
    return encode_image(fitted(indices, own, frame), "png", 100, stored_tag, limits)[0]


def _check_size(header: Header, own: int, frame: Frame) -> None:
    size = _upright(header.height, header.width, own)
    wanted = _upright(frame.height, frame.width, frame.tag)
    if size != wanted:
        upright = ", upright" if frame.tag > 4 else ""
        detail = (
            f"{size[0]} x {size[1]} pixels, but its image is {wanted[0]} x {wanted[1]} "
            f"(height x width{upright})"
        )
        raise RejectedImageError(Reason.MASK_SIZE, detail)


def _upright(height: int, width: int, orientation: int) -> tuple[int, int]:
    return (width, height) if orientation > 4 else (height, width)


def _indices(image: Image.Image) -> Image.Image:
    """The class indices as an image of mode `L`.

    Raises:
        RejectedImageError: its pixels are colors, or do not fit into 8 bits.
    """
    if image.mode == "P":
        return Image.frombytes("L", image.size, image.tobytes())
    if image.mode in ("1", "L"):
        return image.convert("L")
    if image.mode in ("I", "I;16", "I;16B", "I;16L", "I;16N"):
        values = np.asarray(image)
        if (largest := int(values.max())) > _LARGEST:
            detail = f"a class index is {largest}, and the largest possible one is {_LARGEST}"
            raise RejectedImageError(Reason.UNSUPPORTED_IMAGE, detail)
        return Image.fromarray(values.astype(np.uint8))
    bands = image.split()
    if image.mode in ("LA", "RGBA") and bands[-1].getextrema() != _OPAQUE:
        raise RejectedImageError(Reason.UNSUPPORTED_IMAGE, "it is transparent in some places")
    colors = {band.tobytes() for band in (bands[:-1] if image.mode in ("LA", "RGBA") else bands)}
    if image.mode not in ("LA", "RGB", "RGBA") or len(colors) > 1:
        detail = "its pixels are colors, not class indices: save masks as gray or palette PNG"
        raise RejectedImageError(Reason.UNSUPPORTED_IMAGE, detail)
    return bands[0]


def fitted(mask: Image.Image, own: int, frame: Frame) -> Image.Image:
    """A mask in the orientation and the size of the stored image.

    Args:
        mask: of the size of the image in its file, or upright.
        own: the orientation that it still needs to be upright.
        frame: the image.
    """
    if own != frame.turn:
        mask = mask if own == 1 else mask.transpose(TURNS[own])
        mask = mask if frame.turn == 1 else mask.transpose(BACK[frame.turn])
    height, width = frame.stored
    if mask.size != (width, height):
        mask = scaled(mask, height, width, mixes=False)
    mask.info.clear()
    return mask
