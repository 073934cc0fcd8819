"""Options that change pixels, and limits of images."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from transforms.labels.arguments import one_of, whole_number

# The values of options about images, without NumPy: flags are read before it is needed.

CHECK_MODES = ("full", "header")
"""How an image is checked, see `check.check_image`."""

DEDUPE_MODES = ("off", "report", "drop")
"""What happens to duplicates."""

EMBED_DTYPES = ("float32", "bfloat16")
"""Types of the numbers of an embedding."""


# Limits for the size of images that are decoded.


class _Limits(NamedTuple):
    max_pixels: int
    max_bytes: int


class Limits(_Limits):
    """The largest image that is decoded.

    Attributes:
        max_pixels: height x width x frames; of a JPEG XL, x its extra channels and one.
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


class _PixelOptions(NamedTuple):
    transcode: str
    resize: Resize | None
    color: str
    quality: int
    exif_orientation: str
    reencode: bool
    depth: int


class PixelOptions(_PixelOptions):
    """The changes to make to every image. Images that need none are stored byte for byte.

    Attributes:
        transcode: `keep` the format; `auto`: convert what TensorFlow cannot read or misreads; or
            store everything as `jpeg` or `png`.
        resize: the target size, or None.
        color: `keep`, `rgb` (three channels) or `gray` (one).
        quality: of the JPEGs that are written, 1 to 100.
        exif_orientation: `apply` rotates the pixels by the file's tag; `keep` keeps them and
            the tag.
        reencode: whether JPEGs are encoded again with the quality, too; for `transcode="jpeg"`.
        depth: 16: PNGs, TIFFs and HEICs of more than 8 bits keep them when they are changed; 8:
            only those that are and stay grey do. Not for `transcode="jpeg"`.
    """

    __slots__ = ()

    def __new__(
        cls,
        transcode: str = "keep",
        resize: Resize | None = None,
        color: str = "keep",
        quality: int = DEFAULT_QUALITY,
        exif_orientation: str = "keep",
        reencode: bool = False,
        depth: int = 8,
    ) -> PixelOptions:
        """Refuses invalid options with TypeError or ValueError."""
        one_of("transcode", transcode, TRANSCODINGS)
        one_of("color", color, COLORS)
        one_of("exif_orientation", exif_orientation, ORIENTATIONS)
        whole_number("quality", quality, 1, 100)
        if resize is not None and not isinstance(resize, Resize):
            raise TypeError(
                f"resize is a Resize or None, not the {type(resize).__name__} {resize!r}"
            )
        if type(depth) is not int or depth not in DEPTHS:
            raise ValueError(f"depth is 8 or 16, not {depth!r}")
        if depth == 16 and transcode == "jpeg":
            raise ValueError("depth 16 cannot be used with transcode 'jpeg': a JPEG has 8 bits")
        if reencode and transcode != "jpeg":
            raise ValueError(f"reencode needs transcode 'jpeg', not {transcode!r}")
        fields = (transcode, resize, color, quality, exif_orientation)
        return super().__new__(cls, *fields, bool(reencode), depth)

    @property
    def changes_nothing(self) -> bool:
        """Whether every image is stored as it is."""
        return self._replace(quality=DEFAULT_QUALITY, depth=8) == AS_THEY_ARE

    @property
    def fixed_shape(self) -> tuple[int, int, int] | None:
        """Height, width and channels of every image, or None if they may differ.

        >>> PixelOptions(resize=Resize.parse("640x480"), color="gray").fixed_shape
        (480, 640, 1)
        """
        size = self.resize and self.resize.fixed
        channels = {"rgb": 3, "gray": 1}.get(self.color)
        return None if size is None or channels is None else (*size, channels)

    @property
    def may_write_jpeg(self) -> bool:
        """Whether the quality matters."""
        return not self.changes_nothing and self.transcode != "png"


AS_THEY_ARE = PixelOptions()


def given_pixels(
    transcode: str,
    resize: str | Resize | None,
    color: str,
    quality: int | None,
    exif_orientation: str,
    depth: int = 8,
) -> PixelOptions:
    """The changes that the arguments of a caller request, with the rules of the command.

    Raises:
        TypeError: one of them has the wrong type.
        ValueError: one of them is not valid, or has no effect.

    >>> str(given_pixels("keep", "shorter=256", "rgb", None, "keep").resize)
    'shorter=256'
    """
    if isinstance(resize, str):
        try:
            resize = Resize.parse(resize)
        except ValueError as error:
            raise ValueError(f"resize {error}") from error
    options = PixelOptions(
        transcode=transcode,
        resize=resize,
        color=color,
        quality=DEFAULT_QUALITY if quality is None else quality,
        exif_orientation=exif_orientation,
        # Every image is re-encoded, so the quality applies to all of them.
        reencode=quality is not None and transcode == "jpeg",
        depth=depth,
    )
    if quality is not None and not options.may_write_jpeg:
        raise ValueError(
            "quality applies only to re-encoded JPEGs: add transcode 'jpeg' or resize, "
            "or leave it out"
        )
    return options


UNTOUCHED = ("untouched",)
"""`CheckedImage.changes` of an unchanged image in a run that changes others."""
