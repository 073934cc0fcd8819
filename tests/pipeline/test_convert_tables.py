"""Label tables in Parquet and JSON Lines give the records of the same table in CSV."""

import csv
import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.pipeline.commands import (
    Dataset,
    check_ended,
    check_sound,
    convert,
    digests,
    make_dataset,
    plan,
    write_layout,
)

pytestmark = pytest.mark.slow

LAYOUT = """\
  image: image.bytes
  name: image.path
  ids: label.ids
  texts: label.texts
  code: csv.code
  age: csv.age
  size: csv.size
  tags: {source: csv.tags, separator: ";"}
"""
LISTS = LAYOUT.replace('{source: csv.tags, separator: ";"}', "csv.tags")


def shards(dataset: Dataset) -> dict[str, str]:
    return {name: each for name, each in digests(dataset.folder).items() if ".tfrecord" in name}


@pytest.fixture(scope="module")
def tables(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same table in each format, with a column that no cell can hold; the dataset `csv`."""
    folder = tmp_path_factory.mktemp("tables")
    rows = [
        {"id": path.stem, "label": path.parent.name, "code": f"00{n}", "age": n, "size": n / 8}
        | {"tags": ["a", "b", "c"][: n % 4], "unused": {"nested": [n]}}
        for n, path in enumerate(sorted(photos.glob("*/*.jpg")))
    ]
    pq.write_table(pa.Table.from_pylist(rows), folder / "t.parquet", row_group_size=5)
    (folder / "t.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (folder / "t.jsonl.gz").write_bytes(gzip.compress((folder / "t.jsonl").read_bytes()))
    with (folder / "t.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows({**row, "tags": ";".join(row["tags"])} for row in rows)
    layout = write_layout(folder, LAYOUT.replace("csv.code", "{source: csv.code, type: text}"))
    flags = {"images": f"{photos}/*/*.jpg", "num_shards": 2, "layout": layout}
    make_dataset(folder / "csv", labels=folder / "t.csv", **flags)
    return folder


@pytest.mark.parametrize("name", ["t.parquet", "t.jsonl", "t.jsonl.gz"])
def test_the_same_records(photos: Path, tables: Path, tmp_path: Path, name: str) -> None:
    """Texts stay texts and lists are lists without a word about them in the layout."""
    layout = write_layout(tmp_path, LISTS)
    flags = {"images": f"{photos}/*/*.jpg", "num_shards": 2, "layout": layout}
    flags["labels"], of_csv = tables / name, shards(Dataset(tables / "csv"))
    dataset = make_dataset(tmp_path / "out", **flags)
    assert len(of_csv) == 2 and shards(dataset) == of_csv
    check_sound(dataset.folder)
    check_ended(plan(output=tmp_path / "new", **flags), 0, "the type of the column in the file")
    again = make_dataset(tmp_path / "again", config=dataset.folder / "manifest.json")
    assert shards(again) == of_csv
    check_ended(convert(output=dataset.folder, **flags), 0, "up to date")


def test_lists_of_labels(photos: Path, tmp_path: Path) -> None:
    found = [{"image": "cat-0.jpg", "labels": ["b", "a"]}, {"image": "dog-0.jpg", "labels": ["b"]}]
    labels = tmp_path / "t.jsonl"
    labels.write_text("\n".join(map(json.dumps, found)))
    layout = write_layout(tmp_path, "  name: image.path\n  texts: label.texts\n")
    flags = {"images": [f"{photos}/*/cat-0.jpg", f"{photos}/*/dog-0.jpg"], "labels": labels}
    dataset = make_dataset(tmp_path / "out", layout=layout, **flags)
    assert dataset.classes == ["a", "b"]
    make_dataset(tmp_path / "again", config=dataset.folder / "manifest.json")
    ran = convert(output=tmp_path / "other", **flags)
    assert ran.code == 2 and "'labels' holds lists of labels, but --layout slim has" in ran.error()
