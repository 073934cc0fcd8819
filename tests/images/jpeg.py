"""JPEGs of every kind that Pillow writes, and JPEGs cut at their markers."""

import struct
from collections.abc import Iterator

from PIL import Image

from tests.images.pictures import picture, saved


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


def frame_at(data: bytes) -> int:
    """Where the body of the first SOF begins: precision, height, width, components."""
    starts = (b"\xff\xc0", b"\xff\xc1", b"\xff\xc2")
    return 4 + min(data.index(start) for start in starts if start in data)


def with_size(data: bytes, height: int, width: int) -> bytes:
    """A JPEG that lies about its size."""
    at = frame_at(data) + 1
    return data[:at] + struct.pack(">HH", height, width) + data[at + 4 :]


def jpegs() -> Iterator[tuple[str, bytes]]:
    """Name and bytes of whole JPEGs."""
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
