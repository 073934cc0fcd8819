"""Draws the images of the tests, whole and damaged, by code: the same bytes on every run.

`whole_images` gives one image of each kind; `mutants` damages them where it hurts.
"""

import functools

from tests.images.damage import flipped, mutants
from tests.images.jpeg import jpeg_segments, jpegs, with_size
from tests.images.other_formats import (
    JXL_OF_100_CHANNELS,
    bmp_file,
    gif_file,
    others,
    webp_animation,
    webp_canvas,
    webp_file,
)
from tests.images.pictures import indexed, picture, saved, scene
from tests.images.png import chunk, png_chunks, png_file, png_oddities, pngs

__all__ = ["JXL_OF_100_CHANNELS", "bmp_file", "chunk", "flipped", "gif_file", "indexed"]
__all__ += ["jpeg_segments", "mutants", "picture", "png_chunks", "png_file", "saved", "scene"]
__all__ += ["webp_animation", "webp_canvas", "webp_file", "whole_images", "with_size"]


def whole_images() -> dict[str, bytes]:
    """Name -> bytes of one file of each kind, readable by TensorFlow or not."""
    return dict(_drawn())


@functools.cache
def _drawn() -> dict[str, bytes]:
    images: dict[str, bytes] = {}
    for drawn in (jpegs(), pngs(), png_oddities(), others()):
        images |= dict(drawn)
    return images
