"""GIF, BMP, WebP and JPEG XL, whole and odd, and files that TensorFlow does not read."""

import base64
import struct
import zlib
from collections.abc import Iterator, Sequence

from tests.images.pictures import picture, saved
from tests.images.png import Chunk

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


def others() -> Iterator[tuple[str, bytes]]:
    """Name and bytes of one file of each kind that is neither JPEG nor PNG."""
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
    alpha = saved(picture("RGBA"), "WEBP")
    yield "webp_alpha_without_flag", alpha[:20] + b"\0" + alpha[21:]
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
