"""Images get stratified splits, the same in any order and with any number of workers."""

from __future__ import annotations

from collections import Counter
from typing import Any

import apache_beam as beam
import pytest

from tests.marks import rest_slow
from tests.transforms.beam import collect
from transforms import packing as pack_names
from transforms import plan_shards as find_cuts
from transforms.core.records import PlannedImage
from transforms.labels.joins import labels_cells
from transforms.labels.label_rules import ANY_LABELS
from transforms.labels.shards import Splits
from transforms.plan_shards import StratifySplits
from transforms.selection import hash_cuts
from transforms.selection.hash_cuts import ClassLines

SHARES = (("train", 0.8), ("test", 0.2))
# Of ten, two are cats; the images of a group have different classes.
IMAGES = [
    PlannedImage(at, f"{at}", "", 1, 1, label, split="train", group=f"{at // 3}")
    for at, label in enumerate(["cat", "dog", "dog", "dog", "dog"] * 12)
]


@pytest.fixture(autouse=True)
def _two_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each takes some tenths of a second; golden conversions have all of them."""
    monkeypatch.setattr(hash_cuts, "ROUNDS", 2)


def stratified(
    images: list[PlannedImage],
    *,
    by_group: bool,
    many_labels: bool = False,
) -> dict[str, PlannedImage]:
    how = ClassLines(Splits(SHARES), 1, by_group=by_group, many_labels=many_labels)

    def construct(pipeline: beam.Pipeline) -> dict[str, Any]:
        created = pipeline | beam.Create(images).with_output_types(PlannedImage)
        return {"images": created | StratifySplits(how, None, ANY_LABELS)}

    return {image.key: PlannedImage(*image) for image in collect(construct)["images"]}


def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other batches, as the workers of another runner make them."""
    monkeypatch.setattr(pack_names, "BATCH_NAMES", 3)
    monkeypatch.setattr(find_cuts, "_HELD", 4)


def test_each_class_has_its_share_on_every_runner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pack_names, "BATCH_NAMES", 7)
    found = stratified(IMAGES, by_group=False)
    counts = Counter((image.label, image.split) for image in found.values())
    # 12 cats and 48 dogs: 9.6 and 38.4.
    assert counts["cat", "train"] in (9, 10) and counts["dog", "train"] in (38, 39)
    assert {key: image._replace(split="train") for key, image in found.items()} == {
        image.key: image for image in IMAGES
    }
    elsewhere(monkeypatch)
    assert stratified(IMAGES[::-1], by_group=False) == found


def test_groups_stay_whole_on_every_runner(monkeypatch: pytest.MonkeyPatch) -> None:
    found = stratified(IMAGES, by_group=True)
    assert found.keys() == {image.key for image in IMAGES}
    places = {(image.group, found[image.key].split) for image in IMAGES}
    assert len(places) == 20
    # A group counts for its rarest class. Groups without cats: 8 of 3 dogs.
    dogs = Counter(split for group, split in places if not _has_cat(group))
    assert dogs["train"] in (6, 7)
    cats = Counter(split for group, split in places if _has_cat(group))
    assert cats["train"] in (9, 10)
    elsewhere(monkeypatch)
    assert stratified(IMAGES[::-1], by_group=True) == found


@pytest.mark.parametrize("by_group", rest_slow([False, True]))
def test_images_with_one_class_make_up_for_the_others_on_every_runner(
    by_group: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of twelve dogs and twelve foxes, nine or ten are in train, and a cat is with each."""
    monkeypatch.setattr(pack_names, "BATCH_NAMES", 7)
    images = [
        IMAGES[at]._replace(
            label="" if at < 24 else "cat",
            cells=labels_cells(["cat", "dog" if at % 2 else "fox"]) if at < 24 else "",
            group=f"who {at}",
        )
        for at in range(60)
    ]
    found = stratified(images, by_group=by_group, many_labels=True)
    train = [image for image in found.values() if image.split == "train"]
    assert len(train) == 48
    assert 18 <= sum(bool(image.cells) for image in train) <= 20
    elsewhere(monkeypatch)
    assert stratified(images[::-1], by_group=by_group, many_labels=True) == found


def _has_cat(group: str) -> bool:
    return any(image.label == "cat" for image in IMAGES if image.group == group)
