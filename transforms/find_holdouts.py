"""HoldoutFingerprints and HoldoutImages: what the indexes of `--holdout` say of their images."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import apache_beam as beam

from transforms.core.records import FingerprintBatch, HeldPart, LabelledImage
from transforms.dataset.manifest import check_digest, manifest_indexes
from transforms.dataset.output_names import MANIFEST
from transforms.labels.shards import ShardName
from transforms.packing import NameInputs, SpreadElements, runs_in_process
from transforms.records.fingerprints import fingerprint_batches
from transforms.records.record_index import (
    RecordIndexError,
    check_hashes,
    class_lists,
    index_rows,
    shard_of_index,
    source_contents,
)
from transforms.records.written_index import explained, read_listed_index
from transforms.selection.equal_images import Holdout, held_file, held_image
from transforms.storage.files import join, read_manifest
from transforms.storage.lineage import report_source

if TYPE_CHECKING:
    import pyarrow as pa

# What is compared, and what an image is described by.
_COLUMNS = (
    *("record", "length", "key", "path", "size", "split", "label"),
    *("content", "source_content", "perceptual_hash"),
)


class HoldoutFingerprints(beam.PTransform):
    """The fingerprints of the images of holdouts, as those of shards with names of their own.

    Input: the pipeline's begin. Output: `(bucket, FingerprintBatch)`.
    """

    def __init__(self, holdouts: tuple[Holdout, ...], buckets: int) -> None:
        """Sets what to read.

        Args:
            holdouts: the datasets.
            buckets: of the fingerprints of the new dataset.
        """
        super().__init__()
        self._holdouts = holdouts
        self._buckets = buckets

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection[tuple[int, FingerprintBatch]]:
        fingerprints = beam.FlatMap(_fingerprints, self._holdouts, self._buckets)
        read = fingerprints.with_output_types(tuple[int, FingerprintBatch])
        return begin | "List indexes" >> HoldoutIndexes(self._holdouts) | "Read indexes" >> read


class HoldoutImages(beam.PTransform):
    """The images of holdouts, next to those from which exact duplicates are dropped.

    Input: the pipeline's begin. Output: `LabelledImage` without a split, see `held_image`.
    """

    def __init__(self, holdouts: tuple[Holdout, ...]) -> None:
        super().__init__()
        self._holdouts = holdouts

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection[LabelledImage]:
        read = beam.FlatMap(_images, self._holdouts).with_output_types(LabelledImage)
        return begin | "List indexes" >> HoldoutIndexes(self._holdouts) | "Read indexes" >> read


class HoldoutIndexes(beam.PTransform):
    """Lists the indexes of holdouts; on several machines, any worker may read one.

    Input: the pipeline's begin. Output: `HeldPart`. A retry reads one index again.
    """

    def __init__(self, holdouts: tuple[Holdout, ...]) -> None:
        super().__init__()
        self._holdouts = holdouts

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection[HeldPart]:
        listed = (
            begin
            | "Name" >> NameInputs(range(len(self._holdouts)))
            | "List" >> beam.FlatMap(_listed, self._holdouts).with_output_types(HeldPart)
        )
        if runs_in_process(begin.pipeline):
            return listed
        return listed | "Spread indexes" >> SpreadElements()


def _listed(number: int, holdouts: Sequence[Holdout]) -> Iterator[HeldPart]:
    report_source(holdouts[number].folder)
    for entry in listed_indexes(holdouts[number]):
        yield HeldPart(number, json.dumps(entry))


def _fingerprints(
    part: HeldPart, holdouts: Sequence[Holdout], buckets: int
) -> Iterator[tuple[int, FingerprintBatch]]:
    entry = json.loads(part.text)
    index = read_holdout_index(holdouts[part.number], entry)
    file = held_file(part.number, shard_of_index(entry["file"]))
    yield from fingerprint_batches(index, file, buckets)


def _images(part: HeldPart, holdouts: Sequence[Holdout]) -> Iterator[LabelledImage]:
    holdout = holdouts[part.number]
    index = read_holdout_index(holdout, json.loads(part.text))
    contents, classes = source_contents(index), class_lists(index)
    for row, content, labels in zip(index_rows(index), contents, classes, strict=True):
        yield held_image(holdout.folder, row, content or b"", labels)


def listed_indexes(holdout: Holdout) -> list[dict[str, Any]]:
    """The entries of the indexes of a holdout, in the order of its manifest.

    Raises:
        LabelsError: the dataset was replaced since the run began, is damaged or cannot be read.
        TransientError: a temporary failure.
    """
    with explained("--holdout", holdout.folder):
        manifest = read_manifest(join(holdout.folder, MANIFEST))
        if manifest is None or manifest.get("digest", "") != holdout.digest:
            raise RecordIndexError("it was replaced since this run began: start it again")
        check_digest(manifest, holdout.folder)
        return holdout_entries(manifest, holdout.split)


def read_holdout_index(holdout: Holdout, entry: Mapping[str, Any]) -> pa.Table:
    """One index of a holdout; raises as `listed_indexes` does."""
    with explained("--holdout", holdout.folder):
        return checked_index(holdout.folder, entry)


def holdout_entries(manifest: Mapping[str, Any], split: str) -> list[dict[str, Any]]:
    """The entries of the indexes of a split in a manifest; of all if it is empty."""
    return [
        entry
        for entry in manifest_indexes(manifest)
        if split in ("", ShardName.parse(shard_of_index(entry["file"])).split)
    ]


def checked_index(folder: str, entry: Mapping[str, Any]) -> pa.Table:
    """An index whose records have hashes.

    Raises:
        RecordIndexError: they have none, or it is damaged.
        OSError: it cannot be read.
    """
    table = read_listed_index(folder, entry, _COLUMNS)
    check_hashes(table)
    return table


def holdout_index(holdout: Holdout, shard: str) -> pa.Table:
    """The index of one shard of a holdout; raises as `listed_indexes` does."""
    entries = listed_indexes(holdout)
    [entry] = [entry for entry in entries if shard_of_index(entry["file"]) == shard]
    return read_holdout_index(holdout, entry)
