"""Photos with masks and further images, and what tests ask of their datasets."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from pipeline.random_access import Records
from tests.conftest import draw
from tests.images import indexed
from tests.pipeline.commands import Dataset
from transforms.examples.tfrecord import masked_crc32c

HEIGHT, WIDTH, COUNT = 12, 16, 8
ENCODED, FORMAT = "image/segmentation/class/encoded", "image/segmentation/class/format"


def indices(seed: int) -> np.ndarray[Any, Any]:
    """The class of each pixel."""
    found = np.random.default_rng(seed).integers(0, 5, (HEIGHT, WIDTH), dtype=np.uint8)
    found[0] = 255
    return found


def draw_mask(path: Path, *, seed: int) -> None:
    """A mask; those with even seeds have a palette, so they are not stored as they are."""
    image = Image.fromarray(indices(seed))
    if seed % 2 == 0:
        image = indexed(image)
    path.parent.mkdir(parents=True, exist_ok=True)
    # All of them have the same size in bytes.
    image.save(path, "PNG", compress_level=0)


def write_pairs(folder: Path, count: int = COUNT) -> Path:
    """Photos of two classes, each with a mask and a right view."""
    for number in range(count):
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
        f"masks: {{hand: ['{inputs}/masks/[01].png', '{inputs}/masks/[!01]*.png']}}\n"
        f"features: {{{features}, right: images.right.bytes, right_path: images.right.path, "
        "right_format: images.right.format, hand: masks.hand.bytes}\n"
    )
    return flags_of(inputs, layout=layout, masks=None)


def new_pair(inputs: Path) -> None:
    """Adds a photo with its mask."""
    draw(inputs / "photos" / "a" / "new.jpg", seed=99)
    draw_mask(inputs / "masks" / "new.png", seed=99)


def by_key(dataset: Dataset, **options: Any) -> dict[str, dict[str, Any]]:
    """The records of a dataset by the stems of their images."""
    records = Records(dataset.folder, "all", **options)
    return {Path(each["image/filename"].decode()).stem: each for each in records}


def reasons(dataset: Dataset) -> dict[str, tuple[str, str]]:
    """Subject and reason of each rejection by the name of its file."""
    return {Path(line["path"]).name: (line["subject"], line["reason"]) for line in dataset.rejected}


def damage_mask(dataset: Dataset, place: Callable[[bytes], int]) -> None:
    """Damages a byte of the first record before its checksum is made."""
    shard = dataset.folder / dataset.shards()[0]
    data = shard.read_bytes()
    length = int.from_bytes(data[:8], "little")
    record = data[12 : 12 + length]
    at = place(record)
    damaged = record[:at] + bytes([record[at] ^ 1]) + record[at + 1 :]
    crc = masked_crc32c(damaged).to_bytes(4, "little")
    shard.write_bytes(data[:12] + damaged + crc + data[16 + length :])
