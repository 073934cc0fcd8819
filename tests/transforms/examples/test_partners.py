"""Masks and further images: their keys, their joins and their checks."""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from tests.images import saved
from transforms.core.records import (
    Count,
    JoinSide,
    Kind,
    PartnerFile,
    PlannedImage,
    partner_files,
)
from transforms.core.rejections import Rejection
from transforms.examples.partners import (
    Joined,
    Partner,
    PartnerKeys,
    join_partners,
    partner_problems,
    partner_side,
)
from transforms.images.check import ImageInfo, check_image
from transforms.images.pixel_options import DEFAULT_LIMITS
from transforms.labels.joins import JoinRules, join_group, join_selected, key_line
from transforms.labels.keys import any_case, expand_braces, fixed_root, glob_regex, image_key
from transforms.labels.shards import SplitAssigner, Splits, shard_recipe

# An image gets one file of each partner, or is rejected; no file is lost or counted twice.

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
    assert isinstance(image, PlannedImage) and image.path == "k.jpg"
    assert partner_files(image.partners) == [PartnerFile("k.png", 20, 3)]


def test_an_image_its_row_and_all_of_its_partners_in_their_order() -> None:
    [image] = join(LEFT_ONE, ROW, PHOTO, OTHER, partners=(LEFT, MASKS), label_from="csv")
    assert isinstance(image, PlannedImage) and (image.label, image.rows) == ("cat", 1)
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
    assert isinstance(image, PlannedImage)
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
    assert isinstance(image, PlannedImage) and image.partners


@given(st.lists(st.sampled_from([PHOTO, ROW, MASK, OTHER, LEFT_ONE])))
def test_every_file_is_accounted_for(sides: list[JoinSide]) -> None:
    found = join(*sides, partners=(LEFT, MASKS))
    counts: Counter[str] = Counter()
    for each in found:
        if isinstance(each, Count):
            counts[each.name] += each.value
        elif isinstance(each, PlannedImage):
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
    plain = PlannedImage(0, "k", "k.jpg", 10, 1, "", 0)
    masked = plain._replace(partners=(("k.png", 20, 3),))
    newer = plain._replace(partners=(("k.png", 20, 4),))
    assert len({shard_recipe("", "a", [each]) for each in (plain, masked, newer)}) == 3
    assert shard_recipe("", "a", [plain]) == shard_recipe("", "a", [plain._replace(stored="x")])


# Masks and further images of a record that do not fit its image.

STORED_MASK = saved(Image.new("L", (16, 12)), "PNG")
TALL = saved(Image.new("L", (12, 16)), "PNG")
COLORED = saved(Image.new("RGB", (16, 12)), "PNG")


def problems(**held: Any) -> list[str]:
    decode = functools.partial(check_image, limits=DEFAULT_LIMITS)
    return list(partner_problems(held, (12, 16), decode))


@pytest.mark.parametrize(
    ("masks", "found"),
    [
        ([], []),
        ([STORED_MASK, STORED_MASK], []),
        (
            [STORED_MASK, TALL],
            ["the mask of object 1 (object.mask) is 16 x 12, the image 12 x 16"],
        ),
        (
            [COLORED, STORED_MASK, b""],
            [
                "the mask of object 0 (object.mask) is a png of 3 channels, not a gray PNG",
                "the mask of object 2 (object.mask) is empty_file: 0 bytes",
            ],
        ),
    ],
)
def test_masks_of_objects(masks: list[bytes], found: list[str]) -> None:
    assert problems(**{"object.mask": masks}) == found


def test_a_mask_that_is_wider() -> None:
    wide = saved(Image.new("L", (20, 12)), "PNG")
    assert problems(**{"mask.bytes": [wide]}) == [
        "the mask (mask.bytes) is 12 x 20, the image 12 x 16"
    ]


def test_the_mask_of_an_image() -> None:
    held = {"mask.bytes": [TALL], "mask.format": [b"gif"]}
    assert problems(**held) == [
        "the mask (mask.bytes) is png, the record says gif",
        "the mask (mask.bytes) is 16 x 12, the image 12 x 16",
    ]


def test_masks_that_would_take_long_are_not_decoded() -> None:
    """Each of them costs as much as its image, and a record of 100 MB may hold 5,000."""
    masks = [b"%d" % number for number in range(5000)]
    [problem] = partner_problems({"object.mask": masks}, (5000, 4000), lambda _: 1 / 0)
    assert problem.startswith("the masks of 5000 objects, each of 5000 x 4000 pixels")


def test_equal_masks_are_decoded_once() -> None:
    decoded = []

    def decode(data: bytes) -> ImageInfo:
        decoded.append(data)
        return check_image(data, limits=DEFAULT_LIMITS)

    assert list(partner_problems({"object.mask": [STORED_MASK] * 900}, (12, 16), decode)) == []
    assert len(decoded) == 1


# A mask belongs to the image whose name has another ending; no file has two keys.

JPEG = "p/*.jpg"


def key_of(uri: str, *globs: str, images: tuple[str, ...] = (JPEG,), kind: str = "stem") -> str:
    """The key of a file of a partner, listed by the first glob that matches it."""
    plain = tuple(itertools.chain.from_iterable(map(expand_braces, globs)))
    partner = Partner("mask", "--masks", plain, fixed_root(plain))
    shown = tuple(itertools.chain.from_iterable(map(expand_braces, images)))
    keys = PartnerKeys(partner, kind=kind, images=shown)
    matching = [glob for glob in plain if glob_regex(any_case(glob)).fullmatch(uri)]
    found = {keys.of_glob(glob)(uri) for glob in matching}
    assert len(found) == 1, "the glob that lists a file must not decide its key"
    return found.pop()


CITYSCAPES = "l/**/*_leftImg8bit.png"


@pytest.mark.parametrize(
    "uri, glob, images, key",
    [
        ("m/1.png", "m/*.png", JPEG, "1"),
        # Carvana.
        ("m/1_mask.gif", "m/*_mask.gif", JPEG, "1"),
        ("m/1_mask.GIF", "m/*_mask.gif", JPEG, "1"),
        ("m/1_mask.png", "m/*_mask.*", "p/*.*", "1"),
        ("m/1_mask.png", "m/**/*_mask.[pP][nN][gG]", "p/**", "1"),
        ("m/1_mask", "m/*_mask", "p/*", "1"),
        ("m/IMG_0001_mask.png", "m/IMG_????_mask.png", JPEG, "IMG_0001"),
        ("m/1_a.png", "m/*_{a,b}.png", JPEG, "1"),
        ("m/1_b.png", "m/*_{a,b}.png", JPEG, "1"),
        ("a.zip!/m/1_mask.png", "a.zip!/m/*_mask.png", "a.zip!**/*.jpg", "1"),
        # Cityscapes: the key of an image stays whole.
        ("g/x/1_gtFine_labelIds.png", "g/**/*_gtFine_labelIds.png", CITYSCAPES, "1_leftImg8bit"),
        ("m/1_mask.png", "m/*_mask.png", "p/*_sat.{jpg,png}", "1_sat"),
        # What is not fixed is no ending.
        ("m/1_a.png", "m/*_[ab].png", JPEG, "1_a"),
        ("m/1_mask2.png", "m/*_mask?.png", JPEG, "1_mask2"),
        ("m/1[.png", "m/*[.]png", JPEG, "1["),
        # Globs may also select files: these names can be equal.
        ("m/10.png", "m/*0.png", "p/*0.jpg", "10"),
        ("m/10.png", "m/*0.png", "p/*{0,5}.jpg", "10"),
        ("m/a_1.png", "m/*1.png", "p/*_1.jpg", "a_1"),
        ("m/1.png", "m/*.png", "p/*_sat.jpg", "1"),
        # Images with several endings are found by their whole keys.
        ("m/1_left_mask.png", "m/*_mask.png", "p/*_{left,right}.jpg", "1_left"),
        # Files that are named one by one.
        ("m/1.png", "m/1.png", JPEG, "1"),
        ("m/1_mask.png", "m/1_mask.png", JPEG, "1_mask"),
        ("m/1_mask.png", "m/1_mask.png", "p/1.jpg", "1"),
        ("m/1_mask.png", "m/*_mask.png", "p/{1,2}.jpg", "1"),
        # A name that is nothing but the ending.
        ("m/_mask.png", "m/*_mask.png", JPEG, "_mask"),
    ],
)
def test_stems(uri: str, glob: str, images: str, key: str) -> None:
    assert key_of(uri, glob, images=(images,)) == key


@pytest.mark.parametrize(
    "uri, glob, images, key",
    [
        ("m/a/1.png", "m/*/*.png", "p/*/*.png", "a/1.png"),
        # DAVIS: stems repeat, and extensions differ.
        ("m/bear/00000.png", "m/*/*.png", "p/*/*.jpg", "bear/00000.jpg"),
        ("m/bear/1_mask.png", "m/*/*_mask.png", "p/*/*.jpg", "bear/1.jpg"),
        ("g/x/1_gtFine.png", "g/*/*_gtFine.png", CITYSCAPES, "x/1_leftImg8bit.png"),
        ("m/a/1.PNG", "m/*/*.png", "p/*/*.png", "a/1.PNG"),
        # Which extension the image has is not known.
        ("m/a/1_mask.png", "m/*/*_mask.png", "p/*/*.{png,jpg}", "a/1.png"),
        ("m/a/1_mask.png", "m/*/*_mask.png", "p/**", "a/1.png"),
        # The folder is the name.
        ("c/7/mask.png", "c/*/mask.png", "c/*/image.jpg", "7/image.jpg"),
        ("c/7/mask.png", "c/*/mask.png", "c/*/{image,photo}.jpg", "7/mask.jpg"),
        ("c/7/mask.png", "c/*/mask.png", "c/*/*.jpg", "7/mask.jpg"),
    ],
)
def test_paths(uri: str, glob: str, images: str, key: str) -> None:
    assert key_of(uri, glob, images=(images,), kind="path") == key
    name = key.rpartition("/")[2]
    assert key_of(uri, glob, images=(images,), kind="name") == name


def test_of_several_globs_the_longest_ending_counts() -> None:
    globs = ("g/*/*.png", "g/**/*_color.png", "./g/*/*_gt_color.png")
    assert key_of("g/a/1_gt_color.png", *globs) == "1"
    assert key_of("g/a/1_color.png", *globs) == "1"
    assert key_of("g/a/1.png", *globs) == "1"
    assert key_of("g/a/1_gt.png", *globs) == "1_gt"


def test_images_that_rows_list_have_no_ending() -> None:
    assert key_of("m/1_mask.png", "m/*_mask.png", images=()) == "1"
    assert key_of("m/a/1_mask.png", "m/*/*_mask.png", images=(), kind="path") == "a/1.png"


ENDINGS = st.sampled_from(["", "_a", "_mask", "_b_mask", "0", "_a.b"])
STEMS = st.sampled_from(["1", "x_a", "1_mask", "q0", "한"])


@given(STEMS, ENDINGS, ENDINGS, st.sampled_from(["png", "p*", "*"]))
def test_the_ending_of_masks_stands_for_that_of_images(
    stem: str, own: str, other: str, extension: str
) -> None:
    image = f"{stem}{other}"
    # Where a name can end as both globs say, equal names belong together.
    mask = image if other.endswith(own) else f"{stem}{own}"
    key = key_of(f"m/{mask}.png", f"m/*{own}.{extension}", images=(f"p/*{other}.jpg",))
    assert key == image_key(f"p/{image}.jpg", kind="stem", root="p")
