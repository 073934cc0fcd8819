"""Launchers give labels of the job by the name of our label file; both arrive where they belong."""

from __future__ import annotations

from pathlib import Path

import pytest
from apache_beam.options.pipeline_options import GoogleCloudOptions, PipelineOptions

from pipeline.options.parser import parse_flags
from tests.pipeline.commands import make_dataset

NEEDED = ["--images=i", "--output=o"]


@pytest.mark.parametrize(
    "label", ["airflow-version=v3-3-2", "team=", '{"goog-dataflow-template": "flex"}']
)
def test_labels_of_the_job_are_those_of_beam(label: str) -> None:
    words = [*NEEDED, "--label_file=gs://b/labels.csv", f"--labels={label}"]
    flags, rest = parse_flags("convert", words)
    assert flags.labels == "gs://b/labels.csv"
    assert PipelineOptions(rest).view_as(GoogleCloudOptions).labels == [label]


@pytest.mark.parametrize(
    "path", ["labels.csv", "day=1/labels.csv", "a=b.csv", "gs://b/day=1/*.csv", "/d=1", "labels"]
)
@pytest.mark.parametrize("flag", ["labels", "label_file"])
def test_paths_are_those_of_the_label_file(flag: str, path: str) -> None:
    flags, rest = parse_flags("convert", [*NEEDED, f"--{flag}={path}"])
    assert (flags.labels, rest) == (path, [])


def test_a_run_with_both(photos: Path, tmp_path: Path) -> None:
    labels = tmp_path / "labels.csv"
    labels.write_text("".join(f"{path.stem},x\n" for path in photos.glob("*/*.jpg")))
    dataset = make_dataset(
        tmp_path / "out",
        "--labels=airflow-version=v3-3-2",
        images=f"{photos}/*/*.jpg",
        label_file=labels,
    )
    assert dataset.classes == ["x"]
