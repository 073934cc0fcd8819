"""What TensorFlow Datasets reads of a dataset."""

from __future__ import annotations

import json

from transforms.dataset.ledger import ShardSummary
from transforms.dataset.metadata import tfds_files
from transforms.examples.layouts import LAYOUTS
from transforms.labels.vocabulary import Vocabulary


def test_records_of_each_shard_of_each_split() -> None:
    counts = {"train": (3, 4), "test": (2,)}
    shards = [
        ShardSummary(f"{split}-{at:05d}-of-{len(own):05d}.tfrecord", "", records=n, bytes=10 * n)
        for split, own in counts.items()
        for at, n in enumerate(own)
    ]
    files = tfds_files(
        LAYOUTS["slim"],
        shards,
        list(counts),
        Vocabulary.build(["cat", "dog"]),
        formats=("jpeg",),
        image_shape=(None, None, 3),
    )
    splits = json.loads(files["dataset_info.json"])["splits"]
    assert [(each["name"], each["shardLengths"], each["numBytes"]) for each in splits] == [
        ("train", ["3", "4"], "70"),
        ("test", ["2"], "20"),
    ]
