"""How long a conversion takes, and what it costs: what follows from a sample."""

from pathlib import Path
from typing import Any

import pytest

from pipeline.run import estimate
from pipeline.run.estimate import estimate_lines, estimated, time_here
from tests.marks import cases
from tests.transforms.beam import changed, make_config
from transforms.core.messages import TransientError
from transforms.core.records import NO_IMAGE
from transforms.dataset.dataset_options import FileOptions

DATAFLOW = "--runner=apache_beam.runners.DataflowRunner"


@cases(
    # 100 of 1,000 images took half a second on two cores.
    (1_000_000, 1, [7.8, 7.8], 13.0),
    # More processes than cores are not faster, and start.
    (1_000_000, 4, [10.5, 10.5], 16.0),
    # Files that are larger than those of the sample may take longer.
    (3_000_000, 1, [7.8, 18.4], 33.0),
    (1_290_000, 1, [7.8, 7.8], 13.0),
)
def test_a_sample_tells_what_all_images_take(
    size: int, workers: int, seconds: list[float], cpu: float, monkeypatch: Any
) -> None:
    monkeypatch.setattr(estimate, "usable_cores", lambda: 2)
    sampled = 100, 100_000, 0.53, 1.0
    found = time_here(sampled, 1000, size, workers=workers, planned=(1.7, 2.2))
    assert found["seconds"] == pytest.approx(seconds, abs=0.06)
    assert found["cpu_seconds"] == pytest.approx(cpu, abs=0.1)
    assert (found["cores"], found["sampled"]) == (2, 100)


@cases(
    ([], 100, "sharded", "time     about 33 min on this machine (2 cores), from 100 images"),
    ([], 99, "sharded", None),
    ([], 100, "per_image", None),
    (["--direct_num_workers=2"], 100, "sharded", None),
    (["--runner=FlinkRunner"], 100, "sharded", None),
    ([DATAFLOW], 100, "sharded", "price    about 10 min and $0.97 on Dataflow: 6 workers of 4 "
     "vCPUs, prices of November 2026"),
    ([DATAFLOW, "--max_num_workers=1"], 100, "sharded", "price    about 36 min and $0.84 on "
     "Dataflow: 1 worker of 4 vCPUs, prices of November 2026"),
)  # fmt: skip
def test_what_cannot_be_known_is_left_out(
    flags: list[str], images: int, files: str, says: str | None, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr(estimate, "usable_cores", lambda: 2)
    monkeypatch.setattr(estimate, "measure_sample", lambda *_: (100, 11_000_000, 0.15, 0.25))
    config = make_config(tmp_path, tmp_path / "out", workers=1)
    config = changed(config, files=FileOptions(files=files))
    splits = [(1_000_000, 733, 110_000_000_000), (280_000, 206, 30_800_000_000)]
    found = estimated(config, flags, splits, [NO_IMAGE] * images, (2.0, 2.0))
    assert list(estimate_lines(**found)) == ([says] if says else [])


def test_a_file_that_cannot_be_read_is_left_to_the_conversion(
    tmp_path: Path, monkeypatch: Any
) -> None:
    def fails(*_: object) -> None:
        raise TransientError("the bucket is busy")

    monkeypatch.setattr(estimate, "measure_sample", fails)
    config = make_config(tmp_path, tmp_path / "out")
    assert estimated(config, [], [(100, 1, 100)], [NO_IMAGE] * 100, (2.0, 2.0)) == {}
