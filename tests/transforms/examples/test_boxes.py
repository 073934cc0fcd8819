"""Boxes: their columns and units, what an image can hold, and what else rows say of objects."""

import io
import math
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.marks import cases
from transforms.core.messages import LabelsError
from transforms.core.rejections import RejectedImageError
from transforms.examples.boxes import (
    Box,
    BoxError,
    BoxRules,
    find_boxes,
    form_of,
    guess_units,
    is_automl,
    normalized,
    parse_boxes,
    turned,
)
from transforms.examples.layouts import SOURCES, further_columns
from transforms.examples.row_features import ObjectValues
from transforms.images import masks as masks_module
from transforms.images.pillow_images import TURNS
from transforms.images.pixel_options import Frame

# Boxes become shares of the image, follow its turns, and are refused outside of it.


@cases(
    (Box(4, 8, 3, 12), "pixel", Box(0.25, 0.5, 0.25, 1)),
    (Box(0.25, 0.5, 0.25, 1), "normalized", Box(0.25, 0.5, 0.25, 1)),
    # What rounding puts outside is on the edge.
    (Box(-0.5, 16.5, 0, 12.25), "pixel", Box(0, 1, 0, 1)),
    (Box(8, 16, -0.5, 6), "pixel", Box(0.5, 1, 0, 0.5)),
    (Box(-1e-7, 1.0000001, 0.25, 1.000001), "normalized", Box(0, 1, 0.25, 1)),
)
def test_boxes_become_shares(box: Box, units: str, shares: Box) -> None:
    assert normalized(box, units=units, height=12, width=16) == shares


@cases(
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


@cases(
    ("ImageID,LabelName,XMin,XMax,YMin,YMax", "corners", (2, 4, 3, 5)),
    ("filename,width,height,class,xmin,ymin,xmax,ymax", "corners", (4, 5, 6, 7)),
    ("image,x1,y1,x2,y2,label", "corners", (1, 2, 3, 4)),
    ("image,x_0,y_0,x_1,y_1,label", "corners", (1, 2, 3, 4)),
    ("image,left,top,right,bottom,label", "corners", (1, 2, 3, 4)),
    ("image,bbox_x1,bbox_y1,bbox_x2,bbox_y2,label", "corners", (1, 2, 3, 4)),
    ("file,xtl,ytl,xbr,ybr,label", "corners", (1, 2, 3, 4)),
    ("image,x,y,w,h,label", "xywh", (1, 2, 3, 4)),
    ("image,width,height,x,y,w,h,label", "xywh", (3, 4, 5, 6)),
    ("image,bbox.left,bbox.top,bbox.width,bbox.height", "xywh", (1, 2, 3, 4)),
    ("image,class,x_center,y_center,width,height", "center", (2, 3, 4, 5)),
    ("image,class,cx,cy,w,h", "center", (2, 3, 4, 5)),
)
def test_headers_of_common_tools(header: str, form: str, columns: tuple[int, ...]) -> None:
    assert find_boxes(header.split(","), "a.csv") == (form, columns)


@cases(
    (["id", "label"], "a.csv: it has no box columns; it has 'id', 'label'"),
    (["id", "xmin", "xmax", "ymin"], "it has no column 'ymax' for boxes; it has 'id', 'xmin'"),
    (["xmin", "x_min", "ymin", "xmax", "ymax"], "there are several box columns 'xmin'"),
    (["id", "BBox"], "one number each, so split its column 'BBox'; it has 'id', 'BBox'. Name them"),
    ([], "a.csv has no header: give four column numbers: --boxes columns=2,3,4,5"),
)
def test_headers_without_boxes(header: list[str], says: str) -> None:
    with pytest.raises(LabelsError, match=says):
        find_boxes(header, "a.csv")


def test_given_columns() -> None:
    assert parse_boxes("columns= a,b ,c,4, form=XYWH")[:2] == (("a", "b", "c", "4"), "xywh")
    assert form_of(["bbox_x", "bbox_y", "bbox_w", "bbox_h"]) == "xywh"
    assert form_of(["XMin", "YMin", "XMax", "YMax"]) == form_of([]) == "corners"


def test_what_says_nothing_about_boxes() -> None:
    for wrong in ("a,b,c", "a,b,c,", "a,b,c,a", "a,b,c,d,e"):
        with pytest.raises(ValueError, match="has not four columns"):
            parse_boxes(f"columns={wrong}")
    for wrong in ("xywh", "colums=a,b,c,d", "form=xywh,form=xywh", "a,form=xywh"):
        with pytest.raises(ValueError, match="is not like form=xywh,units=pixel,columns=x,y,w,h"):
            parse_boxes(wrong)


def test_further_columns() -> None:
    names = [source.name for source in SOURCES.values() if source.columns]
    header = ["id", "IsGroupOf", "iscrowd", "Difficult", "area"]
    found = {"area": 4, "is_crowd": 2, "difficult": 3, "group_of": 1}
    assert further_columns(header, names) == {f"object.{name}": at for name, at in found.items()}
    assert further_columns(["id"], names) == {}


@cases(
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
)
def test_rows_of_automl(row: str, is_so: bool) -> None:
    assert is_automl(row.split(","), lambda cell: cell.endswith(".png")) == is_so


WITHIN = "no number is above 1 in the first 2 boxes"


@cases(
    (["0,0,1,1", "0.5,0,1.0000001,1"], "corners", "normalized", WITHIN),
    (["0,0,1,1", "0,0,20,12"], "corners", "pixel", "xmax 20 in line 3"),
    (["0.5,0.5,.1,48"], "xywh", "pixel", "height 48 in line 2"),
    (["x,,nan,1", "0,0,inf,1"], "corners", "", "the first rows have no boxes"),
)
def test_far_corners_tell_the_units(boxes: list[str], form: str, units: str, because: str) -> None:
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
        "1 are not (xmax 1.2 in line 11): correct these rows, or give --boxes units="
    )


# Rows of an image become its objects: boxes of any form, and what else a CSV says of each.

COLUMNS = ("x", "y", "w", "h")
LABEL = [(1, "cat")]
FURTHER = (
    ("object.area", "area"),
    ("object.is_crowd", "iscrowd"),
    ("object.difficult", "difficult"),
    ("object.group_of", "IsGroupOf"),
)
VOC = (("object.truncated", "truncated"), ("object.view", "pose"))
MASKS = (("object.mask", "segmentation"),)


def values(
    *cells: str,
    size: tuple[int, int] = (12, 16),
    applied: int = 1,
    tagged: int = 1,
    stored: tuple[int, int] = (24, 32),
    labels: Any = LABEL,
    **rules: Any,
) -> dict[str, list[Any]]:
    """The objects of an image of 12 x 16 pixels whose rows have these cells."""
    given = BoxRules(COLUMNS, **{"units": "pixel", **rules})
    at = {name: index for index, name in enumerate(given.all_columns)}
    split = [row.split(",", len(at) - 1) for row in cells]
    rows = [(f"a.csv:{line}", labels, parts) for line, parts in enumerate(split, 2)]
    return ObjectValues(given, at).values(rows, Frame(*size, applied, tagged, stored))


def box(*cells: str, **flags: Any) -> list[float]:
    found = values(*cells, **flags)
    return [found[f"box.{side}"][0] for side in ("xmin", "ymin", "xmax", "ymax")]


def refused(*cells: str, **flags: Any) -> tuple[str, str]:
    with pytest.raises(RejectedImageError) as caught:
        values(*cells, **flags)
    return caught.value.reason.code, caught.value.detail


UPRIGHT = {"orientation": "upright", "tagged": 6}


@cases(
    ("4,3,12,9", {"form": "corners"}, [0.25, 0.25, 0.75, 0.75]),
    ("4,3,8,6", {"form": "xywh"}, [0.25, 0.25, 0.75, 0.75]),
    ("8,6,8,6", {"form": "center"}, [0.25, 0.25, 0.75, 0.75]),
    # EXIF 6 shows 12 x 16 pixels as 16 x 12: the stored left edge is the top of the picture,
    # and its upper right quarter the upper left one of the stored pixels.
    ("6,0,12,8", UPRIGHT, [0, 0, 0.5, 0.5]),
    ("0,0,8,6", {"tagged": 6}, [0, 0, 0.5, 0.5]),
    ("6,0,12,8", {**UPRIGHT, "applied": 6}, [0.5, 0, 1, 0.5]),
    ("0,0,8,6", {"tagged": 6, "applied": 6}, [0.5, 0, 1, 0.5]),
)
def test_boxes(cells: str, flags: dict[str, Any], sides: list[float]) -> None:
    assert box(cells, **flags) == sides


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_kept_picture_and_an_applied_one_show_the_same(orientation: int) -> None:
    """What is upright after EXIF is applied is stored, once it is turned back."""
    normal = {"units": "normalized", "tagged": orientation}
    kept = box("0.1,0.2,0.4,0.7", **normal, orientation="upright")
    again = ",".join(map(str, kept))
    assert box(again, **normal, applied=orientation) == pytest.approx([0.1, 0.2, 0.4, 0.7])


def test_further_columns_of_objects() -> None:
    found = values("0,0,8,6,30,1,0,-1", "0,0,16,12,,0,true,", further=FURTHER)
    # An area follows the pixels: 24 x 32 are stored of an image of 12 x 16.
    assert found["object.area"] == [120, 24 * 32]
    assert found["object.is_crowd"] == [1, 0]
    assert found["object.difficult"] == [0, 1]
    assert found["object.group_of"] == [0, 0]
    shares = values("0,0,1,1,0.5,0,0,0", further=FURTHER, units="normalized")
    assert shares["object.area"] == [24 * 32 / 2]
    of_voc = values("0,0,8,6,1,Left", "0,0,16,12,,", further=VOC)
    assert of_voc["object.truncated"] == [1, 0]
    assert of_voc["object.view"] == [b"Left", b""]


def test_a_row_without_a_label_and_a_box_is_no_object() -> None:
    found = values(",,,", labels=[])
    assert found == {f"box.{side}": [] for side in ("xmin", "xmax", "ymin", "ymax")}
    assert "column 'y'" in refused("1,,,", labels=[])[1]


def test_masks_of_objects_are_drawn_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a segmentation they are empty. 24 x 32 pixels are stored of an image of 12 x 16."""
    right_half = '{"size": [12, 16], "counts": [96, 96]}'
    found = values("0,0,8,6,", f"0,0,8,6,{right_half}", further=MASKS)["object.mask"]
    empty, right = (np.asarray(Image.open(io.BytesIO(mask))) for mask in found)
    assert empty.shape == (24, 32) and not empty.any()
    assert right[:, 16:].all() and not right[:, :16].any()
    monkeypatch.setattr(masks_module, "MAX_MASKS", 100)
    assert len(values("0,0,8,6,", further=MASKS)["object.mask"]) == 1
    detail = "the masks of its objects have more than 100 bytes"
    assert refused(*["0,0,8,6,"] * 2, further=MASKS) == ("too_costly", detail)


def test_masks_that_would_take_long_are_refused_before_one_is_drawn() -> None:
    """1,500 different ones in 20 million pixels took 168 s."""
    size, run = (5000, 4000), 5000 * 4000
    cells = [f'0,0,8,6,{{"size": [5000, 4000], "counts": [{run - n}, {n}]}}' for n in range(1500)]
    assert refused(*cells, further=MASKS, size=size, stored=size) == (
        "too_costly",
        "the masks of 1500 objects, each of 5000 x 4000 pixels (height x width), have "
        "30000000000 pixels together, more than 536870912",
    )


OUTSIDE = "a.csv:2: ymax 16 is outside of the image, 0 to 12 (pixel)"
OF_AREA = {"further": FURTHER}
WRONG_SIZE = '0,0,8,6,{"size": [1, 1], "counts": [1]}'


@cases(
    ("0,12,12,16", {"tagged": 3}, "bad_box", OUTSIDE),
    ("0,12,12,16", {"tagged": 6}, "bad_box", f"{OUTSIDE}; EXIF turns this image, and --boxes"),
    ("4,,8,12", {}, "bad_box", "a.csv:2, column 'y' (ymin): the cell is empty"),
    ("4,nan,8,12", {}, "bad_box", "a.csv:2: ymin is nan"),
    ("4,3,x,12", {}, "bad_box", "a.csv:2, column 'w' (xmax): 'x' is not a number"),
    ("0,0,8,6,x,0,0,0", OF_AREA, "bad_cell", "a.csv:2, column 'area': 'x' is not an area"),
    ("0,0,8,6,-1,0,0,0", OF_AREA, "bad_cell", "a.csv:2, column 'area': '-1' is not an area"),
    ("0,0,8,6,1e300,0,0,0", OF_AREA, "bad_cell", "a.csv:2, column 'area': '1e300' is not"),
    ("0,0,8,6,1,2,0,0", OF_AREA, "bad_cell", "a.csv:2, column 'iscrowd': '2' is neither 0"),
    (WRONG_SIZE, {"further": MASKS}, "mask_size", "a.csv:2, column 'segmentation': its size"),
)
def test_cells_that_do_not_fit(cells: str, flags: dict[str, Any], reason: str, detail: str) -> None:
    code, found = refused(cells, **flags)
    assert code == reason
    assert found.startswith(detail)
    assert ("EXIF turns this" in found) == ("EXIF turns this" in detail)
