"""Reads the indexes of shards, staged or published, and checks their checksums."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from transforms.core.dataset.ledger import ShardSummary
from transforms.core.dataset.manifest import ManifestError
from transforms.core.dataset.output_names import STAGING, index_file
from transforms.core.file_errors import check_final
from transforms.core.index.index_checks import COMPARED, IndexPlace, shard_of_index
from transforms.core.index.record_index import RecordIndexError, read_index
from transforms.core.label_errors import LabelsError
from transforms.core.planning.shards import ShardName
from transforms.core.shown_text import first_line
from transforms.storage.files import join, read_dataset_file, storage_of

if TYPE_CHECKING:
    import pyarrow as pa

_CHANGED = "was changed since the dataset was written"


@contextlib.contextmanager
def explained(flag: str, folder: str) -> Iterator[None]:
    """Raises what goes wrong with the dataset that a flag names as one line with both.

    Raises:
        LabelsError: its manifest or an index is damaged, or cannot be read.
    """
    try:
        yield
    except (RecordIndexError, ManifestError) as error:
        raise LabelsError(f"{flag} {folder}: {first_line(error)}") from error
    except OSError as error:
        check_final(error, folder)
        raise LabelsError(f"cannot read {flag} {folder}: {first_line(error)}") from error


def read_written_index(
    output: str, summary: ShardSummary, columns: Sequence[str] | None = None
) -> pa.Table | None:
    """The index of a shard that is staged or already in place; None if it is not there, or damaged.

    Args:
        output: the dataset's folder.
        summary: of the shard.
        columns: those to read; None for all.
    """
    entry = {
        "records": summary.records,
        "bytes": summary.index_bytes,
        "crc32c": summary.index_crc32c,
    }
    for name in (f"{STAGING}/{summary.staged_index}", index_file(summary.file)):
        if not storage_of(output).exists(join(output, name)):
            continue
        try:
            return read_listed_index(output, {**entry, "file": name}, columns)
        except RecordIndexError:
            return None
    return None


def read_listed_index(
    output: str, entry: Mapping[str, Any], columns: Sequence[str] | None = None
) -> pa.Table:
    """The index of a shard, as the manifest lists it.

    Args:
        output: the dataset's folder.
        entry: file, number of records, bytes and checksum.
        columns: those to read; None for all.

    Raises:
        RecordIndexError: it was changed since it was written.
        OSError: it cannot be read.
    """
    path = join(output, entry["file"])
    data = read_dataset_file(path, entry)
    if data is None:
        raise RecordIndexError(f"{path} {_CHANGED}")
    return read_index(data, path, records=entry["records"], columns=columns)


class IndexedRows:
    """The rows of the index that was read last: files of single images share it."""

    def __init__(self, output: str) -> None:
        self._output = output
        self._last: tuple[str, list[dict[str, Any]]] = ("", [])

    def checked(
        self, shard: Mapping[str, Any], *, fast: bool
    ) -> tuple[list[dict[str, Any]] | None, str]:
        """The rows of the records of a file, and the problem of their index, or an empty text.

        Args:
            shard: its entry in the manifest, with its `IndexPlace` if it has an index.
            fast: whether to compare only the checksum of the index; there are no rows then.

        Raises:
            OSError: a temporary failure.
        """
        if "entry" not in shard:
            return None, ""
        place = IndexPlace(shard["entry"], shard["first"])
        path, problem = join(self._output, place.entry["file"]), ""
        try:
            if place.first == 0 and not storage_of(path).exists(path):
                problem = "the file is missing"
            elif not fast:
                return self._rows(place)[place.first : place.first + shard["records"]], ""
            elif place.first == 0:
                crc32c = storage_of(path).checksum(path, size=place.entry["bytes"])
                problem = _CHANGED if crc32c != place.entry["crc32c"] else ""
        except RecordIndexError:
            problem = _CHANGED
        except OSError as error:
            check_final(error, path)
            problem = f"cannot be read: {error.strerror or error}"
        # Files of single images share an index, whose problem is reported once.
        return None, problem if place.first == 0 else ""

    def _rows(self, place: IndexPlace) -> list[dict[str, Any]]:
        name = place.entry["file"]
        if self._last[0] != name:
            table = read_listed_index(self._output, place.entry, ("shard", "split", *COMPARED))
            shard = shard_of_index(name)
            names = {"shard": (shard, f"{shard}.gz"), "split": (ShardName.parse(shard).split,)}
            for column, known in names.items():
                if not {*table.column(column).unique().to_pylist()} <= {*known}:
                    raise RecordIndexError(f"{name} is damaged: its {column} is another one")
            self._last = (name, table.drop_columns([*names]).to_pylist())
        return self._last[1]
