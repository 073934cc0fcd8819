"""Stored masks keep their class indices, in step with the stored image."""

from __future__ import annotations

import io
import struct
import zlib
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from PIL import Image, ImageOps

from tests.images import picture, png_file, saved
from transforms.core.rejections import RejectedImageError
from transforms.images.masks import store_mask
from transforms.images.pillow_images import BACK
from transforms.images.pixel_options import DEFAULT_LIMITS, Frame, Limits, PixelOptions, Resize
from transforms.images.pixels import change_pixels

HEIGHT, WIDTH = 9, 14
FRAME = Frame(HEIGHT, WIDTH, stored=(HEIGHT, WIDTH))

# VOC's palette: neighbouring indices have colors that no rule of gray could order.
PALETTE = bytes((7 * at + 91 * band) % 256 for at in range(256) for band in range(3))


def drawn(seed: int = 0, classes: int = 21) -> np.ndarray[Any, Any]:
    """Class indices, with the border 255 of VOC."""
    indices = np.random.default_rng(seed).integers(0, classes, (HEIGHT, WIDTH), dtype=np.uint8)
    indices[0] = 255
    return indices


def gray(indices: np.ndarray[Any, Any], **options: Any) -> bytes:
    return saved(Image.fromarray(indices), "PNG", **options)


def palette(indices: np.ndarray[Any, Any]) -> Image.Image:
    image = Image.frombytes("P", indices.shape[::-1], indices.tobytes())
    image.putpalette(PALETTE)
    return image


def read(data: bytes) -> np.ndarray[Any, Any]:
    """The indices in a stored mask, as any reader of gray PNGs sees them."""
    image = Image.open(io.BytesIO(data))
    assert (image.format, image.mode) == ("PNG", "L")
    return np.asarray(image)


def store(data: bytes, frame: Frame = FRAME, **options: Any) -> bytes:
    return store_mask(data, frame, limits=DEFAULT_LIMITS, **options)


def exif(orientation: int) -> Image.Exif:
    tags = Image.Exif()
    tags[0x0112] = orientation
    return tags


def test_a_gray_png_is_stored_byte_for_byte() -> None:
    data = gray(drawn())
    assert store(data) is data


@pytest.mark.parametrize("format_", ["PNG", "GIF", "BMP"])
def test_a_palette_keeps_its_indices(format_: str) -> None:
    # Otherwise Pillow would give the colors of a GIF other numbers.
    data = saved(palette(drawn()), format_, optimize=False)
    assert Image.open(io.BytesIO(data)).mode == "P"
    assert np.array_equal(read(store(data)), drawn())


@pytest.mark.parametrize("bits", [1, 2, 4])
def test_a_small_palette_keeps_its_indices(bits: int) -> None:
    indices = drawn() % 2**bits
    data = saved(palette(indices), "PNG", bits=bits)
    assert np.array_equal(read(store(data)), indices)


def test_equal_channels_and_opaque_alpha_are_one_index() -> None:
    one = Image.fromarray(drawn())
    opaque = Image.new("L", one.size, 255)
    for image in (Image.merge("RGB", [one] * 3), Image.merge("LA", [one, opaque])):
        assert np.array_equal(read(store(saved(image, "PNG"))), drawn())


def test_16_bits_are_8_if_the_indices_fit() -> None:
    wide = drawn().astype(np.uint16)
    assert np.array_equal(read(store(gray(wide))), drawn())
    wide[3, 4] = 1001
    with pytest.raises(RejectedImageError, match="a class index is 1001"):
        store(gray(wide))


@pytest.mark.parametrize("color, channels", [(2, 3), (4, 2), (6, 4)])
def test_16_bits_of_colors_or_with_alpha_are_rejected(color: int, channels: int) -> None:
    # Pillow keeps the upper bytes, which are 0 for every index.
    row = b"\0" + struct.pack(">H", 3) * channels * WIDTH
    head = struct.pack(">IIBBBBB", WIDTH, HEIGHT, 16, color, 0, 0, 0)
    pixels = zlib.compress(row * HEIGHT)
    data = png_file([(b"IHDR", head), (b"IDAT", pixels), (b"IEND", b"")])
    with pytest.raises(RejectedImageError, match="16 bits of color or with alpha") as raised:
        store(data)
    assert raised.value.reason.code == "unsupported_image"


@pytest.mark.parametrize(
    "data, reason, detail",
    [
        (saved(picture("RGB", HEIGHT, WIDTH), "PNG"), "unsupported_image", "are colors"),
        (saved(picture("LA", HEIGHT, WIDTH), "PNG"), "unsupported_image", "transparent"),
        (saved(picture("L", HEIGHT, WIDTH), "JPEG"), "unsupported_image", "save masks as PNG"),
        (gray(drawn().T.copy()), "mask_size", "14 x 9 pixels, but its image is 9 x 14"),
        (b"", "empty_file", "0 bytes"),
        (b"no mask", "not_an_image", "begins with the bytes"),
        # TensorFlow decides about a damaged file, as for images.
        pytest.param(gray(drawn())[:-30], "corrupt_image", "PNG", marks=pytest.mark.slow),
        pytest.param(
            saved(palette(drawn()), "PNG")[:-30], "corrupt_image", "PNG", marks=pytest.mark.slow
        ),
    ],
)
def test_what_is_no_mask_of_the_image_is_rejected(data: bytes, reason: str, detail: str) -> None:
    with pytest.raises(RejectedImageError, match=detail) as raised:
        store(data)
    assert raised.value.reason.code == reason


def test_several_frames_are_rejected() -> None:
    frames = [palette(drawn(seed)) for seed in range(2)]
    data = saved(frames[0], "GIF", save_all=True, append_images=frames[1:])
    with pytest.raises(RejectedImageError, match="several frames"):
        store(data)


def test_limits_apply() -> None:
    with pytest.raises(RejectedImageError) as raised:
        store_mask(gray(drawn()), FRAME, limits=Limits(HEIGHT * WIDTH - 1, 10**6))
    assert raised.value.reason.code == "too_many_pixels"


def test_metadata_can_be_stripped() -> None:
    data = gray(drawn(), exif=exif(1))
    stripped = store(data, strips=True)
    assert len(stripped) < len(data) or b"eXIf" in stripped
    assert np.array_equal(read(stripped), drawn())


sizes = st.sampled_from([None, "5x7", "28x18", "shorter=4", "longer=30,never_enlarge"])


@given(
    tag=st.integers(1, 8),
    own=st.integers(1, 8),
    applied=st.booleans(),
    size=sizes,
    seed=st.integers(0, 9),
)
def test_a_mask_follows_its_image(
    tag: int, own: int, applied: bool, size: str | None, seed: int
) -> None:
    """The image shows the same indices as the mask, so both have to stay equal."""
    upright = Image.fromarray(drawn(seed))

    def file(orientation: int) -> bytes:
        stored = upright if orientation == 1 else upright.transpose(BACK[orientation])
        return saved(stored, "PNG", exif=exif(orientation))

    options = PixelOptions(
        resize=Resize.parse(size) if size else None,
        exif_orientation="apply" if applied else "keep",
    )
    image = change_pixels(file(tag), options, limits=DEFAULT_LIMITS)
    info = image.info
    frame = Frame(*image.original, tag, (info.height, info.width))
    assert frame == image.frame
    mask = store(file(own), frame)
    shown, masked = (
        ImageOps.exif_transpose(Image.open(io.BytesIO(data))) for data in (image.data, mask)
    )
    assert shown.size == masked.size and read(mask).shape == (info.height, info.width)
    if size is None:
        assert np.array_equal(np.asarray(shown), np.asarray(upright))
        assert np.array_equal(np.asarray(masked), np.asarray(upright))
    assert set(read(mask).flat) <= set(drawn(seed).flat)


@given(tag=st.integers(1, 8), side=st.integers(1, 20), other=st.integers(1, 20))
def test_resized_masks_have_nearest_indices(tag: int, side: int, other: int) -> None:
    """In step with the pixels of the image, before a viewer rotates both."""
    upright = Image.fromarray(drawn())
    stored = upright if tag == 1 else upright.transpose(BACK[tag])
    sides = ((side, stored.height), (other, stored.width))
    # In the middle between two pixels, both are the nearest.
    assume(all((2 * at + 1) * old % (2 * new) for new, old in sides for at in range(new)))
    frame = Frame(stored.height, stored.width, 1, tag, (side, other))
    mask = read(store(gray(drawn()), frame))
    rows, columns = (((np.arange(new) + 0.5) * old / new).astype(int) for new, old in sides)
    assert np.array_equal(mask, np.asarray(stored)[rows][:, columns])
