"""WriteShards: writes each planned shard to a staged TFRecord file."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import logging
import os
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Any

import apache_beam as beam
from apache_beam.io.filesystem import CompressedFile, CompressionTypes
from apache_beam.transforms.window import GlobalWindows
from apache_beam.utils.windowed_value import WindowedValue

from transforms.core.records import FingerprintBatch
from transforms.core.rejections import Rejection
from transforms.dataset.dataset_options import card_of
from transforms.dataset.image_statistics import Sample, Statistics
from transforms.dataset.ledger import ShardSummary, with_index
from transforms.dataset.output_names import BEGUN, STAGING, ImageFile, chosen_image
from transforms.dataset_files import DatasetTarget
from transforms.images.checked_images import CheckedImage
from transforms.images.guard import end_hangs, is_supervised
from transforms.images.pixel_options import FROM_HEIC, UNTOUCHED
from transforms.labels.joins import class_texts
from transforms.labels.label_rules import ANY_LABELS
from transforms.labels.shards import RecipeMaker, Recipes, ShardName
from transforms.packing import rules_of, with_outputs
from transforms.records.existing_shards import (
    Converter,
    ExistingShards,
    FinishedShard,
    Planned,
    Roots,
    copy_whole,
    only_compares,
)
from transforms.records.record_index import IndexRows, index_bytes
from transforms.records.written_index import stored_sha256
from transforms.selection.duplicates import BUCKETS, fingerprint_batches
from transforms.storage.files import (
    ChecksummedFile,
    join,
    sidecar_path,
    storage_of,
)
from transforms.storage.interface import READERS
from transforms.storage.metrics import PROGRESS, counter, distribution
from transforms.storage.read_ahead import ReadAhead

if TYPE_CHECKING:
    import pyarrow as pa


# One TFRecord file as it is written: frames, compression and checksum.


def write_records(
    sink: Any, file: Any, records: Iterable[bytes], *, with_sha256: bool = False
) -> ChecksummedFile:
    """Writes records with Beam's own sink.

    Args:
        sink: frames the records, and says whether they are compressed.
        file: gets the bytes; it is not closed.
        records: all of the file.
        with_sha256: whether to compute the SHA-256 of the file.

    Returns:
        the file, with its size and its checksum.
    """
    counted = ChecksummedFile(file, with_sha256=with_sha256)
    stream: Any = counted
    if sink.compression_type == CompressionTypes.GZIP:
        stream = CompressedFile(counted, CompressionTypes.GZIP)
    for record in records:
        sink.write_record(stream, record)
    # Writes what is left in the compressor.
    stream.close()
    return counted


# Counts the images of one shard as they are written.

_LOGGER = logging.getLogger(__name__)


@dataclasses.dataclass
class ShardCounter:
    """Counts of one shard; `observe` and `observe_examples` count the items that they pass on.

    Attributes:
        file: name of the shard.
        of_images: whether its records are made of images; others have no statistics.
        records: in the shard.
        index: the rows of its index.
        statistics: of its images.
        sizes: stored bytes of each of its images.
        labels: records of each label text.
        rejections: its images that are left out.
        pixels: records of each change to the pixels.
        taken: images that are from records of another dataset.
        is_changed: whether some image may not be stored unchanged.
    """

    file: str
    of_images: bool
    records: int = 0
    index: IndexRows = dataclasses.field(default_factory=IndexRows)
    statistics: Statistics = dataclasses.field(default_factory=Statistics)
    sizes: list[int] = dataclasses.field(default_factory=list)
    labels: Counter[str] = dataclasses.field(default_factory=Counter)
    rejections: list[Rejection] = dataclasses.field(default_factory=list)
    pixels: Counter[str] = dataclasses.field(default_factory=Counter)
    taken: int = 0
    is_changed: bool = False

    def recipe(self, recipes: Recipes) -> str:
        """The recipe of the shard, after all of its images are counted."""
        return recipes.of(is_changed=self.is_changed, has_heic=FROM_HEIC in self.pixels)

    def observe(self, loaded: Iterable[CheckedImage | Rejection]) -> Iterator[CheckedImage]:
        """Passes images on and keeps rejections."""
        for result in loaded:
            if isinstance(result, Rejection):
                self.rejections.append(result)
                PROGRESS.count("converting", 1, 1)
            else:
                self._count(result)
                PROGRESS.count("converting", 1)
                yield result

    def observe_examples(self, examples: Iterable[bytes]) -> Iterator[bytes]:
        """Passes Examples on and keeps their lengths."""
        for example in examples:
            self.records += 1
            self.index.lengths.append(len(example))
            yield example

    def _count(self, checked: CheckedImage) -> None:
        if not self.of_images:
            # A row has no class.
            self.labels[""] += 1
            self.index.add(checked)
            return
        # `Counter.update` costs ten times as much as one addition.
        for class_ in class_texts(checked.image):
            self.labels[class_] += 1
            sample = Sample(checked.image.order, self.file, len(self.sizes))
            self.statistics.samples.add(class_, sample)
        self.statistics.gps += checked.has_place
        self.sizes.append(len(checked.data) or checked.unread)
        self.taken += checked.is_reused
        for change in checked.changes:
            self.pixels[change] += 1
        if checked.partners:
            # What further images alone bring into the record.
            has_place = any(each.has_place for each in checked.partners)
            self.statistics.gps += has_place and not checked.has_place
            if checked.has_heic and FROM_HEIC not in checked.changes:
                self.pixels[FROM_HEIC] += 1
        self.is_changed = self.is_changed or checked.changes != UNTOUCHED
        self.index.add(checked)

    def counts(self) -> dict[str, Any]:
        """The fields for a `ShardSummary`."""
        if self.of_images:
            _, infos, _, _, orientations, *_ = self.index.columns()
            self.statistics.add(infos, self.sizes, orientations)
        self.statistics.samples.shrink()
        return {
            "records": self.records,
            "image_bytes": sum(self.sizes),
            "labels": dict(sorted(self.labels.items())),
            "rejections": tuple(self.rejections),
            "pixels": dict(sorted(self.pixels.items())),
            "statistics": self.statistics.to_json() if self.of_images else {},
        }


def make_records(
    converter: Converter, sink: Any, name: str, images: Sequence[Planned]
) -> tuple[int, str]:
    """Makes the records of a shard, and nothing of them but their bytes and their checksum."""
    shard_counter = ShardCounter(name, converter.of_images)
    examples = converter.encode(shard_counter.observe(converter.load(images)))
    with open(os.devnull, "wb") as nowhere:
        file = write_records(sink, nowhere, examples)
    return file.bytes, file.crc32c


def count_shard(summary: ShardSummary, seconds: float, *, is_read: bool) -> None:
    """Adds a shard that was written to Beam's metrics, and logs it.

    Args:
        summary: of the shard.
        seconds: from its beginning to its last record.
        is_read: whether its images were read, not a whole shard copied.
    """
    counter("shards_written").inc()
    counter("images_written").inc(summary.records)
    counter("images_rejected").inc(len(summary.rejections))
    counter("bytes_read").inc(summary.image_bytes if is_read else 0)
    counter("bytes_written").inc(summary.bytes)
    distribution("shard_msec").update(int(seconds * 1000))
    rejected, size = len(summary.rejections), summary.bytes
    message = "%s: %d records, %d rejected, %d bytes in %.1f s"
    _LOGGER.info(message, summary.file, summary.records, rejected, size, seconds)


# Finishes each shard beside the next one, so that no core waits between them.
#
# A shard is synced and renamed, which takes as long as many images, while the next one is written.

# Shards that are finished beside the next one. More would only leave more unfinished files behind a
# crash.
_BESIDE = 1


class ShardFinisher:
    """Finishes written shards in a thread of its own, in their order."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="finish-shard")
        self._finishing: list[Future[FinishedShard]] = []

    def write(
        self, shard: Callable[[], Callable[[], FinishedShard]] | None = None
    ) -> list[FinishedShard]:
        """Writes a shard, which returns what finishes it; None writes none, and finishes all.

        Returns:
            the shards that must be finished before another one is begun.

        Raises:
            Exception: what writing or finishing one of them raises; the former one is finished if
                it can be.
        """
        try:
            if shard is not None:
                self._finishing.append(self._pool.submit(shard()))
            but = 0 if shard is None else _BESIDE
            return [self._finishing.pop(0).result() for _ in self._finishing[but:]]
        except BaseException:
            # The run ends, and gives its lock back.
            self.abandon()
            raise

    def abandon(self) -> None:
        """Waits until nothing is written any more, and forgets all shards and errors."""
        wait(self._finishing)
        self._finishing = []

    def close(self) -> None:
        """Abandons what is not finished, and ends the thread."""
        self.abandon()
        self._pool.shutdown()


# WriteShards: writes each planned shard to a staged TFRecord file.

_FINGERPRINTS = "fingerprints"


class WriteShards(beam.io.WriteToTFRecord):
    """Writes planned shards as TFRecord files under staging names.

    A shard is the unit of work, of retry and of resume: its images are read ahead, checked,
    encoded and written in one call, so memory does not grow with the data and no pixel
    crosses a shuffle. Record framing and compression are those of `beam.io.WriteToTFRecord`.

    Input: `(file name, images)`, or rows instead of images. Output: `shards`, a `ShardSummary` for
    each, and `fingerprints` by bucket, if they are computed. A retry
    writes the same bytes to the same name; a shard that a former run finished with the same recipe
    is not written again, and its fingerprints are those in its sidecar.
    Metrics: see `transforms.storage.metrics`.
    """

    def __init__(self, target: DatasetTarget) -> None:
        plan = target.plan
        compression = CompressionTypes.GZIP if plan.gzip else CompressionTypes.UNCOMPRESSED
        super().__init__(join(target.folder.output, "shard"), compression_type=compression)
        # There may be many names of classes, which images have already.
        target = target._replace(rules=ANY_LABELS)
        self._fn = (_WriteImagesFn if plan.per_image else _WriteShardFn)(target, self._sink)

    def expand(
        self, shards: beam.PCollection[tuple[str, Iterable[Planned]]]
    ) -> beam.pvalue.DoOutputsTuple:
        rules = rules_of(shards.pipeline)
        self._fn.buckets, self._fn.restarts = rules.buckets, rules.restarts
        types = {_FINGERPRINTS: tuple[int, FingerprintBatch]}
        step = with_outputs(beam.ParDo(self._fn), "shards", ShardSummary, **types)
        return shards | "Convert and write each shard" >> step


@dataclasses.dataclass
class _OpenShard:
    """A shard while it is written.

    Attributes:
        recipes: that it may have.
        partial: the path that it has first; empty if it is copied.
        counter: of its images.
        files: to close before it gets its name.
    """

    recipes: Recipes
    partial: str
    counter: ShardCounter
    files: contextlib.ExitStack = dataclasses.field(default_factory=contextlib.ExitStack)


@dataclasses.dataclass(eq=False, repr=False)
class _WriteShardFn(beam.DoFn):
    target: DatasetTarget
    sink: Any
    buckets: int = BUCKETS
    restarts: bool = False

    _per_image = False

    def setup(self) -> None:
        self._output, dataset = self.target.folder.output, self.target.dataset
        self._staging = join(self._output, STAGING)
        self._converter = self.target.converter
        self._converter.setup()
        self._compare_only = only_compares(self.target.folder)
        roots = None if dataset.of_rows else Roots((dataset.root, *dataset.partners.values()))
        self._roots_digest = "" if roots is None else roots.digest
        self._with_sha256 = card_of(dataset.options) is not None
        libraries = self._converter.libraries._replace(gzip=self.target.plan.gzip)
        self._recipes = RecipeMaker(dataset.digest, libraries)
        self._finisher = ShardFinisher()
        self._existing = ExistingShards(
            self._output,
            roots,
            with_fingerprints=self._converter.fingerprints,
            with_sha256=self._with_sha256,
            compares=self._compare_only,
            per_image=self._per_image,
        )
        if self.restarts:
            end_hangs()
        if not self._compare_only:
            storage_of(self._staging).make_directory(self._staging)

    def process(
        self, shard: tuple[str, Iterable[Planned]]
    ) -> Iterable[ShardSummary | beam.pvalue.TaggedOutput]:
        name, unordered = shard
        images = sorted(unordered)
        recipes = self._recipes.recipes(name, images)
        if self._compare_only:
            written = functools.partial(make_records, self._converter, self.sink, name, images)
            recipe = self._existing.compared(name, recipes, images, self._converter.load, written)
            yield ShardSummary(file=name, recipe=recipe)
            return
        finished = self._existing.finished(name, recipes)
        if finished is not None:
            counter("shards_reused").inc()
            PROGRESS.count("converting", len(images), len(finished.summary.rejections))
            yield from self._outputs(*finished)
            return
        if not is_supervised():
            # An attempt that did not finish, on any machine, may have died over an image.
            begun = self._begun(name, recipes)
            if storage_of(begun).exists(begun):
                self._converter.isolate(images)
            else:
                storage_of(begun).write_whole(begun, b"")
        write = functools.partial(self._write, name, recipes, images)
        for former in self._finisher.write(write):
            yield from self._outputs(*former)

    def finish_bundle(self) -> Iterator[WindowedValue | beam.pvalue.TaggedOutput]:
        # Beam keeps the outputs of a bundle only if all of it succeeds.
        for former in self._finisher.write():
            for output in self._outputs(*former):
                if isinstance(output, beam.pvalue.TaggedOutput):
                    output.value = GlobalWindows.windowed_value(output.value)
                    yield output
                else:
                    yield GlobalWindows.windowed_value(output)

    def teardown(self) -> None:
        self._finisher.close()

    def _outputs(
        self, summary: ShardSummary, index: pa.Table
    ) -> Iterator[ShardSummary | beam.pvalue.TaggedOutput]:
        yield summary
        if self._converter.fingerprints:
            for batch in fingerprint_batches(index, summary.file, self.buckets):
                yield beam.pvalue.TaggedOutput(_FINGERPRINTS, batch)

    def _write(
        self, name: str, recipes: Recipes, images: list[Planned]
    ) -> Callable[[], FinishedShard]:
        """Writes a shard; what is returned gives it its name and its sidecar."""
        started = time.monotonic()
        partial = f"{self._staged(name, recipes.unchanged)}.{uuid.uuid4().hex}.partial"
        shard = _OpenShard(recipes, partial, ShardCounter(name, self._converter.of_images))
        staged = self._copied(shard, images)
        if staged is not None:
            shard.partial = ""
        else:
            loaded = shard.counter.observe(self._converter.load(images))
            examples = shard.counter.observe_examples(self._converter.encode(loaded))
            with contextlib.ExitStack() as files:
                staged = self._stage(files, shard, examples)
                shard.files = files.pop_all()
        counts = shard.counter.counts()
        summary = dataclasses.replace(staged, **counts, roots=self._roots_digest)
        count_shard(summary, time.monotonic() - started, is_read=bool(shard.partial))
        if shard.counter.taken:
            counter("images_reused").inc(shard.counter.taken)
        return functools.partial(self._finish, shard, summary)

    def _copied(self, shard: _OpenShard, images: list[Planned]) -> ShardSummary | None:
        """Stages the same shard of another dataset without reading it; None if there is none."""
        name = shard.counter.file
        published = self.target.plan.published(name)
        whole = self._converter.whole_shard(published, shard.recipes, images)
        if whole is None or not copy_whole(whole, self._staged(name, whole.entry.recipe)):
            return None
        counter("shards_copied").inc()
        shard.counter.records = sum(1 for _ in shard.counter.observe(whole.images))
        shard.counter.index.lengths.extend(whole.lengths)
        _, size, crc32c, recipe = whole.entry
        sha256 = stored_sha256(self._staged(name, recipe)) if self._with_sha256 else ""
        return ShardSummary(file=name, recipe=recipe, bytes=size, crc32c=crc32c, sha256=sha256)

    def _finish(self, shard: _OpenShard, summary: ShardSummary) -> FinishedShard:
        """Makes a written shard one that a rerun finds, in another thread."""
        published = [file.name for file in summary.files or () if file.name]
        if self.target.plan.file_name and not self._per_image:
            summary = dataclasses.replace(summary, chosen=self.target.plan.published(summary.file))
            published = [summary.chosen] * summary.records
        index = shard.counter.index.table(
            summary.file,
            published=published,
            many_labels=self._converter.many_labels,
            partners=self._converter.partner_names,
            is_per_image=self._per_image,
            libraries=self._recipes.versions(
                is_changed=shard.counter.is_changed, has_heic=FROM_HEIC in shard.counter.pixels
            ),
        )
        data = index_bytes(index)
        summary = with_index(summary, data, with_sha256=self._with_sha256)
        shard.files.close()
        # A copied shard has its name.
        if shard.partial:
            self._name_staged(shard.partial, summary)
        storage = storage_of(self._staging)
        storage.write_whole(join(self._staging, summary.staged_index), data)
        # The sidecar comes last: it says that the others are there.
        path = sidecar_path(self._output, summary.file, summary.recipe)
        storage.write_whole(path, summary.to_sidecar().encode())
        if not is_supervised():
            storage.remove(self._begun(summary.file, shard.recipes))
        return FinishedShard(summary, index)

    def _stage(
        self, files: contextlib.ExitStack, shard: _OpenShard, examples: Iterable[bytes]
    ) -> ShardSummary:
        """Writes the shard to `partial`, which is synced when `files` are closed."""
        writer = files.enter_context(storage_of(shard.partial).open_writer(shard.partial))
        file = write_records(self.sink, writer, examples, with_sha256=self._with_sha256)
        counted, recipe = shard.counter, shard.counter.recipe(shard.recipes)
        return ShardSummary(counted.file, recipe, 0, file.bytes, file.crc32c, sha256=file.sha256)

    def _name_staged(self, partial: str, summary: ShardSummary) -> None:
        """Renames the shard to its staging name."""
        storage = storage_of(partial)
        # The sidecar is renamed in the same folder, and then synced with it.
        storage.rename(partial, self._staged(summary.file, summary.recipe), is_synced=False)

    def _begun(self, name: str, recipes: Recipes) -> str:
        return f"{self._staged(name, recipes.unchanged)}{BEGUN}"

    def _staged(self, name: str, recipe: str) -> str:
        return join(self._staging, f"{name}.{recipe}")


class _WriteImagesFn(_WriteShardFn):
    """Stages a file for each image of a shard; the shard stays the unit of work and of resume.

    Nothing reads the files before the sidecar names their folder, so they are not renamed.
    """

    _per_image = True

    def _stage(
        self, files: contextlib.ExitStack, shard: _OpenShard, examples: Iterable[bytes]
    ) -> ShardSummary:
        folder = shard.partial
        storage_of(folder).make_directory(folder)

        def write(numbered: tuple[int, bytes]) -> ChecksummedFile:
            number, example = numbered
            path = join(folder, f"{number:07d}")
            with storage_of(path).open_writer(path) as file:
                return write_records(self.sink, file, [example])

        ahead = ReadAhead(threads=READERS)
        written = [*ahead.map(write, enumerate(examples), size=lambda each: len(each[1]))]
        return ShardSummary(
            file=shard.counter.file,
            recipe=shard.counter.recipe(shard.recipes),
            bytes=sum(file.bytes for file in written),
            files=tuple(
                ImageFile(planned.key, file.bytes, file.crc32c, self._name_of(shard, planned))
                for (planned, *_), file in zip(shard.counter.index.checked, written, strict=True)
            ),
            folder=folder.rpartition("/")[2],
        )

    def _name_of(self, shard: _OpenShard, image: Any) -> str:
        split, template = ShardName.parse(shard.counter.file).split, self.target.plan.file_name
        return template and chosen_image(template, split, image.label, image.key)

    def _name_staged(self, partial: str, summary: ShardSummary) -> None:
        storage_of(partial).sync_folder(partial)
