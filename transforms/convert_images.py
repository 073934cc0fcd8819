"""Converts the images of one shard to Examples: fetch, check, change, encode, as generators."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from transforms.core.records import PartnerFile, PlannedImage, ShardRow, partner_files
from transforms.core.rejections import RejectedImageError, Rejection
from transforms.examples.decoder import KeptValues
from transforms.examples.encoder import Decoding, add_pixels, decode_image
from transforms.examples.layouts import Embedding, Feature, Role, is_mask, partner_of
from transforms.examples.partners import Partner
from transforms.examples.row_features import RowValues, row_requirements
from transforms.images.check import checked_header, examine_image
from transforms.images.checked_images import UNSEEN, CheckedImage, CheckedPartner, ImageInfo, Seen
from transforms.images.guard import DecoderGuard, is_again
from transforms.images.pixel_options import AS_THEY_ARE, CheckOptions, Original, PixelOptions
from transforms.labels.keys import full_uri
from transforms.labels.shards import (
    HEIC_LIBRARIES,
    MODEL_LIBRARIES,
    OBJECT_MASK_LIBRARIES,
    PIXEL_LIBRARIES,
    Libraries,
    Recipes,
)
from transforms.records.existing_shards import Converter, WholeShard, find_whole_shard
from transforms.records.image_origins import (
    Origins,
    ReadImage,
    ShardOrigins,
    read_accepted,
    too_large,
)
from transforms.records.record_index import content_hash
from transforms.records.stored_images import StoredImage
from transforms.storage.files import storage_of

# Reads and checks the masks and further images of an image, where the image is read.

# Masks are stored as PNG, whatever their file is.
_MASK_FORMAT = "png"


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
        image: PlannedImage,
        checked: CheckedImage,
        guard: DecoderGuard,
        of_record: Sequence[CheckedPartner | None] = (),
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
        stored: list[CheckedPartner] = []
        for partner, file, known in zip(
            self._partners, files, of_record or [None] * len(files), strict=True
        ):
            if known is not None and self._is_allowed(file, known):
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
        self, image: PlannedImage, checked: CheckedImage, known: Sequence[CheckedPartner | None]
    ) -> CheckedImage | None:
        """The result of `add` with zeros as bytes, for a record that is not read.

        None if the record of another dataset does not hold all of its partners.
        """
        files = partner_files(image.partners)
        stored = [
            each._replace(data=bytes(each.length))
            for file, each in zip(files, known, strict=True)
            if each is not None and self._is_allowed(file, each)
        ]
        return self._with(checked, files, stored) if len(stored) == len(files) else None

    def _is_allowed(self, file: PartnerFile, known: CheckedPartner) -> bool:
        """Whether a partner of a record is small enough for this run."""
        return max(file.size, known.length) <= self._decoding.limits.max_bytes

    def _with(
        self, checked: CheckedImage, files: Sequence[PartnerFile], stored: Sequence[CheckedPartner]
    ) -> CheckedImage:
        fields: dict[tuple[str, str], bytes] = {}
        for partner, file, each in zip(self._partners, files, stored, strict=True):
            fields[partner.name, "bytes"] = each.data
            fields[partner.name, "format"] = each.format.encode()
            fields[partner.name, "path"] = file.path.encode()
        values = {name: fields[partner, field] for name, partner, field in self._features}
        return checked._replace(
            values={**checked.values, **values},
            partners=tuple(self._hashed(each) for each in stored),
        )

    def _hashed(self, stored: CheckedPartner) -> CheckedPartner:
        """What is known about a partner, with its hash if images are compared."""
        content = (stored.content or content_hash(stored.data)) if self._compares else ""
        return stored._replace(content=content, data=b"")

    def _stored(
        self, partner: Partner, file: PlannedImage, checked: CheckedImage, guard: DecoderGuard
    ) -> CheckedPartner:
        decoding = self._decoding
        data = read_accepted(partner.root, file, decoding.limits.max_bytes)
        if not is_mask(partner.name):
            decoded = guard.call(file.key, decode_image, data, decoding)
            return CheckedPartner(
                len(decoded.data),
                decoded.info.format,
                has_place=decoded.has_place,
                changes=decoded.changes,
                data=decoded.data,
            )
        # Other runs do not need Pillow.
        from transforms.images.masks import store_mask

        mask = guard.call(
            file.key,
            store_mask,
            data,
            checked.frame,
            limits=decoding.limits,
            check=decoding.check,
            keeps_tag=self._image_decoding.stores_files,
            strips=decoding.pixels.strip_metadata,
        )
        return CheckedPartner(len(mask), _MASK_FORMAT, data=mask)


# Converts the images of a shard.

# Ratio of a photo's pixels to its file size, used to bound what is read ahead.
_DECODED_TIMES = 15


class ImageConverter(Converter):
    """Turns the images of one shard into serialized Examples."""

    of_images = True

    def __init__(
        self,
        *,
        origins: Origins,
        features: Sequence[Feature],
        checks: CheckOptions,
        pixels: PixelOptions = AS_THEY_ARE,
        rows: RowValues | None = None,
        embedding: Embedding | None = None,
        partners: Sequence[Partner] = (),
    ) -> None:
        """Sets the options.

        Args:
            origins: of the images.
            features: of the Examples.
            checks: bytes and pixels an image may have, how it is checked, and whether to compute
                fingerprints, to find exact and near-duplicates.
            pixels: the changes to the pixels.
            rows: the requirements of the layout for rows, or None.
            embedding: of the model, or None.
            partners: of the images: masks and further images.
        """
        super().__init__(features)
        self._origins = origins._replace(
            max_bytes=checks.limits.max_bytes, with_values=rows is not None
        )
        self._kept = KeptValues(features, check=checks.check)
        self.fingerprints = checks.finds_duplicates
        self._root = origins.root
        self._limits = checks.limits
        self._roles = {feature.role for feature in features}
        self._rows = rows
        self._embedder = None
        if embedding is not None:
            # This imports Beam's inference, which other runs do not need.
            from transforms.embed_images import Embedder

            self._embedder = Embedder(embedding)
        model_shape = embedding and embedding.input_shape
        self.many_labels = row_requirements(features).many_labels
        self.partner_names = tuple(partner.name for partner in partners)
        self._decoding = Decoding(
            self.features,
            self._limits,
            checks.check,
            pixels,
            self.fingerprints,
            model_shape,
        )
        self._partners = (
            PartnerReader(tuple(partners), self.features, self._decoding) if partners else None
        )

    @property
    def libraries(self) -> Libraries:
        """The libraries that affect the bytes of the records."""
        pixels = self._decoding.pixels
        are_decoded = self._decoding.stores_pixels or self._partners
        of_model = () if self._embedder is None else MODEL_LIBRARIES
        of_masks = OBJECT_MASK_LIBRARIES if Role.OBJECT_MASK in self._roles else ()
        return Libraries(
            PIXEL_LIBRARIES if are_decoded else (),
            () if pixels.changes_nothing else PIXEL_LIBRARIES,
            heic=() if pixels.transcode == "keep" else HEIC_LIBRARIES,
            values=(*of_model, *of_masks),
        )

    def setup(self) -> None:
        """See `Converter.setup`."""
        self._logged: dict[str, object] = {}
        self._read_ahead = self._origins.read_ahead()
        self._guard = DecoderGuard(self._limits.max_pixels, isolates=is_again())
        self._holds_pixels = self._decoding.stores_pixels or Role.OBJECT_MASK in self._roles
        if self._holds_pixels or self._partners or not self._decoding.pixels.changes_nothing:
            from transforms.images.pillow_images import quiet_pillow

            quiet_pillow()
        if self._embedder is not None:
            self._embedder.setup()

    def isolate(self, images: Iterable[PlannedImage]) -> None:
        """See `Converter.isolate`."""
        self._guard.suspects.update(image.key for image in images)

    def load(self, images: Iterable[PlannedImage]) -> Iterator[CheckedImage | Rejection]:
        """Reads, checks, changes and embeds images, in their order, several at once."""
        images = list(images)
        origins = ShardOrigins(self._origins, images, self._logged)
        # What is read is decoded then, which takes longer than to change threads.
        is_cheap = None if self._decoding.needs_pixels else origins.is_at_hand
        loaded = self._read(images, origins, is_cheap)
        return loaded if self._embedder is None else self._embedder.embed(loaded)

    def whole_shard(
        self,
        name: str,
        recipes: Recipes,
        images: Sequence[PlannedImage],
        load: Callable[[Sequence[PlannedImage]], Iterable[CheckedImage | Rejection]] | None = None,
    ) -> WholeShard | None:
        """The shard of a base that equals a planned one; see `find_whole_shard`."""
        # Another dataset's record may follow what such an image is.
        if not self._origins.bases or self._origins.sources:
            return None
        return find_whole_shard(
            name,
            recipes,
            images,
            bases=self._origins.bases,
            describe=self._described,
            load=load or functools.partial(self._read, origins=ShardOrigins(self._origins, ())),
        )

    def _read(
        self,
        images: Iterable[PlannedImage],
        origins: ShardOrigins,
        is_cheap: Callable[[PlannedImage], bool] | None = None,
    ) -> Iterator[CheckedImage | Rejection]:
        load = functools.partial(self._accepted, functools.partial(self._load, origins))
        return self._read_ahead.map(load, images, size=self._held_bytes, is_cheap=is_cheap)

    def _accepted(
        self, load: Callable[[PlannedImage], CheckedImage], image: PlannedImage
    ) -> CheckedImage | Rejection:
        try:
            return load(image)
        except RejectedImageError as error:
            return Rejection("image", error.reason.code, error.detail, image.path, image.key)

    def _load(self, origins: ShardOrigins, image: PlannedImage) -> CheckedImage:
        """An image from its origin, with its masks and further images."""
        found = origins.read(image)
        # A record may be larger than its original.
        if len(found.data) > self._limits.max_bytes:
            raise too_large(len(found.data), self._limits.max_bytes)
        checked = self._final(image, found) if found.is_final else self._checked(image, found)
        if found.kept is not None:
            turn = 1 if found.is_final else checked.original.orientation
            stored = checked.info.height, checked.info.width
            label = image.label_id, image.label
            values = self._kept.of(image.cells, found.kept, label=label, turn=turn, stored=stored)
            checked = checked._replace(values=values)
        if self._partners is None:
            return checked
        return self._partners.add(image, checked, self._guard, found.partners)

    def _final(self, image: PlannedImage, found: ReadImage) -> CheckedImage:
        """An image that is stored as it is in a dataset of the same pixel options."""
        assert found.stored is not None
        nothing = self._decoding.changes_nothing
        checked = found.stored.checked(found.data, changes_nothing=nothing)
        if self._decoding.needs_pixels:
            checked = self._guarded(image, add_pixels, checked)
        lacks_hash = checked.seen.perceptual_hash is None and checked.info.format != "png"
        if lacks_hash and self.fingerprints and not found.is_reused:
            # It is blank, or another version made its hash.
            seen = self._guarded(image, _seen_in_stored, found.data)
            checked = checked._replace(seen=seen)
        return self._planned(image, checked, found)

    def _planned(
        self, image: PlannedImage, checked: CheckedImage, found: ReadImage
    ) -> CheckedImage:
        """An image with its plan and its values."""
        if not self.fingerprints:
            checked = checked._replace(content="", stored_content="", seen=UNSEEN)
        return checked._replace(
            image=image,
            values=self._values(image, checked),
            is_reused=found.is_reused,
            has_place=checked.has_place and Role.IMAGE in self._roles,
        )

    def _described(
        self, image: PlannedImage, stored: StoredImage
    ) -> CheckedImage | Rejection | None:
        """An image of a base whose record is not read; None if its size is not known."""
        checked = stored.checked(b"", changes_nothing=self._decoding.changes_nothing)
        if self._embedder is not None:
            checked = checked._replace(embedding=self._embedder.no_embedding)
        unread = ReadImage(b"", stored, is_final=True, is_reused=True)
        described = self._accepted(lambda image: self._planned(image, checked, unread), image)
        if isinstance(described, Rejection) or not self._origins.may_reuse(image):
            return None
        if self._partners:
            with_partners = self._partners.described(image, described, stored.partners)
            if with_partners is None:
                return None
            described = with_partners
        size = self._size(image, stored, described)
        if size is None or size > self._limits.max_bytes:
            return None
        return described._replace(unread=size, values={})

    def _size(self, image: PlannedImage, stored: StoredImage, checked: CheckedImage) -> int | None:
        """The bytes of a stored image whose record is not read; None if nothing shows them."""
        if Role.PIXELS in self._roles:
            _, height, width, channels = stored.info
            return None if Role.IMAGE in self._roles else height * width * channels
        if Role.IMAGE in self._roles:
            return self.encoder.image_bytes(checked, stored.length)
        # A bucket lists the compressed bytes of what it decompresses.
        is_exact = not storage_of(full_uri(self._root, image.path)).has_generations
        return image.size if is_exact and stored.content == stored.source_content else None

    def _checked(self, image: PlannedImage, found: ReadImage) -> CheckedImage:
        """An image whose bytes are decoded, and checked."""
        data = found.data
        decoded: CheckedImage = self._guarded(image, decode_image, data)
        content = content_hash(data) if self.fingerprints else ""
        is_same = decoded.data is data or not content
        stored_content = content if is_same else content_hash(decoded.data)
        if content and found.stored is not None:
            # Another dataset may have changed the image before.
            content = found.stored.source_content or content
        decoded = decoded._replace(content=content, stored_content=stored_content)
        return self._planned(image, decoded, found)

    def _guarded(self, image: PlannedImage, decode: Callable[..., Any], data: Any) -> Any:
        """Decodes an image so that a crashing decoder costs only this image, on the next try."""
        return self._guard.call(image.key, decode, data, self._decoding)

    def _values(self, image: PlannedImage, checked: CheckedImage) -> dict[str, Any]:
        """The values that rows fill, unless its record has them."""
        if self._rows is None or self._origins.keeps_values(image):
            return {}
        return self._rows.of(image, checked.frame)

    def _held_bytes(self, image: PlannedImage) -> int:
        pixels = _DECODED_TIMES * image.size if self._holds_pixels else 0
        if image.partners:
            pixels += sum(file.size for file in partner_files(image.partners))
        return image.size + pixels + (self._embedder.input_bytes if self._embedder else 0)


def _seen_in_stored(data: bytes, decoding: Decoding) -> Seen:
    """What is seen in a stored image; raises RejectedImageError as `check_image`."""
    header = checked_header(data, decoding.limits)
    return examine_image(data, header, mode=decoding.check, with_hash=True)[1]


_NO_IMAGE = (b"", ImageInfo("", 0, 0, 0), Original(0, 0, 1))


class RowConverter(Converter):
    """Turns the rows of one shard into serialized Examples."""

    def __init__(self, features: Sequence[Feature], values: RowValues, *, root: str) -> None:
        """Describes the rows.

        Args:
            features: of the Examples.
            values: makes features from cells.
            root: common folder of the files.
        """
        super().__init__(features)
        self._values = values
        self._root = root

    def load(self, rows: Iterable[ShardRow]) -> Iterator[CheckedImage | Rejection]:
        """Rows with their values, or the rejections of those whose cells do not fit, in order."""
        return map(self._checked, rows)

    def _checked(self, row: ShardRow) -> CheckedImage | Rejection:
        try:
            values = self._values.of_row((row.path, row.line), row.cells.split("\0"))
        except RejectedImageError as error:
            where = f"{full_uri(self._root, row.path)}:{row.line}"
            key = row.key or f"{row.path}:{row.line}"
            return Rejection("row", error.reason.code, error.detail, where, key)
        return CheckedImage(*_NO_IMAGE, values=values, row=row)
