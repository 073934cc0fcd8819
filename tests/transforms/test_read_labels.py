"""Label files and files of keys are read line by line; what cannot be used has its line."""

import gzip
import tempfile
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.marks import cases
from tests.servers.gcs import GcsServer
from tests.transforms.beam import collect
from transforms import input_readers, packing
from transforms.core.messages import LabelsError
from transforms.core.records import Count, JoinSide, TablePart
from transforms.core.rejections import Rejection
from transforms.input_readers import (
    ImageFinder,
    KeyReader,
    RowImages,
    RowReader,
    divide_labels,
    open_labels,
)
from transforms.join_labels import ReadInputs
from transforms.labels import label_tables
from transforms.labels.annotations import YOLO_COLUMNS
from transforms.labels.joins import MAX_LINE
from transforms.labels.label_rows import JSONL, PARQUET, YOLO, Column, CsvColumns, LabelRow
from transforms.labels.label_rules import PathRules
from transforms.labels.vocabulary import LabelCells, merge_cells
from transforms.storage.interface import READERS, Stored
from transforms.storage.local_storage import LocalStorage

COLUMNS = CsvColumns(Column(0, "id"), Column(1, "label"), 2)


def read(*paths: Path, encoding: str = "utf-8", **options: Any) -> dict[str, list[Any]]:
    reader = RowReader(COLUMNS, key="stem", encoding=encoding, **options)
    results = [result for path in paths for result in reader.read(TablePart(str(path)))]
    kinds = {"rejections": Rejection, "counts": Count, "labels": LabelCells}
    found = {name: [r for r in results if isinstance(r, kind)] for name, kind in kinds.items()}
    return {**found, "rows": [r for r in results if not isinstance(r, (*kinds.values(),))]}


def test_rows_of_several_files(tmp_path: Path) -> None:
    one, two = tmp_path / "one.csv", tmp_path / "two.csv.gz"
    one.write_text('id,label\nphotos/1.jpg,cat\n\n2,"a, quoted\nlabel"\n')
    two.write_bytes(gzip.compress("\ufeffid,label\ne\u0301,한강\n".encode()))
    assert read(one, two) == {
        "rows": [
            ("1", JoinSide("", 0, 0, "cat", f"{one}:2")),
            ("2", JoinSide("", 0, 0, "a, quoted label", f"{one}:4")),
            ("\xe9", JoinSide("", 0, 0, "한강", f"{two}:2")),
        ],
        "rejections": [],
        "counts": [Count("rows_read", 2), Count("rows_read", 1)],
        "labels": [
            LabelCells(others=2, odd=((str(one), 2, "cat"), (str(one), 4, "a, quoted label"))),
            LabelCells(others=1, odd=((str(two), 2, "한강"),)),
        ],
    }


def test_rows_that_cannot_be_used(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_text(f"id,label\n1,\n,cat\nfolder/,dog\n2,cat,more\n3,cat\n4,{'long' * 1025}\n")
    found = read(path)
    assert [(key, side.label) for key, side in found["rows"]] == [("1", ""), ("3", "cat")]
    assert sorted((r.subject, r.reason, r.path, r.key) for r in found["rejections"]) == [
        ("row", "malformed_row", f"{path}:3", ""),
        ("row", "malformed_row", f"{path}:4", "folder/"),
        ("row", "malformed_row", f"{path}:5", "2"),
        ("row", "malformed_row", f"{path}:7", "4"),
    ]
    details = [r.detail for r in found["rejections"]]
    assert "'folder/' names no file" in details
    assert details[-1] == "a label or a group of 4100 characters, more than 4096"
    assert found["counts"] == [Count("rows_read", 6)]
    path.write_text(f"id,label\n1,{'cat|' * 2001}\n")
    [rejected] = read(path, separator="|")["rejections"]
    assert rejected.detail == "it names 2001 labels: write rows of at most 2000"


@cases(
    ({}, ["nan", "7.0", "", "NA", "x"], ["", "7.0", "", "", "x"], (1, 1, 3)),
    ({"missing": frozenset()}, ["nan", "", "NA"], ["nan", "", "NA"], (0, 2, 1)),
    # Among several of a cell.
    ({"separator": "|"}, ["cat|nan| |dog", "nan|"], ["cat|dog", ""], (0, 2, 1)),
    ({"separator": "|"}, ["cat|" * 2000], ["cat" + "|cat" * 1999], (0, 2000, 0)),
)
def test_missing_labels_are_empty(
    options: Any, cells: list[str], labels: list[str], counted: tuple[int, ...], tmp_path: Path
) -> None:
    path = tmp_path / "labels.csv"
    path.write_text("id,label\n" + "".join(f"{n},{cell}\n" for n, cell in enumerate(cells)))
    found = read(path, **options)
    assert [side.label for _, side in found["rows"]] == labels
    assert found["labels"][0][:3] == counted
    if not options:
        assert found["labels"][0][3:] == (((str(path), 6, "x"),), ("", "NA", "nan"))


def test_files_of_a_glob(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The list of the classes is no label file, and one that is too large is a wrong box.

    No other thread reads local files: 24,000 small ones took two to three times as long.
    """
    monkeypatch.setattr(ThreadPoolExecutor, "submit", None)
    (tmp_path / "a.txt").write_text("3 .5 .5 1 1\n")
    (tmp_path / "b.txt").write_bytes(bytes(label_tables.MAX_ANNOTATION + 1))
    (tmp_path / "classes.txt").write_text("cat\n")
    named = (Column(0, "image"), Column(1, "class"), len(YOLO_COLUMNS))
    columns = CsvColumns(*named, format=YOLO, cells=(Column(2, YOLO_COLUMNS[2]),))
    glob = TablePart(f"{tmp_path}/*.txt")
    found = {path: list(rows) for path, rows in open_labels(glob, columns, "utf-8")}
    too_large = "the file has more than 4194304 bytes"
    assert found == {
        f"{tmp_path}/a.txt": [LabelRow("a", "3", 1, cells=(".5",))],
        f"{tmp_path}/b.txt": [LabelRow("b", "0", 1, cells=(too_large,))],
    }


@pytest.mark.parametrize("chunk", [1, 3, 1 << 20])
def test_each_line_is_a_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    monkeypatch.setattr(input_readers, "_CHUNK", chunk)
    path = tmp_path / "keys.txt"
    path.write_bytes("\ufeffa\r\n\nb\x85c\n  한강 \nlast".encode())
    lines = [("a", 1), ("b\x85c", 3), ("한강", 4), ("last", 5)]
    assert [(key, side.where) for key, side in KeyReader(str(path)).read()] == [
        (key, f"{path}:{line}") for key, line in lines
    ]
    assert next(KeyReader(str(path), "-").read())[1].where == "-:1"


def test_lines_that_are_repeated_take_no_place_in_the_join(tmp_path: Path) -> None:
    path = tmp_path / "keys.txt"
    path.write_text("a\nb\n\n" * 100_000 + "c")
    keys = [(key, side.where) for key, side in KeyReader(str(path)).read()]
    assert keys == [("a", f"{path}:1"), ("b", f"{path}:2"), ("c", f"{path}:300001")]


def test_no_line_is_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(input_readers, "_CHUNK", MAX_LINE)
    path = tmp_path / "keys.txt"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(LabelsError, match="keys.txt:1 has more than 65536 bytes"):
        list(KeyReader(str(path)).read())


BY_CSV = PathRules("csv", "", False)


def listed(path: str, root: str, rules: PathRules = BY_CSV) -> dict[str, list[Any]]:
    """What is read of rows that list images."""
    finder = ImageFinder(root=root, key="path", rules=rules)
    columns = COLUMNS._replace(key=Column(0, "image"))
    reader = RowReader(columns, key="path", encoding="utf-8", images=RowImages(finder))
    inputs = ReadInputs([], finder, [path], reader)
    found = collect(lambda pipeline: (pipeline | "Read" >> inputs)._asdict())
    labels = [each._asdict() for each in found.pop("labels")]
    numbers = ("integers", "others", "missing")
    return {**found, "labels": [sum(each[name] for each in labels) for name in numbers]}


@pytest.mark.parametrize("rules", [BY_CSV, PathRules("directory", "", False)])
def test_runners_look_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rules: PathRules) -> None:
    for name in ("cat/a.jpg", "dog/b.jpg"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_bytes(name.encode())
    path = tmp_path / "list.csv"
    rows = ["cat/a.jpg,cat", "dog/b.jpg,7", "cat/none.jpg,dog", ",cat", "dog/b.jpg,1,more"]
    path.write_text("\n".join(["image,label", *rows]))
    here = listed(str(path), str(tmp_path), rules)
    monkeypatch.setattr(packing, "runs_in_process", lambda _: False)
    assert listed(str(path), str(tmp_path), rules) == here
    assert (len(here["sides"]), len(here["rejections"])) == (6, 2)
    images = {side.path for _, side in here["sides"] if side.is_image}
    assert images == {"cat/a.jpg", "dog/b.jpg", "cat/none.jpg"}


def test_one_request_a_row(gcs: GcsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    gcs.make_bucket("photos")
    for number in range(40):
        gcs.put("photos", f"{number}.jpg", b"x")
    lines = "".join(f"gs://photos/{number}.jpg,cat\n" for number in range(40))
    gcs.put("photos", "list.csv", f"image,label\n{lines}".encode())
    monkeypatch.setattr(packing, "runs_in_process", lambda _: False)
    gcs.reset()
    assert len(listed("gs://photos/list.csv", "gs://photos")["sides"]) == 80
    looked_up = [target for method, target in gcs.log() if method == "GET" and "jpg" in target]
    assert len(looked_up) == len({*looked_up}) == 40


def test_as_many_requests_at_once_as_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    together = threading.Barrier(READERS, timeout=60)
    lock, active, widest = threading.Lock(), 0, 0

    def find(_: str) -> Stored:
        nonlocal active, widest
        with lock:
            active += 1
            widest = max(widest, active)
        # Waits until all threads are here: it would fail if there were fewer.
        together.wait()
        with lock:
            active -= 1
        return Stored(1, 1)

    monkeypatch.setattr(input_readers, "find_listed", find)
    path = tmp_path / "list.csv"
    rows = (f"{number}.jpg,cat" for number in range(2 * READERS))
    path.write_text("\n".join(["image,label", *rows]))
    monkeypatch.setattr(packing, "runs_in_process", lambda _: False)
    assert len(listed(str(path), str(tmp_path))["sides"]) == 4 * READERS
    assert widest == READERS


# Parts of a table, which many workers read.

LINES = ("id,label\n", "id;label\r\n", "\n", "\r\n", "\r", "\ufeff", "# x\n", "sep=;\n")
ROWS = ("1,cat\n", '"2","a\nb"\n', '3,"c ""d"""\r\n', '"4"x,y\n', '5,6" tall\n', "#7,e\n")
PIECES = ('"', ",", "8", "\n", ' "a, b"', "한강", "\0", '{"id":1,"label":"c"}\n', "[]\n")
TEXTS = st.lists(st.sampled_from([*LINES, *ROWS, *PIECES]), max_size=30).map("".join)


def outcome(parts: Iterable[TablePart], columns: CsvColumns) -> tuple[list[LabelRow], str]:
    """The rows of parts, or up to the first error."""
    rows: list[LabelRow] = []
    try:
        for part in parts:
            for _, found in open_labels(part, columns, "utf-8"):
                rows += found
    except LabelsError as error:
        return [], str(error)
    return rows, ""


@given(
    text=TEXTS,
    size=st.integers(1, 40),
    columns=st.sampled_from(
        [
            COLUMNS,
            COLUMNS._replace(has_header=False),
            COLUMNS._replace(delimiter=";", because_delimiter="given"),
            COLUMNS._replace(format=JSONL),
        ]
    ),
    damage=st.sampled_from([b"", b"\xff\n"]),
)
@example('id,label\n1,cat\n"2","a\n' + "b" * 40 + '"\n', 9, COLUMNS, b"")
def test_any_parts_have_all_rows(text: str, size: int, columns: CsvColumns, damage: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        path = Path(folder) / "labels.csv"
        path.write_bytes(text.encode() + damage)
        patch.setattr(label_tables, "PART_BYTES", size)
        parts = divide_labels(TablePart(str(path)), columns, "utf-8")
        whole = outcome([TablePart(str(path))], columns)
        found = outcome(parts, columns)
        # Of several errors, any may be found first.
        assert found == whole or (damage and found[1] and whole[1])


def test_parts_of_parquet_are_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "labels.parquet"
    table = pa.table({"id": [str(number) for number in range(50)], "label": ["cat"] * 50})
    pq.write_table(table, path, row_group_size=8)
    columns = COLUMNS._replace(format=PARQUET)
    monkeypatch.setattr(label_tables, "_PART_ROWS", 16)
    parts = [*divide_labels(TablePart(str(path)), columns, "utf-8")]
    assert [(part.start, part.end, part.lines) for part in parts] == [
        (0, 2, 0),
        (2, 4, 16),
        (4, 6, 32),
        (6, 7, 48),
    ]
    assert outcome(parts, columns) == outcome([TablePart(str(path))], columns)


def test_every_runner_reads_the_same_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "labels.csv"
    path.write_text("id,label\n" + "".join(f'{n},"cat\n{n % 7}"\n' for n in range(100)) + "x,1,2\n")
    reader = RowReader(COLUMNS, key="stem", encoding="utf-8")

    def read_all() -> dict[str, Any]:
        inputs = ReadInputs([], ImageFinder(root="", key="stem", rules=BY_CSV), [str(path)], reader)
        found = collect(lambda pipeline: (pipeline | "Read" >> inputs)._asdict())
        counted = sum(count.value for count in found["counts"])
        return {**found, "counts": counted, "labels": merge_cells(found["labels"])}

    here = read_all()
    monkeypatch.setattr(packing, "runs_in_process", lambda _: False)
    monkeypatch.setattr(label_tables, "PART_BYTES", 100)
    assert read_all() == here
    assert (len(here["sides"]), len(here["rejections"]), here["counts"]) == (100, 1, 101)


def test_a_table_is_replaced_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "labels.csv"
    path.write_text("id,label\n" + "1,cat\n" * 9)
    monkeypatch.setattr(label_tables, "PART_BYTES", 30)
    parts = [*divide_labels(TablePart(str(path)), COLUMNS, "utf-8")]
    path.write_text("id,label\n" + "2,dog\n" * 9)
    assert "was changed while it was read: start again" in outcome(parts, COLUMNS)[1]


def test_workers_share_globs_of_labels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(30):
        path = tmp_path / f"{number % 3}" / f"{number}.txt"
        path.parent.mkdir(exist_ok=True)
        path.write_text("0 0.5 0.5 0.25 1\n")
    columns = CsvColumns(Column(0, "image"), Column(1, "class"), len(YOLO_COLUMNS), format=YOLO)
    reader = RowReader(columns, key="stem", encoding="utf-8")
    finder = ImageFinder(root="", key="stem", rules=BY_CSV)
    rounds: list[int] = []
    listing = LocalStorage.list_range

    def list_range(storage: Any, part: Any, limit: int, **options: Any) -> Any:
        rounds.append(limit)
        return listing(storage, part, limit, **options)

    def read_all() -> list[Any]:
        globs, labels = [f"{tmp_path}/none/*.jpg"], [f"{tmp_path}/**/*.txt"]
        inputs = ReadInputs(globs, finder, labels, reader)
        found = collect(lambda pipeline: (pipeline | "Read" >> inputs)._asdict())
        return [*found["sides"], sum(count.value for count in found["counts"])]

    here = read_all()
    monkeypatch.setattr(packing, "runs_in_process", lambda _: False)
    monkeypatch.setattr("transforms.join_labels.LISTED_NAMES", (2, 2))
    monkeypatch.setattr(LocalStorage, "list_range", list_range)
    assert (read_all(), len(here)) == (here, 31)
    assert len(rounds) > 2
