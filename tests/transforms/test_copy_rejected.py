"""Copies of rejected images, by reason."""

import errno
import os
import shutil
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest

from tests.conftest import draw
from tests.marks import cases
from tests.pipeline.commands import Ran, convert
from tests.servers.gcs import GcsServer
from tests.transforms.beam import collect
from transforms.core.messages import TransientError
from transforms.core.records import Count
from transforms.core.rejections import Reason, Rejection
from transforms.dataset.ledger import ShardSummary
from transforms.list_rejections import CopyRejected, copy_file
from transforms.storage.local_storage import LocalStorage

pytestmark = pytest.mark.slow


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """Two classes, in which one image is empty, one is cut, and a link leads nowhere."""
    folder = tmp_path / "in"
    for name in ("cat/a.jpg", "cat/cut.jpg", "dog/b.jpg"):
        draw(folder / name)
    (folder / "dog" / "empty.jpg").touch()
    (folder / "dog" / "gone.jpg").symlink_to("nowhere")
    os.truncate(folder / "cat" / "cut.jpg", 300)
    return folder


def run(images: Path, /, **flags: Any) -> Ran:
    """Converts the images; the copies go to `q` next to them."""
    folder = images.parent
    given = {"images": f"{images}/*/*.jpg", "quarantine": folder / "q", "max_rejected": "3"}
    return convert(output=folder / "out", **{**given, **flags})


def files_of(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize(("max_rejected", "code"), [("3", 0), ("1", 3)])
def test_copies_by_reason_published_or_not(images: Path, max_rejected: str, code: int) -> None:
    ran = run(images, quarantine=f"{images.parent}/q/", max_rejected=max_rejected)
    assert ran.code == code, ran.err
    assert files_of(images.parent / "q") == {
        "empty_file/dog/empty.jpg": b"",
        "corrupt_image/cat/cut.jpg": (images / "cat" / "cut.jpg").read_bytes(),
    }


def test_killed_runs_leave_only_copies(images: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed just before the file is removed with which the folder was tried."""
    remove = LocalStorage.remove
    with monkeypatch.context() as patch:
        patch.setattr(
            LocalStorage, "remove", lambda self, path: "/q/probe." in path or remove(self, path)
        )
        assert run(images).code == 0
        assert len(files_of(images.parent / "q")) == 3
    shutil.rmtree(images.parent / "out")
    assert run(images).code == 0
    assert len(files_of(images.parent / "q")) == 2


def test_images_without_a_row_are_copied(images: Path) -> None:
    labels = images.parent / "labels.csv"
    labels.write_text("id,label\nb,dog\n")
    ran = run(images, images=f"{images}/*/[ab].jpg", labels=labels)
    assert ran.code == 0, ran.err
    assert list(files_of(images.parent / "q")) == ["no_label/cat/a.jpg"]


def test_no_copy_gets_out_of_the_folder(images: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(images.parent)
    Path("lists").mkdir()
    Path("lists/labels.csv").write_text("file,label\n../in/dog/b.jpg,dog\n../in/cat/cut.jpg,cat\n")
    ran = convert(labels="lists/labels.csv", output="out", quarantine="q", max_rejected=1)
    assert ran.code == 0, ran.err
    cut = Path("in/cat/cut.jpg").read_bytes()
    assert files_of(Path("q/corrupt_image")) == {"%2E%2E/in/cat/cut.jpg": cut}


@cases(
    ("in/q", "would match the copies"),
    ("out/q", "must not contain each other"),
    (".", "must not contain each other"),
    ("file", "cannot write to --quarantine"),
)
def test_a_folder_that_cannot_be_used(folder: str, message: str, images: Path) -> None:
    (images.parent / "file").touch()
    flags = {"images": f"{images}/**/*.jpg", "label_from": "none"}
    ran = run(images, **flags, quarantine=images.parent / folder)
    assert ran.code == 2
    assert message in ran.error()
    assert not list((images.parent / "out").glob("*.tfrecord"))


def test_a_name_of_255_bytes_is_copied(tmp_path: Path) -> None:
    name = "x" * 251 + ".jpg"
    (tmp_path / name).write_bytes(b"long")
    assert copy_file(str(tmp_path / name), f"{tmp_path}/q/{name}")
    assert files_of(tmp_path / "q") == {name: b"long"}


def test_names_of_objects_that_no_folder_can_have(gcs: GcsServer, tmp_path: Path) -> None:
    """`a` and `a/b.jpg` are both objects; so is a name of 1,000 characters without a slash."""
    names = ["a", "a/b.jpg", "c/d/e.jpg", "c/d", f"{'l' * 300}.jpg", f"{'m' * 300}/1.jpg"]
    gcs.make_bucket("objects")
    for name in names:
        gcs.put("objects", f"in/{name}", name.encode())
    flags = {"images": "gs://objects/in/**", "label_from": "none", "max_rejected": "0"}
    copied = []
    for _ in range(2):
        ran = run(tmp_path / "in", **flags)
        assert ran.code == 3, ran.err
        copies = files_of(tmp_path / "q" / "not_an_image")
        assert sorted(copies.values()) == sorted(name.encode() for name in names)
        copied.append(copies.keys())
    assert copied[0] == copied[1]


def test_from_bucket_to_bucket_over_a_former_copy(gcs: GcsServer) -> None:
    gcs.make_bucket("photos")
    gcs.put("photos", "a.jpg", b"new")
    gcs.put("photos", "q/a.jpg", b"former")
    assert copy_file("gs://photos/a.jpg", "gs://photos/q/a.jpg")
    assert not copy_file("gs://photos/gone.jpg", "gs://photos/q/gone.jpg")
    assert gcs.get("photos", "q/a.jpg") == b"new"
    assert gcs.names("photos") == ["a.jpg", "q/a.jpg"]


def test_a_read_that_may_succeed_later_leaves_no_copy_out(
    images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stale(*_: object) -> None:
        raise OSError(errno.ESTALE, "Stale file handle")

    monkeypatch.setattr(LocalStorage, "open_reader", stale)
    with pytest.raises(TransientError, match="cat/a.jpg: Stale file handle; run the same command"):
        copy_file(str(images / "cat/a.jpg"), f"{tmp_path}/q/a.jpg")
    assert not list((tmp_path / "q").glob("*.jpg"))


def test_a_copy_that_cannot_be_written_is_an_error(images: Path, tmp_path: Path) -> None:
    (tmp_path / "full").touch()
    with pytest.raises(OSError):
        copy_file(str(images / "cat/a.jpg"), f"{tmp_path}/full/a.jpg")
    assert LocalStorage().names_below(str(tmp_path / "full")) == []


def test_files_far_from_their_rows_are_not_copied(tmp_path: Path) -> None:
    """Who wrote the rows may not read them; who starts the run may."""
    (tmp_path / "secret.txt").write_text("secret")
    away = Rejection("image", Reason.OUTSIDE_ROOT.code, "far", str(tmp_path / "secret.txt"), "k")
    near = away._replace(reason=Reason.NOT_AN_IMAGE.code)

    def construct(pipeline: beam.Pipeline) -> dict[str, Any]:
        rejections = pipeline | beam.Create([away, near]).with_output_types(Rejection)
        shards = pipeline | "No shards" >> beam.Create([]).with_output_types(ShardSummary)
        copied = shards | CopyRejected(str(tmp_path), str(tmp_path / "q"), rejections)
        return {"counts": copied}

    assert collect(construct)["counts"] == [Count("images_quarantined", 1)]
    [(name, data)] = files_of(tmp_path / "q").items()
    assert name.startswith("not_an_image/") and data == b"secret"
