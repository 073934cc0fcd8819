"""Label files through the whole job: how they are written, what joins, what contradicts itself."""

import gzip
import unicodedata
from pathlib import Path
from typing import Any

import pytest

import pipeline.resolve.label_flags
from tests.conftest import draw
from tests.pipeline.commands import check_sound, convert, digests, make_dataset
from tests.pipeline.reading import LANDMARK, labels, read

pytestmark = pytest.mark.slow

ROWS = [f"{name}-{number},{name}" for name in ("cat", "dog", "fox") for number in range(6)]
LABELS = dict(row.split(",") for row in ROWS)


def csv_text(rows: list[str], header: str = "id,label") -> str:
    return "\n".join([header, *rows, ""])


def test_labels_of_several_files_join(photos: Path, tmp_path: Path) -> None:
    """With other columns and line breaks in cells, and compressed."""
    swapped = [",".join(["7", *reversed(row.split(","))]) for row in ROWS[7:11]]
    swapped.append('"a ""big"",\r\none",fox,dog-5')
    (tmp_path / "part-1.csv").write_text(csv_text(ROWS[:7]))
    (tmp_path / "part-2.csv").write_bytes(csv_text(swapped, "n,label,id").encode())
    (tmp_path / "part-3.csv.gz").write_bytes(gzip.compress(csv_text(ROWS[12:]).encode()))
    flags = {"images": f"{photos}/*/*.jpg", "labels": f"{tmp_path}/part-*.csv*"}
    dataset = make_dataset(tmp_path / "out", **flags)
    assert labels(dataset) == {**LABELS, "dog-5": "fox"}
    assert dataset.classes == ["cat", "dog", "fox"]
    assert dataset.ledger == dict.fromkeys(
        ("images_matched", "records_written", "rows_read", "rows_used"), 18
    )


def test_labels_of_folders_that_are_nearly_all_integers_are_refused(
    tmp_path: Path, no_run: None
) -> None:
    for name in ("0", "1", "2", "3", "misc"):
        draw(tmp_path / "in" / name / "1.jpg")
    ran = convert(images=f"{tmp_path}/in/*/*.jpg", output=tmp_path / "out")
    assert ran.code == 2
    assert "4 of 5 labels are integers, but 'misc' (misc/1.jpg) is not" in ran.error()


def test_what_has_no_partner_is_listed_on_both_sides(photos: Path, tmp_path: Path) -> None:
    csv = tmp_path / "labels.csv"
    csv.write_text(csv_text([*ROWS[1:], "gone,cat", ",cat", "cat-1,"]))
    flags = {"images": f"{photos}/*/*.jpg", "labels": csv, "max_rejected": "100%"}
    dataset = make_dataset(tmp_path / "out", **flags)
    assert [(line["reason"], line["key"], line["path"]) for line in dataset.rejected] == [
        ("no_label", "cat-0", f"{photos}/cat/cat-0.jpg"),
        ("malformed_row", "", f"{csv}:20"),
        ("malformed_row", "cat-1", f"{csv}:21"),
        ("row_without_image", "gone", f"{csv}:19"),
    ]
    assert [line["subject"] for line in dataset.rejected] == ["image", "row", "row", "row"]
    assert dataset.ledger == {
        "images_matched": 18, "records_written": 17, "images_rejected": 1,
        "rows_read": 20, "rows_used": 17, "rows_unmatched": 1, "rows_rejected": 2,
    }  # fmt: skip


def test_a_file_that_stops_being_csv_fails_in_one_line(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Behind what is read before the job.
    monkeypatch.setattr(pipeline.resolve.label_flags, "SAMPLE_ROWS", 100)
    text = csv_text([*ROWS, *(f"gone-{n:090d},cat" for n in range(2000))])
    (tmp_path / "labels.csv").write_bytes(text.encode() + "한강,cat\n".encode("cp949"))
    flags = {"images": f"{photos}/*/*.jpg", "labels": tmp_path / "labels.csv"}
    ran = convert(output=tmp_path / "out", **flags)
    assert ran.code == 2
    assert "labels.csv is not utf-8 at line 2020: try --csv_encoding cp949" in ran.error()
    assert "nothing published" in ran.error()
    assert digests(tmp_path / "out") == {}


# A landmark competition as it is passed on: folders of a Mac, and a spreadsheet of Windows.
LANDMARKS = {
    "서울특별시/경복궁": 12,
    "서울특별시/한강": 7,
    "강원도/설악산": 990,
    "제주도/성산일출봉": 3,
}


@pytest.fixture
def landmarks(tmp_path: Path) -> dict[str, tuple[int, bytes]]:
    """Draws `city/landmark/photo`; landmark id and bytes of each photo by its name, composed."""
    drawn: dict[str, tuple[int, bytes]] = {}
    for place, landmark in LANDMARKS.items():
        for number in range(3):
            key = f"{place.partition('/')[2]}_{number:03}"
            path = unicodedata.normalize("NFD", f"train/{place}/{key}.JPG")
            assert path != f"train/{place}/{key}.JPG"
            draw(tmp_path / path, seed=len(drawn))
            drawn[key] = landmark, (tmp_path / path).read_bytes()
    rows = [f"{key},{landmark},{key[:-4]}" for key, (landmark, _) in drawn.items()]
    text = "\r\n".join(["id,landmark_id,landmark_name", *rows])
    (tmp_path / "train.csv").write_bytes(text.encode("cp949"))
    return drawn


def of_landmarks(folder: Path, **flags: Any) -> dict[str, Any]:
    given = {"images": f"{folder}/train/**/*.JPG", "labels": folder / "train.csv"}
    return {**given, "layout": "landmark", **flags}


def test_korean_landmarks(landmarks: dict[str, tuple[int, bytes]], tmp_path: Path) -> None:
    flags = of_landmarks(tmp_path, csv_encoding="cp949", splits="train=0.5,validation=0.5")
    dataset = make_dataset(tmp_path / "out", max_rejected=0, **flags)
    assert dataset.rejected == []
    assert dataset.ledger == dict.fromkeys(
        ("images_matched", "records_written", "rows_read", "rows_used"), 12
    )
    found = {
        record["id"].decode(): (int(record["landmark_id"]), record["image_raw"])
        for record in read(dataset, LANDMARK)
    }
    assert found == landmarks
    assert dataset.classes == ["3", "7", "12", "990"]
    check_sound(dataset.folder)


@pytest.mark.usefixtures("landmarks")
@pytest.mark.parametrize("encoding", [None, "utf-16", "ascii"])
def test_korean_in_another_encoding_is_reported_before_the_job(
    tmp_path: Path, encoding: str | None
) -> None:
    ran = convert(output=tmp_path / "out", **of_landmarks(tmp_path, csv_encoding=encoding))
    assert ran.code == 2
    assert "train.csv" in ran.error()
    assert "--csv_encoding" in ran.error()
    assert not (tmp_path / "out").exists()
