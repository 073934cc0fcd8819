"""Files of keys are read line by line, in bounded memory."""

from __future__ import annotations

from pathlib import Path

import pytest

import transforms.input_readers
from transforms.core.messages import LabelsError
from transforms.input_readers import KeyReader
from transforms.labels.joins import MAX_LINE


@pytest.mark.parametrize("chunk", [1, 3, 1 << 20])
def test_each_line_is_a_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    monkeypatch.setattr(transforms.input_readers, "_CHUNK", chunk)
    path = tmp_path / "keys.txt"
    path.write_bytes("\ufeffa\r\n\nb\x85c\n  한강 \nlast".encode())
    assert [(key, side.where) for key, side in KeyReader(str(path)).read()] == [
        ("a", f"{path}:1"),
        ("b\x85c", f"{path}:3"),
        ("한강", f"{path}:4"),
        ("last", f"{path}:5"),
    ]
    assert next(KeyReader(str(path), "-").read())[1].where == "-:1"


def test_lines_that_are_repeated_take_no_place_in_the_join(tmp_path: Path) -> None:
    path = tmp_path / "keys.txt"
    path.write_text("a\nb\n\n" * 100_000 + "c")
    keys = [(key, side.where) for key, side in KeyReader(str(path)).read()]
    assert keys == [("a", f"{path}:1"), ("b", f"{path}:2"), ("c", f"{path}:300001")]


def test_a_file_without_line_breaks_is_not_read_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transforms.input_readers, "_CHUNK", MAX_LINE)
    path = tmp_path / "keys.txt"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(LabelsError, match="keys.txt:1 has more than 65536 bytes"):
        list(KeyReader(str(path)).read())
