"""Names of a bucket match a glob as local files do, and both as the standard library's glob."""

import bisect
import glob
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.marks import cases, rest_slow
from tests.servers.listed_names import (
    PAGE,
    Names,
    hashed,
    in_classes,
    listing_rounds,
    numbered,
    rest_of,
    uneven,
)
from tests.transforms.storage.conftest import in_ranges
from transforms.labels.keys import glob_regex
from transforms.storage.gcs_storage import range_starts
from transforms.storage.interface import LISTED_NAMES, MAX_RANGES
from transforms.storage.local_storage import LocalStorage

NAMES = st.sampled_from(["a", "b.jpg", ".h", "ab", "a]", "[x]", "a-b", "^", "é", "A", "a\n"])
PARTS = st.sampled_from(
    ["*", "**", "?", "a*", "*.jpg", "[ab]", "[!a]*", "[]]", "a[]]", "[a-c]*", "[x", ".*", "[^]"]
    + ["a", "b.jpg", "*b*", "[[]x]", "**a", "[!]]*", "[-a]*", "[b-a]*", "*a*b*", "?*.*", "*[!b]*a*"]
)


@settings(deadline=None, max_examples=3 * settings().max_examples)
@given(
    st.lists(st.lists(NAMES, min_size=1, max_size=3), min_size=1, max_size=8),
    st.lists(PARTS, min_size=1, max_size=4),
)
@example([[".h", "b.jpg"]], ["**", "*.jpg"])
@example([["a"]], ["[b-a]*"])
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


@cases(("**/*_*_*_*.jpg", "_" * 4000), ("**/a/**/a*/**/a/**/*.png", "a/" * 2000 + "x.jpg"))
def test_stars_in_a_long_name_take_no_time(pattern: str, name: str) -> None:
    """Names in archives have thousands of characters."""
    began = time.process_time()
    assert not glob_regex(pattern).fullmatch(name)
    assert time.process_time() - began < 1


# Lists of up to 100 million names are cut by counting requests, without any storage.

MANY = 10**8


# Computing the names takes seconds for the largest.
@pytest.mark.parametrize("shape", rest_slow([uneven, numbered, hashed, in_classes]))
def test_no_worker_lists_long_at_100_million(shape: Callable[[int], Names]) -> None:
    rounds = listing_rounds(shape(MANY))
    each = [listed for ranges in rounds for listed in ranges]
    # Pages that one worker lists; one worker alone would list 100,000.
    assert sum(max(listed.pages for listed in ranges) for ranges in rounds) <= 300
    assert max(map(len, rounds)) >= 1000
    assert sum(listed.pages for listed in each) < 1.1 * MANY // PAGE
    # Requests for single names, of one cut and of all; they run 32 at once.
    assert max(listed.probes for listed in each) <= 400
    assert sum(listed.probes for listed in each) < 0.3 * MANY // PAGE


def test_ranges_are_even_and_a_short_list_is_not_cut() -> None:
    [[listed]] = listing_rounds(numbered(LISTED_NAMES[0]))
    assert (listed.pages, listed.probes) == (16, 0)
    names = numbered(64_000)
    ranges, sent = rest_of(names, names.name(0), names.count)
    sizes = [end - names.at(start) for start, end in ranges]
    assert (len(sizes), sum(sizes)) == (64, 64_000)
    assert max(sizes) <= 2 * min(sizes)
    assert sent < 4 * 64


texts = st.text(st.sampled_from("ab/ 가\ud7ff\U0010ffff"), max_size=6)


@given(st.lists(texts, unique=True), texts)
def test_every_name_is_in_one_range(names: list[str], start: str) -> None:
    sent = []

    def first_at(text: str) -> str:
        sent.append(text)
        return min((name for name in names if name >= max(text, start)), default="")

    starts = range_starts(first_at, start)
    assert starts[0] == start
    assert starts == sorted(set(starts))
    assert 1 <= len(starts) <= MAX_RANGES
    assert len(sent) == len(set(sent))


def test_a_few_names_are_ranges_of_their_own() -> None:
    names = ["a", "a b", "ab", "abc", "b", "가"]
    starts = range_starts(lambda text: next((name for name in names if name >= text), ""), "a")
    assert [bisect.bisect_left(names, start) for start in starts] == [*range(len(names))]
