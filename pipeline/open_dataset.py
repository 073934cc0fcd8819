"""Opens a finished dataset: reads its manifest, or says in one line why it has none."""

from __future__ import annotations

import glob
from collections.abc import Mapping
from typing import Any

from pipeline.errors import UsageError, refusing, trying
from pipeline.resolve.path_flags import check_path, datasets_below, near_path
from transforms.dataset.manifest import INDEXED, ManifestError, manifest_shards
from transforms.dataset.metadata import ShardRange, shard_ranges
from transforms.dataset.output_names import MANIFEST, STAGING, ForeignNameError
from transforms.storage.files import join, read_manifest, storage_of


def open_dataset(output: str, wanted: str = "dataset") -> dict[str, Any]:
    """The manifest of the dataset in a folder.

    Args:
        output: the folder.
        wanted: what a message misses in it.

    Raises:
        UsageError: there is none, or it cannot be read.
    """
    check_path("the folder", output)
    path = join(output, MANIFEST)
    with trying(f"read {path}"), refusing(ManifestError, ForeignNameError):
        manifest = read_manifest(path, may_index=True)
        if manifest is not None:
            shards = (shard["file"] for shard in manifest_shards(manifest))
            storage_of(output).check_folders(output, shards)
    if manifest is None:
        with trying(f"read {output}"):
            why = _missing(output, path)
        raise UsageError(f"{output} holds no {wanted}: {why}")
    return manifest


def has_manifest(folder: str) -> bool:
    """Whether a folder holds a finished dataset, which may be damaged."""
    return storage_of(folder).exists(join(folder, MANIFEST))


def is_indexed(folder: str) -> bool:
    """Whether a folder holds no dataset, but the index of files that another program wrote."""
    return has_manifest(folder) and INDEXED in open_dataset(folder)


def record_files(path: str) -> dict[str, int]:
    """The TFRecord files that a path, a folder or a glob names, with their sizes, in order.

    Raises:
        OSError: it cannot be listed.
    """
    storage = storage_of(path)
    if (found := storage.find(path)) is not None:
        return {path: found.size}
    # TF-Slim's shards end with their number.
    patterns = [join(glob.escape(path), each) for each in ("*.tfrec*", "*-?????-of-?????")]
    patterns = [path] if glob.has_magic(path) else patterns
    listed = {file.uri: file.size for each in patterns for file in storage.list_files(each)}
    return dict(sorted(listed.items()))


def split_ranges(output: str, split: str, manifest: Mapping[str, Any]) -> list[ShardRange]:
    """The records that a split, or slices of splits, name.

    Args:
        output: the folder of the dataset.
        split: such as `train`, `train[:10%]` or `train+validation`.
        manifest: of the dataset.

    Raises:
        UsageError: there is no such split or slice.
    """
    splits = {
        name: [(shard["file"], shard["records"]) for shard in listed["shards"]]
        for name, listed in manifest["splits"].items()
    }
    with refusing(ValueError, because=f"{output}: "):
        return shard_ranges(split, splits)


def _missing(output: str, path: str) -> str:
    """The reason why there is no manifest."""
    storage = storage_of(output)
    if storage.find(output) is not None:
        return f"it is a file; give its folder, {output.rpartition('/')[0] or '.'}"
    if storage.names_below(join(output, STAGING)):
        return (
            "a run is still writing it. Wait for that run; if it was stopped, run the same "
            "command again to resume it"
        )
    if any(True for _ in storage.list_files(join(glob.escape(output), "*.tfrecord*"))):
        return (
            f"there are TFRecords but no {path}. It was removed, or another program wrote them: "
            "`show` prints them, but there is nothing to compare them with"
        )
    if storage.has_folders and not storage.is_folder(output):
        kind = "file" if ".tfrec" in output.rpartition("/")[2] else "folder"
        return f"there is no such {kind}{near_path(output)}"
    below = datasets_below(output)
    return f"there is no {path}" + (f"; did you mean {below}?" if below else "")
