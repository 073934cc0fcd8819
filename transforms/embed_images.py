"""Embeddings through Beam's ModelHandler API: one model per process, always in full batches."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, cast

import numpy as np
from apache_beam.ml.inference.base import ModelHandler
from apache_beam.utils.shared import Shared

from transforms.core.machine import scratch_folder
from transforms.core.messages import one_line
from transforms.core.option import path_text
from transforms.core.rejections import Reason, Rejection
from transforms.examples.layouts import Embedding, EmbeddingOptions
from transforms.images.checked_images import CheckedImage
from transforms.images.embeddings import (
    BATCH_IMAGES,
    EmbeddingModel,
    ModelError,
    load_embedding_model,
    stored_embedding,
)
from transforms.images.pixel_options import EMBED_DTYPES, is_application
from transforms.storage.files import join, storage_of

_Array = np.ndarray[Any, Any]

# One model per process, shared by preflight and every thread that converts a shard.
_SHARED = Shared()

# A single model uses all cores.
_ONE_AT_A_TIME = threading.Lock()


class EmbeddingModelHandler(ModelHandler[_Array, _Array, EmbeddingModel]):
    """A Keras model, a SavedModel or a `keras.applications` model that turns pixels into arrays.

    Also works with `RunInference`: elements are float32 images of the model's input size
    (`transforms.images.embeddings.input_pixels`), predictions float32 arrays.
    """

    def __init__(
        self,
        model: str | os.PathLike[str],
        weights: str | os.PathLike[str] | None = None,
        *,
        digests: tuple[str, str] | None = None,
    ) -> None:
        """Sets the model; opens no file.

        Args:
            model: path or URL of a model, or a name in `keras.applications`.
            weights: path or URL of the weights of a name.
            digests: the expected digests of the files, see `files_digest`; None accepts any.
        """
        super().__init__(max_batch_size=BATCH_IMAGES)
        self._model = path_text("model", model)
        self._weights = None if weights is None else path_text("weights", weights)
        self._digests = digests

    def load_model(self) -> EmbeddingModel:
        """Loads the model, from copies of remote files.

        Raises:
            ModelError: see `load_embedding_model`.
            OSError: a file cannot be read, or does not match its digest.
        """
        path = None if is_application(self._model) else self._model
        with _as_local(path) as model, _as_local(self._weights) as weights:
            # Digests of the copies, which are loaded and need no second download.
            found = ("" if each is None else files_digest(each) for each in (model, weights))
            if self._digests is not None and self._digests != tuple(found):
                raise OSError(f"the model {self._model} changed while the job ran")
            return load_embedding_model(model or self._model, weights)

    def acquire(self) -> EmbeddingModel:
        """The model of this process; the first call loads it."""
        tag = (self._model, self._weights, self._digests)
        return cast(EmbeddingModel, _SHARED.acquire(self.load_model, tag=tag))

    def run_inference(
        self,
        batch: Sequence[_Array],
        model: EmbeddingModel,
        inference_args: dict[str, Any] | None = None,
    ) -> Iterable[_Array]:
        """The outputs for a batch of any size, in its order; the model always gets full batches."""
        for start in range(0, len(batch), BATCH_IMAGES):
            with _ONE_AT_A_TIME:
                predicted = model.predict(batch[start : start + BATCH_IMAGES])
            yield from predicted

    def get_num_bytes(self, batch: Sequence[_Array]) -> int:
        """Bytes of the pixels."""
        return sum(image.nbytes for image in batch)


def load_embedding(options: EmbeddingOptions) -> Embedding:
    """Loads a model, tries it, and describes it.

    Args:
        options: with a model.

    Raises:
        ValueError: a file cannot be read, or the model is damaged, or does not return one float
            array per image; the message names the flag.
    """
    model, weights = str(options.model), options.model_weights
    digests = []
    for name, path in (("model", model), ("model_weights", weights)):
        if path is None or (name == "model" and is_application(path)):
            digests.append("")
            continue
        try:
            digests.append(files_digest(path))
        except (OSError, ValueError) as error:
            raise ValueError(f"cannot read --{name} {path}: {one_line(error)}") from error
    found = (digests[0], digests[1])
    try:
        loaded = EmbeddingModelHandler(model, weights, digests=found).acquire()
    except ModelError as error:
        raise ValueError(f"--model {model} {error}") from error
    return Embedding(
        model=model,
        weights=weights,
        dtype=options.embed_dtype or EMBED_DTYPES[0],
        digests=found,
        input_shape=loaded.input_shape,
        shape=loaded.shape,
    )


class Embedder:
    """Computes the embeddings of a shard's images, batch by batch in the shard's order.

    Picklable; `setup` loads the model.

    Attributes:
        input_bytes: bytes of one image as input of the model.
        no_embedding: zeros of the size of a stored embedding.
    """

    def __init__(self, embedding: Embedding) -> None:
        self._handler = EmbeddingModelHandler(
            embedding.model, embedding.weights, digests=embedding.digests
        )
        self._dtype = embedding.dtype
        self.input_bytes = 4 * int(np.prod(embedding.input_shape))
        self.no_embedding = stored_embedding(np.zeros(embedding.shape, np.float32), self._dtype)

    def setup(self) -> None:
        """Loads the model, once for the process."""
        self._model = self._handler.acquire()

    def embed(
        self, loaded: Iterable[CheckedImage | Rejection]
    ) -> Iterator[CheckedImage | Rejection]:
        """The same images in the same order, with embeddings instead of pixels.

        An image is rejected if the model's output for it is not finite.
        """
        held: list[CheckedImage | Rejection] = []
        images = 0
        for each in loaded:
            held.append(each)
            images += isinstance(each, CheckedImage)
            if images == BATCH_IMAGES:
                yield from self._embed_batch(held)
                held, images = [], 0
        yield from self._embed_batch(held)

    def _embed_batch(
        self, held: Sequence[CheckedImage | Rejection]
    ) -> Iterator[CheckedImage | Rejection]:
        pixels = [each.model_pixels for each in held if isinstance(each, CheckedImage)]
        values = iter(self._handler.run_inference(pixels, self._model))
        for each in held:
            yield each if isinstance(each, Rejection) else self._embedded(each, next(values))

    def _embedded(self, checked: CheckedImage, values: _Array) -> CheckedImage | Rejection:
        if not np.isfinite(values).all():
            image = checked.image
            detail = "the model returns values that are not finite for it"
            reason = Reason.UNSUPPORTED_IMAGE.code
            return Rejection("image", reason, detail, image.path, image.key)
        stored = stored_embedding(values, self._dtype)
        return checked._replace(model_pixels=None, embedding=stored)


def files_digest(path: str) -> str:
    """The digest of a file's content, or of all names and contents below a folder.

    Raises:
        OSError: there is no such file, or it cannot be read.
    """
    digest = hashlib.blake2b(digest_size=16)
    for name, uri in _files_of(path):
        content = hashlib.blake2b(digest_size=16)
        # It refuses a file of holes: 20 GB of them would take 90 s.
        storage_of(uri).open_ranges(uri)
        with storage_of(uri).open_reader(uri) as file:
            while chunk := file.read(1 << 20):
                content.update(chunk)
        digest.update(f"{name}\n{content.hexdigest()}\n".encode())
    return digest.hexdigest()


def _files_of(path: str) -> list[tuple[str, str]]:
    """Name below the path (empty for a file) and URI of every file, sorted."""
    path = path.rstrip("/")
    storage = storage_of(path)
    if storage.exists(path) and not (storage.has_folders and storage.is_folder(path)):
        return [("", path)]
    below = sorted(file.uri for file in storage.list_files(join(path, "**")))
    if not below:
        raise FileNotFoundError(2, "no such file", path)
    return [(uri.removeprefix(f"{path}/"), uri) for uri in below]


@contextlib.contextmanager
def _as_local(path: str | None) -> Iterator[str | None]:
    """The path, or that of a copy that exists until the block ends."""
    if path is None or not storage_of(path).is_remote:
        yield path
        return
    with scratch_folder() as folder:
        # Keras uses the extension of a file to load it.
        copy = os.path.join(folder, os.path.basename(path.rstrip("/")))
        for name, uri in _files_of(path):
            target = os.path.join(copy, name) if name else copy
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with storage_of(uri).open_reader(uri) as source, open(target, "wb") as file:
                shutil.copyfileobj(source, file)
        yield copy
