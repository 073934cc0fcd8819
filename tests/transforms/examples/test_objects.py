"""Rows of an image become its objects: boxes of any form, and what else a CSV says of each."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from PIL import Image

from transforms.core.rejections import RejectedImageError
from transforms.examples.boxes import BoxRules
from transforms.examples.row_features import ObjectValues
from transforms.images import masks as masks_module
from transforms.images.pixel_options import Frame

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


@pytest.mark.parametrize(
    ("cells", "flags", "sides"),
    [
        ("4,3,12,9", {"form": "corners"}, [0.25, 0.25, 0.75, 0.75]),
        ("4,3,8,6", {"form": "xywh"}, [0.25, 0.25, 0.75, 0.75]),
        ("8,6,8,6", {"form": "center"}, [0.25, 0.25, 0.75, 0.75]),
        # EXIF 6 shows 12 x 16 pixels as 16 x 12: the stored left edge is the top of the picture,
        # and its upper right quarter the upper left one of the stored pixels.
        ("6,0,12,8", UPRIGHT, [0, 0, 0.5, 0.5]),
        ("0,0,8,6", {"tagged": 6}, [0, 0, 0.5, 0.5]),
        ("6,0,12,8", {**UPRIGHT, "applied": 6}, [0.5, 0, 1, 0.5]),
        ("0,0,8,6", {"tagged": 6, "applied": 6}, [0.5, 0, 1, 0.5]),
    ],
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


def test_masks_of_objects() -> None:
    """Without a segmentation they are empty. 24 x 32 pixels are stored of an image of 12 x 16."""
    right_half = '{"size": [12, 16], "counts": [96, 96]}'
    found = values("0,0,8,6,", f"0,0,8,6,{right_half}", further=MASKS)["object.mask"]
    empty, right = (np.asarray(Image.open(io.BytesIO(mask))) for mask in found)
    assert empty.shape == (24, 32) and not empty.any()
    assert right[:, 16:].all() and not right[:, :16].any()


def test_masks_of_an_image_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
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
        "30000000000 pixels together, more than 1073741824",
    )


OUTSIDE = "a.csv:2: ymax 16 is outside of the image, 0 to 12 (pixel)"
OF_AREA = {"further": FURTHER}
WRONG_SIZE = '0,0,8,6,{"size": [1, 1], "counts": [1]}'


@pytest.mark.parametrize(
    ("cells", "flags", "reason", "detail"),
    [
        ("0,12,12,16", {"tagged": 3}, "bad_box", OUTSIDE),
        (
            "0,12,12,16",
            {"tagged": 6},
            "bad_box",
            f"{OUTSIDE}; EXIF turns this image, and --box_orientation upright puts it inside",
        ),
        ("4,,8,12", {}, "bad_box", "a.csv:2, column 'y' (ymin): the cell is empty"),
        ("4,nan,8,12", {}, "bad_box", "a.csv:2: ymin is nan"),
        ("4,3,x,12", {}, "bad_box", "a.csv:2, column 'w' (xmax): 'x' is not a number"),
        ("0,0,8,6,x,0,0,0", OF_AREA, "bad_cell", "a.csv:2, column 'area': 'x' is not an area"),
        ("0,0,8,6,-1,0,0,0", OF_AREA, "bad_cell", "a.csv:2, column 'area': '-1' is not an area"),
        ("0,0,8,6,1e300,0,0,0", OF_AREA, "bad_cell", "a.csv:2, column 'area': '1e300' is not"),
        ("0,0,8,6,1,2,0,0", OF_AREA, "bad_cell", "a.csv:2, column 'iscrowd': '2' is neither 0"),
        (WRONG_SIZE, {"further": MASKS}, "mask_size", "a.csv:2, column 'segmentation': its size"),
    ],
)
def test_cells_that_do_not_fit(cells: str, flags: dict[str, Any], reason: str, detail: str) -> None:
    code, found = refused(cells, **flags)
    assert code == reason
    assert found.startswith(detail)
    assert ("EXIF turns this" in found) == ("EXIF turns this" in detail)
