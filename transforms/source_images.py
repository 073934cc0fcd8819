"""Reads images from records of the datasets that `--images` names, neighbours at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from transforms.base_records import RecordRun
from transforms.core.examples.decoder import decode_example
from transforms.core.examples.tfrecord import TFRecordError
from transforms.core.features.kept_values import Kept
from transforms.core.file_errors import check_final
from transforms.core.index.record_index import content_hash
from transforms.core.index.source_records import SourceRecord, is_source_record
from transforms.core.records import LabelledImage, ShardImage
from transforms.core.rejections import Reason, RejectedImageError
from transforms.core.shown_text import first_line
from transforms.read_source import Source
from transforms.storage.files import join

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
