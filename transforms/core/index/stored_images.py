"""Images that another dataset holds: sides of the join, and what a record says of its image.

An image is reused if a base has it under the same URI, size and version. Its line in the index of
the base crosses the shuffle as text, and only for images that are reused any further.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from transforms.core.images.check import ImageInfo
from transforms.core.images.checked_image import CheckedImage, CheckedPartner
from transforms.core.images.pixel_options import UNTOUCHED, Original
from transforms.core.index.stored_partners import (
    files_text,
    partners_of_text,
    with_same_files,
)
from transforms.core.records import Count, JoinSide, LabelledImage, PartnerFile
from transforms.core.rejections import Rejection

STORED_COLUMNS = (
    *("shard", "record", "offset", "length", "key", "path", "size", "version"),
    *("content", "source_content", "perceptual_hash", "format", "height", "width", "channels"),
    *("orientation", "gps", "changes", "source_height", "source_width"),
)
"""The columns of an index that `stored_side` reads."""

COMPRESSED = ".gz"
"""The end of the name of a compressed file: its records are read in order."""

# Between a record and those of other bases with the same image. No JSON text holds it.
_OTHERS = "\v"

# The size of a side that is a record of a base: neither an image nor a row has it.
_STORED = -2

# What tells the records of one image in several bases apart, next to `whole`.
_PLACE = ("base", "shard", "record", "offset", "length")

Joined = LabelledImage | Rejection | Count


class BaseShard(NamedTuple):
    """What the manifest of a base says of a shard.

    Attributes:
        records: in it.
        bytes: of its file.
        crc32c: of its file, 8 hexadecimal digits.
        recipe: see `shard_recipe`.
    """

    records: int
    bytes: int
    crc32c: str
    recipe: str


class StoredImage(NamedTuple):
    """The record of an image in a base.

    Attributes:
        base: number of the base.
        shard: file of the record.
        record: its number there.
        offset: first byte of its frame; -1 in a compressed file.
        length: bytes of its data.
        content: hash of the stored image, 32 hexadecimal digits.
        source_content: of the original file.
        perceptual_hash: 16 hexadecimal digits, or empty.
        info: format, height, width and channels of the stored image.
        orientation: of the original's EXIF tag.
        changes: to its pixels; empty if it is stored as it is.
        original: height and width in the file.
        whole: the shard, if this is its first record and it may be copied; else None.
        has_place: whether the stored image holds GPS coordinates.
        partners: its masks and further images, in the order of this run; None for one whose file
            is another one now.
    """

    base: int
    shard: str
    record: int
    offset: int
    length: int
    content: str
    source_content: str
    perceptual_hash: str
    info: ImageInfo
    orientation: int
    changes: tuple[str, ...]
    original: tuple[int, int]
    whole: BaseShard | None = None
    has_place: bool = False
    partners: tuple[CheckedPartner | None, ...] = ()

    @classmethod
    def of_text(cls, text: str) -> StoredImage:
        """Reads the text in `LabelledImage.stored`."""
        of_first = text.partition(_OTHERS)[0]
        *fields, info, orientation, changes, original, whole, place, partners = json.loads(of_first)
        rest = ImageInfo(*info), orientation, tuple(changes), tuple(original)
        shard = BaseShard(*whole) if whole else None
        return cls._make([*fields, *rest, shard, bool(place), partners_of_text(partners)])

    @classmethod
    def all_of_text(cls, text: str) -> list[StoredImage]:
        """The records of all bases that hold the image: first that of `of_text`."""
        stored = cls.of_text(text)
        found = [stored]
        for other in text.split(_OTHERS)[1:]:
            *place, whole = json.loads(other)
            named = dict(zip(_PLACE, place, strict=True))
            found.append(stored._replace(**named, whole=BaseShard(*whole) if whole else None))
        return found

    def checked(self, data: bytes, *, changes_nothing: bool) -> CheckedImage:
        """The image as it was when it was checked for the base.

        Args:
            data: the stored image.
            changes_nothing: whether the run changes no image.
        """
        turn = self.orientation if "turned" in self.changes else 1
        return CheckedImage(
            data,
            self.info,
            Original(*self.original, turn),
            self.changes or (() if changes_nothing else UNTOUCHED),
            int(self.perceptual_hash, 16) if self.perceptual_hash else None,
            self.orientation,
            content=self.source_content,
            stored_content=self.content,
            has_place=self.has_place,
        )


def stored_side(
    base: int,
    row: Mapping[str, Any],
    path: str,
    whole: BaseShard | None = None,
    partners: Sequence[tuple[PartnerFile, CheckedPartner] | None] = (),
) -> JoinSide:
    """A record of a base as a side of the join.

    Args:
        base: its number.
        row: of its index, with `STORED_COLUMNS`, an offset and a hash.
        path: of the image, below the root of this run.
        whole: see `StoredImage`.
        partners: its masks and further images, in the order of this run; None for one that it
            does not have.
    """
    text = stored_text(base, row, whole, [each and each[1] for each in partners])
    files = files_text([each and each[0] for each in partners])
    return JoinSide(path, _STORED, row["version"], "", files, cells=text, group=str(row["size"]))


def stored_text(
    base: int,
    row: Mapping[str, Any],
    whole: BaseShard | None = None,
    partners: Sequence[CheckedPartner | None] = (),
) -> str:
    """A record as the text that `StoredImage.of_text` reads; its hashes may be unknown."""
    content, source, hash_ = row["content"] or b"", row["source_content"], row["perceptual_hash"]
    height, width = row["height"], row["width"]
    stored = [
        base,
        *(row[name] for name in ("shard", "record", "offset", "length")),
        content.hex(),
        (source or content).hex(),
        "" if hash_ is None else hash_.hex(),
        [row["format"], height, width, row["channels"]],
        row["orientation"],
        row["changes"].split(",") if row["changes"] else [],
        [row["source_height"] or height, row["source_width"] or width],
        whole,
        row["gps"],
        partners,
    ]
    return json.dumps(stored, separators=(",", ":"))


def is_record(side: JoinSide) -> bool:
    """Whether a side is a record of a base, neither an image nor a row."""
    return side.size == _STORED and not side.is_image


def join_reused(
    key: str,
    group: Iterable[JoinSide],
    *,
    join: Callable[[str, Iterable[JoinSide]], Iterable[Joined]],
) -> Iterator[Joined]:
    """Joins the images and rows of one key, and adds its record in a base to an image.

    Args:
        key: the join key.
        group: the images, the rows, and the records of bases.
        join: joins the images and the rows.
    """
    stored: dict[tuple[str, int, int], list[JoinSide]] = {}
    sides: list[JoinSide] = []
    for side in group:
        if is_record(side):
            place = side.path, int(side.group), side.version
            stored.setdefault(place, []).append(side)
        else:
            sides.append(side)
    if not sides:
        return
    for result in join(key, sides):
        if stored and isinstance(result, LabelledImage):
            found = stored.get((result.path, result.size, result.version), ())
            texts = [with_same_files(each.cells, each.where, result.partners) for each in found]
            # An image from a record of `--images` has that one already.
            yield result._replace(stored=result.stored + _same_images(texts))
        else:
            yield result


def _same_images(texts: Sequence[str]) -> str:
    """The records of an image in several bases, always in one order, as `all_of_text` reads them.

    Empty if they hold other images: which of them is that of a fresh conversion, only the original
    shows. Only those with the most masks and further images are left.
    """
    if len(texts) < 2:
        return "".join(texts)
    read = {text: StoredImage.of_text(text) for text in sorted(texts)}
    first = min(read, key=lambda text: read[text].partners.count(None))
    best = read.pop(first)
    if not best.content or not all(_agree(best, each) for each in read.values()):
        return ""
    others = (each for each in read.values() if each.partners == best.partners)
    places = ([*(getattr(each, name) for name in _PLACE), each.whole] for each in others)
    return _OTHERS.join([first, *(json.dumps(place, separators=(",", ":")) for place in places)])


def _agree(one: StoredImage, other: StoredImage) -> bool:
    """Whether two records hold the same image, and the same partners as far as both have them."""
    each = zip(one.partners, other.partners, strict=True)
    is_same = all(None in pair or pair[0] == pair[1] for pair in each)
    return is_same and _without_place(one) == _without_place(other)


def _without_place(stored: StoredImage) -> StoredImage:
    """What a record says of its image alone."""
    place = stored._replace(base=0, shard="", record=0, offset=0, length=0)
    return place._replace(whole=None, partners=())
