"""`--holdout`: images of another dataset are reported like duplicates, or left out."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.images import saved, scene
from tests.marks import rest_slow
from tests.pipeline.commands import Dataset, convert, digests, make_dataset, plan
from tests.pipeline.reusing import make_older
from tests.servers.gcs import GcsServer

SIZE = (180, 240)


def write(path: Path, number: int, **options: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(saved(scene(number, *SIZE), "JPEG", **{"quality": 92, **options}))


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """Scenes 0 to 3 with classes of their own, two of them in the split `test`.

    Tests leave it as it is.
    """
    folder = tmp_path_factory.mktemp("holdout")
    for number in range(4):
        write(folder / "old" / ("train", "test")[number % 2] / "scene" / f"{number}.jpg", number)
    images = f"{folder}/old/*/*/*.jpg"
    return make_dataset(
        folder / "bench", images=images, split_from="directory", label_from="directory"
    )


@pytest.fixture
def flags(tmp_path: Path) -> dict[str, Any]:
    """Scenes 1 and 2 again, a worse copy of 3, and others."""
    for number, name in enumerate(("x", "one", "two", "y", "z", "w")):
        write(
            tmp_path / "new" / "cat" / f"{name}.jpg",
            number if name in ("one", "two") else 10 + number,
        )
    write(tmp_path / "new" / "cat" / "worse.jpg", 3, quality=40)
    return {"images": f"{tmp_path}/new/*/*.jpg", "label_from": "directory"}


def duplicates_of(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "statistics.json").read_text())["duplicates"]
    return found


def test_equal_and_near_images_are_reported(
    bench: Dataset, flags: dict[str, Any], tmp_path: Path
) -> None:
    bench = Dataset(shutil.copytree(bench.folder, tmp_path / "bench"))
    ran = convert(output=tmp_path / "out", holdout=bench.folder, **flags)
    assert ran.code == 0, ran.err
    assert (
        "holdout  2 groups of exact duplicates and 1 pair of near-duplicates with images of "
        "--holdout; --dedupe drop leaves out exact ones" in ran.out
    )
    # No two of the new images are equal.
    assert "duplicates  2 groups of exact duplicates (2 with images of --holdout)\n" in ran.out
    exact, near = (duplicates_of(tmp_path / "out")[name] for name in ("exact", "near"))
    assert (exact["held"], exact["across_splits"], exact["conflicts"]) == (2, 0, 0)
    listed = [[each["key"] for each in group["images"]] for group in exact["listed"]]
    assert sorted(listed) == [
        ["cat/one.jpg", "test/scene/1.jpg"],
        ["cat/two.jpg", "train/scene/2.jpg"],
    ]
    own, held = near["listed"][0]["images"]
    assert (own["key"], held["key"], held["dataset"], held["file"]) == (
        "cat/worse.jpg",
        "test/scene/3.jpg",
        str(bench.folder),
        None,
    )
    report = (tmp_path / "out" / "report.html").read_text()
    assert f"test of {bench.folder}" in report
    assert "2 groups with 2 images, 0 across splits, 0 with different labels, 2 with" in report
    assert "0 pairs among 7 images, 0 across splits, and 1 pair with images of" in report
    again = convert(output=tmp_path / "out", holdout=bench.folder, **flags)
    assert "up to date" in again.out
    config = tmp_path / "out" / "manifest.json"
    assert "up to date" in convert(output=tmp_path / "out", config=config).out
    other = convert(output=tmp_path / "out", **flags)
    assert "--holdout is not given, was" in other.error()
    shutil.rmtree(bench.folder)
    make_dataset(bench.folder, **flags)
    replaced = convert(output=tmp_path / "out", holdout=bench.folder, **flags)
    assert f"--holdout is {bench.folder}=" in replaced.error()


def test_drop_leaves_out_exact_ones_of_a_split(
    bench: Dataset, flags: dict[str, Any], tmp_path: Path
) -> None:
    given = {**flags, "holdout": f"{bench.folder}:test", "dedupe": "drop"}
    planned = plan(output=tmp_path / "out", **given)
    assert "6 to convert" in planned.out, planned.err
    made = make_dataset(tmp_path / "out", **given, max_rejected="0")
    [line] = made.rejected
    assert (line["reason"], line["key"]) == ("holdout_image", "cat/one.jpg")
    assert line["detail"] == (
        f"an exact duplicate of 'test/scene/1.jpg' in --holdout {bench.folder}, split test"
    )
    found = duplicates_of(made.folder)
    assert (found["exact"]["dropped"], found["exact"]["held"], found["near"]["held"]) == (1, 1, 1)
    # Records as input are compared by their hashes alone.
    whole = make_dataset(tmp_path / "whole", **flags)
    shutil.rmtree(tmp_path / "new")
    given = {"images": whole.folder, "holdout": f"{bench.folder}:test", "dedupe": "drop"}
    again = make_dataset(tmp_path / "again", **given)
    assert {name: each for name, each in digests(again.folder).items() if "tfrecord" in name} == {
        name: each for name, each in digests(made.folder).items() if "tfrecord" in name
    }


def test_records_without_hashes_are_read(
    bench: Dataset, flags: dict[str, Any], tmp_path: Path
) -> None:
    off = make_dataset(tmp_path / "off", dedupe="off", **flags)
    given = {"images": off.folder, "holdout": bench.folder, "dedupe": "drop"}
    made = make_dataset(tmp_path / "out", **given)
    assert [line["key"] for line in made.rejected] == ["cat/one.jpg", "cat/two.jpg"]


@pytest.mark.parametrize("changed", rest_slow([{"resize": "shorter=90"}, {"strip_metadata": True}]))
def test_originals_that_several_datasets_changed_are_found(
    changed: dict[str, Any], flags: dict[str, Any], tmp_path: Path
) -> None:
    """A dataset changed them, and another one was made of its records."""
    for number, name in enumerate(("one", "two")):
        write(tmp_path / "new" / "cat" / f"{name}.jpg", number, comment=name.encode())
    whole = make_dataset(tmp_path / "whole", **flags, **changed)
    few = {**flags, "images": f"{tmp_path}/new/*/[ot]*.jpg"}
    first = make_dataset(tmp_path / "first", **few, **changed)
    held = make_dataset(tmp_path / "held", images=first.folder, color="gray").folder
    for given in (flags, {"images": whole.folder}):
        made = make_dataset(tmp_path / "out", holdout=held, dedupe="drop", **given)
        found = [(line["reason"], line["key"]) for line in made.rejected]
        assert found == [("holdout_image", f"cat/{name}.jpg") for name in ("one", "two")]
        shutil.rmtree(made.folder)


def test_originals_of_records_next_to_files_are_found(
    bench: Dataset, flags: dict[str, Any], tmp_path: Path
) -> None:
    """A dataset changed them, under other options than those of this run."""
    small = make_dataset(tmp_path / "small", **flags, resize="shorter=90")
    write(tmp_path / "more" / "cat" / "more.jpg", 20)
    given = {**flags, "images": [str(small.folder), f"{tmp_path}/more/*/*.jpg"]}
    made = make_dataset(tmp_path / "out", holdout=bench.folder, dedupe="drop", **given)
    found = [(line["reason"], line["key"]) for line in made.rejected]
    assert found == [("holdout_image", f"cat/{name}.jpg") for name in ("one", "two")]


def test_what_cannot_be_compared_is_refused(
    bench: Dataset, flags: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    off = make_dataset(tmp_path / "off", dedupe="off", **flags).folder
    older = make_older(monkeypatch, tmp_path / "older", **flags).folder
    said = {
        f"{bench.folder}:tset": "has no split 'tset', but train, test",
        f"{tmp_path}/new": "holds no dataset",
        str(off): "its images have no hashes, since it was made with --dedupe off",
        str(older): "another version of this program made its perceptual hashes: convert its "
        "images again",
        str(tmp_path / "out"): "is also --output",
    }
    for value, problem in said.items():
        ran = convert(output=tmp_path / "out", holdout=value, **flags)
        assert (ran.code, problem in ran.error()) == (2, True), ran.err
    ran = convert(output=tmp_path / "out", holdout=bench.folder, dedupe="off", **flags)
    assert "--holdout cannot be used with --dedupe off" in ran.error()


@pytest.mark.slow
def test_a_holdout_in_a_bucket(
    bench: Dataset, flags: dict[str, Any], tmp_path: Path, gcs: GcsServer
) -> None:
    gcs.make_bucket("sets")
    gcs.put_folder("sets", "bench/", bench.folder)
    given = {**flags, "holdout": "gs://sets/bench:test", "dedupe": "drop"}
    made = make_dataset(tmp_path / "out", **given)
    [line] = made.rejected
    assert line["detail"].endswith("in --holdout gs://sets/bench, split test")
