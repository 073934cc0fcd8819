"""`show` finds records by split, class and key, in datasets and in any TFRecords of Examples."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from tests.images import picture, saved
from tests.pipeline.commands import Ran, make_dataset, show


def heads(ran: Ran) -> list[str]:
    """The first line of each record."""
    assert ran.code == 0, ran.err
    return [line for line in ran.out.splitlines() if line[0] != " "]


def datasets(photos: Path, folder: Path) -> dict[str, Path]:
    """The same photos in three layouts: class text and path, key and id alone, id alone."""
    flags = {"images": f"{photos}/*/*.jpg", "label_from": "directory", "key": "stem"}
    splits = {"splits": "train=0.5,test=0.5"}
    return {
        layout: make_dataset(folder / layout, layout=layout, **flags, **splits).folder
        for layout in ("slim", "landmark", "tutorial")
    }


@pytest.fixture(scope="module")
def made(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """See `datasets`."""
    return datasets(photos, tmp_path_factory.mktemp("shown"))


@pytest.mark.parametrize("layout", ["slim", "landmark", "tutorial"])
def test_a_class_is_found_by_text_and_by_id(made: dict[str, Path], layout: str) -> None:
    by_text = heads(show(made[layout], "--class", "dog", "--limit", 99))
    assert len(by_text) == 6
    assert heads(show(made[layout], "--class", "1", "--limit", 99)) == by_text
    some = heads(show(made[layout], "--class", "dog", "--split", "test", "--limit", 99))
    assert some == [head for head in by_text if head.startswith("test-")]


def test_a_key_is_found_as_it_is_stored(made: dict[str, Path]) -> None:
    """The layout `slim` stores the path, `landmark` the key."""
    for key in ("dog-3", "dog-3.jpg", "dog/dog-3.jpg"):
        ran = show(made["slim"], "--key", key)
        assert len(heads(ran)) == 1 and "'dog/dog-3.jpg'" in ran.out
    ran = show(made["landmark"], "--key", "dog-3")
    assert len(heads(ran)) == 1 and "'dog-3'" in ran.out
    refused = show(made["tutorial"], "--key", "dog-3")
    assert refused.code == 2
    assert "(layout tutorial) hold neither a key nor a path" in refused.error()


def test_what_no_record_has(made: dict[str, Path]) -> None:
    ran = show(made["slim"], "--class", "cat", "--key", "dog-3")
    assert ran.code == 1 and ran.out == ""
    assert ran.error().endswith("none of 18 records has --class cat and --key dog-3")


def test_an_image_is_recognised_by_its_header(made: dict[str, Path], photos: Path) -> None:
    size = (photos / "dog" / "dog-3.jpg").stat().st_size
    ran = show(made["slim"], "--key", "dog-3")
    assert f"image/encoded            bytes[1] <{size} B, jpeg 12x16x3>" in ran.out


def feature(*values: Any) -> tf.train.Feature:
    """A feature of the list for the type of the first value."""
    if isinstance(values[0], bytes):
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
    if isinstance(values[0], float):
        return tf.train.Feature(float_list=tf.train.FloatList(value=values))
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


def example(features: dict[str, tf.train.Feature]) -> bytes:
    """A serialized Example."""
    return bytes(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())


def write(path: Path, records: list[bytes], compression: str = "") -> Path:
    """A TFRecord file as TensorFlow writes it."""
    with tf.io.TFRecordWriter(str(path), compression) as writer:
        for record in records:
            writer.write(record)
    return path


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """A folder of two files of somebody else's; the second is compressed, which no name tells."""
    image = saved(picture("RGB", 12, 16, seed=1), "JPEG")
    records = [
        example(
            {
                "id": feature(f"flower{n}".encode()),
                "class": feature(n % 2),
                "image": feature(image),
                "scores": feature(0.5, 1.5, 2.5, 3.5),
                "unset": tf.train.Feature(),
            }
        )
        for n in range(4)
    ]
    write(tmp_path / "flowers-00000-of-00002", records[:2])
    write(tmp_path / "flowers-00001-of-00002", records[2:], "GZIP")
    return tmp_path


def test_records_of_others(foreign: Path, tmp_path: Path) -> None:
    first, second = (foreign / f"flowers-0000{n}-of-00002" for n in range(2))
    whole = heads(show(foreign))
    assert whole == [f"{file.name} record {n}" for file in (first, second) for n in range(2)]
    assert heads(show(f"{foreign}/flowers-*")) == heads(show(first, second)) == whole
    ran = show(second, "--class", "1", "--images", tmp_path / "pictures")
    assert heads(ran) == [f"{second.name} record 1"]
    assert "  scores                   float[4] 0.5, 1.5, 2.5 ..." in ran.out
    assert "<" in ran.out and "jpeg 12x16x3>" in ran.out
    (picture_,) = (tmp_path / "pictures").iterdir()
    assert (picture_.suffix, picture_.read_bytes()[:2]) == (".jpg", b"\xff\xd8")
    assert heads(show(foreign, "--key", "flower2")) == [f"{second.name} record 0"]
    assert len(heads(show(foreign, "--split", "flowers"))) == 4
    assert show(foreign, "--split", "test").code == 2


def test_shards_of_a_dataset_that_lost_its_manifest(made: dict[str, Path], tmp_path: Path) -> None:
    lost = Path(shutil.copytree(made["slim"], tmp_path / "lost"))
    (lost / "manifest.json").unlink()
    assert len(heads(show(lost, "--class", "dog", "--limit", 99))) == 6


def test_records_that_are_no_examples(tmp_path: Path) -> None:
    sequence = tf.train.SequenceExample()
    sequence.context.feature["id"].bytes_list.value.append(b"x")
    sequence.feature_lists.feature_list["frames"].feature.add().int64_list.value.append(1)
    good = example({"id": feature(1)})
    for record, message in {
        bytes(sequence.SerializeToString()): "is a tf.train.SequenceExample, not a tf.train.Exam",
        b"hello": "its bytes are not a tf.train.Example",
    }.items():
        path = write(tmp_path / "some.tfrecord", [good, record])
        ran = show(path)
        assert ran.code == 1
        assert "some.tfrecord: record 1: " in ran.error() and message in ran.error()
        assert heads(Ran(0, ran.out, "")) == ["some.tfrecord record 0"]


def test_a_broken_record_is_recognised_by_file_and_offset(tmp_path: Path) -> None:
    records = [example({"id": feature(n)}) for n in range(3)]
    path = write(tmp_path / "some.tfrecord", records)
    data = bytearray(path.read_bytes())
    second = 16 + len(records[0])
    data[second + 14] ^= 1
    path.write_bytes(data)
    ran = show(path)
    assert ran.code == 1
    assert f"some.tfrecord: record 1 at byte {second}: the checksum of its bytes" in ran.error()


def test_a_file_of_something_else(photos: Path) -> None:
    ran = show(photos / "dog" / "dog-3.jpg")
    assert ran.code == 1
    assert "dog-3.jpg: record 0 at byte 0: " in ran.error() and "not a TFRecord file" in ran.error()
    assert show(photos / "*.tfrecord").error().endswith("*.tfrecord")


def test_a_hostile_feature_name_stays_on_its_line(tmp_path: Path) -> None:
    path = write(tmp_path / "some.tfrecord", [example({"a\nb\x1b[2J": feature(1)})])
    assert len(show(path).out.splitlines()) == 2
    assert "\x1b" not in show(path).out
