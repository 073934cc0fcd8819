"""Plain Beam, as similar tools use it: every image crosses the runner's shuffle.

`MatchAll`, `Reshuffle`, a DoFn that reads the file and has TensorFlow decode it, and
`WriteToTFRecord(num_shards=8)`, which gathers the finished Examples before it writes them. It runs
on Beam's in-process `FnApiRunner`.
The last line is JSON; `seconds` counts from the first import to the end of the pipeline.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
from class_labels import read_labels

_START = time.perf_counter()

import apache_beam as beam  # noqa: E402 - the import is timed
import tensorflow as tf  # noqa: E402 - the import is timed
from apache_beam.io import fileio  # noqa: E402 - the import is timed
from apache_beam.metrics import Metrics, MetricsFilter  # noqa: E402 - the import is timed
from apache_beam.options.pipeline_options import PipelineOptions  # noqa: E402 - timed

_IMPORT_SECONDS = time.perf_counter() - _START
_SHARDS = 8


def _bytes_feature(value: bytes) -> tf.train.Feature:
    """A feature of one byte string."""
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))


def _int64_feature(value: int) -> tf.train.Feature:
    """A feature of one integer."""
    return tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))


class _ConvertImageFn(beam.DoFn):
    """Reads one matched file, decodes it and yields its serialized Example."""

    def __init__(self, label_of: dict[str, int]) -> None:
        """Keeps the class index of each key."""
        self._label_of = label_of
        self._records = Metrics.counter("plain_beam", "records")

    def process(self, found: fileio.ReadableFile) -> Iterator[bytes]:
        """Yields the Example of one image."""
        data = found.read()
        height, width, _ = tf.io.decode_image(data, expand_animations=False).shape
        path = found.metadata.path
        feature = {
            "image/encoded": _bytes_feature(data),
            "image/format": _bytes_feature(b"png" if path.endswith(".png") else b"jpeg"),
            "image/class/label": _int64_feature(self._label_of[Path(path).stem]),
            "image/height": _int64_feature(height),
            "image/width": _int64_feature(width),
        }
        self._records.inc()
        yield tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()


def convert(images: str, labels: str, output: str) -> int:
    """Converts the JPEGs that a glob matches and returns how many records were written."""
    pipeline = beam.Pipeline(runner="FnApiRunner", options=PipelineOptions([]))
    _ = (
        pipeline
        | "Glob" >> beam.Create([images])
        | "Match" >> fileio.MatchAll()
        | "Spread" >> beam.Reshuffle()
        | "Open" >> fileio.ReadMatches()
        | "Convert" >> beam.ParDo(_ConvertImageFn(read_labels(labels)))
        | "Write"
        >> beam.io.WriteToTFRecord(
            f"{output}/train", file_name_suffix=".tfrecord", num_shards=_SHARDS
        )
    )
    result = pipeline.run()
    result.wait_until_finish()
    counters = result.metrics().query(MetricsFilter().with_name("records"))["counters"]
    return sum(counter.committed for counter in counters)


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
