"""One shard's images to one shard's Examples: fetch, check, encode, as pure generators."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from transforms.core.check import ImageInfo, Limits, check_image
from transforms.core.examples import CheckedImage, ExampleEncoder
from transforms.core.layouts import Feature
from transforms.core.records import ShardImage
from transforms.core.rejections import Reason, RejectedImageError, Rejection
from transforms.fetch import ReadAhead, read_file, reading_threads

# Images encoded by one call; all of them are in memory.
_BATCH_IMAGES = 16
_BATCH_BYTES = 8 << 20


def image_uri(root: str, path: str) -> str:
    """The file of an image, from the common root of the globs and the path below it.

    >>> image_uri("gs://bucket/photos", "a/1.jpg"), image_uri("", "1.jpg")
    ('gs://bucket/photos/a/1.jpg', '1.jpg')
    """
    return f"{root.removesuffix('/')}/{path}" if root else path


class ImageConverter:
    """Turns the images of one shard into serialized Examples.

    Picklable; `setup` makes what is not.
    """

    def __init__(
        self, *, root: str, features: Sequence[Feature], limits: Limits, check: str
    ) -> None:
        self._root = root
        self._features = tuple(features)
        self._limits = limits
        self._check = check

    def setup(self) -> None:
        """Makes the encoder and the read-ahead, once for each DoFn instance."""
        self._encoder = ExampleEncoder(self._features)
        self._read_ahead = ReadAhead(threads=reading_threads(self._root))

    def load(self, images: Iterable[ShardImage]) -> Iterator[CheckedImage | Rejection]:
        """Reads and checks images, in their order, several at once."""
        return self._read_ahead.map(self._load_one, images, size=_listed_bytes)

    def encode(self, images: Iterable[CheckedImage]) -> Iterator[bytes]:
        """Serialized Examples in the order of the images, encoded in small batches."""
        for batch in _batches(images):
            yield from self._encoder.encode(batch)

    def _load_one(self, image: ShardImage) -> CheckedImage | Rejection:
        try:
            data, info = self._read_and_check(image)
        except RejectedImageError as error:
            return Rejection("image", error.reason.value, error.detail, image.path, image.key)
        return CheckedImage(image, data, info)

    def _read_and_check(self, image: ShardImage) -> tuple[bytes, ImageInfo]:
        if image.size > self._limits.max_bytes:
            detail = f"{image.size} bytes; --max_bytes is {self._limits.max_bytes}"
            raise RejectedImageError(Reason.TOO_MANY_BYTES, detail)
        try:
            data = read_file(
                image_uri(self._root, image.path),
                size=image.size,
                version=image.version,
                max_bytes=self._limits.max_bytes,
            )
        except OSError as error:
            detail = error.strerror or str(error).splitlines()[0]
            raise RejectedImageError(Reason.UNREADABLE, detail) from error
        return data, check_image(data, limits=self._limits, mode=self._check)


def _listed_bytes(image: ShardImage) -> int:
    return image.size


def _batches(images: Iterable[CheckedImage]) -> Iterator[list[CheckedImage]]:
    batch: list[CheckedImage] = []
    held = 0
    for image in images:
        batch.append(image)
        held += len(image.data)
        if len(batch) >= _BATCH_IMAGES or held >= _BATCH_BYTES:
            yield batch
            batch, held = [], 0
    if batch:
        yield batch
