"""Decoded pixels and lists of a fixed shape, through the whole job, restored as readers do."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2

from pipeline.read import load
from pipeline.verify import check_dataset
from tests.images import picture, saved, whole_images
from tests.pipeline.commands import Dataset, check_sound, digests, make_dataset, show, write_layout
from tests.pipeline.reading import NUMBER, TEXT, read
from transforms.dataset.record_checks import RecordVerifier
from transforms.examples import encoder
from transforms.examples.layouts import SOURCES, Feature, Role, Source
from transforms.images.pixel_options import Limits
from transforms.records.written_index import open_records

pytestmark = pytest.mark.slow

SIZES = ("height", "width", "channels")
SHAPED = {"id": TEXT, "pixels": TEXT, **dict.fromkeys(SIZES, NUMBER)}
PIXELS = "  pixels: image.pixels\n"
ANY_SHAPE = f"  id: image.key\n{PIXELS}" + "".join(f"  {side}: image.{side}\n" for side in SIZES)
FIXED = {"resize": "8x6", "color": "rgb"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """`a.jpg` and `b.jpg`, 16 pixels wide and 12 high, and `c.png`, grey and smaller."""
    for name in "ab":
        data = saved(picture("RGB", 12, 16, seed=ord(name)), "JPEG")
        (tmp_path / f"{name}.jpg").write_bytes(data)
    (tmp_path / "c.png").write_bytes(saved(picture("L", 8, 9), "PNG"))
    return tmp_path


def make(folder: Path, text: str, images: str = "[abc].*g", **flags: Any) -> Dataset:
    """The dataset of some images in a layout, which `verify` and `show` accept."""
    given = {"images": f"{folder}/{images}", "layout": write_layout(folder, text)}
    given["label_from"] = None if "labels" in flags else "none"
    dataset = make_dataset(folder / "out", overwrite=True, **given, **flags)
    check_sound(dataset.folder)
    assert show(dataset.folder).code == 0
    return dataset


def feature(dataset: Dataset, name: str) -> dict[str, Any]:
    """What the manifest says of a feature."""
    (found,) = (each for each in dataset.manifest["features"] if each["name"] == name)
    return dict(found)


def restored(record: dict[str, Any]) -> np.ndarray[Any, Any]:
    """The pixels, with the shape that the record says."""
    shape = [record[side] for side in SIZES]
    return tf.reshape(tf.io.decode_raw(record["pixels"], tf.uint8), shape).numpy()


def test_pixels_are_those_that_tensorflow_decodes(tmp_path: Path) -> None:
    for name, data in whole_images().items():
        (tmp_path / f"{name}.img").write_bytes(data)
    dataset = make(tmp_path, ANY_SHAPE, "*.img", max_rejected="100%")
    records = read(dataset, SHAPED)
    assert len(records) > 40
    for record in records:
        data = (tmp_path / record["id"].decode()).read_bytes()
        shown = tf.io.decode_image(data, expand_animations=False).numpy()
        np.testing.assert_array_equal(restored(record), shown, err_msg=record["id"].decode())
    flags = {"label_from": "none", "max_rejected": "100%"}
    plain = make_dataset(tmp_path / "plain", images=f"{tmp_path}/*.img", **flags)
    rejected = [{line["key"] for line in each.rejected} for each in (dataset, plain)]
    assert rejected[0] == rejected[1]


def test_pixels_alone_are_not_encoded_in_between(folder: Path) -> None:
    """Whatever the quality would lose."""
    shard = "train-00000-of-00001.tfrecord"
    low, high = (digests(make(folder, PIXELS, quality=q, **FIXED).folder)[shard] for q in (1, 95))
    assert low == high


def test_a_fixed_size_and_color_fix_the_shape(folder: Path) -> None:
    dataset = make(folder, f"  id: image.key\n{PIXELS}", **FIXED)
    said = {"name": "pixels", "source": "image.pixels", "dtype": "bytes", "encoding": "uint8"}
    assert feature(dataset, "pixels") == {**said, "shape": [6, 8, 3]}
    for record in read(dataset, {"id": TEXT, "pixels": TEXT}):
        pixels = tf.reshape(tf.io.decode_raw(record["pixels"], tf.uint8), (6, 8, 3)).numpy()
        original = tf.io.decode_image((folder / record["id"].decode()).read_bytes(), channels=3)
        near = tf.image.resize(original, (6, 8), "lanczos3", antialias=True).numpy()
        assert np.abs(pixels - near).mean() < 6
    assert dataset.manifest["pixels"] == {"resized": 3, "recolored": 1}
    # `verify` sees pixels of another size.
    manifest = dataset.manifest
    manifest["features"][1]["shape"] = [6, 8, 4]
    problems = [str(each) for each in check_dataset(str(dataset.folder), manifest)[0]]
    assert "has 144 bytes, not uint8 of shape [6, 8, 4]" in problems[1]


def test_another_shape_than_that_of_the_layout_is_rejected(folder: Path) -> None:
    text = "  pixels: {source: image.pixels, shape: [12, 16, 3]}\n"
    dataset = make(folder, text, max_rejected=1)
    assert feature(dataset, "pixels")["shape"] == [12, 16, 3]
    (line,) = dataset.rejected
    assert (line["key"], line["reason"]) == ("c.png", "bad_shape")
    assert line["detail"] == "[8, 9, 1], but 'pixels' has shape [12, 16, 3]"


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


def rows(folder: Path, *lines: str) -> Path:
    path = folder / "rows.csv"
    path.write_text("\n".join(("id,m", *lines)), "utf-8")
    return path


def test_a_source_that_is_registered_is_written_described_verified_and_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A source needs an entry in the registry and the function of its value: readers follow."""
    for source in (Source("image.aspect", "float"), Source("image.wide", "int64", Role.MARK)):
        monkeypatch.setitem(SOURCES, source.name, source)
    monkeypatch.setitem(encoder.VALUES, "image.aspect", lambda each: each.info.width / 8)
    monkeypatch.setitem(encoder.VALUES, "image.wide", lambda each: int(each.info.width > 8))
    (tmp_path / "a.png").write_bytes(saved(picture("RGB", 8, 10), "PNG"))
    text = "  picture: image.bytes\n  ratio: image.aspect\n  is_wide: image.wide\n"
    dataset = make(tmp_path, text, "*.png")
    dtypes = [(f["name"], f["dtype"]) for f in dataset.manifest["features"]]
    assert dtypes == [("picture", "bytes"), ("ratio", "float"), ("is_wide", "int64")]
    assert "ratio" in show(dataset.folder).out
    (record,) = load(str(dataset.folder), "train").as_numpy_iterator()
    assert (record["ratio"], record["is_wide"], record["picture"].shape) == (1.25, 1, (8, 10, 3))
    kinds = json.loads((dataset.folder / "features.json").read_text())["featuresDict"]["features"]
    assert kinds["ratio"]["tensor"]["dtype"] == "float32"
    text = (dataset.folder / "schema.pbtxt").read_text()
    ratio, is_wide = text_format.Parse(text, schema_pb2.Schema()).feature[1:]
    assert (ratio.name, ratio.type) == ("ratio", schema_pb2.FLOAT)
    assert (is_wide.int_domain.min, is_wide.int_domain.max) == (0, 1)
