"""Images stored in colour or in grey: their channels, and what is transparent."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from tests.images import picture, saved
from tests.transforms.core.pixel_changes import (
    FOREIGN,
    HALF,
    LIMITS,
    WHOLE,
    changed,
    distance,
    outcome,
    shown,
    slopes,
)
from transforms.images.check import CheckedImage, check_image
from transforms.images.pixel_options import PixelOptions


class TestColor:
    @pytest.mark.parametrize(("color", "channels"), [("rgb", 3), ("gray", 1)])
    @pytest.mark.filterwarnings("ignore::UserWarning")
    def test_every_image_gets_its_channels(self, color: str, channels: int) -> None:
        stored = 0
        for name, data in (WHOLE | FOREIGN).items():
            result = outcome(data, PixelOptions("auto", color=color))
            if isinstance(result, CheckedImage):
                stored += 1
                assert result.info.channels == channels, name
                if name in WHOLE and not name.startswith(
                    ("bmp", "ppm", "tiff", "ico", "png_palette")
                ):
                    before = check_image(data, limits=LIMITS).channels
                    assert ("recolored" in result.changes) == (before != channels), name
        assert stored > 180

    def test_grey_is_the_brightness(self) -> None:
        data = saved(slopes(), "JPEG", quality=95)
        grey = shown(changed(data, PixelOptions("png", color="gray")).data)
        assert distance(grey[:, :, 0], Image.fromarray(shown(data)).convert("L")) < 1
        stored = changed(WHOLE["png_pillow_RGB"], PixelOptions(color="gray"))
        assert stored.changes == ("recolored",) and stored.info.format == "png"
        assert np.array_equal(shown(stored.data)[:, :, 0], picture("RGB").convert("L"))

    def test_rgb_repeats_grey(self) -> None:
        stored = changed(WHOLE["png_pillow_L"], PixelOptions(color="rgb"))
        assert np.array_equal(shown(stored.data), picture("L").convert("RGB"))

    def test_what_was_transparent_is_white(self) -> None:
        drawn = Image.new("RGBA", (16, 16), (255, 0, 0, 0))
        drawn.paste((0, 0, 200, 255), (0, 0, 16, 8))
        drawn.paste((0, 0, 0, 128), (8, 0, 16, 8))
        for options in (PixelOptions(color="rgb"), PixelOptions("jpeg", color="rgb", quality=100)):
            stored = changed(saved(drawn, "PNG"), options)
            assert "flattened" in stored.changes
            flat = shown(stored.data)
            expected = np.array([[[0, 0, 200], [127, 127, 127]], [[255] * 3, [255] * 3]])
            assert np.abs(flat[3::9, 3::9].astype(int) - expected).max() <= 12

    def test_alpha_is_kept_unless_the_options_leave_no_room(self) -> None:
        for name in ("png_pillow_RGBA", "png_pillow_LA", "webp_RGBA", "png_3_8_trns"):
            channels = check_image(WHOLE[name], limits=LIMITS).channels
            stored = changed(WHOLE[name], HALF)
            assert (stored.info.format, stored.info.channels) == ("png", channels)
            assert "flattened" not in stored.changes
            flat = changed(WHOLE[name], PixelOptions("jpeg"))
            assert (flat.info.channels, "flattened" in flat.changes) == (channels - 1, True)
