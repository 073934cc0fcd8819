"""What Pillow decodes shows every pixel, within limits, or is rejected with a reason."""

from __future__ import annotations

import io
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from tests.foreign_images import (
    deep_images,
    deep_picture,
    foreign_images,
    icon_bomb,
    laid,
    lossless_images,
    tiff_bomb,
)
from tests.images import mutants, picture, saved
from transforms.core.rejections import Reason, RejectedImageError
from transforms.images import pillow_images
from transforms.images.headers import COST as JPEG2000_COST
from transforms.images.pillow_images import decode, open_image, orientation_of
from transforms.images.pixel_options import Limits
from transforms.images.tags import exif_of, orientation_tag

LIMITS = Limits(max_pixels=1 << 24, max_bytes=1 << 30)
FORMATS = (*pillow_images.FOREIGN, "BMP", "WEBP")
LOSSLESS = lossless_images()


def decoded(data: bytes, limits: Limits = LIMITS) -> Image.Image:
    return decode(open_image(data, FORMATS, limits))


def reason(data: bytes, limits: Limits = LIMITS) -> Reason | None:
    try:
        decoded(data, limits)
    except RejectedImageError as rejected:
        assert rejected.detail and "\n" not in rejected.detail and len(rejected.detail) <= 200
        assert " at 0x" not in rejected.detail
        return rejected.reason
    return None


@pytest.mark.parametrize("name", LOSSLESS)
def test_every_pixel_of_a_lossless_file_is_there(name: str) -> None:
    data, drawn = LOSSLESS[name]
    image = decoded(data)
    assert image.mode in ("L", "LA", "RGB", "RGBA")
    assert (image.mode in ("LA", "RGBA")) == (drawn.mode in ("LA", "RGBA"))
    assert np.array_equal(image.convert("RGBA"), drawn.convert("RGBA"))


@pytest.mark.parametrize("name", deep_images())
def test_grey_of_16_bits_keeps_them(name: str) -> None:
    image = decoded(deep_images()[name])
    assert image.mode == "I;16"
    assert np.array_equal(np.asarray(image), np.asarray(deep_picture()))


def test_what_has_other_samples_is_not_guessed_at() -> None:
    for mode in ("I", "F"):
        assert reason(saved(Image.new(mode, (5, 4)), "TIFF")) is Reason.UNSUPPORTED_IMAGE


def test_a_thumbnail_is_not_taken_for_the_picture() -> None:
    assert reason(saved(picture("RGB"), "TIFF", tiffinfo={254: 1})) is Reason.UNSUPPORTED_IMAGE
    assert reason(saved(picture("RGB"), "TIFF", tiffinfo={254: 0})) is None


@pytest.mark.parametrize("name", foreign_images())
def test_the_limit_is_checked_before_the_pixels_are_decoded(name: str) -> None:
    data = foreign_images()[name]
    width, height = decoded(data).size
    counted = width * height * (JPEG2000_COST if name.startswith("jp2") else 1)
    few = LIMITS._replace(max_pixels=counted - 1)
    assert reason(data, few) is Reason.TOO_MANY_PIXELS
    assert reason(data, few._replace(max_pixels=counted)) is None
    # Half of the pixels are missing, which nobody gets to see.
    if not name.startswith(("tiff", "webp", "avif")):
        assert reason(data[: len(data) * 3 // 4]) is Reason.CORRUPT_IMAGE
        assert reason(data[: len(data) * 3 // 4], few) is Reason.TOO_MANY_PIXELS


@pytest.mark.parametrize("limits", [LIMITS, Limits(1 << 60, 1 << 60)])
def test_bombs_are_refused_whatever_the_limit(limits: Limits) -> None:
    assert reason(tiff_bomb(), limits) is Reason.TOO_MANY_PIXELS
    if limits is LIMITS:
        assert reason(icon_bomb(), limits) is Reason.TOO_MANY_PIXELS


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"<!DOCTYPE html>", Reason.NOT_AN_IMAGE),
        (bytes(1000), Reason.NOT_AN_IMAGE),
        (b"", Reason.NOT_AN_IMAGE),
        (saved(picture("RGB"), "TIFF")[:50], Reason.CORRUPT_IMAGE),
        (saved(picture("RGB"), "JPEG2000")[:60], Reason.CORRUPT_IMAGE),
        (saved(picture("RGB"), "PNG"), Reason.NOT_AN_IMAGE),  # of a format that was not requested
    ],
)
def test_what_is_no_image_has_a_reason(data: bytes, expected: Reason) -> None:
    assert reason(data) is expected


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_damaged_files_are_rejected_or_decoded_and_nothing_else() -> None:
    reasons = {reason(data) for _, data in mutants(foreign_images(), flips=6)}
    assert {None, Reason.CORRUPT_IMAGE} <= reasons
    assert reasons <= {None, *Reason}


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


class TestOrientation:
    @pytest.mark.parametrize("orientation", range(1, 9))
    def test_a_tiff_is_given_as_it_lies_in_the_file(self, orientation: int) -> None:
        lying = laid(picture("RGB"), orientation)
        file = saved(lying, "TIFF", tiffinfo={0x0112: orientation})
        opened = open_image(file, ("TIFF",), LIMITS)
        assert orientation_of(opened) == orientation
        assert pillow_images.size_in_file(opened) == lying.size[::-1]
        assert np.array_equal(decode(opened), lying)

    def test_a_block_that_is_written_can_be_read(self) -> None:
        for orientation in range(1, 9):
            block = exif_of(orientation)
            data = saved(picture("L"), "JPEG", exif=block)
            assert orientation_tag(data, "jpeg") == orientation


@pytest.mark.slow
def test_nothing_is_written_about_odd_files_once_it_is_quiet() -> None:
    code = r"""if True:
        import io, sys
        from PIL import Image
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
    assert "More samples per pixel" in ran["loud"].stderr
    assert "ZIPDecode" in ran["loud"].stderr and "UserWarning" in ran["loud"].stderr


def test_the_largest_picture_of_an_icon_counts() -> None:
    data = saved(picture("RGBA", 64, 48), "ICO", sizes=[(16, 16), (32, 24), (48, 64)])
    sizes = Image.open(io.BytesIO(data)).info["sizes"]
    largest = max(sizes, key=lambda size: size[0] * size[1])
    pixels = largest[0] * largest[1]
    assert open_image(data, ("ICO",), Limits(pixels, 10**6)).size == largest
    assert reason(data, Limits(pixels - 1, 10**6)) is Reason.TOO_MANY_PIXELS
    assert reason(data[:30], Limits(pixels, 10**6)) is not Reason.TOO_MANY_PIXELS
