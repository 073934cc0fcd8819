"""Splits and shards of whole datasets: sizes, numbers, and what stays when images come and go."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import draw
from tests.marks import rest_slow
from tests.pipeline.commands import Dataset, convert, make_dataset, plan
from tests.pipeline.decided_table import block
from tests.pipeline.reading import filenames, split_of

THIRDS = "train=0.6,validation=0.2,test=0.2"


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four hundred images: one picture under many names."""
    folder = tmp_path_factory.mktemp("many")
    add_images(folder, range(400))
    return folder


def add_images(folder: Path, numbers: Iterable[int]) -> None:
    """Adds images named after numbers."""
    draw(folder / "original")
    for number in numbers:
        shutil.copy(folder / "original", folder / f"{number}.jpg")
    (folder / "original").unlink()


def make(folder: Path, images: Path, **flags: Any) -> Dataset:
    """Converts a folder of images without labels."""
    return make_dataset(folder, images=f"{images}/*.jpg", label_from="none", **flags)


@pytest.fixture(scope="module")
def thirds(many: Path, tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """The four hundred in three splits."""
    return make(tmp_path_factory.mktemp("out") / "thirds", many, splits=THIRDS)


def test_splits_have_about_their_shares_and_every_image_once(thirds: Dataset) -> None:
    counts = {split: len(filenames(thirds, split)) for split in ("train", "validation", "test")}
    assert sum(counts.values()) == 400 == len(set(filenames(thirds)))
    for split, share in (("train", 0.6), ("validation", 0.2), ("test", 0.2)):
        assert abs(counts[split] / 400 - share) < 0.06, counts
        assert thirds.manifest["splits"][split]["records"] == counts[split]
    assert list(thirds.manifest["splits"]) == ["train", "validation", "test"]


def test_records_are_shuffled(thirds: Dataset) -> None:
    order = filenames(thirds, "train")
    assert order != sorted(order)
    assert order != sorted(order, key=lambda name: int(name.split(".")[0]))


@pytest.mark.slow
def test_adding_images_moves_no_old_one(many: Path, thirds: Dataset, tmp_path: Path) -> None:
    shutil.copytree(many, tmp_path / "in")
    add_images(tmp_path / "in", range(400, 500))
    more = make(tmp_path / "out", tmp_path / "in", splits=THIRDS)
    before, after = split_of(thirds), split_of(more)
    assert len(after) == 500
    assert {name: after[name] for name in before} == before
    for split in ("train", "validation", "test"):
        stayed = [name for name in filenames(more, split) if Path(name).stem in before]
        assert stayed == filenames(thirds, split)


@pytest.mark.parametrize("count", rest_slow([5, 1]))
def test_num_shards_is_of_each_split(many: Path, tmp_path: Path, count: int) -> None:
    dataset = make(tmp_path / "out", many, splits="train=0.7,test=0.3", num_shards=count)
    assert dataset.shards() == [
        f"{split}-{number:05d}-of-{count:05d}.tfrecord"
        for split in ("test", "train")
        for number in range(count)
    ]
    assert len(set(filenames(dataset))) == 400


@pytest.mark.parametrize("compression", rest_slow(["none", "gzip"]))
def test_more_shards_than_images(photos: Path, tmp_path: Path, compression: str) -> None:
    dataset = make_dataset(
        tmp_path / "out",
        images=f"{photos}/cat/*.jpg",
        label_from="none",
        num_shards=20,
        compression=compression,
    )
    assert len(dataset.shards()) == 20
    assert len(filenames(dataset)) == 6


STRATIFIED = {"splits": "train=0.5,validation=0.25,test=0.25", "stratify": "label"}


def test_stratified_splits_have_the_shares_of_each_class(photos: Path, tmp_path: Path) -> None:
    flags: dict[str, Any] = {"images": f"{photos}/*/*.jpg", "label_from": "directory", **STRATIFIED}
    dataset = make_dataset(tmp_path / "out", **flags)
    splits = dataset.manifest["splits"]
    for name in ("cat", "dog", "fox"):
        counts = [split["classes"].get(name, 0) for split in splits.values()]
        # Six of each: 3, and 1.5 rounded up or down.
        assert counts in ([3, 1, 2], [3, 2, 1])
    assert dataset.manifest["options"]["stratify"] == "label"
    planned = plan(output=tmp_path / "planned", **flags)
    rows = [line.split()[:2] for line in planned.out.splitlines() if line.split()[0] in splits]
    assert rows == [[name, str(split["records"])] for name, split in splits.items()]
    bound = "each within one image of its shares; a further image moves at most 2 others"
    assert f"stratified     3 classes            {bound} [--stratify]" in block(planned)
    assert "more than one image" not in planned.out + json.dumps(dataset.manifest["decided"])
    assert "up to date" in convert(output=dataset.folder, **flags).out
    other = convert(output=dataset.folder, **{**flags, "stratify": None})
    assert (other.code, "--stratify is not given, was label" in other.error()) == (2, True)


def test_classes_that_are_off_their_shares_are_reported(photos: Path, tmp_path: Path) -> None:
    """All cats are one group, and so are all foxes: each is in one split."""
    rows = ["id,label,who"]
    for path in sorted(photos.glob("*/*.jpg")):
        kind = path.parent.name
        rows.append(f"{path.stem},{kind},{path.stem if kind == 'dog' else kind}")
    (tmp_path / "labels.csv").write_text("\n".join(rows))
    flags: dict[str, Any] = {
        "images": f"{photos}/*/*.jpg",
        "labels": tmp_path / "labels.csv",
        "group_by": "who",
        "splits": "train=0.5,test=0.5",
        "stratify": "label",
    }
    off = "are off their share by more than one image, the furthest 'cat' by 3 (train)"
    line = f"class shares   2 of 3 classes       {off} [--stratify]"
    assert line in block(convert(output=tmp_path / "out", **flags))
    assert line in block(plan(output=tmp_path / "planned", **flags))
    decided = json.loads((tmp_path / "out" / "manifest.json").read_text())["decided"]
    [shares] = [each for each in decided if each["what"] == "class shares"]
    assert (shares["value"], shares["because"]) == ("2 of 3 classes", off)
