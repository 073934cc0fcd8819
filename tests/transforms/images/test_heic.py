"""HEIC photos are decoded upright and within limits, or rejected; a missing decoder is named."""

from __future__ import annotations

import struct
import sys

import numpy as np
import pytest
from PIL import Image

from tests.foreign_images import exif, laid
from tests.heic_images import heic
from tests.images import mutants, picture, saved
from tests.transforms.core.pixel_changes import AUTO, LIMITS, changed, distance, reason, slopes
from transforms.core.rejections import Reason, RejectedImageError
from transforms.images.check import ImageInfo
from transforms.images.headers import is_heic
from transforms.images.pillow_images import FOREIGN, check_heic, decode, open_image, orientation_of
from transforms.images.pixel_options import PixelOptions, Resize
from transforms.images.pixels import raw_pixels


def decoded(data: bytes) -> Image.Image:
    return decode(open_image(data, FOREIGN, LIMITS))


def shown(data: bytes) -> Image.Image:
    """A stored image."""
    return decode(open_image(data, ("JPEG", "PNG"), LIMITS))


@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA"])
def test_every_pixel_of_a_lossless_file_is_there(mode: str) -> None:
    # One plane, as Samsung codes grey photos, and three.
    options = {"chroma": 420, "matrix_coefficients": 6} if mode == "L" else {}
    data = heic(picture(mode, 64, 96), **options)
    image = decoded(data)
    assert image.mode == mode and not image.info
    assert np.array_equal(image, picture(mode, 64, 96))


def test_photos_become_jpegs_and_those_with_alpha_pngs() -> None:
    stored = changed(heic(slopes()), AUTO)
    assert stored.info == ImageInfo("jpeg", 37, 45, 3)
    assert stored.changes == ("transcoded", "from_heic")
    assert distance(shown(stored.data), slopes()) < 3
    assert changed(heic(picture("RGBA")), AUTO).info == ImageInfo("png", 37, 45, 4)
    smaller = changed(heic(slopes()), PixelOptions("png", Resize.parse("9x8"), "gray"))
    assert smaller.info == ImageInfo("png", 8, 9, 1)


def test_pixels_without_a_file_are_those_of_the_photo() -> None:
    raw = raw_pixels(heic(picture("RGB")), AUTO, limits=LIMITS)
    assert raw.data == picture("RGB").tobytes() and raw.changes == ("from_heic",)


@pytest.mark.parametrize("orientation", [1, 3, 5, 6, 8])
@pytest.mark.parametrize("rule", ["keep", "apply"])
def test_a_turned_photo_is_upright_once(orientation: int, rule: str) -> None:
    """Cameras write the properties that libheif applies and the EXIF tag of a JPEG."""
    data = heic(laid(slopes(), orientation), exif=exif(orientation).tobytes())
    opened = open_image(data, FOREIGN, LIMITS)
    assert orientation_of(opened) == 1 and opened.size == (45, 37)
    stored = changed(data, PixelOptions("auto", exif_orientation=rule))
    assert stored.changes == ("transcoded", "from_heic")
    assert stored.original == (37, 45, 1)
    assert not shown(stored.data).info
    assert distance(shown(stored.data), slopes()) < 3


def test_an_exif_tag_alone_turns_nothing() -> None:
    data = heic(slopes(), exif=exif(6).tobytes())
    assert data.count(b"irot") == 1 and decoded(data).size == (37, 45)
    assert decoded(data.replace(b"irot", b"skip")).size == (45, 37)


def test_of_several_images_the_primary_one_is_stored() -> None:
    pictures = [picture("RGB", seed=seed) for seed in range(3)]
    data = heic(*pictures, primary_index=1)
    assert np.array_equal(decoded(data), pictures[1])
    assert changed(data, AUTO).changes == ("transcoded", "first_frame", "from_heic")


def test_profiles_and_metadata_are_left_out() -> None:
    data = heic(slopes(), icc_profile=bytes(5000), xmp=b"<x:xmpmeta/>")
    assert changed(data, AUTO).data == changed(heic(slopes()), AUTO).data


class TestLimits:
    def test_they_are_checked_before_the_pixels_are_decoded(self) -> None:
        data = heic(picture("RGB"))
        few = LIMITS._replace(max_pixels=37 * 45)
        assert changed(data, AUTO, few).info.format == "jpeg"
        assert reason(data, AUTO, few._replace(max_pixels=37 * 45 - 1)) is Reason.TOO_MANY_PIXELS
        # Without the pixels themselves, too.
        cut = data[: data.index(b"mdat") + 8]
        assert reason(cut, AUTO, few._replace(max_pixels=1)) is Reason.TOO_MANY_PIXELS
        assert reason(cut, AUTO) is Reason.CORRUPT_IMAGE

    def test_every_image_in_the_file_counts(self) -> None:
        """Such as an alpha channel, which libheif would decode whole and shrink."""
        data = heic(picture("RGBA"))
        size = b"ispe" + bytes(4) + struct.pack(">II", 64, 64)  # with its padding
        assert size in data
        large = size[:8] + struct.pack(">II", 60_000, 60_000)
        with pytest.raises(RejectedImageError, match="60000 x 60000 pixels .* of an image in it"):
            changed(data.replace(size, large), AUTO)

    def test_blocks_of_metadata_are_few(self) -> None:
        """libheif copies each of them, and all may point at the same megabytes."""
        block = b"infe\2" + bytes(7) + b"Exif"
        tile = b"infe\3" + bytes(9) + b"hvc1"
        file = tile * 1000 + bytes((1 << 20) - 1000 * len(tile))
        check_heic(block * 1000 + file, LIMITS)
        with pytest.raises(RejectedImageError, match="1024 blocks of metadata, which may be as"):
            check_heic(block * 1024 + file, LIMITS)
        data = heic(picture("RGB")) + block * 1024 + file
        assert reason(data, AUTO) is Reason.TOO_COSTLY

    def test_sizes_that_lie_are_rejected(self) -> None:
        """The coded picture is 100 times as large as the file says."""
        data = heic(Image.new("RGB", (640, 480)))
        size = struct.pack(">II", 640, 480)
        assert size in data
        less = struct.pack(">II", 64, 48)
        assert reason(data.replace(size, less), AUTO) is Reason.CORRUPT_IMAGE


def test_damaged_files_are_rejected_or_decoded_and_nothing_else() -> None:
    reasons = set()
    for _, data in mutants({"heic": heic(picture("RGB")), "alpha": heic(picture("RGBA"))}, flips=8):
        try:
            changed(data, AUTO)
        except RejectedImageError as rejected:
            assert "\n" not in rejected.detail and len(rejected.detail) <= 200
            reasons.add(rejected.reason)
    assert Reason.CORRUPT_IMAGE in reasons


class TestDecoder:
    def test_a_missing_one_is_named_with_the_extra(self, monkeypatch: pytest.MonkeyPatch) -> None:
        data = heic(picture("RGB"))
        for name in ("pillow_heif", "pi_heif"):
            monkeypatch.setitem(sys.modules, name, None)
        with pytest.raises(RejectedImageError) as caught:
            changed(data, AUTO)
        assert caught.value.reason is Reason.NO_DECODER
        assert caught.value.detail == "no decoder for HEIC: pip install pillow-heif"
        # Others need none.
        assert changed(saved(picture("RGB"), "AVIF"), AUTO).info.format == "jpeg"

    def test_pi_heif_serves_as_well(self, monkeypatch: pytest.MonkeyPatch) -> None:
        data = heic(picture("RGB"))
        monkeypatch.setitem(sys.modules, "pi_heif", sys.modules["pillow_heif"])
        monkeypatch.setitem(sys.modules, "pillow_heif", None)
        assert np.array_equal(decoded(data), picture("RGB"))


def test_a_brand_for_several_codecs_is_no_avif() -> None:
    data = heic(picture("RGB"))
    assert data[8:12] in (b"heic", b"heix") and is_heic(data)
    other = data[:8] + b"mif1" + data[12:]
    assert is_heic(other) and np.array_equal(decoded(other), picture("RGB"))
    avif = saved(picture("RGB"), "AVIF")
    assert not is_heic(avif) and decoded(avif).size == (45, 37)
