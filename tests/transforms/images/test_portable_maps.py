"""Portable maps of any largest value have the samples that Pillow reads one by one."""

from __future__ import annotations

import io
import time

import numpy as np
import pytest
from PIL import Image

from tests.hostile.costly_files import gray_map, plain_bitmap, plain_map
from transforms.core.rejections import Reason, RejectedImageError
from transforms.images.pillow_images import MAX_PLAIN_SAMPLES, decode, open_image
from transforms.images.pixel_options import Limits

LIMITS = Limits(max_pixels=1 << 24, max_bytes=1 << 30)


def decoded(data: bytes) -> Image.Image:
    return decode(open_image(data, ("PPM",), LIMITS))


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
