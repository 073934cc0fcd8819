"""Checks arguments of the Python API, so that wrong ones fail in the caller's code.

A wrong type is a `TypeError`, a wrong value a `ValueError`. Messages name the argument, never a
flag of a command.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence


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
        raise TypeError(f"{name} is a path, a str or an os.PathLike, not {_kind(value)}")
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


def optional_path(name: str, value: object) -> str | None:
    """The same, or None."""
    return None if value is None else path_text(name, value)


def root_text(name: str, value: object) -> str:
    """A folder as text; empty for none."""
    return "" if value == "" else path_text(name, value)


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
            raise TypeError(f"{name}[{at}] is a str, not {_kind(each)}")
        if not each.strip() or each in names:
            problem = "is given twice" if each.strip() else "is empty"
            raise ValueError(f"{name}[{at}] {each!r} {problem}")
        names.append(each)
    if not names:
        raise ValueError(f"{name} is empty: give at least one, or None")
    return tuple(names)


def one_of(name: str, value: object, choices: Collection[str]) -> str:
    """One of several allowed words.

    Raises:
        ValueError: it is another.

    >>> one_of("check", "full", ("full", "header"))
    'full'
    """
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} is one of {', '.join(map(repr, choices))}, not {value!r}")
    return value


def whole_number(name: str, value: object, lowest: int, highest: int | None = None) -> int:
    """An `int` in a range, both ends included.

    Raises:
        TypeError: it is not an int; bools are refused.
        ValueError: it is out of range.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} is an int, not {_kind(value)}")
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
        raise TypeError(f"{name} is True or False, not {_kind(value)}")
    return value


def seed_number(value: object) -> int:
    """A seed of at most 128 bits.

    Raises:
        TypeError: it is not an int.
        ValueError: it is larger.
    """
    return whole_number("seed", value, -(2**127), 2**127 - 1)


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
        raise TypeError(f"{name} is a sequence, not {_kind(value)}")
    return tuple(value)


def _kind(value: object) -> str:
    return "None" if value is None else f"the {type(value).__name__} {value!r:.60}"
