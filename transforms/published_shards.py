"""The shards of a finished dataset, with which a run compares its plan."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from typing import Any, NamedTuple

from transforms.core.dataset.manifest import manifest_shards
from transforms.core.dataset.output_names import MANIFEST, REJECTED
from transforms.core.images.checked_image import CheckedImage
from transforms.core.rejections import RETRIED, Rejection
from transforms.shard_converter import Planned
from transforms.storage.files import join, read_manifest
from transforms.stored_records import retried_keys

_NONE: Mapping[str, Mapping[str, Any]] = {}


class PublishedShards(NamedTuple):
    """What the manifest says of the shards.

    Attributes:
        recipes: of all shards.
        shards: their entries by name; empty for single-image files, of which it lists every one.
        retried: keys of the images that were left out for one of the reasons `RETRIED`.
    """

    recipes: Set[str] = frozenset()
    shards: Mapping[str, Mapping[str, Any]] = _NONE
    retried: Set[str] = frozenset()

    def has_become_readable(
        self,
        images: Iterable[Planned],
        load: Callable[[Iterable[Planned]], Iterable[CheckedImage | Rejection]],
    ) -> bool:
        """Whether an image that could not be read for the dataset can be read now.

        A permission that was granted since, or a decoder that was installed, changes no recipe.

        Args:
            images: of a planned shard.
            load: reads images.
        """
        if not self.retried:
            return False
        missed = (image for image in images if image.key in self.retried)
        return any(
            isinstance(result, CheckedImage) or result.reason not in RETRIED
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
    has_retried = any(manifest["rejected"].get(reason) for reason in RETRIED)
    return PublishedShards(
        {shard["recipe"] for shard in shards},
        {} if per_image else {shard["file"]: shard for shard in shards},
        retried_keys(output, rejected["bytes"]) if has_retried else frozenset(),
    )
