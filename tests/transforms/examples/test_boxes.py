"""Boxes become shares of the image, follow its turns, and are refused outside of it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from PIL import Image

from transforms.examples.boxes import Box, BoxError, normalized, turned
from transforms.images.pillow_images import TURNS


def test_pixels_become_shares() -> None:
    box = normalized(Box(4, 8, 3, 12), units="pixel", height=12, width=16)
    assert box == Box(0.25, 0.5, 0.25, 1.0)
    assert normalized(box, units="normalized", height=12, width=16) == box


@pytest.mark.parametrize(
    ("box", "units", "says"),
    [
        (Box(4, 17, 0, 12), "pixel", "xmax 17 is outside of the image, 0 to 16"),
        (Box(4, 8, 0, 13), "pixel", "ymax 13 is outside of the image, 0 to 12"),
        (Box(-1, 8, 0, 12), "pixel", "xmin -1 is outside"),
        (Box(0, 8, 0, 12), "normalized", "xmax 8 is outside of the image, 0 to 1"),
        (Box(8, 4, 0, 12), "pixel", "xmin 8 is not below xmax 4"),
        (Box(0, 4, 5, 5), "pixel", "ymin 5 is not below ymax 5"),
        (Box(0, math.nan, 0, 5), "pixel", "xmax is nan"),
        (Box(0, 4, 0, math.inf), "pixel", "ymax is inf"),
    ],
)
def test_boxes_that_cannot_be(box: Box, units: str, says: str) -> None:
    with pytest.raises(BoxError, match=says):
        normalized(box, units=units, height=12, width=16)


@pytest.mark.parametrize(
    ("box", "units", "clipped"),
    [
        (Box(-0.5, 16.5, 0, 12.25), "pixel", Box(0, 1, 0, 1)),
        (Box(8, 16, -0.5, 6), "pixel", Box(0.5, 1, 0, 0.5)),
        (Box(-1e-7, 1.0000001, 0.25, 1.000001), "normalized", Box(0, 1, 0.25, 1)),
    ],
)
def test_what_rounding_puts_outside_is_on_the_edge(box: Box, units: str, clipped: Box) -> None:
    assert normalized(box, units=units, height=12, width=16) == clipped


@pytest.mark.parametrize(
    ("box", "units", "says"),
    [
        (Box(0, 16.51, 0, 12), "pixel", "xmax 16.51 is outside"),
        (Box(0, 8, -0.51, 12), "pixel", "ymin -0.51 is outside"),
        (Box(0, 1.00001, 0, 1), "normalized", "xmax 1.00001 is outside"),
        (Box(16, 16.4, 0, 12), "pixel", "xmin 16 is not below xmax 16"),
    ],
)
def test_more_than_rounding_is_refused(box: Box, units: str, says: str) -> None:
    with pytest.raises(BoxError, match=says):
        normalized(box, units=units, height=12, width=16)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_box_holds_the_same_pixels_after_a_turn(orientation: int) -> None:
    height, width = 8, 12
    box = Box(xmin=2, xmax=5, ymin=1, ymax=3)
    pixels = np.zeros((height, width), np.uint8)
    pixels[1:3, 2:5] = 255
    image = Image.fromarray(pixels)
    if orientation != 1:
        image = image.transpose(TURNS[orientation])
    shares = turned(normalized(box, units="pixel", height=height, width=width), orientation)
    left, right = (round(side * image.width) for side in (shares.xmin, shares.xmax))
    top, bottom = (round(side * image.height) for side in (shares.ymin, shares.ymax))
    found = np.argwhere(np.asarray(image))
    assert (top, left) == tuple(found.min(0))
    assert (bottom, right) == tuple(found.max(0) + 1)
