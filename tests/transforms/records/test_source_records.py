"""Records of datasets as images: which of several with one key are one image."""

import functools
from typing import Any

from tests.marks import cases
from tests.transforms.records.test_stored_images import ROW
from transforms.core.records import Count, JoinSide, Kind, PlannedImage
from transforms.core.rejections import Rejection
from transforms.labels.joins import ONE_LABEL, JoinRules, RowRequirements, join_group
from transforms.labels.shards import SplitAssigner, Splits
from transforms.records.stored_images import (
    StoredImage,
    join_records,
    join_reused,
    source_side,
    stored_side,
)

RECORD = {**ROW, "key": "a", "path": "a.jpg", "split": "test", "label": "cat", "label_id": 4}
MANY = RowRequirements(many_labels=True, needs_rows=True)
FILE = JoinSide("a.jpg", 50, 9, "cat", "", kind=Kind.IMAGE)


def record(base: int = 0, *, with_values: bool = False, **changed: Any) -> JoinSide:
    row = {**RECORD, **changed}
    return source_side(base, row, shard_crc32c="00000000", with_values=with_values, is_final=False)


def rules_of(label_from: str, requirements: RowRequirements = ONE_LABEL) -> JoinRules:
    assigner = SplitAssigner(Splits([("train", 1.0)]), seed=0, split_from="records")
    return JoinRules(label_from, assigner, requirements)


def joined(
    *sides: JoinSide, label_from: str = "records", requirements: RowRequirements = ONE_LABEL
) -> list[Any]:
    rules = rules_of(label_from, requirements)
    join = functools.partial(join_group, rules=rules)
    found = list(join_records("a", sides, rules, join=join))
    # Every image that was found is written, rejected, or found again.
    again = sum(each.value for each in found if each[:1] == ("images_found_again",))
    images = [each for each in found if isinstance(each, PlannedImage)]
    rejected = [each for each in found if isinstance(each, Rejection) and each.subject == "image"]
    assert sum(side.is_image for side in sides) == len(images) + len(rejected) + again
    return found


def test_a_record_keeps_its_label_unless_a_row_gives_it_another() -> None:
    [image] = joined(record())
    assert (image.split, image.label, image.size, image.rows) == ("test", "cat", 50, 0)
    found = StoredImage.of(image.record)
    assert (found.offset, found.labels) == (700, ((4, "cat"),))
    assert not image.stored
    [none] = joined(record(), label_from="none")
    assert none.label == ""
    row = JoinSide("", 0, 0, "dog", "a.csv:2")
    [image] = joined(record(), row, label_from="csv")
    assert (image.label, image.split, image.rows) == ("dog", "test", 1)
    assert StoredImage.of(image.record).labels == ((4, "cat"),)


@cases(
    (["cat", "dog"], [4, 7], "label_conflict", "its record has the labels 'cat', 'dog'"),
    (None, None, "no_label", ""),
)
def test_a_record_needs_one_label(label: Any, label_id: Any, reason: str, detail: str) -> None:
    side = record(label=label, label_id=label_id)
    [rejected] = joined(side)
    assert rejected.reason == reason
    assert detail in rejected.detail
    if label:
        [image] = joined(side, requirements=MANY)
        assert image.cells == '[["given:1",["cat","dog"],[]]]'


def test_the_same_image_in_two_datasets_is_one() -> None:
    image, count = sorted(joined(record(), record(1)), key=lambda each: isinstance(each, Count))
    assert isinstance(image, PlannedImage)
    assert count == Count("images_found_again", 1)
    assert StoredImage.of(image.record).base == 0


@cases(
    (record(1, content=bytes(15) + b"x"), "duplicate_key"),
    # The stored images are equal, their originals are not.
    (record(1, source_content=bytes(15) + b"x"), "duplicate_key"),
    (FILE, "duplicate_key"),
    (record(1, label="dog"), "ambiguous_label"),
    (record(1, split="train"), "split_conflict"),
)
def test_none_of_several_images_is_preferred(other: JoinSide, reason: str) -> None:
    found = joined(record(), other)
    assert [each.reason for each in found] == [reason] * 2


def test_the_version_follows_what_is_taken() -> None:
    assert record().version == record(version=1, record=5, offset=3).version
    assert record().version != record(content=bytes(15) + b"x").version
    of_original = {"source_content": b"x" * 16, "orientation": 1, "changes": "resized"}
    for name, value in {**of_original, "source_height": 9, "source_width": 9}.items():
        assert record().version != record(**{name: value}).version
    assert record(with_values=True).version != record(with_values=True, record=5).version
    assert record(content=None).version != record(content=None, record=5).version
    assert record(changes="resized").size == RECORD["length"]


def test_a_record_may_also_be_reused() -> None:
    side, rules = record(), rules_of("records")
    base = stored_side(3, {**ROW, "version": side.version}, "a.jpg")
    joins_files = functools.partial(join_group, rules=rules)
    join = functools.partial(join_records, rules=rules, join=joins_files)
    [image] = join_reused("a", [side, base], join=join)
    assert isinstance(image, PlannedImage)
    assert image.stored == (base.record[0],)
    assert StoredImage.of(image.record).base == 0
