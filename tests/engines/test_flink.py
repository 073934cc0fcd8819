"""Flink: parallelism changes no byte, a lost TaskManager no dataset, more data no memory."""

from __future__ import annotations

import re
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.engines import dataset
from tests.engines.conftest import Flink
from tests.engines.conversions import TIMEOUT, Conversion, convert, start
from tests.engines.servers import left_processes, wait_until
from tests.images import picture, saved
from tests.pipeline.commands import arguments, digests

pytestmark = pytest.mark.cluster

# How much more the workers may take for four times the data: they hold a batch, not a shard.
MORE_MEMORY = 1.25


@pytest.mark.parametrize("parallelism", [1, 4])
def test_parallelism_changes_no_byte(
    parallelism: int, flink: Flink, inputs: Path, reference: Conversion, tmp_path: Path
) -> None:
    done = convert(inputs, tmp_path / "out", *flink.flags(parallelism=parallelism))
    assert done.code == 0, done.err
    assert done.files == reference.files


def test_a_task_manager_is_killed(
    flink: Flink, inputs: Path, reference: Conversion, tmp_path: Path
) -> None:
    output = tmp_path / "out"
    flags = flink.flags(parallelism=2)
    with start(*dataset.flags(inputs, output), *flags) as process:
        wait_until(lambda: list(output.glob(".staging/*.json")), None, "the first shard")
        staged = {path.name: path.stat().st_mtime_ns for path in output.glob(".staging/*.json")}
        flink.cluster.kill_task_manager()
        _, err = process.communicate(timeout=TIMEOUT)
    flink.cluster.add_task_manager()
    # Flink may restart the steps, or the job had done its work; if not, it says so in a line.
    if process.returncode:
        assert process.returncode == 1
        assert "Traceback" not in err
        for name, written in staged.items():
            assert (output / ".staging" / name).stat().st_mtime_ns == written
    rerun = convert(inputs, output, *flags)
    assert rerun.code == 0, rerun.err
    assert digests(output) == reference.files


def test_memory_of_the_workers_is_flat(flink: Flink, tmp_path: Path) -> None:
    """Some 10 MB, then some 40 MB: far more than a batch, and than the workers' noise."""
    noise = [saved(picture("RGB", 400, 400, seed=seed), "JPEG", quality=95) for seed in range(8)]
    peaks = []
    for images in (100, 400):
        folder = tmp_path / str(images)
        (folder / "photos").mkdir(parents=True)
        for number in range(images):
            (folder / "photos" / f"{number}.jpg").write_bytes(noise[number % len(noise)])
        former = set(left_processes())
        words = arguments(
            images=folder / "photos" / "*", label_from="none", num_shards=4, output=folder / "out"
        )
        with start(*words, *flink.flags(parallelism=2)) as process:
            peak = 0
            while process.poll() is None:
                workers = set(left_processes()) - former
                peak = max([peak, *map(peak_memory, workers)])
                time.sleep(0.1)
            assert process.stderr is not None
            assert process.returncode == 0, process.stderr.read()
        peaks.append(peak)
    print(
        f"peak memory of a worker: {peaks[0] >> 20} MB, with four times the data {peaks[1] >> 20}"
    )
    assert 0 < peaks[1] < MORE_MEMORY * peaks[0]


def peak_memory(pid: int) -> int:
    """The most bytes that a worker held; 0 of other processes."""
    with suppress(OSError):
        if b"tests.engines.boot" in Path(f"/proc/{pid}/cmdline").read_bytes():
            status = Path(f"/proc/{pid}/status").read_text()
            return int(re.findall(r"VmHWM:\s+(\d+) kB", status)[0]) << 10
    return 0
