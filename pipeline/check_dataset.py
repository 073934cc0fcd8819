"""Compares a dataset with its manifest: the shards on Beam, everything else here."""

from __future__ import annotations

import errno
import glob
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pipeline.errors import DatasetError
from pipeline.run.launch import results_path, run_pipeline
from transforms.core.messages import first_line, one_line
from transforms.dataset.manifest import content_digest, manifest_indexes, manifest_shards
from transforms.dataset.output_names import INDEX, MANIFEST, REJECTED, ForeignNameError
from transforms.dataset.record_checks import (
    Problem,
    RecordVerifier,
    Verified,
    ledger_problems,
    rejected_problems,
)
from transforms.records.record_index import index_list_problems
from transforms.records.written_index import stored_lines
from transforms.storage.files import join, storage_of
from transforms.storage.interface import MAX_DATASET_FILE
from transforms.verify_shards import VerifyShards, merge_splits, read_results

# Bytes of a rejection: its key, its file and why.
_MOST_LINE = 1 << 16

_EXTRA = "is not a file of this dataset; remove it"


def check_dataset(
    output: str,
    manifest: Mapping[str, Any],
    *,
    fast: bool = False,
    beam_flags: Sequence[str] = (),
    progress: str = "off",
) -> tuple[list[Problem], dict[str, Verified]]:
    """Lists the differences between a folder and its manifest, and what each split contains.

    Of very many problems in a split, `Verified.more` counts those that are not listed.

    Args:
        output: the folder.
        manifest: its manifest.
        fast: whether to skip the content of the records.
        beam_flags: options of Beam.
        progress: see `show_progress`.

    Raises:
        UsageError: the runner's workers cannot hand back what they find.
        DatasetError: the run failed.
    """
    try:
        problems = [Problem(MANIFEST, None, detail) for detail in _manifest_problems(manifest)]
        problems += _folder_problems(output, manifest)
        problems += _small_file_problems(output, manifest)
        problems += _extra_files(output, manifest)
        verifier = RecordVerifier.of(manifest)
    except (KeyError, TypeError, AttributeError) as error:
        if manifest.get("digest") == content_digest(manifest):
            raise
        path = join(output, MANIFEST)
        raise DatasetError(f"{path} was edited and cannot be used any more: {error!r}") from error
    with results_path("verify", beam_flags) as results:
        records = sum(split["records"] for split in manifest["splits"].values())
        transform = VerifyShards(output, verifier, fast=fast, records=records, results=results)
        run_pipeline(
            lambda p: p | transform,
            beam_flags,
            progress=progress,
            left="the dataset was not verified",
        )
        splits = merge_splits(read_results(results), manifest["splits"])
    for split in splits.values():
        problems += split.problems
    return problems, splits


def _manifest_problems(manifest: Mapping[str, Any]) -> Iterator[str]:
    if manifest.get("digest") != content_digest(manifest):
        yield "was edited since the dataset was written"
    yield from ledger_problems(manifest)
    yield from index_list_problems(manifest)


def _folder_problems(output: str, manifest: Mapping[str, Any]) -> Iterator[Problem]:
    """Whether folders of the dataset are links, through which other files would be replaced."""
    files = (*manifest_shards(manifest), *manifest.get("index", ()))
    try:
        storage_of(output).check_folders(output, {entry["file"] for entry in files})
    except ForeignNameError as error:
        yield Problem(output, None, first_line(error))


def _small_file_problems(output: str, manifest: Mapping[str, Any]) -> Iterator[Problem]:
    for name, listed in manifest["files"].items():
        path = join(output, name)
        lines = sum(manifest["rejected"].values()) if name == REJECTED else 0
        try:
            # A sparse file of a terabyte costs nothing to make, and may be listed as such.
            if listed["bytes"] > (most := MAX_DATASET_FILE + lines * _MOST_LINE):
                raise OSError(errno.EFBIG, f"it has more than {most} bytes", path)
            found = storage_of(output).checksum(path, size=listed["bytes"])
            if found is None:
                yield Problem(name, None, "the file is missing")
            elif found != listed["crc32c"]:
                yield Problem(name, None, "was changed since the dataset was written")
            elif name == REJECTED:
                for detail in rejected_problems(manifest, stored_lines(path, listed["bytes"])):
                    yield Problem(name, None, detail)
        except (OSError, UnicodeDecodeError) as error:
            yield Problem(name, None, f"cannot be read: {one_line(error)}")


def _extra_files(output: str, manifest: Mapping[str, Any]) -> Iterator[Problem]:
    """TFRecords and indexes of other datasets; a reader's glob would match them too."""
    shards = [shard["file"] for shard in manifest_shards(manifest)]
    listed = {*shards, *(entry["file"] for entry in manifest_indexes(manifest))}
    folders = {f"{name.rpartition('/')[0]}/".lstrip("/") for name in shards} | {""}
    patterns = [(start, "*.tfrecord*") for start in sorted(folders)]
    for start, pattern in (*patterns, (f"{INDEX}/", "*.parquet")):
        found = join(glob.escape(output), glob.escape(start) + pattern)
        for file in storage_of(output).list_files(found):
            name = start + file.uri.rsplit("/", 1)[-1]
            if name not in listed:
                yield Problem(name, None, _EXTRA)
