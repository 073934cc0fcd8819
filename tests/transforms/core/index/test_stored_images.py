"""An image gets its record in another dataset if path, size and version are the same."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from transforms.core.images.check import ImageInfo
from transforms.core.images.pixel_options import UNTOUCHED, Original
from transforms.core.index.stored_images import BaseShard, StoredImage, join_reused, stored_side
from transforms.core.records import JoinSide, LabelledImage

ROW: dict[str, Any] = {
    "shard": "train-00000-of-00001.tfrecord",
    "record": 3,
    "offset": 700,
    "length": 90,
    "key": "a",
    "size": 50,
    "version": 9,
    "content": bytes(16),
    "source_content": None,
    "perceptual_hash": bytes(7) + b"\x0f",
    "format": "jpeg",
    "height": 30,
    "width": 40,
    "channels": 3,
    "orientation": 6,
    "gps": 1,
    "changes": None,
    "source_height": None,
    "source_width": None,
}
IMAGE = JoinSide("a.jpg", 50, 9, "cat", "", is_image=True)


def join(key: str, sides: Iterable[JoinSide]) -> Iterator[LabelledImage]:
    """Each image as it is; nothing else may come here."""
    for side in sides:
        assert side.is_image
        yield LabelledImage("train", 0, key, side.path, side.size, side.version, side.label, 0)


def stored_of(*sides: JoinSide) -> list[str]:
    found = join_reused("a", sides, join=join)
    return [each.stored for each in found if isinstance(each, LabelledImage)]


def test_a_record_of_the_same_file_is_added() -> None:
    side = stored_side(1, ROW, "a.jpg")
    assert stored_of(side, IMAGE) == stored_of(IMAGE, side) == [side.cells]


@pytest.mark.parametrize(
    "other",
    [
        stored_side(1, ROW, "b.jpg"),
        stored_side(1, {**ROW, "size": 51}, "a.jpg"),
        stored_side(1, {**ROW, "version": 8}, "a.jpg"),
    ],
)
def test_a_record_of_another_file_is_not(other: JoinSide) -> None:
    assert stored_of(other, IMAGE) == [""]
    assert stored_of(other) == []


def test_of_several_records_it_is_always_the_same() -> None:
    one, other = stored_side(0, ROW, "a.jpg"), stored_side(1, ROW, "a.jpg")
    [text] = stored_of(one, other, other, IMAGE)
    assert stored_of(other, one, IMAGE) == [text]
    assert StoredImage.of_text(text) == StoredImage.of_text(one.cells)
    every = [StoredImage.of_text(each.cells) for each in (one, other)]
    assert StoredImage.all_of_text(text) == every


def test_the_place_of_a_record_says_nothing_of_its_image() -> None:
    # The first record of a shard that may be copied, and another one in a base of other shards.
    first = stored_side(0, {**ROW, "record": 0, "offset": 0}, "a.jpg", BaseShard(4, 9, "0", "r"))
    other = stored_side(1, {**ROW, "shard": "b", "length": 80}, "a.jpg")
    [text] = stored_of(first, other, IMAGE)
    assert stored_of(other, first, IMAGE) == [text]
    every = [StoredImage.of_text(each.cells) for each in (first, other)]
    assert StoredImage.all_of_text(text) == every
    assert every[0].whole == BaseShard(4, 9, "0", "r")


@pytest.mark.parametrize("name", ["content", "source_content"])
def test_records_that_hold_other_images_are_not_used(name: str) -> None:
    other = stored_side(1, {**ROW, name: b"\1" * 16}, "a.jpg")
    sides = [stored_side(0, ROW, "a.jpg"), other, stored_side(2, ROW, "a.jpg")]
    for given in itertools.permutations(sides):
        assert stored_of(*given, IMAGE) == [""]
    assert stored_of(other, other, IMAGE) == [other.cells]


@pytest.mark.parametrize(
    ("name", "value"),
    [("perceptual_hash", bytes(8)), ("orientation", 5), ("gps", 0), ("source_width", 5)],
)
def test_records_that_describe_an_image_in_other_ways_are_not_used(name: str, value: Any) -> None:
    sides = stored_side(0, ROW, "a.jpg"), stored_side(1, {**ROW, name: value}, "a.jpg")
    assert stored_of(*sides, IMAGE) == [""]


def test_an_image_that_is_stored_as_it_is_comes_back() -> None:
    stored = StoredImage.of_text(stored_side(0, ROW, "a.jpg").cells)
    assert (stored.base, stored.shard, stored.record) == (0, ROW["shard"], 3)
    checked = stored.checked(b"image", changes_nothing=True)
    assert (checked.data, checked.changes, checked.orientation) == (b"image", (), 6)
    assert checked.has_place
    assert checked.info == ImageInfo("jpeg", 30, 40, 3)
    assert checked.original == Original(30, 40, 1)
    assert checked.perceptual_hash == 15
    assert checked.content == checked.stored_content == "0" * 32
    assert stored.checked(b"", changes_nothing=False).changes == UNTOUCHED


def test_a_changed_image_comes_back() -> None:
    changed = {
        **ROW,
        "changes": "resized,turned",
        "source_height": 80,
        "source_width": 60,
        "source_content": b"\1" * 16,
        "perceptual_hash": None,
    }
    stored = StoredImage.of_text(stored_side(0, changed, "a.jpg").cells)
    checked = stored.checked(b"", changes_nothing=False)
    assert checked.changes == ("resized", "turned")
    assert checked.original == Original(80, 60, 6)
    assert (checked.content, checked.stored_content) == ("01" * 16, "0" * 32)
    assert checked.perceptual_hash is None
