"""Rows of CSV files in all spellings; malformed ones are reported with line and reason."""

from __future__ import annotations

import csv
import gzip
import io
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.marks import rest_slow
from transforms.core.messages import LabelsError
from transforms.labels import csv_tables as csv_lines
from transforms.labels import csv_tables as csv_parser
from transforms.labels.csv_tables import MAX_ROW, delimiter_of
from transforms.labels.label_rows import (
    MAX_CELL,
    MAX_KEY,
    NO_COLUMN,
    Column,
    CsvColumns,
    LabelRow,
    column_finder,
    find_column,
    label_text,
)
from transforms.labels.label_tables import first_rows, read_rows

COLUMNS = CsvColumns(Column(0, "id"), Column(1, "label"), 2)
NO_HEADER = CsvColumns(Column(0, "column 1"), Column(1, "column 2"), 2, has_header=False)
CELLS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)


def rows_of(
    data: bytes | str, columns: CsvColumns = COLUMNS, encoding: str = "utf-8"
) -> list[LabelRow]:
    raw = data if isinstance(data, bytes) else data.encode(encoding)
    return list(read_rows(io.BytesIO(raw), columns, encoding=encoding, path="a.csv"))


def error_of(data: bytes | str, columns: CsvColumns = COLUMNS, encoding: str = "utf-8") -> str:
    with pytest.raises(LabelsError) as caught:
        rows_of(data, columns, encoding)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("data", "encoding"),
    [
        ("id,label\n1,한강\n", "utf-8"),
        ("\ufeffid,label\r\n1,한강\r\n", "utf-8"),
        ("id,label\r1,한강", "utf-8"),
        ("id,label\r\n1,한강", "cp949"),
        ("id,label\n1,한강\n", "utf-16"),
        ("id\tlabel\n1\t한강\n", "utf-8"),
        ("id;label\n1;한강\n", "utf-8"),
        ('"id";"label";"a, b"\n1;한강;\n', "utf-8"),
        (' id , "label"\n1, "한강"\n', "utf-8"),
        ("ID,Label\n1,한강\n", "utf-8"),
    ],
)
def test_ways_to_write_the_same_rows(data: str, encoding: str) -> None:
    assert rows_of(data, encoding=encoding) == [LabelRow("1", "한강", 2)]


def test_gzip_is_recognised_by_its_bytes() -> None:
    assert rows_of(gzip.compress(b"id,label\n1,cat\n")) == [LabelRow("1", "cat", 2)]


def test_labels_are_canonical_and_keys_raw() -> None:
    decomposed = unicodedata.normalize("NFD", "한강")
    rows = rows_of(f'id,label\n" {decomposed} "," {decomposed}\n of "\n')
    assert rows == [LabelRow(f" {decomposed} ", "한강 of", 2)]


def test_lines_are_physical_and_blank_lines_are_no_rows() -> None:
    data = '\r\nid,label\r\n\r\n"1\r\n2","a ""b"", c"\r\n   \r\n3,x\r\n4,y'
    assert rows_of(data) == [
        LabelRow("1\r\n2", 'a "b", c', 4),
        LabelRow("3", "x", 7),
        LabelRow("4", "y", 8),
    ]


@pytest.mark.parametrize(
    ("row", "problem", "key"),
    [
        ("1", "it ends before its label", "1"),
        (",cat", "its key is empty", ""),
        (" ,cat", "its key is empty", ""),
        (",", "its key is empty", ""),
        ("1,big, cat", "3 cells for 2 columns", "1"),
        ('1,"big" cat', "text follows a closing quote", ""),
        (r'1,"a \"b\" c"', "text follows a closing quote", ""),
    ],
)
def test_malformed_row(row: str, problem: str, key: str) -> None:
    found, after = rows_of(f"id,label\n{row}\n2,dog\n")
    assert (found.line, found.key) == (2, key)
    assert problem in found.problem
    assert after == LabelRow("2", "dog", 3)


def test_rows_without_a_label_are_rows() -> None:
    rows = rows_of("id,label\n1,\n2, \n3,nan\n")
    assert rows == [LabelRow("1", "", 2), LabelRow("2", "", 3), LabelRow("3", "nan", 4)]


def test_a_row_that_ends_before_its_key() -> None:
    columns = CsvColumns(Column(2, "column 3"), Column(0, "column 1"), 3, has_header=False)
    assert rows_of("cat,x\n", columns) == [LabelRow("", "", 1, problem="it ends before its key")]


def test_trailing_delimiters_are_harmless() -> None:
    assert rows_of("id,label\n1,cat,, \n") == [LabelRow("1", "cat", 2)]


def test_without_a_label_column() -> None:
    columns = CsvColumns(Column(0, "id"), NO_COLUMN, 1)
    assert rows_of("id\n1\n\n2\n", columns) == [LabelRow("1", "", 2), LabelRow("2", "", 4)]


def test_the_column_of_keys_may_have_no_name() -> None:
    columns = COLUMNS._replace(key=Column(0, ""))
    assert rows_of(",label\n1,cat\n", columns) == [LabelRow("1", "cat", 2)]


def test_without_a_header_every_line_is_a_row() -> None:
    assert rows_of("1,cat\n2,dog\n", NO_HEADER) == [
        LabelRow("1", "cat", 1),
        LabelRow("2", "dog", 2),
    ]


def test_another_file_with_its_columns_in_another_order() -> None:
    data = "Label;width;ID\ncat;7;1\n"
    assert rows_of(data) == [LabelRow("1", "cat", 2)]


def test_another_file_without_the_column() -> None:
    assert error_of("1,cat\n2,dog\n") == (
        "a.csv has no column 'id'; it has '1', 'cat'. All files of --labels need the same header"
    )


def test_another_file_that_repeats_the_column() -> None:
    assert "has several columns 'id' (1 and 3): rename" in error_of("id,label,id\n1,cat,2\n")


@pytest.mark.parametrize("data", [b"", b"\n \n", b"id,label\n"])
def test_files_without_rows(data: bytes) -> None:
    assert rows_of(data) == []


def test_nul_bytes() -> None:
    assert error_of("id,label\n1,cat\n2,d\0g\n").startswith("CSV a.csv line 3 holds a NUL byte")
    assert "utf-16-le" in error_of("id,label\n".encode("utf-16-le"))


def test_wrong_encoding_far_down() -> None:
    good = "".join(f"{at},cat\n" for at in range(30_000))
    data = b"id,label\n" + good.encode() + "1,한강\n".encode("cp949") + good.encode()
    assert error_of(data) == "CSV a.csv is not utf-8 at line 30002: try --csv_encoding cp949"


def test_rows_before_a_fault_are_given_first() -> None:
    rows = read_rows(io.BytesIO(b'id,label\n1,cat\n2,"dog\n'), COLUMNS, path="a.csv")
    assert next(rows) == LabelRow("1", "cat", 2)
    with pytest.raises(LabelsError, match="line 3: a quote is not closed"):
        next(rows)


def test_a_quote_that_swallows_the_rest_names_its_line() -> None:
    data = 'id,label\n1,"cat\n' + "2,dog\n" * (MAX_CELL // 6 + 1)
    assert error_of(data).startswith(
        f"CSV a.csv line 2: a quote is not closed, or a cell exceeds {MAX_CELL}"
    )


def test_long_cells_up_to_the_limit() -> None:
    label = "x" * MAX_CELL
    assert rows_of(f"id,label\n1,{label}\n") == [LabelRow("1", label, 2)]
    assert "exceeds" in error_of(f"id,label\n1,{label}x\n")


def test_the_limit_of_the_csv_module_is_never_lowered() -> None:
    before = csv.field_size_limit(MAX_CELL * 2)
    try:
        rows_of("id,label\n")
        assert csv.field_size_limit() == MAX_CELL * 2
    finally:
        csv.field_size_limit(before)


@given(
    rows=st.lists(st.tuples(CELLS, CELLS)),
    ending=st.sampled_from(["\n", "\r\n"]),
    delimiter=st.sampled_from(",;\t"),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-32-be"]),
    zipped=st.booleans(),
)
def test_what_the_csv_module_writes_is_read_back(
    rows: list[tuple[str, str]], ending: str, delimiter: str, encoding: str, zipped: bool
) -> None:
    text = io.StringIO(newline="")
    writer = csv.writer(text, delimiter=delimiter, lineterminator=ending, quoting=csv.QUOTE_ALL)
    lines = []
    for cells in [("id", "label"), *rows]:
        lines.append(len(io.StringIO(text.getvalue(), newline="").readlines()) + 1)
        writer.writerow(cells)
    data = text.getvalue().encode(encoding)
    found = rows_of(gzip.compress(data, 0) if zipped else data, encoding=encoding)
    assert [row.line for row in found] == lines[1:]
    for (key, label), row in zip(rows, found, strict=True):
        assert row.key == key
        if not row.problem:
            assert row.label == label_text(label)
        else:
            assert not key.strip()


@given(data=st.binary(max_size=200))
def test_any_bytes_are_rows_or_one_error(data: bytes) -> None:
    try:
        rows_of(data, NO_HEADER)
    except LabelsError as error:
        assert "\n" not in str(error)


@pytest.mark.parametrize(
    ("line", "delimiter"),
    [
        ("id,label;x\ty", ","),
        ("id;label", ";"),
        ("id\tlabel", "\t"),
        ("id\tlabel; or kind\tw", "\t"),
        ('"a,b"\t"c"', "\t"),
        ("id", ","),
        ("", ","),
    ],
)
def test_delimiter(line: str, delimiter: str) -> None:
    assert delimiter_of(line) == delimiter


def test_first_rows_skip_blank_and_broken_rows() -> None:
    data = io.BytesIO(b'\nid;label\n\n1;"a" b\n2;c\n3;d\n')
    assert first_rows(data, 2, path="a.csv")[:2] == (";", (("id", "label"), ("2", "c")))


def test_first_rows_of_an_empty_file() -> None:
    assert first_rows(io.BytesIO(b""), 5, path="a.csv").rows == ()


def test_first_rows_need_a_sound_first_row() -> None:
    with pytest.raises(LabelsError, match="CSV a.csv line 2: text follows a closing quote"):
        first_rows(io.BytesIO(b'\n"id" x,label\n1,cat\n'), 5, path="a.csv")


def test_column_names_are_found_in_any_unicode_form_but_exact_first() -> None:
    assert find_column(["Id", "id"], "id", path="a.csv") == 1
    assert find_column(["라벨"], unicodedata.normalize("NFD", "라벨"), path="a.csv") == 0
    with pytest.raises(LabelsError, match="has several columns 'iD' .1 and 2."):
        find_column(["Id", "id"], "iD", path="a.csv")


@pytest.mark.parametrize("limit", rest_slow([20_000, MAX_ROW]))
def test_a_row_over_many_lines_has_a_limit(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """No line and no cell of it is long, and its quote is never closed."""
    for module in (csv_parser, csv_lines):
        monkeypatch.setattr(module, "MAX_ROW", limit)
    start = b'id,label\n1,"cat"\n2,"'
    lines = b'b","b\n' * (limit // 6 + 1)
    with pytest.raises(LabelsError, match=f"CSV a.csv line 3: .* of more than {limit} characters"):
        rows_of(start + lines)
    # Rows are counted one by one.
    assert len(rows_of(b"id,label\n" + b"1,cat\n" * (limit // 6 + 1))) == limit // 6 + 1


def test_a_key_may_be_as_long_as_a_path() -> None:
    longest = "k" * MAX_KEY
    assert rows_of(f"id,label\n{longest},cat\n") == [LabelRow(longest, "cat", 2)]
    detail = f"its key has {MAX_KEY + 1} characters: no file name is that long"
    assert rows_of(f"id,label\nk{longest},cat\n") == [LabelRow(longest, "", 2, problem=detail)]


@pytest.mark.parametrize("blank", ["\n", "\r\n", " \t\n", "\f\n"])
def test_blank_lines_before_the_header_count_as_lines(blank: str) -> None:
    data = blank * 3 + "id,label\n1,cat\n"
    assert rows_of(data) == [LabelRow("1", "cat", 5)]
    assert first_rows(io.BytesIO(data.encode()), 9, path="a.csv").rows[0] == ("id", "label")


def test_columns_of_a_wide_header_are_found_in_linear_time() -> None:
    names = [f"c{at}" for at in range(100_000)]
    find = column_finder(names, path="a.csv")
    assert list(map(find, names)) == list(range(len(names)))
