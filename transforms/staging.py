"""Files of earlier runs in the staging folder of an output folder, treated as untrusted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from transforms.core.dataset.image_file_names import image_file
from transforms.core.dataset.ledger import ShardSummary
from transforms.core.dataset.manifest import (
    ManifestError,
    check_digest,
    manifest_indexes,
    manifest_shards,
    possible_files,
)
from transforms.core.dataset.output_names import (
    FORMER,
    MANIFEST,
    PARTIAL,
    REPORT,
    SMALL,
    STAGING,
    index_file,
    parse_small_files,
    staged_shard,
)
from transforms.core.duplicates.fingerprints import has_fingerprints
from transforms.core.planning.shards import ShardName
from transforms.core.rejections import RETRIED
from transforms.storage.files import join, read_manifest, read_sidecar, sidecar_path, storage_of
from transforms.written_index import read_written_index

if TYPE_CHECKING:
    import pyarrow as pa


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
    staging, storage = join(output, STAGING), storage_of(output)
    if staged is None:
        staged = storage.staged_names(staging)
    names: set[str] = set()
    if SMALL in staged:
        path = join(staging, SMALL)
        begun = parse_small_files(storage.read_text(path, follow_links=False) or "[]", path)
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
    entries = (*manifest_shards(manifest), *manifest_indexes(manifest))
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
    storage_of(output).check_replaced(output, {MANIFEST, *extra, *staging.names})
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
    return names | possible_files(summary)


def finished_shard(
    output: str,
    file: str,
    recipe: str,
    *,
    roots: str,
    with_fingerprints: bool,
    with_sha256: bool,
) -> FinishedShard | None:
    """A complete shard that an earlier run wrote with this recipe, or None.

    Args:
        output: the folder.
        file: of the shard.
        recipe: of the shard.
        roots: see `ShardSummary`; files of the same names in other folders may hold other bytes.
        with_fingerprints: whether this run compares images; one of a run that did not is none.
        with_sha256: whether this run needs the SHA-256 of the files.
    """
    summary = read_sidecar(sidecar_path(output, file, recipe))
    if summary is None or not summary.is_of(file, recipe) or summary.roots != roots:
        return None
    # A run without a name computes no SHA-256, and images may have become readable.
    lacks_sha256 = with_sha256 and not summary.index_sha256
    if lacks_sha256 or any(each.reason in RETRIED for each in summary.rejections):
        return None
    index = read_written_index(output, summary)
    if index is None or not is_whole(output, summary):
        return None
    is_same = not summary.records or has_fingerprints(index) == with_fingerprints
    return FinishedShard(summary, index) if is_same else None


def is_whole(output: str, summary: ShardSummary) -> bool:
    """Whether all bytes of a shard are there, staged or published.

    Args:
        output: the dataset's folder.
        summary: of the shard.
    """
    storage = storage_of(output)

    def is_there(written: tuple[str, set[str], str, int]) -> bool:
        staged, published, crc32c, size = written
        paths = [join(output, STAGING, staged), *(join(output, name) for name in published)]
        return any(storage.has_checksum(path, crc32c, size) for path in paths)

    if summary.files is None:
        return is_there((summary.staged[0], {summary.file}, summary.crc32c, summary.bytes))
    split, *_, gzip = ShardName.parse(summary.file)
    written = (
        (
            name,
            {image_file(split, file.key, gzip=gzip, is_marked=marked) for marked in (False, True)},
            file.crc32c,
            file.bytes,
        )
        for name, file in zip(summary.staged, summary.files, strict=True)
    )
    return all(storage.for_each(is_there, written))
