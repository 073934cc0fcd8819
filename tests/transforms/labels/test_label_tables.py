"""JSON Lines and Parquet: the same rows as the CSV of the same table, in bounded memory."""

import datetime
import gzip
import io
import itertools
import json
import time
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.marks import cases
from tests.spies import memory_below
from tests.transforms.records.tables import small_memory, with_footer
from transforms.core.messages import LabelsError
from transforms.core.records import TablePart
from transforms.labels import csv_tables, label_tables
from transforms.labels.label_rows import (
    FORMATS,
    JSONL,
    LIST_SEPARATOR,
    PARQUET,
    Column,
    CsvColumns,
    LabelRow,
    find_format,
    is_yolo,
)
from transforms.labels.label_tables import first_rows, parquet_table, read_rows, size_of_pages

COLUMNS = CsvColumns(Column(0, "id"), Column(1, "label"), 3, cells=(Column(2, "x"),))
ROW = {"id": "a.jpg", "label": "cat", "x": 1.5, "more": {"y": [1]}}


def parquet(rows: Any, **options: Any) -> io.BytesIO:
    table = rows if isinstance(rows, pa.Table) else pa.Table.from_pylist(rows)
    file = io.BytesIO()
    pq.write_table(table, file, **options)
    file.seek(0)
    return file


def jsonl(rows: list[Any]) -> io.BytesIO:
    lines = (row if isinstance(row, str) else json.dumps(row) for row in rows)
    return io.BytesIO("\n".join(lines).encode())


def read(file: io.BytesIO, format_: str, columns: CsvColumns = COLUMNS) -> list[Any]:
    return list(read_rows(file, columns._replace(format=format_), part=TablePart(f"a.{format_}")))


@pytest.mark.parametrize(("make", "format_"), [(parquet, PARQUET), (jsonl, JSONL)])
def test_rows_by_name(make: Any, format_: str) -> None:
    file = make([ROW, {**ROW, "label": None, "x": None}, {**ROW, "id": None}])
    assert read(file, format_) == [
        LabelRow("a.jpg", "cat", 1, cells=("1.5",)),
        LabelRow("a.jpg", "", 2, cells=("",)),
        LabelRow("", "", 3, problem="its key is empty"),
    ]


@pytest.mark.parametrize(("make", "format_"), [(parquet, PARQUET), (jsonl, JSONL)])
def test_first_rows(make: Any, format_: str) -> None:
    rows = [{"id": "1", "n": 2, "tags": ["a", None, "b"], "codes": [1, 2]}] * 30
    first = first_rows(make(rows), 2, path=f"a.{format_}")
    row = ("1", "2", LIST_SEPARATOR.join("ab"), LIST_SEPARATOR.join("12"))
    assert (first.format, first.rows) == (format_, (("id", "n", "tags", "codes"), row, row))
    n_type = "int64" if format_ == PARQUET else ""
    assert first.types == ("bytes", n_type, "bytes list", "int64 list")


@cases(
    (True, pa.bool_(), "True", "int64"),
    (-7, pa.int8(), "-7", "int64"),
    (0.1, pa.float32(), "0.1", "float"),
    (0.1, pa.float64(), "0.1", "float"),
    (float("nan"), pa.float64(), "", "float"),
    ("007", pa.string(), "007", "bytes"),
    ("b", pa.dictionary(pa.int8(), pa.string()), "b", "bytes"),
    ([0.1, None], pa.list_(pa.float32()), "0.1", "float list"),
    ([1, 2], pa.list_(pa.int64(), 2), f"1{LIST_SEPARATOR}2", "int64 list"),
    (datetime.date(2024, 5, 6), pa.date32(), "2024-05-06", "bytes"),
    (None, pa.null(), "", ""),
    # No cells.
    (b"\xff", pa.binary(), "", ""),
    ({"a": 1}, pa.struct([("a", pa.int8())]), "", ""),
    ([[1]], pa.list_(pa.list_(pa.int8())), "", ""),
)
def test_types_of_parquet(value: Any, type_: pa.DataType, text: str, dtype: str) -> None:
    table = pa.table({"id": ["a"], "x": pa.array([value], type_)})
    first = first_rows(parquet(table), 1, path="a.parquet")
    assert (first.rows[1], first.types[1]) == (("a", text), dtype)
    if not dtype and value is not None:
        with pytest.raises(LabelsError, match="the column 'x' is of type"):
            parquet_table(parquet(table), ["x"], path="a.parquet")


NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)


@given(
    st.lists(
        st.tuples(NAMES, st.none() | st.integers(-(2**63), 2**63 - 1), st.none() | st.floats()),
        min_size=1,
        max_size=8,
    )
)
def test_both_formats_have_the_same_cells(values: list[tuple[Any, ...]]) -> None:
    rows = [dict(zip(("id", "label", "x"), value, strict=True)) for value in values]
    schema = pa.schema([("id", pa.string()), ("label", pa.int64()), ("x", pa.float64())])
    table = pa.Table.from_pylist(rows, schema)
    assert read(parquet(table), PARQUET) == read(jsonl(rows), JSONL)


@cases(
    ("{", "it is not JSON (Expecting property name enclosed in double quotes)"),
    ("[1]", "it is not a JSON object"),
    ('{"id": "a", "label": "b", " label": "c"}', "it is not JSON (two members have one name)"),
    ("[" * 10**5, "it is not JSON (maximum recursion depth"),
    ('{"id": ' + "9" * 5000 + "}", "it is not JSON (Exceeds the limit"),
    ('{"id": "a", "label": "\\ud800"}', "a cell holds half of a surrogate pair"),
    ('{"id": "a", "label": "\\u0000"}', "a cell holds a NUL character"),
    ('{"id": "a", "label": {"b": 1}}', "'label' holds a nested object"),
    ('{"id": "a", "label": [[1]]}', "'label' holds a nested object"),
    ('{"id": "a", "label": ["b\\u001fc"]}', "'label': a value of a list holds '\\x1f'"),
)
def test_lines_that_are_refused(line: str, says: str) -> None:
    first, second = read(jsonl([line, ROW]), JSONL)
    assert first.problem.startswith(says)
    assert first.line == 1
    assert second == LabelRow("a.jpg", "cat", 2, cells=("1.5",))


def test_an_object_that_nobody_needs_may_hold_anything() -> None:
    row = {**ROW, "more": [{"a": 1}, [[]]], "points": [[12, 34]] * 200_000}
    assert read(jsonl([row] * 2), JSONL)[1] == LabelRow("a.jpg", "cat", 2, cells=("1.5",))


@pytest.mark.parametrize("nested", ["[]", "{}", "[{},1]"])
def test_a_table_of_lists_is_refused_soon(nested: str) -> None:
    """Sixty megabytes of them took 15 to 40 CPU seconds."""
    line = f'{{"id": "a.jpg", "label": "cat", "z": [{",".join([nested] * 500_000)}]}}'
    with pytest.raises(LabelsError, match="line [2-9]: it has more lists and objects than a table"):
        read(jsonl([line] * 9), JSONL)


def test_a_key_that_is_no_text_can_be_written() -> None:
    """Its rejection is a line of a file."""
    [row] = read(jsonl(['{"id": "\\ud800.jpg", "label": "cat"}']), JSONL)
    assert row.problem and row.key == "?.jpg"


@cases(
    (pa.array([b"\xff"]).view(pa.string()), "'utf-8' codec can't decode"),
    (pa.array([2**55], pa.timestamp("ms")), ""),
    (pa.array([1], pa.timestamp("s", "Mars/Crater")), ""),
    (pa.array([["a", "b\x1fc"]]), "a value of a list holds '\\x1f'"),
)
def test_values_that_are_no_texts(values: pa.Array, says: str) -> None:
    table = pa.table({"id": ["a"], "label": ["cat"], "x": values})
    first = first_rows(parquet(table), 1, path="a.parquet")
    assert first.rows[1] == ("a", "cat", "")
    with pytest.raises(LabelsError, match=r"a.parquet: the column 'x' has a value") as caught:
        read(parquet(table), PARQUET)
    assert says in str(caught.value) and "\n" not in str(caught.value)


NAMELESS = parquet([{"column": 1}]).getvalue().replace(b"column", b"co\xffumn")
FOOTER = b"PAR1" + bytes(100) + (2**31 - 1).to_bytes(4, "little") + b"PAR1"
DAMAGED = bytearray(parquet([ROW] * 1000).getvalue())
DAMAGED[4:200] = bytes(196)

# Of 20,000 levels, the process would end; of 5,000, it may take minutes.
DEEP = parquet([json.loads('{"a":' * 33 + "1" + "}" * 33)])
# Each of its columns has all names above in its path, which took 2 GB.
LONG = parquet(
    [json.loads('{"%s":' % ("a" * 5000) + json.dumps(dict.fromkeys(map(str, range(900)), 1)) + "}")]
)
PAGES = parquet([{"a": "b"}] * 3000, use_dictionary=False, data_page_size=1, write_batch_size=1)
WIDE = parquet([dict.fromkeys(map(str, range(1000)), 1)] * 100, row_group_size=1)


def with_columns_again(file: io.BytesIO) -> bytes:
    """A Parquet file whose footer names columns twice: its own, and 900, each in the next."""
    data = file.getvalue()
    nested = b"\x09\x04\xfc\x84\x07" + b"\x48\x00\x15\x02\x00" * 899 + b"\x15\x02\x38\x00\x00"
    length = int.from_bytes(data[-8:-4], "little") + len(nested)
    return data[:-9] + nested + b"\0" + length.to_bytes(4, "little") + b"PAR1"


@cases(
    (b'{"\\ud800": 1}', "a.jsonl", "a.jsonl: the column name '\\ud800' is not text"),
    (b"PAR1 and nothing else PAR1", "a.parquet", "a.parquet is not Parquet, or is damaged: "),
    (DAMAGED, "a.parquet", "a.parquet is not Parquet, or is damaged: "),
    (NAMELESS, "a.parquet", "the name of a column is not UTF-8"),
    (FOOTER, "a.parquet", "its footer would have 2147483647 bytes, over 16"),
    (DEEP.getvalue(), "a.parquet", "its footer nests columns more than 32 levels deep, or has"),
    (PAGES.getvalue(), "a.parquet", "is damaged: its pages hold too few rows"),
    (with_columns_again(parquet([ROW])), "a.parquet", "its footer is damaged"),
    (LONG.getvalue(), "a.parquet", "or has too many: write few flat ones"),
    (WIDE.getvalue(), "a.parquet", "its footer has too many columns in too many row groups"),
    (b"", "a.jsonl", "a.jsonl: it is empty: write one JSON object per line"),
    (b"{}\n{}\n", "a.jsonl", "a.jsonl: its objects have no members: write one JSON object"),
    (b"id,label\n", "a.jsonl", "a.jsonl: it is not JSON (Expecting value): write one JSON"),
    (b'{"a": "\xff"}\n', "a.jsonl", "JSONL a.jsonl is not UTF-8 at line 1: save it as UTF-8"),
    (b"<annotation/>", "a.xml", "a.xml is XML: "),
    ('{"images": []}'.encode("utf-16"), "a.JSON", "a.JSON is UTF-16: save it as UTF-8"),
)
def test_files_that_are_refused(data: bytes, path: str, says: str) -> None:
    with pytest.raises(LabelsError) as caught:
        first_rows(io.BytesIO(data), 5, path=path)
    assert says in str(caught.value) and "\n" not in str(caught.value)


def test_row_groups_of_few_bytes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(label_tables, "_MOST_GROUPS", 9)
    with pytest.raises(LabelsError, match="it has 10 row groups: write fewer, each with more rows"):
        first_rows(parquet([ROW] * 10, row_group_size=1), 5, path="a.parquet")


def test_a_long_text_in_every_row_takes_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_tables, "FREE_BYTES", 1 << 30)
    table = pa.table({"id": ["x" * 100_000] * 500})
    file = parquet(table)
    assert file.getbuffer().nbytes < 100_000
    rows = parquet_table(file, ["id"], path="a.parquet").rows
    with memory_below(20_000_000):
        assert sum(1 for _ in rows) == 500


def test_no_byte_of_the_footer_of_a_parquet_file_ends_the_process() -> None:
    good = parquet([ROW]).getvalue()
    footer = len(good) - 8 - int.from_bytes(good[-8:-4], "little")
    refused = 0
    for at in range(footer, len(good) - 8):
        edited = io.BytesIO(good[:at] + bytes([not good[at]]) + good[at + 1 :])
        try:
            list(parquet_table(edited, [next(iter(ROW))], path="a.parquet").rows)
        except LabelsError:
            refused += 1
    assert refused > 100


class Counting(io.BytesIO):
    """Counts the bytes that are read."""

    read_bytes = 0

    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(size)
        self.read_bytes += len(data)
        return data


def test_other_columns_and_row_groups_are_not_read_ahead() -> None:
    """A row group is read when its first row is needed, and of it the needed columns."""
    numbers = range(1000)
    table = pa.table({"id": [str(n) for n in numbers], "other": [f"{n}" * 300 for n in numbers]})
    file = parquet(table, row_group_size=100, compression="none", use_dictionary=False)
    size = file.getbuffer().nbytes
    counted = Counting(file.getvalue())
    rows = parquet_table(counted, ["id"], path="a.parquet").rows
    assert len([*itertools.islice(rows, 10)]) == 10
    assert counted.read_bytes < size / 10
    assert len([*rows]) == 990
    assert counted.read_bytes < size / 5


def test_few_long_lines_are_held_at_first() -> None:
    file = Counting(jsonl([{"id": "x" * 100_000}] * 80).getvalue())
    assert len(first_rows(file, 20, path="a.jsonl").rows) == 21
    assert file.read_bytes < 5_000_000


def _repeated(text: str, count: int) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array([0] * count, pa.int32()), pa.array([text]))


@cases(
    (lambda: _repeated("a", 1_000_000), {}),
    (lambda: _repeated("x" * 100_000, 1000), {}),
    (lambda: pa.array([["a"] * 10_000_000]), {}),
    (lambda: pa.array(["x" * 10**6] * 50), {"use_dictionary": False, "compression": "zstd"}),
    ids=["rows", "texts", "list", "page"],
)
def test_parquet_may_not_hold_far_more_than_its_size(column: Any, options: Any) -> None:
    """20 KB held four million rows, and 27 KB a page of 800 MB."""
    file = parquet(pa.table({"a.b": column()}), **options)
    says = "^a.parquet holds more than 200 times its size: write it as CSV$"
    with pytest.raises(LabelsError, match=says):
        for _ in parquet_table(file, ["a.b"], path="a.parquet").rows:
            pass


@pytest.mark.slow
def test_cells_of_parquet_count() -> None:
    columns = [*map(str, range(100))]
    file = parquet(pa.table({name: ["0"] * 20_000 for name in columns}))
    with pytest.raises(LabelsError, match="200 times"):
        [*parquet_table(file, columns, path="a.parquet").rows]


@cases(
    lambda: pa.array(["x" * 20_000_000]),
    lambda: pa.array([[None] * 10_000_000], pa.list_(pa.string())),
    ids=["text", "list"],
)
def test_a_footer_that_says_too_little_is_not_believed(column: Any) -> None:
    """A page of 800 MB took 3.4 GB, in 28 KB."""
    options = {"use_dictionary": False, "compression": "brotli"}
    data = parquet(pa.table({"a": column()}), **options).getvalue()
    chunk = pq.read_metadata(io.BytesIO(data)).row_group(0).column(0)
    edited = with_footer(data, {chunk.total_uncompressed_size: 50, chunk.num_values: 1})
    with small_memory(1 << 20), pytest.raises(LabelsError, match="than 200 times its size: write"):
        [*parquet_table(io.BytesIO(edited), ["a"], path="a.parquet").rows]


def _list_of(text: str, count: int) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array([0, count], pa.int32()), _repeated(text, count))


def test_no_row_repeats_a_text_any_number_of_times() -> None:
    """One list of a million times a text of 1 KB took 3 GB, in 2 KB."""
    file = parquet(pa.table({"a": _list_of("x" * 1000, 100_000)}))
    says = "^a.parquet has a row of 100400004 bytes, more than 16777216: leave it out$"
    with small_memory(10 << 20), pytest.raises(LabelsError, match=says):
        [*parquet_table(file, ["a"], path="a.parquet").rows]


def test_texts_that_begin_with_others_are_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each, the file may have a few bytes."""
    monkeypatch.setattr(label_tables, "_BATCH_BYTES", 1 << 20)
    texts = [f"{'x' * 100_000}{number}" for number in range(50)]
    options: Any = {"use_dictionary": False, "compression": "none"}
    options["column_encoding"] = {"a": "DELTA_BYTE_ARRAY"}
    file = parquet(pa.table({"a": texts}), **options)
    assert file.getbuffer().nbytes < 200_000
    with small_memory(4 << 20):
        rows = [*parquet_table(file, ["a"], path="a.parquet").rows]
    assert [cells for _, cells, _ in rows] == [[text] for text in texts]
    options["column_encoding"] = {"a.list.element": "DELTA_BYTE_ARRAY"}
    file = parquet(pa.table({"a": [texts]}), **options)
    with small_memory(10 << 20), pytest.raises(LabelsError, match="a.parquet is not Parquet, or"):
        [*parquet_table(file, ["a"], path="a.parquet").rows]


def test_a_page_without_values_is_damage() -> None:
    """A file may have a million of them, which took minutes."""
    table = pa.table({"a": pa.array(["a", "b"])})
    file = parquet(table, use_dictionary=False, compression="none")
    chunk = pq.ParquetFile(file).metadata.row_group(0).column(0)
    said: Any = SimpleNamespace(**chunk.to_dict())
    assert size_of_pages(said, file)[:2] == (chunk.total_uncompressed_size, 2)
    data, start = file.getvalue(), chunk.data_page_offset
    page = data[start : start + chunk.total_compressed_size]
    # The number of its values, 2, becomes 0; the same page follows.
    assert page.count(b"\x2c\x15\x04") == 1
    empty = page.replace(b"\x2c\x15\x04", b"\x2c\x15\x00")
    said.total_compressed_size *= 3
    with pytest.raises(pa.ArrowInvalid, match="the header of a page is damaged"):
        size_of_pages(said, io.BytesIO(data[:start] + empty + empty + page))


@pytest.mark.slow
def test_parquet_of_a_million_numbered_rows_is_within_the_limit() -> None:
    names = pa.array([f"{number}.jpg" for number in range(200_000)])
    file = parquet(pa.table({"id": names, "label": _repeated("a", 200_000)}), compression="zstd")
    rows = parquet_table(file, ["id", "label"], path="a.parquet").rows
    assert sum(1 for _ in rows) == 200_000


@pytest.mark.slow
def test_many_columns_of_parquet_take_their_time_once() -> None:
    """20,000 of them took minutes: each asked for the names of all."""
    file = parquet(pa.table({f"c{number}": ["1"] for number in range(10_000)}))
    started = time.process_time()
    first = first_rows(file, 1, path="a.parquet")
    assert len(first.rows[0]) == 10_000
    assert time.process_time() - started < 3


# The formats of label files.


@cases(
    ("a.csv", b"id,label\n", "csv"),
    ("a.csv", b"", "csv"),
    ("a.json", b"", "csv"),
    ("a.json", b'[{"id": 1}]', "csv"),
    ("a.csv", b"PAR1\0\0", "parquet"),
    ("a.parquet", b"PAR1", "parquet"),
    ("a.jsonl", b'{"id": 1}\n', "jsonl"),
    ("a.ndjson.gz", gzip.compress(b'{"id": 1}\n', mtime=0), "jsonl"),
    ("a.json", b'{"id": 1}\n{"id": 2}\n', "jsonl"),
    ("a.json", b'{"images": [], "annotations": []}\n', "coco"),
    ("a.json", b'{\n  "info": {', "coco"),
    ("a.json.gz", gzip.compress(b'\xef\xbb\xbf{"info": {', mtime=0), "coco"),
    ("a.xml", b"<?xml version='1.0'?>\n", "voc"),
    ("a", b"\n<annotation>", "voc"),
    ("a.csv", b"<b>id</b>,label", "csv"),
    ("a.csv", b"\x1f\x8bx", "csv"),
)
def test_format(path: str, head: bytes, format_: str) -> None:
    assert find_format(path, head) == format_
    assert format_ in FORMATS


@cases(
    ("1.txt", "0 0.5 0.5 0.1 1e-3\n", True),
    ("1.txt", "", True),
    ("1.txt", "1.0 0.5 0.5 0.1 1\n", True),
    ("1.txt", "0.5 0.5 0.5 0.1 1\n", False),
    ("1.txt", "\ufeff0 0.5 0.5 0.1 1", True),
    ("1.txt", "0 .1 .2 .3 .4 .5 .6\n\n", True),
    ("1.txt", "id label\n", False),
    ("1.txt", "0 0.5 0.5 0.1\n", False),
    ("1.csv", "0 0.5 0.5 0.1 1\n", False),
    # Cut within a line.
    ("1.txt", "0 0.5 0.5 0.1 1\n" * 256, True),
    ("1.txt", "0 0.5 0.5 0.1  1\n" * 300, True),
)
def test_yolo(path: str, text: str, expected: bool) -> None:
    assert is_yolo(path, text.encode()[:4096]) is expected
