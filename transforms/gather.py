"""Gather: collects some small collections in one element, for a step that runs once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import apache_beam as beam

# The gathered elements by the name of their collection; empty collections are empty lists.
Everything: TypeAlias = dict[str, list[Any]]

_ONE_KEY = 0


class Gather(beam.PTransform):
    """Brings whole collections together, through one shuffle with one key.

    Input: collections by name; at least one of them is not empty. Output: one `Everything`.

    Side inputs would do, but Beam's runners in Java (Flink) fail on those of more than a megabyte
    whose parts happen to end where a chunk does: docs/development/beam_side_inputs.md.
    """

    def expand(
        self, collections: Mapping[str, beam.PCollection[Any]]
    ) -> beam.PCollection[Everything]:
        # A `CoGroupByKey` is this with three times the steps, which cost 0.3 s of every run.
        named = [
            collection | f"Name {name}" >> beam.Map(_named, name).with_output_types(_Named)
            for name, collection in collections.items()
        ]
        return (
            named
            | "All" >> beam.Flatten()
            | "Group" >> beam.GroupByKey()
            | "By name" >> beam.Map(_by_name, list(collections))
        )


_Named: TypeAlias = tuple[int, tuple[str, Any]]


def _named(element: Any, name: str) -> _Named:
    return _ONE_KEY, (name, element)


def _by_name(group: tuple[int, Iterable[tuple[str, Any]]], names: list[str]) -> Everything:
    everything: Everything = {name: [] for name in names}
    for name, element in group[1]:
        everything[name].append(element)
    return everything
