"""Images of records have the pixels that TensorFlow gives, mostly without it."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from tests.images import gif_file, picture, saved, whole_images
from tests.lazy import lazy_module
from transforms.core.rejections import Reason, RejectedImageError
from transforms.images.headers import image_format
from transforms.images.pixel_options import DEFAULT_LIMITS, Limits
from transforms.images.pixels import stored_pixels

tf = lazy_module("tensorflow")


def shown(data: bytes) -> np.ndarray:
    """The pixels of `load`."""
    pixels = tf.io.decode_image(data, expand_animations=False).numpy()
    return pixels[..., :3] if pixels.shape[-1] >= 3 else np.repeat(pixels[..., :1], 3, -1)


@pytest.mark.slow
def test_every_kind_of_image_has_the_pixels_of_tensorflow() -> None:
    compared = set()
    for name, data in whole_images().items():
        try:
            expected = shown(data)
        except tf.errors.InvalidArgumentError:
            continue  # no dataset has such an image
        pixels = stored_pixels(data, 3, DEFAULT_LIMITS)
        np.testing.assert_array_equal(pixels, expected, name, strict=True)
        compared.add(image_format(data))
    assert compared == {"bmp", "gif", "jpeg", "jxl", "png", "webp"}


COMMON = {
    "jpeg": saved(picture("RGB", 12, 16), "JPEG"),
    "gray jpeg": saved(picture("L", 12, 16), "JPEG"),
    "png": saved(picture("RGBA", 12, 16), "PNG"),
    "gif": gif_file((16, 12), [(0, 0, 16, 12)]),
    "webp": saved(picture("RGB", 5, 4), "WEBP", quality=80),
}


@pytest.mark.slow
def test_common_formats_need_no_tensorflow() -> None:
    script = f"""
import sys
from transforms.images.headers import image_format
from transforms.images.pixel_options import DEFAULT_LIMITS
from transforms.images.pixels import stored_pixels
for data in {list(COMMON.values())!r}:
    print(stored_pixels(data, 3, DEFAULT_LIMITS).shape)
assert "tensorflow" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split("\n")[:5] == [*["(12, 16, 3)"] * 4, "(5, 4, 3)"]


@pytest.mark.parametrize("name", COMMON)
def test_common_formats_have_the_pixels_of_tensorflow(name: str) -> None:
    data = COMMON[name]
    pixels = stored_pixels(data, 3, DEFAULT_LIMITS)
    np.testing.assert_array_equal(pixels, shown(data), strict=True)
    # PyTorch warns of arrays that cannot be written to.
    assert pixels.flags.writeable and pixels.flags.c_contiguous


def test_gray_images_keep_one_channel() -> None:
    gray = picture("L", 5, 4)
    pixels = stored_pixels(saved(gray, "PNG"), 1, DEFAULT_LIMITS)
    np.testing.assert_array_equal(pixels, np.asarray(gray)[:, :, None], strict=True)
    assert stored_pixels(COMMON["gray jpeg"], 1, DEFAULT_LIMITS).shape == (12, 16, 1)


@pytest.mark.parametrize("name", COMMON)
@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        (Limits(max_bytes=1 << 20, max_pixels=1), Reason.TOO_MANY_PIXELS),
        (Limits(max_bytes=1, max_pixels=1 << 20), Reason.TOO_MANY_BYTES),
    ],
)
def test_no_image_above_the_limits_is_decoded(
    name: str, limits: Limits, reason: Reason, monkeypatch: pytest.MonkeyPatch
) -> None:
    for decoder in ("decode_jpeg", "_pillow_pixels", "decode_pixels"):
        monkeypatch.setattr(f"transforms.images.pixels.{decoder}", None)
    with pytest.raises(RejectedImageError) as caught:
        stored_pixels(COMMON[name], 3, limits)
    assert caught.value.reason is reason


def test_other_formats_are_decoded_by_tensorflow() -> None:
    data = saved(picture("RGB", 6, 4), "BMP")
    np.testing.assert_array_equal(stored_pixels(data, 3, DEFAULT_LIMITS), shown(data), strict=True)
