"""`show` prints what is in a dataset and saves its pictures."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from PIL import Image

from pipeline import convert, show
from pipeline.errors import DatasetError
from pipeline.show import Record
from tests.images import picture, saved
from tests.pipeline.commands import digests
from tests.servers.gcs import GcsServer
from transforms.core.messages import WriteError


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("show")
    for number in range(12):
        path = folder / "photos" / ("cat", "개")[number % 2] / f"n {number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (3, 2), (20 * number, 7, 9)).save(path)
    flags = ["--label_from", "directory", "--splits", "train=0.5,test=0.5", "--progress", "off"]
    images = f"{folder}/photos/*/*.png"
    convert.main(["--images", images, "--output", f"{folder}/out", *flags])
    return folder


def test_prints_features_with_types(dataset: Path, capsys: pytest.CaptureFixture[str]) -> None:
    show.main([str(dataset / "out"), "--limit", "1"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "train-00000-of-00001.tfrecord record 0"
    shown = {line.split()[0]: line.split()[1:3] for line in lines[1:]}
    assert shown["image/height"] == ["int64[1]", "2"]
    assert shown["image/format"] == ["bytes[1]", "'png'"]
    assert shown["image/class/text"][1] in ("'cat'", "'개'")
    assert shown["image/encoded"][1] == f"<{(dataset / 'photos/cat/n 0.png').stat().st_size}"


def test_limit_and_split(dataset: Path, capsys: pytest.CaptureFixture[str]) -> None:
    show.main([str(dataset / "out"), "--split", "test", "--limit", "2"])
    heads = [line for line in capsys.readouterr().out.splitlines() if line[0] != " "]
    assert heads == [f"test-00000-of-00001.tfrecord record {number}" for number in (0, 1)]


def test_saved_pictures_are_the_files(dataset: Path, tmp_path: Path) -> None:
    show.main([str(dataset / "out"), "--limit", "99", "--images", str(tmp_path / "pictures")])
    saved = sorted(path.read_bytes() for path in (tmp_path / "pictures").iterdir())
    assert saved == sorted(path.read_bytes() for path in dataset.glob("photos/*/*.png"))


def test_a_folder_that_cannot_be_made_is_said_with_what_to_do(
    dataset: Path, tmp_path: Path
) -> None:
    folder = tmp_path / ("a" * 300)
    with pytest.raises(
        WriteError, match=r"cannot write .*/a+/t.*png: its path of .* too long: give"
    ):
        show.main([str(dataset / "out"), "--images", str(folder)])


def test_a_hostile_name_stays_in_the_folder(tmp_path: Path) -> None:
    example = {"bytes": [b"x"], "path": [b"../../etc/\n passwd"]}
    record = Record("train-00000-of-00001.tfrecord", 0, example)
    path = show.save_image(record, tmp_path, image="bytes", named="path")
    assert path.parent == tmp_path and path.name == "train-00000-of-00001-00000-_passwd.bin"


@pytest.mark.parametrize(
    ("named", "kind", "extension"),
    [
        ("cat.1", "JPEG", ".jpg"),
        ("cat", "PNG", ".png"),
        ("cat.v2.final", "GIF", ".gif"),
        ("cat.JPG", "JPEG", ".JPG"),
        (None, "WEBP", ".webp"),
    ],
)
def test_a_picture_has_an_extension(
    named: str | None, kind: str, extension: str, tmp_path: Path
) -> None:
    example = {"bytes": [saved(picture("RGB", 8, 8), kind)], "path": [(named or "").encode()]}
    record = Record("train-00000-of-00001.tfrecord", 0, example)
    path = show.save_image(record, tmp_path, image="bytes", named="path" if named else None)
    assert path.suffix == extension


@pytest.mark.parametrize("name", ["a" * 251 + ".jpg", "한" * 83 + ".jpg"])
def test_a_long_name_is_cut(tmp_path: Path, name: str) -> None:
    """A name of 255 bytes after the name of the shard is too long for a file system."""
    example = {"bytes": [b"x"], "path": [name.encode()]}
    record = Record("train-00000-of-00001.tfrecord", 0, example)
    path = show.save_image(record, tmp_path, image="bytes", named="path")
    assert path.read_bytes() == b"x"
    assert path.name.startswith("train-00000-of-00001-00000-") and path.suffix == ".jpg"


def test_a_damaged_shard_is_named(dataset: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(dataset / "out", tmp_path / "out")
    shard = copy / "test-00000-of-00001.tfrecord"
    shard.write_bytes(shard.read_bytes()[:-3])
    with pytest.raises(DatasetError, match=r"test-00000-of-00001.tfrecord: record \d"):
        show.main([str(copy), "--split", "test", "--limit", "99"])


def test_pictures_of_a_dataset_in_a_bucket(dataset: Path, gcs: GcsServer, tmp_path: Path) -> None:
    gcs.make_bucket("datasets")
    gcs.put_folder("datasets", "out/", dataset / "out")
    for folder, output in (("here", dataset / "out"), ("there", "gs://datasets/out")):
        show.main([str(output), "--limit", "99", "--images", str(tmp_path / folder)])
    assert len(digests(tmp_path / "there")) == 12
    assert digests(tmp_path / "there") == digests(tmp_path / "here")


def test_a_damaged_shard_in_a_bucket_is_named(dataset: Path, gcs: GcsServer) -> None:
    shard = "out/test-00000-of-00001.tfrecord"
    gcs.make_bucket("datasets")
    gcs.put_folder("datasets", "out/", dataset / "out")
    gcs.put("datasets", shard, gcs.get("datasets", shard)[:-3])
    with pytest.raises(DatasetError, match=r"test-00000-of-00001.tfrecord: record \d"):
        show.main(["gs://datasets/out", "--split", "test", "--limit", "99"])
