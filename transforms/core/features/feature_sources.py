"""The sources of features: each is declared here once, with all of its properties."""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from transforms.core.features.boxes import SIDES


class Role(enum.Enum):
    """The role of a source's values; `OTHER` if none of these applies."""

    IMAGE = "a whole image file"
    FURTHER_IMAGE = "the file of a further image"
    MASK = "the file of a mask"
    OBJECT_MASK = "the file of the mask of an object"
    PIXELS = "decoded pixels"
    EMBEDDING = "the output of a model"
    HEADER = "the field of `ImageInfo` that is the last part of the source's name"
    KEY = "a name of the record"
    CLASS_ID = "a class id"
    CLASS_TEXT = "the name of a class"
    COORDINATE = "a side of a box, 0 to 1"
    MARK = "0 or 1"
    OTHER = "anything"


class Needs(enum.Flag):
    """What a source needs in addition to an image."""

    NOTHING = 0
    LABEL = enum.auto()
    ROWS = enum.auto()
    BOXES = enum.auto()
    MODEL = enum.auto()


class Source(NamedTuple):
    """A source of the values of a feature.

    Attributes:
        name: as layouts and the manifest have it.
        dtype: `bytes`, `int64` or `float` (32 bits); empty if the source does not determine it.
        role: the role of the values.
        needs: further requirements.
        is_list: whether an image has any number of values.
        of_object: whether there is a value for each object in an image.
        encoding: of an array in one bytes value, as `tf.io.decode_raw` names it; else empty.
        texts: the source of the names, for class ids.
        columns: names of the CSV column that fills it, without case and punctuation.
    """

    name: str
    dtype: str
    role: Role = Role.OTHER
    needs: Needs = Needs.NOTHING
    is_list: bool = False
    of_object: bool = False
    encoding: str = ""
    texts: str = ""
    columns: tuple[str, ...] = ()

    @property
    def is_optional(self) -> bool:
        """Whether a preset leaves it out if the CSV has no column that fills it."""
        return bool(self.columns) and self.role is not Role.OBJECT_MASK


IMAGE = "image.bytes"
"""The source of a whole image file."""

EMBEDDING = "image.embedding"
"""The source that a model fills."""

PIXELS = "image.pixels"
"""The source of decoded pixels: height x width x channels bytes."""

SIZES = ("image.height", "image.width", "image.channels")
"""The sources of the shape of `PIXELS`, in its order."""

COLUMN = "csv."
"""The prefix of a source that is a column of the CSV."""

RAW = "uint8"
"""The encoding of `PIXELS`."""


def _of_object(
    name: str,
    dtype: str,
    role: Role = Role.OTHER,
    needs: Needs = Needs.BOXES,
    *,
    texts: str = "",
    columns: tuple[str, ...] = (),
) -> Source:
    """A source with a value for each row of an image."""
    return Source(name, dtype, role, needs | Needs.ROWS, True, True, "", texts, columns)


MASK = "mask"
"""The name of the masks of `--masks`, with which their sources begin."""

MASKS, IMAGES = "masks", "images"
"""Before the names of further masks and images that a layout file declares."""

PARTNER_FIELDS = ("bytes", "format", "path")
"""The last parts of the sources of masks and further images."""

_PARTNER = re.compile(rf"({MASK}|(?:{MASKS}|{IMAGES})\.[A-Za-z_][A-Za-z0-9_]*)\.(\w+)", re.ASCII)

_LABELS = Needs.LABEL | Needs.ROWS
_DECLARED = (
    Source(IMAGE, "bytes", Role.IMAGE),
    Source("image.format", "bytes", Role.HEADER),
    *(Source(name, "int64", Role.HEADER) for name in SIZES),
    Source("image.path", "bytes", Role.KEY),
    Source("image.key", "bytes", Role.KEY),
    Source("image.sha256", "bytes"),
    Source(PIXELS, "bytes", Role.PIXELS, encoding=RAW),
    Source(EMBEDDING, "float", Role.EMBEDDING, Needs.MODEL),
    # The one label of an image.
    Source("label.id", "int64", Role.CLASS_ID, Needs.LABEL, texts="label.text"),
    Source("label.text", "bytes", Role.CLASS_TEXT, Needs.LABEL),
    # The labels of all of its rows, each once.
    Source("label.ids", "int64", Role.CLASS_ID, _LABELS, is_list=True, texts="label.texts"),
    Source("label.texts", "bytes", Role.CLASS_TEXT, _LABELS, is_list=True),
    _of_object("object.ids", "int64", Role.CLASS_ID, Needs.LABEL, texts="object.texts"),
    _of_object("object.texts", "bytes", Role.CLASS_TEXT, Needs.LABEL),
    *(_of_object(f"box.{side}", "float", Role.COORDINATE) for side in SIDES),
    _of_object("object.area", "float", columns=("area",)),
    _of_object("object.is_crowd", "int64", Role.MARK, columns=("iscrowd", "crowd")),
    _of_object("object.difficult", "int64", Role.MARK, columns=("difficult", "isdifficult")),
    _of_object("object.group_of", "int64", Role.MARK, columns=("groupof", "isgroupof")),
    _of_object("object.truncated", "int64", Role.MARK, columns=("truncated", "istruncated")),
    _of_object("object.view", "bytes", columns=("pose", "view")),
    _of_object("object.mask", "bytes", Role.OBJECT_MASK, columns=("segmentation",)),
)

SOURCES: dict[str, Source] = {source.name: source for source in _DECLARED}
"""All sources but columns, in the order in which messages list them."""


def source_of(name: str) -> Source:
    """The source of this name: one of `SOURCES`, a column, or an unknown one from a manifest."""
    if name.startswith(COLUMN):
        return Source(name, "", needs=Needs.ROWS)
    return SOURCES.get(name) or _partner_source(name) or Source(name, "")


def partner_of(source: str) -> tuple[str, str] | None:
    """The name of the mask or further image that a source is of, and the last part of the source.

    >>> partner_of("masks.hand.bytes"), partner_of("mask.format"), partner_of("image.bytes")
    (('masks.hand', 'bytes'), ('mask', 'format'), None)
    """
    found = _PARTNER.fullmatch(source)
    return (found[1], found[2]) if found and found[2] in PARTNER_FIELDS else None


def is_mask(partner: str) -> bool:
    """Whether a name is that of masks, which follow the geometry of their image.

    >>> is_mask("mask"), is_mask("masks.hand"), is_mask("images.left")
    (True, True, False)
    """
    return partner.partition(".")[0] in (MASK, MASKS)


def _partner_source(name: str) -> Source | None:
    if (found := partner_of(name)) is None:
        return None
    partner, field = found
    if field != "bytes":
        return Source(name, "bytes")
    return Source(name, "bytes", Role.MASK if is_mask(partner) else Role.FURTHER_IMAGE)


def with_role(features: Iterable[Mapping[str, Any]], role: Role) -> list[str]:
    """The names of a manifest's features whose source has a role.

    >>> with_role([{"name": "a", "source": "image.key"}, {"name": "b", "source": "-"}], Role.KEY)
    ['a']
    """
    return [each["name"] for each in features if source_of(each["source"]).role is role]
