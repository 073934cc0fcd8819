"""Rows of CSV files in all spellings; what is wrong names its line and reason."""

import csv
import gzip
import io
import random
import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.marks import cases, rest_slow
from transforms.core.messages import LabelsError
from transforms.core.records import TablePart
from transforms.labels import csv_tables
from transforms.labels.csv_tables import (
    DELIMITERS,
    MAX_ROW,
    delimiter_of,
    delimiter_text,
    parse_delimiter,
    read_lines,
    read_start,
)
from transforms.labels.label_columns import resolve_columns
from transforms.labels.label_rows import (
    MAX_CELL,
    MAX_KEY,
    NO_COLUMN,
    Column,
    CsvColumns,
    LabelRow,
    column_finder,
    label_text,
)
from transforms.labels.label_tables import first_rows, read_rows

COLUMNS = CsvColumns(Column(0, "id"), Column(1, "label"), 2)
NO_HEADER = CsvColumns(Column(0, "column 1"), Column(1, "column 2"), 2, has_header=False)
CELLS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)
CAT, LONG = LabelRow("1", "cat", 2), "x" * MAX_CELL
NFD = unicodedata.normalize("NFD", "한강")


def rows_of(
    data: bytes | str, columns: CsvColumns = COLUMNS, encoding: str = "utf-8"
) -> list[LabelRow]:
    raw = data if isinstance(data, bytes) else data.encode(encoding)
    return list(read_rows(io.BytesIO(raw), columns, encoding=encoding, part=TablePart("a.csv")))


def lines_of(data: bytes, encoding: str = "utf-8") -> list[str]:
    return list(read_lines(io.BytesIO(data), encoding=encoding, path="a.csv"))


def error_of(data: bytes | str, encoding: str = "utf-8") -> str:
    with pytest.raises(LabelsError) as caught:
        lines_of(data if isinstance(data, bytes) else data.encode(encoding), encoding)
        rows_of(data, encoding=encoding)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@cases(
    ("id,label\n1,한강\n", "utf-8"),
    ("\ufeffid,label\r\n1,한강\r\n", "utf-8"),
    ("id,label\r1,한강", "utf-8"),
    ("id,label\r\n1,한강", "cp949"),
    ("id,label\n1,한강\n", "utf-16"),
    ("\ufeffid,label\n1,한강\n", "utf-16-le"),
    ("\ufeffid,label\n1,한강\n", "utf-32"),
    ("\ufeffid,label\n1,한강\n", "UTF8"),
    ("id,label\n1,한강\n", "utf-8-sig"),
    ("id\tlabel\n1\t한강\n", "utf-8"),
    ("id;label\n1;한강\n", "utf-8"),
    ('"id";"label";"a, b"\n1;한강;\n', "utf-8"),
    (' id , "label"\n1, "한강"\n', "utf-8"),
    ("ID,Label\n1,한강\n", "utf-8"),
    ("Label;width;ID\n한강;7;1\n", "utf-8"),
    (f"id,label\n1, {NFD}\n", "utf-8"),
    ("id,label\n1,한강,, \n", "utf-8"),
)
def test_ways_to_write_the_same_rows(data: str, encoding: str) -> None:
    assert rows_of(data, encoding=encoding) == [LabelRow("1", "한강", 2)]
    assert rows_of(gzip.compress(data.encode(encoding)), encoding=encoding) == rows_of(
        data, encoding=encoding
    )


@cases(
    # Labels are canonical, and keys raw.
    (f'id,label\n" {NFD} "," {NFD}\n of "\n', COLUMNS, [(f" {NFD} ", "한강 of", 2)]),
    # Lines are physical, and blank lines are no rows.
    (
        '\r\nid,label\r\n\r\n"1\r\n2","a ""b"", c"\r\n   \r\n3,x\r\n4,y',
        COLUMNS,
        [("1\r\n2", 'a "b", c', 4), ("3", "x", 7), ("4", "y", 8)],
    ),
    *[
        (f"{blank * 3}id,label\n1,cat\n", COLUMNS, [("1", "cat", 5)])
        for blank in ("\n", "\r\n", " \t\n", "\f\n")
    ],
    ("id,label\n1,\n2, \n3,nan\n", COLUMNS, [("1", "", 2), ("2", "", 3), ("3", "nan", 4)]),
    ("id\n1\n\n2\n", COLUMNS._replace(label=NO_COLUMN, width=1), [("1", "", 2), ("2", "", 4)]),
    (",label\n1,cat\n", COLUMNS._replace(key=Column(0, "")), [CAT]),
    ("1,cat\n2,dog\n", NO_HEADER, [("1", "cat", 1), ("2", "dog", 2)]),
    ("", COLUMNS, []),
    ("\n \n", COLUMNS, []),
    ("id,label\n", COLUMNS, []),
    # Long cells, and a key as long as a path.
    (f"id,label\n1,{LONG}\n", COLUMNS, [("1", LONG, 2)]),
    (f"id,label\n{'k' * MAX_KEY},cat\n", COLUMNS, [("k" * MAX_KEY, "cat", 2)]),
)
def test_rows(data: str, columns: CsvColumns, rows: list[Any]) -> None:
    assert rows_of(data, columns) == [LabelRow(*row) for row in rows]


@cases(
    ("1", "it ends before its label", "1"),
    (",cat", "its key is empty", ""),
    (" ,cat", "its key is empty", ""),
    (",", "its key is empty", ""),
    ("1,big, cat", "3 cells for 2 columns", "1"),
    ('1,"big" cat', "text follows a closing quote", ""),
    (r'1,"a \"b\" c"', "text follows a closing quote", ""),
    (f"{'k' * MAX_KEY}k,cat", f"its key has {MAX_KEY + 1} characters: no", "k" * MAX_KEY),
)
def test_malformed_rows(row: str, problem: str, key: str) -> None:
    found, after = rows_of(f"id,label\n{row}\n2,dog\n")
    assert (found.line, found.key, found.label) == (2, key, "")
    assert problem in found.problem
    assert after == LabelRow("2", "dog", 3)


@cases(
    ("한강,1\n".encode("cp949"), "utf-8", "is not utf-8 at line 1: try --csv_encoding cp949"),
    (b"a\r\nb\rc\n\xe9t\xe9,1\n", "utf-8", "is not utf-8 at line 4: try --csv_encoding cp1252"),
    ("\ufeffid\n".encode("utf-16-le"), "utf-8", "at line 1: try --csv_encoding utf-16"),
    ("a\n한강\n".encode(), "cp949", "is not cp949 at line 2: try --csv_encoding utf-8"),
    (b"a\n\n\x81\n", "cp1252", "is not cp1252 at line 3: try --csv_encoding utf-8"),
    (b"\xff\xfea\0\n\0\0\xd8\n\0", "utf-16", "is not utf-16 at line 2: try"),
    (b"a\0\n\0", "utf-16", "try --csv_encoding utf-16-le"),
    ("id,label\n".encode("utf-16-le"), "utf-8", "utf-16-le"),
    ("a\n한".encode()[:-1], "utf-8", "is not utf-8 at line 2: try"),
    *[
        (b"id\n", name, f"--csv_encoding {name!r} is not an encoding Python knows")
        for name in ("utf-9", "base64", "", "unicode_escape", "utf7")
    ],
)
def test_wrong_encodings(data: bytes, encoding: str, says: str) -> None:
    assert says in error_of(data, encoding)


FAR = "".join(f"{at},cat\n" for at in range(30_000)).encode()
ZIPPED = gzip.compress(FAR, mtime=0)
CHECKSUM = ZIPPED[:-6] + bytes([ZIPPED[-6] ^ 0xFF]) + ZIPPED[-5:]
# They take a fifth of a byte each when they are compressed.
MANY = "id,label\n" + ",a\n".join(random.Random(0).choices("12", k=200_000))
OPEN = 'id,label\n1,"cat\n' + "2,dog\n" * (MAX_CELL // 6 + 1)
OTHER_HEADER = (
    "a.csv has no column 'id'; it has '1', 'cat'. All files of --labels need the same header"
)


@cases(
    ("1,cat\n2,dog\n", OTHER_HEADER),
    ("id,label,id\n1,cat,2\n", "has several columns 'id' (1 and 3): rename"),
    ("id,label\n1,cat\n2,d\0g\n", "CSV a.csv line 3 holds a NUL byte"),
    (b"\x28\xb5\x2f\xfd", "CSV a.csv is compressed: decompress it"),
    (b"PK\x03\x04rest", "CSV a.csv is a zip archive or an Excel workbook: save it as CSV"),
    *[(ZIPPED[:cut], "CSV a.csv is damaged gzip after line") for cut in (12, -9, -3)],
    (CHECKSUM, "damaged gzip"),
    (b"\x1f\x8b\x08\x00garbage garbage", "damaged gzip"),
    (ZIPPED + b"more", "damaged gzip"),
    (ZIPPED + bytes(17 << 20), "zeros behind its end"),
    # What is too long.
    (OPEN, f"CSV a.csv line 2: a quote is not closed, or a cell exceeds {MAX_CELL}"),
    (f"id,label\n1,{LONG}x\n", "exceeds"),
    (f"id\nx{'x' * MAX_ROW}\n", f"line 2: a line or row of more than {MAX_ROW} characters"),
    *[
        (gzip.compress(rows, mtime=0), "a.csv holds more than 200 times its size: decompress")
        for rows in (
            MANY.encode(),
            b"{}" * 20_000,
            # Each takes 3 microseconds as a feature: 4 million, in 33 KB, took 21 seconds.
            b"0," * 1_800_000,
            *(line * 1_000_000 for line in (b"\n", b"id,label\n", b"\r", b"{}", b"[],")),
        )
    ],
    ids=lambda value: repr(value[:30]),
)
def test_files_that_are_refused(data: bytes | str, says: str) -> None:
    assert says in error_of(data)


def test_compressed_tables_grow_together() -> None:
    """2,000 of a kilobyte with 25,000 rows each took minutes."""
    data = gzip.compress(b"0,a\n" * 20_000)
    for name in ("a.csv", "a.csv"):
        assert len([*read_lines(io.BytesIO(data), path=name)]) == 20_000
    with pytest.raises(LabelsError, match="b.csv holds more than 200 times its size: decompress"):
        list(read_lines(io.BytesIO(data), path="b.csv"))


def test_rows_before_a_fault_are_given_first() -> None:
    rows = read_rows(io.BytesIO(b'id,label\n1,cat\n2,"dog\n'), COLUMNS, part=TablePart("a.csv"))
    assert next(rows) == CAT
    with pytest.raises(LabelsError, match="line 3: a quote is not closed"):
        next(rows)
    columns = CsvColumns(Column(2, "column 3"), Column(0, "column 1"), 3, has_header=False)
    assert rows_of("cat,x\n", columns) == [LabelRow("", "", 1, problem="it ends before its key")]


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
        assert row.label == ("" if row.problem else label_text(label))
        assert bool(row.problem) <= (not key.strip())


@given(data=st.binary(max_size=200))
def test_any_bytes_are_rows_or_one_error(data: bytes) -> None:
    try:
        rows_of(data, NO_HEADER)
    except LabelsError as error:
        assert "\n" not in str(error)


@pytest.mark.parametrize("limit", rest_slow([20_000, MAX_ROW]))
def test_a_row_over_many_lines_has_a_limit(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """No line and no cell of it is long, and its quote is never closed."""
    monkeypatch.setattr(csv_tables, "MAX_ROW", limit)
    lines = b'b","b\n' * (limit // 6 + 1)
    with pytest.raises(LabelsError, match=f"CSV a.csv line 3: .* of more than {limit} characters"):
        rows_of(b'id,label\n1,"cat"\n2,"' + lines)
    # Rows are counted one by one.
    assert len(rows_of(b"id,label\n" + b"1,cat\n" * (limit // 6 + 1))) == limit // 6 + 1


# Lines.


class Trickle:
    """A file that gives few bytes at a time and can neither seek nor peek."""

    def __init__(self, data: bytes, step: int) -> None:
        self._file = io.BytesIO(data)
        self._step = step

    def read(self, size: int = -1, /) -> bytes:
        return self._file.read(min(size, self._step) if size >= 0 else self._step)


@pytest.mark.parametrize("step", [1, 3, 100])
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_files_that_read_in_pieces(step: int, pack: Any) -> None:
    data = b"id,label\n1,cat\n"
    assert "".join(read_lines(Trickle(pack(data), step), path="a.csv")) == data.decode()


def test_members_of_gzip_and_zeros_between_them_take_little_time() -> None:
    parts = [gzip.compress(b"id,label\n"), *[gzip.compress(b"")] * 1000, bytes(1 << 20), ZIPPED]
    lines = read_lines(io.BytesIO(b"".join([*parts, bytes(1 << 20)])), path="a.csv")
    assert "".join(lines) == f"id,label\n{FAR.decode()}"


LONGEST = [f"{'x' * (MAX_ROW - len(ending))}{ending}" for ending in ("\n", "\r", "\r\n")]


@cases(
    (b"\r\n \nid\r1\r\n2", ["\r\n", " \n", "id\r", "1\r\n", "2"]),
    (b"", []),
    (b"\xef\xbb\xbf", []),
    (gzip.compress(b"a\n") + gzip.compress(b"b\n"), ["a\n", "b\n"]),
    *[(f"a\n{line}b".encode(), ["a\n", line, "b"]) for line in LONGEST],
    ids=["breaks", "empty", "mark", "gzip", "n", "r", "rn"],
)
def test_lines(data: bytes, lines: list[str]) -> None:
    assert lines_of(data) == lines


@given(
    before=st.lists(st.sampled_from(["\n", "\r\n", "한강\n", "x" * 999 + "\n"]), max_size=60),
    zipped=st.booleans(),
)
def test_the_line_of_a_wrong_byte_is_right_far_down(before: list[str], zipped: bool) -> None:
    text = "".join(["id,label\n", *before, "end\n"])
    data = text.encode() + b"bad \xff\nmore\n"
    line = len(io.StringIO(text, newline="").readlines()) + 1
    assert f"at line {line}:" in error_of(gzip.compress(data, 0) if zipped else data)


def test_gzip_of_a_table_with_a_thousand_columns_is_read() -> None:
    """It holds its size more often than any other real table."""
    rows = (
        f"{number}.jpg," + ",".join("1" if at == number * 7 % 1000 else "0" for at in range(1000))
        for number in range(1000)
    )
    text = "\n".join(rows)
    data = gzip.compress(text.encode(), 9)
    assert len(text) > 100 * len(data)
    assert sum(map(len, lines_of(data))) == len(text)


def test_blank_lines_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fifty million of them took a minute."""
    monkeypatch.setattr(csv_tables, "_MOST_BLANK", 100)
    assert len(lines_of(b"\n" * 100)) == 100
    assert len(lines_of(b"a\n" * 10 + b"\n" * 200)) == 210
    assert error_of(b"\n" * 101) == "CSV a.csv has 101 blank lines: remove them"


# Separators, Excel's line and comments; names with spaces stay whole.


@cases(
    ("id,label;x\ty", ","),
    ("id\tlabel", "\t"),
    ("id\tlabel; or kind\tw", "\t"),
    ('"a,b"\t"c"', "\t"),
    ('"a|b";c', ";"),
    ("a.jpg b c", " "),
    ("my old cat.jpg", ","),
    ("image of a cat", ","),
    ("", ","),
)
def test_separators(line: str, delimiter: str) -> None:
    assert delimiter_of(line) == delimiter


@cases(
    ("sep=;\nid;label\na;1\n", ";", 3),
    ('"sep=|"\r\n\r\nid|label\r\na|1\r\n', "|", 4),
    ("sep=\t\nid\tlabel\na\t1\n", "\t", 3),
    ("# by a camera, in 2024\n#\nid,label\na,1\n", ",", 4),
    ("# one\nsep=;\n# two\nid;label\na;1\n", ";", 5),
    ("id,label\n# a,1\na,1\n", ",", 2),
    ("id label\na  1\n", " ", 2),
)
def test_lines_before_the_first_row_are_no_rows(text: str, delimiter: str, line: int) -> None:
    first = first_rows(io.BytesIO(text.encode()), 5, path="a.csv")
    columns = resolve_columns(first, key=None, label=None, path="a.csv")
    assert (first.delimiter, columns.key.name, columns.label.name) == (delimiter, "id", "label")
    row, *_ = rows_of(text, columns)
    assert (row.key.strip("# "), row.line) == ("a", line)


@cases(
    (["#filename,label\n", "a.jpg,1\n"], ["#filename,label\n", "a.jpg,1\n"]),
    (["# a\n", "\n", "sep=;\n"], []),
)
def test_a_header_may_begin_with_a_number_sign(lines: list[str], kept: list[str]) -> None:
    assert list(read_start(iter(lines))[-1]) == kept


@cases(
    *[("tab", "\t"), ("\\t", "\t"), ("Space", " ")],
    *[(each, each) for each in (*DELIMITERS, ":", "~", "\x01", "·")],
)
def test_separators_that_are_given(text: str, delimiter: str) -> None:
    assert parse_delimiter(text) == parse_delimiter(delimiter_text(delimiter)) == delimiter


# A shell makes `t` of an unquoted `\t`.
@pytest.mark.parametrize("text", ["", "t", "7", "||", "\n", "\r", "\0", '"', "bar", "\udcff"])
def test_texts_that_separate_nothing(text: str) -> None:
    with pytest.raises(ValueError, match="cannot separate cells: give one character such as"):
        parse_delimiter(text)


@cases(
    ("id;a,label\n1;2,7\n", ";", [("id", "a,label"), ("1", "2,7")]),
    ("id:label\na:1\n", ":", [("id", "label"), ("a", "1")]),
    ("sep=;\nid|label\na|1\n", "|", [("id", "label"), ("a", "1")]),
    ("# by hand\n#id:label\na:1\n", ":", [("#id", "label"), ("a", "1")]),
    ("#by hand\nid:label\na:1\n", ":", [("id", "label"), ("a", "1")]),
)
def test_given_separators_decide(text: str, delimiter: str, rows: list[tuple[str, ...]]) -> None:
    first = first_rows(io.BytesIO(text.encode()), 5, delimiter=delimiter, path="a.csv")
    assert (first.delimiter, [*first.rows], first.because) == (delimiter, rows, "given")


# The first rows, and columns.


@cases(
    (b'\nid;label\n\n1;"a" b\n2;c\n3;d\n', [("id", "label"), ("2", "c")]),
    (b"\f\n \t\nid,label\n1,cat\n", [("id", "label"), ("1", "cat")]),
    (b"", []),
)
def test_first_rows_skip_blank_and_broken_rows(data: bytes, rows: list[tuple[str, ...]]) -> None:
    assert [*first_rows(io.BytesIO(data), 2, path="a.csv").rows] == rows


def test_first_rows_need_a_sound_first_row_and_names_in_any_unicode_form() -> None:
    with pytest.raises(LabelsError, match="CSV a.csv line 2: text follows a closing quote"):
        first_rows(io.BytesIO(b'\n"id" x,label\n1,cat\n'), 5, path="a.csv")
    assert column_finder(["Id", "id"], path="a.csv")("id") == 1
    assert column_finder(["한강"], path="a.csv")(NFD) == 0
    with pytest.raises(LabelsError, match="has several columns 'iD' .1 and 2."):
        column_finder(["Id", "id"], path="a.csv")("iD")


def test_columns_of_a_wide_header_are_found_in_linear_time() -> None:
    names = [f"c{at}" for at in range(100_000)]
    assert list(map(column_finder(names, path="a.csv"), names)) == list(range(len(names)))
    with pytest.raises(LabelsError, match="has 100001 columns, more than 100000: leave out"):
        column_finder([*names, "more"], path="a.csv")
