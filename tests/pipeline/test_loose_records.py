"""TFRecord files of other programs: `verify` finds what is wrong, `salvage` saves the rest."""

from __future__ import annotations

import gzip
import json
import os
import random
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import tensorflow as tf

from pipeline.salvage import main as salvage_main
from pipeline.verify import main as verify_main
from tests.images import picture, saved
from tests.pipeline.commands import Ran, check_ended, run_here
from transforms.examples.tfrecord import framed
from transforms.storage.metrics import PROGRESS

JPEG = saved(picture("RGB"), "JPEG")
FRAME = 16


def example(**features: Sequence[int] | Sequence[bytes] | Sequence[float]) -> bytes:
    """A serialized Example, as TensorFlow writes it."""
    kinds = {int: ("int64_list", tf.train.Int64List), bytes: ("bytes_list", tf.train.BytesList)}
    made = {}
    for name, values in features.items():
        field, kind = kinds.get(type(values[0]), ("float_list", tf.train.FloatList))
        made[name.replace("__", "/")] = tf.train.Feature(**{field: kind(value=values)})
    return bytes(tf.train.Example(features=tf.train.Features(feature=made)).SerializeToString())


def record(number: int, image: bytes = JPEG) -> bytes:
    """A record as TF-Slim's scripts name its features."""
    text = b"dog" if number % 2 else b"cat"
    return example(
        image__encoded=[image + bytes([number % 256])],
        image__format=[b"jpeg"],
        image__class__label=[number % 2],
        image__class__text=[text],
    )


RECORDS = [record(number) for number in range(40)]
SIZE = len(RECORDS[0]) + FRAME


def write(path: Path, records: Sequence[bytes] = RECORDS) -> Path:
    """Writes them with TensorFlow."""
    options = tf.io.TFRecordOptions(compression_type="GZIP" if path.suffix == ".gz" else "")
    with tf.io.TFRecordWriter(str(path), options) as writer:
        for each in records:
            writer.write(each)
    return path


def read(path: Path) -> list[bytes]:
    """Their payloads, read by TensorFlow."""
    kind = "GZIP" if path.suffix == ".gz" else ""
    return [*tf.data.TFRecordDataset(str(path), kind).as_numpy_iterator()]


def verify(*words: object) -> Ran:
    return run_here(verify_main, "verify", [*map(str, words)])


def salvage(*words: object) -> Ran:
    return run_here(salvage_main, "salvage", [*map(str, words)])


def test_what_files_hold_is_described(tmp_path: Path) -> None:
    write(tmp_path / "train-00000-of-00002")
    write(tmp_path / "train-00001-of-00002", [*RECORDS[:2], example(image__encoded=[JPEG])])
    ran = verify(tmp_path)
    lines = [" ".join(line.split()) for line in ran.out.splitlines()]
    assert (ran.code, lines[-1]) == (0, "verified 2 files: 43 records, every image decodes")
    assert lines[1].startswith("records 43 (2 equal to an earlier one), ")
    assert lines[2] == "layout like slim"
    assert "image/encoded bytes 43 1 each, 43 jpeg" in lines
    assert "image/class/label int64 42 1 each, from 0 to 1" in lines
    told = json.loads(verify(tmp_path, "--json").out)
    assert (told["records"], told["repeated"], told["problems"]) == (43, 2, [])
    assert told["features"]["image/class/label"]["int64"]["range"] == [0, 1]


def test_records_are_counted_and_their_images_decoded_in_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = Counter[str]()
    monkeypatch.setattr(
        "transforms.images.check.check_image",
        lambda *_, **__: threads.update([threading.current_thread().name[:10]]),
    )
    assert verify(write(tmp_path / "a.tfrecord"), write(tmp_path / "b.tfrecord")).code == 0
    assert threads == {"read-ahead": 80}
    assert [stage[:4] for stage in PROGRESS.stages()] == [("verifying", "records", 0, 80)]


@pytest.mark.parametrize(
    ("odd", "says"),
    [
        (b"\xff", "its bytes are not a tf.train.Example"),
        (b"\x12\xff", "its bytes are not a tf.train.SequenceExample"),
        (record(1, JPEG[: len(JPEG) // 2]), "'image/encoded' is corrupt_image: "),
        (example(image__encoded=[b"none"]), "'image/encoded' is no image; 1 of 41 values are none"),
        (
            example(image__class__label=[0.5]),
            "'image/class/label' is float; in 1 record, int64 in 40",
        ),
    ],
)
def test_a_record_that_is_unlike_the_others_is_named(odd: bytes, says: str, tmp_path: Path) -> None:
    path = write(tmp_path / "a.tfrecord", [*RECORDS[:7], odd, *RECORDS[7:]])
    ran = verify(path)
    assert f"{path}: record 7: {says}" in ran.out
    check_ended(ran, 1, "1 problem in 1 file")
    if "corrupt" in says:
        assert verify(path, "--fast").code == 0


def test_images_behind_the_first_names_are_decoded_and_said_to_be_more(tmp_path: Path) -> None:
    names = example(**{f"f{number:04}": [1] for number in range(1000)})
    further = [example(z=[image]) for image in (JPEG, JPEG[:-40])]
    ran = verify(write(tmp_path / "a.tfrecord", [names, *further]))
    said = "others   2 of further names, which are checked and not described\n"
    check_ended(ran, 1, said, "record 2: 'z' is corrupt_image: ")


def test_sequence_examples_are_counted_and_their_images_checked(tmp_path: Path) -> None:
    steps = tf.train.FeatureList(
        feature=[
            tf.train.Feature(bytes_list=tf.train.BytesList(value=[JPEG])),
            tf.train.Feature(bytes_list=tf.train.BytesList(value=[JPEG[:-40]])),
        ]
    )
    lists = tf.train.FeatureLists(feature_list={"frames": steps})
    video = tf.train.SequenceExample(feature_lists=lists).SerializeToString()
    ran = verify(write(tmp_path / "video.tfrecord", [video]))
    assert "records  1 (1 SequenceExamples)" in ran.out
    assert "record 0: 'frames' is corrupt_image: " in ran.out


@pytest.mark.parametrize("name", ["a.tfrecord", "a.tfrecord.gz"])
@pytest.mark.parametrize("seed", range(3))
def test_every_flipped_byte_is_named_and_all_else_is_saved(
    name: str, seed: int, tmp_path: Path
) -> None:
    chance = random.Random(seed)
    whole = b"".join(map(framed, RECORDS))
    damaged, hit = bytearray(whole), set()
    for _ in range(5):
        number = chance.randrange(len(RECORDS))
        begin = sum(len(each) + FRAME for each in RECORDS[:number])
        damaged[begin + chance.randrange(len(RECORDS[number]) + FRAME)] ^= chance.randrange(1, 256)
        hit.add(number)
    path = tmp_path / name
    path.write_bytes(gzip.compress(damaged) if name.endswith("gz") else damaged)
    ran = verify(path)
    named = [line for line in ran.out.splitlines() if line.startswith(f"{path}: record ")]
    assert ran.code == 1 and 1 <= len(named) <= len(hit)
    saved_there = salvage(path, "--output", tmp_path / "saved")
    assert saved_there.code == 0 and saved_there.out.count(" left out: ") == len(named)
    rest = [each for number, each in enumerate(RECORDS) if number not in hit]
    assert read(tmp_path / "saved" / name) == rest


@pytest.mark.parametrize(
    "cut",
    [
        lambda data: data[:-1],
        lambda data: data[1:],
        lambda data: data[: 11 * SIZE // 2] + data[7 * SIZE :],
        lambda data: data[:5] + bytes(3000) + data[5:],
    ],
    ids=["truncated", "without a beginning", "a hole", "zeros"],
)
def test_records_behind_lost_bytes_are_found(cut: Callable[[bytes], bytes], tmp_path: Path) -> None:
    path = tmp_path / "a.tfrecord"
    path.write_bytes(cut(b"".join(map(framed, RECORDS))))
    assert salvage(path, "--output", tmp_path / "saved").code == 0
    whole = [each for each in RECORDS if framed(each) in path.read_bytes()]
    assert len(RECORDS) - 3 <= len(whole) < len(RECORDS)
    assert read(tmp_path / "saved" / "a.tfrecord") == whole


def test_whole_files_are_copied_byte_for_byte(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tfrecord")
    ran = salvage(path, "--output", tmp_path / "saved")
    assert ran.out == f"salvaged {tmp_path / 'saved'}: 1 file, 40 records\n"
    assert (tmp_path / "saved" / "a.tfrecord").read_bytes() == path.read_bytes()
    again = salvage(path, "--output", tmp_path / "saved")
    check_ended(again, 2, "already holds 'a.tfrecord': give another folder")


def test_gzip_that_ends_behind_the_last_record_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tfrecord.gz")
    path.write_bytes(path.read_bytes()[:-8])
    ran = verify(path)
    assert f"{path}: record 40: cannot be read: " in ran.out
    check_ended(ran, 1, "records  40 (1 damaged)", "1 problem in 1 file")
    assert salvage(path, "--output", tmp_path / "saved").code == 0
    assert read(tmp_path / "saved" / path.name) == RECORDS


@pytest.mark.parametrize("at", [-8, -1])
def test_records_that_a_wrong_checksum_of_gzip_follows_are_saved(at: int, tmp_path: Path) -> None:
    path = write(tmp_path / "a.tfrecord.gz")
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)
    check_ended(verify(path), 1, "records  40 (1 damaged)", "record 40: cannot be read: Error -3")
    assert salvage(path, "--output", tmp_path / "saved").code == 0
    assert read(tmp_path / "saved" / path.name) == RECORDS


def test_files_of_one_name_are_refused(tmp_path: Path) -> None:
    for folder in ("x", "y"):
        (tmp_path / folder).mkdir()
        write(tmp_path / folder / "a.tfrecord")
    ran = salvage(tmp_path / "x", tmp_path / "y", "--output", tmp_path / "saved")
    check_ended(ran, 2, "2 files have the name 'a.tfrecord'")
    assert verify(tmp_path / "x", tmp_path / "y").code == 0


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"no records", "the file ends inside the record"),
        (bytes(100), "the checksum of its length is wrong"),
        (framed(bytes(1 << 20))[:12], "the file ends inside the record"),
    ],
)
def test_what_is_no_tfrecord_file_is_one_line(content: bytes, says: str, tmp_path: Path) -> None:
    (path := tmp_path / "a.tfrecord").write_bytes(content)
    ran = verify(path)
    assert says in ran.out and "it is not a TFRecord file, or its beginning is damaged" in ran.out
    check_ended(ran, 1, "1 problem in 1 file")
    check_ended(salvage(path, "--output", tmp_path / "saved"), 1, "no record of 1 file is whole")


def test_a_sparse_file_of_terabytes_is_not_read_to_its_end(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tfrecord", RECORDS[:3])
    os.truncate(path, 1 << 42)
    ran = verify(path, "--fast")
    assert "no record begins in " in ran.out and "the rest is not read" in ran.out
    assert "records  3 (1 damaged)" in ran.out
