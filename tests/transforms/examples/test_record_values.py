"""Values of records without TensorFlow: scalars, arrays of their shape, lists, images."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.images import picture, saved
from tests.transforms.core.checked_images import checked
from transforms.examples.decoder import RecordFields, RecordParser
from transforms.examples.encoder import ExampleEncoder
from transforms.examples.layouts import Feature
from transforms.images.pixel_options import DEFAULT_LIMITS

FEATURES = {
    "image": Feature("image", "image.bytes", "bytes"),
    "label": Feature("label", "label.id", "int64"),
    "weight": Feature("weight", "csv.weight", "float"),
    "tags": Feature("tags", "csv.tags", "bytes", None),
    "three": Feature("three", "csv.three", "float", (3,)),
    "pixels": Feature("pixels", "image.pixels", "bytes", encoding="uint8"),
    "small": Feature("small", "image.embedding", "bytes", (2, 1), encoding="bfloat16"),
    "masks": Feature("masks", "object.mask", "bytes", None),
    "height": Feature("height", "image.height", "int64"),
    "width": Feature("width", "image.width", "int64"),
    "channels": Feature("channels", "image.channels", "int64"),
}


def example(**values: Any) -> bytes:
    """A record of these features: a list, or a single value."""
    features = []
    for name, value in values.items():
        first = value[0] if isinstance(value, list) and value else value
        dtype = {bytes: "bytes", int: "int64", float: "float"}.get(type(first), "bytes")
        shape = None if isinstance(value, list) else ()
        features.append(Feature(name, f"csv.{name}", dtype, shape))
    return ExampleEncoder(features).encode(checked(values=values))


def parsed(record: bytes, *names: str, decode: bool = False, channels: int = 3) -> dict[str, Any]:
    features = [FEATURES[name] for name in names]
    parser = RecordParser(features, channels=channels, limits=DEFAULT_LIMITS, decode=decode)
    return parser.parse(record)


def test_values_have_the_types_of_numpy() -> None:
    record = example(label=7, weight=0.5, tags=[b"a", b"bc"], three=[1.0, 2.0, 3.0], image=b"\xff")
    values = parsed(record, "image", "label", "weight", "tags", "three")
    assert list(values) == ["image", "label", "weight", "tags", "three"]
    assert values["image"] == b"\xff" and type(values["image"]) is bytes
    assert (values["label"], type(values["label"])) == (7, np.int64)
    assert (values["weight"], type(values["weight"])) == (0.5, np.float32)
    assert values["tags"].tolist() == [b"a", b"bc"] and values["tags"].dtype == object
    np.testing.assert_array_equal(values["three"], np.float32([1, 2, 3]), strict=True)


def test_no_masks_of_objects_have_the_size_of_their_image() -> None:
    record = example(masks=[], pixels=bytes(24), height=2, width=4, channels=3)
    sizes = ("height", "width", "channels")
    assert parsed(record, "masks", "pixels", *sizes, decode=True)["masks"].shape == (0, 2, 4, 1)
    # Nothing says which.
    assert parsed(record, "masks", decode=True)["masks"].shape == (0, 0, 0, 1)
    assert parsed(record, "masks")["masks"].shape == (0,)


def test_an_empty_list_keeps_its_type() -> None:
    assert parsed(example(label=1), "tags")["tags"].dtype == object
    assert parsed(example(tags=[]), "tags")["tags"].shape == (0,)


def test_packed_arrays_have_their_shape() -> None:
    packed = np.array([1, 2], ml_dtypes.bfloat16).tobytes()
    record = example(pixels=bytes(range(6)), small=packed, height=2, width=1, channels=3)
    names = ("pixels", "small", "height", "width", "channels")
    values = parsed(record, *names, decode=True)
    expected = np.arange(6, dtype=np.uint8).reshape(2, 1, 3)
    np.testing.assert_array_equal(values["pixels"], expected, strict=True)
    assert values["small"].shape == (2, 1) and values["small"].dtype == ml_dtypes.bfloat16
    # PyTorch warns of arrays that cannot be written to.
    assert values["pixels"].flags.writeable and values["small"].flags.writeable
    assert parsed(record, *names)["pixels"] == bytes(range(6))
    assert parsed(record, "pixels", decode=True)["pixels"].shape == (6,)


@pytest.mark.parametrize(("channels", "shape"), [(3, (4, 6, 3)), (1, (4, 6, 1))])
def test_images_are_decoded(channels: int, shape: tuple[int, ...]) -> None:
    gray = picture("L", 4, 6)
    record = example(image=saved(gray, "PNG"))
    image = parsed(record, "image", decode=True, channels=channels)["image"]
    np.testing.assert_array_equal(image, np.stack([np.asarray(gray)] * channels, -1), strict=True)
    assert image.shape == shape


@pytest.mark.parametrize(
    ("values", "name", "problem"),
    [
        ({"tags": [b"a"]}, "label", "it has no 'label'"),
        ({"label": b"7"}, "label", "'label' is not of type int64"),
        ({"label": [7, 8]}, "label", "'label' has 2 values, not 1"),
        ({"three": [1.0]}, "three", r"'three' has 1 values, not those of \(3,\)"),
        ({"small": b"abcdef"}, "small", "'small' has 3 values"),
        ({"small": b"abc"}, "small", "'small' has 3 bytes"),
    ],
)
def test_other_records_are_named(values: dict[str, Any], name: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        parsed(example(**values), name, decode=True)


def test_bytes_that_are_no_example_are_refused() -> None:
    with pytest.raises(ValueError, match="not a tf.train.Example"):
        parsed(b"\x0a\xff", "label")


# What in a record is its class, its key and its image.


def record(**values: Any) -> dict[str, Any]:
    """Features as `decode_example` gives them; `__` stands for a slash."""
    return {
        name.replace("__", "/"): np.array(value, object if isinstance(value[0], bytes) else None)
        for name, value in values.items()
    }


def test_a_class_is_an_id_a_text_or_that_of_an_object() -> None:
    sources = {"a": "label.id", "b": "object.texts", "c": "csv.n"}
    fields = RecordFields(sources, {0: "cat", 1: "dog"})
    example = record(a=[1], b=[b"leg", b"tail"], c=[7])
    asked = ("1", "dog", "leg", "tail", "0", "cat", "7", "le")
    assert [name for name in asked if fields.has_class(example, name)] == [*asked[:4]]


@pytest.mark.parametrize("wanted", ["a/b c.tar.gz", "b c.tar.gz", "b c.tar"])
def test_a_path_is_found_by_what_people_call_it(wanted: str) -> None:
    example = record(p=[b"a/b c.tar.gz"], other=[wanted.encode()])
    assert RecordFields({"p": "image.path", "other": "label.text"}).has_key(example, wanted)
    assert not RecordFields({"p": "label.text"}).has_key(example, wanted)


def test_without_a_manifest_the_usual_names_tell() -> None:
    names = ["image/class/label", "image/source_id", "image/filename", "label", "width", "class_id"]
    fields = RecordFields()
    assert fields.class_features(names) == ["image/class/label", "label", "class_id"]
    assert fields.key_features(names) == ["image/source_id", "image/filename"]


def test_without_a_manifest_the_bytes_tell_an_image() -> None:
    example = record(text=[b"BM?"[:1]], pixels=[b"\xff\xd8\xff\xe0"], many=[b"\xff\xd8\xff"] * 2)
    assert RecordFields().image_feature({**example, "unset": None}) == "pixels"
    assert RecordFields().image_feature(record(text=[b"x"])) is None
