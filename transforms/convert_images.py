"""Converts the images of one shard to Examples: fetch, check, change, encode, as generators."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from transforms.core.records import ShardImage, partner_files
from transforms.core.rejections import RejectedImageError, Rejection
from transforms.examples.decoder import KeptValues
from transforms.examples.encoder import Decoding, ExampleEncoder, add_pixels, decode_image
from transforms.examples.layouts import Feature, Role
from transforms.examples.partners import Partner
from transforms.examples.row_features import RowValues, row_requirements
from transforms.images.check import CheckedImage, checked_header, examine_image
from transforms.images.guard import DecoderGuard, image_note
from transforms.images.pixel_options import AS_THEY_ARE, CheckOptions, PixelOptions
from transforms.labels.joins import has_rows
from transforms.labels.keys import full_uri
from transforms.labels.shards import (
    HEIC_LIBRARIES,
    MODEL_LIBRARIES,
    OBJECT_MASK_LIBRARIES,
    PIXEL_LIBRARIES,
    Libraries,
    Recipes,
)
from transforms.records.dataset_images import FoundImage, SourceImages
from transforms.records.existing_shards import WholeShard, find_whole_shard
from transforms.records.originals import PartnerReader, StoredPartner, read_accepted, too_large
from transforms.records.record_index import content_hash
from transforms.records.reuse import ReusedImages
from transforms.records.stored_images import StoredImage, is_source_record, reusable_record
from transforms.storage.files import storage_of
from transforms.storage.read_ahead import ReadAhead, read_together, reading_threads

if TYPE_CHECKING:
    from transforms.embed_images import Embedder
    from transforms.records.dataset_images import Source
    from transforms.records.reuse import Base

# Ratio of a photo's pixels to its file size, used to bound what is read ahead.
_DECODED_TIMES = 15


class ImageConverter:
    """Turns the images of one shard into serialized Examples.

    Picklable; `setup` creates the parts that are not.
    """

    of_images = True

    def __init__(
        self,
        *,
        root: str,
        features: Sequence[Feature],
        checks: CheckOptions,
        pixels: PixelOptions = AS_THEY_ARE,
        rows: RowValues | None = None,
        waits: bool = False,
        embedder: Embedder | None = None,
        bases: Sequence[Base] = (),
        sources: Sequence[Source] = (),
        partners: Sequence[Partner] = (),
    ) -> None:
        """Sets the options.

        Args:
            root: common folder of the images.
            features: of the Examples.
            checks: bytes and pixels an image may have, how it is checked, and whether to compute
                fingerprints, to find exact and near-duplicates.
            pixels: the changes to the pixels.
            rows: the requirements of the layout for rows, or None.
            waits: whether images may be remote though `root` is local.
            embedder: the model, or None.
            bases: datasets whose records may be reused.
            sources: datasets whose records are images of this run.
            partners: of the images: masks and further images.
        """
        self._bases = tuple(bases)
        self._sources = tuple(sources)
        self._kept = KeptValues(features, check=checks.check)
        self.fingerprints = checks.finds_duplicates
        self._waits = waits
        self._root = root
        self._features = tuple(features)
        self._limits = checks.limits
        self._stores_images = any(feature.role is Role.IMAGE for feature in features)
        self._has_object_masks = any(each.role is Role.OBJECT_MASK for each in features)
        self._rows = rows
        self._embedder = embedder
        model_shape = None if embedder is None else embedder.input_shape
        self.many_labels = row_requirements(features).many_labels
        self.partner_names = tuple(partner.name for partner in partners)
        self._decoding = Decoding(
            self._features,
            self._limits,
            checks.check,
            pixels,
            self.fingerprints,
            model_shape,
        )
        self._partners = (
            PartnerReader(tuple(partners), self._features, self._decoding) if partners else None
        )

    @property
    def libraries(self) -> Libraries:
        """The libraries that affect the bytes of the records."""
        pixels = self._decoding.pixels
        are_decoded = self._decoding.stores_pixels or self._partners
        of_model = () if self._embedder is None else MODEL_LIBRARIES
        of_masks = OBJECT_MASK_LIBRARIES if self._has_object_masks else ()
        return Libraries(
            PIXEL_LIBRARIES if are_decoded else (),
            () if pixels.changes_nothing else PIXEL_LIBRARIES,
            heic=() if pixels.transcode == "keep" else HEIC_LIBRARIES,
            values=(*of_model, *of_masks),
        )

    def setup(self) -> None:
        """Makes the encoder and the read-ahead, once for each DoFn instance."""
        self.prepare()
        self._logged: dict[str, object] = {}
        self._read_ahead = ReadAhead(
            threads=reading_threads(self._root, waits=self._waits),
            together=read_together(self._root, waits=self._waits),
        )
        self._guard = DecoderGuard(self._limits.max_pixels)
        may_change = self._partners or not self._decoding.pixels.changes_nothing
        if self._decoding.stores_pixels or may_change or self._has_object_masks:
            from transforms.images.pillow_images import quiet_pillow

            quiet_pillow()
        if self._embedder is not None:
            self._embedder.setup()

    def prepare(self) -> None:
        """Makes what `whole_shard` needs; part of `setup`."""
        self._encoder = ExampleEncoder(self._features)

    def load(self, images: Iterable[ShardImage]) -> Iterator[CheckedImage | Rejection]:
        """Reads, checks, changes and embeds images, in their order, several at once."""
        load: Callable[..., CheckedImage] = self._load_file
        is_cheap: Callable[[ShardImage], bool] | None = None
        if self._bases or self._sources:
            images = list(images)
        # An image that is never read there would keep the bytes of its neighbours in memory.
        if self._sources:
            own = [each for each in images if not (self._bases and self._may_reuse(each))]
            load = functools.partial(self._load_record, SourceImages(self._sources, own))
        if self._bases:
            others = [
                each._replace(stored=reusable_record(each.stored))
                for each in images
                if self._may_reuse(each)
            ]
            reused = ReusedImages(self._bases, others, self._root, self._logged)
            load = functools.partial(self._load_reused, reused, load)
            if not self._decoding.needs_pixels:
                is_cheap = reused.is_at_hand
        accepted = functools.partial(self._accepted, load)
        loaded = self._read_ahead.map(accepted, images, size=self._held_bytes, is_cheap=is_cheap)
        return loaded if self._embedder is None else self._embedder.embed(loaded)

    def encode(self, images: Iterable[CheckedImage]) -> Iterator[bytes]:
        """Serialized Examples in the order of the images."""
        return map(self._encoder.encode, images)

    def whole_shard(
        self,
        name: str,
        recipes: Recipes,
        images: Sequence[ShardImage],
        load: Callable[[Sequence[ShardImage]], Iterable[CheckedImage | Rejection]] | None = None,
    ) -> WholeShard | None:
        """The shard of a base that equals a planned one; see `find_whole_shard`."""
        # Another dataset's record may follow what such an image is.
        if not self._bases or self._sources:
            return None
        return find_whole_shard(
            name,
            recipes,
            images,
            bases=self._bases,
            describe=self._described,
            load=load or self._load_originals,
        )

    def _may_reuse(self, image: ShardImage) -> bool:
        is_there = bool(image.stored) and bool(reusable_record(image.stored))
        return is_there and image.size <= self._limits.max_bytes and not self._keeps_values(image)

    def _keeps_values(self, image: ShardImage) -> bool:
        """Whether further values are those of the record that is this image."""
        needs = self._rows is not None and is_source_record(image.stored)
        return needs and not has_rows(image.cells)

    def _accepted(
        self, load: Callable[[ShardImage], CheckedImage], image: ShardImage
    ) -> CheckedImage | Rejection:
        try:
            return load(image)
        except RejectedImageError as error:
            return Rejection("image", error.reason.code, error.detail, image.path, image.key)

    def _load_record(self, records: SourceImages, image: ShardImage) -> CheckedImage:
        """An image that is a record of a dataset; or from its file if it is none."""
        if not is_source_record(image.stored):
            return self._load_file(image)
        found = records.read(image)
        if len(found.data) > self._limits.max_bytes:
            raise too_large(len(found.data), self._limits)
        if found.is_final:
            checked = self._final(image, found)
        else:
            checked = self._checked(image, found.data)
            if self.fingerprints and (original := found.record.stored.source_content):
                # Another dataset may have changed the image before.
                checked = checked._replace(content=original)
        if not self._keeps_values(image):
            return checked
        turn = 1 if found.is_final else checked.original.orientation
        stored = checked.info.height, checked.info.width
        label = image.label_id, image.label
        values = self._kept.of(image.cells, found.kept, label=label, turn=turn, stored=stored)
        return checked._replace(values=values)

    def _final(self, image: ShardImage, found: FoundImage) -> CheckedImage:
        """An image that is stored as it is in a dataset of the same pixel options."""
        nothing = self._decoding.changes_nothing
        checked = found.record.stored.checked(found.data, changes_nothing=nothing)
        if not self.fingerprints:
            checked = checked._replace(content="", stored_content="", perceptual_hash=None)
        elif checked.perceptual_hash is None and checked.info.format != "png":
            # It is blank, or another version made its hash.
            note = image_note(full_uri(self._root, image.path), image.version)
            hash_ = self._guard.call(note, _hash_of_stored, found.data, self._decoding)
            checked = checked._replace(perceptual_hash=hash_)
        values = self._values(image, checked)
        has_place = checked.has_place and self._stores_images
        return checked._replace(image=image, values=values, has_place=has_place)

    def _load_reused(
        self,
        reused: ReusedImages,
        load: Callable[[ShardImage], CheckedImage],
        image: ShardImage,
    ) -> CheckedImage:
        """An image from its record in a base; from its file if none has it, or it is damaged."""
        found = reused.read(image)
        # What a fresh run re-encodes has this limit, too.
        if found is None or len(found.data) > self._limits.max_bytes:
            return load(image)
        nothing = self._decoding.changes_nothing
        checked = found.stored.checked(found.data, changes_nothing=nothing)
        if self._decoding.needs_pixels:
            note = image_note(full_uri(self._root, image.path), image.version)
            checked = self._guard.call(note, add_pixels, checked, self._decoding)
        return self._together(image, self._reused(image, checked), found.partners)

    def _reused(self, image: ShardImage, checked: CheckedImage) -> CheckedImage:
        """An image of a base with its plan and its values."""
        if not self.fingerprints:
            checked = checked._replace(content="", stored_content="", perceptual_hash=None)
        values = self._values(image, checked)
        has_place = checked.has_place and self._stores_images
        return checked._replace(image=image, values=values, is_reused=True, has_place=has_place)

    def _described(self, image: ShardImage, stored: StoredImage) -> CheckedImage | Rejection | None:
        """An image of a base whose record is not read; None if its size is not known."""
        checked = stored.checked(b"", changes_nothing=self._decoding.changes_nothing)
        if self._embedder is not None:
            checked = checked._replace(embedding=self._embedder.no_embedding)
        reused = self._accepted(lambda image: self._reused(image, checked), image)
        if isinstance(reused, Rejection) or not self._may_reuse(image):
            return None
        if self._partners:
            described = self._partners.described(image, reused, stored.partners)
            if described is None:
                return None
            reused = described
        size = self._size(image, stored, reused)
        if size is None or size > self._limits.max_bytes:
            return None
        return reused._replace(unread=size, values={})

    def _size(self, image: ShardImage, stored: StoredImage, checked: CheckedImage) -> int | None:
        """The bytes of a stored image whose record is not read; None if nothing shows them."""
        roles = {feature.role for feature in self._features}
        if Role.PIXELS in roles:
            _, height, width, channels = stored.info
            return None if Role.IMAGE in roles else height * width * channels
        if Role.IMAGE in roles:
            return self._encoder.image_bytes(checked, stored.length)
        # A bucket lists the compressed bytes of what it decompresses.
        is_exact = not storage_of(full_uri(self._root, image.path)).has_generations
        return image.size if is_exact and stored.content == stored.source_content else None

    def _load_originals(self, images: Iterable[ShardImage]) -> Iterator[CheckedImage | Rejection]:
        accepted = functools.partial(self._accepted, self._load_file)
        return self._read_ahead.map(accepted, images, size=self._held_bytes)

    def _load_file(self, image: ShardImage) -> CheckedImage:
        """An image from its file, with its masks and further images."""
        checked = self._checked(image, read_accepted(self._root, image, self._limits))
        return checked if self._partners is None else self._together(image, checked)

    def _together(
        self,
        image: ShardImage,
        checked: CheckedImage,
        reused: Sequence[StoredPartner | None] = (),
    ) -> CheckedImage:
        """An image with its masks and further images; see `PartnerReader.add`."""
        if self._partners is None:
            return checked
        return self._partners.add(image, checked, self._guard, reused)

    def _checked(self, image: ShardImage, data: bytes) -> CheckedImage:
        """Decodes an image so that a crashing decoder costs only this image, on the next try."""
        note = image_note(full_uri(self._root, image.path), image.version)
        decoded = self._guard.call(note, decode_image, data, self._decoding)
        content = content_hash(data) if self.fingerprints else ""
        is_same = decoded.data is data or not content
        # Not `_replace`, which takes three times as long.
        return CheckedImage(
            decoded.data,
            decoded.info,
            decoded.original,
            decoded.changes,
            decoded.perceptual_hash,
            decoded.orientation,
            decoded.raw,
            decoded.model_pixels,
            image,
            self._values(image, decoded),
            content,
            content if is_same else content_hash(decoded.data),
            has_place=decoded.has_place and self._stores_images,
        )

    def _values(self, image: ShardImage, checked: CheckedImage) -> dict[str, Any]:
        """The values that rows fill, unless its record has them."""
        if self._rows is None or self._keeps_values(image):
            return {}
        return self._rows.of(image, checked.frame)

    def _held_bytes(self, image: ShardImage) -> int:
        has_pixels = self._decoding.stores_pixels or self._has_object_masks
        pixels = _DECODED_TIMES * image.size if has_pixels else 0
        if image.partners:
            pixels += sum(file.size for file in partner_files(image.partners))
        return image.size + pixels + (self._embedder.input_bytes if self._embedder else 0)


def _hash_of_stored(data: bytes, decoding: Decoding) -> int | None:
    """The perceptual hash of a stored image; raises RejectedImageError as `check_image`."""
    header = checked_header(data, decoding.limits)
    return examine_image(data, header, mode=decoding.check, with_hash=True)[1]
