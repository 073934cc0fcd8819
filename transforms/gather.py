"""Gather: everything of some small collections in one element, for a step that runs once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import apache_beam as beam

# What was gathered, by the name of its collection; an empty collection is an empty list.
Everything: TypeAlias = dict[str, list[Any]]

_ONE_KEY = 0
_BEGIN = ""


class Gather(beam.PTransform):
    """Brings whole collections together, through one shuffle with one key.

    Input: collections by name. Output: one `Everything`, also when all of them are empty.

    Side inputs would do, but Beam's runners in Java (Flink) fail on those of more than a megabyte
    whose parts happen to end where a chunk does: docs/development/beam_side_inputs.md.
    """

    def expand(
        self, collections: Mapping[str, beam.PCollection[Any]]
    ) -> beam.PCollection[Everything]:
        first = next(iter(collections.values()))
        begin = first.pipeline | "Once" >> beam.Create([(_ONE_KEY, None)])
        keyed = {
            name: collection | f"Key {name}" >> beam.Map(_with_one_key)
            for name, collection in collections.items()
        }
        return (
            {_BEGIN: begin, **keyed}
            | "Group" >> beam.CoGroupByKey()
            | "Drop the key" >> beam.Map(_without_key)
        )


def _with_one_key(element: Any) -> tuple[int, Any]:
    return _ONE_KEY, element


def _without_key(keyed: tuple[int, dict[str, Any]]) -> Everything:
    _, groups = keyed
    return {name: list(group) for name, group in groups.items() if name != _BEGIN}
