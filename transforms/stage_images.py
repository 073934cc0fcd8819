"""Images from memory: checks and stages them."""

from __future__ import annotations

import dataclasses
import functools
import numbers
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import apache_beam as beam

from transforms.core.messages import is_utf8
from transforms.core.option import (
    exact_text,
    kind_text,
)
from transforms.core.records import Count, JoinSide, Kind, PlannedImage
from transforms.core.rejections import Reason, Rejection
from transforms.join_labels import INPUT_TYPES, Inputs, JoinedImages, JoinLabels
from transforms.labels.joins import RowRequirements, labels_cells, placed
from transforms.labels.keys import content_version, image_key
from transforms.labels.shards import SplitAssigner, split_text
from transforms.labels.vocabulary import LabelCells, LabelCounter, given_label
from transforms.packing import by_type
from transforms.records.image_origins import check_staged_root, staged_root, write_original
from transforms.storage.metrics import PROGRESS, counter
from transforms.storage.read_ahead import ReadAhead, reading_threads

# Images that a pipeline gives as bytes: the check of its elements, and the join of their names.

_FORMS = "(key, bytes), (key, bytes, label) or (key, bytes, label, split)"


class GivenImage(NamedTuple):
    """One image of a caller's pipeline.

    Attributes:
        key: its name, unique in the dataset.
        data: the bytes of its file.
        labels: its labels as text; empty ones are left out.
        split: the split that it names; empty if the hash decides.
    """

    key: str
    data: bytes
    labels: tuple[str, ...]
    split: str


def given_image(element: object) -> GivenImage:
    """Checks an element of a caller's pipeline.

    Raises:
        TypeError: it is not a tuple of key, bytes, label and split, or one of these is of another
            type.
        ValueError: its key is empty.

    >>> given_image(("cat/1.jpg", b"...", ["cat", None, 7.0]))
    GivenImage(key='cat/1.jpg', data=b'...', labels=('cat', '7'), split='')
    """
    if not isinstance(element, tuple) or not 2 <= len(element) <= 4:
        raise TypeError(f"an image is a tuple {_FORMS}, not {kind_text(element)}")
    key, data, label, split = (*element, None, None)[:4]
    if not isinstance(key, str):
        raise TypeError(f"the key of an image is a str, not {kind_text(key)}: give {_FORMS}")
    if not key.strip():
        raise ValueError("the key of an image is empty: give each image a name of its own")
    if not isinstance(data, bytes | bytearray):
        raise TypeError(
            f"the image {key!r:.200} is {kind_text(data)}, not bytes: give the content of its "
            "file; LabelImages takes paths"
        )
    if split is not None and not isinstance(split, str):
        raise TypeError(f"the split of {key!r:.200} is a str or None, not {kind_text(split)}")
    labels = label if isinstance(label, list | tuple | set | frozenset) else (label,)
    texts = [text for each in labels if (text := _label_text(key, each))]
    if isinstance(labels, set | frozenset):
        texts.sort()
    kept = tuple(dict.fromkeys(texts))
    return GivenImage(exact_text(key), bytes(data), kept, split_text(split or ""))


def _label_text(key: str, label: object) -> str:
    if label is not None and not isinstance(label, str | numbers.Number):
        raise TypeError(f"a label of {key!r:.200} is a str or a number, not {kind_text(label)}")
    return given_label(label)


def join_given(
    key: str, group: Iterable[JoinSide], *, assigner: SplitAssigner, is_labelled: bool
) -> Iterator[PlannedImage | Rejection | Count]:
    """The image of one key with its split and order, or the rejections of several.

    An image that is given twice with the same bytes, labels and split counts once.

    Args:
        key: the key.
        group: all images with this key.
        assigner: gives the image its split and its order.
        is_labelled: whether images need a label.
    """
    given = list(group)
    images = sorted(set(given))
    if len(images) < len(given):
        yield Count("images_found_again", len(given) - len(images))
    if len(images) == 1:
        yield from _placed(key, images[0], assigner, is_labelled)
    elif len({(image.path, image.version) for image in images}) > 1:
        detail = f"{len(images)} images have the key {key!r}"
        yield from _rejected(Reason.DUPLICATE_KEY, detail, images, key)
    elif len({(image.label, image.cells) for image in images}) > 1:
        detail = "it is given with several labels"
        yield from _rejected(Reason.AMBIGUOUS_LABEL, detail, images, key)
    else:
        said = ", ".join(repr(image.split) for image in images)
        yield from _rejected(Reason.SPLIT_CONFLICT, f"it is given with splits {said}", images, key)


def _placed(
    key: str, image: JoinSide, assigner: SplitAssigner, is_labelled: bool
) -> Iterator[PlannedImage | Rejection | Count]:
    if is_labelled and not image.label and not image.cells:
        yield from _rejected(Reason.NO_LABEL, "its label is empty", [image], key)
        return
    for result in placed(key, image, 0, assigner):
        if isinstance(result, PlannedImage) and image.cells:
            # Several labels are stored as those of one row.
            yield Count("rows_read", 1)
            result = result._replace(rows=1)
        yield result


def _rejected(
    reason: Reason, detail: str, images: list[JoinSide], key: str
) -> Iterator[Rejection | Count]:
    """One rejection for each path and content of the images, and the count of the others."""
    files = {(image.path, image.version): image for image in images}
    for image in files.values():
        yield Rejection("image", reason.code, detail, image.path, key)
    if len(files) < len(images):
        yield Count("images_found_again", len(images) - len(files))


# StageImages: takes the bytes of images from a caller's pipeline, and hands their names on.

# Bytes of images to write together.
_BATCH = 16 << 20


@dataclasses.dataclass(eq=False, repr=False)
class StageImages(beam.PTransform):
    """Writes images from memory to the staging folder, and joins their names.

    Input: `(key, bytes)`, `(key, bytes, label)` or `(key, bytes, label, split)`. The label is text,
    a number, None, or a list of these for a layout with several labels. Output: `JoinedImages`.

    The bytes are written once, in the call that gets them, so none crosses a shuffle. A file is
    named after the key of its image, and its version is a hash of its bytes: a retry writes it
    again, and the recipe of a shard is the same in a rerun. Publishing removes the files; those of
    a run that failed stay for the next one. Memory holds 16 MB of images and the largest image.

    Attributes:
        output: the dataset's folder; its staging folder gets the images.
        assigner: gives images that name no split theirs, and all of them their order.
        requirements: of the layout, whether images have several labels; None if labels do not
            count.

    Raises in the job:
        TypeError: an element is none of these tuples.
        ValueError: a key is empty.
    """

    output: str
    assigner: SplitAssigner
    requirements: RowRequirements | None

    def expand(self, elements: beam.PCollection[tuple[object, ...]]) -> JoinedImages:
        stager = _Stager(self.output, self.requirements)
        staged = (
            elements
            | "Check images" >> beam.Map(lambda element: tuple(given_image(element)))
            | "Batch images"
            >> beam.BatchElements(
                min_batch_size=_BATCH,
                max_batch_size=_BATCH,
                element_size_fn=lambda image: max(1, len(image[1])),
            )
            | "Write images" >> by_type(stager.write, "sides", tuple[str, JoinSide], **INPUT_TYPES)
        )
        join = JoinGiven(assigner=self.assigner, is_labelled=self.requirements is not None)
        return Inputs.of(staged).joined(join).flat()


class _Stager(NamedTuple):
    """Writes batches of images; `requirements` is None if labels do not count."""

    output: str
    requirements: RowRequirements | None

    def write(
        self, batch: Sequence[tuple[str, bytes, tuple[str, ...], str]]
    ) -> Iterator[tuple[str, JoinSide] | Rejection | LabelCells | Count]:
        """Yields the name of each image, once it is written, or its rejection."""
        check_staged_root(self.output)
        counter("images_found").inc(len(batch))
        labels = LabelCounter()
        ahead = ReadAhead(threads=reading_threads(self.output))
        for image, side in ahead.map(self._staged, (GivenImage(*each) for each in batch)):
            PROGRESS.count("listing")
            if isinstance(side, Rejection):
                yield side
                continue
            for label in image.labels if self.requirements is not None else ():
                labels.add(label, image.key)
            yield image_key(image.key, kind="uri", root=""), side
        yield labels.counted()
        yield Count("images_found", len(batch))

    def _staged(self, image: GivenImage) -> tuple[GivenImage, JoinSide | Rejection]:
        key, data, labels, split = image
        if not is_utf8(key):
            shown = key.encode(errors="surrogateescape").decode(errors="backslashreplace")
            detail = f"its key holds bytes that are not UTF-8: {shown}"
            return image, Rejection("image", Reason.NAME_NOT_UTF8.code, detail, shown, "")
        label, cells = self._labels(key, labels)
        write_original(staged_root(self.output), key, data)
        version = content_version(data)
        side = JoinSide(
            key, len(data), version, label, "", split=split, cells=cells, kind=Kind.IMAGE
        )
        return image, side

    def _labels(self, key: str, labels: tuple[str, ...]) -> tuple[str, str]:
        """The one label of an image, and the cells that hold all of them."""
        if self.requirements is None or not labels:
            return "", ""
        cells = labels_cells(labels) if self.requirements.needs_rows else ""
        if self.requirements.many_labels:
            return "", cells
        if len(labels) > 1:
            raise ValueError(
                f"the image {key!r:.200} has {len(labels)} labels, and the layout stores one: "
                "choose a layout with label.ids or label.texts"
            )
        return labels[0], cells


class JoinGiven(JoinLabels):
    """Joins images that the pipeline itself gave with their labels and splits.

    Input: `(key, JoinSide)` of images alone. Output: `JoinedImages`. Only names cross the shuffle.
    """

    def __init__(self, *, assigner: SplitAssigner, is_labelled: bool) -> None:
        super().__init__(label_from="given", assigner=assigner)
        self._join = functools.partial(join_given, assigner=assigner, is_labelled=is_labelled)
