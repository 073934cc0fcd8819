"""DropDuplicates: keeps one of several equal images, and none that equals one held out."""

from __future__ import annotations

import dataclasses
import functools
import json
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import apache_beam as beam

from transforms.core.messages import check_final
from transforms.core.records import (
    NO_IMAGE,
    BucketDuplicates,
    Count,
    FingerprintBatch,
    IndexPart,
    Plain,
    PlannedImage,
    partner_files,
)
from transforms.core.rejections import RejectedImageError, Rejection
from transforms.dataset.ledger import ShardSummary
from transforms.labels.keys import full_uri, is_staged_root
from transforms.packing import (
    AddTogether,
    AddUp,
    SpreadElements,
    by_type,
    rules_of,
    together,
    with_outputs,
)
from transforms.records.image_origins import Origins, ShardOrigins
from transforms.records.other_datasets import DatasetReader, OtherDataset, part_shard
from transforms.records.record_index import (
    class_lists,
    content_hash,
    index_rows,
    source_contents,
)
from transforms.records.stored_images import RECORDS, StoredImage
from transforms.selection.duplicates import (
    CONTENT,
    ContentGroup,
    Verdict,
    decide,
    find_equal,
    fingerprint_batches,
    held_file,
    held_image,
    held_place,
    is_held_image,
    md5_hash,
    merge_equal,
    part_of,
)
from transforms.storage.beam_storage import report_source
from transforms.storage.files import storage_of
from transforms.storage.interface import CRC_CHARACTERS, listed_md5

# ChooseImages: keeps one of the images with each content, however many there are.

# Groups that are merged at once.
_MERGED = 400

# An image, or the verdict on images with its content as JSON.
_Judged = tuple[str, PlannedImage]
_OfPart = tuple[str, _Judged]


class UniqueImages(NamedTuple):
    """The images that are kept; `groups` are groups of exact duplicates."""

    images: beam.PCollection[PlannedImage]
    rejections: beam.PCollection[Rejection]
    counts: beam.PCollection[Count]
    groups: beam.PCollection[BucketDuplicates]


class ChooseImages(beam.PTransform):
    """Keeps one of the images with equal content; see `decide`.

    Images are added up by their content where they are, and the verdict is joined with them in up
    to 64 parts: of 30 million equal images, a part has half a million names.
    The groups are merged into one, with the first of them.

    Input: images by a hash of their content. Output: `UniqueImages`.
    """

    def expand(self, contents: beam.PCollection[tuple[str, PlannedImage]]) -> UniqueImages:
        decided = (
            contents
            | "Add up contents"
            >> beam.CombinePerKey(AddUp(ContentGroup, ContentGroup.add, ContentGroup.merge))
            | "Decide" >> by_type(_decided, "verdicts", _OfPart, groups=BucketDuplicates)
        )
        parts = contents | "Name parts" >> beam.FlatMap(_named).with_output_types(_OfPart)
        chosen = (
            (parts, decided.verdicts)
            | "Names and verdicts" >> beam.Flatten()
            | "Group parts of contents" >> beam.GroupByKey()
            | "Keep one of the duplicates"
            >> by_type(_keep, "images", PlannedImage, rejections=Rejection, counts=Count)
        )
        groups = (
            {"groups": decided.groups}
            | "Merge groups" >> AddTogether(AddUp(list, _add_group, _merge_groups))
            | "Write groups" >> beam.Map(_written).with_output_types(BucketDuplicates)
        )
        return UniqueImages(chosen.images, chosen.rejections, chosen.counts, groups)


def _keep(part: tuple[str, Iterable[_Judged]]) -> Iterator[PlannedImage | Rejection | Count]:
    """What the verdict says of images; without one, they are kept."""
    # Half a million at most, since the verdict may come last.
    judged = list(part[1])
    verdict = next((Verdict(*json.loads(text)) for text, _ in judged if text), None)
    rejected = {"rows_rejected": 0, "partners_rejected": 0}
    for image in (image for text, image in judged if not text):
        rejection = verdict and verdict.rejection(image)
        if rejection is None:
            yield image
        else:
            rejected["rows_rejected"] += image.rows
            rejected["partners_rejected"] += len(partner_files(image.partners))
            yield rejection
    for name, number in rejected.items():
        if number:
            yield Count(name, number)


def _add_group(groups: list[Plain], group: BucketDuplicates) -> None:
    """Adds a group of exact duplicates: all are counted, the first are listed."""
    groups.append(group.equal)
    if len(groups) >= _MERGED:
        groups[:] = [merge_equal(groups)]


def _merge_groups(groups: list[Plain], others: list[Plain]) -> None:
    groups[:] = [merge_equal([*groups, *others])]


def _written(groups: list[Plain]) -> BucketDuplicates:
    return BucketDuplicates(tuple(merge_equal(groups)))


def _decided(content: tuple[str, ContentGroup]) -> Iterator[_OfPart | BucketDuplicates]:
    md5, group = content
    if not group.has_several:
        return
    verdict, equal = decide(group, md5=md5)
    yield BucketDuplicates(tuple(equal))
    for part in sorted(group.parts):
        yield f"{md5} {part}", (json.dumps(verdict), NO_IMAGE)


def _named(content: tuple[str, PlannedImage]) -> Iterator[_OfPart]:
    md5, image = content
    # An image held out is only counted.
    if image.split:
        yield f"{md5} {part_of(image)}", ("", image)


# FindEqualImages and DropDuplicates: find exact duplicates after writing or before planning.

_CANDIDATES = "candidates"
_KNOWN = "known"

# Parts in which candidates are read: the maximum number of useful workers.
_PARTS = 256

# An image that may equal another one, in its part.
_Candidate = tuple[int, PlannedImage]


def read_holdouts(
    pipeline: beam.Pipeline,
    reader: DatasetReader,
    read: Callable[[IndexPart, DatasetReader], Iterable[Any]],
    kind: Any,
) -> beam.PCollection[Any]:
    """What `read` finds in each index held out; on several machines, any worker may read one.

    A retry reads one index again.

    Args:
        pipeline: which reads them.
        reader: of the datasets.
        read: reads an index; picklable.
        kind: the type of what it finds.
    """
    return (
        pipeline
        | "Name holdouts" >> beam.Create(range(len(reader.datasets)))
        | "List indexes" >> beam.FlatMap(_listed, reader).with_output_types(IndexPart)
        | "Spread indexes" >> SpreadElements()
        | "Read indexes" >> beam.FlatMap(read, reader).with_output_types(kind)
    )


def _listed(number: int, reader: DatasetReader) -> Iterator[IndexPart]:
    report_source(reader.datasets[number].folder)
    yield from reader.parts(number)


def held_fingerprints(
    part: IndexPart, reader: DatasetReader, buckets: int
) -> Iterator[tuple[int, FingerprintBatch]]:
    """The fingerprints of an index held out, as those of a shard with a name of its own."""
    index = reader.table(part)
    yield from fingerprint_batches(index, held_file(part.number, part_shard(part)), buckets)


def held_images(part: IndexPart, reader: DatasetReader) -> Iterator[PlannedImage]:
    """The images of an index held out, next to those of the run: without a split."""
    index, folder = reader.table(part), reader.datasets[part.number].folder
    contents, classes = source_contents(index), class_lists(index)
    for row, content, labels in zip(index_rows(index), contents, classes, strict=True):
        yield held_image(folder, row, content or b"", labels)


@dataclasses.dataclass(eq=False, repr=False)
class FindEqualImages(beam.PTransform):
    """Finds images with equal content by their fingerprints.

    Input: `(bucket, FingerprintBatch)`. Output: `BucketDuplicates` for each bucket. What crosses
    the shuffle is 50 bytes per image, and at most 20 fingerprints of each content in a shard; a
    bucket is in memory twice. On several machines, only a sample of the hashes goes on to the
    worker that publishes.

    Attributes:
        shards: those with these fingerprints.
        held_out: datasets whose images are compared with them.
    """

    shards: beam.PCollection[ShardSummary]
    held_out: tuple[OtherDataset, ...] = ()

    def expand(
        self, batches: beam.PCollection[tuple[int, FingerprintBatch]]
    ) -> beam.PCollection[BucketDuplicates]:
        images: tuple[beam.pvalue.AsSingleton, ...] = ()
        if self.held_out:
            buckets = rules_of(batches.pipeline).buckets
            held = read_holdouts(
                batches.pipeline,
                DatasetReader(self.held_out),
                lambda part, reader: held_fingerprints(part, reader, buckets),
                tuple[int, FingerprintBatch],
            )
            batches = (batches, held) | "All fingerprints" >> beam.Flatten()
        held_records = sum(dataset.records for dataset in self.held_out)
        if rules_of(batches.pipeline).samples_hashes:
            counted = (
                self.shards
                | "Records of shards"
                >> beam.Map(operator.attrgetter("records")).with_output_types(int)
                | "Count images" >> beam.CombineGlobally(sum)
            )
            images = (beam.pvalue.AsSingleton(counted),)
        return (
            batches
            | "Group fingerprints" >> beam.GroupByKey()
            | "Compare fingerprints"
            >> beam.Map(_equal, held_records, *images).with_output_types(BucketDuplicates)
        )


def _equal(
    bucket: tuple[int, Iterable[FingerprintBatch]], held: int, images: int | None = None
) -> BucketDuplicates:
    return find_equal(bucket[1], images=None if images is None else max(images, held))


class DropDuplicates(beam.PTransform):
    """Keeps one of several images with equal content, before shards are planned.

    Files of equal content have equal sizes, so only images that share their listed size are
    read; of GCS objects, the MD5 that came with the listing is compared, and if all images are
    such objects, only those that share their CRC32C, too. The
    image whose key sorts first is kept, whatever the runner and the order. If the duplicates have
    different classes, all of them are rejected, since none can be preferred.

    On several machines, images whose MD5 is known skip the grouping by size then.

    Input: `PlannedImage`. Output: `UniqueImages`. Only names are grouped. A retry reads again.
    A file that cannot be read here is not compared; the step that writes it reports why.
    """

    def __init__(
        self, origins: Origins, *, max_bytes: int, held_out: Sequence[OtherDataset] = ()
    ) -> None:
        """Describes the files.

        Args:
            origins: of the images.
            max_bytes: larger files are rejected later on, and not compared.
            held_out: datasets whose images are dropped.
        """
        super().__init__()
        self._held_out = tuple(held_out)
        self._sources = origins.sources
        self._max_bytes = max_bytes
        # The sizes of files say nothing of images that a dataset has changed.
        self._by_content = origins.root == RECORDS
        # An image of another storage or in a record has no checksum, and may equal one that has.
        is_ours = not (origins.waits or held_out or origins.sources)
        self._has_checksums = is_ours and storage_of(origins.root).lists_checksums
        origins = origins._replace(max_bytes=max_bytes, with_values=False)
        self._candidates = _Candidates(origins, self._by_content or bool(held_out))

    def expand(self, images: beam.PCollection[PlannedImage]) -> UniqueImages:
        known, unread = [], []
        if self._held_out:
            reader = DatasetReader(self._held_out)
            held = read_holdouts(images.pipeline, reader, held_images, PlannedImage)
            images = (images, held) | "Images and holdouts" >> beam.Flatten()
        if self._has_checksums and rules_of(images.pipeline).knows_checksums:
            types: dict[str, object] = {_CANDIDATES: _Candidate, _KNOWN: tuple[str, PlannedImage]}
            route = beam.FlatMap(_routed, self._max_bytes)
            routed = images | "Route by checksum" >> with_outputs(
                route, "images", PlannedImage, **types
            )
            images = routed.images
            known, unread = [routed.known], [routed.candidates]
        picked = self._picked(images)
        contents = (
            together("All candidates", picked.candidates, *unread)
            | "Spread names" >> beam.GroupByKey()
            | "Read images that share a size"
            >> beam.FlatMap(self._candidates.hashed).with_output_types(tuple[str, PlannedImage])
        )
        every = together("All contents", contents, *known)
        chosen: UniqueImages = every | "Choose images" >> ChooseImages()
        kept = (picked.images, chosen.images) | "All unique images" >> beam.Flatten()
        return chosen._replace(images=kept)

    def _picked(self, images: beam.PCollection[PlannedImage]) -> beam.pvalue.DoOutputsTuple:
        """The images that may equal another one, and the others."""
        naming = self._naming()
        pick = functools.partial(_picked if naming else _picked_alone, max_bytes=self._max_bytes)
        step = by_type(pick, "images", PlannedImage, candidates=_Candidate)
        if naming is None:
            # Without a group, which one worker would get whole.
            return images | "Pick all images" >> step
        return (
            images
            | "Name sizes" >> beam.Map(naming).with_output_types(tuple[str, PlannedImage])
            | "Group names by size" >> beam.GroupByKey()
            | "Pick images that share a size" >> step
        )

    def _naming(self) -> Callable[[PlannedImage], tuple[str, PlannedImage]] | None:
        """What names groups of images that may be equal; None if any two may be."""
        if self._by_content:
            if not all(source.has_hashes for source in self._sources):
                return None
            return _by_content
        # Only images held out are compared with the originals of records.
        sources = self._sources if self._held_out else ()
        has_sizes = all(source.has_sizes for source in sources)
        if not has_sizes or not all(dataset.has_sizes for dataset in self._held_out):
            return None
        characters = CRC_CHARACTERS if self._has_checksums else 0
        return lambda image: (f"{image.size} {image.checksum[:characters]}", image)


def _routed(
    image: PlannedImage, max_bytes: int
) -> Iterator[PlannedImage | beam.pvalue.TaggedOutput]:
    """Spares images whose MD5 is known from the shuffle by size.

    All other images whose CRC32C is known are read: they may equal one of these.
    """
    md5 = listed_md5(image.checksum)
    if not 0 < image.size <= max_bytes or len(image.checksum) < CRC_CHARACTERS:
        yield image
    elif md5:
        yield beam.pvalue.TaggedOutput(_KNOWN, (md5, image))
    else:
        yield beam.pvalue.TaggedOutput(_CANDIDATES, _candidate(image))


def _by_content(image: PlannedImage) -> tuple[str, PlannedImage]:
    """Names groups of records by the hashes of their originals: changed ones may look the same."""
    if is_held_image(image):
        return held_place(image)[2], image
    return StoredImage.of(image.record).source_content, image


def _picked_alone(image: PlannedImage, max_bytes: int) -> Iterator[PlannedImage | _Candidate]:
    """Takes each image for one that may equal another, since no size or hash says otherwise."""
    # Nothing held out is read, so it may lack a size. Others are rejected later for theirs.
    may_equal = is_held_image(image) or 0 < image.size <= max_bytes
    yield _candidate(image) if may_equal else image


def _picked(
    group: tuple[str, Iterable[PlannedImage]], max_bytes: int
) -> Iterator[PlannedImage | _Candidate]:
    first: PlannedImage | None = None
    several = False
    for image in group[1]:
        # Empty and oversized files are rejected later for that reason.
        if not 0 < image.size <= max_bytes:
            if not is_held_image(image):
                yield image
        elif first is None:
            first = image
        else:
            several = True
            yield _candidate(image)
    if first is not None and several:
        yield _candidate(first)
    elif first is not None and not is_held_image(first):
        yield first


def _candidate(image: PlannedImage) -> _Candidate:
    return image.order % _PARTS, image


class _Candidates(NamedTuple):
    """Reads candidates, as many in parallel as `WriteShards` does; see `DropDuplicates`."""

    origins: Origins
    by_content: bool

    def hashed(
        self, part: tuple[int, Iterable[PlannedImage]]
    ) -> Iterator[tuple[str, PlannedImage]]:
        """The candidates of a part by the hashes of their content."""
        images = part[1]
        records: list[PlannedImage] = []
        if self.origins.sources:
            images = records = sorted(images, key=operator.attrgetter("split", "order"))
        read = ShardOrigins(self.origins, records)
        hashed = functools.partial(self._hashed, read)
        ahead = self.origins.read_ahead()
        yield from ahead.map(hashed, images, size=lambda image: image.size)

    def _hashed(self, origins: ShardOrigins, image: PlannedImage) -> tuple[str, PlannedImage]:
        if is_held_image(image):
            return CONTENT + held_place(image)[2], image
        root = self.origins.root
        uri = full_uri(root, image.path)
        try:
            if not (self.by_content or image.record):
                checksum, storage = image.checksum, storage_of(uri)
                # The version of a staged image is not a generation of its object.
                if not checksum and storage.lists_checksums and not is_staged_root(root):
                    there = storage.find(uri)
                    checksum = there.checksum if there and there.version == image.version else ""
                if md5 := listed_md5(checksum):
                    return md5, image
            found = origins.read(image)
        except RejectedImageError:
            return f"unreadable {image.key}", image
        except OSError as error:
            # If it were only skipped for now, it would be kept in addition to its duplicate.
            check_final(error, uri)
            return f"unreadable {image.key}", image
        original = found.stored.source_content if found.stored else ""
        # Next to files, a record that holds its original is compared with them.
        if self.by_content or (found.stored and original != found.stored.content):
            return CONTENT + (original or content_hash(found.data)), image
        return md5_hash(found.data), image
