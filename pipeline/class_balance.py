"""Classes that count the same in training: weights, and records that are drawn by their class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pipeline.errors import UsageError
from pipeline.random_access import index_error, index_of
from transforms.core.dataset.split_slices import ShardRange
from transforms.core.dataset.tfds_metadata import single_class_ids
from transforms.core.features.layouts import Feature
from transforms.core.index.record_index import RecordIndexError


def balanced_weights(
    output: str, manifest: Mapping[str, Any], ranges: Sequence[ShardRange]
) -> dict[int, float]:
    """The weight of each class id: all records / (classes * records of the class).

    This is the `balanced` of scikit-learn's `compute_class_weight`. The weights of all records add
    up to their number. The index is read, and no shard.

    Args:
        output: the folder of a dataset, for messages.
        manifest: of the dataset.
        ranges: the records that count.

    Raises:
        UsageError: the dataset has no index.
        DatasetError: the index is damaged.
    """
    index = index_of(output, manifest, {each.file for each in ranges})
    try:
        ids = index.class_ids(ranges)
    except (RecordIndexError, OSError) as error:
        raise index_error(output, error) from error
    classes, counts = np.unique(ids, return_counts=True)
    weights = len(ids) / (len(classes) * counts)
    return dict(zip(classes.tolist(), weights.tolist(), strict=True))


def class_id_feature(output: str, features: Sequence[Feature]) -> str:
    """The feature that holds the only class id of a record.

    Raises:
        UsageError: the records have none, or several.
    """
    names = single_class_ids(features)
    if len(names) != 1:
        raise UsageError(
            f"the records of {output} do not have exactly one class id: leave out class_weights "
            "and sample_by_class"
        )
    return names[0]


def weight_table(tf: Any, weights: Mapping[int, float]) -> Any:
    """A `tf.lookup` table from class id, int64, to weight, float32."""
    ids = tf.constant(list(weights), tf.int64)
    values = tf.constant(list(weights.values()), tf.float32)
    return tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(ids, values), 0.0)


def drawn_by_class(tf: Any, records: Any, feature: str, table: Any, seed: int) -> Any:
    """Records, so often that each class comes equally often on average.

    A record of weight 2.3 comes two or three times, one of weight 0.3 in three of ten epochs.

    Args:
        tf: TensorFlow.
        records: serialized Examples.
        feature: holds the class id.
        table: of the weights.
        seed: of the draws. They go on from epoch to epoch.
    """
    spec = {feature: tf.io.FixedLenFeature((), tf.int64)}
    # The operations of `tf.random` would repeat their numbers in each epoch. Datasets of numbers
    # cannot be shared by files, as `tf.distribute` does.
    draws = tf.random.Generator.from_seed(seed)

    def copies(record: Any) -> Any:
        weight = table.lookup(tf.io.parse_single_example(record, spec)[feature])
        count = tf.cast(weight + draws.uniform(()), tf.int64)
        return tf.data.Dataset.from_tensors(record).repeat(count)

    return records.flat_map(copies)
