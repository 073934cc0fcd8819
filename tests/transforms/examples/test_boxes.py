"""Boxes: their columns, their units, and what an image can hold."""

from __future__ import annotations

import math

import numpy as np
import pytest
from PIL import Image

from transforms.core.messages import LabelsError
from transforms.examples.boxes import (
    Box,
    BoxError,
    find_boxes,
    form_of,
    guess_units,
    is_automl,
    normalized,
    parse_box_columns,
    turned,
)
from transforms.examples.layouts import SOURCES, further_columns
from transforms.images.pillow_images import TURNS

# Boxes become shares of the image, follow its turns, and are refused outside of it.


@pytest.mark.parametrize(
    ("box", "units", "shares"),
    [
        (Box(4, 8, 3, 12), "pixel", Box(0.25, 0.5, 0.25, 1)),
        (Box(0.25, 0.5, 0.25, 1), "normalized", Box(0.25, 0.5, 0.25, 1)),
        # What rounding puts outside is on the edge.
        (Box(-0.5, 16.5, 0, 12.25), "pixel", Box(0, 1, 0, 1)),
        (Box(8, 16, -0.5, 6), "pixel", Box(0.5, 1, 0, 0.5)),
        (Box(-1e-7, 1.0000001, 0.25, 1.000001), "normalized", Box(0, 1, 0.25, 1)),
    ],
)
def test_boxes_become_shares(box: Box, units: str, shares: Box) -> None:
    assert normalized(box, units=units, height=12, width=16) == shares


@pytest.mark.parametrize(
    ("box", "units", "says"),
    [
        (Box(4, 17, 0, 12), "pixel", "xmax 17 is outside of the image, 0 to 16"),
        (Box(4, 8, 0, 13), "pixel", "ymax 13 is outside of the image, 0 to 12"),
        (Box(-1, 8, 0, 12), "pixel", "xmin -1 is outside"),
        (Box(0, 8, 0, 12), "normalized", "xmax 8 is outside of the image, 0 to 1"),
        (Box(8, 4, 0, 12), "pixel", "xmin 8 is not below xmax 4"),
        (Box(0, 4, 5, 5), "pixel", "ymin 5 is not below ymax 5"),
        (Box(0, math.nan, 0, 5), "pixel", "xmax is nan"),
        (Box(0, 4, 0, math.inf), "pixel", "ymax is inf"),
        # More than rounding.
        (Box(0, 16.51, 0, 12), "pixel", "xmax 16.51 is outside"),
        (Box(0, 8, -0.51, 12), "pixel", "ymin -0.51 is outside"),
        (Box(0, 1.00001, 0, 1), "normalized", "xmax 1.00001 is outside"),
        (Box(16, 16.4, 0, 12), "pixel", "xmin 16 is not below xmax 16"),
    ],
)
def test_boxes_that_cannot_be(box: Box, units: str, says: str) -> None:
    with pytest.raises(BoxError, match=says):
        normalized(box, units=units, height=12, width=16)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_box_holds_the_same_pixels_after_a_turn(orientation: int) -> None:
    height, width = 8, 12
    box = Box(xmin=2, xmax=5, ymin=1, ymax=3)
    pixels = np.zeros((height, width), np.uint8)
    pixels[1:3, 2:5] = 255
    image = Image.fromarray(pixels)
    if orientation != 1:
        image = image.transpose(TURNS[orientation])
    shares = turned(normalized(box, units="pixel", height=height, width=width), orientation)
    left, right = (round(side * image.width) for side in (shares.xmin, shares.xmax))
    top, bottom = (round(side * image.height) for side in (shares.ymin, shares.ymax))
    found = np.argwhere(np.asarray(image))
    assert (top, left) == tuple(found.min(0))
    assert (bottom, right) == tuple(found.max(0) + 1)


# Columns and units of boxes are inferred from headers and rows of common tools.


@pytest.mark.parametrize(
    ("header", "form", "columns"),
    [
        ("ImageID,LabelName,XMin,XMax,YMin,YMax", "corners", (2, 4, 3, 5)),
        ("filename,width,height,class,xmin,ymin,xmax,ymax", "corners", (4, 5, 6, 7)),
        ("image,x1,y1,x2,y2,label", "corners", (1, 2, 3, 4)),
        ("image,x_0,y_0,x_1,y_1,label", "corners", (1, 2, 3, 4)),
        ("image,left,top,right,bottom,label", "corners", (1, 2, 3, 4)),
        ("image,bbox_x1,bbox_y1,bbox_x2,bbox_y2,label", "corners", (1, 2, 3, 4)),
        ("file,xtl,ytl,xbr,ybr,label", "corners", (1, 2, 3, 4)),
        ("label_name,bbox_x,bbox_y,bbox_width,bbox_height,image_name", "xywh", (1, 2, 3, 4)),
        ("image,x,y,w,h,label", "xywh", (1, 2, 3, 4)),
        ("image,width,height,x,y,w,h,label", "xywh", (3, 4, 5, 6)),
        ("image,bbox.left,bbox.top,bbox.width,bbox.height", "xywh", (1, 2, 3, 4)),
        ("image,class,x_center,y_center,width,height", "center", (2, 3, 4, 5)),
        ("image,class,cx,cy,w,h", "center", (2, 3, 4, 5)),
    ],
)
def test_headers_of_common_tools(header: str, form: str, columns: tuple[int, ...]) -> None:
    assert find_boxes(header.split(","), "a.csv") == (form, columns)


@pytest.mark.parametrize(
    ("header", "says"),
    [
        (["id", "label"], "a.csv: it has no box columns; it has 'id', 'label'"),
        (["id", "xmin", "xmax", "ymin"], "it has no column 'ymax' for boxes; it has 'id', 'xmin'"),
        (["xmin", "x_min", "ymin", "xmax", "ymax"], "there are several box columns 'xmin'"),
        ([], "a.csv has no header: give four column numbers with --box_columns"),
    ],
)
def test_headers_without_boxes(header: list[str], says: str) -> None:
    with pytest.raises(LabelsError, match=says):
        find_boxes(header, "a.csv")


def test_given_columns() -> None:
    assert parse_box_columns(" a,b ,c,4") == ("a", "b", "c", "4")
    assert form_of(["bbox_x", "bbox_y", "bbox_w", "bbox_h"]) == "xywh"
    assert form_of(["XMin", "YMin", "XMax", "YMax"]) == form_of([]) == "corners"


@pytest.mark.parametrize("wrong", ["a,b,c", "a,b,c,", "a,b,c,a", "a,b,c,d,e"])
def test_given_columns_that_are_not_four(wrong: str) -> None:
    with pytest.raises(ValueError, match="is not four columns"):
        parse_box_columns(wrong)


def test_further_columns() -> None:
    names = [source.name for source in SOURCES.values() if source.columns]
    header = ["id", "IsGroupOf", "iscrowd", "Difficult", "area"]
    found = {"area": 4, "is_crowd": 2, "difficult": 3, "group_of": 1}
    assert further_columns(header, names) == {f"object.{name}": at for name, at in found.items()}
    assert further_columns(["id"], names) == {}


@pytest.mark.parametrize(
    ("row", "is_so"),
    [
        # cloud.google.com/vision/automl/object-detection/docs/csv-format: "Four sample rows".
        ("TRAINING,gs://folder/image1.png,car,0.1,0.1,,,0.3,0.3,,", True),
        ("TRAINING,gs://folder/image1.png,bike,.7,.6,,,.8,.9,,", True),
        ("UNASSIGNED,gs://folder/im2.png,car,0.1,0.1,0.2,0.1,0.2,0.3,0.1,0.3", True),
        ("TEST,gs://folder/im3.png,,,,,,,,,", True),
        ("TRAINING,gs://folder/image1.png,car", True),
        ("TRAINING,gs://folder/image1.png,car,0.1,0.1,,,0.3,0.3,", False),
        ("dev,gs://folder/image1.png,car,0.1,0.1,,,0.3,0.3,,", False),
        ("TRAINING,gs://folder/image1.png,car,a,b,c,d,e,f,g,h", False),
        (",x,y", False),
    ],
)
def test_rows_of_automl(row: str, is_so: bool) -> None:
    assert is_automl(row.split(","), lambda cell: cell.endswith(".png")) == is_so


WITHIN = "no number is above 1 in the first 2 boxes"


@pytest.mark.parametrize(
    ("boxes", "form", "units", "because"),
    [
        (["0,0,1,1", "0.5,0,1.0000001,1"], "corners", "normalized", WITHIN),
        (["0,0,1,1", "0,0,20,12"], "corners", "pixel", "xmax 20 in line 3"),
        (["0.5,0.5,.1,48"], "xywh", "pixel", "height 48 in line 2"),
        (["x,,nan,1", "0,0,inf,1"], "corners", "", "the first rows have no boxes"),
    ],
)
def test_units_are_recognised_by_far_corners(
    boxes: list[str], form: str, units: str, because: str
) -> None:
    found = guess_units(
        [box.split(",") for box in boxes], form, ["line 2", "line 3"][: len(boxes)], "a.csv"
    )
    assert found[1] == because
    assert not units or found[0] == units


def test_one_odd_box_does_not_make_all_others_pixels() -> None:
    boxes = [["0.1", "0.1", "0.5", "0.5"]] * 9 + [["0.1", "0.1", "1.2", "0.5"]]
    with pytest.raises(LabelsError) as caught:
        guess_units(boxes, "corners", [f"line {number}" for number in range(2, 12)], "a.csv")
    assert str(caught.value) == (
        "a.csv: 9 of the first 10 boxes are within 0 to 1, as normalized coordinates are, but "
        "1 are not (xmax 1.2 in line 11): correct these rows, or give --box_units"
    )
