"""A hint is tried before it is given: who follows it has no error."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pipeline.options.parser import parse_flags
from pipeline.resolve import label_flags
from pipeline.resolve.preflight import check_flags
from tests.conftest import draw
from tests.marks import cases, rest_slow
from tests.pipeline.commands import check_ended, convert, plan
from tests.spies import paths_given
from transforms.storage.local_storage import LocalStorage


@pytest.fixture
def twins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two images with one name, and folders, in a working directory."""
    for at, name in enumerate(["in/a/1.jpg", "in/b/1.jpg", "c/one.PNG", "c/two.PNG"]):
        draw(tmp_path / name, seed=at)
    for name in ("empty/x", "one/1.csv", "tables/1.csv", "tables/2.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("id,label\n1,a\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def rows(folder: Path, *keys: str) -> Path:
    path = folder / "rows.csv"
    path.write_text("\n".join(["id,label", *(f"{key},x" for key in keys)]))
    return path


FLAGS = {"images": "in/*/*.jpg", "output": "out"}


@cases(
    # Of several keys the one that tells images apart.
    (["a/1.jpg", "b/1.jpg"], "uri", "; try --key path"),
    (["1", "2"], "path", "try --key stem, under which 1 images of 3 share a key and are"),
    (["x"], "path", "check --label_key and --key"),
)
def test_no_row_has_an_image(cells: list[str], key: str, hint: str, twins: Path) -> None:
    if "2" in cells:
        draw(twins / "in" / "b" / "2.jpg", seed=3)
    labels = rows(twins, *cells)
    check_ended(plan(**FLAGS, labels=labels, key=key), 2, hint)
    if key == "uri":
        check_ended(plan(**FLAGS, labels=labels, key="path"), 0, "2 to convert")


@cases(
    ({"images": "tables"}, "it is a folder, which holds no images, but 2 .csv"),
    ({"labels": "one"}, "it is a folder, which holds 1 .csv: try 'one/1.csv'"),
    ({"labels": "tables"}, "it is a folder, which holds 2 .csv: try 'tables/*.csv'"),
    ({"labels": "empty"}, "it is a folder, which holds no *.csv, but 1 without"),
    ({"labels": "nope.csv"}, "there is no such file"),
    ({"labels": "nope*.csv"}, "check the pattern"),
)
@pytest.mark.usefixtures("twins")
def test_folders(flags: dict[str, str], hint: str) -> None:
    check_ended(plan(**{**FLAGS, **flags}), 2, hint)


@cases(
    ("stem", "1.jpg", "try --key name, under which 1 images of 2 share a key"),
    ("stem", "a/1.jpg", "try --key path"),
    ("path", "in/a/1.jpg", "try --key uri"),
    ("uri", "a/1.jpg", "try --key path"),
    ("name", "x/1.jpg", "write '1.jpg' for 'x/1.jpg'"),
    ("stem", "x/1.jpg", "write '1' for 'x/1.jpg'"),
    ("uri", "./in/a/1.jpg", "write 'in/a/1.jpg' for './in/a/1.jpg'"),
)
def test_keys_that_are_compared_as_they_are(kind: str, line: str, hint: str, twins: Path) -> None:
    (twins / "keys.txt").write_text(f"{line}\n")
    ran = plan(**FLAGS, label_from="none", key=kind, keys="keys.txt")
    check_ended(ran, 2, f"(--key {kind}); {hint}")


NAMES = [f"{letter}0{number}" for letter in "pq" for number in range(1, 5)]


def near_misses(folder: Path, spelled: Callable[[str], str]) -> dict[str, Any]:
    """Flags with images of which the rows name one, and spell the others in another way."""
    for at, name in enumerate(NAMES):
        draw(folder / "in" / "cat" / f"{name}.jpg", seed=at)
    cells = [f"cat/{NAMES[0]}.jpg", *(spelled(f"cat/{name}.jpg") for name in NAMES[1:])]
    flags = {"images": f"{folder}/in/*/*.jpg", "output": folder / "out", "root": folder / "in"}
    return {**flags, "labels": rows(folder, *cells)}


MISSES: list[tuple[str, Callable[[str], str], str]] = [
    ("stem", lambda cell: cell.replace("/", "/img_"), "cells begin with 'img_', keys of"),
    ("path", str.upper, "'CAT/P02.JPG' and 'cat/p02.jpg' differ in upper and lower case"),
    ("path", lambda cell: f"x/{cell}", "; cells begin with 'x/', keys of images do not; try"),
    ("path", lambda cell: cell[4:], "keys of images begin with 'cat/', cells do not; try"),
    ("path", lambda cell: f"dog{cell[3:]}", "differ in the folder; try --key name"),
    ("path", lambda cell: f"{cell[:7]}.bmp", "differ in the extension; try --key stem"),
    ("path", lambda cell: f"dog{cell[3:7]}.JPG", "(--key path); try --key stem"),
    ("name", lambda cell: cell[:7], "cells do not; try --key stem"),
    ("stem", lambda cell: cell.replace("0", ""), "'p2' and 'p02' differ in leading zeros"),
    ("stem", lambda cell: cell[:7] + "_l", "cells end with '_l', keys of images do not"),
    ("stem", lambda cell: "x", "(--key stem); check --label_key and --key"),
]


@pytest.mark.parametrize(("key", "spelled", "hint"), rest_slow(MISSES))
def test_a_row_that_matches_by_accident_hides_no_hint(
    tmp_path: Path, key: str, spelled: Callable[[str], str], hint: str
) -> None:
    ran = plan(**near_misses(tmp_path, spelled), key=key)
    [line] = [line for line in ran.out.splitlines() if line.startswith("warning ")]
    assert "7 of 8 rows of --labels" in line and "and 7 of 8 images no row:" in line
    assert f"column 'id' holds {spelled('cat/p02.jpg')!r}, images have keys like " in line
    assert hint in line


def test_too_many_rejections_come_with_the_hint(tmp_path: Path) -> None:
    flags, hint = near_misses(tmp_path, str.upper), "'P02' and 'p02' differ in upper and lower case"
    ran = convert(**flags, max_rejected=0)
    assert ran.code == 3 and "column 'id' holds 'CAT/P02.JPG'" in ran.error()
    assert ran.error().endswith(hint)
    check_ended(convert(**flags, max_rejected="100%"), 0, hint)


UPPER = [name.upper() for name in NAMES[1:]]


@cases(
    # Rows or images that are only more.
    ([*NAMES, *map(str, range(30))], 1000, False),
    ([*NAMES[:4], *"xyz"], 1000, False),
    # Rows of images further down.
    ([NAMES[0], *UPPER], 4, True),
    # What explains the first rows is wrong: they are of other images.
    ([NAMES[0], *UPPER, *NAMES], 4, False),
    # Nothing explains them.
    ([NAMES[0], *"stu", *UPPER], 4, False),
)
def test_when_a_hint_is_given(
    cells: list[str], sampled: int, warns: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(label_flags, "SAMPLE_ROWS", sampled)
    ran = plan(**near_misses(tmp_path, str) | {"labels": rows(tmp_path, *cells)})
    assert (ran.code, "warning " in ran.out) == (0, warns), ran.err
    assert (f"{len(cells) - 1} of {len(cells)} rows of --labels" in ran.out) == warns


def test_few_tables_are_read_before_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """12,000 took twice as long."""
    draw(tmp_path / "1.jpg")
    for at in range(9):
        (tmp_path / f"{at}.csv").write_text("id,label\n1,x\n")
    monkeypatch.setattr(label_flags, "_FIRST_FILES", 3)
    opened = paths_given(monkeypatch, LocalStorage, "open_reader")
    flags = [f"--images={tmp_path}/*.jpg", f"--labels={tmp_path}/*.csv", f"--output={tmp_path}/out"]
    check_flags(parse_flags("convert", flags)[0])
    # The first three for their columns, these for their rows, and one more.
    assert len(opened) == 7
