"""An option: its declaration, spelling and values."""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from transforms.examples.layouts import LAYOUTS, ROWS, is_layout_file
from transforms.labels.label_rules import parse_label_regex
from transforms.labels.shards import MAX_SHARDS, SMALLEST_SHARD

if TYPE_CHECKING:
    from pipeline.resolve.config import ConvertConfig


# Names of flags with dashes: `--num-shards` is `--num_shards`, also for Beam's flags.

_NAME = re.compile(r"--\w[\w-]*")


def flag_name(word: str) -> str:
    """The name of a flag with underscores; other words as they are.

    >>> flag_name("--num-shards=8"), flag_name("photos-a"), flag_name("--")
    ('--num_shards', 'photos-a', '--')
    """
    name = word.partition("=")[0]
    return f"--{name[2:].replace('-', '_')}" if _NAME.fullmatch(name) else word


def underscored(words: Iterable[str]) -> list[str]:
    """A command line in which the names of flags have underscores.

    Values, and all words after `--`, stay as they are.

    >>> underscored(["--label-key=image-id", "--seed", "1", "--", "--my-folder"])
    ['--label_key=image-id', '--seed', '1', '--', '--my-folder']
    """
    made: list[str] = []
    rest = iter(words)
    for word in rest:
        made.append(_underscored(word))
        if word == "--":
            made += rest
    return made


def as_typed(word: str, words: Sequence[str]) -> str:
    """A word of `underscored(words)` as it is in `words`, for messages."""
    return next((each for each in words if _underscored(each) == word), word)


def _underscored(word: str) -> str:
    name = word.partition("=")[0]
    return flag_name(word) + word[len(name) :] if _NAME.fullmatch(name) else word


# Sizes in bytes as people write them on a command line: `150MB`, `64MiB`.

_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9}
_UNITS |= {"KIB": 2**10, "MIB": 2**20, "GIB": 2**30}

# No image is this small in bytes: a limit without a unit was meant in megabytes.
_SMALLEST_LIMIT = 1000


def parse_size(text: str) -> int:
    """A number of bytes, such as `150MB` or `64MiB`.

    Raises:
        ValueError: it is not a size, is below 1, or is so small that the unit must be missing.

    >>> parse_size("150MB"), parse_size("64MiB")
    (150000000, 67108864)
    """
    size, number, unit = _read(text)
    if not unit and size < _SMALLEST_LIMIT:
        raise ValueError(f"{text!r} has no unit: did you mean {number}MB? ({number}B is bytes)")
    return size


def parse_shard_size(text: str) -> int:
    """The size of a shard, at least 1 MB, with its unit.

    Raises:
        ValueError: it is not valid; the message suggests the size that was probably meant.

    >>> parse_shard_size("64MB")
    64000000
    """
    size, number, unit = _read(text)
    if not unit:
        meant = f"{number}MB" if size < SMALLEST_SHARD else f"{size / 10**6:.15g}MB"
        raise ValueError(f"{text!r} has no unit: did you mean {meant}?")
    if size < SMALLEST_SHARD:
        meant = f"{number}MB" if float(number) >= 1 else "1MB"
        raise ValueError(f"{text!r} is less than 1MB: did you mean {meant}?")
    return size


def _read(text: str) -> tuple[int, str, str]:
    """The bytes, and the number and unit as written."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)", text.strip())
    unit = _UNITS.get(match[2].upper()) if match else None
    if match is None or unit is None or float(match[1]) * unit < 1:
        letter = match[2].upper() if match else ""
        is_short = match is not None and letter in ("K", "M", "G", "KI", "MI", "GI")
        hint = f"did you mean {match[1]}{letter.replace('I', 'i')}B?" if match and is_short else ""
        raise ValueError(f"{text!r} is not a size: {hint or 'write it like 150MB or 64MiB'}")
    return int(float(match[1]) * unit), match[1], match[2]


# Parses the values of flags, and explains what is wrong with an invalid one.
#
# Each function raises ValueError with a message that `one_line_parser.typed` shows after the flag.

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


# The declaration of one `convert` or `plan` option; `option_table.py` has all of them.

# The value of an option that is not recorded for a dataset.
NOT_RECORDED = object()


class Need(NamedTuple):
    """Another option that an option needs.

    Attributes:
        flag: that option as a user would add it, such as `--labels CSV`.
        values: the values that need it; empty if every value does.
    """

    flag: str
    values: Sequence[Any] = ()

    @property
    def name(self) -> str:
        """The name of the needed option."""
        return self.flag.removeprefix("--").partition(" ")[0]


class Conflict(NamedTuple):
    """Another option that an option conflicts with.

    Attributes:
        name: of the other option.
        values: the conflicting values of the other option; empty if all of them conflict.
        why: the reason, or what to do; empty if that is obvious.
    """

    name: str
    values: Sequence[Any] = ()
    why: str = ""


class Parameter(NamedTuple):
    """An option as a parameter of the Flex Template.

    Attributes:
        label: the name of its field.
        regex: POSIX pattern of a value; empty for a choice or a switch.
        help: replaces the help of the command line; empty if that fits.
    """

    label: str
    regex: str = ""
    help: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Option:
    """One option, read by the parser, its help, the recipe, the template and the reference.

    Attributes:
        name: the flag is `--name`.
        help: what it does, in one line.
        metavar: the value in the help; None for a choice or a switch.
        parse: turns text into a value, or raises ValueError; None for the text itself.
        default: the value without the flag, either parsed or as text for `parse`.
        choices: all values, if they are a closed set.
        aliases: further names of the flag.
        short: its name of one letter; empty without one.
        is_switch: whether it takes no value.
        is_repeatable: whether it may be given several times.
        is_required: whether a command needs it.
        is_path: whether its value names files.
        of_images: whether it has no effect when records are made of rows alone.
        needs: options that it needs.
        conflicts: options that it conflicts with.
        recorded: the value that affects output bytes, which a dataset's manifest and the recipes of
            its shards hold. None if the option affects no byte, `NOT_RECORDED` for a value that
            does not.
        parameter: of the template; None if the template has no use for it.
    """

    name: str
    help: str
    metavar: str | None = None
    parse: Callable[[str], Any] | None = None
    default: Any = None
    choices: Sequence[str] = ()
    aliases: Sequence[str] = ()
    short: str = ""
    is_switch: bool = False
    is_repeatable: bool = False
    is_required: bool = False
    is_path: bool = False
    of_images: bool = False
    needs: Sequence[Need] = ()
    conflicts: Sequence[Conflict] = ()
    recorded: Callable[[ConvertConfig], Any] | None = None
    parameter: Parameter | None = None

    @property
    def flags(self) -> list[str]:
        """All names of the flag."""
        long = [f"--{name}" for name in (self.name, *self.aliases)]
        return [f"-{self.short}", *long] if self.short else long

    @property
    def default_value(self) -> Any:
        """The parsed value without the flag."""
        if self.is_switch:
            return False
        if self.parse is not None and isinstance(self.default, str):
            return self.parse(self.default)
        return self.default

    @property
    def shown_default(self) -> str:
        """The default as the help shows it; empty without one."""
        return "" if self.default is None else str(self.default)
