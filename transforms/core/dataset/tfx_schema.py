"""`schema.pbtxt`: the features for TFX, as a `tensorflow_metadata` schema."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2

from transforms.core.features.feature_sources import Role
from transforms.core.features.layouts import Feature

_TYPES = {"bytes": schema_pb2.BYTES, "int64": schema_pb2.INT, "float": schema_pb2.FLOAT}


def schema_text(
    features: Sequence[Feature],
    *,
    class_names: Sequence[str],
    id_count: int | None,
    first_id: int = 0,
) -> str:
    """The schema of Examples, as protobuf's text.

    A feature that every Example has is of fixed shape and becomes a dense tensor; a list becomes a
    sparse or a ragged one.

    Args:
        features: of the Examples.
        class_names: in the order of the class ids.
        id_count: lines of `labels.txt`, or None when the ids have none.
        first_id: the lowest id that a label may have.
    """
    schema = schema_pb2.Schema()
    for feature in features:
        entry = schema.feature.add(name=feature.name, type=_TYPES[feature.dtype])
        if feature.is_list:
            entry.value_count.min = 0
        else:
            entry.presence.min_fraction = 1
            entry.presence.min_count = 1
            entry.shape.SetInParent()
            for size in () if feature.encoding else feature.shape or ():
                entry.shape.dim.add(size=size)
        _add_domain(entry, feature.role, class_names, id_count, first_id)
    text: str = text_format.MessageToString(schema, as_utf8=True)
    return text


def _add_domain(
    entry: Any, role: Role, class_names: Sequence[str], id_count: int | None, first_id: int
) -> None:
    """Sets the domain of the values, if their role defines one."""
    if role in (Role.IMAGE, Role.MASK, Role.FURTHER_IMAGE, Role.OBJECT_MASK):
        entry.image_domain.SetInParent()
    elif role is Role.CLASS_ID:
        entry.int_domain.is_categorical = True
        if id_count is not None:
            entry.int_domain.min = first_id
            entry.int_domain.max = id_count - 1
    elif role is Role.CLASS_TEXT and class_names:
        entry.string_domain.value.extend(class_names)
    elif role is Role.MARK:
        entry.int_domain.min = 0
        entry.int_domain.max = 1
    elif role is Role.COORDINATE:
        entry.float_domain.min = 0
        entry.float_domain.max = 1
