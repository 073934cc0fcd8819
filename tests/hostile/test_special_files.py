"""FIFOs, devices, folders and links instead of a dataset's files end in one line."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import pipeline.report
from pipeline.errors import UsageError
from pipeline.read import load
from tests.conftest import draw
from tests.marks import rest_slow
from tests.pipeline.commands import Ran, convert, make_dataset, run_here, show, verify
from transforms.dataset.manifest import content_digest
from transforms.storage.interface import MAX_DATASET_FILE
from transforms.storage.local_storage import LocalStorage

SHARD = "train-00000-of-00001.tfrecord"

# A command that waits for somebody to write to a FIFO waits forever.
SECONDS = 60


@contextlib.contextmanager
def no_longer_than(seconds: int) -> Iterator[None]:
    def stop(*_: object) -> None:
        raise TimeoutError(f"it still waits after {seconds} s")

    former = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, former)


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("photos")
    draw(folder / "cat/1.jpg", seed=1)
    draw(folder / "dog/2.jpg", seed=2)
    return folder


@pytest.fixture(scope="module")
def made(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_dataset(tmp_path_factory.mktemp("made") / "out", images=f"{photos}/*/*.jpg").folder


@pytest.fixture
def dataset(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made, tmp_path / "out")
    return tmp_path / "out"


def report(folder: Path) -> Ran:
    return run_here(pipeline.report.main, "report", [str(folder)])


def replace(path: Path, kind: str) -> None:
    """Replaces a file by something else."""
    content = path.read_bytes()
    path.unlink()
    match kind:
        case "fifo":
            os.mkfifo(path)
        case "device":
            path.symlink_to("/dev/zero")
        case "link":
            other = path.with_name("elsewhere")
            other.write_bytes(content)
            path.symlink_to(other)
        case "folder":
            path.mkdir()


@pytest.mark.parametrize("kind", ["fifo", "device", "link", "folder"])
@pytest.mark.parametrize("command", [verify, show, report])
def test_in_the_place_of_the_manifest(dataset: Path, command: Any, kind: str) -> None:
    replace(dataset / "manifest.json", kind)
    with no_longer_than(SECONDS):
        ran = command(dataset)
    assert ran.code == 2
    message = "it is a link" if kind in ("device", "link") else "it is not a regular file"
    assert f"manifest.json: {message}" in ran.error()


@pytest.mark.parametrize("kind", ["fifo", "device", "link", "folder"])
def test_in_the_place_of_a_shard(dataset: Path, kind: str) -> None:
    replace(dataset / SHARD, kind)
    message = "it is a link" if kind in ("device", "link") else "it is not a regular file"
    with no_longer_than(SECONDS):
        shown = show(dataset)
        assert shown.code == 1 and f"cannot read {SHARD}: {message}" in shown.error()
        checked = verify(dataset)
        assert checked.code == 1 and f"{SHARD}: cannot be read: {message}" in checked.out
        assert report(dataset).code == 0
        assert " records cannot be read: " in (dataset / "report.html").read_text()
        with pytest.raises(UsageError, match=f"{SHARD} is not a regular file"):
            load(str(dataset), "train")


@pytest.mark.parametrize("name", ["labels.txt", "statistics.json", "rejected.jsonl"])
@pytest.mark.parametrize("kind", ["fifo", "device"])
def test_in_the_place_of_a_small_file(dataset: Path, name: str, kind: str) -> None:
    replace(dataset / name, kind)
    with no_longer_than(SECONDS):
        checked = verify(dataset)
        assert checked.code == 1 and f"{name}: cannot be read: it is" in checked.out
        assert report(dataset).code == 0
        assert show(dataset).code in (0, 2)


@pytest.mark.parametrize("kind", rest_slow(["fifo", "device", "link"]))
@pytest.mark.parametrize(
    "where", rest_slow(["shard", "manifest.json", "report.html", "labels.txt"], 3)
)
def test_a_run_into_such_a_folder(
    dataset: Path, photos: Path, tmp_path: Path, where: str, kind: str
) -> None:
    """It replaces what is its own, opens nothing else, and does not wait."""
    replace(dataset / (SHARD if where == "shard" else where), kind)
    with no_longer_than(SECONDS):
        ran = convert(images=f"{photos}/*/*.jpg", output=dataset, seed=3, overwrite=True)
    if where == "manifest.json":
        assert ran.code == 2 and "cannot read --output" in ran.error()
        return
    assert ran.code == 0, ran.err
    assert verify(dataset).code == 0
    assert not any(path.is_symlink() for path in dataset.iterdir())


@pytest.mark.parametrize("kind", rest_slow(["link", "fifo", "full"]))
def test_what_a_killed_run_left_half_written_is_no_way_out(
    dataset: Path, photos: Path, tmp_path: Path, kind: str
) -> None:
    """`.partial` is made new: a link there would lead a run to overwrite another file."""
    (tmp_path / "me").write_text("the owner's")
    names = ["report.html", ".staging/outcome.json", ".staging/small_files.json"]
    (dataset / ".staging").mkdir()
    for name in names:
        path = dataset / f"{name}.partial"
        if kind == "fifo":
            os.mkfifo(path)
        elif kind == "link":
            path.symlink_to(tmp_path / "me")
        else:
            path.write_text("half")
    with no_longer_than(SECONDS):
        assert report(dataset).code == 0
        ran = convert(images=f"{photos}/*/*.jpg", output=dataset, seed=3, overwrite=True)
    assert (tmp_path / "me").read_text() == "the owner's"
    # What is staged is a file, or the run says what is in its place.
    assert ran.code == (0 if kind == "full" else 2), ran.err


@pytest.mark.parametrize("kind", ["fifo", "link"])
def test_a_file_is_written_new(tmp_path: Path, kind: str) -> None:
    (tmp_path / "me").write_text("the owner's")
    partial = tmp_path / "a.partial"
    if kind == "fifo":
        os.mkfifo(partial)
    else:
        partial.symlink_to(tmp_path / "me")
    with no_longer_than(SECONDS):
        LocalStorage().write_whole(str(tmp_path / "a"), b"new")
    assert (tmp_path / "a").read_bytes() == b"new"
    assert (tmp_path / "me").read_text() == "the owner's"
    assert not partial.exists()


TERABYTE = 1 << 40


def grow(path: Path) -> None:
    """A terabyte of zeros behind what a file holds, which takes no room on the disk."""
    with path.open("ab") as file:
        file.truncate(TERABYTE)


@pytest.mark.parametrize("command", [verify, show, report])
def test_a_manifest_of_a_terabyte(dataset: Path, photos: Path, command: Any) -> None:
    grow(dataset / "manifest.json")
    size = f"{TERABYTE} bytes, more than {MAX_DATASET_FILE}"
    message = f"manifest.json has at least {size}: it is not read"
    with no_longer_than(SECONDS):
        ran = command(dataset)
        assert ran.code == 2 and message in ran.error()
        ran = convert(images=f"{photos}/*/*.jpg", output=dataset)
        assert ran.code == 2 and message in ran.error()


@pytest.mark.parametrize(
    "name", rest_slow([SHARD, "labels.txt", "statistics.json", "rejected.jsonl"])
)
def test_a_file_of_a_dataset_that_has_a_terabyte(dataset: Path, photos: Path, name: str) -> None:
    """It has another size than the manifest says: that is seen without reading it."""
    grow(dataset / name)
    with no_longer_than(SECONDS):
        checked = verify(dataset)
        message = (
            "is longer than the" if name == SHARD else "was changed since the dataset was written"
        )
        assert checked.code == 1 and f"{name}: " in checked.out and message in checked.out
        shown = show(dataset)
        assert shown.code in (0, 1, 2) and (not shown.code or shown.error())
        assert report(dataset).code == 0
        again = convert(images=f"{photos}/*/*.jpg", output=dataset)
        assert again.code == 0 or (name == SHARD and "missing or truncated" in again.error())
        ran = convert(images=f"{photos}/*/*.jpg", output=dataset, seed=3, overwrite=True)
        assert ran.code == 0, ran.err
    assert verify(dataset).code == 0


@pytest.mark.parametrize("name", rest_slow(["small_files.json", "former.json", "outcome.json"], 2))
def test_a_staged_file_of_a_terabyte(dataset: Path, photos: Path, name: str) -> None:
    (dataset / ".staging").mkdir()
    grow(dataset / ".staging" / name)
    (dataset / "manifest.json").unlink()
    with no_longer_than(SECONDS):
        ran = convert(images=f"{photos}/*/*.jpg", output=dataset)
    assert ran.code == (0 if name == "outcome.json" else 2)
    assert not ran.code or f"{name} has at least {TERABYTE} bytes" in ran.error()


@pytest.mark.slow
def test_staged_files_of_a_terabyte(photos: Path, tmp_path: Path) -> None:
    """A shard that was staged with the same recipe is written again, not read to its end."""
    flags: dict[str, Any] = {"images": f"{photos}/*/*.jpg", "num_shards": 1}
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "1.jpg").write_bytes(b"no image")
    flags["images"] = [flags["images"], f"{tmp_path}/bad/*.jpg"]
    stopped = convert(**flags, output=tmp_path / "out", max_rejected=0)
    assert stopped.code == 3
    staged = sorted((tmp_path / "out" / ".staging").glob("train-*"))
    assert len(staged) == 3
    for path in staged:
        grow(path)
        with no_longer_than(SECONDS):
            again = convert(**flags, output=tmp_path / "out", max_rejected=0)
        assert again.code == 3
        assert path.stat().st_size < 1 << 20


DEEP = "[" * 100_000


def deep(manifest: dict[str, Any]) -> str:
    return json.dumps(manifest)[:-1] + f', "more": {DEEP}'


@pytest.mark.parametrize("command", [verify, show, report])
def test_json_that_is_nested_too_deeply(dataset: Path, photos: Path, command: Any) -> None:
    path = dataset / "manifest.json"
    path.write_text(deep(json.loads(path.read_text())))
    ran = command(dataset)
    assert ran.code == 2 and "its brackets are nested too deeply" in ran.error()
    ran = convert(images=f"{photos}/*/*.jpg", output=dataset)
    assert ran.code == 2 and "its brackets are nested too deeply" in ran.error()


@pytest.mark.parametrize("name", ["statistics.json", "rejected.jsonl"])
def test_a_small_file_that_is_nested_too_deeply(dataset: Path, name: str) -> None:
    (dataset / name).write_text(DEEP)
    assert verify(dataset).code == 1
    assert report(dataset).code == 0


def test_a_layout_that_is_nested_too_deeply(photos: Path, tmp_path: Path) -> None:
    (tmp_path / "my.yaml").write_text(f"features: {DEEP[:3000]}")
    ran = convert(images=f"{photos}/*/*.jpg", output=tmp_path / "out", layout=tmp_path / "my.yaml")
    assert ran.code == 2 and "my.yaml is not a layout: it is nested too deeply" in ran.error()


EDITS: dict[str, Any] = {
    "ledger": {},
    "splits": {"train": {}},
    "features": [{"name": "x"}],
    "files": {"labels.txt": {}},
    "rejected": {"no_label": "1"},
    "options": {"max_pixels": "many"},
    "pixels": [1],
}


@pytest.mark.parametrize("key", EDITS)
def test_an_edited_manifest_is_one_line_for_every_command(
    dataset: Path, photos: Path, key: str
) -> None:
    path = dataset / "manifest.json"
    manifest = json.loads(path.read_text()) | {key: EDITS[key]}
    path.write_text(json.dumps(manifest | {"digest": content_digest(manifest)}))
    message = f"manifest.json was edited: its {key!r} cannot be read"
    for ran in (verify(dataset), show(dataset), report(dataset)):
        assert ran.code == 2 and message in ran.error()
    ran = convert(images=f"{photos}/*/*.jpg", output=dataset)
    assert ran.code == 2 and message in ran.error()
