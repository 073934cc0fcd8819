"""Slices of splits as TensorFlow Datasets reads them, and what it reads of a dataset."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.marks import cases
from transforms.dataset.ledger import Gathered, PlanTotals, RunTotals, ShardSummary
from transforms.dataset.manifest import Dataset
from transforms.dataset.metadata import shard_ranges, tfds_files
from transforms.examples.layouts import LAYOUTS
from transforms.labels.vocabulary import Vocabulary

SPLITS = {"train": [("a", 4), ("b", 0), ("c", 6)], "test": [("d", 3)], "none": [("e", 0)]}


def records(text: str, splits: dict[str, list[tuple[str, int]]] | None = None) -> list[str]:
    """The names of the records, such as `a0`."""
    return [
        f"{each.file}{number}"
        for each in shard_ranges(text, splits or SPLITS)
        for number in range(each.skip, each.skip + each.take)
    ]


TRAIN = [*(f"a{n}" for n in range(4)), *(f"c{n}" for n in range(6))]
TEST = [f"d{n}" for n in range(3)]


@cases(
    ("train", TRAIN),
    ("train+test", TRAIN + TEST),
    (" test + train[:1] ", [*TEST, "a0"]),
    ("all", TRAIN + TEST),
    ("none", []),
    ("train[3:5]", ["a3", "c0"]),
    ("train[-2:]", ["c4", "c5"]),
    ("train[:-8]", ["a0", "a1"]),
    ("train[:50%]", TRAIN[:5]),
    ("train[50%:]", TRAIN[5:]),
    ("train[-10%:]", TRAIN[9:]),
    ("train[:25%]", TRAIN[:2]),  # 2.5 is rounded to the even number
    ("train[12.5%:90%]", TRAIN[1:9]),
    *(("train[:33%]", TRAIN[:3]), ("train[33%:]", TRAIN[3:])),
    ("train[0:1]", ["a0"]),
    ("train[0shard]", TRAIN[:4]),
    ("train[-1shard]", TRAIN[4:]),
    ("train[1shard:]", TRAIN[4:]),
    ("train[:-1shard]", TRAIN[:4]),
)
def test_a_text_names_records(text: str, expected: list[str]) -> None:
    assert records(text) == expected


@cases(
    ("val", "there is no split 'val', only train, test, none"),
    ("train+val[:3]", "there is no split 'val', only train, test, none"),
    ("all[:3]", "there is no split 'all'"),
    ("", "'' is not a split: write it like train, "),
    ("train[", r"'train\[' is not a split: write it like"),
    ("train+", "'' is not a split"),
    ("train[:]", r"'train\[:\]' has no valid slice"),
    ("train[]", "has no valid slice"),
    ("train[3]", "has no valid slice"),
    ("train[1:2:3]", "has no valid slice"),
    ("train[1.5:]", "has no valid slice"),
    ("train[:x%]", "has no valid slice"),
    ("train[10%:20]", "has no valid slice"),
    ("train[:11]", r"'train\[:11\]' goes beyond the 10 records of the split"),
    ("train[:101%]", "goes beyond the 100 percent of the split"),
    ("train[4shard:]", "goes beyond the 3 shards of the split"),
    ("train[5:5]", r"'train\[5:5\]' has no records: the split has 10"),
    ("train[:1%]", r"'train\[:1%\]' has no records: the split has 10"),
    ("none[:50%]", "has no records: the split has 0"),
)
def test_a_wrong_text_is_refused_in_one_line(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says) as raised:
        shard_ranges(text, SPLITS)
    assert "\n" not in str(raised.value)


COUNTS = st.lists(st.integers(0, 9), min_size=1, max_size=5)


@given(counts=COUNTS, percent=st.integers(0, 100))
def test_two_parts_are_the_whole(counts: list[int], percent: int) -> None:
    splits = {"train": [(f"{n}-", count) for n, count in enumerate(counts)]}
    parts: list[str] = []
    for text in (f"train[:{percent}%]", f"train[{percent}%:]"):
        try:
            parts += records(text, splits)
        except ValueError as error:
            assert "has no records" in str(error)
    assert parts == records("train", splits)


@given(counts=COUNTS, data=st.data())
def test_absolute_ends_are_those_of_a_list(counts: list[int], data: st.DataObject) -> None:
    splits = {"train": [(f"{n}-", count) for n, count in enumerate(counts)]}
    whole = records("train", splits)
    ends = st.integers(-len(whole), len(whole))
    first, last = data.draw(ends), data.draw(ends)
    expected = whole[first:] if last == 0 and first < 0 else whole[first:last]
    text = f"train[{first}:{'' if last == 0 and first < 0 else last}]"
    if expected:
        assert records(text, splits) == expected
    else:
        with pytest.raises(ValueError, match="has no records"):
            records(text, splits)


def test_records_of_each_shard_of_each_split() -> None:
    counts = {"train": (3, 4), "test": (2,)}
    shards = [
        ShardSummary(f"{split}-{at:05d}-of-{len(own):05d}.tfrecord", "", records=n, bytes=10 * n)
        for split, own in counts.items()
        for at, n in enumerate(own)
    ]
    dataset = Dataset({}, {}, "", LAYOUTS["slim"], tuple(counts))
    gathered = Gathered(tuple(counts), PlanTotals(), shards, RunTotals())
    files = tfds_files(dataset, gathered, Vocabulary.build(["cat", "dog"]))
    splits = json.loads(files["dataset_info.json"])["splits"]
    assert [(each["name"], each["shardLengths"], each["numBytes"]) for each in splits] == [
        ("train", ["3", "4"], "70"),
        ("test", ["2"], "20"),
    ]
