"""Writes the `statistics.json` of a converted dataset by reading its shards.

By the description of the file alone: what makes it in the product has tests of its own.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import math
import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from transforms.core.examples import decode_example
from transforms.core.manifest import STATISTICS, crc32c_hex

PER_CLASS = 6
NEAR = 6


def write_statistics(folder: Path) -> dict[str, Any]:
    """Adds the file to a dataset and to its manifest; gives its content."""
    manifest = json.loads((folder / "manifest.json").read_text("utf-8"))
    statistics = statistics_of(folder, manifest)
    text = json.dumps(statistics).encode()
    (folder / STATISTICS).write_bytes(text)
    manifest["files"][STATISTICS] = {"bytes": len(text), "crc32c": crc32c_hex(text)}
    (folder / "manifest.json").write_text(json.dumps(manifest, indent=1, ensure_ascii=False))
    return statistics


def statistics_of(folder: Path, manifest: Mapping[str, Any]) -> dict[str, Any]:
    """The statistics of a dataset in the layout `slim`."""
    images, formats, orientations = [], Counter[str](), Counter[str]()
    numbers: dict[str, list[float]] = {name: [] for name in ("width", "height", "bytes", "aspect")}
    for split, described in manifest["splits"].items():
        for place, record in _records(folder, split, described):
            example = decode_example(record)
            data = example["image/encoded"][0]
            picture = Image.open(io.BytesIO(data))
            formats[str(picture.format).lower()] += 1
            if tag := picture.getexif().get(0x0112):
                orientations[str(tag)] += 1
            width, height = picture.size
            values = (width, height, len(data), width / height)
            for name, value in zip(numbers, values, strict=True):
                numbers[name].append(value)
            path = example["image/filename"][0].decode()
            label = example["image/class/text"][0].decode()
            images.append(
                {"key": Path(path).stem, "path": path, "class": label, **place}
                | {"sha256": hashlib.sha256(data).hexdigest(), "hash": _hash(picture)}
            )
    return {
        "images": len(images),
        "formats": dict(sorted(formats.items())),
        "orientations": dict(sorted(orientations.items())),
        **{name: histogram(values) for name, values in numbers.items()},
        "samples": _samples(images),
        "duplicates": {"exact": _exact(images), "near": _near(images)},
    }


def histogram(values: list[float]) -> dict[str, Any]:
    """Least, most, sum and bins of quarter octaves."""
    bins = Counter(str(math.floor(4 * math.log2(value))) for value in values)
    return {"min": min(values), "max": max(values), "sum": sum(values), "bins": dict(bins)}


def _records(
    folder: Path, split: str, described: Mapping[str, Any]
) -> Iterator[tuple[dict[str, Any], bytes]]:
    for shard in described["shards"]:
        data = (folder / shard["file"]).read_bytes()
        data = gzip.decompress(data) if shard["file"].endswith(".gz") else data
        offset = 0
        while offset < len(data):
            (length,) = struct.unpack_from("<Q", data, offset)
            place = {"split": split, "file": shard["file"], "offset": offset, "length": length}
            yield place, data[offset + 12 : offset + 12 + length]
            offset += length + 16


def _hash(picture: Image.Image) -> int:
    """Whether each of 8x8 pixels is brighter than its neighbour, 64 bits."""
    small = np.asarray(picture.convert("L").resize((9, 8), Image.Resampling.BOX), np.int16)
    bits = (small[:, 1:] > small[:, :-1]).ravel()
    return int("".join(map(str, bits.astype(int))), 2)


def _public(image: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in image.items() if name not in ("sha256", "hash")}


def _samples(images: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The first of each class in an order that has nothing to do with their splits."""
    by_class: dict[str, list[Mapping[str, Any]]] = {}
    for image in sorted(images, key=lambda image: str(image["sha256"])):
        by_class.setdefault(image["class"], []).append(image)
    chosen = [one for _, of_class in sorted(by_class.items()) for one in of_class[:PER_CLASS]]
    return [{k: v for k, v in _public(one).items() if k != "path"} for one in chosen]


def _exact(images: list[dict[str, Any]]) -> dict[str, Any]:
    by_content: dict[str, list[dict[str, Any]]] = {}
    for image in images:
        by_content.setdefault(image["sha256"], []).append(image)
    groups = [
        {
            "sha256": digest,
            "conflict": len({image["class"] for image in group}) > 1,
            "images": [_public(image) for image in group],
        }
        for digest, group in sorted(by_content.items())
        if len(group) > 1
    ]
    groups.sort(key=lambda group: (not group["conflict"], not _crosses(group)))
    return {
        "groups": len(groups),
        "images": sum(len(group["images"]) for group in groups),
        "across_splits": sum(map(_crosses, groups)),
        "conflicts": sum(group["conflict"] for group in groups),
        "dropped": 0,
        "listed": groups[:100],
    }


def _near(images: list[dict[str, Any]]) -> dict[str, Any]:
    pairs = [
        {"distance": distance, "images": [_public(one), _public(other)]}
        for one, other in combinations(images, 2)
        if (distance := (one["hash"] ^ other["hash"]).bit_count()) <= NEAR
        and one["sha256"] != other["sha256"]
    ]
    pairs.sort(key=lambda pair: (not _crosses(pair), pair["distance"]))
    return {
        "pairs": len(pairs),
        "across_splits": sum(map(_crosses, pairs)),
        "compared": len(images),
        "listed": pairs[:100],
    }


def _crosses(group: Mapping[str, Any]) -> bool:
    return len({image["split"] for image in group["images"]}) > 1
