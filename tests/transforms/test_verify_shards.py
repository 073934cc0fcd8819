"""Shards are verified in groups, and what is found fits into a line."""

import errno
import io
import itertools
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.transforms.indexed_shards import BARE, write_shards
from transforms.core.messages import TransientError
from transforms.dataset import record_checks
from transforms.dataset.record_checks import Problem, Verified
from transforms.storage.local_storage import LocalStorage
from transforms.verify_shards import group_shards, verify_shard


def shard(name: str, megabytes: int) -> dict[str, Any]:
    """A shard as the manifest lists it, as far as grouping looks."""
    return {"file": name, "bytes": megabytes << 20}


def test_large_shards_go_alone_and_small_files_together() -> None:
    train = [shard("a", 150), shard("b", 150), *(shard(f"s{n}", 20) for n in range(4))]
    manifest = {
        **BARE,
        "index": [],
        "splits": {"train": {"shards": train}, "test": {"shards": [shard("t", 1)]}},
    }
    groups = [(split, [each["file"] for each in group]) for split, group in group_shards(manifest)]
    assert groups == [
        ("train", ["a"]),
        ("train", ["b"]),
        ("train", ["s0", "s1", "s2"]),
        ("train", ["s3"]),
        ("test", ["t"]),
    ]


def test_results_survive_their_line_and_are_merged() -> None:
    first = Verified("train", 2, 1, 10, 99, [Problem("b", 3, "is\nbad")], Counter(개=3))
    assert Verified.from_text(first.to_text()) == first
    second = Verified("train", 1, 1, 5, 1, [Problem("a", None, "is gone")], Counter(cat=1))
    first.merge(second)
    first.sort_problems()
    problems = [Problem("a", None, "is gone"), Problem("b", 3, "is\nbad")]
    assert first == Verified("train", 3, 2, 15, 100, problems, Counter(개=3, cat=1))


def test_of_very_many_problems_the_first_and_the_last_are_kept(monkeypatch: Any) -> None:
    """In whatever order groups are merged: workers and the launcher hold a bounded number."""
    monkeypatch.setattr(record_checks, "MAX_PROBLEMS", 3)
    names = ["d", "b", "a", "c"]
    merged = []
    for order in itertools.permutations(names):
        total = Verified("train")
        for name in order:
            problems = [Problem(name, 4, "x"), Problem(name, 2, "y"), Problem(name, None, "z")]
            total.merge(Verified("train", 1, 1, 5, 9, problems[: 2 + (name > "b")]))
        total.sort_problems()
        merged.append(total)
    expected = [Problem("a", 4, "x"), Problem("a", 2, "y"), Problem("d", None, "z")]
    assert merged == [Verified("train", 4, 4, 20, 36, expected, more=7)] * 24


@pytest.mark.parametrize("is_missing", [True, False])
def test_a_damaged_index_changes_no_problem_of_its_shard(tmp_path: Path, is_missing: bool) -> None:
    written = write_shards(tmp_path / "out")
    output, index = str(tmp_path / "out"), written["index"][0]["file"]
    listed = {**written["splits"]["train"]["shards"][0], "crc32c": "00000000"}
    verifier: Any = SimpleNamespace(largest_record=1 << 20)

    def problems(listed: Mapping[str, Any]) -> list[Problem]:
        return verify_shard(output, listed, verifier, verifier, fast=True).problems

    if is_missing:
        (tmp_path / "out" / listed["file"]).unlink()
    of_shard = problems(listed)
    said = "the file is missing" if is_missing else "every record is intact"
    assert said in of_shard[0].detail
    (tmp_path / "out" / index).unlink()
    found = problems({**listed, "entry": written["index"][0], "first": 0})
    assert found == [*of_shard, Problem(index, None, "the file is missing")]


class Failing(io.BytesIO):
    """A file whose server gives no answer in the middle."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self._number = number

    def read(self, size: int | None = -1) -> bytes:
        raise OSError(self._number, "no answer")


@pytest.mark.parametrize("name", ["a.tfrecord", "a.tfrecord.gz"])
def test_a_shard_that_gives_no_answer_is_not_called_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (tmp_path / name).write_bytes(b"x")
    listed: dict[str, Any] = {"file": name, "bytes": 1, "records": 1, "crc32c": ""}
    verifier: Any = SimpleNamespace(largest_record=1 << 20)
    monkeypatch.setattr(LocalStorage, "open_reader", lambda *_, **__: Failing(errno.EIO))
    with pytest.raises(TransientError, match="no answer; run the same command again"):
        verify_shard(str(tmp_path), listed, verifier, verifier, fast=True)
    monkeypatch.setattr(LocalStorage, "open_reader", lambda *_, **__: Failing(errno.EACCES))
    found = verify_shard(str(tmp_path), listed, verifier, verifier, fast=True)
    assert found.damaged
