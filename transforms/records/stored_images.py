"""Images that the records of another dataset hold."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from transforms.core.records import (
    Count,
    JoinSide,
    Kind,
    PartnerFile,
    Plain,
    PlannedImage,
    partner_files,
)
from transforms.core.rejections import Reason, RejectedImageError, Rejection
from transforms.images.checked_images import CheckedImage, CheckedPartner, ImageInfo, Seen
from transforms.images.pixel_options import UNTOUCHED, Original
from transforms.labels.joins import Joined, JoinGroup, JoinRules, labels_cells, placed
from transforms.labels.keys import content_version

# Masks and further images in the rows of an index, and of the records of bases.
#
# A record is used together with those of its partners whose files are unchanged: path, size and
# version are compared where the sides of a key are joined.

# Without these, an entry says nothing of a file.
_NEEDED = ("path", "size", "version", "length", "format", "content")


def partner_rows(
    names: Sequence[str], image: PlannedImage, stored: Sequence[CheckedPartner]
) -> list[dict[str, Any]]:
    """The masks and further images of a record, as the column `PARTNERS` has them.

    Args:
        names: of them, in their order.
        image: of the record.
        stored: as the record holds them.
    """
    each = zip(names, partner_files(image.partners), stored, strict=True)
    return [
        {
            "name": name,
            **file._asdict(),
            "length": checked.length,
            "format": checked.format,
            "content": bytes.fromhex(checked.content) or None,
            "gps": checked.has_place,
            "changes": changes_text(checked.changes),
        }
        for name, file, checked in each
    ]


def read_partner(row: Mapping[str, Any]) -> StoredPartnerFile | None:
    """A mask or further image of an index: its file, and what the record holds of it.

    None if nothing proves that its file is unchanged, or that the record is sound.
    """
    # A storage without times gives the version 0.
    if any(row[name] is None for name in _NEEDED) or not row["version"] or row["length"] < 0:
        return None
    changes = tuple(row["changes"].split(",")) if row["changes"] else ()
    file = PartnerFile(row["path"], row["size"], row["version"])
    content = row["content"].hex()
    checked = CheckedPartner(row["length"], row["format"], content, bool(row["gps"]), changes)
    return file, checked


def with_same_files(record: Plain, files: Plain, wanted: Plain) -> Plain:
    """A record of which only masks and further images of unchanged files are left.

    Args:
        record: see `StoredImage.of`.
        files: from which the record has them.
        wanted: those of the image.
    """
    if files == wanted:
        return record
    *fields, partners = record
    each = zip(partners, files, wanted, strict=True)
    return (*fields, tuple(partner if file == own else None for partner, file, own in each))


def changes_text(changes: tuple[str, ...]) -> str | None:
    """Changes to pixels as an index has them; None if there are none."""
    return None if changes in ((), UNTOUCHED) else ",".join(changes)


# Images that another dataset holds: sides of the join, and what a record says of its image.
#
# An image is taken from a base that has it under the same URI, size and version. Its line in the
# index of the base crosses the shuffle, and goes on with the image only.

COMPRESSED = ".gz"
"""The end of the name of a compressed file: its records are read in order."""

# The file of a mask or further image of a record, and what the record holds of it.
StoredPartnerFile = tuple[PartnerFile, CheckedPartner]


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
    """The record of an image in a base: its place, and what the index says of the image.

    Attributes:
        base: number of the base.
        shard: file of the record.
        record: its number there.
        offset: first byte of its frame; -1 in a compressed file.
        length: bytes of its data.
        content: hash of the stored image, 32 hexadecimal digits; empty if it is not known.
        source_content: of the original file.
        perceptual_hash: 16 hexadecimal digits, or empty.
        format: of the stored image, as the following ones.
        height: in pixels.
        width: in pixels.
        channels: of each pixel.
        orientation: of the original's EXIF tag.
        gps: whether the stored image holds GPS coordinates.
        changes: to its pixels, with commas between them; None if it is stored as it is.
        source_height: of the original, if it is another one.
        source_width: of the original, if it is another one.
        darkest: see `LOOKS`, as the following ones; None if nobody looked at the pixels.
        lightest: the level below which nearly all pixels are.
        sharpness: in hundredths.
        entropy: in tenths of a bit.
        whole: the shard, if this is its first record and it may be copied; else None.
        labels: its class ids and class names there, if it is an image of this run.
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
    format: str
    height: int
    width: int
    channels: int
    orientation: int
    gps: int
    changes: str | None
    source_height: int | None
    source_width: int | None
    darkest: int | None
    lightest: int | None
    sharpness: int | None
    entropy: int | None
    whole: BaseShard | None = None
    labels: tuple[tuple[int, str], ...] = ()
    partners: tuple[CheckedPartner | None, ...] = ()

    @classmethod
    def of(cls, record: Plain) -> StoredImage:
        """Reads `PlannedImage.record`, or one of `PlannedImage.stored`: see `plain_record`."""
        base, *columns, whole, labels, partners = record
        known = dict(zip(_OF_INDEX, columns, strict=True))
        known |= {name: (known[name] or b"").hex() for name in _HASHES}
        own = tuple(each and CheckedPartner._make(each) for each in partners)
        return cls(base, **known, whole=whole and BaseShard(*whole), labels=labels, partners=own)

    @property
    def info(self) -> ImageInfo:
        """Format and size of the stored image."""
        return ImageInfo(self.format, self.height, self.width, self.channels)

    def checked(self, data: bytes, *, changes_nothing: bool) -> CheckedImage:
        """The image as it was when it was checked for the base.

        Args:
            data: the stored image.
            changes_nothing: whether the run changes no image.
        """
        changes = tuple(self.changes.split(",")) if self.changes else ()
        turn = self.orientation if "turned" in changes else 1
        size = self.source_height or self.height, self.source_width or self.width
        hash_ = int(self.perceptual_hash, 16) if self.perceptual_hash else None
        return CheckedImage(
            data,
            self.info,
            Original(*size, turn),
            changes or (() if changes_nothing else UNTOUCHED),
            Seen(hash_, None, (self.darkest, self.lightest, self.sharpness, self.entropy)),
            self.orientation,
            content=self.source_content,
            stored_content=self.content,
            has_place=bool(self.gps),
        )


# The columns of an index that are fields of `StoredImage`, and those that are hashes.
_OF_INDEX = StoredImage._fields[1:-3]
_HASHES = ("content", "source_content", "perceptual_hash")

STORED_COLUMNS = ("key", "path", "size", "version", *_OF_INDEX)
"""The columns of an index that `stored_side` reads."""

# The number of fields that say where a record is.
_OF_PLACE = StoredImage._fields.index("content")


def stored_side(
    base: int,
    row: Mapping[str, Any],
    path: str,
    whole: BaseShard | None = None,
    partners: Sequence[StoredPartnerFile | None] = (),
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
    record = plain_record(base, row, whole, partners=[each and each[1] for each in partners])
    files = tuple(each and tuple(each[0]) for each in partners)
    file = path, row["size"], row["version"]
    return JoinSide(*file, "", "", kind=Kind.RECORD, record=(record, files))


def plain_record(
    base: int,
    row: Mapping[str, Any],
    whole: BaseShard | None = None,
    labels: Sequence[tuple[int, str]] = (),
    partners: Sequence[CheckedPartner | None] = (),
) -> Plain:
    """A record as `StoredImage.of` reads it; its hashes may be unknown."""
    known = {**row, "source_content": row["source_content"] or row["content"]}
    own = tuple(each and tuple(each) for each in partners)
    columns = (known[name] for name in _OF_INDEX)
    return base, *columns, whole and tuple(whole), tuple(labels), own


def join_reused(
    key: str,
    group: Iterable[JoinSide],
    *,
    join: JoinGroup,
) -> Iterator[Joined]:
    """Joins the images and rows of one key, and adds its record in a base to an image.

    Args:
        key: the join key.
        group: the images, the rows, and the records of bases.
        join: joins the images and the rows.
    """
    stored: dict[tuple[str, int, int], list[Plain]] = {}
    sides: list[JoinSide] = []
    for side in group:
        if side.kind == Kind.RECORD:
            stored.setdefault(side[:3], []).append(side.record)
        else:
            sides.append(side)
    if not sides:
        return
    for result in join(key, sides):
        if stored and isinstance(result, PlannedImage):
            found = stored.get((result.path, result.size, result.version), ())
            records = [with_same_files(record, files, result.partners) for record, files in found]
            yield result._replace(stored=_same_images(records))
        else:
            yield result


def _same_images(records: Sequence[Plain]) -> Plain:
    """The records of an image in several bases, always in one order.

    Empty if they hold other images: which of them is that of a fresh conversion, only the original
    shows. Only those with the most masks and further images are left.
    """
    if len(records) < 2:
        return (*records,)
    # Their places differ.
    in_order = sorted(records, key=lambda each: each[:_OF_PLACE])
    best = min(in_order, key=lambda each: each[-1].count(None))
    if not best[_OF_PLACE] or not all(_agree(best, each) for each in in_order):
        return ()
    same = (each for each in in_order if each[-1] == best[-1])
    return tuple(sorted(same, key=lambda each: each is not best))


def _agree(one: Plain, other: Plain) -> bool:
    """Whether two records hold the same image, and the same partners as far as both have them."""
    each = zip(one[-1], other[-1], strict=True)
    is_same = all(None in pair or pair[0] == pair[1] for pair in each)
    return is_same and one[_OF_PLACE:-3] == other[_OF_PLACE:-3]


# Records of a dataset as images of another one: sides of the join, and their join.

RECORDS = "records:"
"""The root of a dataset whose images all come from records; no file is below it."""

SOURCE_COLUMNS = (*STORED_COLUMNS, "split", "label", "label_id")
"""The columns of an index that `source_side` reads."""

# What an index says of an original, and no stored image shows.
_OF_ORIGINAL = ("orientation", "changes", "source_height", "source_width")

# `dumps` would make one for each record.
_ENCODER = json.JSONEncoder(ensure_ascii=False)

# Images and labels named in one detail.
_MAX_NAMED = 5


def has_records(manifest: Mapping[str, Any]) -> bool:
    """Whether some images of a dataset were records of other datasets."""
    return manifest["root"] == RECORDS or bool(manifest["inputs"].get("datasets"))


def source_side(
    base: int, row: Mapping[str, Any], *, shard_crc32c: str, with_values: bool, is_final: bool
) -> JoinSide:
    """A record as an image of this run.

    Args:
        base: the number of its dataset.
        row: of its index, with `SOURCE_COLUMNS`; `shard` is the file of the record.
        shard_crc32c: the checksum of that file.
        with_values: whether more than the image and its label is taken from the record.
        is_final: whether the image was made under the pixel options of this run.
    """
    label, label_id = row["label"], row["label_id"]
    many = isinstance(label, list)
    labels = label if many else [] if label is None else [label]
    ids = label_id if many else [] if label_id is None else [label_id]
    record = plain_record(base, row, labels=[*zip(ids, labels, strict=False)])
    # What is changed again has another size than its original: that of its record is close.
    is_original = is_final or not row["changes"]
    size = row["size"] if row["size"] and is_original else row["length"]
    version = _version(row, shard_crc32c, with_values, is_final)
    cells = _ENCODER.encode([*dict.fromkeys(labels)])
    side = JoinSide(row["path"], size, version, "", "", row["split"], cells=cells)
    return side._replace(kind=Kind.IMAGE_RECORD, record=record)


def _version(row: Mapping[str, Any], shard_crc32c: str, with_values: bool, is_final: bool) -> int:
    """A hash of what is taken from the record, as far as the index proves it."""
    parts = [row["content"] or b"", b"final" if is_final else b""]
    # Different originals may be stored as the same image.
    parts += [row["source_content"] or b""]
    parts += [str(row[name]).encode() for name in _OF_ORIGINAL]
    if with_values or not row["content"]:
        parts.append(f"{shard_crc32c} {row['record']}".encode())
    return content_version(b" ".join(parts))


def join_records(
    key: str,
    group: Iterable[JoinSide],
    rules: JoinRules,
    *,
    join: JoinGroup,
) -> Iterator[Joined]:
    """Joins the images and rows of one key, some of which are records of datasets.

    A record that is found twice, with the same image, labels and split, is one image. A row gives
    a record another label; without a row, it keeps its own.

    Args:
        key: the join key.
        group: the images and rows that have it.
        rules: what decides the label and the place of the image.
        join: joins images of files and rows, see `join_group`.
    """
    sides = list(group)
    records = sorted(side for side in sides if side.kind == Kind.IMAGE_RECORD)
    if not records:
        yield from join(key, sides)
        return
    rows = [side for side in sides if not side.is_image]
    files = [side for side in sides if side.kind == Kind.IMAGE]
    reason, detail = _contradiction(key, records, files, has_rows=bool(rows))
    if reason is not None:
        # The same record may be listed twice.
        kept = list({(side.path, side.record): side for side in (*records, *files)}.values())
        for side in kept:
            yield Rejection("image", reason.code, detail, side.path, key)
        if len(kept) < len(records) + len(files):
            yield Count("images_found_again", len(records) + len(files) - len(kept))
        if rows:
            yield Count("rows_rejected", len(rows))
        return
    if len(records) > 1:
        yield Count("images_found_again", len(records) - 1)
    image = records[0]
    if not rows:
        yield from _own(key, image, rules)
        return
    yield from join(key, [image._replace(cells="", kind=Kind.IMAGE), *rows])


def _contradiction(
    key: str, records: Sequence[JoinSide], files: Sequence[JoinSide], *, has_rows: bool
) -> tuple[Reason | None, str]:
    """The reason why none of several images with one key can be preferred; None if one can."""
    if len({side.version for side in records}) > 1 or files:
        named = sorted({repr(side.path) for side in (*records, *files)})[:_MAX_NAMED]
        count = len({(side.path, side.version) for side in (*records, *files)})
        return (
            Reason.DUPLICATE_KEY,
            f"{count} different images have the key {key!r}: {', '.join(named)}",
        )
    if not has_rows and len({side.cells for side in records}) > 1:
        said = " and ".join(sorted({side.cells for side in records})[:_MAX_NAMED])
        return Reason.AMBIGUOUS_LABEL, f"its records in several datasets have the labels {said}"
    if len(splits := sorted({side.split for side in records})) > 1:
        return Reason.SPLIT_CONFLICT, f"its records are in the splits {', '.join(splits)}"
    return None, ""


def _own(key: str, image: JoinSide, rules: JoinRules) -> Sequence[Joined]:
    """An image with the labels of its record."""
    label_from, assigner, requirements = rules
    labels: list[str] = [] if label_from == "none" else json.loads(image.cells)
    label = cells = ""
    try:
        if requirements.many_labels:
            cells = labels_cells(labels) if labels else ""
        elif len(labels) > 1:
            said = ", ".join(map(repr, labels[:_MAX_NAMED]))
            raise RejectedImageError(Reason.LABEL_CONFLICT, f"its record has the labels {said}")
        elif labels:
            label = labels[0]
        elif label_from != "none" and (label_from != "csv" or requirements.has_label):
            raise RejectedImageError(Reason.NO_LABEL, "its record has no label")
    except RejectedImageError as error:
        return (Rejection("image", error.reason.code, error.detail, image.path, key),)
    return placed(key, image._replace(label=label, cells=cells), 0, assigner)
