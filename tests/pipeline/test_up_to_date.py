"""The same command again, commands that are not the same, and `--overwrite`."""

import contextlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pipeline.run import launch
from tests.conftest import draw
from tests.marks import cases
from tests.pipeline.commands import (
    Dataset,
    check_ended,
    convert,
    digests,
    make_dataset,
    plan,
    snapshot,
)
from tests.pipeline.paired import draw_mask, flags_of, write_pairs
from tests.pipeline.right_command import check_usage
from transforms.dataset.manifest import FORMAT_VERSION

pytestmark = pytest.mark.slow

FLAGS = {"splits": "train=0.8,test=0.2", "num_shards": 2}
OTHER_INPUTS = "holds a dataset of other inputs"


@pytest.fixture(scope="module")
def finished(photos: Path, stems: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Photos, their labels, and the dataset `out` of them."""
    folder = tmp_path_factory.mktemp("finished")
    shutil.copytree(photos, folder / "in")
    rows = "".join(f"{stem},{label}\n" for stem, label in stems.items())
    (folder / "labels.csv").write_text(f"id,label\n{rows}")
    flags = {"images": f"{folder}/in/*/*.jpg", "labels": folder / "labels.csv", **FLAGS}
    make_dataset(folder / "out", **flags)
    return folder


@pytest.fixture
def folder(finished: Path, tmp_path: Path) -> Path:
    """A copy of all that a test may change, time stamps and all."""
    return Path(shutil.copytree(finished, tmp_path / "copy"))


@pytest.fixture
def flags(folder: Path) -> dict[str, Any]:
    """The flags of the same conversion, of the copy."""
    inputs = {"images": f"{folder}/in/*/*.jpg", "labels": folder / "labels.csv"}
    return {**inputs, "output": folder / "out", **FLAGS}


@pytest.fixture
def dataset(folder: Path) -> Dataset:
    """The dataset in the copy."""
    return Dataset(folder / "out")


def published(dataset: Dataset) -> dict[str, tuple[int, bytes]]:
    """What is published, with its times."""
    found = snapshot(dataset.folder)
    found.pop(".staging", None)
    return found


def touch_all(folder: Path) -> None:
    """As `cp`, `touch` and downloads do."""
    for path in folder.glob("in/*/*.jpg"):
        os.utime(path, (1_000_000, 1_000_000))


def statistics(text: str) -> Callable[[Path], object]:
    return lambda folder: (folder / "out" / "statistics.json").write_text(text)


KEEP: dict[str, tuple[Callable[[Path], object], dict[str, Any]]] = {
    "nothing": (lambda _: None, {}),
    "times": (touch_all, {}),
    "other flags": (lambda _: None, {"max_rejected": "3", "progress": "plain"}),
    "no statistics": (statistics(""), {}),
    "half of the statistics": (statistics("{"), {}),
    "other statistics": (statistics("[]"), {}),
    "statistics without their parts": (statistics('{"duplicates": {"exact": 1}}'), {}),
}


@pytest.mark.parametrize("name", KEEP)
def test_what_changes_no_byte_keeps_it_up_to_date(
    name: str, dataset: Dataset, folder: Path, flags: dict[str, Any]
) -> None:
    change, more = KEEP[name]
    change(folder)
    before = published(dataset)
    ran = convert(**{**flags, **more})
    assert (ran.code, ran.err if name == "nothing" else "") == (0, "")
    lines = ran.out.splitlines()
    assert lines[0] == f"up to date: {dataset.folder} holds this dataset already"
    assert "images   18 matched = 18 written + 0 rejected" in lines
    assert "\nspeed " not in ran.out
    assert published(dataset) == before


def test_a_dataset_with_rejections_is_up_to_date_too(sample: Path, tmp_path: Path) -> None:
    flags = {"images": f"{sample}/images/*/*", "labels": sample / "labels.csv"}
    made = make_dataset(tmp_path / "out", **flags, max_rejected="20%")
    before = published(made)
    ran = convert(output=made.folder, **flags, max_rejected="20%")
    assert ran.out.startswith("up to date")
    assert published(made) == before
    (made.folder / "rejected.jsonl").unlink()
    check_ended(convert(output=made.folder, **flags, max_rejected="20%"), 0, "up to date")


@pytest.mark.usefixtures("finished", "no_run")
@cases(
    ({"seed": 1}, ["--seed is 1, was 0"]),
    ({"layout": "landmark"}, ["--layout is landmark, was slim"]),
    (
        {"num_shards": 4, "compression": "gzip"},
        ["--num_shards is 4, was 2", "--compression is gzip, was none"],
    ),
    ({"num_shards": None}, ["--num_shards is not given, was 2"]),
    ({"splits": "train=1"}, ["--splits is train=1, was train=0.8,test=0.2"]),
    ({"labels": None, "label_from": "regex:(.+)/"}, ["--label_from is regex:(.+)/, was csv"]),
)
def test_other_options(
    more: dict[str, Any], says: list[str], folder: Path, flags: dict[str, Any]
) -> None:
    before = snapshot(folder)
    check_usage(convert(**{**flags, **more}), "made with other options", "--overwrite", *says)
    assert snapshot(folder) == before


def with_other_bytes(path: Path) -> None:
    """Changes a byte of a JPEG, which keeps its size and its time."""
    data, times = bytearray(path.read_bytes()), path.stat()
    # The version of its JFIF header, which shows no pixel.
    assert data[6:11] == b"JFIF\0"
    data[11] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def changed_rows(change: Callable[[str], str]) -> Callable[[Path], object]:
    """A change of the labels."""
    return lambda at: (at / "labels.csv").write_text(change((at / "labels.csv").read_text()))


INPUTS: dict[str, Callable[[Path], object]] = {
    "rewritten": lambda at: shutil.copy(at / "in/cat/cat-0.jpg", at / "in/cat/cat-1.jpg"),
    "relabelled": changed_rows(lambda text: text.replace("cat-1,cat", "cat-1,dog")),
    "added": lambda at: draw(at / "in/cat/cat-9.jpg"),
    "removed": lambda at: (at / "in/cat/cat-1.jpg").unlink(),
    "row": changed_rows(lambda text: f"{text}gone,cat\n"),
    # The dataset was made of other photos; these are copies of them with their times.
    "other bytes": lambda at: with_other_bytes(at / "in/cat/cat-0.jpg"),
}


@pytest.mark.parametrize("name", INPUTS)
def test_other_inputs(name: str, dataset: Dataset, folder: Path, flags: dict[str, Any]) -> None:
    INPUTS[name](folder)
    before = published(dataset)
    check_usage(convert(**flags), f"--output {dataset.folder} {OTHER_INPUTS}", "--overwrite")
    assert published(dataset) == before


def test_masks_of_the_same_names_sizes_and_times_in_another_folder(tmp_path: Path) -> None:
    inputs = write_pairs(tmp_path / "in")
    made = make_dataset(tmp_path / "out", **flags_of(inputs))
    assert made.manifest["partners"] == {"mask": f"{inputs}/masks"}
    masks = shutil.copytree(inputs / "masks", inputs / "others")
    flags = flags_of(inputs, masks=f"{masks}/*.png", output=made.folder)
    assert convert(**flags).out.startswith("up to date")
    times = (masks / "1.png").stat()
    draw_mask(masks / "1.png", seed=99)
    os.utime(masks / "1.png", ns=(times.st_atime_ns, times.st_mtime_ns))
    assert (masks / "1.png").stat().st_size == times.st_size
    said = "images, masks or labels were added, removed or changed"
    check_ended(convert(**flags), 2, said, f"; it was made of files in '{inputs}/masks')")


def test_a_shard_that_is_missing_or_cut(dataset: Dataset, flags: dict[str, Any]) -> None:
    expected, shard = digests(dataset.folder), dataset.folder / dataset.shards()[0]
    for damage in (lambda: os.truncate(shard, 100), shard.unlink):
        damage()
        before = digests(dataset.folder)
        check_usage(convert(**flags), "1 of its files", shard.name, "--overwrite")
        assert digests(dataset.folder) == before
    os.truncate(dataset.folder / dataset.shards()[1], 5)
    assert convert(overwrite=True, **flags).code == 0
    made = digests(dataset.folder)
    # The manifest tells where the inputs were, and so does the report.
    assert {name for name in made if made[name] != expected[name]} == {
        *("manifest.json", "report.html")
    }
    assert made.keys() == expected.keys()


@pytest.mark.usefixtures("finished", "no_run")
@pytest.mark.parametrize("text", ["{", json.dumps({"format_version": FORMAT_VERSION})])
def test_a_manifest_that_is_none(text: str, dataset: Dataset, flags: dict[str, Any]) -> None:
    (dataset.folder / "manifest.json").write_text(text)
    check_usage(convert(**flags), "manifest.json is not a manifest")


def test_what_an_earlier_run_wrote_is_no_work_of_this_one(folder: Path) -> None:
    """And a run resumes no shard of files of the same names, sizes and times elsewhere."""
    (folder / "in" / "cat" / "bad.jpg").write_bytes(b"no image")
    flags = {"output": folder / "new", "images": f"{folder}/in/*/*.jpg", **FLAGS}
    staged = (
        "staged   4 shards of an earlier run; convert takes those with the same images and options"
    )
    assert convert(max_rejected=0, **flags).code == 3
    other = shutil.copytree(folder / "new", folder / "other")
    check_ended(plan(max_rejected=1, **flags), 0, f"{staged}\n")
    check_ended(
        convert(max_rejected=1, **flags),
        0,
        "resumed  4 shards that an earlier attempt had written\n",
        "\nspeed    0 records in ",
        "images   19 matched = 18 written + 1 rejected\n",
    )
    replaced = convert("--overwrite", max_rejected=1, **flags)
    assert "resumed" not in replaced.out and "\nspeed    18 records of " in replaced.out
    assert "staged" not in plan("--overwrite", max_rejected=1, **flags).out
    with_other_bytes(shutil.copytree(folder / "in", folder / "two") / "cat" / "cat-0.jpg")
    flags |= {"images": f"{folder}/two/*/*.jpg", "max_rejected": 1}
    assert convert(**{**flags, "output": other}).code == 0
    assert convert(**{**flags, "output": folder / "fresh"}).code == 0
    assert digests(other) == digests(folder / "fresh")


def test_moved_images_of_which_some_were_rejected_keep_it_up_to_date(folder: Path) -> None:
    (folder / "in" / "cat" / "bad.jpg").write_bytes(b"no image")
    made = {}
    for files in ("sharded", "per_image"):
        more = {"files": files, "max_rejected": "100%", "output": folder / files}
        made[files] = {**more, "num_shards": 2 if files == "sharded" else None}
        assert convert(images=f"{folder}/in/*/*.jpg", **made[files]).code == 0
    (folder / "in").rename(folder / "two")
    images = f"{folder}/two/*/*.jpg"
    check_ended(convert(images=images, **made["sharded"]), 0, "up to date")
    # What each file would hold is not compared.
    said = f"; it was made of files in '{folder}/in'). Use --overwrite"
    check_ended(convert(images=images, **made["per_image"]), 2, OTHER_INPUTS, said)


def test_overwrite_replaces_the_dataset_and_removes_what_is_stale(
    dataset: Dataset, folder: Path, flags: dict[str, Any]
) -> None:
    draw(folder / "in" / "wolf" / "wolf-0.jpg", seed=99)
    other = {**flags, "num_shards": 3, "splits": "train=0.5,validation=0.5"}
    other |= {"labels": None, "label_from": "directory"}
    assert convert(**{**other, "output": folder / "fresh"}).code == 0
    assert convert(**other).code == 2
    ran = convert(overwrite=True, **other)
    assert (ran.code, ran.err, "up to date" in ran.out) == (0, "", False)
    assert digests(dataset.folder) == digests(folder / "fresh")
    assert not list(dataset.folder.glob("test-*"))
    assert dataset.ledger["records_written"] == 19 and "wolf" in dataset.classes


def test_overwrite_that_is_refused_keeps_the_former_dataset(
    dataset: Dataset, folder: Path, flags: dict[str, Any]
) -> None:
    (folder / "in" / "cat" / "empty.jpg").touch()
    expected = digests(dataset.folder)
    assert convert(overwrite=True, max_rejected=0, **flags).code == 3
    made = digests(dataset.folder)
    assert {name: made[name] for name in expected} == expected
    assert convert(overwrite=True, max_rejected=2, **flags).code == 0
    assert len(dataset.rejected) == 1
    assert sorted(digests(dataset.folder)) == sorted(expected)


# Another run ends while this one starts: what counts is what is there when the folder is ours.


def overtake(patch: pytest.MonkeyPatch, **other: Any) -> None:
    """Lets a whole other run go first, after the flags are checked and before the lock is taken."""
    original = launch.hold_output

    @contextlib.contextmanager
    def held(output: str) -> Iterator[None]:
        patch.setattr(launch, "hold_output", original)
        assert convert(**other).code == 0
        with original(output):
            yield

    patch.setattr(launch, "hold_output", held)


@cases(
    (2, 0, "up to date: {out} holds this dataset already\n"),
    (3, 2, "made with other options: --num_shards is 2, was 3"),
)
def test_another_run_goes_first(
    shards: int, code: int, says: str, photos: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    flags = {"images": f"{photos}/*/*.jpg", "output": tmp_path / "out"}
    overtake(monkeypatch, num_shards=shards, **flags)
    check_ended(convert(num_shards=2, **flags), code, says.format(out=tmp_path / "out"))
    assert len(list((tmp_path / "out").glob("*.tfrecord"))) == shards


def test_without_a_lock_the_job_itself_knows(
    photos: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    """On s3://, for example, another run may end at any moment."""
    flags = {"images": f"{photos}/*/*.jpg", "output": tmp_path / "out", "num_shards": 2}
    build, left = launch.build, {}
    monkeypatch.setattr(launch, "hold_output", lambda _: contextlib.nullcontext())

    def overtaken(*arguments: Any) -> Any:
        monkeypatch.setattr(launch, "build", build)
        assert convert(**flags).code == 0
        left.update(published(Dataset(tmp_path / "out")))
        return build(*arguments)

    monkeypatch.setattr(launch, "build", overtaken)
    check_ended(convert(**flags), 0, "up to date: ")
    assert published(Dataset(tmp_path / "out")) == left
