"""Thumbnails: small, true to the image, and harmless whatever the file is."""

import base64
import io
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image, ImageFile

from examples.make_sample import _png_bomb
from tests.images import picture, saved, scene, whole_images
from transforms.images.guard import Budget, DecodingChild
from transforms.report.thumbnails import rejected_thumbnail, thumbnail


def decoded(uri: str) -> Image.Image:
    """The picture of a data URI."""
    head, _, data = uri.partition(",")
    assert head == "data:image/jpeg;base64"
    return Image.open(io.BytesIO(base64.b64decode(data)))


def shown(data: bytes, edge: int, max_bytes: int = 4096) -> Image.Image:
    """The thumbnail of a file."""
    return decoded(thumbnail(data, edge=edge, max_bytes=max_bytes)["uri"])


def rejected(files: list[bytes], max_bytes: int = 2000) -> list[str]:
    """The thumbnails of rejected files, made in a child."""
    child, budget = DecodingChild(), Budget.of_pixels(10**6)
    try:
        return [
            child.call(budget, rejected_thumbnail, data, edge=90, max_bytes=max_bytes)
            for data in files
        ]
    finally:
        child.close()


@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA", "P", "LA", "1"])
def test_every_mode(mode: str) -> None:
    data = saved(picture(mode, 300, 400), "PNG")
    image = shown(data, 100)
    assert (image.mode, image.size) == ("RGB", (100, 75))


def test_sixteen_bits_keep_their_upper_ones() -> None:
    ramp = np.linspace(0, 65535, 300 * 400).reshape(300, 400).astype(np.uint16)
    image = shown(saved(Image.fromarray(ramp), "PNG"), 100)
    rows = np.asarray(image.convert("L")).mean(1)
    assert rows[0] < 8 and rows[-1] > 247 and 120 < rows[37] < 136


def test_pixels_are_as_tensorflow_sees_them() -> None:
    """An EXIF orientation turns nothing."""
    exif = Image.Exif()
    exif[0x0112] = 6
    data = saved(picture("RGB", 40, 80), "JPEG", exif=exif)
    assert shown(data, 160).size == (80, 40)
    found = thumbnail(data, edge=32, max_bytes=4096)
    assert (found["height"], found["width"]) == (40, 80)


def test_the_mean_and_the_deviation_of_the_channels() -> None:
    pixels = np.asarray(scene(1).convert("RGB")) / 255
    for edge, format_ in ((320, "PNG"), (32, "JPEG")):
        found = thumbnail(saved(scene(1), format_), edge=edge, max_bytes=9000)
        assert found["mean"] == pytest.approx(pixels.mean((0, 1)), abs=0.01)
        deviation = np.sqrt(np.array(found["square"]) - np.array(found["mean"]) ** 2)
        assert deviation == pytest.approx(pixels.std((0, 1)), abs=0.03)


@pytest.mark.parametrize("max_bytes", [4096, 1000, 700])
def test_noise_is_made_to_fit(max_bytes: int) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (600, 600, 3)).astype(np.uint8)
    uri = thumbnail(saved(Image.fromarray(noise), "PNG"), edge=160, max_bytes=max_bytes)["uri"]
    assert len(base64.b64decode(uri.partition(",")[2])) <= max_bytes
    assert max(decoded(uri).size) > 8


def test_what_shows_nothing_is_empty() -> None:
    files = [b"", b"text", _png_bomb()]
    assert [thumbnail(data, edge=90, max_bytes=2000) for data in files] == [{}] * 3
    assert rejected(files) == [""] * 3


def test_a_cut_file_shows_what_there_is() -> None:
    data = saved(picture("RGB", 300, 400), "JPEG")
    half = data[: len(data) // 2]
    assert thumbnail(half, edge=90, max_bytes=2000) == {}
    cut, whole = rejected([half, data], max_bytes=4096)
    above, below = np.asarray(decoded(cut)).astype(int)[:20], np.asarray(decoded(cut))[-10:]
    assert abs(above - np.asarray(decoded(whole)).astype(int)[:20]).mean() < 12
    assert below.std() < above.std() / 2
    assert not ImageFile.LOAD_TRUNCATED_IMAGES


def test_damaged_files_of_every_kind() -> None:
    """In the child, each file gives a picture or none, never an error."""
    whole = whole_images()
    damaged = [
        data for one in list(whole.values())[:12] for data in [one, one[: len(one) * 2 // 3]]
    ]
    uris = rejected(damaged)
    assert len(uris) == len(damaged)
    assert sum(map(bool, uris)) > len(damaged) // 2
    for uri in filter(None, uris):
        decoded(uri).load()


@pytest.mark.parametrize("size", [(1, 1), (9, 700), (60, 60), (113, 111), (900, 1), (1200, 1600)])
@pytest.mark.parametrize("mode", ["L", "RGB"])
def test_a_jpeg_is_what_pillow_makes_of_it(mode: str, size: tuple[int, int]) -> None:
    data = saved(picture(mode, *size), "JPEG")
    ours, other = shown(data, 112), Image.open(io.BytesIO(data)).convert("RGB")
    assert max(ours.size) == max(size) if max(size) <= 112 else 84 <= max(ours.size) <= 149
    seen = [np.asarray(image.resize((4, 4), Image.Resampling.BOX)) for image in (ours, other)]
    assert abs(seen[0].astype(int) - seen[1]).max() < 24


@pytest.mark.slow
def test_jpegs_need_no_pillow() -> None:
    data = saved(picture("RGB", 300, 400), "JPEG")
    code = (
        "import sys\n"
        "from transforms.report.thumbnails import thumbnail\n"
        "uri = thumbnail(sys.stdin.buffer.read(), edge=112, max_bytes=4096)['uri']\n"
        "print(len(uri) > 500, 'PIL' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], input=data, capture_output=True, check=True)
    assert done.stdout.split() == [b"True", b"False"]
