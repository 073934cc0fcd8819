"""Lists the records of datasets that `--images` names, as images with their keys."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from transforms.core.dataset.manifest import (
    ManifestError,
    check_digest,
    manifest_indexes,
    manifest_shards,
)
from transforms.core.dataset.output_names import MANIFEST, index_file
from transforms.core.file_errors import check_final
from transforms.core.index.index_checks import index_places
from transforms.core.index.record_index import FRAME_BYTES, RecordIndexError
from transforms.core.index.source_records import SOURCE_COLUMNS, source_side
from transforms.core.label_errors import LabelsError
from transforms.core.labels.label_kinds import LabelCells, LabelCounter
from transforms.core.records import Count, JoinSide
from transforms.core.shown_text import first_line
from transforms.storage.files import join, read_manifest
from transforms.written_index import read_listed_index

if TYPE_CHECKING:
    import pyarrow as pa

# The index of images in uncompressed shards has them for every record.
_ALWAYS_FILLED = (
    *("shard", "record", "offset", "length", "key", "path", "split"),
    *("format", "height", "width", "channels", "orientation", "gps"),
)


class Source(NamedTuple):
    """A dataset whose records are images of this run.

    Attributes:
        folder: its folder.
        digest: of its manifest; another one ends the run.
        feature: the name of the feature that holds the image.
        names: the feature of each source, see `Feature.source`.
        is_final: whether its images were made under the pixel options of this run.
        has_hashes: whether its index has their hashes, as far as the run needs to know.
    """

    folder: str
    digest: str
    feature: str
    names: Mapping[str, str]
    is_final: bool
    has_hashes: bool = True


class SourceReader:
    """Reads the indexes of datasets, one shard after the other. Picklable."""

    def __init__(
        self,
        sources: tuple[Source, ...],
        *,
        label_from: str,
        keeps_splits: bool,
        with_values: bool,
    ) -> None:
        """Sets what to read.

        Args:
            sources: the datasets.
            label_from: `csv` if rows may give the records other labels, `none` without labels.
            keeps_splits: whether the records stay in their splits.
            with_values: whether boxes and columns are taken from the records.
        """
        self.sources = sources
        self._label_from = label_from
        self._keeps_splits = keeps_splits
        self._with_values = with_values

    def read(self, folder: str) -> Iterator[tuple[str, JoinSide] | Count | LabelCells]:
        """Yields every record with its key, their number, and counts of their labels.

        Raises:
            LabelsError: the dataset was replaced since the run began, is damaged or cannot be
                read.
            TransientError: a temporary failure.
        """
        number = [source.folder for source in self.sources].index(folder)
        labels, found = LabelCounter(), 0
        try:
            manifest = read_manifest(join(folder, MANIFEST))
            if manifest is None or manifest.get("digest", "") != self.sources[number].digest:
                raise RecordIndexError("it was replaced since this run began: start it again")
            check_digest(manifest, folder)
            for row, crc32c in record_rows(folder, manifest):
                found += 1
                yield row["key"], self._side(number, row, crc32c, labels)
        except (RecordIndexError, ManifestError) as error:
            raise LabelsError(f"--images {folder}: {first_line(error)}") from error
        except OSError as error:
            check_final(error, folder)
            raise LabelsError(f"cannot read --images {folder}: {first_line(error)}") from error
        yield Count("images_found", found)
        yield labels.counted()

    def _side(
        self, number: int, row: dict[str, Any], crc32c: str, labels: LabelCounter
    ) -> JoinSide:
        if self._label_from == "none":
            row["label"] = row["label_id"] = None
        if not self._keeps_splits:
            row["split"] = ""
        side = source_side(
            number,
            row,
            shard_crc32c=crc32c,
            with_values=self._with_values,
            is_final=self.sources[number].is_final,
        )
        # Rows may replace all labels, which then decide their kind.
        if self._label_from != "csv":
            for label in json.loads(side.cells):
                labels.add(label, side.path)
        return side


def record_rows(folder: str, manifest: Mapping[str, Any]) -> Iterator[tuple[dict[str, Any], str]]:
    """The row of each record, with the file that holds it as `shard`, and that file's checksum.

    Args:
        folder: of the dataset.
        manifest: of the dataset.

    Raises:
        RecordIndexError: an index is damaged, or names records that the dataset does not have.
        OSError: one cannot be read.
    """
    files = {shard["file"]: shard for shard in manifest_shards(manifest)}
    own_files = {
        (place.entry["file"], place.first): file
        for file, place in index_places(manifest).items()
        if "/" in file
    }
    for entry in manifest_indexes(manifest):
        table = _table(folder, entry)
        for number, row in enumerate(table.to_pylist()):
            name = own_files.get((entry["file"], number), row["shard"])
            # Names and places that are read back are untrusted.
            is_ours = "/" in name or index_file(name) == entry["file"]
            end = row["offset"] + row["length"] + FRAME_BYTES
            if (
                not is_ours
                or not 0 <= row["offset"] < end <= files.get(name, {"bytes": 0})["bytes"]
            ):
                path = join(folder, entry["file"])
                raise RecordIndexError(f"{path} names records that the dataset does not have")
            row["shard"] = name
            yield row, files[name]["crc32c"]


def _table(folder: str, entry: Mapping[str, Any]) -> pa.Table:
    table = read_listed_index(folder, entry, SOURCE_COLUMNS)
    if any(table.column(name).null_count for name in _ALWAYS_FILLED):
        path = join(folder, entry["file"])
        raise RecordIndexError(f"{path} is not the index of images in uncompressed files")
    return table
