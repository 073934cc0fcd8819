"""PNGs built chunk by chunk: of every kind, and with right checksums around wrong contents."""

import random
import struct
import zlib
from collections.abc import Iterator, Sequence

from PIL import Image

from tests.images.pictures import picture, saved

Chunk = tuple[bytes, bytes]

_ADAM7 = [(0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2)]
_ADAM7 += [(1, 0, 2, 1)]
_SAMPLES = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}


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


def pngs() -> Iterator[tuple[str, bytes]]:
    """Name and bytes of sound PNGs."""
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
    trns = [(3, 8, b"\0\x80"), (3, 2, b"\0"), (0, 8, b"\0\1"), (2, 16, bytes(6))]
    for color, depth, body in trns:
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


def png_oddities() -> Iterator[tuple[str, bytes]]:
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
    extras = [(b"tEXt", b"k\0v"), (b"tRNS", bytes(6)), (b"PLTE", bytes(6))]
    extras += [(b"ABCD", b"unknown and critical"), (b"abCD", b"unknown"), (b"a1cD", b"not letters")]
    extras += [(b"IHDR", base[0][1]), (b"zTXt", b"k\0\0not zlib"), (b"iCCP", b"k\0\0not zlib")]
    extras += [(b"gAMA", b"\0"), (b"cHRM", bytes(32)), (b"sBIT", bytes(3)), (b"eXIf", b"nonsense")]
    extras += [(b"IEND", b"")]
    for at, place in ((0, "first"), (1, "before"), (2, "after")):
        for extra in extras:
            name = extra[0].decode().lower() + ("_c" if extra[0][:1].isupper() else "")
            yield f"png_{name}_{place}", png_file([*base[:at], extra, *base[at:]])
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
        end, size = (field + 4, 4) if field < 8 else (field + 1, 1)
        header[field:end] = value.to_bytes(size, "big")
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
