"""The small files of a dataset."""

from __future__ import annotations

import dataclasses
import errno
import functools
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, islice
from typing import TYPE_CHECKING, Any, NamedTuple

from transforms.core.messages import check_final
from transforms.core.records import BucketDuplicates
from transforms.dataset.dataset_options import DatasetOptions, card_of
from transforms.dataset.image_statistics import describe
from transforms.dataset.ledger import Gathered
from transforms.dataset.manifest import (
    DataFile,
    Dataset,
    FileContent,
    build_manifest,
    content_summary,
    in_parts,
    index_files,
    to_bytes,
)
from transforms.dataset.metadata import label_map, schema_text, tfds_files
from transforms.dataset.output_names import (
    INFO,
    LABEL_MAP,
    LABELS,
    MANIFEST,
    REJECTED,
    SCHEMA,
    STATISTICS,
    index_file,
)
from transforms.examples.tfrecord import FRAME_BYTES
from transforms.images.pixel_options import CheckOptions
from transforms.labels.keys import full_uri
from transforms.labels.label_rules import ANY_LABELS, LabelRules, label_decisions
from transforms.labels.shards import ShardName, ShardPlan, shard_index
from transforms.labels.vocabulary import class_order
from transforms.list_rejections import rejected_lines
from transforms.records.existing_shards import Converter
from transforms.records.image_origins import originals_root
from transforms.records.other_datasets import DatasetReader, OtherDataset
from transforms.records.record_index import classes_of, content_hash
from transforms.records.written_index import read_written_index
from transforms.report.card_files import card_files
from transforms.selection.duplicates import (
    Equal,
    Near,
    described,
    find_near,
    held_out_of,
    md5_hash,
    merge_equal,
)
from transforms.selection.hash_cuts import stratified_decisions
from transforms.storage.files import join, storage_of
from transforms.storage.read_ahead import ReadAhead, reading_threads

if TYPE_CHECKING:
    import pyarrow as pa


class DatasetTarget(NamedTuple):
    """The destination of a dataset, and how its records are made.

    Attributes:
        folder: where it is, and whether an existing dataset may be replaced.
        checks: how many images may be rejected, and where their copies go.
        dataset: its description for the manifest.
        converter: makes the records of one shard.
        plan: how it is cut into shards.
        rules: how labels become class ids.
        run: the name of this run in a bucket's lock; empty without such a lock.
        held_out: datasets whose images are reported like duplicates.
    """

    folder: DatasetOptions
    checks: CheckOptions
    dataset: Dataset
    converter: Converter
    plan: ShardPlan
    rules: LabelRules = ANY_LABELS
    run: str = ""
    held_out: tuple[OtherDataset, ...] = ()


# `statistics.json`: combines the shards' sidecars when a dataset is published.

# What a record is described by, see `_record`.
DESCRIBED = ("key", "path", "split", "label", "length", "content", "source_content")

Wanted = tuple[str, int | str]
"""A record: the name of its shard, and its number or its key there."""


class DatasetDescriber:
    """Makes the content of `statistics.json`, the same for the same dataset."""

    def __init__(self, target: DatasetTarget, gathered: Gathered, data: Iterable[DataFile]) -> None:
        """Takes the shards, whose sidecars are in the staging folder.

        Args:
            target: the dataset.
            gathered: the results of its run.
            data: the result of `data_files` for the shards.
        """
        self._output = target.folder.output
        self._root = originals_root(self._output, target.dataset.root)
        self._held_out = target.held_out
        self._is_stratified = bool(target.dataset.options.get("stratify"))
        self._statistics = gathered.run.statistics
        self._shard_starts = gathered.totals.shard_starts
        self._shards = {shard.file: shard for shard in gathered.shards}
        names = (file.file for file in data)
        # The files of single images, by shard and in the order of its records.
        self._image_files = {
            shard.file: list(islice(names, len(shard.files)))
            for shard in gathered.shards
            if shard.files is not None
        }
        self._files: dict[str, list[str]] = {}
        for file in self._shards:
            self._files.setdefault(ShardName.parse(file).split, []).append(file)

    def describe(self, buckets: Iterable[BucketDuplicates] | None) -> bytes:
        """The file.

        Args:
            buckets: the duplicates that were found; None when nothing was compared.

        Raises:
            OSError: the index of a shard is gone.
        """
        classes = self._statistics.samples.classes
        samples = [
            (name, (sample.file, sample.record))
            for name in sorted(classes, key=class_order)
            for sample in classes[name]
        ]
        wanted: set[Wanted] = {place for _, place in samples}
        records = sum(shard.records for shard in self._shards.values())
        found: tuple[Equal, Near] | None = None
        if buckets is not None:
            buckets = list(buckets)
            held = sum(dataset.records for dataset in self._held_out)
            equal = merge_equal(bucket.equal for bucket in buckets)
            found = equal, find_near(buckets, images=records, held=held)
            wanted |= {place for _, *pair in found[1].listed for place in pair}
            images = (image for group in equal.listed for image in group["images"])
            wanted |= {place for image in images for place in self._places(image)}
        places = self._look_up(wanted)
        content = describe(
            self._statistics,
            records=records,
            samples=[
                {"class": name, **_without(places[place], "class", "path", "content")}
                for name, place in samples
            ],
            duplicates=self._duplicates(*found, places) if found else None,
        )
        return (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode()

    def _duplicates(
        self, equal: Equal, near: Near, places: Mapping[Wanted, dict[str, Any]]
    ) -> dict[str, Any]:
        """The section `duplicates`, with the listed records looked up."""
        groups = [
            [self._looked_up(image, places) for image in group["images"]] for group in equal.listed
        ]
        hashes = sha256_of(self._root, [images[0] for images in groups])
        exact = [
            {
                "sha256": sha256,
                "conflict": group["conflict"],
                "images": [_shown(image) for image in images],
            }
            for group, images, sha256 in zip(equal.listed, groups, hashes, strict=True)
        ]
        pairs = [
            {"distance": distance, "images": [_shown(places[one]), _shown(places[other])]}
            for distance, one, other in near.listed
        ]
        hidden = () if self._held_out else ("held",)
        return {
            "exact": {**_without(equal._asdict(), *hidden), "listed": exact},
            "near": {**_without(near._asdict(), *hidden), "listed": pairs},
        }

    def _looked_up(self, image: Any, places: Mapping[Wanted, dict[str, Any]]) -> Mapping[str, Any]:
        """An image of a group, looked up if it is a record."""
        return next((places[place] for place in self._places(image) if place in places), image)

    def _places(self, image: Any) -> list[Wanted]:
        """Where a listed image may be: it is a record, or was kept when duplicates were dropped."""
        if not isinstance(image, Mapping):
            file, record = image
            return [(file, record)]
        splits = [*self._files] if self._is_stratified else [image["split"]]
        if "order" not in image:
            return []
        found = ((self._files.get(split), self._shard_starts.get(split, ())) for split in splits)
        return [
            (shards[shard_index(image["order"], len(shards), starts)], str(image["key"]))
            for shards, starts in found
            if shards
        ]

    def _look_up(self, wanted: Iterable[Wanted]) -> dict[Wanted, dict[str, Any]]:
        """The records, read from one shard's index after the other to bound memory."""
        by_file: dict[str, list[int | str]] = {}
        for file, record in sorted(wanted, key=repr):
            by_file.setdefault(file, []).append(record)
        ahead = ReadAhead(threads=reading_threads(self._output))
        parts = ahead.map(self._look_up_in, by_file.items())
        return {place: described for part in parts for place, described in part.items()}

    def _look_up_in(self, of_file: tuple[str, Sequence[int | str]]) -> dict[Wanted, dict[str, Any]]:
        file, records = of_file
        index = self._index(file)
        numbers: dict[int | str, int] = {}
        if any(isinstance(record, str) for record in records):
            keys = index.column("key").to_pylist()
            numbers.update({key: number for number, key in enumerate(keys)})
        lengths = index.column("length").to_pylist()
        # Compressed files have no offsets in their index: these count decompressed bytes.
        offsets = [0, *accumulate(length + FRAME_BYTES for length in lengths)]
        found: dict[Wanted, dict[str, Any]] = {}
        for record in records:
            number = numbers.get(record) if isinstance(record, str) else record
            # A kept image may have been rejected afterwards.
            if number is not None and number < len(lengths):
                of = self._shards.get(file)
                place = of.published if of else file, offsets[number]
                if file in self._image_files:
                    place = self._image_files[file][number], 0
                found[file, record] = _record(index, number, *place)
                if held := held_out_of(file):
                    found[file, record] |= {
                        **dict.fromkeys(("file", "offset", "length", "content")),
                        "dataset": self._held_out[held[0]].folder,
                    }
        return found

    def _index(self, file: str) -> pa.Table:
        if held := held_out_of(file):
            return DatasetReader(self._held_out).shard_table(*held)
        index = read_written_index(self._output, self._shards[file], DESCRIBED)
        if index is None:
            path = join(self._output, index_file(file))
            raise FileNotFoundError(errno.ENOENT, "the index of a shard is gone", path)
        return index


def _record(index: pa.Table, number: int, file: str, offset: int) -> dict[str, Any]:
    """A record as `statistics.json` names it."""
    # One value of each column: a slice of the table would take ten times as long.
    key, path, split, label, length, content, source = (
        index.column(name)[number].as_py() for name in DESCRIBED
    )
    content = content if source is None else source
    return {
        **described(key, path, classes_of(label)),
        "split": split,
        "file": file,
        "offset": offset,
        "length": length,
        "content": content and content.hex(),
    }


def sha256_of(root: str, images: Sequence[Mapping[str, Any]]) -> list[str | None]:
    """The result of `sha256` for each image, several read at once."""
    ahead = ReadAhead(threads=reading_threads(root))
    hashed = functools.partial(sha256, root)
    # An image that is not in the dataset has no length.
    return list(ahead.map(hashed, images, size=lambda image: image.get("length") or 0))


def sha256(root: str, image: Mapping[str, Any]) -> str | None:
    """The hash of an image's file; None when it cannot be read any more, or has changed.

    Raises:
        TransientError: a temporary failure; a repeated attempt must write the same bytes.
    """
    uri = full_uri(root, image["path"])
    if not storage_of(uri).is_ordinary(uri):
        return None
    try:
        data = storage_of(uri).read_bytes(uri)
    except OSError as error:
        check_final(error, uri)
        return None
    # A record has a place, an image that was left out has a path.
    is_content = image.get("content") in (None, content_hash(data))
    is_same = is_content and image.get("md5") in (None, md5_hash(data))
    return hashlib.sha256(data).hexdigest() if is_same else None


def _without(image: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in image.items() if name not in names}


def _shown(image: Mapping[str, Any]) -> dict[str, Any]:
    return _without(image, "content", "md5", "order")


# The content of the manifest and of the other small files of a dataset.


def completed(dataset: Dataset, rules: LabelRules, gathered: Gathered) -> Dataset:
    """The description of a dataset, with the results of its whole run."""
    totals = gathered.totals
    vocabulary = rules.vocabulary(totals.labels, totals.label_kind)
    decided = [
        *label_decisions(vocabulary, totals.labels, totals.cells, rules),
        *stratified_decisions(dataset.options, totals, vocabulary, gathered.run.labels),
    ]
    is_per_image = dataset.options.get("files") == "per_image"
    names = [] if is_per_image else [ShardName.parse(s.file).split for s in gathered.shards]
    shards = {name: names.count(name) for name in gathered.splits}
    return dataclasses.replace(
        dataset,
        splits=gathered.splits,
        decisions=(*dataset.decisions, *decided),
        warnings=(*dataset.warnings, *gathered.warnings(dataset.options, shards, vocabulary)),
    )


def small_files(
    target: DatasetTarget,
    gathered: Gathered,
    data: Sequence[DataFile],
    recipe: str,
    duplicates: Iterable[BucketDuplicates] | None,
) -> dict[str, FileContent]:
    """The content of the files next to the shards, by name; the manifest is the last one.

    Args:
        target: the dataset, `completed`.
        gathered: the results of its run.
        data: the files of records.
        recipe: see `dataset_recipe`.
        duplicates: None when nothing was compared.

    Raises:
        OSError: a sidecar is gone.
    """
    dataset, totals, rules = target.dataset, gathered.totals, target.rules
    vocabulary = rules.vocabulary(totals.labels, totals.label_kind)
    labels = vocabulary.labels_text().encode()
    files: dict[str, FileContent] = {
        LABELS: labels,
        REJECTED: rejected_file(target, gathered),
        SCHEMA: schema_text(dataset.features, vocabulary).encode(),
        **tfds_files(dataset, gathered, vocabulary),
    }
    kind = ("integer" if vocabulary.is_integer else "text") if any(totals.labels) else "none"
    manifest = build_manifest(dataset, gathered, data=data, recipe=recipe, label_kind=kind)
    if card := card_of(dataset.options):
        indexes = index_files(gathered.shards)
        files |= card_files(card, manifest, data, indexes, labels, has_tfds=INFO in files)
    if rules.first_id:
        ids = dict(zip(vocabulary.lines, vocabulary.ids, strict=True))
        files[LABEL_MAP] = label_map(ids).encode()
    if not dataset.of_rows:
        files[STATISTICS] = DatasetDescriber(target, gathered, data).describe(duplicates)
    manifest["files"] = {name: content_summary(each)._asdict() for name, each in files.items()}
    return {**files, MANIFEST: to_bytes(manifest)}


def rejected_file(target: DatasetTarget, gathered: Gathered) -> FileContent:
    """`rejected.jsonl`; a sample if there are more rejections than it can list."""
    if gathered.parts is None or gathered.unlisted:
        return rejected_lines(gathered.run.sample, target.dataset.root)
    return in_parts(gathered.parts)
