"""Lines of CSV files in any encoding, compressed or not; what is wrong names its line."""

from __future__ import annotations

import gzip
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transforms.core.messages import LabelsError
from transforms.labels import csv_tables
from transforms.labels.csv_tables import MAX_ROW, read_lines


class Trickle:
    """A file that gives few bytes at a time and can neither seek nor peek."""

    def __init__(self, data: bytes, step: int) -> None:
        self._file = io.BytesIO(data)
        self._step = step

    def read(self, size: int = -1, /) -> bytes:
        return self._file.read(min(size, self._step) if size >= 0 else self._step)


def lines_of(data: bytes, encoding: str = "utf-8") -> list[str]:
    return list(read_lines(io.BytesIO(data), encoding=encoding, path="a.csv"))


def error_of(data: bytes, encoding: str = "utf-8") -> str:
    with pytest.raises(LabelsError) as caught:
        lines_of(data, encoding)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    "encoding", ["utf-8", "UTF8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32"]
)
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_byte_order_mark_is_dropped(encoding: str, mark: str) -> None:
    codec = "utf-8" if encoding == "utf-8-sig" else encoding
    assert lines_of(f"{mark}id,한강\n".encode(codec), encoding) == ["id,한강\n"]


def test_all_line_breaks_stay_and_blank_lines_count() -> None:
    assert lines_of(b"\r\n \nid\r1\r\n2") == ["\r\n", " \n", "id\r", "1\r\n", "2"]


@pytest.mark.parametrize("data", [b"", b"\xef\xbb\xbf"])
def test_an_empty_file_has_no_lines(data: bytes) -> None:
    assert lines_of(data) == []


@pytest.mark.parametrize("step", [1, 3, 100])
@pytest.mark.parametrize("zipped", [False, True])
def test_files_that_read_in_pieces(step: int, zipped: bool) -> None:
    data = b"id,label\n1,cat\n"
    file = Trickle(gzip.compress(data) if zipped else data, step)
    assert "".join(read_lines(file, path="a.csv")) == data.decode()


def test_gzip_of_several_members() -> None:
    assert lines_of(gzip.compress(b"a\n") + gzip.compress(b"b\n")) == ["a\n", "b\n"]


@pytest.mark.parametrize("cut", [12, -9, -3])
def test_truncated_gzip(cut: int) -> None:
    data = gzip.compress("".join(f"{at}\n" for at in range(9000)).encode())[:cut]
    assert "CSV a.csv is damaged gzip after line" in error_of(data)


def test_garbled_gzip() -> None:
    data = bytearray(gzip.compress(b"id,label\n" * 99))
    data[-6] ^= 0xFF  # in the checksum
    assert "damaged gzip" in error_of(bytes(data))
    assert "damaged gzip" in error_of(b"\x1f\x8b\x08\x00garbage garbage")


def test_a_workbook_is_recognised_by_its_bytes() -> None:
    assert error_of(b"PK\x03\x04rest") == (
        "CSV a.csv is a zip archive or an Excel workbook: save it as CSV"
    )


@pytest.mark.parametrize("encoding", ["utf-9", "base64", "", "unicode_escape", "utf7"])
def test_unknown_encoding(encoding: str) -> None:
    assert error_of(b"id\n", encoding) == (
        f"--csv_encoding {encoding!r} is not an encoding Python knows"
    )


@pytest.mark.parametrize(
    ("data", "encoding", "message"),
    [
        ("한강,1\n".encode("cp949"), "utf-8", "is not utf-8 at line 1: try --csv_encoding cp949"),
        (b"a\r\nb\rc\n\xe9t\xe9,1\n", "utf-8", "is not utf-8 at line 4: try --csv_encoding cp1252"),
        ("\ufeffid\n".encode("utf-16-le"), "utf-8", "at line 1: try --csv_encoding utf-16"),
        ("a\n한강\n".encode(), "cp949", "is not cp949 at line 2: try --csv_encoding utf-8"),
        (b"a\n\n\x81\n", "cp1252", "is not cp1252 at line 3: try --csv_encoding utf-8"),
        (b"\xff\xfea\0\n\0\0\xd8\n\0", "utf-16", "is not utf-16 at line 2: try"),
        (b"a\0\n\0", "utf-16", "try --csv_encoding utf-16-le"),
        ("a\n한".encode()[:-1], "utf-8", "is not utf-8 at line 2: try"),
    ],
)
def test_wrong_encoding(data: bytes, encoding: str, message: str) -> None:
    assert message in error_of(data, encoding)


@given(
    before=st.lists(st.sampled_from(["\n", "\r\n", "한강\n", "x" * 999 + "\n"]), max_size=60),
    zipped=st.booleans(),
)
def test_the_line_of_a_wrong_byte_is_right_far_down(before: list[str], zipped: bool) -> None:
    text = "".join(["id\n", *before, "end\n"])
    good = text.encode()
    data = good + b"bad \xff\nmore\n"
    line = len(io.StringIO(text, newline="").readlines()) + 1
    assert f"at line {line}:" in error_of(gzip.compress(data, 0) if zipped else data)


@pytest.mark.parametrize("ending", ["\n", "\r", "\r\n"])
def test_a_line_may_be_long_but_not_longer(ending: str) -> None:
    longest = "x" * (MAX_ROW - len(ending)) + ending
    assert lines_of(f"a\n{longest}b".encode()) == ["a\n", longest, "b"]
    assert error_of(f"a\nx{'x' * MAX_ROW}{ending}".encode()) == (
        f"CSV a.csv line 2: a line or row of more than {MAX_ROW} characters: it is not a CSV, or a"
        " quote is not closed"
    )


@pytest.mark.parametrize("line", ["\n", "0,a\n", "\r", "{}", "[],"])
def test_gzip_may_not_hold_far_more_than_its_size(line: str) -> None:
    """16 KB of gzip held four million rows, which took 35 CPU seconds."""
    data = gzip.compress(line.encode() * 1_000_000)
    with pytest.raises(LabelsError) as caught:
        for _ in read_lines(io.BytesIO(data), path="a.csv"):
            pass
    assert str(caught.value) == "CSV a.csv holds more than 200 times its size: decompress it"


def test_gzip_of_a_table_with_a_thousand_columns_is_read() -> None:
    """It holds its size more often than any other real table."""
    rows = (
        f"{number}.jpg," + ",".join("1" if at == number * 7 % 1000 else "0" for at in range(1000))
        for number in range(5000)
    )
    text = "\n".join(rows)
    data = gzip.compress(text.encode(), 9)
    assert len(text) > 100 * len(data)
    assert sum(map(len, read_lines(io.BytesIO(data), path="a.csv"))) == len(text)


def test_blank_lines_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fifty million of them took a minute."""
    monkeypatch.setattr(csv_tables, "_MOST_BLANK", 100)
    assert len(lines_of(b"\n" * 100)) == 100
    assert len(lines_of(b"a\n" * 10 + b"\n" * 200)) == 210
    assert error_of(b"\n" * 101) == "CSV a.csv has 101 blank lines: remove them"
