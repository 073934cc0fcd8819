"""Pixels are turned as EXIF says, or keep their tag."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from tests.foreign_images import exif, laid
from tests.images import picture, saved
from tests.transforms.core.pixel_changes import HALF, changed, distance, shown, slopes
from transforms.images.pixel_options import Original, PixelOptions, Resize

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
