"""ChooseImages: keeps one of the images with each content, however many there are."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import apache_beam as beam

from transforms.core.duplicates.equal_images import Equal, equal_of, merge_equal
from transforms.core.duplicates.resolve_duplicates import (
    ContentGroup,
    Verdict,
    decide,
    part_of,
    resolve_duplicates,
)
from transforms.core.records import (
    NO_LABELLED,
    BucketDuplicates,
    Count,
    LabelledImage,
    partner_files,
)
from transforms.core.rejections import Rejection
from transforms.runners import runs_in_process

_REJECTIONS = "rejections"
_COUNTS = "counts"
_GROUPS = "groups"

# Places in which several machines merge groups before one merges the rest.
_FANOUT = 16

# Groups that are merged at once.
_MERGED = 400

# An image, or the verdict on images with its content as JSON.
_Judged = tuple[str, LabelledImage]


class UniqueImages(NamedTuple):
    """The images that are kept; `groups` are groups of exact duplicates."""

    images: beam.PCollection[LabelledImage]
    rejections: beam.PCollection[Rejection]
    counts: beam.PCollection[Count]
    groups: beam.PCollection[BucketDuplicates]


class ChooseImages(beam.PTransform):
    """Keeps one of the images with equal content; see `resolve_duplicates`.

    On several machines, images are added up by their content where they are, and the verdict is
    joined with them in up to 64 parts: of 30 million equal images, a part has half a million names.
    The groups are merged into one, with the first of them.

    Input: images by a hash of their content. Output: `UniqueImages`.
    """

    def expand(self, contents: beam.PCollection[tuple[str, LabelledImage]]) -> UniqueImages:
        if runs_in_process(contents.pipeline):
            chosen = (
                contents
                | "Group names by content" >> beam.GroupByKey()
                | "Choose one of the duplicates" >> _with_outputs(_ChooseFn(), _GROUPS)
            )
            return UniqueImages(chosen.images, chosen.rejections, chosen.counts, chosen.groups)
        decided = (
            contents
            | "Add up contents" >> beam.CombinePerKey(AddImages())
            | "Decide"
            >> beam.ParDo(_DecideFn())
            .with_output_types(tuple[str, _Judged], **{_GROUPS: BucketDuplicates})
            .with_outputs(_GROUPS, main="verdicts")
        )
        parts = contents | "Name parts" >> beam.ParDo(_NamePartFn()).with_output_types(
            tuple[str, _Judged]
        )
        chosen = (
            (parts, decided.verdicts)
            | "Names and verdicts" >> beam.Flatten()
            | "Group parts of contents" >> beam.GroupByKey()
            | "Keep one of the duplicates" >> _with_outputs(_KeepFn())
        )
        groups = decided.groups | "Merge groups" >> beam.CombineGlobally(MergeGroups()).with_fanout(
            _FANOUT
        )
        return UniqueImages(chosen.images, chosen.rejections, chosen.counts, groups)


def _with_outputs(fn: beam.DoFn, *more: str) -> beam.PTransform:
    types = {_REJECTIONS: Rejection, _COUNTS: Count, **dict.fromkeys(more, BucketDuplicates)}
    step = beam.ParDo(fn).with_output_types(LabelledImage, **types)
    return step.with_outputs(*types, main="images")


class _ChooseFn(beam.DoFn):
    def process(
        self, group: tuple[str, Iterable[LabelledImage]]
    ) -> Iterator[LabelledImage | beam.pvalue.TaggedOutput]:
        md5, images = group
        decision = resolve_duplicates((LabelledImage(*image) for image in images), md5=md5)
        if decision.kept is not None:
            yield decision.kept
        for rejection in decision.rejections:
            yield beam.pvalue.TaggedOutput(_REJECTIONS, rejection)
        if decision.rows:
            yield beam.pvalue.TaggedOutput(_COUNTS, Count("rows_rejected", decision.rows))
        if decision.partners:
            yield beam.pvalue.TaggedOutput(_COUNTS, Count("partners_rejected", decision.partners))
        if decision.equal is not None:
            yield beam.pvalue.TaggedOutput(_GROUPS, BucketDuplicates(json.dumps(decision.equal)))


class AddImages(beam.CombineFn):
    """Adds up the images with one content."""

    def create_accumulator(self) -> ContentGroup:
        return ContentGroup()

    def add_input(self, accumulator: ContentGroup, image: LabelledImage) -> ContentGroup:
        # In another process, Beam decodes rows to a generated class.
        accumulator.add(LabelledImage(*image))
        return accumulator

    def merge_accumulators(self, accumulators: Iterable[ContentGroup]) -> ContentGroup:
        merged = ContentGroup()
        for accumulator in accumulators:
            merged.merge(accumulator)
        return merged

    def extract_output(self, accumulator: ContentGroup) -> ContentGroup:
        return accumulator


class MergeGroups(beam.CombineFn):
    """Merges groups of exact duplicates: all are counted, the first are listed."""

    def create_accumulator(self) -> list[Equal]:
        return []

    def add_input(self, accumulator: list[Equal], group: BucketDuplicates) -> list[Equal]:
        accumulator.append(equal_of(BucketDuplicates(*group)))
        return accumulator if len(accumulator) < _MERGED else self.compact(accumulator)

    def merge_accumulators(self, accumulators: Iterable[list[Equal]]) -> list[Equal]:
        return self.compact(itertools.chain.from_iterable(accumulators))

    def compact(self, accumulator: Iterable[Equal]) -> list[Equal]:
        return [merge_equal(accumulator)]

    def extract_output(self, accumulator: list[Equal]) -> BucketDuplicates:
        return BucketDuplicates(json.dumps(merge_equal(accumulator)))


class _DecideFn(beam.DoFn):
    def process(
        self, content: tuple[str, ContentGroup]
    ) -> Iterator[tuple[str, _Judged] | beam.pvalue.TaggedOutput]:
        md5, group = content
        if group.images + (group.held is not None) < 2 or not group.images:
            return
        verdict, equal = decide(group, md5=md5)
        yield beam.pvalue.TaggedOutput(_GROUPS, BucketDuplicates(json.dumps(equal)))
        for part in sorted(group.parts):
            yield f"{md5} {part}", (json.dumps(verdict), NO_LABELLED)


class _NamePartFn(beam.DoFn):
    def process(self, content: tuple[str, LabelledImage]) -> Iterator[tuple[str, _Judged]]:
        md5, image = content
        # An image of a holdout is only counted.
        if image.split:
            yield f"{md5} {part_of(image)}", ("", image)


class _KeepFn(beam.DoFn):
    def process(
        self, part: tuple[str, Iterable[_Judged]]
    ) -> Iterator[LabelledImage | beam.pvalue.TaggedOutput]:
        # Half a million at most, since the verdict may come last.
        judged = list(part[1])
        verdicts = [Verdict(*json.loads(text)) for text, _ in judged if text]
        rows = partners = 0
        for text, image in judged:
            if text:
                continue
            rejection = verdicts[0].rejection(image) if verdicts else None
            if rejection is None:
                yield LabelledImage(*image)
            else:
                rows += image.rows
                partners += len(partner_files(image.partners))
                yield beam.pvalue.TaggedOutput(_REJECTIONS, rejection)
        if rows:
            yield beam.pvalue.TaggedOutput(_COUNTS, Count("rows_rejected", rows))
        if partners:
            yield beam.pvalue.TaggedOutput(_COUNTS, Count("partners_rejected", partners))
