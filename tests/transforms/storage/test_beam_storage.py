"""Other file systems of Beam: rows name their files, and its metrics name what a job reads."""

from collections.abc import Callable

import apache_beam as beam
import pytest
from apache_beam.io.filesystems import FileSystems
from apache_beam.metrics.metric import Lineage

from tests.transforms.storage.conftest import Kept
from transforms.input_readers import find_listed
from transforms.labels.keys import MISSING
from transforms.storage.beam_storage import report_sink, report_source
from transforms.storage.files import storage_of


@pytest.mark.parametrize("kept", ["beam"], indirect=True)
def test_a_file_that_a_row_lists_is_found_as_listed(kept: Kept) -> None:
    kept.put({"1.jpg": b"123"})
    [listed] = storage_of(kept.root).list_files(f"{kept.root}/*")
    found = find_listed(f"{kept.root}/1.jpg")
    assert (listed.size, listed.version) == (3, found.version) == (found.size, found.version)
    assert find_listed(f"{kept.root}/2.jpg").version == MISSING


def reported(label: str, report: Callable[[str], None], *paths: str) -> set[str]:
    """The sources or sinks in the metrics, as Dataflow reads them."""
    pipeline = beam.Pipeline(runner="FnApiRunner")
    _ = pipeline | beam.Create(paths) | beam.Map(report)
    result = pipeline.run()
    result.wait_until_finish()
    return set(Lineage.query(result.metrics(), label))


def test_paths_are_assets() -> None:
    assets = {
        "gs://bucket/photos/2024-*/*.jpg": "gcs:bucket.photos",
        "gs://bucket/a/labels.csv": "gcs:bucket.a/labels.csv",
        "gs://other/*.jpg": "gcs:other",
        "gs://bucket/out/photos/": "gcs:bucket.out/photos",
        "/data/photos/**/*.jpg": "filesystem:localhost./data/photos",
        "/*.jpg": "filesystem:localhost./",
    }
    assert reported(Lineage.SOURCE, report_source, *assets) == {*assets.values()}
    assert reported(Lineage.SINK, report_sink, *assets) == {*assets.values()}


def test_a_bucket_is_reported_without_beams_file_system(monkeypatch: pytest.MonkeyPatch) -> None:
    # A layout file or a row may name a bucket where no flag does: Beam is imported without it.
    def refuse(path: str) -> None:
        raise ValueError(f"Unable to get filesystem from specified path: {path}")

    monkeypatch.setattr(FileSystems, "get_filesystem", refuse)
    assert reported(Lineage.SOURCE, report_source, "gs://bucket/a/*.png") == {"gcs:bucket.a"}
