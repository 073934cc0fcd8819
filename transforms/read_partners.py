"""Reads and checks the masks and further images of an image, where the image is read."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

from transforms.core.duplicates.fingerprints import content_hash
from transforms.core.examples.decoded_image import Decoding, decode_image
from transforms.core.features.feature_sources import is_mask, partner_of
from transforms.core.features.layouts import Feature
from transforms.core.features.partners import Partner
from transforms.core.formats.exif import read_tags
from transforms.core.guard.decoder_guard import DecoderGuard
from transforms.core.guard.in_flight import image_note
from transforms.core.images.checked_image import CheckedImage, CheckedPartner
from transforms.core.planning.keys import full_uri
from transforms.core.records import PartnerFile, ShardImage, partner_files
from transforms.core.rejections import RejectedImageError
from transforms.original_images import read_accepted

# Masks are stored as PNG, whatever their file is.
_MASK_FORMAT = "png"


class StoredPartner(NamedTuple):
    """A mask or further image as it is stored.

    Attributes:
        data: its bytes.
        checked: what is known about them.
    """

    data: bytes
    checked: CheckedPartner

    @classmethod
    def of_record(cls, data: bytes, checked: CheckedPartner) -> StoredPartner:
        """That in a record of another dataset.

        Args:
            data: the value of its feature.
            checked: what the index says about it.

        Raises:
            ValueError: the record holds something else.
        """
        if content_hash(data) != checked.content:
            raise ValueError("a mask or further image is not that of the index")
        return cls(data, checked._replace(length=len(data)))


class PartnerReader:
    """Reads the partners of images. Picklable."""

    def __init__(
        self, partners: tuple[Partner, ...], features: Sequence[Feature], decoding: Decoding
    ) -> None:
        """Sets what to read.

        Args:
            partners: all of them, in their order.
            features: of the Examples.
            decoding: of the images; further images are changed like them.
        """
        self._partners = partners
        sources = {feature.name: partner_of(feature.source) for feature in features}
        self._features = [(name, *found) for name, found in sources.items() if found is not None]
        self._image_decoding = decoding
        self._compares = decoding.with_hash
        # A further image is stored as a file, whatever the features of the image are.
        self._decoding = dataclasses.replace(
            decoding, features=(), with_hash=False, model_shape=None
        )

    def add(
        self,
        image: ShardImage,
        checked: CheckedImage,
        guard: DecoderGuard,
        reused: Sequence[StoredPartner | None] = (),
    ) -> CheckedImage:
        """An image with the values of the features of all of its partners.

        Args:
            image: with the names of its partners.
            checked: the image as it is stored.
            guard: calls the decoders.
            reused: its partners in a record of another dataset; None for one that must be read.

        Raises:
            RejectedImageError: a partner cannot be read or stored; the detail names it.
            TransientError: a retry may succeed.
        """
        files = partner_files(image.partners)
        stored: list[StoredPartner] = []
        for partner, file, known in zip(
            self._partners, files, reused or [None] * len(files), strict=True
        ):
            if known is not None and self._is_allowed(file, known.checked):
                stored.append(known)
                continue
            what = image._replace(path=file.path, size=file.size, version=file.version)
            try:
                stored.append(self._stored(partner, what, checked, guard))
            except RejectedImageError as error:
                of = "the mask" if is_mask(partner.name) else f"its file of {partner.title}"
                detail = f"{of} {file.path!r}: {error.detail}"
                raise RejectedImageError(error.reason, detail) from error
        return self._with(checked, files, stored)

    def described(
        self, image: ShardImage, checked: CheckedImage, known: Sequence[CheckedPartner | None]
    ) -> CheckedImage | None:
        """The result of `add` with zeros as bytes, for a record that is not read.

        None if the record of another dataset does not hold all of its partners.
        """
        files = partner_files(image.partners)
        stored = [
            StoredPartner(bytes(each.length), each)
            for file, each in zip(files, known, strict=True)
            if each is not None and self._is_allowed(file, each)
        ]
        return self._with(checked, files, stored) if len(stored) == len(files) else None

    def _is_allowed(self, file: PartnerFile, known: CheckedPartner) -> bool:
        """Whether a partner of a record is small enough for this run."""
        return max(file.size, known.length) <= self._decoding.limits.max_bytes

    def _with(
        self, checked: CheckedImage, files: Sequence[PartnerFile], stored: Sequence[StoredPartner]
    ) -> CheckedImage:
        fields: dict[tuple[str, str], bytes] = {}
        for partner, file, each in zip(self._partners, files, stored, strict=True):
            fields[partner.name, "bytes"] = each.data
            fields[partner.name, "format"] = each.checked.format.encode()
            fields[partner.name, "path"] = file.path.encode()
        values = {name: fields[partner, field] for name, partner, field in self._features}
        return checked._replace(
            values={**checked.values, **values},
            partners=tuple(self._hashed(each) for each in stored),
        )

    def _hashed(self, stored: StoredPartner) -> CheckedPartner:
        """What is known about a partner, with its hash if images are compared."""
        checked = stored.checked
        if not self._compares:
            return checked._replace(content="")
        return checked if checked.content else checked._replace(content=content_hash(stored.data))

    def _stored(
        self, partner: Partner, file: ShardImage, checked: CheckedImage, guard: DecoderGuard
    ) -> StoredPartner:
        decoding = self._decoding
        data = read_accepted(partner.root, file, decoding.limits)
        note = image_note(full_uri(partner.root, file.path), file.version)
        if not is_mask(partner.name):
            decoded = guard.call(note, decode_image, data, decoding)
            format_ = decoded.info.format
            # As in the index of records, of the stored bytes.
            has_place = read_tags(decoded.data, format_)[1]
            found = CheckedPartner(
                len(decoded.data), format_, "", has_place=has_place, changes=decoded.changes
            )
            return StoredPartner(decoded.data, found)
        # Other runs do not need Pillow.
        from transforms.core.images.masks import MaskFrame, store_mask

        height, width, turn = checked.original
        frame = MaskFrame(
            height,
            width,
            turn if turn != 1 else checked.orientation or 1,
            turn != 1,
            (checked.info.height, checked.info.width),
            self._image_decoding.stores_files,
        )
        mask = guard.call(
            note,
            store_mask,
            data,
            frame,
            limits=decoding.limits,
            check=decoding.check,
            strips=decoding.strips,
        )
        return StoredPartner(mask, CheckedPartner(len(mask), _MASK_FORMAT))
