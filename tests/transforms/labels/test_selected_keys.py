"""With `--keys`, the listed images are joined, and the others are counted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest

from transforms.core.messages import LabelsError
from transforms.core.records import Count, JoinSide, Kind, PlannedImage
from transforms.core.rejections import Rejection
from transforms.labels.joins import MAX_LINE, Joined, join_selected, key_line, key_of_line

IMAGE = JoinSide("cat/1.jpg", 9, 3, "", "", kind=Kind.IMAGE)
# Its size is that of a key line; only images have sizes.
ODD = IMAGE._replace(size=-1)
ROW = JoinSide("", 0, 0, "cat", "labels.csv:2")
JOINED = PlannedImage(1, "1", "cat/1.jpg", 9, 3, "cat", split="train", rows=1)


def joined(*sides: JoinSide) -> list[Joined]:
    """The results of joining these sides, after checking which of them the join gets."""

    def join(key: str, group: Iterable[JoinSide]) -> Iterator[Joined]:
        assert key == "1"
        assert all(side in (IMAGE, ODD, ROW) for side in group)
        yield JOINED

    return list(join_selected("1", sides, join=join))


@pytest.mark.parametrize("image", [IMAGE, ODD])
def test_a_listed_image_is_joined(image: JoinSide) -> None:
    assert joined(key_line("keys.txt:1"), image, ROW) == [JOINED]
    assert joined(ROW, image, key_line("keys.txt:3"), key_line("keys.txt:1")) == [JOINED]


@pytest.mark.parametrize("image", [IMAGE, ODD])
def test_other_images_and_rows_are_counted(image: JoinSide) -> None:
    again = image._replace(version=4)
    twin = image._replace(path="dog/1.jpg")
    assert joined(image) == [Count("images_left_out", 1)]
    assert joined(image, again, twin, ROW, ROW) == [
        Count("images_left_out", 2),
        Count("images_found_again", 1),
        Count("rows_left_out", 2),
    ]
    assert joined(ROW) == [Count("rows_left_out", 1)]


def test_a_key_without_an_image_is_rejected_once() -> None:
    lines = [key_line(f"keys.txt:{number}") for number in (10, 9, 12)]
    rejection = Rejection("key", "key_not_found", "no image has this key", "keys.txt:9", "1")
    assert joined(*lines) == [rejection, JOINED]
    assert joined(*lines, ROW) == [rejection, JOINED]


def test_lines() -> None:
    assert key_of_line("  e\u0301 x.jpg\r".encode(), "a:1") == "\xe9 x.jpg"
    assert key_of_line(b" \t", "a:1") == ""
    with pytest.raises(LabelsError, match="^--keys a:1 is not UTF-8: write one key per line$"):
        key_of_line(b"\xff", "a:1")
    assert key_of_line(b"x" * MAX_LINE, "a:1")
    with pytest.raises(LabelsError, match="^--keys a:1 has more than 65536 bytes"):
        key_of_line(b"x" * (MAX_LINE + 1), "a:1")
