"""Reads the indexes of bases: datasets whose records may be reused."""

from __future__ import annotations

import json
import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from transforms.core.dataset.manifest import ManifestError, check_digest, manifest_shards
from transforms.core.dataset.output_names import MANIFEST
from transforms.core.features.partners import Partner
from transforms.core.images.checked_image import CheckedPartner
from transforms.core.index.index_checks import index_places
from transforms.core.index.record_index import (
    FRAME_BYTES,
    LIBRARIES,
    PARTNERS,
    RecordIndexError,
)
from transforms.core.index.source_records import RECORDS
from transforms.core.index.stored_images import (
    COMPRESSED,
    STORED_COLUMNS,
    BaseShard,
    stored_side,
)
from transforms.core.index.stored_partners import read_partner
from transforms.core.planning.image_lists import listed_key, listed_path
from transforms.core.planning.keys import full_uri, image_key, relative_path
from transforms.core.planning.recipes import Libraries, RecipeMaker
from transforms.core.records import IndexPart, JoinSide, PartnerFile
from transforms.core.shown_text import first_line
from transforms.storage.files import join, read_manifest, storage_of
from transforms.written_index import read_listed_index

if TYPE_CHECKING:
    import pyarrow as pa

_LOGGER = logging.getLogger(__name__)

# The index of images has them for every record; that of compressed shards has no offsets.
_ALWAYS_FILLED = (
    *("shard", "record", "length", "key", "path", "size", "version"),
    *("format", "height", "width", "channels", "orientation", "gps"),
)

# What a part says of each file: its name, and a `BaseShard`.
_FILE = ("file", *BaseShard._fields)

_StoredPartner = tuple[PartnerFile, CheckedPartner]


class BasePartner(NamedTuple):
    """A mask or further image that the records of a base hold.

    Attributes:
        feature: the name of the feature that holds its bytes.
        root: the folder of its files, spelled as that of this run.
    """

    feature: str
    root: str


class Base(NamedTuple):
    """A dataset whose records may be reused.

    Attributes:
        folder: its folder.
        feature: the name of the feature that holds the image, or its pixels; empty if no record
            holds either, and only whole shards can be reused.
        digest: of its manifest; another one is not used.
        root: common folder of its images, spelled as that of this run.
        is_pixels: whether the feature holds decoded pixels.
        partners: the masks and further images of this run, in their order; None for one that the
            records do not hold.
    """

    folder: str
    feature: str
    digest: str
    root: str
    is_pixels: bool = False
    partners: tuple[BasePartner | None, ...] = ()


class BaseReader:
    """Reads the indexes of bases, with the keys that their images have in this run. Picklable."""

    def __init__(
        self,
        bases: tuple[Base, ...],
        *,
        root: str,
        key: str,
        are_listed: bool,
        libraries: Libraries,
        partners: tuple[Partner, ...] = (),
    ) -> None:
        """Sets what to read.

        Args:
            bases: the datasets.
            root: common folder of the images of this run.
            key: kind of the join key.
            are_listed: whether rows list the images of this run.
            libraries: on which changed images depend.
            partners: the masks and further images of this run, in their order.
        """
        self.bases = bases
        self._partners = partners
        self._root = root
        self._key = key
        self._are_listed = are_listed
        self._libraries = libraries
        self._said: set[str] = set()

    def parts(self, folder: str) -> Iterator[IndexPart]:
        """Yields the indexes of a base.

        A base that was changed meanwhile is not used: a line says so.
        """
        try:
            manifest = read_manifest(join(folder, MANIFEST))
            number = [base.folder for base in self.bases].index(folder)
            if manifest is None or manifest.get("digest", "") != self.bases[number].digest:
                raise RecordIndexError("it was changed meanwhile")
            check_digest(manifest, folder)
        except (RecordIndexError, ManifestError, OSError) as error:
            self._drop(folder, error)
            return
        files = defaultdict(list)
        entries = {}
        places = index_places(manifest)
        for shard in manifest_shards(manifest):
            if (place := places.get(shard["file"])) is not None:
                entries[place.entry["file"]] = place.entry
                files[place.entry["file"]].append([shard[name] for name in _FILE])
        for name, entry in entries.items():
            yield IndexPart(folder, json.dumps([entry, files[name]]))

    def read(self, folder: str) -> Iterator[tuple[str, JoinSide]]:
        """Yields every record of a base that may be reused, with its key.

        Nothing is used from the first index on that was changed or lacks something: a line says so.
        """
        parts = list(self.parts(folder))
        try:
            for part, table in zip(
                parts, storage_of(folder).for_each(self._table, parts), strict=True
            ):
                yield from self._sides(part, table)
        except (RecordIndexError, OSError) as error:
            self._drop(folder, error)

    def read_part(self, part: IndexPart) -> Iterator[tuple[str, JoinSide]]:
        """Yields the records of one index; see `read`."""
        # In other processes than the one that made it, its class is one of Beam's.
        part = IndexPart(*part)
        try:
            yield from self._sides(part, self._table(part))
        except (RecordIndexError, OSError) as error:
            self._drop(part.folder, error)

    def _drop(self, folder: str, error: Exception) -> None:
        self._say(f"--reuse {folder} is not used further: {first_line(error)}")

    def _say(self, line: str) -> None:
        # A base has many indexes.
        if line not in self._said:
            self._said.add(line)
            _LOGGER.warning("%s", line)

    def _table(self, part: IndexPart) -> pa.Table:
        """The index of a shard, which has all values that its records need."""
        entry, files = json.loads(part.text)
        table = read_listed_index(part.folder, entry)
        if table.column("content").null_count:
            raise RecordIndexError("it was made with --dedupe off, so nothing proves its records")
        filled = [*_ALWAYS_FILLED]
        if not _is_compressed(files):
            filled.append("offset")
        if any(table.column(name).null_count for name in filled):
            raise RecordIndexError("its index is not that of shards of images")
        return table

    def _sides(self, part: IndexPart, table: pa.Table) -> Iterator[tuple[str, JoinSide]]:
        """The records of an index that may be reused."""
        number = [base.folder for base in self.bases].index(part.folder)
        files = json.loads(part.text)[1]
        maker = RecipeMaker("", self._libraries)
        here = {
            maker.versions(is_changed=True, has_heic=has_heic).encode()
            for has_heic in (False, True)
        }
        are_ours = (table.schema.metadata or {}).get(LIBRARIES, b"") in here
        base = self.bases[number]
        has_partners = any(base.partners) and PARTNERS in table.column_names
        # Pixels always depend on libraries, image files only if they were changed.
        depend = base.is_pixels or has_partners or table.column("changes").null_count < len(table)
        if depend and len(table) and not are_ours:
            why = "other versions of libraries made them"
            changed = "its pixels" if base.is_pixels else "changed images"
            further = ", masks and further images" if has_partners else ""
            self._say(f"--reuse {part.folder}: {changed}{further} are not reused: {why}")
        columns = [*STORED_COLUMNS, PARTNERS] if has_partners and are_ours else STORED_COLUMNS
        for row in table.select(columns).to_pylist():
            place, whole = _place(row, files)
            # A storage without times gives the version 0, which proves nothing.
            is_changed = base.is_pixels or row["changes"]
            if not row["version"] or (is_changed and not are_ours):
                continue
            uri = full_uri(base.root, row["path"])
            if self._are_listed:
                key = listed_key(uri, kind=self._key, root=self._root)
                path = listed_path(uri, self._root)
            else:
                try:
                    path = relative_path(uri, self._root)
                except ValueError:
                    continue
                key = image_key(uri, kind=self._key, root=self._root)
                if self._root == RECORDS:
                    # Images from records keep their keys.
                    key = row["key"]
            partners = self._stored_partners(base, row.get(PARTNERS) or ())
            yield key, stored_side(number, {**row, **place}, path, whole, partners)

    def _stored_partners(
        self, base: Base, rows: Iterable[Mapping[str, Any] | None]
    ) -> list[_StoredPartner | None]:
        """The masks and further images of a record, in the order of this run."""
        held = {row["name"]: read_partner(row) for row in rows if row is not None}
        return [
            own and _below(partner.root, own.root, held.get(partner.name))
            for partner, own in zip(self._partners, base.partners, strict=True)
        ]


def _below(root: str, former: str, stored: _StoredPartner | None) -> _StoredPartner | None:
    """A mask or further image with its path below another root; None if it is not there."""
    if stored is None:
        return None
    file, checked = stored
    try:
        return file._replace(path=relative_path(full_uri(former, file.path), root)), checked
    except ValueError:
        return None


def _is_compressed(files: list[list[Any]]) -> bool:
    return str(files[0][0]).endswith(COMPRESSED)


def _place(
    row: Mapping[str, Any], files: list[list[Any]]
) -> tuple[dict[str, Any], BaseShard | None]:
    """Where the record of a row is, and its shard, if the record is the first one and it is whole.

    Raises:
        RecordIndexError: the index names a record that the dataset does not have.
    """
    # Each image may have its own file; their index names them as one shard.
    is_single = "/" in files[0][0]
    if is_single and row["record"] >= len(files):
        raise RecordIndexError("its manifest lacks files of its records")
    name, *rest = files[row["record"] if is_single else 0]
    entry, record = BaseShard(*rest), 0 if is_single else row["record"]
    place = {"shard": name, "record": record, "offset": row["offset"]}
    # Names and places that are read back are untrusted.
    is_named = is_single or row["shard"] == name
    if _is_compressed(files):
        place["offset"] = -1
        is_there = row["length"] >= 0
    else:
        end = row["offset"] + row["length"] + FRAME_BYTES
        is_there = 0 <= row["offset"] < end <= entry.bytes
    if not (is_named and is_there and record < entry.records):
        raise RecordIndexError("its index names records that it does not have")
    return place, None if is_single or record else entry
