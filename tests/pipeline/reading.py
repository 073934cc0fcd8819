"""Reads datasets the way a training script does: `TFRecordDataset` and `parse_example`."""

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

import tensorflow as tf

from tests.pipeline.commands import Dataset

TEXT = tf.io.FixedLenFeature([], tf.string)
NUMBER = tf.io.FixedLenFeature([], tf.int64)

SLIM = {
    "image/encoded": TEXT,
    "image/format": TEXT,
    "image/class/label": NUMBER,
    "image/class/text": TEXT,
    "image/height": NUMBER,
    "image/width": NUMBER,
    "image/filename": TEXT,
}
TUTORIAL = {"height": NUMBER, "width": NUMBER, "depth": NUMBER, "label": NUMBER, "image_raw": TEXT}
LANDMARK = {"image_raw": TEXT, "landmark_id": NUMBER, "id": TEXT}


def read(
    dataset: Dataset, features: Mapping[str, Any] = SLIM, split: str = "*"
) -> list[dict[str, Any]]:
    """All records of a split in their order; bytes and ints by feature name."""
    examples = list(_examples(dataset, split).as_numpy_iterator())
    parsed = tf.io.parse_example(examples, dict(features))
    columns = {name: value.numpy() for name, value in parsed.items()}
    return [{name: value[at] for name, value in columns.items()} for at in range(len(examples))]


def read_lists(dataset: Dataset, features: Mapping[str, Any]) -> list[dict[str, Any]]:
    """All records in their order; features of any length are lists."""
    return [
        {name: _plain(value) for name, value in parsed.items()}
        for example in _examples(dataset, "*")
        for parsed in [tf.io.parse_single_example(example, dict(features))]
    ]


def _plain(value: Any) -> Any:
    is_list = isinstance(value, tf.sparse.SparseTensor)
    return value.values.numpy().tolist() if is_list else value.numpy()


def _examples(dataset: Dataset, split: str) -> Any:
    names = dataset.shards(split)
    compression = "GZIP" if names[0].endswith(".gz") else ""
    paths = [str(dataset.folder / name) for name in names]
    return tf.data.TFRecordDataset(paths, compression_type=compression)


def labels(dataset: Dataset) -> dict[str, str]:
    """The class of each image, by its file's stem."""
    return {
        PurePosixPath(record["image/filename"].decode()).stem: record["image/class/text"].decode()
        for record in read(dataset)
    }


def label_ids(dataset: Dataset) -> dict[str, int]:
    """The class id of each image, by its file's stem."""
    return {
        PurePosixPath(record["image/filename"].decode()).stem: int(record["image/class/label"])
        for record in read(dataset)
    }


def filenames(dataset: Dataset, split: str = "*") -> list[str]:
    """The files of a split's images in the order of the records."""
    records = read(dataset, {"image/filename": TEXT}, split)
    return [record["image/filename"].decode() for record in records]


def split_of(dataset: Dataset) -> dict[str, str]:
    """The split of each image, by its file's stem."""
    return {
        PurePosixPath(name).stem: split
        for split in dataset.manifest["splits"]
        for name in filenames(dataset, split)
    }


def shape(encoded: bytes) -> tuple[int, ...]:
    """Height, width and channels of an image that TensorFlow decodes."""
    return tuple(tf.io.decode_image(encoded).shape)
