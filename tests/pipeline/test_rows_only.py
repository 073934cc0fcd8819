"""Rows without images: a CSV to Examples, as the TensorFlow guide has them."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.marks import rest_slow
from tests.pipeline.commands import Dataset, digests, make_dataset, plan
from tests.pipeline.reading import NUMBER, TEXT, read
from tests.pipeline.row_tables import made, of_table

# Rows without images: a CSV to Examples, read back as the TensorFlow guide reads its own.

FLOAT = tf.io.FixedLenFeature([], tf.float32)


# tensorflow.org/tutorials/load_data/tfrecord, "TFRecord files in Python" and what it builds on.
class Guide:
    """The guide's table, serializer and parser."""

    description = {
        "feature0": tf.io.FixedLenFeature([], tf.int64, default_value=0),
        "feature1": tf.io.FixedLenFeature([], tf.int64, default_value=0),
        "feature2": tf.io.FixedLenFeature([], tf.string, default_value=""),
        "feature3": tf.io.FixedLenFeature([], tf.float32, default_value=0.0),
    }

    def __init__(self, count: int) -> None:
        rng = np.random.default_rng(0)
        strings = np.array([b"cat", b"dog", b"chicken", b"horse", b"goat"])
        feature1 = rng.integers(0, 5, count)
        self.rows = list(
            zip(
                rng.choice([False, True], count).tolist(),
                feature1.tolist(),
                strings[feature1].tolist(),
                rng.normal(size=count).tolist(),
                strict=True,
            )
        )

    @staticmethod
    def serialize(feature0: bool, feature1: int, feature2: bytes, feature3: float) -> bytes:
        integers = [tf.train.Int64List(value=[int(v)]) for v in (feature0, feature1)]
        feature = {
            "feature0": tf.train.Feature(int64_list=integers[0]),
            "feature1": tf.train.Feature(int64_list=integers[1]),
            "feature2": tf.train.Feature(bytes_list=tf.train.BytesList(value=[feature2])),
            "feature3": tf.train.Feature(float_list=tf.train.FloatList(value=[feature3])),
        }
        example = tf.train.Example(features=tf.train.Features(feature=feature))
        return example.SerializeToString()

    def write(self, path: Path) -> None:
        with tf.io.TFRecordWriter(str(path)) as writer:
            for row in self.rows:
                writer.write(self.serialize(*row))

    def write_csv(self, path: Path) -> None:
        with path.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(self.description)
            writer.writerows([a, b, text.decode(), d] for a, b, text, d in self.rows)

    def parse(self, path: Path) -> Counter[tuple[Any, ...]]:
        dataset = tf.data.TFRecordDataset([str(path)])
        parsed = dataset.map(lambda proto: tf.io.parse_single_example(proto, self.description))
        batches = parsed.batch(1000).as_numpy_iterator()
        columns = (map(np.ndarray.tolist, batch.values()) for batch in batches)
        return Counter(row for each in columns for row in zip(*each, strict=True))


# With the kilobytes that `du -sh` says, in the guide of ten thousand, for blocks of 4096 bytes.
@pytest.mark.parametrize(("count", "kilobytes"), rest_slow([(300, 32), (10_000, 984)]))
def test_the_table_of_the_tensorflow_guide(count: int, kilobytes: int, tmp_path: Path) -> None:
    guide = Guide(count)
    guide.write(tmp_path / "guide.tfrecord")
    guide.write_csv(tmp_path / "table.csv")
    dataset = made(tmp_path, (tmp_path / "table.csv").read_text())
    shard = dataset.folder / "train-00000-of-00001.tfrecord"
    assert shard.stat().st_size == (tmp_path / "guide.tfrecord").stat().st_size
    assert -(-shard.stat().st_size // 4096) * 4 == kilobytes
    assert guide.parse(shard) == guide.parse(tmp_path / "guide.tfrecord")
    assert dataset.ledger == {
        "records_written": count,
        "rows_read": count,
        "rows_written": count,
    }


TYPES = """\
features:
  bool: {source: csv.a, type: bool}
  enum: {source: csv.b, type: enum}
  int32: {source: csv.c, type: int32}
  uint32: {source: csv.d, type: uint32}
  int64: {source: csv.e, type: int64}
  uint64: {source: csv.f, type: uint64}
  float: {source: csv.g, type: float}
  double: {source: csv.h, type: double}
  text: {source: csv.i, type: text}
  string: {source: csv.j, type: string}
  bytes: {source: csv.k, type: bytes}
"""
HEADER = "a,b,c,d,e,f,g,h,i,j,k"
LARGEST = f"true,{2**31 - 1},{2**31 - 1},{2**32 - 1},{2**63 - 1},{2**63 - 1},1.5,-2e10,x,한강,z"
SMALLEST = f"0,{-(2**31)},{-(2**31)},0,{-(2**63)},0,-1,0,a b,y,z"


def test_every_type_of_the_guide(tmp_path: Path) -> None:
    (tmp_path / "types.yaml").write_text(TYPES)
    rows = f"{HEADER}\n{LARGEST}\n{SMALLEST}\n"
    dataset = made(tmp_path, rows, layout=tmp_path / "types.yaml")
    integers = ("bool", "enum", "int32", "uint32", "int64", "uint64")
    features = dict.fromkeys(integers, NUMBER) | dict.fromkeys(("float", "double"), FLOAT)
    features |= dict.fromkeys(("text", "string", "bytes"), TEXT)
    records = sorted(read(dataset, features), key=lambda record: int(record["bool"]))
    numbers = [[int(record[name]) for name in integers] for record in records]
    assert numbers == [
        [0, -(2**31), -(2**31), 0, -(2**63), 0],
        [1, 2**31 - 1, 2**31 - 1, 2**32 - 1, 2**63 - 1, 2**63 - 1],
    ]
    assert [record["double"] for record in records] == [0, np.float32(-2e10)]
    assert [record["string"].decode() for record in records] == ["y", "한강"]
    assert records[0]["text"] == b"a b"


WRONG_CELLS = [
    ("a", "2", "'2' is not of type bool"),
    ("b", str(2**31), f"'{2**31}' is not of type enum"),
    ("b", "red", "'red' is not of type enum"),
    ("c", str(2**31), f"'{2**31}' is not of type int32"),
    ("c", "true", "'true' is not of type int32"),
    ("d", "-1", "'-1' is not of type uint32"),
    ("d", str(2**32), f"'{2**32}' is not of type uint32"),
    ("e", str(2**63), f"'{2**63}' is not of type int64"),
    ("f", str(2**63), f"'{2**63}' is above 2**63 - 1, the largest integer"),
    ("f", str(2**64), f"'{2**64}' is not of type uint64"),
    ("f", "-1", "'-1' is not of type uint64"),
    ("g", "nan", "'nan' is a missing value; give it a default"),
    ("g", "inf", "'inf' is not a 32-bit float"),
    ("h", "1e39", "'1e39' is not a 32-bit float"),
    ("i", "", "the cell is empty"),
    ("e", "", "the cell is empty"),
]


def test_values_that_do_not_fit_are_rejected_with_row_and_column(tmp_path: Path) -> None:
    (tmp_path / "types.yaml").write_text(TYPES)
    right = dict(zip(HEADER.split(","), SMALLEST.split(","), strict=True))
    wrong = [",".join((right | {column: cell}).values()) for column, cell, _ in WRONG_CELLS]
    rows = "\n".join([HEADER, LARGEST, *wrong])
    layout, count = tmp_path / "types.yaml", len(WRONG_CELLS)
    dataset = made(tmp_path, rows, layout=layout, max_rejected=count)
    rejected = {line["path"]: line for line in dataset.rejected}
    assert len(rejected) == len(dataset.rejected) == count
    for number, (column, _, message) in enumerate(WRONG_CELLS, 3):
        line = rejected[f"{tmp_path}/table.csv:{number}"]
        assert (line["subject"], line["reason"]) == ("row", "bad_cell")
        assert line["detail"].startswith(f"table.csv:{number}, column '{column}': {message}")
    assert dataset.ledger == {
        "records_written": 1,
        "rows_read": 1 + count,
        "rows_written": 1,
        "rows_rejected": count,
    }


def test_types_are_recognised_by_the_columns(tmp_path: Path) -> None:
    dataset = made(tmp_path, "b,i,f,t\nTrue,7,1,x\nfalse,-3,.5,8\n")
    dtypes = {f["name"]: f["dtype"] for f in dataset.manifest["features"]}
    assert dtypes == {"b": "int64", "i": "int64", "f": "float", "t": "bytes"}


def test_lists_and_defaults_of_a_layout(tmp_path: Path) -> None:
    (tmp_path / "my.yaml").write_text(
        "features:\n  tags: {source: csv.tags, separator: ';'}\n"
        "  age: {source: csv.age, type: int32, default: -1}\n"
    )
    rows = "tags,age\na;b,3\n,\n"
    dataset = made(tmp_path, rows, layout=tmp_path / "my.yaml")
    features = {"age": NUMBER, "tags": tf.io.RaggedFeature(tf.string)}
    records = {int(r["age"]): r["tags"].tolist() for r in read(dataset, features)}
    assert records == {3: [b"a", b"b"], -1: []}


def test_lists_of_a_fixed_shape(tmp_path: Path) -> None:
    (tmp_path / "my.yaml").write_text(
        "features:\n  point: {source: csv.point, type: float, separator: ';', shape: [2]}\n"
    )
    dataset = made(tmp_path, "point\n1;2\n3;4\n5\n", layout=tmp_path / "my.yaml", max_rejected=1)
    points = read(dataset, {"point": tf.io.FixedLenFeature([2], tf.float32)})
    assert sorted(each["point"].tolist() for each in points) == [[1, 2], [3, 4]]
    (rejected,) = dataset.rejected
    assert rejected["reason"] == "bad_cell" and "1 values, not 2 of shape [2]" in rejected["detail"]


def test_several_files_any_encoding_and_gzip(tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_bytes("이름,x\n한강,1\n".encode("cp949"))
    (tmp_path / "2.csv").write_bytes("x;이름\n2;남산\n".encode("cp949"))
    flags = {"labels": tmp_path / "*.csv", "csv_encoding": "cp949", "compression": "gzip"}
    dataset = make_dataset(tmp_path / "out", layout="rows", **flags)
    [name] = dataset.shards()
    records = tf.data.TFRecordDataset(str(dataset.folder / name), compression_type="GZIP")
    found = {
        int(parsed["x"]): parsed["이름"].numpy().decode()
        for parsed in (tf.io.parse_single_example(r, {"x": NUMBER, "이름": TEXT}) for r in records)
    }
    assert found == {1: "한강", 2: "남산"}


# Rows without images: their splits, shards and order, the same on every run.


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


# Rows without images: what is rejected, what is refused, and what `plan` says of it.


def test_ragged_rows_are_rejected(tmp_path: Path) -> None:
    dataset = made(tmp_path, "a,b\n1,2\n3\n4,5,6\n7,8,\n", max_rejected=2)
    assert [(line["reason"], line["detail"], line["path"]) for line in dataset.rejected] == [
        ("malformed_row", "1 cells for 2 columns", f"{tmp_path}/table.csv:3"),
        (
            "malformed_row",
            "3 cells for 2 columns: quote a cell that holds the delimiter",
            f"{tmp_path}/table.csv:4",
        ),
    ]
    assert sorted(int(r["a"]) for r in read(dataset, {"a": NUMBER})) == [1, 7]


# Without a layout, the types are those of the first rows, so that the wrong ones come far below.
@pytest.mark.parametrize(("count", "layout"), rest_slow([(100, "my.yaml"), (20_000, "rows")]))
def test_too_many_rejected_rows_publish_nothing(count: int, layout: str, tmp_path: Path) -> None:
    (tmp_path / "my.yaml").write_text("features:\n  a: {source: csv.a, type: int64}\n")
    rows = "".join(f"{n}\n" for n in range(count)) + "x\ny\n"
    flags = {"layout": tmp_path / layout if layout != "rows" else layout}
    ran = of_table(tmp_path, f"a\n{rows}", max_rejected=1, **flags)
    assert ran.code == 3
    assert f"2 of {count + 2} rows rejected, more than --max_rejected (1)" in ran.error()
    assert not (tmp_path / "out" / "manifest.json").exists()
    assert of_table(tmp_path, f"a\n{rows}", max_rejected=2, **flags).code == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty: give a file with rows to --labels"),
        ("\n\n", "is empty: give a file with rows to --labels"),
        ("a,b\n", "has no usable row: below the header, each row needs 2 cells"),
        ("a,b\n1\n", "has no usable row: below the header, each row needs 2 cells"),
        (",b\n1,2\n", "column 1 has no name"),
        ("a,a\n1,2\n", "has several columns 'a' (1 and 2): rename all but one"),
        ("a\n\0\n", "NUL byte"),
    ],
)
def test_a_table_that_cannot_be_used(text: str, message: str, tmp_path: Path) -> None:
    ran = of_table(tmp_path, text)
    assert ran.code == 2
    assert message in ran.error()
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("yaml", "message"),
    [
        ("features:\n  x: csv.c\n", "has no column 'c', which --layout"),
        ("features:\n  x: {source: csv.a, type: int16}\n", "line 2: unknown type 'int16'"),
        (
            "features:\n  x: {source: csv.a, type: bool, default: 5}\n",
            "line 2: the default '5' is not of type bool",
        ),
    ],
)
def test_a_layout_that_cannot_be_used(yaml: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "my.yaml").write_text(yaml)
    ran = of_table(tmp_path, "a,b\n1,2\n", layout=tmp_path / "my.yaml")
    assert ran.code == 2
    assert message in ran.error()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"labels": None}, "--layout rows makes records from rows: give --labels CSV"),
        ({"images": "*.jpg"}, "leave out --images"),
        ({"resize": "shorter=9"}, "--resize cannot be used with --layout rows"),
        ({"label_column": "a"}, "--label_column cannot be used with --layout rows"),
        ({"files": "per_image"}, "--files cannot be used with --layout rows"),
        ({"quarantine": "q"}, "--quarantine cannot be used with --layout rows"),
        ({"split_from": "directory"}, "--split_from directory needs --images"),
        ({"label_key": "c"}, "has no column 'c' (--label_key)"),
        ({"split_column": "c"}, "has no column 'c' (--split_column)"),
    ],
)
def test_flags_that_do_not_go_with_rows(
    flags: dict[str, Any], message: str, tmp_path: Path
) -> None:
    ran = of_table(tmp_path, "a,b\n1,2\n", **flags)
    assert ran.code == 2
    assert message in ran.error()


def test_plan_tells_types_and_writes_nothing(tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text("a,b\n1,x\n2,y\n3\n")
    flags = {"labels": tmp_path / "table.csv", "layout": "rows", "splits": "train=0.5,test=0.5"}
    ran = plan(**flags, output=tmp_path / "out")
    assert ran.code == 0, ran.err
    assert "columns  a int64, b bytes" in ran.out
    assert "rows     3 read = 2 to convert + 1 rejected" in ran.out
    assert not (tmp_path / "out").exists()
