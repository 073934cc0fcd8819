"""Masks of images and of the objects in them, stored as gray PNG in step with the image.

A stored mask has the orientation of the stored image, and its size by nearest neighbors, so no
index is ever mixed with another one.
"""

from __future__ import annotations

import io
import json
import math
from typing import Any

import numpy as np
from PIL import Image

from transforms.core.messages import shown_size
from transforms.core.rejections import Reason, RejectedImageError
from transforms.images.check import check_image, checked_header, examine_image
from transforms.images.headers import Header, too_costly
from transforms.images.pillow_images import (
    BACK,
    TURNS,
    check_pixels,
    decode_as_stored,
    frame_count,
    in_strips,
    open_image,
    scaled,
)
from transforms.images.pixel_options import Frame, Limits, check_mask_cost
from transforms.images.pixels import encode_image
from transforms.images.tags import orientation_tag, strip_metadata
from transforms.labels.annotations import NORMALIZED

# Masks in files, with a class index for each pixel.
#
# A mask shows its image upright, as viewers do: the EXIF orientations of both are applied before
# their sizes are compared. All functions may be called from several threads.

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
    # Colors have 4 bytes, and the indices are made of them.
    check_pixels(*opened.size, limits, times=1.25 if len(opened.getbands()) > 1 else 1)
    if frame_count(opened) > 1:
        raise RejectedImageError(Reason.UNSUPPORTED_IMAGE, "it has several frames")
    # Pillow would keep only the upper 8 of 16 bits, which are 0 for class indices.
    if str(opened.tile[0].args).endswith(";16B") and not opened.mode.startswith("I"):
        detail = "16 bits of color or with alpha: save masks as gray or palette PNG"
        raise RejectedImageError(Reason.UNSUPPORTED_IMAGE, detail)
    indices = in_strips(decode_as_stored(opened), "L", opened.width, _indices)
    opened.close()  # and its pixels, of up to 4 bytes each
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
    """The class indices of a strip as an image of mode `L`.

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


# Segmentations of objects to masks: polygons and run lengths of COCO, outlines of YOLO.
#
# A mask is 1 where the object is and 0 elsewhere. Whatever a segmentation says, it takes memory for
# the pixels of its image and `MAX_OUTLINE`.

MAX_OUTLINE = 1_000_000
"""The longest outline of an object, in pixels: the rasterizer needs about 80 bytes for each."""

MAX_OUTLINES = 8 << 20
"""The longest outlines of all objects in an image, in pixels: a core draws them in 3 seconds."""

MAX_POLYGONS = 10_000
"""The most polygons of an object."""

MAX_SEGMENTATIONS = 16 << 20
"""The most characters of the different segmentations of an image: they take 4 seconds."""

MAX_MASKS = 32 << 20
"""The most bytes that the masks of an image have together."""

# Pixels that take as long to draw as it takes to find one in run lengths.
_OF_SAMPLE = 4

# Above them, 32-bit numbers of the rasterizer overflow.
_MAX_PIXELS, _MAX_SIDE = (1 << 31) - 1, 1 << 27

# A character of compressed run lengths: 5 bits of a number, and whether more of them follow.
_FIRST, _BITS, _MORE, _SIGN = ord("0"), 5, 32, 16
_MOST_BITS = 7 * _BITS

# Masks that are merged at once: each takes a pass over all that was merged before.
_MERGED = 8

_SHOWN = 40

# COCO has hundredths of a pixel.
_DECIMALS = 2

_Places = np.ndarray[tuple[int, int], np.dtype[np.int64]]
_Points = np.ndarray[tuple[int, int], np.dtype[np.float64]]


class ObjectMasks:
    """The masks of the objects in one image, within limits of time and memory."""

    def __init__(self, frame: Frame, *, is_upright: bool) -> None:
        """Makes none yet.

        Args:
            frame: the image.
            is_upright: whether segmentations refer to the image after EXIF rotation, not to the
                pixels in the file.
        """
        self._frame = frame
        self._own = 1 if is_upright else frame.tag
        size = frame.height, frame.width
        self._height, self._width = size[::-1] if is_upright and frame.tag > 4 else size
        # Of a mask that becomes far smaller, only the pixels that stay are looked up.
        self._places: _Places | None = None
        if _OF_SAMPLE * math.prod(frame.stored) < math.prod(size):
            self._places = self._sampled_places()
        # Objects without a segmentation share their mask.
        self._made: dict[str, bytes] = {}
        self._outline = self._held = 0.0
        self._read = 0

    def check_cost(self, masks: int) -> None:
        """Checks the time that some different masks take.

        Raises:
            RejectedImageError: with reason `TOO_COSTLY`.
        """
        if self._places is None:
            sizes = (self._height, self._width), self._frame.stored
            check_mask_cost(masks, *max(sizes, key=math.prod))
        else:
            check_mask_cost(masks, *self._frame.stored, times=_OF_SAMPLE)

    def mask(self, text: str) -> bytes:
        """The mask of an object.

        Args:
            text: its segmentation, as JSON: as in COCO, in pixels, or polygons under
                `NORMALIZED`; empty for none, whose mask is empty.

        Raises:
            RejectedImageError: with reason `BAD_CELL`, `MASK_SIZE`, `TOO_MANY_PIXELS` or
                `TOO_COSTLY`.
        """
        if text not in self._made:
            self.check_cost(len(self._made))
            self._read += len(text)
            if self._read > MAX_SEGMENTATIONS:
                shown = f"more than {MAX_SEGMENTATIONS} characters"
                raise too_costly(f"the segmentations of its objects have {shown}")
            self._made[text] = _png(self._drawn(self._runs(text)))
        mask_bytes = self._made[text]
        self._held += len(mask_bytes)
        if self._held > MAX_MASKS:
            raise too_costly(f"the masks of its objects have more than {MAX_MASKS} bytes")
        return mask_bytes

    def _drawn(self, runs: list[int]) -> Image.Image:
        """The stored mask: 1 where an object is."""
        if self._places is not None:
            found = np.searchsorted(np.cumsum(runs), self._places, side="right")
            return Image.fromarray((found & 1).astype(np.uint8))
        values = (np.arange(len(runs)) & 1).astype(np.uint8)
        columns = Image.fromarray(np.repeat(values, runs).reshape(self._width, self._height))
        # NumPy takes five times as long to exchange rows and columns.
        mask = columns.transpose(Image.Transpose.TRANSPOSE)
        return fitted(mask, self._own, self._frame)

    def _sampled_places(self) -> _Places:
        """The place of each stored pixel in run lengths, which go down the columns."""
        rows = np.arange(self._height, dtype=np.int32)[:, None]
        columns = np.arange(self._width, dtype=np.int32)[None]
        down, across = (
            np.asarray(fitted(Image.fromarray(each), self._own, self._frame), np.int64)
            for each in (rows, columns)
        )
        places: _Places = down + across * self._height
        return places

    def _runs(self, text: str) -> list[int]:
        """Its run lengths, which go down the columns and begin outside of the object."""
        height, width = self._height, self._width
        if height * width > _MAX_PIXELS or max(height, width) > _MAX_SIDE:
            detail = f"{shown_size(height, width)} are too many for masks of objects"
            raise RejectedImageError(Reason.TOO_MANY_PIXELS, detail)
        try:
            value = json.loads(text or "[]")
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, dict) and {"counts", "size"} <= value.keys():
            return _of_runs(value["counts"], value["size"], height, width)
        scale = (1, 1)
        if isinstance(value, dict) and value.keys() == {NORMALIZED}:
            value, scale = value[NORMALIZED], (width, height)
        if isinstance(value, list):
            return self._of_polygons(value, scale)
        raise _bad(f"{text[:_SHOWN]!r} is not a segmentation, as in COCO")

    def _of_polygons(self, polygons: list[Any], scale: tuple[int, int]) -> list[int]:
        """Of the pixels in any of the polygons, whose x and y are multiplied by a scale."""
        height, width = self._height, self._width
        if not polygons:
            return [height * width]
        if len(polygons) > MAX_POLYGONS:
            raise _bad(f"{len(polygons)} polygons, more than {MAX_POLYGONS}")
        sides = (width // scale[0], height // scale[1])
        scaled = [_points(polygon, sides) * scale for polygon in polygons]
        if scale != (1, 1):
            # A side is a whole number of fifths of a pixel: what is lost where COCO's hundredths
            # become shares of the image would move those that are half-way.
            scaled = [points.round(_DECIMALS) for points in scaled]
        outline = sum(map(_outline, scaled))
        if outline > MAX_OUTLINE:
            raise _bad(f"an outline of {outline:.0f} pixels, more than {MAX_OUTLINE}")
        self._outline += outline
        if self._outline > MAX_OUTLINES:
            detail = f"the outlines of its objects have more than {MAX_OUTLINES} pixels"
            raise too_costly(detail)
        # Other runs do not need it.
        from pycocotools import mask

        drawn = mask.frPyObjects([points.ravel() for points in scaled], height, width)
        while len(drawn) > 1:
            parts = (drawn[at : at + _MERGED] for at in range(0, len(drawn), _MERGED))
            drawn = [mask.merge(part) for part in parts]
        # Its own function to decode runs warns of each array.
        return _of_runs(drawn[0]["counts"].decode(), drawn[0]["size"], height, width)


def refitted_mask(data: bytes, frame: Frame, *, check: str = "full") -> bytes:
    """The mask of an object in a record, for an image that may be turned or scaled again.

    Args:
        data: the mask.
        frame: of the image, with its size in the record, and what is applied to it now.
        check: mode of `check_image` for a mask that stays as it is; others are decoded.

    Raises:
        RejectedImageError: it is not a mask of that size, or damaged.
    """
    size = frame.height, frame.width
    limits = Limits(max_pixels=math.prod(size), max_bytes=max(1, len(data)))
    header = checked_header(data, limits)
    if (header.format, header.height, header.width, header.channels) != ("png", *size, 1):
        shown = f"{header.format}, {shown_size(header.height, header.width)}"
        detail = f"{shown}, {header.channels} channels, but the image is {shown_size(*size)}"
        raise RejectedImageError(Reason.MASK_SIZE, detail)
    is_kept = frame.applied == 1 and frame.stored == size
    # It may be as large as its image also if it is odd, whose pixels count several times.
    header = header._replace(max_pixels=4 * limits.max_pixels)
    examine_image(data, header, mode=check if is_kept else "full", with_hash=False)
    if is_kept:
        return data
    mask = decode_as_stored(open_image(data, ("PNG",), limits))
    return _png(fitted(mask, frame.applied, frame))


def _png(mask: Image.Image) -> bytes:
    """The file as TensorFlow's scripts write it."""
    file = io.BytesIO()
    mask.save(file, "PNG")
    return file.getvalue()


def _points(polygon: Any, sides: tuple[int, int]) -> _Points:
    """The points of a polygon, if they are near an image with this width and height."""
    is_list = isinstance(polygon, list) and all(type(each) in (int, float) for each in polygon)
    if not is_list or len(polygon) < 6 or len(polygon) % 2:
        shown = str(polygon)[:_SHOWN]
        raise _bad(f"the polygon {shown} is not a list of x and y of three points or more")
    for at, value in enumerate(polygon):
        side = sides[at % 2]
        # Outside of the image, a polygon is cut off; NaN is in no range.
        if not -side <= value <= 2 * side:
            shown = f"{'xy'[at % 2]} {str(value)[:_SHOWN]}"
            raise _bad(f"{shown} of a polygon is far outside of the image, 0 to {side}")
    return np.array(polygon, float).reshape(-1, 2)


def _outline(points: _Points) -> float:
    """The length of a polygon in steps of the rasterizer."""
    return float(np.abs(points - np.roll(points, 1, axis=0)).max(axis=1).sum())


def _of_runs(counts: Any, size: Any, height: int, width: int) -> list[int]:
    """Checked run lengths."""
    if size != [height, width]:
        shown = f"{str(size)[:_SHOWN]}, but its image is {[height, width]} (height, width)"
        raise RejectedImageError(Reason.MASK_SIZE, f"its size is {shown}")
    runs = _decompressed(counts) if isinstance(counts, str) else counts
    if not isinstance(runs, list) or any(type(run) is not int or run < 0 for run in runs):
        raise _bad(f"its counts {str(counts)[:_SHOWN]!r} are not run lengths")
    if sum(runs) != height * width:
        total = sum(runs)
        # A number of Python may have any number of digits.
        shown = str(total) if total < 1 << 64 else "too many"
        raise _bad(f"its counts have {shown} pixels, not {height * width}")
    return runs


def _decompressed(text: str) -> list[int] | None:
    """The numbers of compressed run lengths; None if they are damaged.

    From the fourth one on, each is the difference to the one two before it.

    >>> _decompressed("0114"), _decompressed("0a")
    ([0, 1, 1, 5], None)
    """
    runs: list[int] = []
    value = shift = 0
    for character in text:
        code = ord(character) - _FIRST
        if not 0 <= code < 2 * _MORE or shift >= _MOST_BITS:
            return None
        value |= (code & (_MORE - 1)) << shift
        shift += _BITS
        if code & _MORE:
            continue
        if code & _SIGN:
            value -= 1 << shift
        runs.append(value + runs[-2] if len(runs) > 2 else value)
        value = shift = 0
    return None if shift else runs


def _bad(detail: str) -> RejectedImageError:
    return RejectedImageError(Reason.BAD_CELL, detail)
