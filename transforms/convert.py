"""One shard's images to one shard's Examples: fetch, check, change, encode, as pure generators."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from transforms.core.check import ImageInfo, Limits, examine_image
from transforms.core.columns import RowValues
from transforms.core.examples import CheckedImage, ExampleEncoder
from transforms.core.exif import orientation_tag
from transforms.core.file_errors import check_final
from transforms.core.fingerprints import content_hash
from transforms.core.headers import image_format
from transforms.core.in_flight import DecoderGuard, image_note
from transforms.core.keys import full_uri
from transforms.core.layouts import PIXELS, Feature
from transforms.core.pixel_options import AS_THEY_ARE, Original, PixelOptions, StoredImage
from transforms.core.records import ShardImage
from transforms.core.rejections import Reason, RejectedImageError, Rejection
from transforms.core.shown_text import first_line
from transforms.fetch import ReadAhead, read_file, reading_threads

if TYPE_CHECKING:
    from transforms.embed import Embedder

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

# Images encoded by one call; all of them are in memory.
_BATCH_IMAGES = 16
_BATCH_BYTES = 8 << 20

# How many times as large as its file the pixels of a photo are, for what is read ahead.
_DECODED_TIMES = 15

# Images of this process whose pixels are in memory at once: the threads that wait for a remote
# file are many more than the cores, and an image is many times as large as its file.
_DECODING = threading.BoundedSemaphore(os.cpu_count() or 1)


class ImageConverter:
    """Turns the images of one shard into serialized Examples.

    Picklable; `setup` makes what is not.
    """

    of_images = True

    def __init__(
        self,
        *,
        root: str,
        features: Sequence[Feature],
        limits: Limits,
        check: str,
        pixels: PixelOptions = AS_THEY_ARE,
        rows: RowValues | None = None,
        waits: bool = False,
        embedder: Embedder | None = None,
        fingerprints: bool = False,
    ) -> None:
        """Describes the work.

        Args:
            root: common folder of the images.
            features: of the Examples.
            limits: bytes and pixels an image may have.
            check: `full` or `header`.
            pixels: what is done to the pixels.
            rows: what the layout asks of the rows, or None.
            waits: whether images may be remote though `root` is local.
            embedder: the model, or None.
            fingerprints: whether to take them, to find equal and similar images.
        """
        self.fingerprints = fingerprints
        self._waits = waits
        self._root = root
        self._features = tuple(features)
        self._limits = limits
        self._check = check
        self._pixels = pixels
        self._rows = rows
        self._embedder = embedder
        sources = {feature.source for feature in features}
        self._pixels_asked = PIXELS in sources
        # Without the image's file beside them, nothing is encoded only to be decoded again.
        self._pixels_only = self._pixels_asked and "image.bytes" not in sources

    def setup(self) -> None:
        """Makes the encoder and the read-ahead, once for each DoFn instance."""
        self._encoder = ExampleEncoder(self._features)
        self._read_ahead = ReadAhead(threads=reading_threads(self._root, waits=self._waits))
        self._guard = DecoderGuard()
        if self._pixels_asked or not self._pixels.changes_nothing:
            from transforms.core.pillow_images import quiet_pillow

            quiet_pillow()
        if self._embedder is not None:
            self._embedder.setup()

    def load(self, images: Iterable[ShardImage]) -> Iterator[CheckedImage | Rejection]:
        """Reads, checks, changes and embeds images, in their order, several at once."""
        loaded = self._read_ahead.map(self._load_one, images, size=self._held_bytes)
        return loaded if self._embedder is None else self._embedder.embed(loaded)

    def encode(self, images: Iterable[CheckedImage]) -> Iterator[bytes]:
        """Serialized Examples in the order of the images, encoded in small batches."""
        for batch in _batches(images):
            yield from self._encoder.encode(batch)

    def _load_one(self, image: ShardImage) -> CheckedImage | Rejection:
        try:
            return self._checked(image, self._read(image))
        except RejectedImageError as error:
            return Rejection("image", error.reason.value, error.detail, image.path, image.key)

    def _read(self, image: ShardImage) -> bytes:
        """The bytes of an image's file.

        Raises:
            RejectedImageError: it is too large, or can never be read.
            TransientError: another try may succeed: the shard fails, not the image.
        """
        if image.size > self._limits.max_bytes:
            detail = f"{image.size} bytes; --max_bytes is {self._limits.max_bytes}"
            raise RejectedImageError(Reason.TOO_MANY_BYTES, detail)
        uri = full_uri(self._root, image.path)
        try:
            return read_file(
                uri,
                size=image.size,
                version=image.version,
                max_bytes=self._limits.max_bytes,
            )
        except OSError as error:
            check_final(error, uri)
            raise RejectedImageError(
                Reason.UNREADABLE, error.strerror or first_line(error)
            ) from error

    def _checked(self, image: ShardImage, data: bytes) -> CheckedImage:
        """Decodes an image so that a crash of its decoder costs this image, on the next try."""
        note = image_note(full_uri(self._root, image.path), image.version)
        if self._pixels_only:
            stored = self._guard.call(note, stored_pixels, data, self._pixels, self._limits)
        else:
            stored = self._guard.call(
                note,
                stored_image,
                data,
                self._pixels,
                self._limits,
                self._check,
                looks=self.fingerprints,
            )
        _check_shape(self._features, stored.info)
        checked = CheckedImage(
            image,
            stored.data,
            stored.info,
            stored.original,
            stored.changes,
            self._rows.of(image, stored.original) if self._rows else {},
            orientation=orientation_tag(data, image_format(data)),
            content=content_hash(data) if self.fingerprints else "",
            look=stored.look,
        )
        if self._pixels_asked:
            shown = stored
            if not self._pixels_only:
                shown = self._guard.call(
                    note, stored_pixels, stored.data, AS_THEY_ARE, self._limits
                )
            checked = checked._replace(raw=shown.data)
        if self._embedder is None:
            return checked
        shape = self._embedder.input_shape
        pixels = self._guard.call(note, model_pixels, stored.data, stored.info.format, shape)
        return checked._replace(pixels=pixels)

    def _held_bytes(self, image: ShardImage) -> int:
        pixels = _DECODED_TIMES * image.size if self._pixels_asked else 0
        return image.size + pixels + (self._embedder.input_bytes if self._embedder else 0)


def stored_image(
    data: bytes, pixels: PixelOptions, limits: Limits, check: str, *, looks: bool = False
) -> StoredImage:
    """What is stored of an image file: its own bytes, or changed ones; with its look, if asked.

    Raises:
        RejectedImageError: see `check_image` and `change_pixels`.
    """
    with _DECODING:
        if pixels.changes_nothing:
            info, look = examine_image(data, limits=limits, mode=check, looks=looks)
            return StoredImage(data, info, Original(info.height, info.width, 1), (), look)
        # It brings Pillow, which other runs do without.
        from transforms.core.pixels import change_pixels

        return change_pixels(data, pixels, limits=limits, check=check, looks=looks)


def stored_pixels(data: bytes, pixels: PixelOptions, limits: Limits) -> StoredImage:
    """What is stored of an image file of which only its pixels are.

    Raises:
        RejectedImageError: see `raw_pixels`.
    """
    with _DECODING:
        from transforms.core.pixels import raw_pixels

        return raw_pixels(data, pixels, limits=limits)


def model_pixels(data: bytes, format_: str, shape: tuple[int, int, int]) -> Any:
    """What a model gets of an image: see `input_pixels`."""
    with _DECODING:
        from transforms.core.embeddings import input_pixels

        return input_pixels(data, format_, shape)


def _check_shape(features: Iterable[Feature], info: ImageInfo) -> None:
    """Rejects an image whose pixels have not the shape of their feature."""
    for feature in features:
        if feature.source == PIXELS and feature.shape not in ((), info[1:]):
            wanted = f"{feature.name!r} has shape {list(feature.shape or ())}"
            raise RejectedImageError(Reason.BAD_SHAPE, f"{list(info[1:])}, but {wanted}")


def _batches(images: Iterable[CheckedImage]) -> Iterator[list[CheckedImage]]:
    batch: list[CheckedImage] = []
    held = 0
    for image in images:
        batch.append(image)
        held += len(image.data) + len(image.raw)
        if len(batch) >= _BATCH_IMAGES or held >= _BATCH_BYTES:
            yield batch
            batch, held = [], 0
    if batch:
        yield batch
