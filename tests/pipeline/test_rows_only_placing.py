"""Rows without images: their splits, shards and order, the same on every run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.pipeline.commands import Dataset, digests, make_dataset
from tests.pipeline.reading import NUMBER, read
from tests.pipeline.row_tables import made, of_table


def table(rows: int) -> str:
    return "id,x,set\n" + "".join(f"k{n},{n},{'b' if n % 3 else 'a'}\n" for n in range(rows))


def values(dataset: Dataset, split: str = "*") -> list[int]:
    return [int(record["x"]) for record in read(dataset, {"x": NUMBER}, split)]


@pytest.mark.slow
def test_splits_shards_and_order(tmp_path: Path) -> None:
    text = table(300)
    flags: dict[str, Any] = {"splits": "train=0.8,test=0.2", "num_shards": 3}
    dataset = made(tmp_path, text, **flags)
    assert len(dataset.shards("train")) == len(dataset.shards("test")) == 3
    train, test = values(dataset, "train"), values(dataset, "test")
    assert sorted(train + test) == list(range(300))
    assert train != sorted(train)
    assert 30 < len(test) < 90
    given = {"labels": tmp_path / "table.csv", "layout": "rows"}
    again = make_dataset(tmp_path / "again", **given, **flags)
    assert digests(again.folder) == digests(dataset.folder)
    other = make_dataset(tmp_path / "seed", seed=1, **given, **flags)
    assert values(other, "train") != train
    # Fewer shards are the same order.
    whole = make_dataset(tmp_path / "one", splits=flags["splits"], **given)
    assert values(whole, "train") == train


@pytest.mark.slow
def test_a_key_keeps_rows_where_they_are(tmp_path: Path) -> None:
    flags: dict[str, Any] = {"splits": "train=0.5,test=0.5", "label_key": "id"}
    former = values(made(tmp_path, table(100), **flags), "test")
    grown = table(100).replace("id,x,set\n", "id,x,set\nnew,1000,a\n")
    now = values(made(tmp_path, grown, "grown", **flags), "test")
    assert [value for value in now if value != 1000] == former


def test_rows_with_one_key_stay_together_in_the_order_of_the_file(tmp_path: Path) -> None:
    text = "id,x\n" + "".join(f"k{n % 7},{n}\n" for n in range(70))
    dataset = made(tmp_path, text, label_key="id", splits="train=0.5,test=0.5")
    found = values(dataset, "train")
    for at in range(0, len(found), 10):
        first = found[at]
        assert found[at : at + 10] == list(range(first, 70, 7))


def test_splits_by_column_and_group(tmp_path: Path) -> None:
    dataset = made(tmp_path, table(30), split_column="set")
    assert sorted(values(dataset, "a")) == list(range(0, 30, 3))
    # The column that sets the split is not a feature.
    assert {f["name"] for f in dataset.manifest["features"]} == {"id", "x"}
    grouped = made(tmp_path, table(30), "grouped", group_by="set", splits="train=0.5,test=0.5")
    for split in ("train", "test"):
        assert len({value % 3 == 0 for value in values(grouped, split)}) < 2


def test_a_rerun_is_up_to_date_and_other_cells_are_other_inputs(tmp_path: Path) -> None:
    made(tmp_path, "a\n1\n2\n")
    assert "up to date" in of_table(tmp_path, "a\n1\n2\n").out
    changed = of_table(tmp_path, "a\n1\n3\n")
    assert changed.code == 2
    assert "other inputs" in changed.error()
    assert of_table(tmp_path, "a\n1\n3\n", overwrite=True).code == 0


@pytest.mark.slow
def test_workers_and_folders_do_not_change_a_byte(tmp_path: Path) -> None:
    flags: dict[str, Any] = {"num_shards": 3, "splits": "train=0.7,test=0.3"}
    first = made(tmp_path, table(5000), **flags)
    (tmp_path / "else").mkdir()
    (tmp_path / "else" / "table.csv").write_text(table(5000))
    words = ["--direct_num_workers=2", "--direct_running_mode=multi_threading"]
    again = make_dataset(
        tmp_path / "again",
        *words,
        labels=tmp_path / "else" / "table.csv",
        layout="rows",
        **flags,
    )
    for name in first.shards():
        assert (first.folder / name).read_bytes() == (again.folder / name).read_bytes()


def test_shards_with_equal_numbers_of_rows(tmp_path: Path) -> None:
    dataset = made(tmp_path, table(30), num_shards=4, shard_by="records")
    shards = dataset.manifest["splits"]["train"]["shards"]
    assert [shard["records"] for shard in shards] == [7, 8, 7, 8]
    assert sorted(values(dataset)) == list(range(30))
