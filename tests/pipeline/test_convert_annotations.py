"""Annotations of COCO, Pascal VOC and YOLO become what TensorFlow's own scripts write."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from tests.detection_readers import read_label_map
from tests.marks import rest_slow
from tests.pipeline.annotated import (
    COCO,
    examples,
    script_of_coco,
    script_of_voc,
    write_coco,
    write_image,
)
from tests.pipeline.commands import Dataset, check_sound, convert, digests, make_dataset, plan
from tests.transforms.labels.test_annotations import VOC2007

OURS = {"image/class/label", "image/class/text"}
"""Features that the scripts do not write."""


@pytest.fixture(scope="module")
def coco(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The flags of a conversion of COCO."""
    return write_coco(tmp_path_factory.mktemp("coco"))


@pytest.fixture(scope="module")
def converted(coco: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """The dataset of these flags."""
    return make_dataset(tmp_path_factory.mktemp("converted") / "out", **coco)


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
    label_map = read_label_map((converted.folder / "label_map.pbtxt").read_text())
    assert label_map == {"person": 1, "stop sign": 13, "dog": 18, "toothbrush": 90}
    assert converted.ledger["records_written"] == 3
    assert converted.ledger["rows_read"] == 5


def test_what_was_decided_about_coco(coco: dict[str, Any], converted: Dataset) -> None:
    decided = {
        each["what"]: (each["value"], each["because"]) for each in converted.manifest["decided"]
    }
    assert decided["label format"] == ("COCO", "the file is one JSON object")
    assert decided["no features"] == ("1 segmentations", "boxes and categories are read")
    assert decided["box units"] == ("pixel", "boxes of COCO")
    assert decided["class ids"] == ("1 to 90", "those of the categories")
    planned = plan(output=converted.folder.parent / "planned", **coco)
    assert planned.code == 0 and "those of the categories" in planned.out


def test_again_and_by_its_manifest_and_with_reuse(
    coco: dict[str, Any], converted: Dataset, tmp_path: Path
) -> None:
    again = convert(output=converted.folder, **coco)
    assert again.code == 0 and again.out.startswith("up to date"), again.err
    manifest = converted.folder / "manifest.json"
    reused = make_dataset(tmp_path / "reused" / "out", reuse=converted.folder, **coco)
    assert digests(reused.folder) == digests(converted.folder)
    repeated = make_dataset(tmp_path / "repeated" / "out", config=manifest)
    # Flags are given now.
    other = {"manifest.json", "report.html"}
    files = (digests(dataset.folder) for dataset in (repeated, converted))
    first, second = ({name: each[name] for name in set(each) - other} for each in files)
    assert first == second
    assert repeated.manifest["recipe"] == converted.manifest["recipe"]


@pytest.mark.slow
def test_another_category_is_another_dataset(
    coco: dict[str, Any], converted: Dataset, tmp_path: Path
) -> None:
    """Also one that no image has: `labels.txt` names it."""
    more = {**COCO, "categories": [*COCO["categories"], {"id": 91, "name": "brush"}]}
    (tmp_path / "more.json").write_text(json.dumps(more))
    ran = convert(output=converted.folder, **{**coco, "labels": tmp_path / "more.json"})
    assert ran.code == 2 and "made with other options: --categories is" in ran.error()


@pytest.mark.slow
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
    label_map = read_label_map((second.folder / "label_map.pbtxt").read_text())
    known = {"person": 1, "stop sign": 13, "dog": 18, "toothbrush": 90}
    assert label_map == {**known, "ant": 91}
    assert examples(second)["000000289343.jpg"]["image/object/class/label"] == [18, 1]
    refused = convert(output=tmp_path / "refused", **flags, new_classes="refuse")
    assert refused.error().startswith("convert: 1 label is not in --class_names, with the number")

    config = second.folder / "manifest.json"
    repeated = make_dataset(tmp_path / "repeated", config=config)
    assert repeated.manifest["options"] == second.manifest["options"]
    assert repeated.manifest["recipe"] == second.manifest["recipe"]


@pytest.mark.slow
def test_class_names_decide_ids(coco: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "classes.txt").write_text("dog\nperson\ntoothbrush\n")
    dataset = make_dataset(tmp_path / "out", class_names=tmp_path / "classes.txt", **coco)
    assert examples(dataset)["000000289343.jpg"]["image/object/class/label"] == [1, 2]


@pytest.mark.slow
def test_several_compressed_files(coco: dict[str, Any], converted: Dataset, tmp_path: Path) -> None:
    for number, image in enumerate(COCO["images"]):
        part = {
            **COCO,
            "images": [image],
            "annotations": [a for a in COCO["annotations"] if a["image_id"] == image["id"]],
        }
        data = gzip.compress(json.dumps(part).encode())
        (tmp_path / f"part-{number}.json.gz").write_bytes(data)
    flags = {**coco, "labels": f"{tmp_path}/part-*.json.gz"}
    dataset = make_dataset(tmp_path / "out", **flags)
    assert examples(dataset) == examples(converted)


BOX = {"image_id": 7, "category_id": 1, "bbox": [3, 4, 5, 6], "area": 30, "iscrowd": 0}


@pytest.mark.parametrize(
    ("changed", "reason", "says"),
    rest_slow(
        [
            ({"bbox": [30, 4, 11, 6]}, "bad_box", "xmax 41 is outside of the image"),
            ({"category_id": 5}, "unknown_label", "'category 5' (instances.json:1) is not in the"),
            ({"bbox": [3, 4, -5, 6]}, "bad_box", "xmax -2 is outside of the image"),
            ({"bbox": [3, 4, 0, 6]}, "bad_box", "xmin 3 is not below xmax 3"),
            ({"bbox": [3, 4]}, "bad_box", "the cell is empty"),
            ({"iscrowd": "maybe"}, "bad_cell", "column 'iscrowd': 'maybe' is neither 0 nor 1"),
            ({"area": -1}, "bad_cell", "column 'area': '-1' is not an area"),
            ({"image_id": 99}, "malformed_row", "its image_id 99 is not that of an image"),
        ],
    ),
)
def test_wrong_annotations(tmp_path: Path, changed: dict[str, Any], reason: str, says: str) -> None:
    flags = write_coco(tmp_path, {**COCO, "annotations": [{**BOX, **changed}, BOX]})
    dataset = make_dataset(tmp_path / "out", max_rejected="100%", **flags)
    [rejected] = dataset.rejected
    assert rejected["reason"] == reason and says in rejected["detail"]
    is_image = reason != "malformed_row"
    assert (rejected["subject"] == "image") is is_image
    assert dataset.ledger["records_written"] == 3 - is_image
    check_sound(dataset.folder)


@pytest.mark.parametrize(
    ("content", "flags", "says"),
    [
        ('{"images": [', {}, "instances.json is damaged JSON at character 13: the file ends"),
        ('{\n"a": 1}', {}, "not a COCO file with boxes: it has no images"),
        ('[{"a": 1}]', {}, "instances.json is JSON: write one object per line, or a CSV"),
        ("", {"dense_labels": True}, "--dense_labels cannot be used with COCO labels"),
        ("", {"csv_delimiter": ";"}, "--csv_delimiter is for CSV files, but --labels is COCO"),
        ("", {"layout": "rows", "images": None}, "--layout rows needs a table"),
    ],
)
def test_usage_errors(tmp_path: Path, content: str, flags: dict[str, Any], says: str) -> None:
    given = write_coco(tmp_path)
    if content:
        (tmp_path / "instances.json").write_text(content)
    ran = convert(output=tmp_path / "out", **{**given, **flags})
    assert (ran.code, says in ran.error()) == (2, True), ran.err


@pytest.mark.slow
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


@pytest.fixture
def voc(tmp_path: Path) -> dict[str, Any]:
    """The real file `000001.xml`, and one of an image without objects."""
    folder = tmp_path / "VOC2007"
    (folder / "Annotations").mkdir(parents=True)
    (folder / "Annotations/000001.xml").write_bytes(VOC2007)
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
    again = make_dataset(tmp_path / "again", config=dataset.folder / "manifest.json")
    assert examples(again) == found


def test_damaged_files_of_voc(voc: dict[str, Any], tmp_path: Path) -> None:
    folder = tmp_path / "VOC2007"
    (folder / "Annotations/3.xml").write_text("<!DOCTYPE a [<!ENTITY b 'c'>]><annotation/>")
    (folder / "Annotations/4.xml").write_text("<annotation>")
    write_image(folder / "JPEGImages/3.jpg", 20, 30)
    dataset = make_dataset(tmp_path / "out", max_rejected="100%", **voc)
    details = {line["path"].rpartition("/")[2]: line["detail"] for line in dataset.rejected}
    assert details["3.xml:1"].startswith("it has a document type")
    assert details["4.xml:1"].startswith("it is not XML")
    assert details["3.jpg"] == "no row has the key '3.jpg'"
    assert len(details) == 3 and dataset.ledger["records_written"] == 2


def test_voc_needs_images(voc: dict[str, Any], tmp_path: Path) -> None:
    ran = convert(output=tmp_path / "out", **{**voc, "images": None, "key": None})
    assert ran.code == 2
    assert ran.error().endswith(
        "Pascal VOC files do not say in which folder images are: give --images GLOB"
    )


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
    again = make_dataset(tmp_path / "again", config=dataset.folder / "manifest.json")
    assert examples(again) == found
    planned = plan(output=tmp_path / "planned", **yolo)
    assert planned.code == 0 and "no label file" in planned.out, planned.err


@pytest.mark.slow
def test_wrong_lines_of_yolo(yolo: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "labels/train/2.txt").write_text("7 0.5 0.5 0.1 0.1\n")
    (tmp_path / "labels/train/0.txt").write_text("0 0.5 0.5 3 0.1\n")
    # A file that cannot be read is not one without objects.
    (tmp_path / "labels/train/1.txt").write_bytes("0 .5 .5 1 1 # 개".encode("cp949"))
    dataset = make_dataset(tmp_path / "out", max_rejected="100%", **yolo)
    reasons = {Path(line["path"]).name: line["reason"] for line in dataset.rejected}
    assert reasons == {"2.jpg": "unknown_label", "0.jpg": "bad_box", "1.jpg": "bad_box"}
    assert any(
        "'the file is not UTF-8 text' is not a number" in line["detail"]
        for line in dataset.rejected
    )


def test_a_wrong_first_file_of_yolo_rejects_its_image(yolo: dict[str, Any], tmp_path: Path) -> None:
    """A README among the files, too: the others say what they are."""
    (tmp_path / "labels/train/0.txt").write_text("cat 0.5 0.5 0.1 0.1\n")
    (tmp_path / "labels/train/1.txt").write_text("1.0 0.5 0.5 0.25 0.5\n")
    (tmp_path / "labels/train/2.txt").write_text("0 0.5 0.5 0.25 maybe\n")
    (tmp_path / "labels/train/0 README.txt").write_text("Made by Ann.\n")
    dataset = make_dataset(tmp_path / "out", max_rejected="100%", **yolo)
    reasons = {Path(line["path"]).name: line["reason"] for line in dataset.rejected}
    assert reasons == {"0 README.txt:1": "row_without_image", "2.jpg": "bad_box"}
    assert examples(dataset)["0.jpg"]["image/object/class/text"] == [b"cat"]
    assert examples(dataset)["1.jpg"]["image/object/class/text"] == [b"cat"]


def test_yolo_needs_a_layout_with_boxes(yolo: dict[str, Any], tmp_path: Path) -> None:
    ran = convert(output=tmp_path / "out", **{**yolo, "layout": None})
    assert ran.code == 2
    assert ran.error().endswith("looks like YOLO, whose labels are boxes: add --layout detection")
    # An empty file alone is no label file of anything.
    flags = {**yolo, "layout": None, "labels": tmp_path / "labels/train/0.txt"}
    assert "0.txt is empty: give a file" in convert(output=tmp_path / "out", **flags).error()


def test_rows_of_numbers_are_a_csv_if_their_columns_are_named(tmp_path: Path) -> None:
    write_image(tmp_path / "1.jpg", 9, 9)
    (tmp_path / "rows.txt").write_text("1 7 0.5 0.5 0.5\n")
    named = {"label_key": "1", "label_column": "2", "csv_delimiter": "space"}
    flags = {"images": f"{tmp_path}/*.jpg", "labels": tmp_path / "rows.txt", **named}
    dataset = make_dataset(tmp_path / "out", **flags)
    assert examples(dataset)["1.jpg"]["image/class/label"] == [7]


def test_yolo_names_stems(yolo: dict[str, Any], tmp_path: Path) -> None:
    ran = convert(output=tmp_path / "out", key="path", **yolo)
    assert ran.code == 2 and "--key path cannot be used with YOLO labels" in ran.error()
