"""FIFOs, devices, folders and links instead of a dataset's files end in one line."""

import functools
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pipeline.errors import UsageError
from pipeline.read import load
from tests.conftest import draw
from tests.hostile.changing import within_a_minute
from tests.marks import cases
from tests.pipeline import commands
from tests.pipeline.commands import Ran, check_sound, make_dataset, show, verify
from transforms.dataset.manifest import content_digest
from transforms.storage.interface import MAX_DATASET_FILE
from transforms.storage.local_storage import LocalStorage

pytestmark = pytest.mark.slow

SHARD = "train-00000-of-00001.tfrecord"
SMALL = ["labels.txt", "statistics.json", "rejected.jsonl"]
TERABYTE = 1 << 40


@pytest.fixture(autouse=True)
def _ends() -> Iterator[None]:
    with within_a_minute():
        yield


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("photos")
    draw(folder / "cat/1.jpg", seed=1)
    draw(folder / "dog/2.jpg", seed=2)
    return f"{folder}/*/*.jpg"


@pytest.fixture(scope="module")
def made(photos: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_dataset(tmp_path_factory.mktemp("made") / "out", images=photos).folder


@pytest.fixture
def dataset(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "out"))


@pytest.fixture
def convert(photos: str, dataset: Path) -> Callable[..., Ran]:
    """Runs `convert` into the dataset, as it was made or with other flags."""
    return lambda **flags: commands.convert(**{"images": photos, "output": dataset, **flags})


report = functools.partial(commands.run, "report")
COMMANDS = pytest.mark.parametrize("command", [verify, show, report])
# What makes another dataset in the place of the old one.
ANEW: dict[str, Any] = {"seed": 3, "overwrite": True}

MESSAGES = {
    "fifo": "it is not a regular file",
    "device": "it is a link",
    "link": "it is a link",
    "folder": "it is not a regular file",
}


def replace(path: Path, kind: str) -> None:
    """Replaces a file by something else."""
    if path.exists():
        path.rename(path.with_name("elsewhere"))
    match kind:
        case "fifo":
            os.mkfifo(path)
        case "device":
            path.symlink_to("/dev/zero")
        case "link":
            path.symlink_to(path.with_name("elsewhere"))
        case "folder":
            path.mkdir()


def grow(path: Path) -> None:
    """A terabyte of zeros behind what a file holds, which takes no room on the disk."""
    with path.open("ab") as file:
        file.truncate(TERABYTE)


@pytest.mark.parametrize("kind", MESSAGES)
@COMMANDS
def test_in_the_place_of_the_manifest(dataset: Path, command: Any, kind: str) -> None:
    replace(dataset / "manifest.json", kind)
    ran = command(dataset)
    assert ran.code == 2 and f"manifest.json: {MESSAGES[kind]}" in ran.error()


@pytest.mark.parametrize("kind", MESSAGES)
def test_in_the_place_of_a_shard(dataset: Path, kind: str) -> None:
    replace(dataset / SHARD, kind)
    shown, checked = show(dataset), verify(dataset)
    assert shown.code == 1 and f"cannot read {SHARD}: {MESSAGES[kind]}" in shown.error()
    assert checked.code == 1 and f"{SHARD}: cannot be read: {MESSAGES[kind]}" in checked.out
    assert report(dataset).code == 0
    assert " records cannot be read: " in (dataset / "report.html").read_text()
    with pytest.raises(UsageError, match=f"{SHARD} is not a regular file"):
        load(str(dataset), "train")


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("kind", ["fifo", "device"])
def test_in_the_place_of_a_small_file(dataset: Path, name: str, kind: str) -> None:
    replace(dataset / name, kind)
    checked = verify(dataset)
    assert checked.code == 1 and f"{name}: cannot be read: it is" in checked.out
    assert report(dataset).code == 0
    assert show(dataset).code in (0, 2)


@pytest.mark.parametrize("kind", ["fifo", "device", "link"])
@pytest.mark.parametrize("name", [SHARD, "manifest.json", "report.html", "labels.txt"])
def test_a_run_into_such_a_folder(
    dataset: Path, convert: Callable[..., Ran], name: str, kind: str
) -> None:
    """It replaces what is its own, opens nothing else, and does not wait."""
    replace(dataset / name, kind)
    ran = convert(**ANEW)
    if name == "manifest.json":
        assert ran.code == 2 and "cannot read --output" in ran.error()
        return
    assert ran.code == 0, ran.err
    check_sound(dataset)
    assert not any(path.is_symlink() for path in dataset.iterdir())


@pytest.mark.parametrize("kind", ["link", "fifo", "full"])
def test_what_a_killed_run_left_half_written_is_no_way_out(
    dataset: Path, tmp_path: Path, convert: Callable[..., Ran], kind: str
) -> None:
    """`.partial` is made new: a link there would lead a run to overwrite another file."""
    (tmp_path / "me").write_text("the owner's")
    (dataset / ".staging").mkdir()
    for name in ("report.html", ".staging/outcome.json", ".staging/small_files.json"):
        path = dataset / f"{name}.partial"
        if kind == "fifo":
            os.mkfifo(path)
        elif kind == "link":
            path.symlink_to(tmp_path / "me")
        else:
            path.write_text("half")
    assert report(dataset).code == 0
    # What is staged is a file, or the run says what is in its place.
    ran = convert(**ANEW)
    assert ran.code == (0 if kind == "full" else 2), ran.err
    assert (tmp_path / "me").read_text() == "the owner's"


@pytest.mark.parametrize("kind", ["fifo", "link"])
def test_a_file_is_written_new(tmp_path: Path, kind: str) -> None:
    partial = tmp_path / "a.partial"
    partial.write_text("the owner's")
    replace(partial, kind)
    LocalStorage().write_whole(str(tmp_path / "a"), b"new")
    assert (tmp_path / "a").read_bytes() == b"new"
    assert (tmp_path / "elsewhere").read_text() == "the owner's"
    assert not partial.exists()


def nest(path: Path) -> None:
    path.write_text(path.read_text().rstrip()[:-1] + f', "more": {"[" * 100_000}')


EDITS: dict[str, Any] = {
    "ledger": {},
    "splits": {"train": {}},
    "features": [{"name": "x"}],
    "files": {"labels.txt": {}},
    "rejected": {"no_label": "1"},
    "options": {"max_pixels": "many"},
    "pixels": [1],
}


def edit(key: str) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        manifest = json.loads(path.read_text()) | {key: EDITS[key]}
        path.write_text(json.dumps(manifest | {"digest": content_digest(manifest)}))

    return change


@cases(
    (grow, f"has at least {TERABYTE} bytes, more than {MAX_DATASET_FILE}: it is not read"),
    (nest, "its brackets are nested too deeply"),
    *((edit(key), f"was edited: its {key!r} cannot be read") for key in EDITS),
    ids=["terabyte", "nested", *EDITS],
)
def test_a_manifest_that_is_refused_is_one_line_for_every_command(
    change: Callable[[Path], None], message: str, dataset: Path, convert: Callable[..., Ran]
) -> None:
    change(dataset / "manifest.json")
    for ran in (verify(dataset), show(dataset), report(dataset), convert()):
        assert ran.code == 2 and "manifest.json" in ran.error() and message in ran.error()


@cases(
    (SHARD, f"{SHARD} is longer than the"),
    *((name, "was changed since the dataset was written") for name in SMALL),
)
def test_a_file_of_a_dataset_that_has_a_terabyte(
    name: str, message: str, dataset: Path, convert: Callable[..., Ran]
) -> None:
    """It has another size than the manifest says: that is seen without reading it."""
    grow(dataset / name)
    checked, shown = verify(dataset), show(dataset)
    assert checked.code == 1 and f"{name}: " in checked.out
    assert message.removeprefix(f"{name} ") in checked.out
    assert shown.code in (0, 1, 2) and (not shown.code or shown.error())
    assert report(dataset).code == 0
    again = convert()
    assert again.code == 0 or (name == SHARD and "missing or truncated" in again.error())
    assert convert(**ANEW).code == 0
    check_sound(dataset)


@pytest.mark.parametrize(
    ("name", "code"), [("small_files.json", 2), ("former.json", 2), ("outcome.json", 0)]
)
def test_a_staged_file_of_a_terabyte(
    dataset: Path, convert: Callable[..., Ran], name: str, code: int
) -> None:
    (dataset / ".staging").mkdir()
    grow(dataset / ".staging" / name)
    (dataset / "manifest.json").unlink()
    ran = convert()
    assert ran.code == code
    assert not code or f"{name} has at least {TERABYTE} bytes" in ran.error()


@pytest.mark.parametrize("name", SMALL[1:])
def test_a_small_file_that_is_nested_too_deeply(dataset: Path, name: str) -> None:
    (dataset / name).write_text("[" * 100_000)
    assert verify(dataset).code == 1
    assert report(dataset).code == 0


def test_a_layout_that_is_nested_too_deeply(tmp_path: Path, convert: Callable[..., Ran]) -> None:
    (tmp_path / "my.yaml").write_text(f"features: {'[' * 1000}")
    ran = convert(layout=tmp_path / "my.yaml")
    assert ran.code == 2 and "my.yaml is not YAML, or is nested too deeply" in ran.error()
