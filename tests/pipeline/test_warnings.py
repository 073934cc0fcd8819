"""Warnings are printed, stored and shown; `--strict` ends the run; flags have an effect."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.conftest import draw
from tests.marks import rest_slow
from tests.pipeline.commands import Ran, convert, plan


def warnings(ran: Ran) -> list[str]:
    return [line[9:] for line in ran.out.splitlines() if line.startswith("warning  ")]


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
