"""Files that TensorFlow does not read are named, with what reads them."""

from __future__ import annotations

import pytest

from tests.images import picture, saved
from transforms.core.rejections import Reason, RejectedImageError
from transforms.images.check import check_image
from transforms.images.headers import describe_start
from transforms.images.pillow_images import FOREIGN, open_image
from transforms.images.pixel_options import Limits

HEIC = b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + bytes(100)
LIMITS = Limits(10_000, 1 << 20)


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (HEIC, ": HEIC, which --transcode auto reads after pip install pillow-heif"),
        (b"\0\0\0\x1cftypmif1\0\0\0\0mif1heic" + bytes(100), ": HEIC, which --transcode auto"),
        (b"\0\0\0\x1cftypmif1\0\0\0\0avifmif1" + bytes(100), ": AVIF, which --transcode auto"),
        (saved(picture("RGB"), "AVIF"), ": AVIF, which --transcode auto reads"),
        (saved(picture("RGB"), "TIFF"), ": TIFF, which --transcode auto reads"),
        (b"MM\0*" + bytes(20), ": TIFF, which --transcode auto reads"),
        (saved(picture("RGB"), "JPEG2000"), ": JPEG 2000, which --transcode auto reads"),
        (b"\0\0\0\x20ftypisom" + bytes(20), ": a video of the MP4 family"),
        (b"\n<!DOCTYPE html><html>", ": a web page"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'>", ": SVG or other XML"),
        (
            b"version https://git-lfs.github.com/spec/v1\n",
            ": a pointer of Git LFS: run git lfs pull",
        ),
        (b"The picture has moved.", "54 68 65 20 70 69 63 74"),
        (b"x", "begins with the bytes 78"),
    ],
)
def test_names(data: bytes, name: str) -> None:
    found = describe_start(data)
    assert found.startswith("begins with the bytes ") and name in found
    assert ":" in name or ":" not in found


def test_both_decoders_name_a_format() -> None:
    photoshop = b"8BPS\0\1" + bytes(100)
    for read in (
        lambda: check_image(photoshop, limits=LIMITS, mode="full"),
        lambda: open_image(photoshop, FOREIGN, LIMITS),
    ):
        with pytest.raises(RejectedImageError, match="PSD: export it as PNG") as caught:
            read()
        assert caught.value.reason is Reason.NOT_AN_IMAGE
