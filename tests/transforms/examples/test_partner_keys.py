"""A mask belongs to the image whose name has another ending; no file has two keys."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transforms.examples.partners import Partner, PartnerKeys
from transforms.labels.keys import any_case, expand_braces, fixed_root, glob_regex, image_key

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
