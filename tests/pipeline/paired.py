"""Photos with masks and further images, for tests of `--reuse`."""

from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from tests.conftest import draw
from tests.images import indexed

HEIGHT, WIDTH, COUNT = 12, 16, 8


def draw_mask(path: Path, *, seed: int) -> None:
    """A mask; those with even seeds have a palette, so they are not stored as they are."""
    values = np.random.default_rng(seed).integers(0, 5, (HEIGHT, WIDTH), dtype=np.uint8)
    image = Image.fromarray(values)
    if seed % 2 == 0:
        image = indexed(image)
    path.parent.mkdir(parents=True, exist_ok=True)
    # All of them have the same size in bytes.
    image.save(path, "PNG", compress_level=0)


def write_pairs(folder: Path) -> Path:
    """Eight photos of two classes, each with a mask and a right view."""
    for number in range(COUNT):
        draw(folder / "photos" / ("a", "b")[number % 2] / f"{number}.jpg", seed=number)
        draw_mask(folder / "masks" / f"{number}.png", seed=number)
        draw(folder / "right" / f"{number}.jpg", seed=20 + number)
    return folder


def flags_of(inputs: Path, **more: Any) -> dict[str, Any]:
    """The flags for their photos and masks."""
    flags = {
        "images": f"{inputs}/photos/*/*.jpg",
        "masks": f"{inputs}/masks/*.png",
        "label_from": "directory",
        "num_shards": 3,
        "key": "stem",
        "max_rejected": "100%",
    }
    return {**flags, **more}


def with_layout(inputs: Path, features: str = "image: image.bytes") -> dict[str, Any]:
    """Flags with a mask and a right view of each photo, named by a layout file."""
    layout = inputs / "stereo.yaml"
    layout.write_text(
        f"images: {{right: {inputs}/right/*.jpg}}\n"
        f"masks: {{hand: {inputs}/masks/*.png}}\n"
        f"features: {{{features}, right: images.right.bytes, right_path: images.right.path, "
        "right_format: images.right.format, hand: masks.hand.bytes}\n"
    )
    return flags_of(inputs, layout=layout, masks=None)


def new_pair(inputs: Path) -> None:
    """Adds a photo with its mask."""
    draw(inputs / "photos" / "a" / "new.jpg", seed=99)
    draw_mask(inputs / "masks" / "new.png", seed=99)
