"""The parts of `scale.py`: what crosses a shuffle is counted, and tables follow from numbers."""

from pathlib import Path

import pytest
import scale
import simulation
from scale_memory import CASES, measure
from simulation import Elements, Stage, run_stage

from pipeline.run import estimate
from tests.marks import cases, rest_slow

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("case", rest_slow(CASES))
def test_what_crosses_a_shuffle_stays_small(case: str, tmp_path: Path) -> None:
    """In this process, with the steps that several machines use."""
    count = 30 if case == "shards" else 500
    crossed = [step for step in measure(case, count, 0, tmp_path).crossed if step.elements]
    assert crossed
    for step in crossed:
        assert 0 < step.largest_element <= step.largest_group <= step.bytes
        assert step.groups <= step.elements
    # For so few elements; Beam's limits are 100 and 1,000 times as much.
    assert max(step.largest_element for step in crossed) < 1_000_000
    assert max(step.largest_group for step in crossed) < 1_000_000


@cases(
    ([Elements(10, 2.0)], 1, 20.0, 20.0, "vCPUs"),
    ([Elements(10, 2.0)], 4, 6.0, 0.0, "vCPUs"),
    ([Elements(1, 7.0)], 4, 7.0, 7.0, "largest element"),
    ([Elements(8, 1.0), Elements(1, 9.0)], 5, 9.0, 7.0, "largest element"),
    ([Elements(1, 1.0, requests=10)], 1, 2.0, 2.0, "vCPUs"),
    ([Elements(1, 1.0, ahead=5)], 1, 1.0, 1.0, "vCPUs"),
    ([Elements(1, 1.0, ahead=30)], 1, 3.0, 3.0, "vCPUs"),
)
def test_a_stage_ends_with_its_last_element(
    elements: list[Elements], vcpus: int, seconds: float, alone: float, bound: str
) -> None:
    timed = run_stage(Stage("stage", tuple(elements)), vcpus, 0.1)
    assert timed.seconds == pytest.approx(seconds)
    assert timed.alone == pytest.approx(alone)
    assert timed.bound == bound


@pytest.mark.slow
def test_no_stage_of_100_million_images_is_bound_by_one_worker() -> None:
    """With the measured costs: the table in `docs/scale.md` is that of these numbers."""
    by_vcpus = simulation.simulate(100_000_000, (8, 200, 800), 0.03, simulation.Costs())
    for vcpus in (8, 800):
        assert simulation.too_long_alone(by_vcpus[vcpus]) == []
    document = (ROOT / "docs" / "scale.md").read_text("utf-8").splitlines()
    table = simulation.stage_table(100_000_000, by_vcpus).splitlines()
    listed = [line for line in document[document.index(table[0]) :] if line]
    # Some of the stages, and the totals.
    assert {*listed} < {*table} and listed[-3:] == table[-3:]


def test_a_bucket_allows_more_reads_after_a_while() -> None:
    assert estimate.bucket_seconds(5000) == pytest.approx(1)
    assert estimate.bucket_seconds(6_000_000 + 10_000) == pytest.approx(1201)


def test_an_estimate_is_the_documented_simulation() -> None:
    """Within 1%, of which `plan` has the formula alone."""
    text = (ROOT / "docs" / "scale.md").read_text("utf-8")
    [row] = [line for line in text.splitlines() if line.startswith("| **all stages**")]
    documented = [int(cell.replace(",", "")) for cell in row.split("|")[2:5]]
    images = 100_000_000
    shards = simulation.shard_number(images * simulation.Costs().image_bytes)
    found = [estimate.job_seconds(images, shards, vcpus) for vcpus in (8, 200, 800)]
    assert found == pytest.approx(documented, rel=0.01)


def test_the_documented_costs_are_those_of_the_function() -> None:
    text = (ROOT / "docs" / "dataflow.md").read_text("utf-8")
    assert scale.costs_table() in text
    assert estimate.PRICES_OF in text
    for price in ("0.056", "0.003557", "0.000054", "0.011"):
        assert f"${price}" in text


def test_the_prices_of_dataflow_are_those_of_beam() -> None:
    from apache_beam.testing.load_tests import dataflow_cost_consts as beams

    assert estimate.VCPU_HOUR == beams.VCPU_PER_HR_BATCH
    assert estimate.GB_HOUR == beams.MEM_PER_GB_HR_BATCH
    assert estimate.DISK_GB_HOUR == beams.PD_PER_GB_HR
    assert estimate.SHUFFLE_GB == beams.SHUFFLE_PER_GB_BATCH
