"""More than a thousand damaged images, and bombs: each is accepted or rejected, soon and small.

No file ends the process, takes longer than `SECONDS`, or gets memory over the ceiling.
"""

from __future__ import annotations

import functools
import io
import os
import random
import struct
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from tests import images
from tests.campaign import size
from tests.hostile.checking import BrokenCheckError, Checker
from tests.hostile.costly_files import small_bombs
from transforms.core.rejections import Reason
from transforms.images.headers import MAX_PACKED_TEXTS, MAX_PARTS, MAX_SCANS
from transforms.images.pixel_options import DEFAULT_LIMITS as DEFAULT
from transforms.images.pixel_options import Limits

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="ceilings on memory need Linux")

# What may become of a file: it is accepted, or rejected for one of these reasons.
OUTCOMES = {
    "",
    Reason.EMPTY_FILE.code,
    Reason.NOT_AN_IMAGE.code,
    Reason.TOO_MANY_PIXELS.code,
    Reason.TOO_COSTLY.code,
    Reason.CORRUPT_IMAGE.code,
}

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
FUZZED = size(400, 1200)


def ceiling(limits: Limits) -> int:
    """Bytes that one check may take."""
    return BYTES_PER_PIXEL * limits.max_pixels + SLACK


def checker_of(limits: Limits) -> Iterator[Checker]:
    checker = Checker(limits, ceiling(limits))
    yield checker
    checker.stop()


@pytest.fixture(scope="module")
def small() -> Iterator[Checker]:
    """Checks images of up to 4 megapixels, in 160 MB."""
    yield from checker_of(SMALL)


@pytest.fixture(scope="module")
def default() -> Iterator[Checker]:
    """Checks images with the default limits of `convert`."""
    yield from checker_of(DEFAULT)


def stays_within(checker: Checker, limits: Limits) -> None:
    """Checks the memory of all that was checked so far; time is checked file by file."""
    assert checker.growth < ceiling(limits)


class TestDamagedImages:
    @pytest.mark.slow
    def test_mutants_of_every_kind(self, small: Checker) -> None:
        cases = dict(images.mutants(WHOLE, flips=2, seed=5, kinds=MOVED))
        assert len(cases) > 5000
        reasons = {small.check(data, name).reason for name, data in cases.items()}
        assert {"", "corrupt_image"} < reasons <= OUTCOMES
        stays_within(small, SMALL)

    @pytest.mark.slow
    def test_whatever_hypothesis_makes_of_them(self, small: Checker) -> None:
        before = small.checked

        @settings(max_examples=FUZZED, deadline=None, derandomize=True, database=None)
        @given(st.sampled_from(sorted(WHOLE)).flatmap(edited_image))
        def check(case: tuple[str, bytes]) -> None:
            name, data = case
            assert small.check(data, name).reason in OUTCOMES

        check()
        assert small.checked - before >= 0.8 * FUZZED
        stays_within(small, SMALL)

    @pytest.mark.slow
    def test_photos(self, default: Checker) -> None:
        folder = os.environ.get("FLOWERS")
        if not folder:
            pytest.skip("FLOWERS names no folder of JPEGs from cameras")
        paths = sorted(Path(folder).rglob("*.jpg"))[:400]
        assert len(paths) * len(DAMAGE) >= 1000
        source = random.Random(7)
        for path in paths:
            photo = path.read_bytes()
            for name, damage in DAMAGE.items():
                checked = default.check(damage(photo, source), f"{path.name}-{name}")
                assert checked.reason in OUTCOMES
        stays_within(default, DEFAULT)


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


def _overwritten(data: bytes, source: random.Random) -> bytes:
    at = source.randrange(2, len(data))
    return data[:at] + source.randbytes(64) + data[at + 64 :]


DAMAGE: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "flipped": lambda data, source: images.flipped(data, source, 3),
    "cut": lambda data, source: data[: source.randrange(1, len(data))],
    "overwritten": _overwritten,
    "header": lambda data, source: images.flipped(data[:700], source, 2) + data[700:],
}


# Bombs. A case: the file, the reason or "" for accepted, and a part of the detail.

Case = tuple[bytes, str, str]


def progressive(mode: str, side: int, scans: int) -> bytes:
    """Black; each scan but the first ones is 250 bytes, whatever the size."""
    *front, end = images.jpeg_segments(
        images.saved(Image.new(mode, (side, side)), "JPEG", progressive=True)
    )
    there = sum(segment[1] == 0xDA for segment in front)
    return b"".join(front) + front[-1] * (scans - there) + end


def png_of(side: int, depth: int = 8, color: int = 2, *, chunks: list[images.Chunk]) -> bytes:
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
def largest_webp() -> bytes:
    """Black, of as many pixels as are allowed."""
    return images.saved(Image.new("RGB", (SIDE, SIDE)), "WEBP", lossless=True, method=0)


def with_texts(kind: bytes, count: int, size: int) -> bytes:
    """A small PNG with deflated texts or a colour profile."""
    start = b"k\0\1\0\0\0" if kind == b"iTXt" else b"k\0\0"
    chunk = (kind, start + zeros(size))
    return images.png_file(images.png_chunks(extra=[chunk] * count))


def gif_of(frames: int, side: int) -> bytes:
    """A GIF of one whole frame and others that say they are as large and hold one pixel."""
    one = b",\0\0\0\0" + struct.pack("<HHB", side, side, 0) + b"\2\2\x4c\1\0"
    return images.gif_file((side, side), [], b"") + one * frames + b";"


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


def _too_large() -> Iterator[tuple[str, Case]]:
    pixels = "more than 178956970"
    vp8l = struct.pack("<BI", 0x2F, 16383 | 16383 << 14)
    jpeg = images.whole_images()["jpeg_progressive"]
    for name, data in {
        "png": png_of(65500, chunks=[(b"IDAT", zeros(1 << 20))]),
        "png_1_bit": png_of(65500, 1, 0, chunks=[(b"IDAT", zeros(65500 * 8189))]),
        "jpeg": images.with_size(jpeg, 65500, 65500),
        "gif_10000_frames": gif_of(10_000, 200),
        "gif_one_frame": gif_of(1, 65500),
        "bmp": images.bmp_file(65500, 65500, 24, body=b""),
        "bmp_upside_down": images.bmp_file(-(2**31), 2**31 - 1, 24, body=b""),
        "webp": images.webp_file([(b"VP8L", vp8l + bytes(20))]),
        "webp_frames": images.webp_file(
            [images.webp_canvas(4000, 4000, 0x12), *[(b"ANMF", bytes(24))] * 10_000]
        ),
        "jxl": b"\xff\x0a" + (3 << 1 | (65499 << 3) | 1 << 33 | 1 << 36).to_bytes(26, "little"),
        "jxl_100_channels": images.JXL_OF_100_CHANNELS,
    }.items():
        yield name, (data, "too_many_pixels", pixels)


def _too_costly() -> Iterator[tuple[str, Case]]:
    scans, parts = f"more than {MAX_SCANS} scans", f"more than {MAX_PARTS}"
    texts = f"more than {MAX_PACKED_TEXTS} compressed texts"
    gif = images.gif_file((9, 7), [(0, 0, 9, 7)], b"")
    jpeg = images.whole_images()["jpeg"]
    at = jpeg.index(b"\xff\xda")
    # It says that its first scan holds one component of three, as a sequential JPEG may.
    partial = jpeg[: at + 2] + b"\0\x08\1\1\0\0\x3f\0" + jpeg[at + 14 :]
    for name, (data, detail) in {
        "jpeg_300_scans": (progressive("RGB", 500, 300), scans),
        "jpeg_9000_scans": (progressive("L", 4000, 9000), scans),
        "jpeg_sequential_scans": (partial[:-2] + partial[at:-2] * 300 + b"\xff\xd9", scans),
        "png_990_texts": (with_texts(b"zTXt", 990, 7 << 20), texts),
        "png_990_international_texts": (with_texts(b"iTXt", 990, 7 << 20), texts),
        "png_chunks": (
            images.png_file(images.png_chunks()[:1]) + images.chunk(b"IDAT") * MAX_PARTS,
            parts,
        ),
        "gif_comments": (gif + b"!\xfe" + b"\1x" * 12_000_000 + b"\0;", parts),
        "gif_frames": (gif_of(MAX_PARTS, 1), parts),
        "jpeg_comments": (jpeg[:2] + b"\xff\xfe\0\2" * 6_000_000 + jpeg[2:], parts),
    }.items():
        yield name, (data, "too_costly", detail)


def _no_images() -> Iterator[tuple[str, Case]]:
    tiff = io.BytesIO()
    Image.new("RGB", (2000, 2000)).save(tiff, "TIFF", compression="tiff_deflate")
    for name, data in {
        "tiff": lying_tiff(),
        "tiff_deflated": tiff.getvalue(),
        "ico": icon_of_a_bomb(),
        "heic": b"\0\0\0\x18ftypheic" + bytes(100),
        "avif": b"\0\0\0\x18ftypavif" + bytes(100),
        "jpeg_2000": b"\0\0\0\x0cjP  \r\n\x87\n" + bytes(100),
        "psd": b"8BPS\0\1" + bytes(100),
        "svg": b"<?xml version='1.0'?><!DOCTYPE svg [<!ENTITY a 'a'><!ENTITY b '&a;&a;'>]>",
        "pdf": b"%PDF-1.7\n",
        "zip": b"PK\3\4" + bytes(100),
        "gzip": zlib.compress(bytes(1 << 20), wbits=31),
        "elf": b"\x7fELF" + bytes(100),
        "html": b"<!DOCTYPE html><title>429 Too Many Requests</title>",
        "nothing": bytes(1 << 24),
    }.items():
        yield name, (data, "not_an_image", "begins with the bytes")


def _lies() -> Iterator[tuple[str, Case]]:
    """Within the limits by their header, and with little or nothing behind it."""
    vp8l = struct.pack("<BI", 0x2F, (SIDE - 1) | (SIDE - 1) << 14)
    for name, data in {
        "bmp": images.bmp_file(SIDE, SIDE, 24, body=b""),
        "png": png_of(SIDE, chunks=[(b"IDAT", zeros(1 << 10)[:20])]),
        "gif": gif_of(1, SIDE),
        "webp": images.webp_file([(b"VP8L", vp8l + bytes(20))])[:40],
        "jxl": b"\xff\x0a" + (3 << 1 | (SIDE << 3) | 1 << 33 | 1 << 36).to_bytes(6, "little"),
    }.items():
        yield name, (data, "corrupt_image", "")


def _largest() -> Iterator[tuple[str, Case]]:
    """The largest image within the limits, in the fewest bytes."""
    size = f"({SIDE}, {SIDE}, "
    rows = zeros((1 + SIDE * 3) * SIDE)
    small = images.whole_images()["jpeg_progressive"]
    for name, data in {
        "png": png_of(SIDE, chunks=[(b"IDAT", rows)]),
        "png_in_doubt": png_of(SIDE, chunks=[(b"gAMA", b"\0"), (b"IDAT", rows + b"tail")]),
        "jpeg_of_2_kb": images.with_size(small, SIDE, SIDE),
        "gif": images.saved(Image.new("P", (SIDE, SIDE)), "GIF"),
        "webp": largest_webp(),
    }.items():
        yield name, (data, "", size)
    side = 4000
    yield "jpeg_scans", (progressive("RGB", side, MAX_SCANS), "", f"({side}, {side}, 3)")
    yield "gif_10000_small_frames", (gif_of(10_000, 1), "", "(1, 1, 3)")
    yield "png_texts", (with_texts(b"zTXt", MAX_PACKED_TEXTS, 7 << 20), "", "(21, 19, 3)")
    yield "png_text_of_1_gb", (with_texts(b"zTXt", 1, 1 << 30), "", "(21, 19, 3)")
    yield "png_profile_of_1_gb", (with_texts(b"iCCP", 1, 1 << 30), "", "(21, 19, 3)")
    hidden = [(b"IDAT", zeros(1 << 30))]
    yield "png_of_1_gb_in_100_pixels", (png_of(10, chunks=hidden), "", "(10, 10, 3)")


@pytest.mark.slow
@pytest.mark.parametrize("kind", [_too_large, _too_costly, _no_images, _lies, _largest])
def test_bombs(default: Checker, kind: Callable[[], Iterator[tuple[str, Case]]]) -> None:
    count = 0
    for name, (data, reason, detail) in kind():
        checked = default.check(data, name)
        assert (name, checked.reason) == (name, reason), checked
        assert detail in checked.detail, name
        assert len(data) <= DEFAULT.max_bytes
        count += 1
    assert count >= 5
    stays_within(default, DEFAULT)


@pytest.mark.slow
def test_what_takes_too_much_or_dies_would_be_noticed() -> None:
    """Else the tests above would show nothing."""
    checker = Checker(DEFAULT, 64 << 20)
    try:
        with pytest.raises(BrokenCheckError, match="a file: (ResourceExhaustedError|no ans)"):
            checker.check(largest_webp(), "a file")
        with pytest.raises(BrokenCheckError, match="a file: it ended the process with SIGKILL"):
            checker.kill()
            checker.check(b"any", "a file")
        assert checker.check(WHOLE["jpeg"]).reason == ""
    finally:
        checker.stop()


@pytest.mark.slow
def test_small_bombs_whose_pixels_are_changed() -> None:
    """Each is changed in three ways and drawn for the report."""
    checker = Checker(DEFAULT, ceiling(DEFAULT), "pixels")
    try:
        for name, data, reason in small_bombs():
            checked = checker.check(data, name)
            assert (name, checked.reason) == (name, reason), checked
            assert name.startswith("jpeg_2000") or checker.growth < 300 << 20, name
        stays_within(checker, DEFAULT)
    finally:
        checker.stop()
