"""Keys through the whole job: how rows name images, and images that share a name."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest

from tests.conftest import draw
from tests.marks import rest_slow
from tests.pipeline.label_rows import convert_rows
from tests.pipeline.reading import LANDMARK, read


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
