"""Tags in files of images: the orientation and places that are found, and what is stripped."""

import io
import random
import struct
import zlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageCms, PngImagePlugin

from tests.foreign_images import exif
from tests.hostile.costly_files import (
    jpeg_with,
    png_with_exif,
    png_with_raw_profile,
    webp_with_exif,
)
from tests.images import chunk, flipped, picture, png_chunks, png_file, saved, whole_images
from tests.marks import cases
from tests.spies import memory_below
from transforms.core.rejections import Reason, RejectedImageError
from transforms.examples.encoder import Decoding, decode_image
from transforms.examples.layouts import IMAGE, Feature
from transforms.images import tags
from transforms.images.headers import image_format, read_header
from transforms.images.pixel_options import Limits, PixelOptions
from transforms.images.tags import exif_of, orientation_tag, read_tags, strip_metadata

FORMATS = pytest.mark.parametrize("format_", ["JPEG", "PNG", "WEBP"])
PICTURE = picture("RGB", 40, 60, seed=1)
PLAIN = saved(PICTURE, "JPEG")
XMP = b'<x:xmpmeta xmlns:x="adobe:ns:meta/"><a tiff:Orientation="8"/></x:xmpmeta>'
PLACE = b'<x exif:GPSLatitude="52,30N" tiff:Orientation="6"/>'


def opened(data: bytes) -> Image.Image:
    image = Image.open(io.BytesIO(data))
    image.load()
    return image


def png_with(*extra: tuple[bytes, bytes]) -> bytes:
    return png_file(png_chunks(extra=extra))


def jpeg_in_big_endian() -> bytes:
    """An orientation behind another tag, in a segment behind another one."""
    block = b"MM\0*\0\0\0\x08\0\x02" + b"\x01\x00\0\x03\0\0\0\x01\0\x07\0\0"
    block += b"\x01\x12\0\x03\0\0\0\x01\0\x08\0\0" + bytes(4)
    return jpeg_with([b"\xe1http://x\0\0", b"\xe1Exif\0\0" + block])


def jpeg_of_value(value: int) -> bytes:
    block = exif_of(6)
    little, big = block.find(b"\x12\x01\x03\0"), block.find(b"\x01\x12\0\x03")
    at = little + 8 if little >= 0 else big + 9
    assert block[at] == 6
    return saved(PICTURE, "JPEG", exif=block[:at] + bytes([value]) + block[at + 1 :])


def png_with_xmp(text: bytes, packed: int = 0) -> tuple[bytes, bytes]:
    return b"iTXt", b"XML:com.adobe.xmp\0" + bytes([packed, 0]) + b"\0\0" + text


OF_16_MEGABYTES = b"Raw profile type exif\0\0" + zlib.compress(bytes(1 << 24))
DAMAGED = (b"tEXt", b"Raw profile type exif\0\nexif\n  1\nno digits")


@cases(
    *(
        (saved(PICTURE, format_, exif=exif_of(orientation)), (orientation, False))
        for format_ in ("JPEG", "PNG", "WEBP")
        for orientation in range(1, 9)
    ),
    *((saved(PICTURE, format_), (0, False)) for format_ in ("JPEG", "PNG", "WEBP")),
    (jpeg_in_big_endian(), (8, False)),
    (
        jpeg_with([b"\xe1Exif\0\0" + part for part in (exif_of(7)[6:20], exif_of(7)[20:])]),
        (7, False),
    ),
    # A value that makes no sense is none.
    *((jpeg_of_value(value), (0, False)) for value in (0, 9, 255)),
    # The tag of XMP counts where there is no other.
    *((saved(PICTURE, format_, xmp=XMP), (8, False)) for format_ in ("JPEG", "WEBP")),
    *((saved(PICTURE, each, xmp=XMP, exif=exif_of(3)), (3, False)) for each in ("JPEG", "WEBP")),
    *((saved(PICTURE, format_, xmp=PLACE), (6, True)) for format_ in ("JPEG", "WEBP")),
    (png_with(png_with_xmp(XMP)), (8, False)),
    (png_with(png_with_xmp(zlib.compress(XMP), 1)), (8, False)),
    # Old versions of ImageMagick write profiles as texts.
    (png_with_raw_profile(exif_of(5)), (5, False)),
    (png_with_raw_profile(exif_of(5), b"APP1"), (5, False)),
    (png_with_raw_profile(b"http://ns.adobe.com/xap/1.0/\0" + PLACE, b"APP1"), (6, True)),
    (png_with_raw_profile(PLACE, b"xmp"), (6, True)),
    (png_with_raw_profile(PLACE, b"iptc"), (0, False)),
    (png_with((b"zTXt", OF_16_MEGABYTES)), (0, False)),
    # A damaged profile hides no other block.
    (png_with(DAMAGED), (0, False)),
    (png_with(DAMAGED, png_with_xmp(PLACE)), (6, True)),
)
def test_tags(data: bytes, found: tuple[int, bool]) -> None:
    format_ = image_format(data)
    assert read_tags(data, format_) == found
    assert orientation_tag(data, format_) == found[0]


def test_many_lines_of_a_profile_are_not_held_apart() -> None:
    """200 MB of them, of which a zip holds little, took 11 GB."""
    data = png_with((b"tEXt", b"Raw profile type exif\0\n\n\n" + b"0a\n" * 100_000))
    with memory_below(8 * len(data)):
        assert read_tags(data, "png") == (0, False)


@pytest.mark.parametrize("format_", ["gif", "bmp", "jxl", ""])
def test_other_formats_have_no_tag(format_: str) -> None:
    assert orientation_tag(b"GIF89a", format_) == 0


@FORMATS
def test_damage_never_raises(format_: str) -> None:
    source = random.Random(format_)
    data = saved(PICTURE, format_, exif=exif_of(6))
    for _ in range(500):
        cut = flipped(data, source, 4)[: source.randrange(len(data))]
        assert orientation_tag(cut, format_.lower()) in range(9)


@pytest.mark.parametrize("between", [b"junk", b"\xff\xff", b"\xff\xd3", b"\xff\x00"])
def test_what_is_between_segments_is_passed_over(between: bytes) -> None:
    """libjpeg, Pillow and our reader of headers skip it in the same way."""
    data = saved(PICTURE, "JPEG", exif=exif_of(6))
    at = data.index(b"\xff\xe1")
    data = data[:at] + between + data[at:]
    assert read_header(data, "jpeg").format == "jpeg"
    assert opened(data).getexif().get(0x0112) == 6
    assert orientation_tag(data, "jpeg") == 6


@FORMATS
@pytest.mark.filterwarnings("ignore")
def test_as_pillow_reads_damaged_blocks(format_: str) -> None:
    """Both give the same result for a block with changed values."""
    source, block, agreed = random.Random(format_), exif(6).tobytes(), 0
    for _ in range(150):
        changed = bytearray(block)
        changed[source.randrange(6, len(block))] = source.choice((0, 1, 3, 4, 5, 6, 8, 18, 255))
        data = {
            "PNG": lambda block: png_with_exif(block[6:]),
            "JPEG": lambda block: jpeg_with([b"\xe1" + block]),
            "WEBP": webp_with_exif,
        }[format_](bytes(changed))
        ours = orientation_tag(data, format_.lower())
        try:
            theirs = Image.open(io.BytesIO(data)).getexif().get(0x0112, 0)
        except Exception:  # of every kind; the block cannot be read
            theirs = 0
        assert ours == (theirs if theirs in range(1, 9) else 0), bytes(changed)
        agreed += ours != 0
    assert agreed > 15


# `strip_metadata`: no metadata is left, and no pixel changes.

SECRET = b"Ann Example, 59.3293 N"
PROFILE = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
SECRET_XMP = b'<x:xmpmeta xmlns:x="adobe:ns:meta/"><secret>' + SECRET + b"</secret></x:xmpmeta>"
BLOCK = bytes([len(SECRET)]) + SECRET


def secret_exif(orientation: int) -> bytes:
    """A block with an orientation, an artist and a place."""
    block = exif(orientation) if orientation else Image.Exif()
    block[0x013B] = SECRET.decode()
    block.get_ifd(0x8825).update({1: "N", 2: (59.0, 19.0, 45.0), 3: "E", 4: (18.0, 4.0, 7.0)})
    return block.tobytes()


def segment(marker: int, body: bytes) -> bytes:
    return b"\xff" + bytes([marker]) + struct.pack(">H", 2 + len(body)) + body


def secret_file(kind: str, orientation: int = 6) -> bytes:
    """A file with every kind of metadata, also after its end."""
    common: dict[str, Any] = {"exif": secret_exif(orientation), "icc_profile": PROFILE}
    if kind == "webp":
        return saved(PICTURE, "WEBP", xmp=SECRET_XMP, **common) + SECRET
    if kind == "jpeg":
        data = saved(PICTURE, "JPEG", comment=SECRET, xmp=SECRET_XMP, **common)
        iptc = segment(0xED, b"Photoshop 3.0\x008BIM\x04\x04\0\0\0\0\0\x16" + SECRET)
        preview = segment(0xE0, b"JFXX\0\x10" + SECRET)
        at = 4 + int.from_bytes(data[4:6], "big")
        data = data[:at] + iptc + preview + segment(0xE2, b"FPXR\0" + SECRET) + data[at:]
        return data + b"\xff\xd8\xff" + SECRET
    text = PngImagePlugin.PngInfo()
    text.add_text("Author", SECRET.decode())
    text.add_text("Comment", SECRET.decode(), zip=True)
    text.add_itxt("XML:com.adobe.xmp", SECRET_XMP.decode())
    data = saved(PICTURE, "PNG", pnginfo=text, **common)
    at = data.index(b"iCCP") - 4
    size = 12 + int.from_bytes(data[at : at + 4], "big")
    profile = data[at:][8 : size - 4].partition(b"\0")[2]
    data = data[:at] + chunk(b"iCCP", SECRET + b"\0" + profile) + data[at + size :]
    end = data.rindex(b"IEND") - 4
    return data[:end] + chunk(b"prVt", SECRET) + data[end:] + SECRET


FILES = {kind: secret_file(kind) for kind in ("jpeg", "png", "webp")}


def stripped(data: bytes) -> bytes:
    """Of which every pixel is there."""
    format_ = image_format(data)
    after = strip_metadata(data, format_, orientation_tag(data, format_))
    assert strip_metadata(after, format_, orientation_tag(after, format_)) is after
    return after


def same_pixels(before: bytes, after: bytes) -> bool:
    return np.array_equal(np.asarray(opened(before)), np.asarray(opened(after)))


@pytest.mark.parametrize("kind", FILES)
def test_nothing_but_orientation_and_profile_is_left(kind: str) -> None:
    before, after = FILES[kind], stripped(FILES[kind])
    assert SECRET in before and SECRET not in after
    assert b"xmpmeta" not in after and b"Photoshop" not in after
    image = opened(after)
    assert dict(image.getexif()) == {0x0112: 6}
    assert dict(image.getexif().get_ifd(0x8825)) == {}
    assert image.info["icc_profile"] == PROFILE
    assert {"comment", "xmp", "Author", "Comment", "photoshop"} & set(image.info) == set()
    assert orientation_tag(after, kind) == 6
    assert read_header(after, kind)[:3] == read_header(before, kind)[:3]
    assert same_pixels(before, after)


@pytest.mark.parametrize("kind", FILES)
def test_without_an_orientation_there_is_no_tag(kind: str) -> None:
    after = stripped(secret_file(kind, 0))
    assert b"Exif" not in after and b"eXIf" not in after and b"EXIF" not in after
    assert kind != "webp" or not after[20] & 0x0C  # that there is EXIF or XMP


def test_an_orientation_in_xmp_is_kept() -> None:
    after = stripped(saved(PICTURE, "JPEG", xmp=XMP))
    assert b"xmpmeta" not in after and orientation_tag(after, "jpeg") == 8


def test_no_block_of_a_gif_holds_a_text() -> None:
    """Comments, further blocks of what is kept, and a text that could be drawn over the picture."""
    whole = saved(picture("P", 40, 60), "GIF", comment=SECRET, loop=3, save_all=True)
    at = whole.index(b"NETSCAPE2.0") + 15
    hidden = whole[:at] + BLOCK + whole[at:]
    start = hidden.index(b"\x2c\0\0\0\0")
    control = b"\x21\xf9\x04\x01\0\0\xff" + BLOCK + b"\0"
    text = b"\x21\x01\x0c" + bytes(12) + BLOCK + b"\0"
    xmp = b"\x21\xff\x0bXMP DataXMP" + BLOCK + b"\0" + b"\x21\x42" + BLOCK + b"\0"
    hidden = hidden[:start] + control + text + control + hidden[start:-1] + xmp + b";" + SECRET
    after = stripped(hidden)
    assert SECRET not in after and after.count(b"\x21\xf9") == 1
    assert after.count(b"NETSCAPE2.0\x03\x01\x03\0\0") == 1
    assert same_pixels(hidden, after)


@pytest.mark.parametrize("kind", [b"hIST", b"sPLT"])
def test_names_of_palettes_and_histograms_of_a_png_are_left_out(kind: bytes) -> None:
    whole = saved(PICTURE, "PNG")
    at = whole.index(b"IDAT") - 4
    assert stripped(whole[:at] + chunk(kind, SECRET) + whole[at:]) == whole


def test_boxes_of_a_jpeg_xl_are_left_out() -> None:
    stream = whole_images()["jxl_rgb"]
    assert strip_metadata(stream, "jxl", 0) is stream
    box = struct.pack(">I4s", 8 + len(stream), b"jxlc") + stream
    head = b"\0\0\0\x0cJXL \r\n\x87\n\0\0\0\x14ftypjxl \0\0\0\0jxl "
    secret = struct.pack(">I4s", 12 + len(SECRET), b"Exif") + b"\0\0\0\0" + SECRET
    assert strip_metadata(head + secret + box, "jxl", 0) == head + box


def test_every_image_stays_readable() -> None:
    """What the check accepts before is accepted afterwards, with the same size."""
    for name, data in whole_images().items():
        format_, after = image_format(data), stripped(data)
        try:
            before = read_header(data, format_)
        except (KeyError, ValueError, struct.error, IndexError, RejectedImageError):
            # It is rejected.
            continue
        assert read_header(after, format_)[:4] == before[:4], name


def test_what_segments_that_stay_hide_is_left_out() -> None:
    """JFIF may hold a preview, and no decoder reads what follows the colors of Adobe."""
    plain = saved(picture("CMYK", 16, 24), "JPEG")
    jfif = b"JFIF\0\1\1\1\0\x48\0\x48"
    adobe = plain.index(b"\xff\xee")
    end = adobe + 2 + int.from_bytes(plain[adobe + 2 : adobe + 4], "big")
    longer = segment(0xEE, plain[adobe + 4 : end] + SECRET)
    data = plain[:2] + segment(0xE0, jfif + b"\4\5" + (SECRET * 3)[:60]) + longer + plain[end:]
    after = stripped(data)
    assert after == plain[:2] + segment(0xE0, jfif + b"\0\0") + plain[2:]
    assert same_pixels(data, after)


@given(st.sampled_from(sorted(FILES)), st.data())
def test_damage_ends_and_adds_nothing(kind: str, data: st.DataObject) -> None:
    whole = FILES[kind]
    cut = data.draw(st.integers(14, len(whole)))
    changed = bytearray(whole[:cut])
    changed[data.draw(st.integers(13, cut - 1))] = data.draw(st.integers(0, 255))
    assert len(strip_metadata(bytes(changed), kind, 3)) <= len(changed) + 60


def test_a_header_of_a_webp_without_its_flags_is_kept_as_it_is() -> None:
    data = FILES["webp"][: -len(SECRET)] + b"VP8X\0\0\0\0"
    data = data[:4] + struct.pack("<I", len(data) - 8) + data[8:]
    assert read_header(data, "webp")[:3] == ("webp", 40, 60)
    assert SECRET not in stripped(data) and b"VP8X\0\0\0\0" in stripped(data)


def test_markers_after_the_pixels_of_a_jpeg_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The header does not show them, so they reject the image here."""
    monkeypatch.setattr(tags, "MAX_PARTS", 50)
    options = PixelOptions(strip_metadata=True)
    feature = Feature("image", IMAGE, "bytes")
    decoding = Decoding((feature,), Limits(1 << 20, 1 << 20), "full", options)
    assert decode_image(PLAIN, decoding).data == PLAIN
    with pytest.raises(RejectedImageError, match="more than 50 markers") as caught:
        decode_image(PLAIN[:-2] + b"\xff\xfe\0\2" * 50 + PLAIN[-2:], decoding)
    assert caught.value.reason is Reason.TOO_COSTLY
