"""The typed records that flow through the graph. None of them ever holds image bytes."""

from collections import Counter
from typing import Any, NamedTuple, Self, TypeAlias

Plain: TypeAlias = tuple[Any, ...]
"""Numbers, texts, bytes, None and tuples of these: what `marshal` writes."""


class Kind:
    """What a side of the join is: plain numbers, which cross the shuffle.

    Attributes:
        ROW: a label row.
        IMAGE: a file that is an image.
        IMAGE_RECORD: a record of another dataset that is an image.
        PARTNER: a file that is a mask or further image.
        KEY_LINE: a line of `--keys`.
        RECORD: a record of another dataset, of which an image may be taken.
        EMPTY_ROW: a label row without a label and a box, of an image without objects.
    """

    ROW, IMAGE, IMAGE_RECORD, PARTNER, KEY_LINE, RECORD, EMPTY_ROW = range(7)


class JoinSide(NamedTuple):
    """One side of the join: a found image, a label row, or what else has its key.

    One type for all sides lets one GroupByKey join them.

    Attributes:
        path: the file below the common root of its globs; empty for a label row.
        size: bytes of the file.
        version: changes when the file's content does (modification time or object generation).
        label: label text; empty for an image whose label is in a CSV.
        where: `CSV:LINE` of a label row, or `FILE:LINE` of a key, see `KeyReader`.
        split: the split of the row or the image's folder, from `split_text`.
        group: the row's group; images of one group share a split. The name of a partner.
        cells: the cells that the layout needs, see `parsed_rows`; empty if it needs none.
        kind: see `Kind`.
        checksum: of an image, see `FoundFile`; empty unless duplicates are dropped.
        record: what an index says of a record, or of an image in one, see `stored_images`.
    """

    path: str
    size: int
    version: int
    label: str
    where: str
    split: str = ""
    group: str = ""
    cells: str = ""
    kind: int = Kind.ROW
    checksum: str = ""
    record: Plain = ()

    @property
    def is_image(self) -> bool:
        """Whether it is an image, from a file or from a record."""
        return self.kind in (Kind.IMAGE, Kind.IMAGE_RECORD)


class PartnerFile(NamedTuple):
    """The file of a mask or of a further image, as it was listed.

    Attributes:
        path: below the root of the partner.
        size: in bytes.
        version: see `JoinSide`.
    """

    path: str
    size: int
    version: int


def partner_files(partners: Plain) -> list[PartnerFile]:
    """The files of an image in the order of the partners, by its `PlannedImage.partners`."""
    return [PartnerFile(*each) for each in partners]


class PlannedImage(NamedTuple):
    """One image that will be converted: all that its record needs except the pixels.

    Sorting the images of a shard gives the order of its records. The fields up to `cells`, and
    `partners`, decide their bytes; those after `split` are only there before the image is planned.

    Attributes:
        order: position in the dataset's order, a signed 64-bit hash of the key.
        key: the join key, unique in the dataset.
        path: below the common root of the globs.
        size: bytes of the file.
        version: see `JoinSide`.
        label: label text, once planned that of its class; empty when the dataset has no labels.
        label_id: of its class; 0 before it is planned.
        cells: its rows, see `parsed_rows`, once planned with the ids of their labels; empty if the
            layout needs none.
        stored: records of other datasets from which it may be taken, see `StoredImage`.
        partners: a `PartnerFile` of each mask and further image; empty if it has none.
        record: the record that is this image, see `StoredImage`; empty for a file.
        split: name of the split.
        rows: label rows that named this image with this label.
        checksum: see `JoinSide`.
        group: see `JoinSide`; empty unless its split is decided later.
    """

    order: int
    key: str
    path: str
    size: int
    version: int
    label: str
    label_id: int = 0
    cells: str = ""
    stored: Plain = ()
    partners: Plain = ()
    record: Plain = ()
    split: str = ""
    rows: int = 0
    checksum: str = ""
    group: str = ""


# Stands for an image where there is none, or whose plan is not known.
NO_IMAGE = PlannedImage(0, "", "", 0, 0, "")


class ShardRow(NamedTuple):
    """One row that will be a record, without an image.

    Sorting those of a shard gives the order of its records.

    Attributes:
        order: position in the dataset's order, a signed 64-bit hash of the key.
        key: the cell of the key's column; empty if file and line identify the row.
        path: the CSV below the common root of the files.
        line: the physical line on which the row starts, from 1.
        cells: those that the layout needs, in the order of `RowRequirements.columns`, with a NUL
            between them, which no CSV contains: one text takes much less memory than a list.
        split: name of the split.
    """

    order: int
    key: str
    path: str
    line: int
    cells: str
    split: str = ""


class Count(NamedTuple):
    """A number that the ledger adds up, such as the images that one glob matched."""

    name: str
    value: int


class NameRange(NamedTuple):
    """Files to list: those of a glob, or a part of them.

    Attributes:
        glob: the glob.
        start: the name in the bucket at or after which the part begins; empty for its beginning.
        end: the name before which it ends; empty for its end.
        partner: the name of the mask or further image that they are; empty for images.
    """

    glob: str
    start: str = ""
    end: str = ""
    partner: str = ""


class TablePart(NamedTuple):
    """A label table, or a part of one that any worker may read.

    Attributes:
        path: the table, or a glob of annotations.
        head: what stands before the part in a CSV: the bytes up to the end of its first row.
        start: the byte, or the row group of a Parquet file, with which the part begins.
        end: that before which it ends; -1 for the end of the table.
        lines: lines, or rows of a Parquet file, before it.
        version: of the table when it was divided, as the storage names it.
    """

    path: str
    head: bytes = b""
    start: int = 0
    end: int = -1
    lines: int = 0
    version: int = 0


class IndexPart(NamedTuple):
    """An index of another dataset that is an input of this run.

    Attributes:
        flag: that names the dataset.
        number: of the dataset among those of the flag.
        entry: its entry in the manifest.
        files: the names of the files of its records, each with a `BaseShard`.
    """

    flag: str
    number: int
    entry: dict[str, Any]
    files: Plain


class FingerprintBatch(NamedTuple):
    """Fingerprints of those records of a shard that fall into one bucket.

    Attributes:
        file: name of the shard.
        rows: of an array of `duplicates.FINGERPRINT`.
    """

    file: str
    rows: bytes


class BucketDuplicates(NamedTuple):
    """The duplicates in one bucket of fingerprints.

    Attributes:
        equal: the fields of an `duplicates.Equal`.
        files: the names of the shards that `hashes` numbers.
        hashes: of an array of `HASHED`: one for each content and split, or a sample of them.
    """

    equal: Plain
    files: Plain = ()
    hashes: bytes = b""


class RejectedPart(NamedTuple):
    """A part of `rejected.jsonl` in the staging folder.

    Attributes:
        number: its place among the parts.
        name: of the file in the staging folder.
        lines: rejections in it.
        bytes: bytes of it.
        crc32c: its checksum, 8 hexadecimal digits.
    """

    number: int
    name: str
    lines: int
    bytes: int
    crc32c: str


class FileBatch(NamedTuple):
    """Files of an output folder that one worker moves or removes together.

    Attributes:
        number: of the batch.
        files: an `output_changes.Put` or `Leftover` for each, as JSON.
    """

    number: int
    files: str


class Totals:
    """Counts that are added up, in any order: numbers, those by name, and other totals."""

    def merge(self, other: Self) -> None:
        """Adds the counts of `other`."""
        for name, counts in vars(other).items():
            ours = getattr(self, name)
            if isinstance(counts, Totals):
                ours.merge(counts)
            elif isinstance(counts, Counter):
                ours.update(counts)
            elif isinstance(counts, int):
                setattr(self, name, ours + counts)
