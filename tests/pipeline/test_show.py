"""`show` prints records, finds them by split, class and key, and saves their pictures."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from pipeline.show import Record, save_image
from tests.images import picture, saved
from tests.marks import cases
from tests.pipeline.commands import Ran, digests, make_dataset, show
from tests.servers.gcs import GcsServer


def heads(ran: Ran) -> list[str]:
    """The first line of each record."""
    assert ran.code == 0, ran.err
    return [line for line in ran.out.splitlines() if line[0] != " "]


@pytest.fixture(scope="module")
def made(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The same photos in three layouts: class text and path, key and id alone, id alone."""
    folder = tmp_path_factory.mktemp("shown")
    flags = {"images": f"{photos}/*/*.jpg", "key": "stem", "splits": "train=0.5,test=0.5"}
    return {
        layout: make_dataset(folder / layout, layout=layout, **flags).folder
        for layout in ("slim", "landmark", "tutorial")
    }


def test_features_are_printed_with_their_types(made: dict[str, Path], photos: Path) -> None:
    size = (photos / "dog" / "dog-3.jpg").stat().st_size
    _, *lines = show(made["slim"], "--key", "dog-3").out.splitlines()
    shown = dict(line.split(maxsplit=1) for line in lines)
    assert shown["image/height"].split() == ["int64[1]", "12"]
    assert shown["image/format"].split() == ["bytes[1]", "'jpeg'"]
    assert shown["image/class/text"].split() == ["bytes[1]", "'dog'"]
    assert shown["image/encoded"] == f"bytes[1] <{size} B, jpeg 12x16x3>"


def test_limit_and_split(made: dict[str, Path]) -> None:
    first = "test-00000-of-00001.tfrecord record"
    assert heads(show(made["slim"], "--split", "test", "--limit", 2)) == [
        f"{first} 0",
        f"{first} 1",
    ]


@pytest.mark.parametrize("layout", ["slim", "landmark", "tutorial"])
def test_a_class_is_found_by_text_and_by_id(made: dict[str, Path], layout: str) -> None:
    by_text = heads(show(made[layout], "--class", "dog", "--limit", 99))
    assert len(by_text) == 6
    assert heads(show(made[layout], "--class", "1", "--limit", 99)) == by_text
    some = heads(show(made[layout], "--class", "dog", "--split", "test", "--limit", 99))
    assert some == [head for head in by_text if head.startswith("test-")]


@cases(
    *(("slim", key, "dog/dog-3.jpg") for key in ("dog-3", "dog-3.jpg", "dog/dog-3.jpg")),
    ("landmark", "dog-3", "dog-3"),
)
def test_a_key_is_found_as_it_is_stored(
    layout: str, key: str, stored: str, made: dict[str, Path]
) -> None:
    ran = show(made[layout], "--key", key)
    assert len(heads(ran)) == 1 and f"'{stored}'" in ran.out


@cases(
    ("tutorial", "--key dog-3", 2, "(layout tutorial) hold neither a key nor a path"),
    ("slim", "--class cat --key dog-3", 1, "of 18 records has --class cat and --key dog-3"),
    ("slim", "--split val", 2, "there is no --split val; the dataset has train, test"),
)
def test_what_no_record_has(
    layout: str, words: str, code: int, says: str, made: dict[str, Path]
) -> None:
    ran = show(made[layout], *words.split())
    assert (ran.code, ran.out) == (code, "") and says in ran.error()


def test_saved_pictures_are_the_files(
    made: dict[str, Path], photos: Path, gcs: GcsServer, tmp_path: Path
) -> None:
    """Of a dataset in a bucket, too."""
    gcs.make_bucket("datasets")
    gcs.put_folder("datasets", "out/", made["slim"])
    for folder, output in (("here", made["slim"]), ("there", "gs://datasets/out")):
        assert show(output, "--limit", 99, "--images", tmp_path / folder).code == 0
    files = sorted(path.read_bytes() for path in photos.glob("*/*.jpg"))
    assert sorted(path.read_bytes() for path in (tmp_path / "here").iterdir()) == files
    assert digests(tmp_path / "there") == digests(tmp_path / "here")


def test_a_folder_that_cannot_be_made_is_said_with_what_to_do(
    made: dict[str, Path], tmp_path: Path
) -> None:
    ran = show(made["slim"], "--images", tmp_path / ("a" * 300))
    assert ran.code == 1 and ": its path of " in ran.error() and " too long: give" in ran.error()


@cases(
    ("cat.1", "JPEG", "cat.1.jpg"),
    ("cat", "PNG", "cat.png"),
    ("cat.v2.final", "GIF", "cat.v2.final.gif"),
    ("cat.JPG", "JPEG", "cat.JPG"),
    (None, "WEBP", "image.webp"),
    # A name stays in the folder, and is not too long for a file system.
    ("../../etc/\n passwd", "", "_passwd.bin"),
    ("a" * 251 + ".jpg", "", "a" * 96 + ".jpg"),
    ("한" * 83 + ".jpg", "", "한" * 32 + ".jpg"),
)
def test_the_name_of_a_picture(named: str | None, kind: str, name: str, tmp_path: Path) -> None:
    data = saved(picture("RGB", 8, 8), kind) if kind else b"x"
    record = Record("train-00000", 0, {"bytes": [data], "path": [(named or "").encode()]})
    path = save_image(record, tmp_path, image="bytes", named="path" if named else None)
    assert path == tmp_path / f"train-00000-00000-{name}"
    assert path.read_bytes() == data


@pytest.mark.parametrize("where", ["local", "gs"])
def test_a_damaged_shard_is_named(
    where: str, made: dict[str, Path], gcs: GcsServer, tmp_path: Path
) -> None:
    output = str(shutil.copytree(made["slim"], tmp_path / "out"))
    shard = tmp_path / "out" / "test-00000-of-00001.tfrecord"
    shard.write_bytes(shard.read_bytes()[:-3])
    if where == "gs":
        gcs.make_bucket("datasets")
        gcs.put_folder("datasets", "out/", tmp_path / "out")
        output = "gs://datasets/out"
    ran = show(output, "--split", "test", "--limit", 99)
    assert ran.code == 1 and f"{shard.name}: record " in ran.error()


def feature(*values: Any) -> tf.train.Feature:
    """A feature of the list for the type of the first value."""
    if isinstance(values[0], bytes):
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
    if isinstance(values[0], float):
        return tf.train.Feature(float_list=tf.train.FloatList(value=values))
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


def example(**features: tf.train.Feature) -> bytes:
    """A serialized Example."""
    return bytes(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())


def write(path: Path, records: list[bytes], compression: str = "") -> Path:
    """A TFRecord file as TensorFlow writes it."""
    with tf.io.TFRecordWriter(str(path), compression) as writer:
        for record in records:
            writer.write(record)
    return path


def test_records_of_others(tmp_path: Path) -> None:
    """The second file is compressed, which no name tells."""
    image, unset = feature(saved(picture("RGB", 12, 16), "JPEG")), tf.train.Feature()
    scores, folder = feature(0.5, 1.5, 2.5, 3.5), tmp_path / "theirs"
    records = [
        example(id=feature(b"flower%d" % n), image=image, scores=scores, unset=unset)
        if n % 2 == 0
        else example(**{"class": feature(n), "image": image, "scores": scores})
        for n in range(4)
    ]
    folder.mkdir()
    first = write(folder / "flowers-00000-of-00002", records[:2])
    second = write(folder / "flowers-00001-of-00002", records[2:], "GZIP")
    whole = heads(show(folder))
    assert whole == [f"{file.name} record {n}" for file in (first, second) for n in range(2)]
    assert heads(show(f"{folder}/flowers-*")) == heads(show(first, second)) == whole
    ran = show(second, "--class", 3, "--images", tmp_path / "pictures")
    assert heads(ran) == [f"{second.name} record 1"]
    assert "  scores                   float[4] 0.5, 1.5, 2.5 ..." in ran.out
    (picture_,) = (tmp_path / "pictures").iterdir()
    assert (picture_.suffix, picture_.read_bytes()[:2]) == (".jpg", b"\xff\xd8")
    assert heads(show(folder, "--key", "flower2")) == [f"{second.name} record 0"]
    assert len(heads(show(folder, "--split", "flowers"))) == 4
    assert show(folder, "--split", "test").code == 2


def sequence() -> bytes:
    """A serialized SequenceExample."""
    made = tf.train.SequenceExample()
    made.context.feature["id"].bytes_list.value.append(b"x")
    made.feature_lists.feature_list["frames"].feature.add().int64_list.value.append(1)
    return bytes(made.SerializeToString())


GOOD = example(id=feature(1))


@cases(
    (sequence(), None, "1: it is a tf.train.SequenceExample, not a tf.train.Exam"),
    (b"hello", None, "1: its bytes are not a tf.train.Example"),
    (GOOD, len(GOOD) + 30, f"1 at byte {len(GOOD) + 16}: the checksum of its bytes"),
    (GOOD, 9, "0 at byte 0: the checksum of its length is wrong; it is not a TFRecord file"),
    ids=["sequence", "text", "flipped bytes", "flipped length"],
)
def test_a_record_that_cannot_be_read_is_named(
    record: bytes, flipped: int | None, says: str, tmp_path: Path
) -> None:
    path = write(tmp_path / "some.tfrecord", [GOOD, record])
    if flipped is not None:
        data = bytearray(path.read_bytes())
        data[flipped] ^= 1
        path.write_bytes(data)
    ran = show(path)
    assert ran.code == 1 and f"some.tfrecord: record {says}" in ran.error()
    assert heads(Ran(0, ran.out, "")) == ([] if says[0] == "0" else ["some.tfrecord record 0"])


def test_a_glob_without_a_file(tmp_path: Path) -> None:
    assert show(tmp_path / "*.tfrecord").error().endswith("*.tfrecord")


def test_a_hostile_feature_name_stays_on_its_line(tmp_path: Path) -> None:
    path = write(tmp_path / "some.tfrecord", [example(**{"a\nb\x1b[2J": feature(1)})])
    ran = show(path)
    assert len(ran.out.splitlines()) == 2 and "\x1b" not in ran.out
