"""With `--depth 16`, colour and numbers of 16 bits keep them; without it, they are counted."""

import dataclasses
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
from tests.marks import cases
from tests.transforms.core.pixel_changes import AUTO, LIMITS, WHOLE, changed, reason, slopes
from transforms.core.rejections import Reason, RejectedImageError
from transforms.images import deep_pixels
from transforms.images.checked_images import ImageInfo
from transforms.images.headers import Header
from transforms.images.pillow_images import TURNS, decode, open_image
from transforms.images.pixel_options import Limits, PixelOptions, Resize
from transforms.images.tags import exif_of, orientation_tag

tensorflow = lazy_module("tensorflow")

DEEP = PixelOptions("auto", depth=16)
DEEP_GRAY = dataclasses.replace(DEEP, color="gray")
LARGER = dataclasses.replace(DEEP, resize=Resize.parse("50x60"))
JPEG, SMALL = PixelOptions("jpeg"), PixelOptions(resize=Resize.parse("9x9"))
FOREIGN = foreign_images()
HEIC_BITS = pytest.mark.parametrize("bits", [10, 12])
CHANNELS = pytest.mark.parametrize(("channels", "extra"), [(3, None), (4, 2)])


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


def numbers(*values: float) -> bytes:
    """A TIFF of floating point or of integers."""
    kind = np.int32 if all(isinstance(value, int) for value in values) else np.float32
    return saved(Image.fromarray(np.array([values], kind)), "TIFF")


class TestTiff:
    @pytest.mark.parametrize("order", "<>")
    @pytest.mark.parametrize("packed", [False, True])
    @CHANNELS
    def test_every_bit_of_color_is_there(
        self, order: str, packed: bool, channels: int, extra: int | None
    ) -> None:
        found = decoded(tiff(samples(channels), order, extra, packed=packed))
        np.testing.assert_array_equal(found, samples(channels), strict=True)

    @pytest.mark.parametrize("order", "<>")
    @CHANNELS
    def test_it_is_in_separate_channels(self, order: str, channels: int, extra: int | None) -> None:
        """Which Pillow took for 8 bits, and showed noise."""
        pixels = samples(channels)
        data = tiff(pixels, order, extra, planar=2)
        np.testing.assert_array_equal(decoded(data), pixels, strict=True)
        assert np.array_equal(decode(open_image(data, ("TIFF",), LIMITS)), pixels >> 8)
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

    @cases(saved(deep_picture(), "TIFF"), *(saved(picture(m), "TIFF") for m in ("RGB", "CMYK")))
    def test_grey_and_all_else_are_as_without_it(self, data: bytes) -> None:
        assert changed(data, DEEP) == changed(data, AUTO)

    @cases(
        ((0.0, 0.25, 0.5, 1.0), [0, 16_384, 32_768, 65_535], [0, 64, 128, 255]),
        ((0, 1, 300, 65_535), [0, 1, 300, 65_535], [0, 0, 1, 255]),
    )
    def test_numbers(self, values: tuple[float, ...], deep: list[int], plain: list[int]) -> None:
        """Floating point from 0 to 1 fills all bits; of integers the low ones are left out."""
        data = numbers(*values)
        assert decoded(data)[0, :, 0].tolist() == deep
        made = changed(data, DEEP)
        assert made.info == ImageInfo("png", 1, 4, 1) and made.changes == ("transcoded",)
        made = changed(data, AUTO)
        assert made.info == ImageInfo("png", 1, 4, 1)
        assert made.changes == ("transcoded", "to_8_bits")
        assert np.asarray(Image.open(io.BytesIO(made.data))).tolist() == [plain]

    @cases(
        ((0.5, 1.5), "from 0.5 to 1.5, but only floating point from 0 to 1 is read"),
        ((-0.1, 1), "from -0.1 to 1,"),
        ((np.nan, 1), "from nan to nan,"),
        ((3, 65_536), "from 3 to 65536, but only integers from 0 to 65535"),
        ((-1, 5), "from -1 to 5,"),
    )
    @pytest.mark.parametrize("options", [AUTO, DEEP])
    def test_other_numbers_are_rejected_and_why(
        self, values: tuple[float, ...], why: str, options: PixelOptions
    ) -> None:
        with pytest.raises(RejectedImageError, match=why) as caught:
            changed(numbers(*values), options)
        assert caught.value.reason is Reason.UNSUPPORTED_IMAGE


class TestChanges:
    @pytest.mark.parametrize("orientation", range(1, 9))
    def test_pixels_are_turned_as_pillow_turns_them(self, orientation: int) -> None:
        pixels = samples(3)
        lying = Image.fromarray((pixels >> 8).astype(np.uint8))
        expected = lying if orientation == 1 else lying.transpose(TURNS[orientation])
        assert np.array_equal(deep_pixels.turned(pixels, orientation) >> 8, expected)

    @cases(
        ([[0], [1234]], "rgb", [[0] * 3, [1234] * 3]),
        ([[65_535] * 3], "gray", [[65_535]]),
        ([[100, 200, 300, 0], [1, 2, 3, 65_535]], "rgb", [[65_535] * 3, [1, 2, 3]]),
    )
    def test_color(self, row: list[list[int]], color: str, expected: list[list[int]]) -> None:
        assert deep_pixels.recolored(np.array([row], np.uint16), color).tolist() == [expected]

    def test_grey_weighs_colors_as_pillow_does(self) -> None:
        pixels = np.asarray(picture("RGB")).astype(np.uint16)
        grey = deep_pixels.recolored(pixels, "gray")[:, :, 0]
        assert np.array_equal(grey, picture("RGB").convert("L"))

    @pytest.mark.parametrize("mode", ["L", "LA", "RGB", "RGBA"])
    def test_size(self, mode: str) -> None:
        small = slopes().convert(mode)
        pixels = np.asarray(small).reshape(37, 45, -1).astype(np.uint16) * 257
        found = deep_pixels.in_size(pixels, 15, 22)
        expected = np.asarray(small.resize((22, 15), Image.Resampling.LANCZOS))
        assert np.abs(found / 257 - expected.reshape(found.shape)).max() < 1
        # A transparent red leaves no trace.
        if mode == "RGBA":
            pixels[:, :20] = 65_535, 0, 0, 0
            found = deep_pixels.in_size(pixels, 15, 22)
            assert (found[:, 12:, 3] > 65_000).all() and found[:, 10, 0].max() < 60_000


@pytest.mark.slow
class TestStored:
    """Of colour, whose PNGs TensorFlow encodes."""

    @CHANNELS
    def test_every_bit(self, channels: int, extra: int | None) -> None:
        found = stored(tiff(samples(channels), extra=extra))
        np.testing.assert_array_equal(found, samples(channels), strict=True)

    def test_a_png_is_changed_with_all_its_bits(self) -> None:
        made = changed(tiff(samples(3)), DEEP)
        assert made.changes == ("transcoded",) and made.orientation == 0
        png = made.data
        assert changed(png, DEEP).data == png
        larger = changed(png, LARGER)
        assert larger.info == ImageInfo("png", 60, 50, 3) and larger.changes == ("resized",)
        assert np.array_equal(stored(png, DEEP_GRAY), deep_pixels.recolored(samples(3), "gray"))
        assert reason(png[:-30], DEEP_GRAY) is Reason.CORRUPT_IMAGE

    def test_a_tag_is_kept_or_applied(self) -> None:
        tagged = deep_pixels.encode_color(samples(3), 3, exif_of(6))
        assert orientation_tag(changed(tagged, LARGER).data, "png") == 6
        turned = changed(tagged, dataclasses.replace(DEEP, exif_orientation="apply"))
        assert turned.changes == ("turned",) and orientation_tag(turned.data, "png") == 0

    @cases(
        # Each of its channels counts.
        (DEEP, LIMITS._replace(max_pixels=89), Reason.TOO_MANY_PIXELS),
        (LARGER, LIMITS._replace(max_pixels=2999), Reason.TOO_MANY_PIXELS),
        (LARGER, LIMITS._replace(max_bytes=1000), Reason.TOO_MANY_BYTES),
    )
    def test_limits_hold(self, options: PixelOptions, limits: Limits, expected: Reason) -> None:
        assert reason(tiff(samples(3)), options, limits) is expected


def avif_of_10_bits() -> bytes:
    """By what the file says of its bits. Pillow decodes 8 of them, also with `--depth 16`."""
    data = saved(slopes(), "AVIF")
    at = data.index(b"av1C\x81") + 6
    deep = data[:at] + bytes([data[at] | 0x40]) + data[at + 1 :]
    return deep.replace(b"\3" + bytes([8] * 3), b"\3" + bytes([10] * 3))


def jpeg_xl_of_10_bits() -> bytes:
    """TensorFlow decodes them to 8 bits, and so do changes, also with `--depth 16`."""
    plain = WHOLE["jxl_grey"]
    # The two bits that choose 10, not 8.
    return plain[:5] + bytes([plain[5] ^ 0x20]) + plain[6:]


PGM = b"P5 4 3 65535\n" + bytes(24)


@cases(
    (tiff(samples(3)), AUTO, True),
    (tiff(samples(4), extra=2), AUTO, True),
    (tiff(samples(4), ">", 2, packed=True), AUTO, True),
    # Grey is stored with 16 bits, but not as JPEG.
    (saved(deep_picture(), "TIFF"), AUTO, False),
    (saved(deep_picture(), "TIFF"), JPEG, True),
    (saved(deep_picture(), "PNG"), PixelOptions(color="rgb"), True),
    (saved(deep_picture(), "PNG"), SMALL, False),
    (WHOLE["png_2_16"], SMALL, True),
    (WHOLE["png_2_16"], AUTO, False),
    (WHOLE["png_2_8"], JPEG, False),
    (saved(picture("RGB"), "TIFF"), AUTO, False),
    *((avif_of_10_bits(), options, True) for options in (AUTO, DEEP)),
    *((saved(slopes(), "AVIF"), options, False) for options in (AUTO, DEEP)),
    (jpeg_xl_of_10_bits(), AUTO, False),
    *((jpeg_xl_of_10_bits(), PixelOptions("png", depth=depth), True) for depth in (8, 16)),
    *((WHOLE["jxl_grey"], PixelOptions("png", depth=depth), False) for depth in (8, 16)),
    # Color of portable maps has 8 bits with both depths.
    (b"P6 4 3 65535\n" + bytes(72), AUTO, True),
    (b"P6 4 3 1023\n" + bytes(72), AUTO, True),
    (b"P6 4 3 255\n" + bytes(36), AUTO, False),
    (b"P3 1 1 1023 1 2 3", AUTO, True),
    (PGM, AUTO, False),
    (PGM, JPEG, True),
    (b"P5 4 3 255\n" + bytes(12), JPEG, False),
    (b"P4 8 1\n\0", AUTO, False),
    (b"P1 2 1\n0 1", AUTO, False),
    (FOREIGN["jp2_RGB"], AUTO, False),
    (FOREIGN["jp2_L"], JPEG, False),
    (FOREIGN["jp2_16"], AUTO, False),
    (FOREIGN["jp2_16"], JPEG, True),
)
def test_what_loses_bits_is_counted(data: bytes, options: PixelOptions, is_counted: bool) -> None:
    assert ("to_8_bits" in changed(data, options).changes) is is_counted


def test_jpegs_have_no_16_bits() -> None:
    with pytest.raises(ValueError, match="--depth 16 cannot be used with --transcode jpeg"):
        PixelOptions("jpeg", depth=16)
    with pytest.raises(ValueError, match="'12' is neither 8 nor 16"):
        PixelOptions(depth=12)


class TestHeic:
    @HEIC_BITS
    @pytest.mark.parametrize("channels", [1, 3, 4])
    def test_every_bit_is_there(self, bits: int, channels: int) -> None:
        """Stretched to all of 0 to 65535, so that white stays white and opaque stays opaque."""
        pixels, data = deep_heic(bits, channels)
        for options in (DEEP, AUTO) if channels == 1 else (DEEP,):
            found = stored(data, options)
            assert (found >> (16 - bits)).tolist() == pixels.tolist()
            assert (found.min(), found.max()) == (0, 65_535)
            assert changed(data, options).changes == ("transcoded", "from_heic")

    @HEIC_BITS
    @pytest.mark.parametrize(("channels", "options"), [(3, AUTO), (1, JPEG)])
    def test_without_it_they_are_reduced_and_counted(
        self, bits: int, channels: int, options: PixelOptions
    ) -> None:
        made = changed(deep_heic(bits, channels)[1], options)
        assert made.info.format == "jpeg" and made.changes[-1] == "to_8_bits"

    def test_other_changes_keep_the_bits_of_a_heic(self) -> None:
        made = changed(heic(slopes()), DEEP)
        assert made == changed(heic(slopes()), AUTO) and "to_8_bits" not in made.changes
        pixels, data = deep_heic(10, 3)
        grey = stored(data, dataclasses.replace(DEEP_GRAY, resize=Resize.parse("9x8")))
        assert grey.shape == (8, 9, 1) and abs(grey.mean() - 64 * pixels.mean()) < 1000
        _, data = deep_heic(10, 3, exif=exif_of(6))
        assert stored(data).shape == (DEEP_SHAPE[1], DEEP_SHAPE[0], 3)
        assert reason(data[: data.index(b"mdat") + 48], DEEP) is Reason.CORRUPT_IMAGE
