"""Annotations of COCO, Pascal VOC and YOLO become what TensorFlow's own scripts write."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.detection_readers import read_label_map
from tests.pipeline.annotated import (
    COCO,
    examples,
    script_of_coco,
    script_of_voc,
    write_coco,
    write_image,
)
from tests.pipeline.commands import Dataset, check_sound, convert, make_dataset, plan

pytestmark = pytest.mark.slow

OURS = {"image/class/label", "image/class/text"}
"""Features that the scripts do not write."""
CLASSES = {"person": 1, "stop sign": 13, "dog": 18, "toothbrush": 90}
ALL = {"max_rejected": "100%"}


@pytest.fixture(scope="module")
def coco(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The flags of a conversion of COCO."""
    return write_coco(tmp_path_factory.mktemp("coco"))


@pytest.fixture(scope="module")
def converted(coco: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """The dataset of these flags."""
    return make_dataset(tmp_path_factory.mktemp("converted") / "out", **coco)


def label_map(dataset: Dataset) -> dict[str, int]:
    return dict(read_label_map((dataset.folder / "label_map.pbtxt").read_text()))


def repeated(dataset: Dataset, folder: Path) -> Dataset:
    """What the manifest of a dataset makes, whose options and inputs are the same."""
    again = make_dataset(folder, config=dataset.folder / "manifest.json")
    for name in ("options", "recipe"):
        assert again.manifest[name] == dataset.manifest[name]
    return again


def test_coco_is_what_the_script_of_tensorflow_writes(
    coco: dict[str, Any], converted: Dataset
) -> None:
    check_sound(converted.folder)
    found = examples(converted)
    assert set(found) == {image["file_name"] for image in COCO["images"]}
    for image in COCO["images"]:
        expected = script_of_coco(coco["labels"].parent, image)
        record = found[image["file_name"]]
        # The key of the image; both are numbers for the Model Garden.
        source_id = expected.pop("image/source_id")
        assert int(record.pop("image/source_id")[0]) == int(source_id[0])
        assert {name: record[name] for name in expected} == expected
        # The script writes no feature of objects for an image without any, this empty ones.
        assert {name for name in set(record) - set(expected) if record[name]} <= OURS
    assert (converted.folder / "labels.txt").read_text().splitlines()[13] == "stop sign"
    assert label_map(converted) == CLASSES
    assert (converted.ledger["records_written"], converted.ledger["rows_read"]) == (3, 5)
    lines = converted.manifest["decided"]
    decided = {each["what"]: (each["value"], each["because"]) for each in lines}
    expected = {
        "label format": ("COCO", "the file is one JSON object"),
        "no features": ("1 segmentations", "boxes and categories are read"),
        "box units": ("pixel", "boxes of COCO"),
        "class ids": ("1 to 90", "those of the categories"),
    }
    assert expected.items() <= decided.items()
    planned = plan(output=converted.folder.parent / "planned", **coco)
    assert planned.code == 0, planned.err
    assert "those of the categories" in planned.out


def test_ids_of_categories_are_kept(
    coco: dict[str, Any], converted: Dataset, tmp_path: Path
) -> None:
    """By records, and from one version of the labels to the next."""
    made = make_dataset(tmp_path / "made", images=converted.folder, layout="detection")
    for name in ("labels.txt", "label_map.pbtxt"):
        assert (made.folder / name).read_bytes() == (converted.folder / name).read_bytes()
    assert examples(made) == examples(converted)

    # The ids of other categories, and one that is new.
    categories = [{"id": 5, "name": "dog"}, {"id": 6, "name": "ant"}, {"id": 7, "name": "person"}]
    numbered = zip(COCO["annotations"], (5, 6, 7, 7), strict=True)
    notes = [{**each, "category_id": number} for each, number in numbered]
    later = {**COCO, "annotations": notes, "categories": categories}
    (tmp_path / "later.json").write_text(json.dumps(later))
    flags = {**coco, "labels": tmp_path / "later.json", "class_names": made.folder}
    second = make_dataset(tmp_path / "second", **flags, new_classes="append")
    assert label_map(second) == {**CLASSES, "ant": 91}
    assert examples(second)["000000289343.jpg"]["image/object/class/label"] == [18, 1]
    refused = convert(output=tmp_path / "refused", **flags, new_classes="refuse")
    assert refused.error().startswith("convert: 1 label is not in --class_names, with the number")
    repeated(second, tmp_path / "repeated")


def test_rows_of_coco_list_images(coco: dict[str, Any], converted: Dataset) -> None:
    folder = coco["labels"].parent
    listed = folder / "images" / "instances.json"
    listed.write_bytes(coco["labels"].read_bytes())
    dataset = make_dataset(folder / "listed", labels=listed, layout="detection", key="stem")
    assert examples(dataset) == examples(converted)


# Pascal VOC

PERSON = {"name": "person", "pose": "Left", "truncated": 1, "difficult": 0}
OBJECTS = [
    {**PERSON, "name": "dog", "id": 1, "xmin": 48, "ymin": 240, "xmax": 195, "ymax": 371},
    {**PERSON, "id": 2, "xmin": 8, "ymin": 12, "xmax": 352, "ymax": 498},
]


def tags(values: dict[str, Any], names: tuple[str, ...]) -> str:
    return "".join(f"<{name}>{values[name]}</{name}>" for name in names)


@pytest.fixture
def voc(tmp_path: Path) -> dict[str, Any]:
    """The annotation of an image with objects, and one of an image without any."""
    folder = tmp_path / "VOC2007"
    (folder / "Annotations").mkdir(parents=True)
    marks, sides = ("name", "pose", "truncated", "difficult"), ("xmin", "ymin", "xmax", "ymax")
    objects = "".join(
        f"<object>{tags(each, marks)}<bndbox>{tags(each, sides)}</bndbox></object>"
        for each in OBJECTS
    )
    text = f"<annotation><filename>000001.jpg</filename>{objects}</annotation>"
    (folder / "Annotations/000001.xml").write_text(text)
    empty = "<annotation><filename>2.jpg</filename></annotation>"
    (folder / "Annotations/2.xml").write_text(empty)
    write_image(folder / "JPEGImages/000001.jpg", 353, 500)
    write_image(folder / "JPEGImages/2.jpg", 20, 30)
    return {
        "images": f"{folder}/JPEGImages/*.jpg",
        "labels": f"{folder}/Annotations/*.xml",
        "layout": "detection",
        "key": "name",
    }


def test_voc_is_what_the_script_of_tensorflow_writes(voc: dict[str, Any], tmp_path: Path) -> None:
    dataset = make_dataset(tmp_path / "out", **voc)
    check_sound(dataset.folder)
    found = examples(dataset)
    for name, size, objects in (("000001.jpg", (500, 353), OBJECTS), ("2.jpg", (30, 20), [])):
        data = (tmp_path / "VOC2007/JPEGImages" / name).read_bytes()
        expected = script_of_voc(data, name, size, objects)
        assert {each: found[name][each] for each in expected} == expected
        assert set(found[name]) - set(expected) == OURS
    assert dataset.manifest["inputs"]["labels"] == [voc["labels"]]


# YOLO


@pytest.fixture
def yolo(tmp_path: Path) -> dict[str, Any]:
    """An image with objects, one with an empty file and one without a file."""
    for number in range(3):
        write_image(tmp_path / f"images/train/{number}.jpg", 40, 20)
    folder = tmp_path / "labels/train"
    folder.mkdir(parents=True)
    (folder / "0.txt").write_text("")
    (folder / "1.txt").write_text("1 0.5 0.5 0.25 0.5\n0 0.25 0.25 0.5 0.5\n")
    (folder / "classes.txt").write_text("dog\ncat\n")
    return {
        "images": f"{tmp_path}/images/train/*.jpg",
        "labels": f"{tmp_path}/labels/train/*.txt",
        "class_names": folder / "classes.txt",
        "layout": "detection",
    }


def test_yolo(yolo: dict[str, Any], tmp_path: Path) -> None:
    dataset = make_dataset(tmp_path / "out", **yolo)
    check_sound(dataset.folder)
    found = examples(dataset)
    sides = ("xmin", "ymin", "xmax", "ymax")
    boxes = zip(*(found["1.jpg"][f"image/object/bbox/{side}"] for side in sides), strict=True)
    assert list(boxes) == [(0.375, 0.25, 0.625, 0.75), (0, 0, 0.5, 0.5)]
    assert found["1.jpg"]["image/object/class/label"] == [2, 1]
    assert found["1.jpg"]["image/object/class/text"] == [b"cat", b"dog"]
    for name in ("0.jpg", "2.jpg"):
        assert found[name]["image/object/class/label"] == []
    assert dataset.ledger["records_written"] == 3
    assert dataset.rejected == []
    assert examples(repeated(dataset, tmp_path / "again")) == found
    planned = plan(output=tmp_path / "planned", **yolo)
    assert planned.code == 0 and "no label file" in planned.out, planned.err


def test_a_wrong_first_file_of_yolo_rejects_its_image(yolo: dict[str, Any], tmp_path: Path) -> None:
    """A README among the files, too: the others say what they are."""
    (tmp_path / "labels/train/0.txt").write_text("cat 0.5 0.5 0.1 0.1\n")
    (tmp_path / "labels/train/1.txt").write_text("1.0 0.5 0.5 0.25 0.5\n")
    (tmp_path / "labels/train/2.txt").write_text("0 0.5 0.5 0.25 maybe\n")
    (tmp_path / "labels/train/0 README.txt").write_text("Made by Ann.\n")
    dataset = make_dataset(tmp_path / "out", **ALL, **yolo)
    reasons = {Path(line["path"]).name: line["reason"] for line in dataset.rejected}
    assert reasons == {"0 README.txt:1": "row_without_image", "2.jpg": "bad_box"}
    assert examples(dataset)["0.jpg"]["image/object/class/text"] == [b"cat"]
    assert examples(dataset)["1.jpg"]["image/object/class/text"] == [b"cat"]


def test_rows_of_numbers_are_a_csv_if_their_columns_are_named(tmp_path: Path) -> None:
    write_image(tmp_path / "1.jpg", 9, 9)
    (tmp_path / "rows.txt").write_text("1 7 0.5 0.5 0.5\n")
    named = {"label_key": "1", "label_column": "2", "csv_delimiter": "space"}
    flags = {"images": f"{tmp_path}/*.jpg", "labels": tmp_path / "rows.txt", **named}
    dataset = make_dataset(tmp_path / "out", **flags)
    assert examples(dataset)["1.jpg"]["image/class/label"] == [7]


VOC = {"labels": "VOC2007/Annotations/*.xml", "layout": "detection"}
YOLO = {"images": "images/train/*.jpg", "labels": "labels/train/*.txt"}
