"""Boxes, many labels and columns of the CSV through the whole job, read back with TensorFlow."""

from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from tests.images import picture, saved
from tests.marks import cases
from tests.pipeline.commands import Dataset, check_sound, convert, make_dataset, show, write_layout
from tests.pipeline.reading import NUMBER, TEXT, read_lists
from transforms.images.tags import exif_of

pytestmark = pytest.mark.slow


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Images `a.jpg`, `b.jpg` and `c.jpg` of 12 x 16 pixels; EXIF turns `c` by 90 degrees."""
    for name in "abc":
        exif = {"exif": exif_of(6)} if name == "c" else {}
        data = saved(picture("RGB", 12, 16, seed=ord(name)), "JPEG", **exif)
        (tmp_path / f"{name}.jpg").write_bytes(data)
    return tmp_path


def given(folder: Path, rows: str, images: str = "[ab].jpg") -> dict[str, Any]:
    """Writes a CSV, and gives the flags for it."""
    (folder / "rows.csv").write_text(rows, "utf-8")
    return {"images": f"{folder}/{images}", "labels": folder / "rows.csv"}


def from_rows(folder: Path, rows: str, images: str = "[ab].jpg", **flags: Any) -> Dataset:
    """The dataset of some images and a CSV, which `verify` and `show` accept."""
    files = given(folder, rows, images)
    dataset = make_dataset(folder / "out", overwrite=True, **files, **flags)
    assert show(dataset.folder).code == 0
    check_sound(dataset.folder)
    return dataset


def records(dataset: Dataset, features: dict[str, Any], by: str = "id") -> dict[str, Any]:
    """Records by the stem of a feature."""
    return {record[by].decode().split(".")[0]: record for record in read_lists(dataset, features)}


MULTI = "  id: image.key\n  labels: label.ids\n  names: label.texts\n"


@cases(
    ("id,label\na,dog\na,cat\nb,cat\na,dog\n", {}),
    ("id,label\na,dog|cat\nb,cat|\n", {"label_separator": "|"}),
    ("id,label\na,dog cat\nb, cat  cat\n", {"label_separator": " "}),
)
def test_many_labels(rows: str, flags: dict[str, str], folder: Path) -> None:
    dataset = from_rows(folder, rows, layout=write_layout(folder, MULTI), **flags)
    lists = {"labels": tf.io.VarLenFeature(tf.int64), "names": tf.io.VarLenFeature(tf.string)}
    assert records(dataset, {"id": TEXT, **lists}) == {
        "a": {"id": b"a", "labels": [1, 0], "names": [b"dog", b"cat"]},
        "b": {"id": b"b", "labels": [0], "names": [b"cat"]},
    }
    assert dataset.classes == ["cat", "dog"]


def test_records_without_an_image(folder: Path) -> None:
    dataset = from_rows(folder, "id,n\na,1\nb,2\n", layout=write_layout(folder, "  n: csv.n\n"))
    assert sorted(int(record["n"]) for record in read_lists(dataset, {"n": NUMBER})) == [1, 2]
    ran = show(dataset.folder, f"--images={folder}/pictures")
    assert ran.code == 2
    assert "hold no image" in ran.error()


def test_a_layout_that_has_changed_is_reported(folder: Path) -> None:
    rows, flags = "id,n\na,1\nb,2\n", {"layout": write_layout(folder, "  n: csv.n\n")}
    from_rows(folder, rows, **flags)
    write_layout(folder, "  number: csv.n\n")
    ran = convert(output=folder / "out", **given(folder, rows), **flags)
    assert ran.code == 2
    assert f"--layout {flags['layout']} has changed" in ran.error()
