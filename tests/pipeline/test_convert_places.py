"""Splits that rows, folders and groups decide, and labels that a regular expression finds."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import draw
from tests.pipeline.commands import Dataset, check_sound, convert, make_dataset
from tests.pipeline.reading import filenames, labels, split_of

HALVES = "train=0.5,test=0.5"
ALL = {"max_rejected": "100%"}


def write_photos(folder: Path, count: int) -> list[str]:
    """Photos named after numbers; gives their stems."""
    for number in range(count):
        draw(folder / "photos" / f"{number}.jpg", seed=number)
    return [str(number) for number in range(count)]


def make(folder: Path, rows: list[str], name: str = "out", **flags: Any) -> Dataset:
    """Converts photos and rows."""
    table = folder / f"{name}.csv"
    table.write_text("\n".join(rows), "utf-8")
    images = f"{folder}/photos/*.jpg"
    return make_dataset(folder / name, images=images, labels=table, **flags)


def reasons(dataset: Dataset) -> dict[str, str]:
    """The reason of each rejected image, by its key."""
    return {line["key"]: line["reason"] for line in dataset.rejected}


class TestGroups:
    def test_a_group_stays_together_and_the_order_is_the_keys(self, tmp_path: Path) -> None:
        stems = write_photos(tmp_path, 24)
        rows = ["id,label,patient", *(f"{stem},a,p{int(stem) % 8}" for stem in stems)]
        grouped = make(tmp_path, rows, splits=HALVES, group_by="patient")
        splits = split_of(grouped)
        assert set(splits.values()) == {"train", "test"}
        for patient in range(8):
            of_patient = {splits[stem] for stem in stems if int(stem) % 8 == patient}
            assert len(of_patient) == 1
        whole = filenames(make(tmp_path, rows, "whole"))
        for split in ("train", "test"):
            assert filenames(grouped, split) == [n for n in whole if splits[Path(n).stem] == split]

    @pytest.mark.slow
    def test_an_image_without_a_group_is_rejected(self, tmp_path: Path) -> None:
        write_photos(tmp_path, 3)
        rows = ["id,label,patient", "0,a,p", "1,a, ", "2,a"]
        dataset = make(tmp_path, rows, group_by="patient", **ALL)
        assert reasons(dataset) == {"1": "no_group", "2": "no_group"}
        assert dataset.ledger == {
            "images_matched": 3,
            "records_written": 1,
            "images_rejected": 2,
            "rows_read": 3,
            "rows_used": 1,
            "rows_rejected": 2,
        }


class TestColumn:
    def test_the_row_says_which_split(self, tmp_path: Path) -> None:
        write_photos(tmp_path, 5)
        said = ["TEST", "Train", "validation", "holdout", "bonus"]
        rows = ["id,label,set", *(f"{at},a,{split}" for at, split in enumerate(said))]
        dataset = make(tmp_path, rows, split_column="set")
        folded = ["test", "train", "validation", "holdout", "bonus"]
        assert split_of(dataset) == {str(at): split for at, split in enumerate(folded)}
        in_order = ["train", "validation", "test", "bonus", "holdout"]
        assert list(dataset.manifest["splits"]) == in_order
        assert dataset.shards() == sorted(f"{s}-00000-of-00001.tfrecord" for s in in_order)
        check_sound(dataset.folder)

    @pytest.mark.slow
    def test_files_of_one_glob_may_order_their_columns_differently(self, tmp_path: Path) -> None:
        write_photos(tmp_path, 2)
        (tmp_path / "part-1.csv").write_text("id,label,set,who\n0,a,dev,p")
        (tmp_path / "part-2.csv").write_text("who,set,label,id\nq,test,a,1")
        flags = {"split_column": "set", "group_by": "who", "labels": f"{tmp_path}/part-*.csv"}
        dataset = make_dataset(tmp_path / "out", images=f"{tmp_path}/photos/*.jpg", **flags)
        assert split_of(dataset) == {"0": "dev", "1": "test"}

    def test_names_that_differ_in_case_only_end_the_run(self, tmp_path: Path) -> None:
        write_photos(tmp_path, 2)
        (tmp_path / "labels.csv").write_text("id,label,set\n0,a,dev\n1,a,Dev")
        ran = convert(
            images=f"{tmp_path}/photos/*.jpg",
            labels=tmp_path / "labels.csv",
            split_column="set",
            output=tmp_path / "out",
        )
        assert ran.code == 2
        assert "'Dev' and 'dev' differ in upper and lower case only" in ran.error()

    def test_a_dataset_of_rejected_images_has_no_split(self, tmp_path: Path) -> None:
        write_photos(tmp_path, 2)
        rows = ["id,label,set,who", "0,a,,", "1,a,,"]
        dataset = make(tmp_path, rows, split_column="set", group_by="who", **ALL)
        assert dataset.manifest["splits"] == {}
        assert dataset.shards() == []
        check_sound(dataset.folder)


class TestFolders:
    @pytest.fixture
    def photos(self, tmp_path: Path) -> Path:
        """train/cat, train/dog, test/cat and holdout/dog."""
        folders = ["train/cat", "train/dog", "TEST/cat", "holdout/dog"]
        for at, folder in enumerate(folders):
            draw(tmp_path / "photos" / folder / f"{at}.jpg", seed=at)
        return tmp_path / "photos"

    @pytest.mark.slow
    def test_an_image_in_no_folder_is_rejected(self, photos: Path, tmp_path: Path) -> None:
        draw(photos / "stray.jpg", seed=9)
        flags = {"split_from": "directory", "label_from": "none", **ALL}
        dataset = make_dataset(tmp_path / "out", images=f"{photos}/**/*.jpg", **flags)
        assert reasons(dataset) == {"stray.jpg": "bad_split"}

    @pytest.mark.slow
    def test_labels_may_come_from_rows(self, photos: Path, tmp_path: Path) -> None:
        (tmp_path / "labels.csv").write_text("id,label\n0,a\n1,b\n2,c\n3,d")
        flags = {"split_from": "directory", "labels": tmp_path / "labels.csv"}
        dataset = make_dataset(tmp_path / "out", images=f"{photos}/*/*/*.jpg", **flags)
        assert labels(dataset) == dict(zip("0123", "abcd", strict=True))
        assert Counter(split_of(dataset).values()) == {"train": 2, "test": 1, "holdout": 1}


class TestRegex:
    def test_it_finds_labels_in_paths(self, tmp_path: Path) -> None:
        for at, name in enumerate(["2023/cat_01.jpg", "2024/dog_02.jpg", "2024/none.jpg"]):
            draw(tmp_path / "photos" / name, seed=at)
        flags = {"label_regex": r"(?P<label>[a-z]+)_\d+\.jpg$", **ALL}
        dataset = make_dataset(tmp_path / "out", images=f"{tmp_path}/photos/**/*.jpg", **flags)
        assert labels(dataset) == {"cat_01": "cat", "dog_02": "dog"}
        assert reasons(dataset) == {"2024/none.jpg": "no_label"}
        assert dataset.rejected[0]["detail"] == "--label_regex finds no label in its path"
