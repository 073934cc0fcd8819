"""`--files per_image`: a file for each image, with all that a dataset of shards promises."""

from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from pipeline import Records
from tests.pipeline.commands import (
    Dataset,
    check_sound,
    convert,
    digests,
    make_dataset,
    plan,
    verify,
)
from tests.pipeline.reading import SLIM
from tests.pipeline.reusing import edit_index, with_column
from tests.servers.gcs import GcsServer
from transforms.examples.decoder import decode_example
from transforms.examples.tfrecord import read_records
from transforms.labels import shards

pytestmark = pytest.mark.slow


def files(dataset: Dataset) -> dict[str, Path]:
    """The files of records, by their path below the dataset's folder."""
    found = sorted(dataset.folder.glob("*/*.tfrecord*"))
    return {path.relative_to(dataset.folder).as_posix(): path for path in found}


def given(photos: Path, **flags: Any) -> dict[str, Any]:
    """The flags for a file for each photo."""
    right = {"images": f"{photos}/*/*.jpg", "label_from": "directory", "files": "per_image"}
    return {**right, "splits": "train=0.7,test=0.3", **flags}


def make(photos: Path, folder: Path, **flags: Any) -> Dataset:
    """A dataset with a file for each photo, which `verify` accepts."""
    dataset = make_dataset(folder, **given(photos, **flags))
    check_sound(folder)
    return dataset


@pytest.fixture(scope="module")
def made(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """The photos, a file each."""
    return make(photos, tmp_path_factory.mktemp("one") / "out")


def only_record(path: Path) -> dict[str, Any]:
    """The one record of a file."""
    with path.open("rb") as file:
        (record,) = read_records(file)
    return decode_example(record)


def test_each_image_is_a_file_called_after_its_key(photos: Path, tmp_path: Path) -> None:
    dataset = make(photos, tmp_path / "out", key="stem")
    found = files(dataset)
    stems = {Path(name).stem for name in found}
    assert stems == {path.stem for path in photos.glob("*/*.jpg")}
    for name, path in found.items():
        named = only_record(path)["image/filename"][0].decode()
        assert Path(named).stem == Path(name).stem
    # As a notebook reads them.
    names = tf.io.gfile.glob(f"{dataset.folder}/train/*.tfrecord")
    for record in tf.data.TFRecordDataset(names):
        tf.io.decode_image(tf.io.parse_single_example(record, SLIM)["image/encoded"])
    assert {Path(name).parent.name for name in found} == {"train", "test"}


def test_the_records_are_those_of_shards(photos: Path, made: Dataset, tmp_path: Path) -> None:
    sharded = make(photos, tmp_path / "sharded", files="sharded")
    for split in ("train", "test"):
        listed = made.manifest["splits"][split]["shards"]
        records = [(made.folder / file["file"]).read_bytes() for file in listed]
        (shard,) = sharded.shards(split)
        # In the order of the manifest, too.
        assert b"".join(records) == (sharded.folder / shard).read_bytes()
        assert made.manifest["splits"][split]["classes"]
    assert made.ledger == sharded.ledger


def test_the_index_of_an_earlier_version_names_a_shard(
    photos: Path, dataset: Dataset, tmp_path: Path
) -> None:
    whole = digests(dataset.folder)
    edit_index(
        dataset, with_column("shard", lambda files: ["train-00000-of-00001.tfrecord"] * len(files))
    )
    check_sound(dataset.folder)
    assert make(photos, tmp_path / "reused", reuse=dataset.folder).ledger == dataset.ledger
    assert digests(tmp_path / "reused") == whole
    assert len(Records(dataset.folder, "train")) == dataset.manifest["splits"]["train"]["records"]
    of_records = make_dataset(tmp_path / "records", images=dataset.folder, files="per_image")
    assert {*files(of_records)} == {*files(dataset)}
    edit_index(dataset, with_column("shard", lambda files: ["train/other.tfrecord"] * len(files)))
    assert "index/train-00000-of-00001.parquet: was changed" in verify(dataset.folder).out


def test_plan_says_how_many_files(photos: Path, tmp_path: Path) -> None:
    ran = plan(**given(photos, output=tmp_path, splits=None))
    header, line = ran.after_decided()[:2]
    assert header.split() == ["split", "images", "files", "bytes"]
    assert line.split()[:3] == ["train", "18", "18"]


def test_in_a_bucket(gcs: GcsServer, photos: Path, made: Dataset) -> None:
    gcs.make_bucket("datasets")
    flags = given(photos, output="gs://datasets/out")
    ran = convert(**flags)
    assert ran.code == 0, ran.err
    there = {name.removeprefix("out/"): gcs.get("datasets", name) for name in gcs.names("datasets")}
    assert {name: there[name] for name in files(made)} == {
        name: path.read_bytes() for name, path in files(made).items()
    }
    assert set(there) == set(digests(made.folder))
    check_sound("gs://datasets/out")
    assert "up to date" in convert(**flags).out


def test_too_many_files_are_refused_before_any_is_converted(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shards, "MAX_FILES", 17)
    flags = {"images": f"{photos}/*/*.jpg", "files": "per_image", "output": tmp_path / "out"}
    ran = convert(**flags)
    assert ran.code == 2
    assert "--files per_image: 18 images are more than 17" in ran.error()
    assert "Traceback" not in ran.err
    assert not list((tmp_path / "out").glob(".staging/*"))
    monkeypatch.setattr(shards, "MAX_FILES", 18)
    assert convert(**flags).code == 0
