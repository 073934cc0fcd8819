"""A bucket that is lost, or a run on one that is killed: the same command resumes."""

import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.campaign import one_of_each
from tests.crash.killing import only_dataset, running_harness
from tests.pipeline.commands import ROOT, arguments, convert, nameless
from tests.servers.gcs import GcsServer

FLAGS: dict[str, Any] = {
    "images": "gs://photos/in/*/*.jpg",
    "output": "gs://datasets/flowers",
    "num_shards": 3,
}


@pytest.fixture
def reference(gcs: GcsServer, photos: Path) -> dict[str, bytes]:
    """The dataset of an undisturbed run, elsewhere in the bucket."""
    gcs.make_bucket("photos")
    gcs.make_bucket("datasets")
    for path in sorted(photos.glob("*/*.jpg")):
        gcs.put("photos", f"in/{path.parent.name}/{path.name}", path.read_bytes())
    ran = convert(**{**FLAGS, "output": "gs://datasets/reference"})
    assert ran.code == 0, ran.err
    return objects(gcs, "reference")


def objects(gcs: GcsServer, folder: str) -> dict[str, bytes]:
    prefix = f"{folder}/"
    names = [name for name in gcs.names("datasets") if name.startswith(prefix)]
    return {name.removeprefix(prefix): nameless(name, gcs.get("datasets", name)) for name in names}


@pytest.mark.slow
@pytest.mark.parametrize(
    "lost",
    [
        {"kind": "upload", "object": r"datasets/flowers/\.staging/train-00001.*"},
        {"kind": "rewrite", "object": r"datasets/flowers/\.staging/train-00002.*[0-9a-f]{32}"},
        # The manifest, which waits in the staging folder after seven small files.
        {"kind": "rewrite", "object": r"datasets/flowers/\.staging/small\.\w+\.007"},
    ],
    ids=["writing", "publishing", "manifest"],
)
def test_permission_that_is_lost_in_the_middle(
    lost: dict[str, Any], gcs: GcsServer, reference: dict[str, bytes]
) -> None:
    gcs.set_faults([{**lost, "status": 403}])
    ran = convert(**FLAGS)
    assert ran.code == 1
    assert "no permission" in ran.error()
    assert "manifest.json" not in objects(gcs, "flowers")
    gcs.set_faults([])
    again = convert(**FLAGS)
    assert again.code == 0, again.err
    assert objects(gcs, "flowers") == reference


@pytest.mark.slow
@pytest.mark.usefixtures("dropped_sockets")
def test_killed_with_a_shard_staged(gcs: GcsServer, reference: dict[str, bytes]) -> None:
    gcs.set_latency(get_ms=5, other_ms=40)
    command = [sys.executable, "-m", "pipeline.convert", *arguments(**FLAGS)]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL) as process:
        while not any(name.endswith(".json") for name in sidecars(gcs)):
            assert process.poll() is None
            time.sleep(0.05)
        process.kill()
    assert "manifest.json" not in objects(gcs, "flowers")
    gcs.reset()
    again = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert again.returncode == 0, again.stderr
    assert objects(gcs, "flowers") == reference
    photos = [count for name, count in gcs.media_gets().items() if name.startswith("in/")]
    assert sum(photos) < len(gcs.names("photos"))


def kind_of(operation: str) -> str | None:
    """What an operation does to what kind of object; None for what is tried in a campaign alone."""
    name, file = operation.split()
    # Others are as on a disk: test_killed.py.
    is_shard = re.fullmatch(r"train-[0-9]+-of-[0-9]+\.tfrecord", file)
    is_manifest = file in ("former.json", "manifest.json")
    return f"{name} {'shard' if is_shard else file}" if is_shard or is_manifest else None


@pytest.mark.slow
def test_killed_while_a_dataset_is_replaced_from_its_own_records(
    gcs: GcsServer, reference: dict[str, bytes]
) -> None:
    made = convert(**{**FLAGS, "output": "gs://datasets/kept"}, seed=1)
    assert made.code == 0, made.err
    former = objects(gcs, "kept")

    def words(folder: str) -> list[str]:
        for name, data in former.items():
            gcs.put("datasets", f"{folder}/{name}", data)
        output = f"gs://datasets/{folder}"
        return arguments(**{**FLAGS, "output": output}, overwrite=True, reuse=output)

    with running_harness(gcs.environment) as harness:
        gcs.reset()
        whole = harness(words("whole"))
        assert objects(gcs, "whole") == reference, whole.errors
        assert not [name for name in gcs.media_gets() if name.startswith("in/")]
        begin = next(n for n, step in enumerate(whole.operations) if "former.json" in step)
        assert [kind_of(step) for step in whole.operations].count("move shard") == 3
        numbers = one_of_each(range(len(whole.operations)), lambda n: kind_of(whole.operations[n]))
        assert begin in numbers and len(numbers) >= 3
        for number in numbers:
            folder, place = f"out-{number}", whole.operations[number]
            given = words(folder)
            assert harness(given, number).code == -signal.SIGKILL, place
            left = only_dataset(objects(gcs, folder))
            if number < begin:
                assert left == only_dataset(former), place
            elif "manifest.json" in left:
                assert left in (only_dataset(former), only_dataset(reference)), place
            again = harness(given)
            assert again.code == 0, f"{place}: {again.errors}"
            assert objects(gcs, folder) == reference, place


def sidecars(gcs: GcsServer) -> list[str]:
    return [name for name in gcs.names("datasets") if name.startswith("flowers/.staging/train-")]
