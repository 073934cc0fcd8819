"""How cells spell the keys of images: as they are, as paths of Windows, or below another folder."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple


class KeyCells(NamedTuple):
    """What is done to a cell before it is a key.

    Attributes:
        backslashes: whether a backslash separates folders.
        prefix: what is left out at the beginning; a cell without it stays.
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
        """What is done, for people."""
        parts = ["'\\' is '/'"] if self.backslashes else []
        parts += [f"without {self.prefix!r}"] if self.prefix else []
        return ", ".join(parts)


AS_THEY_ARE = KeyCells()

KEY_CELLS = ("auto", "as_is")
"""How cells may spell keys: as the first ones show it, or as they are."""


def keys_as_they_are(cells: Iterable[str], is_key: Callable[[str], bool]) -> KeyCells | None:
    """What `find_key_cells` finds where cells are to stay as they are."""
    return AS_THEY_ARE if any(map(is_key, cells)) else None


def find_key_cells(cells: Iterable[str], is_key: Callable[[str], bool]) -> KeyCells | None:
    r"""What makes keys of cells: nothing if one of them is a key; None if nothing does.

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
