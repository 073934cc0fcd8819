"""Writes planned shards of drawn images, for tests of what is written and what is kept."""

from pathlib import Path
from typing import Any

import apache_beam as beam

from tests.transforms.beam import collect, make_images
from transforms.convert_images import ImageConverter
from transforms.core.records import PlannedImage
from transforms.dataset.dataset_options import DatasetOptions
from transforms.dataset.ledger import ShardSummary
from transforms.dataset.manifest import Dataset
from transforms.dataset_files import DatasetTarget
from transforms.examples.layouts import LAYOUTS
from transforms.images.pixel_options import AS_THEY_ARE, CheckOptions, PixelOptions
from transforms.labels.shards import ShardPlan
from transforms.records.image_origins import Origins
from transforms.write_shards import WriteShards


class _Described(Dataset):
    """The description of a dataset with a given digest."""

    @property
    def digest(self) -> str:
        return str(self.options["digest"])


NAME = "train-00000-of-00001.tfrecord"


def plan(folder: Path, names: list[str]) -> list[PlannedImage]:
    """Images in the order of their names; those that do not exist yet are drawn."""
    make_images(folder, [name for name in names if not (folder / name).exists()])
    return [
        PlannedImage(
            order, name, name, (folder / name).stat().st_size, 0, f"label {order % 2}", order
        )
        for order, name in enumerate(names)
    ]


def write(
    root: Path,
    output: Path,
    shards: list[tuple[str, list[PlannedImage]]],
    *,
    digest: str = "options",
    gzip: bool = False,
    overwrite: bool = False,
    pixels: PixelOptions = AS_THEY_ARE,
) -> list[ShardSummary]:
    checks = CheckOptions(max_pixels=10**6, max_bytes=10**6, dedupe="off")
    features = LAYOUTS["slim"]
    target = DatasetTarget(
        DatasetOptions(output=str(output), overwrite=overwrite),
        checks,
        _Described({"digest": digest}, {}, "", features, ()),
        ImageConverter(origins=Origins(str(root)), features=features, checks=checks, pixels=pixels),
        ShardPlan((), shard_size=1, num_shards=None, gzip=gzip),
    )

    def construct(pipeline: beam.Pipeline) -> dict[str, Any]:
        written = pipeline | "Shards" >> beam.Create(shards) | "Write" >> WriteShards(target)
        return {"shards": written.shards}

    return collect(construct)["shards"]


def staged(output: Path) -> dict[str, Path]:
    """Shards in the staging folder, without their sidecars and indexes, by name."""
    files = (output / ".staging").iterdir()
    return {p.name: p for p in files if p.suffix not in (".json", ".parquet")}


def identity(path: Path) -> tuple[int, int]:
    return path.stat().st_ino, path.stat().st_mtime_ns
