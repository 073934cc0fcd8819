"""JSON that somebody else may have written."""

from __future__ import annotations

import json
from typing import Any


def parse_json(text: str | bytes) -> Any:
    """Reads JSON.

    Raises:
        ValueError: it is no JSON, or brackets are nested so deeply that it cannot be read.

    >>> parse_json("[1]")
    [1]
    """
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("its brackets are nested too deeply") from error
