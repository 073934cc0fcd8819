"""Segmentations of COCO become the masks that pycocotools draws, or one clear reason."""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from pycocotools import mask as coco

from tests.images import saved
from tests.pipeline.annotated import decode_runs
from transforms.core.rejections import RejectedImageError
from transforms.images import masks as masks_module
from transforms.images.masks import ObjectMasks, refitted_mask
from transforms.images.pillow_images import BACK, TURNS
from transforms.images.pixel_options import Frame

HEIGHT, WIDTH = 9, 14
FRAME = Frame(HEIGHT, WIDTH, stored=(HEIGHT, WIDTH))
TRIANGLE = [1, 1.5, 12, 1.5, 1, 8]
POLYGONS = [TRIANGLE, [8, 2, 13.9, 2, 13.9, 8.7, 8, 8.7]]


def drawn(value: Any, frame: Frame = FRAME, *, is_upright: bool = False) -> Any:
    """The values of the mask of a segmentation."""
    text = value if isinstance(value, str) else json.dumps(value)
    return read(ObjectMasks(frame, is_upright=is_upright).mask(text))


def read(data: bytes) -> Any:
    image = Image.open(io.BytesIO(data))
    assert (image.format, image.mode, image.info) == ("PNG", "L", {})
    return np.asarray(image)


def polygons(height: int = HEIGHT, width: int = WIDTH) -> Any:
    """`POLYGONS` as TensorFlow's script draws them: each alone, then the maximum."""
    return np.amax(decode_runs(coco.frPyObjects(POLYGONS, height, width)), axis=2)


def test_polygons() -> None:
    found = drawn(POLYGONS)
    assert found.tolist() == polygons().tolist()
    # 1 in the second polygon alone, 0 left of it below the first one.
    assert (found[8, 9], found[8, 5], set(found.flat)) == (1, 0, {0, 1})


def normalized(height: int, width: int) -> Any:
    """`POLYGONS` as YOLO writes outlines."""
    sides = [np.divide(np.reshape(each, (-1, 2)), (width, height)) for each in POLYGONS]
    return {"normalized": [each.ravel().tolist() for each in sides]}


@pytest.mark.parametrize("form", ["%g", "%.6f", "%.17g"])
@given(
    st.lists(st.tuples(st.integers(0, 6400), st.integers(0, 4800)), min_size=3, max_size=9),
    st.sampled_from([10, 100]),
)
def test_outlines_of_yolo_made_from_coco_have_its_masks(
    form: str, places: list[tuple[int, int]], parts: int
) -> None:
    """Also with the six digits that Ultralytics writes."""
    height, width = 480, 640
    polygon = np.divide(places, parts)
    shares = [float(form % each) for each in (polygon / (width, height)).ravel()]
    expected = decode_runs(coco.frPyObjects([polygon.ravel().tolist()], height, width))[..., 0]
    frame = Frame(height, width, stored=(height, width))
    assert (drawn({"normalized": [shares]}, frame) == expected).all()


@pytest.mark.parametrize("tag", [1, 6])
@pytest.mark.parametrize("is_upright", [False, True])
def test_normalized_polygons(tag: int, is_upright: bool) -> None:
    """They are multiplied with the sides of the image as `--box_orientation` says."""
    sides = (WIDTH, HEIGHT) if is_upright and tag > 4 else (HEIGHT, WIDTH)
    frame = FRAME._replace(tag=tag)
    found = drawn(normalized(*sides), frame, is_upright=is_upright)
    assert found.any()
    assert found.tolist() == drawn(POLYGONS, frame, is_upright=is_upright).tolist()


def test_many_polygons_are_merged_in_small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of a group takes a pass over what was merged before: 10,000 took 20 seconds."""
    strips = [[1, y, 8, y, 8, y + 1.2, 1, y + 1.2] for y in range(1, 9, 2)]
    groups: list[int] = []
    merge = coco.merge

    def counted(parts: list[Any]) -> Any:
        groups.append(len(parts))
        return merge(parts)

    monkeypatch.setattr(coco, "merge", counted)
    found = drawn(strips * 100)
    alone = decode_runs(coco.frPyObjects(strips, HEIGHT, WIDTH))
    assert found.tolist() == np.amax(alone, axis=2).tolist()
    assert max(groups) < 10 and sum(groups) < 2 * 400


def test_polygons_are_cut_off_at_the_border() -> None:
    assert drawn([[-WIDTH, -HEIGHT, 2 * WIDTH, -HEIGHT, 2 * WIDTH, 18, -WIDTH, 18]]).all()
    assert not drawn([[-5, 0, -5, 8, -1, 8]]).any()


@pytest.mark.parametrize("nothing", ["", "[]"])
def test_without_a_segmentation_the_mask_is_empty(nothing: str) -> None:
    assert drawn(nothing).tolist() == np.zeros((HEIGHT, WIDTH)).tolist()


@given(st.integers(1, 30), st.integers(1, 30), st.integers(0, 2**31), st.sampled_from([0, 0.5, 1]))
def test_run_lengths(height: int, width: int, seed: int, share: float) -> None:
    """Compressed and not, of any mask: those that pycocotools writes."""
    random = np.random.default_rng(seed).random((height, width))
    wanted = (random < share).astype(np.uint8)
    size = [height, width]
    counts = coco.encode(np.asfortranarray(wanted))["counts"].decode()
    frame = FRAME._replace(height=height, width=width, stored=(height, width))
    assert drawn({"size": size, "counts": counts}, frame).tolist() == wanted.tolist()
    runs = [0] if wanted.T.flat[0] else []
    changes = np.flatnonzero(np.diff(wanted.T.flat)) + 1
    runs += np.diff([0, *changes, wanted.size]).tolist()
    assert drawn({"counts": runs, "size": size}, frame).tolist() == wanted.tolist()


@pytest.mark.parametrize("tag", range(1, 9))
def test_masks_follow_their_image(tag: int) -> None:
    """Polygons of the pixels in the file, and of the upright image, kept and turned."""
    upright = (WIDTH, HEIGHT) if tag > 4 else (HEIGHT, WIDTH)

    def turned(mask: Any, turns: Any) -> Any:
        return np.asarray(Image.fromarray(mask).transpose(turns[tag])) if tag > 1 else mask

    kept = FRAME._replace(tag=tag)
    applied = Frame(HEIGHT, WIDTH, tag, tag, upright)
    stored, shown = polygons(), polygons(*upright)
    assert drawn(POLYGONS, kept).tolist() == stored.tolist()
    assert drawn(POLYGONS, applied).tolist() == turned(stored, TURNS).tolist()
    assert drawn(POLYGONS, kept, is_upright=True).tolist() == turned(shown, BACK).tolist()
    assert drawn(POLYGONS, applied, is_upright=True).tolist() == shown.tolist()
    # The same from the mask in a record, for a run that turns its image.
    again = refitted_mask(saved_mask(stored), applied)
    assert read(again).tolist() == turned(stored, TURNS).tolist()


def saved_mask(values: Any) -> bytes:
    return saved(Image.fromarray(values), "PNG")


def test_resizing_takes_nearest_neighbours() -> None:
    twice = drawn(POLYGONS, FRAME._replace(stored=(2 * HEIGHT, 2 * WIDTH)))
    assert twice.tolist() == np.kron(polygons(), np.ones((2, 2))).tolist()
    mask = saved_mask(polygons())
    larger = FRAME._replace(stored=(18, 28))
    assert read(refitted_mask(mask, larger)).tolist() == twice.tolist()
    assert refitted_mask(mask, FRAME) is mask


@pytest.mark.parametrize(
    ("mask", "reason"),
    [
        (b"no image", "not_an_image"),
        (saved(Image.new("L", (WIDTH, HEIGHT + 1)), "PNG"), "too_many_pixels"),
        (saved(Image.new("L", (HEIGHT, WIDTH)), "PNG"), "mask_size"),
        (saved(Image.new("RGB", (WIDTH, HEIGHT)), "PNG"), "mask_size"),
        (saved(Image.new("L", (WIDTH, HEIGHT)), "JPEG"), "mask_size"),
        (saved(Image.new("L", (WIDTH, HEIGHT)), "PNG")[:-20], "corrupt_image"),
    ],
)
@pytest.mark.parametrize("turn", [1, 3])
def test_a_record_may_hold_anything(mask: bytes, reason: str, turn: int) -> None:
    """Whether its image is turned now or stays as it is."""
    with pytest.raises(RejectedImageError) as caught:
        refitted_mask(mask, FRAME._replace(applied=turn, tag=turn))
    assert caught.value.reason.code == reason


def test_of_headers_alone_no_pixels_are_decoded() -> None:
    damaged = saved_mask(polygons())[:-20]
    assert refitted_mask(damaged, FRAME, check="header") is damaged
    with pytest.raises(RejectedImageError):
        refitted_mask(damaged, FRAME._replace(applied=3, tag=3), check="header")


SIZE = [HEIGHT, WIDTH]
ALL = HEIGHT * WIDTH

BAD: list[tuple[Any, str]] = [
    ("{", "'{' is not a segmentation, as in COCO"),
    ("more than 1048576 characters", "'more than 1048576 characters' is not a segmentation"),
    ("[" * 100_000, "is not a segmentation, as in COCO"),
    ({"counts": [ALL]}, "is not a segmentation"),
    (7, "'7' is not a segmentation"),
    ([1, 1, 12, 1, 1, 8], "the polygon 1 is not a list of x and y of three points or more"),
    ([[1, 1, 12, 1]], "the polygon [1, 1, 12, 1] is not a list of x and y of three points"),
    ([[1, 1, 12, 1, 1, 8, 3]], "is not a list of x and y of three points or more"),
    ([[1, 1, 12, 1, 1, "8"]], "is not a list of x and y"),
    ([[1, 1, 12, 1, 1, True]], "is not a list of x and y"),
    ([{"x": 1}], "the polygon {'x': 1} is not a list"),
    ("[[1, 1, 12, 1, 1, NaN]]", "y nan of a polygon is far outside of the image, 0 to 9"),
    ("[[1, 1, -1e999, 1, 1, 8]]", "x -inf of a polygon is far outside of the image, 0 to 14"),
    ([[1, 1, 29, 1, 1, 8]], "x 29 of a polygon is far outside of the image, 0 to 14"),
    (f"[[1, 1, {10**400}, 1, 1, 8]]", "x 1000"),
    ({"normalized": [[0, 0, 2.5, 1, 0, 1]]}, "x 2.5 of a polygon is far outside of the image"),
    ({"normalized": [TRIANGLE]}, "x 12 of a polygon"),
    ({"normalized": [[0, 0, 1, 1]]}, "is not a list of x and y of three points or more"),
    ({"normalized": 1}, "'{\"normalized\": 1}' is not a segmentation"),
    ({"normalized": [], "size": SIZE}, "is not a segmentation"),
    ({"counts": [ALL - 1], "size": SIZE}, "its counts have 125 pixels, not 126"),
    ({"counts": [], "size": SIZE}, "its counts have 0 pixels, not 126"),
    ({"counts": [10**300], "size": SIZE}, "its counts have too many pixels, not 126"),
    ({"counts": [ALL + 1, -1], "size": SIZE}, "are not run lengths"),
    ({"counts": [float(ALL)], "size": SIZE}, "are not run lengths"),
    ({"counts": {}, "size": SIZE}, "its counts '{}' are not run lengths"),
    ({"counts": "0a", "size": SIZE}, "its counts '0a' are not run lengths"),
    ({"counts": "한", "size": SIZE}, "are not run lengths"),
    ({"counts": "o" * 100_000, "size": SIZE}, "are not run lengths"),
    ({"counts": "00M", "size": SIZE}, "are not run lengths"),
]


@pytest.mark.parametrize(("value", "says"), BAD, ids=range(len(BAD)))
def test_bad_segmentations(value: Any, says: str) -> None:
    with pytest.raises(RejectedImageError) as caught:
        drawn(value)
    assert caught.value.reason.code == "bad_cell"
    assert says in caught.value.detail and len(caught.value.detail) < 120


_NUMBERS = (
    st.integers(-40, 40) | st.floats() | st.none() | st.booleans() | st.text("0a9Po~", max_size=9)
)
_COUNTS = st.lists(st.integers(-1, 2 * ALL), max_size=6) | st.text("0123456789OPo4", max_size=12)
_ANY = (
    st.lists(st.lists(_NUMBERS, max_size=9) | _NUMBERS, max_size=4)
    | st.lists(st.lists(st.floats(-WIDTH, 2 * WIDTH), min_size=6, max_size=8), max_size=3)
    | st.fixed_dictionaries({"normalized": _NUMBERS | st.lists(st.lists(_NUMBERS, max_size=9))})
    | st.fixed_dictionaries({"size": st.just(SIZE) | _NUMBERS, "counts": _COUNTS | _NUMBERS})
)


@given(_ANY)
def test_any_segmentation_is_a_mask_or_a_reason(value: Any) -> None:
    try:
        mask = drawn(value)
    except RejectedImageError as error:
        assert error.reason.code in ("bad_cell", "mask_size") and error.detail.isprintable()
    else:
        assert mask.shape == (HEIGHT, WIDTH) and set(mask.flat) <= {0, 1}


@pytest.mark.parametrize("size", [[HEIGHT, WIDTH + 1], [WIDTH, HEIGHT], [100_000, 100_000], "x"])
def test_run_lengths_of_another_size(size: Any) -> None:
    with pytest.raises(RejectedImageError) as caught:
        drawn({"size": size, "counts": [10**10]})
    assert caught.value.reason.code == "mask_size"
    assert f"but its image is {SIZE} (height, width)" in caught.value.detail


def test_what_would_take_too_long_is_not_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    # 11 steps to the right and 11 back, as often as that is within the limit.
    zigzag = [1, 1, 12, 1] * 50_000
    with pytest.raises(RejectedImageError, match="an outline of 1100000 pixels, more than"):
        drawn([zigzag])
    with pytest.raises(RejectedImageError, match="an outline of 1100000 pixels, more than"):
        drawn([zigzag[:100_000], zigzag[100_000:]])
    with pytest.raises(RejectedImageError, match="10001 polygons, more than 10000"):
        drawn([TRIANGLE] * 10_001)
    monkeypatch.setattr(masks_module, "_MAX_PIXELS", 125)
    with pytest.raises(RejectedImageError, match="are too many for masks of objects"):
        drawn([])


def test_masks_that_become_larger_have_the_cost_of_their_pixels_there() -> None:
    masks = ObjectMasks(Frame(64, 64, stored=(4000, 4000)), is_upright=False)
    masks.check_cost(60)
    with pytest.raises(RejectedImageError, match="of 100 objects, each of 4000 x 4000") as caught:
        masks.check_cost(100)
    assert caught.value.reason.code == "too_costly"


def zigzag(start: int) -> str:
    """An outline of 980,000 pixels in 4 KB of text."""
    points = [(0 if at % 2 else 1999, (start + 4 * at) % 2000) for at in range(490)]
    return json.dumps([[value for point in points for value in point]])


def test_the_outlines_of_all_objects_of_an_image_are_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(masks_module, "MAX_OUTLINES", 2 << 20)
    frame = Frame(2000, 2000, stored=(20, 20))
    masks = ObjectMasks(frame, is_upright=False)
    with pytest.raises(RejectedImageError) as caught:
        for start in range(20):
            masks.mask(zigzag(start))
    assert caught.value.reason.code == "too_costly"
    assert caught.value.detail == "the outlines of its objects have more than 2097152 pixels"


def test_the_texts_of_all_segmentations_of_an_image_are_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(masks_module, "MAX_SEGMENTATIONS", 1 << 20)
    masks = ObjectMasks(Frame(1000, 1000, stored=(20, 20)), is_upright=False)
    texts = (
        json.dumps({"size": [1000, 1000], "counts": [first, *[1] * 99_999, 900_001 - first]})
        for first in range(9)
    )
    with pytest.raises(RejectedImageError) as caught:
        for text in texts:
            masks.mask(text)
    assert caught.value.reason.code == "too_costly"
    assert (
        caught.value.detail == "the segmentations of its objects have more than 1048576 characters"
    )


def test_equal_segmentations_share_their_mask() -> None:
    frame = Frame(5000, 4000, stored=(5000, 4000))
    masks = ObjectMasks(frame, is_upright=False)
    found = [masks.mask(text) for text in ["", json.dumps(POLYGONS)] * 500]
    assert len(set(map(id, found))) == 2


@pytest.mark.parametrize("tag", range(1, 9))
@pytest.mark.parametrize("is_upright", [False, True])
def test_masks_that_become_far_smaller_have_the_same_pixels(
    tag: int, is_upright: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = Frame(HEIGHT, WIDTH, tag, tag, (3, 5))
    is_sideways = is_upright and tag > 4
    height, width = (WIDTH, HEIGHT) if is_sideways else (HEIGHT, WIDTH)
    value = normalized(height, width)
    found = drawn(value, frame, is_upright=is_upright)
    monkeypatch.setattr(masks_module, "_OF_SAMPLE", 1 << 20)
    assert found.tolist() == drawn(value, frame, is_upright=is_upright).tolist()


def test_a_far_smaller_mask_takes_the_time_of_its_pixels() -> None:
    """A thousand masks of 20 megapixels, which were expanded before, took two minutes."""
    frame = Frame(5000, 4000, stored=(50, 40))
    masks = ObjectMasks(frame, is_upright=False)
    run = 5000 * 4000
    counts = ([run - number, number] for number in range(1000))
    texts = [json.dumps({"size": [5000, 4000], "counts": each}) for each in counts]
    masks.check_cost(len(texts))
    assert len([masks.mask(text) for text in texts]) == 1000
    with pytest.raises(RejectedImageError) as caught:
        masks.check_cost(200_000)
    assert caught.value.detail == (
        "the masks of 200000 objects, each of 50 x 40 pixels (height x width), have 1600000000 "
        "pixels together, each counted 4 times, more than 1073741824"
    )
