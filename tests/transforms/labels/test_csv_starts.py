"""Separators, Excel's line and comments are recognized, names with spaces stay whole."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transforms.labels.csv_tables import (
    DELIMITERS,
    delimiter_of,
    delimiter_text,
    parse_delimiter,
    read_start,
)
from transforms.labels.label_columns import resolve_columns
from transforms.labels.label_tables import first_rows, read_rows


@pytest.mark.parametrize(
    ("line", "delimiter"),
    [
        ("id|label", "|"),
        ('"a|b";c', ";"),
        ("id,a|b", ","),
        ("filename class", " "),
        ("a.jpg 3", " "),
        ("a.jpg b c", " "),
        ("my cat.jpg", ","),
        ("my old cat.jpg", ","),
        ("image of a cat", ","),
        ("id", ","),
    ],
)
def test_separators(line: str, delimiter: str) -> None:
    assert delimiter_of(line) == delimiter


@pytest.mark.parametrize(
    ("text", "delimiter", "line"),
    [
        ("sep=;\nid;label\na;1\n", ";", 3),
        ('"sep=|"\r\n\r\nid|label\r\na|1\r\n', "|", 4),
        ("sep=\t\nid\tlabel\na\t1\n", "\t", 3),
        ("# by a camera, in 2024\n#\nid,label\na,1\n", ",", 4),
        ("# one\nsep=;\n# two\nid;label\na;1\n", ";", 5),
        ("id,label\n# a,1\na,1\n", ",", 2),
        ("id label\na  1\n", " ", 2),
    ],
)
def test_lines_before_the_first_row_are_no_rows(text: str, delimiter: str, line: int) -> None:
    first = first_rows(io.BytesIO(text.encode()), 5, path="a.csv")
    columns = resolve_columns(first, key=None, label=None, path="a.csv")
    assert (first.delimiter, columns.key.name, columns.label.name) == (delimiter, "id", "label")
    row, *_ = read_rows(io.BytesIO(text.encode()), columns, path="a.csv")
    assert (row.key.strip("# "), row.line) == ("a", line)


def test_a_header_may_begin_with_a_number_sign() -> None:
    *_, lines = read_start(iter(["#filename,label\n", "a.jpg,1\n"]))
    assert list(lines) == ["#filename,label\n", "a.jpg,1\n"]


def test_a_file_of_comments_has_no_row() -> None:
    assert list(read_start(iter(["# a\n", "\n", "sep=;\n"]))[-1]) == []


@pytest.mark.parametrize(
    ("text", "delimiter"),
    [("tab", "\t"), ("\\t", "\t"), ("\t", "\t"), (";", ";"), ("Space", " "), (" ", " ")],
)
def test_separators_that_are_given(text: str, delimiter: str) -> None:
    assert parse_delimiter(text) == delimiter


# A shell makes `t` of an unquoted `\t`.
@pytest.mark.parametrize("text", ["", "t", "7", "||", "\n", "\r", "\0", '"', "bar", "\udcff"])
def test_texts_that_separate_nothing(text: str) -> None:
    with pytest.raises(ValueError, match="cannot separate cells: give one character such as"):
        parse_delimiter(text)


@given(st.sampled_from([*DELIMITERS, ":", "~", "\x01", "·"]))
def test_a_separator_can_be_given_as_it_is_written(delimiter: str) -> None:
    assert parse_delimiter(delimiter_text(delimiter)) == delimiter


@pytest.mark.parametrize(
    ("text", "delimiter", "rows"),
    [
        ("id;a,label\n1;2,7\n", ";", [("id", "a,label"), ("1", "2,7")]),
        ("id:label\na:1\n", ":", [("id", "label"), ("a", "1")]),
        ("sep=;\nid|label\na|1\n", "|", [("id", "label"), ("a", "1")]),
        ("# by hand\n#id:label\na:1\n", ":", [("#id", "label"), ("a", "1")]),
        ("#by hand\nid:label\na:1\n", ":", [("id", "label"), ("a", "1")]),
    ],
)
def test_a_separator_that_is_given_decides(
    text: str, delimiter: str, rows: list[tuple[str, ...]]
) -> None:
    first = first_rows(io.BytesIO(text.encode()), 5, delimiter=delimiter, path="a.csv")
    assert (first.delimiter, [*first.rows], first.because) == (delimiter, rows, "given")


def test_a_separator_that_is_given_is_that_of_every_file() -> None:
    text = "id;label\n1;cat\n"
    first = first_rows(io.BytesIO(text.encode()), 5, delimiter=";", path="a.csv")
    columns = resolve_columns(first, key=None, label=None, path="a.csv")
    (row,) = read_rows(io.BytesIO(b"id;label;a,b,c\n1;cat;\n"), columns, path="b.csv")
    assert row[:2] == ("1", "cat")
