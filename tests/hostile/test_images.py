"""More than a thousand damaged images, and bombs: each is accepted or rejected, soon and small.

No file ends the process, takes longer than `checking.SECONDS`, or gets memory over a ceiling.
"""

import functools
import struct
import sys
import zlib
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from tests import images
from tests.campaign import size
from tests.hostile.checking import Checker
from tests.hostile.costly_files import small_bombs
from tests.marks import cases
from transforms.core.rejections import RejectedImageError
from transforms.images.headers import MAX_FRAMES, MAX_PACKED_TEXTS, MAX_PARTS, MAX_SCANS
from transforms.images.pixel_options import DEFAULT_LIMITS as DEFAULT
from transforms.images.pixel_options import Limits

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="ceilings on memory need Linux"),
]

# What may become of a file: it is accepted, or rejected for one of these reasons.
OUTCOMES = {"", "empty_file", "not_an_image", "too_many_pixels", "too_costly", "corrupt_image"}

# What a decoder may take for each pixel: a JPEG's coefficients, the picture, and TensorFlow's
# JPEG XL decoder, which maps the most.
BYTES_PER_PIXEL = 16
SMALL = Limits(max_pixels=1 << 22, max_bytes=1 << 24)
# Arenas, the image itself, and what TensorFlow makes when it first meets something.
SLACK = 96 << 20

WHOLE = {name: data for name, data in images.whole_images().items() if len(data) < 1 << 20}
MOVED = ("jpeg", "jpeg_grey", "jpeg_progressive", "jpeg_restart", "jpeg_ycck")
# Sizes and lengths that have broken decoders.
NUMBERS = [
    struct.pack(f"{order}{kind}", value)
    for order in "<>"
    for kind, values in {"H": (0, 1, 0x7FFF, 0xFFFF), "I": (0, 1, 2**31 - 1, 2**32 - 1)}.items()
    for value in values
]
# Squared, all that the default limit allows.
SIDE = 13376
# Of what counts three, four, five and seven times.
THIRD, QUARTER, FIFTH, SEVENTH = 7722, 6688, 5982, 5056
FUZZED = size(400, 1200)


def ceiling(limits: Limits) -> int:
    """Bytes that one check may take."""
    return BYTES_PER_PIXEL * limits.max_pixels + SLACK


@pytest.fixture(scope="module")
def check(request: pytest.FixtureRequest) -> Iterator[Checker]:
    made = Checker(request.param, ceiling(request.param))
    yield made
    made.stop()


# Images of up to 4 megapixels in 160 MB, or the default limits of `convert`.
WITHIN_SMALL = pytest.mark.parametrize("check", [SMALL], indirect=True)
WITHIN_DEFAULT = pytest.mark.parametrize("check", [DEFAULT], indirect=True)


@WITHIN_SMALL
def test_mutants_of_every_kind(check: Checker) -> None:
    cases = dict(images.mutants(WHOLE, flips=2, seed=5, kinds=MOVED))
    assert len(cases) > 5000
    reasons = {check.check(data, name).reason for name, data in cases.items()}
    assert {"", "corrupt_image"} < reasons <= OUTCOMES


@WITHIN_SMALL
def test_whatever_hypothesis_makes_of_them(check: Checker) -> None:
    before = check.checked

    @settings(max_examples=FUZZED, deadline=None, derandomize=True, database=None)
    @given(st.sampled_from(sorted(WHOLE)).flatmap(edited_image))
    def check_edited(case: tuple[str, bytes]) -> None:
        assert check.check(case[1], case[0]).reason in OUTCOMES

    check_edited()
    assert check.checked - before >= 0.8 * FUZZED


def edited_image(name: str) -> st.SearchStrategy[tuple[str, bytes]]:
    """An image with a few edits of what decoders trip over: sizes, lengths, parts twice or cut."""
    data = WHOLE[name]
    at = st.integers(0, max(0, len(data) - 1))
    pieces = st.one_of(
        st.sampled_from(NUMBERS),
        st.binary(max_size=8),
        st.builds(lambda start, length: data[start : start + length], at, st.integers(0, 400)),
    )
    # Most edits leave all that follows in its place.
    removed = st.one_of(st.none(), st.none(), st.integers(0, 60))
    edits = st.lists(st.tuples(at, removed, pieces), min_size=1, max_size=4)

    def edited(edits: list[tuple[int, int | None, bytes]]) -> tuple[str, bytes]:
        made = data
        for position, removed, piece in edits:
            end = position + (len(piece) if removed is None else removed)
            made = made[:position] + piece + made[end:]
        return name, with_right_checksums(made)

    return edits.map(edited)


def with_right_checksums(data: bytes) -> bytes:
    """A PNG whose chunks have the checksums of what they hold: libpng looks no further else."""
    parts, position = [data[:8]], 8
    while data.startswith(b"\x89PNG") and position + 12 <= len(data):
        end = position + 8 + int.from_bytes(data[position : position + 4], "big")
        parts.append(images.chunk(data[position + 4 : position + 8], data[position + 8 : end]))
        position = end + 4
    return b"".join([*parts, data[position:]])


# Bombs: name, file, and a part of the detail of what becomes of it.

Bombs = Iterator[tuple[str, bytes, str]]


def progressive(mode: str, side: int, scans: int) -> bytes:
    """Black; each scan but the first ones is 250 bytes, whatever the size."""
    *front, end = images.jpeg_segments(
        images.saved(Image.new(mode, (side, side)), "JPEG", progressive=True)
    )
    there = sum(segment[1] == 0xDA for segment in front)
    return b"".join(front) + front[-1] * (scans - there) + end


def png_of(
    side: int, depth: int = 8, color: int = 2, *, chunks: list[tuple[bytes, bytes]]
) -> bytes:
    """A PNG that says it has `side` x `side` pixels."""
    header = (b"IHDR", struct.pack(">IIBBBBB", side, side, depth, color, 0, 0, 0))
    return images.png_file([header, *chunks, (b"IEND", b"")])


@functools.cache
def zeros(count: int) -> bytes:
    """This many zero bytes, deflated to a thousandth."""
    step = 1 << 24
    whole, rest = divmod(count, step)
    # After a full flush, the same bytes are deflated to the same bytes.
    deflater = zlib.compressobj(9, wbits=-15)
    each = deflater.compress(bytes(step)) + deflater.flush(zlib.Z_FULL_FLUSH) if whole else b""
    deflater = zlib.compressobj(9, wbits=-15)
    last = deflater.compress(bytes(rest)) + deflater.flush()
    adler = (count % 65521) << 16 | 1
    return b"\x78\xda" + each * whole + last + adler.to_bytes(4, "big")


@functools.cache
def black_webp(side: int) -> bytes:
    """Lossless."""
    return images.saved(Image.new("RGB", (side, side)), "WEBP", lossless=True, method=0)


def with_texts(kind: bytes, count: int, size: int) -> bytes:
    """A small PNG with deflated texts or a colour profile."""
    start = b"k\0\1\0\0\0" if kind == b"iTXt" else b"k\0\0"
    chunk = (kind, start + zeros(size))
    return images.png_file(images.png_chunks(extra=[chunk] * count))


def gif_of(frames: int, side: int) -> bytes:
    """A GIF of one whole frame and others that say they are as large and hold one pixel."""
    one = b",\0\0\0\0" + struct.pack("<HHB", side, side, 0) + b"\2\2\x4c\1\0"
    return images.gif_file((side, side), [], b"") + one * frames + b";"


def jxl_of(side: int, size: int) -> bytes:
    """The header of a JPEG XL: no small sizes, 30 bits of height, ratio 1:1, all defaults."""
    return b"\xff\x0a" + (3 << 1 | (side << 3) | 1 << 33 | 1 << 36).to_bytes(size, "little")


def webp_of(side: int) -> bytes:
    """A lossless WebP that says it has `side` x `side` pixels."""
    vp8l = struct.pack("<BI", 0x2F, (side - 1) | (side - 1) << 14)
    return images.webp_file([(b"VP8L", vp8l + bytes(20))])


def lying_tiff() -> bytes:
    """Strips that begin and end outside of the file, of a size of 2**31 square."""
    tags = [(256, 4, 1, 2**31), (257, 4, 1, 2**31), (258, 3, 1, 8), (259, 3, 1, 5), (262, 3, 1, 2)]
    tags += [(273, 4, 2**30, 2**32 - 1), (277, 3, 1, 3), (278, 4, 1, 1), (279, 4, 2**30, 2**32 - 1)]
    body = b"".join(struct.pack("<HHII", *tag) for tag in tags)
    return b"II*\0\x08\0\0\0" + struct.pack("<H", len(tags)) + body + bytes(4)


def icon_of_a_bomb() -> bytes:
    """An ICO whose only picture is a PNG of 65500 x 65500."""
    png = png_of(65500, chunks=[(b"IDAT", zeros(1 << 20))])
    return struct.pack("<HHHBBBBHHII", 0, 1, 1, 0, 0, 0, 0, 1, 32, len(png), 22) + png


def too_large() -> Bombs:
    frames = [images.webp_canvas(4000, 4000, 0x12), *[(b"ANMF", bytes(24))] * 10_000]
    cmyk = images.saved(Image.new("CMYK", (9, 7)), "JPEG", progressive=True)
    for name, data in {
        "png_1_bit": png_of(65500, 1, 0, chunks=[(b"IDAT", zeros(65500 * 8189))]),
        "gif_10000_frames": gif_of(10_000, 200),
        "webp": black_webp(SIDE),
        "bmp_upside_down": images.bmp_file(-(2**31), 2**31 - 1, 24, body=b""),
        "webp_frames": images.webp_file(frames),
        "jxl_100_channels": images.JXL_OF_100_CHANNELS,
        "jxl": jxl_of(SEVENTH, 6),
        "gif": gif_of(1, THIRD),
        "png_in_doubt": png_in_doubt(SIDE),
        "jpeg_of_2_kb": images.with_size(images.whole_images()["jpeg_progressive"], SIDE, SIDE),
        "jpeg_cmyk_scans": images.with_size(cmyk, 5000, 5000),
    }.items():
        yield name, data, "more than 178956970"


def too_costly() -> Bombs:
    scans, parts = f"more than {MAX_SCANS} scans", f"more than {MAX_PARTS}"
    texts = f"more than {MAX_PACKED_TEXTS} compressed texts"
    gif = images.gif_file((9, 7), [(0, 0, 9, 7)], b"")
    jpeg = images.whole_images()["jpeg"]
    at = jpeg.index(b"\xff\xda")
    # It says that its first scan holds one component of three, as a sequential JPEG may.
    partial = jpeg[: at + 2] + b"\0\x08\1\1\0\0\x3f\0" + jpeg[at + 14 :]
    chunks = images.png_file(images.png_chunks()[:1]) + images.chunk(b"IDAT") * 300_000
    yield "jpeg_300_scans", progressive("RGB", 500, 300), scans
    yield "jpeg_9000_scans", progressive("L", 4000, 9000), scans
    yield "jpeg_sequential_scans", partial[:-2] + partial[at:-2] * 300 + b"\xff\xd9", scans
    yield "png_990_texts", with_texts(b"zTXt", 990, 7 << 20), texts
    yield "png_990_international_texts", with_texts(b"iTXt", 990, 7 << 20), texts
    yield "png_chunks", chunks, "more than 262144 chunks"
    yield "gif_comments", gif + b"!\xfe" + b"\1x" * 12_000_000 + b"\0;", parts
    yield "gif_frames", gif_of(MAX_FRAMES + 1, 1), f"more than {MAX_FRAMES} frames"
    webp = [images.webp_canvas(1, 1, 0x12), *[(b"ANMF", bytes(24))] * 250_000]
    yield "webp_frames", images.webp_file(webp), f"more than {MAX_FRAMES} frames"
    yield "jpeg_comments", jpeg[:2] + b"\xff\xfe\0\2" * 6_000_000 + jpeg[2:], parts


def no_images() -> Bombs:
    black = Image.new("RGB", (2000, 2000))
    for name, data in {
        "tiff": lying_tiff(),
        "tiff_deflated": images.saved(black, "TIFF", compression="tiff_deflate"),
        "ico": icon_of_a_bomb(),
        "svg": b"<?xml version='1.0'?><!DOCTYPE svg [<!ENTITY a 'a'><!ENTITY b '&a;&a;'>]>",
        "gzip": zlib.compress(bytes(1 << 20), wbits=31),
        "nothing": bytes(1 << 24),
    }.items():
        yield name, data, "begins with the bytes"


def png_in_doubt(side: int) -> bytes:
    """A PNG that TensorFlow decodes, and of which other decoders are not sure."""
    rows = zeros((1 + side * 3) * side)
    return png_of(side, chunks=[(b"gAMA", b"\0"), (b"IDAT", rows + b"tail")])


def lies() -> Bombs:
    """Within the limits by their header, and with little or nothing behind it."""
    yield "bmp", images.bmp_file(SIDE, SIDE, 24, body=b""), ""
    yield "png", png_of(THIRD, chunks=[(b"IDAT", zeros(1 << 10)[:20])]), ""
    yield "gif", gif_of(1, FIFTH), ""
    yield "webp", webp_of(THIRD)[:40], ""
    yield "jxl", jxl_of(SEVENTH - 1, 6), ""


def largest() -> Bombs:
    """The largest image within the limits, in the fewest bytes."""
    size, rows = f"({SIDE}, {SIDE}, ", zeros((1 + SIDE * 3) * SIDE)
    yield "png", png_of(SIDE, chunks=[(b"IDAT", rows)]), size
    yield "png_in_doubt", png_in_doubt(THIRD), f"({THIRD}, {THIRD}, 3)"
    small = images.whole_images()["jpeg_progressive"]
    yield "jpeg_of_2_kb", images.with_size(small, QUARTER, QUARTER), f"({QUARTER}, {QUARTER}, 3)"
    yield "gif", images.saved(Image.new("P", (FIFTH, FIFTH)), "GIF"), f"({FIFTH}, {FIFTH}, 3)"
    yield "webp", black_webp(THIRD), f"({THIRD}, {THIRD}, 3)"
    yield "jpeg_scans", progressive("RGB", 4000, MAX_SCANS), "(4000, 4000, 3)"
    yield "gif_10000_small_frames", gif_of(10_000, 1), "(1, 1, 3)"
    yield "png_texts", with_texts(b"zTXt", MAX_PACKED_TEXTS, 7 << 20), "(21, 19, 3)"
    yield "png_text_of_1_gb", with_texts(b"zTXt", 1, 1 << 30), "(21, 19, 3)"
    yield "png_profile_of_1_gb", with_texts(b"iCCP", 1, 1 << 30), "(21, 19, 3)"
    hidden = png_of(10, chunks=[(b"IDAT", zeros(1 << 30))])
    yield "png_of_1_gb_in_100_pixels", hidden, "(10, 10, 3)"


@WITHIN_DEFAULT
@cases(
    (too_large, "too_many_pixels"),
    (too_costly, "too_costly"),
    (no_images, "not_an_image"),
    (lies, "corrupt_image"),
    (largest, ""),
)
def test_bombs(kind: Callable[[], Bombs], reason: str, check: Checker) -> None:
    for name, data, detail in kind():
        checked = check.check(data, name)
        assert (name, checked.reason) == (name, reason), checked
        assert detail in checked.detail, name
        assert len(data) <= DEFAULT.max_bytes


def test_a_palette_is_not_held_beside_its_colors() -> None:
    """178 megapixels with one took 1.06 GB."""
    side = 10_000
    scaler = Checker(DEFAULT, ceiling(DEFAULT), "scaled")
    head = struct.pack(">IIBBBBB", side, side, 8, 3, 0, 0, 0)
    parts = [(b"IHDR", head), (b"PLTE", bytes(768)), (b"IDAT", zeros((1 + side) * side))]
    checked = scaler.check(images.png_file([*parts, (b"IEND", b"")]))
    scaler.stop()
    assert checked.reason == "" and checked.growth < 430 << 20


def test_what_takes_too_much_would_be_noticed() -> None:
    """Else the tests above would show nothing; `test_guard.py` shows it of what dies."""
    checker = Checker(DEFAULT, 64 << 20)
    with pytest.raises(RejectedImageError, match="memory"):
        checker.check(black_webp(THIRD))
    checker.stop()


def test_small_bombs_whose_pixels_are_changed() -> None:
    """Each is changed in three ways and drawn for the report."""
    changer = Checker(DEFAULT, ceiling(DEFAULT), "pixels")
    for name, data, reason in small_bombs():
        checked = changer.check(data, name)
        assert (name, checked.reason) == (name, reason), checked
        assert name.startswith("jpeg_2000") or changer.growth < 300 << 20, name
    changer.stop()
