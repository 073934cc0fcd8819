"""Copies of a picture look alike, and other pictures do not."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from tests.images import saved, scene
from transforms.images.check import (
    ImageInfo,
    checked_header,
    examine_image,
    hash_of_grey,
    hash_of_pixels,
)
from transforms.images.pixel_options import Limits, PixelOptions, Resize
from transforms.images.pixels import change_pixels
from transforms.selection.duplicates import MAX_DISTANCE

LIMITS = Limits(10**8, 10**8)


def examined(
    data: bytes, *, mode: str = "full", with_hash: bool = True
) -> tuple[ImageInfo, int | None]:
    return examine_image(data, checked_header(data, LIMITS), mode=mode, with_hash=with_hash)


def hash_of(data: bytes) -> int:
    found = examined(data)[1]
    assert found is not None
    return found


def distance(one: int, other: int) -> int:
    return (one ^ other).bit_count()


def jpeg(image: Image.Image, quality: int = 90) -> bytes:
    return saved(image, "JPEG", quality=quality)


@pytest.mark.parametrize("seed", range(5))
def test_copies_look_alike_and_others_do_not(seed: int) -> None:
    original = scene(seed)
    copies = {
        "worse": jpeg(original, 40),
        "half": jpeg(original.resize((250, 187), Image.Resampling.LANCZOS)),
        "a third": jpeg(original.resize((166, 125), Image.Resampling.LANCZOS)),
        "larger": jpeg(original.resize((1000, 750), Image.Resampling.BICUBIC)),
        "grey": jpeg(original.convert("L")),
        "progressive": saved(original, "JPEG", progressive=True),
        "webp": saved(original, "WEBP"),  # TensorFlow decodes it
        "bmp": saved(original, "BMP"),
        "gif": saved(original, "GIF"),
    }
    first = hash_of(jpeg(original))
    for name, copy in copies.items():
        assert distance(first, hash_of(copy)) <= MAX_DISTANCE, name
    assert min(distance(first, hash_of(jpeg(scene(other)))) for other in range(50, 60)) > 8


def test_small_images_have_looks_too() -> None:
    original = scene(3)
    small = original.resize((32, 32), Image.Resampling.LANCZOS)
    assert (
        distance(hash_of(jpeg(small, 95)), hash_of(jpeg(original.resize((320, 320)))))
        <= MAX_DISTANCE
    )
    tiny = original.resize((5, 4))
    assert examined(jpeg(tiny))[1] is not None


def test_cells_that_are_equally_bright_are_no_steps() -> None:
    """Five of nine columns are black and four are white: each row has one soft step."""
    pixels = np.zeros((80, 90, 1), np.uint8)
    pixels[:, 50:] = 255
    assert hash_of_pixels(pixels) == int.from_bytes([0b00011100] * 8)


def test_a_gradient_of_one_level_is_none() -> None:
    """What is nearly even has no bits for compression to change; a darker corner has contrast."""
    pixels = np.repeat(np.arange(100, 109, dtype=np.uint8), 10)[None, :, None].repeat(80, axis=0)
    pixels[:10, 80:] = 0
    assert hash_of_pixels(pixels) == 0


@pytest.mark.parametrize("size", [(375, 500), (333, 500), (180, 240), (100, 66), (50, 70)])
@pytest.mark.parametrize("format_", ["webp", "bmp"])
def test_every_format_is_reduced_to_the_pixels_of_a_jpeg(
    size: tuple[int, int], format_: str
) -> None:
    original = scene(7, *size)
    options = {"lossless": True} if format_ == "webp" else {}
    shown = Image.open(io.BytesIO(jpeg(original)))
    other = saved(shown.convert("RGB"), format_.upper(), **options)
    assert distance(hash_of(jpeg(original)), hash_of(other)) <= 1


def test_strips_of_a_large_image_are_those_of_the_whole() -> None:
    large = scene(1, 1003, 3001)
    whole = np.asarray(large.convert("L").reduce(8))
    assert hash_of_pixels(np.asarray(large)) == hash_of_grey(whole, 1003, 3001, 8)


@pytest.mark.parametrize("shape", [(1, 1), (1, 70_000), (70_000, 2), (3, 5), (23, 9)])
def test_any_shape_has_a_hash_or_none(shape: tuple[int, int]) -> None:
    pixels = np.zeros((*shape, 3), np.uint8)
    pixels[:, shape[1] // 2 :] = 255
    found = hash_of_pixels(pixels)
    assert (found is None) == (shape[1] == 1)


def test_what_is_transparent_is_white() -> None:
    shown = np.asarray(scene(1).convert("RGB"))
    alpha = np.full(shown.shape[:2], 255, np.uint8)
    alpha[:, :250] = 0
    flat = shown.copy()
    flat[:, :250] = 255
    assert hash_of_pixels(np.dstack([shown, alpha])) == hash_of_pixels(flat)


@pytest.mark.parametrize("mode", ["L", "RGB"])
def test_a_blank_picture_has_no_hash(mode: str) -> None:
    data = saved(Image.new(mode, (200, 100), 200), "JPEG")
    assert examined(data)[1] is None


def test_what_is_not_decoded_has_no_hash() -> None:
    png, photo = saved(scene(1), "PNG"), jpeg(scene(1))
    assert examined(png)[1] is None
    assert examined(photo, mode="header")[1] is None
    assert examined(photo, with_hash=False)[1] is None


def test_changed_images_have_the_look_of_what_is_stored() -> None:
    options = PixelOptions(resize=Resize.parse("shorter=64"))
    png = saved(scene(2), "PNG")
    stored = change_pixels(png, options, limits=LIMITS, with_hash=True)
    assert stored.perceptual_hash is not None
    small = np.asarray(Image.open(io.BytesIO(stored.data)).convert("RGB"))
    assert stored.perceptual_hash == hash_of_pixels(small)
    assert distance(stored.perceptual_hash, hash_of(jpeg(scene(2)))) <= MAX_DISTANCE
    assert change_pixels(png, options, limits=LIMITS).perceptual_hash is None
