"""A large JSON object, item by item."""

from __future__ import annotations

import io
import json
import time
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transforms.core.messages import LabelsError
from transforms.labels import annotations as json_members
from transforms.labels.annotations import read_members

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=8,
)


def flat(value: dict[str, Any]) -> list[tuple[str, bool, Any]]:
    """What `read_members` gives for an object."""
    found: list[tuple[str, bool, Any]] = []
    for name, each in value.items():
        if isinstance(each, list):
            found += [(name, True, item) for item in each]
        else:
            found.append((name, False, each))
    return found


@given(st.dictionaries(st.text(max_size=5), VALUES, max_size=5), st.integers(1, 40), st.booleans())
def test_equal_to_the_decoder_of_whole_files(
    value: dict[str, Any], chunk: int, is_ascii: bool
) -> None:
    text = json.dumps(value, ensure_ascii=is_ascii, indent=chunk % 3 or None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_members, "_CHUNK", chunk)
        assert list(read_members(io.StringIO(text), path="a")) == flat(value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "character 1: '{' is expected"),
        ("[]", "character 1: '{' is expected"),
        ('{"a": [1, 2', "character 12: ',' is expected"),
        ('{"a": [1,', "character 10: the file ends too early"),
        ('{"a": [1 2]}', "character 10: ',' is expected"),
        ('{"a": 1} 2', "character 10: the object has ended, but the file has not"),
        ('{"a" 1}', "character 6: ':' is expected"),
        ('{"a": [], "a": []}', "a second 'a'"),
        ("{1: 1}", "character 3: a name is expected"),
        ('{"a": "\n' + " " * 99 + '"}', "character 8: Invalid control character at"),
        ('{"a": ' + "[" * 10**5, "maximum recursion depth"),
        ('{"a": [' + "9" * 10**4 + "]}", "character 8: Exceeds the limit"),
    ],
)
def test_damaged_files(text: str, says: str) -> None:
    with pytest.raises(LabelsError) as caught:
        list(read_members(io.StringIO(text), path="a.json"))
    assert str(caught.value).startswith("a.json is damaged JSON at character ")
    assert says in str(caught.value)


def test_an_item_that_does_not_fit_into_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_members, "MAX_ITEM", 1000)
    monkeypatch.setattr(json_members, "_CHUNK", 100)
    with pytest.raises(LabelsError, match="a value of more than 1000 characters"):
        list(read_members(io.StringIO('{"a": ["' + "x" * 10**4 + '"]}'), path="a.json"))


def test_an_item_of_empty_lists_is_refused_before_it_takes_a_gigabyte() -> None:
    """A gzip file of 58 KB with such a text took 2.8 GB."""
    nested = ",".join(["[]"] * 4_000_000)
    tracemalloc.start()
    try:
        with pytest.raises(LabelsError, match="a value of more than"):
            list(read_members(io.StringIO('{"annotations": [{"z": [' + nested), path="a.json"))
        assert tracemalloc.get_traced_memory()[1] < 400 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"z": [' + "[]," * 200_000, "more than 100000 items of 'z'"),
        # Each category takes 3 KB of a run, used or not.
        ('{"categories": [' + "{}," * 200_000, "more than 100000 items of 'categories'"),
        ("{" + ",".join(f'"{number}": 1' for number in range(2000)), "more than 1000 names"),
    ],
)
def test_what_no_annotation_file_has_is_not_read_to_its_end(text: str, says: str) -> None:
    with pytest.raises(LabelsError, match=says):
        list(read_members(io.StringIO(text), path="a.json"))


def test_the_text_in_memory_is_bounded() -> None:
    """Items come while the rest of the file has not been read."""
    text = io.StringIO('{"images": [' + ",".join(["[1.5, 2]"] * 10**6) + "]}")
    members = read_members(text, path="a.json")
    next(members)
    assert text.tell() == json_members._CHUNK


def test_blanks_between_values_take_no_time_each() -> None:
    """Sixty megabytes of them took 16 CPU seconds."""
    text = '{"a":' + " \n" * 5_000_000 + "[1]}"
    started = time.process_time()
    assert list(read_members(io.StringIO(text), path="a.json")) == [("a", True, 1)]
    assert time.process_time() - started < 1
