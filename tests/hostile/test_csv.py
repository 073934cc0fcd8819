"""Label files of hostile shape: one clear line or one rejected row, in memory that is bounded.

Commands on files that could fill the memory run in a process with a ceiling on its address space.
"""

from __future__ import annotations

import gzip
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.campaign import size
from tests.conftest import draw
from tests.hostile.limited import run_limited
from tests.pipeline import commands
from tests.pipeline.commands import Dataset, Ran

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="ceilings on memory need Linux")

ROWS = b"0,cat\n1,dog\n2,cat\n3,dog\n"
MEGABYTE = b"x" * (1 << 20)


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A glob of the images 0 to 3."""
    folder = tmp_path_factory.mktemp("images")
    for number in range(4):
        draw(folder / f"{number}.jpg", seed=number)
    return f"{folder}/*.jpg"


@pytest.fixture
def labels(tmp_path: Path) -> Path:
    """The path of a test's label file; the largest files take a gigabyte."""
    return tmp_path / "labels.csv"


def convert(images: str, labels: Path, command: str = "convert", **flags: Any) -> Ran:
    """Runs a command on the images and the label file."""
    flags = {"max_rejected": "100%", **flags}
    output = labels.with_name("out")
    return run_limited(f"pipeline.{command}", images=images, labels=labels, output=output, **flags)


def convert_small(images: str, labels: Path, **flags: Any) -> Ran:
    """Runs `convert` in this process, on a label file of a few lines."""
    output = labels.with_name("out")
    return commands.convert(
        images=images, labels=labels, output=output, max_rejected="100%", **flags
    )


def dataset(images: str, labels: Path, run: Callable[..., Ran] = convert, **flags: Any) -> Dataset:
    """The dataset that `convert` makes."""
    ran = run(images, labels, **flags)
    assert ran.code == 0, ran.err
    return Dataset(labels.with_name("out"))


def refused(ran: Ran, *says: str) -> None:
    """Checks that a command ended with a line that says so, and left nothing published."""
    assert ran.code == 2, ran
    line = ran.error()
    for part in says:
        assert part in line, line
    assert len(line) < 600


def write(path: Path, *parts: bytes, times: int = 1, zipped: bool = False) -> None:
    """Writes a label file; the last part so often."""
    with gzip.open(path, "wb", 1) if zipped else path.open("wb") as file:
        for part in parts[:-1]:
            file.write(part)
        for _ in range(times):
            file.write(parts[-1])


@pytest.mark.slow
@pytest.mark.parametrize("command", ["convert", "plan"])
@pytest.mark.parametrize("start", [b"", b"id,label\n" + ROWS])
def test_a_line_without_an_end(images: str, labels: Path, start: bytes, command: str) -> None:
    write(labels, start, MEGABYTE, times=100)
    line = start.count(b"\n") + 1
    ran = convert(images, labels, command)
    refused(ran, f"{labels} line {line}: a line or row of more than 4194304 characters")


@pytest.mark.slow
def test_a_line_of_a_gigabyte_in_a_megabyte_of_gzip(images: str, labels: Path) -> None:
    write(labels, b"id,label\n", MEGABYTE, times=256, zipped=True)
    refused(convert(images, labels), "line 2: a line or row of more than")


@pytest.mark.slow
def test_a_line_of_a_gigabyte_of_nul_bytes(images: str, labels: Path) -> None:
    """A sparse file, as a disk that was full leaves behind: the rest of it was never written."""
    write(labels, b"id,label\n" + ROWS)
    with labels.open("r+b") as file:
        file.truncate(1 << 30)
    refused(convert(images, labels), "line 6: a line or row of more than")


@pytest.mark.slow
def test_a_quote_that_is_never_closed(images: str, labels: Path) -> None:
    """No line and no cell of its row is long."""
    write(labels, b'id,label\n9,"cat"\n9,"', b'b","b\n' * 10_000, times=1000)
    ran = convert(images, labels)
    refused(ran, "line 3: a line or row of more than", "a quote is not closed")


@pytest.mark.slow
def test_a_hundred_thousand_columns(images: str, labels: Path) -> None:
    names = ",".join(f"column {number}" for number in range(100_000))
    cells = ",".join(map(str, range(100_000)))
    rows = "".join(f"{number},{cells},cat\n" for number in range(4))
    labels.write_text(f"id,{names},label\n{rows}")
    made = dataset(images, labels)
    assert made.classes == ["cat"]
    assert made.ledger["rows_used"] == 4
    labels.write_text(f"{names}\n{cells}\n")
    refused(convert(images, labels, "plan"), "'column 19' and 99980 more", "--label_key")


@pytest.mark.slow
def test_blank_lines_by_the_million(images: str, labels: Path) -> None:
    lines = size(200_000, 1_000_000)
    write(labels, b"\r\n" * lines + b"id,label\n" + ROWS + b"4,\n", b"\n", times=lines)
    made = dataset(images, labels)
    assert made.ledger == {
        "images_matched": 4,
        "records_written": 4,
        "rows_read": 5,
        "rows_used": 4,
        "rows_unmatched": 1,
    }
    assert [entry["path"] for entry in made.rejected] == [f"{labels}:{lines + 6}"]


def test_nul_bytes(images: str, labels: Path) -> None:
    write(labels, b"id,label\n" + ROWS.replace(b"2,cat", b"2,c\0at"))
    refused(convert_small(images, labels), f"{labels} line 4 holds a NUL byte", "save it as UTF-8")
    write(labels, ("id,label\n" + ROWS.decode()).encode("utf-16-le"))
    refused(convert_small(images, labels), "line 1 holds a NUL byte", "--csv_encoding utf-16-le")
    assert dataset(images, labels, convert_small, csv_encoding="utf-16-le").classes == [
        "cat",
        "dog",
    ]


def test_formulas_are_text(images: str, labels: Path) -> None:
    formulas = ["=cmd|' /C calc'!A0", "+1+1", "-2+3", "@SUM(1)"]
    rows = "".join(f"{number},{label}\n" for number, label in enumerate(formulas))
    labels.write_text(f'id,label\n{rows}"=HYPERLINK(""http://x/1.jpg"")",cat\n')
    made = dataset(images, labels, convert_small)
    assert made.classes == sorted(formulas)
    assert [(entry["reason"], entry["key"]) for entry in made.rejected] == [
        ("row_without_image", '1.jpg")')
    ]


@pytest.mark.slow
def test_keys_of_a_megabyte(images: str, labels: Path) -> None:
    """Hundreds of rows that each would stay in memory, several times."""
    rows = b"".join(b"%d" % number * 300_000 + b",cat\n" for number in range(300))
    write(labels, b"id,label\n" + ROWS + rows)
    made = dataset(images, labels)
    assert made.ledger["rows_rejected"] == 300
    assert made.rejected[0]["detail"].endswith("characters: no file name is that long")
    assert max(len(entry["key"]) for entry in made.rejected) == 4096
