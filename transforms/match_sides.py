"""Joins the sides of each key: one key at a time, or all keys of a part together."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator

import apache_beam as beam

from transforms.core.index.stored_images import is_record
from transforms.core.records import Count, JoinSide, LabelledImage
from transforms.core.rejections import Rejection
from transforms.metrics import PROGRESS
from transforms.pack_names import NameBatch, grouped_sides

Joined = LabelledImage | Rejection | Count

# Joins all sides with one key.
JoinGroup = Callable[[str, Iterable[JoinSide]], Iterable[Joined]]

_TYPES: dict[str, type] = {"rejections": Rejection, "counts": Count}
_TAGS = {kind: tag for tag, kind in _TYPES.items()}


def match_sides(join: JoinGroup, *, reuses: bool, are_packed: bool) -> beam.PTransform:
    """A step with the outputs `images`, `rejections` and `counts`.

    Args:
        join: joins one group.
        reuses: whether some sides are records of bases, see `stored_images`.
        are_packed: whether the input is `(part, batches)` of `PackSides`, not `(key, sides)`.
    """
    fn: beam.DoFn = (_JoinPackedFn if are_packed else _JoinFn)(join, reuses=reuses)
    step = beam.ParDo(fn).with_output_types(LabelledImage, **_TYPES)
    return step.with_outputs(*_TYPES, main="images")


class _Joiner:
    def __init__(self, join: JoinGroup, *, reuses: bool) -> None:
        self._join = join
        self._reuses = reuses

    def _joined(
        self, key: str, sides: Iterable[JoinSide]
    ) -> Iterator[LabelledImage | beam.pvalue.TaggedOutput]:
        for result in self._join(key, sides):
            if isinstance(result, LabelledImage):
                yield result
                continue
            if isinstance(result, Rejection) and result.subject == "image":
                PROGRESS.count("planning", 0, rejected=1)
            yield beam.pvalue.TaggedOutput(_TAGS[type(result)], result)


class _JoinFn(_Joiner, beam.DoFn):
    def process(
        self, group: tuple[str, Iterable[JoinSide]]
    ) -> Iterable[LabelledImage | beam.pvalue.TaggedOutput]:
        key, sides = group
        if self._reuses:
            sides = list(sides)
            if all(map(is_record, sides)):
                # Only a base has this key: there is nothing to plan.
                return ()
        PROGRESS.count("planning")
        return self._joined(key, sides)


class _JoinPackedFn(_Joiner, beam.DoFn):
    """Joins the sides of all keys of a part."""

    def process(
        self, part: tuple[int, Iterable[NameBatch]]
    ) -> Iterable[LabelledImage | beam.pvalue.TaggedOutput]:
        groups = grouped_sides(part[1])
        if self._reuses:
            groups = {key: each for key, each in groups.items() if not all(map(is_record, each))}
        PROGRESS.count("planning", len(groups))
        return itertools.chain.from_iterable(itertools.starmap(self._joined, groups.items()))
