"""Examples are the bytes of TensorFlow's own classes, sorted, whatever the batch."""

from __future__ import annotations

import hashlib
import random
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.transforms.core.checked_images import OBJECTS, checked
from transforms.core.examples import encoder
from transforms.core.examples.encoder import (
    CheckedImage,
    ExampleEncoder,
    decode_example,
    sort_features,
)
from transforms.core.features.layouts import LAYOUTS, Feature, layout_features
from transforms.core.images.check import ImageInfo

NO_OBJECTS: dict[str, Any] = {name: [] for name in OBJECTS}
# What the encoder may meet: other scripts, no label, negative ids, no bytes, long values.
BATCH = [
    checked(values=OBJECTS),
    checked(key="한강 공원", label="한강", label_id=127, values=NO_OBJECTS),
    checked(label="", label_id=-1, info=ImageInfo("png", 1, 2**20, 4), values=OBJECTS),
    checked(b"", key="no bytes", label_id=-(2**63), values=NO_OBJECTS),
    checked(
        bytes(range(256)) * 80,
        key="k" * 300,
        label="l" * 20_000,
        label_id=2**63 - 1,
        values=OBJECTS,
    ),
    checked(
        b"\0" * 20_000,
        key="\N{GRINNING FACE}\0",
        label="e\u0301 tab\t",
        label_id=128,
        values=NO_OBJECTS,
    ),
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
    assert ExampleEncoder(features).encode(BATCH) == [expected(i, features) for i in BATCH]


def test_a_record_is_the_same_for_ever() -> None:
    [example] = ExampleEncoder(LAYOUTS["landmark"]).encode([checked(b"\1\2", label_id=300)])
    # 0A SIZE ( 0A SIZE (0A NAME) (12 FEATURE) ) ... , features sorted by name.
    assert example == (
        b"\x0a\x39"
        b"\x0a\x0b" + b"\x0a\x02id" + b"\x12\x05\x0a\x03\x0a\x011"
        b"\x0a\x13" + b"\x0a\x09image_raw" + b"\x12\x06\x0a\x04\x0a\x02\1\2"
        b"\x0a\x15" + b"\x0a\x0blandmark_id" + b"\x12\x06\x1a\x04\x0a\x02\xac\x02"
    )


def test_repeats_give_equal_bytes() -> None:
    encoder = ExampleEncoder(LAYOUTS["slim"])
    first = encoder.encode(BATCH)
    assert all(encoder.encode(BATCH) == first for _ in range(200))
    assert ExampleEncoder(LAYOUTS["slim"]).encode(BATCH) == first


def test_bytes_do_not_depend_on_the_batch_nor_on_the_order_of_the_layout() -> None:
    features = LAYOUTS["slim"]
    together = ExampleEncoder(features).encode(BATCH)
    turned = ExampleEncoder(features[::-1])
    assert [turned.encode([image])[0] for image in BATCH] == together


def test_an_empty_batch_is_no_example() -> None:
    assert ExampleEncoder(LAYOUTS["slim"]).encode([]) == []


def varint(value: int) -> bytes:
    encoded = b""
    while value > 0x7F:
        encoded += bytes([value & 0x7F | 0x80])
        value >>= 7
    return encoded + bytes([value])


def field(number: int, body: bytes) -> bytes:
    return bytes([number << 3 | 2]) + varint(len(body)) + body


NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.integers(120, 140).map(
    "n".__mul__
)
VALUES = (
    st.binary(max_size=300)
    | st.sampled_from([b"x" * length for length in (127, 128, 16_383, 16_384, 40_000)])
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(width=32, allow_nan=False)
)


def as_feature(value: bytes | int | float) -> tf.train.Feature:
    if isinstance(value, bytes):
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))
    if isinstance(value, int):
        return tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))
    return tf.train.Feature(float_list=tf.train.FloatList(value=[value]))


@settings(deadline=None)
@given(st.dictionaries(NAMES, VALUES, min_size=1, max_size=8), st.randoms(use_true_random=False))
def test_any_order_of_the_features_is_sorted(
    values: dict[str, bytes | int | float], source: random.Random
) -> None:
    features = {name: as_feature(value) for name, value in values.items()}
    entries = {
        name.encode(): field(1, field(1, name.encode()) + field(2, feature.SerializeToString()))
        for name, feature in features.items()
    }
    shuffled = field(1, b"".join(source.sample(list(entries.values()), len(entries))))
    in_order = sort_features(shuffled)
    assert in_order == field(1, b"".join(entries[name] for name in sorted(entries)))
    assert tf.train.Example.FromString(in_order) == tf.train.Example(
        features=tf.train.Features(feature=features)
    )


# Protobuf for Python puts a name after those that it begins, protobuf for C++ before them. With
# the NUL at their ends no name begins another.
APART = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")).map(
    "{}\0".format
)


@settings(deadline=None)
@given(st.dictionaries(APART, VALUES, min_size=1, max_size=8))
def test_sorted_features_are_the_bytes_of_tensorflow(
    values: dict[str, bytes | int | float],
) -> None:
    features = {name: as_feature(value) for name, value in values.items()}
    example = tf.train.Example(features=tf.train.Features(feature=features))
    in_order = example.SerializeToString(deterministic=True)
    assert sort_features(example.SerializeToString()) == in_order
    assert sort_features(in_order) == in_order


def test_decode_example_reads_what_was_encoded() -> None:
    [record] = ExampleEncoder(LAYOUTS["slim"]).encode([checked(b"\0\1", label="한강", label_id=-7)])
    decoded = decode_example(record)
    assert {name: value.tolist() for name, value in decoded.items()} == {
        "image/encoded": [b"\0\1"],
        "image/format": [b"jpeg"],
        "image/class/label": [-7],
        "image/class/text": ["한강".encode()],
        "image/height": [37],
        "image/width": [45],
        "image/filename": [b"photos/1.jpg"],
    }
    assert decoded["image/height"].dtype == np.int64


@pytest.mark.parametrize("data", [b"\xff", b"nonsense", b"\x0a\x05abc"])
def test_decode_example_refuses_other_bytes(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"no tf\.train\.Example"):
        decode_example(data)


def test_the_encoder_needs_neither_tensorflow_nor_beam() -> None:
    script = (
        "import sys\n"
        "from transforms.core.examples.encoder import ExampleEncoder\n"
        "from transforms.core.features.layouts import LAYOUTS\n"
        "ExampleEncoder(LAYOUTS['slim']).encode([])\n"
        "print(sorted({'tensorflow', 'apache_beam'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("[]\n", 0), done.stderr


@pytest.mark.parametrize("layout", LAYOUTS)
def test_only_layouts_that_ask_for_it_pay_for_sha256(
    layout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[bytes] = []

    def sha256(data: bytes) -> Any:
        calls.append(data)
        return hashlib.blake2b(data)

    monkeypatch.setattr(encoder, "hashlib", SimpleNamespace(sha256=sha256))
    ExampleEncoder(LAYOUTS[layout]).encode(BATCH)
    asks = any(feature.source == "image.sha256" for feature in LAYOUTS[layout])
    assert len(calls) == (len(BATCH) if asks else 0)
    assert asks == (layout == "detection")
