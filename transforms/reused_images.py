"""Reads images from the records of bases: neighbours at once, and each of them checked."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import NamedTuple

from transforms.base_records import record_sources
from transforms.core.examples.decoder import only_bytes
from transforms.core.index.record_index import content_hash
from transforms.core.index.stored_images import StoredImage
from transforms.core.records import PartnerFile, ShardImage, partner_files
from transforms.core.shown_text import first_line
from transforms.read_base import Base
from transforms.read_partners import StoredPartner
from transforms.storage.files import join

_LOGGER = logging.getLogger(__name__)


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
        logged: dict[str, object] | None = None,
    ) -> None:
        """Groups neighbours; reads nothing.

        Args:
            bases: the datasets.
            images: those that are read once each, in this order.
            logged: files of bases about which there was a line; of several shards.
        """
        self._gone: set[str] = set()
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
            if content_hash(data) != stored.content:
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
