"""Images stored in another format show what they showed before."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.foreign_images import deep_images, deep_picture, lossless_images
from tests.images import picture, saved
from tests.transforms.core.pixel_changes import (
    AUTO,
    FOREIGN,
    WHOLE,
    changed,
    distance,
    outcome,
    reason,
    shown,
    slopes,
)
from transforms.core.rejections import Reason, RejectedImageError
from transforms.images.check import CheckedImage, ImageInfo
from transforms.images.pixel_options import AS_THEY_ARE, DEFAULT_LIMITS, PixelOptions, Resize
from transforms.images.pixels import change_pixels

LOSSLESS = lossless_images()


class TestTranscode:
    @pytest.mark.parametrize("name", sorted(set(LOSSLESS) - {"jp2_L", "jp2_RGB"}))
    def test_auto_stores_every_pixel_of_a_lossless_file(self, name: str) -> None:
        data, drawn = LOSSLESS[name]
        stored = changed(data, AUTO)
        assert (stored.info.format, stored.changes[0]) == ("png", "transcoded")
        mode = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}[stored.info.channels]
        assert ("A" in mode) == (drawn.mode in ("LA", "RGBA"))
        expected = np.asarray(drawn.convert(mode)).reshape(stored.info[1:])
        assert np.array_equal(shown(stored.data), expected)

    @pytest.mark.parametrize("mode", ["L", "RGB"])
    def test_auto_stores_photo_formats_as_jpeg(self, mode: str) -> None:
        for format_ in ("AVIF", "JPEG2000"):
            drawn = slopes().convert(mode)
            stored = changed(saved(drawn, format_), AUTO)
            assert stored.info == ImageInfo("jpeg", 37, 45, len(mode))
            assert distance(shown(stored.data).squeeze(), drawn) < 3

    def test_auto_keeps_alpha(self) -> None:
        for name in ("avif_RGBA", "jp2_RGBA", "tiff_RGBA", "tga_RGBA", "ico"):
            assert changed(FOREIGN[name], AUTO).info[::3] == ("png", 4)

    @pytest.mark.parametrize("name", deep_images())
    def test_grey_of_16_bits_keeps_them_in_png(self, name: str, tensorflow: Any) -> None:
        stored = changed(deep_images()[name], AUTO)
        assert stored.info == ImageInfo("png", 37, 45, 1)
        values = tensorflow.io.decode_png(stored.data, dtype=tensorflow.uint16).numpy()
        assert np.array_equal(values[:, :, 0], deep_picture())

    def test_16_bits_become_their_high_byte_where_there_is_no_room(self) -> None:
        high = np.asarray(deep_picture()) >> 8
        for options in (PixelOptions("jpeg", quality=100), PixelOptions("auto", color="rgb")):
            stored = changed(deep_images()["tiff_16"], options)
            assert np.abs(shown(stored.data)[:, :, 0].astype(int) - high).max() <= 4

    @pytest.mark.parametrize(
        "name",
        [name for name in WHOLE if name.startswith(("jpeg", "png_", "gif", "webp", "jxl", "bmp"))],
    )
    def test_to_png_changes_nothing_that_tensorflow_shows(self, name: str) -> None:
        before = outcome(WHOLE[name], AS_THEY_ARE)
        stored = outcome(WHOLE[name], PixelOptions("png"))
        if isinstance(before, RejectedImageError):
            # Of these TensorFlow reads fewer than Pillow does.
            assert isinstance(stored, RejectedImageError) or name.startswith("bmp")
            return
        assert isinstance(stored, CheckedImage), stored
        if not name.startswith(("bmp", "png_0_8_trns", "png_2_16_trns")):
            assert np.array_equal(shown(stored.data), shown(WHOLE[name]))

    @pytest.mark.parametrize("name", ["bmp_8", "bmp_rle8", "bmp_1", "bmp_4", "bmp_16", "bmp_long"])
    def test_auto_stores_bmps_that_tensorflow_misreads_as_png(self, name: str) -> None:
        assert changed(WHOLE[name], AUTO).info.format == "png"
        kept = outcome(WHOLE[name], PixelOptions(color="gray"))
        assert name == "bmp_8" or isinstance(kept, RejectedImageError)

    def test_all_in_one_format(self) -> None:
        for name in ("jpeg", "png_2_8", "gif", "webp_RGB", "bmp_24", "tiff_RGB"):
            for format_ in ("jpeg", "png"):
                stored = changed((WHOLE | FOREIGN)[name], PixelOptions(format_))
                assert stored.info.format == format_
                assert ("transcoded" in stored.changes) != name.startswith(format_)

    def test_quality_is_that_of_the_jpeg(self) -> None:
        data = WHOLE["png_pillow_RGB"]
        sizes = [len(changed(data, PixelOptions("jpeg", quality=q)).data) for q in (1, 50, 95)]
        assert sizes == sorted(sizes) and sizes[0] < sizes[2] / 3
        assert len(changed(data, PixelOptions("jpeg")).data) == sizes[2]

    def test_a_lossless_webp_stays_lossless(self) -> None:
        larger = PixelOptions(resize=Resize("exact", 60, 60))
        assert changed(WHOLE["webp_lossless_RGB"], larger).info.format == "png"
        assert changed(WHOLE["webp_RGB"], larger).info.format == "jpeg"

    def test_a_jpeg_has_no_room_for_a_very_long_side(self) -> None:
        data = saved(Image.new("L", (65_501, 1)), "PNG")
        assert reason(data, PixelOptions("jpeg")) is Reason.UNSUPPORTED_IMAGE
        fits = changed(saved(Image.new("L", (65_500, 1)), "PNG"), PixelOptions("jpeg"))
        assert shown(fits.data).shape == (1, 65_500, 1)

    def test_profiles_and_comments_are_left_out(self) -> None:
        for name in ("jpeg_icc", "jpeg_exif"):
            stored = changed(WHOLE[name], PixelOptions("png"))
            assert len(stored.data) < 6000
        tagged = saved(picture("RGB"), "TIFF", icc_profile=bytes(5000))
        assert not Image.open(io.BytesIO(changed(tagged, AUTO).data)).info


def test_a_quality_is_for_jpegs_too_when_it_is_given() -> None:
    data = saved(picture("RGB", 48, 64), "JPEG", quality=95)
    kept = change_pixels(data, PixelOptions(transcode="jpeg"), limits=DEFAULT_LIMITS)
    assert (kept.data, kept.changes) == (data, ("untouched",))
    options = PixelOptions(transcode="jpeg", quality=40)
    smaller = change_pixels(data, options, limits=DEFAULT_LIMITS)
    assert smaller.changes == ("reencoded",) and smaller.info == kept.info
    assert len(smaller.data) < len(data) / 2
