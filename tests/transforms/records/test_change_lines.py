"""The summary of the differences has about ten lines, and JSON has one for each of them."""

from __future__ import annotations

import json
from typing import Any

from tests.transforms.records.compared_tables import Row, records_of
from transforms.records.comparison import Records, compare_records

OLD = records_of(
    [
        Row("same", "train", "cat", 0),
        Row("gone", "test", "dog", 1),
        Row("named", "train", "dog", 1),
        Row("moved", "train", "dog", 1),
    ],
    [Row("encoded", "train", "cat", 0, 5, 4), Row("other", "train", "cat", 0, 6)],
)
NEW = records_of(
    [
        Row("other", "train", "cat", 0, 7),
        Row("encoded", "train", "cat", 0, 8, 4),
        Row("moved", "test", "dog", 1),
        Row("named", "train", "fox", 2),
        Row("same", "train", "cat", 0),
        *(Row(f"new-{number}", "test") for number in (4, 2, 1, 3)),
    ]
)
FOUND = compare_records(OLD, NEW, {"seed": (1, 2), "splits": ({"train": 0.9, "test": 0.1}, None)})


def test_the_summary() -> None:
    assert list(FOUND.summary_lines()) == [
        "records     6 -> 9, 5 in both",
        "added       4: 'new-1', 'new-2', 'new-3', ...",
        "removed     1: 'gone'",
        "relabelled  1 with another label: 'named' from 'dog' to 'fox'",
        "moved       1 in another split: 'moved' from 'train' to 'test'",
        "pixels      2 with another stored image: 'encoded', 'other'",
        "originals   1 made from another file",
        "class ids   1: 'fox' from none to 2",
        "options     2: --seed from 1 to 2, --splits from train=0.9,test=0.1 to not given",
        "files       0 with other features, such as boxes and cells, or with images without hashes",
    ]
    assert FOUND.total() == (
        "4 added, 1 removed, 1 relabelled, 1 moved, 2 pixels, 1 originals, 1 class ids, 2 options"
    )


def test_lines_before_images_are_opened() -> None:
    planned = records_of([Row("same", label="cat", label_id=0), Row("other", content=None)])
    found = compare_records(OLD, planned, FOUND.options)
    lines = list(found.planned_lines())
    assert [line.split()[0] for line in lines] == [
        *("records", "added", "removed", "relabelled", "moved", "pixels", "class", "options")
    ]
    assert lines[5] == "pixels      1 to be read again: 'other'"
    assert lines[-1] == list(FOUND.summary_lines())[-2]


def test_lines_of_json() -> None:
    lines = [json.loads(line) for line in FOUND.json_lines()]
    new = [
        {"change": "added", "key": f"new-{at}", "split": "test", "label": ""} for at in (1, 2, 3, 4)
    ]
    assert lines == [
        *new,
        {"change": "removed", "key": "gone", "split": "test", "label": "dog"},
        {"change": "relabelled", "key": "named", "from": "dog", "to": "fox"},
        {"change": "moved", "key": "moved", "from": "train", "to": "test"},
        {"change": "pixels", "key": "encoded"},
        {"change": "pixels", "key": "other"},
        {"change": "originals", "key": "other"},
        {"change": "class_id", "name": "fox", "from": None, "to": 2},
        {"change": "option", "name": "seed", "from": 1, "to": 2},
        {"change": "option", "name": "splits", "from": {"train": 0.9, "test": 0.1}, "to": None},
        {"equal": False, "records": [6, 9], **FOUND.counts()},
    ]


def lines_of(old: Records, new: Records) -> list[dict[str, Any]]:
    """The lines of JSON without those of classes and the last one."""
    lines = map(json.loads, compare_records(old, new).json_lines())
    return [line for line in lines if line.get("change", "class_id") != "class_id"]


def test_nothing_differs() -> None:
    equal = compare_records(OLD, OLD)
    assert equal.total() == ""
    assert list(equal.summary_lines())[1:3] == ["added       0", "removed     0"]
    (line,) = equal.json_lines()
    assert json.loads(line)["equal"] is True


def test_masks_and_further_images() -> None:
    old = records_of([Row(key, partners=[1, 2]) for key in "abc"])
    new = records_of([Row("a", partners=[1, 3]), Row("b", partners=[1, 2]), Row("c")])
    found = compare_records(old, new)
    assert "partners    1 with another mask or further image: 'a'" in [*found.summary_lines()]
    again = "partners    1 with a mask or further image to be read again: 'c'"
    assert again in [*found.planned_lines()]
    assert found.total() == "1 partners"
    first, last = map(json.loads, found.json_lines())
    assert (first, last["partners"]) == ({"change": "partners", "key": "a"}, 1)


def test_another_original_of_the_same_stored_image() -> None:
    old = records_of([Row("a", source=2), Row("b", source=3), Row("c", source=4, content=5)])
    new = records_of([Row("b", source=6), Row("a", source=2), Row("c", source=7, content=8)])
    assert lines_of(old, new) == [
        {"change": "pixels", "key": "c"},
        {"change": "originals", "key": "b"},
        {"change": "originals", "key": "c"},
    ]


def test_several_labels_are_a_list() -> None:
    old = records_of([Row("a", label=["x", "y"], label_id=[0, 1]), Row("b", label=[])], many=True)
    new = records_of([Row("a", label=["y"], label_id=[1])], many=True)
    one = records_of([Row("a", label="y", label_id=1)])
    removed, line = lines_of(old, new)
    found = compare_records(old, new)
    assert line == {"change": "relabelled", "key": "a", "from": ["x", "y"], "to": ["y"]}
    assert removed == {"change": "removed", "key": "b", "split": "train", "label": []}
    assert lines_of(old, one)[1] == {**line, "to": "y"}
    assert "'a' from 'x|y' to 'y'" in list(found.summary_lines())[3]
