"""ListRejections: counts rejections, and writes their lines in sorted parts, on all workers."""

from __future__ import annotations

import bisect
import hashlib
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

import apache_beam as beam

from transforms.core import rejections
from transforms.core.dataset.file_content import content_summary
from transforms.core.dataset.output_names import MANIFEST, STAGING, rejected_part
from transforms.core.records import RejectedPart
from transforms.core.rejections import Rejection, RejectionTotals
from transforms.rejected_lines import RejectedLines
from transforms.storage.files import join, storage_of

MAX_SAMPLED = 10_000
"""Of more rejections, about this many say where parts begin, and are examples in messages."""

PART_LINES = 20_000
"""Lines of a part, about: a worker sorts them in 50 MB."""

# The fields of a `Rejection`: a row that another process decoded cannot be pickled.
_Fields: TypeAlias = tuple[str, ...]

beam.coders.registry.register_coder(RejectedPart, beam.coders.RowCoder)


class ListedRejections(NamedTuple):
    """The outputs of `ListRejections`.

    Attributes:
        planned: totals of the input; one element.
        of_shards: totals of those of shards; one element.
        sample: some of all, as a list of tuples; one element.
        parts: the parts of `rejected.jsonl`; none if there are too many rejections.
    """

    planned: beam.PCollection[RejectionTotals]
    of_shards: beam.PCollection[RejectionTotals]
    sample: beam.PCollection[list[_Fields]]
    parts: beam.PCollection[RejectedPart]


class AddRejections(beam.CombineFn):
    """Adds up rejections, where they are made."""

    def create_accumulator(self) -> RejectionTotals:
        return RejectionTotals()

    def add_input(self, accumulator: RejectionTotals, rejection: Rejection) -> RejectionTotals:
        accumulator.add(Rejection(*rejection))
        return accumulator

    def merge_accumulators(self, accumulators: Iterable[RejectionTotals]) -> RejectionTotals:
        merged = RejectionTotals()
        for accumulator in accumulators:
            merged.merge(accumulator)
        return merged

    def extract_output(self, accumulator: RejectionTotals) -> RejectionTotals:
        return accumulator


class ListRejections(beam.PTransform):
    """Writes the lines of all rejections, however many there are: a wrong key may reject every row.

    Input: `Rejection`. Output: `ListedRejections`. They are counted first. A sample then says where
    the parts begin, of which each is sorted and written by one worker; the parts in order are
    sorted, too. No worker holds more than a part.
    """

    def __init__(
        self, lines: RejectedLines, of_shards: beam.PCollection[Rejection], *, overwrite: bool
    ) -> None:
        """Describes the rejections.

        Args:
            lines: makes their lines.
            of_shards: further rejections.
            overwrite: whether a dataset in the output folder is replaced; if not, a run only
                compares, and no line is written.
        """
        super().__init__()
        self._of_shards = of_shards
        self._write = _WritePartFn(lines, overwrite=overwrite)

    def expand(self, rejections: beam.PCollection[Rejection]) -> ListedRejections:
        planned = rejections | "Count rejections" >> beam.CombineGlobally(AddRejections())
        of_shards = self._of_shards | "Count rejections of shards" >> beam.CombineGlobally(
            AddRejections()
        )
        every = (rejections, self._of_shards) | "Every rejection" >> beam.Flatten()
        totals = [beam.pvalue.AsSingleton(each) for each in (planned, of_shards)]
        sample = (
            every
            | "Sample rejections" >> beam.ParDo(_SampleFn(), *totals).with_output_types(_Fields)
            | "List the sample" >> beam.combiners.ToList()
        )
        begins = sample | "Begin parts" >> beam.Map(begin_parts, *totals)
        parts = (
            every
            | "Name parts"
            >> beam.ParDo(
                _NamePartFn(), beam.pvalue.AsSingleton(begins), *totals
            ).with_output_types(tuple[int, Rejection])
            | "Group lines by part" >> beam.GroupByKey()
            | "Write parts" >> beam.ParDo(self._write).with_output_types(RejectedPart)
        )
        return ListedRejections(planned, of_shards, sample, parts)


class _SampleFn(beam.DoFn):
    def process(self, rejection: Rejection, *totals: RejectionTotals) -> Iterator[_Fields]:
        # The same for every retry.
        crc = zlib.crc32(f"{rejection.path}\0{rejection.key}".encode(errors="replace"))
        if crc * _count(totals) < MAX_SAMPLED * 2**32:
            yield tuple(rejection)


class _NamePartFn(beam.DoFn):
    def process(
        self, rejection: Rejection, begins: Sequence[_Fields], *totals: RejectionTotals
    ) -> Iterator[tuple[int, Rejection]]:
        if _count(totals) <= rejections.MAX_LISTED:
            yield part_of(rejection, begins), rejection


class _WritePartFn(beam.DoFn):
    def __init__(self, lines: RejectedLines, *, overwrite: bool) -> None:
        self._lines = lines
        self._overwrite = overwrite

    def setup(self) -> None:
        manifest = join(self._lines.output, MANIFEST)
        self._compares = not self._overwrite and storage_of(manifest).exists(manifest)

    def process(self, part: tuple[int, Iterable[Rejection]]) -> Iterator[RejectedPart]:
        number, unordered = part
        ordered = sorted(Rejection(*each) for each in unordered)
        data = self._lines.text(ordered)
        name = rejected_part(hashlib.blake2b(data, digest_size=16).hexdigest())
        if not self._compares:
            staging, storage = join(self._lines.output, STAGING), storage_of(self._lines.output)
            storage.make_directory(staging)
            storage.write_whole(join(staging, name), data)
        yield RejectedPart(number, name, len(ordered), *content_summary(data))


def begin_parts(sample: Iterable[_Fields], *totals: RejectionTotals) -> list[_Fields]:
    """Where all parts but the first begin.

    Args:
        sample: of the rejections.
        totals: of all of them.
    """
    count, ordered = -(-_count(totals) // PART_LINES), sorted(sample)
    return [ordered[len(ordered) * number // count] for number in range(1, count) if ordered]


def part_of(rejection: Sequence[str], begins: Sequence[_Fields]) -> int:
    """The number of the part with a rejection's line: equal ones are in the same part."""
    return bisect.bisect_right(begins, tuple(rejection))


def _count(totals: Iterable[RejectionTotals]) -> int:
    return sum(each.count for each in totals)
