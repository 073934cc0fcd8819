"""Collects the rows of the index of a shard while it is written."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from transforms.core.images.checked_image import CheckedImage
from transforms.core.index.arrow_arrays import to_array
from transforms.core.index.record_index import (
    FRAME_BYTES,
    HASH_BYTES,
    LIBRARIES,
    PARTNERS,
    index_schema,
)
from transforms.core.index.stored_partners import changes_text, partner_rows
from transforms.core.planning.row_cells import parsed_rows
from transforms.core.records import ShardImage, ShardRow

if TYPE_CHECKING:
    import pyarrow as pa


class IndexRows:
    """Collects the records of one shard, with few calls for each.

    Attributes:
        checked: what each record was made of, without its image: see `add`.
        lengths: bytes of each record's data.
    """

    def __init__(self) -> None:
        self.checked: list[tuple[Any, ...]] = []
        self.lengths: list[int] = []

    def add(self, checked: CheckedImage) -> None:
        """Notes what a record is made of; its length is added to `lengths` once it is known."""
        self.checked.append(
            (
                checked.row or checked.image,
                checked.info,
                checked.original,
                checked.changes,
                checked.orientation,
                checked.perceptual_hash,
                checked.stored_content,
                checked.content,
                checked.has_place,
                checked.partners,
            )
        )

    def keys(self) -> list[str]:
        """The key of each record of an image."""
        return [planned.key for planned, *_ in self.checked]

    def table(
        self,
        shard: str,
        split: str,
        *,
        many_labels: bool = False,
        has_offsets: bool = True,
        is_per_image: bool = False,
        libraries: str = "",
        partners: Sequence[str] = (),
    ) -> pa.Table:
        """The index of the shard.

        Args:
            shard: its file name.
            split: its split.
            many_labels: see `index_schema`.
            has_offsets: whether a record can be read alone, which compressed files do not allow.
            is_per_image: whether each record has its own file.
            libraries: versions of the libraries on which the stored images depend.
            partners: the names of masks and further images, in their order.
        """
        import pyarrow as pa

        count = len(self.checked)
        planned, infos, originals, changes, tags, hashes, contents, sources, places, stored = (
            zip(*self.checked, strict=True) if count else [()] * 10
        )
        offsets: Sequence[int | None] = [None] * count
        if has_offsets:
            offsets = [0] * count if is_per_image else _offsets(self.lengths)
        columns = {
            "shard": [shard] * count,
            "record": range(count),
            "offset": offsets,
            "length": self.lengths,
            "split": [split] * count,
            "content": binary_values(contents),
            # Most images are stored as they are: their hash would take 16 bytes twice.
            "source_content": binary_values(
                [
                    "" if source == content else source
                    for content, source in zip(contents, sources, strict=True)
                ]
            ),
            "perceptual_hash": [
                None if value is None else value.to_bytes(HASH_BYTES, "big") for value in hashes
            ],
            "orientation": tags,
            "gps": places,
            "changes": list(map(changes_text, changes)),
            **plan_columns(planned, many_labels),
            **_of_sizes(infos, originals),
        }
        if partners:
            columns[PARTNERS] = list(map(partial(partner_rows, partners), planned, stored))
        schema = index_schema(many_labels=many_labels, has_partners=bool(partners))
        if libraries:
            schema = schema.with_metadata({LIBRARIES: libraries.encode()})
        arrays = [to_array(columns[field.name], field.type) for field in schema]
        return pa.Table.from_arrays(arrays, schema=schema)


def _offsets(lengths: Sequence[int]) -> list[int]:
    """The first byte of each record's frame."""
    offsets, offset = [], 0
    for length in lengths:
        offsets.append(offset)
        offset += length + FRAME_BYTES
    return offsets


def plan_columns(planned: Sequence[ShardImage | ShardRow], many_labels: bool) -> dict[str, Any]:
    """The columns that are known before an image is opened.

    Args:
        planned: the images of a shard, or its rows.
        many_labels: see `index_schema`.
    """
    # Not `isinstance`: in other processes Beam decodes records to classes of its own.
    if planned and hasattr(planned[0], "line"):
        return _of_rows(cast(Sequence[ShardRow], planned))
    images = cast(Sequence[ShardImage], planned)
    rows = [parsed_rows(image.cells) if image.cells else None for image in images]
    label: list[Any] = [image.label or None for image in images]
    label_id: list[Any] = [image.label_id if image.label else None for image in images]
    if many_labels:
        found = [_labels(each or ()) for each in rows]
        label, label_id = [[*each] for each in found], [[*each.values()] for each in found]
    return {
        "key": [image.key for image in images],
        "path": [image.path for image in images],
        "size": [image.size for image in images],
        "version": [image.version for image in images],
        "label": label,
        "label_id": label_id,
        "rows": [None if each is None else [where for where, *_ in each] for each in rows],
    }


def _of_rows(rows: Sequence[ShardRow]) -> dict[str, Any]:
    nothing = [None] * len(rows)
    return {
        "key": [row.key or f"{row.path}:{row.line}" for row in rows],
        "path": [row.path for row in rows],
        **dict.fromkeys(("size", "version", "label", "label_id"), nothing),
        "rows": [[f"{os.path.basename(row.path)}:{row.line}"] for row in rows],
    }


def _labels(rows: Sequence[Any]) -> dict[str, int]:
    """All labels of an image's rows with their ids, each once."""
    return {text: label_id for _, labels, _ in rows for label_id, text in labels}


def _of_sizes(infos: Sequence[Any], originals: Sequence[Any]) -> dict[str, Any]:
    """Format and size; the size in the file only where it is another one."""
    other = [
        None if (original.height, original.width) == (info.height, info.width) else original
        for info, original in zip(infos, originals, strict=True)
    ]
    return {
        "format": [info.format or None for info in infos],
        "height": [info.height or None for info in infos],
        "width": [info.width or None for info in infos],
        "channels": [info.channels or None for info in infos],
        "source_height": [each and each.height for each in other],
        "source_width": [each and each.width for each in other],
    }


def binary_values(digits: Sequence[str]) -> list[bytes | None]:
    """Hexadecimal digits as bytes; an empty text is null."""
    return [bytes.fromhex(each) if each else None for each in digits]
