"""Files of kilobytes that make Pillow take seconds or gigabytes, unless they are bounded first."""

import struct
from collections.abc import Iterator

from PIL import Image

from tests import images
from tests.images import picture, saved

_ASCII, _SHORT, _LONG = 2, 3, 4


def tag_bomb(tags: int, size: int, *, start: int = 8) -> bytes:
    """A TIFF structure of tags that all point at the same `size` bytes, which decoders copy."""
    begin = start + 2 + 12 * tags + 4
    entries = b"".join(struct.pack("<HHII", 40_000 + at, _ASCII, size, begin) for at in range(tags))
    return b"II*\0" + struct.pack("<I", start) + struct.pack("<H", tags) + entries + bytes(4 + size)


def tiff_of_tags(tags: int, size: int) -> bytes:
    """A sound TIFF of one grey pixel, and tags that all point at its end."""
    entries = [
        (256, _LONG, 1, 1), (257, _LONG, 1, 1), (258, _SHORT, 1, 8), (259, _SHORT, 1, 1),
        (262, _SHORT, 1, 1), (273, _LONG, 1, 8), (278, _LONG, 1, 1), (279, _LONG, 1, 1),
    ]  # fmt: skip
    begin = 10 + 2 + 12 * (len(entries) + tags) + 4
    entries += [(40_000 + at, _ASCII, size, begin) for at in range(tags)]
    body = b"".join(struct.pack("<HHII", *entry) for entry in entries)
    return (
        b"II*\0" + struct.pack("<I", 10) + b"\x80\0" + struct.pack("<H", len(entries)) + body
        + bytes(4 + size)
    )  # fmt: skip


def jpeg_with(segments: list[bytes]) -> bytes:
    """A small JPEG with segments behind its first marker; each is a marker byte and a body."""
    plain = saved(picture("RGB"), "JPEG")
    parts = [
        b"\xff" + segment[:1] + struct.pack(">H", len(segment) + 1) + segment[1:]
        for segment in segments
    ]
    return plain[:2] + b"".join(parts) + plain[2:]


def jpeg_with_exif(block: bytes) -> bytes:
    """A small JPEG whose EXIF block is spread over as many segments as it needs."""
    return jpeg_with(
        [b"\xe1Exif\0\0" + block[at : at + 65_000] for at in range(0, len(block), 65_000)]
    )


def png_with_exif(block: bytes) -> bytes:
    return images.png_file(images.png_chunks(extra=[(b"eXIf", block)]))


def png_with_raw_profile(block: bytes, name: bytes = b"exif") -> bytes:
    """A PNG whose EXIF block stands in a text as hexadecimal digits, as ImageMagick writes it."""
    import zlib

    text = b"\n%b\n%8d\n" % (name, len(block)) + block.hex().encode()
    body = b"Raw profile type %b\0\0" % name + zlib.compress(text)
    return images.png_file(images.png_chunks(extra=[(b"zTXt", body)]))


def webp_with_exif(block: bytes) -> bytes:
    return saved(picture("RGB"), "WEBP", exif=block)


def avif_with_exif(block: bytes) -> bytes:
    """The block is put in when the file is made: Pillow would read its tags to write them."""
    there = b"II*\0\x08\0\0\0" + bytes(len(block) - 8)
    return saved(picture("RGB"), "AVIF", exif=there).replace(there, block)


def tiff_of_pages(pages: int) -> bytes:
    """A TIFF of one grey pixel whose directory is followed by others of no tags."""
    head = tiff_of_tags(0, 8)
    at = struct.unpack_from("<I", head, 4)[0] + 2 + 12 * 8
    first = len(head)
    chain = b"".join(struct.pack("<HI", 0, first + 6 * (page + 1)) for page in range(pages - 2))
    return head[:at] + struct.pack("<I", first) + head[at + 4 :] + chain + bytes(6)


def tiff_of_strips(rows: int) -> bytes:
    """A sound TIFF of one grey column, each row a strip; Pillow takes seconds to write it."""
    pixels = 8
    offsets, counts = pixels + rows, pixels + 5 * rows
    entries = [
        (256, _LONG, 1, 1), (257, _LONG, 1, rows), (258, _SHORT, 1, 8), (259, _SHORT, 1, 1),
        (262, _SHORT, 1, 1), (273, _LONG, rows, offsets), (277, _SHORT, 1, 1), (278, _LONG, 1, 1),
        (279, _LONG, rows, counts),
    ]  # fmt: skip
    body = b"".join(struct.pack("<HHII", *entry) for entry in entries)
    return (
        b"II*\0" + struct.pack("<I", pixels + 9 * rows) + bytes(rows)
        + struct.pack(f"<{rows}I", *range(pixels, pixels + rows)) + b"\1\0\0\0" * rows
        + struct.pack("<H", len(entries)) + body + bytes(4)
    )  # fmt: skip


def gray_map(side: int, maxval: int) -> bytes:
    """A PGM of black pixels."""
    return b"P5 %d %d %d\n" % (side, side, maxval) + bytes(side * side)


def plain_map(side: int) -> bytes:
    """A PGM in plain text."""
    return b"P2 %d %d 255\n" % (side, side) + b"0 " * (side * side)


def plain_bitmap(side: int) -> bytes:
    """A PBM in plain text."""
    return b"P1 %d %d\n" % (side, side) + b"0" * (side * side)


def jpeg2000_of_tiles(side: int) -> bytes:
    """A JPEG 2000 that says that each of its pixels is a tile."""
    data = bytearray(saved(Image.new("RGB", (side, side)), "JPEG2000", no_jp2=True))
    struct.pack_into(">II", data, data.index(b"\xff\x51") + 22, 1, 1)
    return bytes(data)


def jpeg2000_of(side: int, *, says: int | None = None) -> bytes:
    """Black, in a few hundred bytes.

    Args:
        side: its width and height, which take Pillow seconds to write.
        says: the side in its headers, if that is another.
    """
    data = saved(Image.new("RGB", (side, side)), "JPEG2000")
    sizes = struct.pack(">II", side, side)
    assert data.count(sizes) == 3  # of the picture, its area and its only tile
    return data.replace(sizes, struct.pack(">II", *[says or side] * 2))


def small_bombs() -> Iterator[tuple[str, bytes, str]]:
    """Files of up to 1.3 MB of which Pillow would make gigabytes or minutes: name, file, reason."""
    block = tag_bomb(4000, 500_000)
    yield "tiff_tags", tiff_of_tags(4000, 1_100_000), "too_costly"
    yield "jpeg_exif", jpeg_with_exif(tag_bomb(4000, 1_100_000)), ""
    yield "jpeg_exif_behind_a_fill_byte", fill_byte(jpeg_with_exif(block)), ""
    yield "png_exif", png_with_exif(block), ""
    yield "png_raw_profile", png_with_raw_profile(tag_bomb(4000, 400_000)), ""
    yield "webp_exif", webp_with_exif(block), ""
    yield "avif_exif", avif_with_exif(block), ""
    yield "tiff_pages", tiff_of_pages(1_300_000), ""
    yield "tiff_strips", tiff_of_strips(2_000_000), "too_costly"
    yield "pgm_of_100_grays", gray_map(6_000, 100), ""
    yield "plain_pgm", plain_map(4_600), "too_costly"
    yield "plain_pbm", plain_bitmap(13_000), "too_costly"
    yield "jpeg_2000_tiles", jpeg2000_of_tiles(255), "too_costly"
    yield "jpeg_2000", jpeg2000_of(6_600), ""
    yield "jpeg_2000_too_large", jpeg2000_of(60, says=6_700), "too_many_pixels"


def fill_byte(jpeg: bytes) -> bytes:
    """The JPEG with a byte more before its second marker, as the format allows."""
    return jpeg[:2] + b"\xff" + jpeg[2:]
