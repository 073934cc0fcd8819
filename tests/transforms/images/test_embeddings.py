"""What is stored of a model's output."""

from __future__ import annotations

import numpy as np
import pytest

from transforms.images.embeddings import read_bfloat16, stored_embedding


@pytest.mark.parametrize(
    ("bits", "stored"),
    [
        (0x3F800000, "803f"),
        (0x3F808000, "803f"),  # a tie, to even
        (0x3F808001, "813f"),
        (0x3F818000, "823f"),  # a tie, to even
        (0x80000001, "0080"),
        (0x7F7F7FFF, "7f7f"),  # the largest that is finite
    ],
)
def test_bfloat16_is_the_nearest(bits: int, stored: str) -> None:
    value = np.array([bits], np.uint32).view(np.float32)
    assert stored_embedding(value, "bfloat16").hex() == stored
    exact = np.array([int.from_bytes(bytes.fromhex(stored), "little") << 16], np.uint32)
    read = read_bfloat16(bytes.fromhex(stored))
    assert read.dtype == np.float32 and read.tobytes() == exact.tobytes()


def test_float32_is_stored_as_it_is() -> None:
    assert stored_embedding(np.array([[1, -2]], np.float32), "float32").hex() == "0000803f000000c0"
