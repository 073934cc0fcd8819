"""A JPEG 2000 of more tiles than an image needs is refused by its header."""

from __future__ import annotations

import pytest
from PIL import Image

from tests.foreign_images import foreign_images
from tests.hostile.costly_files import jpeg2000_of, jpeg2000_of_tiles
from tests.images import saved
from transforms.core.rejections import Reason, RejectedImageError
from transforms.images.headers import COST, MAX_TILES, check_jpeg2000
from transforms.images.pillow_images import open_image
from transforms.images.pixel_options import Limits


def test_real_files_are_opened() -> None:
    for name, data in foreign_images().items():
        if name.startswith("jp2"):
            check_jpeg2000(data)
    check_jpeg2000(saved(Image.new("L", (640, 480)), "JPEG2000", tile_size=(16, 16)))


def test_tiles_are_counted() -> None:
    side = int(MAX_TILES**0.5)
    check_jpeg2000(jpeg2000_of_tiles(side))
    with pytest.raises(RejectedImageError, match=f"{(side + 1) ** 2} tiles, more than {MAX_TILES}"):
        check_jpeg2000(jpeg2000_of_tiles(side + 1))
    check_jpeg2000(b"\xff\x4f\xff\x51 cut")


def test_pixels_count_several_times() -> None:
    data = jpeg2000_of(100)
    open_image(data, ("JPEG2000",), Limits(100 * 100 * COST, 1 << 20))
    with pytest.raises(RejectedImageError) as caught:
        open_image(data, ("JPEG2000",), Limits(100 * 100 * COST - 1, 1 << 20))
    assert caught.value.reason is Reason.TOO_MANY_PIXELS
    assert (
        caught.value.detail
        == "100 x 100 pixels (height x width), which count 4 times, more than 39999"
    )
