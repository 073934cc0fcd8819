"""Values of an Example are those of the library that decodes all of it."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.lazy import lazy_module
from transforms.examples.decoder import decode_example, only_bytes

tf = lazy_module("tensorflow")

VALUES = (
    st.lists(st.binary(max_size=200), max_size=2)
    | st.lists(st.integers(-(2**63), 2**63 - 1), max_size=2)
    | st.lists(st.floats(width=32, allow_nan=False), max_size=2)
)
# The library ends a name at a NUL.
NAMES = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=9)
EXAMPLES = st.dictionaries(NAMES, VALUES, max_size=6)


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
    data = serialized(values)
    for name, held in values.items():
        if len(held) == 1 and isinstance(held[0], bytes):
            assert only_bytes(data, name) == held[0] == decode_example(data)[name][0]
        else:
            with pytest.raises(ValueError, match="no single value of|not a tf.train.Example"):
                only_bytes(data, name)
    with pytest.raises(ValueError, match="no single value of 'no such name'"):
        only_bytes(data, "no such name")


@given(data=st.data(), values=EXAMPLES)
def test_damage_is_a_value_or_an_error(data: st.DataObject, values: dict[str, list[Any]]) -> None:
    damaged = bytearray(serialized(values))
    for at in data.draw(st.lists(st.integers(0, max(0, len(damaged) - 1)), max_size=3)):
        damaged[at:at] = data.draw(st.binary(max_size=3))
    cut = bytes(damaged[: data.draw(st.integers(0, len(damaged)))])
    for name in (*values, "other"):
        with contextlib.suppress(ValueError):
            assert only_bytes(cut, name) in cut


def test_many_numbers_are_refused_and_many_bytes_are_not() -> None:
    """A number takes seventeen times its bytes, and gzip holds a thousand in each byte."""
    size = (1 << 24) + 100

    def field(tag: int, data: bytes) -> bytes:
        length = len(data)
        return (
            bytes([tag, *(length >> at & 0x7F | 0x80 for at in (0, 7, 14, 21)), length >> 28])
            + data
        )

    def of_one(kind: int) -> bytes:
        feature = field(kind, field(0x0A, bytes(size)))
        return field(0x0A, field(0x0A, field(0x0A, b"n") + field(0x12, feature)))

    for kind in (0x12, 0x1A):
        with pytest.raises(
            ValueError, match="^it has more than 16777216 bytes of numbers and names$"
        ):
            decode_example(of_one(kind))
    assert len(decode_example(of_one(0x0A))["n"][0]) == size
