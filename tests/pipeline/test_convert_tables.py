"""Label tables in Parquet and JSON Lines give the records of the same table in CSV."""

import csv
import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.pipeline.commands import (
    Dataset,
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


def rows(photos: Path) -> list[dict[str, Any]]:
    """A row for each photo, with a column that no cell can hold."""
    return [
        {"id": path.stem, "label": path.parent.name, "code": f"00{n}", "age": n, "size": n / 8}
        | {"tags": ["a", "b", "c"][: n % 4], "unused": {"nested": [n]}}
        for n, path in enumerate(sorted(photos.glob("*/*.jpg")))
    ]


def write(path: Path, found: list[dict[str, Any]]) -> Path:
    """Writes a table in the format of its name."""
    if ".parquet" in path.name:
        pq.write_table(pa.Table.from_pylist(found), path, row_group_size=5)
    elif ".json" in path.name:
        data = "\n".join(map(json.dumps, found)).encode()
        path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    else:
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, found[0])
            writer.writeheader()
            for row in found:
                lists = {name: value for name, value in row.items() if isinstance(value, list)}
                joined = {name: ";".join(map(str, value)) for name, value in lists.items()}
                writer.writerow({**row, **joined})
    return path


def shards(dataset: Dataset) -> dict[str, str]:
    return {name: each for name, each in digests(dataset.folder).items() if ".tfrecord" in name}


@pytest.fixture(scope="module")
def tables(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same table in each format."""
    folder = tmp_path_factory.mktemp("tables")
    for name in ("t.csv", "t.parquet", "t.jsonl", "t.jsonl.gz"):
        write(folder / name, rows(photos))
    return folder


@pytest.fixture(scope="module")
def of_csv(photos: Path, tables: Path) -> Dataset:
    typed = LAYOUT.replace("csv.code", "{source: csv.code, type: text}")
    layout = write_layout(tables, typed).rename(tables / "csv.yaml")
    flags = {"images": f"{photos}/*/*.jpg", "num_shards": 2, "layout": layout}
    return make_dataset(tables / "csv", labels=tables / "t.csv", **flags)


@pytest.mark.parametrize("name", ["t.parquet", "t.jsonl", "t.jsonl.gz"])
def test_the_same_records(
    photos: Path, tables: Path, of_csv: Dataset, tmp_path: Path, name: str
) -> None:
    """Texts stay texts and lists are lists without a word about them in the layout."""
    layout = write_layout(tmp_path, LISTS)
    flags = {"images": f"{photos}/*/*.jpg", "num_shards": 2, "layout": layout}
    dataset = make_dataset(tmp_path / "out", labels=tables / name, **flags)
    assert len(shards(dataset)) == 2
    assert shards(dataset) == shards(of_csv)
    check_sound(dataset.folder)
    planned = plan(output=tmp_path / "planned", labels=tables / name, **flags)
    assert "the type of the column in the file" in planned.out
    again = make_dataset(tmp_path / "again", config=dataset.folder / "manifest.json")
    assert shards(again) == shards(of_csv)
    assert convert(output=dataset.folder, labels=tables / name, **flags).out.startswith(
        "up to date"
    )


def test_lists_of_labels(photos: Path, tmp_path: Path) -> None:
    found = [{"image": "cat-0.jpg", "labels": ["b", "a"]}, {"image": "dog-0.jpg", "labels": ["b"]}]
    labels = write(tmp_path / "t.jsonl", found)
    layout = write_layout(tmp_path, "  name: image.path\n  texts: label.texts\n")
    flags = {"images": [f"{photos}/*/cat-0.jpg", f"{photos}/*/dog-0.jpg"], "labels": labels}
    dataset = make_dataset(tmp_path / "out", layout=layout, **flags)
    assert dataset.classes == ["a", "b"]
    make_dataset(tmp_path / "again", config=dataset.folder / "manifest.json")
    ran = convert(output=tmp_path / "other", **flags)
    assert ran.code == 2 and "'labels' holds lists of labels, but --layout slim has" in ran.error()
