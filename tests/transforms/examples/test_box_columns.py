"""Columns and units of boxes are inferred from headers and rows of common tools."""

from __future__ import annotations

import pytest

from transforms.core.messages import LabelsError
from transforms.examples.boxes import find_boxes, form_of, guess_units, is_automl, parse_box_columns
from transforms.examples.layouts import SOURCES, further_columns

WITH_COLUMNS = [source.name for source in SOURCES.values() if source.columns]


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
        ("id,label", "a.csv: it has no box columns; it has 'id', 'label'"),
        ("id,xmin,xmax,ymin", "it has no column 'ymax' for boxes; it has 'id', 'xmin'"),
        ("id,xmin,x_min,ymin,xmax,ymax", "there are several box columns 'xmin'"),
        (
            "",
            "a.csv has no header: give four column numbers with --box_columns",
        ),
    ],
)
def test_headers_without_boxes(header: str, says: str) -> None:
    with pytest.raises(LabelsError, match=says):
        find_boxes(header.split(",") if header else [], "a.csv")


def test_given_columns() -> None:
    assert parse_box_columns(" a,b ,c,4") == ("a", "b", "c", "4")
    for wrong in ("a,b,c", "a,b,c,", "a,b,c,a", "a,b,c,d,e"):
        with pytest.raises(ValueError, match="is not four columns"):
            parse_box_columns(wrong)
    assert form_of(["bbox_x", "bbox_y", "bbox_w", "bbox_h"]) == "xywh"
    assert form_of(["XMin", "YMin", "XMax", "YMax"]) == form_of([]) == "corners"


def test_further_columns() -> None:
    header = ["id", "IsGroupOf", "iscrowd", "Difficult", "area"]
    assert further_columns(header, WITH_COLUMNS) == {
        "object.area": 4,
        "object.is_crowd": 2,
        "object.difficult": 3,
        "object.group_of": 1,
    }
    assert further_columns(["id"], WITH_COLUMNS) == {}


# cloud.google.com/vision/automl/object-detection/docs/csv-format: "Four sample rows".
AUTOML = """\
TRAINING,gs://folder/image1.png,car,0.1,0.1,,,0.3,0.3,,
TRAINING,gs://folder/image1.png,bike,.7,.6,,,.8,.9,,
UNASSIGNED,gs://folder/im2.png,car,0.1,0.1,0.2,0.1,0.2,0.3,0.1,0.3
TEST,gs://folder/im3.png,,,,,,,,,
"""


def test_rows_of_automl() -> None:
    def is_image(cell: str) -> bool:
        return cell.endswith(".png")

    rows = [line.split(",") for line in AUTOML.splitlines()]
    assert all(is_automl(row, is_image) for row in rows)
    assert is_automl(rows[0][:3], is_image)
    for wrong in (rows[0][:10], ["dev", *rows[0][1:]], [*rows[0][:3], *"abcdefgh"], ["", "x", "y"]):
        assert not is_automl(wrong, is_image)


def units(*boxes: str, form: str = "corners") -> tuple[str, str]:
    cells = [box.split(",") for box in boxes]
    lines = [f"line {number}" for number in range(2, 2 + len(boxes))]
    return guess_units(cells, form, lines, "a.csv")


def test_units_are_recognised_by_far_corners() -> None:
    assert units("0,0,1,1", "0.5,0,1.0000001,1") == (
        "normalized",
        "no number is above 1 in the first 2 boxes",
    )
    assert units("0,0,1,1", "0,0,20,12") == ("pixel", "xmax 20 in line 3")
    assert units("0.5,0.5,.1,48", form="xywh") == ("pixel", "height 48 in line 2")
    assert units("x,,nan,1", "0,0,inf,1")[1] == "the first rows have no boxes"


def test_one_odd_box_does_not_make_all_others_pixels() -> None:
    boxes = ["0.1,0.1,0.5,0.5"] * 9 + ["0.1,0.1,1.2,0.5"]
    with pytest.raises(LabelsError) as caught:
        units(*boxes)
    assert str(caught.value) == (
        "a.csv: 9 of the first 10 boxes are within 0 to 1, as normalized coordinates are, but "
        "1 are not (xmax 1.2 in line 11): correct these rows, or give --box_units"
    )
