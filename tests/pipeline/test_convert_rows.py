"""Boxes, many labels and columns of the CSV through the whole job, read back with TensorFlow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from tests.detection_readers import OBJECT_DETECTION
from tests.images import picture, saved
from tests.marks import rest_slow
from tests.pipeline.commands import (
    Dataset,
    check_sound,
    convert,
    digests,
    make_dataset,
    plan,
    show,
    write_layout,
)
from tests.pipeline.reading import NUMBER, TEXT, read_lists

FLOATS = tf.io.VarLenFeature(tf.float32)
INTEGERS = tf.io.VarLenFeature(tf.int64)
TEXTS = tf.io.VarLenFeature(tf.string)

# 16 pixels wide and 12 high.
BOXES = """\
ImageID,XMin,XMax,YMin,YMax,LabelName
a,4,8,3,12,dog
b,0,16,0,6,cat
a,8,12,0,6,cat
a,4,8,3,12,dog
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Images `a.jpg`, `b.jpg` and `c.jpg` of 12 x 16 pixels; EXIF turns `c` by 90 degrees."""
    for name in "abc":
        exif = {"exif": saved_orientation(6)} if name == "c" else {}
        data = saved(picture("RGB", 12, 16, seed=ord(name)), "JPEG", **exif)
        (tmp_path / f"{name}.jpg").write_bytes(data)
    return tmp_path


def saved_orientation(orientation: int) -> bytes:
    from transforms.images.tags import exif_of

    return exif_of(orientation)


def from_rows(folder: Path, rows: str, images: str = "[ab].jpg", **flags: Any) -> Dataset:
    """The dataset of some images and a CSV."""
    (folder / "rows.csv").write_text(rows, "utf-8")
    dataset = make_dataset(
        folder / "out",
        images=f"{folder}/{images}",
        labels=folder / "rows.csv",
        overwrite=True,
        **flags,
    )
    shown = show(dataset.folder)
    assert shown.code == 0, shown.err
    check_sound(dataset.folder)
    return dataset


def records(dataset: Dataset, features: dict[str, Any], by: str) -> dict[str, dict[str, Any]]:
    """Records by the stem of a feature."""
    return {record[by].decode().split(".")[0]: record for record in read_lists(dataset, features)}


def detected(dataset: Dataset) -> dict[str, dict[str, Any]]:
    return records(dataset, OBJECT_DETECTION, "image/filename")


def boxes(record: dict[str, Any]) -> list[list[float]]:
    """Each box as xmin, xmax, ymin, ymax."""
    sides = [record[f"image/object/bbox/{side}"] for side in ("xmin", "xmax", "ymin", "ymax")]
    return [list(box) for box in zip(*sides, strict=True)]


def test_boxes_as_object_detection_reads_them(folder: Path) -> None:
    dataset = from_rows(folder, BOXES, layout="detection")
    found = detected(dataset)
    assert boxes(found["a"]) == [[0.25, 0.5, 0.25, 1], [0.5, 0.75, 0, 0.5], [0.25, 0.5, 0.25, 1]]
    assert found["a"]["image/object/class/label"] == [2, 1, 2]
    assert found["a"]["image/object/class/text"] == [b"dog", b"cat", b"dog"]
    assert found["a"]["image/class/label"] == [2, 1]
    assert boxes(found["b"]) == [[0, 1, 0, 0.5]]
    assert tf.io.decode_image(found["a"]["image/encoded"]).shape == (12, 16, 3)
    assert dataset.ledger == {
        "images_matched": 2, "records_written": 2, "rows_read": 4, "rows_used": 4,
    }  # fmt: skip
    assert dataset.manifest["splits"]["train"]["classes"] == {"cat": 2, "dog": 1}
    assert dataset.manifest["options"]["box_units"] == "pixel"
    described = {feature["name"]: feature for feature in dataset.manifest["features"]}
    assert described["image/object/bbox/xmin"] == {
        "name": "image/object/bbox/xmin", "source": "box.xmin", "dtype": "float", "shape": None,
    }  # fmt: skip


@pytest.mark.slow
def test_boxes_follow_turned_and_resized_pixels(folder: Path) -> None:
    rows = "id,xmin,xmax,ymin,ymax,label\nc,4,8,0,3,dog\n"
    plain = from_rows(folder, rows, "c.jpg", layout="detection")
    assert boxes(detected(plain)["c"]) == [[0.25, 0.5, 0, 0.25]]
    turned = from_rows(
        folder, rows, "c.jpg", layout="detection", exif_orientation="apply", resize="24x32"
    )
    record = detected(turned)["c"]
    assert (record["image/height"], record["image/width"]) == (32, 24)
    assert boxes(record) == [[0.75, 1, 0.25, 0.5]]


@pytest.mark.parametrize(
    ("box", "says"),
    rest_slow(
        [
            ("4,17,3,12", "rows.csv:2: xmax 17 is outside of the image, 0 to 16 (pixel)"),
            ("8,4,3,12", "rows.csv:2: xmin 8 is not below xmax 4"),
            ("nan,4,3,12", "rows.csv:2: xmin is nan"),
            (",4,3,12", "rows.csv:2, column 'xmin' (xmin): the cell is empty"),
        ]
    ),
)
def test_a_wrong_box_rejects_its_image(folder: Path, box: str, says: str) -> None:
    rows = f"id,xmin,xmax,ymin,ymax,label\na,{box},dog\nb,0,4,0,4,dog\n"
    dataset = from_rows(folder, rows, layout="detection", max_rejected=1)
    (line,) = dataset.rejected
    assert (line["reason"], line["key"], line["detail"]) == ("bad_box", "a", says)


MULTI = "  id: image.key\n  labels: label.ids\n  names: label.texts\n"


@pytest.mark.parametrize(
    ("rows", "flags"),
    rest_slow(
        [
            ("id,label\na,dog\na,cat\nb,cat\na,dog\n", {}),
            ("id,label\na,dog|cat\nb,cat|\n", {"label_separator": "|"}),
        ]
    ),
)
def test_many_labels(folder: Path, rows: str, flags: dict[str, str]) -> None:
    layout = write_layout(folder, MULTI)
    dataset = from_rows(folder, rows, layout=layout, **flags)
    features = {"id": TEXT, "labels": INTEGERS, "names": TEXTS}
    assert records(dataset, features, "id") == {
        "a": {"id": b"a", "labels": [1, 0], "names": [b"dog", b"cat"]},
        "b": {"id": b"b", "labels": [0], "names": [b"cat"]},
    }
    assert dataset.classes == ["cat", "dog"]


COLUMNS = """\
  id: image.key
  sha: image.sha256
  age: {source: csv.Age, type: int64, default: -1}
  weight: csv.weight
  note: {source: csv.note, type: bytes}
  scores: {source: csv.scores, type: float, separator: ";"}
"""


def test_columns_as_typed_features(folder: Path) -> None:
    rows = 'id,age,weight,note,scores,label\na,7,2.5,"é, x",1;2.5,dog\nb,,3,y,,dog\n'
    dataset = from_rows(folder, rows, layout=write_layout(folder, COLUMNS))
    features = {
        "id": TEXT,
        "sha": TEXT,
        "age": NUMBER,
        "weight": tf.io.FixedLenFeature([], tf.float32),
        "note": TEXT,
        "scores": FLOATS,
    }
    found = records(dataset, features, "id")
    assert [found["a"][name] for name in ("age", "weight", "note")] == [7, 2.5, "é, x".encode()]
    assert found["a"]["sha"].decode() == digests(folder)["a.jpg"]
    assert found["a"]["scores"] == [1.0, 2.5]
    assert (found["b"]["age"], found["b"]["weight"], found["b"]["scores"]) == (-1, 3.0, [])


def test_plan_counts_all_rows(folder: Path) -> None:
    (folder / "rows.csv").write_text(BOXES)
    ran = plan(
        images=f"{folder}/[ab].jpg",
        labels=folder / "rows.csv",
        layout="detection",
        output=folder / "out",
    )
    assert ran.code == 0, ran.err
    assert "rows     4 read = 4 used" in ran.out
    assert "  box units      pixel " in ran.out


@pytest.mark.parametrize(
    ("flags", "text", "says"),
    [
        ({"layout": "detection", "labels": None, "label_from": "none"}, "", "needs --labels CSV"),
        ({"layout": "detection"}, "", "it has no box columns; it has 'id', 'label'"),
        ({"box_units": "pixel"}, "", "--box_units cannot be used with --layout slim"),
        ({"label_separator": "|"}, "", "--layout slim has one label"),
        ({"label_separator": "|", "layout": "detection"}, "", "a row is one object"),
        ({"layout": "{in}/my.yaml"}, "  a: csv.size\n", "has no column 'size'"),
        ({"layout": "{in}/my.yaml"}, "  a: image.size\n", "line 2: unknown source 'image.size'"),
        ({"layout": "{in}/other.yaml"}, "", "no such file: --layout"),
        (
            {"layout": "{in}/my.yaml", "labels": None, "label_from": "none"},
            "  a: label.id\n",
            "the feature 'a' has the source label.id, but --label_from is none",
        ),
    ],
)
def test_mistakes_before_the_job(folder: Path, flags: dict[str, Any], text: str, says: str) -> None:
    (folder / "rows.csv").write_text("id,label\na,dog\nb,cat\n")
    write_layout(folder, text)
    flags = {"labels": folder / "rows.csv", **flags}
    flags = {k: v.replace("{in}", str(folder)) if k == "layout" else v for k, v in flags.items()}
    ran = convert(images=f"{folder}/[ab].jpg", output=folder / "out", **flags)
    assert ran.code == 2
    assert says in ran.error()
    assert not (folder / "out").exists()


def test_records_without_an_image(folder: Path) -> None:
    dataset = from_rows(folder, "id,n\na,1\nb,2\n", layout=write_layout(folder, "  n: csv.n\n"))
    assert sorted(int(record["n"]) for record in read_lists(dataset, {"n": NUMBER})) == [1, 2]
    pictures = folder / "pictures"
    ran = show(dataset.folder, f"--images={pictures}")
    assert ran.code == 2
    assert "hold no image" in ran.error()


@pytest.mark.slow
def test_a_layout_that_has_changed_is_reported(folder: Path) -> None:
    flags = {"layout": write_layout(folder, "  n: csv.n\n")}
    from_rows(folder, "id,n\na,1\nb,2\n", **flags)
    write_layout(folder, "  number: csv.n\n")
    files = {"images": f"{folder}/[ab].jpg", "labels": folder / "rows.csv"}
    ran = convert(**files, **flags, output=folder / "out")
    assert ran.code == 2
    assert f"--layout {flags['layout']} has changed" in ran.error()
