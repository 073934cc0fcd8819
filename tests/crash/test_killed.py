"""After a kill at any file operation or time, the same command resumes to the same bytes."""

import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.campaign import one_of_each, size
from tests.conftest import draw
from tests.crash.killing import Harness, only_dataset, running_harness
from tests.pipeline.commands import ROOT, SMALL_FILES, arguments, convert, digests

pytestmark = pytest.mark.slow

SHARDS = 2
LATE = ("manifest.json", "report.html")
# Small files next to a shard, and those that are there while a run goes on.
SIDE_FILES = re.compile(r"\.(begun|parquet|json|html)\.partial$|^(probe|rejected|small)\.")
# Kinds of operations that only `--files per_image` has.
PER_IMAGE = {
    "make_directory *",
    "make_directory *-*-of-*.tfrecord.*.*.partial",
    "open_writer *",
    "rename *.jpg.tfrecord",
}


@pytest.fixture(scope="module")
def harness() -> Iterator[Harness]:
    """Runs `convert` in forks of a process that has Beam imported."""
    with running_harness() as run:
        yield run


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Good images of two classes, two of them equal, and an empty one: a rejection."""
    folder = tmp_path_factory.mktemp("crash") / "images"
    for number in range(24):
        draw(folder / ("cat", "dog")[number % 2] / f"{number}.jpg", seed=number)
    draw(folder / "dog" / "equal.jpg", seed=0)  # so that fingerprints matter
    (folder / "cat" / "empty.jpg").touch()
    return folder


def words_for(images: Path, output: Path, **flags: Any) -> list[str]:
    given = {"num_shards": SHARDS, "max_rejected": 1, "splits": "train=0.7,test=0.3", **flags}
    return arguments(images=f"{images}/*/*.jpg", output=output, **given)


@pytest.fixture(scope="module")
def whole(
    images: Path, harness: Harness, tmp_path_factory: pytest.TempPathFactory
) -> tuple[list[str], dict[str, str]]:
    """The file operations of a run that nothing interrupts, and the digests of its files."""
    output = tmp_path_factory.mktemp("whole") / "out"
    ran = harness(words_for(images, output))
    assert ran.code == 0, ran.errors
    return ran.operations, digests(output)


@pytest.fixture(scope="module")
def reference(whole: Any) -> dict[str, str]:
    files: dict[str, str] = whole[1]
    return files


def manifest_of(output: Path) -> Path:
    return output / "manifest.json"


def kind_of(operation: str) -> str | None:
    """What an operation does to what kind of file; None where the disk is as before the next."""
    name, file = operation.split()
    if name == "write_whole":
        return None  # it opens a writer first
    if name in ("make_directory", "remove") and file in (".staging", "outcome.json"):
        return None  # there is nothing yet
    if name == "open_writer" and SIDE_FILES.search(file):
        return None  # tried before it is renamed; the disk is otherwise as after the one before
    if file in SMALL_FILES and file not in LATE:
        return f"{name} small file"
    return f"{name} {re.sub(r'[0-9a-f]{32}|[0-9]+|train|test|(cat|dog)%2F[a-z0-9]+', '*', file)}"


def moments(operations: list[str], begin: int = 0, kinds: set[str] | None = None) -> list[int]:
    """The numbers of the operations before which runs are killed: one of each kind.

    Args:
        begin: the first number.
        kinds: kinds of operations that are tried; None: all.
    """

    def kind(number: int) -> str | None:
        found = kind_of(operations[number])
        return found if kinds is None or found in kinds else None

    return one_of_each(range(begin, len(operations)), kind)


def check_resumes(
    harness: Harness, words: list[str], output: Path, reference: dict[str, str], place: str
) -> None:
    """Runs a killed command again, which ends with the bytes of a run that nothing interrupted."""
    again = harness(words)
    assert again.code == 0, f"{place}: {again.errors}"
    assert digests(output) == reference, place
    assert not (output / ".staging").exists(), place


def test_killed_before_every_kind_of_file_operation_and_after_the_last(
    images: Path, whole: Any, harness: Harness, tmp_path: Path
) -> None:
    operations, reference = whole
    kinds = {operation.split()[0] for operation in operations}
    assert kinds >= {"open_writer", "rename", "write_whole", "remove_staging"}
    assert sum(kind_of(step) is not None for step in operations) >= 60
    # After the last one is the only moment that is not before another.
    deaths = [(n, False) for n in moments(operations)]
    deaths.append((len(operations) - 1, True))
    for number, is_after in deaths:
        output = tmp_path / f"out-{number}-{is_after}"
        place = f"{'after' if is_after else 'before'} {operations[number]}, number {number}"
        died = harness(words_for(images, output), number, is_after=is_after)
        assert died.code == -signal.SIGKILL, place
        if manifest_of(output).exists():
            # Only what is not part of the dataset may be left to do.
            assert only_dataset(digests(output)) == only_dataset(reference)
        check_resumes(harness, words_for(images, output), output, reference, place)


def test_killed_with_a_file_for_each_image(images: Path, harness: Harness, tmp_path: Path) -> None:
    flags: dict[str, Any] = {"num_shards": None, "files": "per_image"}
    whole = harness(words_for(images, tmp_path / "whole", **flags))
    assert whole.code == 0, whole.errors
    reference = digests(tmp_path / "whole")
    assert len([name for name in reference if name.endswith(".tfrecord")]) == 25
    numbers = moments(whole.operations, kinds=PER_IMAGE)
    assert {kind_of(whole.operations[number]) for number in numbers} >= PER_IMAGE
    for number in numbers:
        output = tmp_path / f"out-{number}"
        words = words_for(images, output, **flags)
        assert harness(words, number).code == -signal.SIGKILL
        if manifest_of(output).exists():
            assert only_dataset(digests(output)) == only_dataset(reference)
        check_resumes(harness, words, output, reference, whole.operations[number])


def test_killed_while_overwriting_no_manifest_describes_what_is_not_there(
    images: Path, reference: dict[str, str], harness: Harness, tmp_path: Path
) -> None:
    first = tmp_path / "first"
    former_words = words_for(images, first, num_shards=3, seed=1)
    assert harness(former_words).code == 0
    former = digests(first)
    kept = tmp_path / "kept"
    shutil.copytree(first, kept)
    words = words_for(images, first, overwrite=True)
    whole = harness(words)
    assert digests(first) == reference
    # Before it publishes, nothing of the former dataset is touched; afterwards, all is as without.
    begin = whole.operations.index("rename former.json")
    kinds = {
        *("rename former.json", "remove report.html", "remove former.json"),
        *("remove *-*-of-*.tfrecord", "remove *-*-of-*.parquet"),
        *("rename *-*-of-*.tfrecord", "rename small file", "rename manifest.json"),
    }
    numbers = moments(whole.operations, begin, kinds)
    assert len(numbers) >= len(kinds)
    for number in numbers:
        output = tmp_path / f"out-{number}"
        shutil.copytree(kept, output)
        words = words_for(images, output, overwrite=True)
        assert harness(words, number).code == -signal.SIGKILL
        if manifest_of(output).exists():
            left = digests(output)
            whose = former if only_dataset(left) == only_dataset(former) else reference
            assert only_dataset(left) == only_dataset(whose), whole.operations[number]
            # A report is that of the dataset, or there is none yet.
            assert left.get("report.html") in (None, whose["report.html"])
        check_resumes(harness, words, output, reference, whole.operations[number])


def test_killed_while_a_dataset_is_replaced_from_its_own_records(
    images: Path, reference: dict[str, str], harness: Harness, tmp_path: Path
) -> None:
    kept = tmp_path / "kept"
    assert harness(words_for(images, kept, num_shards=3, seed=1)).code == 0
    former = digests(kept)

    def words(output: Path) -> list[str]:
        shutil.copytree(kept, output)
        return words_for(images, output, overwrite=True, reuse=output)

    whole = harness(words(tmp_path / "whole"))
    assert digests(tmp_path / "whole") == reference
    begin = whole.operations.index("rename former.json")
    # While shards are written, before and between the moves of shards, and before the manifest;
    # the rest is as without --reuse, and tried in a campaign.
    kinds = {
        "rename *-*-of-*.tfrecord.*.json",
        "rename former.json",
        "rename *-*-of-*.tfrecord",
        "rename manifest.json",
    }
    numbers = moments(whole.operations, kinds=kinds)
    assert min(numbers) < begin < max(numbers)
    assert len(numbers) >= len(kinds)
    for number in numbers:
        output, place = tmp_path / f"out-{number}", whole.operations[number]
        given = words(output)
        assert harness(given, number).code == -signal.SIGKILL
        left = only_dataset(digests(output))
        if number < begin:
            assert left == only_dataset(former), place
        elif manifest_of(output).exists():
            assert left in (only_dataset(former), only_dataset(reference)), place
        check_resumes(harness, given, output, reference, place)


@pytest.mark.parametrize("change", ["options", "inputs"])
def test_what_changed_in_between_is_never_mixed_in(
    change: str, images: Path, whole: Any, harness: Harness, tmp_path: Path
) -> None:
    """Killed while it published: some shards have their last names already."""
    former = words_for(images, tmp_path / "out")
    publishing = [n for n, step in enumerate(whole[0]) if step.startswith("rename train")]
    assert harness(former, publishing[-1]).code == -signal.SIGKILL
    assert list((tmp_path / "out").glob("*.tfrecord"))
    flags: dict[str, Any] = {"num_shards": 3} if change == "options" else {}
    chosen = images
    if change == "inputs":
        chosen = tmp_path / "fewer"
        for path in sorted(images.glob("*/*.jpg"))[3:]:
            (chosen / path.parent.name).mkdir(parents=True, exist_ok=True)
            (chosen / path.parent.name / path.name).symlink_to(path)
    again = harness(words_for(chosen, tmp_path / "out", **flags))
    assert again.code == 0
    assert "shards staged by an earlier run with other inputs or options" in again.errors
    assert harness(words_for(chosen, tmp_path / "fresh", **flags)).code == 0
    assert digests(tmp_path / "out") == digests(tmp_path / "fresh")


def test_finished_shards_are_not_written_again(
    images: Path, reference: dict[str, str], harness: Harness, tmp_path: Path
) -> None:
    output = tmp_path / "out"
    sidecar = r"rename .*\.tfrecord\.[0-9a-f]*\.json"
    died = harness(words_for(images, output), 2, counted=sidecar)
    assert died.code == -signal.SIGKILL
    # Another thread may be before its rename.
    finished = len(list(output.rglob("*.tfrecord.*.json")))
    assert finished in (1, 2)
    again = harness(words_for(images, output))
    assert digests(output) == reference
    kinds = [kind_of(step) for step in again.operations]
    assert kinds.count("rename *-*-of-*.tfrecord.*.json") == 4 - finished
    assert kinds.count("open_writer *-*-of-*.tfrecord.*.*.partial") == 4 - finished


def test_killed_at_random_times(images: Path, reference: dict[str, str], tmp_path: Path) -> None:
    """Real processes: the launcher, and with it a supervisor and workers."""
    words = [*words_for(images, tmp_path / "out"), "--workers=2"]
    command = [sys.executable, "-m", "pipeline.convert", *words]
    rng = random.Random(20)
    started = time.monotonic()
    subprocess.run(command, check=True, capture_output=True, cwd=ROOT)
    length = time.monotonic() - started
    assert digests(tmp_path / "out") == reference
    for _ in range(size(1, 10)):
        output = tmp_path / f"out-{rng.random()}"
        killed = [word.replace(f"={tmp_path}/out", f"={output}") for word in command]
        with subprocess.Popen(
            killed, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as process:
            time.sleep(rng.uniform(0.3, 1.0) * length)
            process.kill()
        if manifest_of(output).exists():
            assert only_dataset(digests(output)) == only_dataset(reference)
        # The children of a killed supervisor end by themselves, and may need a moment.
        again = run_until_free(killed)
        assert again.returncode == 0, again.stderr
        assert digests(output) == reference


def run_until_free(command: list[str]) -> subprocess.CompletedProcess[str]:
    """Runs a command once no other run holds its output."""
    while True:
        ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if "another run" not in ran.stderr:
            return ran


def test_a_disk_that_is_full(images: Path, reference: dict[str, str], tmp_path: Path) -> None:
    """A limit on the size of files stands for it: writing fails in the middle of a shard."""
    words = words_for(images, tmp_path / "out")
    limited = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (1500, 1500));"
        "from pipeline.convert import main; from pipeline.errors import run_command;"
        "sys.exit(run_command(lambda: main(sys.argv[1:]), 'convert'))"
    )
    # Compiled modules, too, would be cut, and stay so: -B.
    command = [sys.executable, "-B", "-c", limited, *words]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 1, ran.stderr
    assert "raise the limit (ulimit -f)" in ran.stderr.splitlines()[-1]
    assert "Traceback" not in ran.stderr
    assert not manifest_of(tmp_path / "out").exists()
    assert convert(*words).code == 0
    assert digests(tmp_path / "out") == reference
