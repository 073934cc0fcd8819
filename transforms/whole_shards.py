"""Planned shards that a base holds byte for byte: they are copied or linked, not read.

The recipe of a shard is a digest of its name, its images with their labels, the options that decide
bytes and the versions of libraries: equal recipes mean equal bytes. A shard that a base
lists under the recipe of a planned one, and whose records are the planned images in their order, is
therefore the planned shard. Its checksum in the base's manifest proves the copy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from transforms.core.file_errors import check_final
from transforms.core.images.checked_image import CheckedImage
from transforms.core.images.pixel_options import UNTOUCHED
from transforms.core.index.stored_images import BaseShard, StoredImage
from transforms.core.planning.recipes import Recipes
from transforms.core.records import ShardImage
from transforms.core.rejections import Rejection
from transforms.read_base import Base
from transforms.storage.files import join, storage_of

Described = CheckedImage | Rejection


class WholeShard(NamedTuple):
    """A shard of a base that is a planned one.

    Attributes:
        path: of its file.
        entry: what the manifest of the base says of it.
        images: what its records are made of, without the images, and the rejected ones in between.
        lengths: bytes of each record's data.
    """

    path: str
    entry: BaseShard
    images: list[Described]
    lengths: list[int]


def find_whole_shard(
    name: str,
    recipes: Recipes,
    images: Sequence[ShardImage],
    *,
    bases: Sequence[Base],
    describe: Callable[[ShardImage, StoredImage], Described | None],
    load: Callable[[Sequence[ShardImage]], Iterable[Described]],
) -> WholeShard | None:
    """The shard of a base that equals a planned one, or None.

    Args:
        name: of the planned shard.
        recipes: that it may have.
        images: planned for it, in their order.
        bases: the datasets.
        describe: what is known of an image without reading it; None if that is not enough.
        load: reads the images that the base does not hold, in their order, several at once: it
            rejected them, and they must be rejected again.
    """
    first = next((image for image in images if image.stored), None)
    if first is None:
        return None
    for stored in StoredImage.all_of_text(first.stored):
        entry = stored.whole
        if entry is None or stored.shard != name or entry.recipe not in recipes:
            continue
        found = [_record_in(stored, image) for image in images]
        records = [each for each in found if each is not None]
        if [each.record for each in records] != list(range(entry.records)):
            continue
        described = _described(images, found, entry, recipes, describe, load)
        if described is not None:
            path = join(bases[stored.base].folder, name)
            return WholeShard(path, entry, described, [each.length for each in records])
    return None


def _record_in(stored: StoredImage, image: ShardImage) -> StoredImage | None:
    """The record of an image in the same shard; None if it is not there."""
    if not image.stored:
        return None
    places = StoredImage.all_of_text(image.stored)
    return next((each for each in places if each[:2] == stored[:2]), None)


def _described(
    images: Sequence[ShardImage],
    found: Sequence[StoredImage | None],
    entry: BaseShard,
    recipes: Recipes,
    describe: Callable[[ShardImage, StoredImage], Described | None],
    load: Callable[[Sequence[ShardImage]], Iterable[Described]],
) -> list[Described] | None:
    """What the records of a shard are made of, and what is rejected; None if it is another one."""
    described = {
        image.key: describe(image, record)
        for image, record in zip(images, found, strict=True)
        if record is not None
    }
    checked = [each for each in described.values() if isinstance(each, CheckedImage)]
    # If a record is rejected now, the shard is another one.
    if len(checked) != len(described):
        return None
    is_changed = any(each.changes != UNTOUCHED for each in checked)
    has_heic = any(each.has_heic for each in checked)
    if entry.recipe != recipes.of(is_changed=is_changed, has_heic=has_heic):
        return None
    missed = [image for image, record in zip(images, found, strict=True) if record is None]
    for image, result in zip(missed, load(missed), strict=True):
        # So it is if an image is accepted now.
        if not isinstance(result, Rejection):
            return None
        described[image.key] = result
    return [each for image in images if (each := described[image.key]) is not None]


def is_copied(whole: WholeShard, target: str) -> bool:
    """Whether a shard can be copied within its storage.

    Args:
        whole: the shard.
        target: where to, or a folder there.
    """
    return type(storage_of(target)) is type(storage_of(whole.path))


def copy_whole(whole: WholeShard, target: str) -> bool:
    """Copies a shard within its storage, and compares the checksum of the copy.

    Returns:
        False if that cannot be done, or the shard is damaged: then its records are read, and a line
        says which file they cannot be taken from.

    Raises:
        TransientError: a retry may succeed.
    """
    if not is_copied(whole, target):
        return False
    entry = whole.entry
    try:
        return storage_of(target).copy(whole.path, target, size=entry.bytes, crc32c=entry.crc32c)
    except OSError as error:
        check_final(error, whole.path)
        return False
