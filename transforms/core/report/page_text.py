"""Text of the page: where a line may break, and numbers with units and thousands separators."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from transforms.core.report.report_tables import shown
from transforms.core.shown_text import format_bytes

# A word of more characters gets places where a line may break; shorter ones fit any column.
_LONG_WORD = re.compile(r"(\S{17,})")

# Where a line may break in one: after separators, and before a suffix such as `.tfrecord`.
_BREAK = re.compile(r"(?<=[/\\_,:;&?+|-])(?=[^/\\_,:;&?+|-])|(?<=\w)(?=\.[A-Za-z])")

# Characters of a name without separators after which it may break, too.
_LONGEST = 24

# A flag of the command line, in a sentence.
_FLAG = re.compile(r"(?<![^\s(])(--[a-z][a-z_]*)")

# Options whose value is a number of bytes, and those whose digits a user copies.
_BYTES = {"max_bytes", "shard_size"}
_COPIED = {"seed"}

# Maximum number of values that are shown of a list.
_MAX_VALUES = 20


def pieces(word: str) -> list[str]:
    """The parts of a word between which a line may break.

    >>> pieces("train-00000-of-00001.tfrecord")
    ['train-', '00000-', 'of-', '00001', '.tfrecord']
    """
    parts = _BREAK.split(word)
    if len(parts) > 1 and not re.search(r"\w", parts[0]):
        # The dashes of a flag.
        parts[:2] = [parts[0] + parts[1]]
    return [part[at : at + _LONGEST] for part in parts for at in range(0, len(part), _LONGEST)]


def wrapped(text: object) -> Markup:
    """Text in which lines break at separators instead of inside names.

    >>> wrapped("photos/cat & dog.jpg"), wrapped("gs://bucket/photos")
    (Markup('photos/cat &amp; dog.jpg'), Markup('gs://<wbr>bucket/<wbr>photos'))
    """
    parts = _LONG_WORD.split(str(text))
    words = (
        Markup("<wbr>").join(pieces(part)) if at % 2 else part for at, part in enumerate(parts)
    )
    return Markup("").join(words)


def prose(text: object) -> Markup:
    """A sentence whose flags are shown as code.

    >>> prose("Raise --max_bytes.")
    Markup('Raise <code class="flag">--max_bytes</code>.')
    """
    parts = _FLAG.split(str(text))
    code = Markup('<code class="flag">{}</code>')
    return Markup("").join(
        code.format(part) if at % 2 else wrapped(part) for at, part in enumerate(parts)
    )


def number(value: int) -> str:
    """A count with thousands separators.

    >>> number(178956970)
    '178,956,970'
    """
    return f"{value:,}"


def byte_size(count: float) -> str:
    """A number of bytes with its unit, without a decimal that says nothing.

    >>> byte_size(256_000_000), byte_size(1_234_567)
    ('256 MB', '1.2 MB')
    """
    return format_bytes(count).replace(".0 ", " ")


def settings(mapping: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Names and values as text.

    >>> settings({"max_bytes": 256000000, "max_pixels": 1000, "seed": 1000, "dense_labels": False})
    [('max_bytes', '256 MB'), ('max_pixels', '1,000'), ('seed', '1000'), ('dense_labels', 'no')]
    """
    return [(shown(name), _setting(name, value)) for name, value in mapping.items()]


def _setting(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) and name not in _COPIED:
        return byte_size(value) if name in _BYTES else number(value)
    if isinstance(value, Mapping):
        return ", ".join(f"{shown(each)}={shown(share)}" for each, share in value.items())
    if isinstance(value, list | tuple):
        listed = ", ".join(shown(each) for each in value[:_MAX_VALUES])
        return f"{listed} …" if len(value) > _MAX_VALUES else listed
    return shown(value)
