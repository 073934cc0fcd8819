"""Warnings are printed, stored and shown; `--strict` ends the run; flags have an effect."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.conftest import draw
from tests.marks import rest_slow
from tests.pipeline.commands import Dataset, Ran, convert, plan

# The groups of the images `0.jpg` ...; with seed 0, none of them is in train=0.6.
FOUR = {"splits": "train=0.6,test=0.4", "group_by": "who", "label_column": "label"}


def warnings(ran: Ran) -> list[str]:
    return [line[9:] for line in ran.out.splitlines() if line.startswith("warning  ")]


@pytest.fixture
def grouped(tmp_path: Path) -> dict[str, Any]:
    """Twenty images of four groups, all of which the seed puts into one split."""
    for number in range(20):
        draw(tmp_path / "in" / f"{number}.jpg", seed=number)
    rows = [f"{number}.jpg,{'ab'[number % 2]},p{number % 4}" for number in range(20)]
    (tmp_path / "rows.csv").write_text("\n".join(["id,label,who", *rows]))
    flags = {"images": f"{tmp_path}/in/*.jpg", "labels": tmp_path / "rows.csv", **FOUR}
    return {**flags, "output": tmp_path / "out"}


def seed_with_an_empty_split(flags: dict[str, Any]) -> int:
    for seed in range(100):
        if "is empty" in plan(**flags, seed=seed).out:
            return seed
    raise AssertionError("no seed empties a split of four groups")


@pytest.mark.slow
def test_an_empty_split_is_a_warning_everywhere(grouped: dict[str, Any], tmp_path: Path) -> None:
    seed = seed_with_an_empty_split(grouped)
    planned = plan(**grouped, seed=seed)
    ran = convert(**grouped, seed=seed)
    assert (planned.code, ran.code) == (0, 0)
    (empty,) = [text for text in warnings(ran) if "is empty" in text]
    assert "of 20 images; --group_by who keeps groups whole" in empty
    assert warnings(planned) == warnings(ran)
    dataset = Dataset(tmp_path / "out")
    assert [each["text"] for each in dataset.manifest["warnings"]] == warnings(ran)
    assert "is empty, of 20 images" in (dataset.folder / "report.html").read_text()


@pytest.mark.slow
def test_strict_publishes_nothing_and_goes_on_without(grouped: dict[str, Any]) -> None:
    seed = seed_with_an_empty_split(grouped)
    strict = {**grouped, "seed": seed, "strict": True}
    out = grouped["output"]
    assert plan(**strict).code == 2
    ran = convert(**strict)
    assert ran.code == 2 and "--strict: the split " in ran.error()
    assert "nothing published" in ran.error() and not (out / "manifest.json").exists()
    assert convert(**grouped, seed=seed).code == 0
    # A dataset published without --strict still has its warnings.
    ran = convert(**strict)
    assert ran.code == 2 and "is empty" in ran.error()


def test_a_class_all_of_whose_images_are_rejected(tmp_path: Path) -> None:
    for at, name in enumerate(["cat/1", "cat/2", "dog/3"]):
        draw(tmp_path / "in" / f"{name}.jpg", seed=at)
    (tmp_path / "in" / "dog" / "3.jpg").write_bytes(b"cut")
    (tmp_path / "names.txt").write_text("cat\ndog\nfox\n")
    flags = {"images": f"{tmp_path}/in/*/*.jpg", "output": tmp_path / "out", "max_rejected": 1}
    lost = "keeps no image ('dog'): rejected.jsonl says why each one was left out"
    ran = convert(**flags)
    assert (ran.code, warnings(ran)) == (0, [f"1 of 2 classes {lost}"])
    assert convert(**flags, strict=True).code == 2
    # A name that no image has is no loss.
    flags["output"] = tmp_path / "named"
    assert warnings(convert(**flags, class_names=tmp_path / "names.txt")) == warnings(ran)


@pytest.mark.slow
def test_strict_accepts_a_dataset_without_warnings(photos: Path, tmp_path: Path) -> None:
    flags = {"images": f"{photos}/*/*.jpg", "output": tmp_path / "out", "strict": True}
    assert plan(**flags).code == 0
    assert warnings(convert(**flags)) == []


class TestSplitsThatNoFlagUses:
    @pytest.fixture
    def folders(self, tmp_path: Path) -> str:
        for at, name in enumerate(["train/cat/1", "train/dog/2", "val/cat/3", "test/dog/4"]):
            draw(tmp_path / "in" / f"{name}.jpg", seed=at)
        return f"{tmp_path}/in/*/*/*.jpg"

    def test_folders_are_named_with_the_flag(self, folders: str, tmp_path: Path) -> None:
        ran = plan(images=folders, output=tmp_path / "out")
        (text,) = warnings(ran)
        assert text.startswith("the folders test, train, val look like splits and are not used")
        assert "--split_from directory uses them" in text
        ran = plan(images=folders, output=tmp_path / "out", split_from="directory")
        assert ran.code == 0 and not [w for w in warnings(ran) if "not used" in w]
        assert warnings(plan(images=folders, output=tmp_path / "out", split_from="hash")) == []

    @pytest.mark.slow
    def test_folders_taken_for_classes(self, tmp_path: Path) -> None:
        for at, name in enumerate(["train/1", "test/2"]):
            draw(tmp_path / "in" / f"{name}.jpg", seed=at)
        flags = {"images": f"{tmp_path}/in/*/*.jpg", "output": tmp_path / "out"}
        (text,) = warnings(plan(**flags))
        assert "--split_from directory --label_from none uses them" in text
        ran = plan(**flags, split_from="directory", label_from="none")
        assert ran.code == 0 and "column" not in ran.out and ran.out.count(" 1       1 ") == 2

    def test_a_column_is_named_with_the_flag(self, tmp_path: Path) -> None:
        flags = self.rows(tmp_path, "id,label,set\n1,a,train\n2,b,\n3,a,Test\n")
        (text,) = warnings(plan(**flags))
        assert text.startswith("the column 'set' looks like splits (test, train) and is not used")
        assert "--split_column 'set' uses it" in text
        used = plan(**flags, split_column="set")
        assert not [text for text in warnings(used) if "not used" in text]
        assert warnings(plan(**flags, split_from="hash")) == []

    def test_a_column_of_rows_without_images(self, tmp_path: Path) -> None:
        (tmp_path / "t.csv").write_text("age,split\n1,train\n2,test\n")
        flags = {"labels": tmp_path / "t.csv", "layout": "rows", "output": tmp_path / "out"}
        (text,) = warnings(plan(**flags))
        assert text.startswith("the column 'split' looks like splits")
        assert plan(**flags, strict=True).code == 2

    def test_strict_ends_before_the_job(self, folders: str, tmp_path: Path, no_run: None) -> None:
        ran = convert(images=folders, output=tmp_path / "out", strict=True)
        assert ran.code == 2 and "--strict: the folders test, train, val" in ran.error()

    @staticmethod
    def rows(folder: Path, text: str) -> dict[str, Any]:
        for number in range(1, 4):
            draw(folder / "in" / f"{number}.jpg", seed=number)
        (folder / "rows.csv").write_text(text)
        return {
            "images": f"{folder}/in/*.jpg",
            "labels": folder / "rows.csv",
            "output": folder / "out",
        }


class TestSharesThatDecideNothing:
    """`--splits` with another source of splits."""

    SHARES = "train=0.5,test=0.5"

    @pytest.mark.usefixtures("no_run")
    def test_folders_decide(self, tmp_path: Path) -> None:
        for at, name in enumerate(["train/cat/1", "test/cat/2"]):
            draw(tmp_path / "in" / f"{name}.jpg", seed=at)
        flags = {"images": f"{tmp_path}/in/*/*/*.jpg", "split_from": "directory"}
        flags["label_from"] = "directory"
        ran = convert(**flags, output=tmp_path / "out", splits=self.SHARES)
        assert ran.code == 2
        assert "--splits cannot be used with --split_from directory" in ran.error()

    def test_a_folder_that_leaves_it_open(self, tmp_path: Path) -> None:
        for at, name in enumerate(["train/cat/1", "unassigned/cat/2"]):
            draw(tmp_path / "in" / f"{name}.jpg", seed=at)
        flags = {"images": f"{tmp_path}/in/*/*/*.jpg", "split_from": "directory"}
        flags["label_from"] = "directory"
        assert plan(**flags, output=tmp_path / "out", splits=self.SHARES).code == 0

    @pytest.mark.parametrize(
        ("flags", "says"),
        rest_slow(
            [
                ({}, "add --split_from hash to ignore the column"),
                ({"split_column": "split"}, "leave out --splits, or --split_column"),
            ]
        ),
    )
    def test_a_column_decides(self, tmp_path: Path, flags: dict[str, str], says: str) -> None:
        for number in (1, 2):
            draw(tmp_path / f"{number}.jpg", seed=number)
        (tmp_path / "rows.csv").write_text("image,label,split\n1.jpg,a,train\n2.jpg,b,test\n")
        right = {"labels": tmp_path / "rows.csv", "output": tmp_path / "out"}
        ran = plan(**right, **flags, splits=self.SHARES)
        assert ran.code == 2 and says in ran.error()
        assert "--splits cannot be used with the column 'split'" in ran.error()
        assert plan(**right, splits=self.SHARES, split_from="hash").code == 0
        (tmp_path / "rows.csv").write_text("image,label,split\n1.jpg,a,train\n2.jpg,b,\n")
        assert plan(**right, **flags, splits=self.SHARES).code == 0
