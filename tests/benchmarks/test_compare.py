"""The parts of the benchmarks that can be wrong without a stopwatch."""

import struct
import sys
from pathlib import Path

import compare
import jobs
import measure
import planning
import pytest

from transforms.examples.tfrecord import masked_crc32c

MB = 10**6
CRASH = "import sys; print('first'); sys.exit('no such peer')"


def _run(seconds: float, megabytes: float = 100) -> measure.Run:
    """A run as it would be measured."""
    size = int(megabytes * MB)
    return measure.Run(seconds, size, size, code=0, core_seconds=2 * seconds)


def _frame(payload: bytes) -> bytes:
    """A TFRecord frame."""
    length = struct.pack("<Q", len(payload))
    crcs = [struct.pack("<I", masked_crc32c(part)) for part in (length, payload)]
    return length + crcs[0] + payload + crcs[1]


@pytest.fixture
def results() -> dict[str, jobs.Result]:
    """Two rounds of everything; the second took twice as long, and Ray has no environment."""
    once = {"ours": 4, "ours-header": 3, "floor": 3, "tf-loop": 12, "plain-beam": 40, "tfds": 8}
    once |= {"import-beam": 1, "ours-one": 2, "floor-one": 1, "ours-bare": 3.9, "ours-rerun": 0.8}
    sizes = {"ours": 280, "plain-beam": 4000}
    measured = {
        name: jobs.Result([_run(s, sizes.get(name, 100)), _run(2 * s, sizes.get(name, 100))], "")
        for name, s in once.items()
    }
    return measured | {"ray": jobs.Result([], "no environment")}


@pytest.fixture
def photo_set() -> jobs.PhotoSet:
    """The set that was converted."""
    return jobs.PhotoSet(images="*.jpg", labels=Path("labels.csv"), total=60, size=6 * MB)


def test_each_contender_has_a_row_and_a_failed_one_says_so(
    results: dict[str, jobs.Result], photo_set: jobs.PhotoSet
) -> None:
    rows = compare.result_table(results, photo_set).splitlines()[2:]
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    assert len(cells) == len(results)
    assert cells[0] == [compare.CONTENDERS["ours"], "6.00", "4.00 to 8.00", "12.00"] + [
        "10",
        "1.00",
        "280",
        "280",
    ]
    assert cells[3][5] == "3.00"
    assert cells[-1][:2] == [compare.CONTENDERS["ray"], "failed"]


def test_targets_are_ratios_of_the_same_round(results: dict[str, jobs.Result]) -> None:
    planned = planning.Planning(10**6, 10**6, 1, 0.1, 40.0, 100 * MB, 800 * MB)
    found = {target.text: target for target in compare.find_targets(results, planned)}
    assert found["times as fast as the loop"].value == pytest.approx(3)
    assert found["share of plain Beam's memory"].value == pytest.approx(0.07)
    assert found["steady state, share of the floor"].value == pytest.approx(1)
    bare = found["duplicates, statistics and report: times a run without them"]
    assert bare.value == found["the same, time of the cores"].value == pytest.approx(4 / 3.9)
    assert found["one image: times import apache_beam"].value == pytest.approx(2)
    assert found["nothing to do: times import apache_beam"].value == pytest.approx(0.8)
    assert found["planning: us a name"].value == pytest.approx(40)
    assert found["planning: bytes a name"].value == pytest.approx(700)
    relative = found["planning a million names: times import apache_beam"]
    assert relative.value == pytest.approx(40 / 1.5)
    assert [target.text for target in found.values() if not target.holds] == [
        "one image: times import apache_beam",
        "planning: us a name",
    ]


def test_memory_that_only_a_grandchild_has_is_seen(tmp_path: Path) -> None:
    hungry = "import time; block = b'x' * 100_000_000; time.sleep(0.3)"
    child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {hungry!r}])"
    taken = measure.run([sys.executable, "-c", child], log=tmp_path / "log")
    assert taken.code == 0
    assert taken.seconds > 0.3
    assert 100 * MB < taken.process_bytes < 150 * MB
    assert taken.process_bytes < taken.tree_bytes < 200 * MB


def test_a_command_that_hangs_is_ended(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import time; time.sleep(60)"]
    taken = measure.run(command, log=tmp_path / "log", timeout=0.3)
    assert taken.code < 0
    assert taken.seconds < 30


def test_records_are_counted_over_all_shards(tmp_path: Path) -> None:
    for number in range(3):
        records = b"".join(_frame(b"x" * size) for size in range(number + 1))
        (tmp_path / f"train-{number:05d}-of-00003.tfrecord").write_bytes(records)
    (tmp_path / "manifest.json").write_text("{}", encoding="utf-8")
    assert jobs.count_records(tmp_path) == 6


@pytest.mark.parametrize(
    "code, reason",
    [(CRASH, "exit code 1: no such peer"), ("", "0 records in 0 shards instead of 3 in 8")],
)
def test_a_contender_that_fails_is_left_out_and_the_others_go_on(
    tmp_path: Path, code: str, reason: str
) -> None:
    bad = jobs.Job("tfds", [sys.executable, "-c", code], tmp_path / "output", 3)
    good = jobs.Job("import-beam", [sys.executable, "-c", ""], None, 0)
    said: list[str] = []
    results = compare.run_rounds([bad, good], 2, tmp_path, say=said.append)
    assert results["tfds"] == jobs.Result([], reason)
    assert len(results["import-beam"].runs) == 2
    assert len(said) == 4
