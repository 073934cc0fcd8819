"""Reads images from the records of bases: neighbours at once, and each of them checked."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence

from transforms.core.examples.decoder import decode_example
from transforms.core.examples.tfrecord import framed_payload
from transforms.core.index.record_index import FRAME_BYTES, content_hash
from transforms.core.index.stored_images import StoredImage
from transforms.core.records import ShardImage
from transforms.core.shown_text import first_line
from transforms.read_base import Base
from transforms.storage.files import join, storage_of

_LOGGER = logging.getLogger(__name__)

# Bytes of neighbours that are read at once.
_RUN_BYTES = 2 << 20


class RecordRun:
    """Neighbours in one shard, read by the first thread that needs one of them."""

    def __init__(self, path: str, stored: StoredImage) -> None:
        self.path = path
        self.start = stored.offset
        self.end = stored.offset + stored.length + FRAME_BYTES
        self._left = 1
        self._lock = threading.Lock()
        self._data: bytes | None = None

    def takes(self, path: str, stored: StoredImage) -> bool:
        """Adds the next record if it follows the others."""
        end = stored.offset + stored.length + FRAME_BYTES
        if path != self.path or stored.offset != self.end or end - self.start > _RUN_BYTES:
            return False
        self.end = end
        self._left += 1
        return True

    def payload(self, stored: StoredImage) -> bytes:
        """The data of one record; raises OSError or TFRecordError."""
        with self._lock:
            if self._data is None:
                length = self.end - self.start
                storage = storage_of(self.path)
                self._data = storage.read_range(self.path, self.start, length, follow_links=False)
            data = self._data
            self._left -= 1
            if not self._left:
                self._data = None
        return framed_payload(
            data,
            stored.offset - self.start,
            stored.length,
            record=stored.record,
            offset=stored.offset,
        )


class ReusedImages:
    """The images of one shard that bases hold.

    Attributes:
        bases: the datasets.
    """

    def __init__(self, bases: Sequence[Base], images: Sequence[ShardImage]) -> None:
        """Groups neighbours; reads nothing.

        Args:
            bases: the datasets.
            images: those that are read once each, in this order.
        """
        self._gone: set[str] = set()
        self._logged: set[str] = set()
        self.bases = bases
        self._runs: dict[str, tuple[RecordRun, StoredImage]] = {}
        run: RecordRun | None = None
        for image in images:
            if image.stored:
                stored = StoredImage.of_text(image.stored)
                path = join(bases[stored.base].folder, stored.shard)
                if run is None or not run.takes(path, stored):
                    run = RecordRun(path, stored)
                self._runs[image.key] = run, stored

    def read(self, image: ShardImage) -> tuple[StoredImage, bytes] | None:
        """An image as it is stored, or None if it cannot be reused: a line says why."""
        run, stored = self._runs[image.key]
        if run.path in self._gone:
            return None
        try:
            example = decode_example(run.payload(stored))
            [data] = example[self.bases[stored.base].feature]
            if content_hash(data) != stored.content:
                raise ValueError("the image is not that of the index")
        except OSError as error:
            self._gone.add(run.path)
            self._log(run.path, error.strerror or first_line(error))
        except (ValueError, KeyError, TypeError) as error:
            self._log(run.path, first_line(error))
        else:
            return stored, data
        return None

    def _log(self, path: str, why: str) -> None:
        """One line for each file of a base: all of its records may have changed."""
        if path not in self._logged:
            self._logged.add(path)
            message = "originals are read instead of some records of %s: %s"
            _LOGGER.warning(message, path, why)
