"""What is known of an image from its decoding to its Example; no NumPy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from transforms.core.records import NO_IMAGE, PlannedImage, ShardRow
from transforms.images.pixel_options import FROM_HEIC, Frame, Original

# Not a `MappingProxyType`, which cannot be pickled: a child process may decode the image.
_NO_VALUES: Mapping[str, Any] = {}


class ImageInfo(NamedTuple):
    """An accepted image.

    Attributes:
        format: `jpeg`, `png`, `gif`, `bmp`, `webp` or `jxl`, by content, never by name.
        height: in pixels.
        width: in pixels.
        channels: of `tf.io.decode_image(data)`: 1, 3 or 4, or 2 for grey with alpha.
    """

    format: str
    height: int
    width: int
    channels: int


class Seen(NamedTuple):
    """What the grey pixels of a stored image tell, if any were decoded.

    Attributes:
        perceptual_hash: 64 bits; None also for a blank image.
        grey: uint8 `[rows, columns]`, what `looks_of` takes; None if the looks are known.
        looks: see `LOOKS`, each None if nobody looked.
    """

    perceptual_hash: int | None = None
    grey: Any = None
    looks: Sequence[int | None] = (None,) * 4


UNSEEN = Seen()
"""No pixels were decoded."""

LOOKS = ("darkest", "lightest", "sharpness", "entropy")
"""What grey pixels look like, by the measures of cleanvision, which has them of colors
(https://github.com/cleanlab/cleanvision).

The levels, 0 to 255, below which 5% and 99% of the pixels are; the sharpness in hundredths, 0 to
200, by edges and by how uneven the levels are; and their entropy, 0 to 80, in tenths of a bit.
"""


class CheckedPartner(NamedTuple):
    """A mask or further image as it is stored.

    Attributes:
        length: its bytes.
        format: of these bytes.
        content: `content_hash` of these bytes; empty when nothing is compared.
        has_place: whether they hold GPS coordinates.
        changes: to the pixels of a further image, as for an image; empty for a mask.
        data: the bytes; empty once they are in an Example.
    """

    length: int
    format: str
    content: str = ""
    has_place: bool = False
    changes: tuple[str, ...] = ()
    data: bytes = b""


class CheckedImage(NamedTuple):
    """An image that may become a record, and what is known about it.

    Attributes:
        data: the bytes to store; `tf.io.decode_image` decodes them.
        info: format and size of these bytes.
        original: the image in the file.
        changes: the changes to its pixels, names from `pixel_options.CHANGES`.
        seen: in the stored pixels.
        orientation: of the file's EXIF tag, 1 to 8; 0 when it has none.
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
    seen: Seen = UNSEEN
    orientation: int = 0
    raw: bytes = b""
    model_pixels: Any = None
    image: PlannedImage = NO_IMAGE
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
    def frame(self) -> Frame:
        """What its boxes and masks follow."""
        applied = self.original.orientation
        tag = applied if applied != 1 else self.orientation or 1
        return Frame(*self.original, tag, (self.info.height, self.info.width))

    @property
    def has_heic(self) -> bool:
        """Whether its file, or that of a further image, is a HEIC."""
        return FROM_HEIC in self.changes or any(FROM_HEIC in each.changes for each in self.partners)
