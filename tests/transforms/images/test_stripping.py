"""`strip_metadata`: no metadata is left, and no pixel changes."""

from __future__ import annotations

import io
import struct
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageCms, PngImagePlugin

from tests.images import picture, saved, whole_images
from transforms.core.rejections import Reason, RejectedImageError
from transforms.examples.encoder import Decoding, decode_image
from transforms.examples.layouts import IMAGE, Feature
from transforms.images import tags
from transforms.images.headers import image_format, read_header
from transforms.images.pixel_options import Limits, PixelOptions
from transforms.images.tags import orientation_tag, strip_metadata

SECRET = b"Ann Example, 59.3293 N"
PROFILE = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
XMP = b'<x:xmpmeta xmlns:x="adobe:ns:meta/"><secret>' + SECRET + b"</secret></x:xmpmeta>"
FEATURE = Feature("image", IMAGE, "bytes")
PICTURE = picture("RGB", 40, 60, seed=1)


def exif(orientation: int = 6) -> bytes:
    """A block with an orientation, an artist and a place."""
    block = Image.Exif()
    if orientation:
        block[0x0112] = orientation
    block[0x013B] = SECRET.decode()
    block.get_ifd(0x8825).update({1: "N", 2: (59.0, 19.0, 45.0), 3: "E", 4: (18.0, 4.0, 7.0)})
    return block.tobytes()


def segment(marker: int, body: bytes) -> bytes:
    return b"\xff" + bytes([marker]) + struct.pack(">H", 2 + len(body)) + body


def jpeg(orientation: int = 6) -> bytes:
    """A JPEG with every kind of metadata, also after its end."""
    data = saved(
        PICTURE, "JPEG", exif=exif(orientation), icc_profile=PROFILE, comment=SECRET, xmp=XMP
    )
    iptc = segment(0xED, b"Photoshop 3.0\x008BIM\x04\x04\0\0\0\0\0\x16" + SECRET)
    preview = segment(0xE0, b"JFXX\0\x10" + SECRET)
    pictures = segment(0xE2, b"FPXR\0" + SECRET)
    at = 4 + int.from_bytes(data[4:6], "big")
    data = data[:at] + iptc + preview + pictures + data[at:]
    return data + b"\xff\xd8\xff" + SECRET


def png(orientation: int = 6) -> bytes:
    text = PngImagePlugin.PngInfo()
    text.add_text("Author", SECRET.decode())
    text.add_text("Comment", SECRET.decode(), zip=True)
    text.add_itxt("XML:com.adobe.xmp", XMP.decode())
    data = saved(PICTURE, "PNG", exif=exif(orientation), icc_profile=PROFILE, pnginfo=text)
    end = data.rindex(b"IEND") - 4
    chunk = b"prVt" + SECRET
    private = struct.pack(">I", len(SECRET)) + chunk + struct.pack(">I", zlib.crc32(chunk))
    return data[:end] + private + data[end:] + SECRET


def webp(orientation: int = 6) -> bytes:
    data = saved(PICTURE, "WEBP", exif=exif(orientation), icc_profile=PROFILE, xmp=XMP)
    return data + SECRET


def gif() -> bytes:
    data = saved(picture("P", 40, 60), "GIF", comment=SECRET, loop=3, save_all=True)
    block = bytes([len(SECRET)]) + SECRET + b"\0"
    unknown = b"\x21\x42" + block
    return data[:-1] + b"\x21\xff\x0bXMP DataXMP" + block + unknown + b";" + SECRET


FILES = {"jpeg": jpeg(), "png": png(), "webp": webp()}


def stripped(data: bytes) -> bytes:
    format_ = image_format(data)
    return strip_metadata(data, format_, orientation_tag(data, format_))


def opened(data: bytes) -> Image.Image:
    image = Image.open(io.BytesIO(data))
    image.load()
    return image


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


@pytest.mark.parametrize("kind", FILES)
def test_pixels_and_their_bytes_stay(kind: str) -> None:
    before, after = FILES[kind], stripped(FILES[kind])
    assert np.array_equal(np.asarray(opened(before)), np.asarray(opened(after)))
    start, end = {
        "jpeg": (b"\xff\xda", b"\xff\xd9"),
        "png": (b"IDAT", b"prVt"),
        "webp": (b"VP8 ", b"EXIF"),
    }[kind]
    pixels = before[before.rindex(start) : before.index(end, before.rindex(start))]
    assert len(pixels) > 100 and after.count(pixels[:-4]) == 1


@pytest.mark.parametrize("make", [jpeg, png, webp])
def test_without_an_orientation_there_is_no_tag(make: object) -> None:
    assert callable(make)
    after = stripped(make(0))
    assert b"Exif" not in after and b"eXIf" not in after and b"EXIF" not in after
    assert make is not webp or not after[20] & 0x0C  # that there is EXIF or XMP


def test_an_orientation_in_xmp_is_kept() -> None:
    packet = b'<x:xmpmeta><rdf tiff:Orientation="8"/></x:xmpmeta>'
    after = stripped(saved(PICTURE, "JPEG", xmp=packet))
    assert b"xmpmeta" not in after
    assert orientation_tag(after, "jpeg") == 8


def test_the_comments_of_a_gif_are_left_out() -> None:
    before = gif()
    after = strip_metadata(before, "gif", 0)
    assert SECRET in before and SECRET not in after and b"NETSCAPE2.0" in after
    assert np.array_equal(np.asarray(opened(before)), np.asarray(opened(after)))


def test_no_block_of_a_gif_holds_a_text() -> None:
    """Further blocks of what is kept, and a text that a decoder could draw over the picture."""
    whole = gif()
    block = bytes([len(SECRET)]) + SECRET
    at = whole.index(b"NETSCAPE2.0") + 15
    hidden = whole[:at] + block + whole[at:]
    start = hidden.index(b"\x2c\0\0\0\0")
    control = b"\x21\xf9\x04\x01\0\0\xff" + block + b"\0"
    text = b"\x21\x01\x0c" + bytes(12) + block + b"\0"
    hidden = hidden[:start] + control + text + control + hidden[start:]
    after = strip_metadata(hidden, "gif", 0)
    assert SECRET not in after and after.count(b"\x21\xf9") == 1
    assert after.count(b"NETSCAPE2.0\x03\x01\x03\0\0") == 1
    assert np.array_equal(np.asarray(opened(hidden)), np.asarray(opened(after)))


def test_names_of_palettes_and_histograms_of_a_png_are_left_out() -> None:
    whole = saved(PICTURE, "PNG")
    at = whole.index(b"IDAT") - 4
    for kind in (b"hIST", b"sPLT"):
        chunk = kind + SECRET
        part = struct.pack(">I", len(SECRET)) + chunk + struct.pack(">I", zlib.crc32(chunk))
        assert strip_metadata(whole[:at] + part + whole[at:], "png", 0) == whole


def test_boxes_of_a_jpeg_xl_are_left_out() -> None:
    stream = whole_images()["jxl_rgb"]
    assert stream.startswith(b"\xff\x0a")
    assert strip_metadata(stream, "jxl", 0) is stream
    box = struct.pack(">I4s", 8 + len(stream), b"jxlc") + stream
    head = b"\0\0\0\x0cJXL \r\n\x87\n\0\0\0\x14ftypjxl \0\0\0\0jxl "
    secret = struct.pack(">I4s", 12 + len(SECRET), b"Exif") + b"\0\0\0\0" + SECRET
    assert strip_metadata(head + secret + box, "jxl", 0) == head + box


@pytest.mark.parametrize("name", sorted(whole_images()))
def test_every_image_stays_readable(name: str) -> None:
    """What the check accepts before is accepted afterwards, with the same size."""
    data = whole_images()[name]
    format_ = image_format(data)
    after = stripped(data)
    assert stripped(after) is after
    try:
        before = read_header(data, format_)
    except (KeyError, ValueError, struct.error, IndexError, RejectedImageError):
        # It is rejected.
        return
    assert read_header(after, format_)[:4] == before[:4]


def test_a_file_without_metadata_is_not_copied() -> None:
    data = saved(PICTURE, "JPEG")
    assert strip_metadata(data, "jpeg", 0) is data
    assert strip_metadata(b"BM", "bmp", 0) == b"BM"


def test_the_colour_transform_of_a_cmyk_jpeg_is_kept() -> None:
    before = saved(picture("CMYK", 16, 24), "JPEG", exif=exif())
    after = stripped(before)
    assert b"Adobe" in after
    assert np.array_equal(np.asarray(opened(before)), np.asarray(opened(after)))


@given(st.sampled_from(sorted(FILES)), st.data())
def test_damage_ends_and_adds_nothing(kind: str, data: st.DataObject) -> None:
    whole = FILES[kind]
    cut = data.draw(st.integers(14, len(whole)))
    changed = bytearray(whole[:cut])
    changed[data.draw(st.integers(13, cut - 1))] = data.draw(st.integers(0, 255))
    after = strip_metadata(bytes(changed), kind, 3)
    assert len(after) <= len(changed) + 60


def test_previews_in_segments_that_stay_are_left_out() -> None:
    """JFIF may hold one, and what follows the fields of Adobe is not read by any decoder."""
    plain = saved(picture("CMYK", 16, 24), "JPEG")
    jfif = b"JFIF\0\1\1\1\0\x48\0\x48"
    preview = (SECRET * 3)[: 3 * 4 * 5]
    adobe = plain.index(b"\xff\xee")
    end = adobe + 2 + int.from_bytes(plain[adobe + 2 : adobe + 4], "big")
    longer = segment(0xEE, plain[adobe + 4 : end] + SECRET)
    data = plain[:2] + segment(0xE0, jfif + b"\4\5" + preview) + longer + plain[end:]
    after = stripped(data)
    assert SECRET[:12] in data and SECRET[:12] not in after
    assert after == plain[:2] + segment(0xE0, jfif + b"\0\0") + plain[2:]
    assert np.array_equal(np.asarray(opened(data)), np.asarray(opened(after)))
    assert stripped(after) is after


def test_a_header_of_a_webp_without_its_flags_is_kept_as_it_is() -> None:
    data = FILES["webp"][: -len(SECRET)] + b"VP8X\0\0\0\0"
    data = data[:4] + struct.pack("<I", len(data) - 8) + data[8:]
    assert read_header(data, "webp")[:3] == ("webp", 40, 60)
    assert SECRET not in stripped(data) and b"VP8X\0\0\0\0" in stripped(data)


def test_markers_after_the_pixels_of_a_jpeg_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The header does not show them, so they reject the image here."""
    data = saved(PICTURE, "JPEG")
    monkeypatch.setattr(tags, "MAX_PARTS", 50)
    decoding = Decoding(
        (FEATURE,),
        Limits(max_bytes=1 << 20, max_pixels=1 << 20),
        "full",
        PixelOptions(strip_metadata=True),
    )
    assert decode_image(data, decoding).data == data
    with pytest.raises(RejectedImageError, match="more than 50 markers") as caught:
        decode_image(data[:-2] + b"\xff\xfe\0\2" * 50 + data[-2:], decoding)
    assert caught.value.reason is Reason.TOO_COSTLY
