"""Masks and further images of a record that do not fit its image."""

from __future__ import annotations

import functools
from typing import Any

import pytest
from PIL import Image

from tests.images import saved
from transforms.examples.partners import partner_problems
from transforms.images.check import ImageInfo, check_image
from transforms.images.pixel_options import DEFAULT_LIMITS

MASK = saved(Image.new("L", (16, 12)), "PNG")
TALL = saved(Image.new("L", (12, 16)), "PNG")
COLORED = saved(Image.new("RGB", (16, 12)), "PNG")


def problems(**held: Any) -> list[str]:
    decode = functools.partial(check_image, limits=DEFAULT_LIMITS)
    return list(partner_problems(held, (12, 16), decode))


@pytest.mark.parametrize(
    ("masks", "found"),
    [
        ([], []),
        ([MASK, MASK], []),
        ([MASK, TALL], ["the mask of object 1 (object.mask) is 16 x 12, the image 12 x 16"]),
        (
            [COLORED, MASK, b""],
            [
                "the mask of object 0 (object.mask) is a png of 3 channels, not a gray PNG",
                "the mask of object 2 (object.mask) is empty_file: 0 bytes",
            ],
        ),
    ],
)
def test_masks_of_objects(masks: list[bytes], found: list[str]) -> None:
    assert problems(**{"object.mask": masks}) == found


def test_a_mask_that_is_wider() -> None:
    wide = saved(Image.new("L", (20, 12)), "PNG")
    assert problems(**{"mask.bytes": [wide]}) == [
        "the mask (mask.bytes) is 12 x 20, the image 12 x 16"
    ]


def test_the_mask_of_an_image() -> None:
    held = {"mask.bytes": [TALL], "mask.format": [b"gif"]}
    assert problems(**held) == [
        "the mask (mask.bytes) is png, the record says gif",
        "the mask (mask.bytes) is 16 x 12, the image 12 x 16",
    ]


def test_masks_that_would_take_long_are_not_decoded() -> None:
    """Each of them costs as much as its image, and a record of 100 MB may hold 5,000."""
    masks = [b"%d" % number for number in range(5000)]
    [problem] = partner_problems({"object.mask": masks}, (5000, 4000), lambda _: 1 / 0)
    assert problem.startswith("the masks of 5000 objects, each of 5000 x 4000 pixels")


def test_equal_masks_are_decoded_once() -> None:
    decoded = []

    def decode(data: bytes) -> ImageInfo:
        decoded.append(data)
        return check_image(data, limits=DEFAULT_LIMITS)

    assert list(partner_problems({"object.mask": [MASK] * 900}, (12, 16), decode)) == []
    assert len(decoded) == 1
