"""The commands that the benchmarks time, the photos they convert, and one checked run of each."""

from __future__ import annotations

import csv
import functools
import glob
import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet as pq
from environments import make_environment
from measure import Run, last_line, run

from transforms.examples.tfrecord import TFRecordError, read_records

_ROOT = Path(__file__).resolve().parent.parent
_SCRIPTS = Path(__file__).resolve().parent / "contenders"
SHARDS = 8

# Runs `convert` without duplicates, statistics and report.
_BARE = Path(__file__).resolve().parent / "overhead.py"

# Runs `convert` on the folder of an earlier run, which stays.
RERUN = "ours-rerun"

_OTHER = "other_formats.py"
_PEERS = {
    "tfds": ["tfds_builder.py"],
    "ray": ["ray_data.py"],
    **{name: [_OTHER, name] for name in ("litdata", "mosaic", "webdataset", "datasets")},
}
_LOOPS = {"floor": "floor.py", "tf-loop": "tf_loop.py", "plain-beam": "plain_beam.py"}


class PhotoSet(NamedTuple):
    """The images to convert.

    Attributes:
        images: glob of the images.
        labels: CSV with the columns `id`, the image's stem, and `label`.
        total: how many images the glob matches.
        size: their bytes.
    """

    images: str
    labels: Path
    total: int
    size: int


class Job(NamedTuple):
    """One command to measure.

    Attributes:
        name: a key of `CONTENDERS`, or of a start-up.
        command: the program and its arguments.
        output: the folder that it writes, new for each run; None when it writes nothing.
        records: how many records it must write there.
    """

    name: str
    command: list[str]
    output: Path | None
    records: int


class Result(NamedTuple):
    """The runs of one job, a value for each round, or why there are none."""

    runs: list[Run]
    failure: str

    @property
    def seconds(self) -> list[float]:
        """The wall time of each round."""
        return [run.seconds for run in self.runs]

    @property
    def peak(self) -> int:
        """The highest memory of the process tree in any round."""
        return max(run.tree_bytes for run in self.runs)


def read_ahead(paths: Sequence[str]) -> int:
    """Reads files so that they are in the page cache, and returns how many bytes they have."""
    return sum(len(Path(path).read_bytes()) for path in paths)


def describe_set(images: str, labels: Path) -> PhotoSet:
    """The set of a glob and a CSV, read once.

    Raises:
        ValueError: the glob matches nothing, or has `**`, which not every contender knows.
    """
    paths = sorted(glob.glob(os.path.abspath(images)))
    if not paths or "**" in images:
        raise ValueError(f"--images {images} must match files, without **")
    return PhotoSet(os.path.abspath(images), labels.absolute(), len(paths), read_ahead(paths))


def first_of(photos: PhotoSet, directory: Path) -> PhotoSet:
    """A set of the first image only, in `directory`, which is replaced.

    Raises:
        ValueError: the CSV has no row for it.
    """
    shutil.rmtree(directory, ignore_errors=True)
    (directory / "images").mkdir(parents=True)
    source = Path(min(glob.glob(photos.images)))
    shutil.copy(source, directory / "images")
    with photos.labels.open(encoding="utf-8", newline="") as table:
        rows = csv.DictReader(table)
        label = next((row["label"] for row in rows if row["id"] == source.stem), None)
    if label is None:
        raise ValueError(f"{photos.labels} has no row with the id {source.stem}")
    with (directory / "labels.csv").open("w", encoding="utf-8", newline="") as table:
        csv.writer(table, lineterminator="\n").writerows([("id", "label"), (source.stem, label)])
    pattern = os.path.join(glob.escape(str(directory / "images")), "*")
    return describe_set(pattern, directory / "labels.csv")


def copy_photos(source: Path, directory: Path, copies: int) -> Path:
    """A set with several copies of each photo of a set, as hard links, in a new folder.

    Args:
        source: a folder that `build_photos` made.
        directory: is replaced.
        copies: of each photo.

    Returns:
        `directory`.
    """
    shutil.rmtree(directory, ignore_errors=True)
    for path in sorted(source.glob("images/*/*")):
        folder = directory / "images" / path.parent.name
        folder.mkdir(parents=True, exist_ok=True)
        for number in range(copies):
            os.link(path, folder / f"{path.stem}-{number}{path.suffix}")
    with (source / "labels.csv").open(encoding="utf-8", newline="") as table:
        rows = [(row["id"], row["label"]) for row in csv.DictReader(table)]
    with (directory / "labels.csv").open("w", encoding="utf-8", newline="") as table:
        writer = csv.writer(table, lineterminator="\n")
        writer.writerow(("id", "label"))
        writer.writerows((f"{key}-{n}", label) for key, label in rows for n in range(copies))
    return directory


def convert_command(program: Sequence[str], photos: PhotoSet, output: Path) -> list[str]:
    """A command of a contender; all have these three flags."""
    inputs = ["--images", photos.images, "--labels", str(photos.labels)]
    return [*program, *inputs, "--output", str(output)]


def ours_command(photos: PhotoSet, output: Path, *, check: str = "full") -> list[str]:
    """The command of the product."""
    program = [sys.executable, "-m", "pipeline.convert"]
    flags = ["--num_shards", str(SHARDS), "--progress", "off", "--check", check]
    return [*convert_command(program, photos, output), *flags]


def make_job(name: str, photos: PhotoSet, one: PhotoSet, work: Path) -> Job:
    """The job of a contender or start-up; a peer's environment is made if it is not there.

    Raises:
        OSError: the environment cannot be made.
        subprocess.CalledProcessError: the environment, or the dataset of a rerun, cannot be made.
    """
    output = work / "output" / name
    if name == "import-beam":
        return Job(name, [sys.executable, "-c", "import apache_beam"], None, 0)
    if name == RERUN:
        shutil.rmtree(output, ignore_errors=True)
        command = ours_command(photos, output)
        subprocess.run(command, cwd=_ROOT, check=True, capture_output=True)
        return Job(name, command, None, 0)
    source = one if name.endswith("-one") else photos
    base = name.removesuffix("-one")
    if base in ("ours", "ours-header"):
        check = "header" if base == "ours-header" else "full"
        command = ours_command(source, output, check=check)
    elif base == "ours-bare":
        command = [sys.executable, str(_BARE), "--bare", *ours_command(source, output)[3:]]
    elif base in _LOOPS:
        command = convert_command([sys.executable, str(_SCRIPTS / _LOOPS[base])], source, output)
    else:
        python = make_environment(base, work / "environments" / base)
        script, *words = _PEERS[base]
        command = convert_command([str(python), str(_SCRIPTS / script), *words], source, output)
    return Job(name, command, output, source.total)


def _count_of_index(key: str, field: str, path: Path) -> int:
    """The samples that the index of a loader lists."""
    return sum(part[field] for part in json.loads(path.read_bytes())[key])


def _count_tfrecord(path: Path) -> int:
    with path.open("rb") as stream:
        return sum(1 for _ in read_records(stream))


def _count_tar(path: Path) -> int:
    with tarfile.open(path) as tar:
        return sum(each.name.endswith(".json") for each in tar)


def _count_parquet(path: Path) -> int:
    return int(pq.read_table(path).num_rows)


# How the records of a contender are counted: the files, and what one of them holds.
_COUNTS: dict[str, tuple[str, Callable[[Path], int]]] = {
    "litdata": ("index.json", functools.partial(_count_of_index, "chunks", "chunk_size")),
    "mosaic": ("index.json", functools.partial(_count_of_index, "shards", "samples")),
    "webdataset": ("*.tar", _count_tar),
    "datasets": ("*.parquet", _count_parquet),
}


def count_records(output: Path, name: str = "ours") -> int:
    """How many intact records the files of an output folder hold; see `_COUNTS`.

    Raises:
        TFRecordError: a record is damaged.
    """
    pattern, count = _COUNTS.get(name, ("*.tfrecord", _count_tfrecord))
    return sum(count(path) for path in sorted(output.glob(pattern)))


def _judge(job: Job, taken: Run, log: Path) -> str:
    """The reason why a run does not count, or an empty string."""
    if taken.code:
        return f"exit code {taken.code}: {last_line(log)}"
    if job.output is None:
        return ""
    # Other libraries choose the number of their files themselves.
    shards = SHARDS if job.name in _COUNTS else len(list(job.output.glob("*.tfrecord")))
    try:
        records = count_records(job.output, job.name)
    except TFRecordError as error:
        return str(error)
    if (shards, records) != (SHARDS, job.records):
        return f"{records} records in {shards} shards instead of {job.records} in {SHARDS}"
    return ""


def run_job(job: Job, work: Path, *, timeout: float = 3600) -> Result:
    """Runs a job once, into a new folder, and checks and removes what it wrote."""
    log = work / "logs" / f"{job.name}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    if job.output is not None:
        shutil.rmtree(job.output, ignore_errors=True)
        job.output.parent.mkdir(parents=True, exist_ok=True)
    os.sync()  # earlier writes must not slow this run down
    try:
        taken = run(job.command, log=log, cwd=_ROOT, timeout=timeout)
    except OSError as error:
        return Result([], str(error))
    failure = _judge(job, taken, log)
    if job.output is not None:
        shutil.rmtree(job.output, ignore_errors=True)
    return Result([] if failure else [taken], failure)
