"""TFRecord files of other programs: `verify` finds what is wrong, `salvage` saves the rest."""

import functools
import gzip
import json
import os
import random
import shutil
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from pipeline import Records, class_names
from tests.images import picture, saved
from tests.marks import cases
from tests.pipeline.commands import (
    check_ended,
    check_sound,
    convert,
    digests,
    make_dataset,
    run,
    verify,
)
from transforms.examples.tfrecord import framed
from transforms.storage.metrics import PROGRESS

pytestmark = pytest.mark.slow

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


salvage, index = (functools.partial(run, name) for name in ("salvage", "index"))


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


@cases(
    (b"\xff", "its bytes are not a tf.train.Example"),
    (b"\x12\xff", "its bytes are not a tf.train.SequenceExample"),
    (record(1, JPEG[: len(JPEG) // 2]), "'image/encoded' is corrupt_image: "),
    (example(image__encoded=[b"none"]), "'image/encoded' is not an image; 1 of 41 values are not"),
    (example(image__class__label=[0.5]), "'image/class/label' is float; in 1 record, int64 in 40"),
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
    many = tf.train.FeatureLists(feature_list={"a": tf.train.FeatureList(feature=[{}] * 1_100_000)})
    empty = tf.train.SequenceExample(feature_lists=many).SerializeToString()
    ran = verify(write(tmp_path / "video.tfrecord", [video, empty]))
    assert "records  2 (1 SequenceExamples)" in ran.out
    assert "record 0: 'frames' is corrupt_image: " in ran.out
    assert "record 1: it has more than 16777216 bytes of numbers and names\n" in ran.out


@pytest.mark.parametrize("name", ["a.tfrecord", "a.tfrecord.gz"])
@pytest.mark.parametrize("seed", range(2))
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


@cases(
    lambda data: data[:-1],
    lambda data: data[1:],
    lambda data: data[: 11 * SIZE // 2] + data[7 * SIZE :],
    lambda data: data[:5] + bytes(3000) + data[5:],
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


@cases(
    (lambda data: data[:-8], ""),
    (lambda data: data[:-8] + bytes([data[-8] ^ 1]) + data[-7:], "Error -3"),
    (lambda data: data[:-1] + bytes([data[-1] ^ 1]), "Error -3"),
    ids=["cut", "checksum", "length"],
)
def test_gzip_that_is_damaged_behind_the_last_record(
    change: Callable[[bytes], bytes], says: str, tmp_path: Path
) -> None:
    """It is named, and all records are saved."""
    path = write(tmp_path / "a.tfrecord.gz")
    path.write_bytes(change(path.read_bytes()))
    said = f"{path}: record 40: cannot be read: {says}"
    check_ended(verify(path), 1, said, "records  40 (1 damaged)", "1 problem in 1 file")
    assert salvage(path, "--output", tmp_path / "saved").code == 0
    assert read(tmp_path / "saved" / path.name) == RECORDS


def test_files_of_one_name_are_refused(tmp_path: Path) -> None:
    for folder in ("x", "y"):
        (tmp_path / folder).mkdir()
        write(tmp_path / folder / "a.tfrecord")
    ran = salvage(tmp_path / "x", tmp_path / "y", "--output", tmp_path / "saved")
    check_ended(ran, 2, "2 files have the name 'a.tfrecord'")
    assert verify(tmp_path / "x", tmp_path / "y").code == 0


@cases(
    (b"no records", "the file ends inside the record"),
    (bytes(100), "the checksum of its length is wrong"),
    (framed(bytes(1 << 20))[:12], "the file ends inside the record"),
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


# `index`, and records of other programs as images of a conversion.


def shards(folder: Path) -> dict[str, str]:
    """The digest of each shard."""
    return {name: each for name, each in digests(folder).items() if ".tfrecord" in name}


def photo(number: int) -> bytes:
    """A photo that no other record holds."""
    return saved(picture("RGB", 20, 30, seed=number), "JPEG")


def slim(number: int) -> bytes:
    """A record as TF-Slim's scripts write it, without a name."""
    return example(image__encoded=[photo(number)], image__class__label=[number % 3])


@pytest.fixture(scope="module")
def flowers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of such a script, which tests leave as they are."""
    folder = tmp_path_factory.mktemp("flowers")
    for split, numbers in (("train", range(9)), ("validation", range(9, 12))):
        for shard in range(2):
            name = f"flowers_{split}_{shard:05d}-of-00002.tfrecord"
            write(folder / name, list(map(slim, numbers[shard::2])))
    (folder / "labels.txt").write_text("0:daisy\n1:rose\n2:tulip\n")
    return folder


@pytest.fixture
def indexed(flowers: Path, tmp_path: Path) -> Path:
    """A copy of them with an index."""
    folder = Path(shutil.copytree(flowers, tmp_path / "indexed"))
    ran = index(folder)
    assert ran.out.endswith(f"indexed  {folder}: 4 files, 12 records\n"), ran
    return folder


def test_records_of_another_program_are_images(
    flowers: Path, indexed: Path, tmp_path: Path
) -> None:
    made = make_dataset(tmp_path / "made", images=f"{flowers}/*.tfrecord")
    assert {name: each["records"] for name, each in made.manifest["splits"].items()} == {
        "train": 9,
        "validation": 3,
    }
    assert (made.folder / "labels.txt").read_text() == "daisy\nrose\ntulip\n"
    # The layout is TF-Slim's, with names.
    assert sorted(each["image/encoded"] for each in Records(made.folder, "all")) == sorted(
        map(photo, range(12))
    )
    check_sound(made.folder)
    # By its folder, with an index or without, and split again.
    for images in (flowers, indexed):
        other = make_dataset(tmp_path / f"of {images.name}", images=images)
        assert shards(other.folder) == shards(made.folder)
    again = make_dataset(tmp_path / "again", images=indexed, splits="a=1", resize="9x9")
    assert Records(again.folder, "a", decode=True)[0]["image/encoded"].shape == (9, 9, 3)
    assert run("diff", indexed, made.folder, "--quiet").code == 0


def test_an_index_makes_files_of_another_program_a_dataset(indexed: Path, tmp_path: Path) -> None:
    records = Records(indexed, "train", decode=True)
    key = "flowers_train_00001-of-00002.tfrecord__2"
    assert (len(records), records[key]["image/class/label"]) == (9, 5 % 3)
    assert records[-1]["image/encoded"].shape == (20, 30, 3)
    assert class_names(indexed) == {0: "daisy", 1: "rose", 2: "tulip"}
    ran = run("show", indexed, "--class", "rose", "--limit", 9)
    assert ran.out.count(" record ") == 4
    ran = run("export", indexed, "--dali", tmp_path / "dali")
    assert ran.out.endswith("4 index files\n")
    assert verify(indexed).out.endswith("verified 4 files: 12 records, every image decodes\n")
    assert index(indexed).code == 0
    # Nothing is written over files that another program wrote.
    (tmp_path / "1.jpg").write_bytes(JPEG)
    over: dict[str, Any] = {"images": tmp_path / "1.jpg", "label_from": "none", "output": indexed}
    for flags in ({}, {"overwrite": True}):
        ran = convert(**over, **flags)
        check_ended(ran, 2, "manifest.json is the index of files that another program wrote")
    edited = (indexed / "manifest.json").read_text().replace('"indexed": true,', "")
    (indexed / "manifest.json").write_text(edited)
    assert convert(**over, overwrite=True).code == 2
    assert len([*indexed.glob("*.tfrecord")]) == 4


# Layouts of other programs: two records, and what is said of them.
LAYOUTS = {
    "text": (
        [
            example(jpg=[photo(n)], label=[b"c" + bytes([97 + n])], file_name=[b"%d.jpg" % n])
            for n in (0, 1)
        ],
        {"0.jpg": "ca", "1.jpg": "cb"},
        ["images in 'jpg'", "names in 'label'", "keys in 'file_name'"],
    ),
    # The first record lacks a name; its key is its place.
    "mixed": (
        [
            example(image=[photo(0)], label=[1], class_name=[b"one"]),
            example(image=[photo(1)], label=[2], class_name=[b"two"], filename=[b"b"]),
        ],
        {"a.tfrecord__0": "one", "b": "two"},
        ["labels in 'label'", "names in 'class_name'", "keys in 'filename'"],
    ),
}


@pytest.mark.parametrize("name", list(LAYOUTS))
def test_usual_names_are_recognized(name: str, tmp_path: Path) -> None:
    records, labelled, says = LAYOUTS[name]
    write(tmp_path / "a.tfrecord", records)
    ran = convert(images=tmp_path / "a.tfrecord", output=tmp_path / "out")
    told = " ".join(ran.out.split())
    assert all(f"{each} usual names of features [--record_features]" in told for each in says), told
    found = {
        each["image/filename"].decode(): each["image/class/text"].decode()
        for each in Records(tmp_path / "out", "train")
    }
    assert found == labelled


def test_boxes_of_the_object_detection_api_stay(tmp_path: Path) -> None:
    def boxed(number: int) -> bytes:
        objects = {f"image__object__bbox__{side}": [0.25] * number for side in ("xmin", "ymin")}
        objects |= {f"image__object__bbox__{side}": [0.5] * number for side in ("xmax", "ymax")}
        texts = [b"cat", b"dog"][:number]
        return example(
            image__encoded=[photo(number)],
            image__filename=[b"%d.jpg" % number],
            **({"image__object__class__text": texts, **objects} if number else {}),
        )

    write(tmp_path / "coco_val.record-00000-of-00001", list(map(boxed, range(3))))
    made = make_dataset(tmp_path / "made", images=tmp_path, layout="detection")
    records = Records(made.folder, "val")
    found = [records[f"{number}.jpg"] for number in range(3)]
    assert [len(each["image/object/bbox/xmin"]) for each in found] == [0, 1, 2]
    assert [*found[2]["image/object/class/text"]] == [b"cat", b"dog"]
    assert index(tmp_path).code == 0
    assert run("diff", tmp_path, made.folder, "--quiet").code == 0


TWO = [example(a=[photo(n)], b=[photo(n + 5)], id=[7]) for n in range(2)]


@cases(
    (TWO, None, "several features hold images (a, b)"),
    (TWO, "image=c", "no image is in 'c' of the first records, which have a, b, id"),
    (TWO, "image=a,label=b", "no label is in 'b'"),
    ([example(x=[1])], None, "no feature holds an image file: there are x"),
    ([], None, "no feature holds an image file: there are none"),
    ([b"\xff"], None, "a.tfrecord: record 0: its bytes are not a tf.train.Example; `salvage` "),
    (TWO, "jpg=c", "'jpg=c' is not like image=NAME,label=NAME,key=NAME"),
)
def test_what_no_feature_says_is_one_line(
    records: list[bytes], given: str | None, says: str, tmp_path: Path
) -> None:
    write(tmp_path / "a.tfrecord", records)
    words = [f"--record_features={given}"] if given else []
    check_ended(index(tmp_path, *words), 2, says)
    flags = {"record_features": given} if given else {}
    check_ended(convert(images=tmp_path, output=tmp_path / "out", **flags), 2, says)


def test_a_run_on_a_file_here_is_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(Path("a.tfrecord"), TWO)
    made = make_dataset(tmp_path / "out", images="a.tfrecord", record_features="image=b,key=")
    again = make_dataset(tmp_path / "again", config=made.folder / "manifest.json")
    assert again.manifest["recipe"] == made.manifest["recipe"]


def test_keys_of_an_index_are_distinct(tmp_path: Path) -> None:
    write(tmp_path / "a.tfrecord", TWO)
    ran = index(tmp_path, "--record_features=image=b")
    check_ended(ran, 2, "keys of records are repeated in ", " (1): name another feature ")
    assert index(tmp_path, "--record_features=image=b,key=").code == 0
    assert [each["b"] for each in Records(tmp_path, "train")] == [photo(5), photo(6)]


def test_damage_is_refused_with_the_line_of_verify(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tfrecord", list(map(slim, range(30))))
    data = bytearray(path.read_bytes())
    data[-40] ^= 1
    path.write_bytes(data)
    [line] = [each for each in verify(path).out.splitlines() if ": record 29: " in each]
    check_ended(index(path), 2, f"{line}; `salvage` copies the whole records")
    ran = convert(images=path, output=tmp_path / "out", label_from="none")
    check_ended(ran, 2, f"{line}; `salvage` copies the whole records")


def test_files_that_are_compressed_or_foreign_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tfrecord.gz")
    says = "is compressed, so no record can be read alone: decompress it with gunzip"
    for ran in (index(path), convert(images=path, output=tmp_path / "out")):
        check_ended(ran, 2, says)
    check_ended(index(tmp_path / "none"), 2, "there are no TFRecord files")
    (tmp_path / "manifest.json").write_text("{}")
    check_ended(index(path), 2, "manifest.json is not a manifest of this tool")
