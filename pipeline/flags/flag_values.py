"""Parses the values of flags, and explains what is wrong with an invalid one.

Each function raises ValueError with a message that `one_line_parser.typed` shows after the flag.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from typing import NamedTuple

from transforms.core.features.layouts import LAYOUTS, ROWS, is_layout_file
from transforms.core.labels.path_labels import parse_label_regex
from transforms.core.planning.shards import MAX_SHARDS

LAYOUT_NAMES = (*LAYOUTS, ROWS)

# From 0 to 1.
_ALIKE = 0.6


# Words of other programs for values of ours.
_MEANT = {
    "apply": "true yes on rotate transpose",
    "center": "yolo cxcywh centre",
    "corners": "xyxy voc pascal pascal_voc corner",
    "directory": "folder folders dir directories parent",
    "drop": "remove delete discard true yes on",
    "full": "all true yes on decode pixels",
    "gray": "grey grayscale greyscale l mono 1",
    "gzip": "gz zip zlib true yes on",
    "header": "headers fast quick none off",
    "integer": "int number numeric id",
    "jpeg": "jpg jpe jfif",
    "keep": "none off false no",
    "name": "filename file file_name basename",
    "none": "false no off uncompressed",
    "normalized": "normalised relative norm fraction",
    "off": "none false no quiet silent never",
    "path": "relative relative_path filepath file_path",
    "per_image": "one single image separate each",
    "pixel": "pixels px absolute",
    "regex": "regexp pattern re",
    "rgb": "color colour 3",
    "text": "string str names",
    "xywh": "coco ltwh",
}


KNOWN_CLASSES = "known classes"
"""The subject of the decision about the classes of a dataset; a repeated run finds it."""


class DatasetClasses(NamedTuple):
    """The classes of the dataset that `--class_names` named in a run that is repeated.

    Attributes:
        names: in the order of their ids.
        source: the manifest of the run, which lists them.
        numbers: their ids, if categories of label files gave them; None if ids count the names.
    """

    names: tuple[str, ...]
    source: str
    numbers: tuple[int, ...] | None = None


def one_of(choices: Sequence[str]) -> Callable[[str], str]:
    """A function that reads one of these values, in any case.

    >>> one_of(["none", "gzip"])("GZIP")
    'gzip'
    """

    def parse(text: str) -> str:
        value = text.strip().lower()
        if value in choices:
            return value
        near = [each for each in choices if value in _MEANT.get(each, "").split()]
        near += difflib.get_close_matches(value, choices, n=1, cutoff=_ALIKE)
        hint = f"; did you mean {near[0]}?" if near else ""
        meant = f"one of {', '.join(choices)}" if choices[1:] else f"{choices[0]}, its only value"
        raise ValueError(f"{text!r} is not {meant}{hint}")

    return parse


def at_least_one(text: str) -> int:
    """A whole number above 0.

    Raises:
        ValueError: when it is none.
    """
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"{text!r} is not a whole number above 0")
    return int(text)


def not_empty(text: str) -> str:
    """A path.

    Raises:
        ValueError: it is empty.
    """
    if not text.strip():
        raise ValueError("it is empty: give a path")
    return text


def not_blank(text: str) -> str:
    """A text that the manifest can hold.

    Raises:
        ValueError: it is blank, or not valid UTF-8.
    """
    if not text.strip():
        raise ValueError("it is blank: give a text such as |")
    return utf8_text(text)


def utf8_text(text: str) -> str:
    """A text that the UTF-8 manifest can hold.

    Raises:
        ValueError: it cannot.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{text!r} is not valid UTF-8") from None
    return text


def layout_name(text: str) -> str:
    """The name of a layout, or the path of a layout file.

    Raises:
        ValueError: it is neither.
    """
    if text not in LAYOUT_NAMES and not is_layout_file(text):
        near = difflib.get_close_matches(text.lower(), LAYOUT_NAMES, n=1, cutoff=_ALIKE)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise ValueError(
            f"{text!r} is neither one of {', '.join(LAYOUT_NAMES)} nor a .yaml file{hint}"
        )
    return text


def seed_value(text: str) -> int:
    """A seed, an integer of 128 bits.

    Raises:
        ValueError: it is none.
    """
    try:
        seed = int(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a whole number") from None
    if not -(2**127) <= seed < 2**127:
        raise ValueError(f"{text} takes more than 128 bits")
    return seed


def label_regex(text: str) -> str:
    """A regular expression that finds labels.

    Raises:
        ValueError: it cannot find any, or is not valid UTF-8.
    """
    return parse_label_regex(utf8_text(text)) and text


def jpeg_quality(text: str) -> int:
    """The quality of a JPEG, 1 to 100.

    Raises:
        ValueError: it is none.
    """
    if at_least_one(text) > 100:
        raise ValueError(f"{text} is more than 100, the best quality of a JPEG")
    return int(text)


def image_depth(text: str) -> int:
    """The bits of a channel, 8 or 16.

    Raises:
        ValueError: it is none.
    """
    if text not in ("8", "16"):
        raise ValueError(f"{text!r} is neither 8 nor 16")
    return int(text)


def shard_number(text: str) -> int:
    """A number of shards.

    Raises:
        ValueError: it is not one, or has too many digits for the file names.
    """
    if at_least_one(text) > MAX_SHARDS:
        raise ValueError(f"{text} is more than {MAX_SHARDS}, the maximum that file names allow")
    return int(text)
