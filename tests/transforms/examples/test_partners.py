"""Masks and further images: their keys, their joins and their checks."""

import functools
import itertools
from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from tests.images import saved
from tests.marks import cases
from transforms.core.records import Count, JoinSide, Kind, PartnerFile, PlannedImage, partner_files
from transforms.core.rejections import Rejection
from transforms.examples.partners import (
    Joined,
    Partner,
    PartnerKeys,
    join_partners,
    partner_problems,
    partner_side,
)
from transforms.images.check import check_image
from transforms.images.checked_images import ImageInfo
from transforms.images.pixel_options import DEFAULT_LIMITS
from transforms.labels.joins import JoinRules, join_group, join_selected, key_line
from transforms.labels.keys import any_case, expand_braces, fixed_root, glob_regex, image_key
from transforms.labels.shards import SplitAssigner, Splits

# An image gets one file of each partner, or is rejected; no file is lost or counted twice.

MASKS = Partner("mask", "--masks", ("m/*.png",), "m")
LEFT = Partner("images.left", "images.left", ("l/*.png",), "l")
PHOTO = JoinSide("k.jpg", 10, 1, "", "", kind=Kind.IMAGE)
ROW = JoinSide("", 0, 0, "cat", "labels.csv:2")
MASK = partner_side("mask", "k.png", 20, 3)
OTHER = partner_side("mask", "한/k.png", 21, 4)
OLDER = MASK._replace(version=2, size=99)
LEFT_ONE = partner_side("images.left", "k.png", 30, 5)
MASK_FILE = PartnerFile("k.png", 20, 3)


def join(
    *sides: JoinSide,
    partners: tuple[Partner, ...] = (MASKS,),
    label_from: str = "none",
    key: str = "k",
) -> list[Joined]:
    assigner = SplitAssigner(Splits((("train", 1.0),)), seed=0)
    images = functools.partial(join_group, rules=JoinRules(label_from, assigner))
    return list(join_partners(key, sides, join=images, partners=partners))


LEFT_FILE, OTHER_FILE = PartnerFile("k.png", 30, 5), PartnerFile("한/k.png", 21, 4)


@cases(
    ([MASK, PHOTO], (MASKS,), [MASK_FILE]),
    ([LEFT_ONE, ROW, PHOTO, OTHER], (LEFT, MASKS), [LEFT_FILE, OTHER_FILE]),
    # A mask that two globs match is one in its newest version.
    ([OLDER, MASK, PHOTO], (MASKS,), [MASK_FILE]),
)
def test_an_image_gets_a_file_of_each_partner_in_their_order(
    sides: list[JoinSide], partners: tuple[Partner, ...], files: list[PartnerFile]
) -> None:
    *counts, found = join(*sides, partners=partners, label_from="csv" if ROW in sides else "none")
    assert isinstance(found, PlannedImage) and found.path == "k.jpg"
    assert (found.label, found.rows) == (("cat", 1) if ROW in sides else ("", 0))
    assert partner_files(found.partners) == files
    assert counts == [Count("partners_found_again", 1)] * (OLDER in sides)


def rejected(subject: str, reason: str, detail: str, path: str = "k.jpg") -> Rejection:
    return Rejection(subject, reason, detail, path, "k")


def gone(**counts: int) -> list[Count]:
    return [Count(f"{name}_rejected", count) for name, count in counts.items()]


NONE = rejected("image", "no_partner", "no file of --masks has the key 'k'")
TWO = "2 files of --masks have the key 'k': 'k.png', '한/k.png'"
NO_LABEL = rejected("image", "no_label", "no row has the key 'k'")
ALONE = ("partner", "partner_without_image", "no image has the key 'k' of this file of --masks")


@cases(
    ([PHOTO, ROW, LEFT_ONE], [NONE, *gone(rows=1, partners=1)]),
    (
        [PHOTO, ROW, MASK, OTHER],
        [rejected("image", "several_partners", TWO), *gone(rows=1, partners=2)],
    ),
    ([PHOTO, MASK], [NO_LABEL, *gone(partners=1)]),
    ([OTHER, MASK], [rejected(*ALONE, "m/k.png"), rejected(*ALONE, "m/한/k.png")]),
)
def test_files_that_find_no_match(sides: list[JoinSide], results: list[Joined]) -> None:
    assert join(*sides, label_from="csv") == results


@cases(
    ("a/k.JPG", ".jpg", "; the key of its file is 'a/k.jpg', with '.jpg' as in --images"),
    ("k.jpg", ".JPG", "; the key of its file is 'k.JPG', with '.JPG' as in --images"),
    ("k.jpg", ".jpg", ""),
    ("k.png", ".jpg", ""),
    ("k", "", ""),
)
def test_the_case_of_an_extension_is_said(key: str, extension: str, more: str) -> None:
    [found] = join(PHOTO, partners=(MASKS._replace(extension=extension),), key=key)
    assert isinstance(found, Rejection)
    said = f"no file of --masks has the key {key!r}{more}"
    assert found.detail == said + ": rename the image" * bool(more)


def test_keys_that_are_not_listed_leave_their_masks_out() -> None:
    def images(key: str, sides: Any) -> list[Joined]:
        return join(*sides)

    assert list(join_selected("k", [PHOTO, ROW, MASK, MASK], join=images)) == [
        Count("partners_left_out", 1),
        Count("partners_found_again", 1),
        Count("images_left_out", 1),
        Count("rows_left_out", 1),
    ]
    [found] = join_selected("k", [PHOTO, MASK, key_line("keys.txt:1")], join=images)
    assert isinstance(found, PlannedImage) and found.partners


@given(st.lists(st.sampled_from([PHOTO, ROW, MASK, OTHER, LEFT_ONE])))
def test_every_file_is_accounted_for(sides: list[JoinSide]) -> None:
    counts: Counter[str] = Counter()
    for each in join(*sides, partners=(LEFT, MASKS)):
        if isinstance(each, Count):
            counts[each.name] += each.value
        elif isinstance(each, PlannedImage):
            counts["used"] += len(partner_files(each.partners))
        else:
            counts[each.subject] += 1
    files = sum(side in (MASK, OTHER, LEFT_ONE) for side in sides)
    kinds = ("partners_found_again", "used", "partners_rejected", "partner")
    assert files == sum(counts[kind] for kind in kinds)


# Masks and further images of a record that do not fit its image.

STORED_MASK = saved(Image.new("L", (16, 12)), "PNG")
TALL = saved(Image.new("L", (12, 16)), "PNG")
WIDE = saved(Image.new("L", (20, 12)), "PNG")
COLORED = saved(Image.new("RGB", (16, 12)), "PNG")


def problems(held: dict[str, list[bytes]]) -> tuple[list[str], int]:
    """The problems of masks of an image of 12 x 16 pixels, and how many were decoded."""
    decoded = []

    def decode(data: bytes) -> ImageInfo:
        decoded.append(data)
        return check_image(data, limits=DEFAULT_LIMITS)

    return list(partner_problems(held, (12, 16), decode)), len(decoded)


@cases(
    ({"object.mask": []}, []),
    ({"object.mask": [STORED_MASK, STORED_MASK]}, []),
    (
        {"object.mask": [STORED_MASK, TALL]},
        ["the mask of object 1 (object.mask) is 16 x 12, the image 12 x 16"],
    ),
    (
        {"object.mask": [COLORED, STORED_MASK, b""]},
        [
            "the mask of object 0 (object.mask) is a png of 3 channels, not a gray PNG",
            "the mask of object 2 (object.mask) is empty_file: 0 bytes",
        ],
    ),
    ({"mask.bytes": [WIDE]}, ["the mask (mask.bytes) is 12 x 20, the image 12 x 16"]),
    (
        {"mask.bytes": [TALL], "mask.format": [b"gif"]},
        [
            "the mask (mask.bytes) is png, the record says gif",
            "the mask (mask.bytes) is 16 x 12, the image 12 x 16",
        ],
    ),
)
def test_masks_of_records(held: dict[str, list[bytes]], found: list[str]) -> None:
    assert problems(held)[0] == found


def test_equal_masks_are_decoded_once_and_others_only_if_it_does_not_take_long() -> None:
    """Each of them costs as much as its image, and a record of 100 MB may hold 5,000."""
    assert problems({"object.mask": [STORED_MASK] * 900}) == ([], 1)
    masks = [b"%d" % number for number in range(5000)]
    [problem] = partner_problems({"object.mask": masks}, (5000, 4000), lambda _: 1 / 0)
    assert problem.startswith("the masks of 5000 objects, each of 5000 x 4000 pixels")


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


@cases(
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
    # Images that rows list have no ending.
    ("m/1_mask.png", "m/*_mask.png", "", "1"),
)
def test_stems(uri: str, glob: str, images: str, key: str) -> None:
    assert key_of(uri, glob, images=(images,) if images else ()) == key


@cases(
    ("m/a/1.png", "m/*/*.png", "p/*/*.png", "a/1.png"),
    # DAVIS: stems repeat, and extensions differ.
    ("m/bear/00000.png", "m/*/*.png", "p/*/*.jpg", "bear/00000.jpg"),
    ("m/bear/1_mask.png", "m/*/*_mask.png", "p/*/*.jpg", "bear/1.jpg"),
    ("g/x/1_gtFine.png", "g/*/*_gtFine.png", CITYSCAPES, "x/1_leftImg8bit.png"),
    ("m/a/1.PNG", "m/*/*.png", "p/*/*.png", "a/1.PNG"),
    # Which extension the image has is not known.
    ("m/a/1_mask.png", "m/*/*_mask.png", "p/*/*.{png,jpg}", "a/1.png"),
    ("m/a/1_mask.png", "m/*/*_mask.png", "p/**", "a/1.png"),
    ("m/a/1_mask.png", "m/*/*_mask.png", "", "a/1.png"),
    # The folder is the name.
    ("c/7/mask.png", "c/*/mask.png", "c/*/image.jpg", "7/image.jpg"),
    ("c/7/mask.png", "c/*/mask.png", "c/*/{image,photo}.jpg", "7/mask.jpg"),
    ("c/7/mask.png", "c/*/mask.png", "c/*/*.jpg", "7/mask.jpg"),
)
def test_paths(uri: str, glob: str, images: str, key: str) -> None:
    listed = (images,) if images else ()
    assert key_of(uri, glob, images=listed, kind="path") == key
    assert key_of(uri, glob, images=listed, kind="name") == key.rpartition("/")[2]


@cases(("1_gt_color", "1"), ("1_color", "1"), ("1", "1"), ("1_gt", "1_gt"))
def test_of_several_globs_the_longest_ending_counts(name: str, key: str) -> None:
    globs = ("g/*/*.png", "g/**/*_color.png", "./g/*/*_gt_color.png")
    assert key_of(f"g/a/{name}.png", *globs) == key


ENDINGS = st.sampled_from(["", "_a", "_mask", "_b_mask", "0", "_a.b"])
STEMS = st.sampled_from(["1", "x_a", "1_mask", "q0", "한"])


@given(STEMS, ENDINGS, ENDINGS, st.sampled_from(["png", "p*", "*"]))
def test_endings_of_masks_and_images_match(stem: str, own: str, other: str, extension: str) -> None:
    image = f"{stem}{other}"
    # Where a name can end as both globs say, equal names belong together.
    mask = image if other.endswith(own) else f"{stem}{own}"
    key = key_of(f"m/{mask}.png", f"m/*{own}.{extension}", images=(f"p/*{other}.jpg",))
    assert key == image_key(f"p/{image}.jpg", kind="stem", root="p")
