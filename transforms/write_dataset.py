"""WriteDataset and its companions: the steps for pipelines of other people."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Unpack

import apache_beam as beam

from transforms.convert_images import ImageConverter
from transforms.core.option import (
    NOT_RECORDED,
    class_texts,
    declared,
    declared_in,
    exact_text,
    in_own_words,
    path_text,
    path_texts,
    read_arguments,
    recorded_values,
    text_of,
    truth,
)
from transforms.core.option_types import FindImagesOptions, LabelImagesOptions, WriteDatasetOptions
from transforms.core.records import Count, JoinSide, Kind, PlannedImage
from transforms.core.rejections import Rejection
from transforms.dataset.dataset_options import (
    DATASET_GROUPS,
    DatasetOptions,
    FileOptions,
    shard_plan,
)
from transforms.dataset.manifest import Dataset
from transforms.dataset_files import DatasetTarget
from transforms.drop_duplicates import DropDuplicates
from transforms.examples.layout_files import parse_layout
from transforms.examples.layouts import (
    LAYOUTS,
    PIXELS,
    Embedding,
    EmbeddingOptions,
    Feature,
    embedding_options,
    is_layout_file,
    layout_features,
    stores_pixels,
    with_embedding,
    with_pixels,
)
from transforms.examples.row_features import RowValues, row_requirements
from transforms.flow import Plan, PlanImages, WritePlan
from transforms.images.checked_images import CheckedImage
from transforms.images.pixel_options import CheckOptions, PixelOptions, checked_pixels
from transforms.input_readers import ImageFinder, RowReader, find_listed
from transforms.join_labels import INPUT_TYPES, Inputs, JoinedImages, JoinLabels, ReadInputs
from transforms.labels.keys import (
    MEMORY,
    any_case,
    archive_problem,
    expand_braces,
    listed_key,
    listed_path,
)
from transforms.labels.label_columns import resolve_columns
from transforms.labels.label_options import (
    InputOptions,
    ShardOptions,
    SplitOptions,
    recorded_split,
)
from transforms.labels.label_rows import CsvColumns
from transforms.labels.label_rules import LabelRules, PathRules
from transforms.labels.label_tables import first_rows
from transforms.labels.vocabulary import LabelCells, LabelCounter, given_label, missing_labels
from transforms.packing import by_type
from transforms.records.existing_shards import Converter
from transforms.records.image_origins import Origins, originals_root
from transforms.stage_images import StageImages
from transforms.storage.files import overlap, storage_of
from transforms.storage.metrics import counter
from transforms.storage.read_ahead import ReadAhead, reading_threads

# The options of each step. `class_names` are names here, and a file or a dataset in the command.
_NAMES = {"class_names": declared(InputOptions)["class_names"]}
_OF_PAIRS = declared_in(DATASET_GROUPS, LabelImagesOptions.__annotations__)
_OF_GLOBS = declared_in(DATASET_GROUPS, FindImagesOptions.__annotations__)
_OF_DATASETS = declared_in(DATASET_GROUPS, WriteDatasetOptions.__annotations__)

# LabelImages: takes images and labels from any source of a caller's pipeline.

# Images to look up together.
_LOOKED_UP = 256


class LabelImages(beam.PTransform):
    """Takes images and labels from any source of the pipeline.

    Input: `(path or gs:// URI, label)`; the label is text or a number. Repeated pairs count
    once; an image whose label is empty, None or NaN is rejected. Output: `JoinedImages`. Looks
    every image up for its size and version, many at once; no image is opened.
    """

    def __init__(self, *, labelled: bool = True, **options: Unpack[LabelImagesOptions]) -> None:
        """Sets keys, splits and order.

        Args:
            labelled: False ignores labels; pass the same to `WriteDataset`.
            options: `key`, `root`, `splits` and `seed`, as in docs/options.md. The key must be
                unique for each image, and decides the split and the order; None is `path`.

        Raises:
            TypeError: an argument has the wrong type.
            ValueError: an argument has an invalid value.
        """
        super().__init__()
        given = read_arguments("LabelImages", _OF_PAIRS, options)
        key, root = given["key"] or "path", given["root"] or ""
        self._look_up = functools.partial(_looked_up, key=key, root=root)
        self._join = JoinLabels(
            label_from="given" if truth("labelled", labelled) else "none",
            assigner=SplitOptions.of(given).assigner(),
        )

    def expand(self, labelled: beam.PCollection[tuple[str, object]]) -> JoinedImages:
        looked_up = (
            labelled
            | "Batch images" >> beam.BatchElements(_LOOKED_UP, _LOOKED_UP)
            | "Look up images"
            >> by_type(self._look_up, "sides", tuple[str, JoinSide], **INPUT_TYPES)
        )
        return Inputs.of(looked_up).joined(self._join).flat()


def _looked_up(
    batch: Sequence[tuple[str, object]], key: str, root: str
) -> Iterator[tuple[str, JoinSide] | LabelCells | Count]:
    counter("images_found").inc(len(batch))
    batch = [(exact_text(os.fspath(uri)), label) for uri, label in batch]
    waits = any(storage_of(uri).is_remote for uri, _ in batch)
    ahead, labels = ReadAhead(threads=reading_threads("", waits=waits)), LabelCounter()

    def look_up(labelled: tuple[str, object]) -> tuple[str, JoinSide]:
        uri, label = labelled
        text = given_label(label)
        found = find_listed(uri)
        path = listed_path(uri, root)
        image = JoinSide(path, found.size, found.version, text, "", kind=Kind.IMAGE)
        return listed_key(uri, kind=key, root=root), image

    for named, side in ahead.map(look_up, batch):
        if side.label:
            labels.add(side.label, side.path)
        yield named, side
    yield labels.counted()
    yield Count("images_found", len(batch))


# WriteDataset: writes the images of a caller's pipeline as a published dataset.


class WriteDataset(beam.PTransform):
    """Plans shards, converts and writes them, and publishes the dataset, the manifest last.

    Input: either `JoinedImages` of `FindImages` or `LabelImages`, unfiltered: images dropped in
    between are missing in the ledger, which fails the run. Or images from memory: tuples `(key,
    bytes)`, `(key, bytes, label)` or `(key, bytes, label, split)`, whose label is text, a number,
    None, or a list of these for a layout with several labels.
    Output: `published`, or `up_to_date` for a dataset of the same inputs and options.

    Raises in the job:
        NotPublishedError: more images were rejected than allowed, or the output folder holds
            another dataset or a damaged one.
        TypeError: an image from memory is none of these tuples.
        ValueError: its key is empty.
    """

    def __init__(
        self,
        output: str | os.PathLike[str],
        *,
        labelled: bool = True,
        class_names: Sequence[str] | None = None,
        **options: Unpack[WriteDatasetOptions],
    ) -> None:
        """Sets the options of the dataset.

        Args:
            output: its folder, local or `gs://`.
            labelled: whether images have labels.
            class_names: the classes in the order of their ids; None sorts the labels.
            options: as in docs/options.md: those of shards, files, pixels, embeddings and checks,
                without `holdout`; `layout`, a preset or a YAML file with features of images and
                their labels; `label_kind` and `dense_labels`; `root`, the same as for `FindImages`
                or `LabelImages`; `overwrite`; and of images from memory `splits` and `seed`.

        Raises:
            TypeError: an argument has the wrong type.
            ValueError: an argument has an invalid value; the layout cannot be read, or
                needs more than images and labels.
        """
        super().__init__()
        folder = path_text("output", output).rstrip("/") or "/"
        given = read_arguments("WriteDataset", _OF_DATASETS, options)
        self._folder = DatasetOptions(output=folder, overwrite=given["overwrite"])
        self._root, layout = given["root"] or "", given["layout"]
        with in_own_words():
            self._checks = CheckOptions.of(given)
            self._pixels = checked_pixels(PixelOptions.of(given), self._checks)
        self._plan = shard_plan(ShardOptions.of(given), FileOptions.of(given))
        self._plan.check_file_name()
        self._labelled = truth("labelled", labelled)
        features = with_pixels(_features(layout, self._labelled), self._pixels.fixed_shape)
        if self._pixels.depth == 16 and stores_pixels(features):
            raise ValueError(f"depth 16 cannot be used with {PIXELS} of a layout: it has 8 bits")
        model = EmbeddingOptions.of(given)
        with in_own_words():
            model.check(layout, features)
            self._embedding: Embedding | None = None
            if model.model is not None:
                # This imports Beam's inference, which other datasets do not need.
                from transforms.embed_images import load_embedding

                self._embedding = load_embedding(model)
        if self._embedding is not None:
            features = with_embedding(features, self._embedding.shape, self._embedding.dtype)
        self._features = features
        names = class_texts("class_names", class_names)
        self._rules = LabelRules(given["label_kind"], names, given["dense_labels"])
        quarantine = self._checks.quarantine
        if quarantine is not None and overlap(quarantine, folder):
            raise ValueError(f"quarantine {quarantine} and output {output} contain each other")
        decided = {
            "class_names": None if names is None else list(names),
            # They decide which images there are, not what is written of them.
            **dict.fromkeys(("splits", "seed"), NOT_RECORDED),
            **embedding_options(self._embedding),
        }
        self._options = recorded_values({**_NAMES, **_OF_DATASETS}, {**given, **decided})
        if self._pixels.reencode:
            self._options["reencode"] = True
        self._given: dict[str, Any] = {name: options.get(name) for name in ("splits", "seed")}
        requirements = row_requirements(self._features) if self._labelled else None
        self._stage = StageImages(folder, SplitOptions.of(given).assigner("csv"), requirements)

    def expand(
        self, images: JoinedImages | beam.PCollection[tuple[object, ...]]
    ) -> beam.PCollection[str]:
        plan, root = self._planned(images)
        return plan.shards | "Write dataset" >> WritePlan(plan, self._target(root))

    def _planned(
        self, images: JoinedImages | beam.PCollection[tuple[object, ...]]
    ) -> tuple[Plan, str]:
        """The shards of the images, and the root of their files."""
        if isinstance(images, beam.PCollection):
            if self._root:
                raise ValueError("root is the folder of image files: images from memory have none")
            joined: JoinedImages = images | "Stage images" >> self._stage
            root = MEMORY
        else:
            joined, root = self._joined(images), self._root
        drop = None
        if self._checks.drops_duplicates:
            drop = DropDuplicates(self._origins(root), max_bytes=self._checks.max_bytes)
        return joined | "Plan images" >> PlanImages(self._plan, self._rules, drop), root

    def _origins(self, root: str) -> Origins:
        """Where images below `root` are read; they may be remote though it is local."""
        return Origins(originals_root(self._folder.output, root), waits=True)

    def _joined(self, images: object) -> JoinedImages:
        """The images of `FindImages` or `LabelImages`.

        Raises:
            TypeError: they are something else.
            ValueError: an argument is for images from memory.
        """
        if not isinstance(images, tuple):
            raise TypeError(
                "WriteDataset takes the images of FindImages or LabelImages, or a PCollection of "
                f"(key, bytes, label), not {type(images).__name__}"
            )
        for name, value in self._given.items():
            if value is not None:
                raise ValueError(f"{name} is for images from memory: give it to the step before")
        for feature in self._features:
            if feature.from_rows:
                raise ValueError(
                    f"{feature.name!r} of the layout has the source {feature.source}, which only "
                    "images from memory fill: use ConvertDataset"
                )
        return JoinedImages(*images)

    def _target(self, root: str) -> DatasetTarget:
        """The destination of images below `root`."""
        needs_rows = row_requirements(self._features).needs_rows
        return DatasetTarget(
            self._folder,
            self._checks,
            Dataset(self._options, {}, root, self._features, (), is_strict=self._checks.strict),
            ImageConverter(
                origins=self._origins(root),
                features=self._features,
                checks=self._checks,
                pixels=self._pixels,
                rows=RowValues(self._features) if needs_rows else None,
                embedding=self._embedding,
            ),
            self._plan,
            self._rules,
        )


class EncodeExamples(WriteDataset):
    """Checks images and encodes them as `WriteDataset` does, for a sink of your own.

    Input: `JoinedImages` of `FindImages` or `LabelImages`. Output: serialized Examples, in any
    order. Nothing is written, and images that are rejected are left out: the metric
    `images_rejected` counts them.
    """

    def __init__(self, **options: Unpack[WriteDatasetOptions]) -> None:
        """Sets the options of the Examples, which are those of `WriteDataset`."""
        super().__init__(os.devnull, **options)

    def expand(self, images: JoinedImages) -> beam.PCollection[bytes]:
        plan, root = self._planned(images)
        encode = beam.ParDo(_EncodeFn(self._target(root).converter))
        return plan.shards | "Encode Examples" >> encode.with_output_types(bytes)


@dataclasses.dataclass(eq=False, repr=False)
class _EncodeFn(beam.DoFn):
    """Encodes the images of a shard, which are read ahead."""

    converter: Converter

    def setup(self) -> None:
        self.converter.setup()

    def process(self, shard: tuple[str, Iterable[PlannedImage]]) -> Iterator[bytes]:
        return self.converter.encode(_accepted(self.converter.load(sorted(shard[1]))))


def _accepted(loaded: Iterable[CheckedImage | Rejection]) -> Iterator[CheckedImage]:
    for result in loaded:
        if isinstance(result, CheckedImage):
            yield result
        else:
            counter("images_rejected").inc()


def _features(layout: str, labelled: bool) -> tuple[Feature, ...]:
    if is_layout_file(layout):
        text = storage_of(layout).read_text(layout)
        if text is None:
            raise ValueError(f"no such file: layout {layout}")
        features, partners = parse_layout(text, layout)
        for name in partners:
            raise ValueError(f"layout {layout}: {name} needs files to list: use ConvertDataset")
    elif layout in LAYOUTS:
        features = layout_features(layout, labelled=labelled)
    else:
        raise ValueError(
            f"layout {layout!r} is neither a .yaml file nor one of {', '.join(LAYOUTS)}"
        )
    for feature in features:
        # Several labels of an image need no row.
        is_label = feature.from_label and not feature.of_object
        if feature.from_rows and not is_label:
            raise ValueError(
                f"layout {layout}: {feature.name!r} has the source {feature.source}, which is "
                "neither an image nor its label: use ConvertDataset"
            )
    return features


# FindImages: lists and labels images for a caller's pipeline; with `WriteDataset`, all of it.

__all__ = ["FindImages", "LabelImages", "WriteDataset"]

# Rows of a CSV from which its columns are inferred.
_FIRST_ROWS = 20


class FindImages(beam.PTransform):
    """Lists images by globs and labels them by a CSV or by their folders.

    Input: the pipeline's begin. Output: `JoinedImages`. Only names move; no image is opened.
    """

    def __init__(
        self,
        images: Sequence[str | os.PathLike[str]],
        *,
        class_names: Sequence[str] | None = None,
        **options: Unpack[FindImagesOptions],
    ) -> None:
        """Checks the inputs: finds an image for each glob, and reads the first rows of `labels`.

        Args:
            images: globs, also of files in archives, such as `photos.zip!/**/*.jpg`.
            class_names: the same as for `WriteDataset`; a class `NA` is then a label.
            options: those of labels, keys and splits, as in docs/options.md. `labels` is one file;
                without it, labels are those of folders, or of `label_from`.

        Raises:
            LabelsError: the CSV has no such columns, or they cannot be inferred.
            OSError: the CSV cannot be read, or a folder cannot be listed.
            TypeError: an argument has the wrong type.
            ValueError: an argument has an invalid value, or a glob matches nothing.
        """
        given = read_arguments("FindImages", _OF_GLOBS, options)
        path, regex = given["labels"], text_of(given["label_from"])
        label_from = _label_source(given["label_from"], path)
        split_from = recorded_split(given["split_by"] or "hash")
        if split_from == "records":
            raise ValueError("split_by 'records' is for records of datasets: use ConvertDataset")
        columns = _columns(path, given)
        kind = given["key"] or ("path" if path is None else "stem")
        assigner = SplitOptions.of(given).assigner(split_from)
        rules = PathRules(label_from, regex, split_from == "directory")
        finder = ImageFinder(root=given["root"] or "", key=kind, rules=rules)
        missing = missing_labels(given["label_kind"], class_texts("class_names", class_names))
        encoding = given["csv_encoding"]
        reader = columns and RowReader(columns, key=kind, encoding=encoding, missing=missing)
        csv_paths = [] if path is None else [path]
        super().__init__()
        self._read = ReadInputs(_globs(images), finder, csv_paths, reader)
        self._join = JoinLabels(label_from=label_from, assigner=assigner)

    def expand(self, begin: beam.pvalue.PBegin) -> JoinedImages:
        inputs: Inputs = begin | "Read inputs" >> self._read
        return inputs.joined(self._join).flat()


def _label_source(label_from: str | None, path: str | None) -> str:
    """The source of labels, from the given arguments.

    Raises:
        ValueError: the arguments contradict each other.
    """
    if path is not None and label_from not in (None, "csv"):
        raise ValueError("label_from is for images without labels: leave one of them out")
    if label_from == "records":
        raise ValueError("label_from 'records' is for records of datasets: use ConvertDataset")
    return (label_from or ("csv" if path else "directory")).partition(":")[0]


def _globs(images: Sequence[str | os.PathLike[str]]) -> list[str]:
    """The globs, with alternatives expanded; each pattern matches a file."""
    found: list[str] = []
    for pattern in path_texts("images", images):
        globs = expand_braces(pattern)
        for glob in globs:
            if problem := archive_problem(glob):
                raise ValueError(f"images {glob!r} {problem}")
        listings = (storage_of(glob).list_files(any_case(glob)) for glob in globs)
        # A job over nothing would publish an empty dataset.
        if not any(next(listing, None) for listing in listings):
            raise ValueError(f"no file matches {pattern!r} of images")
        found += globs
    return found


def _columns(path: str | None, given: Mapping[str, Any]) -> CsvColumns | None:
    """The columns of `labels`, inferred from its first rows."""
    if path is None:
        return None
    encoding, delimiter = given["csv_encoding"], given["csv_delimiter"]
    key, label = given["label_key"], given["label_column"]
    with in_own_words():
        with storage_of(path).open_reader(path) as file:
            first = first_rows(file, _FIRST_ROWS, encoding=encoding, delimiter=delimiter, path=path)
        splits = SplitOptions.of(given)
        return resolve_columns(first, key=key, label=label, splits=splits, path=path)
