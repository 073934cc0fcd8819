"""Arguments of a caller's program: right ones pass as they are, wrong ones are named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from transforms.core import option as check
from transforms.images.pixel_options import Limits, PixelOptions

RIGHT: list[tuple[Callable[..., Any], tuple[Any, ...], Any]] = [
    (check.path_text, ("a", "gs://b/c"), "gs://b/c"),
    (check.path_text, ("a", Path("b/c")), "b/c"),
    (check.path_texts, ("a", ["b", Path("c")]), ("b", "c")),
    (check.path_texts, ("a", (each for each in "bc")), ("b", "c")),
    (check.class_texts, ("a", None), None),
    (check.class_texts, ("a", ("cat", "dog")), ("cat", "dog")),
    (check.choice_of, ("a", "x", ("x", "y")), "x"),
    (check.whole_number, ("a", 3, 1, 3), 3),
    (check.truth, ("a", False), False),
]

WRONG: list[tuple[Callable[..., Any], tuple[Any, ...], type[Exception], str]] = [
    (check.path_text, ("a", 3), TypeError, "a is a path, a str or an os.PathLike, not the int 3"),
    (check.path_text, ("a", None), TypeError, "not None"),
    (check.path_text, ("a", b"x"), TypeError, "not the bytes b'x'"),
    (check.path_text, ("a", " "), ValueError, "a is empty: give a path"),
    (check.path_text, ("a", Path("gs://b/c")), ValueError, "'gs:/b/c' is a URL that a Path cannot"),
    (check.path_texts, ("a", "*.jpg"), TypeError, "a is a sequence: write ['*.jpg']"),
    (check.path_texts, ("a", Path("x")), TypeError, "a is a sequence: write ["),
    (check.path_texts, ("a", {"x": 1}), TypeError, "a is a sequence, not the dict"),
    (check.path_texts, ("a", None), TypeError, "a is a sequence, not None"),
    (check.path_texts, ("a", []), ValueError, "a is empty: give at least one"),
    (check.path_texts, ("a", ["x", 3]), TypeError, "a[1] is a path"),
    (check.class_texts, ("a", "cat"), TypeError, "a is a sequence: write ['cat']"),
    (check.class_texts, ("a", []), ValueError, "a is empty"),
    (check.class_texts, ("a", ["cat", "cat"]), ValueError, "a[1] 'cat' is given twice"),
    (check.class_texts, ("a", ["cat", " "]), ValueError, "a[1] ' ' is empty"),
    (check.class_texts, ("a", [1, 2]), TypeError, "a[0] is a str, not the int 1"),
    (check.choice_of, ("a", "z", ("x", "y")), ValueError, "a is one of 'x', 'y', not 'z'"),
    (check.choice_of, ("a", None, ("x",)), ValueError, "not None"),
    (check.whole_number, ("a", 0, 1), ValueError, "a is at least 1, not 0"),
    (check.whole_number, ("a", 4, 1, 3), ValueError, "a is at least 1 and at most 3, not 4"),
    (check.whole_number, ("a", 1.0, 1), TypeError, "a is an int, not the float 1.0"),
    (check.whole_number, ("a", True, 1), TypeError, "a is an int, not the bool True"),
    (check.truth, ("a", "no"), TypeError, "a is True or False, not the str 'no'"),
    (Limits, (0, 1), ValueError, "max_pixels is at least 1"),
    (Limits, (1, "1MB"), TypeError, "max_bytes is an int, not the str '1MB'"),
]


@pytest.mark.parametrize("at", range(len(RIGHT)))
def test_what_is_right(at: int) -> None:
    function, arguments, result = RIGHT[at]
    assert function(*arguments) == result


@pytest.mark.parametrize("at", range(len(WRONG)))
def test_what_is_wrong_is_named(at: int) -> None:
    function, arguments, error, says = WRONG[at]
    with pytest.raises(error) as raised:
        function(*arguments)
    assert says in str(raised.value)
    assert "--" not in str(raised.value)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (
            {"transcode": "jpg"},
            "--transcode 'jpg' is not one of keep, auto, jpeg, png; did you mea",
        ),
        ({"color": "blue"}, "--color 'blue' is not one of keep, rgb, gray"),
        ({"color": "gray", "quality": 0}, "--quality '0' is not a whole number above 0"),
        ({"exif_orientation": "yes"}, "--exif_orientation 'yes' is not one of keep, apply"),
        ({"depth": 12}, "--depth '12' is neither 8 nor 16"),
    ],
)
def test_options_of_pixels_that_no_flag_gives(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        PixelOptions(**options)


def test_limits_are_a_tuple() -> None:
    assert tuple(Limits(max_pixels=2, max_bytes=3)) == (2, 3)


def test_flags_become_arguments() -> None:
    assert check.own_words("give --label_key N or a --layout") == "give label_key N or a layout"
    assert check.own_words("a--b, -- c") == "a--b, -- c"
