"""Records of a former dataset that need no original."""

from __future__ import annotations

import contextlib
import functools
import json
import logging
import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple

from transforms.core.messages import first_line
from transforms.core.records import IndexPart, JoinSide, PartnerFile, ShardImage, partner_files
from transforms.dataset.manifest import ManifestError, check_digest
from transforms.dataset.output_names import MANIFEST
from transforms.examples.decoder import only_bytes
from transforms.examples.partners import Partner
from transforms.examples.tfrecord import TFRecordError, framed_payload, read_frames
from transforms.images.check import CheckedPartner
from transforms.images.headers import FORMATS, image_format, read_header
from transforms.images.pixel_options import CHANGES, UNTOUCHED
from transforms.labels.image_names import listed_key, listed_path
from transforms.labels.keys import MEMORY, full_uri, image_key, relative_path
from transforms.labels.shards import Libraries, RecipeMaker
from transforms.records.originals import StoredPartner
from transforms.records.record_index import (
    FRAME_BYTES,
    LIBRARIES,
    PARTNERS,
    RecordIndexError,
    check_hashes,
    content_hash,
    index_rows,
    indexed_files,
)
from transforms.records.stored_images import (
    COMPRESSED,
    RECORDS,
    STORED_COLUMNS,
    BaseShard,
    StoredImage,
    read_partner,
    stored_side,
)
from transforms.records.written_index import open_records, read_listed_index
from transforms.storage.files import join, read_manifest, storage_of

if TYPE_CHECKING:
    import pyarrow as pa


# Reads the indexes of bases: datasets whose records may be reused.

_LOGGER = logging.getLogger(__name__)

# The index of images has them for every record; that of compressed shards has no offsets.
_ALWAYS_FILLED = (
    *("shard", "record", "length", "key", "path", "size", "version"),
    *("format", "height", "width", "channels", "orientation", "gps"),
)

# The longest side that any format allows, and formats whose size a glance at the header tells.
_LONGEST_SIDE = 2**30
_SIZED = ("jpeg", "png")

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
        path_feature: the name of the feature that holds the path of the image; empty without one.
    """

    folder: str
    feature: str
    digest: str
    root: str
    is_pixels: bool = False
    partners: tuple[BasePartner | None, ...] = ()
    path_feature: str = ""


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
        for entry, files in indexed_files(manifest):
            if files:
                listed = [[each[name] for name in _FILE] for each in files]
                yield IndexPart(folder, json.dumps([entry, listed]))

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
        check_hashes(table)
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
        for row in index_rows(table.select(columns)):
            place, whole = _place(row, files)
            if not _is_possible(row):
                raise RecordIndexError("its index says of an image what none can be")
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


def _is_possible(row: Mapping[str, Any]) -> bool:
    """Whether an image can be what the row of an edited index says."""
    sides = (row[name] for name in ("height", "width", "source_height", "source_width"))
    return (
        row["format"] in FORMATS
        and all(side is None or 0 < side <= _LONGEST_SIDE for side in sides)
        and 1 <= row["channels"] <= 4
        and 0 <= row["orientation"] <= 8
        and {*(row["changes"] or UNTOUCHED[0]).split(",")} <= {*CHANGES}
    )


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


# Reads records of bases: neighbours at once, and those of a compressed file in order.

# Bytes of neighbours that are read at once; of a remote file, with what is between them: a request
# takes as long as a few megabytes.
_RUN_BYTES = 8 << 20
_REMOTE_GAP_BYTES = 1 << 20

# Runs that are fetched while one is used.
_AHEAD, _REMOTE_AHEAD = 1, 2


class RecordRun:
    """Neighbours in one file, read by the first thread that needs one of them.

    Attributes:
        path: of the file.
        is_at_hand: whether most records are in memory when they are needed.
        following: the runs that will probably be needed next.
    """

    def __init__(self, path: str, stored: StoredImage) -> None:
        self.path = path
        self.following: Sequence[RecordRun] = ()
        self._storage = storage_of(path)
        # Neighbours are read at once. Many threads wait for the answers of a bucket.
        self.is_at_hand = not self._storage.is_remote
        self._start = stored.offset
        self._end = stored.offset + stored.length + FRAME_BYTES
        self._left = 1
        self._lock = threading.Lock()
        self._data: bytes | None = None
        self._fetched: Future[bytes] | None = None

    def takes(self, path: str, stored: StoredImage) -> bool:
        """Adds the next record if it follows the others."""
        end = stored.offset + stored.length + FRAME_BYTES
        gap = _REMOTE_GAP_BYTES if self._storage.is_remote else 0
        if path != self.path or not 0 <= stored.offset - self._end <= gap:
            return False
        if end - self._start > _RUN_BYTES:
            return False
        self._end = end
        self._left += 1
        return True

    def payload(self, stored: StoredImage) -> bytes:
        """The data of one record; raises OSError or TFRecordError."""
        with self._lock:
            if self._data is None:
                for run in self.following:
                    run.fetch()
                self._data = self._fetched.result() if self._fetched else self._read()
                self._fetched = None
            data = self._data
            self._left -= 1
            if not self._left:
                self._data = None
        at, offset = stored.offset - self._start, stored.offset
        return framed_payload(data, at, stored.length, record=stored.record, offset=offset)

    def fetch(self) -> None:
        """Begins to read in another thread, if nobody does."""
        # Whoever holds the lock reads.
        if self._lock.acquire(blocking=False):
            with contextlib.ExitStack() as held:
                held.callback(self._lock.release)
                if self._data is None and self._fetched is None and self._left:
                    self._fetched = _pool().submit(self._read)

    def _read(self) -> bytes:
        length = self._end - self._start
        read = functools.partial(self._storage.read_range, self.path, follow_links=False)
        return read_frames(read, self._start, length)


class CompressedRecords:
    """Records of a compressed file, which is read once, in order.

    Attributes:
        path: of the file.
        is_at_hand: see `RecordRun`; to decompress takes longer than to change threads.
    """

    is_at_hand = False

    def __init__(self, path: str, records: Iterable[int]) -> None:
        """Opens nothing.

        Args:
            path: of the file.
            records: the numbers of those that are asked for, each once, in any order.
        """
        self.path = path
        self._wanted = set(records)
        self._held: dict[int, bytes] = {}
        self._next = 0
        self._lock = threading.Lock()
        self._file = contextlib.ExitStack()
        self._records: Iterator[bytes] | None = None

    def payload(self, stored: StoredImage) -> bytes:
        """See `RecordRun`; keeps what other threads will ask for."""
        with self._lock:
            if self._records is None:
                self._records = self._file.enter_context(
                    open_records(self.path, follow_links=False)
                )
            while self._next <= stored.record:
                record = next(self._records, None)
                if record is None:
                    raise TFRecordError(self._next, 0, "the file ends before this record")
                if self._next in self._wanted:
                    self._held[self._next] = record
                self._next += 1
            self._wanted.discard(stored.record)
            if not self._wanted:
                self._file.close()
            data = self._held.pop(stored.record)
        if len(data) != stored.length:
            problem = f"it has {len(data)} bytes, and the index says {stored.length}"
            raise TFRecordError(stored.record, 0, problem)
        return data


RecordSource = RecordRun | CompressedRecords
"""Gives some records of one file, each of them once."""


def record_sources(
    placed: Iterable[tuple[str, str, StoredImage]],
) -> dict[str, tuple[RecordSource, StoredImage]]:
    """The sources of the records of some images by their keys; reads nothing.

    A compressed file is used if half of what must be read of it is needed, in the order in which
    it is needed; the other images are left out.

    Args:
        placed: key, path of the file and place of the record of each image, in the order in which
            they are read.
    """
    found: dict[str, tuple[RecordSource, StoredImage]] = {}
    runs: list[RecordRun] = []
    compressed: dict[str, list[tuple[str, StoredImage]]] = {}
    for key, path, stored in placed:
        if path.endswith(COMPRESSED):
            in_order = compressed.setdefault(path, [])
            if not in_order or in_order[-1][1].record < stored.record:
                in_order.append((key, stored))
            continue
        if not runs or not runs[-1].takes(path, stored):
            runs.append(RecordRun(path, stored))
        found[key] = runs[-1], stored
    for number, run in enumerate(runs):
        ahead = _REMOTE_AHEAD if storage_of(run.path).is_remote else _AHEAD
        run.following = runs[number + 1 : number + 1 + ahead]
    for path, in_order in compressed.items():
        if 2 * len(in_order) > in_order[-1][1].record:
            source = CompressedRecords(path, [stored.record for _, stored in in_order])
            found.update((key, (source, stored)) for key, stored in in_order)
    return found


@functools.lru_cache(maxsize=1)
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(2 * _REMOTE_AHEAD, thread_name_prefix="read-records")


# A fork has the pool without its threads.
os.register_at_fork(after_in_child=_pool.cache_clear)


# Reads images from the records of bases: neighbours at once, and each of them checked.


class ReusedImage(NamedTuple):
    """An image from its record.

    Attributes:
        stored: its record.
        data: the stored image.
        partners: its masks and further images; None for one that must be read from its file.
    """

    stored: StoredImage
    data: bytes
    partners: list[StoredPartner | None]


class ReusedImages:
    """The images of one shard that bases hold.

    Attributes:
        bases: the datasets.
    """

    def __init__(
        self,
        bases: Sequence[Base],
        images: Sequence[ShardImage],
        root: str,
        logged: dict[str, object] | None = None,
    ) -> None:
        """Groups neighbours; reads nothing.

        Args:
            bases: the datasets.
            images: those that are read once each, in this order.
            root: common folder of the images of this run.
            logged: files of bases about which there was a line; of several shards.
        """
        self._gone: set[str] = set()
        self._root = root
        self._logged = {} if logged is None else logged
        self.bases = bases
        found = ((image.key, self._readable(image)) for image in images)
        self._sources = record_sources(
            (key, join(bases[each.base].folder, each.shard), each)
            for key, each in found
            if each is not None
        )

    @property
    def ranges(self) -> int:
        """The number of parts of shards that are read, each at once."""
        return len({id(source) for source, _ in self._sources.values()})

    def holds(self, image: ShardImage) -> bool:
        """Whether an image is read from its record, as long as that is sound."""
        return image.key in self._sources

    def is_at_hand(self, image: ShardImage) -> bool:
        """Whether `read` mostly copies bytes that were read with those of its neighbours."""
        found = self._sources.get(image.key)
        return found is not None and found[0].is_at_hand and not self.opened(image)

    def opened(self, image: ShardImage) -> list[PartnerFile]:
        """The masks and further images that are read from their files."""
        files = partner_files(image.partners)
        if image.key not in self._sources:
            return files
        partners = self._sources[image.key][1].partners
        return [file for file, known in zip(files, partners, strict=True) if known is None]

    def read(self, image: ShardImage) -> ReusedImage | None:
        """An image as it is stored, or None if it cannot be reused.

        A line says which file is damaged or gone.
        """
        if image.key not in self._sources:
            return None
        source, stored = self._sources[image.key]
        if source.path in self._gone:
            return None
        try:
            base = self.bases[stored.base]
            example = source.payload(stored)
            data = only_bytes(example, base.feature)
            is_same = content_hash(data) == stored.content
            if not (is_same and self._is_of(image, stored, data, example)):
                raise ValueError("the image is not that of the index")
            each = zip(base.partners, stored.partners, strict=True)
            partners = [
                StoredPartner.of_record(only_bytes(example, own.feature), known)
                if own and known
                else None
                for own, known in each
            ]
        except OSError as error:
            self._gone.add(source.path)
            self._log(source.path, error.strerror or first_line(error))
        except ValueError as error:
            self._log(source.path, first_line(error))
        else:
            return ReusedImage(stored, data, partners)
        return None

    def _is_of(self, image: ShardImage, stored: StoredImage, data: bytes, example: bytes) -> bool:
        """Whether a record says the same of its image as an index that may have been edited."""
        base = self.bases[stored.base]
        if base.path_feature and base.root not in (RECORDS, MEMORY):
            path = only_bytes(example, base.path_feature).decode()
            if full_uri(base.root, path) != full_uri(self._root, image.path):
                return False
        if base.is_pixels:
            return True
        format_, info = image_format(data), stored.info
        if format_ not in _SIZED:
            return format_ == info.format
        header = read_header(data, format_)
        return (format_, header.height, header.width) == info[:3]

    def _readable(self, image: ShardImage) -> StoredImage | None:
        """The first of the records of an image that hold it; None if none does."""
        if not image.stored:
            return None
        every = StoredImage.all_of_text(image.stored)
        return next((each for each in every if self.bases[each.base].feature), None)

    def _log(self, path: str, why: str) -> None:
        """One line for each file of a base: all of its records may have changed."""
        mine = object()
        # Several threads may find out at the same time.
        if self._logged.setdefault(path, mine) is mine:
            message = "originals are read instead of some records of %s: %s"
            _LOGGER.warning(message, path, why)
