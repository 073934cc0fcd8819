"""`--layout detection_masks`: segmentations of COCO become what TensorFlow's own script writes."""

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from pycocotools import mask as coco_mask

from tests.conftest import draw
from tests.pipeline.annotated import COCO, decode_runs, examples, script_of_coco, write_coco
from tests.pipeline.commands import (
    Dataset,
    check_sound,
    convert,
    digests,
    make_dataset,
    plan,
    show,
    verify,
)
from tests.pipeline.paired import damage_mask

pytestmark = pytest.mark.slow

MASK = "image/object/mask"
LAYOUT = {"layout": "detection_masks"}

_COUNTS = [15, 5] * 60
_SEGMENTATIONS = [
    [[473.5, 396, 511.72, 396.3, 510.45, 424, 480.34, 413.02], [500, 401, 505, 401, 505, 407]],
    {"size": [30, 40], "counts": _COUNTS},
    [[1.5, 2, 31.5, 2, 31.5, 42]],
    [[3, 4, 8, 4, 8, 10, 3, 10]],
]
SEGMENTED: dict[str, Any] = {
    **COCO,
    "annotations": [
        {**each, "segmentation": value}
        for each, value in zip(COCO["annotations"], _SEGMENTATIONS, strict=True)
    ],
}
"""`COCO`, whose only crowd has run lengths, as in COCO itself."""


@pytest.fixture(scope="module")
def coco(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The flags of a conversion with masks."""
    return write_coco(tmp_path_factory.mktemp("coco"), SEGMENTED) | LAYOUT


@pytest.fixture(scope="module")
def converted(coco: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """The dataset of these flags."""
    return make_dataset(tmp_path_factory.mktemp("converted") / "out", **coco)


def masks(dataset: Dataset) -> dict[str, list[Any]]:
    """The pixels of the masks of each image, by its name."""
    return {
        name: [np.asarray(Image.open(io.BytesIO(mask))) for mask in record[MASK]]
        for name, record in examples(dataset).items()
    }


def decided(dataset: Dataset) -> dict[str, tuple[str, str]]:
    return {each["what"]: (each["value"], each["because"]) for each in dataset.manifest["decided"]}


def test_it_is_what_the_script_of_tensorflow_writes(
    coco: dict[str, Any], converted: Dataset
) -> None:
    check_sound(converted.folder)
    found = examples(converted)
    for image in SEGMENTED["images"]:
        folder = coco["labels"].parent
        expected = script_of_coco(folder, image, SEGMENTED, include_masks=True)
        record = found[image["file_name"]]
        del expected["image/source_id"]
        assert {name: record[name] for name in expected} == expected
        assert len(record[MASK]) == len(record["image/object/area"])
    # The crowd's runs go down the columns: 15 pixels outside, 5 inside, of columns of 30.
    first = masks(converted)["7.jpg"][0]
    assert first.shape == (30, 40) and first[:, 0].tolist() == ([0] * 15 + [1] * 5 + [0] * 10)
    assert converted.manifest["versions"]["pycocotools"]
    assert "no features" not in decided(converted) and "empty masks" not in decided(converted)


def test_what_is_not_there_is_said(coco: dict[str, Any], tmp_path: Path) -> None:
    """A missing segmentation is an empty mask, so that masks stay in step with boxes."""
    first, *rest = SEGMENTED["annotations"]
    del (changed := {**rest[0]})["segmentation"]
    notes = [{**first, "segmentation": [], "keypoints": [1, 2, 2]}, changed, *rest[1:]]
    (tmp_path / "some.json").write_text(json.dumps({**SEGMENTED, "annotations": notes}))
    dataset = make_dataset(tmp_path / "out", **{**coco, "labels": tmp_path / "some.json"})
    said = decided(dataset)
    assert said["empty masks"] == ("2 objects", "these annotations have no segmentation")
    assert said["no features"] == ("1 keypoints", "boxes, categories and segmentations are read")
    empty, full = masks(dataset)["7.jpg"]
    assert empty.shape == (30, 40) and not empty.any() and full.any()
    planned = plan(output=tmp_path / "planned", **{**coco, "labels": tmp_path / "some.json"})
    assert planned.code == 0 and "2 objects" in planned.out


ONE = {"image_id": 7, "category_id": 1, "bbox": [3, 4, 5, 6], "area": 30, "iscrowd": 0}


def test_a_wrong_segmentation_rejects_its_image(tmp_path: Path) -> None:
    wrong = {**ONE, "segmentation": {"size": [40, 30], "counts": _COUNTS}}
    flags = write_coco(tmp_path, {**SEGMENTED, "annotations": [wrong, ONE]}) | LAYOUT
    dataset = make_dataset(tmp_path / "out", max_rejected="100%", **flags)
    [rejected] = dataset.rejected
    assert rejected["reason"] == "mask_size"
    assert "its size is [40, 30], but its" in rejected["detail"]
    assert dataset.ledger["records_written"] == 2


def test_again_with_reuse_and_workers(
    coco: dict[str, Any], converted: Dataset, tmp_path: Path
) -> None:
    again = convert(output=converted.folder, **coco)
    assert again.code == 0 and again.out.startswith("up to date"), again.err
    plain = make_dataset(tmp_path / "plain", **{**coco, "layout": "detection"})
    others = [{"reuse": converted.folder}, {"reuse": plain.folder, "workers": 2}]
    for number, more in enumerate(others):
        made = make_dataset(tmp_path / str(number) / "out", **coco, **more)
        assert digests(made.folder) == digests(converted.folder)


def test_what_has_no_segmentations_is_one_line(tmp_path: Path) -> None:
    flags = write_coco(tmp_path) | {"layout": "detection"}
    plain = make_dataset(tmp_path / "plain", **flags)
    ran = convert(output=tmp_path / "of_records", images=plain.folder, **LAYOUT)
    needs = "--layout detection_masks needs object.mask for 'image/object/mask', which the records"
    assert ran.code == 2 and f"{needs} of --images {plain.folder} do not hold" in ran.error()
    (tmp_path / "boxes.csv").write_text("image,label,x,y,w,h\n7,cat,1,1,5,5\n")
    of_rows = {"images": f"{tmp_path}/images/*.jpg", "labels": tmp_path / "boxes.csv"}
    ran = convert(output=tmp_path / "of_rows", **of_rows, **LAYOUT)
    needs = "has no column 'segmentation', which --layout detection_masks needs for object.mask"
    assert ran.code == 2 and f"{needs}: use --layout detection" in ran.error()


def write_yolo(folder: Path) -> dict[str, Any]:
    """The first annotations of `SEGMENTED` as outlines and a box, and an image without objects."""
    draw(folder / "images" / "7.jpg")
    draw(folder / "images" / "8.jpg")
    (folder / "labels").mkdir()
    lines = ["0 0.1 0.2 0.8 0.2 0.8 0.7", "1 0.5 0.5 0.25 0.5", "0 0 0 1 0 1 1 0 1"]
    (folder / "labels" / "7.txt").write_text("\n".join(lines))
    (folder / "classes.txt").write_text("dog\ncat\n")
    return {
        "images": f"{folder}/images/*.jpg",
        "labels": f"{folder}/labels/*.txt",
        "class_names": folder / "classes.txt",
        **LAYOUT,
    }


def test_outlines_of_yolo(tmp_path: Path) -> None:
    flags = write_yolo(tmp_path)
    dataset = make_dataset(tmp_path / "out", **flags)
    check_sound(dataset.folder)
    found = masks(dataset)
    height, width = found["7.jpg"][0].shape
    points = [0.1 * width, 0.2 * height, 0.8 * width, 0.2 * height, 0.8 * width, 0.7 * height]
    drawn = decode_runs(coco_mask.frPyObjects([points], height, width))[:, :, 0]
    outline, box, whole = found["7.jpg"]
    assert outline.tolist() == drawn.tolist() and outline.any()
    assert not box.any() and whole.all() and found["8.jpg"] == []
    assert examples(dataset)["7.jpg"]["image/object/class/label"] == [1, 2, 1]
    empty = ("1 of the first 3 objects", "these lines are boxes, not outlines")
    assert decided(dataset)["empty masks"] == empty
    again = convert(output=dataset.folder, **flags)
    assert again.code == 0 and again.out.startswith("up to date"), again.err


def write_damaged(coco: dict[str, Any], folder: Path) -> Dataset:
    """A dataset of one image, whose first mask was damaged before its record was written."""
    one = coco["images"].replace("*", "7")
    dataset = make_dataset(folder, max_rejected="100%", **{**coco, "images": one})
    damage_mask(dataset, lambda record: record.index(b"IDAT", record.index(MASK.encode())) + 8)
    return dataset


def test_show_and_damaged_masks(coco: dict[str, Any], converted: Dataset, tmp_path: Path) -> None:
    """They reject their image, whether they are copied or resized."""
    shown = show(converted.folder)
    assert shown.code == 0
    assert MASK in shown.out
    assert "png 30x40x1>" in shown.out
    base = write_damaged(coco, tmp_path / "base")
    ran = verify(base.folder)
    assert ran.code != 0
    assert "the mask of object 0 (object.mask) is corrupt_image" in ran.out + ran.err
    for name, options in {"same": {}, "small": {"resize": "20x15"}}.items():
        flags = {**LAYOUT, **options, "max_rejected": "100%"}
        made = make_dataset(tmp_path / name, images=base.folder, **flags)
        [rejected] = made.rejected
        assert (rejected["reason"], rejected["path"]) == ("corrupt_image", "7.jpg")
        assert rejected["detail"].startswith("the mask of object 0 in its record: ")
