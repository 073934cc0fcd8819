"""TensorFlow Datasets: a `GeneratorBasedBuilder`, with TFDS's writer shuffling and sharding.

Its Image feature copies a file's bytes unseen, so no pixel is checked; height and width come from
the header, through Pillow. Needs the environment `tfds` of `benchmarks/environments.py`.
The last line is JSON; `seconds` counts from the first import to the last finished file.
"""

from __future__ import annotations

import argparse
import csv
import glob
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
_START = time.perf_counter()

import numpy as np  # noqa: E402 - the import is timed
import tensorflow  # noqa: E402, F401 - TFDS would import it while it writes
import tensorflow_datasets as tfds  # noqa: E402 - the import is timed
from PIL import Image  # noqa: E402 - the import is timed

_IMPORT_SECONDS = time.perf_counter() - _START
_SHARDS = 8


def _read_labels(path: str) -> dict[str, str]:
    """The label of each id in a CSV with the columns `id` and `label`."""
    with open(path, encoding="utf-8", newline="") as table:
        return {row["id"]: row["label"] for row in csv.DictReader(table)}


class Photos(tfds.core.GeneratorBasedBuilder):
    """The labelled images of a glob, as TFDS would have a user write it."""

    VERSION = tfds.core.Version("1.0.0")

    def __init__(self, *, images: str, labels: str, **kwargs: Any) -> None:
        """Keeps the glob and reads the label table; the rest is for TFDS."""
        self._images = images
        self._format = "png" if images.endswith(".png") else "jpeg"
        self._label_of = _read_labels(labels)
        super().__init__(**kwargs)

    def _info(self) -> tfds.core.DatasetInfo:
        """The features; nested names are joined by a slash in the records."""
        features = {
            "image": {
                "encoded": tfds.features.Image(encoding_format=self._format),
                "format": tfds.features.Text(),
                "class": {"label": tfds.features.ClassLabel(names=self._names())},
                "height": tfds.features.Scalar(np.int64),
                "width": tfds.features.Scalar(np.int64),
            }
        }
        return tfds.core.DatasetInfo(
            builder=self, features=tfds.features.FeaturesDict(features), disable_shuffling=False
        )

    def _names(self) -> list[str]:
        """The classes, sorted."""
        return sorted(set(self._label_of.values()))

    def _split_generators(self, dl_manager: tfds.download.DownloadManager) -> dict[str, Any]:
        """The one split."""
        del dl_manager  # nothing to fetch
        return {"train": self._generate_examples()}

    def _generate_examples(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yields the key and the features of each image."""
        for path in sorted(glob.glob(self._images)):
            with Image.open(path) as picture:  # the header only
                width, height = picture.size
            key = Path(path).stem
            yield (
                key,
                {
                    "image": {
                        "encoded": path,
                        "format": self._format,
                        "class": {"label": self._label_of[key]},
                        "height": height,
                        "width": width,
                    }
                },
            )


def convert(images: str, labels: str, output: str) -> int:
    """Converts the JPEGs that a glob matches and returns how many records were written."""
    with tempfile.TemporaryDirectory(dir=output) as folder:
        builder = Photos(images=images, labels=labels, data_dir=folder)
        config = tfds.download.DownloadConfig(num_shards=_SHARDS)
        builder.download_and_prepare(download_config=config)
        split = builder.info.splits["train"]
        for number, path in enumerate(split.filepaths):  # TFDS chooses its own names
            os.replace(path, f"{output}/train-{number:05d}-of-{_SHARDS:05d}.tfrecord")
        return int(split.num_examples)


def main() -> None:
    """Runs the conversion of the command line and prints the count and the time."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--images", required=True, metavar="GLOB")
    parser.add_argument("--labels", required=True, metavar="CSV")
    parser.add_argument("--output", required=True, metavar="DIR")
    args = parser.parse_args()
    os.makedirs(args.output, exist_ok=True)
    tfds.disable_progress_bar()
    with redirect_stdout(sys.stderr):  # TFDS prints what it does
        records = convert(args.images, args.labels, args.output)
    seconds = time.perf_counter() - _START
    print(json.dumps({"records": records, "seconds": seconds, "import_seconds": _IMPORT_SECONDS}))


if __name__ == "__main__":
    main()
