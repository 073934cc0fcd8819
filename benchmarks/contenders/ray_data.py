"""Ray Data: `read_binary_files`, a map that decodes, `write_tfrecords`.

`read_images` would hand on pixels, which `write_tfrecords` cannot write, so the bytes are read and
decoded with Pillow, as `read_images` does itself. `repartition` makes the eight files.
Needs the environment `ray` of `benchmarks/environments.py`.
The last line is JSON; `seconds` counts from the first import to the last finished file, and so
includes starting Ray and stopping it.
"""

from __future__ import annotations

import argparse
import glob
import io
import json
import logging
import os
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
from class_labels import read_labels

_START = time.perf_counter()

import ray  # noqa: E402 - the import is timed
import ray.data  # noqa: E402 - the import is timed
from PIL import Image  # noqa: E402 - the import is timed

_IMPORT_SECONDS = time.perf_counter() - _START
_SHARDS = 8


def _features(row: dict[str, Any], *, label_of: dict[str, int]) -> dict[str, Any]:
    """The features of one file, which Pillow decodes for its size."""
    with Image.open(io.BytesIO(row["bytes"])) as picture:
        picture.load()
        width, height = picture.size
    return {
        "image/encoded": row["bytes"],
        "image/format": b"png" if row["path"].endswith(".png") else b"jpeg",
        "image/class/label": label_of[Path(row["path"]).stem],
        "image/height": height,
        "image/width": width,
    }


def convert(images: str, labels: str, output: str) -> int:
    """Converts the JPEGs that a glob matches and returns how many records were written."""
    paths = sorted(glob.glob(images))
    dataset = (
        ray.data.read_binary_files(paths, include_paths=True)
        .map(_features, fn_kwargs={"label_of": read_labels(labels)})
        .repartition(_SHARDS)
    )
    with tempfile.TemporaryDirectory(dir=output) as folder:
        dataset.write_tfrecords(os.path.abspath(folder))
        parts = sorted(Path(folder).iterdir())  # Ray chooses its own names
        if len(parts) != _SHARDS:
            raise RuntimeError(f"{len(parts)} files instead of {_SHARDS}")
        for number, part in enumerate(parts):
            part.replace(f"{output}/train-{number:05d}-of-{_SHARDS:05d}.tfrecord")
    return len(paths)


def main() -> None:
    """Runs the conversion of the command line and prints the count and the time."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--images", required=True, metavar="GLOB")
    parser.add_argument("--labels", required=True, metavar="CSV")
    parser.add_argument("--output", required=True, metavar="DIR")
    args = parser.parse_args()
    os.makedirs(args.output, exist_ok=True)
    ray.init(logging_level=logging.ERROR, log_to_driver=False, include_dashboard=False)
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    records = convert(args.images, args.labels, args.output)
    ray.shutdown()
    seconds = time.perf_counter() - _START
    print(json.dumps({"records": records, "seconds": seconds, "import_seconds": _IMPORT_SECONDS}))


if __name__ == "__main__":
    main()
