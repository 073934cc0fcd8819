"""`--holdout`: images of another dataset are reported like duplicates, or left out."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.images import saved, scene
from tests.pipeline.commands import Dataset, check_ended, convert, digests, make_dataset, plan
from tests.pipeline.reusing import make_older

pytestmark = pytest.mark.slow

HELD = [("holdout_image", "cat/one.jpg"), ("holdout_image", "cat/two.jpg")]


def write(path: Path, number: int, **options: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(saved(scene(number, 180, 240), "JPEG", **{"quality": 92, **options}))


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Scenes 0 to 3 with classes of their own, two of them in the split `test`."""
    folder = tmp_path_factory.mktemp("holdout")
    for number in range(4):
        write(folder / "old" / ("train", "test")[number % 2] / "scene" / f"{number}.jpg", number)
    flags = {"images": f"{folder}/old/*/*/*.jpg", "label_from": "directory"}
    return make_dataset(folder / "bench", split_by="folder", **flags).folder


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Scenes 1 and 2 again, a worse copy of 3, and others."""
    folder = tmp_path_factory.mktemp("new")
    for name, number in {"x": 10, "one": 1, "two": 2, "y": 13, "z": 14, "w": 15}.items():
        write(folder / "cat" / f"{name}.jpg", number)
    write(folder / "cat" / "worse.jpg", 3, quality=40)
    return folder


@pytest.fixture(scope="module")
def flags(photos: Path) -> dict[str, Any]:
    return {"images": f"{photos}/*/*.jpg", "label_from": "directory"}


def held(dataset: Dataset) -> list[tuple[str, str]]:
    return [(line["reason"], line["key"]) for line in dataset.rejected]


def duplicates_of(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "statistics.json").read_text())["duplicates"]
    return found


def test_equal_and_near_images_are_reported(
    bench: Path, flags: dict[str, Any], tmp_path: Path
) -> None:
    bench, out = shutil.copytree(bench, tmp_path / "bench"), tmp_path / "out"
    check_ended(
        convert(output=out, holdout=bench, **flags),
        0,
        "holdout  2 groups of exact duplicates and 1 pair of near-duplicates with images of "
        "--holdout; --dedupe drop leaves out exact ones",
        # No two of the new images are equal.
        "duplicates  2 groups of exact duplicates (2 with images of --holdout)\n",
    )
    exact, near = (duplicates_of(out)[name] for name in ("exact", "near"))
    assert (exact["held"], exact["across_splits"], exact["conflicts"]) == (2, 0, 0)
    listed = sorted([each["key"] for each in group["images"]] for group in exact["listed"])
    assert listed == [["cat/one.jpg", "test/scene/1.jpg"], ["cat/two.jpg", "train/scene/2.jpg"]]
    own, other = near["listed"][0]["images"]
    assert (own["key"], other["key"]) == ("cat/worse.jpg", "test/scene/3.jpg")
    assert (other["dataset"], other["file"]) == (str(bench), None)
    said = [
        f"test of {bench}",
        "2 groups with 2 images, 0 across splits, 0 with different labels, 2 with",
        "0 pairs among 7 images, 0 across splits, and 1 pair with images of",
    ]
    report = (out / "report.html").read_text()
    assert [each for each in said if each not in report] == []
    check_ended(convert(output=out, holdout=bench, **flags), 0, "up to date")
    check_ended(convert(output=out, **flags), 2, "--holdout is not given, was")
    shutil.rmtree(bench)
    make_dataset(bench, **flags)
    check_ended(convert(output=out, holdout=bench, **flags), 2, f"--holdout is {bench}=")


def test_drop_leaves_out_exact_ones_of_a_split(
    bench: Path, flags: dict[str, Any], tmp_path: Path
) -> None:
    given = {"holdout": f"{bench}:test", "dedupe": "drop"}
    check_ended(plan(output=tmp_path / "out", **flags, **given), 0, "6 to convert")
    made = make_dataset(tmp_path / "out", **flags, **given, max_rejected="0")
    assert held(made) == HELD[:1]
    where = f"in --holdout {bench}, split test"
    assert made.rejected[0]["detail"] == f"an exact duplicate of 'test/scene/1.jpg' {where}"
    found = duplicates_of(made.folder)
    assert (found["exact"]["dropped"], found["exact"]["held"], found["near"]["held"]) == (1, 1, 1)
    # Records as input are compared by their hashes alone.
    whole = make_dataset(tmp_path / "whole", **flags).folder
    again = digests(make_dataset(tmp_path / "again", images=whole, **given).folder)
    before = digests(made.folder)
    assert [name for name in before if "tfrecord" in name and again[name] != before[name]] == []


def test_records_without_hashes_are_read(
    bench: Path, flags: dict[str, Any], tmp_path: Path
) -> None:
    off = make_dataset(tmp_path / "off", dedupe="off", **flags).folder
    assert held(make_dataset(tmp_path / "out", images=off, holdout=bench, dedupe="drop")) == HELD


@pytest.mark.parametrize("changed", [{"resize": "shorter=90"}, {"strip_metadata": True}])
def test_originals_that_several_datasets_changed_are_found(
    changed: dict[str, Any], photos: Path, tmp_path: Path
) -> None:
    """A dataset changed them, and another one was made of its records."""
    folder = shutil.copytree(photos, tmp_path / "new")
    for number, name in enumerate(("one", "two")):
        write(folder / "cat" / f"{name}.jpg", number, comment=name.encode())
    flags = {"images": f"{folder}/*/*.jpg", "label_from": "directory"}
    whole = make_dataset(tmp_path / "whole", **flags, **changed).folder
    few = {**flags, "images": f"{folder}/*/[ot]*.jpg"}
    first = make_dataset(tmp_path / "first", **few, **changed).folder
    base = make_dataset(tmp_path / "held", images=first, color="gray").folder
    for name, given in (("files", flags), ("records", {"images": whole})):
        assert held(make_dataset(tmp_path / name, holdout=base, dedupe="drop", **given)) == HELD


def test_what_cannot_be_compared_is_refused(
    bench: Path, flags: dict[str, Any], photos: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    off = make_dataset(tmp_path / "off", dedupe="off", **flags).folder
    older = make_older(monkeypatch, tmp_path / "older", **flags).folder
    said = {
        f"{bench}:tset": "has no split 'tset', but train, test",
        f"{photos}": "holds no dataset",
        f"{off}": "its images have no hashes, since it was made with --dedupe off",
        f"{older}": "another version of this program made its perceptual hashes: convert its "
        "images again",
        f"{tmp_path}/out": "is also --output",
    }
    for value, problem in said.items():
        check_ended(convert(output=tmp_path / "out", holdout=value, **flags), 2, problem)
    ran = convert(output=tmp_path / "out", holdout=bench, dedupe="off", **flags)
    check_ended(ran, 2, "--holdout cannot be used with --dedupe off")
