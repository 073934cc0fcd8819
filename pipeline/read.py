"""A finished dataset as a `tf.data.Dataset`: `load("out/photos", "train", batch_size=32)`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.errors import UsageError, one_line
from pipeline.open_dataset import open_dataset
from transforms.core.arguments import path_text, seed_number, truth, whole_number
from transforms.core.dataset.output_names import LABELS
from transforms.core.dataset.tfds_metadata import supervised_keys
from transforms.core.features.feature_sources import SIZES, Role
from transforms.core.features.layouts import Feature
from transforms.core.images.check import import_tensorflow
from transforms.core.images.pixel_options import stored_shape
from transforms.core.labels.vocabulary import parse_labels
from transforms.storage.files import join, storage_of

# Shards read at once. Fixed, since it decides the order of the records.
_INTERLEAVED = 16

# Size of the shuffle buffer, in records. Each shard is already in hash order.
_SHUFFLED = 1_000

_ImageShape = tuple[int | None, int | None, int]


def load(
    output: str | os.PathLike[str],
    split: str,
    *,
    batch_size: int | None = None,
    image_size: tuple[int, int] | None = None,
    decode: bool = True,
    shuffle: bool = False,
    seed: int = 0,
    as_supervised: bool = False,
) -> Any:
    """Reads a split once. The manifest defines features and shapes.

    Shards are read in parallel, in the same order every time. `tf.distribute` gives each worker
    its own shards, so there must be at least as many shards as workers.

    Args:
        output: the folder of a dataset; `gs://` as TensorFlow reads it.
        split: one of its splits.
        batch_size: records in a batch, or None for single records. Lists, and images that differ in
            size, become ragged tensors.
        image_size: height and width that images are resized to, bilinear.
        decode: images to uint8 `[height, width, 3]` (1 channel after `--color gray`; of an
            animation, the first frame), packed arrays to their dtype and shape. Otherwise both
            stay bytes.
        shuffle: whether to read files and records in a different order in each epoch.
        seed: of the shuffling; the same seed gives the same epochs.
        as_supervised: whether to return pairs of image or embedding, and class id, not dicts.

    Returns:
        a `tf.data.Dataset` of dicts by feature name.

    Raises:
        UsageError: there is no finished dataset or no such split, or it has no such pairs.
        TypeError: an argument has the wrong type.
        ValueError: an argument has an invalid value.
    """
    output = path_text("output", output).rstrip("/") or "/"
    _check_split_and_batch(split, batch_size)
    image_size = None if image_size is None else _image_size(image_size)
    for name, value in (("decode", decode), ("shuffle", shuffle), ("as_supervised", as_supervised)):
        truth(name, value)
    seed_number(seed)
    manifest = _open_split(output, split)
    features = tuple(map(Feature.from_manifest, manifest["features"]))
    keys = _pair(output, features) if as_supervised else None
    if image_size is not None and not decode:
        raise UsageError("image_size resizes decoded images: leave out decode=False")
    listed = manifest["splits"][split]
    paths = _shard_paths(output, listed)
    tf = import_tensorflow()
    records = _records(tf, paths, seed if shuffle else None)
    records = records.apply(tf.data.experimental.assert_cardinality(listed["records"]))
    parser = _Parser(tf, features, stored_shape(manifest["options"]), image_size, decode)
    examples = records.map(parser.parse, num_parallel_calls=tf.data.AUTOTUNE)
    if keys is not None:
        examples = examples.map(lambda example: (example[keys[0]], example[keys[1]]))
    if batch_size is not None:
        examples = examples.ragged_batch(batch_size)  # Features of fixed shape stay dense.
    return examples.prefetch(tf.data.AUTOTUNE).with_options(_by_file(tf))


def _check_split_and_batch(split: str, batch_size: int | None) -> None:
    if not isinstance(split, str):
        raise TypeError(f"split is a str such as 'train', not {split!r}")
    if batch_size is not None:
        whole_number("batch_size", batch_size, 1)


def _open_split(output: str, split: str) -> dict[str, Any]:
    """The manifest of a dataset that has this split.

    Raises:
        UsageError: there is no finished dataset, or no such split.
    """
    manifest = open_dataset(output)
    if split not in manifest["splits"]:
        names = ", ".join(manifest["splits"])
        raise UsageError(f"{output} has no split {split!r} but {names}")
    return manifest


def _pair(output: str, features: Sequence[Feature]) -> tuple[str, str]:
    """The features of a pair of image or embedding, and class id.

    Raises:
        UsageError: the dataset has no such pairs.
    """
    keys = supervised_keys(features)
    if keys is None:
        raise UsageError(
            f"{output} has not one image or embedding and one class id in each record: "
            "leave out as_supervised"
        )
    return keys


def _shard_paths(output: str, listed: Mapping[str, Any]) -> list[str]:
    """The shards of a split.

    Raises:
        UsageError: one is no regular file.
    """
    paths = [join(output, shard["file"]) for shard in listed["shards"]]
    for path in paths:
        # TensorFlow would follow a link, and block forever on a FIFO.
        if storage_of(path).is_misplaced(path):
            raise UsageError(f"{path} is no regular file: copy the dataset as files")
    return paths


def _by_file(tf: Any) -> Any:
    """The options with which `tf.distribute` gives whole shards to workers."""
    options = tf.data.Options()
    by_file = tf.data.experimental.AutoShardPolicy.FILE
    options.experimental_distribute.auto_shard_policy = by_file
    return options


def _image_size(size: tuple[int, int]) -> tuple[int, int]:
    if not isinstance(size, Sequence) or isinstance(size, str) or len(size) != 2:
        raise TypeError(f"image_size is a pair of height and width, not {size!r}")
    height, width = size
    return whole_number("image_size[0]", height, 1), whole_number("image_size[1]", width, 1)


def class_names(output: str) -> dict[int, str]:
    """The class names in the order of their ids: line n of `labels.txt` is class n.

    Args:
        output: the folder of a dataset.

    Returns:
        the names; empty without labels, or if an id is below 0 or too large for a line.

    Raises:
        UsageError: there is no finished dataset, or the file cannot be read.
    """
    output = path_text("output", output)
    open_dataset(output)
    path = join(output, LABELS)
    try:
        text = storage_of(path).read_text(path, follow_links=False)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {path}: {one_line(error)}") from error
    if text is None:
        raise UsageError(f"there is no {path}: the dataset is damaged, see `verify`")
    return parse_labels(text)


def _records(tf: Any, paths: Sequence[str], seed: int | None) -> Any:
    """The serialized Examples of all shards; shuffled if there is a seed."""
    compression = "GZIP" if any(path.endswith(".gz") for path in paths) else ""
    # With one file per image, a split without images has no file.
    shards = tf.data.Dataset.from_tensor_slices(tf.constant(list(paths), tf.string))
    files = max(1, len(paths))
    if seed is not None:
        shards = shards.shuffle(files, seed=seed)
    records = shards.interleave(
        lambda path: tf.data.TFRecordDataset(path, compression_type=compression),
        cycle_length=min(_INTERLEAVED, files),
        num_parallel_calls=tf.data.AUTOTUNE,
        deterministic=True,
    )
    return records if seed is None else records.shuffle(_SHUFFLED, seed=seed)


class _Parser:
    """Parses serialized Examples to tensors, inside a graph."""

    def __init__(
        self,
        tf: Any,
        features: Sequence[Feature],
        stored: _ImageShape,
        image_size: tuple[int, int] | None,
        decode: bool,
    ) -> None:
        self._tf = tf
        self._spec = {feature.name: self._spec_of(feature) for feature in features}
        self._images = [f.name for f in features if decode and f.role is Role.IMAGE]
        self._packed = [f for f in features if decode and f.encoding]
        # Packed pixels of variable size store their shape in another feature.
        by_source = {feature.source: feature.name for feature in features}
        sizes = [by_source.get(source) for source in SIZES]
        self._sizes = [name for name in sizes if name is not None and None not in sizes]
        self._stored = stored
        self._image_size = image_size

    def parse(self, record: Any) -> Mapping[str, Any]:
        """Tensors by feature name."""
        tf = self._tf
        example = tf.io.parse_single_example(record, self._spec)
        for name in self._images:
            example[name] = self._image(example[name])
        for feature in self._packed:
            values = tf.io.decode_raw(example[feature.name], tf.as_dtype(feature.encoding))
            shape = feature.shape or [example[name] for name in self._sizes] or [-1]
            example[feature.name] = tf.reshape(values, shape)
        return dict(example)

    def _spec_of(self, feature: Feature) -> Any:
        tf = self._tf
        dtype = {"bytes": tf.string, "int64": tf.int64, "float": tf.float32}[feature.dtype]
        if feature.is_list:
            return tf.io.RaggedFeature(dtype)
        return tf.io.FixedLenFeature(() if feature.encoding else feature.shape, dtype)

    def _image(self, data: Any) -> Any:
        tf = self._tf
        *size, channels = self._stored
        # With `channels` given, TensorFlow refuses a WebP with alpha and a gray JPEG XL.
        image = tf.io.decode_image(data, expand_animations=False)
        is_color = tf.shape(image)[-1] >= 3
        image = tf.cond(
            is_color, lambda: image[..., :channels], lambda: tf.repeat(image[..., :1], channels, -1)
        )
        image.set_shape((*size, channels))
        if self._image_size is None:
            return image
        resized = tf.image.resize(image, self._image_size)
        return tf.saturate_cast(tf.round(resized), tf.uint8)
