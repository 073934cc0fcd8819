"""Rows from files to planned shards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.transforms.beam import collect
from transforms.core.records import Count
from transforms.core.rejections import Rejection
from transforms.join_labels import BATCH_ROWS, ReadRows, TableReader
from transforms.labels.keys import key_hashes
from transforms.labels.label_rows import NO_COLUMN, Column, CsvColumns
from transforms.labels.shards import ShardPlan, SplitAssigner, Splits
from transforms.plan_shards import PlanShards

COLUMNS = CsvColumns(
    NO_COLUMN, NO_COLUMN, 2, cells=(Column(1, "b"), Column(0, "a")), is_strict=True
)


def planned(folder: Path, columns: CsvColumns = COLUMNS, **plan: Any) -> dict[str, list[Any]]:
    """What the files of a folder amount to."""
    paths = sorted(str(path) for path in folder.glob("*.csv"))
    assigner = SplitAssigner(Splits([("train", 0.5), ("test", 0.5)]), seed=3)
    reader = TableReader(
        columns, root=str(folder), encoding="utf-8", assigner=assigner, row_bytes=100
    )
    given = ShardPlan(
        ("train", "test"), **{"shard_size": 10**9, "num_shards": 2, **plan}, gzip=False
    )

    def construct(pipeline: Any) -> dict[str, Any]:
        rows = pipeline | "Read rows" >> ReadRows(paths, reader)
        shards = (rows.batches | PlanShards(given, rows.totals, of_rows=True)).shards
        return {
            "shards": shards,
            "totals": rows.totals,
            "rejections": rows.rejections,
            "counts": rows.counts,
        }

    return collect(construct)


@pytest.mark.parametrize("rows", [1, BATCH_ROWS, BATCH_ROWS + 1])
def test_every_row_is_in_one_shard_by_the_hash_of_its_place(rows: int, tmp_path: Path) -> None:
    text = "a,b\n" + "".join(f"{n},x{n}\n" for n in range(rows))
    (tmp_path / "t.csv").write_text(text)
    found = planned(tmp_path)
    shards = {name: list(each) for name, each in found["shards"]}
    in_order = [row for name in sorted(shards) for row in sorted(shards[name])]
    assert sorted(row.line for row in in_order) == list(range(2, rows + 2))
    for row in in_order:
        assert (row.key, row.path, row.cells) == ("", "t.csv", f"x{row.line - 2}\0{row.line - 2}")
        assert row.order == key_hashes(f"t.csv:{row.line}", seed=3)[1] - 2**63
    for split in ("test", "train"):
        orders = [
            row.order for name in sorted(shards) if split in name for row in sorted(shards[name])
        ]
        assert orders == sorted(orders)
    assert Count("rows_read", rows) in found["counts"]
    [totals] = found["totals"]
    assert sum(totals.images.values()) == rows


def test_several_files_and_what_is_wrong_with_them(tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text("a,b\n1,2\n3\n")
    (tmp_path / "2.csv").write_text("b,a\n5,4\n")
    (tmp_path / "3.csv").write_text("a,b\n")
    found = planned(tmp_path)
    rows = [row for _, shard in found["shards"] for row in shard]
    assert sorted((row.path, row.cells) for row in rows) == [
        ("1.csv", "2\x001"),
        ("2.csv", "5\x004"),
    ]
    where = f"{tmp_path}/1.csv:3"
    expected = Rejection("row", "malformed_row", "1 cells for 2 columns", where, "")
    assert [Rejection(*each) for each in found["rejections"]] == [expected]
    assert sorted(count.value for count in found["counts"]) == [0, 1, 2]


def test_a_row_that_names_no_split_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b\nTRAIN,1\n2nd,2\n,3\n")
    columns = COLUMNS._replace(split=Column(0, "a"))
    paths = [str(tmp_path / "t.csv")]
    assigner = SplitAssigner(Splits([("train", 1.0)]), seed=0, split_from="csv")
    reader = TableReader(columns, root="", encoding="utf-8", assigner=assigner, row_bytes=1)
    results = list(reader.read(paths[0]))
    [rejected] = [each for each in results if isinstance(each, Rejection)]
    assert (rejected.subject, rejected.reason) == ("row", "bad_split")
    assert rejected.path == f"{tmp_path}/t.csv:3"
