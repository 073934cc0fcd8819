"""Reads a split in order with `tf.data`: ours, by hand, or through TensorFlow Datasets.

All three give batches of 32, of the bytes of images or of pixels of 224 x 224. `by-hand` is what
the TensorFlow guide shows, with all its advice: parallel reads, a parallel map, prefetching. `tfds`
needs the environment `tfds` of `benchmarks/environments.py`.
"""

from __future__ import annotations

import argparse
import glob
import os
import sys
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import tensorflow as tf
from timed_epoch import time_epoch

_BATCH, _SIDE = 32, 224
_IMAGE, _LABEL = "image/encoded", "image/class/label"


def ours(folder: str, decode: bool) -> Any:
    """`pipeline.load`."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from pipeline import load

    options: dict[str, Any] = {"image_size": _SIDE} if decode else {"decode": False}
    return load(folder, "train", batch_size=_BATCH, **options)


def by_hand(folder: str, decode: bool) -> Any:
    """The same in a few lines of TensorFlow."""

    def parse(record: Any) -> dict[str, Any]:
        example = tf.io.parse_single_example(
            record,
            {
                _IMAGE: tf.io.FixedLenFeature([], tf.string),
                _LABEL: tf.io.FixedLenFeature([], tf.int64),
            },
        )
        return _decoded(example) if decode else example

    files = sorted(glob.glob(f"{glob.escape(folder)}/train-*.tfrecord"))
    records = tf.data.TFRecordDataset(files, num_parallel_reads=tf.data.AUTOTUNE)
    examples = records.map(parse, num_parallel_calls=tf.data.AUTOTUNE)
    return examples.batch(_BATCH).prefetch(tf.data.AUTOTUNE)


def tfds(folder: str, decode: bool) -> Any:
    """TensorFlow Datasets on the same folder."""
    import tensorflow_datasets

    builder = tensorflow_datasets.builder_from_directory(folder)
    skip = tensorflow_datasets.decode.SkipDecoding()
    records = builder.as_dataset(
        split="train", shuffle_files=False, decoders=None if decode else {_IMAGE: skip}
    )
    if decode:
        records = records.map(_resized, num_parallel_calls=tf.data.AUTOTUNE)
    return records.batch(_BATCH).prefetch(tf.data.AUTOTUNE)


def _decoded(example: dict[str, Any]) -> dict[str, Any]:
    image = tf.io.decode_image(example[_IMAGE], channels=3, expand_animations=False)
    return _resized({**example, _IMAGE: image})


def _resized(example: dict[str, Any]) -> dict[str, Any]:
    image = tf.image.resize(example[_IMAGE], (_SIDE, _SIDE))
    return {**example, _IMAGE: tf.saturate_cast(tf.round(image), tf.uint8)}


def main() -> None:
    """Reads the folder of the command line."""
    readers = {"ours": ours, "by-hand": by_hand, "tfds": tfds}
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("reader", choices=readers)
    parser.add_argument("folder")
    parser.add_argument("--decode", action="store_true")
    args = parser.parse_args()

    def images(batch: Any) -> int:
        values = batch[_IMAGE].numpy()
        return int(values.nbytes) if args.decode else sum(map(len, values))

    time_epoch(lambda: readers[args.reader](args.folder, args.decode), images)


if __name__ == "__main__":
    main()
