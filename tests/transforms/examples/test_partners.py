"""An image gets one file of each partner, or is rejected; no file is lost or counted twice."""

from __future__ import annotations

import functools
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transforms.core.records import (
    Count,
    JoinSide,
    Kind,
    LabelledImage,
    PartnerFile,
    ShardImage,
    partner_files,
)
from transforms.core.rejections import Rejection
from transforms.examples.partners import Joined, Partner, join_partners, partner_side
from transforms.labels.joins import JoinRules, join_group, join_selected, key_line
from transforms.labels.shards import SplitAssigner, Splits, shard_recipe

MASKS = Partner("mask", "--masks", ("m/*.png",), "m")
LEFT = Partner("images.left", "images.left", ("l/*.png",), "l")
PHOTO = JoinSide("k.jpg", 10, 1, "", "", kind=Kind.IMAGE)
ROW = JoinSide("", 0, 0, "cat", "labels.csv:2")
MASK = partner_side("mask", "k.png", 20, 3)
OTHER = partner_side("mask", "한/k.png", 21, 4)
LEFT_ONE = partner_side("images.left", "k.png", 30, 5)


def join(
    *sides: JoinSide,
    partners: tuple[Partner, ...] = (MASKS,),
    label_from: str = "none",
    key: str = "k",
) -> list[Joined]:
    assigner = SplitAssigner(Splits((("train", 1.0),)), seed=0)
    images = functools.partial(join_group, rules=JoinRules(label_from, assigner))
    return list(join_partners(key, sides, join=images, partners=partners))


@pytest.mark.parametrize(
    ("key", "extension", "more"),
    [
        ("a/k.JPG", ".jpg", "; the key of its file is 'a/k.jpg', with '.jpg' as in --images"),
        ("k.jpg", ".JPG", "; the key of its file is 'k.JPG', with '.JPG' as in --images"),
        ("k.jpg", ".jpg", ""),
        ("k.png", ".jpg", ""),
        ("k", "", ""),
    ],
)
def test_the_case_of_an_extension_is_said(key: str, extension: str, more: str) -> None:
    [rejected] = join(PHOTO, partners=(MASKS._replace(extension=extension),), key=key)
    assert isinstance(rejected, Rejection)
    said = f"no file of --masks has the key {key!r}{more}"
    assert rejected.detail == said + ": rename the image" * bool(more)


def test_an_image_and_its_mask() -> None:
    [image] = join(MASK, PHOTO)
    assert isinstance(image, LabelledImage) and image.path == "k.jpg"
    assert partner_files(image.partners) == [PartnerFile("k.png", 20, 3)]


def test_an_image_its_row_and_all_of_its_partners_in_their_order() -> None:
    [image] = join(LEFT_ONE, ROW, PHOTO, OTHER, partners=(LEFT, MASKS), label_from="csv")
    assert isinstance(image, LabelledImage) and (image.label, image.rows) == ("cat", 1)
    assert partner_files(image.partners) == [
        PartnerFile("k.png", 30, 5),
        PartnerFile("한/k.png", 21, 4),
    ]


@pytest.mark.parametrize(
    "sides, reason, detail",
    [
        ([LEFT_ONE], "no_partner", "no file of --masks has the key 'k'"),
        (
            [MASK, OTHER],
            "several_partners",
            "2 files of --masks have the key 'k': 'k.png', '한/k.png'",
        ),
    ],
)
def test_an_image_without_exactly_one_mask_is_rejected(
    sides: list[JoinSide], reason: str, detail: str
) -> None:
    rejected, *counts = join(PHOTO, ROW, *sides, label_from="csv")
    assert rejected == Rejection("image", reason, detail, "k.jpg", "k")
    assert counts == [Count("rows_rejected", 1), Count("partners_rejected", len(sides))]


def test_masks_without_an_image_are_listed() -> None:
    detail = "no image has the key 'k' of this file of --masks"
    assert join(OTHER, MASK) == [
        Rejection("partner", "partner_without_image", detail, "m/k.png", "k"),
        Rejection("partner", "partner_without_image", detail, "m/한/k.png", "k"),
    ]


def test_the_mask_of_a_rejected_image_is_counted() -> None:
    rejected, count = join(PHOTO, MASK, label_from="csv")
    assert isinstance(rejected, Rejection) and rejected.reason == "no_label"
    assert count == Count("partners_rejected", 1)


def test_a_mask_that_two_globs_match_is_one_in_its_newest_version() -> None:
    count, image = join(MASK._replace(version=2, size=99), MASK, PHOTO)
    assert count == Count("partners_found_again", 1)
    assert isinstance(image, LabelledImage)
    assert partner_files(image.partners) == [PartnerFile("k.png", 20, 3)]


def test_keys_that_are_not_listed_leave_their_masks_out() -> None:
    selected = functools.partial(
        join_selected, join=lambda key, sides: join(*sides, label_from="none")
    )
    assert list(selected("k", [PHOTO, ROW, MASK, MASK])) == [
        Count("partners_left_out", 1),
        Count("partners_found_again", 1),
        Count("images_left_out", 1),
        Count("rows_left_out", 1),
    ]
    [image] = selected("k", [PHOTO, MASK, key_line("keys.txt:1")])
    assert isinstance(image, LabelledImage) and image.partners


@given(st.lists(st.sampled_from([PHOTO, ROW, MASK, OTHER, LEFT_ONE])))
def test_every_file_is_accounted_for(sides: list[JoinSide]) -> None:
    found = join(*sides, partners=(LEFT, MASKS))
    counts: Counter[str] = Counter()
    for each in found:
        if isinstance(each, Count):
            counts[each.name] += each.value
        elif isinstance(each, LabelledImage):
            counts["used"] += len(partner_files(each.partners))
        else:
            counts[each.subject] += 1
    files = sum(side in (MASK, OTHER, LEFT_ONE) for side in sides)
    assert files == (
        counts["partners_found_again"]
        + counts["used"]
        + counts["partners_rejected"]
        + counts["partner"]
    )


def test_the_recipe_of_a_shard_has_its_masks() -> None:
    plain = ShardImage(0, "k", "k.jpg", 10, 1, "", 0)
    masked = plain._replace(partners=(("k.png", 20, 3),))
    newer = plain._replace(partners=(("k.png", 20, 4),))
    assert len({shard_recipe("", "a", [each]) for each in (plain, masked, newer)}) == 3
    assert shard_recipe("", "a", [plain]) == shard_recipe("", "a", [plain._replace(stored="x")])
