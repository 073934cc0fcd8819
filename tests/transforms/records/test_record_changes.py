"""Datasets are compared record by record, without a loop over their records."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tests.transforms.records.compared_tables import Row, records_of
from transforms.records.comparison import Differences, compare_records

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


def test_ids_of_classes() -> None:
    old = records_of([Row("a", label="cat", label_id=0), Row("b", label="dog", label_id=1)])
    new = records_of(
        [Row("a", label="cat", label_id=0)],
        [Row("b", label="dog", label_id=2), Row("c", label="ant", label_id=1), Row("d")],
    )
    assert compare_records(old, new).classes() == {"ant": (None, 1), "dog": (1, 2)}
    assert compare_records(new, old).classes() == {"ant": (1, None), "dog": (2, 1)}


def test_several_labels_of_an_image() -> None:
    old = records_of(
        [
            Row("a", label=["cat", "dog"], label_id=[0, 1]),
            Row("b", label=["dog"], label_id=[1]),
            Row("c", label=[], label_id=[]),
        ],
        many=True,
    )
    same = records_of([Row("b", label="dog", label_id=1), Row("c")])
    new = records_of(
        [
            Row("c", label=["cat"], label_id=[0]),
            Row("a", label=["dog", "cat"], label_id=[1, 0]),
            Row("b", label=["dog"], label_id=[1]),
        ],
        many=True,
    )
    assert keys_of(compare_records(old, new), "relabelled") == {"a", "c"}
    assert compare_records(old, new).classes() == {}
    # One label in a list is that label.
    assert keys_of(compare_records(same, old), "relabelled") == set()


def test_empty_datasets_are_equal() -> None:
    assert not any(compare_records(records_of(), records_of([])).counts().values())


def test_all_keys_together_may_have_more_than_2_gb() -> None:
    keys = records_of([Row("a")], [Row("b")]).table.column("key")
    assert keys.type == pa.large_string() and keys.to_pylist() == ["a", "b"]
