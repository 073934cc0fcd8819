"""The soak: it finds everything that was planted, and fails when the plan is another."""

import copy
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import soak
import soak_files
from soak_files import Plan, Planted, Record, Rejected

from tests.campaign import size
from tests.marks import cases

ROOT = Path(__file__).parent.parent.parent
COUNT, FAULTS = size(150, 100_000), size(45, 1000)
RATE = FAULTS / COUNT

pytestmark = pytest.mark.slow
CUT = "JPEG cut in the middle"


class Soaked(NamedTuple):
    """A soak that ended: its folder, its plan, what it printed."""

    directory: Path
    plan: Plan
    out: str


def run_soak(directory: Path, count: int, rate: float) -> subprocess.CompletedProcess[str]:
    """Runs the command."""
    words = [f"--count={count}", f"--fault_rate={rate}", f"--output={directory}"]
    return subprocess.run(
        [sys.executable, ROOT / "benchmarks" / "soak.py", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def table(out: str) -> dict[str, tuple[int, int]]:
    """How many of each kind were planted, and found."""
    rows = re.findall(r"^\| (\w.*?) +\|.*\| +(\d+) \| +(\d+) \|$", out, re.MULTILINE)
    return {kind: (int(planted), int(found)) for kind, planted, found in rows}


@pytest.fixture(scope="module")
def soaked(tmp_path_factory: pytest.TempPathFactory) -> Soaked:
    """A run, and its plan that is made again, from the same seed."""
    directory = tmp_path_factory.mktemp("soak")
    done = run_soak(directory, COUNT, RATE)
    assert done.returncode == 0, done.stdout + done.stderr
    again = tmp_path_factory.mktemp("again")
    plan = soak_files.build_files(again, count=COUNT, fault_rate=RATE, seed=0)
    return Soaked(directory, plan, done.stdout)


def test_every_planted_fault_is_found_and_none_besides(soaked: Soaked) -> None:
    found = table(soaked.out)
    assert found.pop("all") == (FAULTS, FAULTS)
    least = FAULTS // len(soak_files.KINDS)
    assert found.keys() == soak_files.KINDS.keys()
    assert all(planted == seen >= least for planted, seen in found.values())
    assert soaked.out.endswith("as planned\n")


def _first_cut(plan: Plan) -> Planted:
    return next(fault for fault in plan.planted if fault.kind == CUT)


def _one_fault_more(plan: Plan) -> None:
    line = Rejected("image", "corrupt_image", "images/0000/x.jpg", "x")
    plan.planted.append(Planted(CUT, (line,)))


def _another_reason(plan: Plan) -> None:
    fault = _first_cut(plan)
    line = fault.rejected[0]._replace(reason="unreadable")
    plan.planted[plan.planted.index(fault)] = fault._replace(rejected=(line,))


def _other_record(plan: Plan, **changes: Any) -> None:
    path, record = next(iter(plan.records.items()))
    plan.records[path] = record._replace(**changes)


@cases(
    (_one_fault_more, "not found: image corrupt_image images/0000/x.jpg x"),
    (lambda plan: plan.planted.remove(_first_cut(plan)), "not planted: image corrupt_image"),
    (_another_reason, "not found: image unreadable images/"),
    (lambda plan: _other_record(plan, label="wolf"), "has the label 'cat', not 'wolf'"),
    (lambda plan: _other_record(plan, crc32=1), "has other bytes than its file"),
    (lambda plan: plan.records.update({"0000/x.jpg": Record("cat", 0)}), "in 0 records instead"),
    (lambda plan: plan.records.popitem(), "is a record, and was not to be one"),
    (lambda plan: plan.ledger.update(rows_used=1), "the ledger has rows_used"),
)
def test_a_plan_that_is_not_what_happened_is_noticed(
    falsify: Callable[[Plan], None], difference: str, soaked: Soaked
) -> None:
    plan = copy.deepcopy(soaked.plan)
    falsify(plan)
    result = soak.compare(plan, soaked.directory)
    assert any(difference in line for line in result.differences), result.differences
    assert len(result.differences) <= 2


def test_a_fault_that_is_not_found_is_exit_code_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def build_and_falsify(directory: Path, **how: object) -> Plan:
        plan = soak_files.build_files(directory, count=6, fault_rate=0, seed=0)
        _one_fault_more(plan)
        return plan

    monkeypatch.setattr(soak, "build_files", build_and_falsify)
    monkeypatch.setattr(sys, "argv", ["soak.py", "--output", str(tmp_path)])
    assert soak.main() == 1
    shown = capfd.readouterr()
    assert table(shown.out)[CUT] == (1, 0)
    assert shown.err == "soak: not found: image corrupt_image images/0000/x.jpg x\n"


def test_a_second_run_that_is_not_up_to_date_is_noticed(soaked: Soaked) -> None:
    image = next(path for path in (soaked.directory / "images").glob("*/*") if path.is_file())
    status = image.stat()
    os.utime(image, ns=(0, 0))
    (difference,) = soak.convert_again(soaked.directory)
    os.utime(image, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert difference.startswith("the second run is not up to date: ")
    assert soak.convert_again(soaked.directory) == []
