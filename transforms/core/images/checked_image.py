"""The one record of an image from its decoding to its Example."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from transforms.core.images.check import ImageInfo
from transforms.core.images.pixel_options import FROM_HEIC, Original
from transforms.core.records import NO_IMAGE, ShardImage, ShardRow

# Not a `MappingProxyType`, which cannot be pickled: a child process may decode the image.
_NO_VALUES: Mapping[str, Any] = {}


class CheckedPartner(NamedTuple):
    """A mask or further image as it is stored, without its bytes.

    Attributes:
        length: its bytes.
        format: of these bytes.
        content: `content_hash` of these bytes; empty when nothing is compared.
        has_place: whether they hold GPS coordinates.
        changes: to the pixels of a further image, as for an image; empty for a mask.
    """

    length: int
    format: str
    content: str = ""
    has_place: bool = False
    changes: tuple[str, ...] = ()


class CheckedImage(NamedTuple):
    """An image that may become a record, and what is known about it.

    Attributes:
        data: the bytes to store; `tf.io.decode_image` decodes them.
        info: format and size of these bytes.
        original: the image in the file.
        changes: the changes to its pixels, names from `pixel_options.CHANGES`.
        perceptual_hash: of the stored pixels; None when it is unknown.
        orientation: of the file's EXIF tag, 1 to 8; 0 when it has none. From `change_pixels` and
            `raw_pixels`, 1 may also mean that it has none, and 0 that the tag was not read.
        raw: the decoded pixels, for a layout with them: see `pixels.raw_pixels`; else empty.
        model_pixels: float32 `[height, width, channels]` for a model, before it runs; else None.
        image: its plan; `NO_IMAGE` before the plan is known, and for a row.
        values: of all other features, by name; a list for a list feature.
        content: `content_hash` of the file; empty when nothing is compared.
        stored_content: `content_hash` of `data`; empty when nothing is compared.
        embedding: the model's output as it is stored, see `embeddings.stored_embedding`.
        is_reused: whether it is from a record of another dataset.
        has_place: whether the bytes to store hold GPS coordinates.
        row: the plan of a record that is made of a row without an image.
        unread: bytes of `data` if they are not read, because the whole shard is copied.
        partners: its masks and further images, in their order.
    """

    data: bytes
    info: ImageInfo
    original: Original
    changes: tuple[str, ...] = ()
    perceptual_hash: int | None = None
    orientation: int = 0
    raw: bytes = b""
    model_pixels: Any = None
    image: ShardImage = NO_IMAGE
    values: Mapping[str, Any] = _NO_VALUES
    content: str = ""
    stored_content: str = ""
    embedding: bytes = b""
    row: ShardRow | None = None
    is_reused: bool = False
    unread: int = 0
    has_place: bool = False
    partners: tuple[CheckedPartner, ...] = ()

    @property
    def has_heic(self) -> bool:
        """Whether its file, or that of a further image, is a HEIC."""
        return FROM_HEIC in self.changes or any(FROM_HEIC in each.changes for each in self.partners)
