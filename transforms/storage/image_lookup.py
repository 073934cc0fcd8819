"""Looks up the images that rows list: sizes and versions, many in parallel."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from transforms.core.records import JoinSide, Kind
from transforms.labels.keys import (
    MISSING,
    OUTSIDE,
    is_in_places,
    listed_key,
    listed_path,
    listed_uri,
)
from transforms.labels.label_rules import NOTHING, PathRules
from transforms.storage.files import storage_of
from transforms.storage.interface import READERS, Stored
from transforms.storage.read_ahead import ReadAhead


@dataclasses.dataclass(frozen=True, kw_only=True)
class RowImages:
    """Looks up the images of one dataset that rows list.

    A local file takes one `stat`, an object one request; lookups run in parallel like reads.

    Attributes:
        root: the common folder of the label files.
        key: kind of the join key.
        places: folders that local files must be in, see `top_folder`; None for anywhere.
        rules: how an image's path gives its label and its split.
        with_checksums: whether to find checksums, too, where they come with the sizes.
    """

    root: str
    key: str
    places: Collection[str] | None = None
    rules: PathRules = NOTHING
    with_checksums: bool = False

    def find(self, rows: Iterable[Any], path: str) -> Iterator[Any]:
        """Every image with its key, in the order of the rows, each followed by its row.

        Args:
            rows: cells that name images, and their rows; all else in between is passed on.
            path: the label file; names are relative to its folder.
        """
        full_path = storage_of(path).absolute(path)

        def look_up(row: Any) -> Sequence[Any]:
            # Other records have classes of their own.
            if type(row) is not tuple:
                return (row,)
            uri = listed_uri(row[0], path)
            if self.places is None or is_in_places(row[0], full_path, self.places):
                image = self._image(uri)
            else:
                # Not even its size is read.
                image = JoinSide(listed_path(uri, self.root), 0, OUTSIDE, "", "", kind=Kind.IMAGE)
            key = listed_key(uri, kind=self.key, root=self.root)
            return (key, image), (key, row[1])

        for found in ReadAhead(threads=READERS).map(look_up, rows):
            yield from found

    def _image(self, uri: str) -> JoinSide:
        found = find_listed(uri)
        path = listed_path(uri, self.root)
        label, split = self.rules.label(path), self.rules.split(path)
        checksum = found.checksum if self.with_checksums else ""
        return JoinSide(
            path, found.size, found.version, label, "", split, kind=Kind.IMAGE, checksum=checksum
        )


def find_listed(uri: str) -> Stored:
    """The metadata of a file that a row lists; its version is `MISSING` if it does not exist.

    Raises:
        OSError: the bucket or the file system does not answer.
    """
    return storage_of(uri).find(uri) or Stored(0, MISSING)
