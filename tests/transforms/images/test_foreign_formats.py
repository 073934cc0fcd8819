"""What Pillow and libheif decode shows every pixel, upright and within limits, or has a reason."""

import io
import math
import struct
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.foreign_images import (
    deep_images,
    deep_picture,
    exif,
    foreign_images,
    icon_bomb,
    laid,
    tiff_bomb,
)
from tests.heic_images import heic
from tests.images import mutants, picture, saved
from tests.marks import cases
from tests.transforms.core.pixel_changes import AUTO, LIMITS, changed, distance, slopes
from transforms.core.rejections import Reason, RejectedImageError
from transforms.images import pillow_images
from transforms.images.checked_images import ImageInfo
from transforms.images.headers import COSTS, is_heic
from transforms.images.pillow_images import check_heic, decode, open_image, orientation_of
from transforms.images.pixel_options import Limits, PixelOptions, Resize
from transforms.images.pixels import raw_pixels

FORMATS = (*pillow_images.FOREIGN, "BMP", "WEBP")


def decoded(data: bytes, limits: Limits = LIMITS) -> Image.Image:
    return decode(open_image(data, FORMATS, limits))


def shown(data: bytes) -> Image.Image:
    """A stored image."""
    return decode(open_image(data, ("JPEG", "PNG"), LIMITS))


def reason(data: bytes, limits: Limits = LIMITS) -> Reason | None:
    try:
        decoded(data, limits)
    except RejectedImageError as rejected:
        assert rejected.detail and "\n" not in rejected.detail and len(rejected.detail) <= 200
        assert " at 0x" not in rejected.detail
        return rejected.reason
    return None


@pytest.mark.parametrize("data", deep_images().values(), ids=deep_images())
def test_grey_of_16_bits_keeps_them(data: bytes) -> None:
    image = decoded(data)
    assert image.mode == "I;16" and np.array_equal(image, deep_picture())


def test_the_limit_is_checked_before_the_pixels_are_decoded() -> None:
    for name, data in foreign_images().items():
        width, height = decoded(data).size
        times = {"jp2": COSTS["JPEG2000"], "avi": COSTS["AVIF"]}.get(name[:3], 1)
        # For what is held twice.
        times = 2 if name in ("pgm_16", "tiff_cmyk") else times
        counted = int(width * height * times)
        few = LIMITS._replace(max_pixels=counted - 1)
        assert reason(data, few) is Reason.TOO_MANY_PIXELS, name
        assert reason(data, few._replace(max_pixels=counted)) is None, name
        # Half of the pixels are missing, which nobody gets to see.
        if not name.startswith(("tiff", "webp", "avif")):
            assert reason(data[: len(data) * 3 // 4]) is Reason.CORRUPT_IMAGE, name
            assert reason(data[: len(data) * 3 // 4], few) is Reason.TOO_MANY_PIXELS, name


ANY = Limits(1 << 60, 1 << 60)


@cases(
    (tiff_bomb(), LIMITS, Reason.TOO_MANY_PIXELS),
    (tiff_bomb(), ANY, Reason.TOO_MANY_PIXELS),
    (icon_bomb(), LIMITS, Reason.TOO_MANY_PIXELS),
    (b"<!DOCTYPE html>", LIMITS, Reason.NOT_AN_IMAGE),
    (bytes(1000), LIMITS, Reason.NOT_AN_IMAGE),
    (b"", LIMITS, Reason.NOT_AN_IMAGE),
    (saved(picture("RGB"), "TIFF")[:50], LIMITS, Reason.CORRUPT_IMAGE),
    (saved(picture("RGB"), "JPEG2000")[:60], LIMITS, Reason.CORRUPT_IMAGE),
    # Of a format that was not requested.
    (saved(picture("RGB"), "PNG"), LIMITS, Reason.NOT_AN_IMAGE),
    # Other samples are not guessed at, and a thumbnail is not the picture.
    (saved(Image.new("I", (5, 4)), "TIFF"), LIMITS, Reason.UNSUPPORTED_IMAGE),
    (saved(Image.new("F", (5, 4)), "TIFF"), LIMITS, Reason.UNSUPPORTED_IMAGE),
    (saved(picture("RGB"), "TIFF", tiffinfo={254: 1}), LIMITS, Reason.UNSUPPORTED_IMAGE),
    (saved(picture("RGB"), "TIFF", tiffinfo={254: 0}), LIMITS, None),
)
def test_reasons(data: bytes, limits: Limits, expected: Reason | None) -> None:
    assert reason(data, limits) is expected


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_damaged_files_are_rejected_or_decoded_and_nothing_else() -> None:
    photos = {"heic": heic(picture("RGB")), "alpha": heic(picture("RGBA"))}
    for files in (foreign_images(), photos):
        reasons = {reason(data) for _, data in mutants(files, flips=6)}
        assert {None, Reason.CORRUPT_IMAGE} <= reasons


def test_a_decoder_that_pillow_was_built_without_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    factory, accept = Image.OPEN["AVIF"]
    assert accept is not None

    def refuse(prefix: bytes) -> bool | str:
        return "AVIF support not installed" if accept(prefix) else False

    monkeypatch.setitem(Image.OPEN, "AVIF", (factory, refuse))
    monkeypatch.setattr(Image, "WARN_POSSIBLE_FORMATS", False)
    with pytest.raises(RejectedImageError) as caught, pytest.warns(UserWarning):
        open_image(foreign_images()["avif_RGB"], FORMATS, LIMITS)
    assert caught.value.reason is Reason.UNSUPPORTED_IMAGE
    assert caught.value.detail == "AVIF support not installed"


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_tiff_is_given_as_it_lies_in_the_file(orientation: int) -> None:
    lying = laid(picture("RGB"), orientation)
    file = saved(lying, "TIFF", tiffinfo={0x0112: orientation})
    opened = open_image(file, ("TIFF",), LIMITS)
    assert orientation_of(opened) == orientation
    assert pillow_images.size_in_file(opened) == lying.size[::-1]
    assert np.array_equal(decode(opened), lying)


@pytest.mark.slow
def test_nothing_is_written_about_odd_files_once_it_is_quiet() -> None:
    code = r"""if True:
        import sys
        from tests.images import picture, saved
        from transforms.images.pixel_options import Limits
        from transforms.images.pillow_images import decode, open_image, quiet_pillow
        from transforms.core.rejections import RejectedImageError
        if sys.argv[1] == "quiet":
            quiet_pillow()
        whole = saved(picture("RGB"), "TIFF", compression="tiff_adobe_deflate")
        plain = saved(picture("RGB"), "TIFF")
        samples = plain.replace(b"\x15\1\3\0\1\0\0\0\3", b"\x15\1\3\0\1\0\0\0\x10")
        assert samples != plain
        for damaged in (whole[:200] + b"xxxx" + whole[204:], whole[:-20], samples):
            try:
                decode(open_image(damaged, ("TIFF",), Limits(1 << 30, 1 << 30)))
            except RejectedImageError as error:
                print(error.reason.code)
    """
    ran = {
        how: subprocess.run([sys.executable, "-c", code, how], capture_output=True, text=True)
        for how in ("quiet", "loud")
    }
    assert ran["quiet"].stdout == ran["loud"].stdout == "corrupt_image\n" * 3
    assert ran["quiet"].stderr == ""
    assert all(each in ran["loud"].stderr for each in ("More samples per", "ZIPDecode", "UserWarn"))


def test_the_largest_picture_of_an_icon_counts() -> None:
    data = saved(picture("RGBA", 64, 48), "ICO", sizes=[(16, 16), (32, 24), (48, 64)])
    largest = max(Image.open(io.BytesIO(data)).info["sizes"], key=np.prod)
    limits = Limits(largest[0] * largest[1], 10**6)
    assert open_image(data, ("ICO",), limits).size == largest
    assert reason(data, limits._replace(max_pixels=limits[0] - 1)) is Reason.TOO_MANY_PIXELS
    assert reason(data[:30], limits) is not Reason.TOO_MANY_PIXELS


class TestHeic:
    # One plane, as Samsung codes grey photos, and three.
    @cases(("L", {"chroma": 420, "matrix_coefficients": 6}), ("RGB", {}), ("RGBA", {}))
    def test_every_pixel_of_a_lossless_is_there(self, mode: str, options: dict[str, Any]) -> None:
        image = decoded(heic(picture(mode, 64, 96), **options))
        assert image.mode == mode and not image.info
        assert np.array_equal(image, picture(mode, 64, 96))

    @cases(
        ("RGB", AUTO, ImageInfo("jpeg", 37, 45, 3)),
        ("RGBA", AUTO, ImageInfo("png", 37, 45, 4)),
        ("RGB", PixelOptions("png", Resize.parse("9x8"), "gray"), ImageInfo("png", 8, 9, 1)),
    )
    def test_what_is_stored(self, mode: str, options: PixelOptions, info: ImageInfo) -> None:
        assert changed(heic(picture(mode)), options).info == info

    def test_pixels_are_those_of_the_photo_without_its_metadata(self) -> None:
        raw = raw_pixels(heic(picture("RGB")), AUTO, limits=LIMITS)
        assert raw.data == picture("RGB").tobytes() and raw.changes == ("from_heic",)
        data = heic(slopes(), icc_profile=bytes(5000), xmp=b"<x:xmpmeta/>")
        assert changed(data, AUTO).data == changed(heic(slopes()), AUTO).data

    @pytest.mark.parametrize("orientation", [1, 3, 5, 6, 8])
    @pytest.mark.parametrize("rule", ["keep", "apply"])
    def test_a_turned_photo_is_upright_once(self, orientation: int, rule: str) -> None:
        """Cameras write the properties that libheif applies and the EXIF tag of a JPEG."""
        data = heic(laid(slopes(), orientation), exif=exif(orientation).tobytes())
        stored = changed(data, PixelOptions("auto", exif_orientation=rule))
        assert stored.changes == ("transcoded", "from_heic")
        assert stored.original == (37, 45, 1)
        assert not shown(stored.data).info
        assert distance(shown(stored.data), slopes()) < 3

    def test_an_exif_tag_alone_turns_nothing(self) -> None:
        data = heic(slopes(), exif=exif(6).tobytes())
        assert data.count(b"irot") == 1 and decoded(data).size == (37, 45)
        assert decoded(data.replace(b"irot", b"skip")).size == (45, 37)

    def test_of_several_images_the_primary_one_is_stored(self) -> None:
        pictures = [picture("RGB", seed=seed) for seed in range(3)]
        data = heic(*pictures, primary_index=1)
        assert np.array_equal(decoded(data), pictures[1])
        assert changed(data, AUTO).changes == ("transcoded", "first_frame", "from_heic")

    def test_limits_are_checked_before_the_pixels_are_decoded(self) -> None:
        data, counted = heic(picture("RGB")), math.ceil(37 * 45 * COSTS["HEIF"])
        few = LIMITS._replace(max_pixels=counted)
        assert reason(data, few) is None
        assert reason(data, few._replace(max_pixels=counted - 1)) is Reason.TOO_MANY_PIXELS
        # Without the pixels themselves, too.
        cut = data[: data.index(b"mdat") + 8]
        assert reason(cut, few._replace(max_pixels=1)) is Reason.TOO_MANY_PIXELS
        assert reason(cut) is Reason.CORRUPT_IMAGE

    def test_every_image_in_the_file_counts(self) -> None:
        """Such as an alpha channel, which libheif would decode whole and shrink."""
        data = heic(picture("RGBA"))
        size = b"ispe" + bytes(4) + struct.pack(">II", 64, 64)  # with its padding
        assert size in data
        large = size[:8] + struct.pack(">II", 60_000, 60_000)
        with pytest.raises(RejectedImageError, match="60000 x 60000 pixels .* of an image in it"):
            decoded(data.replace(size, large))

    def test_blocks_of_metadata_are_few(self) -> None:
        """libheif copies each of them, and all may point at the same megabytes."""
        block = b"infe\2" + bytes(7) + b"Exif"
        tile = b"infe\3" + bytes(9) + b"hvc1"
        file = tile * 1000 + bytes((1 << 20) - 1000 * len(tile))
        check_heic(block * 1000 + file, LIMITS)
        with pytest.raises(RejectedImageError, match="1024 blocks of metadata, which may be as"):
            check_heic(block * 1024 + file, LIMITS)
        assert reason(heic(picture("RGB")) + block * 1024 + file) is Reason.TOO_COSTLY

    def test_sizes_that_lie_are_rejected(self) -> None:
        """The coded picture is 100 times as large as the file says."""
        data = heic(Image.new("RGB", (640, 480)))
        size, less = struct.pack(">II", 640, 480), struct.pack(">II", 64, 48)
        assert size in data and reason(data.replace(size, less)) is Reason.CORRUPT_IMAGE

    def test_a_missing_decoder_names_the_extra(self, monkeypatch: pytest.MonkeyPatch) -> None:
        data = heic(picture("RGB"))
        heif = sys.modules["pillow_heif"]
        monkeypatch.setitem(sys.modules, "pillow_heif", None)
        monkeypatch.setitem(sys.modules, "pi_heif", None)
        with pytest.raises(RejectedImageError) as caught:
            decoded(data)
        assert caught.value.reason is Reason.NO_DECODER
        assert caught.value.detail == "no decoder for HEIC: pip install pillow-heif"
        monkeypatch.setitem(sys.modules, "pi_heif", heif)
        assert np.array_equal(decoded(data), picture("RGB"))

    def test_a_brand_for_several_codecs_is_no_avif(self) -> None:
        data = heic(picture("RGB"))
        assert data[8:12] in (b"heic", b"heix") and is_heic(data)
        other = data[:8] + b"mif1" + data[12:]
        assert is_heic(other) and np.array_equal(decoded(other), picture("RGB"))
        avif = saved(picture("RGB"), "AVIF")
        assert not is_heic(avif) and decoded(avif).size == (45, 37)
