"""Headers tell format, size and cost before anything is decoded."""

from __future__ import annotations

import io
import struct
import time
from collections.abc import Iterator

import numpy as np
import pytest
from PIL import Image

from tests import images
from tests.foreign_images import foreign_images
from tests.hostile.costly_files import (
    gray_map,
    jpeg2000_of,
    jpeg2000_of_tiles,
    plain_bitmap,
    plain_map,
    tag_bomb,
    tiff_of_pages,
    tiff_of_strips,
    tiff_of_tags,
)
from tests.images import picture, saved
from tests.marks import rest_slow
from transforms.core.rejections import Reason, RejectedImageError
from transforms.images import headers
from transforms.images.check import check_image
from transforms.images.headers import (
    COST,
    MAX_PACKED_TEXTS,
    MAX_PARTS,
    MAX_SCANS,
    MAX_TILES,
    Header,
    check_jpeg2000,
    describe_start,
    image_format,
    read_header,
)
from transforms.images.pillow_images import FOREIGN, MAX_PLAIN_SAMPLES, decode, open_image
from transforms.images.pixel_options import Limits
from transforms.images.tags import MAX_NUMBERS, MAX_TAGS, check_tiff, read_exif

# What makes a file slow to decode is counted as a decoder would count it, and nothing else is.

COLOR, CMYK = images.picture("RGB"), images.picture("CMYK")
PROGRESSIVE = images.saved(COLOR, "JPEG", progressive=True)
LIBJPEG_SCANS = 10


def header(data: bytes) -> Header:
    return read_header(data, image_format(data))


def costly(data: bytes) -> str:
    with pytest.raises(RejectedImageError) as caught:
        header(data)
    return caught.value.detail


def with_scans(data: bytes, count: int) -> bytes:
    """A JPEG whose last scan is repeated until there are this many."""
    *front, end = images.jpeg_segments(data)
    scans = sum(segment[1] == 0xDA for segment in front)
    return b"".join(front) + front[-1] * (count - scans) + end


def one_scan_each(data: bytes) -> bytes:
    """A sequential JPEG that says it holds one component in its first scan."""
    at = data.index(b"\xff\xda")
    return data[: at + 2] + b"\0\x08\1\1\0\0\x3f\0" + data[at + 14 :]


def test_the_most_scans_that_encoders_write_are_few() -> None:
    for image in (COLOR, CMYK, images.picture("L")):
        assert header(images.saved(image, "JPEG", progressive=True)).format == "jpeg"
    assert images.saved(COLOR, "JPEG", progressive=True).count(b"\xff\xda") == LIBJPEG_SCANS
    assert images.saved(CMYK, "JPEG", progressive=True).count(b"\xff\xda") < MAX_SCANS


@pytest.mark.parametrize("data", [PROGRESSIVE, one_scan_each(images.saved(COLOR, "JPEG"))])
def test_scans_have_a_limit(data: bytes) -> None:
    assert header(with_scans(data, MAX_SCANS)).format == "jpeg"
    assert costly(with_scans(data, MAX_SCANS + 1)) == f"more than {MAX_SCANS} scans"
    # a truncated file does not circumvent it
    assert costly(with_scans(data, MAX_SCANS + 1)[:-9]) == f"more than {MAX_SCANS} scans"


def test_what_only_looks_like_a_scan_does_not_count() -> None:
    looks = b"\xff\xda" * 100
    comment = b"\xff\xfe" + struct.pack(">H", 2 + len(looks)) + looks
    segments = images.jpeg_segments(PROGRESSIVE)
    inside = b"".join([*segments[:1], comment, *segments[1:-1], comment, segments[-1]])
    after = PROGRESSIVE + PROGRESSIVE * 9  # as the previews of a camera
    sequential = images.saved(COLOR, "JPEG")
    for data in (inside, after, with_scans(sequential, 100)):
        assert header(data) == header(sequential)


@pytest.mark.parametrize("kind", [b"zTXt", b"iTXt"])
@pytest.mark.parametrize("late", [False, True])
def test_compressed_texts_have_a_limit(kind: bytes, late: bool) -> None:
    *front, end = images.png_chunks()

    def png(count: int) -> bytes:
        texts = [(kind, b"k\0\0\0\0\0")] * count
        return images.png_file([*front, *texts, end] if late else [front[0], *texts, *front[1:]])

    assert header(png(MAX_PACKED_TEXTS)).format == "png"
    assert costly(png(MAX_PACKED_TEXTS + 1)) == f"more than {MAX_PACKED_TEXTS} compressed texts"


def in_many_parts(count: int) -> Iterator[tuple[str, bytes]]:
    """Files with about this many markers, chunks or blocks that say nothing."""
    jpeg, webp = images.saved(COLOR, "JPEG"), images.saved(images.picture("RGB", 16, 24), "WEBP")
    chunks = images.png_chunks()
    gif = images.gif_file((9, 7), [(0, 0, 9, 7)], b"")
    yield "markers", jpeg[:2] + b"\xff\xfe\0\2" * count + jpeg[2:]
    yield "chunks", images.png_file([chunks[0]]) + images.chunk(b"abCd") * count
    yield "blocks", gif + b"!\xfe" + b"\1x" * count + b"\0;"
    yield "blocks", gif + b"!\xfe\0" * count + b";"
    empty = b"abcd\0\0\0\0"
    canvas = images.webp_file([images.webp_canvas(16, 24)])
    yield "chunks", canvas + empty * count + webp[12:]


@pytest.mark.parametrize("limit", rest_slow([2_000, MAX_PARTS]))
def test_parts_have_a_limit(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(headers, "MAX_PARTS", limit)
    for _, data in in_many_parts(1000):
        assert header(data).height
    for what, data in in_many_parts(limit):
        assert costly(data) == f"more than {limit} {what}"


def test_boxes_have_a_limit() -> None:
    whole = images.whole_images()["jxl_container"]
    box = struct.pack(">I4s", 8, b"abcd")
    assert header(whole[:32] + box * 1000 + whole[32:]) == header(whole)
    with pytest.raises(Exception, match="boxes"):
        header(whole[:32] + box * (1 << 20) + whole[32:])


def test_planes_of_a_jpeg_xl_count_as_pixels() -> None:
    whole = images.whole_images()
    assert header(whole["jxl_grey"]).planes == 1
    assert header(whole["jxl_rgb_alpha"]).planes == 2
    flat = header(images.JXL_OF_100_CHANNELS)
    assert flat.pixels == flat.height * flat.width * 100 == 2048 * 2048 * 100


def test_only_jpegs_that_simplejpeg_decodes_as_tensorflow_does_are_plain() -> None:
    for mode, is_plain in (("L", True), ("RGB", True), ("CMYK", False)):
        data = saved(picture("RGB", 16, 16).convert(mode), "JPEG")
        assert read_header(data, "jpeg").plain is is_plain


# Files that TensorFlow does not read are named, with what reads them.

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


# Portable maps of any largest value have the samples that Pillow reads one by one.

SMALL_LIMITS = Limits(max_pixels=1 << 24, max_bytes=1 << 30)


def decoded(data: bytes) -> Image.Image:
    return decode(open_image(data, ("PPM",), SMALL_LIMITS))


@pytest.mark.parametrize("maxval", [1, 2, 100, 254, 256, 1000, 32_767, 65_534])
@pytest.mark.parametrize(("magic", "channels"), [(b"P5", 1), (b"P6", 3)])
def test_as_pillow_reads_them(magic: bytes, channels: int, maxval: int) -> None:
    kind = ">u2" if maxval > 255 else "u1"
    # Values above the largest one occur, too.
    values = np.random.default_rng(maxval).integers(0, maxval * 3 // 2 + 1, 11 * 7 * channels)
    samples = np.minimum(values, np.iinfo(kind).max).astype(kind)
    data = magic + b" 7 # wide\n11 %d\n" % maxval + samples.tobytes()
    theirs = Image.open(io.BytesIO(data))
    expected = np.asarray(theirs).astype(np.uint16 if theirs.mode == "I" else np.uint8)
    ours = decoded(data)
    assert ours.mode == {"I": "I;16"}.get(theirs.mode, theirs.mode)
    assert np.array_equal(np.asarray(ours), expected)


def test_one_that_is_cut_is_rejected() -> None:
    with pytest.raises(RejectedImageError) as caught:
        decoded(gray_map(20, 100)[:-1])
    assert caught.value.reason is Reason.CORRUPT_IMAGE


@pytest.mark.parametrize("filler", [b"#x\n", b" ", b"\n", b"#" + b"x" * 100_000 + b"\n"])
@pytest.mark.parametrize("end", [b"2 2 255\n" + bytes(12), b""])
def test_a_header_of_megabytes_is_refused(filler: bytes, end: bytes) -> None:
    count = (100 << 20) // len(filler)
    started = time.process_time()
    with pytest.raises(RejectedImageError) as caught:
        decoded(b"P6\n" + filler * count + end)
    # Pillow takes 25 s.
    assert time.process_time() - started < 5
    assert caught.value.reason is Reason.TOO_COSTLY


@pytest.mark.parametrize(
    "data",
    [
        b"P4 1024 1024\n" + b" " * (1 << 17),
        b"P5 1024 1024 255\n" + b" " * (1 << 20),
        b"P6\n# by hand\n512 512\n255\n" + b"#" * (3 << 18),
        b"P6" + b"\n" * 60_000 + b"4 4 255\n" + b"\n" * 48,
    ],
)
def test_a_header_of_kilobytes_is_read(data: bytes) -> None:
    assert decoded(data).width in (4, 512, 1024)


@pytest.mark.parametrize("make", [plain_map, plain_bitmap])
def test_plain_text_is_limited(make: object) -> None:
    assert callable(make)
    side = int(MAX_PLAIN_SAMPLES**0.5)
    assert decoded(make(64)).size == (64, 64)
    with pytest.raises(RejectedImageError) as caught:
        decoded(make(side + 1))
    assert caught.value.reason is Reason.TOO_COSTLY
    assert "in plain text" in caught.value.detail


# A JPEG 2000 of more tiles than an image needs is refused by its header.


def test_real_files_are_opened() -> None:
    for name, data in foreign_images().items():
        if name.startswith("jp2"):
            check_jpeg2000(data)
    check_jpeg2000(saved(Image.new("L", (640, 480)), "JPEG2000", tile_size=(16, 16)))


def test_tiles_are_counted() -> None:
    side = int(MAX_TILES**0.5)
    check_jpeg2000(jpeg2000_of_tiles(side))
    with pytest.raises(RejectedImageError, match=f"{(side + 1) ** 2} tiles, more than {MAX_TILES}"):
        check_jpeg2000(jpeg2000_of_tiles(side + 1))
    check_jpeg2000(b"\xff\x4f\xff\x51 cut")


def test_pixels_count_several_times() -> None:
    data = jpeg2000_of(100)
    open_image(data, ("JPEG2000",), Limits(100 * 100 * COST, 1 << 20))
    with pytest.raises(RejectedImageError) as caught:
        open_image(data, ("JPEG2000",), Limits(100 * 100 * COST - 1, 1 << 20))
    assert caught.value.reason is Reason.TOO_MANY_PIXELS
    assert (
        caught.value.detail
        == "100 x 100 pixels (height x width), which count 4 times, more than 39999"
    )


# A TIFF that is made to be slow is refused by its directory; every other one is opened.


@pytest.mark.parametrize("name", [name for name in foreign_images() if name.startswith("tiff")])
def test_real_tiffs_are_opened(name: str) -> None:
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
