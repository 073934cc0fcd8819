"""Runs graphs, whole or in part, in this process, and tells what came out."""

import dataclasses
import pickle
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.pipeline import AppliedPTransform, PipelineVisitor

from pipeline.graph import build
from pipeline.resolve.config import ConvertConfig
from tests.images import picture, saved
from tests.remembered_beam import remember
from transforms.core.rejections import RejectionLimit
from transforms.dataset.dataset_options import DatasetOptions, FileOptions
from transforms.examples.layouts import LAYOUTS, LayoutOptions
from transforms.images.pixel_options import AS_THEY_ARE, CheckOptions
from transforms.labels.label_options import InputOptions, ShardOptions, SplitOptions

RUNNER = "FnApiRunner"

remember()

Outputs = Mapping[str, "beam.PCollection[Any]"]


def make_images(folder: Path, names: Iterable[str]) -> None:
    """Draws a small JPEG for each name; the same name is the same picture."""
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(saved(picture("RGB", 9, 11, seed=len(name)), "JPEG"))


def make_config(folder: Path, output: Path, /, **changes: Any) -> ConvertConfig:
    """A conversion of all JPEGs below `folder`, their classes the folders they are in."""
    config = ConvertConfig(
        inputs=InputOptions(images=[f"{folder}/**/*.jpg"]),
        folder=DatasetOptions(output=str(output)),
        splits=SplitOptions(),
        shards=ShardOptions(num_shards=2, shard_size=1 << 20),
        layout=LayoutOptions(),
        files=FileOptions(),
        pixels=AS_THEY_ARE,
        checks=CheckOptions(
            max_pixels=10**6, max_bytes=10**6, max_rejected=RejectionLimit.parse("0")
        ),
        images=(f"{folder}/**/*.jpg",),
        root=str(folder),
        label_from="directory",
        csv_paths=(),
        columns=None,
        key="path",
        split_from="hash",
        features=LAYOUTS["slim"],
    )
    return changed(config, **changes)


# The groups of options of a conversion.
OF_OPTIONS = ("inputs", "folder", "splits", "shards", "layout", "files", "pixels", "checks", "card")


def changed(config: ConvertConfig, **changes: Any) -> ConvertConfig:
    """A conversion with other values of options, or of its other fields."""
    mine = {name: value for name, value in changes.items() if hasattr(config, name)}
    for group in OF_OPTIONS:
        options = getattr(config, group)
        names = {each.name for each in dataclasses.fields(options)}
        of_group = {name: value for name, value in changes.items() if name in names - {*mine}}
        mine[group] = dataclasses.replace(mine.get(group, options), **of_group)
    return dataclasses.replace(config, **mine)


def make_pipeline() -> beam.Pipeline:
    """A pipeline that runs in this process."""
    return beam.Pipeline(options=PipelineOptions([f"--runner={RUNNER}"]))


def run_steps(*steps: Any) -> None:
    """Applies the steps one after another to a pipeline, and runs it."""
    graph = make_pipeline()
    value: Any = graph
    for number, step in enumerate(steps):
        value = value | f"Step {number}" >> step
    graph.run().wait_until_finish()


def step_named(pipeline: beam.Pipeline, name: str) -> beam.DoFn:
    """The DoFn of the first step of a graph whose label ends with a name."""
    found: list[beam.DoFn] = []

    class Visitor(PipelineVisitor):
        def visit_transform(self, transform_node: AppliedPTransform) -> None:
            if transform_node.full_label.split("/")[-2:].count(name):
                found.append(transform_node.transform.fn)

    pipeline.visit(Visitor())
    return found[0]


class _KeepFn(beam.DoFn):
    def __init__(self, folder: str) -> None:
        self._folder = folder

    def process(self, element: Any) -> None:
        Path(self._folder, uuid.uuid4().hex).write_bytes(pickle.dumps(element))


def collect(construct: Callable[[beam.Pipeline], Outputs]) -> dict[str, list[Any]]:
    """Runs a graph and gives the elements of its outputs, each sorted by its text."""
    with tempfile.TemporaryDirectory() as scratch:
        pipeline = make_pipeline()
        outputs = construct(pipeline)
        for name, output in outputs.items():
            folder = Path(scratch, name)
            folder.mkdir()
            _ = output | f"Keep {name}" >> beam.ParDo(_KeepFn(str(folder)))
        pipeline.run().wait_until_finish()
        return {
            name: sorted(
                (pickle.loads(file.read_bytes()) for file in Path(scratch, name).iterdir()),
                key=repr,
            )
            for name in outputs
        }


def convert(config: ConvertConfig) -> Any:
    """Runs a whole conversion; the result has its metrics."""
    pipeline = make_pipeline()
    build(pipeline, config)
    result = pipeline.run()
    result.wait_until_finish()
    return result


def convert_images(folder: Path, names: Iterable[str]) -> Path:
    """Draws images, and makes the dataset `out` of them next to them; the folder of both."""
    make_images(folder / "images", names)
    convert(make_config(folder / "images", folder / "out"))
    return folder


def copy_converted(converted: Path, folder: Path) -> ConvertConfig:
    """Copies what `convert_images` made into a folder, where a test may change it."""
    shutil.copytree(converted, folder, dirs_exist_ok=True)
    return make_config(folder / "images", folder / "out")


def counters(result: Any) -> dict[str, int]:
    """Beam's counters of a run, by name."""
    return {
        counter.key.metric.name: counter.committed
        for counter in result.metrics().query()["counters"]
        if counter.key.metric.namespace == "image_tfrecords"
    }
