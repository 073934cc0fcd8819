"""Reads the indexes of bases: datasets whose records may be reused."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from transforms.core.dataset.manifest import (
    ManifestError,
    check_digest,
    manifest_indexes,
    manifest_shards,
)
from transforms.core.dataset.output_names import MANIFEST
from transforms.core.index.record_index import FRAME_BYTES, LIBRARIES, RecordIndexError
from transforms.core.index.source_records import RECORDS
from transforms.core.index.stored_images import STORED_COLUMNS, stored_side
from transforms.core.planning.image_lists import listed_key, listed_path
from transforms.core.planning.keys import full_uri, image_key, relative_path
from transforms.core.planning.recipes import Libraries, RecipeMaker
from transforms.core.records import JoinSide
from transforms.core.shown_text import first_line
from transforms.storage.files import join, read_manifest
from transforms.written_index import read_listed_index

if TYPE_CHECKING:
    import pyarrow as pa

_LOGGER = logging.getLogger(__name__)

# The index of images in uncompressed shards has them for every record.
_ALWAYS_FILLED = (
    *("shard", "record", "offset", "length", "key", "path", "size", "version"),
    *("format", "height", "width", "channels", "orientation"),
)


class Base(NamedTuple):
    """A dataset whose records may be reused.

    Attributes:
        folder: its folder.
        feature: the name of the feature that holds the image.
        digest: of its manifest; another one is not used.
        root: common folder of its images, spelled as that of this run.
    """

    folder: str
    feature: str
    digest: str
    root: str


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
    ) -> None:
        """Sets what to read.

        Args:
            bases: the datasets.
            root: common folder of the images of this run.
            key: kind of the join key.
            are_listed: whether rows list the images of this run.
            libraries: on which changed images depend.
        """
        self.bases = bases
        self._root = root
        self._key = key
        self._are_listed = are_listed
        self._libraries = libraries

    def read(self, folder: str) -> Iterator[tuple[str, JoinSide]]:
        """Yields every record of a base that may be reused, with its key.

        A base that was changed meanwhile is not used: a line says so.
        """
        number = [base.folder for base in self.bases].index(folder)
        try:
            manifest = read_manifest(join(folder, MANIFEST))
            if manifest is None or manifest.get("digest", "") != self.bases[number].digest:
                raise RecordIndexError("it was changed meanwhile")
            check_digest(manifest, folder)
            sizes = {shard["file"]: shard["bytes"] for shard in manifest_shards(manifest)}
            here = RecipeMaker("", self._libraries).versions(is_changed=True).encode()
            has_others = False
            for entry in manifest_indexes(manifest):
                table = self._table(folder, entry)
                are_ours = (table.schema.metadata or {}).get(LIBRARIES, b"") == here
                yield from self._sides(number, table, sizes, are_ours=are_ours)
                changes = table.column("changes")
                has_others = has_others or (not are_ours and changes.null_count < len(changes))
            if has_others:
                why = "other versions of libraries made them"
                _LOGGER.warning("--reuse %s: changed images are not reused: %s", folder, why)
        except (RecordIndexError, ManifestError, OSError) as error:
            _LOGGER.warning("--reuse %s is not used further: %s", folder, first_line(error))

    def _table(self, folder: str, entry: dict[str, object]) -> pa.Table:
        """The index of a shard, which has all values that its records need."""
        table = read_listed_index(folder, entry)
        if table.column("content").null_count:
            raise RecordIndexError("it was made with --dedupe off, so nothing proves its records")
        if any(table.column(name).null_count for name in _ALWAYS_FILLED):
            raise RecordIndexError("its index is not that of uncompressed shards of images")
        return table

    def _sides(
        self, number: int, table: pa.Table, sizes: Mapping[str, int], *, are_ours: bool
    ) -> Iterator[tuple[str, JoinSide]]:
        """The records of a shard; `are_ours`: the libraries of this run made its changed images."""
        root = self.bases[number].root
        for row in table.select(STORED_COLUMNS).to_pylist():
            end = row["offset"] + row["length"] + FRAME_BYTES
            # Names and places that are read back are untrusted.
            if not 0 <= row["offset"] < end <= sizes.get(row["shard"], 0):
                raise RecordIndexError("its index names records that it does not have")
            # A storage without times gives the version 0, which proves nothing.
            if not row["version"] or (row["changes"] and not are_ours):
                continue
            uri = full_uri(root, row["path"])
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
            yield key, stored_side(number, row, path)
