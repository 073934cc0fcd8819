"""Images get their shards and class ids, whatever the bundles."""

from __future__ import annotations

from collections import Counter
from typing import Any

import apache_beam as beam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.transforms.beam import collect
from transforms import packing
from transforms import packing as pack_names
from transforms.core.messages import LabelsError
from transforms.core.records import PlannedImage
from transforms.dataset.ledger import PlanTotals
from transforms.labels import shards as planned_shards
from transforms.labels.keys import key_hashes
from transforms.labels.label_rules import ANY_LABELS, LabelRules
from transforms.labels.shards import ShardPlan, shard_index
from transforms.labels.vocabulary import LabelCells
from transforms.plan_shards import PlanShards, TotalLabels

PLAN = ShardPlan(("train", "test", "none"), shard_size=100, num_shards=None, gzip=False)


def labelled(
    number: int, *, split: str = "train", label: str = "cat", rows: int = 1
) -> PlannedImage:
    key = str(number)
    order = key_hashes(key, seed=0)[1] - 2**63
    return PlannedImage(order, key, f"{key}.jpg", 10, number, label, split=split, rows=rows)


def plan(
    images: list[PlannedImage], rules: LabelRules = ANY_LABELS, how: ShardPlan = PLAN
) -> tuple[dict[str, Any], list[Any], Any]:
    """The images in order of each shard that has some, the rejections, and the totals."""

    def construct(pipeline: beam.Pipeline) -> dict[str, Any]:
        created = pipeline | "Images" >> beam.Create(images).with_output_types(PlannedImage)
        totals = created | "Total" >> TotalLabels(None)
        planned = created | "Plan" >> PlanShards(how, totals, rules=rules)
        return {**planned._asdict(), "totals": totals}

    planned = collect(construct)
    [totals] = planned["totals"]
    shards = {name: sorted(group) for name, group in planned["shards"]}
    assert len(shards) == len(planned["shards"])
    shards = {name: images for name, images in shards.items() if images}
    return shards, planned["rejections"], totals


def test_every_image_gets_its_shard_and_its_id() -> None:
    train = [labelled(number, label="cat" if number % 2 else "dog") for number in range(31)]
    test = [labelled(number, split="test", label="ant") for number in range(31, 33)]
    shards, rejections, totals = plan([*train, *test])
    files = [f"train-0000{number}-of-00004.tfrecord" for number in range(4)]
    assert set(shards) == {*files, "test-00000-of-00001.tfrecord"}
    ids = {"ant": 0, "cat": 1, "dog": 2}
    in_order = [
        PlannedImage(i.order, i.key, i.path, i.size, i.version, i.label, ids[i.label])
        for i in sorted(train, key=lambda image: image.order)
    ]
    assert [image for file in files for image in shards[file]] == in_order
    for number, file in enumerate(files):
        assert {shard_index(image.order, 4) for image in shards[file]} <= {number}
    assert [image.label_id for image in shards["test-00000-of-00001.tfrecord"]] == [0, 0]
    assert rejections == []
    labels = Counter(image.label for image in [*train, *test])
    assert totals == PlanTotals(
        images=totals.images, bytes=totals.bytes, labels=labels, rows_used=33
    )
    assert totals.images == {"train": 31, "test": 2}
    assert totals.bytes == {"train": 310, "test": 20}


def test_batches_of_any_size_make_the_same_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    images = [labelled(number, label="cat" if number % 3 else "cow") for number in range(40)]
    rules = LabelRules(class_names=("cat",))
    planned = plan(images, rules)
    assert len(planned[1]) == 14
    for batch in (1, 7):
        monkeypatch.setattr(pack_names, "BATCH_NAMES", batch)
        assert plan(images, rules) == planned


@pytest.mark.parametrize("count", [0, 1])
def test_every_planned_shard_is_there_also_without_images(count: int) -> None:
    plan_of_three = ShardPlan(("train", "test"), shard_size=100, num_shards=3, gzip=False)

    def construct(pipeline: beam.Pipeline) -> dict[str, Any]:
        images = pipeline | "Images" >> beam.Create([labelled(n) for n in range(count)])
        return {"shards": (images | PlanShards(plan_of_three, images | TotalLabels(None))).shards}

    sizes = {name: len([*group]) for name, group in collect(construct)["shards"]}
    numbers = [f"{number:05}-of-00003.tfrecord" for number in range(3)]
    assert sorted(sizes) == [*(f"test-{n}" for n in numbers), *(f"train-{n}" for n in numbers)]
    assert sum(sizes.values()) == count


def test_elsewhere_a_shard_of_too_many_names_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planned_shards, "MAX_SHARD_NAMES", 3)
    plan_of_two = ShardPlan((), shard_size=100, num_shards=2, gzip=False)
    images = [labelled(number) for number in range(7)]
    # In one process, memory is the limit.
    assert sum(len(group) for group in plan(images, how=plan_of_two)[0].values()) == 7
    monkeypatch.setattr(packing, "runs_in_process", lambda _: False)
    with pytest.raises(LabelsError, match="7 images in 2 shards, 4 in one: .*--num_shards 3 or"):
        plan(images, how=plan_of_two)


def test_the_kind_is_that_of_all_cells_not_of_the_images_that_are_there() -> None:
    def construct(pipeline: beam.Pipeline) -> dict[str, Any]:
        images = pipeline | "Images" >> beam.Create([labelled(1, label="7")])
        cells = pipeline | "Cells" >> beam.Create([LabelCells(1), LabelCells(0, 1), LabelCells()])
        totals = images | TotalLabels(cells)
        planned = images | PlanShards(PLAN, totals)
        return {"totals": totals, "shards": planned.shards}

    found = collect(construct)
    [totals] = found["totals"]
    assert (totals.label_kind, totals.cells) == ("text", LabelCells(1, 1))
    [image] = [image for _, group in found["shards"] for image in group]
    assert (image.label, image.label_id) == ("7", 0)


def test_labels_that_contradict_each_other_end_the_run() -> None:
    odd = (("a.csv", 9, "x"),)
    with pytest.raises(LabelsError, match=r"9 of 10 labels are integers, but 'x' \(a.csv:9\)"):
        with beam.Pipeline("FnApiRunner") as pipeline:
            images = pipeline | "Images" >> beam.Create([labelled(1, label="7")])
            cells = pipeline | "Cells" >> beam.Create([LabelCells(9, 1, odd=odd)])
            _ = images | TotalLabels(cells)


def test_without_labels() -> None:
    shards, rejections, _ = plan([labelled(1, label="")])
    [image] = (image for group in shards.values() for image in group)
    assert (image.label, image.label_id) == ("", 0)
    assert rejections == []


def test_no_image_at_all() -> None:
    shards, rejections, totals = plan([])
    assert (shards, rejections, totals) == ({}, [], PlanTotals())


@given(st.permutations([labelled(number, rows=number) for number in range(6)]), st.integers(0, 6))
def test_totals_do_not_depend_on_bundles(images: list[PlannedImage], cut: int) -> None:
    def add(part: list[PlannedImage]) -> PlanTotals:
        totals = PlanTotals()
        for image in part:
            totals.add(image)
        return totals

    merged = PlanTotals()
    for part in (images[:cut], [], images[cut:]):
        merged.merge(add(part))
    assert merged == add(images)
    assert (merged.rows_used, merged.rows_repeated) == (5, 10)
