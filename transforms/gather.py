"""Gather: everything of some small collections in one element, for a step that runs once."""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

import apache_beam as beam
from apache_beam.transforms.window import GlobalWindows
from apache_beam.utils.windowed_value import WindowedValue

# What was gathered, by the name of its collection; an empty collection is an empty list.
Everything: TypeAlias = dict[str, list[Any]]

_ONE_KEY = 0

# Elements that cross the shuffle together. Texts such as paths compress well with their like.
_BATCH = 256

_Packed: TypeAlias = tuple[int, tuple[str, bytes]]


class Gather(beam.PTransform):
    """Brings whole collections together, through one shuffle with one key.

    Input: collections by name, of which at least one has an element. Output: one `Everything`.
    What crosses the shuffle is compressed: runners keep the group in memory.

    Side inputs would do, but Beam's runners in Java (Flink) fail on those of more than a megabyte
    if a text ends where a chunk does: docs/development/beam_side_inputs.md.
    """

    def expand(
        self, collections: Mapping[str, beam.PCollection[Any]]
    ) -> beam.PCollection[Everything]:
        # A `CoGroupByKey` has three times the steps, which cost 0.3 s of every run.
        packed = [
            collection | f"Pack {name}" >> beam.ParDo(_PackFn(name)).with_output_types(_Packed)
            for name, collection in collections.items()
        ]
        kinds = {name: collection.element_type for name, collection in collections.items()}
        return (
            packed
            | "All" >> beam.Flatten()
            | "Group" >> beam.GroupByKey()
            | "By name" >> beam.Map(_by_name, kinds)
        )


class _PackFn(beam.DoFn):
    def __init__(self, name: str) -> None:
        self._name = name

    def start_bundle(self) -> None:
        self._batch: list[Any] = []

    def process(self, element: Any) -> Iterator[_Packed]:
        # In other processes Beam decodes rows to a class that it generates, and cannot pickle.
        self._batch.append(tuple(element) if isinstance(element, tuple) else element)
        if len(self._batch) >= _BATCH:
            yield self._packed()

    def finish_bundle(self) -> Iterator[WindowedValue]:
        if self._batch:
            yield GlobalWindows.windowed_value(self._packed())

    def _packed(self) -> _Packed:
        batch, self._batch = self._batch, []
        return _ONE_KEY, (self._name, zlib.compress(pickle.dumps(batch), level=1))


def _by_name(
    group: tuple[int, Iterable[tuple[str, bytes]]], kinds: Mapping[str, Any]
) -> Everything:
    everything: Everything = {name: [] for name in kinds}
    for name, packed in group[1]:
        batch = pickle.loads(zlib.decompress(packed))
        kind = kinds[name]
        everything[name] += [kind(*each) for each in batch] if hasattr(kind, "_fields") else batch
    return everything
