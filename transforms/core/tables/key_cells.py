"""The spelling of keys in cells: unchanged, as Windows paths, or below another folder."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple


class KeyCells(NamedTuple):
    """The conversion of a cell to a key.

    Attributes:
        backslashes: whether a backslash separates folders.
        prefix: the prefix to remove; a cell without it is unchanged.
    """

    backslashes: bool = False
    prefix: str = ""

    def key(self, cell: str) -> str:
        r"""The text that names an image.

        >>> KeyCells(True, "D:/photos/").key("D:\\photos\\cat\\1.jpg")
        'cat/1.jpg'
        """
        if self.backslashes:
            cell = cell.replace("\\", "/")
        return cell.strip().removeprefix(self.prefix) if self.prefix else cell

    def __str__(self) -> str:
        """The conversion as text."""
        parts = ["'\\' is '/'"] if self.backslashes else []
        parts += [f"without {self.prefix!r}"] if self.prefix else []
        return ", ".join(parts)


AS_THEY_ARE = KeyCells()

KEY_CELLS = ("auto", "as_is")
"""The choices for the spelling of keys: inferred from the first cells, or unchanged."""


def keys_as_they_are(cells: Iterable[str], is_key: Callable[[str], bool]) -> KeyCells | None:
    """The result of `find_key_cells` for unchanged cells."""
    return AS_THEY_ARE if any(map(is_key, cells)) else None


def find_key_cells(cells: Iterable[str], is_key: Callable[[str], bool]) -> KeyCells | None:
    r"""The conversion of cells to keys: none if one of them is a key; None if no conversion works.

    Args:
        cells: the first ones of a column.
        is_key: whether a cell names an image.

    >>> find_key_cells(["p\\1.jpg"], {"p/1.jpg"}.__contains__)
    KeyCells(backslashes=True, prefix='')
    >>> find_key_cells(["/data/p/1.jpg"], {"p/1.jpg"}.__contains__)
    KeyCells(backslashes=False, prefix='/data/')
    """
    kept = [cell for cell in cells if cell.strip()]
    tried = [AS_THEY_ARE]
    if any("\\" in cell for cell in kept):
        tried.append(KeyCells(backslashes=True))
    for rule in tried:
        if any(is_key(rule.key(cell)) for cell in kept):
            return rule
    for rule in tried:
        for cell in kept:
            path = rule.key(cell).strip()
            for at, character in enumerate(path):
                if character == "/" and is_key(path[at + 1 :]):
                    return rule._replace(prefix=path[: at + 1])
    return None
