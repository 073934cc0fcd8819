"""Flink: the same bytes at every parallelism, in flat memory, and after a loss.

All tests that need the cluster are in this module, so that one process starts it once.
"""

from __future__ import annotations

import re
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.engines import dataset
from tests.engines.conftest import NAMES, CheckEngine, CheckMany, CheckReuse, ConvertMany, Flink
from tests.engines.conversions import TIMEOUT, Conversion, convert, start
from tests.engines.engines import FLINK_CLUSTER
from tests.engines.servers import left_processes, wait_until
from tests.images import picture, saved
from tests.pipeline.commands import arguments, digests, make_dataset
from tests.servers.gcs_listing import FOLDERS, ListingServer
from tests.servers.listed_names import in_folders, listing_rounds

pytestmark = pytest.mark.cluster

# Bytes that a worker may take: 250 MB, as docs/engines.md says, and a quarter for noise.
WORKER_BYTES = 312 << 20


def test_a_flink_cluster(
    flink: Flink, inputs: Path, tmp_path: Path, check: CheckEngine, check_reuse: CheckReuse
) -> None:
    """The launcher starts a job server, as docs/engines.md says; other tests share one."""
    flags = flink.flags(parallelism=2, starts_service=True)
    check(FLINK_CLUSTER, convert(inputs, tmp_path / "out", *flags))
    shared = flink.flags(parallelism=2)
    check_reuse(
        FLINK_CLUSTER, lambda inputs, output, *words: convert(inputs, output, *shared, *words)
    )


def test_both_task_managers_list_many_names(
    flink: Flink,
    bucket: ListingServer,
    convert_many: ConvertMany,
    check_many: CheckMany,
    tmp_path: Path,
) -> None:
    check_many(convert_many(tmp_path / "out", *flink.flags(parallelism=4)))
    pids = (str(each.process.pid) for each in flink.cluster.task_managers)
    pages = [bucket.counted().listers.get(pid, 0) for pid in pids]
    # The first worker lists 16 pages before it hands on the rest.
    assert len(pages) == 2
    assert min(pages) > 16
    rounds = listing_rounds(in_folders(NAMES, FOLDERS))
    assert sum(pages) == sum(each.pages for ranges in rounds for each in ranges)


def test_a_task_manager_is_killed(
    flink: Flink, inputs: Path, reference: Conversion, tmp_path: Path
) -> None:
    output = tmp_path / "out"
    flags = flink.flags(parallelism=2)
    with start(*dataset.flags(inputs, output), *flags) as process:

        def has_begun() -> bool:
            return any(output.glob(".staging/*.json")) or process.poll() is not None

        wait_until(has_begun, None, "the first shard", TIMEOUT)
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


def test_memory_of_the_workers_does_not_grow_with_a_shard(flink: Flink, tmp_path: Path) -> None:
    """One worker writes 120 MB to one shard, far more than it has room for."""
    noise = [saved(picture("RGB", 900, 900, seed=seed), "JPEG", quality=95) for seed in range(4)]
    photos = tmp_path / "photos"
    photos.mkdir()
    count = 120_000_000 // len(noise[0])
    for number in range(count):
        (photos / f"{number}.jpg").write_bytes(noise[number % len(noise)])
    flags: dict[str, Any] = {"images": photos / "*", "label_from": "none", "num_shards": 1}
    words = [*arguments(output=tmp_path / "out", **flags), *flink.flags(parallelism=1)]
    former, peak = set(left_processes()), 0
    with start(*words) as process:
        while process.poll() is None:
            peak = max([peak, *map(peak_memory, set(left_processes()) - former)])
            time.sleep(0.1)
        assert process.stderr is not None
        assert process.returncode == 0, process.stderr.read()
    print(f"peak memory of a worker: {peak >> 20} MB")
    assert 0 < peak < WORKER_BYTES
    reference = make_dataset(tmp_path / "reference", **flags)
    assert reference.ledger["records_written"] == count
    assert digests(tmp_path / "out") == digests(reference.folder)


def peak_memory(pid: int) -> int:
    """The most bytes that a worker held; 0 of other processes."""
    with suppress(OSError):
        if b"tests.engines.boot" in Path(f"/proc/{pid}/cmdline").read_bytes():
            status = Path(f"/proc/{pid}/status").read_text()
            # A process that has just ended has none.
            if found := re.search(r"VmHWM:\s+(\d+) kB", status):
                return int(found[1]) << 10
    return 0
