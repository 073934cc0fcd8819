"""Limits for the size of images that are decoded."""

from __future__ import annotations

from typing import NamedTuple

from transforms.core.arguments import whole_number


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
