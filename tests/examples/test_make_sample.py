"""The sample set: the same bytes on each run, the counts it promises, and its odd files."""

import contextlib
import itertools
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from examples import make_sample as module
from examples.make_sample import EXPECTED, make_sample
from tests.pipeline.commands import digests
from transforms.core.rejections import RejectedImageError
from transforms.images.check import check_image, checked_header, examine_image
from transforms.images.pixel_options import Limits
from transforms.selection.duplicates import MAX_DISTANCE

MAX_PIXELS = 178_956_970


def test_a_rerun_repairs_the_folder_and_leaves_other_files(sample: Path, tmp_path: Path) -> None:
    shutil.copytree(sample, tmp_path, dirs_exist_ok=True)
    stranger = tmp_path / "notes.txt"
    stranger.write_text("mine", encoding="utf-8")
    (tmp_path / "labels.csv").write_text("damaged", encoding="utf-8")
    make_sample(tmp_path)
    assert stranger.read_text(encoding="utf-8") == "mine"
    stranger.unlink()
    assert digests(tmp_path) == digests(sample)


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


@pytest.mark.slow
def test_command_says_what_it_made_and_where(tmp_path: Path) -> None:
    command = [sys.executable, module.__file__, str(tmp_path / "made")]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert done.stdout == (
        f"{EXPECTED.images} images and {EXPECTED.rows} labels in {tmp_path / 'made'}\n"
    )
