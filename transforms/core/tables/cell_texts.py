"""Values of tables with types as the text of cells, as `pandas.DataFrame.to_csv` writes them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from transforms.core.tables.csv_parser import MAX_CELL


def value_text(value: Any) -> str:
    """The text of a single value; empty for a missing one.

    >>> [value_text(value) for value in (True, 7, 2.5, float("nan"), None, "a")]
    ['True', '7', '2.5', '', '', 'a']
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return value if isinstance(value, str) else str(value)


def list_text(values: Iterable[Any], separator: str) -> str:
    """The text of a list; missing values are left out.

    Raises:
        ValueError: a value holds the separator.

    >>> list_text([1, None, 2], ";")
    '1;2'
    """
    texts = [text for value in values if (text := value_text(value))]
    joined = separator.join(texts)
    if texts and joined.count(separator) != len(texts) - 1:
        raise ValueError(f"a value of a list holds {separator!r}, which separates them here")
    return joined


def text_problem(cells: Sequence[str]) -> str:
    """The reason why cells cannot be used as text; empty if they can.

    >>> text_problem(["a", "b" + chr(0)])
    'a cell holds a NUL character'
    """
    joined = "".join(cells)
    if "\0" in joined:
        return "a cell holds a NUL character"
    if len(joined) > MAX_CELL and max(map(len, cells)) > MAX_CELL:
        return f"a cell has more than {MAX_CELL} characters"
    if not joined.isascii():
        try:
            joined.encode()
        except UnicodeEncodeError:
            return "a cell holds half of a surrogate pair, which is no character"
    return ""
