"""Label files that a path names, with their rows."""

from __future__ import annotations

from pathlib import Path

from transforms.input_readers import open_labels
from transforms.labels import label_tables
from transforms.labels.annotations import YOLO_COLUMNS
from transforms.labels.label_rows import YOLO, Column, CsvColumns, LabelRow

COLUMNS = CsvColumns(Column(0, "image"), Column(1, "class"), len(YOLO_COLUMNS), format=YOLO)


def test_files_of_a_glob(tmp_path: Path) -> None:
    """The list of the classes is no label file, and one that is too large is a wrong box."""
    (tmp_path / "a.txt").write_text("3 .5 .5 1 1\n")
    (tmp_path / "b.txt").write_bytes(bytes(label_tables.MAX_ANNOTATION + 1))
    (tmp_path / "classes.txt").write_text("cat\n")
    columns = COLUMNS._replace(cells=(Column(2, YOLO_COLUMNS[2]),))
    found = {path: list(rows) for path, rows in open_labels(f"{tmp_path}/*.txt", columns, "utf-8")}
    assert found == {
        f"{tmp_path}/a.txt": [LabelRow("a", "3", 1, cells=(".5",))],
        f"{tmp_path}/b.txt": [
            LabelRow("b", "0", 1, cells=("the file has more than 4194304 bytes",))
        ],
    }
