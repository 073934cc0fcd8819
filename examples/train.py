"""Trains a small image classifier on a dataset: `python examples/train.py out/flowers`.

Without a folder it takes `out/sample`, which `./run_local.sh` makes. It learns from the split
`train`, and after each epoch evaluates the split `validation`, if there is one.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from pipeline import class_names, load
from pipeline.errors import DatasetError, UsageError, run_command
from pipeline.open_dataset import open_dataset
from pipeline.options.parser import OneLineParser, typed
from transforms.core.messages import one_line
from transforms.core.option import at_least_one

TRAIN, VALIDATION = "train", "validation"


def train(
    folder: str, *, epochs: int = 5, batch_size: int = 16, side: int = 64, seed: int = 0
) -> dict[str, list[float]]:
    """Trains with the `tf.distribute` strategy in whose scope it is called.

    Args:
        folder: a dataset with one image and one class id in each record.
        epochs: passes over the split `train`.
        batch_size: images in a step, over all replicas; at most all images.
        side: height and width that images get, in pixels.
        seed: for the weights and the order.

    Returns:
        `loss` and `accuracy` of each epoch; with a split `validation`, also `val_loss` and
        `val_accuracy`.

    Raises:
        UsageError: there is no such dataset, or it cannot be trained on.
        DatasetError: a record cannot be read.
    """
    import keras
    import tensorflow as tf

    splits = _check(folder)
    ids = list(class_names(folder))
    if not ids:
        raise UsageError(
            f"{folder} has no class names in labels.txt: its class ids are below 0 or very large; "
            "convert it with --dense_labels"
        )
    options: dict[str, Any] = {"image_size": (side, side), "as_supervised": True}
    images = _indexed(load(folder, TRAIN, shuffle=True, seed=seed, **options), ids)
    # Every batch is full, because compilers for accelerators need a fixed shape.
    batches = images.batch(min(batch_size, len(images)), drop_remainder=True)
    validation = None
    if splits.get(VALIDATION, {}).get("records"):
        validation = _indexed(load(folder, VALIDATION, **options), ids).batch(batch_size)
    keras.utils.set_random_seed(seed)
    with tf.distribute.get_strategy().scope():
        model = classifier(len(ids))
        model.compile(
            optimizer=keras.optimizers.Adam(3e-3),
            loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            metrics=["accuracy"],
        )
    try:
        history = model.fit(
            batches.prefetch(tf.data.AUTOTUNE),
            validation_data=validation,
            epochs=epochs,
            shuffle=False,
            verbose=2,
        )
    except tf.errors.OpError as error:
        raise DatasetError(f"cannot read {folder}: {one_line(error)}; see `verify`") from error
    return {name: [float(value) for value in values] for name, values in history.history.items()}


def _check(folder: str) -> dict[str, Any]:
    """The splits of a dataset that can be trained on.

    Raises:
        UsageError: it cannot.
    """
    manifest = open_dataset(folder)
    splits: dict[str, Any] = manifest["splits"]
    if TRAIN not in splits:
        raise UsageError(
            f"{folder} has no split {TRAIN!r}, only {', '.join(splits)}: convert it with --splits "
            f"{TRAIN}=0.9,{VALIDATION}=0.1"
        )
    if not splits[TRAIN]["records"]:
        raise UsageError(f"the split {TRAIN!r} of {folder} has no records")
    if not any(feature["source"] == "image.bytes" for feature in manifest["features"]):
        layout = manifest["options"].get("layout")
        raise UsageError(f"the records of {folder} (layout {layout}) hold no image to train on")
    return splits


def _indexed(images: Any, ids: Sequence[int]) -> Any:
    """Pairs of image and class index: the index of the class id among all sorted ids."""
    import tensorflow as tf

    if list(ids) == list(range(len(ids))):
        return images
    known = tf.constant(list(ids), tf.int64)
    return images.map(lambda image, id_: (image, tf.searchsorted(known, id_[tf.newaxis])[0]))


def classifier(classes: int) -> Any:
    """A Keras model from uint8 RGB images of any one size to logits `[batch, classes]`."""
    from keras import Sequential, layers

    return Sequential(
        [
            layers.Rescaling(1 / 127.5, offset=-1),
            layers.Conv2D(16, 3, strides=2, activation="relu"),
            layers.Conv2D(32, 3, strides=2, activation="relu"),
            layers.Conv2D(64, 3, strides=2, activation="relu"),
            layers.GlobalAveragePooling2D(),
            layers.Dense(classes),
        ]
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Trains with the flags of the command line.

    Raises:
        DatasetError: see `train`.
    """
    parser = OneLineParser(about="Trains a small image classifier.")
    parser.prog = "python examples/train.py"
    parser.add_argument("folder", nargs="?", default="out/sample", help="default: %(default)s")
    parser.add_argument("--epochs", type=typed(at_least_one), default=5)
    parser.add_argument("--batch_size", type=typed(at_least_one), default=16)
    flags = parser.parse_args(argv)
    train(flags.folder, epochs=flags.epochs, batch_size=flags.batch_size)


if __name__ == "__main__":
    sys.exit(run_command(main, "train"))
