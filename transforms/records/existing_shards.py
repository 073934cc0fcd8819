"""Shards that exist: staged by a former run, or published."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from transforms.core.messages import check_final
from transforms.core.records import PlannedImage, ShardRow, partner_files
from transforms.core.rejections import RETRIED, Rejection
from transforms.dataset.dataset_options import DatasetOptions
from transforms.dataset.ledger import ShardSummary
from transforms.dataset.manifest import (
    ManifestError,
    check_digest,
    manifest_shards,
    possible_files,
    shards_by_name,
)
from transforms.dataset.output_names import (
    FORMER,
    MANIFEST,
    PARTIAL,
    REJECTED,
    REPORT,
    SMALL,
    STAGING,
    index_file,
    parse_small_files,
    staged_shard,
)
from transforms.examples.encoder import ExampleEncoder
from transforms.examples.layouts import Feature
from transforms.images.checked_images import CheckedImage
from transforms.images.pixel_options import UNTOUCHED
from transforms.labels.keys import full_uri
from transforms.labels.shards import Libraries, Recipes
from transforms.records.other_datasets import OtherDataset
from transforms.records.record_index import has_current_hashes, has_fingerprints
from transforms.records.stored_images import BaseShard, StoredImage
from transforms.records.written_index import read_written_index, retried_keys
from transforms.storage.files import (
    is_same_path,
    join,
    read_manifest,
    read_sidecar,
    sidecar_path,
    storage_of,
)

if TYPE_CHECKING:
    import pyarrow as pa


# Files of earlier runs in the staging folder of an output folder, treated as untrusted.


class FinishedShard(NamedTuple):
    """A shard with its files, and its index."""

    summary: ShardSummary
    index: pa.Table


class Staging(NamedTuple):
    """The files of earlier runs.

    Attributes:
        staged: all names in the staging folder.
        shards: staged shards, complete or not, as file and recipe.
        names: files of the output folder that belong to no dataset any more: those of the dataset
            that was being replaced, and small files that were being written.
    """

    staged: tuple[str, ...] = ()
    shards: frozenset[tuple[str, str]] = frozenset()
    names: frozenset[str] = frozenset()

    @property
    def complete(self) -> set[tuple[str, str]]:
        """Those of `shards` that have a sidecar, which is written last."""
        named = (staged_shard(name) for name in self.staged if name.endswith(".json"))
        return {shard for shard in named if shard is not None}


def read_staging(output: str, staged: Sequence[str] | None = None) -> Staging:
    """Reads the staging folder and checks its content; changes nothing.

    Args:
        output: the folder.
        staged: the names in its staging folder, if they are known.

    Raises:
        ForeignNameError: it has, or one of its files names, a file that this tool never writes.
        ManifestError: the manifest of the dataset that was being replaced was edited.
        OSError: it cannot be read.
    """
    staging, storage = join(output, STAGING), storage_of(output, follow_links=False)
    if staged is None:
        staged = storage.staged_names(staging)
    names: set[str] = set()
    if SMALL in staged:
        path = join(staging, SMALL)
        begun = parse_small_files(storage.read_text(path) or "[]", path)
        names |= {*begun, *(f"{name}{PARTIAL}" for name in begun)}
    if FORMER in staged:
        names |= _former_files(output, join(staging, FORMER))
    shards = {staged_shard(name.partition("/")[0]) for name in staged}
    whose = frozenset(shard for shard in shards if shard is not None)
    return Staging(tuple(staged), whose, frozenset(names))


def _former_files(output: str, path: str) -> set[str]:
    try:
        former = read_manifest(path)
        if former is not None:
            check_digest(former, path)
            return listed_files(former)
    except ManifestError as error:
        raise ManifestError(
            f"{error}. A run stopped while it replaced this dataset, so the dataset is "
            f"incomplete: remove {output}"
        ) from error
    return set()


def listed_files(manifest: Mapping[str, Any]) -> set[str]:
    """All files of a manifest's dataset with its report, without the manifest itself."""
    entries = (*manifest_shards(manifest), *manifest["index"])
    return {REPORT, *manifest["files"], *(entry["file"] for entry in entries)}


def check_output(
    output: str,
    manifest: Mapping[str, Any] | None,
    extra: Iterable[str],
    staged: Sequence[str] | None = None,
) -> Staging:
    """Checks all files that a run will remove or replace, before it does so.

    Args:
        output: the folder.
        manifest: of the dataset in it, or None.
        extra: further files that the run will write, by their paths below the folder.
        staged: see `read_staging`.

    Returns:
        the files of earlier runs, including the dataset in the folder.

    Raises:
        ForeignNameError: a file of an earlier run names other files, or in place of a
            file there is a folder, or in place of a folder a link.
        ManifestError: the manifest of the existing dataset was edited.
    """
    staging = read_staging(output, staged)
    if manifest is not None:
        check_digest(manifest, join(output, MANIFEST))
        staging = staging._replace(names=staging.names | listed_files(manifest))
    storage_of(output).check_folders(output, {MANIFEST, *extra, *staging.names}, are_replaced=True)
    return staging


def staged_files(output: str, file: str, recipe: str) -> set[str]:
    """All names that the files of a staged shard may have in the output folder.

    Args:
        output: the folder.
        file: of the shard.
        recipe: of the shard.
    """
    summary = read_sidecar(sidecar_path(output, file, recipe))
    names = {file, index_file(file)}
    if summary is None or not summary.is_of(file, recipe):
        return names
    return names.union(*possible_files(summary))


def is_whole(output: str, summary: ShardSummary) -> bool:
    """Whether all bytes of a shard are there, staged or published.

    Args:
        output: the dataset's folder.
        summary: of the shard.
    """
    storage = storage_of(output)

    def is_there(written: tuple[str, set[str], Any]) -> bool:
        staged, published, file = written
        paths = [join(output, STAGING, staged), *(join(output, name) for name in published)]
        return any(storage.has_checksum(path, file.crc32c, file.bytes) for path in paths)

    files = (summary,) if summary.files is None else summary.files
    written = zip(summary.staged, possible_files(summary), files, strict=True)
    return all(storage.for_each(is_there, written))


# Planned shards that a base holds byte for byte: they are copied or linked, not read.
#
# The recipe of a shard is a digest of its name, its images with their labels, the options that
# decide bytes and the versions of libraries: equal recipes mean equal bytes. A shard that a base
# lists under the recipe of a planned one, and whose records are the planned images in their order,
# is therefore the planned shard. Its checksum in the base's manifest proves the copy.

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
    images: Sequence[PlannedImage],
    *,
    bases: Sequence[OtherDataset],
    describe: Callable[[PlannedImage, StoredImage], Described | None],
    load: Callable[[Sequence[PlannedImage]], Iterable[Described]],
) -> WholeShard | None:
    """The shard of a base that equals a planned one, or None.

    Args:
        name: of the planned shard in the dataset.
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
    for stored in map(StoredImage.of, first.stored):
        entry = stored.whole
        if entry is None or stored.shard != name or entry.recipe not in recipes:
            continue
        found = {
            image.key: StoredImage.of(each)
            for image in images
            for each in image.stored
            if each[:2] == stored[:2]
        }
        if [each.record for each in found.values()] != list(range(entry.records)):
            continue
        described = {
            image.key: describe(image, found[image.key]) for image in images if image.key in found
        }
        checked = [each for each in described.values() if isinstance(each, CheckedImage)]
        is_changed = any(each.changes != UNTOUCHED for each in checked)
        has_heic = any(each.has_heic for each in checked)
        recipe = recipes.of(is_changed=is_changed, has_heic=has_heic)
        # If a record is rejected now, the shard is another one.
        if len(checked) < len(described) or entry.recipe != recipe:
            continue
        missed = [image for image in images if image.key not in found]
        described |= zip((image.key for image in missed), load(missed), strict=True)
        # So it is if an image is accepted now.
        if all(isinstance(described[image.key], Rejection) for image in missed):
            path, lengths = join(bases[stored.base].folder, name), found.values()
            made = [each for image in images if (each := described[image.key]) is not None]
            return WholeShard(path, entry, made, [each.length for each in lengths])
    return None


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


# The interface between the step that writes shards and what makes their records.

Planned = PlannedImage | ShardRow


class Converter:
    """Makes serialized Examples from the items planned for one shard. Picklable before `setup`.

    Attributes:
        of_images: whether its records are made of images.
        fingerprints: whether it computes fingerprints of the images.
        many_labels: whether the layout holds several labels of an image.
        partner_names: those of masks and further images, in their order.
        features: of the Examples.
    """

    of_images = False
    fingerprints = False
    many_labels = False
    partner_names: tuple[str, ...] = ()

    def __init__(self, features: Sequence[Feature]) -> None:
        self.features = tuple(features)

    @property
    def libraries(self) -> Libraries:
        """The libraries that affect the bytes of the records."""
        return Libraries()

    @functools.cached_property
    def encoder(self) -> ExampleEncoder:
        """Made by the worker: it cannot be pickled."""
        return ExampleEncoder(self.features)

    def setup(self) -> None:
        """Creates further parts that cannot be pickled, once for each DoFn instance."""

    def isolate(self, images: Iterable[Any], /) -> None:
        """Makes suspects of images that an earlier attempt may have died over."""

    def load(self, images: Iterable[Any], /) -> Iterator[CheckedImage | Rejection]:
        """The checked items, or their rejections, in the order given."""
        raise NotImplementedError

    def whole_shard(
        self, _name: str, _recipes: Recipes, _images: Sequence[Any], _load: Any = None, /
    ) -> WholeShard | None:
        """The shard of another dataset that equals a planned one; see `find_whole_shard`."""
        return None

    def encode(self, images: Iterable[CheckedImage]) -> Iterator[bytes]:
        """Serialized Examples in the order given."""
        return map(self.encoder.encode, images)


# The shards of a finished dataset, with which a run compares its plan.

# Used instead of a recipe: an image of the shard that was unreadable can be read now.
_READABLE = "readable"

# Used instead of a recipe: images of the same names, sizes and times in another folder give other
# records, or may do so.
_OTHER_FILES = "other files"


class Roots(NamedTuple):
    """The folders below which the paths of images begin; recipes have the paths alone.

    Attributes:
        folders: that of the images, and those of each mask and further image, in their order.
    """

    folders: tuple[str, ...] = ("",)

    @property
    def digest(self) -> str:
        """16 hexadecimal digits."""
        text = "\n".join(self.folders)
        return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()

    def uris(self, image: PlannedImage) -> list[str]:
        """The file of an image, and those of its masks and further images."""
        paths = (image.path, *(file.path for file in partner_files(image.partners)))
        return [full_uri(root, path) for root, path in zip(self.folders, paths, strict=False)]

    def spelled_as(self, others: Roots) -> Roots:
        """These, but as others spell them where both name the same folder."""
        theirs = (*others.folders, *self.folders[len(others.folders) :])
        return Roots(
            tuple(
                other if own == other or is_same_path(own, other) else own
                for own, other in zip(self.folders, theirs, strict=False)
            )
        )


def only_compares(folder: DatasetOptions) -> bool:
    """Whether a run compares its plan with a finished dataset, and writes nothing."""
    manifest = join(folder.output, MANIFEST)
    return not folder.overwrite and storage_of(manifest).exists(manifest)


class ExistingShards:
    """The shards that exist of a dataset: of a finished one, or of runs that did not finish."""

    def __init__(
        self,
        output: str,
        roots: Roots | None,
        *,
        with_fingerprints: bool,
        with_sha256: bool,
        compares: bool = False,
        per_image: bool = False,
    ) -> None:
        """Reads the manifest of a finished dataset; there are none of its shards if it is gone.

        Args:
            output: the folder.
            roots: of the images of this run; None for rows.
            with_fingerprints: whether this run compares images; a staged shard of a run that did
                not is none.
            with_sha256: whether this run needs the SHA-256 of the files.
            compares: whether the folder holds a finished dataset that is compared with the plan.
            per_image: whether every image has its own file.

        Raises:
            ManifestError: the manifest cannot be used.
        """
        self._output = output
        self._roots = roots
        self._with_fingerprints = with_fingerprints
        self._with_sha256 = with_sha256
        manifest = read_manifest(join(output, MANIFEST)) if compares else None
        shards = manifest_shards(manifest) if manifest else []
        self._recipes = {shard["recipe"] for shard in shards}
        # Of single-image files, the manifest lists every one.
        self._published = shards_by_name(manifest) if manifest and not per_image else {}
        self._retried: Set[str] = frozenset()
        self._former = Roots()
        if manifest:
            former = Roots((manifest["root"], *manifest.get("partners", {}).values()))
            self._former = former if roots is None else former.spelled_as(roots)
            # The lines of other rejections may be gigabytes.
            if any(manifest["rejected"].get(reason) for reason in RETRIED):
                size = manifest["files"].get(REJECTED, {"bytes": 0})["bytes"]
                self._retried = retried_keys(output, size)

    def finished(self, name: str, recipes: Recipes) -> FinishedShard | None:
        """A complete shard that an earlier run wrote with one of the recipes, or None."""
        found = (self._finished(name, recipe) for recipe in dict.fromkeys(recipes))
        return next(filter(None, found), None)

    def _finished(self, name: str, recipe: str) -> FinishedShard | None:
        summary = read_sidecar(sidecar_path(self._output, name, recipe))
        # Files of the same names in other folders may hold other bytes.
        roots = self._roots.digest if self._roots else ""
        if summary is None or not summary.is_of(name, recipe) or summary.roots != roots:
            return None
        # A run without a name computes no SHA-256, and images may have become readable.
        lacks_sha256 = self._with_sha256 and not summary.index_sha256
        if lacks_sha256 or any(each.reason in RETRIED for each in summary.rejections):
            return None
        index = read_written_index(self._output, summary)
        if index is None or not is_whole(self._output, summary):
            return None
        is_same = not summary.records or has_fingerprints(index) == self._with_fingerprints
        return FinishedShard(summary, index) if is_same and has_current_hashes(index) else None

    def compared(
        self,
        name: str,
        recipes: Recipes,
        images: Sequence[Planned],
        load: Callable[[Iterable[Planned]], Iterable[CheckedImage | Rejection]],
        written: Callable[[], tuple[int, str]],
    ) -> str:
        """The recipe of a published shard if it would be written again byte by byte.

        A file that was only copied or touched has another modification time, and its shard another
        recipe; one that was moved with its time has another URI, and its shard the same recipe. The
        result is known only after its images are converted, without writing. If times differ and
        some were rejected it stays unknown, because the manifest does not say which.

        Args:
            name: of a planned shard.
            recipes: that it may have.
            images: planned for it.
            load: reads images.
            written: converts the shard; returns its bytes and its checksum.
        """
        known = [each for each in reversed(recipes) if each in self._recipes]
        recipe = known[0] if known else recipes.unchanged
        missed = [image for image in images if image.key in self._retried]
        # A permission that was granted since, or a decoder that was installed, changes no recipe.
        for result in load(missed) if missed else ():
            if isinstance(result, CheckedImage) or result.reason not in RETRIED:
                recipe = _READABLE
                break
        is_moved = recipe in self._recipes and self._are_moved(images)
        other = _OTHER_FILES if is_moved else recipe
        published = self._published.get(name)
        if published is None:
            return other
        is_touched = published["recipe"] != recipe and published["records"] == len(images)
        if not (is_moved or is_touched):
            return recipe
        is_same = written() == (published["bytes"], published["crc32c"])
        return str(published["recipe"]) if is_same else other

    def _are_moved(self, images: Iterable[Planned]) -> bool:
        """Whether an image, or a mask of it, is another file than the one in the dataset."""
        former, roots = self._former, self._roots
        if roots is None or roots == former:
            return False
        return any(
            former.uris(image) != roots.uris(image)
            for image in cast(Iterable[PlannedImage], images)
        )
