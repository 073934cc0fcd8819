"""Datasets in the forms that this field passes on: whole commands, read back as it reads."""

from __future__ import annotations

import io
import unicodedata
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from tests.detection_readers import OBJECT_DETECTION
from tests.images import picture, saved
from tests.marks import rest_slow
from tests.models import KERAS
from tests.pipeline.commands import Dataset, check_sound, convert, make_dataset
from tests.pipeline.reading import LANDMARK, TUTORIAL, read, read_lists


def photo(path: Path, *, seed: int, mode: str = "RGB", size: tuple[int, int] = (36, 48)) -> bytes:
    """Draws a JPEG of height and width, and gives its bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(saved(picture(mode, *size, seed=seed), "JPEG"))
    return path.read_bytes()


# A landmark recognition competition: folders of a Mac, and a spreadsheet of a Korean Windows.

LANDMARKS = {"서울특별시": ["경복궁", "한강"], "강원도": ["설악산"], "제주도": ["성산일출봉"]}
LANDMARK_IDS = {"경복궁": 12, "한강": 7, "설악산": 990, "성산일출봉": 3}


@pytest.fixture
def landmarks(tmp_path: Path) -> dict[str, tuple[int, bytes]]:
    """Draws `city/landmark/photo`; landmark id and bytes of each photo by its name, composed."""
    drawn: dict[str, tuple[int, bytes]] = {}
    for city, names in LANDMARKS.items():
        for name in names:
            for number in range(3):
                key = f"{name}_{number:03}"
                path = unicodedata.normalize("NFD", f"train/{city}/{name}/{key}.JPG")
                assert path != f"train/{city}/{name}/{key}.JPG"
                data = photo(tmp_path / path, seed=len(drawn))
                drawn[key] = LANDMARK_IDS[name], data
    rows = [f"{key},{landmark},{key[:-4]}" for key, (landmark, _) in drawn.items()]
    text = "\r\n".join(["id,landmark_id,landmark_name", *rows])
    (tmp_path / "train.csv").write_bytes(text.encode("cp949"))
    return drawn


def test_korean_landmarks(landmarks: dict[str, tuple[int, bytes]], tmp_path: Path) -> None:
    dataset = make_dataset(
        tmp_path / "out",
        images=f"{tmp_path}/train/**/*.JPG",
        labels=tmp_path / "train.csv",
        csv_encoding="cp949",
        layout="landmark",
        splits="train=0.5,validation=0.5",
        max_rejected=0,
    )
    assert dataset.rejected == []
    assert dataset.ledger == {
        "images_matched": 12, "records_written": 12, "rows_read": 12, "rows_used": 12,
    }  # fmt: skip
    found = {
        record["id"].decode(): (int(record["landmark_id"]), record["image_raw"])
        for record in read(dataset, LANDMARK)
    }
    assert found == landmarks
    assert dataset.classes == ["3", "7", "12", "990"]
    check_sound(dataset.folder)


@pytest.mark.slow
def test_korean_landmarks_named_by_their_folders(
    landmarks: dict[str, tuple[int, bytes]], tmp_path: Path
) -> None:
    names = sorted(LANDMARK_IDS, key=LANDMARK_IDS.__getitem__)
    (tmp_path / "classes.txt").write_text("\n".join(names), "utf-8")
    dataset = make_dataset(
        tmp_path / "out",
        images=f"{tmp_path}/train/**/*.JPG",
        label_from="directory",
        class_names=tmp_path / "classes.txt",
        layout="landmark",
    )
    assert dataset.classes == names
    found = {
        record["image_raw"]: names[record["landmark_id"]] for record in read(dataset, LANDMARK)
    }
    assert found == {data: key[:-4] for key, (_, data) in landmarks.items()}


@pytest.mark.parametrize("encoding", [None, "utf-16", "ascii"])
def test_korean_in_another_encoding_is_reported_before_the_job(
    landmarks: dict[str, tuple[int, bytes]], tmp_path: Path, encoding: str | None
) -> None:
    assert landmarks
    ran = convert(
        images=f"{tmp_path}/train/**/*.JPG",
        labels=tmp_path / "train.csv",
        csv_encoding=encoding,
        layout="landmark",
        output=tmp_path / "out",
    )
    assert ran.code == 2
    assert "train.csv" in ran.error() and "--csv_encoding" in ran.error()
    assert not (tmp_path / "out").exists()


# Cats and dogs: folders of classes, in which a few files are not what they are called.


def with_extraneous_bytes(data: bytes) -> bytes:
    """What libjpeg calls `extraneous bytes before marker 0xd9`."""
    return data[:-2] + b"\x11" * 228 + data[-2:]


@pytest.fixture
def pets(tmp_path: Path) -> Path:
    """`PetImages/Cat/0.jpg` ..., 8 of each class that are sound, and 8 that are not, or odd."""
    folder = tmp_path / "PetImages"
    for number in range(8):
        photo(folder / f"Cat/{number}.jpg", seed=number, size=(30 + number, 40))
        photo(folder / f"Dog/{number}.jpg", seed=50 + number, size=(40, 30 + number))
    whole = saved(picture("RGB", 64, 64), "JPEG")
    odd = {
        "Cat/666.jpg": b"",
        "Cat/667.jpg": whole[: len(whole) // 2],
        "Cat/668.jpg": b"<html>404 Not Found</html>\n",
        "Cat/669.jpg": with_extraneous_bytes(whole),
        "Dog/11702.jpg": b"",
        "Dog/11703.jpg": saved(picture("RGB", 20, 24), "BMP"),
        "Dog/11704.jpg": saved(picture("RGBA", 20, 24), "PNG"),
        "Dog/11705.jpg": saved(picture("L", 20, 24), "JPEG"),
    }
    for name, data in odd.items():
        (folder / name).write_bytes(data)
    return folder


@pytest.mark.slow
def test_cats_and_dogs_with_broken_files(pets: Path, tmp_path: Path) -> None:
    dataset = make_dataset(
        tmp_path / "out",
        images=f"{pets}/*/*.jpg",
        quarantine=tmp_path / "broken",
        max_rejected="20%",
        num_shards=2,
    )
    assert dataset.classes == ["Cat", "Dog"]
    copies = {path.relative_to(tmp_path / "broken").as_posix(): path for path in
              (tmp_path / "broken").rglob("*") if path.is_file()}  # fmt: skip
    assert {name: path.read_bytes() for name, path in copies.items()} == {
        f"{reason}/{name}": (pets / name).read_bytes()
        for name, reason in {
            "Cat/666.jpg": "empty_file",
            "Cat/667.jpg": "corrupt_image",
            "Cat/668.jpg": "not_an_image",
            "Dog/11702.jpg": "empty_file",
        }.items()
    }
    assert dataset.ledger["records_written"] == 20
    check_sound(dataset.folder)
    history = train(dataset)
    assert np.isfinite(history["loss"]).all()


def train(dataset: Dataset) -> dict[str, list[float]]:
    """Trains a small classifier on all records, as a tutorial does."""
    features = {
        "image/encoded": tf.io.FixedLenFeature([], tf.string),
        "image/class/label": tf.io.FixedLenFeature([], tf.int64),
    }

    def example(record: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        parsed = tf.io.parse_single_example(record, features)
        image = tf.io.decode_image(parsed["image/encoded"], channels=3, expand_animations=False)
        return tf.image.resize(image, (16, 16)) / 255.0, parsed["image/class/label"]

    paths = [str(dataset.folder / name) for name in dataset.shards()]
    batches = tf.data.TFRecordDataset(paths).map(example, num_parallel_calls=2).batch(8)
    count = -(-dataset.ledger["records_written"] // 8)
    batches = batches.apply(tf.data.experimental.assert_cardinality(count))
    layers = KERAS.layers
    model = KERAS.Sequential([KERAS.Input((16, 16, 3)), layers.Flatten(), layers.Dense(2)])
    model.compile(
        optimizer="sgd", loss=KERAS.losses.SparseCategoricalCrossentropy(from_logits=True)
    )
    history: dict[str, list[float]] = model.fit(batches, epochs=2, shuffle=False, verbose=0).history
    return history


# Boxes: OpenImages (shares of the image) and what `xml_to_csv.py` makes of Pascal VOC (pixels).

OPEN_IMAGES = """\
ImageID,Source,LabelName,Confidence,XMin,XMax,YMin,YMax,IsOccluded,IsTruncated,IsGroupOf,IsInside
000002b66c9c498e,xclick,/m/01g317,1,0.0125,0.1953125,0.1484375,0.5875,0,1,0,0
000002b66c9c498e,xclick,/m/01g317,1,0.025,0.2765625,0.7140625,0.9484375,0,1,0,0
000002fff8d86e5e,activemil,/m/0284d,1,0,1,0,0.5,-1,-1,-1,-1
"""

PASCAL = """\
filename,width,height,class,xmin,ymin,xmax,ymax
000002b66c9c498e.jpg,48,36,dog,12,9,24,36
000002b66c9c498e.jpg,48,36,cat,0,0,48,36
000002fff8d86e5e.jpg,48,36,cat,6,18,12,27
"""


def boxes_of(record: dict[str, Any]) -> list[tuple[str, float, float, float, float]]:
    """Class, xmin, xmax, ymin and ymax of each box."""
    sides = [record[f"image/object/bbox/{side}"] for side in ("xmin", "xmax", "ymin", "ymax")]
    names = [text.decode() for text in record["image/object/class/text"]]
    return list(zip(names, *sides, strict=True))


@pytest.mark.parametrize(
    ("rows", "key", "units", "first", "second"),
    rest_slow(
        [
            (
                OPEN_IMAGES,
                None,
                "normalized",
                [
                    ("/m/01g317", 0.0125, 0.1953125, 0.1484375, 0.5875),
                    ("/m/01g317", 0.025, 0.2765625, 0.7140625, 0.9484375),
                ],
                [("/m/0284d", 0, 1, 0, 0.5)],
            ),
            (
                PASCAL,
                "name",
                "pixel",
                [("dog", 0.25, 0.5, 0.25, 1), ("cat", 0, 1, 0, 1)],
                [("cat", 0.125, 0.25, 0.5, 0.75)],
            ),
        ]
    ),
    ids=["open_images", "pascal"],
)
def test_boxes_that_the_object_detection_api_reads(
    tmp_path: Path, rows: str, key: str | None, units: str, first: list[Any], second: list[Any]
) -> None:
    for at, name in enumerate(["000002b66c9c498e", "000002fff8d86e5e"]):
        photo(tmp_path / f"images/{name}.jpg", seed=at)
    (tmp_path / "boxes.csv").write_text(rows)
    dataset = make_dataset(
        tmp_path / "out",
        images=f"{tmp_path}/images/*.jpg",
        labels=tmp_path / "boxes.csv",
        key=key,
        layout="detection",
    )
    assert dataset.manifest["options"]["box_units"] == units
    # Ids count from 1: these readers keep 0 for the background, and line 0 is empty.
    names = (dataset.folder / "labels.txt").read_text("utf-8").splitlines()
    assert names == ["", *dataset.classes]
    found = {
        record["image/filename"].decode(): record
        for record in read_lists(dataset, OBJECT_DETECTION)
    }
    for name, expected in (("000002b66c9c498e.jpg", first), ("000002fff8d86e5e.jpg", second)):
        record = found[name]
        for box, wanted in zip(boxes_of(record), expected, strict=True):
            assert box[0] == wanted[0]
            assert box[1:] == pytest.approx(wanted[1:], abs=1e-6)
        assert tf.io.decode_jpeg(record["image/encoded"]).shape == (36, 48, 3)
        named = [names[at] for at in record["image/object/class/label"]]
        assert named == [box[0] for box in expected]
    check_sound(dataset.folder)


# tensorflow.org/tutorials/load_data/tfrecord, "Walkthrough: Reading and writing image data".


@pytest.mark.slow
def test_the_two_images_of_the_tensorflow_guide(tmp_path: Path) -> None:
    drawn = {
        0: photo(tmp_path / "320px-Felis_catus-cat_on_snow.jpg", seed=1, size=(213, 320)),
        1: photo(
            tmp_path / "194px-New_East_River_Bridge_from_Brooklyn_det.4a09796u.jpg",
            seed=2,
            mode="L",
            size=(194, 194),
        ),
    }
    cat_in_snow, williamsburg_bridge = sorted(path.name for path in tmp_path.iterdir())[::-1]
    (tmp_path / "labels.csv").write_text(f"image,label\n{cat_in_snow},0\n{williamsburg_bridge},1\n")
    dataset = make_dataset(
        tmp_path / "out",
        images=f"{tmp_path}/*.jpg",
        labels=tmp_path / "labels.csv",
        key="name",
        layout="tutorial",
    )
    (shard,) = dataset.shards()
    raw_image_dataset = tf.data.TFRecordDataset(str(dataset.folder / shard))
    parsed = raw_image_dataset.map(lambda example: tf.io.parse_single_example(example, TUTORIAL))
    shown = {}
    for features in parsed:
        image_raw = features["image_raw"].numpy()
        label = int(features["label"])
        assert image_raw == drawn[label]
        shown[label] = np.asarray(Image.open(io.BytesIO(image_raw)))
        # The decoding of what shows it, not the faster one that is TensorFlow's default.
        pixels = tf.io.decode_jpeg(image_raw, dct_method="INTEGER_ACCURATE").numpy()
        assert pixels.shape == tuple(int(features[n]) for n in ("height", "width", "depth"))
        assert np.array_equal(pixels.squeeze(), shown[label])
    assert {label: image.shape for label, image in shown.items()} == {
        0: (213, 320, 3),
        1: (194, 194),
    }
    check_sound(dataset.folder)
