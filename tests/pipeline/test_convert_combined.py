"""Options that were made for different datasets, in one command."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.conftest import draw
from tests.marks import rest_slow
from tests.models import SMALL_OUTPUT, saved_to, small_model
from tests.pipeline.commands import Dataset, check_sound, convert, digests, make_dataset, plan
from tests.pipeline.reading import NUMBER, TEXT, filenames, read
from tests.servers.gcs import GcsServer

EMBEDDING = {"Feature": tf.io.FixedLenFeature(SMALL_OUTPUT, tf.float32)}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """`photos/0.jpg` to `photos/4.jpg`, 16 pixels wide and 12 high."""
    for number in range(5):
        draw(tmp_path / f"photos/{number}.jpg", seed=number)
    return tmp_path


def write(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(lines), "utf-8")
    return path


def splits(dataset: Dataset) -> dict[str, list[str]]:
    return {split: sorted(filenames(dataset, split)) for split in dataset.manifest["splits"]}


# Rows that list images and say nothing of labels.


@pytest.mark.parametrize("rows", rest_slow([["image_uri"], ["path,size"], []]))
def test_rows_that_list_images_without_labels(folder: Path, rows: list[str]) -> None:
    end = ",big" if "size" in "".join(rows) else ""
    listing = write(folder / "list.csv", *rows, *(f"photos/{n}.jpg{end}" for n in (0, 1, 3, 3)))
    flags = {"labels": listing, "label_from": "none"}
    dataset = make_dataset(folder / "out", **flags)
    assert sorted(filenames(dataset)) == ["photos/0.jpg", "photos/1.jpg", "photos/3.jpg"]
    assert "image/class/label" not in {f["name"] for f in dataset.manifest["features"]}
    assert dataset.classes == []
    assert dataset.ledger == {
        "images_matched": 3, "records_written": 3, "rows_read": 4, "rows_used": 3,
        "rows_repeated": 1,
    }  # fmt: skip
    check_sound(dataset.folder)
    assert convert(**flags, output=dataset.folder).out.startswith("up to date")
    assert plan(**flags, output=folder / "planned").code == 0


def test_rows_without_labels_say_split_and_columns(folder: Path) -> None:
    listing = write(
        folder / "list.csv",
        "split,image_uri,age",
        "train,photos/0.jpg,7",
        "TEST,photos/1.jpg,8",
        "test,photos/2.jpg,9",
    )
    layout = write(folder / "my.yaml", "features:", "  id: image.key", "  age: csv.age")
    dataset = make_dataset(folder / "out", labels=listing, label_from="none", layout=layout)
    found = {
        split: {r["id"]: int(r["age"]) for r in read(dataset, {"id": TEXT, "age": NUMBER}, split)}
        for split in dataset.manifest["splits"]
    }
    assert found == {
        "train": {b"photos/0.jpg": 7},
        "test": {b"photos/1.jpg": 8, b"photos/2.jpg": 9},
    }
    check_sound(dataset.folder)


def test_that_labels_may_be_left_out_is_reported(folder: Path) -> None:
    listing = write(folder / "list.csv", "image_uri", "photos/0.jpg")
    ran = convert(labels=listing, output=folder / "out")
    assert ran.code == 2
    assert ran.error().endswith(
        "give --label_column a name or number; or, without --images, --label_from none"
    )


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ({"label_column": "label"}, "--label_column cannot be used with --label_from none"),
        ({"layout": "detection"}, "has the source object.ids, but --label_from is none"),
        ({"layout": "{in}/my.yaml"}, "'a' has the source object.texts, but --label_from is none"),
        ({"images": "{in}/photos/*"}, "--labels cannot be used with --label_from none"),
        (
            {"images": "{in}/photos/*", "label_from": "directory"},
            "--labels cannot be used with --label_from directory",
        ),
    ],
)
def test_what_does_not_go_without_labels(folder: Path, flags: dict[str, str], says: str) -> None:
    listing = write(folder / "list.csv", "image_uri,label", "photos/0.jpg,cat")
    write(folder / "my.yaml", "features:", "  a: object.texts")
    given = {name: value.replace("{in}", str(folder)) for name, value in flags.items()}
    ran = convert(**{"labels": listing, "label_from": "none", "output": folder / "out", **given})
    assert ran.code == 2
    assert says in ran.error()


# Rows that list images, with what else rows can say.


# A bucket that holds all that a command reads.


@pytest.fixture
def bucket(folder: Path, gcs: GcsServer) -> Path:
    """The photos, a layout and a model in `gs://all`, and on disk."""
    gcs.make_bucket("all")
    write(
        folder / "my.yaml", "features:", "  id: image.key", "  age: csv.age", "  sha: image.sha256"
    )
    write(folder / "rows.csv", "id,age", *(f"{n},{n + 30}" for n in range(5)))
    saved_to(folder / "small.keras", small_model().save)
    saved_to(folder / "saved", lambda path: small_model().export(path, verbose=False))
    gcs.put_folder("all", "", folder)
    return folder


@pytest.mark.slow
def test_a_layout_in_a_bucket(bucket: Path) -> None:
    def flags(root: object) -> dict[str, Any]:
        return {
            "images": f"{root}/photos/*.jpg",
            "labels": f"{root}/rows.csv",
            "layout": f"{root}/my.yaml",
        }

    local = make_dataset(bucket / "local", **flags(bucket))
    remote = make_dataset(bucket / "remote", **flags("gs://all"))
    features = {"id": TEXT, "age": NUMBER, "sha": TEXT}
    assert [{**record} for record in read(remote, features)] == read(local, features)
    assert sorted(int(record["age"]) for record in read(remote, features)) == [*range(30, 35)]
    missing = convert(**{**flags("gs://all"), "layout": "gs://all/no.yaml"}, output=bucket / "no")
    assert missing.code == 2
    assert "no such file: --layout gs://all/no.yaml" in missing.error()


@pytest.mark.slow
@pytest.mark.parametrize("model", ["small.keras", "saved"])
def test_a_model_in_a_bucket(bucket: Path, model: str) -> None:
    flags = {"label_from": "none", "layout": "embedding"}
    local = make_dataset(
        bucket / "local", images=f"{bucket}/photos/*.jpg", model=bucket / model, **flags
    )
    shutil.rmtree(bucket / "photos")
    remote = make_dataset(
        bucket / "remote", images="gs://all/photos/*.jpg", model=f"gs://all/{model}", **flags
    )
    shards = {name: data for name, data in digests(local.folder).items() if "tfrecord" in name}
    assert {name: digests(remote.folder)[name] for name in shards} == shards
    assert np.stack([r["Feature"] for r in read(remote, EMBEDDING)]).std() > 0
    check_sound(remote.folder)
