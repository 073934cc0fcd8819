"""Reads and checks the masks and further images of an image, where the image is read."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

from transforms.core.examples.decoded_image import Decoding, decode_image
from transforms.core.features.feature_sources import is_mask, partner_of
from transforms.core.features.layouts import Feature
from transforms.core.features.partners import Partner
from transforms.core.formats.exif import read_tags
from transforms.core.guard.decoder_guard import DecoderGuard
from transforms.core.guard.in_flight import image_note
from transforms.core.images.checked_image import CheckedImage
from transforms.core.images.pixel_options import FROM_HEIC
from transforms.core.planning.keys import full_uri
from transforms.core.records import ShardImage, partner_files
from transforms.core.rejections import RejectedImageError
from transforms.original_images import read_accepted

# Masks are stored as PNG, whatever their file is.
_MASK_FORMAT = "png"


class _Stored(NamedTuple):
    """The bytes of a partner to store.

    Attributes:
        data: the bytes.
        format: of the bytes.
        has_place: whether they hold GPS coordinates.
        is_from_heic: whether they were made of a HEIC.
    """

    data: bytes
    format: str
    has_place: bool = False
    is_from_heic: bool = False


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
        # A further image is stored as a file, whatever the features of the image are.
        self._decoding = dataclasses.replace(
            decoding, features=(), with_hash=False, model_shape=None
        )

    def add(self, image: ShardImage, checked: CheckedImage, guard: DecoderGuard) -> CheckedImage:
        """An image with the values of the features of all of its partners.

        Args:
            image: with the names of its partners.
            checked: the image as it is stored.
            guard: calls the decoders.

        Raises:
            RejectedImageError: a partner cannot be read or stored; the detail names it.
            TransientError: a retry may succeed.
        """
        fields: dict[tuple[str, str], bytes] = {}
        have_place = from_heic = False
        for partner, file in zip(self._partners, partner_files(image.partners), strict=True):
            what = image._replace(path=file.path, size=file.size, version=file.version)
            try:
                stored = self._stored(partner, what, checked, guard)
            except RejectedImageError as error:
                of = "the mask" if is_mask(partner.name) else f"its file of {partner.title}"
                detail = f"{of} {file.path!r}: {error.detail}"
                raise RejectedImageError(error.reason, detail) from error
            fields[partner.name, "bytes"] = stored.data
            fields[partner.name, "format"] = stored.format.encode()
            fields[partner.name, "path"] = file.path.encode()
            have_place = have_place or stored.has_place
            from_heic = from_heic or stored.is_from_heic
        values = {name: fields[partner, field] for name, partner, field in self._features}
        return checked._replace(
            values={**checked.values, **values},
            partners_have_place=have_place,
            partners_from_heic=from_heic,
        )

    def _stored(
        self, partner: Partner, file: ShardImage, checked: CheckedImage, guard: DecoderGuard
    ) -> _Stored:
        decoding = self._decoding
        data = read_accepted(partner.root, file, decoding.limits)
        note = image_note(full_uri(partner.root, file.path), file.version)
        if not is_mask(partner.name):
            decoded = guard.call(note, decode_image, data, decoding)
            format_ = decoded.info.format
            # As in the index of records, of the stored bytes.
            has_place = read_tags(decoded.data, format_)[1]
            return _Stored(decoded.data, format_, has_place, FROM_HEIC in decoded.changes)
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
        return _Stored(mask, _MASK_FORMAT)
