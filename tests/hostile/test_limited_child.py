"""The limits of the child that decodes suspects, against files that nothing else refuses."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator

import pytest
from PIL import Image

from transforms.core.rejections import Reason
from transforms.images.guard import Budget, DecoderFailure, DecodingChild

TAGS = 4_000
SHARED_BYTES = 1 << 20


@pytest.fixture
def child() -> Iterator[DecodingChild]:
    made = DecodingChild()
    yield made
    made.close()


def tag_bomb() -> bytes:
    """A TIFF whose tags all point at the same megabyte: Pillow copies it for each."""
    size = {256: 8, 257: 8, 258: 8, 259: 1, 262: 1, 277: 1}
    start = 8 + 2 + 12 * (TAGS + len(size)) + 4
    entries = [struct.pack("<HHII", tag, 3, 1, value) for tag, value in size.items()]
    entries += [struct.pack("<HHII", 1000 + n, 7, SHARED_BYTES, start) for n in range(TAGS)]
    directory = struct.pack("<H", len(entries)) + b"".join(entries) + bytes(4)
    return b"II*\0" + struct.pack("<I", 8) + directory + bytes(SHARED_BYTES)


def test_tags_of_four_gigabytes_cost_their_image(child: DecodingChild) -> None:
    data = tag_bomb()
    assert len(data) < 1_200_000
    budget = Budget.of_pixels(10**6)
    with pytest.raises(DecoderFailure) as raised:
        child.call(budget, Image.open, io.BytesIO(data))
    assert raised.value.reason is Reason.TOO_COSTLY
    assert raised.value.detail == "decoding takes more than 527 MB of memory"
    # It continues with the same process.
    assert child.call(budget, len, data) == len(data)
    assert child.started == 1
