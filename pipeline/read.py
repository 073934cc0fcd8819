"""load: a dataset as a tf.data.Dataset."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pipeline.errors import UsageError
from pipeline.open_dataset import open_dataset, split_ranges
from pipeline.random_access import open_index, reading_index
from transforms.core.messages import one_line
from transforms.core.option import path_text, truth, whole_number
from transforms.dataset.manifest import INDEXED, names_of_ids
from transforms.dataset.metadata import ShardRange, single_class_ids, supervised_keys
from transforms.dataset.output_names import LABELS
from transforms.examples.layouts import SIZES, Feature, Role
from transforms.images.check import import_tensorflow
from transforms.images.pixel_options import stored_depth, stored_shape
from transforms.labels.vocabulary import parse_labels
from transforms.storage.files import join, storage_of

if TYPE_CHECKING:
    import tensorflow as tf


# Parses serialized Examples to tensors, with TensorFlow.

_ImageShape = tuple[int | None, int | None, int]


def _spec(tf: Any, features: Iterable[Feature]) -> dict[str, Any]:
    return {
        feature.name: tf.io.RaggedFeature(tf.as_dtype(dtype), row_splits_dtype=tf.int64)
        if shape is None
        else tf.io.FixedLenFeature(shape, tf.as_dtype(dtype))
        for feature in features
        for dtype, shape in [feature.tensor]
    }


class TensorParser(NamedTuple):
    """Parses serialized Examples to tensors, inside a graph.

    Attributes:
        tf: TensorFlow.
        features: those of the manifest.
        stored: height, width and channels of stored images; None for what differs.
        image_size: height and width that images are resized to, or None.
        decode: whether to decode images and packed arrays; otherwise both stay bytes.
        depth: bits of the samples of decoded images, 8 or 16.
    """

    tf: Any
    features: Sequence[Feature]
    stored: _ImageShape
    image_size: tuple[int, int] | None
    decode: bool
    depth: int

    @property
    def takes_batches(self) -> bool:
        """Whether `parse` takes a batch of records: nothing is decoded to a size of its own."""
        files = (Role.IMAGE, Role.FURTHER_IMAGE, Role.MASK, Role.OBJECT_MASK)
        alone = [f for f in self.features if f.role in files or (f.encoding and not f.shape)]
        return not (self.decode and alone)

    def parse(self, record: Any) -> Mapping[str, Any]:
        """Tensors by feature name, of a record, or of a batch if it takes batches."""
        tf = self.tf
        example = dict(tf.io.parse_example(record, _spec(tf, self.features)))
        if not self.decode:
            return example
        # Packed pixels of variable size store their shape in another feature.
        by_source = {feature.source: feature.name for feature in self.features}
        sizes = [example[by_source[each]] for each in SIZES] if by_source.keys() >= {*SIZES} else []
        shown: Any = None
        # The masks of objects have the size of what is shown.
        for feature in sorted(self.features, key=lambda each: each.role is Role.OBJECT_MASK):
            value = example[feature.name]
            if feature.role in (Role.IMAGE, Role.FURTHER_IMAGE):
                value = self._image(value)
            elif feature.role is Role.MASK:
                value = self._mask(value)
            elif feature.role is Role.OBJECT_MASK:
                value = self._masks_of(value, shown)
            elif feature.encoding:
                values = tf.io.decode_raw(value, tf.as_dtype(feature.encoding))
                batch = [-1 if size is None else size for size in value.shape]
                value = tf.reshape(values, [*batch, *(feature.shape or sizes or [-1])])
            if feature.role in (Role.IMAGE, Role.PIXELS) and shown is None:
                shown = value
            example[feature.name] = value
        return example

    def _mask(self, data: Any) -> Any:
        tf = self.tf
        *size, _ = self.stored
        mask = tf.io.decode_png(data, channels=1)
        mask.set_shape((*size, 1))
        if self.image_size is None:
            return mask
        # Class indices cannot be mixed.
        return tf.image.resize(mask, self.image_size, tf.image.ResizeMethod.NEAREST_NEIGHBOR)

    def _masks_of(self, files: Any, shown: Any) -> Any:
        """The masks of the objects in an image (`shown`), of which there may be none."""
        tf = self.tf
        height, width = self.image_size or self.stored[:2]
        size = (0, 0) if shown is None else tf.unstack(tf.shape(shown)[:2])
        spec = tf.TensorSpec((height, width, 1), tf.uint8)
        masks = tf.cond(
            tf.size(files) > 0,
            lambda: tf.map_fn(self._mask, files, fn_output_signature=spec),
            lambda: tf.zeros((0, height or size[0], width or size[1], 1), tf.uint8),
        )
        masks.set_shape((None, height, width, 1))
        return masks

    def _image(self, data: Any) -> Any:
        tf = self.tf
        *size, channels = self.stored
        # With `channels` given, TensorFlow refuses a WebP with alpha and a gray JPEG XL.
        image = self._decoded(data)
        found = tf.shape(image)[-1]
        # Most images need no copy.
        image = tf.case(
            [
                (found == channels, lambda: image),
                (found >= 3, lambda: image[..., :channels]),
            ],
            # `tf.repeat` takes no uint16.
            default=lambda: tf.concat([image[..., :1]] * channels, -1),
        )
        image.set_shape((*size, channels))
        if self.image_size is None:
            return image
        return tf.saturate_cast(tf.round(tf.image.resize(image, self.image_size)), image.dtype)

    def _decoded(self, data: Any) -> Any:
        tf = self.tf
        if self.depth == 8:
            return tf.io.decode_image(data, expand_animations=False)

        # TensorFlow gives the same for other formats, but takes no WebP for 16 bits.
        def widened() -> Any:
            image = tf.io.decode_image(data, expand_animations=False)
            return tf.cast(image, tf.uint16) * 256

        is_png = tf.strings.substr(data, 0, 4) == b"\x89PNG"
        return tf.cond(is_png, lambda: tf.io.decode_png(data, dtype=tf.uint16), widened)


# Classes that count the same in training: weights, and records that are drawn by their class.


def balanced_weights(
    tf: Any, output: str, manifest: Mapping[str, Any], ranges: Sequence[ShardRange]
) -> tuple[str, Any]:
    """The feature with the only class id of a record, and the weights of classes.

    They are a `tf.lookup` table from class id, int64, to weight, float32: all records / (classes *
    records of the class). This is the `balanced` of scikit-learn's `compute_class_weight`. The
    weights of all records add up to their number. The index is read, and no shard.

    Args:
        tf: TensorFlow.
        output: the folder of a dataset, for messages.
        manifest: of the dataset.
        ranges: the records that count.

    Raises:
        UsageError: records have no class id, or several, or the dataset has no index.
        DatasetError: the index is damaged.
    """
    names = single_class_ids([*map(Feature.from_manifest, manifest["features"])])
    if len(names) != 1:
        raise UsageError(
            f"the records of {output} do not have exactly one class id: leave out class_weights "
            "and sample_by_class"
        )
    index = open_index(output, manifest, {each.file for each in ranges}, alone=False)
    with reading_index(output):
        ids = index.class_ids(ranges)
    classes, counts = np.unique(ids, return_counts=True)
    weights = len(ids) / (len(classes) * counts)
    pairs = tf.constant(classes, tf.int64), tf.constant(weights, tf.float32)
    return names[0], tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(*pairs), 0.0)


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


# A finished dataset as a `tf.data.Dataset`: `load("out/photos", "train", batch_size=32)`.

# Shards read at once. Fixed, since it decides the order of the records.
_INTERLEAVED = 16

# Size of the shuffle buffer, in records. Each shard is already in hash order.
_SHUFFLED = 1_000


class DatasetInfo(NamedTuple):
    """What a dataset holds.

    Attributes:
        splits: records of each split.
        class_names: see `class_names`.
        features: the names of the features.
        image_shape: height, width and channels of decoded images; None where they differ.
    """

    splits: dict[str, int]
    class_names: dict[int, str]
    features: tuple[str, ...]
    image_shape: tuple[int | None, int | None, int]


def load(
    output: str | os.PathLike[str],
    split: str,
    *,
    batch_size: int | None = None,
    drop_remainder: bool = False,
    image_size: int | tuple[int, int] | None = None,
    decode: bool = True,
    shuffle: bool = False,
    shuffle_buffer: int | None = None,
    seed: int = 0,
    as_supervised: bool = False,
    class_weights: bool = False,
    sample_by_class: bool = False,
) -> tf.data.Dataset:
    """Reads a split once. The manifest defines features and shapes.

    Shards are read in parallel, in the same order every time. `tf.distribute` gives each worker
    its own shards, so there must be at least as many shards as workers.

    Args:
        output: the folder of a dataset; `gs://` as TensorFlow reads it.
        split: one of its splits, slices of them, or several: `train`, `train[:10%]`,
            `train[100:-50]`, `train[1shard]`, `train+validation`, `all`, as in TensorFlow Datasets.
            Of the shards outside of a slice, nothing is read.
        batch_size: records in a batch, or None for single records. Lists, and images that differ in
            size, become ragged tensors.
        drop_remainder: whether to leave out a last batch with fewer records.
        image_size: height and width that images are resized to, bilinear, and masks by nearest
            neighbors; one number for squares.
        decode: images to uint8 `[height, width, 3]` (uint16 after `--depth 16`; 1 channel after
            `--color gray`; of an animation, the first frame), masks to uint8 `[height, width, 1]`,
            those of objects to `[objects, height, width, 1]`, packed arrays to their dtype and
            shape. Otherwise all stay bytes.
        shuffle: whether to read files and records in a different order in each epoch.
        shuffle_buffer: records that are shuffled among each other; None is 1000.
        seed: of the shuffling; the same seed gives the same epochs.
        as_supervised: whether to return pairs of image or embedding, and class id or mask, not
            dicts.
        class_weights: whether to return triples with a weight, as `Model.fit` of Keras takes them,
            so that each class of the split or slice counts the same; with `as_supervised`.
        sample_by_class: whether to repeat records of rare classes and leave out some of frequent
            ones at random, so that an epoch has about as many records, equally many of each class;
            with `shuffle`, without `class_weights`.

    Returns:
        a `tf.data.Dataset` of dicts by feature name.

    Raises:
        UsageError: there is no finished dataset, no such split or slice, or it has no such pairs,
            no class ids or no index.
        DatasetError: the index is damaged.
        TypeError: an argument has the wrong type.
        ValueError: an argument has an invalid value.
    """
    output = path_text("output", output).rstrip("/") or "/"
    _check_split_and_batch(split, batch_size, drop_remainder)
    size = None if image_size is None else _image_size(image_size)
    for name, value in (("decode", decode), ("shuffle", shuffle), ("as_supervised", as_supervised)):
        truth(name, value)
    if truth("class_weights", class_weights) and not as_supervised:
        raise ValueError("class_weights is the third part of a pair: give as_supervised=True, too")
    if truth("sample_by_class", sample_by_class) and not shuffle:
        raise ValueError("sample_by_class draws records at random: give shuffle=True, too")
    if class_weights and sample_by_class:
        raise ValueError(
            "class_weights and sample_by_class both make classes count the same: give one of them"
        )
    whole_number("seed", seed, -(2**127), 2**127 - 1)
    buffer = _shuffle_buffer(shuffle, shuffle_buffer)
    manifest = open_dataset(output)
    ranges = split_ranges(output, split, manifest)
    features = tuple(map(Feature.from_manifest, manifest["features"]))
    keys = supervised_keys(features) if as_supervised else None
    if as_supervised and keys is None:
        raise UsageError(
            f"the records of {output} do not have exactly one image or embedding and one class "
            "id, or mask without one: leave out as_supervised"
        )
    if size is not None and not decode:
        raise UsageError("image_size resizes decoded images: leave out decode=False")
    _check_files(output, ranges)
    tf = import_tensorflow()
    records = _records(tf, output, ranges, seed if shuffle else None, buffer)
    table: Any = None
    if class_weights or sample_by_class:
        label, table = balanced_weights(tf, output, manifest, ranges)
    if sample_by_class:
        # Shuffled again, so that the copies of a record are apart.
        records = drawn_by_class(tf, records, label, table, seed).shuffle(buffer, seed=seed)
    else:
        count = sum(each.take for each in ranges)
        records = records.apply(tf.data.experimental.assert_cardinality(count))
    options = manifest["options"]
    parser = TensorParser(tf, features, stored_shape(options), size, decode, stored_depth(options))
    # A batch of records is parsed in a fifth of the time that its records take one by one.
    is_batched = batch_size is not None and parser.takes_batches
    if is_batched:
        records = records.batch(batch_size, drop_remainder=drop_remainder)
    examples = records.map(parser.parse, num_parallel_calls=tf.data.AUTOTUNE)
    if keys is not None:
        examples = examples.map(lambda example: (example[keys[0]], example[keys[1]]))
    if class_weights:
        examples = examples.map(lambda image, label: (image, label, table.lookup(label)))
    if batch_size is not None and not is_batched:
        # Features of fixed shape stay dense; if all are, `batch` does the same and opens sooner.
        specs = tf.nest.flatten(examples.element_spec)
        is_tensor = [isinstance(each, tf.TensorSpec) for each in specs]
        is_dense = all(is_tensor) and all(each.shape.is_fully_defined() for each in specs)
        batch = examples.batch if is_dense else examples.ragged_batch
        examples = batch(batch_size, drop_remainder=drop_remainder)
    by_file = tf.data.Options()
    by_file.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.FILE
    return examples.prefetch(tf.data.AUTOTUNE).with_options(by_file)


def _check_split_and_batch(split: str, batch_size: int | None, drop_remainder: bool) -> None:
    if not isinstance(split, str):
        raise TypeError(f"split is a str such as 'train', not {split!r}")
    if batch_size is not None:
        whole_number("batch_size", batch_size, 1)
    elif truth("drop_remainder", drop_remainder):
        raise ValueError("drop_remainder is about batches: give batch_size, too")


def _shuffle_buffer(shuffle: bool, size: int | None) -> int:
    if size is None:
        return _SHUFFLED
    if not shuffle:
        raise ValueError("shuffle_buffer has no effect without shuffle=True")
    return whole_number("shuffle_buffer", size, 1)


def _check_files(output: str, ranges: Sequence[ShardRange]) -> None:
    """Checks the files that TensorFlow opens.

    Raises:
        UsageError: one is not a regular file.
    """
    for path in {join(output, each.file) for each in ranges}:
        # TensorFlow would follow a link, and block forever on a FIFO.
        if storage_of(path).is_misplaced(path):
            raise UsageError(f"{path} is not a regular file: copy the dataset as files")


def _image_size(size: int | tuple[int, int]) -> tuple[int, int]:
    if isinstance(size, int):
        side = whole_number("image_size", size, 1)
        return side, side
    if not isinstance(size, Sequence) or isinstance(size, str) or len(size) != 2:
        raise TypeError(f"image_size is a number, or a pair of height and width, not {size!r}")
    height, width = size
    return whole_number("image_size[0]", height, 1), whole_number("image_size[1]", width, 1)


def dataset_info(output: str | os.PathLike[str]) -> DatasetInfo:
    """Splits, classes, features and image shape of a finished dataset; opens no shard.

    Args:
        output: the folder of a dataset.

    Raises:
        UsageError: there is no finished dataset, or one of its files cannot be read.
    """
    output = path_text("output", output).rstrip("/") or "/"
    manifest = open_dataset(output)
    return DatasetInfo(
        {name: split["records"] for name, split in manifest["splits"].items()},
        class_names(output),
        tuple(feature["name"] for feature in manifest["features"]),
        stored_shape(manifest["options"]),
    )


def feature_spec(output: str | os.PathLike[str]) -> dict[str, Any]:
    """The features of a dataset, as `tf.io.parse_example` takes them; opens no shard.

    Args:
        output: the folder of a dataset.

    Returns:
        a `tf.io.FixedLenFeature` or `tf.io.RaggedFeature` by the name of the feature.

    Raises:
        UsageError: there is no finished dataset.
    """
    manifest = open_dataset(path_text("output", output).rstrip("/") or "/")
    return _spec(import_tensorflow(), map(Feature.from_manifest, manifest["features"]))


def class_names(output: str | os.PathLike[str]) -> dict[int, str]:
    """The class names in the order of their ids: line n of `labels.txt` is class n.

    Args:
        output: the folder of a dataset.

    Returns:
        the names; empty without labels, or if an id is below 0 or too large for a line.

    Raises:
        UsageError: there is no finished dataset, or the file cannot be read.
    """
    output = path_text("output", output)
    if INDEXED in (manifest := open_dataset(output)):
        return names_of_ids(manifest)
    path = join(output, LABELS)
    try:
        text = storage_of(path, follow_links=False).read_text(path)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {path}: {one_line(error)}") from error
    if text is None:
        raise UsageError(f"there is no {path}: the dataset is damaged, see `verify`")
    return parse_labels(text)


def _records(
    tf: Any, output: str, ranges: Sequence[ShardRange], seed: int | None, buffer: int
) -> Any:
    """The serialized Examples of all ranges; shuffled if there is a seed."""
    compression = "GZIP" if any(each.file.endswith(".gz") for each in ranges) else ""

    def read(path: Any) -> Any:
        return tf.data.TFRecordDataset(path, compression_type=compression)

    def read_part(path: Any, skip: Any, take: Any) -> Any:
        return read(path).skip(skip).take(take)

    # With one file per image, a split without images has no file.
    paths = tf.constant([join(output, each.file) for each in ranges], tf.string)
    is_whole = all(each.take == each.records for each in ranges)
    numbers = [tf.constant([each[at] for each in ranges], tf.int64) for at in (1, 2)]
    shards = tf.data.Dataset.from_tensor_slices(paths if is_whole else (paths, *numbers))
    files = max(1, len(ranges))
    if seed is not None:
        shards = shards.shuffle(files, seed=seed)
    records = shards.interleave(
        read if is_whole else read_part,
        cycle_length=min(_INTERLEAVED, files),
        num_parallel_calls=tf.data.AUTOTUNE,
        deterministic=True,
    )
    return records if seed is None else records.shuffle(buffer, seed=seed)
