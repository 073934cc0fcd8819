"""Rows of an image become its objects: boxes of any form, and what else a CSV says of each."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from PIL import Image

from transforms.core.rejections import RejectedImageError
from transforms.examples.boxes import BoxRules
from transforms.examples.row_features import ObjectValues, parse_mark
from transforms.images import masks as masks_module
from transforms.images.pixel_options import Frame

COLUMNS = ("x", "y", "w", "h")
LABEL = [(1, "cat")]


def values(
    *cells: str,
    size: tuple[int, int] = (12, 16),
    applied: int = 1,
    tagged: int = 1,
    stored: tuple[int, int] = (24, 32),
    **rules: Any,
) -> dict[str, list[Any]]:
    """The objects of an image of 12 x 16 pixels whose rows have these cells."""
    given = BoxRules(COLUMNS, **{"units": "pixel", **rules})
    at = {name: index for index, name in enumerate(given.all_columns)}
    split = [row.split(",", len(at) - 1) for row in cells]
    rows = [(f"a.csv:{line}", LABEL, parts) for line, parts in enumerate(split, 2)]
    return ObjectValues(given, at).values(rows, Frame(*size, applied, tagged, stored))


def box(*cells: str, **flags: Any) -> list[float]:
    found = values(*cells, **flags)
    return [found[f"box.{side}"][0] for side in ("xmin", "ymin", "xmax", "ymax")]


@pytest.mark.parametrize(
    ("cells", "form"),
    [("4,3,12,9", "corners"), ("4,3,8,6", "xywh"), ("8,6,8,6", "center")],
)
def test_three_forms_of_one_box(cells: str, form: str) -> None:
    assert box(cells, form=form) == [0.25, 0.25, 0.75, 0.75]


@pytest.mark.parametrize("applied", [1, 6])
def test_boxes_of_the_upright_picture(applied: int) -> None:
    """EXIF 6 shows 12 x 16 pixels as 16 x 12: the stored left edge is the top of the picture."""
    upright = {"orientation": "upright", "tagged": 6, "applied": applied}
    stored = {"tagged": 6, "applied": applied}
    # The upper right quarter of the picture is the upper left one of the stored pixels.
    assert box("6,0,12,8", **upright) == box("0,0,8,6", **stored)
    assert box("6,0,12,8", **upright) == ([0.5, 0, 1, 0.5] if applied == 6 else [0, 0, 0.5, 0.5])


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_kept_picture_and_an_applied_one_show_the_same(orientation: int) -> None:
    """What is upright after EXIF is applied is stored, once it is turned back."""
    normal = {"units": "normalized", "tagged": orientation}
    kept = box("0.1,0.2,0.4,0.7", **normal, orientation="upright")
    again = ",".join(map(str, kept))
    assert box(again, **normal, applied=orientation) == pytest.approx([0.1, 0.2, 0.4, 0.7])


def test_a_box_that_only_the_upright_picture_holds_says_so() -> None:
    with pytest.raises(RejectedImageError) as caught:
        box("0,12,12,16", tagged=6)
    assert caught.value.detail == (
        "a.csv:2: ymax 16 is outside of the image, 0 to 12 (pixel); EXIF turns this image, and "
        "--box_orientation upright puts it inside"
    )
    with pytest.raises(RejectedImageError) as caught:
        box("0,12,12,16", tagged=3)
    assert caught.value.detail.endswith("0 to 12 (pixel)")


FURTHER = (
    ("object.area", "area"),
    ("object.is_crowd", "iscrowd"),
    ("object.difficult", "difficult"),
    ("object.group_of", "IsGroupOf"),
)


def test_further_columns_of_objects() -> None:
    found = values("0,0,8,6,30,1,0,-1", "0,0,16,12,,0,true,", further=FURTHER)
    # An area follows the pixels: 24 x 32 are stored of an image of 12 x 16.
    assert found["object.area"] == [120, 24 * 32]
    assert found["object.is_crowd"] == [1, 0]
    assert found["object.difficult"] == [0, 1]
    assert found["object.group_of"] == [0, 0]
    shares = values("0,0,1,1,0.5,0,0,0", further=FURTHER, units="normalized")
    assert shares["object.area"] == [24 * 32 / 2]


def test_what_pascal_voc_says_of_an_object() -> None:
    further = (("object.truncated", "truncated"), ("object.view", "pose"))
    found = values("0,0,8,6,1,Left", "0,0,16,12,,", further=further)
    assert found["object.truncated"] == [1, 0]
    assert found["object.view"] == [b"Left", b""]


MASKS = (("object.mask", "segmentation"),)


def masks(*segmentations: str, **flags: Any) -> list[Any]:
    """The masks of objects with these segmentations."""
    cells = (f"0,0,8,6,{text}" for text in segmentations)
    found = values(*cells, further=MASKS, **flags)["object.mask"]
    return [np.asarray(Image.open(io.BytesIO(mask))) for mask in found]


def test_masks_of_objects() -> None:
    """Without a segmentation they are empty. 24 x 32 pixels are stored of an image of 12 x 16."""
    empty, right = masks("", '{"size": [12, 16], "counts": [96, 96]}')
    assert empty.shape == (24, 32) and not empty.any()
    assert right[:, 16:].all() and not right[:, :16].any()


def test_a_wrong_segmentation_names_its_row() -> None:
    with pytest.raises(RejectedImageError) as caught:
        masks("", '{"size": [1, 1], "counts": [1]}')
    assert caught.value.reason.code == "mask_size"
    assert caught.value.detail.startswith("a.csv:3, column 'segmentation': its size is [1, 1], ")


def test_masks_of_an_image_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(masks_module, "MAX_MASKS", 100)
    assert len(masks("")) == 1
    with pytest.raises(RejectedImageError) as caught:
        masks("", "")
    assert caught.value.reason.code == "too_costly"
    assert caught.value.detail == "the masks of its objects have more than 100 bytes"


def test_masks_that_would_take_long_are_refused_before_one_is_drawn() -> None:
    """1,500 different ones in 20 million pixels took 168 s."""
    run = 5000 * 4000
    texts = [f'{{"size": [5000, 4000], "counts": [{run - n}, {n}]}}' for n in range(1500)]
    with pytest.raises(RejectedImageError) as caught:
        masks(*texts, size=(5000, 4000), stored=(5000, 4000))
    assert caught.value.reason.code == "too_costly"
    assert caught.value.detail == (
        "the masks of 1500 objects, each of 5000 x 4000 pixels (height x width), have "
        "30000000000 pixels together, more than 1073741824"
    )


@pytest.mark.parametrize(
    ("cells", "detail"),
    [
        ("0,0,8,6,x,0,0,0", "a.csv:2, column 'area': 'x' is not an area, a number from 0"),
        ("0,0,8,6,-1,0,0,0", "a.csv:2, column 'area': '-1' is not an area, a number from 0"),
        ("0,0,8,6,1e300,0,0,0", "a.csv:2, column 'area': '1e300' is not an area, a number from 0"),
        ("0,0,8,6,1,2,0,0", "a.csv:2, column 'iscrowd': '2' is neither 0 nor 1"),
    ],
)
def test_further_cells_that_do_not_fit(cells: str, detail: str) -> None:
    with pytest.raises(RejectedImageError) as caught:
        values(cells, further=FURTHER)
    assert (caught.value.reason.code, caught.value.detail) == ("bad_cell", detail)


def test_a_row_without_a_label_and_a_box_is_no_object() -> None:
    rules = BoxRules(COLUMNS, units="pixel")
    at = {name: index for index, name in enumerate(COLUMNS)}
    rows: list[Any] = [("a.csv:2", [], ["", "", "", ""])]
    found = ObjectValues(rules, at).values(rows, Frame(12, 16, stored=(12, 16)))
    assert set(found) == {"box.xmin", "box.xmax", "box.ymin", "box.ymax"}
    assert not any(found.values())
    rows = [("a.csv:2", [], ["1", "", "", ""])]
    with pytest.raises(RejectedImageError, match="column 'y'"):
        ObjectValues(rules, at).values(rows, Frame(12, 16, stored=(12, 16)))


def test_marks() -> None:
    assert [parse_mark(text) for text in ("1.0", "yes", "FALSE", "-1")] == [1, 1, 0, 0]
    with pytest.raises(ValueError, match="neither 0 nor 1"):
        parse_mark("maybe")
