"""The conversions that `reuse.py` times, in folders and in a bucket, and the bytes they must give.

All of a place convert the same images with the same labels: only the datasets that they reuse
differ. So each must give the bytes of the fresh one.
"""

from __future__ import annotations

import contextlib
import csv
import glob
import hashlib
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from jobs import Job, PhotoSet, copy_photos, describe_set, ours_command, run_job
from measure import Run
from photos import CLASSES

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.servers.gcs import GcsServer

# One image of this many is new.
_EVERY = 100

_MANIFEST = "manifest.json"
_REUSED = re.compile(r"^reused +(\d+) images", re.MULTILINE)


class FailedError(Exception):
    """A conversion failed, or gave other bytes than the fresh one."""


class Case(NamedTuple):
    """One conversion.

    Attributes:
        name: in the tables of results.
        title: what it does.
        command: the program and its arguments.
        reused: how many images it must take from records.
        hashes: reads the SHA-256 of each file that it left, by name.
        remove: removes them.
    """

    name: str
    title: str
    command: list[str]
    reused: int
    hashes: Callable[[], dict[str, str]]
    remove: Callable[[], None]


class Measured(NamedTuple):
    """One run of a case, and its requests to the bucket."""

    run: Run
    requests: int


class Edited(NamedTuple):
    """The photos, and how they were before.

    Attributes:
        photos: all of them.
        new: of these, the files that were not there.
        older: labels of the others.
        other: labels of all, of which none is that of `photos`.
    """

    photos: PhotoSet
    new: list[Path]
    older: Path
    other: Path


def _write_labels(path: Path, rows: Sequence[tuple[str, str]]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as table:
        csv.writer(table, lineterminator="\n").writerows([("id", "label"), *rows])
    return path


def edit_photos(source: Path, directory: Path) -> Edited:
    """Links the photos of a folder that `build_photos` made into a new one, and edits their labels.

    Args:
        source: stays as it is.
        directory: is replaced.
    """
    copy_photos(source, directory, 1)
    paths = sorted((directory / "images").glob("*/*.jpg"))
    new = paths[::_EVERY]
    with (directory / "labels.csv").open(encoding="utf-8", newline="") as table:
        rows = [(row["id"], row["label"]) for row in csv.DictReader(table)]
    stems = {path.stem for path in new}
    older = [row for row in rows if row[0] not in stems]
    after = dict(zip(CLASSES, CLASSES[1:] + CLASSES[:1], strict=True))
    other = [(stem, after[label]) for stem, label in rows]
    pattern = os.path.join(glob.escape(str(directory / "images")), "*", "*.jpg")
    return Edited(
        describe_set(pattern, directory / "labels.csv"),
        new,
        _write_labels(directory / "older.csv", older),
        _write_labels(directory / "other.csv", other),
    )


@contextlib.contextmanager
def without(paths: Sequence[Path], directory: Path) -> Iterator[None]:
    """Moves files with different names into a folder for a while; their times stay."""
    directory.mkdir(parents=True, exist_ok=True)
    for path in paths:
        path.rename(directory / path.name)
    try:
        yield
    finally:
        for path in paths:
            (directory / path.name).rename(path)


def file_hashes(folder: Path) -> dict[str, str]:
    """The SHA-256 of each file below a folder, by relative path."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            with path.open("rb") as stream:
                digest = hashlib.file_digest(stream, "sha256").hexdigest()
            found[path.relative_to(folder).as_posix()] = digest
    return found


def difference(found: Mapping[str, str], wanted: Mapping[str, str]) -> str:
    """The first file that differs between two datasets, or an empty string."""
    for name in sorted({*found, *wanted, _MANIFEST}):
        if name not in found:
            return f"{name} is missing"
        if found[name] != wanted.get(name):
            return f"{name} is not that of a fresh run"
    return ""


def _run(name: str, command: list[str], work: Path) -> tuple[Run, int]:
    """Runs a command, and gives how many images it took from records."""
    result = run_job(Job(name, command, None, 0), work)
    if result.failure:
        raise FailedError(f"{name}: {result.failure}")
    log = (work / "logs" / f"{name}.log").read_text("utf-8", "replace")
    found = _REUSED.search(log)
    return result.runs[0], int(found[1]) if found else 0


def run_case(
    case: Case, wanted: Mapping[str, str], work: Path, requests: Callable[[], int]
) -> tuple[Measured, dict[str, str]]:
    """Runs a case, checks its files, and removes them.

    Args:
        case: the conversion.
        wanted: hashes of the files of a fresh run; empty for the first of them.
        work: the folder of the logs.
        requests: gives how many were made until now.

    Returns:
        The measurement, and the hashes of the files.

    Raises:
        FailedError: it failed, reused another number of records, or gave other bytes.
    """
    before = requests()
    run, reused = _run(f"reuse-{case.name}", case.command, work)
    taken = requests() - before
    hashes = case.hashes()
    case.remove()
    failure = difference(hashes, wanted or hashes)
    if reused != case.reused:
        failure = f"{reused} images are from records instead of {case.reused}"
    if failure:
        raise FailedError(f"{case.title}: {failure}")
    return Measured(run, taken), hashes


def folder_cases(edited: Edited, work: Path) -> list[Case]:
    """Makes the datasets that are reused, and gives the conversions of local files.

    Raises:
        FailedError: a dataset cannot be made.
    """
    output = work / "output" / "reuse"
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    photos, total = edited.photos, edited.photos.total

    def folder(name: str) -> Path:
        # The same last name everywhere: it is the title of the report.
        return output / name / "photos"

    base, other, older = (folder(f"base-{name}") for name in ("same", "other", "older"))
    _run("reuse-base-same", ours_command(photos, base), work)
    _run("reuse-base-other", ours_command(photos._replace(labels=edited.other), other), work)
    with without(edited.new, work / "output" / "reuse" / "new"):
        _run("reuse-base-older", ours_command(photos._replace(labels=edited.older), older), work)

    def case(name: str, title: str, reused: int, *flags: str, place: Path | None = None) -> Case:
        target = place or folder(name)

        def remove() -> None:
            if place is None:
                shutil.rmtree(target)

        command = [*ours_command(photos, target), *flags]
        return Case(name, title, command, reused, lambda: file_hashes(target), remove)

    old = total - len(edited.new)
    kept = "nothing changed, --reuse"
    return [
        case("fresh", "fresh", 0),
        case("relabelled", "every label changed, --reuse", total, "--reuse", str(other)),
        case(
            "new", f"{len(edited.new)} of {total} images new, --reuse", old, "--reuse", str(older)
        ),
        case("copied", f"{kept}, into a new folder", total, "--reuse", str(base)),
        case("kept", f"{kept}, in its own folder", 0, "--reuse", str(base), place=base),
        case("rerun", "nothing changed, up-to-date rerun", 0, place=base),
    ]


_INPUTS, _DATASETS = "photos", "datasets"


def bucket_cases(edited: Edited, server: GcsServer, work: Path) -> list[Case]:
    """Fills buckets, makes the dataset that is reused, and gives the conversions there.

    Raises:
        FailedError: the dataset cannot be made.
    """
    server.make_bucket(_INPUTS)
    server.make_bucket(_DATASETS)
    top = edited.photos.labels.parent

    def put(path: Path) -> None:
        server.put(_INPUTS, path.relative_to(top).as_posix(), path.read_bytes())

    def command(name: str, labels: Path) -> list[str]:
        photos = edited.photos._replace(images=f"gs://{_INPUTS}/images/*/*.jpg", labels=labels)
        found = ours_command(photos, Path(name))
        found[found.index("--output") + 1] = f"gs://{_DATASETS}/{name}/photos"
        return found

    def case(name: str, title: str, reused: int, *flags: str) -> Case:
        def names() -> list[str]:
            return [each for each in server.names(_DATASETS) if each.startswith(f"{name}/")]

        def hashes() -> dict[str, str]:
            return {
                each.removeprefix(f"{name}/photos/"): hashlib.sha256(
                    server.get(_DATASETS, each)
                ).hexdigest()
                for each in names()
            }

        def remove() -> None:
            for each in names():
                server.delete(_DATASETS, each)

        words = [*command(name, edited.photos.labels), *flags]
        return Case(f"bucket-{name}", title, words, reused, hashes, remove)

    new = set(edited.new)
    for path in sorted((top / "images").glob("*/*.jpg")):
        if path not in new:
            put(path)
    _run("reuse-bucket-base", command("base", edited.older), work)
    for path in edited.new:
        put(path)
    base = f"gs://{_DATASETS}/base/photos"
    total = edited.photos.total
    title = f"{len(new)} of {total} images new, --reuse"
    return [
        case("fresh", "fresh", 0),
        case("new", title, total - len(new), "--reuse", base),
    ]
