"""One of several worker processes is killed, in each phase: a rerun goes on to the same bytes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.campaign import CAMPAIGN
from tests.conftest import draw
from tests.crash.dying_worker import DIE_AT, DIED
from tests.pipeline.commands import ROOT, arguments, convert, digests, verify

pytestmark = pytest.mark.slow

# The file operation before which a worker is killed.
PHASES = {
    "list": r"list_range \*\..*",
    "convert": r"open_writer train-00001-of-00002\.tfrecord\..*",
    "write lines": r"write_whole rejected\.[0-9a-f]{32}",
    "prepare": r"write_whole small_files\.json",
    "move": r"rename train-00001-of-00002\.tfrecord",
    "publish": r"rename manifest\.json",
    "clean up": r"remove_staging .*",
}
OFTEN = ("convert", "move")


def words_for(folder: Path, output: Path) -> list[str]:
    return arguments(
        images=f"{folder}/images/*/*.jpg",
        labels=folder / "labels.csv",
        num_shards=2,
        max_rejected=1,
        output=output,
    )


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Images, one of which is empty, and rows, some of which are for no image."""
    folder = tmp_path_factory.mktemp("workers")
    for number in range(12):
        draw(folder / "images" / f"{number % 3}" / f"{number}.jpg", seed=number)
    (folder / "images/0/12.jpg").touch()
    rows = "".join(f"{number},cat\n" for number in range(20))
    (folder / "labels.csv").write_text(f"id,label\n{rows}")
    return folder


@pytest.fixture(scope="module")
def reference(inputs: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The digests of a run in one process."""
    output = tmp_path_factory.mktemp("reference") / "out"
    ran = convert(*words_for(inputs, output))
    assert ran.code == 0, ran.err
    ledger = json.loads((output / "manifest.json").read_text())["ledger"]
    assert (ledger["images_rejected"], ledger["rows_unmatched"]) == (1, 7)
    return digests(output)


@pytest.mark.parametrize("phase", [each for each in PHASES if CAMPAIGN or each in OFTEN])
def test_a_rerun_goes_on(
    phase: str, inputs: Path, reference: dict[str, str], tmp_path: Path
) -> None:
    output, died = tmp_path / "out", tmp_path / "died"
    words = words_for(inputs, output)
    ran = subprocess.run(
        [sys.executable, "-m", "tests.crash.dying_worker", "convert", *words],
        cwd=ROOT,
        env={**os.environ, DIE_AT: PHASES[phase], DIED: str(died)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert died.exists(), ran.stderr
    assert ran.returncode == 1, ran.stderr
    assert "a worker process on this machine was killed" in ran.stderr.splitlines()[-1]
    assert "run the same command again" in ran.stderr.splitlines()[-1]
    if (output / "manifest.json").exists():
        assert verify(output).code == 0
    again = convert(*words)
    assert again.code == 0, again.err
    assert digests(output) == reference
    assert not (output / ".staging").exists()
