"""Formats of other loaders, each written by its own library as its guide shows.

`litdata` (`optimize`), `mosaic` (`MDSWriter`), `webdataset` (`ShardWriter`) and `datasets` (Hugging
Face, to Parquet) copy the bytes of a file: none checks a pixel. Height and width come from the
header, through Pillow. Each needs the environment of its name of `benchmarks/environments.py`.
The last line is JSON; `seconds` counts from the first import to the last closed file.
"""

from __future__ import annotations

import argparse
import functools
import glob
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from class_labels import read_labels

_START = time.perf_counter()

from PIL import Image  # noqa: E402 - the import is timed

_SHARDS = 8


def _sample(path: str, *, label_of: dict[str, int]) -> dict[str, Any]:
    """The fields of one file."""
    with Image.open(path) as picture:  # the header only
        width, height = picture.size
        format_ = str(picture.format).lower()
    data, label = Path(path).read_bytes(), label_of[Path(path).stem]
    return {"image": data, "format": format_, "label": label, "height": height, "width": width}


_Sample = Callable[[str], dict[str, Any]]


def _litdata(paths: list[str], sample: _Sample, output: str) -> None:
    """Chunks of LitData, written by two processes."""
    import litdata

    size = -(-len(paths) // _SHARDS)
    litdata.optimize(sample, paths, output, chunk_size=size, num_workers=2, verbose=False)


def _mosaic(paths: list[str], sample: _Sample, output: str) -> None:
    """Shards of MosaicML Streaming, of about an eighth of the bytes."""
    from streaming import MDSWriter

    columns = {"image": "bytes", "format": "str"}
    columns |= dict.fromkeys(("label", "height", "width"), "int")
    limit = sum(map(os.path.getsize, paths)) // _SHARDS + (1 << 14)
    with MDSWriter(out=output, columns=columns, size_limit=limit, exist_ok=True) as writer:
        for path in paths:
            writer.write(sample(path))


def _webdataset(paths: list[str], sample: _Sample, output: str) -> None:
    """Tars of WebDataset."""
    import webdataset

    size = -(-len(paths) // _SHARDS)
    with webdataset.ShardWriter(f"{output}/train-%05d.tar", maxcount=size, verbose=0) as writer:
        for path in paths:
            found = sample(path)
            meta = {name: found[name] for name in ("label", "height", "width")}
            key = Path(path).stem
            writer.write({"__key__": key, found["format"]: found["image"], "json": meta})


def _datasets(paths: list[str], sample: _Sample, output: str) -> None:
    """Parquet files of Hugging Face `datasets`."""
    import datasets

    def generate() -> Iterator[dict[str, Any]]:
        for path in paths:
            found = sample(path)
            yield {**found, "image": {"path": os.path.basename(path), "bytes": found["image"]}}

    numbers = dict.fromkeys(("label", "height", "width"), datasets.Value("int64"))
    features = {"image": datasets.Image(), "format": datasets.Value("string"), **numbers}
    made = datasets.Dataset.from_generator(
        generate, features=datasets.Features(features), cache_dir=f"{output}/cache"
    )
    for number in range(_SHARDS):
        shard = made.shard(_SHARDS, number, contiguous=True)
        shard.to_parquet(f"{output}/train-{number:05d}-of-{_SHARDS:05d}.parquet")


_WRITERS = {
    "litdata": _litdata,
    "mosaic": _mosaic,
    "webdataset": _webdataset,
    "datasets": _datasets,
}


def main() -> None:
    """Runs the conversion of the command line and prints the count and the time."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("format", choices=_WRITERS)
    parser.add_argument("--images", required=True, metavar="GLOB")
    parser.add_argument("--labels", required=True, metavar="CSV")
    parser.add_argument("--output", required=True, metavar="DIR")
    args = parser.parse_args()
    os.makedirs(args.output, exist_ok=True)
    os.environ.setdefault("HF_DATASETS_DISABLE_PROGRESS_BARS", "1")
    paths = sorted(glob.glob(args.images))
    sample = functools.partial(_sample, label_of=read_labels(args.labels))
    _WRITERS[args.format](paths, sample, args.output)
    print(json.dumps({"records": len(paths), "seconds": time.perf_counter() - _START}))


if __name__ == "__main__":
    main()
