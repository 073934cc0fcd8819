"""The estimate of `cores.py` follows from the parts of an image's work."""

import cores
import pytest
from cores import Parts, Runs

from tests.marks import cases

PARTS = Parts(in_shard=1e-3, locked=200e-6, in_order=100e-6, outside=0.0)


@cases(
    pytest.param({}, 2, 1, 2000, id="threads share the cores"),
    pytest.param({}, 32, 1, 5000, id="threads wait for the lock"),
    pytest.param({"in_order": 500e-6}, 32, 1, 2000, id="a thread writes in order"),
    pytest.param({}, 32, 8, 32000, id="processes share the cores"),
    pytest.param({}, 32, 4, 20000, id="few processes wait for their locks"),
    pytest.param({"outside": 1e-3}, 96, 24, 990, id="other work is on one core"),
)
def test_rate(changes: dict[str, float], machine_cores: int, workers: int, rate: int) -> None:
    assert cores.rate(PARTS._replace(**changes), machine_cores, workers) == pytest.approx(
        rate, rel=0.01
    )


def test_two_processes_are_compared_apart_from_their_start() -> None:
    def runs(start: float, each: float) -> list[Runs]:
        return [Runs(count, [start + count * each], []) for count in (1000, 4000)]

    line = cores.compared_line({1: runs(1, 500e-6), 2: runs(2, 450e-6)})
    assert "0.90 times" in line and "holds" in line
    assert "missed" in cores.compared_line({1: runs(1, 500e-6), 2: runs(2, 600e-6)})
