"""Alternatives and extensions of any case mean the same for files and for objects."""

from __future__ import annotations

from pathlib import Path

import pytest

from transforms.labels.keys import any_case, expand_braces, glob_regex, other_case
from transforms.storage.local_storage import LocalStorage


@pytest.mark.parametrize(
    ("pattern", "globs"),
    [
        ("*.{jpg,png}", ["*.jpg", "*.png"]),
        ("{a,b}{1,2}", ["a1", "a2", "b1", "b2"]),
        ("{a,{b,c}d}", ["a", "bd", "cd"]),
        ("x{,s}.jpg", ["x.jpg", "xs.jpg"]),
        ("{a,a}", ["a"]),
        ("{a}/{b", ["{a}/{b"]),
        ("plain", ["plain"]),
    ],
)
def test_alternatives(pattern: str, globs: list[str]) -> None:
    assert sorted(expand_braces(pattern)) == sorted(globs)


def test_too_many_alternatives() -> None:
    with pytest.raises(ValueError, match="more than 1000 globs"):
        expand_braces("{a,b}" * 40)


NAMES = ["1.jpg", "2.JPG", "3.Jpg", "4.png", "5.PNG", "6.txt", "7.jp2", "8.JP2", ".9.jpg"]


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("*.jpg", ["1.jpg", "2.JPG", "3.Jpg"]),
        ("*.{JPG,png}", ["1.jpg", "2.JPG", "3.Jpg", "4.png", "5.PNG"]),
        ("?.jp2", ["7.jp2", "8.JP2"]),
        ("2.jpg", []),
        ("*.jp[g]", ["1.jpg"]),
        ("*.txt", ["6.txt"]),
        ("**", NAMES[:-1]),
    ],
)
def test_files_and_objects_are_the_same(tmp_path: Path, pattern: str, names: list[str]) -> None:
    for name in NAMES:
        (tmp_path / name).touch()
    globs = [any_case(glob) for glob in expand_braces(f"{tmp_path}/{pattern}")]
    found = {Path(file.uri).name for glob in globs for file in LocalStorage().list_files(glob)}
    assert found == set(names)
    matching = [glob_regex(glob).fullmatch for glob in globs]
    objects = {name for name in NAMES if any(match(f"{tmp_path}/{name}") for match in matching)}
    assert objects == found


def test_another_case_is_counted() -> None:
    assert [other_case("*.jpg", name) for name in NAMES[:3]] == [False, True, True]
    assert not other_case("*.txt", "a.TXT") and not other_case("*", "a.JPG")
