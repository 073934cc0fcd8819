"""Arguments of a caller's program: right ones pass as they are, wrong ones are named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from transforms.images.pixel_options import Limits, PixelOptions, Resize
from transforms.labels import arguments as check

RIGHT: list[tuple[Callable[..., Any], tuple[Any, ...], Any]] = [
    (check.path_text, ("a", "gs://b/c"), "gs://b/c"),
    (check.path_text, ("a", Path("b/c")), "b/c"),
    (check.optional_path, ("a", None), None),
    (check.root_text, ("a", ""), ""),
    (check.root_text, ("a", Path("b")), "b"),
    (check.path_texts, ("a", ["b", Path("c")]), ("b", "c")),
    (check.path_texts, ("a", (each for each in "bc")), ("b", "c")),
    (check.class_texts, ("a", None), None),
    (check.class_texts, ("a", ("cat", "dog")), ("cat", "dog")),
    (check.one_of, ("a", "x", ("x", "y")), "x"),
    (check.whole_number, ("a", 3, 1, 3), 3),
    (check.truth, ("a", False), False),
    (check.seed_number, (-7,), -7),
    (check.split_shares, ("train=0.8,test=0.2",), (("train", 0.8), ("test", 0.2))),
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
    (check.one_of, ("a", "z", ("x", "y")), ValueError, "a is one of 'x', 'y', not 'z'"),
    (check.one_of, ("a", None, ("x",)), ValueError, "not None"),
    (check.whole_number, ("a", 0, 1), ValueError, "a is at least 1, not 0"),
    (check.whole_number, ("a", 4, 1, 3), ValueError, "a is at least 1 and at most 3, not 4"),
    (check.whole_number, ("a", 1.0, 1), TypeError, "a is an int, not the float 1.0"),
    (check.whole_number, ("a", True, 1), TypeError, "a is an int, not the bool True"),
    (check.truth, ("a", "no"), TypeError, "a is True or False, not the str 'no'"),
    (check.seed_number, (2**127,), ValueError, "seed is at least"),
    (check.split_shares, ({"train": 1},), TypeError, "splits is a str: write 'train=1'"),
    (check.split_shares, (["train=1"],), TypeError, "splits is a str such as 'train=0.9,test=0.1'"),
    (check.split_shares, ("train",), ValueError, "splits 'train': 'train' has no '='"),
    (PixelOptions, ("jpg",), ValueError, "transcode is one of 'keep', 'auto', 'jpeg', 'png', not"),
    (PixelOptions, ("keep", "256"), TypeError, "resize is a Resize or None, not the str '256'"),
    (PixelOptions, ("keep", None, "grey"), ValueError, "color is one of"),
    (PixelOptions, ("keep", None, "gray", 0), ValueError, "quality is at least 1 and at most 100"),
    (PixelOptions, ("keep", None, "gray", 9, "yes"), ValueError, "exif_orientation is one of"),
    (PixelOptions, ("keep", None, "gray", 9, "keep", False, "16"), ValueError, "depth is 8 or 16"),
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


def test_options_stay_tuples() -> None:
    pixels = PixelOptions(resize=Resize.parse("8x6"), quality=90)
    assert pixels._replace(color="gray")._asdict() == {
        "transcode": "keep",
        "resize": Resize("exact", 6, 8),
        "color": "gray",
        "quality": 90,
        "exif_orientation": "keep",
        "reencode": False,
        "depth": 8,
    }
    assert tuple(Limits(max_pixels=2, max_bytes=3)) == (2, 3)


def test_flags_become_arguments() -> None:
    assert check.own_words("give --label_key N or a --layout") == "give label_key N or a layout"
    assert check.own_words("a--b, -- c") == "a--b, -- c"
