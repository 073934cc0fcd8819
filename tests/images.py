"""Draws the images of the tests, whole and damaged, by code: the same bytes on every run.

`whole_images` gives one image of each kind; `mutants` damages them where it hurts.
"""

from __future__ import annotations

import base64
import io
import random
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from PIL import Image

Chunk = tuple[bytes, bytes]

_ADAM7 = (
    (0, 0, 8, 8),
    (0, 4, 8, 8),
    (4, 0, 8, 4),
    (0, 2, 4, 4),
    (2, 0, 4, 2),
    (0, 1, 2, 2),
    (1, 0, 2, 1),
)
_SAMPLES = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}

# Made once with libjxl (through pillow-jxl-plugin); no encoder is needed to run the tests.
_JXL = {
    "jxl_grey": "ff0a30000880a0b8110800010018004b188b158201",
    "jxl_grey_lossy": "ff0a0010901437020013880200a800b59f200000152aa38c1bbc9cebf9f24387c5b48d"
    "eb0c6db56d610963b3bd3048482824c606432c952400",
    "jxl_grey_alpha": "ff0a300008804571230800100018004b188b158201",
    "jxl_rgb": "ff0a4340240800010018004b188b158201",
    "jxl_rgb_lossy": "ff0a3000080c0013880200a800b59f200000152aa38c1bbc9cebf9f24387c5b48deb0c"
    "6db56d610963b3bd3048482824c606432c952400",
    "jxl_rgb_alpha": "ff0a43c04a0800100018004b188b158201",
    "jxl_container": "0000000c4a584c200d0a870a00000014667479706a786c20000000006a786c20000000"
    "3e6a786c63ff0a43060013880200ac00b59f200000152aa38c1bbc9cebf9f24387c5b4"
    "8deb0c6db56d610963b3bd3048482824c606001846422509",
}


# 2048x2048 black pixels in 527 bytes, likewise: grey, and 99 channels that nobody sees.
JXL_OF_100_CHANNELS = zlib.decompress(
    base64.b85decode(
        "c-muNVBqnJ@KNC9YUg5LU=T?wsVvB<$WZ{Y8K5*Lkj?>0GCl(`lK*r4vS$=$wrb#8!2E(?Xix!nI5-$^fCgL=3<3"
        "-$j0_A83@kK74BC+so0<;UdNVvfwYH3tE8usz*S*#K73CKW7PLR`%rO6wDb)MgmH*aNd3pY0ZOM82Sf;z5_@`K9>%"
        "IBP^_Ls@Dqma@c0d3BXyl{<1_ovd0RWf4cee"
    )
)


def pixels(height: int, width: int, channels: int, seed: int = 0) -> np.ndarray[Any, Any]:
    """A smooth picture with some noise: uint8 `[height, width, channels]`."""
    rows, columns = np.mgrid[0:height, 0:width]
    noise = np.random.default_rng(seed).integers(0, 40, (height, width, channels))
    base = (3 * rows + 5 * columns)[:, :, None] + 60 * np.arange(channels)
    return ((base + noise) % 256).astype(np.uint8)


def picture(mode: str, height: int = 37, width: int = 45, seed: int = 0) -> Image.Image:
    """A Pillow image of `mode`, never larger than it says."""
    if mode in ("1", "P"):
        return picture("RGB", height, width, seed).convert(mode)
    drawn = pixels(height, width, len(Image.new(mode, (1, 1)).getbands()), seed)
    size = (width, height)
    return Image.frombytes(mode, size, drawn.tobytes())


def saved(image: Image.Image, format_: str, **options: Any) -> bytes:
    """The bytes of the file that Pillow writes."""
    file = io.BytesIO()
    image.save(file, format_, **options)
    return file.getvalue()


# JPEG


def jpeg_segments(data: bytes) -> list[bytes]:
    """The file cut at its markers; entropy-coded data stays with its SOS."""
    cuts, position = [0], 2
    while position < len(data) - 2:
        cuts.append(position)
        length = int.from_bytes(data[position + 2 : position + 4], "big")
        scan = data[position + 1] == 0xDA
        position += 2 + length
        while scan and (data[position] != 0xFF or data[position + 1] in (0, *range(0xD0, 0xD8))):
            position += 1
    cuts.append(len(data) - 2)
    return [data[a:b] for a, b in zip(cuts, [*cuts[1:], len(data)], strict=True)]


def with_frame(data: bytes, change: Callable[[bytearray], None]) -> bytes:
    """Changes the body of the first SOF: precision, height, width, components."""
    at = next(i for i in range(len(data)) if data[i] == 0xFF and data[i + 1] in (0xC0, 0xC1, 0xC2))
    body = bytearray(data[at + 4 :])
    change(body)
    return data[: at + 4] + bytes(body)


def with_size(data: bytes, height: int, width: int) -> bytes:
    """A JPEG that lies about its size."""

    def change(body: bytearray) -> None:
        body[1:5] = struct.pack(">HH", height, width)

    return with_frame(data, change)


def _jpegs() -> Iterator[tuple[str, bytes]]:
    color, grey = picture("RGB"), picture("L")
    yield "jpeg", saved(color, "JPEG")
    for name, sampling in (("444", 0), ("422", 1), ("420", 2)):
        yield f"jpeg_{name}", saved(color, "JPEG", subsampling=sampling, quality=90)
    yield "jpeg_grey", saved(grey, "JPEG")
    yield "jpeg_grey_progressive", saved(grey, "JPEG", progressive=True)
    yield "jpeg_progressive", saved(color, "JPEG", progressive=True)
    yield "jpeg_restart", saved(color, "JPEG", restart_marker_blocks=2)
    yield "jpeg_restart_rows", saved(color, "JPEG", restart_marker_rows=1, progressive=True)
    yield "jpeg_rgb", saved(color, "JPEG", keep_rgb=True)
    yield "jpeg_cmyk", saved(picture("CMYK"), "JPEG")
    cmyk = jpeg_segments(saved(picture("CMYK"), "JPEG"))
    adobe = [s[:-1] + b"\x02" if s[:2] == b"\xff\xee" else s for s in cmyk]
    yield "jpeg_ycck", b"".join(adobe)
    yield "jpeg_cmyk_no_adobe", b"".join(s for s in cmyk if s[:2] != b"\xff\xee")
    exif = Image.Exif()
    exif[0x0112] = 6
    yield "jpeg_exif", saved(color, "JPEG", exif=exif, comment=b"c" * 300)
    yield "jpeg_icc", saved(color, "JPEG", icc_profile=bytes(70_000))
    for height, width in ((1, 1), (8, 8), (9, 17), (1, 65), (65, 1)):
        yield f"jpeg_{height}x{width}", saved(picture("RGB", height, width), "JPEG")


# PNG


def chunk(kind: bytes, body: bytes = b"") -> bytes:
    """One PNG chunk, with its length and a right CRC."""
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def png_file(chunks: Sequence[Chunk]) -> bytes:
    """The signature and the chunks."""
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*each) for each in chunks)


def png_rows(
    height: int, width: int, depth: int, color: int, interlaced: bool = False, largest: int = 255
) -> bytes:
    """Filtered rows of noise, before compression; Adam7 passes when interlaced."""
    source = random.Random(f"{height} {width} {depth} {color} {interlaced}")
    rows = []
    for top, left, down, right in _ADAM7 if interlaced else ((0, 0, 1, 1),):
        columns = len(range(left, width, right))
        length = (columns * depth * _SAMPLES[color] + 7) // 8
        for _ in range(top, height, down) if columns else ():
            values = bytes(source.randint(0, largest) for _ in range(length))
            rows.append(bytes([source.randint(0, 4) if color != 3 else 0]) + values)
    return b"".join(rows)


def png_chunks(
    height: int = 21,
    width: int = 19,
    depth: int = 8,
    color: int = 2,
    interlaced: bool = False,
    extra: Sequence[Chunk] = (),
    idat: int = 1 << 20,
) -> list[Chunk]:
    """The chunks of a sound PNG; `extra` goes before the pixels, in IDATs of `idat` bytes."""
    packed = zlib.compress(png_rows(height, width, depth, color, interlaced))
    header = struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, interlaced)
    parts = [packed[i : i + idat] for i in range(0, len(packed), idat)]
    palette = [(b"PLTE", bytes(range(3)) * (1 << depth))] if color == 3 else []
    return [(b"IHDR", header), *palette, *extra, *((b"IDAT", p) for p in parts), (b"IEND", b"")]


def _pngs() -> Iterator[tuple[str, bytes]]:
    kinds = [(0, d) for d in (1, 2, 4, 8, 16)] + [(3, d) for d in (1, 2, 4, 8)]
    kinds += [(c, d) for c in (2, 4, 6) for d in (8, 16)]
    for color, depth in kinds:
        for interlaced in (False, True):
            name = f"png_{color}_{depth}{'_adam7' if interlaced else ''}"
            yield name, png_file(png_chunks(depth=depth, color=color, interlaced=interlaced))
    for height, width in ((1, 1), (1, 9), (9, 1), (2, 3), (5, 5)):
        for interlaced in (False, True):
            chunks = png_chunks(height, width, interlaced=interlaced)
            yield f"png_{height}x{width}_{interlaced}", png_file(chunks)
    for color, depth, body in (
        (3, 8, b"\0\x80"),
        (3, 2, b"\0"),
        (0, 8, b"\0\1"),
        (2, 16, bytes(6)),
    ):
        chunks = png_chunks(depth=depth, color=color, extra=[(b"tRNS", body)])
        yield f"png_{color}_{depth}_trns", png_file(chunks)
    yield "png_split_idat", png_file(png_chunks(idat=100))
    texts = [(b"gAMA", b"\0\0\xb1\x8f"), (b"tEXt", b"k\0v"), (b"pHYs", bytes(8) + b"\1")]
    yield "png_ancillary", png_file(png_chunks(extra=texts))
    for mode in ("1", "L", "LA", "P", "RGB", "RGBA", "I;16"):
        image = Image.new(mode, (19, 21), 1) if mode == "I;16" else picture(mode)
        yield f"png_pillow_{mode.replace(';', '_')}", saved(image, "PNG")
    frames = [picture("RGB", seed=i) for i in range(3)]
    yield "apng", saved(frames[0], "PNG", save_all=True, append_images=frames[1:])
    apart = {"save_all": True, "append_images": frames[1:], "default_image": True}
    yield "apng_default_image", saved(frames[0], "PNG", **apart)


def _png_oddities() -> Iterator[tuple[str, bytes]]:
    """PNGs whose CRCs are right and whose contents are not, or are only unusual."""
    base = png_chunks()
    raw = png_rows(21, 19, 8, 2)
    for name, packed in {
        "short": zlib.compress(raw[:-1]),
        "row_missing": zlib.compress(raw[: -(1 + 19 * 3)]),
        "long": zlib.compress(raw + b"\0"),
        "long_row": zlib.compress(raw + bytes(58)),
        "trailing": zlib.compress(raw) + b"tail",
        "no_adler": zlib.compress(raw)[:-4],
        "bad_adler": zlib.compress(raw)[:-4] + b"\0\0\0\1",
        "not_finished": zlib.compress(raw)[:-8],
        "filter_5": zlib.compress(b"\5" + raw[1:]),
        "filter_255_last": zlib.compress(raw[:-58] + b"\xff" + raw[-57:]),
        "small_window": b"\x08\x1d" + zlib.compress(raw)[2:],
        "window_8": b"\x18\x19" + zlib.compress(raw)[2:],
        "bad_window": b"\x88\x1c" + zlib.compress(raw)[2:],
        "stored": zlib.compress(raw, 0),
        "no_data": b"",
        "preset_dictionary": b"\x78\xbb\0\0\0\0" + zlib.compress(raw)[2:],
    }.items():
        yield f"png_zlib_{name}", png_file([base[0], (b"IDAT", packed), base[-1]])
    for at, kind in ((1, "before"), (2, "after")):
        for extra in (
            (b"tEXt", b"k\0v"),
            (b"tRNS", bytes(6)),
            (b"PLTE", bytes(6)),
            (b"ABCD", b"unknown and critical"),
            (b"abCD", b"unknown"),
            (b"a1cD", b"not letters"),
            (b"IHDR", base[0][1]),
            (b"zTXt", b"k\0\0not zlib"),
            (b"iCCP", b"k\0\0not zlib"),
            (b"gAMA", b"\0"),
            (b"cHRM", b"\0" * 32),
            (b"sBIT", b"\0\0\0"),
            (b"eXIf", b"nonsense"),
            (b"IEND", b""),
        ):
            name = extra[0].decode().lower() + ("_c" if extra[0][:1].isupper() else "")
            yield f"png_{name}_{kind}", png_file([*base[:at], extra, *base[at:]])
    first, second = base[1][1][:50], base[1][1][50:]
    gap = [base[0], (b"IDAT", first), (b"tEXt", b"k\0v"), (b"IDAT", second), base[-1]]
    yield "png_idat_gap", png_file(gap)
    yield "png_idat_empty", png_file([base[0], (b"IDAT", b""), base[1], (b"IDAT", b""), base[-1]])
    yield "png_cgbi", png_file([(b"CgBI", b"P\0 \2"), *base])
    yield "png_iend_body", png_file([*base[:-1], (b"IEND", b"x")])
    yield "png_huge_text", png_file(png_chunks(extra=[(b"tEXt", b"k\0" + bytes(8_100_000))]))
    yield "png_large_text", png_file(png_chunks(extra=[(b"tEXt", b"k\0" + bytes(5_000_000))]))
    for field, value in ((0, 0), (4, 0), (8, 3), (9, 1), (9, 5), (10, 1), (11, 1), (12, 2)):
        header = bytearray(base[0][1])
        header[field : field + (4 if field < 8 else 1)] = bytes(3 if field < 8 else 0) + bytes(
            [value]
        )
        yield f"png_ihdr_{field}_{value}", png_file([(b"IHDR", bytes(header)), *base[1:]])
    wide = struct.pack(">IIBBBBB", 1_000_001, 1, 1, 0, 0, 0, 0)
    data = zlib.compress(bytes(1 + 125_001))
    yield "png_too_wide", png_file([(b"IHDR", wide), (b"IDAT", data), (b"IEND", b"")])
    yield from _palette_oddities()


def _palette_oddities() -> Iterator[tuple[str, bytes]]:
    header, palette, pixels_, end = png_chunks(depth=2, color=3)
    trns = (b"tRNS", b"\0\x80")
    for name, chunks in {
        "no_plte": [header, pixels_, end],
        "plte_length": [header, (b"PLTE", b"\0" * 4), pixels_, end],
        "plte_empty": [header, (b"PLTE", b""), pixels_, end],
        "plte_short": [header, (b"PLTE", b"\1\2\3"), pixels_, end],
        "plte_long": [header, (b"PLTE", bytes(15)), pixels_, end],
        "plte_twice": [header, palette, palette, pixels_, end],
        "plte_late": [header, pixels_, palette, end],
        "trns_early": [header, trns, palette, pixels_, end],
        "trns_late": [header, palette, pixels_, trns, end],
        "trns_long": [header, palette, (b"tRNS", bytes(5)), pixels_, end],
        "trns_empty": [header, palette, (b"tRNS", b""), pixels_, end],
        "trns_twice": [header, palette, trns, trns, pixels_, end],
    }.items():
        yield f"png_palette_{name}", png_file(chunks)
    for color, body in ((0, b"\0"), (2, bytes(5)), (4, b"\0\0"), (6, bytes(6))):
        chunks = png_chunks(color=color, extra=[(b"tRNS", body)])
        yield f"png_{color}_wrong_trns", png_file(chunks)


# GIF, BMP, WebP, JPEG XL


def gif_lzw(count: int, bits: int = 2) -> bytes:
    """Image data of `count` black pixels: a clear code before each keeps codes short."""
    value = position = 0
    for code in [code for _ in range(count) for code in (1 << bits, 0)] + [(1 << bits) + 1]:
        value |= code << position
        position += bits + 1
    data = value.to_bytes((position + 7) // 8, "little")
    blocks = [data[i : i + 255] for i in range(0, len(data), 255)]
    return bytes([bits]) + b"".join(bytes([len(b)]) + b for b in blocks) + b"\0"


def gif_file(
    screen: tuple[int, int], frames: Sequence[tuple[int, int, int, int]], end: bytes = b";"
) -> bytes:
    """A GIF of black frames `(left, top, width, height)`."""
    parts = [b"GIF89a", struct.pack("<HHBBB", *screen, 0x80, 0, 0), b"\0\0\0\xff\xff\xff"]
    for frame in frames:
        parts += [b"!\xf9\4\0\0\0\0\0,", struct.pack("<HHHHB", *frame, 0)]
        parts.append(gif_lzw(frame[2] * frame[3]))
    return b"".join(parts) + end


def bmp_file(
    height: int, width: int, bits: int, compression: int = 0, body: bytes | None = None
) -> bytes:
    """A BMP with a 40-byte header; `height` below zero means rows from the top."""
    palette = bytes(4 << bits) if bits <= 8 else b""
    row = (width * bits + 31) // 32 * 4
    body = bytes(i % 251 for i in range(row * abs(height))) if body is None else body
    start = 54 + len(palette)
    info = struct.pack(
        "<IiiHHIIiiII", 40, width, height, 1, bits, compression, len(body), 0, 0, 0, 0
    )
    return b"BM" + struct.pack("<IHHI", start + len(body), 0, 0, start) + info + palette + body


def webp_file(chunks: Sequence[Chunk]) -> bytes:
    """A RIFF file of kind WEBP."""
    parts = [k + struct.pack("<I", len(b)) + b + b"\0" * (len(b) & 1) for k, b in chunks]
    body = b"WEBP" + b"".join(parts)
    return b"RIFF" + struct.pack("<I", len(body)) + body


def webp_animation(alpha: bool, frames: int = 3) -> bytes:
    """An animated WebP; TensorFlow 2.21 must not be given one without alpha."""
    mode = "RGBA" if alpha else "RGB"
    images = [picture(mode, 16, 24, seed=i) for i in range(frames)]
    return saved(images[0], "WEBP", save_all=True, append_images=images[1:], lossless=True)


def webp_canvas(height: int, width: int, flags: int = 0) -> Chunk:
    """A VP8X chunk; flags 0x02 animation, 0x10 alpha."""
    sides = (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    return b"VP8X", bytes([flags, 0, 0, 0]) + sides


def _others() -> Iterator[tuple[str, bytes]]:
    frames = [picture("P", seed=i) for i in range(4)]
    yield "gif_pillow", saved(frames[0], "GIF")
    yield "gif_interlaced", saved(frames[0], "GIF", interlace=1)
    yield "gif_animated", saved(frames[0], "GIF", save_all=True, append_images=frames[1:])
    yield "gif", gif_file((9, 7), [(0, 0, 9, 7)])
    yield "gif_screen_larger", gif_file((65535, 65535), [(0, 0, 9, 7)])
    yield "gif_screen_smaller", gif_file((2, 2), [(0, 0, 9, 7)])
    yield "gif_second_smaller", gif_file((9, 7), [(0, 0, 9, 7), (1, 1, 3, 2)])
    yield "gif_first_smaller", gif_file((9, 7), [(1, 1, 3, 2), (0, 0, 9, 7)])
    yield "gif_crossed", gif_file((9, 9), [(0, 0, 3, 9), (0, 0, 9, 3)])
    yield "gif_no_trailer", gif_file((9, 7), [(0, 0, 9, 7)], b"")
    yield "gif_no_frame", gif_file((9, 7), [])
    yield "gif_empty_frame", gif_file((9, 7), [(0, 0, 0, 0)])
    yield "gif_no_colors", gif_file((9, 7), [(0, 0, 9, 7)]).replace(b"\x80", b"\0", 1)
    yield "gif_junk_between", gif_file((9, 7), [(0, 0, 9, 7)], b"junk")
    for bits in (24, 32, 8, 1, 4, 16):
        yield f"bmp_{bits}", bmp_file(7, 9, bits)
    yield "bmp_top_down", bmp_file(-7, 9, 24)
    yield "bmp_1x1", bmp_file(1, 1, 24)
    rle = b"".join(bytes([9, i, 0, 0]) for i in range(7)) + b"\0\1"
    yield "bmp_rle8", bmp_file(7, 9, 8, 1, rle)
    yield "bmp_short", bmp_file(7, 9, 24)[:-1]
    yield "bmp_long", bmp_file(7, 9, 24) + b"x"
    yield "bmp_zero", bmp_file(0, 9, 24)
    yield "bmp_negative", bmp_file(7, -9, 24, body=b"")
    for mode in ("RGB", "L", "P", "1"):
        yield f"bmp_pillow_{mode}", saved(picture(mode), "BMP")
    for mode in ("RGB", "RGBA"):
        yield f"webp_{mode}", saved(picture(mode), "WEBP")
        yield f"webp_lossless_{mode}", saved(picture(mode), "WEBP", lossless=True)
    yield "webp_exif", saved(picture("RGB"), "WEBP", exif=b"Exif\0\0II*\0\x08\0\0\0\0\0")
    yield "webp_animated", webp_animation(alpha=True)
    lossy = saved(picture("RGB", 16, 24), "WEBP")
    frame = (lossy[12:16], lossy[20:])
    yield "webp_canvas", webp_file([webp_canvas(16, 24), frame])
    yield "webp_canvas_alpha_flag", webp_file([webp_canvas(16, 24, 0x10), frame])
    yield "webp_canvas_other_size", webp_file([webp_canvas(17, 24), frame])
    yield "webp_canvas_unknown", webp_file([webp_canvas(16, 24), (b"abcd", b"123"), frame])
    yield "webp_canvas_only", webp_file([webp_canvas(16, 24)])
    yield from ((name, bytes.fromhex(text)) for name, text in _JXL.items())
    yield "tiff", saved(picture("RGB"), "TIFF")
    yield "ico", saved(picture("RGBA", 16, 16), "ICO")
    yield "ppm", saved(picture("RGB"), "PPM")
    yield "text", b"<!DOCTYPE html><title>404 Not Found</title>"
    yield "svg", b"<svg xmlns='http://www.w3.org/2000/svg'/>"
    yield "zeros", bytes(1000)


def whole_images() -> dict[str, bytes]:
    """Name -> bytes of one file of each kind, readable by TensorFlow or not."""
    images: dict[str, bytes] = {}
    for drawn in (_jpegs(), _pngs(), _png_oddities(), _others()):
        images |= dict(drawn)
    return images


# damage


def structural_cuts(data: bytes, name: str) -> list[int]:
    """Offsets where a part of the file begins or ends."""
    cuts = {0, 1, 2, 3, 4, 8, 11, 12, 13, 20, 30, len(data) - 1, len(data) - 2, len(data) // 2}
    if name.startswith("jpeg"):
        position = 0
        for segment in jpeg_segments(data):
            cuts |= {position, position + 1, position + 2, position + 4}
            position += len(segment)
    elif name.startswith(("png", "apng")):
        position = 8
        while position < len(data):
            cuts |= {position, position + 4, position + 8}
            position += 12 + int.from_bytes(data[position : position + 4], "big")
            cuts.add(position - 4)
    return sorted(cut for cut in cuts if 0 <= cut < len(data))


def flipped(data: bytes, source: random.Random, count: int = 1) -> bytes:
    """The data with `count` bits flipped; the first three bytes stay."""
    damaged = bytearray(data)
    for _ in range(count):
        damaged[source.randrange(3, len(data))] ^= 1 << source.randrange(8)
    return bytes(damaged)


def _jpeg_mutants(name: str, data: bytes) -> Iterator[tuple[str, bytes]]:
    parts = jpeg_segments(data)
    for i in range(1, len(parts)):
        yield f"{name}-without{i}", b"".join(parts[:i] + parts[i + 1 :])
        yield f"{name}-twice{i}", b"".join(parts[: i + 1] + parts[i:])
        if i > 1:
            swapped = [*parts[: i - 1], parts[i], parts[i - 1], *parts[i + 1 :]]
            yield f"{name}-swapped{i}", b"".join(swapped)
        yield f"{name}-junk{i}", b"".join([*parts[:i], b"\0junk", *parts[i:]])
    for marker in (0xC0, 0xC1, 0xC2, 0xC3, 0xC5, 0xC9, 0xCA, 0xCB):
        frames = [b"\xff" + bytes([marker]) + p[2:] if p[1] in (0xC0, 0xC2) else p for p in parts]
        yield f"{name}-sof{marker:x}", b"".join(frames)
    for position, value in (
        (0, 12),
        (0, 16),
        (5, 2),
        (5, 4),
        (6, 9),
        (7, 0x31),
        (7, 0x41),
        (10, 0x21),
    ):

        def change(body: bytearray, position: int = position, value: int = value) -> None:
            body[position] = value

        yield f"{name}-frame{position}_{value}", with_frame(data, change)
    for height, width in ((0, 45), (37, 0), (36, 45), (45, 45), (37, 46), (200, 45), (37, 61)):
        yield f"{name}-size{height}x{width}", with_size(data, height, width)


def mutants(
    images: dict[str, bytes], flips: int = 4, seed: int = 1, kinds: Sequence[str] = ()
) -> Iterator[tuple[str, bytes]]:
    """Name and bytes of damaged copies of `images`: cuts, flips, tails, moved JPEG markers.

    Args:
        images: as `whole_images` gives them.
        flips: copies of each image with flipped bits.
        seed: of the random flips.
        kinds: names of the JPEGs whose markers are moved about.
    """
    source = random.Random(seed)
    for name, data in images.items():
        if len(data) < 10 or len(data) > 1_000_000:
            continue
        for i in range(flips):
            yield f"{name}-flip{i}", flipped(data, source, 1 + i % 3)
        yield f"{name}-tail", data + b"tail \xff\xd8\xff\xd9"
        if name in kinds:
            yield from _jpeg_mutants(name, data)
        for cut in structural_cuts(data, name) if flips > 1 else ():
            yield f"{name}-cut{cut}", data[:cut]
