"""What is read back from an output folder is a stranger's: nothing outside of it changes."""

import json
import os
import random
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import draw
from tests.marks import cases, rest_slow
from tests.pipeline.commands import Ran, convert, make_dataset
from transforms.dataset.ledger import ShardSummary
from transforms.dataset.manifest import content_digest
from transforms.dataset.output_names import (
    ForeignNameError,
    ImageFile,
    is_data_file,
    is_small_file,
    is_staged,
    parse_small_files,
)

SHARD, RECIPE = "train-00000-of-00001.tfrecord", "0" * 32
STRANGE = "../me/keep.txt"

# Names as nobody but an editor gives them: of neighbours, parents, other places, other kinds.
NAMES = ["../me", "..", ".", "", "/etc/passwd", "../out2/keep.txt", "train/../../me/keep.txt"]
NAMES += ["notes.txt", "notes", ".staging/../../me", f"../{SHARD}", "linked/keep.tfrecord"]
NAMES += ["x/y.labels.txt", "../x.labels.txt", "labels.txt/..", "labels.txt\0", "train/..tfrecord"]
NAMES += ["a\\b.tfrecord", "%2e%2e"]


class Guarded:
    """A folder with an output folder in it, and with much else that no run may touch."""

    def __init__(self, folder: Path, photos: Path, made: Path) -> None:
        self.folder, self.photos, self.output = folder, photos, folder / "out"
        shutil.copytree(made, self.output)
        for name in ("me/keep.txt", f"me/{SHARD}", "out2/keep.txt"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text("a stranger's")
        for name in ("notes.txt", "notes/keep.txt"):
            (self.output / name).parent.mkdir(exist_ok=True)
            (self.output / name).write_text("the owner's")
        (self.output / "linked").symlink_to(folder / "me")

    def outside(self) -> dict[str, tuple[int, bytes]]:
        """All that is not the tool's: kind and content by path."""
        paths = (path.relative_to(self.folder) for path in self.folder.rglob("*"))
        return {
            str(path): (
                (self.folder / path).lstat().st_mode,
                (self.folder / path).read_bytes() if (self.folder / path).is_file() else b"",
            )
            for path in paths
            if path.parts[0] != "out" or path.name.startswith(("notes", "keep", "linked"))
        }

    def stage(self, name: str, content: str) -> None:
        (self.output / ".staging").mkdir(exist_ok=True)
        (self.output / ".staging" / name).write_text(content)

    def edit(
        self, *, file: str = "", shard: str = "", without: str = "", seal: bool = True
    ) -> None:
        """Has the manifest name another small file or shard, or no longer name one."""
        path = self.output / "manifest.json"
        manifest = json.loads(path.read_text())
        if file:
            manifest["files"][file] = {"bytes": 1, "crc32c": "00000000"}
        if shard:
            manifest["splits"]["train"]["shards"][0]["file"] = shard
        manifest["files"].pop(without, None)
        digest = {"digest": content_digest(manifest)} if seal else {}
        path.write_text(json.dumps(manifest | digest))

    def unpublish(self, *, former: str | None = None) -> None:
        """Removes the manifest; `former` is staged as that of the dataset that is replaced."""
        if former is not None:
            self.stage("former.json", former or (self.output / "manifest.json").read_text())
        (self.output / "manifest.json").unlink()

    def stage_sidecar(self, file: str, folder: str | None = None) -> None:
        """A sidecar that names this file as its shard, and the files of images in a folder."""
        more = {"files": (ImageFile("k", 1, "00000000"),), "folder": folder} if folder else {}
        self.stage(f"{SHARD}.{RECIPE}.json", ShardSummary(file, RECIPE, **more).to_sidecar())

    def run(self, **flags: Any) -> Ran:
        """Checks that nothing else changes, and that the run ends as runs may end."""
        before = self.outside()
        ran = convert(images=f"{self.photos}/*/*.jpg", output=self.output, **flags)
        assert self.outside() == before
        assert "Traceback" not in ran.err, ran.err
        assert ran.code in (0, 1, 2), ran
        assert not ran.code or ran.error()
        return ran


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("photos")
    for name in ("cat/1.jpg", "dog/2.jpg"):
        draw(folder / name, seed=len(name))
    return folder


@pytest.fixture(scope="module")
def made(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_dataset(tmp_path_factory.mktemp("made") / "out", images=f"{photos}/*/*.jpg").folder


@pytest.fixture
def guarded(made: Path, photos: Path, tmp_path: Path) -> Guarded:
    return Guarded(tmp_path / "guarded", photos, made)


def killed_while_publishing(guarded: Guarded, name: str) -> None:
    guarded.unpublish()
    guarded.stage("small_files.json", json.dumps(["labels.txt", name]))


def replaced(guarded: Guarded) -> None:
    guarded.edit(file=STRANGE)
    guarded.unpublish(former="")


def linked_staging(guarded: Guarded) -> None:
    guarded.unpublish()
    (guarded.output / ".staging").symlink_to(guarded.folder / "me")


def linked_split(guarded: Guarded) -> None:
    guarded.unpublish()
    guarded.stage("outcome.json", "{}")
    (guarded.output / "train").symlink_to(guarded.folder / "me")


def owned_staging(guarded: Guarded) -> None:
    guarded.unpublish()
    guarded.stage("keep.thesis", "the owner's")


def folder_for_a_file(guarded: Guarded) -> None:
    (guarded.output / "labels.txt").unlink()
    (guarded.output / "labels.txt").mkdir()
    (guarded.output / "labels.txt" / "keep.txt").write_text("the owner's")


def sidecar_of(guarded: Guarded, file: str) -> None:
    guarded.unpublish()
    guarded.stage_sidecar(file)


OVERWRITE = {"overwrite": True}


@cases(
    *(
        (partial(killed_while_publishing, name=name), {}, 2, f"was edited: it names {name!r}")
        for name in ("../me", "..", "/etc/passwd", "notes", "notes.txt")
    ),
    *(
        (partial(Guarded.edit, seal=seal, **edits), OVERWRITE, 2, "was edited")
        for seal in (False, True)
        for name in ("../me", "notes.txt")
        for edits in ({"file": name}, {"shard": name})
    ),
    # A plain name in a folder that is a link is a name like others; the folder is refused.
    (partial(Guarded.edit, shard="linked/keep.tfrecord"), OVERWRITE, 2, "is a link"),
    (partial(Guarded.edit, without="labels.txt", seal=False), OVERWRITE, 2, "was edited since"),
    (replaced, {}, 2, f"former.json was edited: it names {STRANGE!r}"),
    (partial(Guarded.unpublish, former="{"), {}, 2, "the dataset is incomplete: remove "),
    (partial(sidecar_of, file=f"../me/{SHARD}"), {}, 0, ""),
    (partial(sidecar_of, file="notes.txt"), {}, 0, ""),
    (linked_staging, {}, 2, "is a link"),
    (owned_staging, {}, 2, "is in the staging folder, but this tool did not write it"),
    (linked_split, {"files": "per_image"}, 1, "out/train is a link"),
    (folder_for_a_file, OVERWRITE, 2, "is a folder, but the dataset needs a file there"),
)
def test_edits(
    edit: Callable[[Guarded], None],
    flags: dict[str, Any],
    code: int,
    message: str,
    guarded: Guarded,
) -> None:
    edit(guarded)
    ran = guarded.run(seed=7, **flags)
    assert ran.code == code
    assert message in ran.err


def test_a_staging_folder_that_is_a_link_next_to_a_dataset(guarded: Guarded) -> None:
    """The same command found its dataset whole, tried to remove the link, and failed each time."""
    (guarded.output / ".staging").symlink_to(guarded.folder / "me")
    ran = guarded.run()
    assert ran.code == 2 and ".staging is a link" in ran.error() and "remove it" in ran.error()
    (guarded.output / ".staging").unlink()
    assert guarded.run().code == 0


@pytest.mark.parametrize("seed", rest_slow(range(24), 6))
def test_no_edit_reaches_beyond_the_folder(guarded: Guarded, seed: int) -> None:
    """One to three edits of the files that a run reads back."""
    source = random.Random(seed)
    for _ in range(source.randint(1, 3)):
        name, is_published = source.choice(NAMES), (guarded.output / "manifest.json").exists()
        match source.choice(["shard", "small", "former", "sidecar", "begun"]):
            case "shard" if is_published:
                guarded.edit(shard=name, seal=source.random() < 0.7)
            case "small" if is_published:
                guarded.edit(file=name, seal=source.random() < 0.7)
            case "former" if is_published:
                guarded.unpublish(former="")
            case "begun":
                listed = source.choice([json.dumps([name]), "{", "[" * 9999])
                guarded.stage("small_files.json", listed)
            case _:
                guarded.stage_sidecar(name, source.choice(NAMES))
    files = "per_image" if source.random() < 0.3 else None
    guarded.run(seed=7, overwrite=source.choice([True, None]), files=files)


PATHS = st.one_of(
    st.sampled_from(NAMES),
    st.text(max_size=40),
    st.lists(st.sampled_from(["..", ".", "", "train", "a.tfrecord", "labels.txt"])).map("/".join),
)


@given(PATHS)
def test_no_name_that_is_taken_leads_out_of_the_folder(name: str) -> None:
    """The rule for local folders and for buckets."""
    if is_data_file(name) or is_small_file(name) or is_staged(name):
        whole = os.path.normpath(f"/out/{name}")
        assert whole.startswith("/out/") and whole.removeprefix("/out/") == name
        assert "\0" not in name
    try:
        parse_small_files(json.dumps([name]), "m")
    except ForeignNameError as error:
        assert str(error).startswith("m was edited: it names ") and not is_small_file(name)
    else:
        assert is_small_file(name)


@pytest.mark.parametrize("text", ["", "{}", "[", "[1]", "[[]]", "null", "[" * 100_000])
def test_a_list_of_small_files_that_is_none(text: str) -> None:
    with pytest.raises(ForeignNameError, match="^s was edited: "):
        parse_small_files(text, "s")
