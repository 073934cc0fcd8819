"""What is read back from an output folder is a stranger's: nothing outside of it changes."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import draw
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

ALL_KINDS = ("shard", "small", "former", "sidecar", "begun")

# Names as nobody but an editor gives them: of neighbours, parents, other places, other kinds.
NAMES = (
    "../me",
    "..",
    ".",
    "",
    "/etc/passwd",
    "../out2/keep.txt",
    "train/../../me/keep.txt",
    "notes.txt",
    "notes",
    ".staging/../../me",
    "../train-00000-of-00001.tfrecord",
    "linked/keep.tfrecord",
    "x/y.labels.txt",
    "../x.labels.txt",
    "labels.txt/..",
    "labels.txt\0",
    "train/..tfrecord",
    "a\\b.tfrecord",
    "%2e%2e",
)


class Guarded:
    """A folder with an output folder in it, and with much else that no run may touch."""

    def __init__(self, folder: Path, made: Path) -> None:
        self.folder = folder
        self.output = folder / "out"
        shutil.copytree(made, self.output)
        for name in ("me/keep.txt", "me/train-00000-of-00001.tfrecord", "out2/keep.txt"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text("a stranger's")
        (self.output / "notes.txt").write_text("the owner's")
        (self.output / "notes").mkdir()
        (self.output / "notes" / "keep.txt").write_text("the owner's")
        (self.output / "linked").symlink_to(folder / "me")
        self.before = self.outside()

    def outside(self) -> dict[str, tuple[int, bytes]]:
        """All that is not the tool's: time stamp, kind and content by path."""
        return {
            path.relative_to(self.folder).as_posix(): (
                path.lstat().st_mode,
                path.read_bytes() if path.is_file() else b"",
            )
            for path in self.folder.rglob("*")
            if path.relative_to(self.folder).parts[0] != "out"
            or path.name.startswith(("notes", "keep", "linked"))
        }

    def edit_manifest(self, change: Callable[[dict[str, Any]], None], *, seal: bool) -> None:
        path = self.output / "manifest.json"
        manifest = json.loads(path.read_text())
        change(manifest)
        if seal:
            manifest["digest"] = content_digest(manifest)
        path.write_text(json.dumps(manifest))

    def stage(self, name: str, content: str) -> None:
        path = self.output / ".staging" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)

    def checked(self, ran: Ran) -> Ran:
        """Checks that nothing else changed, and that the run ended as runs may end."""
        assert self.outside() == self.before
        assert "Traceback" not in ran.err, ran.err
        assert ran.code in (0, 1, 2), ran
        if ran.code:
            ran.error()
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
def guarded(made: Path, tmp_path: Path) -> Iterator[Guarded]:
    yield Guarded(tmp_path / "guarded", made)


def again(guarded: Guarded, photos: Path, **flags: Any) -> Ran:
    """A run into the folder with an option that makes another dataset."""
    ran = convert(images=f"{photos}/*/*.jpg", output=guarded.output, seed=7, **flags)
    return guarded.checked(ran)


@pytest.mark.parametrize("name", ["../me", "..", "/etc/passwd", "notes", "notes.txt"])
def test_small_files_of_a_former_run_are_names_that_it_gives(
    guarded: Guarded, photos: Path, name: str
) -> None:
    """A run that was killed while it published, or somebody who wants a folder to go."""
    (guarded.output / "manifest.json").unlink()
    guarded.stage("small_files.json", json.dumps(["labels.txt", name]))
    ran = again(guarded, photos)
    assert ran.code == 2
    assert (
        f"{guarded.output}/.staging/small_files.json was edited: it names {name!r}" in ran.error()
    )


@pytest.mark.parametrize("seal", [False, True])
@pytest.mark.parametrize("name", ["../me", "linked/keep.tfrecord", "notes.txt"])
@pytest.mark.parametrize("where", ["files", "shards"])
def test_files_of_a_manifest_are_names_that_it_gives(
    guarded: Guarded, photos: Path, name: str, where: str, seal: bool
) -> None:
    def change(manifest: dict[str, Any]) -> None:
        if where == "files":
            manifest["files"][name] = {"bytes": 1, "crc32c": "00000000"}
        else:
            manifest["splits"]["train"]["shards"][0]["file"] = name

    guarded.edit_manifest(change, seal=seal)
    ran = again(guarded, photos, overwrite=True)
    # A plain name in a folder that is a link is a name like others; the folder is refused.
    assert ran.code == 2
    assert "was edited" in ran.error() or "is a link" in ran.error()


def test_an_edited_manifest_decides_about_no_file(guarded: Guarded, photos: Path) -> None:
    guarded.edit_manifest(lambda manifest: manifest["files"].pop("labels.txt"), seal=False)
    ran = again(guarded, photos, overwrite=True)
    assert ran.code == 2
    assert "was edited since the dataset was written" in ran.error()


def test_the_manifest_of_a_replaced_dataset_is_no_other(guarded: Guarded, photos: Path) -> None:
    def change(manifest: dict[str, Any]) -> None:
        manifest["files"]["../me/keep.txt"] = {"bytes": 1, "crc32c": "00000000"}

    guarded.edit_manifest(change, seal=True)
    guarded.stage("former.json", (guarded.output / "manifest.json").read_text())
    (guarded.output / "manifest.json").unlink()
    ran = again(guarded, photos)
    assert ran.code == 2
    assert "former.json was edited: it names '../me/keep.txt'" in ran.error()


def test_a_broken_manifest_of_a_replaced_dataset_says_what_helps(
    guarded: Guarded, photos: Path
) -> None:
    guarded.stage("former.json", "{")
    (guarded.output / "manifest.json").unlink()
    ran = again(guarded, photos)
    assert ran.code == 2
    assert f"so the dataset is incomplete: remove {guarded.output}; or choose" in ran.error()


@pytest.mark.parametrize("file", ["../me/train-00000-of-00001.tfrecord", "notes.txt"])
def test_a_sidecar_names_its_own_shard(guarded: Guarded, photos: Path, file: str) -> None:
    recipe = "0" * 32
    sidecar = ShardSummary(file, recipe).to_sidecar()
    (guarded.output / "manifest.json").unlink()
    guarded.stage(f"train-00000-of-00001.tfrecord.{recipe}.json", sidecar)
    assert again(guarded, photos).code == 0


@pytest.mark.parametrize("is_link", [False, True])
def test_what_the_tool_does_not_stage_is_not_removed(
    guarded: Guarded, photos: Path, is_link: bool
) -> None:
    (guarded.output / "manifest.json").unlink()
    staging = guarded.output / ".staging"
    if is_link:
        staging.symlink_to(guarded.folder / "me")
    else:
        staging.mkdir()
        (staging / "keep.thesis").write_text("the owner's")
        guarded.before = guarded.outside()
    ran = again(guarded, photos)
    assert ran.code == 2
    message = "is a link" if is_link else "is in the staging folder, but this tool did not write it"
    assert message in ran.error()


def test_a_staging_folder_that_is_a_link_next_to_a_dataset(guarded: Guarded, photos: Path) -> None:
    """The same command found its dataset whole, tried to remove the link, and failed each time."""
    (guarded.output / ".staging").symlink_to(guarded.folder / "me")
    ran = guarded.checked(convert(images=f"{photos}/*/*.jpg", output=guarded.output))
    assert ran.code == 2 and ".staging is a link" in ran.error()
    assert "remove it" in ran.error()
    (guarded.output / ".staging").unlink()
    assert guarded.checked(convert(images=f"{photos}/*/*.jpg", output=guarded.output)).code == 0


def test_a_split_that_is_a_link_is_not_written_through(guarded: Guarded, photos: Path) -> None:
    (guarded.output / "manifest.json").unlink()
    guarded.stage("outcome.json", "{}")
    (guarded.output / "train").symlink_to(guarded.folder / "me")
    ran = again(guarded, photos, files="per_image")
    assert ran.code == 1
    assert f"{guarded.output}/train is a link" in ran.error()


def test_a_folder_in_the_place_of_a_file_stays(guarded: Guarded, photos: Path) -> None:
    (guarded.output / "labels.txt").unlink()
    (guarded.output / "labels.txt").mkdir()
    (guarded.output / "labels.txt" / "keep.txt").write_text("the owner's")
    guarded.before = guarded.outside()
    ran = again(guarded, photos, overwrite=True)
    assert ran.code == 2
    assert "labels.txt is a folder, but the dataset needs a file there" in ran.error()


def edit(guarded: Guarded, photos: Path, random_: random.Random) -> dict[str, Any]:
    """Makes one to three edits of the files that a run reads back; flags of the run to try."""
    flags: dict[str, Any] = {"overwrite": random_.choice([True, None])}
    if random_.random() < 0.3:
        flags["files"] = "per_image"
    for _ in range(random_.randint(1, 3)):
        name = random_.choice(NAMES)
        match random_.choice(ALL_KINDS):
            case "shard" if (guarded.output / "manifest.json").exists():
                guarded.edit_manifest(
                    lambda m, n=name: m["splits"]["train"]["shards"][0].update(file=n),
                    seal=random_.random() < 0.7,
                )
            case "small" if (guarded.output / "manifest.json").exists():
                guarded.edit_manifest(
                    lambda m, n=name: m["files"].update({n: {"bytes": 1, "crc32c": "00000000"}}),
                    seal=random_.random() < 0.7,
                )
            case "former" if (guarded.output / "manifest.json").exists():
                guarded.stage("former.json", (guarded.output / "manifest.json").read_text())
                (guarded.output / "manifest.json").unlink()
            case "begun":
                guarded.stage(
                    "small_files.json", random_.choice([json.dumps([name]), "{", "[" * 9999])
                )
            case _:
                summary = ShardSummary(
                    name,
                    "0" * 32,
                    files=(ImageFile("k", 1, "00000000"),),
                    folder=random_.choice(NAMES),
                )
                sidecar = summary.to_sidecar()
                guarded.stage(f"train-00000-of-00001.tfrecord.{'0' * 32}.json", sidecar)
    return flags


@pytest.mark.parametrize("seed", range(24))
def test_no_edit_reaches_beyond_the_folder(
    made: Path, photos: Path, tmp_path: Path, seed: int
) -> None:
    guarded = Guarded(tmp_path / "guarded", made)
    flags = edit(guarded, photos, random.Random(seed))
    again(guarded, photos, **flags)


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


@given(PATHS)
def test_what_is_refused_is_named(name: str) -> None:
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
