"""With `--depth 16`, colour and numbers of 16 bits keep them; without it, they are counted."""

from __future__ import annotations

import dataclasses
import functools
import io
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.deep_tiff import samples, tiff
from tests.foreign_images import deep_picture, foreign_images
from tests.heic_images import DEEP_SHAPE, deep_heic, heic
from tests.images import picture, saved
from tests.lazy import lazy_module
from tests.transforms.core.pixel_changes import AUTO, LIMITS, WHOLE, changed, reason, slopes
from transforms.core.rejections import Reason, RejectedImageError
from transforms.images import deep_pixels
from transforms.images import pillow_images as heic_module
from transforms.images.check import ImageInfo
from transforms.images.headers import Header
from transforms.images.pillow_images import TURNS, decode, open_image
from transforms.images.pixel_options import UNTOUCHED, PixelOptions, Resize
from transforms.images.pixels import scaled
from transforms.images.tags import exif_of, orientation_tag

tensorflow = lazy_module("tensorflow")

DEEP = PixelOptions("auto", depth=16)
HEIC_BITS = pytest.mark.parametrize("bits", [10, 12])


def stored(data: bytes, options: PixelOptions = DEEP) -> Any:
    """The samples that TensorFlow decodes from the stored PNG."""
    made = changed(data, options)
    assert made.info.format == "png" and made.data[24] == 16
    pixels = tensorflow.io.decode_png(made.data, dtype=tensorflow.uint16).numpy()
    assert pixels.shape == made.info[1:]
    return pixels


def decoded(data: bytes) -> Any:
    opened = open_image(data, ("TIFF",), LIMITS)
    return deep_pixels.deep_pixels(data, Header("tiff", 0, 0, 0), opened, LIMITS)


class TestTiff:
    @pytest.mark.parametrize("order", "<>")
    @pytest.mark.parametrize("packed", [False, True])
    @pytest.mark.parametrize(("channels", "extra"), [(3, None), (4, 2)])
    def test_every_bit_of_color_is_there(
        self, order: str, packed: bool, channels: int, extra: int | None
    ) -> None:
        pixels = samples(channels)
        np.testing.assert_array_equal(
            decoded(tiff(pixels, order, extra, packed=packed)), pixels, strict=True
        )

    @pytest.mark.parametrize("order", "<>")
    @pytest.mark.parametrize(("channels", "extra"), [(3, None), (4, 2)])
    def test_so_it_is_in_separate_channels(
        self, order: str, channels: int, extra: int | None
    ) -> None:
        """Which Pillow took for 8 bits, and showed noise."""
        pixels = samples(channels)
        data = tiff(pixels, order, extra, planar=2)
        np.testing.assert_array_equal(decoded(data), pixels, strict=True)
        opened = open_image(data, ("TIFF",), LIMITS)
        assert np.array_equal(decode(opened), pixels >> 8)
        with pytest.raises(RejectedImageError, match="store its samples side by side") as caught:
            decoded(tiff(pixels, order, extra, planar=2, packed=True))
        assert caught.value.reason is Reason.UNSUPPORTED_IMAGE

    def test_color_multiplied_with_alpha_is_divided(self) -> None:
        pixels = np.full((3, 2, 4), 20_000, np.uint16)
        pixels[:, :, 3] = 40_000
        pixels[0, 0] = 0
        found = decoded(tiff(pixels, extra=1))
        assert found[1, 1].tolist() == [32_768, 32_768, 32_768, 40_000]
        assert found[0, 0].tolist() == [0, 0, 0, 0]
        assert decoded(tiff(samples(4), extra=0)).shape == (6, 5, 3)

    def test_grey_and_all_else_are_as_without_it(self) -> None:
        data = saved(deep_picture(), "TIFF")
        assert changed(data, DEEP) == changed(data, AUTO)
        for other in (saved(picture("RGB"), "TIFF"), saved(picture("CMYK"), "TIFF")):
            assert changed(other, DEEP) == changed(other, AUTO)

    @pytest.mark.parametrize("orientation", range(1, 9))
    def test_pixels_are_turned_as_pillow_turns_them(self, orientation: int) -> None:
        pixels = samples(3)
        lying = Image.fromarray((pixels >> 8).astype(np.uint8))
        expected = lying if orientation == 1 else lying.transpose(TURNS[orientation])
        assert np.array_equal(deep_pixels.turned(pixels, orientation) >> 8, expected)


class TestNumbers:
    def test_floating_point_from_0_to_1_fills_16_bits(self) -> None:
        values = np.linspace(0, 1, 12, dtype=np.float32).reshape(3, 4)
        found = decoded(saved(Image.fromarray(values), "TIFF"))
        assert np.array_equal(found[:, :, 0], np.rint(values.astype(float) * 65_535))
        made = changed(saved(Image.fromarray(values), "TIFF"), DEEP)
        assert made.info == ImageInfo("png", 3, 4, 1) and made.changes == ("transcoded",)

    def test_integers_stay_as_they_are(self) -> None:
        values = np.array([[0, 1, 300], [65_535, 2, 3]], np.int32)
        found = decoded(saved(Image.fromarray(values), "TIFF"))
        assert np.array_equal(found[:, :, 0], values)

    @pytest.mark.parametrize(
        ("values", "why"),
        [
            ([[0.5, 1.5]], "from 0.5 to 1.5, but only floating point from 0 to 1 is read"),
            ([[-0.1, 1]], "from -0.1 to 1,"),
            ([[np.nan, 1]], "from nan to nan,"),
            ([[3, 65_536]], "from 3 to 65536, but only integers from 0 to 65535"),
            ([[-1, 5]], "from -1 to 5,"),
        ],
    )
    @pytest.mark.parametrize("options", [AUTO, DEEP])
    def test_others_are_rejected_and_why(
        self, values: list[list[float]], why: str, options: PixelOptions
    ) -> None:
        array = np.array(values)
        array = array.astype(np.int32 if array.dtype.kind == "i" else np.float32)
        with pytest.raises(RejectedImageError, match=why) as caught:
            changed(saved(Image.fromarray(array), "TIFF"), options)
        assert caught.value.reason is Reason.UNSUPPORTED_IMAGE

    @pytest.mark.parametrize(
        ("values", "found"),
        [
            (np.array([[0, 0.5, 1]], np.float32), [[0, 128, 255]]),
            (np.array([[0, 255, 256, 65_535]], np.int32), [[0, 0, 1, 255]]),
        ],
    )
    def test_without_it_8_bits_are_kept_and_counted(
        self, values: np.ndarray[Any, Any], found: list[list[int]]
    ) -> None:
        made = changed(saved(Image.fromarray(values), "TIFF"), AUTO)
        assert made.info == ImageInfo("png", *values.shape, 1)
        assert made.changes == ("transcoded", "to_8_bits")
        assert np.asarray(Image.open(io.BytesIO(made.data))).tolist() == found


class TestChanges:
    def test_color(self) -> None:
        grey = np.array([[[0], [1234]]], np.uint16)
        assert deep_pixels.recolored(grey, "rgb").tolist() == [[[0] * 3, [1234] * 3]]
        white = np.full((1, 1, 3), 65_535, np.uint16)
        assert deep_pixels.recolored(white, "gray").tolist() == [[[65_535]]]
        half = np.array([[[100, 200, 300, 0], [100, 200, 300, 65_535]]], np.uint16)
        assert deep_pixels.recolored(half, "rgb").tolist() == [[[65_535] * 3, [100, 200, 300]]]
        assert deep_pixels.recolored(half, "keep") is half

    def test_grey_weighs_colors_as_pillow_does(self) -> None:
        pixels = np.asarray(picture("RGB"))
        grey = deep_pixels.recolored(pixels.astype(np.uint16), "gray")[:, :, 0]
        assert np.array_equal(grey, picture("RGB").convert("L"))

    @pytest.mark.parametrize("mode", ["L", "LA", "RGB", "RGBA"])
    def test_size(self, mode: str) -> None:
        small = np.asarray(slopes().convert(mode))
        pixels = small.reshape(37, 45, -1).astype(np.uint16) * 257
        smaller = functools.partial(scaled, height=15, width=22)
        found = deep_pixels.band_by_band(pixels, smaller)
        expected = np.asarray(slopes().convert(mode).resize((22, 15), Image.Resampling.LANCZOS))
        assert np.abs(found / 257 - expected.reshape(found.shape)).max() < 1
        # A transparent red leaves no trace.
        if mode == "RGBA":
            pixels[:, :20] = 65_535, 0, 0, 0
            found = deep_pixels.band_by_band(pixels, smaller)
            assert (found[:, 12:, 3] > 65_000).all() and found[:, 10, 0].max() < 60_000


@pytest.mark.slow
class TestStored:
    """Of colour, whose PNGs TensorFlow encodes."""

    def test_every_bit(self) -> None:
        for channels, extra in ((3, None), (4, 2)):
            pixels = samples(channels)
            np.testing.assert_array_equal(stored(tiff(pixels, extra=extra)), pixels, strict=True)
        made = changed(tiff(samples(3)), DEEP)
        assert made.changes == ("transcoded",) and made.orientation == 0

    def test_a_png_is_changed_with_all_its_bits(self) -> None:
        png = changed(tiff(samples(3)), DEEP).data
        assert changed(png, DEEP).data == png
        larger = changed(png, dataclasses.replace(DEEP, resize=Resize.parse("50x60")))
        assert larger.info == ImageInfo("png", 60, 50, 3) and larger.changes == ("resized",)
        gray = stored(png, dataclasses.replace(DEEP, color="gray"))
        assert np.array_equal(gray, deep_pixels.recolored(samples(3), "gray"))
        cut = png[:-30]
        assert reason(cut, dataclasses.replace(DEEP, color="gray")) is Reason.CORRUPT_IMAGE

    def test_a_tag_is_kept_or_applied(self) -> None:
        upright = samples(3)
        png = changed(tiff(upright), DEEP).data
        tagged = deep_pixels.encode_color(upright, 3, exif_of(6))
        kept = changed(tagged, dataclasses.replace(DEEP, resize=Resize.parse("7x8")))
        assert orientation_tag(kept.data, "png") == 6
        turned = changed(tagged, dataclasses.replace(DEEP, exif_orientation="apply"))
        assert turned.changes == ("turned",) and orientation_tag(turned.data, "png") == 0
        assert changed(png, DEEP).orientation == 0

    def test_limits_hold(self) -> None:
        data = tiff(samples(3))
        assert reason(data, DEEP, LIMITS._replace(max_pixels=29)) is Reason.TOO_MANY_PIXELS
        larger = dataclasses.replace(DEEP, resize=Resize.parse("50x60"))
        assert reason(data, larger, LIMITS._replace(max_pixels=2999)) is Reason.TOO_MANY_PIXELS
        assert reason(data, larger, LIMITS._replace(max_bytes=1000)) is Reason.TOO_MANY_BYTES


class TestReduced:
    @pytest.mark.parametrize(
        ("data", "options", "is_reduced"),
        [
            (tiff(samples(3)), AUTO, True),
            (tiff(samples(4), extra=2), AUTO, True),
            (tiff(samples(4), ">", 2, packed=True), AUTO, True),
            (saved(deep_picture(), "TIFF"), AUTO, False),
            (saved(deep_picture(), "TIFF"), PixelOptions("jpeg"), True),
            (saved(deep_picture(), "PNG"), PixelOptions(color="rgb"), True),
            (saved(deep_picture(), "PNG"), PixelOptions(resize=Resize.parse("9x9")), False),
            (WHOLE["png_2_16"], PixelOptions(resize=Resize.parse("9x9")), True),
            (WHOLE["png_2_16"], AUTO, False),
            (WHOLE["png_2_8"], PixelOptions("jpeg"), False),
            (saved(picture("RGB"), "TIFF"), AUTO, False),
        ],
    )
    def test_that_is_counted(self, data: bytes, options: PixelOptions, is_reduced: bool) -> None:
        assert ("to_8_bits" in changed(data, options).changes) == is_reduced


def test_jpegs_have_no_16_bits() -> None:
    with pytest.raises(ValueError, match="--depth 16 cannot be used with --transcode jpeg"):
        PixelOptions("jpeg", depth=16)
    with pytest.raises(ValueError, match="'12' is neither 8 nor 16"):
        PixelOptions(depth=12)
    assert PixelOptions(depth=16).changes_nothing and not DEEP.changes_nothing


class TestHeic:
    @HEIC_BITS
    @pytest.mark.parametrize("channels", [1, 3, 4])
    def test_every_bit_is_there(self, bits: int, channels: int) -> None:
        """Stretched to all of 0 to 65535, so that white stays white and opaque stays opaque."""
        pixels, data = deep_heic(bits, channels)
        found = stored(data)
        assert (found >> (16 - bits)).tolist() == pixels.tolist()
        assert (found.min(), found.max()) == (0, 65_535)
        assert changed(data, DEEP).changes == ("transcoded", "from_heic")

    @HEIC_BITS
    def test_without_it_color_is_reduced_and_counted(self, bits: int) -> None:
        _, data = deep_heic(bits, 3)
        made = changed(data, AUTO)
        assert made.info.format == "jpeg" and made.changes[-1] == "to_8_bits"
        pixels, data = deep_heic(bits, 1)
        found = stored(data, AUTO)
        assert (found >> (16 - bits)).tolist() == pixels.tolist() and found.max() == 65_535
        assert "to_8_bits" not in changed(data, AUTO).changes
        assert "to_8_bits" in changed(data, PixelOptions("jpeg")).changes

    def test_photos_of_8_bits_are_as_without_it(self) -> None:
        data = heic(slopes())
        assert changed(data, DEEP) == changed(data, AUTO)
        assert "to_8_bits" not in changed(data, AUTO).changes

    def test_other_changes_calculate_with_16_bits(self) -> None:
        pixels, data = deep_heic(10, 3)
        grey = stored(data, PixelOptions("auto", Resize.parse("9x8"), "gray", depth=16))
        assert grey.shape == (8, 9, 1) and abs(grey.mean() - 64 * pixels.mean()) < 1000

    def test_it_is_upright_and_damage_is_found(self) -> None:
        _, data = deep_heic(10, 3, exif=exif_of(6))
        assert stored(data).shape == (DEEP_SHAPE[1], DEEP_SHAPE[0], 3)
        at = data.index(b"mdat") + 8
        assert reason(data[: at + 40], DEEP) is Reason.CORRUPT_IMAGE

    def test_color_multiplied_with_alpha_is_divided(self, monkeypatch: pytest.MonkeyPatch) -> None:
        _, data = deep_heic(10, 4)
        whole = stored(data)
        samples_of = heic_module.deep_samples

        def multiplied(data: bytes) -> tuple[Any, bool]:
            pixels, _ = samples_of(data)
            pixels[:, :, :3] = pixels[:, :, :3] * (pixels[:, :, 3:] / 65_535)
            return pixels, True

        monkeypatch.setattr(deep_pixels, "deep_samples", multiplied)
        is_shown = whole[:, :, 3:] > 20_000
        difference = stored(data).astype(int) - whole
        assert np.abs(difference * is_shown).max() < 4


def test_avifs_of_10_bits_are_counted() -> None:
    """By what the file says of its bits. Pillow decodes 8 of them, also with `--depth 16`."""
    data = saved(slopes(), "AVIF")
    at = data.index(b"av1C\x81") + 6
    deep = data[:at] + bytes([data[at] | 0x40]) + data[at + 1 :]
    deep = deep.replace(b"\3" + bytes([8] * 3), b"\3" + bytes([10] * 3))
    for options in (AUTO, DEEP):
        assert changed(data, options).changes == ("transcoded",)
        assert changed(deep, options).changes == ("transcoded", "to_8_bits")


def test_jpeg_xls_of_10_bits_are_counted() -> None:
    """TensorFlow decodes them to 8 bits, and so do changes, also with `--depth 16`."""
    plain = WHOLE["jxl_grey"]
    # The two bits that choose 10, not 8.
    deep = plain[:5] + bytes([plain[5] ^ 0x20]) + plain[6:]
    assert changed(deep, AUTO).changes == UNTOUCHED
    for options in (PixelOptions("png"), PixelOptions("png", depth=16)):
        assert changed(plain, options).changes == ("transcoded",)
        assert changed(deep, options).changes == ("transcoded", "to_8_bits")


@pytest.mark.parametrize(
    ("data", "is_counted"),
    [
        (b"P6 4 3 65535\n" + bytes(72), True),
        (b"P6 4 3 1023\n" + bytes(72), True),
        (b"P6 4 3 255\n" + bytes(36), False),
        (b"P3 1 1 1023 1 2 3", True),
        # Grey is stored with 16 bits.
        (b"P5 4 3 65535\n" + bytes(24), False),
        (b"P4 8 1\n\0", False),
        (b"P1 2 1\n0 1", False),
        (foreign_images()["jp2_RGB"], False),
        (foreign_images()["jp2_16"], False),
    ],
)
def test_portable_maps_and_jpeg_2000_are_counted(data: bytes, is_counted: bool) -> None:
    """Their color has 8 bits with both depths."""
    assert ("to_8_bits" in changed(data, AUTO).changes) is is_counted


@pytest.mark.parametrize(
    ("data", "is_counted"),
    [
        (b"P5 4 3 65535\n" + bytes(24), True),
        (b"P5 4 3 255\n" + bytes(12), False),
        (foreign_images()["jp2_16"], True),
        (foreign_images()["jp2_L"], False),
    ],
)
def test_grey_ones_are_counted_as_jpegs(data: bytes, is_counted: bool) -> None:
    assert ("to_8_bits" in changed(data, PixelOptions("jpeg")).changes) is is_counted
