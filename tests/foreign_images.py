"""Draws images that TensorFlow cannot read, and images with an EXIF orientation, by code."""

import struct

import numpy as np
from PIL import Image

from tests.images import picture, png_file, saved, webp_animation

# How an upright picture is stored in a file with this orientation.
_NAMES = "FLIP_LEFT_RIGHT ROTATE_180 FLIP_TOP_BOTTOM TRANSPOSE ROTATE_90 TRANSVERSE ROTATE_270"
LAID = {at: Image.Transpose[name] for at, name in enumerate(_NAMES.split(), 2)}


def deep_picture(height: int = 37, width: int = 45) -> Image.Image:
    """A grey picture of 16 bits whose low bytes differ too."""
    values = np.arange(height * width, dtype=np.uint16) * 39
    return Image.frombytes("I;16", (width, height), values.tobytes())


def laid(image: Image.Image, orientation: int) -> Image.Image:
    """The picture as stored in a file with this `orientation`; 1 is upright."""
    return image if orientation == 1 else image.transpose(LAID[orientation])


def exif(orientation: object) -> Image.Exif:
    """EXIF data that say nothing else."""
    block = Image.Exif()
    block[0x0112] = orientation
    return block


def lossless_images() -> dict[str, tuple[bytes, Image.Image]]:
    """Files that TensorFlow does not read or misreads, and the picture that is in each."""
    files = {}
    for mode in ("1", "L", "LA", "RGB", "RGBA", "P"):
        files[f"tiff_{mode}"] = saved(picture(mode), "TIFF"), picture(mode)
    for compression in ("tiff_lzw", "tiff_adobe_deflate", "packbits"):
        data = saved(picture("RGB"), "TIFF", compression=compression)
        files[f"tiff_{compression}"] = data, picture("RGB")
    bits = picture("1")
    files["tiff_group4"] = saved(bits, "TIFF", compression="group4"), bits
    pages = [picture("RGB", seed=seed) for seed in range(3)]
    files["tiff_pages"] = saved(pages[0], "TIFF", save_all=True, append_images=pages[1:]), pages[0]
    for mode in ("L", "P", "RGB", "RGBA"):
        files[f"tga_{mode}"] = saved(picture(mode), "TGA"), picture(mode)
        data = saved(picture(mode), "TGA", compression="tga_rle")
        files[f"tga_rle_{mode}"] = data, picture(mode)
    for mode in ("1", "P"):
        files[f"bmp_{mode}"] = saved(picture(mode), "BMP"), picture(mode)
    for mode in ("L", "RGB"):
        files[f"ppm_{mode}"] = saved(picture(mode), "PPM"), picture(mode)
    icon = picture("RGBA", 16, 16)
    files["ico"] = saved(icon, "ICO"), icon
    files["ico_bmp"] = saved(icon, "ICO", bitmap_format="bmp"), icon
    for mode in ("L", "LA", "RGB", "RGBA"):
        files[f"jp2_{mode}"] = saved(picture(mode), "JPEG2000"), picture(mode)
    files["webp_animated_no_alpha"] = webp_animation(alpha=False), picture("RGB", 16, 24)
    return files


def deep_images() -> dict[str, bytes]:
    """Files of other formats that hold `deep_picture()`."""
    deep = deep_picture()
    swapped = np.asarray(deep).byteswap().tobytes()
    return {
        "tiff_16": saved(deep, "TIFF"),
        "tiff_16_big_endian": saved(Image.frombytes("I;16B", deep.size, swapped), "TIFF"),
        "jp2_16": saved(deep, "JPEG2000"),
        "pgm_16": b"P5 45 37 65535\n" + swapped,
    }


def foreign_images() -> dict[str, bytes]:
    """One file of each kind, lossy ones too."""
    files = {name: data for name, (data, _) in lossless_images().items()} | deep_images()
    for mode in ("L", "RGB", "RGBA"):
        files[f"avif_{mode}"] = saved(picture(mode), "AVIF")
    files["jp2_lossy"] = saved(
        picture("RGB"), "JPEG2000", irreversible=True, quality_layers=[20], quality_mode="rates"
    )
    files["tiff_jpeg"] = saved(picture("RGB"), "TIFF", compression="jpeg")
    files["tiff_cmyk"] = saved(picture("CMYK"), "TIFF")
    return files


def icon_bomb() -> bytes:
    """A small icon that holds a PNG of 12000x12000 pixels."""
    header = struct.pack(">IIBBBBB", 12_000, 12_000, 8, 6, 0, 0, 0)
    png = png_file([(b"IHDR", header), (b"IDAT", b"none"), (b"IEND", b"")])
    return b"\0\0\1\0\1\0" + struct.pack("<BBBBHHII", 16, 16, 0, 0, 1, 32, len(png), 22) + png


def tiff_bomb() -> bytes:
    """A TIFF of a few bytes that says it has 60000x60000 pixels."""
    small = saved(picture("L", 1, 1), "TIFF")
    for tag in (256, 257):
        at = small.index(struct.pack("<HHI", tag, 4, 1)) + 8
        small = small[:at] + struct.pack("<I", 60_000) + small[at + 4 :]
    return small
