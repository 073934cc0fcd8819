"""What is stored of an image, compared with TensorFlow."""

from __future__ import annotations

import concurrent.futures
import dataclasses

import numpy as np
import pytest
from PIL import Image

from tests import images
from tests.images import picture, saved
from tests.marks import rest_slow
from tests.transforms.core.pixel_changes import (
    AUTO,
    FOREIGN,
    HALF,
    LIMITS,
    WHOLE,
    changed,
    distance,
    outcome,
    reason,
    shown,
)
from transforms.core.rejections import Reason, RejectedImageError
from transforms.images.check import CheckedImage, check_image
from transforms.images.pixel_options import CHANGES, Limits, Original, PixelOptions, Resize
from transforms.images.pixels import change_pixels
from transforms.images.tags import orientation_tag

MANY_OPTIONS = {
    "auto": AUTO,
    "larger": PixelOptions("keep", Resize("exact", 50, 61)),
    "all": PixelOptions("jpeg", Resize("longer", 16, 16), "gray", 50, "apply"),
    "jpeg": PixelOptions("jpeg", quality=70),
    "png": PixelOptions("png"),
    "smaller": PixelOptions("auto", Resize("shorter", 9, 9)),
    "rgb": PixelOptions("auto", color="rgb"),
    "gray": PixelOptions("auto", color="gray"),
    "turned": PixelOptions("auto", exif_orientation="apply"),
}


@pytest.mark.usefixtures("tensorflow")
@pytest.mark.parametrize("options", rest_slow(MANY_OPTIONS.values(), 3), ids=MANY_OPTIONS)
@pytest.mark.filterwarnings("ignore::UserWarning")
class TestJudge:
    def test_what_is_stored_tensorflow_decodes_to_what_is_said(self, options: PixelOptions) -> None:
        stored = 0
        for name, data in (WHOLE | FOREIGN).items():
            result = outcome(data, options)
            if isinstance(result, CheckedImage):
                stored += 1
                assert check_image(result.data, limits=LIMITS) == result.info, name
                assert shown(result.data).shape == result.info[1:], name
                assert result.info.format in ("jpeg", "png") or result.changes == ("untouched",)
                assert (result.changes == ("untouched",)) == (result.data == data), name
                assert set(result.changes) <= set(CHANGES)
        assert stored > 140

    def test_what_is_damaged_is_decided_as_without_options(self, options: PixelOptions) -> None:
        kept = dataclasses.replace(
            options, transcode="keep" if options.transcode == "auto" else "png", quality=None
        )
        sources = {name: WHOLE[name] for name in ("jpeg", "jpeg_progressive", "png_2_8", "gif")}
        accepted = []
        for name, data in images.mutants(sources, kinds=("jpeg",)):
            try:
                check_image(data, limits=LIMITS)
            except RejectedImageError as rejected:
                assert reason(data, kept) == rejected.reason, name
            else:
                result = outcome(data, kept)
                assert isinstance(result, CheckedImage), f"{name}: {result}"
                assert check_image(result.data, limits=LIMITS) == result.info
                accepted.append(name)
        assert len(accepted) > 20

    def test_damaged_files_of_other_formats_are_rejected_or_stored(
        self, options: PixelOptions
    ) -> None:
        stored = 0
        for name, data in images.mutants(FOREIGN, flips=2):
            result = outcome(data, options)
            if isinstance(result, CheckedImage):
                stored += 1
                assert check_image(result.data, limits=LIMITS) == result.info, name
        # Without `--transcode` only what TensorFlow reads is stored.
        assert stored > (0 if options.transcode == "keep" else 100)


class TestUntouched:
    @pytest.mark.parametrize(
        ("name", "options"),
        [
            ("jpeg", AUTO),
            ("jpeg", PixelOptions("jpeg")),
            ("png_3_8", PixelOptions("png")),
            ("gif_animated", AUTO),
            ("webp_RGBA", AUTO),
            ("apng", PixelOptions("png")),
            ("bmp_pillow_L", AUTO),
            ("bmp_32", AUTO),
            ("jpeg", PixelOptions(resize=Resize("exact", 37, 45))),
            ("jpeg", PixelOptions(resize=Resize("shorter", 37, 37))),
            ("jpeg", PixelOptions(resize=Resize("longer", 46, 46, never_enlarge=True))),
            ("jpeg", PixelOptions(color="rgb")),
            ("png_3_8", PixelOptions(color="rgb")),
            ("jpeg_grey", PixelOptions(color="gray")),
            ("png_0_16", PixelOptions(color="gray")),
            ("jpeg_icc", PixelOptions(exif_orientation="apply")),
            ("jpeg_exif", AUTO),
        ],
    )
    def test_what_is_right_already_is_stored_byte_for_byte(
        self, name: str, options: PixelOptions
    ) -> None:
        stored = changed(WHOLE[name], options)
        info = check_image(WHOLE[name], limits=LIMITS)
        original = Original(info.height, info.width, 1)
        tag = orientation_tag(WHOLE[name], info.format)
        assert stored == CheckedImage(WHOLE[name], info, original, ("untouched",), orientation=tag)

    def test_it_is_checked_as_without_options(self) -> None:
        cut = WHOLE["png_2_8"][:-30]
        assert reason(cut, AUTO) is Reason.CORRUPT_IMAGE
        assert change_pixels(cut, AUTO, limits=LIMITS, check="header").data == cut
        with pytest.raises(RejectedImageError, match="PNG"):
            change_pixels(cut, HALF, limits=LIMITS, check="header")

    def test_cmyk_jpegs_are_among_it_for_tensorflow_shows_them_in_rgb(self) -> None:
        paper = picture("CMYK").convert("RGB")
        for name in ("jpeg_cmyk", "jpeg_ycck"):
            assert changed(WHOLE[name], AUTO).changes == ("untouched",)
        assert distance(shown(WHOLE["jpeg_cmyk"]), paper) < 12


class TestFrames:
    @pytest.mark.parametrize("name", ["gif_animated", "webp_animated", "tiff_pages"])
    def test_the_first_is_stored_and_that_is_said(self, name: str) -> None:
        data = (WHOLE | FOREIGN)[name]
        stored = changed(data, PixelOptions("png"))
        assert stored.changes == ("transcoded", "first_frame")
        if name != "tiff_pages":
            assert np.array_equal(shown(stored.data), shown(data))

    def test_an_animation_that_need_not_change_keeps_all(self) -> None:
        for name in ("gif_animated", "webp_animated", "apng"):
            assert changed(WHOLE[name], AUTO).data == WHOLE[name]


class TestLimits:
    def test_they_are_checked_before_anything_is_decoded(self) -> None:
        few = LIMITS._replace(max_pixels=100)
        for data in (WHOLE["jpeg"], FOREIGN["tga_RGB"][:500], FOREIGN["jp2_RGB"][:300]):
            assert reason(data, AUTO, few) is Reason.TOO_MANY_PIXELS
        assert reason(FOREIGN["tiff_RGB"], AUTO, Limits(1 << 24, 99)) is Reason.TOO_MANY_BYTES
        assert reason(b"", AUTO) is Reason.EMPTY_FILE

    def test_what_would_grow_too_large_is_not_made(self) -> None:
        data = saved(Image.new("L", (300, 1)), "PNG")
        options = PixelOptions(resize=Resize("shorter", 60, 60))
        few = LIMITS._replace(max_pixels=18_000 * 60)
        assert changed(data, options, few).info[1:3] == (60, 18_000)
        with pytest.raises(RejectedImageError, match="60 x 18000 pixels .* when it is resized"):
            changed(data, options, few._replace(max_pixels=few.max_pixels - 1))

    def test_what_is_stored_is_within_them(self) -> None:
        limits = LIMITS._replace(max_bytes=len(WHOLE["jpeg"]))
        with pytest.raises(RejectedImageError, match="re-encoded as png: ") as caught:
            changed(WHOLE["jpeg"], PixelOptions("png"), limits)
        assert caught.value.reason is Reason.TOO_MANY_BYTES


def test_the_same_bytes_in_any_thread() -> None:
    jobs = [
        (data, options)
        for name, data in (WHOLE | FOREIGN).items()
        if name in ("jpeg", "png_6_8", "gif", "avif_RGB", "tiff_tiff_lzw", "jp2_16", "webp_RGB")
        for options in MANY_OPTIONS.values()
    ] * 3
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda job: str(outcome(*job)), jobs))
    assert together == [str(outcome(*job)) for job in jobs]
