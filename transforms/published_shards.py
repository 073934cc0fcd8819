"""The shards of a finished dataset, with which a run compares its plan."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import Any, NamedTuple, cast

from transforms.core.dataset.manifest import manifest_shards
from transforms.core.dataset.output_names import MANIFEST, REJECTED
from transforms.core.images.checked_image import CheckedImage
from transforms.core.planning.keys import full_uri
from transforms.core.records import ShardImage, partner_files
from transforms.core.rejections import RETRIED, Rejection
from transforms.shard_converter import Planned
from transforms.storage.files import is_same_path, join, read_manifest
from transforms.stored_records import retried_keys

_NONE: Mapping[str, Mapping[str, Any]] = {}

# Used instead of a recipe: images of the same names, sizes and times in another folder give other
# records, or may do so.
_OTHER_FILES = "other files"


class Roots(NamedTuple):
    """The folders below which the paths of images begin; recipes have the paths alone.

    Attributes:
        images: that of the images.
        partners: those of each mask and further image, in their order.
    """

    images: str = ""
    partners: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """16 hexadecimal digits."""
        text = "\n".join((self.images, *self.partners))
        return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()

    def uris(self, image: ShardImage) -> list[str]:
        """The file of an image, and those of its masks and further images."""
        paths = (image.path, *(file.path for file in partner_files(image.partners)))
        roots = (self.images, *self.partners)
        return [full_uri(root, path) for root, path in zip(roots, paths, strict=False)]

    def spelled_as(self, others: Roots) -> Roots:
        """These, but as others spell them where both name the same folder."""
        images, *partners = (
            other if own == other or is_same_path(own, other) else own
            for own, other in zip(
                (self.images, *self.partners), (others.images, *others.partners), strict=False
            )
        )
        return Roots(images, tuple(partners))


class PublishedShards(NamedTuple):
    """What the manifest says of the shards.

    Attributes:
        recipes: of all shards.
        shards: their entries by name; empty for single-image files, of which it lists every one.
        retried: keys of the images that were left out for one of the reasons `RETRIED`.
        roots: of the images, spelled as those of this run.
    """

    recipes: Set[str] = frozenset()
    shards: Mapping[str, Mapping[str, Any]] = _NONE
    retried: Set[str] = frozenset()
    roots: Roots = Roots()

    def compared(
        self,
        name: str,
        recipe: str,
        images: Sequence[Planned],
        roots: Roots | None,
        written: Callable[[], tuple[int, str]],
    ) -> str:
        """The recipe of a published shard if it would be written again byte by byte.

        A file that was only copied or touched has another modification time, and its shard another
        recipe; one that was moved with its time has another URI, and its shard the same recipe. The
        result is known only after its images are converted, without writing. If times differ and
        some were rejected it stays unknown, because the manifest does not say which.

        Args:
            name: of a planned shard.
            recipe: of it.
            images: planned for it.
            roots: of the images; None for rows.
            written: converts the shard; returns its bytes and its checksum.
        """
        is_moved = roots is not None and recipe in self.recipes and self._are_moved(images, roots)
        other = _OTHER_FILES if is_moved else recipe
        published = self.shards.get(name)
        if published is None:
            return other
        is_touched = published["recipe"] != recipe and published["records"] == len(images)
        if not (is_moved or is_touched):
            return recipe
        is_same = written() == (published["bytes"], published["crc32c"])
        return str(published["recipe"]) if is_same else other

    def _are_moved(self, images: Iterable[Planned], roots: Roots) -> bool:
        """Whether an image, or a mask of it, is another file than the one in the dataset."""
        return self.roots != roots and any(
            self.roots.uris(image) != roots.uris(image)
            for image in cast(Iterable[ShardImage], images)
        )

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


def read_published(output: str, roots: Roots | None, *, per_image: bool) -> PublishedShards:
    """The shards of the dataset in a folder; none if it is gone meanwhile.

    Args:
        output: the folder.
        roots: of the images of this run; None for rows.
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
    former = Roots(manifest["root"], tuple(manifest.get("partners", {}).values()))
    return PublishedShards(
        {shard["recipe"] for shard in shards},
        {} if per_image else {shard["file"]: shard for shard in shards},
        retried_keys(output, rejected["bytes"]) if has_retried else frozenset(),
        former if roots is None else former.spelled_as(roots),
    )
