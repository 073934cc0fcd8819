"""Models with random weights, the same in every run."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.lazy import Lazy
from transforms.images.check import import_tensorflow

KERAS: Any = Lazy(lambda: import_tensorflow().keras)

SMALL_INPUT = (8, 10, 3)
SMALL_OUTPUT = (3, 4, 4)


def small_model() -> Any:
    """Pixels of 0 to 255 and the shape `SMALL_INPUT` to `SMALL_OUTPUT`."""
    KERAS.utils.set_random_seed(1)
    layers = KERAS.layers
    return KERAS.Sequential(
        [
            KERAS.Input(SMALL_INPUT),
            layers.Rescaling(1 / 255),
            layers.Conv2D(4, 3, strides=2, bias_initializer="ones"),
        ]
    )


def efficientnet() -> Any:
    """EfficientNetB0 without its top; batch statistics such that values do not vanish."""
    KERAS.utils.set_random_seed(2)
    model = KERAS.applications.EfficientNetB0(
        weights=None, include_top=False, input_shape=(224, 224, 3)
    )
    for layer in model.layers:
        if isinstance(layer, KERAS.layers.BatchNormalization):
            layer.moving_variance.assign(0.5 + 0 * layer.moving_variance)
    return model


def saved_to(path: Path, save: Callable[[Path], Any]) -> Path:
    """Calls `model.save`, `save_weights` or `export` with a path; Keras warns about NumPy 2."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        save(path)
    return path
