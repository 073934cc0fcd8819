"""The layout `detection` is what the Model Garden and the Object Detection API read."""

import hashlib
from pathlib import Path

import numpy as np
import pytest

from tests.detection_readers import MODEL_GARDEN, OBJECT_DETECTION, read_label_map
from tests.lazy import lazy_module
from tests.marks import cases
from tests.pipeline.commands import Dataset, check_sound, convert, make_dataset
from tests.pipeline.reading import read_lists

pytestmark = pytest.mark.slow

tf = lazy_module("tensorflow")

# cat-0 and dog-1 are 12 pixels high and 16 wide; dog-2 is a photo without objects.
ROWS = '''\
id,label,x,y,w,h,area,iscrowd,difficult,IsGroupOf
cat-0,cat,4,3,8,6,24,1,0,-1
cat-0,"big ""dog""",0,0,16,12,,0,1,1
dog-1,cat,0,6,8,6,48,0,,0
dog-2,,,,,,,,,
'''


@pytest.fixture(scope="module")
def boxes(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """Boxes in the form of COCO, with all that a row may say of an object."""
    folder = tmp_path_factory.mktemp("boxes")
    (folder / "boxes.csv").write_text(ROWS)
    dataset = make_dataset(
        folder / "out",
        images=[f"{photos}/*/cat-0.jpg", f"{photos}/*/dog-[12].jpg"],
        labels=folder / "boxes.csv",
        layout="detection",
        resize="32x24",
    )
    check_sound(dataset.folder)
    return dataset


def test_every_record_is_what_the_model_garden_parses(boxes: Dataset) -> None:
    records = read_lists(boxes, MODEL_GARDEN)
    assert sorted(record["image/source_id"] for record in records) == [b"cat-0", b"dog-1", b"dog-2"]
    for record in records:
        shape = tf.io.decode_image(record["image/encoded"], channels=3).shape
        assert shape == (record["image/height"], record["image/width"], 3) == (24, 32, 3)
        count = len(record["image/object/class/label"])
        assert min(record["image/object/class/label"], default=1) >= 1
        for name in MODEL_GARDEN:
            if name.startswith("image/object/"):
                assert len(record[name]) == count
    found = {record["image/source_id"]: record for record in records}
    # In pixels of the stored image, which is twice as wide and as high.
    assert found[b"cat-0"]["image/object/area"] == [96, 24 * 32]
    assert found[b"cat-0"]["image/object/is_crowd"] == [1, 0]
    assert found[b"dog-2"]["image/object/bbox/xmin"] == []


def test_every_record_is_what_the_object_detection_api_parses(boxes: Dataset) -> None:
    label_map = read_label_map((boxes.folder / "label_map.pbtxt").read_text("utf-8"))
    assert label_map == {'big "dog"': 1, "cat": 2}
    assert (boxes.folder / "labels.txt").read_text() == '\nbig "dog"\ncat\n'
    for record in read_lists(boxes, OBJECT_DETECTION):
        digest = hashlib.sha256(record["image/encoded"]).hexdigest()
        assert record["image/key/sha256"] == digest.encode()
        assert record["image/format"] == b"jpeg"
        assert record["image/filename"].endswith(record["image/source_id"] + b".jpg")
        for kind in ("image/object/class", "image/class"):
            texts = [text.decode() for text in record[f"{kind}/text"]]
            assert record[f"{kind}/label"] == [label_map[text] for text in texts]
        count = len(record["image/object/class/text"])
        for name in ("difficult", "group_of", "is_crowd", "area"):
            assert len(record[f"image/object/{name}"]) == count
        if record["image/source_id"] == b"cat-0":
            assert record["image/object/difficult"] == [0, 1]
            assert record["image/object/group_of"] == [0, 1]
            sides = [record[f"image/object/bbox/{s}"] for s in ("xmin", "ymin", "xmax", "ymax")]
            expected = [[0.25, 0.25, 0.75, 0.75], [0, 0, 1, 1]]
            np.testing.assert_allclose(np.transpose(sides), expected)


def test_columns_that_are_not_there_are_not_written(datasets: dict[str, Dataset]) -> None:
    names = {feature["name"] for feature in datasets["detection"].manifest["features"]}
    assert names.isdisjoint({"image/object/area", "image/object/is_crowd"})
    for specification in (MODEL_GARDEN, OBJECT_DETECTION):
        for record in read_lists(datasets["detection"], specification):
            assert record["image/object/area"] == []
            assert min(record["image/object/class/label"]) >= 1


@cases(
    (["0", "1"], "", "the label 0 cannot be a class id of --layout detection"),
    (["0", "1"], "cat\ndog\n", [1, 2]),
    (["1", "-1"], "", "the label -1 cannot be a class id"),
    (["1", "2"], "background\ncat\ndog\n", [1, 2]),
    (["3", "7"], "", [3, 7]),
)
def test_the_id_0_is_the_background(
    labels: list[str], classes: str, says: str | list[int], photos: Path, tmp_path: Path
) -> None:
    first, second = labels
    rows = f"id,label,x,y,w,h\ncat-0,{first},0,0,8,6\ndog-1,{second},0,0,8,6\n"
    (tmp_path / "boxes.csv").write_text(rows)
    (tmp_path / "classes.txt").write_text(classes)
    flags = {
        "images": [f"{photos}/*/cat-0.jpg", f"{photos}/*/dog-1.jpg"],
        "labels": tmp_path / "boxes.csv",
        "layout": "detection",
        "class_names": tmp_path / "classes.txt" if classes else None,
        "output": tmp_path / "out",
    }
    ran = convert(**flags)
    if isinstance(says, str):
        assert (ran.code, says in ran.error()) == (2, True), ran.err
        return
    assert ran.code == 0, ran.err
    dataset = Dataset(tmp_path / "out")
    records = read_lists(dataset, OBJECT_DETECTION)
    assert sorted(record["image/object/class/label"][0] for record in records) == says
    label_map = read_label_map((dataset.folder / "label_map.pbtxt").read_text("utf-8"))
    assert sorted(label_map.values()) == says
    check_sound(dataset.folder)
