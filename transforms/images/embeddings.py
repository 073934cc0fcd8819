"""Keras models for embeddings: loading, input, output, and how the output is stored.

TensorFlow is imported by the first call, never with this module. Nothing here downloads anything:
models and weights are local files.
"""

from __future__ import annotations

import contextlib
import functools
import math
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from transforms.core.messages import first_line
from transforms.core.option import alike
from transforms.core.rejections import Reason, RejectedImageError
from transforms.images.check import decode_pixels, import_tensorflow
from transforms.images.pixel_options import is_application

# Images in one call of the model. The number is fixed: the last call of a shard is padded
# with zeros, since a batch of another size may give different last bits.
BATCH_IMAGES = 16

_Array = np.ndarray[Any, Any]


class ModelError(ValueError):
    """A model cannot be used; the message is one line without the flag's name."""


class EmbeddingModel:
    """A loaded model and its preprocessing. `predict` may be called by one thread at a time.

    Attributes:
        input_shape: height, width and channels of the images it takes.
        shape: of its output for one image.
    """

    def __init__(
        self,
        function: Callable[[Any], Any],
        input_shape: tuple[int, int, int],
        preprocess: Callable[[_Array], _Array] | None = None,
    ) -> None:
        """Tries the model on one batch.

        Args:
            function: gives the output of a batch `[BATCH_IMAGES, *input_shape]` of float32.
            input_shape: see the attribute.
            preprocess: applied to a batch before the call; may change it in place.

        Raises:
            ModelError: its output is not one finite array of floats for each image.
        """
        self._function = function
        self._preprocess = preprocess
        self.input_shape = input_shape
        size = math.prod(input_shape)
        ramp = (np.arange(size, dtype=np.float32) % 256).reshape(input_shape)
        self.shape = self._try([ramp])

    def predict(self, pixels: Sequence[_Array]) -> _Array:
        """The outputs for at most `BATCH_IMAGES` images, float32 `[images, *shape]`.

        Args:
            pixels: float32 `input_shape` each, 0 to 255.
        """
        return np.asarray(self._call(pixels), np.float32)[: len(pixels)]

    def _call(self, pixels: Sequence[_Array]) -> Any:
        batch = np.zeros((BATCH_IMAGES, *self.input_shape), np.float32)
        for place, image in zip(batch, pixels, strict=False):
            place[:] = image
        prepared = self._preprocess(batch) if self._preprocess else batch
        output = self._function(import_tensorflow().constant(prepared))
        if isinstance(output, dict | list | tuple):
            if len(output) != 1:
                raise ModelError(f"returns {len(output)} outputs, not one")
            [output] = output.values() if isinstance(output, dict) else output
        return output

    def _try(self, pixels: Sequence[_Array]) -> tuple[int, ...]:
        tensorflow = import_tensorflow()
        try:
            output = self._call(pixels)
        except (tensorflow.errors.OpError, TypeError, ValueError) as error:
            if isinstance(error, ModelError):
                raise
            raise ModelError(f"cannot be called with images: {first_line(error):.120}") from error
        if not getattr(getattr(output, "dtype", None), "is_floating", False):
            raise ModelError("does not return floats")
        if output.shape.rank is None or output.shape[:1] != [BATCH_IMAGES]:
            raise ModelError(
                f"returns {output.shape} for {BATCH_IMAGES} images, not one value per image"
            )
        if not np.isfinite(np.asarray(output, np.float32)).all():
            raise ModelError("returns values that are not finite: its weights are damaged")
        return tuple(int(side) for side in output.shape[1:])


def load_embedding_model(model: str, weights: str | None = None) -> EmbeddingModel:
    """Loads a model from local files.

    Args:
        model: path of a Keras file (.keras, .h5) or of a SavedModel folder, which gets pixels of
            0 to 255; or a name in `keras.applications`, which gets them as its own
            `preprocess_input` makes them, and is built without its top.
        weights: weights of the application, as `save_weights` writes them.

    Raises:
        ModelError: it cannot be loaded, or does not turn images into one array of floats.
    """
    tensorflow = import_tensorflow()
    # Keras and TensorFlow raise nearly anything for a damaged file.
    try:
        if is_application(model):
            return _load_application(tensorflow.keras, model, weights)
        if os.path.isdir(model):
            return _load_saved_model(tensorflow, model)
        with _whole():
            loaded = tensorflow.keras.models.load_model(model, compile=False)
    except ModelError:
        raise
    except Exception as error:
        raise ModelError(f"cannot be loaded: {first_line(error):.120}") from error
    return _keras_model(tensorflow, loaded)


def _load_application(keras: Any, name: str, weights: str | None) -> EmbeddingModel:
    build = getattr(keras.applications, name, None)
    names = [each for each in dir(keras.applications) if each[0].isupper()]
    if name not in names or build is None:
        close = alike(name, names)
        hint = f"did you mean {close[0]}?" if close else "give a path, or one of its names"
        raise ModelError(f"is neither a file nor a name in keras.applications; {hint}")
    if weights is None:
        raise ModelError("needs a file with its weights")
    # Only the whole model knows the size that it is made for. Weights of None download nothing.
    size = build(weights=None).input_shape[1:]
    model = build(weights=None, include_top=False, input_shape=size)
    try:
        with _whole():
            model.load_weights(weights)
    except Exception as error:
        problem = f"cannot load the weights {weights}, which are damaged or of another model"
        raise ModelError(f"{problem}: {first_line(error):.120}") from error
    preprocess = sys.modules[build.__module__].preprocess_input
    return _keras_model(import_tensorflow(), model, preprocess)


@contextlib.contextmanager
def _whole() -> Iterator[None]:
    """Turns Keras's warning that weights stay random into an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.filterwarnings("error", message="Skipping nested container")
        yield


def _keras_model(
    tensorflow: Any, model: Any, preprocess: Callable[[_Array], _Array] | None = None
) -> EmbeddingModel:
    inputs = model.inputs or []
    if len(inputs) != 1:
        raise ModelError(f"takes {len(inputs)} inputs, not one image input")
    shape = _image_shape(tuple(inputs[0].shape), str(inputs[0].dtype))
    compiled = tensorflow.function(
        functools.partial(model, training=False),
        input_signature=[tensorflow.TensorSpec((BATCH_IMAGES, *shape), tensorflow.float32)],
    )
    return EmbeddingModel(compiled, shape, preprocess)


def _load_saved_model(tensorflow: Any, folder: str) -> EmbeddingModel:
    loaded = tensorflow.saved_model.load(folder)
    signature = loaded.signatures.get("serving_default")
    if signature is None:
        raise ModelError("has no signature 'serving_default'")
    specs = signature.structured_input_signature[1]
    if len(specs) != 1:
        raise ModelError(f"takes {len(specs)} inputs, not one image input")
    [(name, spec)] = specs.items()
    shape = _image_shape(tuple(spec.shape), spec.dtype.name)

    def function(batch: Any) -> Any:
        # The signature alone would not keep the variables alive.
        return loaded.signatures["serving_default"](**{name: batch})

    return EmbeddingModel(function, shape)


def _image_shape(shape: tuple[int | None, ...], dtype: str) -> tuple[int, int, int]:
    size = "x".join("?" if side is None else str(side) for side in shape)
    wanted = "not float32 images [batch, height, width, 1 or 3] of a fixed size"
    batch, height, width, channels = shape if len(shape) == 4 else (1, 0, 0, 0)
    is_image = dtype == "float32" and batch is None and channels in (1, 3)
    if not is_image or not height or not width or not channels:
        raise ModelError(f"takes {dtype} {size}, {wanted}")
    return height, width, channels


def input_pixels(data: bytes, format_: str, shape: tuple[int, int, int]) -> _Array:
    """An image as the input of a model: what TensorFlow decodes, resized (bilinear, stretched).

    Args:
        data: an image that `check_image` accepts.
        format_: the format that it found.
        shape: height, width and channels.

    Returns:
        float32 of that shape, 0 to 255. Of an animation, the first frame.

    Raises:
        RejectedImageError: TensorFlow cannot decode it, or not with these channels.
    """
    height, width, channels = shape
    try:
        shown = decode_pixels(data, format_, channels=channels, expand_animations=False)
    except RejectedImageError as error:
        decode_pixels(data, format_, expand_animations=False)
        detail = f"cannot be decoded with {channels} channels: {error.detail}; --color converts it"
        raise RejectedImageError(Reason.UNSUPPORTED_IMAGE, detail) from None
    resized: _Array = import_tensorflow().image.resize(shown, (height, width)).numpy()
    return resized


def stored_embedding(values: _Array, dtype: str) -> bytes:
    """The values as they are stored, flat and little endian.

    Args:
        values: float32, finite.
        dtype: one of `choices.EMBED_DTYPES`; bfloat16 is the nearest, ties to even.

    >>> stored_embedding(np.array([1.0], np.float32), "bfloat16").hex()
    '803f'
    """
    return values.astype("<f4" if dtype == "float32" else bfloat16()).tobytes()


def bfloat16() -> Any:
    """The type of NumPy; imported here: it takes 15 ms of a start, and few runs have a model."""
    import ml_dtypes

    return ml_dtypes.bfloat16


def read_bfloat16(data: bytes) -> _Array:
    """The float32 values in the result of `stored_embedding`.

    >>> read_bfloat16(bytes.fromhex("803f"))
    array([1.], dtype=float32)
    """
    return np.frombuffer(data, bfloat16()).astype(np.float32)
