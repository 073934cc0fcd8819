"""Options of pixels, and what they make of every kind of image."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import io
from typing import Any

import numpy as np
import pytest
import simplejpeg
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from tests import images
from tests.foreign_images import deep_images, deep_picture, exif, laid, lossless_images
from tests.images import picture, saved
from tests.marks import rest_slow
from tests.transforms.core.pixel_changes import (
    AUTO,
    FOREIGN,
    HALF,
    LIMITS,
    WHOLE,
    Pixels,
    changed,
    distance,
    outcome,
    reason,
    shown,
    slopes,
)
from transforms.core.rejections import Reason, RejectedImageError
from transforms.images import pixels
from transforms.images.check import CheckedImage, ImageInfo, check_image
from transforms.images.pixel_options import (
    AS_THEY_ARE,
    CHANGES,
    DEFAULT_LIMITS,
    Limits,
    Original,
    PixelOptions,
    Resize,
)
from transforms.images.pixels import change_pixels
from transforms.images.tags import orientation_tag

# What is stored of an image, compared with TensorFlow.

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


# Images stored in colour or in grey: their channels, and what is transparent.


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


# Pixels are turned as EXIF says, or keep their tag.

# An XMP packet.
PLACE = b'<x exif:GPSLatitude="52,30N" tiff:Orientation="6"/>'


def tagged(image: Image.Image, format_: str, orientation: int) -> bytes:
    """The file of an image with an orientation."""
    if format_ == "TIFF":
        return saved(image, format_, tiffinfo={0x0112: orientation})
    return saved(image, format_, exif=exif(orientation))


class TestOrientation:
    @pytest.mark.parametrize("orientation", range(1, 9))
    @pytest.mark.parametrize("format_", ["JPEG", "PNG", "WEBP", "TIFF"])
    def test_pixels_are_turned_upright(self, format_: str, orientation: int) -> None:
        lying = laid(picture("RGB"), orientation)
        data = tagged(lying, format_, orientation)
        stored = changed(data, PixelOptions("png", exif_orientation="apply"))
        assert stored.original == Original(lying.height, lying.width, orientation)
        assert ("turned" in stored.changes) == (orientation != 1)
        assert stored.info[1:3] == (37, 45)
        # As TensorFlow shows the file, which JPEG and WebP have changed a little.
        seen = lying if format_ == "TIFF" else Image.fromarray(shown(data))
        upright = laid(seen, {6: 8, 8: 6}.get(orientation, orientation))
        assert np.array_equal(shown(stored.data), upright)
        assert stored.data == data or "exif" not in Image.open(io.BytesIO(stored.data)).info

    @pytest.mark.parametrize("orientation", range(2, 9))
    def test_an_avif_is_turned_like_a_jpeg(self, orientation: int) -> None:
        lying = laid(slopes(), orientation)
        stored = changed(
            saved(lying, "AVIF", exif=exif(orientation), quality=95),
            PixelOptions("auto", exif_orientation="apply"),
        )
        assert stored.changes == ("transcoded", "turned")
        assert distance(shown(stored.data), slopes()) < 3

    @pytest.mark.parametrize("orientation", range(1, 9))
    @pytest.mark.parametrize("format_", ["JPEG", "PNG", "TIFF"])
    @pytest.mark.parametrize("transcode", ["jpeg", "png"])
    def test_a_tag_that_is_kept_stays_with_pixels_that_are_not_turned(
        self, format_: str, transcode: str, orientation: int
    ) -> None:
        lying = laid(slopes(), orientation)
        stored = changed(
            tagged(lying, format_, orientation),
            PixelOptions(transcode, Resize("exact", lying.height // 2, lying.width // 2)),
        )
        assert stored.original == Original(lying.height, lying.width, 1)
        assert stored.info[1:3] == (lying.height // 2, lying.width // 2)
        with Image.open(io.BytesIO(stored.data)) as reread:
            assert reread.getexif().get(0x0112, 1) == orientation
        small = lying.resize((lying.width // 2, lying.height // 2), Image.Resampling.LANCZOS)
        assert distance(shown(stored.data), small) < 3

    def test_a_size_is_that_of_the_upright_picture(self) -> None:
        for orientation in range(1, 9):
            data = tagged(laid(slopes(), orientation), "JPEG", orientation)
            options = PixelOptions("png", Resize("exact", 30, 20), exif_orientation="apply")
            stored = changed(data, options)
            assert stored.info[1:3] == (30, 20)
            upright = slopes().resize((20, 30), Image.Resampling.LANCZOS)
            assert distance(shown(stored.data), upright) < 3

    def test_only_what_is_turned_is_written_anew(self) -> None:
        options = PixelOptions(exif_orientation="apply")
        upright = saved(picture("RGB"), "JPEG", exif=exif(1))
        assert changed(upright, options).data == upright
        lying = saved(picture("RGB"), "JPEG", exif=exif(3))
        assert changed(lying, options).changes == ("turned",)
        assert changed(lying, PixelOptions(color="rgb")).data == lying

    @pytest.mark.parametrize("format_", ["JPEG", "WEBP"])
    def test_the_tag_is_that_of_the_file_and_the_place_that_of_the_stored_bytes(
        self, format_: str
    ) -> None:
        data = saved(picture("RGB"), format_, xmp=PLACE)
        kept, half = changed(data, PixelOptions()), changed(data, HALF)
        assert (kept.data, kept.orientation, kept.has_place) == (data, 6, True)
        assert (half.orientation, half.has_place) == (6, False)
        assert changed(saved(picture("RGB"), format_), HALF).orientation == 0

    @pytest.mark.parametrize("orientation", [1, 6])
    def test_the_tag_of_a_file_that_only_pillow_reads(self, orientation: int) -> None:
        data = tagged(picture("RGB"), "TIFF", orientation)
        found = changed(data, PixelOptions("auto")).orientation
        # Pillow says 1 also if there is none.
        assert found == (0 if orientation == 1 else orientation)


# Resized images have the requested size, and show the same.


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


# Images stored in another format show what they showed before.

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


# Sizes are read as written and make the sizes they say.

SIDES = st.integers(1, 20_000)
RULES = st.sampled_from(["shorter", "longer"])
RESIZES = st.one_of(
    st.builds(lambda rule, side, flag: Resize(rule, side, side, flag), RULES, SIDES, st.booleans()),
    st.builds(Resize, st.just("exact"), SIDES, SIDES, st.booleans()),
)


@pytest.mark.parametrize(
    ("text", "resize"),
    [
        ("shorter=256", Resize("shorter", 256, 256)),
        ("longer=512,never_enlarge", Resize("longer", 512, 512, never_enlarge=True)),
        ("640x480", Resize("exact", height=480, width=640)),
        (" 224x224,never_enlarge ", Resize("exact", 224, 224, never_enlarge=True)),
        ("65500x1", Resize("exact", height=1, width=65_500)),
    ],
)
def test_sizes(text: str, resize: Resize) -> None:
    assert Resize.parse(text) == resize


@pytest.mark.parametrize(
    "text",
    ["", "256", "x", "5x", "x5", "shorter", "shorter=", "shorter=-1", "wide=5", "5x5x5", "5.5x5"]
    + ["5*5", "longer=5,", "5x5,enlarge", "5 x 5", "٥x٥"],
)
def test_anything_else_is_shown_how_to_write_it(text: str) -> None:
    with pytest.raises(ValueError, match="is not a size: (did you mean|write it like shorter=256)"):
        Resize.parse(text)


@pytest.mark.parametrize("text", ["shorter=0", "0x5", "5x65501", "longer=99999"])
def test_a_side_has_its_limits(text: str) -> None:
    with pytest.raises(ValueError, match="a side has 1 to 65500 pixels"):
        Resize.parse(text)


@given(RESIZES)
def test_a_size_is_written_as_it_is_read(resize: Resize) -> None:
    assert Resize.parse(str(resize)) == resize


@given(RULES, SIDES, SIDES, SIDES)
def test_one_side_gets_the_size_and_the_other_keeps_the_shape(
    rule: str, side: int, height: int, width: int
) -> None:
    new = Resize(rule, side, side).size(height, width)
    named = {"shorter": min, "longer": max}[rule]
    assert named(new) == side
    scale = side / named(height, width)
    for now, before in zip(new, (height, width), strict=True):
        assert now == 1 or abs(now - before * scale) <= 0.5


@given(SIDES, SIDES, SIDES, SIDES)
def test_an_exact_size_is_exact(height: int, width: int, now_high: int, now_wide: int) -> None:
    assert Resize("exact", now_high, now_wide).size(height, width) == (now_high, now_wide)


@given(RESIZES, SIDES, SIDES)
def test_what_would_grow_can_stay_as_it_is(resize: Resize, height: int, width: int) -> None:
    free = resize._replace(never_enlarge=False).size(height, width)
    bound = resize._replace(never_enlarge=True).size(height, width)
    grows = free[0] > height or free[1] > width
    assert bound == ((height, width) if grows else free)


@given(RESIZES, SIDES, SIDES)
def test_a_turned_image_gets_the_turned_size(resize: Resize, height: int, width: int) -> None:
    turned = resize._replace(height=resize.width, width=resize.height)
    assert turned.size(width, height) == resize.size(height, width)[::-1]


def test_nothing_changes_by_default() -> None:
    assert AS_THEY_ARE.changes_nothing and AS_THEY_ARE.jpeg_quality == 95
    assert PixelOptions(strip_metadata=True, depth=16).changes_nothing
    for change in (
        {"transcode": "auto"},
        {"resize": Resize("longer", 9, 9, never_enlarge=True)},
        {"color": "gray"},
        {"exif_orientation": "apply"},
    ):
        options = PixelOptions(**change)
        assert not options.changes_nothing
        assert dataclasses.replace(options, quality=5).jpeg_quality == 5


@pytest.mark.parametrize("options", [{}, {"transcode": "png", "color": "rgb"}])
def test_a_quality_needs_jpegs_that_are_written(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="--quality (applies only to|cannot be used with)"):
        PixelOptions(**options, quality=5)
