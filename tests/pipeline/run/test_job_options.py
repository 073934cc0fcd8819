"""The options of a job: views are made once, and share their values."""

from __future__ import annotations

import pickle

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import (
    GoogleCloudOptions,
    PipelineOptions,
    StandardOptions,
    TypeOptions,
)

from pipeline.run.launch import JobOptions

FLAGS = ["--runner=FnApiRunner", "--project=p", "--labels=a=b", "--labels=c=d"]


def test_a_view_is_made_once() -> None:
    options = JobOptions(FLAGS)
    assert options.view_as(TypeOptions) is options.view_as(TypeOptions)


def test_views_share_their_values_with_new_views() -> None:
    options = JobOptions(FLAGS)
    options.view_as(StandardOptions).runner = "other"
    assert options.view_as(TypeOptions).view_as(StandardOptions).runner == "other"


def test_values_are_those_of_beams_options() -> None:
    options, beams = JobOptions(FLAGS), PipelineOptions(FLAGS)
    for kind in (StandardOptions, GoogleCloudOptions, TypeOptions):
        assert vars(options.view_as(kind)._visible_options) == vars(
            beams.view_as(kind)._visible_options
        )
    assert options.get_all_options() == beams.get_all_options()


def test_a_copy_keeps_the_values() -> None:
    options = JobOptions(FLAGS)
    options.view_as(StandardOptions).runner = "other"
    copy = pickle.loads(pickle.dumps(options))
    assert copy.view_as(StandardOptions).runner == "other"
    assert copy.view_as(GoogleCloudOptions).labels == ["a=b", "c=d"]


def test_a_graph_asks_for_few_parsers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beam parses all flags for each view, and requests four views in each step."""
    made: list[object] = []
    former = PipelineOptions.view_as
    monkeypatch.setattr(
        PipelineOptions, "view_as", lambda self, kind: (made.append(kind), former(self, kind))[1]
    )
    pipeline = beam.Pipeline(options=JobOptions(["--runner=FnApiRunner"]))
    numbers = pipeline | beam.Create([1])
    for step in range(20):
        numbers |= f"{step}" >> beam.Map(str)
    assert len(made) < 20
