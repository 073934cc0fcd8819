"""The method of the TensorFlow guide: a loop, an Example field by field, `tf.io.TFRecordWriter`.

One thread reads a file, has TensorFlow decode it for its shape, fills a `tf.train.Example` by hand
and writes to the shards in turn. Nothing is read ahead and the whole image is decoded.
The last line is JSON; `seconds` counts from the first import to the last closed file.
"""

from __future__ import annotations

import argparse
import glob
import json
import os
import time
from contextlib import ExitStack
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
from class_labels import read_labels

_START = time.perf_counter()

import tensorflow as tf  # noqa: E402 - the import is timed

_IMPORT_SECONDS = time.perf_counter() - _START
_SHARDS = 8


def _bytes_feature(value: bytes) -> tf.train.Feature:
    """A feature of one byte string."""
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))


def _int64_feature(value: int) -> tf.train.Feature:
    """A feature of one integer."""
    return tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))


def _example(data: bytes, format_: bytes, label: int) -> bytes:
    """The serialized Example of one image."""
    height, width, _ = tf.io.decode_image(data, expand_animations=False).shape
    feature = {
        "image/encoded": _bytes_feature(data),
        "image/format": _bytes_feature(format_),
        "image/class/label": _int64_feature(label),
        "image/height": _int64_feature(height),
        "image/width": _int64_feature(width),
    }
    serialized: bytes = tf.train.Example(
        features=tf.train.Features(feature=feature)
    ).SerializeToString()
    return serialized


def convert(images: str, labels: str, output: str) -> int:
    """Converts the JPEGs that a glob matches and returns how many records were written."""
    label_of = read_labels(labels)
    paths = sorted(glob.glob(images))
    with ExitStack() as stack:
        names = [f"{output}/train-{i:05d}-of-{_SHARDS:05d}.tfrecord" for i in range(_SHARDS)]
        writers = [stack.enter_context(tf.io.TFRecordWriter(name)) for name in names]
        for number, path in enumerate(paths):
            data = Path(path).read_bytes()
            format_ = b"png" if path.endswith(".png") else b"jpeg"
            writers[number % _SHARDS].write(_example(data, format_, label_of[Path(path).stem]))
    return len(paths)


def main() -> None:
    """Runs the conversion of the command line and prints the count and the time."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--images", required=True, metavar="GLOB")
    parser.add_argument("--labels", required=True, metavar="CSV")
    parser.add_argument("--output", required=True, metavar="DIR")
    args = parser.parse_args()
    os.makedirs(args.output, exist_ok=True)
    records = convert(args.images, args.labels, args.output)
    seconds = time.perf_counter() - _START
    print(json.dumps({"records": records, "seconds": seconds, "import_seconds": _IMPORT_SECONDS}))


if __name__ == "__main__":
    main()
