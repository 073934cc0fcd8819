"""Label files through the whole job: how they are written, what joins, what contradicts itself."""

import gzip
import unicodedata
from pathlib import Path
from typing import Any

import pytest

import pipeline.resolve.label_flags
from tests.conftest import draw
from tests.pipeline.commands import check_sound, convert, digests, make_dataset
from tests.pipeline.label_rows import convert_rows, csv_text
from tests.pipeline.reading import LANDMARK, labels, read

pytestmark = pytest.mark.slow

KOREAN = {"cat": "고양이", "dog": "개", "fox": "여우"}
STEMS = [f"{name}-{number}" for name in KOREAN for number in range(6)]
ROWS = [(stem, stem[:3]) for stem in STEMS]
SWAPPED = [(label, "x", stem) for stem, label in ROWS]
PLAIN = csv_text(ROWS)
QUOTED = [(stem, f'a "{label}",\nbig', "x\r\ny") for stem, label in ROWS]

# Ways to write the labels of the photos: files, and flags.
VARIANTS: dict[str, tuple[dict[str, bytes], dict[str, Any]]] = {
    "cp949": ({"l.csv": csv_text((stem, KOREAN[label]) for stem, label in ROWS).encode("cp949")},
        {"csv_encoding": "cp949"}),
    "quotes_with_newlines": ({"l.csv": csv_text(QUOTED, ("id", "label", "note")).encode()}, {}),
    "several_files": (
        {
            "part-1.csv": csv_text(ROWS[:7]).encode(),
            "part-2.csv": csv_text(
                [(7, b, a) for a, b in ROWS[7:12]], ("n", "label", "id")
            ).encode(),
            "part-3.csv.gz": gzip.compress(csv_text(ROWS[12:]).encode(), mtime=0),
        },
        {"labels": "part-*.csv*"},
    ),
    "no_header_numbered": ({"l.csv": csv_text(SWAPPED, ()).encode()},
        {"label_key": 3, "label_column": 1}),
}  # fmt: skip
SAYS = {"cp949": KOREAN.__getitem__, "quotes_with_newlines": 'a "{}", big'.format}


@pytest.mark.parametrize("name", VARIANTS)
def test_labels_join_however_they_are_written(name: str, photos: Path, tmp_path: Path) -> None:
    files, flags = VARIANTS[name]
    for file, content in files.items():
        (tmp_path / file).write_bytes(content)
    given = {**flags, "labels": tmp_path / flags.get("labels", next(iter(files)))}
    dataset = make_dataset(tmp_path / "out", images=f"{photos}/*/*.jpg", **given)
    expected = {stem: SAYS.get(name, str)(label) for stem, label in ROWS}
    assert labels(dataset) == expected
    assert dataset.classes == sorted(set(expected.values()))
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
    rows = [*ROWS[1:], ("gone", "cat"), ("", "cat"), ("cat-1", "")]
    dataset = convert_rows(photos, tmp_path, rows)
    csv = f"{tmp_path}/labels.csv"
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
    text = csv_text([*ROWS, *((f"gone-{n:090d}", "cat") for n in range(2000))])
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
