"""`examples/train.py` learns from what `convert` wrote."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import examples.train as module
from examples.train import train
from pipeline.read import class_names
from tests.images import saved
from tests.pipeline.commands import make_dataset, run_here

COLORS = {"blue": (30, 40, 220), "red": (220, 40, 30)}


@pytest.fixture(scope="module")
def gaps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pictures of two colours whose classes are 7 and 100000, in two splits."""
    folder = tmp_path_factory.mktemp("gaps")
    rows = []
    for label, (red, green, blue) in zip((7, 100000), COLORS.values(), strict=True):
        for number in range(24):
            picture = Image.new("RGB", (40, 36), (red + number % 8, green + number, blue))
            (folder / f"{label}-{number}.jpg").write_bytes(saved(picture, "JPEG"))
            rows.append(f"{label}-{number},{label}")
    (folder / "labels.csv").write_text("\n".join(["id,label", *rows]))
    flags = {"images": f"{folder}/*.jpg", "labels": folder / "labels.csv"}
    return make_dataset(
        folder / "out", **flags, splits="train=0.7,validation=0.3", dedupe="off"
    ).folder


@pytest.mark.slow
def test_classes_with_gaps_between_their_ids_train_and_validation_is_evaluated(
    gaps: Path,
) -> None:
    assert class_names(str(gaps)) == {7: "7", 100000: "100000"}
    history = train(str(gaps), epochs=4, batch_size=8, side=32)
    assert history["loss"][-1] < 0.5 * history["loss"][0]
    assert history["val_accuracy"][-1] > 0.9
    assert len(history["val_loss"]) == 4


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (lambda m: m["splits"].pop("train"), "has no split 'train', only validation: convert it"),
        (lambda m: m["splits"]["train"].update(records=0), "the split 'train' of"),
        (lambda m: m.update(features=m["features"][1:]), "(layout slim) hold no image to train on"),
    ],
)  # fmt: skip
def test_a_dataset_that_cannot_be_trained_on_is_one_line(
    changed: Callable[[dict[str, Any]], None], message: str, gaps: Path, tmp_path: Path
) -> None:
    manifest = json.loads((gaps / "manifest.json").read_text())
    changed(manifest)
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    ran = run_here(module.main, "train", [str(tmp_path)])
    assert ran.code == 2 and message in ran.error()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nowhere"], "nowhere holds no dataset: there is no such folder"),
        (["--epochs=0"], "train: --epochs '0' is not a whole number above 0"),
        (["--epoch=1"], "unrecognized arguments: --epoch=1"),
    ],
)
def test_wrong_arguments_are_one_line(words: list[str], message: str) -> None:
    ran = run_here(module.main, "train", words)
    assert ran.code == 2 and message in ran.error()


def test_class_ids_that_have_no_names_are_one_line(gaps: Path, tmp_path: Path) -> None:
    shutil.copytree(gaps, tmp_path / "out")
    (tmp_path / "out" / "labels.txt").write_text("")
    ran = run_here(module.main, "train", [str(tmp_path / "out")])
    assert ran.code == 2 and "convert it with --dense_labels" in ran.error()
    (tmp_path / "out" / "labels.txt").unlink()
    ran = run_here(module.main, "train", [str(tmp_path / "out")])
    assert ran.code == 2 and "labels.txt: the dataset is damaged" in ran.error()


@pytest.mark.slow
def test_a_shard_that_is_gone_is_one_line(gaps: Path, tmp_path: Path) -> None:
    shutil.copytree(gaps, tmp_path / "out")
    for shard in (tmp_path / "out").glob("train-*"):
        shard.unlink()
    ran = run_here(module.main, "train", [str(tmp_path / "out"), "--epochs=1"])
    assert ran.code == 1
    assert ran.error().startswith(f"train: cannot read {tmp_path}/out: ")
