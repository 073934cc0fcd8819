"""Sizes are read as written and make the sizes they say."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transforms.images.pixel_options import AS_THEY_ARE, PixelOptions, Resize

SIDES = st.integers(1, 20_000)
RULES = st.sampled_from(["shorter", "longer"])
RESIZES = st.one_of(
    st.builds(lambda rule, side, flag: Resize(rule, side, side, flag), RULES, SIDES, st.booleans()),
    st.builds(Resize, st.just("exact"), SIDES, SIDES, st.booleans()),
)


@pytest.mark.parametrize(
    ("text", "resize"),
    [
        ("shorter=256", Resize("shorter", 256, 256)),
        ("longer=512,never_enlarge", Resize("longer", 512, 512, never_enlarge=True)),
        ("640x480", Resize("exact", height=480, width=640)),
        (" 224x224,never_enlarge ", Resize("exact", 224, 224, never_enlarge=True)),
        ("65500x1", Resize("exact", height=1, width=65_500)),
    ],
)
def test_sizes(text: str, resize: Resize) -> None:
    assert Resize.parse(text) == resize


@pytest.mark.parametrize(
    "text",
    ["", "256", "x", "5x", "x5", "shorter", "shorter=", "shorter=-1", "wide=5", "5x5x5", "5.5x5"]
    + ["5*5", "longer=5,", "5x5,enlarge", "5 x 5", "٥x٥"],
)
def test_anything_else_is_shown_how_to_write_it(text: str) -> None:
    with pytest.raises(ValueError, match="is not a size: (did you mean|write it like shorter=256)"):
        Resize.parse(text)


@pytest.mark.parametrize("text", ["shorter=0", "0x5", "5x65501", "longer=99999"])
def test_a_side_has_its_limits(text: str) -> None:
    with pytest.raises(ValueError, match="a side has 1 to 65500 pixels"):
        Resize.parse(text)


@given(RESIZES)
def test_a_size_is_written_as_it_is_read(resize: Resize) -> None:
    assert Resize.parse(str(resize)) == resize


@given(RULES, SIDES, SIDES, SIDES)
def test_one_side_gets_the_size_and_the_other_keeps_the_shape(
    rule: str, side: int, height: int, width: int
) -> None:
    new = Resize(rule, side, side).size(height, width)
    named = {"shorter": min, "longer": max}[rule]
    assert named(new) == side
    scale = side / named(height, width)
    for now, before in zip(new, (height, width), strict=True):
        assert now == 1 or abs(now - before * scale) <= 0.5


@given(SIDES, SIDES, SIDES, SIDES)
def test_an_exact_size_is_exact(height: int, width: int, now_high: int, now_wide: int) -> None:
    assert Resize("exact", now_high, now_wide).size(height, width) == (now_high, now_wide)


@given(RESIZES, SIDES, SIDES)
def test_what_would_grow_can_stay_as_it_is(resize: Resize, height: int, width: int) -> None:
    free = resize._replace(never_enlarge=False).size(height, width)
    bound = resize._replace(never_enlarge=True).size(height, width)
    grows = free[0] > height or free[1] > width
    assert bound == ((height, width) if grows else free)


@given(RESIZES, SIDES, SIDES)
def test_a_turned_image_gets_the_turned_size(resize: Resize, height: int, width: int) -> None:
    turned = resize._replace(height=resize.width, width=resize.height)
    assert turned.size(width, height) == resize.size(height, width)[::-1]


def test_nothing_changes_by_default() -> None:
    assert AS_THEY_ARE.changes_nothing and AS_THEY_ARE.jpeg_quality == 95
    assert PixelOptions(strip_metadata=True, depth=16).changes_nothing
    for change in (
        {"transcode": "auto"},
        {"resize": Resize("longer", 9, 9, never_enlarge=True)},
        {"color": "gray"},
        {"exif_orientation": "apply"},
    ):
        options = PixelOptions(**change)
        assert not options.changes_nothing
        assert dataclasses.replace(options, quality=5).jpeg_quality == 5


@pytest.mark.parametrize("options", [{}, {"transcode": "png", "color": "rgb"}])
def test_a_quality_needs_jpegs_that_are_written(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="--quality (applies only to|cannot be used with)"):
        PixelOptions(**options, quality=5)
