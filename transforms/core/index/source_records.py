"""Records of a dataset as images of another one: sides of the join, and their join.

What a record says of its image crosses the shuffle as text, in `JoinSide.where` of the image and in
`LabelledImage.stored`, where the record of a dataset of `--reuse` may follow it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from transforms.core.index.stored_images import STORED_COLUMNS, StoredImage, stored_text
from transforms.core.planning.row_cells import ONE_LABEL, RowRequirements, labels_cells
from transforms.core.planning.split_assignment import SplitAssigner
from transforms.core.records import Count, JoinSide, LabelledImage
from transforms.core.rejections import Reason, RejectedImageError, Rejection

RECORDS = "records:"
"""The root of a dataset whose images all come from records; no file is below it."""

SOURCE_COLUMNS = (*STORED_COLUMNS, "split", "label", "label_id")
"""The columns of an index that `source_side` reads."""

# What an index says of an original, and no stored image shows.
_OF_ORIGINAL = ("orientation", "changes", "source_height", "source_width")

# Between the record, its labels, and the record of a base. No JSON text holds them.
_LABELS, _END = "\t", "\n"

# Versions below 1 have other meanings.
_VERSIONS = 2**63 - 1

# Images and labels named in one detail.
_MAX_NAMED = 5

Joined = LabelledImage | Rejection | Count


class SourceRecord(NamedTuple):
    """A record that is an image of this run.

    Attributes:
        stored: the image in it; its `base` is the number of the dataset.
        labels: its class ids and class names there.
    """

    stored: StoredImage
    labels: tuple[tuple[int, str], ...]

    @classmethod
    def of_text(cls, text: str) -> SourceRecord:
        """Reads the text in `LabelledImage.stored`."""
        record, _, labels = text.partition(_END)[0].partition(_LABELS)
        pairs = tuple((number, label) for number, label in json.loads(labels))
        return cls(StoredImage.of_text(record), pairs)


def is_source_record(stored: str) -> bool:
    """Whether an image is a record of a dataset, by its `LabelledImage.stored`."""
    return _END in stored


def has_records(manifest: Mapping[str, Any]) -> bool:
    """Whether some images of a dataset were records of other datasets."""
    return manifest["root"] == RECORDS or bool(manifest["inputs"].get("datasets"))


def reusable_record(stored: str) -> str:
    """The record in a dataset of `--reuse` alone, of an image from a file or from a record."""
    return stored.rpartition(_END)[2]


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
    pairs = list(zip(ids, labels, strict=False))
    where = f"{stored_text(base, row)}{_LABELS}{json.dumps(pairs, separators=(',', ':'))}"
    # What is changed again has another size than its original: that of its record is close.
    is_original = is_final or not row["changes"]
    size = row["size"] if row["size"] and is_original else row["length"]
    return JoinSide(
        row["path"],
        size,
        _version(row, shard_crc32c, with_values, is_final),
        "",
        where,
        row["split"],
        cells=json.dumps([*dict.fromkeys(labels)], ensure_ascii=False),
        is_image=True,
    )


def _version(row: Mapping[str, Any], shard_crc32c: str, with_values: bool, is_final: bool) -> int:
    """A hash of what is taken from the record, as far as the index proves it."""
    parts = [row["content"] or b"", b"final" if is_final else b""]
    # Different originals may be stored as the same image.
    parts += [row["source_content"] or b""]
    parts += [str(row[name]).encode() for name in _OF_ORIGINAL]
    if with_values or not row["content"]:
        parts.append(f"{shard_crc32c} {row['record']}".encode())
    digest = hashlib.blake2b(b" ".join(parts), digest_size=8).digest()
    return int.from_bytes(digest, "big") % _VERSIONS + 1


def is_record_image(side: JoinSide) -> bool:
    """Whether a side is a record of a dataset that is an image of this run."""
    return side.is_image and bool(side.where)


def join_records(
    key: str,
    group: Iterable[JoinSide],
    *,
    join: Callable[[str, Iterable[JoinSide]], Iterable[Joined]],
    label_from: str,
    assigner: SplitAssigner,
    requirements: RowRequirements = ONE_LABEL,
) -> Iterator[Joined]:
    """Joins the images and rows of one key, some of which are records of datasets.

    A record that is found twice, with the same image, labels and split, is one image. A row gives
    a record another label; without a row, it keeps its own.

    Args:
        key: the join key.
        group: the images and rows that have it.
        join: joins images of files and rows, see `join_group`.
        label_from: see `join_group`.
        assigner: gives an image its split and its order.
        requirements: the requirements of the layout for rows.
    """
    sides = list(group)
    records = sorted(side for side in sides if is_record_image(side))
    if not records:
        yield from join(key, sides)
        return
    rows = [side for side in sides if not side.is_image]
    files = [side for side in sides if side.is_image and not side.where]
    reason, detail = _contradiction(key, records, files, has_rows=bool(rows))
    if reason is not None:
        # The same record may be listed twice.
        kept = list({(side.path, side.where): side for side in (*records, *files)}.values())
        for side in kept:
            yield Rejection("image", reason.value, detail, side.path, key)
        if len(kept) < len(records) + len(files):
            yield Count("images_found_again", len(records) + len(files) - len(kept))
        if rows:
            yield Count("rows_rejected", len(rows))
        return
    if len(records) > 1:
        yield Count("images_found_again", len(records) - 1)
    image = records[0]
    stored = image.where + _END
    if not rows:
        yield _own(key, image, stored, label_from, assigner, requirements)
        return
    for joined in join(key, [image._replace(where="", cells=""), *rows]):
        if isinstance(joined, LabelledImage):
            yield joined._replace(stored=stored)
        else:
            yield joined


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


def _own(
    key: str,
    image: JoinSide,
    stored: str,
    label_from: str,
    assigner: SplitAssigner,
    requirements: RowRequirements,
) -> LabelledImage | Rejection:
    """An image with the labels of its record."""
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
        split, order = assigner.assign(key, split=image.split, group="")
    except RejectedImageError as error:
        return Rejection("image", error.reason.value, error.detail, image.path, key)
    return LabelledImage(
        split,
        order,
        key,
        image.path,
        image.size,
        image.version,
        label,
        0,
        cells,
        image.checksum,
        stored,
    )
