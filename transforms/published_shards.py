"""The shards of a finished dataset, with which a run compares its plan."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from typing import Any, NamedTuple

from transforms.core.dataset.manifest import manifest_shards
from transforms.core.dataset.output_names import MANIFEST, REJECTED
from transforms.core.images.checked_image import CheckedImage
from transforms.core.rejections import Reason, Rejection
from transforms.shard_converter import Planned
from transforms.storage.files import join, read_manifest
from transforms.stored_records import unreadable_keys

_NONE: Mapping[str, Mapping[str, Any]] = {}


class PublishedShards(NamedTuple):
    """What the manifest says of the shards.

    Attributes:
        recipes: of all shards.
        shards: their entries by name; empty for single-image files, of which it lists every one.
        unreadable: keys of the images that were left out because they were unreadable.
    """

    recipes: Set[str] = frozenset()
    shards: Mapping[str, Mapping[str, Any]] = _NONE
    unreadable: Set[str] = frozenset()

    def has_become_readable(
        self,
        images: Iterable[Planned],
        load: Callable[[Iterable[Planned]], Iterable[CheckedImage | Rejection]],
    ) -> bool:
        """Whether an image that was unreadable for the dataset can be read now.

        A permission that was granted since changes no version, and so no recipe.

        Args:
            images: of a planned shard.
            load: reads images.
        """
        if not self.unreadable:
            return False
        missed = (image for image in images if image.key in self.unreadable)
        return any(
            isinstance(result, CheckedImage) or result.reason != Reason.UNREADABLE
            for result in load(missed)
        )


def read_published(output: str, *, per_image: bool) -> PublishedShards:
    """The shards of the dataset in a folder; none if it is gone meanwhile.

    Args:
        output: the folder.
        per_image: whether every image has its own file.

    Raises:
        ManifestError: its manifest cannot be used.
    """
    manifest = read_manifest(join(output, MANIFEST))
    if manifest is None:
        return PublishedShards()
    shards = manifest_shards(manifest)
    rejected = manifest["files"].get(REJECTED, {"bytes": 0})
    # The lines of other rejections may be gigabytes.
    has_unreadable = manifest["rejected"].get(Reason.UNREADABLE.value, 0) > 0
    return PublishedShards(
        {shard["recipe"] for shard in shards},
        {} if per_image else {shard["file"]: shard for shard in shards},
        unreadable_keys(output, rejected["bytes"]) if has_unreadable else frozenset(),
    )
