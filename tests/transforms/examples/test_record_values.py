"""Values of records without TensorFlow: scalars, arrays of their shape, lists, images."""

import io
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from PIL import Image

from tests.images import picture, saved
from tests.marks import cases
from tests.transforms.core.checked_images import checked
from transforms.core.rejections import RejectedImageError
from transforms.examples.decoder import Kept, KeptValues, RecordFields, RecordParser
from transforms.examples.encoder import ExampleEncoder
from transforms.examples.layouts import LAYOUTS, Feature
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


def test_empty_lists_keep_their_types_and_sizes() -> None:
    record = example(masks=[], pixels=bytes(24), height=2, width=4, channels=3)
    sizes = ("height", "width", "channels")
    assert parsed(record, "masks", "pixels", *sizes, decode=True)["masks"].shape == (0, 2, 4, 1)
    # Nothing says which.
    assert parsed(record, "masks", decode=True)["masks"].shape == (0, 0, 0, 1)
    assert parsed(record, "masks")["masks"].shape == (0,)
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


@cases(
    ({"tags": [b"a"]}, "label", "it has no 'label'"),
    ({"label": b"7"}, "label", "'label' is not of type int64"),
    ({"label": [7, 8]}, "label", "'label' has 2 values, not 1"),
    ({"three": [1.0]}, "three", r"'three' has 1 values, not those of \(3,\)"),
    ({"small": b"abcdef"}, "small", "'small' has 3 values"),
    ({"small": b"abc"}, "small", "'small' has 3 bytes"),
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


def test_without_a_manifest_names_and_bytes_tell() -> None:
    names = ["image/class/label", "image/source_id", "image/filename", "label", "width", "class_id"]
    fields = RecordFields()
    assert fields.class_features(names) == ["image/class/label", "label", "class_id"]
    assert fields.key_features(names) == ["image/source_id", "image/filename"]
    example = record(text=[b"BM?"[:1]], pixels=[b"\xff\xd8\xff\xe0"], many=[b"\xff\xd8\xff"] * 2)
    assert RecordFields().image_feature({**example, "unset": None}) == "pixels"
    assert RecordFields().image_feature(record(text=[b"x"])) is None


# Boxes, objects and columns that stay those of the record.

DETECTION = LAYOUTS["detection"]
NAMES = {feature.source: feature.name for feature in DETECTION}
CELLS = '[["given:1",[[1,"dog"],[2,"cat"]],[]]]'
SIDES = ("xmin", "xmax", "ymin", "ymax")


def kept(*left_out: str, size: tuple[int, int] = (10, 20), **more: Any) -> Kept:
    example: dict[str, Any] = {
        f"image/object/bbox/{side}": np.array(values, np.float32)
        for side, values in zip(SIDES, ([0, 0.5], [0.25, 1], [0, 0.5], [0.5, 1]), strict=True)
    }
    example |= {
        "image/object/class/text": np.array([b"cat", b"dog"], object),
        "image/object/class/label": np.array([8, 9]),
        "image/object/area": np.array([25, 50], np.float32),
        **more,
    }
    names = {source: name for source, name in NAMES.items() if source not in left_out}
    return Kept(names, example, [(8, "cat"), (9, "dog")], size)


def values(record: Kept, **given: Any) -> dict[str, Any]:
    marks = ("object.is_crowd", "object.difficult", "object.group_of")
    features = [feature for feature in DETECTION if feature.source not in marks]
    made = KeptValues(features).of(given.pop("cells", CELLS), record, **given)
    return {name.rpartition("/")[2] if "bbox" in name else name: made[name] for name in made}


def test_objects_get_the_ids_of_this_dataset() -> None:
    found = values(kept())
    assert found["image/object/class/label"] == [2, 1]
    assert found["image/object/class/text"] == [b"cat", b"dog"]
    assert found["image/class/label"] == [1, 2]
    assert found["xmax"] == [0.25, 1]
    assert found["image/object/area"] == [25, 50]
    # Without names, ids are those of the other dataset.
    assert values(kept("object.texts"))["image/object/class/text"] == [b"cat", b"dog"]
    assert values(kept(), cells="")["image/object/class/label"] == []
    texts = np.array([b"cat", b"fox"], object)
    with pytest.raises(RejectedImageError, match="an object 'fox'"):
        values(kept(**{"image/object/class/text": texts}))


def test_objects_of_a_layout_with_one_label_have_it() -> None:
    ids = Feature.of_source("ids", "object.ids")
    features = [Feature.of_source("label", "label.id"), ids]
    cats = kept(**{"image/object/class/text": np.array([b"cat", b"cat"], object)})
    assert KeptValues(features).of("", cats, label=(2, "cat")) == {"ids": [2, 2]}
    assert KeptValues(features).of("", cats, label=(0, "cat")) == {"ids": [0, 0]}


def test_boxes_turn_and_areas_grow_with_the_pixels() -> None:
    found = values(kept(), turn=6, stored=(40, 20))
    assert found["xmin"] == [0.5, 0]
    assert found["ymax"] == [0.25, 1]
    assert found["image/object/area"] == [100, 200]


MASK = Image.new("L", (20, 10))
MASK.putpixel((0, 0), 1)
DATA = saved(MASK, "PNG")


def of_masks(*masks: bytes, check: str = "full", **given: Any) -> list[bytes]:
    example = {"mask": np.array(masks, object)}
    record = Kept({"object.mask": "mask"}, example, (), (10, 20))
    made = KeptValues([Feature.of_source("mask", "object.mask")], check=check)
    return list(made.of("", record, **given)["mask"])


def test_masks_of_objects_follow_the_pixels() -> None:
    assert of_masks(DATA, DATA, stored=(10, 20)) == [DATA, DATA]
    [turned, _] = of_masks(DATA, DATA, turn=6, stored=(40, 20))
    found = np.asarray(Image.open(io.BytesIO(turned)))
    # The upper left corner becomes the upper right one, twice as large.
    assert found.shape == (40, 20)
    assert np.argwhere(found).tolist() == [[row, at] for row in (0, 1) for at in (18, 19)]


def test_masks_that_take_long_or_are_damaged_reject_their_image() -> None:
    """A damaged one does also if nothing changes it."""
    # Each of two different masks would have a billion pixels.
    with pytest.raises(RejectedImageError, match="of 2 objects, each of 40000 x 20000") as caught:
        of_masks(DATA, DATA + b"x", stored=(40_000, 20_000))
    assert caught.value.reason.code == "too_costly"
    with pytest.raises(
        RejectedImageError, match="^.*the mask of object 1 in its record: "
    ) as caught:
        of_masks(DATA, DATA[:-20])
    assert caught.value.reason.code == "corrupt_image"
    assert of_masks(DATA, DATA[:-20], check="header") == [DATA, DATA[:-20]]


def test_what_no_record_has_is_as_of_empty_cells() -> None:
    assert values(kept("object.area"))["image/object/area"] == [25, 50]
    crowd = Feature.of_source("crowd", "object.is_crowd")
    assert KeptValues([crowd]).of(CELLS, kept("object.is_crowd")) == {"crowd": [0, 0]}
    with pytest.raises(RejectedImageError, match="does not hold box.xmin"):
        values(kept("box.xmin"))
    with pytest.raises(RejectedImageError, match="does not hold object.mask"):
        KeptValues([Feature.of_source("mask", "object.mask")]).of("", kept("object.mask"))


def test_columns() -> None:
    age, tags = Feature("age", "csv.age", "int64"), Feature("tags", "csv.tags", "bytes", None)
    names = {"csv.age": "years", "csv.tags": "tags"}
    record = Kept(names, {"years": np.array([7]), "tags": np.array([], object)}, (), (1, 1))
    assert KeptValues([age, tags]).of("", record) == {"age": 7, "tags": []}
    with pytest.raises(RejectedImageError, match="2 values of 'years', not 1"):
        KeptValues([age]).of("", record._replace(example={"years": np.array([7, 8])}))
