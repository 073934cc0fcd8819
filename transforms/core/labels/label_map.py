"""`label_map.pbtxt`: names and ids of classes for the Object Detection API."""

from __future__ import annotations

from collections.abc import Mapping

from google.protobuf import text_encoding


def label_map(class_ids: Mapping[str, int]) -> str:
    """A `StringIntLabelMap` (object_detection/protos/string_int_label_map.proto) as text.

    Args:
        class_ids: the id of each class by its name, from 1: the reader keeps 0 for the background.

    >>> print(label_map({"cat": 1}), end="")
    item {
      id: 1
      name: "cat"
    }
    """
    return "".join(
        f'item {{\n  id: {number}\n  name: "{text_encoding.CEscape(name, as_utf8=True)}"\n}}\n'
        for name, number in class_ids.items()
    )
