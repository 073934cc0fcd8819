"""Datasets with annotations of COCO, Pascal VOC and YOLO, and what TensorFlow's scripts write.

The expected features follow `create_coco_tf_record.py` and `create_pascal_tf_record.py` of the
Object Detection API.
"""

import hashlib
import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from pycocotools import mask

from tests.images import picture, saved
from tests.lazy import lazy_module
from tests.pipeline.commands import Dataset

tf = lazy_module("tensorflow")

# An image and an annotation in the form of instances_val2017.json.
COCO_IMAGE = {
    "license": 1, "file_name": "000000289343.jpg", "height": 640, "width": 529, "id": 289343,
}  # fmt: skip
COCO_ANNOTATION = {
    "segmentation": [[510.66, 423.01, 511.72, 420.03, 510.45, 416.0, 510.34, 413.02]],
    "area": 702.1057499999998, "iscrowd": 0, "image_id": 289343, "category_id": 18, "id": 1768,
    "bbox": [473.07, 395.93, 38.65, 28.67],
}  # fmt: skip
CATEGORIES = [
    {"supercategory": "person", "id": 1, "name": "person"},
    {"supercategory": "outdoor", "id": 13, "name": "stop sign"},
    {"supercategory": "animal", "id": 18, "name": "dog"},
    {"supercategory": "indoor", "id": 90, "name": "toothbrush"},
]
COCO = {
    "info": {"year": 2017},
    "licenses": [{"id": 1}],
    "images": [
        COCO_IMAGE,
        {"id": 7, "file_name": "7.jpg", "height": 30, "width": 40},
        {"id": 8, "file_name": "8.jpg", "height": 20, "width": 25},
    ],
    "annotations": [
        COCO_ANNOTATION,
        {"image_id": 7, "category_id": 1, "bbox": [0, 0, 40, 30], "area": 900.5, "iscrowd": 1},
        {"image_id": 289343, "category_id": 1, "bbox": [1.5, 2, 30, 40], "area": 9, "iscrowd": 0},
        {"image_id": 7, "category_id": 90, "bbox": [3, 4, 5, 6], "area": 30, "iscrowd": 0},
    ],
    "categories": CATEGORIES,
}
"""Two images with objects, and one without."""


def write_image(path: Path, width: int, height: int) -> None:
    """Draws a JPEG."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(saved(picture("RGB", height, width, seed=width), "JPEG"))


def write_coco(folder: Path, content: Mapping[str, Any] = COCO) -> dict[str, Any]:
    """Writes the images and `instances.json`; gives the flags that convert them."""
    for image in content["images"]:
        if "width" in image:
            write_image(folder / "images" / image["file_name"], image["width"], image["height"])
    (folder / "instances.json").write_text(json.dumps(content))
    return {
        "images": f"{folder}/images/*.jpg",
        "labels": folder / "instances.json",
        "layout": "detection",
    }


def examples(dataset: Dataset) -> dict[str, dict[str, list[Any]]]:
    """All features of each record, by the name of its image."""
    found = {}
    for name in dataset.shards():
        for record in tf.data.TFRecordDataset(str(dataset.folder / name)).as_numpy_iterator():
            features = tf.train.Example.FromString(record).features.feature
            values = {
                each: list(getattr(value, value.WhichOneof("kind") or "int64_list").value)
                for each, value in features.items()
            }
            found[values["image/filename"][0].decode()] = values
    return found


def script_of_coco(
    folder: Path,
    image: Mapping[str, Any],
    content: Mapping[str, Any] = COCO,
    *,
    include_masks: bool = False,
) -> dict[str, list[Any]]:
    """The features that TensorFlow's script writes for an image of `content`."""
    data = (folder / "images" / image["file_name"]).read_bytes()
    height, width = image["height"], image["width"]
    names = {each["id"]: each["name"].encode() for each in CATEGORIES}
    objects = [each for each in content["annotations"] if each["image_id"] == image["id"]]
    boxes = [each["bbox"] for each in objects]
    features = _of_image(data, image["file_name"], height, width)
    features["image/source_id"] = [str(image["id"]).encode()]
    if objects:
        features |= {
            "image/object/bbox/xmin": _floats(x / width for x, _, _, _ in boxes),
            "image/object/bbox/xmax": _floats((x + w) / width for x, _, w, _ in boxes),
            "image/object/bbox/ymin": _floats(y / height for _, y, _, _ in boxes),
            "image/object/bbox/ymax": _floats((y + h) / height for _, y, _, h in boxes),
            "image/object/class/text": [names[each["category_id"]] for each in objects],
            "image/object/class/label": [each["category_id"] for each in objects],
            "image/object/is_crowd": [each["iscrowd"] for each in objects],
            "image/object/area": _floats(each["area"] for each in objects),
        }
    if objects and include_masks:
        features["image/object/mask"] = [_mask(each, height, width) for each in objects]
    return features


def _mask(annotation: Mapping[str, Any], height: int, width: int) -> bytes:
    """The mask of an object; `iscrowd` says that its segmentation is a run-length encoding."""
    encoded = mask.frPyObjects(annotation["segmentation"], height, width)
    binary = decode_runs(encoded)
    if not annotation["iscrowd"]:
        binary = np.amax(binary, axis=2)
    return saved(Image.fromarray(binary), "PNG")


def decode_runs(encoded: Any) -> Any:
    """`pycocotools.mask.decode`, which warns of each array under NumPy 2."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return mask.decode(encoded)


def script_of_voc(
    data: bytes, file_name: str, size: tuple[int, int], objects: list[dict[str, Any]]
) -> dict[str, list[Any]]:
    """The features that TensorFlow's script writes for an image of Pascal VOC.

    Its size is height and width; its objects have the fields of the file and `id`.
    """
    height, width = size
    sides = {"xmin": width, "xmax": width, "ymin": height, "ymax": height}
    return {
        **_of_image(data, file_name, height, width),
        "image/source_id": [file_name.encode()],
        **{
            f"image/object/bbox/{side}": _floats(each[side] / whole for each in objects)
            for side, whole in sides.items()
        },
        "image/object/class/text": [each["name"].encode() for each in objects],
        "image/object/class/label": [each["id"] for each in objects],
        "image/object/difficult": [each["difficult"] for each in objects],
        "image/object/truncated": [each["truncated"] for each in objects],
        "image/object/view": [each["pose"].encode() for each in objects],
    }


def _of_image(data: bytes, file_name: str, height: int, width: int) -> dict[str, list[Any]]:
    return {
        "image/height": [height],
        "image/width": [width],
        "image/filename": [file_name.encode()],
        "image/key/sha256": [hashlib.sha256(data).hexdigest().encode()],
        "image/encoded": [data],
        "image/format": [b"jpeg"],
    }


def _floats(values: Any) -> list[float]:
    return [float(np.float32(value)) for value in values]
