"""What in a record is its class, its key and its image."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from transforms.examples.decoder import RecordFields


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
    for wanted in ("1", "dog", "leg", "tail"):
        assert fields.has_class(example, wanted)
    for wanted in ("0", "cat", "7", "le"):
        assert not fields.has_class(example, wanted)


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
