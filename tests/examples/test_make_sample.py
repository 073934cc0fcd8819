"""The sample set: the same bytes on each run, the counts it promises, and its odd files."""

from __future__ import annotations

import contextlib
import csv
import itertools
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest
from PIL import Image

from examples import make_sample as module
from examples.make_sample import EXPECTED, KOREAN_ID, make_sample
from tests.pipeline.commands import digests
from transforms.core.rejections import RejectedImageError
from transforms.images.check import check_image, checked_header, examine_image
from transforms.images.pixel_options import Limits
from transforms.selection.duplicates import MAX_DISTANCE

MAX_PIXELS = 178_956_970


def _find(directory: Path, key: str) -> Path:
    """The picture with a join key."""
    paths = directory.glob("images/*/*")
    return next(path for path in paths if unicodedata.normalize("NFC", path.stem) == key)


def test_two_runs_give_the_same_bytes(sample: Path, tmp_path: Path) -> None:
    make_sample(tmp_path)
    assert digests(tmp_path) == digests(sample)


def test_a_rerun_repairs_the_folder_and_leaves_other_files(sample: Path, tmp_path: Path) -> None:
    make_sample(tmp_path)
    stranger = tmp_path / "notes.txt"
    stranger.write_text("mine", encoding="utf-8")
    (tmp_path / "labels.csv").write_text("damaged", encoding="utf-8")
    make_sample(tmp_path)
    assert stranger.read_text(encoding="utf-8") == "mine"
    stranger.unlink()
    assert digests(tmp_path) == digests(sample)


def test_korean_name_is_decomposed_on_disk_and_composed_in_the_table(sample: Path) -> None:
    stems = [path.stem for path in (sample / "images" / "stripes").iterdir()]
    korean = [stem for stem in stems if not stem.isascii()]
    assert korean == [unicodedata.normalize("NFD", KOREAN_ID)]
    assert korean != [KOREAN_ID]
    with (sample / "labels.csv").open(encoding="utf-8", newline="") as table:
        assert KOREAN_ID in {row["id"] for row in csv.DictReader(table)}


@pytest.mark.parametrize(
    ("key", "form", "mode"),
    [
        ("checkers-00", "JPEG", "RGB"),
        ("checkers-03", "PNG", "RGB"),
        ("checkers-misnamed", "PNG", "RGB"),
        ("circles-05", "PNG", "P"),
        ("stripes-fine", "JPEG", "RGB"),
        ("triangles-05", "JPEG", "L"),
        (KOREAN_ID, "JPEG", "RGB"),
    ],
)
def test_kinds_of_picture(sample: Path, key: str, form: str, mode: str) -> None:
    with Image.open(_find(sample, key)) as picture:
        picture.load()
        assert (picture.format, picture.mode) == (form, mode)


def test_one_picture_is_progressive_and_one_is_turned(sample: Path) -> None:
    with Image.open(_find(sample, "stripes-05")) as picture:
        assert picture.info.get("progressive")
    with Image.open(_find(sample, "circles-turned")) as picture:
        assert picture.getexif()[0x0112] == 6


def test_one_file_is_left_to_tensorflow(sample: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """TensorFlow takes seconds and 600 MB."""
    monkeypatch.setitem(sys.modules, "tensorflow", None)
    left = []
    for path in sample.glob("images/*/*"):
        try:
            check_image(path.read_bytes(), limits=Limits(MAX_PIXELS, 1 << 30))
        except ImportError:
            left.append(path.stem)
        except RejectedImageError:
            pass
    assert left == ["triangles-cut"]


def test_only_a_copy_is_a_near_duplicate(sample: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two boards of squares were, in other colors."""
    monkeypatch.setitem(sys.modules, "tensorflow", None)
    hashes = {}
    for path in sample.glob("images/*/*"):
        data = path.read_bytes()
        with contextlib.suppress(ImportError, RejectedImageError):
            limits = Limits(MAX_PIXELS, 1 << 30)
            header = checked_header(data, limits)
            hash_ = examine_image(data, header, mode="full", with_hash=True)[1][0]
            hashes.update({} if hash_ is None else {data: (path.stem, hash_)})
    pairs = itertools.combinations(hashes.values(), 2)
    near = [{one, other} for (one, a), (other, b) in pairs if (a ^ b).bit_count() <= MAX_DISTANCE]
    assert near == [{"circles-04", "circles-smaller"}]


def test_pictures_vary(sample: Path) -> None:
    sizes = set()
    for path in sample.glob("images/*/*-0?.*"):
        with Image.open(path) as picture:
            sizes.add(picture.size)
    assert len(sizes) >= 5
    assert all(width <= 640 and height <= 640 for width, height in sizes)


@pytest.mark.slow
def test_command_says_what_it_made_and_where(tmp_path: Path) -> None:
    command = [sys.executable, module.__file__, str(tmp_path / "made")]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert done.stdout == (
        f"{EXPECTED.images} images and {EXPECTED.rows} labels in {tmp_path / 'made'}\n"
    )


@pytest.mark.slow
def test_command_reports_a_folder_it_cannot_write(tmp_path: Path) -> None:
    (tmp_path / "images").write_text("in the way", encoding="utf-8")
    command = [sys.executable, module.__file__, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("make_sample: ")
