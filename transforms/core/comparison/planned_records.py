"""The records that a run would write, and what it would read for them: of one planned shard."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from transforms.core.comparison.record_changes import COLUMNS
from transforms.core.index.arrow_arrays import to_array
from transforms.core.index.index_rows import binary_values, plan_columns
from transforms.core.index.record_index import CONTENT_BYTES, PARTNERS, index_schema
from transforms.core.index.stored_images import StoredImage
from transforms.core.records import ShardImage

if TYPE_CHECKING:
    import pyarrow as pa

# The key of `PlannedReads` in the metadata of a table.
_READS = b"reads"


class PlannedReads(NamedTuple):
    """What a run would read.

    Attributes:
        reused: images that are taken from records of other datasets.
        originals: images, masks and further images that are opened.
        bytes: of these.
        ranges: of neighbouring records, each read at once.
        copied: shards that are copied without reading their records.
        records: images that are records of `--images` and not reused: no file of theirs is opened.
    """

    reused: int = 0
    originals: int = 0
    bytes: int = 0
    ranges: int = 0
    copied: int = 0
    records: int = 0

    def plus(self, other: PlannedReads) -> PlannedReads:
        """The sums of both.

        >>> PlannedReads(1, 2, 30, 1).plus(PlannedReads(reused=4))
        PlannedReads(reused=5, originals=2, bytes=30, ranges=1, copied=0, records=0)
        """
        return PlannedReads(*(mine + its for mine, its in zip(self, other, strict=True)))


def planned_part(
    images: Sequence[ShardImage], split: str, reads: PlannedReads, *, many_labels: bool
) -> bytes:
    """A planned shard as a file: its records as `Records.of_index` takes them, and its reads.

    The hashes of images that would be opened are not known, and null.

    Args:
        images: those of the shard.
        split: of the shard.
        reads: what the run would read for it.
        many_labels: see `index_schema`.
    """
    import pyarrow as pa

    records = [StoredImage.of_text(each.stored) if each.stored else None for each in images]
    columns = {
        **plan_columns(images, many_labels),
        "split": [split] * len(images),
        "content": binary_values([each.content if each else "" for each in records]),
        "source_content": binary_values([each.source_content if each else "" for each in records]),
    }
    fields = [index_schema(many_labels=many_labels).field(name) for name in COLUMNS]
    if any(image.partners for image in images):
        columns[PARTNERS] = [each and _known_partners(each) for each in records]
        partner = pa.struct([("content", pa.binary(CONTENT_BYTES))])
        fields.append(pa.field(PARTNERS, pa.list_(partner)))
    schema = pa.schema(fields, metadata={_READS: ",".join(map(str, reads)).encode()})
    arrays = [to_array(columns[field.name], field.type) for field in schema]
    file = pa.BufferOutputStream()
    with pa.ipc.new_stream(file, schema) as writer:
        writer.write_table(pa.Table.from_arrays(arrays, schema=schema))
    return bytes(file.getvalue())


def _known_partners(stored: StoredImage) -> list[dict[str, Any]] | None:
    """The masks and further images of a record by their hashes alone; None if one is read again."""
    found = [{"content": bytes.fromhex(each.content)} for each in stored.partners if each]
    return found if len(found) == len(stored.partners) else None


def read_part(data: bytes) -> tuple[pa.Table, PlannedReads]:
    """The records and the reads of a `planned_part`."""
    import pyarrow as pa

    with pa.ipc.open_stream(data) as reader:
        table = reader.read_all()
    reads = table.schema.metadata[_READS].decode().split(",")
    return table, PlannedReads(*map(int, reads))
