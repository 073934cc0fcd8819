"""Keys through the whole job: names of any alphabet and Unicode form."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest

from tests.conftest import draw
from tests.marks import rest_slow
from tests.pipeline.commands import check_sound, convert, make_dataset
from tests.pipeline.label_rows import convert_rows
from tests.pipeline.reading import LANDMARK, read

# Keys through the whole job: how rows name images, and images that share a name.


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


# A landmark competition as it is passed on: folders of a Mac, and a spreadsheet of Windows.

LANDMARKS = {"서울특별시": ["경복궁", "한강"], "강원도": ["설악산"], "제주도": ["성산일출봉"]}
LANDMARK_IDS = {"경복궁": 12, "한강": 7, "설악산": 990, "성산일출봉": 3}


@pytest.fixture
def landmarks(tmp_path: Path) -> dict[str, tuple[int, bytes]]:
    """Draws `city/landmark/photo`; landmark id and bytes of each photo by its name, composed."""
    drawn: dict[str, tuple[int, bytes]] = {}
    for city, names in LANDMARKS.items():
        for name in names:
            for number in range(3):
                key = f"{name}_{number:03}"
                path = unicodedata.normalize("NFD", f"train/{city}/{name}/{key}.JPG")
                assert path != f"train/{city}/{name}/{key}.JPG"
                draw(tmp_path / path, seed=len(drawn))
                drawn[key] = LANDMARK_IDS[name], (tmp_path / path).read_bytes()
    rows = [f"{key},{landmark},{key[:-4]}" for key, (landmark, _) in drawn.items()]
    text = "\r\n".join(["id,landmark_id,landmark_name", *rows])
    (tmp_path / "train.csv").write_bytes(text.encode("cp949"))
    return drawn


def test_korean_landmarks(landmarks: dict[str, tuple[int, bytes]], tmp_path: Path) -> None:
    dataset = make_dataset(
        tmp_path / "out",
        images=f"{tmp_path}/train/**/*.JPG",
        labels=tmp_path / "train.csv",
        csv_encoding="cp949",
        layout="landmark",
        splits="train=0.5,validation=0.5",
        max_rejected=0,
    )
    assert dataset.rejected == []
    assert dataset.ledger == {
        "images_matched": 12, "records_written": 12, "rows_read": 12, "rows_used": 12,
    }  # fmt: skip
    found = {
        record["id"].decode(): (int(record["landmark_id"]), record["image_raw"])
        for record in read(dataset, LANDMARK)
    }
    assert found == landmarks
    assert dataset.classes == ["3", "7", "12", "990"]
    check_sound(dataset.folder)


@pytest.mark.parametrize("encoding", [None, "utf-16", "ascii"])
def test_korean_in_another_encoding_is_reported_before_the_job(
    landmarks: dict[str, tuple[int, bytes]], tmp_path: Path, encoding: str | None
) -> None:
    assert landmarks
    ran = convert(
        images=f"{tmp_path}/train/**/*.JPG",
        labels=tmp_path / "train.csv",
        csv_encoding=encoding,
        layout="landmark",
        output=tmp_path / "out",
    )
    assert ran.code == 2
    assert "train.csv" in ran.error() and "--csv_encoding" in ran.error()
    assert not (tmp_path / "out").exists()
