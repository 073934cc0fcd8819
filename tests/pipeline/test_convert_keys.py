"""Keys through the whole job: how rows name images, and images that share a name."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest

from tests.conftest import draw
from tests.marks import rest_slow
from tests.pipeline.commands import make_dataset
from tests.pipeline.label_rows import convert_rows
from tests.pipeline.reading import LANDMARK, labels, read


class TestKeys:
    NFC = unicodedata.normalize("NFC", "한강 é")
    NFD = unicodedata.normalize("NFD", "한강 é")

    @pytest.mark.parametrize(
        ("kind", "cell", "file_form"),
        rest_slow(
            [
                ("stem", "{name}", "NFD"),
                ("stem", "{name}.jpg", "NFC"),
                ("name", "{name}.jpg", "NFD"),
                ("path", "서울/{name}.jpg", "NFD"),
                ("path", "./서울/{name}.jpg", "NFC"),
                ("uri", "{folder}/in/서울/{name}.jpg", "NFD"),
            ],
            1,
        ),
    )
    def test_names_join_in_either_unicode_form(
        self, kind: str, cell: str, file_form: str, tmp_path: Path
    ) -> None:
        names = {"NFC": self.NFC, "NFD": self.NFD}
        file_name = names.pop(file_form)
        (row_name,) = names.values()
        draw(tmp_path / "in" / "서울" / f"{file_name}.jpg")
        key = cell.format(name=row_name, folder=tmp_path)
        dataset = convert_rows(
            tmp_path / "in", tmp_path, [(key, "river")], key=kind, layout="landmark"
        )
        (record,) = read(dataset, LANDMARK)
        expected = {
            "stem": self.NFC,
            "name": f"{self.NFC}.jpg",
            "path": unicodedata.normalize("NFC", f"서울/{self.NFC}.jpg"),
            "uri": unicodedata.normalize("NFC", f"{tmp_path}/in/서울/{self.NFC}.jpg"),
        }
        assert record["id"].decode() == expected[kind]
        assert dataset.rejected == []

    @pytest.mark.slow
    def test_one_image_of_overlapping_globs_with_two_classes(self, tmp_path: Path) -> None:
        for at, name in enumerate(["1.jpg", "cat/2.jpg"]):
            draw(tmp_path / "photos" / name, seed=at)
        dataset = make_dataset(
            tmp_path / "out",
            images=[f"{tmp_path}/photos/*.jpg", f"{tmp_path}/photos/**/*.jpg"],
            label_from="directory",
            max_rejected="1",
        )
        [rejected] = dataset.rejected
        assert rejected["reason"] == "ambiguous_label"
        assert rejected["path"] == f"{tmp_path}/photos/1.jpg"
        assert "several labels: '', 'photos'" in rejected["detail"]
        assert dataset.ledger == {
            "images_matched": 2,
            "records_written": 1,
            "images_rejected": 1,
        }

    @pytest.mark.slow
    def test_two_images_with_one_stem_are_both_rejected_but_have_two_paths(
        self, tmp_path: Path
    ) -> None:
        for at, name in enumerate(["a/1.jpg", "b/1.jpg", "b/2.jpg"]):
            draw(tmp_path / "in" / name, seed=at)
        by_stem = tmp_path / "stem"
        by_stem.mkdir()
        dataset = convert_rows(tmp_path / "in", by_stem, [("1", "x"), ("2", "y")])
        assert labels(dataset) == {"2": "y"}
        assert [(line["reason"], line["key"]) for line in dataset.rejected] == [
            ("duplicate_key", "1")
        ] * 2
        for line in dataset.rejected:
            assert "a/1.jpg" in line["detail"] and "b/1.jpg" in line["detail"]
        assert {line["path"] for line in dataset.rejected} == {
            f"{tmp_path}/in/a/1.jpg",
            f"{tmp_path}/in/b/1.jpg",
        }
        assert dataset.ledger == {
            "images_matched": 3,
            "records_written": 1,
            "images_rejected": 2,
            "rows_read": 2,
            "rows_used": 1,
            "rows_rejected": 1,
        }
        by_path = tmp_path / "path"
        by_path.mkdir()
        rows = [("a/1.jpg", "x"), ("b/1.jpg", "y"), ("b/2.jpg", "y")]
        dataset = convert_rows(tmp_path / "in", by_path, rows, key="path", layout="landmark")
        pairs = {r["id"].decode(): r["landmark_id"] for r in read(dataset, LANDMARK)}
        assert pairs == {"a/1.jpg": 0, "b/1.jpg": 1, "b/2.jpg": 1}
