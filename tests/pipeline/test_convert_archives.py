"""Images inside archives: the same dataset as from a folder with the same files."""

import io
import os
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.images.packed import damaged, tarred, with_flag, with_size, zipped
from tests.pipeline.commands import (
    check_sound,
    convert,
    digests,
    index_rows,
    make_dataset,
    plan,
    show,
)
from tests.pipeline.reading import labels
from tests.servers.gcs import GcsServer
from transforms.dataset.output_names import INDEX

pytestmark = pytest.mark.slow

FLAGS: dict[str, Any] = {"label_from": "directory", "splits": "train=0.7,test=0.3"}
ALL: dict[str, Any] = {"max_rejected": "100%"}
NONE: dict[str, Any] = {"label_from": "none", **ALL}


@pytest.fixture
def archive(request: pytest.FixtureRequest, tmp_path: Path, files: dict[str, bytes]) -> Path:
    """A zip of the photos, or a tar for `of_kind`."""
    kind = getattr(request, "param", "zip")
    path = tmp_path / f"한강.{kind}"
    path.write_bytes(zipped(files, zipfile.ZIP_DEFLATED) if kind == "zip" else tarred(files))
    return path


def of_kind(*kinds: str) -> pytest.MarkDecorator:
    """Runs a test with archives of these kinds."""
    return pytest.mark.parametrize("archive", kinds, indirect=True)


@pytest.fixture(scope="module")
def plain(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The dataset of the unpacked files."""
    folder = tmp_path_factory.mktemp("plain") / "out"
    return make_dataset(folder, images=f"{photos}/**/*.jpg", **FLAGS).folder


def records(folder: Path) -> dict[str, str]:
    """The digests of the files that do not name the inputs."""
    names = ("manifest.json", "report.html")
    found = digests(folder).items()
    return {name: each for name, each in found if name not in names and INDEX not in name}


@of_kind("zip", "tar")
def test_records_are_those_of_the_unpacked_files(
    archive: Path, plain: Path, tmp_path: Path
) -> None:
    made = make_dataset(tmp_path / "made", images=f"{archive}!/**/*.jpg", **FLAGS)
    assert records(made.folder) == records(plain)
    assert index_rows(made.folder) == index_rows(plain)
    check_sound(made.folder)
    assert show(made.folder, "--limit", 1).code == 0


def test_a_rerun_finds_nothing_to_do(
    archive: Path, files: dict[str, bytes], tmp_path: Path
) -> None:
    # Without the slash, as one may write it.
    flags = {"images": f"{archive}!*/*.jpg", "output": tmp_path / "out", **FLAGS}
    assert convert(**flags).code == 0
    before = digests(tmp_path / "out")
    # A new time alone leads to the same records.
    os.utime(archive, ns=(1, 1))
    assert "up to date" in convert(**flags).out
    assert digests(tmp_path / "out") == before
    first, second, *_ = files
    archive.write_bytes(zipped({**files, first: files[second]}))
    assert "holds a dataset of other inputs" in convert(**flags).error()


def test_rows_keys_and_label_files_name_files_in_archives(
    tmp_path: Path, files: dict[str, bytes]
) -> None:
    name, stem = next(iter(files)), Path(next(iter(files))).stem
    rows = "id,label\n" + "".join(f"{Path(name).stem},x{name[0]}\n" for name in files)
    (tmp_path / "all.zip").write_bytes(zipped({**files, "labels.csv": rows.encode()}))
    images = {"images": f"{tmp_path}/all.zip!/**"}
    (tmp_path / "list.csv").write_text(f"image_uri,label\nall.zip!/{name},a\n")
    listed = make_dataset(tmp_path / "listed", labels=tmp_path / "list.csv")
    assert labels(listed) == {stem: "a"}
    (tmp_path / "keys.txt").write_text(f"{stem}\nabsent\n")
    given = {"labels": f"{tmp_path}/all.zip!/labels.csv", "keys": tmp_path / "keys.txt"}
    kept = make_dataset(tmp_path / "kept", **images, **given)
    assert labels(kept) == {stem: f"x{name[0]}"}
    assert [line["key"] for line in kept.rejected] == ["absent"]
    made = make_dataset(tmp_path / "out", **images, labels=given["labels"])
    assert (made.classes, made.rejected) == (sorted({f"x{name[0]}" for name in files}), [])


def _bad_zip(fine: bytes, other: bytes) -> bytes:
    names = ("fine.jpg", "encrypted.jpg", "lying.jpg", "empty.jpg")
    whole = zipped({**dict.fromkeys(names, fine), "empty.jpg": b"", "../out.jpg": fine})
    whole = with_flag(with_size(whole, "lying.jpg", 10), "encrypted.jpg", 1)
    # Appended, so that only one file has these bytes.
    with zipfile.ZipFile(target := io.BytesIO(whole), "a") as archive:
        archive.writestr("damaged.jpg", other)
        archive.writestr("bzip2.jpg", fine, zipfile.ZIP_BZIP2)
        archive.writestr("bomb.jpg", bytes(5 << 20), zipfile.ZIP_DEFLATED)
    return damaged(target.getvalue(), other)


def test_bad_files_are_rejected_one_by_one(tmp_path: Path, files: dict[str, bytes]) -> None:
    fine, other, *_ = files.values()
    (tmp_path / "bad.zip").write_bytes(_bad_zip(fine, other))
    flags = {"images": f"{tmp_path}/bad.zip!/**/*.jpg", "quarantine": tmp_path / "left"}
    made = make_dataset(tmp_path / "out", max_bytes="1MB", **flags, **NONE)
    start = f"{tmp_path}/bad.zip!/"
    details = {
        (line["path"].removeprefix(start), line["reason"]): line["detail"] for line in made.rejected
    }
    assert "bytes" in details.pop(("bomb.jpg", "too_many_bytes"))
    unread = "its compression, bzip2, is not read: pack it again with deflate"
    assert details == {
        ("../out.jpg", "bad_member"): "its name '../out.jpg' leads out of the archive",
        ("encrypted.jpg", "bad_member"): "it is encrypted: decrypt the archive",
        ("lying.jpg", "bad_member"): "its checksum is wrong",
        ("damaged.jpg", "bad_member"): "its checksum is wrong",
        ("bzip2.jpg", "bad_member"): unread,
        ("empty.jpg", "empty_file"): "0 bytes",
    }
    assert made.ledger["records_written"] == 1
    # What is whole is copied, and nothing outside of the folder.
    copies = {path.relative_to(tmp_path) for path in (tmp_path / "left").rglob("*.jpg")}
    assert copies >= {Path("left/empty_file/empty.jpg")}
    assert {path.stem for path in copies} <= {"empty", "bomb"}
    assert not (tmp_path.parent / "out.jpg").exists()


def test_an_image_of_a_webdataset_without_a_label(tmp_path: Path, files: dict[str, bytes]) -> None:
    """Without a flag, labels are those of the archive if it has any."""
    first, second, *_ = files.values()
    (tmp_path / "a.tar").write_bytes(tarred({"0.jpg": first, "1.jpg": second, "1.cls": b"dog\n"}))
    made = make_dataset(tmp_path / "out", images=f"{tmp_path}/a.tar!/*.jpg", max_rejected=1)
    assert labels(made) == {"1": "dog"}
    [line] = made.rejected
    assert (line["reason"], line["path"]) == ("no_label", f"{tmp_path}/a.tar!/0.jpg")
    assert "no KEY.cls" in line["detail"]


@of_kind("tar")
def test_a_bucket_gives_the_same_records(
    archive: Path, plain: Path, files: dict[str, bytes], gcs: GcsServer, tmp_path: Path
) -> None:
    gcs.make_bucket("photos")
    name = f"in/{archive.name}"
    gcs.put("photos", name, archive.read_bytes())
    gcs.reset()
    # One archive, so its own root gives the keys of the local one.
    made = make_dataset(tmp_path / "made", images=f"gs://photos/{name}!/**/*.jpg", **FLAGS)
    assert records(made.folder) == records(plain)
    # The directory once, whose blocks hold it all, and each image once.
    assert gcs.media_gets()[name] == 1 + len(files)
    flags = {**FLAGS, "root": f"gs://photos/{name}!"}
    refused = plan(images="gs://photos/in/*.tar!/**/*.jpg", output=tmp_path / "x", **flags)
    assert "does not contain all files" in refused.error()
