"""Keeps only images whose key `--keys` lists; the lines of its file are sides of the join."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from transforms.core.label_errors import LabelsError
from transforms.core.planning.keys import nfc
from transforms.core.records import Count, JoinSide, LabelledImage, is_partner
from transforms.core.rejections import Reason, Rejection

STANDARD_INPUT = "-"
"""The value of `--keys` for keys from standard input."""

MAX_LINE = 1 << 16
"""The longest line of a file of keys, in bytes; paths and object names are not longer."""

# The size of a side that is a line of `--keys`, not an image or a row. A field of its own would
# travel with every image.
_KEY_LINE = -1

Joined = LabelledImage | Rejection | Count


def key_line(where: str) -> JoinSide:
    """A line of a file of keys as a side of the join.

    Args:
        where: the file and the line, `FILE:LINE`.
    """
    return JoinSide("", _KEY_LINE, 0, "", where)


def key_of_line(line: bytes, where: str) -> str:
    """The key in a line; empty if the line is blank.

    Raises:
        LabelsError: it is not UTF-8, or too long.

    >>> key_of_line(b" cat/1.jpg" + bytes([13]), "keys.txt:1")
    'cat/1.jpg'
    """
    if len(line) > MAX_LINE:
        raise LabelsError(f"--keys {where} has more than {MAX_LINE} bytes: write one key per line")
    try:
        return nfc(line.decode().strip())
    except UnicodeDecodeError:
        raise LabelsError(f"--keys {where} is not UTF-8: write one key per line") from None


def join_selected(
    key: str,
    group: Iterable[JoinSide],
    *,
    join: Callable[[str, Iterable[JoinSide]], Iterable[Joined]],
) -> Iterator[Joined]:
    """Joins the images and rows of one key if the key is listed, and otherwise counts them.

    Args:
        key: the join key.
        group: the images, rows, partners and key lines that have it.
        join: joins the images, the rows and the partners, see `join_group` and `join_partners`.

    Yields:
        the results of `join`; counts of images, rows and partners that are left out; for a key
        without an image, a `Rejection`.
    """
    lines: list[str] = []
    sides: list[JoinSide] = []
    for side in group:
        if side.size == _KEY_LINE and not side.is_image:
            lines.append(side.where)
        else:
            sides.append(side)
    if not lines:
        yield from _left_out(sides)
        return
    if not any(side.is_image for side in sides):
        # The first line of a key that is listed several times.
        where = min(lines, key=lambda line: (len(line), line))
        yield Rejection("key", Reason.KEY_NOT_FOUND.value, "no image has this key", where, key)
    yield from join(key, sides)


def _left_out(sides: list[JoinSide]) -> Iterator[Count]:
    files = [(side.group, side.path) for side in sides if is_partner(side)]
    if partners := len({*files}):
        yield Count("partners_left_out", partners)
    if partners < len(files):
        yield Count("partners_found_again", len(files) - partners)
    found = [side.path for side in sides if side.is_image]
    images = len({*found})
    if images:
        yield Count("images_left_out", images)
    if images < len(found):
        yield Count("images_found_again", len(found) - images)
    if rows := len(sides) - len(found) - len(files):
        yield Count("rows_left_out", rows)
