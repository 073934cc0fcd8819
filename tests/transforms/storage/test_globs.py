"""Names of a bucket match a glob as local files do, and both as the standard library's glob."""

from __future__ import annotations

import glob
import os
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.transforms.storage.conftest import in_ranges
from transforms.labels.keys import glob_regex, literal_prefix
from transforms.storage.local_storage import LocalStorage

NAMES = st.sampled_from(["a", "b.jpg", ".h", "ab", "a]", "[x]", "a-b", "^", "é", "A", "a\n"])
PARTS = st.sampled_from(
    ["*", "**", "?", "a*", "*.jpg", "[ab]", "[!a]*", "[]]", "a[]]", "[a-c]*", "[x", ".*", "[^]"]
    + ["a", "b.jpg", "*b*", "[[]x]", "**a", "[!]]*", "[-a]*", "*a*b*", "?*.*", "*[!b]*a*"]
)


@settings(deadline=None, max_examples=3 * settings().max_examples)
@given(
    st.lists(st.lists(NAMES, min_size=1, max_size=3), min_size=1, max_size=8),
    st.lists(PARTS, min_size=1, max_size=4),
)
def test_names_match_as_local_files_do(paths: list[list[str]], parts: list[str]) -> None:
    """In a bucket, in a folder, in its ranges, and for the standard library."""
    with tempfile.TemporaryDirectory() as name:
        root, pattern = Path(name), "/".join(parts)
        for path in paths:
            file = root.joinpath(*path)
            if any(parent.is_file() for parent in file.parents) or file.exists():
                continue
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch()
        files = {str(path) for path in root.rglob("*") if path.is_file()}
        known = {os.path.normpath(path) for path in glob.glob(f"{name}/{pattern}", recursive=True)}
        found = sorted(file.uri for file in LocalStorage().list_files(f"{name}/{pattern}"))
        assert {*found} == known & files
        assert sorted(in_ranges(f"{name}/{pattern}")) == found
    matches = glob_regex(pattern).fullmatch
    assert {path for path in files if matches(path.removeprefix(f"{name}/"))} == {*found}


@pytest.mark.parametrize(
    ("pattern", "prefix"),
    [("a/b*.jpg", "a/b"), ("a/[b]", "a/"), ("a/b.jpg", "a/b.jpg"), ("*", ""), ("a?", "a")],
)
def test_the_prefix_ends_at_the_first_wildcard(pattern: str, prefix: str) -> None:
    assert literal_prefix(pattern) == prefix


@pytest.mark.parametrize(
    ("pattern", "name"),
    [("**/*_*_*_*.jpg", "_" * 4000), ("**/a/**/a*/**/a/**/*.png", "a/" * 2000 + "x.jpg")],
)
def test_stars_in_a_long_name_take_no_time(pattern: str, name: str) -> None:
    """Names in archives have thousands of characters."""
    began = time.process_time()
    assert not glob_regex(pattern).fullmatch(name)
    assert time.process_time() - began < 1
