"""Rows without images: a CSV to Examples, read back as the TensorFlow guide reads its own."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.marks import rest_slow
from tests.pipeline.commands import make_dataset
from tests.pipeline.reading import NUMBER, TEXT, read
from tests.pipeline.row_tables import made

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
