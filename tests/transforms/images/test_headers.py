"""What makes a file slow to decode is counted as a decoder would count it, and nothing else is."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest

from tests import images
from tests.images import picture, saved
from tests.marks import rest_slow
from transforms.core.rejections import RejectedImageError
from transforms.images import headers
from transforms.images.headers import (
    MAX_PACKED_TEXTS,
    MAX_PARTS,
    MAX_SCANS,
    Header,
    image_format,
    read_header,
)

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
