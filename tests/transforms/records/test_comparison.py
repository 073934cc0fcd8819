"""Two datasets are compared by their indexes, and a line says what differs."""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tests.transforms.records.test_stored_images import ROW
from transforms.core.records import PartnerFile, Plain, PlannedImage
from transforms.images.checked_images import CheckedPartner
from transforms.records.comparison import (
    COLUMNS,
    Differences,
    PlannedReads,
    Records,
    compare_records,
    planned_part,
    read_part,
)
from transforms.records.record_index import CONTENT_BYTES, PARTNERS, index_schema
from transforms.records.stored_images import stored_side


class Row(NamedTuple):
    """A record as it is compared; contents are numbers, and labels a list for many."""

    key: str
    split: str = "train"
    label: Any = None
    label_id: Any = None
    content: int | None = 1
    source: int | None = None
    # None if the index lacks them.
    partners: Sequence[int | None] | None = None


def index_of(rows: Sequence[Row], *, many: bool = False) -> pa.Table:
    """The index of a shard with these records."""
    schema = index_schema(many_labels=many)
    values: dict[str, list[Any]] = {
        "key": [row.key for row in rows],
        "split": [row.split for row in rows],
        "label": [row.label for row in rows],
        "label_id": [row.label_id for row in rows],
        "content": [_hash(row.content) for row in rows],
        "source_content": [_hash(row.source) for row in rows],
    }
    columns = {name: pa.array(values[name], schema.field(name).type) for name in COLUMNS}
    if any(row.partners is not None for row in rows):
        partner = pa.struct([("content", pa.binary(CONTENT_BYTES))])
        lists = [
            None if row.partners is None else [{"content": _hash(each)} for each in row.partners]
            for row in rows
        ]
        columns[PARTNERS] = pa.array(lists, pa.list_(partner))
    return pa.table(columns)


def records_of(*shards: Sequence[Row], many: bool = False) -> Records:
    """A dataset with these shards."""
    return Records.joined(Records.of_index(index_of(rows, many=many)) for rows in shards)


def _hash(number: int | None) -> bytes | None:
    return None if number is None else number.to_bytes(CONTENT_BYTES, "big")


# The summary of the differences has about ten lines, and JSON has one for each of them.

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
    assert not any(compare_records(records_of(), records_of([])).counts().values())


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


def test_several_labels_are_a_list() -> None:
    old = records_of([Row("a", label=["x", "y"], label_id=[0, 1]), Row("b", label=[])], many=True)
    new = records_of([Row("a", label=["y"], label_id=[1])], many=True)
    removed, line = lines_of(old, new)
    assert line == {"change": "relabelled", "key": "a", "from": ["x", "y"], "to": ["y"]}
    assert removed == {"change": "removed", "key": "b", "split": "train", "label": []}
    one = records_of([Row("a", label="y", label_id=1)])
    assert lines_of(old, one)[1] == {**line, "to": "y"}
    assert "'a' from 'x|y' to 'y'" in list(compare_records(old, new).summary_lines())[3]


# Datasets are compared record by record, without a loop over their records.

ROWS = st.lists(
    st.builds(
        Row,
        key=st.sampled_from("abcdefgh"),
        split=st.sampled_from(["train", "test"]),
        label=st.sampled_from([None, "cat", "dog"]),
        label_id=st.none(),
        content=st.sampled_from([None, 1, 2, 2**127]),
        source=st.sampled_from([None, 1, 3]),
        partners=st.sampled_from([None, (1, 2), (1, 3), (2, None)]),
    ),
    unique_by=lambda row: row.key,
)


def shards(rows: Sequence[Row], cut: int) -> list[Sequence[Row]]:
    """The rows in two shards, one of which may be empty."""
    return [rows[:cut], rows[cut:]]


def keys_of(found: Differences, name: str) -> set[str]:
    """The keys of the records with a change."""
    if name in ("added", "removed"):
        table = (found.new if name == "added" else found.old).table
        rows = getattr(found, name)
    else:
        table = found.new.table
        is_new = name == "new_partners"
        kept = found.unknown("partners", was_known=True) if is_new else found.changes.get(name, [])
        rows = found.kept[1][kept] if len(kept) else []
    return {table.column("key")[int(row)].as_py() for row in rows}


@given(ROWS, ROWS, st.integers(0, 8), st.integers(0, 8))
def test_changes_are_those_of_a_comparison_one_by_one(
    old: list[Row], new: list[Row], cut: int, other_cut: int
) -> None:
    found = compare_records(records_of(*shards(old, cut)), records_of(*shards(new, other_cut)))
    was, now = ({row.key: row for row in rows} for rows in (old, new))
    both = [(was[key], now[key]) for key in {*was} & {*now}]

    def source(row: Row) -> int | None:
        return row.content if row.source is None else row.source

    def are_other(one: int | None, other: int | None) -> bool:
        # Datasets made with --dedupe off have no hashes.
        return one is not None and other is not None and one != other

    def partners(row: Row) -> tuple[int | None, ...] | None:
        # What is not read yet has no hash.
        return None if row.partners is None or None in row.partners else (*row.partners,)

    expected = {
        "added": {*now} - {*was},
        "removed": {*was} - {*now},
        "relabelled": {a.key for a, b in both if a.label != b.label},
        "moved": {a.key for a, b in both if a.split != b.split},
        "pixels": {a.key for a, b in both if are_other(a.content, b.content)},
        "originals": {a.key for a, b in both if are_other(source(a), source(b))},
        "partners": {
            a.key
            for a, b in both
            if None not in (partners(a), partners(b)) and partners(a) != partners(b)
        },
        "new_partners": {a.key for a, b in both if partners(a) and not partners(b)},
    }
    assert {name: keys_of(found, name) for name in expected} == expected
    del expected["new_partners"]
    assert ("partners" in found.changes) == any(map(partners, (*old, *new)))
    if "partners" not in found.changes:
        assert not expected.pop("partners")
    assert {name: found.counts()[name] for name in (*found.changes, "added", "removed")} == {
        name: len(keys) for name, keys in expected.items()
    }
    one, other = (
        [each.table.column("key")[int(row)].as_py() for row in rows]
        for each, rows in zip((found.old, found.new), found.kept, strict=True)
    )
    assert one == other and {*one} == {*was} & {*now}


def test_ids_of_classes_and_keys_of_any_size() -> None:
    old = records_of([Row("a", label="cat", label_id=0), Row("b", label="dog", label_id=1)])
    new = records_of(
        [Row("a", label="cat", label_id=0)],
        [Row("b", label="dog", label_id=2), Row("c", label="ant", label_id=1), Row("d")],
    )
    assert compare_records(old, new).classes == {"ant": (None, 1), "dog": (1, 2)}
    assert compare_records(new, old).classes == {"ant": (1, None), "dog": (2, 1)}
    keys = records_of([Row("a")], [Row("b")]).table.column("key")
    assert keys.type == pa.large_string() and keys.to_pylist() == ["a", "b"]


def test_several_labels_of_an_image() -> None:
    a, b = Row("a", label=["cat", "dog"], label_id=[0, 1]), Row("b", label=["dog"], label_id=[1])
    old = records_of([a, b, Row("c", label=[], label_id=[])], many=True)
    turned = a._replace(label=["dog", "cat"], label_id=[1, 0])
    new = records_of([Row("c", label=["cat"], label_id=[0]), turned, b], many=True)
    assert keys_of(compare_records(old, new), "relabelled") == {"a", "c"}
    assert compare_records(old, new).classes == {}
    # One label in a list is that label.
    same = records_of([Row("b", label="dog", label_id=1), Row("c")])
    assert keys_of(compare_records(same, old), "relabelled") == set()


# A planned shard comes back with its records and reads; what is not known has no hash.

INDEX_ROW = {**ROW, "content": b"\1" * 16, "source_content": b"\2" * 16}
READS = PlannedReads(taken=1, originals=1, bytes=50, ranges=1)


def planned_image(key: str, label: str, stored: Plain = (), cells: str = "") -> PlannedImage:
    return PlannedImage(0, key, f"{key}.jpg", 50, 9, label, 3, cells, stored)


def planned(*images: PlannedImage, many: bool = False) -> pa.Table:
    """The records of a planned shard, as they come back."""
    table, reads = read_part(planned_part(images, "train", READS, many_labels=many))
    assert reads == READS
    assert Records.joined([Records.of_index(table)]).table.num_rows == len(images)
    return table


def test_a_planned_shard_comes_back() -> None:
    stored = stored_side(0, INDEX_ROW, "a.jpg").record[0]
    table = planned(planned_image("a", "cat", (stored,)), planned_image("b", ""))
    assert table.column_names == list(COLUMNS)
    assert [tuple(row.values()) for row in table.to_pylist()] == [
        ("a", "train", "cat", 3, b"\1" * 16, b"\2" * 16),
        ("b", "train", None, None, None, None),
    ]
    assert Records.of_index(table).classes == {"cat": 3}
    many = planned(planned_image("a", "x", cells='[["a.csv:2",[[0,"x"],[1,"y"]],[]]]'), many=True)
    assert many.column("label").to_pylist() == [["x", "y"]]
    assert many.column("label_id").to_pylist() == [[0, 1]]
    for is_many in (True, False):
        assert planned(many=is_many).num_rows == 0


def test_planned_masks_have_a_hash_if_they_are_not_read() -> None:
    file, mask = PartnerFile("a.png", 5, 6), CheckedPartner(7, "png", "3" * 32)
    sides = [stored_side(0, ROW, "a.jpg", None, [known]) for known in ((file, mask), None)]
    images = [planned_image("a", "", (side.record[0],)) for side in sides] + [
        planned_image("b", "")
    ]
    table = planned(*(each._replace(partners=(tuple(file),)) for each in images))
    hashes = Records.of_index(table).table.column(PARTNERS).to_pylist()
    assert hashes == [b"\x33" * 16, None, None]
