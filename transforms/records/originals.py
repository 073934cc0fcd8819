"""Reads images as they were listed, with their masks and further images."""

from __future__ import annotations

import dataclasses
import errno
import uuid
from collections.abc import Sequence
from typing import NamedTuple

from transforms.core.messages import ChangedError, MemberError, check_final, first_line
from transforms.core.records import LabelledImage, PartnerFile, ShardImage, partner_files
from transforms.core.rejections import Reason, RejectedImageError
from transforms.dataset.output_names import PARTIAL, STAGING
from transforms.examples.encoder import Decoding, decode_image
from transforms.examples.layouts import Feature, is_mask, partner_of
from transforms.examples.partners import Partner
from transforms.images.check import CheckedImage, CheckedPartner
from transforms.images.guard import DecoderGuard, image_note
from transforms.labels.keys import (
    IN_STAGING,
    MEMORY,
    content_version,
    full_uri,
    is_staged_root,
    staged_image,
)
from transforms.records.record_index import content_hash
from transforms.storage.files import join, storage_of

# Reads images as they were listed, also those that came from memory and are staged.


def staged_root(output: str) -> str:
    """The folder that holds images from memory until the dataset in `output` is published."""
    return join(output, STAGING, IN_STAGING)


def originals_root(output: str, root: str) -> str:
    """The folder below which the images of a dataset can be read.

    Args:
        output: the dataset's folder.
        root: of the dataset, as its manifest has it.
    """
    return staged_root(output) if root == MEMORY else root


def check_staged_root(output: str) -> None:
    """Checks that the folder is in the output folder, not behind a link; it may be missing.

    Raises:
        ForeignNameError: it is a link or no folder.
    """
    inside = (f"{STAGING}/x", f"{STAGING}/{IN_STAGING}/x")
    storage_of(output).check_folders(output, inside)


def write_original(root: str, path: str, data: bytes) -> None:
    """Writes an image from memory; other attempts may write it at the same time.

    Args:
        root: the result of `staged_root`.
        path: the key of the image.
        data: its bytes.

    Raises:
        OSError: it cannot be written.
    """
    target = join(root, staged_image(path))
    storage = storage_of(target)
    if storage.has_generations:
        storage.write_whole(target, data)
        return
    partial = f"{target}.{uuid.uuid4().hex}{PARTIAL}"
    with storage.open_writer(partial) as file:
        file.write(data)
    # Not synced: after a crash of the machine, the program gives its images again.
    storage.rename(partial, target, is_synced=False)


def read_original(root: str, image: ShardImage | LabelledImage, *, max_bytes: int) -> bytes:
    """The bytes of an image, in the version that was listed or given.

    Args:
        root: common folder of the images.
        image: with its path, size and version.
        max_bytes: bytes that a compressed object may grow to.

    Raises:
        OSError: it cannot be read, or was overwritten since.
    """
    uri = full_uri(root, image.path)
    is_staged = is_staged_root(root)
    # The version of a staged image is a hash of its bytes: a rerun gives the same one.
    version = 0 if is_staged else image.version
    storage = storage_of(uri)
    data = storage.read_listed(uri, size=image.size, version=version, max_bytes=max_bytes)
    if is_staged and content_version(data) != image.version:
        raise ChangedError(errno.ESTALE, "it was overwritten meanwhile", uri)
    return data


def read_accepted(root: str, image: ShardImage | LabelledImage, max_bytes: int) -> bytes:
    """The bytes of an image's file, if it may become a record.

    Args:
        root: common folder of the images.
        image: with its path, size and version.
        max_bytes: of the file.

    Raises:
        RejectedImageError: it is too large, or can never be read.
        TransientError: a retry may succeed; it fails the shard, not the image.
    """
    if image.size > max_bytes:
        raise too_large(image.size, max_bytes)
    try:
        return read_original(root, image, max_bytes=max_bytes)
    except OSError as error:
        check_final(error, full_uri(root, image.path))
        reason = Reason.BAD_MEMBER if isinstance(error, MemberError) else Reason.UNREADABLE
        raise RejectedImageError(reason, error.strerror or first_line(error)) from error


def too_large(size: int, max_bytes: int) -> RejectedImageError:
    """The rejection of a file of this many bytes."""
    detail = f"{size} bytes; --max_bytes is {max_bytes}"
    return RejectedImageError(Reason.TOO_MANY_BYTES, detail)


# Reads and checks the masks and further images of an image, where the image is read.

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
        of_record: Sequence[StoredPartner | None] = (),
    ) -> CheckedImage:
        """An image with the values of the features of all of its partners.

        Args:
            image: with the names of its partners.
            checked: the image as it is stored.
            guard: calls the decoders.
            of_record: its partners in a record of another dataset; None for one that must be read.

        Raises:
            RejectedImageError: a partner cannot be read or stored; the detail names it.
            TransientError: a retry may succeed.
        """
        files = partner_files(image.partners)
        stored: list[StoredPartner] = []
        for partner, file, known in zip(
            self._partners, files, of_record or [None] * len(files), strict=True
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
        data = read_accepted(partner.root, file, decoding.limits.max_bytes)
        note = image_note(full_uri(partner.root, file.path), file.version)
        if not is_mask(partner.name):
            decoded = guard.call(note, decode_image, data, decoding)
            found = CheckedPartner(
                len(decoded.data),
                decoded.info.format,
                has_place=decoded.has_place,
                changes=decoded.changes,
            )
            return StoredPartner(decoded.data, found)
        # Other runs do not need Pillow.
        from transforms.images.masks import store_mask

        mask = guard.call(
            note,
            store_mask,
            data,
            checked.frame,
            limits=decoding.limits,
            check=decoding.check,
            keeps_tag=self._image_decoding.stores_files,
            strips=decoding.pixels.strip_metadata,
        )
        return StoredPartner(mask, CheckedPartner(len(mask), _MASK_FORMAT))
