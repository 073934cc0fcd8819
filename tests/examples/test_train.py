"""`examples/train.py` learns from what `convert` wrote."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

import examples.train as module
from examples.train import train
from tests.images import saved
from tests.pipeline.commands import ROOT, make_dataset

# Pictures of real flowers; where there are none, the drawn sample takes their place.
FLOWERS = ROOT.parent / "shared" / "data" / "flowers"

COLORS = {"blue": (30, 40, 220), "red": (220, 40, 30)}


@pytest.fixture(scope="module")
def easy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset of two classes that differ in their colour."""
    folder = tmp_path_factory.mktemp("easy")
    for name, (red, green, blue) in COLORS.items():
        (folder / "in" / name).mkdir(parents=True)
        for number in range(32):
            color = (red + number % 8, green + number, blue - number % 8)
            picture = Image.new("RGB", (40 + number, 36), color)
            (folder / "in" / name / f"{name}{number}.jpg").write_bytes(saved(picture, "JPEG"))
    flags = {"images": f"{folder}/in/*/*.jpg", "label_from": "directory", "num_shards": 4}
    return make_dataset(folder / "out", **flags).folder


def test_the_loss_falls(easy: Path) -> None:
    losses = train(str(easy), epochs=3, batch_size=16, side=32)
    assert len(losses) == 3
    assert losses[0] > 0.1
    assert losses[-1] < 0.5 * losses[0]


def test_flowers_or_the_sample_train(sample: Path, tmp_path: Path) -> None:
    images = f"{FLOWERS}/*/*.jpg" if FLOWERS.is_dir() else f"{sample}/images/*/*"
    dataset = make_dataset(
        tmp_path / "out", images=images, label_from="directory", max_rejected="20%"
    )
    first, second = train(str(dataset.folder), epochs=2, batch_size=8)
    assert second < first


def test_command(easy: Path, tmp_path: Path) -> None:
    script = str(Path(module.__file__))
    command = [sys.executable, script, str(easy), "--epochs=1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "loss" in done.stdout
    missing = [sys.executable, script]
    refused = subprocess.run(missing, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert refused.stderr.splitlines()[-1].startswith("train: out/sample holds no dataset")
