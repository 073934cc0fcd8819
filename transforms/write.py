"""WriteShards: one planned shard in, one staged TFRecord file out."""

from __future__ import annotations

import dataclasses
import logging
import time
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Protocol

import apache_beam as beam
import google_crc32c
from apache_beam.io.filesystem import CompressedFile, CompressionTypes

from transforms import files
from transforms.convert import ImageConverter
from transforms.core.columns import class_texts
from transforms.core.examples import CheckedImage
from transforms.core.manifest import MANIFEST
from transforms.core.records import ShardImage
from transforms.core.rejections import Reason, Rejection
from transforms.core.shards import ShardPlan, shard_recipe
from transforms.core.stats import PlanTotals, ShardSummary
from transforms.metrics import PROGRESS, counter, distribution

_LOGGER = logging.getLogger(__name__)


class _Writable(Protocol):
    def write(self, data: bytes) -> Any: ...


class ChecksummedFile:
    """A file to write to that knows the CRC32C and the number of its bytes."""

    # Beam's compression asks whether it may write.
    mode = "wb"

    def __init__(self, file: _Writable) -> None:
        self._file = file
        self._crc = 0
        self.bytes = 0

    @property
    def crc32c(self) -> str:
        """8 hexadecimal digits."""
        return f"{self._crc:08x}"

    def write(self, data: bytes) -> int:
        """Writes `data` and adds it to the checksum."""
        self._crc = google_crc32c.extend(self._crc, data)
        self.bytes += len(data)
        self._file.write(data)
        return len(data)

    def tell(self) -> int:
        """Bytes written so far; compression asks for it."""
        return self.bytes

    def flush(self) -> None:
        """Nothing to do: closing the file flushes it."""

    def close(self) -> None:
        """Nothing to do: whoever opened the file closes it; compression ends its stream."""


class WriteShards(beam.io.WriteToTFRecord):
    """Writes planned shards as TFRecord files under staging names.

    A shard is the unit of work, of retry and of resume: its images are read ahead, checked,
    encoded and written inside one call, so memory does not grow with the data and no pixel
    crosses a shuffle. Record framing and compression are those of `beam.io.WriteToTFRecord`.

    Input: `(file name, images)`. Output: `ShardSummary`. A retry writes the same bytes to the
    same name; a shard that a former run finished with the same recipe is not written again.
    Metrics: see `transforms.metrics`.
    """

    def __init__(
        self,
        output: str,
        converter: ImageConverter,
        *,
        plan: ShardPlan,
        totals: beam.PCollection[PlanTotals],
        options_digest: str,
        overwrite: bool,
    ) -> None:
        compression = CompressionTypes.GZIP if plan.gzip else CompressionTypes.UNCOMPRESSED
        super().__init__(files.join(output, "shard"), compression_type=compression)
        self._fn = _WriteShardFn(
            output, converter, self._sink, options_digest=options_digest, overwrite=overwrite
        )
        self._plan = plan
        self._totals = totals

    def expand(
        self, shards: beam.PCollection[tuple[str, Iterable[ShardImage]]]
    ) -> beam.PCollection[ShardSummary]:
        written = shards | "Convert and write each shard" >> beam.ParDo(self._fn).with_output_types(
            ShardSummary
        )
        empty = (
            self._totals
            | "Find shards without images"
            >> beam.ParDo(_FindEmptyFn(self._plan), beam.pvalue.AsIter(written))
            | "Write shards without images" >> beam.ParDo(self._fn).with_output_types(ShardSummary)
        )
        return (written, empty) | "All shards" >> beam.Flatten()


class _FindEmptyFn(beam.DoFn):
    """Names the planned shards that no image fell into; they are files too."""

    def __init__(self, plan: ShardPlan) -> None:
        self._plan = plan

    def process(
        self, totals: PlanTotals, written: Iterable[ShardSummary]
    ) -> Iterator[tuple[str, list[ShardImage]]]:
        there = {shard.file for shard in written}
        for names in self._plan.files(totals.bytes).values():
            for name in names:
                if name not in there:
                    yield name, []


class _WriteShardFn(beam.DoFn):
    def __init__(
        self,
        output: str,
        converter: ImageConverter,
        sink: Any,
        *,
        options_digest: str,
        overwrite: bool,
    ) -> None:
        self._output = output
        self._staging = files.join(output, files.STAGING)
        self._converter = converter
        self._sink = sink
        self._options_digest = options_digest
        self._overwrite = overwrite

    def setup(self) -> None:
        self._converter.setup()
        manifest = files.join(self._output, MANIFEST)
        self._compare_only = not self._overwrite and files.exists(manifest)
        if not self._compare_only:
            files.make_directory(self._staging)

    def process(self, shard: tuple[str, Iterable[ShardImage]]) -> Iterable[ShardSummary]:
        name, unordered = shard
        images = sorted(unordered)
        recipe = shard_recipe(self._options_digest, name, images)
        if self._compare_only:
            yield ShardSummary(file=name, recipe=recipe)
            return
        summary = self._finished(name, recipe)
        if summary is None:
            summary = self._write(name, recipe, images)
        else:
            counter("shards_reused").inc()
            PROGRESS.advance(len(images), len(summary.rejections))
        yield summary

    def _finished(self, name: str, recipe: str) -> ShardSummary | None:
        """The summary of a shard that a former run wrote with this recipe, if it is whole."""
        text = files.read_text(self._sidecar(name, recipe))
        summary = ShardSummary.from_text(text) if text is not None else None
        # What could not be read may be there again.
        if summary is None or any(r.reason == Reason.UNREADABLE for r in summary.rejections):
            return None
        for path in (self._staged(name, recipe), files.join(self._output, name)):
            if files.exists(path) and files.checksum(path) == summary.crc32c:
                return summary
        return None

    def _write(self, name: str, recipe: str, images: list[ShardImage]) -> ShardSummary:
        started = time.monotonic()
        partial = f"{self._staged(name, recipe)}.{uuid.uuid4().hex}.partial"
        summary = self._write_file(partial, name, recipe, images)
        files.rename(partial, self._staged(name, recipe))
        files.write_whole(self._sidecar(name, recipe), summary.to_text().encode())
        seconds = time.monotonic() - started
        self._count(summary, seconds)
        _LOGGER.info(
            "%s: %d records, %d rejected, %d bytes in %.1f s",
            name,
            summary.records,
            len(summary.rejections),
            summary.bytes,
            seconds,
        )
        return summary

    def _write_file(
        self, path: str, name: str, recipe: str, images: list[ShardImage]
    ) -> ShardSummary:
        tally = _Tally()
        with files.open_writer(path) as sink_file:
            file = ChecksummedFile(sink_file)
            stream = self._compressed(file)
            for example in self._converter.encode(tally.pass_images(self._converter.load(images))):
                self._sink.write_record(stream, example)
                tally.records += 1
            stream.close()
        return ShardSummary(
            file=name,
            recipe=recipe,
            records=tally.records,
            bytes=file.bytes,
            crc32c=file.crc32c,
            image_bytes=tally.image_bytes,
            labels=dict(sorted(tally.labels.items())),
            rejections=tuple(tally.rejections),
            pixels=dict(sorted(tally.pixels.items())),
            formats=dict(sorted(tally.formats.items())),
        )

    def _compressed(self, file: ChecksummedFile) -> Any:
        if self._sink.compression_type == CompressionTypes.GZIP:
            return CompressedFile(file, CompressionTypes.GZIP)
        return file

    def _count(self, summary: ShardSummary, seconds: float) -> None:
        counter("shards_written").inc()
        counter("images_written").inc(summary.records)
        counter("images_rejected").inc(len(summary.rejections))
        counter("bytes_read").inc(summary.image_bytes)
        counter("bytes_written").inc(summary.bytes)
        distribution("shard_msec").update(int(seconds * 1000))

    def _staged(self, name: str, recipe: str) -> str:
        return files.join(self._staging, f"{name}.{recipe}")

    def _sidecar(self, name: str, recipe: str) -> str:
        return files.join(self._staging, f"{name}.{recipe}.json")


@dataclasses.dataclass
class _Tally:
    """What was counted while one shard went by."""

    records: int = 0
    image_bytes: int = 0
    labels: Counter[str] = dataclasses.field(default_factory=Counter)
    rejections: list[Rejection] = dataclasses.field(default_factory=list)
    pixels: Counter[str] = dataclasses.field(default_factory=Counter)
    formats: Counter[str] = dataclasses.field(default_factory=Counter)

    def pass_images(self, loaded: Iterable[CheckedImage | Rejection]) -> Iterator[CheckedImage]:
        """Passes images on and keeps rejections."""
        for result in loaded:
            if isinstance(result, Rejection):
                self.rejections.append(result)
                PROGRESS.advance(1, 1)
            else:
                self.labels.update(class_texts(result.image))
                self.image_bytes += len(result.data)
                self.pixels.update(result.changes)
                self.formats[result.info.format] += 1
                PROGRESS.advance(1)
                yield result
