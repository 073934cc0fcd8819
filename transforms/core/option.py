"""Options: their declarations as fields of groups, their values, and arguments in Python."""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import os
import re
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, TypeVar

from transforms.core.messages import is_utf8

# Arguments of the Python API, checked so that wrong ones fail in the caller's code.
#
# A wrong type is a `TypeError`, a wrong value a `ValueError`. Messages name the argument, never a
# flag of a command.


def path_text(name: str, value: object) -> str:
    """A path or URL as text.

    Args:
        name: of the argument.
        value: a `str` or an `os.PathLike` of one.

    Raises:
        TypeError: it is neither.
        ValueError: it is empty, or a URL that `pathlib` has damaged.

    >>> from pathlib import PurePosixPath
    >>> path_text("output", PurePosixPath("out/photos"))
    'out/photos'
    """
    text = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(text, str):
        raise TypeError(f"{name} is a path, a str or an os.PathLike, not {kind_text(value)}")
    if not text.strip():
        raise ValueError(f"{name} is empty: give a path")
    if not isinstance(value, str) and re.match(r"[A-Za-z][A-Za-z0-9+.-]+:/(?!/)", text):
        raise ValueError(f"{name} {text!r} is a URL that a Path cannot hold: give it as a str")
    return text


def exact_text(text: str) -> str:
    """The same text as a `str` itself: strings of NumPy and members of enumerations are not.

    >>> class Name(str): ...
    >>> type(exact_text(Name("cat")))
    <class 'str'>
    """
    return str.__str__(text)


def path_texts(name: str, value: object) -> tuple[str, ...]:
    """Several paths or globs; a single one is refused, since its letters are a sequence too.

    Raises:
        TypeError: it is not a sequence of paths.
        ValueError: it is empty, or one of them is.

    >>> path_texts("images", ["a/*.jpg", "b/*.jpg"])
    ('a/*.jpg', 'b/*.jpg')
    """
    paths = tuple(path_text(f"{name}[{at}]", path) for at, path in enumerate(_several(name, value)))
    if not paths:
        raise ValueError(f"{name} is empty: give at least one")
    return paths


def class_texts(name: str, value: object) -> tuple[str, ...] | None:
    """Names of classes in the order of their ids, or None.

    Raises:
        TypeError: it is not a sequence of texts.
        ValueError: it is empty, or a name is empty or repeated.
    """
    if value is None:
        return None
    names: list[str] = []
    for at, each in enumerate(_several(name, value)):
        if not isinstance(each, str):
            raise TypeError(f"{name}[{at}] is a str, not {kind_text(each)}")
        if not each.strip() or each in names:
            problem = "is given twice" if each.strip() else "is empty"
            raise ValueError(f"{name}[{at}] {each!r} {problem}")
        names.append(each)
    if not names:
        raise ValueError(f"{name} is empty: give at least one, or None")
    return tuple(names)


def whole_number(name: str, value: object, lowest: int, highest: int | None = None) -> int:
    """An `int` in a range, both ends included.

    Raises:
        TypeError: it is not an int; bools are refused.
        ValueError: it is out of range.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} is an int, not {kind_text(value)}")
    if value < lowest or (highest is not None and value > highest):
        to = "" if highest is None else f" and at most {highest}"
        raise ValueError(f"{name} is at least {lowest}{to}, not {value}")
    return value


def truth(name: str, value: object) -> bool:
    """A bool; other truthy or falsy values are refused.

    Raises:
        TypeError: it is neither.
    """
    if not isinstance(value, bool):
        raise TypeError(f"{name} is True or False, not {kind_text(value)}")
    return value


def own_words(text: str) -> str:
    """Rewrites a message of the commands for the Python API: names arguments instead of flags.

    >>> own_words("no column 'x' (--label_key)")
    "no column 'x' (label_key)"
    """
    return re.sub(r"(?<![\w-])--(?=[a-z])", "", text)


def _several(name: str, value: object) -> Sequence[object]:
    if isinstance(value, (str, bytes, os.PathLike)):
        raise TypeError(f"{name} is a sequence: write [{value!r}]")
    if isinstance(value, Mapping) or not isinstance(value, Iterable):
        raise TypeError(f"{name} is a sequence, not {kind_text(value)}")
    return tuple(value)


def kind_text(value: object) -> str:
    """The type of a value and the value itself, for a message."""
    return "None" if value is None else f"the {type(value).__name__} {value!r:.60}"


# Options, declared as fields of groups.

Groups = TypeVar("Groups", bound="Group")

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


@dataclasses.dataclass(frozen=True, kw_only=True)
class Option:
    """One option, read by the parser, its help, the recipe, the template and the reference.

    Attributes:
        name: the flag is `--name`; that of the field.
        help: what it does, in one line.
        metavar: the value in the help; None for a choice or a switch.
        parse: turns text into a value, or raises ValueError; None for the text itself, which is not
            empty if it is a path.
        default: the value without the flag, either parsed or as text for `parse`.
        choices: all values, if they are a closed set.
        aliases: further names of the flag.
        short: its name of one letter; empty without one.
        is_switch: whether it takes no value.
        is_repeatable: whether it may be given several times.
        is_required: whether a command needs it.
        is_path: whether its value names files.
        is_usual: whether the help shows it without a topic.
        of_images: whether it has no effect when records are made of rows alone.
        needs: options that it needs.
        conflicts: options that it conflicts with.
        recorded: makes of its value the one that a dataset's manifest and the recipes of its shards
            hold, or `NOT_RECORDED`. None if the option affects no byte.
        recorded_as: the names of its parts there; empty for its own name.
        is_parameter: whether it is one of the Flex Template.
        regex: POSIX pattern of a value in the template; empty for a choice, a switch or a path.
        template_help: replaces the help there; empty if that fits.
        python: the type in the Python interface; empty if the other attributes or the type that
            `parse` returns give it.
        unit: of a number in the Python interface, which a text has to name.
    """

    name: str = ""
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
    is_usual: bool = False
    of_images: bool = False
    needs: Sequence[Need] = ()
    conflicts: Sequence[Conflict] = ()
    recorded: Callable[[Any], Any] | None = None
    recorded_as: Sequence[str] = ()
    is_parameter: bool = True
    regex: str = ""
    template_help: str = ""
    python: str = ""
    unit: str = ""

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
    def read(self) -> Callable[[str], Any]:
        """Turns the text of a value into the value, or raises ValueError."""
        if self.choices and self.parse is None:
            return one_of(self.choices)
        return self.parse or (not_empty if self.is_path else str)


def option(default: Any = None, **declaration: Any) -> Any:
    """A field of a group, whose metadata declares the option.

    Args:
        default: the value without the flag, either parsed or as text for `parse`.
        declaration: further attributes of `Option`, and those that differ from its group's.
    """
    value = Option(default=default, **declaration).default_value
    return dataclasses.field(default=value, metadata={"default": default, **declaration})


@dataclasses.dataclass(frozen=True, kw_only=True)
class Group:
    """Options of one subject, which travel together; each field is declared by `option`."""

    title: ClassVar[str] = ""
    shared: ClassVar[Mapping[str, Any]] = {}

    def __init_subclass__(cls, title: str, **shared: Any) -> None:
        """Declares what all options of the group have in common.

        Args:
            title: the part of the help and of the reference in which the options are.
            shared: attributes of `Option`, unless a field has its own.
        """
        super().__init_subclass__()
        cls.title, cls.shared = title, shared

    def __post_init__(self) -> None:
        """Refuses values that no text of a command line gives.

        Raises:
            ValueError: there is one; the message names its flag.
        """
        for name, each in declared(type(self)).items():
            value = getattr(self, name)
            is_number = isinstance(value, int) and not each.is_switch
            try:
                if (each.choices and value is not None) or (each.parse and is_number):
                    each.read(f"{value}{each.unit}")
            except ValueError as error:
                raise ValueError(f"--{name} {error}") from error

    @classmethod
    def of(cls: type[Groups], values: Mapping[str, Any]) -> Groups:
        """The options of the group among the values of others, with their defaults if missing."""
        return cls(**{name: values[name] for name in declared(cls) if name in values})


def declared(group: type[Group]) -> Mapping[str, Option]:
    """The options of a group by their names, in the order of its fields."""
    return {
        field.name: Option(**{"name": field.name, **group.shared, **field.metadata})
        for field in dataclasses.fields(group)
    }


def declared_in(
    groups: Iterable[type[Group]], names: Collection[str] | None = None
) -> dict[str, Option]:
    """The options of several groups by their names, all or those with these names."""
    options = {name: each for group in groups for name, each in declared(group).items()}
    return {name: each for name, each in options.items() if names is None or name in names}


# What a manifest records of a value.


def as_it_is(value: Any) -> Any:
    """Records the value, also that of a default."""
    return value


def only(recorded: Any) -> Callable[[Any], Any]:
    """Records this value alone, so that datasets of versions without the option stay valid."""
    return lambda value: value if value == recorded else NOT_RECORDED


def if_any(value: Any) -> Any:
    """Records a value that is not empty."""
    return value or NOT_RECORDED


def recorded_values(options: Mapping[str, Option], values: Mapping[str, Any]) -> dict[str, Any]:
    """The options that affect output bytes, by name; equal options and inputs give equal files.

    Args:
        options: that may be recorded.
        values: of the options and their parts, as they were given or decided; one may be
            `NOT_RECORDED`.
    """
    recorded = {
        name: values[name] if values[name] is NOT_RECORDED else each.recorded(values[name])
        for each in options.values()
        for name in each.recorded_as or (each.name,)
        if each.recorded is not None and name in values
    }
    return {name: value for name, value in recorded.items() if value is not NOT_RECORDED}


def vars_of(*groups: Group) -> dict[str, Any]:
    """The values of the options of several groups, by their names."""
    return {name: getattr(group, name) for group in groups for name in declared(type(group))}


# Combinations of options, on a command line and in Python.


def check_combinations(options: Mapping[str, Option], values: Mapping[str, Any]) -> None:
    """Refuses options that are declared as conflicting.

    Args:
        options: by their names.
        values: parsed, by the names of the options.

    Raises:
        ValueError: an option conflicts with another, or needs one that is missing.
    """
    given = {name: each for name, each in options.items() if values[name] != each.default_value}

    def holds(name: str, those: Sequence[Any]) -> bool:
        return not those or str(values[name]).partition(":")[0] in those

    def shown(name: str, with_value: bool) -> str:
        return (
            f"--{name} {values[name]}"
            if with_value and not options[name].is_switch
            else f"--{name}"
        )

    for name, each in given.items():
        for conflict in each.conflicts:
            if conflict.name in given and holds(conflict.name, conflict.values):
                why = f": {conflict.why}" if conflict.why else ""
                other = shown(conflict.name, bool(conflict.values))
                # With a closed set of values, the message can name the value.
                itself = shown(name, bool(each.choices))
                raise ValueError(f"{itself} cannot be used with {other}{why}")
    for name, each in given.items():
        for need in each.needs:
            # `regex` needs an expression of its own.
            is_missing = (
                values[name] in need.values if need.name == name else need.name not in given
            )
            if need.name in options and is_missing and holds(name, need.values):
                raise ValueError(f"{shown(name, bool(need.values))} needs {need.flag}")


def read_arguments(
    step: str, options: Mapping[str, Option], arguments: Mapping[str, Any]
) -> dict[str, Any]:
    """The values of options, from the arguments of a step in Python.

    Args:
        step: the name of the step, for messages.
        options: that it takes.
        arguments: by the names of options, with values of Python or texts of a command line; None
            is the default. Names and shares of splits, and what boxes are, may be a mapping.

    Raises:
        TypeError: an option does not exist, or its value has the wrong type.
        ValueError: a value is not valid, or two of them conflict.
    """
    values = {name: each.default_value for name, each in options.items()}
    with in_own_words():
        united, notes = unite(arguments)
    for note in notes:
        warnings.warn(own_words(note), FutureWarning, stacklevel=3)
    for name, value in {**arguments, **united}.items():
        if name in FORMER:
            continue
        if name not in options:
            raise TypeError(f"{step} has no option {name!r}: docs/python_api.md lists them")
        if value is not None:
            values[name] = _argument(options[name], value)
    with in_own_words():
        check_combinations(options, values)
    return values


@contextlib.contextmanager
def in_own_words() -> Iterator[None]:
    """Makes the messages of ValueErrors name arguments instead of flags."""
    try:
        yield
    except ValueError as error:
        raise type(error)(own_words(str(error))) from error


def _argument(option: Option, value: Any) -> Any:
    name = option.name
    if option.is_switch:
        return truth(name, value)
    is_single = isinstance(value, str | os.PathLike)
    if name == "class_names" and not is_single:
        return class_texts(name, value)
    if option.is_repeatable:
        return [_value(option, each) for each in ([value] if is_single else value)]
    if "Several" in option.python and not is_single:
        if isinstance(value, Mapping):
            value = [f"{each}={_commas(of_it)}" for each, of_it in value.items()]
        value = _commas(value)
    return _value(option, value)


def _commas(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _value(option: Option, value: Any) -> Any:
    if option.is_path:
        value = path_text(option.name, value)
    # Sizes of images have a text of their own; a list or a dict is a mistake.
    has_text = isinstance(value, int | float) or type(value).__str__ is not object.__str__  # type: ignore[comparison-overlap]
    if isinstance(value, bool | bytes) or not has_text:
        raise TypeError(f"{option.name} is text or a number, not {value!r:.60}")
    text = f"{value}{option.unit}" if isinstance(value, int) else str(value)
    try:
        return option.read(text)
    except ValueError as error:
        raise ValueError(f"{option.name} {error}") from error


# Former names of options, which the next version will not have.

FORMER: Mapping[str, tuple[str, Callable[[str], str]]] = {
    "label_regex": ("label_from", "regex:{}".format),
    "split_from": (
        "split_by",
        lambda text: {"csv": "column", "directory": "folder"}.get(text.lower(), text),
    ),
    "split_column": ("split_by", "column:{}".format),
    **{
        f"box_{part}": ("boxes", f"{part}={{}}".format)
        for part in ("columns", "form", "units", "orientation")
    },
}
"""The option that replaces one, and the text that it makes of a value."""


def unite(values: Mapping[str, Any]) -> tuple[dict[str, str], list[str]]:
    """The texts of new options, from the values of former ones, and a note about each.

    Raises:
        ValueError: a former option contradicts another.

    >>> unite({"box_units": "pixel", "box_form": "xywh", "seed": 1})[0]
    {'boxes': 'form=xywh,units=pixel'}
    """
    united: dict[str, str] = {}
    for former, (name, text_of) in FORMER.items():
        if (value := values.get(former)) is not None:
            text = text_of(_commas(value))
            if "=" in united.get(name, ""):
                text = f"{united[name]},{text}"
            elif not text.startswith(str(united.get(name) or values.get(name) or "")):
                raise ValueError(f"--{former} cannot be used with another --{name}: give one")
            united[name] = text
    what = "its former spelling goes in the next version"
    return united, [f"write --{name}='{text}': {what}" for name, text in united.items()]


def renamed(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values with those of former options under the names that replace them."""
    return {**values, **unite(values)[0], **dict.fromkeys(FORMER)}


# Values as people write them, each read by a function whose ValueError says what is wrong.

# From 0 to 1.
_ALIKE = 0.6

# Words of other programs for values of ours.
_MEANT = {
    "apply": "true yes on rotate transpose",
    "center": "yolo cxcywh centre",
    "corners": "xyxy voc pascal pascal_voc corner",
    "detection": "coco voc yolo",
    "directory": "folder folders dir directories parent",
    "drop": "remove delete discard true yes on",
    "folder": "folders dir dirs directory directories",
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


def alike(value: str, choices: Sequence[str], further: Iterable[str] = ()) -> list[str]:
    """What a word in small letters probably means: choices that go by it, or spelled alike.

    Args:
        value: the word.
        choices: all that it may mean.
        further: what else it may mean if it is no choice's other name.

    >>> alike("greyscale", ["rgb", "gray"]), alike("slimm", ["slim", "rows"])
    (['gray'], ['slim'])
    """
    known = [each for each in choices if value in _MEANT.get(each.partition(":")[0], "").split()]
    return known or [*difflib.get_close_matches(value, choices, n=1, cutoff=_ALIKE), *further]


def one_of(choices: Sequence[str]) -> Callable[[str], str]:
    """A function that reads one of these values, in any case.

    >>> one_of(["none", "gzip"])("GZIP"), one_of(["hash", "column:X"])("column:Set")
    ('gzip', 'column:Set')
    """
    # Those with a colon may be given with a text of the user's.
    kinds = {kind: colon for kind, colon, _ in (each.partition(":") for each in choices)}

    def parse(text: str) -> str:
        kind, colon, rest = text.strip().partition(":")
        value = kind.lower()
        if value in kinds and (not colon or (kinds[value] and rest)):
            return f"{value}{colon}{rest}"
        # The word may be the name of the column.
        named = [f"column:{text}"] if "column:X" in choices and value and not colon else []
        near = " or ".join(alike(value, choices, named))
        hint = f"; did you mean {near}?" if near else ""
        meant = f"one of {', '.join(choices)}" if choices[1:] else f"{choices[0]}, its only value"
        raise ValueError(f"{text!r} is not {meant}{hint}")

    return parse


def text_of(choice: str | None) -> str:
    """The text that a user gave with a choice; empty without one.

    >>> text_of("column:set"), text_of("hash"), text_of(None)
    ('set', '', '')
    """
    return (choice or "").partition(":")[2]


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


def some_text(text: str) -> str:
    """A text that the manifest can hold.

    Raises:
        ValueError: it is empty, or not valid UTF-8.
    """
    if not text:
        raise ValueError("it is empty: give a text such as |")
    return utf8_text(text)


def utf8_text(text: str) -> str:
    """A text that the UTF-8 manifest can hold.

    Raises:
        ValueError: it cannot.
    """
    if not is_utf8(text):
        raise ValueError(f"{text!r} is not valid UTF-8")
    return text


# Sizes in bytes.

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
    size, number, unit = read_size(text)
    if not unit and size < _SMALLEST_LIMIT:
        raise ValueError(f"{text!r} has no unit: did you mean {number}MB? ({number}B is bytes)")
    return size


def read_size(text: str) -> tuple[int, str, str]:
    """The bytes, and the number and unit as written."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)", text.strip())
    unit = _UNITS.get(match[2].upper()) if match else None
    if match is None or unit is None or float(match[1]) * unit < 1:
        letter = match[2].upper() if match else ""
        is_short = match is not None and letter in ("K", "M", "G", "KI", "MI", "GI")
        hint = f"did you mean {match[1]}{letter.replace('I', 'i')}B?" if match and is_short else ""
        raise ValueError(f"{text!r} is not a size: {hint or 'write it like 150MB or 64MiB'}")
    return int(float(match[1]) * unit), match[1], match[2]
