"""Running the same command again, and replacing a dataset with `--overwrite`."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tests.conftest import draw
from tests.marks import rest_slow
from tests.pipeline.commands import Dataset, convert, digests, make_dataset, plan, snapshot
from tests.pipeline.paired import draw_mask, flags_of, write_pairs
from tests.pipeline.reading import filenames
from transforms.images import pixels
from transforms.labels import shards as recipes

FLAGS = {"splits": "train=0.8,test=0.2", "num_shards": 2}


@pytest.fixture(scope="module")
def finished(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """The photos, converted."""
    folder = tmp_path_factory.mktemp("finished") / "out"
    return make_dataset(folder, images=f"{photos}/*/*.jpg", **FLAGS)


@pytest.fixture
def flags(photos: Path, tmp_path: Path) -> dict[str, Any]:
    """The flags of the same conversion of a copy of the photos, time stamps and all."""
    shutil.copytree(photos, tmp_path / "in")
    return {"images": f"{tmp_path}/in/*/*.jpg", **FLAGS}


@pytest.fixture
def dataset(finished: Dataset, tmp_path: Path) -> Dataset:
    """A copy of the dataset."""
    return Dataset(Path(shutil.copytree(finished.folder, tmp_path / "out")))


def test_the_same_command_again_changes_nothing(dataset: Dataset, flags: dict[str, Any]) -> None:
    before = snapshot(dataset.folder)
    ran = convert(output=dataset.folder, **flags)
    assert (ran.code, ran.err) == (0, "")
    lines = ran.out.splitlines()
    assert lines[0] == f"up to date: {dataset.folder} holds this dataset already"
    assert "images   18 matched = 18 written + 0 rejected" in lines
    assert "\nspeed " not in ran.out
    assert snapshot(dataset.folder) == before


@pytest.mark.slow
def test_options_that_decide_no_byte_keep_it_up_to_date(
    dataset: Dataset, flags: dict[str, Any]
) -> None:
    before = snapshot(dataset.folder)
    other = {"max_rejected": "3", "progress": "plain", "label_from": "directory"}
    ran = convert("--direct_num_workers=2", output=f"{dataset.folder}/", **flags, **other)
    assert (ran.code, ran.out.split(":")[0]) == (0, "up to date")
    assert snapshot(dataset.folder) == before


@pytest.mark.slow
def test_a_dataset_with_rejections_is_up_to_date_too(sample: Path, tmp_path: Path) -> None:
    flags = {"images": f"{sample}/images/*/*", "labels": sample / "labels.csv"}
    made = make_dataset(tmp_path / "out", **flags, max_rejected="20%")
    before = snapshot(made.folder)
    ran = convert(output=made.folder, **flags, max_rejected="20%")
    assert (ran.code, ran.out.split(":")[0]) == (0, "up to date")
    assert snapshot(made.folder) == before


def test_new_modification_times_alone_keep_it_up_to_date(
    dataset: Dataset, flags: dict[str, Any], tmp_path: Path
) -> None:
    """`cp`, `touch` and downloads set new times."""
    before = snapshot(dataset.folder)
    for path in tmp_path.glob("in/*/*.jpg"):
        os.utime(path, (1_000_000, 1_000_000))
    ran = convert(output=dataset.folder, **flags)
    assert (ran.code, ran.out.split(":")[0]) == (0, "up to date")
    assert snapshot(dataset.folder) == before


def with_other_bytes(path: Path) -> None:
    """Changes a byte of a JPEG, which keeps its size and its time."""
    data, times = bytearray(path.read_bytes()), path.stat()
    # The version of its JFIF header, which shows no pixel.
    assert data[6:11] == b"JFIF\0"
    data[11] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def test_a_file_of_the_same_size_with_other_bytes_does_not(
    dataset: Dataset, flags: dict[str, Any], tmp_path: Path
) -> None:
    before = snapshot(dataset.folder)
    path = tmp_path / "in" / "cat" / "cat-0.jpg"
    with_other_bytes(path)
    path.touch()
    ran = convert(output=dataset.folder, **flags)
    assert ran.code == 2
    assert "holds a dataset of other inputs" in ran.error()
    assert snapshot(dataset.folder) == before


def test_other_files_of_the_same_names_sizes_and_times_in_another_folder_do_not(
    dataset: Dataset, flags: dict[str, Any], tmp_path: Path, opened: list[str]
) -> None:
    """The dataset was made of other photos; these are copies of them with their times."""
    before = snapshot(dataset.folder)
    ran = convert(output=dataset.folder, **flags)
    assert (ran.code, ran.out.split(":")[0], len(opened)) == (0, "up to date", 18)
    with_other_bytes(tmp_path / "in" / "cat" / "cat-0.jpg")
    ran = convert(output=dataset.folder, **flags)
    assert ran.code == 2
    assert "holds a dataset of other inputs" in ran.error()
    assert snapshot(dataset.folder) == before


def test_masks_of_the_same_names_sizes_and_times_in_another_folder_do_not(tmp_path: Path) -> None:
    inputs = write_pairs(tmp_path / "in")
    made = make_dataset(tmp_path / "out", **flags_of(inputs))
    masks = shutil.copytree(inputs / "masks", inputs / "others")
    flags = flags_of(inputs, masks=f"{masks}/*.png", output=made.folder)
    assert convert(**flags).out.startswith("up to date")
    path = masks / "1.png"
    times = path.stat()
    draw_mask(path, seed=99)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert path.stat().st_size == times.st_size
    ran = convert(**flags)
    assert ran.code == 2 and "images, masks or labels were added, removed or changed" in ran.error()
    assert f"; it was made of files in '{inputs}/masks')" in ran.error()


def test_what_an_earlier_run_wrote_is_no_work_of_this_one(photos: Path, tmp_path: Path) -> None:
    one = shutil.copytree(photos, tmp_path / "one")
    (one / "cat" / "bad.jpg").write_bytes(b"no image")
    flags = {"output": tmp_path / "out", "images": f"{one}/*/*.jpg", **FLAGS}
    staged = (
        "staged   4 shards of an earlier run; convert takes those with the same images and options"
    )
    assert "staged" not in plan(max_rejected=1, **flags).out
    assert convert(max_rejected=0, **flags).code == 3
    assert staged in plan(max_rejected=1, **flags).out.splitlines()
    ran = convert(max_rejected=1, **flags)
    assert "resumed  4 shards that an earlier attempt had written" in ran.out.splitlines()
    assert "\nspeed    0 records in " in ran.out
    assert "images   19 matched = 18 written + 1 rejected" in ran.out.splitlines()
    replaced = convert("--overwrite", max_rejected=1, **flags)
    assert "resumed" not in replaced.out and "\nspeed    18 records of " in replaced.out
    assert "staged" not in plan("--overwrite", max_rejected=1, **flags).out


def test_a_run_resumes_no_shard_of_such_files(photos: Path, tmp_path: Path) -> None:
    one = shutil.copytree(photos, tmp_path / "one")
    (one / "cat" / "bad.jpg").write_bytes(b"no image")
    out = tmp_path / "out"
    assert convert(output=out, images=f"{one}/*/*.jpg", max_rejected=0, **FLAGS).code == 3
    two = shutil.copytree(one, tmp_path / "two")
    with_other_bytes(two / "cat" / "cat-0.jpg")
    flags = {"images": f"{two}/*/*.jpg", "max_rejected": 1, **FLAGS}
    assert convert(output=out, **flags).code == 0
    assert digests(out) == digests(make_dataset(tmp_path / "fresh", **flags).folder)


@pytest.mark.slow
def test_moved_images_of_which_some_were_rejected_keep_it_up_to_date(
    photos: Path, tmp_path: Path
) -> None:
    shutil.copytree(photos, tmp_path / "one")
    (tmp_path / "one" / "cat" / "bad.jpg").write_bytes(b"no image")
    flags = {"max_rejected": "100%", **FLAGS}
    made = make_dataset(tmp_path / "out", images=f"{tmp_path}/one/*/*.jpg", **flags)
    each = make_dataset(
        tmp_path / "each", images=f"{tmp_path}/one/*/*.jpg", max_rejected=1, files="per_image"
    )
    (tmp_path / "one").rename(tmp_path / "two")
    ran = convert(output=made.folder, images=f"{tmp_path}/two/*/*.jpg", **flags)
    assert (ran.code, ran.out.split(":")[0]) == (0, "up to date"), ran.err
    # What each file would hold is not compared.
    images = f"{tmp_path}/two/*/*.jpg"
    ran = convert(output=each.folder, images=images, max_rejected=1, files="per_image")
    assert ran.code == 2 and "holds a dataset of other inputs" in ran.error()
    assert f"; it was made of files in '{tmp_path}/one'). Use --overwrite" in ran.error()


def test_another_spelling_of_the_folder_opens_no_image(
    flags: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    opened: list[str],
) -> None:
    made = make_dataset(tmp_path / "own", **flags)
    (tmp_path / "link").symlink_to("in")
    monkeypatch.chdir(tmp_path)
    opened.clear()
    for images in ("in/*/*.jpg", "./in/*/*.jpg", f"{tmp_path}/link/*/*.jpg"):
        ran = convert(output=made.folder, **{**flags, "images": images})
        assert (ran.code, ran.out.split(":")[0], opened) == (0, "up to date", []), ran.err


@pytest.mark.parametrize("text", rest_slow(["", "{", "[]", '{"duplicates": {"exact": 1}}']))
def test_statistics_that_somebody_changed_are_left_out(
    dataset: Dataset, flags: dict[str, Any], text: str
) -> None:
    (dataset.folder / "statistics.json").write_text(text)
    ran = convert(output=dataset.folder, **flags)
    assert (ran.code, ran.out.split(":")[0]) == (0, "up to date")


def test_overwrite_replaces_the_dataset_and_removes_what_is_stale(
    dataset: Dataset, flags: dict[str, Any], tmp_path: Path
) -> None:
    draw(tmp_path / "in" / "wolf" / "wolf-0.jpg", seed=99)
    other = {**flags, "num_shards": 3, "splits": "train=0.5,validation=0.5"}
    fresh = make_dataset(tmp_path / "fresh", **other)
    assert convert(output=dataset.folder, **other).code == 2
    ran = convert(output=dataset.folder, overwrite=True, **other)
    assert (ran.code, ran.err) == (0, "")
    assert "up to date" not in ran.out
    assert digests(dataset.folder) == digests(fresh.folder)
    assert not list(dataset.folder.glob("test-*"))
    assert len(filenames(dataset)) == 19
    assert "wolf" in dataset.classes


def test_overwrite_mends_a_damaged_dataset(dataset: Dataset, flags: dict[str, Any]) -> None:
    expected = digests(dataset.folder)
    (dataset.folder / dataset.shards()[0]).unlink()
    os.truncate(dataset.folder / dataset.shards()[1], 5)
    assert convert(output=dataset.folder, overwrite=True, **flags).code == 0
    made = digests(dataset.folder)
    # The manifest tells where the inputs were, and so does the report.
    for name in ("manifest.json", "report.html"):
        assert made.pop(name) != expected.pop(name)
    assert made == expected


@pytest.mark.slow
def test_overwrite_that_is_refused_keeps_the_former_dataset(
    dataset: Dataset, flags: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "in" / "cat" / "empty.jpg").touch()
    expected = digests(dataset.folder)
    ran = convert(output=dataset.folder, overwrite=True, max_rejected=0, **flags)
    assert ran.code == 3
    made = digests(dataset.folder)
    assert {name: made[name] for name in expected} == expected
    assert convert(output=dataset.folder, overwrite=True, max_rejected=1, **flags).code == 0
    assert len(dataset.rejected) == 1
    assert sorted(digests(dataset.folder)) == sorted(expected)


@pytest.mark.slow
def test_an_upgrade_that_gives_the_same_pixels_changes_nothing(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = {"images": f"{photos}/*/*.jpg", "resize": "longer=8", "output": tmp_path / "out"}
    for files in ("sharded", "per_image"):
        flags |= {"files": files, "output": tmp_path / files}
        assert convert(**flags).code == 0
        before = snapshot(tmp_path / files)
        assert convert(**flags).out.startswith("up to date")
        with monkeypatch.context() as patch:
            patch.setattr(recipes, "distribution_version", lambda name: "99.9")
            ran = convert(**flags)
        if files == "sharded":
            assert (ran.code, ran.out[:10]) == (0, "up to date")
        else:
            # What each file would hold is not compared.
            assert ran.code == 2
            assert "it was written with pillow" in ran.error()
            assert "here 99.9" in ran.error()
        assert snapshot(tmp_path / files) == before


@pytest.mark.slow
def test_an_upgrade_that_gives_other_pixels_is_reported(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = {"images": f"{photos}/*/*.jpg", "resize": "longer=8", "output": tmp_path / "out"}
    assert convert(**flags).code == 0
    monkeypatch.setattr(recipes, "distribution_version", lambda name: "99.9")
    monkeypatch.setattr(pixels, "_FILTER", Image.Resampling.NEAREST)
    ran = convert(**flags)
    assert ran.code == 2
    assert "; simplejpeg " in ran.error()
    assert "here 99.9" in ran.error()
