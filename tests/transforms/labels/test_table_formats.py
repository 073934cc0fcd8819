"""The formats of label files."""

from __future__ import annotations

import gzip

import pytest

from transforms.labels.label_rows import FORMATS, find_format, is_yolo


@pytest.mark.parametrize(
    ("path", "head", "format_"),
    [
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
    ],
)
def test_format(path: str, head: bytes, format_: str) -> None:
    assert find_format(path, head) == format_
    assert format_ in FORMATS


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
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
    ],
)
def test_yolo(path: str, text: str, expected: bool) -> None:
    assert is_yolo(path, text.encode()[:4096]) is expected
