"""The graph of the commands is one that every engine can start."""

from collections import defaultdict
from functools import cache
from pathlib import Path

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

from pipeline.graph import build
from pipeline.options.parser import parse_flags
from pipeline.resolve.preflight import check_flags
from tests.engines import dataset
from tests.pipeline.commands import make_dataset

# Flink's optimizer takes ten seconds for them, before the job starts.
MOST_VISITS = 20_000_000


def visits(pipeline: beam.Pipeline) -> int:
    """The steps on all paths from the inputs of a graph to its outputs, one by one.

    Flink's optimizer (`UnionParallelismAndForwardEnforcer`) goes from each step to all of its
    inputs, main and side, and does not remember where it was.
    """
    steps = {
        name: step
        for name, step in pipeline.to_runner_api().components.transforms.items()
        # Not those that consist of others, or of nothing.
        if not step.subtransforms and {*step.outputs.values()} - {*step.inputs.values()}
    }
    readers = defaultdict(list)
    for name, step in steps.items():
        for collection in step.inputs.values():
            readers[collection].append(name)

    @cache
    def paths(name: str) -> int:
        outputs = {*steps[name].outputs.values()}
        return sum(paths(reader) for output in outputs for reader in readers[output]) or 1

    return sum(map(paths, steps))


def test_an_optimizer_can_walk_along_every_path(tmp_path: Path) -> None:
    """With all options that add steps; before side inputs were few, there were 2e12."""
    inputs = dataset.pack(dataset.make_inputs(tmp_path / "in", images=20))
    base = make_dataset(
        tmp_path / "base",
        images=inputs / "photos" / "photo-*",
        label_from="none",
        # With other limits, no image is reused.
        max_pixels=dataset.MAX_PIXELS,
    ).folder
    words = [
        *dataset.flags(inputs, tmp_path / "out"),
        *(f"--reuse={base}", f"--holdout={base}", "--dedupe=drop"),
        f"--quarantine={tmp_path}/quarantine",
    ]
    pipeline = beam.Pipeline(runner="FlinkRunner", options=PipelineOptions([]))
    build(pipeline, check_flags(parse_flags("convert", words)[0]))
    assert 1_000 < visits(pipeline) < MOST_VISITS
