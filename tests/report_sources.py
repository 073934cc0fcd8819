"""What a report is made of, for datasets of any size that nobody has to convert."""

import base64
import math
import random
from collections import Counter
from typing import Any

from transforms.core.rejections import Rejection
from transforms.dataset.manifest import FORMAT_VERSION
from transforms.report.page import Sources
from transforms.selection.duplicates import SHOWN_TWINS


def histogram(values: list[float]) -> dict[str, Any]:
    """Least, most, sum and bins of quarter octaves."""
    bins = Counter(str(math.floor(4 * math.log2(value))) for value in values)
    return {"min": min(values), "max": max(values), "sum": sum(values), "bins": dict(bins)}


def make_manifest(
    classes: int = 3, images: int = 60, shards: int = 2, name: str = "class", splits: int = 2
) -> dict[str, Any]:
    """A manifest of any size."""
    names = [f"{name} {number}" for number in range(classes)]
    each = {label: images // classes // splits for label in names}
    records = sum(each.values())
    shard = {"recipe": "0" * 32, "records": 9, "bytes": 150_000_000, "crc32c": "01234567"}
    files = [f"00{at:03}-of-{shards:05}.tfrecord" for at in range(shards)]
    return {
        "format_version": FORMAT_VERSION,
        "recipe": "f" * 32,
        "options": {"seed": 0, "exif_orientation": "keep", "class_names": None},
        "inputs": {"images": [f"{name}/*.jpg"]},
        "root": name,
        "versions": {"pillow": "12.3.0"},
        "features": [{"name": "image/encoded", "source": "image.bytes", "dtype": "bytes"}],
        "ledger": {
            "images_matched": splits * records + 4,
            "records_written": splits * records,
            "images_rejected": 4,
            "rows_read": 0,
        },
        "rejected": {"empty_file": 4},
        "splits": {
            f"split-{at}": {
                "records": records,
                "bytes": 10**9,
                "image_bytes": 10**9,
                "classes": each,
                "shards": [{"file": f"split-{at}-{file}", **shard} for file in files],
            }
            for at in range(splits)
        },
        "files": {"labels.txt": {"bytes": 1, "crc32c": "01234567"}},
    }


def make_image(at: int, name: str = "class") -> dict[str, Any]:
    """An image as `statistics.json` names it."""
    place = {"file": f"{at}.tfrecord", "offset": 16 * at, "length": 9}
    return {"key": f"{at}", "path": f"{name}/{at}.jpg", "class": name, "split": "split-0", **place}


def make_statistics(samples: int, groups: int, name: str = "class") -> dict[str, Any]:
    """Statistics with as many lists as there can be."""
    values = [random.Random(at).lognormvariate(7, 1) for at in range(500)]
    images = [make_image(at, name) for at in range(samples)]
    exact = [[make_image(1000 + 20 * at + n, name) for n in range(20)] for at in range(groups)]
    near = [[make_image(5000 + 2 * at + n, name) for n in range(2)] for at in range(groups)]
    counts = {"groups": groups, "images": 20 * groups, "across_splits": 1, "conflicts": 1}
    return {
        "images": 1_000_000,
        "formats": {"jpeg": 999_999, "png": 1},
        "orientations": {"1": 5, "6": 2},
        **{each: histogram(values) for each in ("width", "height", "bytes", "aspect")},
        "samples": images,
        "duplicates": {
            "exact": {
                **counts,
                "dropped": 0,
                "listed": [{"sha256": "", "conflict": True, "images": each} for each in exact],
            },
            "near": {
                "pairs": groups,
                "across_splits": 1,
                "compared": 9,
                "listed": [{"distance": 2, "images": each} for each in near],
            },
        },
    }


def make_sources(
    manifest: dict[str, Any],
    statistics: dict[str, Any],
    rejections: list[Rejection],
    picture_bytes: int = 0,
    name: str = "photos",
) -> Sources:
    """Sources with a picture of this many bytes wherever there can be one."""
    uri = "data:image/jpeg;base64," + base64.b64encode(b"x" * picture_bytes).decode()
    duplicates = statistics.get("duplicates") or {}
    images = [*statistics.get("samples", ())]
    for kind in duplicates.values():
        images += [image for group in kind["listed"] for image in group["images"][:SHOWN_TWINS]]
    picture = {"uri": uri, "height": 300, "width": 400}
    pictures = {(image["file"], image["offset"]): picture for image in images}
    rejected = {rejection.path: uri for rejection in rejections[:48]}
    return Sources(
        name, manifest, statistics, rejections, pictures, rejected, ["lost.tfrecord"], ["a."]
    )
