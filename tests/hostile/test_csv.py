"""Label files of hostile shape: one clear line or one rejected row, in memory that is bounded.

Commands on files that could fill the memory run in a process with a ceiling on its address space.
"""

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import draw
from tests.hostile.limited import run_limited
from tests.marks import cases
from tests.pipeline import commands
from tests.pipeline.commands import Dataset, Ran

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="ceilings on memory need Linux")

HEAD, ROWS = b"id,label\n", b"0,cat\n1,dog\n2,cat\n3,dog\n"
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


def convert(images: str, labels: Path, command: str = "convert") -> Ran:
    """Runs a command on the images and the label file, with a ceiling on its memory."""
    flags = {"images": images, "labels": labels, "output": labels.with_name("out")}
    return run_limited(f"pipeline.{command}", max_rejected="100%", **flags)


def convert_here(images: str, labels: Path, **flags: Any) -> Ran:
    """Runs `convert` in this process, on a label file of a few lines."""
    flags |= {"images": images, "labels": labels, "output": labels.with_name("out")}
    return commands.convert(max_rejected="100%", **flags)


def dataset(labels: Path, ran: Ran) -> Dataset:
    assert ran.code == 0, ran.err
    return Dataset(labels.with_name("out"))


def refused(ran: Ran, *says: str) -> None:
    """Checks that a command ended with a line that says so, and left nothing published."""
    assert ran.code == 2, ran
    line = ran.error()
    assert [part for part in says if part not in line] == [], line
    assert len(line) < 600


def write(path: Path, *parts: bytes, times: int = 1) -> None:
    """Writes a label file; the last part so often."""
    with path.open("wb") as file:
        file.writelines([*parts[:-1], *[parts[-1]] * times])


def write_long(path: Path, start: bytes) -> None:
    write(path, start, MEGABYTE, times=100)


def write_quote(path: Path) -> None:
    """It is never closed, and no line and no cell of its row is long."""
    write(path, b'id,label\n9,"cat"\n9,"', b'b","b\n' * 10_000, times=1000)


LONG = "a line or row of more than 4194304 characters"


@pytest.mark.slow
@cases(
    (partial(write_long, start=b""), "convert", f"line 1: {LONG}"),
    (partial(write_long, start=HEAD + ROWS), "plan", f"line 6: {LONG}"),
    (write_quote, "convert", "a quote is not closed"),
)
def test_a_line_without_an_end(
    make: Callable[[Path], None], command: str, says: str, images: str, labels: Path
) -> None:
    make(labels)
    refused(convert(images, labels, command), str(labels), LONG[:26], says)


def test_nul_bytes(images: str, labels: Path) -> None:
    write(labels, HEAD, ROWS.replace(b"2,cat", b"2,c\0at"))
    refused(convert_here(images, labels), f"{labels} line 4 holds a NUL byte", "save it as UTF-8")
    write(labels, (HEAD + ROWS).decode().encode("utf-16-le"))
    refused(convert_here(images, labels), "line 1 holds a NUL byte", "--csv_encoding utf-16-le")
    ran = convert_here(images, labels, csv_encoding="utf-16-le")
    assert dataset(labels, ran).classes == ["cat", "dog"]


def test_formulas_are_text(images: str, labels: Path) -> None:
    formulas = ["=cmd|' /C calc'!A0", "+1+1", "-2+3", "@SUM(1)"]
    rows = "".join(f"{number},{label}\n" for number, label in enumerate(formulas))
    labels.write_text(f'id,label\n{rows}"=HYPERLINK(""http://x/1.jpg"")",cat\n')
    made = dataset(labels, convert_here(images, labels))
    assert made.classes == sorted(formulas)
    [rejected] = made.rejected
    assert (rejected["reason"], rejected["key"]) == ("row_without_image", '1.jpg")')


@pytest.mark.slow
def test_keys_of_a_megabyte(images: str, labels: Path) -> None:
    """Hundreds of rows that each would stay in memory, several times."""
    write(labels, HEAD, ROWS, *(b"%d" % number * 300_000 + b",cat\n" for number in range(300)))
    made = dataset(labels, convert(images, labels))
    assert made.ledger["rows_rejected"] == 300
    assert made.rejected[0]["detail"].endswith("characters: no file name is that long")
    assert max(len(entry["key"]) for entry in made.rejected) == 4096
