"""Splits and shards of whole datasets: what decides them, what is warned of, and what stays."""

import json
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import draw
from tests.marks import cases
from tests.pipeline.commands import Dataset, check_sound, convert, make_dataset, plan
from tests.pipeline.decided_table import block, warnings
from tests.pipeline.reading import filenames, split_of

pytestmark = pytest.mark.slow

THIRDS = "train=0.6,validation=0.2,test=0.2"
HALVES = "train=0.5,test=0.5"
ALL = {"max_rejected": "100%"}


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


def test_stratified_splits_have_the_shares_of_each_class(photos: Path, tmp_path: Path) -> None:
    stratified = {"splits": "train=0.5,validation=0.25,test=0.25", "stratify": "label"}
    flags: dict[str, Any] = {"images": f"{photos}/*/*.jpg", "label_from": "directory", **stratified}
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
    assert other.code == 2
    assert "--stratify is not given, was label" in other.error()


def given(folder: Path, names: str, glob: str, rows: str = "", **flags: Any) -> dict[str, Any]:
    """Draws images, writes rows, and gives the flags for them."""
    for at, name in enumerate(names.split()):
        draw(folder / "in" / f"{name}.jpg", seed=at)
    (folder / "rows.csv").write_text(rows)
    labels = {"labels": folder / "rows.csv"} if rows else {}
    return {"images": f"{folder}/in/{glob}", "output": folder / "out", **labels, **flags}


def made(flags: dict[str, Any]) -> Dataset:
    """The dataset of these flags."""
    flags = {**flags}
    return make_dataset(flags.pop("output"), **flags)


def reasons(dataset: Dataset) -> dict[str, str]:
    """The reason of each rejected image, by its key."""
    return {line["key"]: line["reason"] for line in dataset.rejected}


def test_a_group_stays_together_and_the_order_is_the_keys(tmp_path: Path) -> None:
    stems = [str(number) for number in range(24)]
    rows = "\n".join(["id,label,patient", *(f"{stem},a,p{int(stem) % 8}" for stem in stems)])
    flags = given(tmp_path, " ".join(stems), "*.jpg", rows)
    grouped = made({**flags, "splits": HALVES, "group_by": "patient"})
    splits = split_of(grouped)
    assert set(splits.values()) == {"train", "test"}
    of_patients = [{splits[stem] for stem in stems if int(stem) % 8 == n} for n in range(8)]
    assert [len(found) for found in of_patients] == [1] * 8
    whole = filenames(made({**flags, "output": tmp_path / "whole"}))
    for split in ("train", "test"):
        assert filenames(grouped, split) == [n for n in whole if splits[Path(n).stem] == split]


def test_a_column_says_which_split(tmp_path: Path) -> None:
    said = ["TEST", "Train", "validation", "holdout", "bonus"]
    rows = "\n".join(["id,label,set", *(f"{at},a,{split}" for at, split in enumerate(said))])
    dataset = made(given(tmp_path, "0 1 2 3 4", "*.jpg", rows, split_by="column:set"))
    folded = ["test", "train", "validation", "holdout", "bonus"]
    assert split_of(dataset) == {str(at): split for at, split in enumerate(folded)}
    in_order = ["train", "validation", "test", "bonus", "holdout"]
    assert list(dataset.manifest["splits"]) == in_order
    assert dataset.shards() == sorted(f"{s}-00000-of-00001.tfrecord" for s in in_order)
    check_sound(dataset.folder)


def test_names_that_differ_in_case_only_end_the_run(tmp_path: Path) -> None:
    rows = "id,label,set\n0,a,dev\n1,a,Dev"
    ran = convert(**given(tmp_path, "0 1", "*.jpg", rows, split_by="column:set"))
    assert ran.code == 2
    assert "'Dev' and 'dev' differ in upper and lower case only" in ran.error()


@cases(
    ("id,label,set,who\n0,a,,\n1,a,,\n2,a,,", {"split_by": "column:set", "group_by": "who"},
     dict.fromkeys("012", "no_group")),
    ("id,label,who\n0,a,p\n1,a, \n2,a", {"group_by": "who"}, {"1": "no_group", "2": "no_group"}),
)  # fmt: skip
def test_an_image_without_a_place_is_rejected(
    rows: str, flags: dict[str, str], rejected: dict[str, str], tmp_path: Path
) -> None:
    dataset = made(given(tmp_path, "0 1 2", "*.jpg", rows, **flags, **ALL))
    assert reasons(dataset) == rejected
    count = len(rejected)
    counts = {"images_rejected": count, "rows_rejected": count, "records_written": 3 - count}
    counts |= {"images_matched": 3, "rows_read": 3, "rows_used": 3 - count}
    assert dataset.ledger == {name: number for name, number in counts.items() if number}
    # Without images, there is no split.
    assert list(dataset.manifest["splits"]) == ["train"][: 3 - count]
    assert len(dataset.shards()) == min(1, 3 - count)
    check_sound(dataset.folder)


def test_a_class_all_of_whose_images_are_rejected(tmp_path: Path) -> None:
    flags = given(tmp_path, "cat/1 cat/2 dog/3", "*/*.jpg", max_rejected=1)
    (tmp_path / "in" / "dog" / "3.jpg").write_bytes(b"cut")
    (tmp_path / "names.txt").write_text("cat\ndog\nfox\n")
    lost = "keeps no image ('dog'): rejected.jsonl says why each one was left out"
    ran = convert(**flags)
    assert (ran.code, warnings(ran)) == (0, [f"1 of 2 classes {lost}"])
    assert convert(**flags, strict=True).code == 2
    # A name that no image has is no loss.
    named = {**flags, "output": tmp_path / "named", "class_names": tmp_path / "names.txt"}
    assert warnings(convert(**named)) == warnings(ran)


SETS = "id,label,set\n1,a,train\n2,b,\n3,a,Test\n"
FOLDERS = "train/cat/1 train/dog/2 val/cat/3 test/dog/4"


@cases(
    (FOLDERS, "*/*/*.jpg", "", "the folders test, train, val look like splits and are not used",
     "--split_by folder uses them", {"split_by": "folder"}),
    ("train/1 test/2", "*/*.jpg", "", "the folders test, train",
     "--split_by folder --label_from none uses them", {"split_by": "folder", "label_from": "none"}),
    ("1 2 3", "*.jpg", SETS, "the column 'set' looks like splits (test, train) and is not used",
     "--split_by column:set uses it", {"split_by": "column:set"}),
)  # fmt: skip
def test_splits_that_no_flag_uses(
    names: str, glob: str, rows: str, says: str, advice: str, uses: dict[str, str], tmp_path: Path
) -> None:
    flags = given(tmp_path, names, glob, rows)
    (text,) = warnings(plan(**flags))
    assert text.startswith(says)
    assert advice in text
    used = plan(**flags, **uses)
    assert used.code == 0, used.err
    assert not [text for text in warnings(used) if "not used" in text]
    if "label_from" in uses:
        assert "column" not in used.out and used.out.count(" 1       1 ") == 2
    else:
        assert warnings(plan(**flags, split_by="hash")) == []


def test_a_column_of_rows_without_images(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("age,split\n1,train\n2,test\n")
    flags = {"labels": tmp_path / "t.csv", "layout": "rows", "output": tmp_path / "out"}
    (text,) = warnings(plan(**flags))
    assert text.startswith("the column 'split' looks like splits")
    assert plan(**flags, strict=True).code == 2
