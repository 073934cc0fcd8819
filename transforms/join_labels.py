"""ReadInputs and JoinLabels: read images and label rows, and join each image with its label."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import apache_beam as beam

from transforms.core.arguments import one_of, path_texts
from transforms.core.labels.label_kinds import LabelCells, LabelCounter
from transforms.core.planning.joins import join_group
from transforms.core.planning.row_cells import ONE_LABEL, RowRequirements
from transforms.core.planning.split_assignment import SplitAssigner
from transforms.core.records import Count, JoinSide, LabelledImage
from transforms.core.rejections import Rejection
from transforms.find_images import ImageFinder
from transforms.metrics import PROGRESS, counter
from transforms.read_labels import RowReader

# The modules of these types have no postponed annotations: RowCoder would pickle every field whose
# type is only a name, and a runner that is not Python could not read it.
for _record in (JoinSide, LabelledImage, Rejection, Count, LabelCells):
    beam.coders.registry.register_coder(_record, beam.coders.RowCoder)

_REJECTIONS = "rejections"
_COUNTS = "counts"
_LABELS = "labels"

# The source of the labels: `given` by the pipeline itself.
_LABEL_SOURCES = ("csv", "directory", "regex", "given", "none")


class _Input(NamedTuple):
    """A glob of images, or a label file."""

    uri: str
    is_images: bool


class Inputs(NamedTuple):
    """The outputs of `ReadInputs`.

    Attributes:
        sides: images and rows with their keys.
        rejections: images and rows that are left out.
        counts: of images and rows.
        labels: counts of the label cells, or of the labels in paths.
    """

    sides: beam.PCollection[tuple[str, JoinSide]]
    rejections: beam.PCollection[Rejection]
    counts: beam.PCollection[Count]
    labels: beam.PCollection[LabelCells]


class _ReadInputFn(beam.DoFn):
    """Lists a glob, or reads a label file.

    The following metrics are maintained: `images_found`, files that globs matched; `rows_read`,
    rows without headers and blank lines.
    """

    def __init__(self, finder: ImageFinder, reader: RowReader | None) -> None:
        self._finder = finder
        self._reader = reader
        self._counters = {
            "images_found": counter("images_found"),
            "rows_read": counter("rows_read"),
        }

    def process(self, source: _Input) -> Iterable[tuple[str, JoinSide] | beam.pvalue.TaggedOutput]:
        read = self._finder.find if source.is_images or not self._reader else self._reader.read
        labels = LabelCounter()
        has_labels = source.is_images
        for result in read(source.uri):
            if isinstance(result, Rejection):
                yield beam.pvalue.TaggedOutput(_REJECTIONS, result)
            elif isinstance(result, Count):
                self._counters[result.name].inc(result.value)
                yield beam.pvalue.TaggedOutput(_COUNTS, result)
            elif isinstance(result, LabelCells):
                yield beam.pvalue.TaggedOutput(_LABELS, result)
            else:
                PROGRESS.count("listing" if source.is_images else "reading")
                # The label of an image that a row lists may also come from its path.
                if result[1].is_image and result[1].label:
                    labels.add(result[1].label, result[1].path)
                    has_labels = True
                yield result
        if has_labels:
            yield beam.pvalue.TaggedOutput(_LABELS, labels.counted())


class ReadInputs(beam.PTransform):
    """Lists the globs and reads the label files.

    One step for both: two would have to be flattened, which the in-process runner pays for with
    a copy of every name (docs/architecture.md).

    Input: the pipeline's begin. Output: `Inputs`. Bounded; a retry lists and reads again. One
    glob is listed, and one file read, by one worker.
    """

    def __init__(
        self,
        globs: Sequence[str | os.PathLike[str]],
        finder: ImageFinder,
        csv_paths: Sequence[str | os.PathLike[str]],
        reader: RowReader | None,
    ) -> None:
        super().__init__()
        # One of them may be empty: rows can list the images, and images need no rows.
        self._inputs = [_Input(g, True) for g in path_texts("globs", globs)] if globs else []
        if csv_paths:
            self._inputs += [_Input(path, False) for path in path_texts("csv_paths", csv_paths)]
        self._fn = _ReadInputFn(finder, reader)

    def expand(self, begin: beam.pvalue.PBegin) -> Inputs:
        types = {_REJECTIONS: Rejection, _COUNTS: Count, _LABELS: LabelCells}
        read = (
            begin
            | "Name the inputs" >> beam.Create(self._inputs)
            | "List images and read rows"
            >> beam.ParDo(self._fn)
            .with_output_types(tuple[str, JoinSide], **types)
            .with_outputs(_REJECTIONS, _COUNTS, _LABELS, main="sides")
        )
        return Inputs(read.sides, read.rejections, read.counts, read.labels)


class JoinedImages(NamedTuple):
    """The outputs of `JoinLabels`.

    Attributes:
        images: with their labels.
        rejections: images and rows that are left out.
        counts: further counts for the ledger.
        labels: counts of the labels as they were read; None if they were not counted.
    """

    images: beam.PCollection[LabelledImage]
    rejections: beam.PCollection[Rejection]
    counts: beam.PCollection[Count]
    labels: beam.PCollection[LabelCells] | None = None


class _JoinFn(beam.DoFn):
    def __init__(
        self, *, label_from: str, assigner: SplitAssigner, requirements: RowRequirements
    ) -> None:
        self._join = functools.partial(
            join_group, label_from=label_from, assigner=assigner, requirements=requirements
        )

    def process(
        self, group: tuple[str, Iterable[JoinSide]]
    ) -> Iterable[LabelledImage | beam.pvalue.TaggedOutput]:
        key, sides = group
        PROGRESS.count("planning")
        for result in self._join(key, sides):
            if isinstance(result, LabelledImage):
                yield result
            elif isinstance(result, Rejection):
                yield beam.pvalue.TaggedOutput(_REJECTIONS, result)
            else:
                yield beam.pvalue.TaggedOutput(_COUNTS, result)


class JoinLabels(beam.PTransform):
    """Joins images and label rows on their keys; `assigner` gives each image its split and order.

    Input: `(key, JoinSide)` of both. Output: `JoinedImages`. Only names cross the shuffle, with
    label texts and the cells that the layout needs.
    """

    def __init__(
        self, *, label_from: str, assigner: SplitAssigner, requirements: RowRequirements = ONE_LABEL
    ) -> None:
        super().__init__()
        one_of("label_from", label_from, _LABEL_SOURCES)
        self._fn = _JoinFn(label_from=label_from, assigner=assigner, requirements=requirements)

    def expand(self, sides: beam.PCollection[tuple[str, JoinSide]]) -> JoinedImages:
        joined = (
            sides
            | "Group by key" >> beam.GroupByKey()
            | "Match images and rows"
            >> beam.ParDo(self._fn)
            .with_output_types(LabelledImage, **{_REJECTIONS: Rejection, _COUNTS: Count})
            .with_outputs(_REJECTIONS, _COUNTS, main="images")
        )
        return JoinedImages(joined.images, joined.rejections, joined.counts)
