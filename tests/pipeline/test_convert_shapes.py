"""Decoded pixels and lists of a fixed shape, through the whole job, restored as readers do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from pipeline.verify import check_dataset
from tests.images import picture, saved, whole_images
from tests.pipeline.commands import (
    Dataset,
    check_sound,
    convert,
    digests,
    make_dataset,
    show,
    write_layout,
)
from tests.pipeline.reading import NUMBER, TEXT, read
from transforms.dataset.record_checks import RecordVerifier
from transforms.examples.layouts import Feature
from transforms.images.pixel_options import Limits
from transforms.records.written_index import open_records

SIZES = {"height": NUMBER, "width": NUMBER, "channels": NUMBER}

ANY_SHAPE = """\
  id: image.key
  pixels: image.pixels
  height: image.height
  width: image.width
  channels: image.channels
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """`a.jpg` and `b.jpg`, 16 pixels wide and 12 high, and `c.png`, grey and smaller."""
    for name in "ab":
        (tmp_path / f"{name}.jpg").write_bytes(
            saved(picture("RGB", 12, 16, seed=ord(name)), "JPEG")
        )
    (tmp_path / "c.png").write_bytes(saved(picture("L", 8, 9), "PNG"))
    return tmp_path


def make(folder: Path, text: str, images: str = "[abc].*g", **flags: Any) -> Dataset:
    """The dataset of some images in a layout, which `verify` and `show` accept."""
    labels = None if "labels" in flags else "none"
    dataset = make_dataset(
        folder / "out",
        images=f"{folder}/{images}",
        layout=write_layout(folder, text),
        label_from=labels,
        overwrite=True,
        **flags,
    )
    check_sound(dataset.folder)
    shown = show(dataset.folder)
    assert shown.code == 0, shown.err
    return dataset


def feature(dataset: Dataset, name: str) -> dict[str, Any]:
    """What the manifest says of a feature."""
    (found,) = (each for each in dataset.manifest["features"] if each["name"] == name)
    return dict(found)


def restored(record: dict[str, Any]) -> np.ndarray[Any, Any]:
    """The pixels, with the shape that the record says."""
    shape = [record[side] for side in ("height", "width", "channels")]
    return tf.reshape(tf.io.decode_raw(record["pixels"], tf.uint8), shape).numpy()


@pytest.mark.slow
def test_pixels_are_those_that_tensorflow_decodes(tmp_path: Path) -> None:
    for name, data in whole_images().items():
        (tmp_path / f"{name}.img").write_bytes(data)
    dataset = make(tmp_path, ANY_SHAPE, "*.img", max_rejected="100%")
    records = read(dataset, {"id": TEXT, "pixels": TEXT, **SIZES})
    assert len(records) > 40
    for record in records:
        data = (tmp_path / record["id"].decode()).read_bytes()
        shown = tf.io.decode_image(data, expand_animations=False).numpy()
        np.testing.assert_array_equal(restored(record), shown, err_msg=record["id"].decode())
    rejected = {Path(line["path"]).stem for line in dataset.rejected}
    plain = make_dataset(
        tmp_path / "plain", images=f"{tmp_path}/*.img", label_from="none", max_rejected="100%"
    )
    assert rejected == {Path(line["path"]).stem for line in plain.rejected}


def test_pixels_beside_the_image_are_those_of_what_is_stored(folder: Path) -> None:
    text = ANY_SHAPE + "  image: image.bytes\n"
    dataset = make(folder, text, resize="longer=8", transcode="jpeg", quality=50)
    features = {"id": TEXT, "pixels": TEXT, "image": TEXT, **SIZES}
    for record in read(dataset, features):
        np.testing.assert_array_equal(restored(record), tf.io.decode_image(record["image"]))
    assert sorted(int(r["height"]) for r in read(dataset, features)) == [6, 6, 7]


@pytest.mark.slow
def test_pixels_alone_are_not_encoded_in_between(folder: Path) -> None:
    """Whatever the quality would lose."""
    text = "  pixels: image.pixels\n"
    size = {"resize": "8x6", "color": "rgb"}
    found = {
        quality: digests(make(folder, text, quality=quality, **size).folder)[
            "train-00000-of-00001.tfrecord"
        ]
        for quality in (1, 95)
    }
    assert found[1] == found[95]


def test_a_fixed_size_and_color_fix_the_shape(folder: Path) -> None:
    dataset = make(folder, "  id: image.key\n  pixels: image.pixels\n", resize="8x6", color="rgb")
    assert feature(dataset, "pixels") == {
        "name": "pixels",
        "source": "image.pixels",
        "dtype": "bytes",
        "shape": [6, 8, 3],
        "encoding": "uint8",
    }
    for record in read(dataset, {"id": TEXT, "pixels": TEXT}):
        pixels = tf.reshape(tf.io.decode_raw(record["pixels"], tf.uint8), (6, 8, 3)).numpy()
        original = tf.io.decode_image((folder / record["id"].decode()).read_bytes(), channels=3)
        near = tf.image.resize(original, (6, 8), "lanczos3", antialias=True).numpy()
        assert np.abs(pixels - near).mean() < 6
    assert dataset.manifest["pixels"] == {"resized": 3, "recolored": 1}


def test_another_shape_than_that_of_the_layout_is_rejected(folder: Path) -> None:
    text = "  pixels: {source: image.pixels, shape: [12, 16, 3]}\n"
    dataset = make(folder, text, max_rejected=1)
    assert feature(dataset, "pixels")["shape"] == [12, 16, 3]
    (line,) = dataset.rejected
    assert (line["key"], line["reason"]) == ("c.png", "bad_shape")
    assert line["detail"] == "[8, 9, 1], but 'pixels' has shape [12, 16, 3]"


@pytest.mark.parametrize(
    ("text", "flags", "says"),
    [
        ("  a: image.pixels\n", {}, "the shape of 'a' (image.pixels) is unknown"),
        ("  a: image.pixels\n", {"resize": "8x6"}, "the shape of 'a' (image.pixels) is unknown"),
        (
            "  a: image.pixels\n",
            {"resize": "8x6,never_enlarge", "color": "rgb"},
            "the shape of 'a' (image.pixels) is unknown",
        ),
        (
            "  a: image.pixels\n  b: image.height\n",
            {"color": "rgb"},
            "the shape of 'a' (image.pixels) is unknown",
        ),
        (
            "  a: {source: image.pixels, shape: [8, 6, 3]}\n",
            {"resize": "8x6", "color": "rgb"},
            "the shape of 'a' is [8, 6, 3], but --resize and --color make it [6, 8, 3]",
        ),
    ],
)
def test_pixels_without_a_shape_are_refused(
    folder: Path, text: str, flags: dict[str, str], says: str
) -> None:
    ran = convert(
        images=f"{folder}/a.jpg",
        label_from="none",
        layout=write_layout(folder, text),
        output=folder / "out",
        **flags,
    )
    assert ran.code == 2
    assert says in ran.error()
    assert not (folder / "out").exists()


def test_verify_sees_pixels_of_another_size(folder: Path) -> None:
    dataset = make(folder, "  pixels: image.pixels\n", resize="8x6", color="rgb")
    manifest = dataset.manifest
    manifest["features"][0]["shape"] = [6, 8, 4]
    problems = [str(each) for each in check_dataset(str(dataset.folder), manifest)[0]]
    assert "has 144 bytes, not uint8 of shape [6, 8, 4]" in problems[1]


def test_verify_sees_pixels_that_the_sizes_beside_them_contradict(folder: Path) -> None:
    dataset = make(folder, ANY_SHAPE, "a.jpg")
    (shard,) = dataset.shards()
    example = tf.train.Example()
    with open_records(str(dataset.folder / shard)) as records:
        example.ParseFromString(next(records))
    example.features.feature["height"].int64_list.value[0] += 1
    features = tuple(map(Feature.from_manifest, dataset.manifest["features"]))
    verifier = RecordVerifier(features, None, Limits(max_pixels=10**6, max_bytes=10**6))
    assert verifier.check(example.SerializeToString()).problems == (
        "has 576 bytes of pixels, which do not fit the shape [13, 16, 3]",
    )


# Lists of a fixed shape.

MATRIX = "  id: image.key\n  m: {source: csv.m, type: float, separator: ' ', shape: [2, 3]}\n"


def rows(folder: Path, *lines: str) -> Path:
    path = folder / "rows.csv"
    path.write_text("\n".join(("id,m", *lines)), "utf-8")
    return path


def test_a_list_of_fixed_shape(folder: Path) -> None:
    labels = rows(folder, "a,1 2 3 4 5 6.5", "b,0 0 0 0 0 -1")
    dataset = make(folder, MATRIX, "[ab].jpg", labels=labels)
    assert feature(dataset, "m")["shape"] == [2, 3]
    spec = {"id": TEXT, "m": tf.io.FixedLenFeature(feature(dataset, "m")["shape"], tf.float32)}
    found = {record["id"]: record["m"].tolist() for record in read(dataset, spec)}
    assert found == {b"a": [[1, 2, 3], [4, 5, 6.5]], b"b": [[0, 0, 0], [0, 0, -1]]}


@pytest.mark.slow
def test_one_row_for_each_value_of_a_shape(folder: Path) -> None:
    text = "  id: image.key\n  m: {source: csv.m, list: true, shape: [2]}\n"
    labels = rows(folder, "a,1", "b,3", "a,2", "b,4", "b,5")
    dataset = make(folder, text, "[ab].jpg", labels=labels, max_rejected=1)
    spec = {"id": TEXT, "m": tf.io.FixedLenFeature([2], tf.int64)}
    assert [(r["id"], r["m"].tolist()) for r in read(dataset, spec)] == [(b"a", [1, 2])]
    assert [line["detail"] for line in dataset.rejected] == [
        "3 rows from rows.csv:3, column 'm': 3 values, not 2 of shape [2]"
    ]
