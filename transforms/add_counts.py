"""AddCounts: adds up counts of the ledger where they are made."""

from __future__ import annotations

import apache_beam as beam

from transforms.core.records import Count


class AddCounts(beam.PTransform):
    """Adds up counts by name: there is one of each range, file and copied image.

    Input: `Count`. Output: one `Count` for each name.
    """

    def expand(self, counts: beam.PCollection[Count]) -> beam.PCollection[Count]:
        return (
            counts
            | "By name" >> beam.Map(_by_name).with_output_types(tuple[str, int])
            | "Add up" >> beam.CombinePerKey(sum)
            | "Sums" >> beam.MapTuple(Count).with_output_types(Count)
        )


def _by_name(count: Count) -> tuple[str, int]:
    return count.name, count.value
