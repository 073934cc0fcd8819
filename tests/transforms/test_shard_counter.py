"""What a shard knows of the images that go into it."""

from __future__ import annotations

import pytest

from tests.transforms.core.checked_images import checked
from transforms.images.check import CheckedPartner
from transforms.images.pixel_options import FROM_HEIC, UNTOUCHED
from transforms.labels.shards import Recipes
from transforms.write_shards import ShardCounter

RECIPES = Recipes("unchanged", "changed", "from HEIC")
TURNED = ("turned", "reencoded")


@pytest.mark.parametrize(
    ("changes", "is_changed"),
    [
        ([UNTOUCHED, UNTOUCHED], False),
        ([TURNED, UNTOUCHED], True),
        ([UNTOUCHED, TURNED], True),
    ],
)
def test_one_changed_image_changes_the_shard(
    changes: list[tuple[str, ...]], is_changed: bool
) -> None:
    """Then its recipe names the versions of the libraries that change pixels."""
    counter = ShardCounter("train-00000-of-00001.tfrecord", of_images=True)
    images = [checked()._replace(changes=each) for each in changes]
    assert list(counter.observe(images)) == images
    assert counter.is_changed is is_changed
    assert counter.pixels["untouched"] == changes.count(UNTOUCHED)
    assert counter.recipe(RECIPES) == ("changed" if is_changed else "unchanged")


def test_a_heic_brings_the_version_of_its_decoder_into_the_recipe() -> None:
    counter = ShardCounter("train-00000-of-00001.tfrecord", of_images=True)
    images = [checked()._replace(changes=each) for each in (("transcoded", FROM_HEIC), UNTOUCHED)]
    assert list(counter.observe(images)) == images
    assert counter.has_heic and counter.recipe(RECIPES) == "from HEIC"


@pytest.mark.parametrize("changes", [UNTOUCHED, ("transcoded", FROM_HEIC)])
def test_a_heic_among_further_images_does_too(changes: tuple[str, ...]) -> None:
    counter = ShardCounter("train-00000-of-00001.tfrecord", of_images=True)
    right = CheckedPartner(9, "jpeg", has_place=True, changes=("transcoded", FROM_HEIC))
    image = checked()._replace(changes=changes, partners=(CheckedPartner(9, "png"), right))
    assert list(counter.observe([image])) == [image]
    assert counter.pixels[FROM_HEIC] == 1 and counter.recipe(RECIPES) == "from HEIC"
    assert counter.statistics.gps == 1
