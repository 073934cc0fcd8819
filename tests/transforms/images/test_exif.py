"""The EXIF orientation is found in whole files, and damaged ones raise nothing."""

from __future__ import annotations

import io
import random
import warnings
import zlib

import pytest
from PIL import Image

from tests.foreign_images import exif
from tests.hostile.costly_files import (
    jpeg_with,
    png_with_exif,
    png_with_raw_profile,
    webp_with_exif,
)
from tests.images import flipped, picture, png_chunks, png_file, saved
from transforms.images.headers import read_header
from transforms.images.tags import exif_of, orientation_tag, read_tags


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


XMP = b'<x:xmpmeta xmlns:x="adobe:ns:meta/"><a tiff:Orientation="8"/></x:xmpmeta>'


@pytest.mark.parametrize("format_", ["JPEG", "WEBP"])
def test_the_tag_of_xmp_counts_where_there_is_no_other(format_: str) -> None:
    assert orientation_tag(saved(picture("RGB"), format_, xmp=XMP), format_.lower()) == 8
    both = saved(picture("RGB"), format_, xmp=XMP, exif=exif_of(3))
    assert orientation_tag(both, format_.lower()) == 3


@pytest.mark.parametrize("packed", [0, 1])
def test_the_xmp_of_a_png(packed: int) -> None:
    text = zlib.compress(XMP) if packed else XMP
    body = b"XML:com.adobe.xmp\0" + bytes([packed, 0]) + b"\0\0" + text
    assert orientation_tag(png_file(png_chunks(extra=[(b"iTXt", body)])), "png") == 8


def test_a_text_of_gigabytes_is_not_inflated() -> None:
    deflater = zlib.compressobj()
    text = b"".join([deflater.compress(bytes(1 << 24)), deflater.flush()])
    body = b"Raw profile type exif\0\0" + text
    assert orientation_tag(png_file(png_chunks(extra=[(b"zTXt", body)])), "png") == 0


def test_a_block_in_the_text_of_a_png() -> None:
    assert orientation_tag(png_with_raw_profile(exif_of(5)), "png") == 5


JPEG_XMP = b"http://ns.adobe.com/xap/1.0/\0"
PLACE = b'<x exif:GPSLatitude="52,30N" tiff:Orientation="6"/>'


@pytest.mark.parametrize(
    ("name", "block", "found"),
    [
        (b"APP1", exif_of(5), (5, False)),
        (b"APP1", JPEG_XMP + PLACE, (6, True)),
        (b"xmp", PLACE, (6, True)),
        (b"iptc", PLACE, (0, False)),
    ],
)
def test_profiles_that_old_versions_of_imagemagick_write(
    name: bytes, block: bytes, found: tuple[int, bool]
) -> None:
    assert read_tags(png_with_raw_profile(block, name), "png") == found


def test_a_damaged_profile_hides_no_other_block() -> None:
    body = b"Raw profile type exif\0\nexif\n  1\nno digits"
    damaged = (b"tEXt", body)
    assert read_tags(png_file(png_chunks(extra=[damaged])), "png") == (0, False)
    text = (b"iTXt", b"XML:com.adobe.xmp\0\0\0\0\0" + PLACE)
    assert read_tags(png_file(png_chunks(extra=[damaged, text])), "png") == (6, True)


def test_a_block_in_several_segments() -> None:
    block = exif_of(7)
    parts = [block[6:20], block[20:]]
    data = jpeg_with([b"\xe1Exif\0\0" + part for part in parts])
    assert orientation_tag(data, "jpeg") == 7


@pytest.mark.parametrize("between", [b"junk", b"\xff\xff", b"\xff\xd3", b"\xff\x00"])
def test_what_is_between_segments_is_passed_over(between: bytes) -> None:
    """libjpeg, Pillow and our reader of headers skip it in the same way."""
    data = saved(picture("RGB"), "JPEG", exif=exif_of(6))
    at = data.index(b"\xff\xe1")
    data = data[:at] + between + data[at:]
    assert read_header(data, "jpeg").format == "jpeg"
    assert Image.open(io.BytesIO(data)).getexif().get(0x0112) == 6
    assert orientation_tag(data, "jpeg") == 6


def with_block(format_: str, block: bytes) -> bytes:
    """A picture with an EXIF block, its checksums right."""
    if format_ == "PNG":
        return png_with_exif(block[6:])
    return jpeg_with([b"\xe1" + block]) if format_ == "JPEG" else webp_with_exif(block)


@pytest.mark.parametrize("format_", ["JPEG", "PNG", "WEBP"])
def test_as_pillow_reads_damaged_blocks(format_: str) -> None:
    """Both give the same result for a block with changed values."""
    source = random.Random(format_)
    block = exif(6).tobytes()
    agreed = 0
    for _ in range(400):
        changed = bytearray(block)
        changed[source.randrange(6, len(block))] = source.choice((0, 1, 3, 4, 5, 6, 8, 18, 255))
        data = with_block(format_, bytes(changed))
        ours = orientation_tag(data, format_.lower())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                theirs = Image.open(io.BytesIO(data)).getexif().get(0x0112, 0)
            except Exception:  # of every kind; the block cannot be read
                theirs = 0
        assert ours == (theirs if theirs in range(1, 9) else 0), bytes(changed)
        agreed += ours != 0
    assert agreed > 50
