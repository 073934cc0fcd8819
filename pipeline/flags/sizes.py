"""Sizes in bytes as people write them on a command line: `150MB`, `64MiB`."""

from __future__ import annotations

import re

_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9}
_UNITS |= {"KIB": 2**10, "MIB": 2**20, "GIB": 2**30}

# Each shard costs files, requests and a planned element: less than this must be a typo.
_SMALLEST_SHARD = 10**6

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
        meant = f"{number}MB" if size < _SMALLEST_SHARD else f"{size / 10**6:.15g}MB"
        raise ValueError(f"{text!r} has no unit: did you mean {meant}?")
    if size < _SMALLEST_SHARD:
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
