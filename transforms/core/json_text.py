"""Reads JSON from untrusted sources."""

from __future__ import annotations

import json
from typing import Any


def parse_json(text: str | bytes) -> Any:
    """Reads JSON.

    Raises:
        ValueError: it is not JSON, or is nested too deeply to be read.

    >>> parse_json("[1]")
    [1]
    """
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("its brackets are nested too deeply") from error
