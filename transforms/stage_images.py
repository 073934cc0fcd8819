"""StageImages: takes the bytes of images from a caller's pipeline, and hands their names on."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence

import apache_beam as beam

from transforms.core.arguments import path_text, seed_number, split_shares, truth
from transforms.core.given_images import GivenImage, given_image, join_given
from transforms.core.labels.label_kinds import LabelCells, LabelCounter
from transforms.core.planning.keys import image_key
from transforms.core.planning.row_cells import ONE_LABEL, RowRequirements, labels_cells
from transforms.core.planning.split_assignment import SplitAssigner
from transforms.core.planning.splits import Splits
from transforms.core.planning.staged_images import content_version
from transforms.core.records import Count, JoinSide
from transforms.core.rejections import Reason, Rejection
from transforms.join_labels import JoinedImages, JoinLabels
from transforms.metrics import PROGRESS, counter
from transforms.original_images import check_staged_root, staged_root, write_original
from transforms.storage.read_ahead import ReadAhead, reading_threads

_REJECTIONS = "rejections"
_COUNTS = "counts"
_LABELS = "labels"

# Bytes of images to write together.
_BATCH = 16 << 20


class StageImages(beam.PTransform):
    """Writes images from memory to the staging folder, and joins their names.

    Input: `(key, bytes)`, `(key, bytes, label)` or `(key, bytes, label, split)`. The label is text,
    a number, None, or a list of these for a layout with several labels. Output: `JoinedImages`.

    The bytes are written once, in the call that gets them, so none crosses a shuffle. A file is
    named after the key of its image, and its version is a hash of its bytes: a retry writes it
    again, and the recipe of a shard is the same in a rerun. Publishing removes the files; those of
    a run that failed stay for the next one. Memory holds 16 MB of images and the largest image.

    Raises in the job:
        TypeError: an element is none of these tuples.
        ValueError: a key is empty.
    """

    def __init__(
        self,
        output: str,
        *,
        labelled: bool = True,
        splits: str = "train=1",
        seed: int = 0,
        requirements: RowRequirements = ONE_LABEL,
    ) -> None:
        """Sets splits and order.

        Args:
            output: the dataset's folder; its staging folder gets the images.
            labelled: False ignores labels.
            splits: name and share of each, for images that name no split.
            seed: for record order and split assignment.
            requirements: of the layout, whether images have several labels.

        Raises:
            TypeError: an argument has the wrong type.
            ValueError: an argument has an invalid value.
        """
        super().__init__()
        output = path_text("output", output)
        is_labelled = truth("labelled", labelled)
        self._fn = _StageFn(output, requirements if is_labelled else None)
        assigner = SplitAssigner(
            Splits(split_shares(splits)), seed=seed_number(seed), split_from="csv"
        )
        self._join = JoinGiven(assigner=assigner, is_labelled=is_labelled)

    def expand(self, elements: beam.PCollection[tuple[object, ...]]) -> JoinedImages:
        staged = (
            elements
            | "Check images" >> beam.Map(_checked)
            | "Batch images" >> beam.BatchElements(max_batch_size=_BATCH, element_size_fn=_size)
            | "Write images"
            >> beam.ParDo(self._fn)
            .with_output_types(
                tuple[str, JoinSide],
                **{_REJECTIONS: Rejection, _COUNTS: Count, _LABELS: LabelCells},
            )
            .with_outputs(_REJECTIONS, _COUNTS, _LABELS, main="sides")
        )
        joined: JoinedImages = staged.sides | "Join labels" >> self._join
        return JoinedImages(
            joined.images,
            (staged[_REJECTIONS], joined.rejections) | "All rejections" >> beam.Flatten(),
            (staged[_COUNTS], joined.counts) | "All counts" >> beam.Flatten(),
            staged[_LABELS],
        )


def _checked(element: object) -> tuple[str, bytes, tuple[str, ...], str]:
    key, data, labels, split = given_image(element)
    return key, data, labels, split


def _size(element: tuple[str, bytes, tuple[str, ...], str]) -> int:
    return max(1, len(element[1]))


class _StageFn(beam.DoFn):
    """Writes batches of images; `requirements` is None if labels do not count."""

    def __init__(self, output: str, requirements: RowRequirements | None) -> None:
        self._output = output
        self._root = staged_root(output)
        self._requirements = requirements
        self._found = counter("images_found")

    def setup(self) -> None:
        check_staged_root(self._output)

    def process(
        self, batch: Sequence[tuple[str, bytes, tuple[str, ...], str]]
    ) -> Iterator[tuple[str, JoinSide] | beam.pvalue.TaggedOutput]:
        self._found.inc(len(batch))
        labels = LabelCounter()
        ahead = ReadAhead(threads=reading_threads(self._output))
        for image, side in ahead.map(self._staged, (GivenImage(*each) for each in batch)):
            PROGRESS.count("listing")
            if isinstance(side, Rejection):
                yield beam.pvalue.TaggedOutput(_REJECTIONS, side)
                continue
            for label in image.labels if self._requirements is not None else ():
                labels.add(label, image.key)
            yield image_key(image.key, kind="uri", root=""), side
        yield beam.pvalue.TaggedOutput(_LABELS, labels.counted())
        yield beam.pvalue.TaggedOutput(_COUNTS, Count("images_found", len(batch)))

    def _staged(self, image: GivenImage) -> tuple[GivenImage, JoinSide | Rejection]:
        key, data, labels, split = image
        try:
            key.encode()
        except UnicodeEncodeError:
            shown = key.encode(errors="surrogateescape").decode(errors="backslashreplace")
            detail = f"its key holds bytes that are not UTF-8: {shown}"
            return image, Rejection("image", Reason.NAME_NOT_UTF8.value, detail, shown, "")
        label, cells = self._labels(key, labels)
        write_original(self._root, key, data)
        version = content_version(data)
        side = JoinSide(key, len(data), version, label, "", split=split, cells=cells, is_image=True)
        return image, side

    def _labels(self, key: str, labels: tuple[str, ...]) -> tuple[str, str]:
        """The one label of an image, and the cells that hold all of them."""
        if self._requirements is None or not labels:
            return "", ""
        cells = labels_cells(labels) if self._requirements.needs_rows else ""
        if self._requirements.many_labels:
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
