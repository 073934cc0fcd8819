"""Opens the published indexes of a split: where its records are, and their keys."""

from __future__ import annotations

import difflib
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from transforms.core.dataset.manifest import manifest_shards
from transforms.core.dataset.split_slices import ShardRange
from transforms.core.index.index_checks import index_places
from transforms.core.index.record_index import FRAME_BYTES, RecordIndexError, read_index
from transforms.record_files import RecordPlaces
from transforms.storage.files import join, read_dataset_file, storage_of

if TYPE_CHECKING:
    import pyarrow as pa

# Keys among which the closest one to a wrong key is looked for; of more, those next to it in order.
_ALL_NEAR, _BESIDE = 5_000, 100

# No record has more bytes.
_MAX_LENGTH = 2**31


class IndexReader:
    """Reads the indexes of one dataset, and compares them with its manifest."""

    def __init__(self, folder: str, manifest: Mapping[str, Any]) -> None:
        """Reads nothing.

        Args:
            folder: of the dataset.
            manifest: of the dataset.
        """
        self._folder = folder
        self._places = index_places(manifest)
        self._sizes = {shard["file"]: shard["bytes"] for shard in manifest_shards(manifest)}
        self._per_image = manifest["options"].get("files") == "per_image"

    def has_index(self, files: Iterable[str]) -> bool:
        """Whether the manifest lists the indexes of these files."""
        return all(file in self._places for file in files)

    def places(self, ranges: Sequence[ShardRange]) -> RecordPlaces:
        """Where the records of some ranges are.

        Raises:
            RecordIndexError: an index is damaged, or of another file.
            OSError: an index is missing or cannot be read.
        """
        parts: list[tuple[Any, Any]]
        if self._per_image:
            parts = [self._single_records(ranges)]
        else:
            parts = list(storage_of(self._folder).for_each(self._place, ranges))
        starts = array("q", [0])
        for each in ranges:
            starts.append(starts[-1] + each.take)
        columns = zip(*parts, strict=True) if parts else [[np.empty(0, np.int64)]] * 2
        offsets, lengths = map(np.concatenate, columns)
        return RecordPlaces(
            self._folder,
            tuple(each.file for each in ranges),
            starts,
            array("q", [each.skip for each in ranges]),
            offsets,
            lengths.astype(np.uint32),
        )

    def keys(self, ranges: Sequence[ShardRange]) -> RecordKeys:
        """The keys of the records of some ranges.

        Raises:
            RecordIndexError: an index is damaged, or of another file.
            OSError: an index is missing or cannot be read.
        """
        import pyarrow as pa

        # All keys of a dataset may have more than 2 GB.
        return RecordKeys(self._column("key", pa.large_string(), ranges))

    def class_ids(self, ranges: Sequence[ShardRange]) -> np.ndarray[Any, np.dtype[np.int64]]:
        """The class ids of those records of some ranges that have one.

        Raises:
            RecordIndexError: an index is damaged, or of another file.
            OSError: an index is missing or cannot be read.
        """
        import pyarrow as pa

        ids = self._column("label_id", pa.int64(), ranges).drop_null()
        return np.asarray(ids.to_numpy(zero_copy_only=False), np.int64)

    def _column(self, name: str, kind: pa.DataType, ranges: Sequence[ShardRange]) -> pa.Array:
        """One column of the records of some ranges."""
        import pyarrow as pa

        places = [self._places[each.file] for each in ranges]
        entries = {place.entry["file"]: place.entry for place in places}

        def read(entry: Mapping[str, Any]) -> pa.Array:
            column = self._read(entry, (name,)).column(name).cast(kind)
            return pa.concat_arrays([*column.chunks, pa.array([], kind)])

        tables = storage_of(self._folder).for_each(read, entries.values())
        columns = dict(zip(entries, tables, strict=True))
        parts = [
            columns[place.entry["file"]].slice(place.first + each.skip, each.take)
            for place, each in zip(places, ranges, strict=True)
        ]
        return pa.concat_arrays([*parts, pa.array([], kind)])

    def _single_records(self, ranges: Sequence[ShardRange]) -> tuple[Any, Any]:
        """Offsets and lengths of records that are the only ones of their files."""
        lengths = [self._sizes[each.file] - FRAME_BYTES for each in ranges]
        if lengths and not 0 <= min(lengths) <= max(lengths) <= _MAX_LENGTH:
            raise RecordIndexError(f"{self._folder} is damaged: a file has an impossible size")
        return np.zeros(len(lengths), np.int64), np.array(lengths, np.int64)

    def _place(self, part: ShardRange) -> tuple[Any, Any]:
        """Offsets and lengths of the records of a range."""
        entry, size = self._places[part.file].entry, self._sizes[part.file]
        table = self._read(entry, ("offset", "length"))
        if len(table) == part.records and not any(column.null_count for column in table.columns):
            offsets, lengths = (column.to_numpy() for column in table.columns)
            # Too large a number must not become a small one.
            if not len(lengths) or 0 <= lengths.min() <= lengths.max() <= min(size, _MAX_LENGTH):
                ends = np.cumsum(lengths + FRAME_BYTES)
                starts = ends - lengths - FRAME_BYTES
                if (int(ends[-1]) if len(ends) else 0) == size and np.array_equal(offsets, starts):
                    chosen = slice(part.skip, part.skip + part.take)
                    return offsets[chosen], lengths[chosen]
        path = join(self._folder, entry["file"])
        raise RecordIndexError(f"{path} is damaged: its records are not those of {part.file}")

    def _read(self, entry: Mapping[str, Any], columns: Sequence[str]) -> pa.Table:
        path = join(self._folder, entry["file"])
        data = read_dataset_file(path, entry)
        if data is None:
            raise RecordIndexError(f"{path} is damaged: its checksum is not that of the manifest")
        return read_index(data, path, records=entry["records"], columns=columns)


class RecordKeys:
    """Finds records by their keys: bytes of the keys, and 12 bytes for each."""

    def __init__(self, keys: pa.Array) -> None:
        """Sorts them.

        Args:
            keys: of all records, in order.
        """
        import pyarrow.compute as pc

        self._keys = keys
        self._order = pc.array_sort_indices(keys).to_numpy().astype(np.uint32)

    def find(self, key: str, among: range | None = None) -> int | None:
        """The number of the first record with a key, or None.

        Args:
            key: of the record.
            among: the numbers that count; None for all.
        """
        for at in range(self._place(key), len(self._order)):
            if self._key(at) != key:
                break
            number = int(self._order[at])
            if among is None or number in among:
                return number
        return None

    def closest(self, key: str) -> str | None:
        """The key that was probably meant, or None."""
        import pyarrow.compute as pc

        name = key.rpartition("/")[2]
        stem = name.rpartition(".")[0] or name
        for other in (name, stem):
            if other and self.find(other) is not None:
                return other
        if stem:
            # Keys may be paths.
            among = self._keys.filter(pc.match_substring(self._keys, stem))
            if len(among):
                return str(among[0].as_py())
        at, count = self._place(key), len(self._order)
        beside = count if count <= _ALL_NEAR else _BESIDE
        near = map(self._key, range(max(0, at - beside), min(count, at + beside)))
        return next(iter(difflib.get_close_matches(key, near, n=1)), None)

    def _place(self, key: str) -> int:
        """Where a key is, or would be, in sorted order."""
        return bisect_left(range(len(self._order)), key, key=self._key)

    def _key(self, at: int) -> str:
        """The key at a place in sorted order."""
        return str(self._keys[int(self._order[at])].as_py())
