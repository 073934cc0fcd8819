"""RejectedLines: the lines of `rejected.jsonl`."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from transforms.core.index.source_records import RECORDS
from transforms.core.planning.keys import full_uri
from transforms.core.planning.staged_images import MEMORY
from transforms.core.rejections import Rejection


@dataclasses.dataclass(frozen=True)
class RejectedLines:
    """Makes the lines of a dataset's rejections.

    Attributes:
        output: the dataset's folder.
        root: the common root of its images.
    """

    output: str
    root: str

    def text(self, rejections: Iterable[Rejection]) -> bytes:
        """A line for each rejection, images by the path they were read from."""
        # The file of an image from memory is removed: its key is its name. A record has no file.
        has_files = self.root not in (MEMORY, RECORDS)
        listed = (
            r._replace(path=full_uri(self.root, r.path))
            if has_files and r.subject == "image"
            else r
            for r in rejections
        )
        return "".join(f"{rejection.to_json()}\n" for rejection in listed).encode()
