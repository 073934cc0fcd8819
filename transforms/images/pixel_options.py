"""Options that change pixels, and limits of images."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from transforms.core.messages import shown_size
from transforms.core.option import (
    Conflict,
    Group,
    as_it_is,
    at_least_one,
    if_any,
    only,
    option,
    parse_size,
    whole_number,
)
from transforms.core.rejections import DEFAULT_LIMIT, Reason, RejectedImageError, RejectionLimit

# The values of options about images, without NumPy: flags are read before it is needed.

CHECK_MODES = ("full", "header")
"""How an image is checked, see `check.check_image`."""

DEDUPE_MODES = ("off", "report", "drop")
"""What happens to duplicates."""

EMBED_DTYPES = ("float32", "bfloat16")
"""Types of the numbers of an embedding."""


def is_application(model: str) -> bool:
    """Whether this names a model in `keras.applications`, and is not a path.

    >>> is_application("EfficientNetB0"), is_application("b0.keras"), is_application("models/B0")
    (True, False, False)
    """
    return re.fullmatch(r"[A-Za-z]\w*", model) is not None and not os.path.exists(model)


# Limits for the size of images that are decoded.


class _Limits(NamedTuple):
    max_pixels: int
    max_bytes: int


class Limits(_Limits):
    """The largest image that is decoded.

    Attributes:
        max_pixels: height x width x frames; of a JPEG XL, x its extra channels and three.
        max_bytes: of the file.
    """

    __slots__ = ()

    def __new__(cls, max_pixels: int, max_bytes: int) -> Limits:
        """Refuses with TypeError or ValueError anything but numbers above 0."""
        whole_number("max_pixels", max_pixels, 1)
        whole_number("max_bytes", max_bytes, 1)
        return super().__new__(cls, max_pixels, max_bytes)


# The pixels are Pillow's own limit; a larger image takes over half a gigabyte when it is decoded.
DEFAULT_LIMITS = Limits(max_pixels=178_956_970, max_bytes=256_000_000)


MAX_MASK_PIXELS = 1 << 29
"""The most pixels that the different masks of the objects in one image have together.

A core makes so many in 4 to 12 seconds: 40 objects in a photo of 12 megapixels.
"""


def check_mask_cost(masks: int, height: int, width: int, *, times: int = 1) -> None:
    """Checks that the masks of the objects in an image do not take too long.

    Args:
        masks: that differ and are not empty.
        height: of each, in pixels.
        width: of each, in pixels.
        times: how often a pixel counts.

    Raises:
        RejectedImageError: with reason `TOO_COSTLY`.
    """
    pixels = masks * height * width * times
    if pixels > MAX_MASK_PIXELS:
        detail = (
            f"the masks of {masks} objects, each of {shown_size(height, width)}, have {pixels} "
            f"pixels together{f', each counted {times} times' * (times > 1)}, more than "
            f"{MAX_MASK_PIXELS}"
        )
        raise RejectedImageError(Reason.TOO_COSTLY, detail)


# Options for changes to pixels, and the geometry that boxes must follow; no Pillow.

TRANSCODINGS = ("keep", "auto", "jpeg", "png")
COLORS = ("keep", "rgb", "gray")
ORIENTATIONS = ("keep", "apply")
DEPTHS = (8, 16)

FROM_HEIC = "from_heic"
"""The change of an image whose pixels libheif decoded."""

TO_8_BITS = "to_8_bits"
"""The change of an image of more than 8 bits that is stored with 8."""

# The kinds of changes that are counted; `untouched` excludes the others.
CHANGES = (
    "untouched",
    "transcoded",
    "reencoded",
    "resized",
    "turned",
    "recolored",
    "flattened",
    "first_frame",
    FROM_HEIC,
    TO_8_BITS,
)

DEFAULT_QUALITY = 95

# libjpeg's limit, whatever the format.
MAX_SIDE = 65_500

_SIDE = "[1-9][0-9]{0,4}"

_RESIZE = re.compile(r"(?:(shorter|longer)=(\d{1,5})|(\d{1,5})x(\d{1,5}))(,never_enlarge)?", re.A)


class Resize(NamedTuple):
    """The target size of images.

    Attributes:
        rule: `shorter` or `longer`, for the side that gets the size, or `exact`.
        height: in pixels; for `shorter` and `longer` both are that side's size.
        width: in pixels.
        never_enlarge: whether an image keeps its size if a side would grow.
    """

    rule: str
    height: int
    width: int
    never_enlarge: bool = False

    @classmethod
    def parse(cls, text: str) -> Resize:
        """Reads `shorter=256`, `longer=512` or `640x480` (width first), or these `,never_enlarge`.

        Raises:
            ValueError: when it is none of them, or a side is not in 1..65500.

        >>> Resize.parse("640x480,never_enlarge")
        Resize(rule='exact', height=480, width=640, never_enlarge=True)
        """
        match = _RESIZE.fullmatch(text.strip())
        if match is None:
            raise ValueError(f"{text!r} is not a size: {_meant_size(text)}")
        rule, side, width, height, never_enlarge = match.groups()
        resize = cls(rule or "exact", int(side or height), int(side or width), bool(never_enlarge))
        if not 1 <= min(resize.height, resize.width) <= max(resize[1:3]) <= MAX_SIDE:
            raise ValueError(f"{text!r}: a side has 1 to {MAX_SIDE} pixels")
        return resize

    def size(self, height: int, width: int) -> tuple[int, int]:
        """The new height and width of an image of this size.

        >>> Resize.parse("shorter=256").size(375, 500)
        (256, 341)
        """
        if self.rule == "exact":
            new = self.height, self.width
        else:
            side = min(height, width) if self.rule == "shorter" else max(height, width)
            new = _scaled(height, self.height, side), _scaled(width, self.width, side)
        is_larger = new[0] > height or new[1] > width
        return (height, width) if self.never_enlarge and is_larger else new

    @property
    def fixed(self) -> tuple[int, int] | None:
        """Height and width of every image; None if they may differ."""
        return None if self.rule != "exact" or self.never_enlarge else (self.height, self.width)

    def __str__(self) -> str:
        """The text that `parse` reads."""
        exact = f"{self.width}x{self.height}"
        size = exact if self.rule == "exact" else f"{self.rule}={self.height}"
        return f"{size},never_enlarge" if self.never_enlarge else size


def _meant_size(text: str) -> str:
    """How to write the size that a text probably means.

    >>> _meant_size("224")
    'did you mean shorter=224, or 224x224 (width x height)?'
    >>> _meant_size("(640, 480)")
    'did you mean 640x480 (width x height)?'
    """
    sides = re.findall("[0-9]+", text) if re.fullmatch(r"[0-9xX*,\s()\[\]]+", text) else []
    if len(sides) == 1:
        return f"did you mean shorter={sides[0]}, or {sides[0]}x{sides[0]} (width x height)?"
    if len(sides) in (2, 3):
        return f"did you mean {sides[0]}x{sides[1]} (width x height)?"
    return "write it like shorter=256, longer=512 or 640x480 (width x height)"


def stored_shape(options: Mapping[str, Any]) -> tuple[int | None, int | None, int]:
    """Height, width and channels of the images of a dataset; None for values that differ.

    Images are read as RGB, unless all of them were made gray.

    Args:
        options: of its manifest.

    >>> stored_shape({"resize": "640x480", "color": "gray"})
    (480, 640, 1)
    >>> stored_shape({"resize": "shorter=256", "color": "keep"})
    (None, None, 3)
    """
    channels = 1 if options.get("color") == "gray" else 3
    resize = Resize.parse(options["resize"]) if options.get("resize") else None
    height, width = (resize and resize.fixed) or (None, None)
    return height, width, channels


def stored_depth(options: Mapping[str, Any]) -> int:
    """Bits of the samples with which the images of a dataset are read, 8 or 16.

    Args:
        options: of its manifest.

    >>> stored_depth({"depth": 16}), stored_depth({})
    (16, 8)
    """
    return 16 if options.get("depth") == 16 else 8


def _scaled(length: int, to: int, of: int) -> int:
    """`length * to / of`, halves rounded up, at least 1."""
    return max(1, (2 * length * to + of) // (2 * of))


class Original(NamedTuple):
    """The size of the image in the file and the applied rotation, which boxes must follow.

    Attributes:
        height: in pixels, before rotation and resizing.
        width: in pixels, before rotation and resizing.
        orientation: the EXIF orientation that was applied, 1 (not turned) to 8.
    """

    height: int
    width: int
    orientation: int


class Frame(NamedTuple):
    """How an image is stored, which its boxes and masks follow.

    Attributes:
        height: in pixels, before rotation and resizing.
        width: in pixels, before rotation and resizing.
        applied: the EXIF orientation that was applied, 1 (not turned) to 8.
        tag: the EXIF orientation of the file, 1 to 8.
        stored: height and width of the pixels in the dataset.
    """

    height: int
    width: int
    applied: int = 1
    tag: int = 1
    stored: tuple[int, int] = (0, 0)

    @property
    def turn(self) -> int:
        """The orientation that the stored pixels still need to be upright."""
        return 1 if self.applied != 1 else self.tag


def _jpeg_quality(text: str) -> int:
    """The quality of a JPEG, 1 to 100.

    Raises:
        ValueError: it is none.
    """
    if at_least_one(text) > 100:
        raise ValueError(f"{text} is more than 100, the best quality of a JPEG")
    return int(text)


def _image_depth(text: str) -> int:
    """The bits of a channel, 8 or 16.

    Raises:
        ValueError: it is none.
    """
    if text not in ("8", "16"):
        raise ValueError(f"{text!r} is neither 8 nor 16")
    return int(text)


@dataclasses.dataclass(frozen=True)
class PixelOptions(Group, title="pixels", of_images=True, recorded=as_it_is):
    """The changes to make to every image. Images that need none are stored byte for byte.

    `transcode` keeps the format; `auto` converts what TensorFlow cannot read or misreads. With a
    depth of 16, PNGs, TIFFs and HEICs of more than 8 bits keep them when they are changed; with 8,
    only those that are and stay grey do.

    Raises:
        ValueError: two of them contradict each other, or the quality has no effect.
    """

    transcode: str = option(
        "keep",
        choices=TRANSCODINGS,
        help="keep formats, convert what TensorFlow cannot read (auto), or convert every image",
    )
    resize: Resize | None = option(
        metavar="SIZE",
        parse=Resize.parse,
        is_usual=True,
        help="shorter=N, longer=N or WIDTHxHEIGHT; with ,never_enlarge small images stay as they "
        "are",
        regex=f"^((shorter|longer)={_SIDE}|{_SIDE}x{_SIDE})(,never_enlarge)?$",
        recorded=lambda resize: resize and str(resize),
    )
    color: str = option(
        "keep",
        choices=COLORS,
        help="keep the channels, or convert to three (rgb) or one (gray)",
    )
    quality: int | None = option(
        metavar="N",
        parse=_jpeg_quality,
        help=f"quality of re-encoded JPEGs, 1 to 100; if omitted: {DEFAULT_QUALITY}",
        regex="^([1-9][0-9]?|100)$",
        recorded=lambda quality: quality or DEFAULT_QUALITY,
    )
    exif_orientation: str = option(
        "keep",
        choices=ORIENTATIONS,
        help="keep the EXIF tag, or apply it by rotating the pixels",
    )
    depth: int = option(
        DEPTHS[0],
        metavar="8|16",
        parse=_image_depth,
        help="bits of changed PNGs, TIFFs and HEICs with more than 8: 8 for color, or 16",
        regex="^(8|16)$",
        recorded=only(16),
    )
    strip_metadata: bool = option(
        is_switch=True,
        help="remove GPS, EXIF, XMP, IPTC and texts from image files, without touching pixels; "
        "orientation and color profile stay",
        recorded=only(True),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.depth == 16 and self.transcode == "jpeg":
            raise ValueError("--depth 16 cannot be used with --transcode jpeg: a JPEG has 8 bits")
        if self.quality is not None and (self.changes_nothing or self.transcode == "png"):
            why = (
                "cannot be used with --transcode png, which writes no JPEG"
                if self.transcode == "png"
                else "applies only to re-encoded JPEGs; add --transcode jpeg, which re-encodes "
                "every image, or --resize"
            )
            raise ValueError(f"--quality {why}")

    @property
    def jpeg_quality(self) -> int:
        """The quality of the JPEGs that are written, 1 to 100."""
        return DEFAULT_QUALITY if self.quality is None else self.quality

    @property
    def reencode(self) -> bool:
        """Whether JPEGs are encoded again, too: a given quality applies to every image."""
        return self.quality is not None and self.transcode == "jpeg"

    @property
    def changes_nothing(self) -> bool:
        """Whether the pixels of every image are stored as they are."""
        return {**vars(self), **_NO_CHANGES} == vars(AS_THEY_ARE)

    @property
    def fixed_shape(self) -> tuple[int, int, int] | None:
        """Height, width and channels of every image, or None if they may differ.

        >>> PixelOptions(resize=Resize.parse("640x480"), color="gray").fixed_shape
        (480, 640, 1)
        """
        size = self.resize and self.resize.fixed
        channels = {"rgb": 3, "gray": 1}.get(self.color)
        return None if size is None or channels is None else (*size, channels)


AS_THEY_ARE = PixelOptions()

HOLDOUT = "--holdout"
"""The flag that names datasets none of whose images may be in the new one."""

# How images that change are stored, and what is removed around the pixels.
_NO_CHANGES = {"quality": None, "depth": DEPTHS[0], "strip_metadata": False}


@dataclasses.dataclass(frozen=True)
class CheckOptions(Group, title="checks", of_images=True):
    """Which images are rejected or reported, and what keeps a dataset from being published."""

    check: str = option(
        "full",
        choices=CHECK_MODES,
        help="decode every pixel, or read only the headers",
        recorded=as_it_is,
    )
    max_pixels: int = option(
        DEFAULT_LIMITS.max_pixels,
        metavar="N",
        parse=at_least_one,
        help="reject images with more pixels before they are decoded",
        regex="^[1-9][0-9]*$",
        recorded=as_it_is,
    )
    max_bytes: int = option(
        f"{DEFAULT_LIMITS.max_bytes // 10**6}MB",
        metavar="SIZE",
        parse=parse_size,
        help="reject larger files before they are read",
        regex="^([1-9][0-9]*([.][0-9]+)?(B|[KMG]i?B)|[1-9][0-9]{3,})$",
        recorded=as_it_is,
        unit="B",
    )
    max_rejected: RejectionLimit = option(
        DEFAULT_LIMIT,
        metavar="SHARE|COUNT",
        parse=RejectionLimit.parse,
        help="publish nothing if more images are rejected; with 'or', the larger limit counts",
        regex="^([0-9]+|(0?[.][0-9]+|1[.]0+|[0-9]{1,2}([.][0-9]+)?%|100%)( or [0-9]+)?)$",
        python="str | int | float",
        of_images=False,
    )
    strict: bool = option(
        is_switch=True,
        help="publish nothing if there are warnings",
        of_images=False,
    )
    dedupe: str = option(
        "report",
        choices=DEDUPE_MODES,
        is_usual=True,
        help="off; report exact and near-duplicates; drop exact duplicates, keeping one",
        recorded=only("drop"),
    )
    holdout: Sequence[str] | None = option(
        metavar="DIR[:SPLIT]",
        help="report images equal or similar to those of this dataset, or of one of its splits, "
        "like duplicates; repeatable",
        is_repeatable=True,
        is_path=True,
        conflicts=(Conflict("dedupe", ("off",), "it searches for duplicates"),),
        recorded=if_any,
    )
    quarantine: str | None = option(
        metavar="DIR",
        help="copy rejected images to DIR/REASON/PATH",
        is_path=True,
    )

    @property
    def limits(self) -> Limits:
        """The largest image that is decoded."""
        return Limits(max_pixels=self.max_pixels, max_bytes=self.max_bytes)

    @property
    def drops_duplicates(self) -> bool:
        """Whether one of equal images is kept."""
        return self.dedupe == "drop"

    @property
    def finds_duplicates(self) -> bool:
        """Whether equal and similar images are looked for."""
        return self.dedupe != "off"


def checked_pixels(pixels: PixelOptions, checks: CheckOptions) -> PixelOptions:
    """The changes to pixels, if the images that they make pass the checks.

    Raises:
        ValueError: all of them have too many pixels.
    """
    size = pixels.resize
    if size and size.rule == "exact" and size.height * size.width > checks.max_pixels:
        raise ValueError(f"--resize {size} is more than --max_pixels {checks.max_pixels}")
    return pixels


UNTOUCHED = ("untouched",)
"""`CheckedImage.changes` of an unchanged image in a run that changes others."""
