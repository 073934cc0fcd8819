"""A TIFF that is made to be slow is refused by its directory; every other one is opened."""

from __future__ import annotations

import struct

import pytest
from PIL import Image

from tests.foreign_images import foreign_images
from tests.hostile.costly_files import tag_bomb, tiff_of_pages, tiff_of_strips, tiff_of_tags
from tests.images import picture, saved
from transforms.core.rejections import RejectedImageError
from transforms.images.tags import MAX_NUMBERS, MAX_TAGS, check_tiff, read_exif


@pytest.mark.parametrize("name", [name for name in foreign_images() if name.startswith("tiff")])
def test_real_files_are_opened(name: str) -> None:
    check_tiff(foreign_images()[name])


@pytest.mark.parametrize("big", [False, True])
def test_a_file_with_every_kind_of_metadata_is_opened(big: bool) -> None:
    exif = Image.Exif()
    exif[0x0112], exif[0x010E] = 6, "x" * 5000
    tags = {700: b"<xmp/>" * 100, 34675: bytes(3000), 37724: bytes(100_000)}
    data = saved(picture("RGB", 300, 400), "TIFF", exif=exif, tiffinfo=tags, big_tiff=big)
    check_tiff(data)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (tiff_of_tags(300, 10_000), "refer to more bytes than the file has"),
        (tag_bomb(100, 65_000), "refer to more bytes than the file has"),
        (tag_bomb(MAX_TAGS + 1, 4), f"4097 tags, more than {MAX_TAGS}"),
        (tiff_of_strips(MAX_NUMBERS + 1), f"has more than {MAX_NUMBERS} numbers"),
    ],
)
def test_what_is_made_to_be_slow_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(RejectedImageError, match=message):
        check_tiff(data)


def test_strips_are_counted_by_the_size_of_the_image_too() -> None:
    data = bytearray(saved(Image.new("L", (1, 9)), "TIFF", tiffinfo={278: 1}))
    height = data.index(struct.pack("<HHI", 257, 4, 1))
    struct.pack_into("<I", data, height + 8, 1 << 30)
    with pytest.raises(RejectedImageError, match="strips or tiles"):
        check_tiff(bytes(data))


@pytest.mark.parametrize("data", [b"II*\0", b"II*\0\xff\xff\xff\x7f" + bytes(8), b"II", b"PK" * 9])
def test_what_has_no_directory_is_broken(data: bytes) -> None:
    with pytest.raises(RejectedImageError):
        check_tiff(data)


def test_many_pages_are_no_reason() -> None:
    check_tiff(tiff_of_pages(100_000))


@pytest.mark.parametrize(
    ("kind", "value", "expected"), [(3, 6, 6), (4, 8, 8), (1, 6, 0), (5, 6, 0)]
)
def test_an_orientation_is_one_number(kind: int, value: int, expected: int) -> None:
    block = b"II*\0\x08\0\0\0\1\0" + struct.pack("<HHII", 0x0112, kind, 1, value) + bytes(12)
    assert read_exif(block) == (expected, False)


def test_no_orientation() -> None:
    assert read_exif(b"II*\0\x08\0\0\0\0\0" + bytes(4)) == (None, False)
    assert read_exif(b"no structure") == (None, False)
    assert read_exif(tag_bomb(MAX_TAGS + 1, 4)) == (None, False)
