"""An image gets its record in another dataset if path, size and version are the same."""

import itertools
import marshal
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from tests.marks import cases
from transforms.core.records import JoinSide, Kind, PartnerFile, Plain, PlannedImage
from transforms.images.checked_images import CheckedPartner, ImageInfo, Seen
from transforms.images.pixel_options import UNTOUCHED, Original
from transforms.records.stored_images import BaseShard, StoredImage, join_reused, stored_side

ROW: dict[str, Any] = (
    {"shard": "train-00000-of-00001.tfrecord", "record": 3, "offset": 700, "length": 90}
    | {"key": "a", "size": 50, "version": 9, "content": bytes(16), "source_content": None}
    | {"perceptual_hash": bytes(7) + b"\x0f", "format": "jpeg", "height": 30, "width": 40}
    | {"channels": 3, "orientation": 6, "gps": 1, "changes": None}
    | {"source_height": None, "source_width": None, "entropy": 72}
    | {"darkest": 9, "lightest": 250, "sharpness": 40}
)
IMAGE = JoinSide("a.jpg", 50, 9, "cat", "", kind=Kind.IMAGE)


def join(key: str, sides: Iterable[JoinSide]) -> Iterator[PlannedImage]:
    """Each image as it is; nothing else may come here."""
    for side in sides:
        assert side.is_image
        yield PlannedImage(0, key, side.path, side.size, side.version, side.label)


def stored_of(*sides: JoinSide) -> list[Plain]:
    found = join_reused("a", sides, join=join)
    return [each.stored for each in found if isinstance(each, PlannedImage)]


def test_a_record_crosses_the_shuffle_in_few_bytes() -> None:
    """As text, it took 240 bytes."""
    assert len(marshal.dumps(stored_side(1, ROW, "a.jpg").record)) < 170


@cases(
    ({}, "a.jpg", True),
    ({}, "b.jpg", False),
    ({"size": 51}, "a.jpg", False),
    ({"version": 8}, "a.jpg", False),
)
def test_a_record_of_a_file_is_added(changes: dict[str, int], path: str, is_added: bool) -> None:
    side = stored_side(1, {**ROW, **changes}, path)
    added: Plain = (side.record[0],) if is_added else ()
    assert stored_of(side, IMAGE) == stored_of(IMAGE, side) == [added]
    assert stored_of(side) == []


def test_the_place_of_a_record_says_nothing_of_its_image() -> None:
    # The first record of a shard that may be copied, and another one in a base of other shards.
    first = stored_side(0, {**ROW, "record": 0, "offset": 0}, "a.jpg", BaseShard(4, 9, "0", "r"))
    other = stored_side(1, {**ROW, "shard": "b", "length": 80}, "a.jpg")
    [found] = stored_of(first, other, IMAGE)
    assert stored_of(other, first, IMAGE) == [found]
    assert found == (first.record[0], other.record[0])
    assert StoredImage.of(found[0]).whole == BaseShard(4, 9, "0", "r")


@cases(
    *((name, b"\1" * 16) for name in ("content", "source_content")),
    *(("perceptual_hash", bytes(8)), ("orientation", 5), ("gps", 0), ("source_width", 5)),
)
def test_records_that_say_something_else_of_an_image_are_not_used(name: str, value: Any) -> None:
    other = stored_side(1, {**ROW, name: value}, "a.jpg")
    sides = [stored_side(0, ROW, "a.jpg"), other, stored_side(2, ROW, "a.jpg")]
    for given in itertools.permutations(sides):
        assert stored_of(*given, IMAGE) == [()]
    assert stored_of(*sides[:2], IMAGE) == [()]
    assert stored_of(other, other, IMAGE) == [(other.record[0],) * 2]


FILES = PartnerFile("1.jpg", 40, 3), PartnerFile("1.png", 30, 2)
RIGHT, MASK = CheckedPartner(20, "jpeg", "1" * 32), CheckedPartner(10, "png", "2" * 32)
BOTH = [(FILES[0], RIGHT), (FILES[1], MASK)]


def partners_of(*sides: JoinSide, files: Sequence[PartnerFile] = FILES) -> list[Any]:
    """The masks and further images of the records that an image with these files gets."""

    def join_both(key: str, sides: Iterable[JoinSide]) -> Iterator[PlannedImage]:
        for image in join(key, sides):
            yield image._replace(partners=tuple(map(tuple, files)))

    [found] = join_reused("a", [*sides, IMAGE], join=join_both)
    assert isinstance(found, PlannedImage)
    return [StoredImage.of(each).partners for each in found.stored]


def test_masks_of_unchanged_files_come_with_their_record() -> None:
    side = stored_side(0, ROW, "a.jpg", partners=BOTH)
    assert partners_of(side) == [(RIGHT, MASK)]
    for other in (FILES[1]._replace(version=9), FILES[1]._replace(path="2.png")):
        assert partners_of(side, files=(FILES[0], other)) == [(RIGHT, None)]
    assert partners_of(stored_side(0, ROW, "a.jpg", partners=[None, BOTH[1]])) == [(None, MASK)]


def test_of_several_records_that_with_the_most_masks_is_used() -> None:
    none, one, both = (
        stored_side(number, ROW, "a.jpg", partners=partners)
        for number, partners in enumerate([[None, None], [None, BOTH[1]], BOTH])
    )
    again = stored_side(3, {**ROW, "shard": "b"}, "a.jpg", partners=BOTH)
    for given in itertools.permutations([none, one, both, again]):
        assert partners_of(*given) == [(RIGHT, MASK)] * 2
    assert partners_of(none, one) == [(None, MASK)]


def test_records_that_hold_other_masks_of_the_same_file_are_not_used() -> None:
    one = stored_side(0, ROW, "a.jpg", partners=BOTH)
    wrong = MASK._replace(content="3" * 32)
    other = stored_side(1, ROW, "a.jpg", partners=[None, (FILES[1], wrong)])
    assert partners_of(one, other) == partners_of(other, one) == []
    # Unless the file is another one by now.
    files = FILES[0], FILES[1]._replace(size=31)
    assert partners_of(one, other, files=files) == [(RIGHT, None)]


def test_an_image_comes_back_as_it_was_stored() -> None:
    stored = StoredImage.of(stored_side(0, ROW, "a.jpg").record[0])
    assert (stored.base, stored.shard, stored.record) == (0, ROW["shard"], 3)
    checked = stored.checked(b"image", changes_nothing=True)
    assert (checked.data, checked.changes, checked.orientation) == (b"image", (), 6)
    assert checked.has_place
    assert checked.info == ImageInfo("jpeg", 30, 40, 3)
    assert checked.original == Original(30, 40, 1)
    assert checked.seen == Seen(15, None, (9, 250, 40, 72))
    assert checked.content == checked.stored_content == "0" * 32
    assert stored.checked(b"", changes_nothing=False).changes == UNTOUCHED


def test_a_changed_image_comes_back() -> None:
    changed = {"changes": "resized,turned", "source_height": 80, "source_width": 60}
    row = {**ROW, **changed, "source_content": b"\1" * 16, "perceptual_hash": None}
    stored = StoredImage.of(stored_side(0, row, "a.jpg").record[0])
    checked = stored.checked(b"", changes_nothing=False)
    assert checked.changes == ("resized", "turned")
    assert checked.original == Original(80, 60, 6)
    assert (checked.content, checked.stored_content) == ("01" * 16, "0" * 32)
    assert checked.seen.perceptual_hash is None
