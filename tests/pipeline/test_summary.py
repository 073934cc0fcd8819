"""What the summary says of a dataset."""

from collections.abc import Mapping
from typing import Any

from pipeline.summary import dataset_lines, duplicate_lines
from tests.marks import cases
from transforms.report.page import class_table

LEDGER = {
    **dict.fromkeys(("images_matched", "images_rejected", "rows_read"), 0),
    "records_written": 0,
}


def lines(classes: Mapping[str, Mapping[str, int]] | None = None, **manifest: Any) -> list[str]:
    """What the summary says of a dataset with these classes of each split."""
    splits = {
        name: {"records": 0, "bytes": 0, "shards": [], "classes": each}
        for name, each in (classes or {}).items()
    }
    known = {"options": {}, "splits": splits, "ledger": LEDGER, "rejected": {}}
    return dataset_lines({**known, **manifest})


def classes_in(said: list[str]) -> list[str]:
    first = next(at for at, line in enumerate(said) if line.startswith("class "))
    end = next(at for at, line in enumerate(said) if line.startswith("images "))
    return [line.split()[0] for line in said[first:end]]


def test_classes_that_are_integers_are_listed_as_numbers() -> None:
    classes = {"train": {"100": 1, "9": 3}, "test": {"10": 2, "": 1}}
    assert classes_in(lines(classes)) == ["class", "9", "10", "100"]
    splits = {name: {"classes": each} for name, each in classes.items()}
    assert [row["name"] for row in class_table(splits, 1)["rows"]] == ["9", "10", "100"]


def test_the_first_classes_are_the_smallest_numbers() -> None:
    classes = {str(number): 1 for number in range(1000)}
    assert classes_in(lines({"train": classes})) == ["class", *map(str, range(20)), "..."]


DEPTH = "depth    {} reduced to 8; --depth 16 keeps"


@cases(
    ({}, {"to_8_bits": 3}, [DEPTH.format("3 images of more than 8 bits were")]),
    ({}, {"to_8_bits": 1}, [DEPTH.format("1 image of more than 8 bits was")]),
    ({"transcode": "jpeg"}, {"to_8_bits": 3}, []),
    ({"depth": 16}, {"to_8_bits": 3}, []),
    ({}, {"resized": 3}, []),
)
def test_bits_that_are_lost_are_reported_with_their_remedy(
    options: dict[str, object], changes: dict[str, int], says: list[str]
) -> None:
    said = lines(pixels=changes, options=options)
    first = next(at for at, line in enumerate(said) if line.startswith("pixels   "))
    more = said[first + 1 :]
    assert [line[: len(part)] for line, part in zip(more, says, strict=True)] == says


def test_what_keys_left_out_is_counted() -> None:
    ledger = {**LEDGER, "images_matched": 5, "images_left_out": 2, "records_written": 3}
    counted = "images   5 matched = 3 written + 0 rejected + 2 left out (--keys)"
    assert counted in lines(ledger=ledger)


EXACT = {"groups": 3, "across_splits": 0, "conflicts": 0, "dropped": 0}
NEAR = {"pairs": 0, "across_splits": 0}
GROUPS, KEEPS = "3 groups of exact duplicates", "--dedupe drop keeps one of each group"


@cases(
    ({"groups": 0}, {}, ""),
    ({}, {}, f"duplicates  {GROUPS}"),
    ({"across_splits": 1, "conflicts": 2}, {},
     f"duplicates  {GROUPS} (1 across splits, 2 with different labels)\n"
     f"leakage  1 group of exact duplicates across splits; {KEEPS}"),
    # Those that were dropped are in no split any more.
    ({"across_splits": 1, "dropped": 4}, {},
     f"duplicates  {GROUPS} (1 across splits, 4 images dropped)"),
    ({"groups": 0}, {"pairs": 2, "across_splits": 1},
     "duplicates  2 pairs of near-duplicates (1 across splits)\n"
     "leakage  1 pair of near-duplicates across splits"),
)  # fmt: skip
def test_duplicates_and_what_harms(exact: dict[str, int], near: dict[str, int], said: str) -> None:
    found = {"duplicates": {"exact": {**EXACT, **exact}, "near": {**NEAR, **near}}}
    assert duplicate_lines(found) == said.splitlines()


def test_without_hashes_nothing_is_said_of_duplicates() -> None:
    assert duplicate_lines({}) == []
