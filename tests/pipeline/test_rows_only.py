"""Rows without images: a CSV to Examples, read back as the TensorFlow guide reads its own."""

import csv
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.pipeline.commands import Dataset, digests, make_dataset, plan
from tests.pipeline.reading import NUMBER, TEXT, read
from tests.pipeline.row_tables import made, of_table

pytestmark = pytest.mark.slow

HALVES = {"splits": "train=0.5,test=0.5"}

# tensorflow.org/tutorials/load_data/tfrecord, "TFRecord files in Python" and what it builds on.
GUIDE = {
    "feature0": tf.io.FixedLenFeature([], tf.int64, default_value=0),
    "feature1": tf.io.FixedLenFeature([], tf.int64, default_value=0),
    "feature2": tf.io.FixedLenFeature([], tf.string, default_value=""),
    "feature3": tf.io.FixedLenFeature([], tf.float32, default_value=0.0),
}


def write_guide(folder: Path, count: int) -> None:
    """The guide's table as it writes it, and as a CSV."""
    rng, strings = np.random.default_rng(0), ["cat", "dog", "chicken", "horse", "goat"]
    with (
        tf.io.TFRecordWriter(str(folder / "guide.tfrecord")) as writer,
        (folder / "guide.csv").open("w", newline="") as file,
    ):
        table = csv.writer(file)
        table.writerow(GUIDE)
        for _ in range(count):
            row = bool(rng.integers(2)), int(rng.integers(5)), float(rng.normal())
            flag, number, value = row
            text = strings[number]
            table.writerow([flag, number, text, value])
            feature = {
                "feature0": tf.train.Feature(int64_list=tf.train.Int64List(value=[int(flag)])),
                "feature1": tf.train.Feature(int64_list=tf.train.Int64List(value=[number])),
                "feature2": tf.train.Feature(bytes_list=tf.train.BytesList(value=[text.encode()])),
                "feature3": tf.train.Feature(float_list=tf.train.FloatList(value=[value])),
            }
            example = tf.train.Example(features=tf.train.Features(feature=feature))
            writer.write(example.SerializeToString())


def parse_guide(path: Path) -> Counter[tuple[Any, ...]]:
    records = tf.data.TFRecordDataset([str(path)])
    parsed = records.map(lambda proto: tf.io.parse_single_example(proto, GUIDE))
    batches = parsed.batch(1000).as_numpy_iterator()
    columns = (map(np.ndarray.tolist, batch.values()) for batch in batches)
    return Counter(row for each in columns for row in zip(*each, strict=True))


# With the kilobytes that `du -sh` says, in the guide of ten thousand, for blocks of 4096 bytes.
@pytest.mark.parametrize(("count", "kilobytes"), [(300, 32), (10_000, 984)])
def test_the_table_of_the_tensorflow_guide(count: int, kilobytes: int, tmp_path: Path) -> None:
    write_guide(tmp_path, count)
    dataset = made(tmp_path, (tmp_path / "guide.csv").read_text())
    shard = dataset.folder / "train-00000-of-00001.tfrecord"
    assert shard.stat().st_size == (tmp_path / "guide.tfrecord").stat().st_size
    assert -(-shard.stat().st_size // 4096) * 4 == kilobytes
    assert parse_guide(shard) == parse_guide(tmp_path / "guide.tfrecord")
    assert dataset.ledger == dict.fromkeys(("records_written", "rows_read", "rows_written"), count)


TYPES = "bool enum int32 uint32 int64 uint64 float double text string bytes".split()
LARGEST = f"true,{2**31 - 1},{2**31 - 1},{2**32 - 1},{2**63 - 1},{2**63 - 1},1.5,-2e10,x,한강,z"
SMALLEST = f"0,{-(2**31)},{-(2**31)},0,{-(2**63)},0,-1,0,a b,y,z"


def of_types(folder: Path, *rows: str, **flags: Any) -> Dataset:
    """The dataset of rows with a column of each type."""
    layout = folder / "types.yaml"
    lines = [f"  {each}: {{source: csv.{each}, type: {each}}}" for each in TYPES]
    layout.write_text("\n".join(["features:", *lines]))
    return made(folder, "\n".join([",".join(TYPES), *rows, ""]), layout=layout, **flags)


def test_every_type_of_the_guide(tmp_path: Path) -> None:
    dataset = of_types(tmp_path, LARGEST, SMALLEST)
    floats = dict.fromkeys(TYPES[6:8], tf.io.FixedLenFeature([], tf.float32))
    features = dict.fromkeys(TYPES[:6], NUMBER) | floats | dict.fromkeys(TYPES[8:], TEXT)
    records = sorted(read(dataset, features), key=lambda record: int(record["bool"]))
    assert [[record[name] for name in TYPES] for record in records] == [
        [0, -(2**31), -(2**31), 0, -(2**63), 0, -1, 0, b"a b", b"y", b"z"],
        [1, 2**31 - 1, 2**31 - 1, 2**32 - 1, 2**63 - 1, 2**63 - 1]
        + [1.5, np.float32(-2e10), b"x", "한강".encode(), b"z"],
    ]


def table(rows: int) -> str:
    return "id,x,set\n" + "".join(f"k{n},{n},{'b' if n % 3 else 'a'}\n" for n in range(rows))


def values(dataset: Dataset, split: str = "*") -> list[int]:
    return [int(record["x"]) for record in read(dataset, {"x": NUMBER}, split)]


def test_splits_shards_and_order(tmp_path: Path) -> None:
    flags: dict[str, Any] = {"splits": "train=0.8,test=0.2", "num_shards": 3}
    dataset = made(tmp_path, table(300), **flags)
    assert (len(dataset.shards("train")), len(dataset.shards("test"))) == (3, 3)
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


def test_rows_with_one_key_stay_together_in_the_order_of_the_file(tmp_path: Path) -> None:
    text = "id,x\n" + "".join(f"k{n % 7},{n}\n" for n in range(70))
    found = values(made(tmp_path, text, label_key="id", **HALVES), "train")
    groups = [found[at : at + 10] for at in range(0, len(found), 10)]
    assert groups == [list(range(first, 70, 7)) for first, *_ in groups]


def test_splits_by_column_and_group(tmp_path: Path) -> None:
    dataset = made(tmp_path, table(30), split_by="column:set")
    assert sorted(values(dataset, "a")) == list(range(0, 30, 3))
    # The column that sets the split is not a feature.
    assert {f["name"] for f in dataset.manifest["features"]} == {"id", "x"}
    grouped = made(tmp_path, table(30), "grouped", group_by="set", **HALVES)
    for split in ("train", "test"):
        assert len({value % 3 == 0 for value in values(grouped, split)}) < 2


def test_a_rerun_is_up_to_date_and_other_cells_are_other_inputs(tmp_path: Path) -> None:
    made(tmp_path, "a\n1\n2\n")
    assert "up to date" in of_table(tmp_path, "a\n1\n2\n").out
    assert "other inputs" in of_table(tmp_path, "a\n1\n3\n").error()
    assert of_table(tmp_path, "a\n1\n3\n", overwrite=True).code == 0


# Without a layout, the types are those of the first rows, so that the wrong ones come far below.
@pytest.mark.parametrize(("count", "layout"), [(100, "my.yaml"), (20_000, "rows")])
def test_too_many_rejected_rows_publish_nothing(count: int, layout: str, tmp_path: Path) -> None:
    (tmp_path / "my.yaml").write_text("features:\n  a: {source: csv.a, type: int64}\n")
    text = "\n".join(["a", *map(str, range(count)), "x", "y", ""])
    flags = {"layout": tmp_path / layout if layout != "rows" else layout}
    ran = of_table(tmp_path, text, max_rejected=1, **flags)
    assert ran.code == 3
    assert f"2 of {count + 2} rows rejected, more than --max_rejected (1)" in ran.error()
    assert not (tmp_path / "out" / "manifest.json").exists()
    assert of_table(tmp_path, text, max_rejected=2, **flags).code == 0


def test_plan_tells_types_and_writes_nothing(tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text("b,i,f,t\nTrue,7,1,x\nfalse,-3,.5,8\n3\n")
    ran = plan(labels=tmp_path / "table.csv", layout="rows", output=tmp_path / "out", **HALVES)
    assert ran.code == 0, ran.err
    assert "columns  b int64, i int64, f float, t bytes" in ran.out
    assert "rows     3 read = 2 to convert + 1 rejected" in ran.out
    assert not (tmp_path / "out").exists()
