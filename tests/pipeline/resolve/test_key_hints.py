"""A hint is tried before it is given: who follows it has no error."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pipeline.resolve import label_flags
from tests.conftest import draw
from tests.marks import rest_slow
from tests.pipeline.commands import convert, plan


@pytest.fixture
def twins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two images with one name, in a working directory."""
    for at, name in enumerate(["a/1", "b/1"]):
        draw(tmp_path / "in" / f"{name}.jpg", seed=at)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refused(hint: str, **flags: Any) -> None:
    ran = plan(**flags)
    assert ran.code == 2 and hint in ran.error(), ran.err


def rows(folder: Path, *keys: str) -> Path:
    path = folder / "rows.csv"
    path.write_text("\n".join(["id,label", *(f"{key},x" for key in keys)]))
    return path


FLAGS = {"images": "in/*/*.jpg", "output": "out"}


def test_of_several_keys_the_one_that_tells_images_apart(twins: Path) -> None:
    labels = rows(twins, "a/1.jpg", "b/1.jpg")
    refused("; try --key path", **FLAGS, labels=labels, key="uri")
    assert "2 to convert" in plan(**FLAGS, labels=labels, key="path").out


def test_twins_are_reported(twins: Path) -> None:
    draw(twins / "in" / "b" / "2.jpg", seed=3)
    hint = "try --key stem, under which 1 images of 3 share a key and are rejected"
    refused(hint, **FLAGS, labels=rows(twins, "1", "2"), key="path")


def test_no_key_fits(twins: Path) -> None:
    refused("check --label_key and --key", **FLAGS, labels=rows(twins, "x"), key="path")


def test_folders(twins: Path) -> None:
    for at, name in enumerate(["one.PNG", "two.PNG"]):
        draw(twins / "in" / "c" / name, seed=at)
    (twins / "tables").mkdir()
    (twins / "empty").mkdir()
    (twins / "tables" / "some.csv").write_text("id,label\n1,a\n")
    refused("it is a folder: try 'in/c/**/*.PNG'", images="in/c", output="out")
    assert plan(images="in/c/**/*.PNG", output="out", label_from="none").code == 0
    refused("give a file; it holds no images", images="tables", output="out")
    refused("it is a folder: try 'tables/some.csv'", **FLAGS, labels="tables")
    refused("give a file; it holds no *.csv", **FLAGS, labels="empty")
    (twins / "tables" / "more.csv").write_text("id,label\n2,a\n")
    refused("it is a folder: try 'tables/*.csv'", **FLAGS, labels="tables")
    refused("there is no such file", **FLAGS, labels="nope.csv")
    refused("check the pattern", **FLAGS, labels="nope*.csv")


@pytest.mark.parametrize(
    ("kind", "line", "hint"),
    [
        ("stem", "1.jpg", "try --key name, under which 1 images of 2 share a key"),
        ("stem", "a/1.jpg", "try --key path"),
        ("path", "in/a/1.jpg", "try --key uri"),
        ("uri", "a/1.jpg", "try --key path"),
        ("name", "x/1.jpg", "write '1.jpg' for 'x/1.jpg'"),
        ("stem", "x/1.jpg", "write '1' for 'x/1.jpg'"),
        ("uri", "./in/a/1.jpg", "write 'in/a/1.jpg' for './in/a/1.jpg'"),
    ],
)
def test_keys_that_are_compared_as_they_are(twins: Path, kind: str, line: str, hint: str) -> None:
    keys = twins / "keys.txt"
    keys.write_text(f"{line}\n")
    refused(f"(--key {kind}); {hint}", **FLAGS, label_from="none", key=kind, keys=keys)


def near_misses(folder: Path, spelled: Callable[[str], str]) -> dict[str, Any]:
    """Flags with images of which the rows name one, and spell the others in another way."""
    names = [f"{letter}{number:02}" for letter in "pq" for number in range(1, 5)]
    for at, name in enumerate(names):
        draw(folder / "in" / "cat" / f"{name}.jpg", seed=at)
    cells = [f"cat/{names[0]}.jpg", *(spelled(f"cat/{name}.jpg") for name in names[1:])]
    return {"images": f"{folder}/in/*/*.jpg", "output": folder / "out", "root": folder / "in"} | {
        "labels": rows(folder, *cells)
    }


@pytest.mark.parametrize(
    ("key", "spelled", "hint"),
    rest_slow(
        [
            ("stem", lambda cell: cell.replace("/", "/img_"), "cells begin with 'img_', keys of"),
            ("path", str.upper, "'CAT/P02.JPG' and 'cat/p02.jpg' differ in upper and lower case"),
            (
                "path",
                lambda cell: f"x/{cell}",
                "; cells begin with 'x/', keys of images do not; try",
            ),
            ("path", lambda cell: cell[4:], "keys of images begin with 'cat/', cells do not; try"),
            ("path", lambda cell: f"dog{cell[3:]}", "differ in the folder; try --key name"),
            ("path", lambda cell: f"{cell[:7]}.bmp", "differ in the extension; try --key stem"),
            ("path", lambda cell: f"dog{cell[3:7]}.JPG", "(--key path); try --key stem"),
            ("name", lambda cell: cell[:7], "cells do not; try --key stem"),
            ("stem", lambda cell: cell.replace("0", ""), "'p2' and 'p02' differ in leading zeros"),
            ("stem", lambda cell: cell[:7] + "_l", "cells end with '_l', keys of images do not"),
            ("stem", lambda cell: "x", "(--key stem); check --label_key and --key"),
        ]
    ),
)
def test_a_row_that_matches_by_accident_hides_no_hint(
    tmp_path: Path, key: str, spelled: Callable[[str], str], hint: str
) -> None:
    flags = near_misses(tmp_path, spelled)
    ran = plan(**flags, key=key)
    [line] = [line for line in ran.out.splitlines() if line.startswith("warning ")]
    assert "7 of 8 rows of --labels" in line and "and 7 of 8 images no row:" in line
    assert f"column 'id' holds {spelled('cat/p02.jpg')!r}, images have keys like " in line
    assert hint in line


def test_too_many_rejections_come_with_the_hint(tmp_path: Path) -> None:
    flags = near_misses(tmp_path, str.upper)
    ran = convert(**flags, max_rejected=0)
    assert ran.code == 3 and "column 'id' holds 'CAT/P02.JPG'" in ran.error()
    assert ran.error().endswith("'P02' and 'p02' differ in upper and lower case")
    ran = convert(**flags, max_rejected="100%")
    assert ran.code == 0 and "'P02' and 'p02' differ in upper" in ran.out


def test_no_hint_for_rows_or_images_that_are_only_more(tmp_path: Path) -> None:
    flags = near_misses(tmp_path, str)
    names = [f"{letter}0{number}" for letter in "pq" for number in range(1, 5)]
    for cells in (names[:1], [*names, *map(str, range(30))], [*names[:4], *"xyz"]):
        ran = plan(**flags | {"labels": rows(tmp_path, *cells)})
        assert ran.code == 0 and "warning " not in ran.out


def test_rows_of_images_further_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(label_flags, "SAMPLE_ROWS", 4)
    flags = near_misses(tmp_path, str)
    names = [f"{letter}0{number}" for letter in "pq" for number in range(1, 5)]
    upper = [name.upper() for name in names[1:]]
    for cells, warns in (
        ([names[0], *upper], True),
        ([names[0], *upper, *upper], True),
        # What explains the first rows is wrong: they are of other images.
        ([names[0], *upper, *names], False),
        # Nothing explains them.
        ([names[0], *"stu", *upper], False),
    ):
        out = plan(**flags | {"labels": rows(tmp_path, *cells)}).out
        assert (f"{len(cells) - 1} of {len(cells)} rows of --labels" in out) == warns
        assert ("warning " in out) == warns
