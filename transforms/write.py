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

from transforms import files, gcs
from transforms.core.columns import class_texts
from transforms.core.examples import CheckedImage
from transforms.core.image_files import ImageFile, image_file
from transforms.core.manifest import MANIFEST
from transforms.core.records import ShardImage, ShardRow
from transforms.core.rejections import Reason, Rejection
from transforms.core.shards import ShardName, ShardPlan, shard_recipe
from transforms.core.stats import PlanTotals, ShardSummary
from transforms.fetch import ReadAhead
from transforms.metrics import PROGRESS, counter, distribution

Planned = ShardImage | ShardRow

_LOGGER = logging.getLogger(__name__)


class _Writable(Protocol):
    def write(self, data: bytes) -> Any: ...


class Converter(Protocol):
    """Makes serialized Examples of what is planned for one shard."""

    def setup(self) -> None:
        """Makes what cannot be pickled."""

    def load(self, images: Iterable[Any], /) -> Iterator[CheckedImage | Rejection]:
        """What may become a record, or why it may not, in the order given."""

    def encode(self, images: Iterable[CheckedImage], /) -> Iterator[bytes]:
        """Serialized Examples in the order given."""


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

    Input: `(file name, images)`, or rows in the place of images. Output: `ShardSummary`. A retry
    writes the same bytes to the same name; a shard that a former run finished with the same recipe
    is not written again.
    Metrics: see `transforms.metrics`.
    """

    def __init__(
        self,
        output: str,
        converter: Converter,
        *,
        plan: ShardPlan,
        totals: beam.PCollection[PlanTotals],
        options_digest: str,
        overwrite: bool,
        per_image: bool = False,
    ) -> None:
        compression = CompressionTypes.GZIP if plan.gzip else CompressionTypes.UNCOMPRESSED
        super().__init__(files.join(output, "shard"), compression_type=compression)
        self._fn = (_WriteImagesFn if per_image else _WriteShardFn)(
            output, converter, self._sink, options_digest=options_digest, overwrite=overwrite
        )
        self._plan = plan
        self._totals = totals

    def expand(
        self, shards: beam.PCollection[tuple[str, Iterable[Planned]]]
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
    ) -> Iterator[tuple[str, list[Planned]]]:
        there = {shard.file for shard in written}
        for names in self._plan.files(totals.bytes).values():
            for name in names:
                if name not in there:
                    yield name, []


class _WriteShardFn(beam.DoFn):
    def __init__(
        self,
        output: str,
        converter: Converter,
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

    def process(self, shard: tuple[str, Iterable[Planned]]) -> Iterable[ShardSummary]:
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
        return summary if self._is_whole(summary) else None

    def _is_whole(self, summary: ShardSummary) -> bool:
        """Whether all bytes of a shard are there, staged or published."""
        paths = (self._staged(summary.file, summary.recipe), files.join(self._output, summary.file))
        return any(_has_checksum(path, summary.crc32c) for path in paths)

    def _write(self, name: str, recipe: str, images: list[Planned]) -> ShardSummary:
        started = time.monotonic()
        partial = f"{self._staged(name, recipe)}.{uuid.uuid4().hex}.partial"
        summary = self._stage(partial, name, recipe, images)
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

    def _stage(self, partial: str, name: str, recipe: str, images: list[Planned]) -> ShardSummary:
        """Writes the shard to `partial`, and gives it the name under which it is staged."""
        tally = _Tally()
        examples = self._converter.encode(tally.pass_images(self._converter.load(images)))
        file, records = self._write_file(partial, examples)
        files.rename(partial, self._staged(name, recipe))
        return ShardSummary(
            file=name,
            recipe=recipe,
            records=records,
            bytes=file.bytes,
            crc32c=file.crc32c,
            **tally.counts(),
        )

    def _write_file(self, path: str, examples: Iterable[bytes]) -> tuple[ChecksummedFile, int]:
        """One TFRecord file, and how many records it holds."""
        records = 0
        with files.open_writer(path) as sink_file:
            file = ChecksummedFile(sink_file)
            stream = self._compressed(file)
            for example in examples:
                self._sink.write_record(stream, example)
                records += 1
            stream.close()
        return file, records

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


class _WriteImagesFn(_WriteShardFn):
    """Stages a file for each image of a shard; the shard stays the unit of work and of resume.

    Nothing looks for the files until the sidecar names their folder, so they need no renaming.
    """

    def _stage(self, partial: str, name: str, recipe: str, images: list[Planned]) -> ShardSummary:
        tally = _Tally()
        files.make_directory(partial)
        folder = partial.rpartition("/")[2]
        keys: list[str] = []

        def noted(checked: Iterable[CheckedImage]) -> Iterator[CheckedImage]:
            for each in checked:
                keys.append(each.image.key)
                yield each

        def write(numbered: tuple[int, bytes]) -> ChecksummedFile:
            number, example = numbered
            return self._write_file(files.join(partial, f"{number:07d}"), [example])[0]

        examples = self._converter.encode(noted(tally.pass_images(self._converter.load(images))))
        written = list(
            ReadAhead(threads=gcs.READERS).map(
                write, enumerate(examples), size=lambda numbered: len(numbered[1])
            )
        )
        files.sync_folder(partial)
        return ShardSummary(
            file=name,
            recipe=recipe,
            records=len(written),
            bytes=sum(file.bytes for file in written),
            **tally.counts(),
            files=tuple(
                ImageFile(key, file.bytes, file.crc32c)
                for key, file in zip(keys, written, strict=True)
            ),
            folder=folder,
        )

    def _is_whole(self, summary: ShardSummary) -> bool:
        split, *_, gzip = ShardName.parse(summary.file)

        def is_whole(staged: tuple[str, ImageFile]) -> bool:
            name, file = staged
            published = [
                image_file(split, file.key, gzip=gzip, is_marked=is_marked)
                for is_marked in (False, True)
            ]
            paths = [files.join(self._staging, name)]
            paths += [files.join(self._output, each) for each in published]
            return any(_has_checksum(path, file.crc32c) for path in paths)

        staged = zip(summary.staged, summary.files or (), strict=True)
        return all(files.for_each(is_whole, staged, self._output))


def _has_checksum(path: str, crc32c: str) -> bool:
    return files.exists(path) and files.checksum(path) == crc32c


@dataclasses.dataclass
class _Tally:
    """What was counted while one shard went by."""

    image_bytes: int = 0
    labels: Counter[str] = dataclasses.field(default_factory=Counter)
    rejections: list[Rejection] = dataclasses.field(default_factory=list)
    pixels: Counter[str] = dataclasses.field(default_factory=Counter)

    def counts(self) -> dict[str, Any]:
        """What a `ShardSummary` takes of it."""
        return {
            "image_bytes": self.image_bytes,
            "labels": dict(sorted(self.labels.items())),
            "rejections": tuple(self.rejections),
            "pixels": dict(sorted(self.pixels.items())),
        }

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
                PROGRESS.advance(1)
                yield result
