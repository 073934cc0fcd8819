"""Headers tell format, size and cost before anything is decoded."""

import functools
import io
import struct
import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from PIL import Image

from tests import images
from tests.foreign_images import foreign_images
from tests.hostile import costly_files as costly
from tests.images import picture, saved
from tests.marks import cases
from transforms.core.rejections import Reason, RejectedImageError
from transforms.images import headers
from transforms.images.headers import (
    COSTS,
    MAX_PACKED_TEXTS,
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

COLOR = picture("RGB")
JPEG, PROGRESSIVE = saved(COLOR, "JPEG"), saved(COLOR, "JPEG", progressive=True)
LIMITS = Limits(10_000, 1 << 20)
LARGE = Limits(1 << 24, 1 << 30)
WHOLE = images.whole_images()


def header(data: bytes) -> Header:
    return read_header(data, image_format(data))


def with_scans(count: int, data: bytes = PROGRESSIVE, *, cut: int | None = None) -> bytes:
    """A JPEG whose last scan is repeated until there are this many."""
    *front, end = images.jpeg_segments(data)
    scans = sum(segment[1] == 0xDA for segment in front)
    return (b"".join(front) + front[-1] * (count - scans) + end)[:cut]


def one_scan_each(data: bytes) -> bytes:
    """A sequential JPEG that says it holds one component in its first scan."""
    at = data.index(b"\xff\xda")
    return data[: at + 2] + b"\0\x08\1\1\0\0\x3f\0" + data[at + 14 :]


def with_texts(count: int, kind: bytes, *, late: bool) -> bytes:
    """A PNG with compressed texts before or after its pixels."""
    first, *front, end = images.png_chunks()
    texts = [(kind, b"k\0\0\0\0\0")] * count
    return images.png_file([first, *front, *texts, end] if late else [first, *texts, *front, end])


@cases(
    (with_scans, MAX_SCANS, "scans"),
    # A truncated file does not circumvent it.
    (functools.partial(with_scans, cut=-9), MAX_SCANS, "scans"),
    (functools.partial(with_scans, data=one_scan_each(JPEG)), MAX_SCANS, "scans"),
    *(
        (functools.partial(with_texts, kind=kind, late=late), MAX_PACKED_TEXTS, text)
        for text in ["compressed texts"]
        for kind in (b"zTXt", b"iTXt")
        for late in (False, True)
    ),
)
def test_what_takes_time_has_a_limit(make: Callable[[int], bytes], limit: int, what: str) -> None:
    assert header(make(limit)).height
    with pytest.raises(RejectedImageError) as caught:
        header(make(limit + 1))
    assert caught.value.detail == f"more than {limit} {what}"


@pytest.mark.parametrize("mode", ["RGB", "CMYK", "L"])
def test_the_most_scans_that_encoders_write_are_few(mode: str) -> None:
    data = saved(picture(mode), "JPEG", progressive=True)
    assert header(data).format == "jpeg" and data.count(b"\xff\xda") < MAX_SCANS


def test_what_only_looks_like_a_scan_does_not_count() -> None:
    looks = b"\xff\xda" * 100
    comment = b"\xff\xfe" + struct.pack(">H", 2 + len(looks)) + looks
    segments = images.jpeg_segments(PROGRESSIVE)
    inside = b"".join([*segments[:1], comment, *segments[1:-1], comment, segments[-1]])
    after = PROGRESSIVE + PROGRESSIVE * 9  # as the previews of a camera
    for data in (inside, after, with_scans(100, JPEG)):
        assert header(data)[:8] == header(JPEG)[:8]


def in_many_parts(count: int) -> Iterator[tuple[str, bytes]]:
    """Files with about this many markers, chunks or blocks that say nothing."""
    webp = saved(picture("RGB", 16, 24), "WEBP")
    gif = images.gif_file((9, 7), [(0, 0, 9, 7)], b"")
    canvas = images.webp_file([images.webp_canvas(16, 24)])
    yield "markers", JPEG[:2] + b"\xff\xfe\0\2" * count + JPEG[2:]
    yield "chunks", images.png_file(images.png_chunks()[:1]) + images.chunk(b"abCd") * count
    yield "blocks", gif + b"!\xfe" + b"\1x" * count + b"\0;"
    yield "blocks", gif + b"!\xfe\0" * count + b";"
    yield "chunks", canvas + b"abcd\0\0\0\0" * count + webp[12:]


def test_parts_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(headers, "MAX_PARTS", 2000)
    monkeypatch.setattr(headers, "MAX_CHUNKS", 2000)
    for _, data in in_many_parts(1000):
        assert header(data).height
    for what, data in in_many_parts(2000):
        with pytest.raises(RejectedImageError, match=f"'more than 2000 {what}'"):
            header(data)


@cases(
    images.png_file(images.png_chunks(extra=[(b"abCd", bytes(1000))] * 2)),
    JPEG[:2] + (b"\xff\xe1\x03\xea" + bytes(1000)) * 2 + JPEG[2:],
    images.gif_file((9, 7), [(0, 0, 9, 7)], b"") + b"!\xfe" + (b"\xff" + bytes(255)) * 8 + b"\0;",
    ids=["png", "jpeg", "gif"],
)
def test_metadata_has_a_limit(data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """235 MB of it, which a zip holds in one, took 1.7 GB."""
    monkeypatch.setattr(headers, "MAX_METADATA", 3000)
    assert header(data).height
    monkeypatch.setattr(headers, "MAX_METADATA", 2000)
    with pytest.raises(RejectedImageError, match="'more than 2000 bytes of metadata'"):
        header(data)


def test_boxes_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(headers, "MAX_PARTS", 2000)
    whole, box = WHOLE["jxl_container"], struct.pack(">I4s", 8, b"abcd")
    assert header(whole[:32] + box * 1000 + whole[32:]) == header(whole)
    with pytest.raises(Exception, match="boxes"):
        header(whole[:32] + box * 2000 + whole[32:])


@cases(("RGB", 0, 2), ("RGB", 1, 1), ("RGB", 2, 1), ("CMYK", 0, 2), ("L", 0, 1))
def test_what_libjpeg_holds_counts_as_pixels(mode: str, subsampling: int, planes: int) -> None:
    """132 megapixels in CMYK, of 3 MB, took 2.1 GB."""
    for progressive, expected in ((False, 1), (True, planes)):
        how = {"subsampling": subsampling, "progressive": progressive}
        assert header(saved(Image.new(mode, (64, 64)), "JPEG", **how)).planes == expected


@pytest.mark.parametrize(("frames", "planes"), [(1, 9), (2, 6), (3, 5), (100, 3)])
def test_what_libwebp_holds_for_few_frames_counts_as_pixels(frames: int, planes: int) -> None:
    """Two of 9000 x 9000, in 100 bytes, took 1.9 GB."""
    parts = [images.webp_canvas(9, 7, 0x12), *[(b"ANMF", bytes(24))] * frames]
    found = header(images.webp_file(parts))
    assert (found.frames, found.planes) == (frames, planes)


def test_what_only_tensorflow_decodes_counts_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """177 megapixels took 1.4 GB, from 34 bytes of a WebP, and 26 of a JPEG XL 12 s."""
    names = ("gif", "webp_RGB", "jxl_grey", "jxl_rgb_alpha")
    *files, few = (WHOLE[name] for name in names)
    assert [header(data).planes for data in (*files, few)] == [5, 1, 3, 4]
    monkeypatch.setattr(headers, "_LARGE", 9)
    # Of 256 pixels: with half a byte for one, or an eighth.
    files += [few + bytes(size - len(few)) for size in (128, 127, 32, 31)]
    files += [images.JXL_OF_100_CHANNELS]
    assert [header(data).planes for data in files] == [5, 3, 5, 6, 8, 8, 10, 106]


@pytest.mark.parametrize(("mode", "is_plain"), [("L", True), ("RGB", True), ("CMYK", False)])
def test_jpegs_that_simplejpeg_decodes_as_tensorflow_are_plain(mode: str, is_plain: bool) -> None:
    assert header(saved(COLOR.convert(mode), "JPEG")).plain is is_plain


# Files that TensorFlow does not read are named, with what reads them.


@cases(
    (b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + bytes(100), ": HEIC, which --transcode auto"),
    (b"\0\0\0\x1cftypmif1\0\0\0\0mif1heic" + bytes(100), ": HEIC, which --transcode auto"),
    (b"\0\0\0\x1cftypmif1\0\0\0\0avifmif1" + bytes(100), ": AVIF, which --transcode auto"),
    (saved(COLOR, "AVIF"), ": AVIF, which --transcode auto reads"),
    (saved(COLOR, "TIFF"), ": TIFF, which --transcode auto reads"),
    (b"MM\0*" + bytes(20), ": TIFF, which --transcode auto reads"),
    (saved(COLOR, "JPEG2000"), ": JPEG 2000, which --transcode auto reads"),
    (b"\0\0\0\x20ftypisom" + bytes(20), ": a video of the MP4 family"),
    (b"\n<!DOCTYPE html><html>", ": a web page"),
    (b"<svg xmlns='http://www.w3.org/2000/svg'>", ": SVG or other XML"),
    (b"version https://git-lfs.github.com/spec/v1\n", ": a pointer of Git LFS: run git lfs"),
    (b"The picture has moved.", "54 68 65 20 70 69 63 74"),
    (b"x", "begins with the bytes 78"),
)
def test_names(data: bytes, name: str) -> None:
    found = describe_start(data)
    assert found.startswith("begins with the bytes ") and name in found
    assert ":" in name or ":" not in found


def test_a_decoder_of_pillow_names_a_format() -> None:
    with pytest.raises(RejectedImageError, match="PSD: export it as PNG") as caught:
        open_image(b"8BPS\0\1" + bytes(100), FOREIGN, LIMITS)
    assert caught.value.reason is Reason.NOT_AN_IMAGE


# Portable maps.


def decoded(data: bytes) -> Image.Image:
    return decode(open_image(data, ("PPM",), LARGE))


@pytest.mark.parametrize("maxval", [1, 2, 100, 254, 256, 1000, 32_767, 65_534])
@pytest.mark.parametrize(("magic", "channels"), [(b"P5", 1), (b"P6", 3)])
def test_samples_are_those_that_pillow_reads(magic: bytes, channels: int, maxval: int) -> None:
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


@pytest.mark.parametrize("filler", [b"#x\n", b" ", b"\n", b"#" + b"x" * 100_000 + b"\n"])
@pytest.mark.parametrize("end", [b"2 2 255\n" + bytes(12), b""])
def test_a_header_of_megabytes_is_refused(filler: bytes, end: bytes) -> None:
    data = b"P6\n" + filler * ((30 << 20) // len(filler)) + end
    started = time.process_time()
    with pytest.raises(RejectedImageError) as caught:
        decoded(data)
    # Pillow takes 8 s.
    assert time.process_time() - started < 2
    assert caught.value.reason is Reason.TOO_COSTLY


@cases(
    (b"P4 1024 1024\n" + b" " * (1 << 17), 1024),
    (b"P5 1024 1024 255\n" + b" " * (1 << 20), 1024),
    (b"P6\n# by hand\n512 512\n255\n" + b"#" * (3 << 18), 512),
    (b"P6" + b"\n" * 60_000 + b"4 4 255\n" + b"\n" * 48, 4),
    (costly.plain_map(64), 64),
    (costly.plain_bitmap(64), 64),
)
def test_a_header_of_kilobytes_is_read(data: bytes, width: int) -> None:
    assert decoded(data).width == width


@cases(
    (costly.gray_map(20, 100)[:-1], Reason.CORRUPT_IMAGE, "buffer is smaller"),
    *(
        (make(int(MAX_PLAIN_SAMPLES**0.5) + 1), Reason.TOO_COSTLY, "in plain text")
        for make in (costly.plain_map, costly.plain_bitmap)
    ),
)
def test_a_map_that_is_refused(data: bytes, reason: Reason, detail: str) -> None:
    with pytest.raises(RejectedImageError, match=detail) as caught:
        decoded(data)
    assert caught.value.reason is reason


# A JPEG 2000 of more tiles than an image needs is refused by its header.


@cases(
    *(data for name, data in foreign_images().items() if name.startswith("jp2")),
    saved(Image.new("L", (640, 480)), "JPEG2000", tile_size=(16, 16)),
    costly.jpeg2000_of_tiles(int(MAX_TILES**0.5)),
    b"\xff\x4f\xff\x51 cut",
)
def test_few_tiles_are_opened(data: bytes) -> None:
    check_jpeg2000(data)


def test_tiles_are_counted() -> None:
    side = int(MAX_TILES**0.5) + 1
    with pytest.raises(RejectedImageError, match=f"{side**2} tiles, more than {MAX_TILES}"):
        check_jpeg2000(costly.jpeg2000_of_tiles(side))


def test_pixels_count_several_times() -> None:
    data = costly.jpeg2000_of(100)
    cost = 100 * 100 * COSTS["JPEG2000"]
    open_image(data, ("JPEG2000",), Limits(cost, 1 << 20))
    size = r"100 x 100 pixels \(height x width\), which count 4 times, more than 39999"
    with pytest.raises(RejectedImageError, match=f"'{size}'") as caught:
        open_image(data, ("JPEG2000",), Limits(cost - 1, 1 << 20))
    assert caught.value.reason is Reason.TOO_MANY_PIXELS


# A TIFF that is made to be slow is refused by its directory; every other one is opened.


def tiff_with_metadata(*, big: bool) -> bytes:
    exif = Image.Exif()
    exif[0x0112], exif[0x010E] = 6, "x" * 5000
    tags = {700: b"<xmp/>" * 100, 34675: bytes(3000), 37724: bytes(100_000)}
    return saved(picture("RGB", 300, 400), "TIFF", exif=exif, tiffinfo=tags, big_tiff=big)


def tiff_of_a_height(height: int) -> bytes:
    data = bytearray(saved(Image.new("L", (1, 9)), "TIFF", tiffinfo={278: 1}))
    struct.pack_into("<I", data, data.index(struct.pack("<HHI", 257, 4, 1)) + 8, height)
    return bytes(data)


def tiff_of_a_tile(kind: int, side: int) -> bytes:
    """The directory of a tile, whose sides have 32 or, as kind 16, 64 bits."""
    value = 38 if kind == 16 else side
    tags = b"".join(struct.pack("<HHII", number, kind, 1, value) for number in (322, 323))
    return b"II*\0\x08\0\0\0\2\0" + tags + bytes(4) + struct.pack("<Q", side)


@cases(
    *(data for name, data in foreign_images().items() if name.startswith("tiff")),
    tiff_of_a_tile(4, 8192),
    tiff_with_metadata(big=False),
    tiff_with_metadata(big=True),
    costly.tiff_of_pages(100_000),
)
def test_other_tiffs_are_opened(data: bytes) -> None:
    check_tiff(data)


@cases(
    (costly.tiff_of_tags(300, 10_000), "refer to more bytes than the file has"),
    (costly.tag_bomb(100, 65_000), "refer to more bytes than the file has"),
    (costly.tag_bomb(MAX_TAGS + 1, 4), f"4097 tags, more than {MAX_TAGS}"),
    (costly.tiff_of_strips(MAX_NUMBERS + 1), f"has more than {MAX_NUMBERS} numbers"),
    # Strips are counted by the size of the image, too.
    (tiff_of_a_height(1 << 30), "strips or tiles"),
    # One of 200 bytes took 1.6 GB.
    *((tiff_of_a_tile(kind, 8193), "a tile of 67125249 pixels, more") for kind in (4, 16)),
    (b"II*\0", "the file ends inside its directory"),
    (b"II*\0\xff\xff\xff\x7f" + bytes(8), "the file ends inside its directory"),
    (b"II", "no TIFF structure"),
    (b"PK" * 9, "no TIFF structure"),
)
def test_what_is_made_to_be_slow_or_is_broken_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(RejectedImageError, match=message):
        check_tiff(data)


def orientation_entry(kind: int, value: int) -> bytes:
    return b"II*\0\x08\0\0\0\1\0" + struct.pack("<HHII", 0x0112, kind, 1, value) + bytes(12)


@cases(
    (orientation_entry(3, 6), 6),
    (orientation_entry(4, 8), 8),
    (orientation_entry(1, 6), 0),
    (orientation_entry(5, 6), 0),
    (b"II*\0\x08\0\0\0\0\0" + bytes(4), None),
    (b"no structure", None),
    (costly.tag_bomb(MAX_TAGS + 1, 4), None),
)
def test_an_orientation_is_one_number(block: bytes, expected: int | None) -> None:
    assert read_exif(block) == (expected, False)
