"""Boxes, objects and columns that stay those of the record."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.images import saved
from transforms.core.rejections import RejectedImageError
from transforms.examples.decoder import Kept, KeptValues
from transforms.examples.layouts import LAYOUTS, Feature

DETECTION = LAYOUTS["detection"]
NAMES = {feature.source: feature.name for feature in DETECTION}
CELLS = '[["given:1",[[1,"dog"],[2,"cat"]],[]]]'
SIDES = ("xmin", "xmax", "ymin", "ymax")


def kept(*left_out: str, size: tuple[int, int] = (10, 20), **more: Any) -> Kept:
    example: dict[str, Any] = {
        f"image/object/bbox/{side}": np.array(values, np.float32)
        for side, values in zip(SIDES, ([0, 0.5], [0.25, 1], [0, 0.5], [0.5, 1]), strict=True)
    }
    example |= {
        "image/object/class/text": np.array([b"cat", b"dog"], object),
        "image/object/class/label": np.array([8, 9]),
        "image/object/area": np.array([25, 50], np.float32),
        **more,
    }
    names = {source: name for source, name in NAMES.items() if source not in left_out}
    return Kept(names, example, [(8, "cat"), (9, "dog")], size)


def values(record: Kept, **given: Any) -> dict[str, Any]:
    marks = ("object.is_crowd", "object.difficult", "object.group_of")
    features = [feature for feature in DETECTION if feature.source not in marks]
    made = KeptValues(features).of(given.pop("cells", CELLS), record, **given)
    return {name.rpartition("/")[2] if "bbox" in name else name: made[name] for name in made}


def test_objects_get_the_ids_of_this_dataset() -> None:
    found = values(kept())
    assert found["image/object/class/label"] == [2, 1]
    assert found["image/object/class/text"] == [b"cat", b"dog"]
    assert found["image/class/label"] == [1, 2]
    assert found["xmax"] == [0.25, 1]
    assert found["image/object/area"] == [25, 50]
    # Without names, ids are those of the other dataset.
    assert values(kept("object.texts"))["image/object/class/text"] == [b"cat", b"dog"]
    assert values(kept(), cells="")["image/object/class/label"] == []


def test_objects_of_a_layout_with_one_label_have_it() -> None:
    ids = Feature.of_source("ids", "object.ids")
    features = [Feature.of_source("label", "label.id"), ids]
    cats = kept(**{"image/object/class/text": np.array([b"cat", b"cat"], object)})
    assert KeptValues(features).of("", cats, label=(2, "cat")) == {"ids": [2, 2]}
    assert KeptValues(features).of("", cats, label=(0, "cat")) == {"ids": [0, 0]}


def test_boxes_turn_and_areas_grow_with_the_pixels() -> None:
    found = values(kept(), turn=6, stored=(40, 20))
    assert found["xmin"] == [0.5, 0]
    assert found["ymax"] == [0.25, 1]
    assert found["image/object/area"] == [100, 200]


MASK = Image.new("L", (20, 10))
MASK.putpixel((0, 0), 1)
DATA = saved(MASK, "PNG")


def of_masks(*masks: bytes, check: str = "full", **given: Any) -> list[bytes]:
    example = {"mask": np.array(masks, object)}
    record = Kept({"object.mask": "mask"}, example, (), (10, 20))
    made = KeptValues([Feature.of_source("mask", "object.mask")], check=check)
    return list(made.of("", record, **given)["mask"])


def test_masks_of_objects_follow_the_pixels() -> None:
    assert of_masks(DATA, DATA, stored=(10, 20)) == [DATA, DATA]
    [turned, _] = of_masks(DATA, DATA, turn=6, stored=(40, 20))
    found = np.asarray(Image.open(io.BytesIO(turned)))
    # The upper left corner becomes the upper right one, twice as large.
    assert found.shape == (40, 20)
    assert np.argwhere(found).tolist() == [[row, at] for row in (0, 1) for at in (18, 19)]


def test_masks_that_take_long_or_are_damaged_reject_their_image() -> None:
    """A damaged one does also if nothing changes it."""
    # Each of two different masks would have a billion pixels.
    with pytest.raises(RejectedImageError, match="of 2 objects, each of 40000 x 20000") as caught:
        of_masks(DATA, DATA + b"x", stored=(40_000, 20_000))
    assert caught.value.reason.code == "too_costly"
    with pytest.raises(
        RejectedImageError, match="^.*the mask of object 1 in its record: "
    ) as caught:
        of_masks(DATA, DATA[:-20])
    assert caught.value.reason.code == "corrupt_image"
    assert of_masks(DATA, DATA[:-20], check="header") == [DATA, DATA[:-20]]


def test_what_no_record_has_is_as_of_empty_cells() -> None:
    assert values(kept("object.area"))["image/object/area"] == [25, 50]
    crowd = Feature.of_source("crowd", "object.is_crowd")
    assert KeptValues([crowd]).of(CELLS, kept("object.is_crowd")) == {"crowd": [0, 0]}
    with pytest.raises(RejectedImageError, match="does not hold box.xmin"):
        values(kept("box.xmin"))
    with pytest.raises(RejectedImageError, match="does not hold object.mask"):
        KeptValues([Feature.of_source("mask", "object.mask")]).of("", kept("object.mask"))


def test_columns() -> None:
    age, tags = Feature("age", "csv.age", "int64"), Feature("tags", "csv.tags", "bytes", None)
    names = {"csv.age": "years", "csv.tags": "tags"}
    record = Kept(names, {"years": np.array([7]), "tags": np.array([], object)}, (), (1, 1))
    assert KeptValues([age, tags]).of("", record) == {"age": 7, "tags": []}
    with pytest.raises(RejectedImageError, match="2 values of 'years', not 1"):
        KeptValues([age]).of("", record._replace(example={"years": np.array([7, 8])}))


def test_an_object_that_is_no_label_is_refused() -> None:
    texts = np.array([b"cat", b"fox"], object)
    with pytest.raises(RejectedImageError, match="an object 'fox'"):
        values(kept(**{"image/object/class/text": texts}))
