"""Records of a dataset as the images of a conversion."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from transforms.core.messages import check_final, first_line
from transforms.core.records import Count, JoinSide, LabelledImage, ShardImage, SourcePart
from transforms.core.rejections import Reason, RejectedImageError
from transforms.dataset.manifest import check_digest
from transforms.dataset.output_names import MANIFEST
from transforms.examples.decoder import Kept, decode_example
from transforms.examples.tfrecord import TFRecordError
from transforms.labels.vocabulary import LabelCells, LabelCounter
from transforms.records.record_index import (
    FRAME_BYTES,
    RecordIndexError,
    content_hash,
    index_rows,
    indexed_files,
)
from transforms.records.reuse import RecordRun
from transforms.records.stored_images import (
    SOURCE_COLUMNS,
    SourceRecord,
    is_source_record,
    source_side,
)
from transforms.records.written_index import explained, read_listed_index
from transforms.storage.files import join, read_manifest

if TYPE_CHECKING:
    import pyarrow as pa


# Lists the records of datasets that `--images` names, as images with their keys.

# The index of images in uncompressed shards has them for every record.
_ALWAYS_FILLED = (
    *("shard", "record", "offset", "length", "key", "path", "split"),
    *("format", "height", "width", "channels", "orientation", "gps"),
)


class Source(NamedTuple):
    """A dataset whose records are images of this run.

    Attributes:
        folder: its folder.
        digest: of its manifest; another one ends the run.
        feature: the name of the feature that holds the image.
        names: the feature of each source, see `Feature.source`.
        is_final: whether its images were made under the pixel options of this run.
        has_hashes: whether its index has their hashes, as far as the run needs to know.
        has_sizes: whether its images have the sizes of their originals in this run.
    """

    folder: str
    digest: str
    feature: str
    names: Mapping[str, str]
    is_final: bool
    has_hashes: bool = True
    has_sizes: bool = True


class SourceReader:
    """Reads the indexes of datasets, each alone or all in turn. Picklable."""

    def __init__(
        self,
        sources: tuple[Source, ...],
        *,
        label_from: str,
        keeps_splits: bool,
        with_values: bool,
    ) -> None:
        """Sets what to read.

        Args:
            sources: the datasets.
            label_from: `csv` if rows may give the records other labels, `none` without labels.
            keeps_splits: whether the records stay in their splits.
            with_values: whether boxes and columns are taken from the records.
        """
        self.sources = sources
        self._label_from = label_from
        self._keeps_splits = keeps_splits
        self._with_values = with_values

    def read(self, folder: str) -> Iterator[tuple[str, JoinSide] | Count | LabelCells]:
        """Yields every record with its key; of each index, the number and counts of its labels.

        Raises:
            LabelsError: the dataset was replaced since the run began, is damaged or cannot be
                read.
            TransientError: a temporary failure.
        """
        for part in self.parts(folder):
            yield from self.read_part(part)

    def parts(self, folder: str) -> Iterator[SourcePart]:
        """Yields the indexes of a dataset; raises as `read` does."""
        with explained("--images", folder):
            manifest = read_manifest(join(folder, MANIFEST))
            if manifest is None or manifest.get("digest", "") != self._source(folder).digest:
                raise RecordIndexError("it was replaced since this run began: start it again")
            check_digest(manifest, folder)
            yield from source_parts(folder, manifest)

    def read_part(self, part: SourcePart) -> Iterator[tuple[str, JoinSide] | Count | LabelCells]:
        """Yields the records of one index, their number and counts; raises as `read` does."""
        # In other processes than the one that made it, its class is one of Beam's.
        part = SourcePart(*part)
        number = self.sources.index(self._source(part.folder))
        labels, found = LabelCounter(), 0
        with explained("--images", part.folder):
            for row, crc32c in part_rows(part):
                found += 1
                yield row["key"], self._side(number, row, crc32c, labels)
        yield Count("images_found", found)
        yield labels.counted()

    def _source(self, folder: str) -> Source:
        return next(source for source in self.sources if source.folder == folder)

    def _side(
        self, number: int, row: dict[str, Any], crc32c: str, labels: LabelCounter
    ) -> JoinSide:
        if self._label_from == "none":
            row["label"] = row["label_id"] = None
        if not self._keeps_splits:
            row["split"] = ""
        is_final, values = self.sources[number].is_final, self._with_values
        side = source_side(number, row, shard_crc32c=crc32c, with_values=values, is_final=is_final)
        # Rows may replace all labels, which then decide their kind.
        if self._label_from != "csv":
            for label in json.loads(side.cells):
                labels.add(label, side.path)
        return side


def record_rows(folder: str, manifest: Mapping[str, Any]) -> Iterator[tuple[dict[str, Any], str]]:
    """The row of each record, see `part_rows`.

    Args:
        folder: of the dataset.
        manifest: of the dataset.

    Raises:
        RecordIndexError: an index is damaged, or names records that the dataset does not have.
        OSError: one cannot be read.
    """
    for part in source_parts(folder, manifest):
        yield from part_rows(part)


def source_parts(folder: str, manifest: Mapping[str, Any]) -> Iterator[SourcePart]:
    """The indexes of a dataset, in the order of its manifest, each with the files of its records.

    Args:
        folder: of the dataset.
        manifest: of the dataset.
    """
    for entry, files in indexed_files(manifest):
        named = {each["file"]: (each["bytes"], each["crc32c"]) for each in files}
        singles = [name for name in named if "/" in name]
        yield SourcePart(folder, json.dumps([entry, named, singles]))


def part_rows(part: SourcePart) -> Iterator[tuple[dict[str, Any], str]]:
    """The row of each record, with the file that holds it as `shard`, and that file's checksum.

    Args:
        part: an index.

    Raises:
        RecordIndexError: it is damaged, or names records that the dataset does not have.
        OSError: it cannot be read.
    """
    entry, files, singles = json.loads(part.text)
    table = _table(part.folder, entry)
    for number, row in enumerate(index_rows(table)):
        name = singles[number] if number < len(singles) else row["shard"]
        # Names and places that are read back are untrusted.
        size, crc32c = files.get(name, (0, ""))
        end = row["offset"] + row["length"] + FRAME_BYTES
        if not 0 <= row["offset"] < end <= size:
            path = join(part.folder, entry["file"])
            raise RecordIndexError(f"{path} names records that the dataset does not have")
        row["shard"] = name
        yield row, crc32c


def _table(folder: str, entry: Mapping[str, Any]) -> pa.Table:
    table = read_listed_index(folder, entry, SOURCE_COLUMNS)
    if any(table.column(name).null_count for name in _ALWAYS_FILLED):
        path = join(folder, entry["file"])
        raise RecordIndexError(f"{path} is not the index of images in uncompressed files")
    return table


# Reads images from records of the datasets that `--images` names, neighbours at once.

_Image = ShardImage | LabelledImage


class FoundImage(NamedTuple):
    """An image in a record.

    Attributes:
        source: its dataset.
        record: its place, and what the index says of it.
        data: the stored image.
        example: the values of the record, by feature.
    """

    source: Source
    record: SourceRecord
    data: bytes
    example: Mapping[str, Any]

    @property
    def is_final(self) -> bool:
        """Whether it is stored as it is: a run with the same pixel options made and checked it."""
        return self.source.is_final and bool(self.record.stored.content)

    @property
    def kept(self) -> Kept:
        """What its record keeps."""
        info = self.record.stored.info
        size = info.height, info.width
        return Kept(self.source.names, self.example, self.record.labels, size)


class SourceImages:
    """The images of one shard that are records of datasets.

    Attributes:
        sources: the datasets.
    """

    def __init__(self, sources: Sequence[Source], images: Sequence[_Image]) -> None:
        """Groups neighbours; reads nothing.

        Args:
            sources: the datasets.
            images: those that are read once each, in this order; others are left out.
        """
        self.sources = sources
        self._runs: dict[str, tuple[RecordRun, SourceRecord]] = {}
        run: RecordRun | None = None
        for image in images:
            if is_source_record(image.stored):
                record = SourceRecord.of_text(image.stored)
                stored = record.stored
                path = self._path(record)
                if run is None or not run.takes(path, stored):
                    run = RecordRun(path, stored)
                self._runs[image.key] = run, record

    @property
    def records(self) -> int:
        """The number of images that are records."""
        return len(self._runs)

    @property
    def ranges(self) -> int:
        """The number of parts of shards that are read, each at once."""
        return len({id(run) for run, _ in self._runs.values()})

    def read(self, image: _Image) -> FoundImage:
        """An image, after comparing it with its checksums.

        Raises:
            RejectedImageError: its record is damaged, or cannot be read.
            TransientError: a retry may succeed.
        """
        run, record = self._runs.get(image.key) or self._alone(image)
        source, stored = self.sources[record.stored.base], record.stored
        try:
            example = decode_example(run.payload(stored))
            [data] = example[source.feature]
            if stored.content and content_hash(data) != stored.content:
                raise ValueError("its image is not that of the index")
        except OSError as error:
            check_final(error, run.path)
            problem = error.strerror or first_line(error)
        except TFRecordError as error:
            problem = error.problem
        except (ValueError, KeyError, TypeError) as error:
            problem = first_line(error)
        else:
            return FoundImage(source, record, data, example)
        place = f"record {stored.record} of {run.path}"
        raise RejectedImageError(Reason.UNREADABLE, f"{place}: {problem}")

    def _alone(self, image: _Image) -> tuple[RecordRun, SourceRecord]:
        """The record of an image that was to be read elsewhere."""
        record = SourceRecord.of_text(image.stored)
        return RecordRun(self._path(record), record.stored), record

    def _path(self, record: SourceRecord) -> str:
        return join(self.sources[record.stored.base].folder, record.stored.shard)
