"""Looking up the images that rows list: sizes and versions, many at once."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator

from transforms import gcs
from transforms.core.file_errors import check_final
from transforms.core.listed import MISSING, listed_key, listed_path, listed_uri
from transforms.core.records import JoinSide
from transforms.fetch import ReadAhead


class RowImages:
    """Looks up the images of one dataset that rows list.

    A local file is one `stat`, an object one request; as many wait at once as are read at once.

    Attributes:
        root: the common folder of the label files.
        key: kind of the join key.
    """

    def __init__(self, *, root: str, key: str) -> None:
        self._root = root
        self._key = key

    def find(
        self, rows: Iterable[tuple[str, JoinSide]], path: str
    ) -> Iterator[tuple[str, JoinSide]]:
        """Every image with its key, in the order of the rows, each followed by its row.

        Args:
            rows: cells that name images, and their rows.
            path: the label file; names are relative to its folder.
        """

        def look_up(row: tuple[str, JoinSide]) -> tuple[str, JoinSide, JoinSide]:
            uri = listed_uri(row[0], path)
            return listed_key(uri, kind=self._key, root=self._root), self._image(uri), row[1]

        for key, image, row in ReadAhead(threads=gcs.READERS).map(look_up, rows):
            yield key, image
            yield key, row

    def _image(self, uri: str) -> JoinSide:
        size, version = find_file(uri)
        return JoinSide(listed_path(uri, self._root), size, version, "", "")


def find_file(uri: str) -> tuple[int, int]:
    """Bytes and version of a file or an object; the version is `MISSING` when there is none.

    Raises:
        OSError: the bucket or the file system gives no answer.
    """
    if gcs.is_gcs(uri):
        stored = gcs.find(uri)
        return (stored.size, stored.generation) if stored else (0, MISSING)
    try:
        status = os.stat(uri)
    except OSError as error:
        check_final(error, uri)
        return 0, MISSING
    return (status.st_size, status.st_mtime_ns) if stat.S_ISREG(status.st_mode) else (0, MISSING)
