"""The EXIF orientation is found in whole files, and damaged ones raise nothing."""

from __future__ import annotations

import random

import pytest

from tests.images import flipped, picture, saved
from transforms.core.exif import orientation_tag
from transforms.core.pillow_images import exif_of


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("format_", ["JPEG", "PNG", "WEBP"])
def test_orientation_as_pillow_writes_it(format_: str, orientation: int) -> None:
    data = saved(picture("RGB"), format_, exif=exif_of(orientation))
    assert orientation_tag(data, format_.lower()) == orientation


def test_big_endian_and_behind_other_segments() -> None:
    block = b"MM\0*\0\0\0\x08\0\x02" + b"\x01\x00\0\x03\0\0\0\x01\0\x07\0\0"
    block += b"\x01\x12\0\x03\0\0\0\x01\0\x08\0\0" + bytes(4)
    segment = b"Exif\0\0" + block
    data = saved(picture("RGB"), "JPEG")
    app1 = b"\xff\xe1" + (len(segment) + 2).to_bytes(2, "big") + segment
    other = b"\xff\xe1\0\x0chttp://x\0\0"
    assert orientation_tag(data[:2] + other + app1 + data[2:], "jpeg") == 8


@pytest.mark.parametrize("format_", ["jpeg", "png", "webp", "gif", "bmp", "jxl", ""])
def test_no_tag(format_: str) -> None:
    data = saved(picture("RGB"), format_) if format_ in ("jpeg", "png", "webp") else b"GIF89a"
    assert orientation_tag(data, format_) == 0


@pytest.mark.parametrize("value", [0, 9, 255])
def test_a_value_that_makes_no_sense_is_none(value: int) -> None:
    data = bytearray(saved(picture("RGB"), "JPEG", exif=exif_of(6)))
    at = (
        data.index(b"\x12\x01\x03\0") + 8
        if b"\x12\x01\x03\0" in data
        else data.index(b"\x01\x12\0\x03") + 9
    )
    assert data[at] == 6
    data[at] = value
    assert orientation_tag(bytes(data), "jpeg") == 0


@pytest.mark.parametrize("format_", ["JPEG", "PNG", "WEBP"])
def test_damage_never_raises(format_: str) -> None:
    source = random.Random(format_)
    data = saved(picture("RGB"), format_, exif=exif_of(6))
    for _ in range(500):
        cut = flipped(data, source, 4)[: source.randrange(len(data))]
        assert orientation_tag(cut, format_.lower()) in range(9)
