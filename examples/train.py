"""Trains a small image classifier on a dataset: `python examples/train.py out/flowers`.

Without a folder it takes `out/sample`, which `./run_local.sh` makes.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

from pipeline.dataset import open_dataset
from pipeline.errors import run_command
from pipeline.read import load


def train(
    folder: str, *, epochs: int = 5, batch_size: int = 16, side: int = 64, seed: int = 0
) -> list[float]:
    """Trains with the `tf.distribute` strategy in whose scope it is called.

    Args:
        folder: a dataset with one image and one class id, counted from 0, in each record.
        epochs: passes over the split `train`.
        batch_size: images in a step, over all replicas; at most all images.
        side: height and width that images get, in pixels.
        seed: of the weights and of the order.

    Returns:
        the mean loss of each epoch.

    Raises:
        UsageError: there is no such dataset.
    """
    import keras
    import tensorflow as tf

    classes = len(class_names(folder))
    images = load(
        folder, "train", image_size=(side, side), shuffle=True, seed=seed, as_supervised=True
    )
    # Every batch is full: compilers for accelerators want one shape.
    batches = images.batch(min(batch_size, len(images)), drop_remainder=True)
    keras.utils.set_random_seed(seed)
    with tf.distribute.get_strategy().scope():
        model = classifier(classes)
        model.compile(
            optimizer=keras.optimizers.Adam(3e-3),
            loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            metrics=["accuracy"],
        )
    history = model.fit(batches.prefetch(tf.data.AUTOTUNE), epochs=epochs, shuffle=False, verbose=2)
    return [float(loss) for loss in history.history["loss"]]


def class_names(folder: str) -> list[str]:
    """The lines of `labels.txt`.

    Raises:
        UsageError: there is no dataset.
    """
    import tensorflow as tf

    open_dataset(folder)
    with tf.io.gfile.GFile(os.path.join(folder, "labels.txt")) as file:
        return str(file.read()).splitlines()


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


def main() -> None:
    """Trains with the flags of the command line."""
    parser = argparse.ArgumentParser(description="Trains a small image classifier on a dataset.")
    parser.add_argument("folder", nargs="?", default="out/sample", help="default: %(default)s")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch_size", type=int, default=16)
    flags = parser.parse_args()
    train(flags.folder, epochs=flags.epochs, batch_size=flags.batch_size)


if __name__ == "__main__":
    sys.exit(run_command(main, "train"))
