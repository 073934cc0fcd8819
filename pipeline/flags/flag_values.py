"""Parses the values of flags, and explains what is wrong with an invalid one.

Each function raises ValueError with a message that `one_line_parser.typed` shows after the flag.
"""

from __future__ import annotations

from transforms.core.features.layouts import LAYOUTS, ROWS, is_layout_file
from transforms.core.labels.path_labels import parse_label_regex
from transforms.core.planning.shards import MAX_SHARDS

LAYOUT_NAMES = (*LAYOUTS, ROWS)


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
        raise ValueError(
            f"{text!r} is none of {', '.join(LAYOUT_NAMES)}, and no file of your own, .yaml"
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


def shard_number(text: str) -> int:
    """A number of shards.

    Raises:
        ValueError: it is not one, or has too many digits for the file names.
    """
    if at_least_one(text) > MAX_SHARDS:
        raise ValueError(f"{text} is more than {MAX_SHARDS}, which the file names have room for")
    return int(text)
