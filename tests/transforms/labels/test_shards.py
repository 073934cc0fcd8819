"""Shards are equal ranges of the order, and their names and recipes never change."""

import re
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.marks import cases
from transforms.core.messages import LabelsError
from transforms.core.records import PartnerFile, PlannedImage
from transforms.dataset.ledger import PlanTotals
from transforms.images.checked_images import CheckedPartner
from transforms.labels.shards import (
    DEFAULT_SHARD_SIZE,
    HEIC_LIBRARIES,
    MAX_SHARDS,
    Libraries,
    RecipeMaker,
    ShardName,
    ShardPlan,
    changed_libraries,
    distribution_version,
    empty_shards_warning,
    recorded_versions,
    shard_count,
    shard_index,
    shard_recipe,
)
from transforms.packing import pack
from transforms.records.record_index import LOOKS
from transforms.records.stored_images import stored_side

LOWEST, HIGHEST = -(2**63), 2**63 - 1
COUNTS = st.integers(1, MAX_SHARDS)
NAMES = st.builds(
    lambda split, number, more, gzip: ShardName(split, number, number + more, gzip),
    st.from_regex(r"[A-Za-z][A-Za-z0-9_]*", fullmatch=True),
    st.integers(0, 50_000),
    st.integers(1, MAX_SHARDS - 50_000),
    st.booleans(),
)
IMAGE = PlannedImage(order=5, key="a", path="x/a.jpg", size=10, version=3, label="cat", label_id=1)


def test_shards_of_too_many_names_are_refused_with_the_number_that_fits() -> None:
    totals = PlanTotals(images=Counter(test=10, train=10**8), bytes=Counter(train=10**13))
    eight = ShardPlan(("train", "test"), DEFAULT_SHARD_SIZE, 8, gzip=False)
    with pytest.raises(LabelsError) as raised:
        eight.check_sizes(totals.bytes, totals.images)
    assert str(raised.value) == (
        "split 'train' has 100000000 images in 8 shards, 12500000 in one: more than 200000, which "
        "a worker of this runner can take; use --num_shards 500 or more"
    )
    eight._replace(num_shards=500).check_sizes(totals.bytes, totals.images)
    with pytest.raises(LabelsError, match="use --num_shards 500 or more"):
        eight._replace(num_shards=499).check_sizes(totals.bytes, totals.images)
    # By their bytes, images are in many more shards.
    eight._replace(num_shards=None).check_sizes(totals.bytes, totals.images)
    ShardPlan((), DEFAULT_SHARD_SIZE, 8, gzip=False).check_sizes({}, {})


@pytest.mark.parametrize("partners", [0, 1, 2, 9])
def test_the_most_names_of_a_shard_are_an_element_of_less_than_100_mb(partners: int) -> None:
    # Its record in a base, as `--reuse` hands it on.
    place = {"shard": "train-01234-of-12345.tfrecord", "record": 99_999, "offset": 149_999_999}
    sizes = {"length": 1_000_000, "size": 1_000_000, "version": 2**60, "orientation": 6, "gps": 1}
    hashes = {"content": bytes(16), "source_content": bytes(16), "perceptual_hash": bytes(8)}
    hashes |= dict.fromkeys(LOOKS, 255)
    pixels = {"format": "jpeg", "height": 1080, "width": 1920, "channels": 3}
    changes = dict.fromkeys(("changes", "source_height", "source_width"))
    row = {**place, **sizes, **hashes, **pixels, **changes}
    file = PartnerFile("m" * 100, 2**20, 2**60)
    mask = CheckedPartner(1_000_000, "jpeg", "f" * 32, has_place=True)
    stored = (stored_side(0, row, "", partners=[(file, mask)] * partners).record[0],)
    image = PlannedImage(2**62, "k" * 100, "p" * 100, 2**20, 2**60, "a class", 1000, "", stored)
    size = len(pack([image._replace(partners=(tuple(file),) * partners)]))
    plan = ShardPlan(("train",), DEFAULT_SHARD_SIZE, 1, gzip=False, partners=partners)
    totals = PlanTotals(images=Counter(train=100_000_000 // size), bytes=Counter(train=1))
    with pytest.raises(LabelsError, match="which a worker of this runner can take"):
        plan.check_sizes(totals.bytes, totals.images)


@given(NAMES)
def test_a_name_is_read_as_it_was_written(name: ShardName) -> None:
    assert ShardName.parse(str(name)) == name


@given(st.text(max_size=40) | st.from_regex(r"[a-z-]+-\d{4,6}-of-\d{4,6}.tfrecord(.gz)?\n?"))
def test_any_name_that_is_read_is_spelled_the_same(text: str) -> None:
    try:
        name = ShardName.parse(text)
    except ValueError:
        return
    assert str(name) == text and name.number < name.total


OF_ONE = "train-00000-of-00001.tfrecord"


@cases(
    "",
    "train.tfrecord",
    f"{OF_ONE}s",
    f"{OF_ONE}\n",
    f"{OF_ONE}.gz.json",
    f"dir/{OF_ONE}",
    *["train-0000-of-00001.tfrecord", "1-00000-of-00001.tfrecord", "t-r-00000-of-00001.tfrecord"],
)
def test_another_name_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=f"{re.escape(repr(text))} is not the name of a shard"):
        ShardName.parse(text)
    for beyond in ("a-00001-of-00001.tfrecord", "a-00000-of-00000.tfrecord"):
        with pytest.raises(ValueError, match="cannot be"):
            ShardName.parse(beyond)


@given(COUNTS, st.data())
def test_every_shard_takes_an_equal_range(count: int, data: st.DataObject) -> None:
    number = data.draw(st.integers(0, count - 1))
    first, end = (-(-(at << 64) // count) + LOWEST for at in (number, number + 1))
    assert shard_index(first, count) == number == shard_index(end - 1, count)
    assert abs((end - first) - 2**64 / count) <= 4096  # the float's own rounding
    if number:
        assert shard_index(first - 1, count) == number - 1


@cases(
    (0, 0, 100, None, 1),
    (1, 1, 100, None, 1),
    (100, 9, 100, None, 1),
    (101, 9, 100, None, 2),
    (200, 9, 100, None, 2),
    (10**15, 10**9, 1, None, MAX_SHARDS),
    (MAX_SHARDS, MAX_SHARDS, 1, None, MAX_SHARDS),
    (2**53 + 1, 9, 2**53, None, 2),  # no float rounds the rest away
    (913_600, 51, 64, None, 51),  # no more shards than records ...
    (900, 1, 100, None, 1),
    (0, 0, 100, 7, 7),  # ... unless they are requested
    (900, 3, 100, 300, 300),
    (10**15, 10**9, 1, 1, 1),
)
def test_shard_count(total: int, records: int, size: int, number: int | None, count: int) -> None:
    assert shard_count(total, records, shard_size=size, num_shards=number) == count


@cases((0, 1, 0), (3, 3, 0), (3, 4, 1), (47, 300, 253), (0, 2, 2))
def test_more_shards_than_records_are_warned_of(records: int, shards: int, empty: int) -> None:
    warning = empty_shards_warning("train", records, shards)
    assert (warning is not None) == (empty > 0)
    assert warning is None or f"at least {empty} are empty" in warning


def test_the_recipe_is_the_same_for_ever_and_depends_on_what_decides() -> None:
    recipe = shard_recipe("digest", "train-00000-of-00001.tfrecord", [IMAGE])
    assert recipe == "db78baac703e3d31c9afa1bfca13acaa"
    images = [IMAGE, IMAGE._replace(key="b")]
    masks = [IMAGE._replace(partners=(("a.png", 1, version),)) for version in (2, 3)]
    others = [images[::-1], *([IMAGE] * count for count in range(5)), *([each] for each in masks)]
    recipes = {shard_recipe("d", "n", iter(each)) for each in (images, *others)}
    recipes |= {shard_recipe("D", "n", images), shard_recipe("d", "N", images)}
    assert len(recipes) == 3 + len(others)


@pytest.mark.parametrize("field", PlannedImage._fields)
def test_the_recipe_depends_on_every_field_that_decides_bytes(field: str) -> None:
    more: dict[type, Any] = {int: 1, str: "1", tuple: (("a", 1, 2),)}
    value = getattr(IMAGE, field)
    changed = IMAGE._replace(**{field: value + more[type(value)]})
    same = shard_recipe("d", "n", [changed]) == shard_recipe("d", "n", [IMAGE])
    assert same == (field not in (*PlannedImage._fields[:8], "partners"))


def test_files_of_images_are_limited() -> None:
    plan = ShardPlan((), DEFAULT_SHARD_SIZE, None, gzip=False)
    single = plan._replace(per_image=True)
    most, more = {"train": 999_999, "test": 1}, {"train": 999_999, "test": 2}
    assert single.files(dict.fromkeys(most, 10**9), most)
    assert plan.files(dict.fromkeys(more, 10**9), more)
    expected = "^--files per_image: 1000001 images are more than 1000000, .*; use --files sharded$"
    with pytest.raises(LabelsError, match=expected):
        single.files(dict.fromkeys(more, 10**9), more)


# A recipe names the versions of the libraries on which a shard depends, and of no others.

HEIC_VERSION = distribution_version("pillow-heif")


def test_only_shards_with_a_heic_depend_on_its_decoder() -> None:
    without, both, none = (
        RecipeMaker("digest", Libraries(changed=("numpy",), heic=heic)).recipes("a", [])
        for heic in ((), HEIC_LIBRARIES, ("no-heif",))
    )
    assert both[:2] == without[:2] and len(set(both)) == 3
    # A decoder that is not installed is none.
    assert without.from_heic == without.changed and none == without


@cases((False, False, []), (True, False, ["numpy"]), (True, True, ["numpy", "pillow-heif"]))
def test_the_index_of_each_names_them(is_changed: bool, has_heic: bool, names: list[str]) -> None:
    maker = RecipeMaker("digest", Libraries(changed=("numpy",), heic=HEIC_LIBRARIES))
    expected = "\n".join(f"{name} {distribution_version(name)}" for name in names)
    assert maker.versions(is_changed=is_changed, has_heic=has_heic) == expected


def test_a_manifest_names_them() -> None:
    assert set(recorded_versions(["numpy"], has_heic=False)) == {"numpy"}
    versions = recorded_versions(["numpy"], has_heic=True)
    assert versions["pillow-heif"] == HEIC_VERSION
    assert changed_libraries({"versions": versions}) == []
    versions["pillow-heif"] = "0.1"
    expected = f"pillow-heif 0.1, here {HEIC_VERSION}"
    assert changed_libraries({"versions": versions}) == [expected]
