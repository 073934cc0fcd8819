"""Sources and sinks in Beam's metrics, as Dataflow reads them."""

from __future__ import annotations

from collections.abc import Callable

import apache_beam as beam
import pytest
from apache_beam.metrics.metric import Lineage

from transforms.storage.lineage import report_sink, report_source


def reported(label: str, report: Callable[[str], None], path: str) -> set[str]:
    pipeline = beam.Pipeline(runner="FnApiRunner")
    _ = pipeline | beam.Create([path]) | beam.Map(report)
    result = pipeline.run()
    result.wait_until_finish()
    return set(Lineage.query(result.metrics(), label))


@pytest.mark.parametrize(
    ("path", "asset"),
    [
        ("gs://bucket/photos/*/*.jpg", "gcs:bucket.photos"),
        ("gs://bucket/photos/2024-*/1.jpg", "gcs:bucket.photos"),
        ("gs://bucket/a/labels.csv", "gcs:bucket.a/labels.csv"),
        ("gs://bucket/*.jpg", "gcs:bucket"),
        ("gs://bucket/out/photos/", "gcs:bucket.out/photos"),
        ("/data/photos/**/*.jpg", "filesystem:localhost./data/photos"),
        ("/*.jpg", "filesystem:localhost./"),
    ],
)
def test_paths_are_assets(path: str, asset: str) -> None:
    assert reported(Lineage.SOURCE, report_source, path) == {asset}
    assert reported(Lineage.SINK, report_sink, path) == {asset}
