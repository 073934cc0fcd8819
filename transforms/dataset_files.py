"""The small files of a dataset."""

from __future__ import annotations

import dataclasses
import errno
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, islice
from typing import TYPE_CHECKING, Any, NamedTuple

from transforms.core.messages import check_final
from transforms.core.records import BucketDuplicates
from transforms.dataset.dataset_card import card_of
from transforms.dataset.dataset_options import DatasetOptions
from transforms.dataset.image_statistics import Sample, Statistics, describe
from transforms.dataset.ledger import Gathered, ShardSummary
from transforms.dataset.manifest import (
    DataFile,
    Dataset,
    FileContent,
    build_manifest,
    in_parts,
    to_bytes,
)
from transforms.dataset.metadata import label_map, schema_text, tfds_files
from transforms.dataset.output_names import (
    LABEL_MAP,
    LABELS,
    MANIFEST,
    REJECTED,
    SCHEMA,
    STATISTICS,
    index_file,
)
from transforms.images.pixel_options import CheckOptions, stored_depth, stored_shape
from transforms.labels.keys import full_uri
from transforms.labels.label_rules import ANY_LABELS, LabelRules, label_decisions
from transforms.labels.shards import ShardName, ShardPlan, shard_index
from transforms.labels.vocabulary import class_order
from transforms.list_rejections import RejectedLines
from transforms.records.existing_shards import Converter
from transforms.records.fingerprints import described, md5_hash
from transforms.records.originals import originals_root
from transforms.records.other_datasets import DatasetReader, OtherDataset
from transforms.records.record_index import FRAME_BYTES, classes_of, content_hash
from transforms.records.written_index import read_written_index
from transforms.report.card_files import card_files
from transforms.selection.equal_images import equal_of, find_near, holdout_of, merge_equal
from transforms.selection.hash_cuts import stratified_decisions
from transforms.storage.files import join, storage_of
from transforms.storage.read_ahead import ReadAhead, reading_threads

if TYPE_CHECKING:
    import pyarrow as pa


# `statistics.json`: combines the shards' sidecars when a dataset is published.

# What a record is described by, see `_record`.
DESCRIBED = ("key", "path", "split", "label", "length", "content", "source_content")

Wanted = tuple[str, int | str]
"""A record: the name of its shard, and its number or its key there."""


class DatasetDescriber:
    """Makes the content of `statistics.json`.

    Attributes:
        output: the dataset's folder, whose staging folder holds the sidecars.
        root: of the images' paths.
        shards: all of them, sorted by split and number.
        data: the result of `data_files` for them.
        holdouts: datasets whose images were compared.
        is_stratified: whether images got their splits after duplicates were dropped.
        shard_starts: see `PlanTotals`.
    """

    def __init__(
        self,
        output: str,
        root: str,
        shards: Sequence[ShardSummary],
        data: Iterable[DataFile],
        holdouts: Sequence[OtherDataset] = (),
        *,
        is_stratified: bool = False,
        shard_starts: Mapping[str, Sequence[int]] | None = None,
    ) -> None:
        self.holdouts = holdouts
        self.is_stratified = is_stratified
        self.shard_starts = shard_starts or {}
        self._output = output
        self._root = root
        self._shards = {shard.file: shard for shard in shards}
        self._records = sum(shard.records for shard in shards)
        self._image_files = _image_files(shards, data)
        self._files: dict[str, list[str]] = {}
        for shard in shards:
            self._files.setdefault(ShardName.parse(shard.file).split, []).append(shard.file)

    def describe(self, statistics: Statistics, buckets: Iterable[BucketDuplicates] | None) -> bytes:
        """The content, the same for the same dataset.

        Args:
            statistics: of all shards.
            buckets: the duplicates that were found; None when nothing was compared.

        Raises:
            OSError: the index of a shard is gone.
        """
        classes = statistics.samples.classes
        samples = [
            (name, sample) for name in sorted(classes, key=class_order) for sample in classes[name]
        ]
        wanted = {_place(sample) for _, sample in samples}
        duplicates = None if buckets is None else _Duplicates(buckets, self)
        places = self._look_up(wanted | (duplicates.wanted if duplicates else set()))
        content = describe(
            statistics,
            records=self._records,
            samples=[
                {"class": name, **_without(places[_place(sample)], "class", "path", "content")}
                for name, sample in samples
            ],
            duplicates=duplicates.describe(places) if duplicates else None,
        )
        return (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode()

    def places_of_kept(self, image: Mapping[str, Any]) -> list[Wanted]:
        """Where an image may be that was kept when its duplicates were dropped."""
        splits = [*self._files] if self.is_stratified else [image["split"]]
        if "order" not in image:
            return []
        found = ((self._files.get(split), self.shard_starts.get(split, ())) for split in splits)
        return [
            (shards[shard_index(image["order"], len(shards), starts)], str(image["key"]))
            for shards, starts in found
            if shards
        ]

    def sha256_of(self, images: Sequence[Mapping[str, Any]]) -> list[str | None]:
        """The result of `sha256` for each image, several read at once."""
        ahead = ReadAhead(threads=reading_threads(self._root))
        return list(ahead.map(self.sha256, images, size=_length))

    def sha256(self, image: Mapping[str, Any]) -> str | None:
        """The hash of an image's file; None when it cannot be read any more, or has changed.

        Raises:
            TransientError: a temporary failure; a repeated attempt must write the same bytes.
        """
        uri = full_uri(self._root, image["path"])
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
                place = file, offsets[number]
                if file in self._image_files:
                    place = self._image_files[file][number], 0
                found[file, record] = _record(index, number, *place)
                if held := holdout_of(file):
                    found[file, record] |= {
                        **dict.fromkeys(("file", "offset", "length", "content")),
                        "dataset": self.holdouts[held[0]].folder,
                    }
        return found

    def _index(self, file: str) -> pa.Table:
        if held := holdout_of(file):
            return DatasetReader(self.holdouts).shard_table(*held)
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


class _Duplicates:
    """The section `duplicates`, and the records to look up for it."""

    def __init__(self, found: Iterable[BucketDuplicates], describer: DatasetDescriber) -> None:
        buckets = list(found)
        self._describer = describer
        self._equal = merge_equal(equal_of(bucket) for bucket in buckets)
        held = sum(holdout.records for holdout in describer.holdouts)
        self._near = find_near(buckets, images=describer._records, held=held)

    @property
    def wanted(self) -> set[Wanted]:
        """All records that are listed."""
        pairs = {place for _, *pair in self._near.listed for place in pair}
        images = (image for group in self._equal.listed for image in group["images"])
        return pairs | {place for image in images for place in self._places(image)}

    def describe(self, places: Mapping[Wanted, dict[str, Any]]) -> dict[str, Any]:
        """The section, with the listed records looked up."""
        equal, near = self._equal, self._near
        groups = [self._images(group, places) for group in equal.listed]
        hashes = self._describer.sha256_of([images[0] for images in groups])
        return {
            "exact": {
                "groups": equal.groups,
                "images": equal.images,
                "across_splits": equal.across_splits,
                "conflicts": equal.conflicts,
                "dropped": equal.dropped,
                **({"held": equal.held} if self._describer.holdouts else {}),
                "listed": [
                    {
                        "sha256": sha256,
                        "conflict": group["conflict"],
                        "images": [_shown(image) for image in images],
                    }
                    for group, images, sha256 in zip(equal.listed, groups, hashes, strict=True)
                ],
            },
            "near": {
                "pairs": near.pairs,
                "across_splits": near.across_splits,
                "compared": near.compared,
                **({"held": near.held} if self._describer.holdouts else {}),
                "listed": [
                    {"distance": distance, "images": [_shown(places[one]), _shown(places[other])]}
                    for distance, one, other in near.listed
                ],
            },
        }

    def _places(self, image: Any) -> list[Wanted]:
        if isinstance(image, Mapping):
            return self._describer.places_of_kept(image)
        file, record = image
        return [(file, record)]

    def _images(
        self, group: Mapping[str, Any], places: Mapping[Wanted, dict[str, Any]]
    ) -> list[Mapping[str, Any]]:
        """The images of a group, looked up where they are records."""
        found = []
        for image in group["images"]:
            records = (places[place] for place in self._places(image) if place in places)
            found.append(next(records, image))
        return found


def _image_files(shards: Iterable[ShardSummary], data: Iterable[DataFile]) -> dict[str, list[str]]:
    """The files of single images, by shard and in the order of its records."""
    names = (file.file for file in data)
    return {
        shard.file: list(islice(names, len(shard.files)))
        for shard in shards
        if shard.files is not None
    }


def _place(sample: Sample) -> Wanted:
    return sample.file, sample.record


def _length(image: Mapping[str, Any]) -> int:
    """The bytes of an image; 0 if it is not in the dataset."""
    return image.get("length") or 0


def _without(image: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in image.items() if name not in names}


def _shown(image: Mapping[str, Any]) -> dict[str, Any]:
    return _without(image, "content", "md5", "order")


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
        holdouts: datasets whose images are reported like duplicates.
    """

    folder: DatasetOptions
    checks: CheckOptions
    dataset: Dataset
    converter: Converter
    plan: ShardPlan
    rules: LabelRules = ANY_LABELS
    run: str = ""
    holdouts: tuple[OtherDataset, ...] = ()


# DatasetFiles: the content of the manifest and of the other small files of a dataset.


@dataclasses.dataclass(frozen=True)
class DatasetFiles:
    """Makes the files from the results of a run.

    Attributes:
        output: the dataset's folder.
        dataset: its description made before the run.
        rules: how labels become class ids.
        holdouts: datasets whose images were compared.
    """

    output: str
    dataset: Dataset
    rules: LabelRules
    holdouts: tuple[OtherDataset, ...] = ()

    def described(self, gathered: Gathered) -> Dataset:
        """The dataset, completed with the results of the whole run."""
        totals, options = gathered.totals, self.dataset.options
        vocabulary = self.rules.vocabulary(totals.labels, totals.label_kind)
        decided = [
            *label_decisions(vocabulary, totals.labels, totals.cells, self.rules),
            *stratified_decisions(options, totals, vocabulary, gathered.written.labels),
        ]
        is_per_image = options.get("files") == "per_image"
        names = [] if is_per_image else [ShardName.parse(s.file).split for s in gathered.shards]
        shards = {name: names.count(name) for name in gathered.splits}
        return dataclasses.replace(
            self.dataset,
            splits=gathered.splits,
            decisions=(*self.dataset.decisions, *decided),
            warnings=(*self.dataset.warnings, *gathered.warnings(options, shards, vocabulary)),
        )

    def make(
        self,
        described: Dataset,
        gathered: Gathered,
        *,
        data: Sequence[DataFile],
        recipe: str,
        duplicates: Iterable[BucketDuplicates] | None,
    ) -> dict[str, FileContent]:
        """The content of the files by name; the manifest is the last one.

        Args:
            described: see `described`.
            gathered: the results of the run.
            data: the files of records.
            recipe: see `dataset_recipe`.
            duplicates: None when nothing was compared.

        Raises:
            OSError: a sidecar is gone.
        """
        totals, features = gathered.totals, self.dataset.features
        vocabulary = self.rules.vocabulary(totals.labels, totals.label_kind)
        card, labels = card_of(self.dataset.options), vocabulary.labels_text().encode()
        files: dict[str, FileContent] = {
            LABELS: labels,
            REJECTED: self.rejected(gathered),
            SCHEMA: schema_text(features, vocabulary).encode(),
            **tfds_files(
                features,
                gathered.shards,
                gathered.splits,
                vocabulary,
                formats=gathered.written.statistics.formats,
                image_shape=stored_shape(self.dataset.options),
                card=card,
                depth=stored_depth(self.dataset.options),
            ),
        }
        if card is not None:
            files |= card_files(card, self.dataset, gathered, data=data, labels=labels)
        if self.rules.first_id:
            ids = dict(zip(vocabulary.lines(), vocabulary.ids, strict=True))
            files[LABEL_MAP] = label_map(ids).encode()
        if not self.dataset.of_rows:
            root = originals_root(self.output, self.dataset.root)
            describer = DatasetDescriber(
                self.output,
                root,
                gathered.shards,
                data,
                self.holdouts,
                is_stratified=bool(self.dataset.options.get("stratify")),
                shard_starts=totals.shard_starts,
            )
            files[STATISTICS] = describer.describe(gathered.written.statistics, duplicates)
        kind = "integer" if vocabulary.is_integer else "text"
        manifest = build_manifest(
            described,
            gathered,
            data=data,
            recipe=recipe,
            label_kind=kind if any(totals.labels) else "none",
            files=files,
        )
        return {**files, MANIFEST: to_bytes(manifest)}

    @property
    def lines(self) -> RejectedLines:
        """What makes the lines of rejections."""
        return RejectedLines(self.output, self.dataset.root)

    def rejected(self, gathered: Gathered) -> FileContent:
        """`rejected.jsonl`; a sample if there are more rejections than it can list."""
        if gathered.parts is None or gathered.unlisted:
            return self.lines.text(gathered.rejections)
        return in_parts(gathered.parts)
