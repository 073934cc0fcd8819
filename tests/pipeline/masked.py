"""Photos with masks, and what tests ask of their datasets."""

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

HEIGHT, WIDTH = 12, 16
ENCODED, FORMAT = "image/segmentation/class/encoded", "image/segmentation/class/format"


def indices(seed: int) -> np.ndarray[Any, Any]:
    """The class of each pixel."""
    found = np.random.default_rng(seed).integers(0, 5, (HEIGHT, WIDTH), dtype=np.uint8)
    found[0] = 255
    return found


def mask(seed: int, *, has_palette: bool = True) -> Image.Image:
    """A mask of these classes."""
    image = Image.fromarray(indices(seed))
    return indexed(image) if has_palette else image


def write_masked(folder: Path) -> Path:
    """Four photos in two folders, and a mask of each: every other one with a palette."""
    (folder / "masks").mkdir(parents=True)
    for number in range(4):
        draw(folder / "photos" / ("a", "b")[number % 2] / f"{number}.jpg", seed=number)
        mask(number, has_palette=number % 2 == 0).save(folder / "masks" / f"{number}.png")
    return folder


def flags(inputs: Path, **more: Any) -> dict[str, Any]:
    """The flags for such a folder."""
    return {"images": f"{inputs}/photos/*/*.jpg", "masks": f"{inputs}/masks/*.png", **more}


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
