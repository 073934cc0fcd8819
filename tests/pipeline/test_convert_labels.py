"""Label files through the whole job: how they are written, what joins, what contradicts itself."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pipeline.resolve.label_flags
from tests.conftest import draw
from tests.marks import rest_slow
from tests.pipeline.commands import (
    convert,
    digests,
    make_dataset,
    plan,
)
from tests.pipeline.label_rows import convert_rows, csv_text
from tests.pipeline.reading import labels

KOREAN = {"cat": "고양이", "dog": "개", "fox": "여우"}


class Variant:
    """One way to write the labels of the photos: files, flags and what each label becomes."""

    def __init__(
        self,
        write: Callable[[dict[str, str]], dict[str, bytes]],
        *,
        says: Callable[[str], str] = str,
        **flags: Any,
    ) -> None:
        self.write = write
        self.says = says
        self.flags = flags


def _plain(stems: dict[str, str]) -> str:
    return csv_text(stems.items())


def _quoted(stems: dict[str, str]) -> dict[str, bytes]:
    rows = [(stem, f'a "{label}",\nbig', "x\r\ny") for stem, label in stems.items()]
    return {"labels.csv": csv_text(rows, ("id", "label", "note")).encode()}


def _several(stems: dict[str, str]) -> dict[str, bytes]:
    rows = list(stems.items())
    return {
        "part-1.csv": csv_text(rows[:7]).encode(),
        "part-2.csv": csv_text([(7, b, a) for a, b in rows[7:12]], ("n", "label", "id")).encode(),
        "part-3.csv.gz": gzip.compress(csv_text(rows[12:]).encode(), mtime=0),
    }


VARIANTS = {
    "byte_order_mark": Variant(lambda s: {"labels.csv": b"\xef\xbb\xbf" + _plain(s).encode()}),
    "crlf": Variant(lambda s: {"labels.csv": _plain(s).replace("\n", "\r\n").encode()}),
    "cp949": Variant(
        lambda s: {"labels.csv": csv_text((k, KOREAN[v]) for k, v in s.items()).encode("cp949")},
        says=KOREAN.__getitem__,
        csv_encoding="cp949",
    ),
    "utf_16": Variant(lambda s: {"labels.csv": _plain(s).encode("utf-16")}, csv_encoding="utf-16"),
    "gzip": Variant(lambda s: {"labels.csv.gz": gzip.compress(_plain(s).encode())}),
    "quotes_with_newlines": Variant(_quoted, says=lambda label: f'a "{label}", big'),
    "several_files": Variant(_several, labels="part-*.csv*"),
    "no_header": Variant(lambda s: {"labels.csv": csv_text(s.items(), ()).encode()}),
    "no_header_numbered": Variant(
        lambda s: {"labels.csv": csv_text(((v, "x", k) for k, v in s.items()), ()).encode()},
        label_key=3,
        label_column=1,
    ),
    "named_columns": Variant(
        lambda s: {
            "labels.csv": csv_text(
                ((v, "x", k) for k, v in s.items()), ("kind", "id", "file")
            ).encode()
        },
        label_key="file",
        label_column="kind",
    ),
    "semicolons": Variant(lambda s: {"labels.csv": _plain(s).replace(",", ";").encode()}),
    "blank_lines_and_spaces": Variant(
        lambda s: {"labels.csv": _plain(s).replace("\n", " \n\n").encode()}
    ),
    "file_names_as_keys": Variant(
        lambda s: {"labels.csv": csv_text((f"{k}.jpg", v) for k, v in s.items()).encode()}
    ),
}


@pytest.mark.parametrize("name", rest_slow(VARIANTS))
def test_labels_join_however_they_are_written(
    name: str, photos: Path, stems: dict[str, str], tmp_path: Path
) -> None:
    variant = VARIANTS[name]
    files = variant.write(stems)
    for file, content in files.items():
        (tmp_path / file).write_bytes(content)
    flags = {"labels": next(iter(files)), **variant.flags}
    dataset = make_dataset(
        tmp_path / "out",
        images=f"{photos}/*/*.jpg",
        **{**flags, "labels": tmp_path / str(flags["labels"])},
    )
    expected = {stem: variant.says(label) for stem, label in stems.items()}
    assert labels(dataset) == expected
    assert dataset.classes == sorted(set(expected.values()))
    assert dataset.ledger == {
        "images_matched": 18,
        "records_written": 18,
        "rows_read": 18,
        "rows_used": 18,
    }


class TestClasses:
    def test_labels_of_folders_that_are_nearly_all_integers_are_refused(
        self, tmp_path: Path, no_run: None
    ) -> None:
        for name in ("0", "1", "2", "3", "misc"):
            draw(tmp_path / "in" / name / "1.jpg")
        ran = convert(images=f"{tmp_path}/in/*/*.jpg", output=tmp_path / "out")
        assert ran.code == 2
        assert "4 of 5 labels are integers, but 'misc' (misc/1.jpg) is not" in ran.error()

    @pytest.mark.slow
    def test_a_label_that_contradicts_the_others_behind_the_first_rows(
        self,
        photos: Path,
        stems: dict[str, str],
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(pipeline.resolve.label_flags, "SAMPLE_ROWS", 3)
        rows = [(stem, at) for at, stem in enumerate(stems)]
        rows[-1] = (rows[-1][0], "x")
        (tmp_path / "labels.csv").write_text(csv_text(rows), "utf-8")
        flags = {"images": f"{photos}/*/*.jpg", "labels": tmp_path / "labels.csv"}
        for run in (plan, convert):
            ran = run(**flags, output=tmp_path / "out")
            assert ran.code == 2
            assert "17 of 18 labels are integers, but 'x'" in ran.error()
            assert f"{tmp_path}/labels.csv:19" in ran.error()
        assert digests(tmp_path / "out") == {}


class TestRows:
    def test_what_has_no_partner_is_listed_on_both_sides(
        self, photos: Path, stems: dict[str, str], tmp_path: Path
    ) -> None:
        rows = [*list(stems.items())[1:], ("gone", "cat"), ("", "cat"), ("cat-1", "")]
        dataset = convert_rows(photos, tmp_path, rows)
        assert [(line["subject"], line["reason"], line["key"]) for line in dataset.rejected] == [
            ("image", "no_label", "cat-0"),
            ("row", "malformed_row", ""),
            ("row", "malformed_row", "cat-1"),
            ("row", "row_without_image", "gone"),
        ]
        assert dataset.ledger == {
            "images_matched": 18,
            "records_written": 17,
            "images_rejected": 1,
            "rows_read": 20,
            "rows_used": 17,
            "rows_unmatched": 1,
            "rows_rejected": 2,
        }
        places = [line["path"] for line in dataset.rejected if line["subject"] == "row"]
        assert places == [f"{tmp_path}/labels.csv:{line}" for line in (20, 21, 19)]

    def test_a_file_that_stops_being_csv_fails_in_one_line(
        self,
        photos: Path,
        stems: dict[str, str],
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        # Behind what is read before the job.
        monkeypatch.setattr(pipeline.resolve.label_flags, "SAMPLE_ROWS", 100)
        rows = [*stems.items(), *((f"gone-{n:090d}", "cat") for n in range(2000))]
        text = csv_text(rows).encode() + "한강,cat\n".encode("cp949")
        (tmp_path / "labels.csv").write_bytes(text)
        ran = convert(
            images=f"{photos}/*/*.jpg", labels=tmp_path / "labels.csv", output=tmp_path / "out"
        )
        assert ran.code == 2
        assert "labels.csv is not utf-8 at line 2020: try --csv_encoding cp949" in ran.error()
        assert "nothing published" in ran.error()
        assert digests(tmp_path / "out") == {}
