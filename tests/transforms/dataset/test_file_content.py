"""Sizes and checksums: those of a file in parts are those of the joined file."""

from __future__ import annotations

import google_crc32c
from hypothesis import given
from hypothesis import strategies as st

from transforms.core.records import RejectedPart
from transforms.dataset.manifest import content_summary, crc32c_hex, in_parts, joined_crc32c


@given(st.lists(st.binary(max_size=40), max_size=5))
def test_parts_have_the_summary_of_their_bytes(texts: list[bytes]) -> None:
    parts = [
        RejectedPart(number, f"part {number}", 1, *content_summary(text))
        for number, text in enumerate(texts)
    ]
    whole = in_parts(parts[::-1])
    assert [part.bytes for part in whole] == [len(text) for text in texts if text]
    assert content_summary(whole) == content_summary(b"".join(texts))


def test_large_parts() -> None:
    one, other = bytes(range(256)) * 999, b"\0" * 1_000_003
    checksums = (google_crc32c.value(one), google_crc32c.value(other))
    assert joined_crc32c(*checksums, len(other)) == google_crc32c.value(one + other)


def test_crc32c_has_eight_digits() -> None:
    assert crc32c_hex(b"") == "00000000"
