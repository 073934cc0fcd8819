"""The record of an image comes back whole from a child process."""

from __future__ import annotations

import pickle

from transforms.images.check import CheckedImage, ImageInfo
from transforms.images.pixel_options import Original


def test_a_decoded_image_can_be_pickled() -> None:
    """The child that decodes a suspect sends it, with the fields that are still empty."""
    decoded = CheckedImage(b"\xff\xd8", ImageInfo("jpeg", 3, 4, 1), Original(3, 4, 1))
    assert pickle.loads(pickle.dumps(decoded)) == decoded
