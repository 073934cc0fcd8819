"""Images as the encoder gets them, and what a layout of lists says of one."""

from typing import Any

import numpy as np

from transforms.core.records import PlannedImage
from transforms.images.checked_images import CheckedImage, ImageInfo
from transforms.images.pixel_options import Original

OBJECTS = {
    "image/class/label": [3, 7],
    "image/class/text": [b"cat", b"dog"],
    "image/object/class/label": [3, 7, 3],
    "image/object/class/text": [b"cat", b"dog", b"cat"],
    "image/object/bbox/xmin": [0.0, 0.1, 1 / 3],
    "image/object/bbox/xmax": [0.5, 0.2, 1.0],
    "image/object/bbox/ymin": [0.0, 0.0, 0.9],
    "image/object/bbox/ymax": [1.0, 0.25, 0.95],
    "image/object/area": [12.5, 3.0, 0.0],
    "image/object/is_crowd": [0, 1, 0],
    "image/object/difficult": [0, 0, 1],
    "image/object/group_of": [1, 0, 0],
    "image/object/truncated": [0, 1, 1],
    "image/object/view": [b"Left", b"", b"Unspecified"],
    "image/object/mask": [b"\x89PNG", b"", bytes(300)],
}


def checked(
    data: bytes = b"\xff\xd8\xff",
    *,
    key: str = "1",
    label: str = "cat",
    label_id: int = 0,
    info: ImageInfo | None = None,
    values: dict[str, Any] | None = None,
) -> CheckedImage:
    """An image that was checked; its embedding has a length of its own."""
    image = PlannedImage(0, key, f"photos/{key}.jpg", len(data), 0, label, label_id)
    found = info or ImageInfo("jpeg", 37, 45, 3)
    embedding = np.arange(1 + label_id % 400, dtype="<f4").tobytes()
    return CheckedImage(
        data, found, Original(37, 45, 1), image=image, values=values or {}, embedding=embedding
    )
