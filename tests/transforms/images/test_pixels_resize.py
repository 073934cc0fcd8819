"""Resized images have the requested size, and show the same."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import simplejpeg
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from tests.foreign_images import deep_picture
from tests.images import picture, saved
from tests.transforms.core.pixel_changes import (
    HALF,
    LIMITS,
    WHOLE,
    Pixels,
    changed,
    distance,
    shown,
)
from transforms.images import pixels
from transforms.images.check import check_image
from transforms.images.pixel_options import Original, PixelOptions, Resize


class TestResize:
    @pytest.mark.parametrize("name", ["jpeg", "jpeg_grey", "png_pillow_RGBA", "gif", "webp_RGB"])
    @pytest.mark.parametrize("resize", ["shorter=12", "longer=12", "14x10", "60x50"])
    def test_the_size_is_the_one_asked_for(self, name: str, resize: str) -> None:
        wanted = Resize.parse(resize)
        stored = changed(WHOLE[name], PixelOptions(resize=wanted))
        info = check_image(WHOLE[name], limits=LIMITS)
        assert stored.info[1:3] == wanted.size(info.height, info.width)
        assert stored.info.channels == info.channels
        assert "resized" in stored.changes
        assert stored.original == Original(info.height, info.width, 1)

    def test_what_would_grow_stays_byte_for_byte(self) -> None:
        resize = Resize("exact", 20, 60, never_enlarge=True)
        assert changed(WHOLE["jpeg"], PixelOptions(resize=resize)).data == WHOLE["jpeg"]

    @pytest.mark.parametrize("size", [(401, 603), (403, 601), (400, 600), (399, 597)])
    @pytest.mark.parametrize("side", [150, 90, 40, 25, 18])
    def test_a_smaller_scale_shows_the_same_at_the_same_place(
        self, size: tuple[int, int], side: int
    ) -> None:
        rows, columns = np.mgrid[0 : size[0], 0 : size[1]]
        slope = 250 * columns / size[1]
        waves = 128 + 100 * np.sin(rows * 18 / size[0]) * np.cos(columns * 27 / size[1])
        for values, allowed in ((slope, 1.2), (waves, 2)):
            data = saved(Image.fromarray(values.astype(np.uint8)), "JPEG", quality=100)
            resize = Resize("shorter", side, side)
            stored = shown(changed(data, PixelOptions("png", resize)).data).squeeze()
            whole = Image.fromarray(shown(data).squeeze())
            expected = whole.resize(resize.size(*size)[::-1], Image.Resampling.LANCZOS)
            assert distance(stored, expected) < allowed

    def test_large_jpegs_are_decoded_at_a_smaller_scale(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        decoded: list[Pixels] = []
        original = simplejpeg.decode_jpeg

        def decode_jpeg(*arguments: Any, **options: Any) -> Any:
            decoded.append(original(*arguments, **options))
            return decoded[-1]

        monkeypatch.setattr(pixels.simplejpeg, "decode_jpeg", decode_jpeg)
        data = saved(picture("RGB", 161, 240), "JPEG")
        for side, height in ((161, 161), (81, 161), (40, 81), (20, 41), (10, 21), (2, 21)):
            changed(data, PixelOptions("png", Resize("shorter", side, side)))
            assert decoded[-1].shape[0] == height

    @given(
        st.integers(1, 70),
        st.integers(1, 70),
        st.integers(1, 70),
        st.integers(1, 70),
        st.sampled_from([("JPEG", "RGB"), ("JPEG", "L"), ("PNG", "RGBA"), ("TIFF", "P")]),
        st.sampled_from(["auto", "jpeg", "png"]),
        st.sampled_from(["keep", "rgb", "gray"]),
    )
    def test_any_size_to_any_other(
        self,
        high: int,
        wide: int,
        now_high: int,
        now_wide: int,
        kind: tuple[str, str],
        transcode: str,
        color: str,
    ) -> None:
        data = saved(picture(kind[1], high, wide), kind[0])
        options = PixelOptions(transcode, Resize("exact", now_high, now_wide), color)
        stored = changed(data, options)
        assert stored.info[1:3] == (now_high, now_wide)
        assert stored.original == Original(high, wide, 1)
        assert check_image(stored.data, limits=LIMITS) == stored.info

    def test_16_bits_stay_16_bits(self, tensorflow: Any) -> None:
        for color in ("keep", "gray"):
            stored = changed(saved(deep_picture(), "PNG"), dataclasses.replace(HALF, color=color))
            values = tensorflow.io.decode_png(stored.data, dtype=tensorflow.uint16).numpy()
            assert values.shape == (18, 22, 1) and len(np.unique(values)) > 300
            assert distance(values[:, :, 0], deep_picture().resize((22, 18))) < 655
