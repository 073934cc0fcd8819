"""Examples are the bytes of TensorFlow's own classes, and their values are read back."""

import hashlib
import re
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.lazy import lazy_module
from tests.transforms.core.checked_images import OBJECTS, checked
from transforms.examples import decoder
from transforms.examples.decoder import decode_example, only_bytes
from transforms.examples.encoder import ExampleEncoder, length_delimited
from transforms.examples.layouts import LAYOUTS, Feature, layout_features
from transforms.images.checked_images import CheckedImage, ImageInfo

tf = lazy_module("tensorflow")

NO_OBJECTS: dict[str, Any] = {name: [] for name in OBJECTS}
# What the encoder may meet: other scripts, no label, negative ids, no bytes, long values.
IMAGES = [
    checked(values=OBJECTS),
    checked(key="한강 공원", label="한강", label_id=127, values=NO_OBJECTS),
    checked(label="", label_id=-1, info=ImageInfo("png", 1, 2**20, 4), values=OBJECTS),
    checked(b"", key="no bytes", label_id=-(2**63), values=NO_OBJECTS),
    checked(bytes(20_480), key="k" * 300, label="l" * 20_000, label_id=2**63 - 1, values=OBJECTS),
    checked(b"\1" * 20_000, key="\U0001f600\0", label="e\u0301 tab\t", values=NO_OBJECTS),
]


def expected(image: CheckedImage, features: tuple[Feature, ...]) -> bytes:
    """What TensorFlow's own classes make of an image."""
    values: dict[str, Any] = {
        "image.bytes": image.data,
        "image.format": image.info.format.encode(),
        "image.height": image.info.height,
        "image.width": image.info.width,
        "image.channels": image.info.channels,
        "image.path": image.image.path.encode(),
        "image.key": image.image.key.encode(),
        "image.sha256": hashlib.sha256(image.data).hexdigest().encode(),
        "label.id": image.image.label_id,
        "label.text": image.image.label.encode(),
    }
    example = tf.train.Example()
    for feature in features:
        value = example.features.feature[feature.name]
        if feature.from_rows:
            held = image.values[feature.name]
            held = held if feature.is_list else [held]
        elif feature.source == "image.embedding":
            held = list(np.frombuffer(image.embedding, "<f4"))
        else:
            held = [values[feature.source]]
        kinds = {"bytes": value.bytes_list, "int64": value.int64_list, "float": value.float_list}
        kinds[feature.dtype].value.extend(held)
        if not held:
            kinds[feature.dtype].SetInParent()
    return bytes(example.SerializeToString(deterministic=True))


@pytest.mark.parametrize("labelled", [True, False])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_gives_the_bytes_of_tensorflow(layout: str, labelled: bool) -> None:
    features = layout_features(layout, labelled=labelled)
    encoder, turned = ExampleEncoder(features), ExampleEncoder(features[::-1])
    for image in IMAGES:
        assert encoder.encode(image) == turned.encode(image) == expected(image, features)


BYTES = st.binary(max_size=300) | st.sampled_from(
    [b"x" * length for length in (127, 128, 16_383, 16_384, 40_000)]
)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "bytes": BYTES,
    "int64": st.integers(-(2**63), 2**63 - 1) | st.integers(-300, 300),
    "float": st.floats(width=32, allow_nan=False),
}
NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.integers(120, 140).map(
    "n".__mul__
)


def features_and_values(names: st.SearchStrategy[str]) -> st.SearchStrategy[dict[str, Any]]:
    """A dtype by name, with one value or a list of values."""
    held = [
        st.tuples(st.just(dtype), value | st.lists(value, max_size=5))
        for dtype, value in VALUES.items()
    ]
    return st.dictionaries(names, st.one_of(held), max_size=8)


def encoded(held: dict[str, Any]) -> bytes:
    """What is encoded of values that rows fill."""
    features = [
        Feature(name, f"csv.{name}", dtype, None if isinstance(value, list) else ())
        for name, (dtype, value) in held.items()
    ]
    values = {name: value for name, (_, value) in held.items()}
    return ExampleEncoder(features).encode(checked(values=values))


def by_tensorflow(held: dict[str, Any]) -> Any:
    example = tf.train.Example()
    example.features.SetInParent()
    for name, (dtype, value) in held.items():
        values = getattr(example.features.feature[name], f"{dtype}_list")
        values.SetInParent()
        values.value.extend(value if isinstance(value, list) else [value])
    return example


# Protobuf for Python puts a name after those that it begins, protobuf for C++ before them. With
# the NUL at their ends no name begins another.
APART = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")).map(
    "{}\0".format
)


@settings(deadline=None)
@given(features_and_values(APART))
def test_any_features_give_the_bytes_of_tensorflow(held: dict[str, Any]) -> None:
    assert encoded(held) == by_tensorflow(held).SerializeToString(deterministic=True)


@settings(deadline=None)
@given(features_and_values(NAMES))
def test_tensorflow_reads_any_features(held: dict[str, Any]) -> None:
    assert tf.train.Example.FromString(encoded(held)) == by_tensorflow(held)


def test_a_name_is_before_those_that_it_begins() -> None:
    example = encoded({"ab": ("int64", 1), "a": ("int64", 1), "": ("int64", 1)})
    places = [example.index(key) for key in (b"\x0a\x00", b"\x0a\x01a", b"\x0a\x02ab")]
    assert places == sorted(places)


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1])
def test_an_integer_of_more_than_64_bits_is_no_record(value: int) -> None:
    for held in (value, [value]):
        with pytest.raises(OverflowError, match="more than 64 bits"):
            encoded({"n": ("int64", held)})


def test_decode_example_reads_what_was_encoded() -> None:
    record = ExampleEncoder(LAYOUTS["slim"]).encode(checked(b"\0\1", label="한강", label_id=-7))
    decoded = decode_example(record)
    assert decoded["image/height"].dtype == np.int64
    assert {name: value.tolist() for name, value in decoded.items()} == {
        "image/encoded": [b"\0\1"],
        "image/format": [b"jpeg"],
        "image/class/label": [-7],
        "image/class/text": ["한강".encode()],
        "image/height": [37],
        "image/width": [45],
        "image/filename": [b"photos/1.jpg"],
    }


@pytest.mark.parametrize("data", [b"\xff", b"nonsense", b"\x0a\x05abc"])
def test_decode_example_refuses_other_bytes(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"not a tf\.train\.Example"):
        decode_example(data)


@pytest.mark.slow
def test_the_encoder_needs_neither_tensorflow_nor_beam_nor_arrow() -> None:
    script = (
        "import sys\n"
        "from transforms.examples.encoder import ExampleEncoder\n"
        "from transforms.examples.layouts import LAYOUTS\n"
        "ExampleEncoder(LAYOUTS['slim'])\n"
        "print(sorted({'tensorflow', 'apache_beam', 'pyarrow'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("[]\n", 0), done.stderr


# Lengths of one, two, three and four bytes begin here.
_BOUNDS = [2**7, 2**14, 2**21]


@given(
    st.sampled_from(_BOUNDS).flatmap(lambda bound: st.integers(max(1, bound - 200), bound + 20)),
    st.text(max_size=200),
    st.sampled_from(["slim", "tutorial", "landmark"]),
)
def test_the_length_of_an_example_shows_that_of_its_image(size: int, key: str, layout: str) -> None:
    made = ExampleEncoder(LAYOUTS[layout])
    image = checked(bytes(size), key=key)
    empty = image._replace(data=b"")
    length = len(made.encode(image))
    assert made.image_bytes(empty, length) == size
    assert made.image_bytes(empty, length + 1) in (None, size + 1)


def test_no_image_gives_an_example_that_is_too_short() -> None:
    made = ExampleEncoder(LAYOUTS["slim"])
    assert made.image_bytes(checked(b""), 20) is None
    without = ExampleEncoder([Feature("id", "label.id", "int64")])
    assert without.image_bytes(checked(b""), 20) is None


# Values of an Example are those of the library that decodes all of it.

LISTS = (
    st.lists(st.binary(max_size=200), max_size=2)
    | st.lists(st.integers(-(2**63), 2**63 - 1), max_size=2)
    | st.lists(st.floats(width=32, allow_nan=False), max_size=2)
)
# The library ends a name at a NUL.
PLAIN_NAMES = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=9)
EXAMPLES = st.dictionaries(PLAIN_NAMES, LISTS, max_size=6)


def serialized(values: dict[str, list[Any]]) -> bytes:
    features = tf.train.Features()
    for name, each in values.items():
        kind = {bytes: "bytes_list", int: "int64_list", float: "float_list"}
        lists = [kind[type(value)] for value in each[:1]] or ["bytes_list"]
        getattr(features.feature[name], lists[0]).value.extend(each)
    return bytes(tf.train.Example(features=features).SerializeToString(deterministic=True))


@given(values=EXAMPLES)
@example(values={"a": [b"x" * 20_000], "b": [b""], "": [b"\x0a\x01"], "c": [b"1", b"2"]})
def test_the_only_bytes_of_a_feature_are_found(values: dict[str, list[Any]]) -> None:
    found = decode_example(serialized(values))
    for name, held in {**values, "no such name": []}.items():
        if len(held) == 1 and isinstance(held[0], bytes):
            assert only_bytes(found, name) == held[0]
        else:
            with pytest.raises(ValueError, match=f"no single value of {re.escape(repr(name))}"):
                only_bytes(found, name)


def test_many_numbers_are_refused_and_many_bytes_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """A number takes seventeen times its bytes, and gzip holds a thousand in each byte."""
    monkeypatch.setattr(decoder, "_MOST_NUMBERS", 1 << 23)
    size, field = (1 << 23) + 100, length_delimited

    def of_one(
        kind: int, values: bytes, features: int = 1, *, more: bytes = b"", behind: bytes = b""
    ) -> bytes:
        feature = field(1, b"n") + field(2, field(kind, values) + more) + behind
        return field(1, field(1, feature) * features)

    one, empty = field(1, bytes(size)), field(1, b"") * (1 << 19)
    refused = [of_one(2, one), of_one(3, one), of_one(1, b"", 17_000)]
    refused += [of_one(1, b"", more=more) for more in (empty, field(3, one))]
    for record in (*refused, of_one(1, empty)):
        with pytest.raises(ValueError, match="^it has more than 8388608 bytes of numbers and nam"):
            decode_example(record)
    behind = of_one(1, b"", behind=field(2, field(3, one)))
    for record in (behind, of_one(1, b"") + of_one(3, one)):
        with pytest.raises(ValueError, match="^its bytes are not a tf.train.Example"):
            decode_example(record)
    assert len(decode_example(of_one(1, one))["n"][0]) == size
