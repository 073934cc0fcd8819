"""Other datasets as inputs of a run: those to reuse, those that are images, and those held out."""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from transforms.core.messages import LabelsError, check_final, first_line
from transforms.core.records import Count, IndexPart, JoinSide, Plain
from transforms.dataset.manifest import INDEXED, ManifestError, check_digest, names_of_ids
from transforms.dataset.output_names import MANIFEST
from transforms.examples.partners import Partner
from transforms.examples.tfrecord import FRAME_BYTES
from transforms.images.headers import FORMATS
from transforms.images.pixel_options import HOLDOUT
from transforms.labels.keys import full_uri, image_key, listed_key, listed_path, relative_path
from transforms.labels.shards import Libraries, RecipeMaker
from transforms.labels.vocabulary import LabelCells, LabelCounter
from transforms.records.foreign_records import record_rows
from transforms.records.record_index import (
    LIBRARIES,
    PARTNERS,
    RecordIndexError,
    check_hashes,
    index_rows,
    index_split,
    indexed_files,
    shard_of_index,
)
from transforms.records.stored_images import (
    COMPRESSED,
    RECORDS,
    SOURCE_COLUMNS,
    STORED_COLUMNS,
    BaseShard,
    StoredPartnerFile,
    read_partner,
    source_side,
    stored_side,
)
from transforms.records.written_index import TIMES_OF_IMAGES, read_listed_index
from transforms.storage.files import join, read_manifest, storage_of

if TYPE_CHECKING:
    import pyarrow as pa

# The flags that name datasets.
REUSE, IMAGES = "--reuse", "--images"


class OtherPartner(NamedTuple):
    """A mask or further image that the records of a dataset hold.

    Attributes:
        feature: the name of the feature that holds its bytes.
        root: the folder of its files, spelled as that of this run.
    """

    feature: str
    root: str


class OtherDataset(NamedTuple):
    """A dataset that is an input of a run.

    Attributes:
        folder: its folder.
        digest: of its manifest; another one is not used, or ends the run.
        feature: the name of the feature that holds the image, or its pixels; empty if no record
            holds either, and only whole shards can be reused.
        names: the feature of each source, see `Feature.source`.
        root: common folder of its images, spelled as that of this run.
        is_pixels: whether the feature holds decoded pixels.
        partners: the masks and further images of this run, in their order; None for one that the
            records do not hold.
        is_final: whether its images were made under the pixel options of this run.
        has_hashes: whether its index has their hashes, as far as the run needs to know.
        has_sizes: whether its images have the sizes of their originals in this run.
        split: the only one that is held out; empty for all.
        records: their number, if it is held out.
        key_kind: see `key_kind` of `record_index`.
        manifest: of files of another program that have no index; empty if it is in the folder.
    """

    folder: str
    digest: str
    feature: str = ""
    names: Mapping[str, str] = {}
    root: str = ""
    is_pixels: bool = False
    partners: tuple[OtherPartner | None, ...] = ()
    is_final: bool = False
    has_hashes: bool = True
    has_sizes: bool = True
    split: str = ""
    records: int = 0
    key_kind: str | None = ""
    manifest: Mapping[str, Any] = {}

    @property
    def given(self) -> Sequence[str]:
        """The values of `--images` that name it."""
        return self.manifest["inputs"]["images"] if self.manifest else [self.folder]


# What a part says of each file: its name, and a `BaseShard`.
_FILE = ("file", *BaseShard._fields)


def index_parts(
    manifest: Mapping[str, Any], flag: str, number: int = 0, split: str = ""
) -> Iterator[IndexPart]:
    """The indexes of a dataset that have rows, in the order of its manifest, with their files.

    Then files of other programs that have no index, each as a part of its own.

    Args:
        manifest: of the dataset.
        flag: that names it.
        number: of the dataset among those of the flag.
        split: the only one whose indexes count; empty for all.
    """
    for entry, files in indexed_files(manifest):
        if entry["records"] and split in ("", index_split(entry)):
            listed = tuple(tuple(each.get(name, "") for name in _FILE) for each in files)
            yield IndexPart(flag, number, entry, listed)
    for name, listed_split in manifest["splits"].items() if is_unindexed(manifest) else ():
        for shard in listed_split["shards"]:
            yield IndexPart(flag, number, {"file": shard["file"], "split": name}, ())


def is_unindexed(manifest: Mapping[str, Any]) -> bool:
    """Whether a manifest stands for files of another program, whose records are read instead."""
    return bool(manifest.get(INDEXED)) and not manifest["index"]


def part_shard(part: IndexPart) -> str:
    """The name of the shard of an index, uncompressed."""
    return shard_of_index(part.entry["file"])


Found = tuple[str, JoinSide] | Count | LabelCells


class DatasetReader:
    """Reads the indexes of the datasets of one flag, as tables or as sides of the join. Picklable.

    Attributes:
        datasets: all of them.
        flag: that names them.
    """

    flag = HOLDOUT

    # The columns that are read; those that have a value for every record; and what is said of an
    # index that has not, or names other records.
    _columns: Sequence[str] = (
        *("record", "length", "key", "path", "size", "split", "label"),
        *("content", "source_content", "perceptual_hash"),
    )
    _filled: Sequence[str] = ()
    _unfilled = ""
    _foreign = ""
    _replaced = "it was replaced since this run began: start it again"
    _needs_hashes = True

    def __init__(self, datasets: Sequence[OtherDataset] = ()) -> None:
        self.datasets = tuple(datasets)

    def parts(self, number: int) -> Iterator[IndexPart]:
        """Yields the indexes of a dataset.

        Raises:
            LabelsError: the dataset was replaced since the run began, is damaged or cannot be
                read.
            TransientError: a temporary failure.
        """
        dataset = self.datasets[number]
        with self._explained(dataset):
            if dataset.manifest:
                yield from index_parts(dataset.manifest, self.flag, number)
                return
            manifest = read_manifest(join(dataset.folder, MANIFEST), may_index=True)
            if manifest is None or manifest.get("digest", "") != dataset.digest:
                raise RecordIndexError(self._replaced)
            check_digest(manifest, dataset.folder)
            yield from index_parts(manifest, self.flag, number, dataset.split)

    def table(self, part: IndexPart) -> pa.Table:
        """One index; raises as `parts` does."""
        dataset = self.datasets[part.number]
        with self._explained(dataset):
            return self.checked(part)

    def shard_table(self, number: int, shard: str) -> pa.Table:
        """The index of one shard of a dataset; raises as `parts` does."""
        return self.table(next(each for each in self.parts(number) if part_shard(each) == shard))

    def checked(self, part: IndexPart) -> pa.Table:
        """One index, which has all values that the run needs.

        Raises:
            RecordIndexError: it has not, or is damaged.
            OSError: it cannot be read.
        """
        _, number, entry, files = part
        folder = self.datasets[number].folder
        table = read_listed_index(folder, entry, self._columns, most_times=TIMES_OF_IMAGES)
        if self._needs_hashes:
            check_hashes(table)
        filled = [name for name in self._filled if name != "offset" or not _is_compressed(files)]
        if any(table.column(name).null_count for name in filled):
            raise RecordIndexError(self._unfilled.format(path=join(folder, entry["file"])))
        return table

    def rows(self, part: IndexPart, table: pa.Table) -> Iterator[tuple[dict[str, Any], BaseShard]]:
        """The row of each record, with the file that holds it, and what the manifest says of that.

        Args:
            part: an index.
            table: its content.

        Raises:
            RecordIndexError: it names records that the dataset does not have.
        """
        _, number, entry, files = part
        path = join(self.datasets[number].folder, entry["file"])
        # Each image may have its own file; their index names them as one shard.
        is_single = bool(files) and "/" in files[0][0]
        end = 0
        for number, row in enumerate(index_rows(table)):
            if not files or (is_single and number >= len(files)):
                raise RecordIndexError("its manifest lacks files of its records")
            name, *rest = files[number if is_single else 0]
            shard = BaseShard(*rest)
            # Names and places that are read back are untrusted.
            is_named = is_single or (row["shard"] == name and number < shard.records)
            # One record may not be read any number of times.
            start = 0 if is_single else end
            end = start + row["length"] + FRAME_BYTES
            if _is_compressed(files):
                is_there, row["offset"] = row["length"] >= 0, -1
            else:
                is_there = start == row["offset"] <= end <= shard.bytes and row["length"] >= 0
            if not (is_named and is_there):
                raise RecordIndexError(self._foreign.format(path=path))
            row["shard"] = name
            yield row, shard

    @contextlib.contextmanager
    def _explained(self, dataset: OtherDataset) -> Iterator[None]:
        """Raises what goes wrong with a dataset as one line with its flag."""
        try:
            yield
        except (RecordIndexError, ManifestError) as error:
            raise LabelsError(f"{self.flag} {dataset.folder}: {first_line(error)}") from error
        except OSError as error:
            check_final(error, dataset.folder)
            what = f"cannot read {self.flag} {dataset.folder}"
            raise LabelsError(f"{what}: {first_line(error)}") from error

    def read(self, number: int) -> Iterator[Found]:
        """Yields every record of a dataset with its key; raises as `parts` does."""
        parts, dataset = list(self.parts(number)), self.datasets[number]
        with self._explained(dataset):
            tables = storage_of(dataset.folder).for_each(self.checked, parts)
            for part, table in zip(parts, tables, strict=True):
                yield from self._found(part, table)

    def read_part(self, part: IndexPart) -> Iterator[Found]:
        """Yields the records of one index; raises as `parts` does."""
        dataset = self.datasets[part.number]
        with self._explained(dataset):
            yield from self._found(part, self.checked(part))

    def _found(self, _part: IndexPart, _table: pa.Table, /) -> Iterator[Found]:
        """What an index says of its records; nothing of those that are only held out."""
        return iter(())


def _is_compressed(files: Plain) -> bool:
    return bool(files) and str(files[0][0]).endswith(COMPRESSED)


# Datasets whose records are images of the run.


class ImageRecordReader(DatasetReader):
    """Reads datasets whose records are images: every record, their number, and their labels."""

    flag = IMAGES
    _columns = SOURCE_COLUMNS
    _filled = (
        *("shard", "record", "offset", "length", "key", "path", "split"),
        *("format", "height", "width", "channels", "orientation", "gps"),
    )
    _unfilled = "{path} is not the index of images in uncompressed files"
    _foreign = "{path} names records that the dataset does not have"
    _needs_hashes = False

    def __init__(
        self,
        datasets: Sequence[OtherDataset] = (),
        *,
        label_from: str = "records",
        keeps_splits: bool = True,
        with_values: bool = False,
    ) -> None:
        """Sets what to read.

        Args:
            datasets: all of them.
            label_from: `csv` if rows may give the records other labels, `none` without labels.
            keeps_splits: whether the records stay in their splits.
            with_values: whether boxes and columns are taken from the records.
        """
        super().__init__(datasets)
        self._label_from = label_from
        self._keeps_splits = keeps_splits
        self._with_values = with_values

    def checked(self, part: IndexPart) -> Any:
        """See `DatasetReader.checked`; None for a file without an index."""
        return None if self.datasets[part.number].manifest else super().checked(part)

    def rows(self, part: IndexPart, table: Any) -> Iterator[tuple[dict[str, Any], BaseShard]]:
        """See `DatasetReader.rows`; the records of a file without an index are read."""
        dataset = self.datasets[part.number]
        if not dataset.manifest:
            yield from super().rows(part, table)
            return
        file, split = part.entry["file"], part.entry["split"]
        classes = names_of_ids(dataset.manifest)
        path = join(dataset.folder, file)
        for row in record_rows(path, file, split, dataset.names, classes):
            # Its content, and not that of the file, tells it from others.
            yield row, BaseShard(0, 0, row["record_content"], "")

    def _found(self, part: IndexPart, table: Any) -> Iterator[Found]:
        dataset = self.datasets[part.number]
        labels, found = LabelCounter(), 0
        # That of a row may be any other: 20,000 of them would take 17 s.
        split = part.entry["split"] if dataset.manifest else index_split(part.entry)
        split = split if self._keeps_splits else ""
        for row, shard in self.rows(part, table):
            found += 1
            if self._label_from == "none":
                row["label"] = row["label_id"] = None
            row["split"] = split
            side = source_side(
                part.number,
                row,
                shard_crc32c=shard.crc32c,
                with_values=self._with_values,
                is_final=dataset.is_final,
            )
            # Rows may replace all labels, which then decide their kind.
            if self._label_from != "csv":
                for label in json.loads(side.cells):
                    labels.add(label, side.path)
            yield row["key"], side
        yield Count("images_found", found)
        yield labels.counted()


# Datasets whose records may be reused.

_LOGGER = logging.getLogger(__name__)

# The longest side that any format allows.
_LONGEST_SIDE = 2**30


class ReuseReader(DatasetReader):
    """Reads datasets whose records may be reused, with the keys of their images in this run.

    A dataset that was changed meanwhile, or whose index lacks something, is not used further: a
    line says so.
    """

    flag = REUSE
    _columns = (*STORED_COLUMNS, PARTNERS)
    _filled = (
        *("shard", "record", "offset", "length", "key", "path", "size", "version"),
        *("format", "height", "width", "channels", "orientation", "gps"),
    )
    _unfilled = "its index is not that of shards of images"
    _foreign = "its index names records that it does not have"
    _replaced = "it was changed meanwhile"

    def __init__(
        self,
        datasets: Sequence[OtherDataset],
        *,
        root: str,
        key: str,
        are_listed: bool,
        libraries: Libraries,
        partners: Sequence[Partner] = (),
    ) -> None:
        """Sets what to read.

        Args:
            datasets: all of them.
            root: common folder of the images of this run.
            key: kind of the join key.
            are_listed: whether rows list the images of this run.
            libraries: on which changed images depend.
            partners: the masks and further images of this run, in their order.
        """
        super().__init__(datasets)
        self._partners = tuple(partners)
        self._root = root
        self._key = key
        self._are_listed = are_listed
        self._libraries = libraries
        self._said: set[str] = set()

    @contextlib.contextmanager
    def _explained(self, dataset: OtherDataset) -> Iterator[None]:
        try:
            yield
        except (RecordIndexError, ManifestError, OSError) as error:
            self._say(f"--reuse {dataset.folder} is not used further: {first_line(error)}")

    def _say(self, line: str) -> None:
        # A dataset has many indexes.
        if line not in self._said:
            self._said.add(line)
            _LOGGER.warning("%s", line)

    def _found(self, part: IndexPart, table: pa.Table) -> Iterator[Found]:
        dataset = self.datasets[part.number]
        maker = RecipeMaker("", self._libraries)
        here = {
            maker.versions(is_changed=True, has_heic=has_heic).encode()
            for has_heic in (False, True)
        }
        are_ours = (table.schema.metadata or {}).get(LIBRARIES, b"") in here
        has_partners = any(dataset.partners) and PARTNERS in table.column_names
        # Pixels always depend on libraries, image files only if they were changed.
        is_changed = table.column("changes").null_count < len(table)
        if (dataset.is_pixels or has_partners or is_changed) and len(table) and not are_ours:
            why = "other versions of libraries made them"
            changed = "its pixels" if dataset.is_pixels else "changed images"
            further = ", masks and further images" if has_partners else ""
            self._say(f"--reuse {dataset.folder}: {changed}{further} are not reused: {why}")
        columns = [*STORED_COLUMNS, PARTNERS] if has_partners and are_ours else STORED_COLUMNS
        for row, shard in self.rows(part, table.select(columns)):
            if not _is_possible(row):
                raise RecordIndexError("its index describes an image that cannot exist")
            is_single = "/" in row["shard"]
            whole = None if is_single or row["record"] else shard
            if is_single:
                row["record"] = 0
            # A storage without times gives the version 0, which proves nothing.
            is_changed = dataset.is_pixels or bool(row["changes"])
            if not row["version"] or (is_changed and not are_ours):
                continue
            uri = full_uri(dataset.root, row["path"])
            if self._are_listed:
                key = listed_key(uri, kind=self._key, root=self._root)
                path = listed_path(uri, self._root)
            else:
                try:
                    path = relative_path(uri, self._root)
                except ValueError:
                    continue
                # Images from records keep their keys.
                is_kept = self._root == RECORDS
                key = row["key"] if is_kept else image_key(uri, kind=self._key, root=self._root)
            partners = self._stored_partners(dataset, row.get(PARTNERS) or ())
            yield key, stored_side(part.number, row, path, whole, partners)

    def _stored_partners(
        self, dataset: OtherDataset, rows: Sequence[Mapping[str, Any] | None]
    ) -> list[StoredPartnerFile | None]:
        """The masks and further images of a record, in the order of this run."""
        held = {row["name"]: read_partner(row) for row in rows if row is not None}
        return [
            own and _below(partner.root, own.root, held.get(partner.name))
            for partner, own in zip(self._partners, dataset.partners, strict=True)
        ]


def _below(root: str, former: str, stored: StoredPartnerFile | None) -> StoredPartnerFile | None:
    """A mask or further image with its path below another root; None if it is not there."""
    if stored is None:
        return None
    file, checked = stored
    try:
        return file._replace(path=relative_path(full_uri(former, file.path), root)), checked
    except ValueError:
        return None


def _is_possible(row: Mapping[str, Any]) -> bool:
    """Whether an image can be what the row of an edited index says."""
    sides = (row[name] for name in ("height", "width", "source_height", "source_width"))
    return (
        row["format"] in FORMATS
        and all(side is None or 0 < side <= _LONGEST_SIDE for side in sides)
        and 1 <= row["channels"] <= 4
        and 0 <= row["orientation"] <= 8
    )
