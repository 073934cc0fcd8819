"""WriteDataset and its companions: the steps for pipelines of other people."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import apache_beam as beam

from transforms.convert_images import ImageConverter
from transforms.core.messages import LabelsError, first_line
from transforms.core.records import Count, JoinSide
from transforms.core.rejections import DEFAULT_LIMIT
from transforms.dataset.manifest import Dataset
from transforms.dataset.output_names import FILES
from transforms.dataset_files import DatasetTarget
from transforms.drop_duplicates import DropDuplicates
from transforms.examples.layout_files import parse_layout
from transforms.examples.layouts import (
    LAYOUTS,
    PIXELS,
    Feature,
    Needs,
    is_layout_file,
    layout_features,
    needs_model,
    stores_pixels,
    with_embedding,
    with_pixels,
)
from transforms.examples.row_features import RowValues, row_requirements
from transforms.find_images import ImageFinder
from transforms.flow import FindLabelledImages, ImageSource, PlanImages, WritePlan
from transforms.images.embeddings import Embedding, ModelError, is_application
from transforms.images.pixel_options import (
    CHECK_MODES,
    DEDUPE_MODES,
    DEFAULT_LIMITS,
    DEPTHS,
    EMBED_DTYPES,
    Limits,
    Resize,
    given_pixels,
)
from transforms.join_labels import JoinedImages, JoinLabels
from transforms.labels.annotations import first_rows
from transforms.labels.arguments import (
    class_texts,
    exact_text,
    label_rules,
    one_of,
    optional_delimiter,
    optional_path,
    own_words,
    path_text,
    path_texts,
    rejection_limit,
    root_text,
    seed_number,
    shard_plan,
    split_shares,
    truth,
    whole_number,
)
from transforms.labels.image_names import (
    any_case,
    archive_problem,
    expand_braces,
    listed_key,
    listed_path,
)
from transforms.labels.keys import KEY_KINDS, MEMORY
from transforms.labels.label_columns import resolve_columns, with_place_columns
from transforms.labels.label_rows import CsvColumns
from transforms.labels.label_rules import PathRules, parse_label_regex
from transforms.labels.splits import SPLIT_SOURCES, SplitAssigner, Splits
from transforms.labels.vocabulary import (
    LABEL_KINDS,
    LabelCells,
    LabelCounter,
    given_label,
    missing_labels,
)
from transforms.list_rejections import overlap
from transforms.read_labels import RowReader
from transforms.records.originals import originals_root
from transforms.stage_images import StageImages
from transforms.storage.files import storage_of
from transforms.storage.image_lookup import find_listed
from transforms.storage.metrics import counter
from transforms.storage.read_ahead import ReadAhead, reading_threads

if TYPE_CHECKING:
    from transforms.embed_images import Embedder


# LabelImages: takes images and labels from any source of a caller's pipeline.

_LABELS = "labels"

# Images to look up together.
_LOOKED_UP = 256


class LabelImages(beam.PTransform):
    """Takes images and labels from any source of the pipeline.

    Input: `(path or gs:// URI, label)`; the label is text or a number. Repeated pairs count
    once; an image whose label is empty, None or NaN is rejected. Output: `JoinedImages`. Looks
    every image up for its size and version, many at once; no image is opened.
    """

    def __init__(
        self,
        *,
        labelled: bool = True,
        key: str = "path",
        root: str | os.PathLike[str] = "",
        splits: str = "train=1",
        seed: int = 0,
    ) -> None:
        """Sets keys, splits and order.

        Args:
            labelled: False ignores labels; pass the same to `WriteDataset`.
            key: `stem`, `name`, `path` or `uri`. The key must be unique for each image, and decides
                the split and the order.
            root: a folder that contains all images; paths in the dataset are relative to it.
            splits: name and share of each, as in `train=0.9,test=0.1`.
            seed: for record order and split assignment.

        Raises:
            TypeError: an argument has the wrong type.
            ValueError: an argument has an invalid value.
        """
        super().__init__()
        self._fn = _LookUpFn(one_of("key", key, KEY_KINDS), root_text("root", root))
        self._join = JoinLabels(
            label_from="given" if truth("labelled", labelled) else "none",
            assigner=SplitAssigner(Splits(split_shares(splits)), seed=seed_number(seed)),
        )

    def expand(self, labelled: beam.PCollection[tuple[str, object]]) -> JoinedImages:
        looked_up = (
            labelled
            | "Batch images" >> beam.BatchElements(max_batch_size=_LOOKED_UP)
            | "Look up images"
            >> beam.ParDo(self._fn)
            .with_output_types(tuple[str, JoinSide], **{_LABELS: LabelCells})
            .with_outputs(_LABELS, main="sides")
        )
        sides = looked_up.sides
        found = (
            sides
            | "Count images" >> beam.combiners.Count.Globally()
            | "Name the count" >> beam.Map(_found).with_output_types(Count)
        )
        joined: JoinedImages = sides | "Join labels" >> self._join
        counts = (joined.counts, found) | "All counts" >> beam.Flatten()
        return JoinedImages(joined.images, joined.rejections, counts, looked_up[_LABELS])


def _found(count: int) -> Count:
    return Count("images_found", count)


class _LookUpFn(beam.DoFn):
    def __init__(self, key: str, root: str) -> None:
        self._key = key
        self._root = root
        self._found = counter("images_found")

    def process(
        self, batch: Sequence[tuple[str, object]]
    ) -> Iterator[tuple[str, JoinSide] | beam.pvalue.TaggedOutput]:
        self._found.inc(len(batch))
        batch = [(exact_text(os.fspath(uri)), label) for uri, label in batch]
        waits = any(storage_of(uri).is_remote for uri, _ in batch)
        ahead, labels = ReadAhead(threads=reading_threads("", waits=waits)), LabelCounter()
        for key, side in ahead.map(self._side, batch):
            if side.label:
                labels.add(side.label, side.path)
            yield key, side
        yield beam.pvalue.TaggedOutput(_LABELS, labels.counted())

    def _side(self, labelled: tuple[str, object]) -> tuple[str, JoinSide]:
        uri, label = labelled
        text = given_label(label)
        found = find_listed(uri)
        path = listed_path(uri, self._root)
        image = JoinSide(path, found.size, found.version, text, "", is_image=True)
        return listed_key(uri, kind=self._key, root=self._root), image


# WriteDataset: writes the images of a caller's pipeline as a published dataset.

COMPRESSIONS = ("none", "gzip")

# How images from memory are split without other arguments.
_ONE_SPLIT = "train=1"


class WriteDataset(beam.PTransform):
    """Plans shards, converts and writes them, and publishes the dataset, the manifest last.

    Input: either `JoinedImages` of `FindImages` or `LabelImages`, unfiltered: images dropped in
    between are missing in the ledger, which fails the run. Or images from memory, see
    `StageImages`: tuples `(key, bytes)`, `(key, bytes, label)` or `(key, bytes, label, split)`.
    Output: `published`, or `up_to_date` for a dataset of the same inputs and options.

    Raises in the job: see `PublishDataset` and `StageImages`.
    """

    def __init__(
        self,
        output: str | os.PathLike[str],
        *,
        layout: str | os.PathLike[str] = "slim",
        labelled: bool = True,
        class_names: Sequence[str] | None = None,
        label_kind: str = "auto",
        dense_labels: bool = False,
        root: str | os.PathLike[str] = "",
        splits: str | None = None,
        seed: int | None = None,
        num_shards: int | None = None,
        shard_size: int | None = None,
        shard_by: str = "hash",
        files: str = "sharded",
        compression: str = "none",
        transcode: str = "keep",
        resize: str | Resize | None = None,
        color: str = "keep",
        quality: int | None = None,
        exif_orientation: str = "keep",
        depth: int = 8,
        strip_metadata: bool = False,
        check: str = "full",
        max_pixels: int = DEFAULT_LIMITS.max_pixels,
        max_bytes: int = DEFAULT_LIMITS.max_bytes,
        max_rejected: str = DEFAULT_LIMIT,
        model: str | os.PathLike[str] | None = None,
        model_weights: str | os.PathLike[str] | None = None,
        embed_dtype: str | None = None,
        strict: bool = False,
        dedupe: str = "report",
        quarantine: str | os.PathLike[str] | None = None,
        overwrite: bool = False,
    ) -> None:
        """Sets the options of the dataset, by the names of the command's flags.

        Args:
            output: its folder, local or `gs://`.
            layout: a preset or the path of a YAML file, with features of images and one label each.
                For images from memory, also with `label.ids` and `label.texts`.
            labelled: whether images have labels.
            class_names: the classes in the order of their ids; None sorts the labels.
            label_kind: `integer`, `text`, or `auto`: integers if all labels are.
            dense_labels: whether integer labels are numbered from 0.
            root: the same as for `FindImages` or `LabelImages`.
            splits: of images from memory: name and share of each, as in `train=0.9,test=0.1`; None
                is `train=1`.
            seed: of images from memory: for record order and split assignment; None is 0.
            num_shards: of each split; None plans them from the bytes.
            shard_size: bytes that a shard should hold, without `num_shards`; None is 150 MB.
            shard_by: `hash`: shards are equal ranges of the hash of the key; or `records`: they
                have equal numbers of records.
            files: `sharded`, or `per_image`: a file for each image, named after its key.
            compression: `none` or `gzip`.
            transcode: `keep` formats, convert what TensorFlow cannot read (`auto`), or every image
                to `jpeg` or `png`.
            resize: `shorter=N`, `longer=N` or `WIDTHxHEIGHT` in pixels, with `,never_enlarge` if
                small images stay as they are; None keeps sizes.
            color: `keep`, `rgb` or `gray`.
            quality: of re-encoded JPEGs, 1 to 100; None is 95.
            exif_orientation: `keep` the EXIF tag, or `apply` it to the pixels.
            depth: bits of changed PNGs, TIFFs and HEICs with more than 8: 8 for color, or 16.
            strip_metadata: whether image files lose GPS, EXIF, XMP, IPTC and texts, without a
                change to their pixels.
            check: `full` or `header`.
            max_pixels: of an image; larger ones are rejected.
            max_bytes: of an image's file; larger ones are rejected.
            max_rejected: share or number of images that may be rejected, such as `1%` or `25`, or
                the larger of both, `1% or 10`.
            model: for a layout with an embedding: a Keras file, a SavedModel folder, or a name in
                `keras.applications`. It is loaded and tried at once.
            model_weights: the weights of a name.
            embed_dtype: `float32` or `bfloat16`; None is `float32`.
            strict: whether warnings keep the dataset from being published.
            dedupe: `off`; `report` exact and near-duplicates; or `drop` exact ones, keeping one.
            quarantine: folder for copies of rejected images, `quarantine/REASON/PATH`, or None.
            overwrite: whether an existing dataset may be replaced.

        Raises:
            TypeError: an argument has the wrong type.
            ValueError: an argument has an invalid value; the layout cannot be read, or
                needs more than images and labels.
        """
        super().__init__()
        self._output = path_text("output", output).rstrip("/") or "/"
        layout, self._root = path_text("layout", layout), root_text("root", root)
        self._limits = Limits(
            max_pixels=whole_number("max_pixels", max_pixels, 1),
            max_bytes=whole_number("max_bytes", max_bytes, 1),
        )
        self._pixels = given_pixels(transcode, resize, color, quality, exif_orientation, depth)
        size = self._pixels.resize
        if size and size.rule == "exact" and size.height * size.width > max_pixels:
            raise ValueError(f"resize {size} is more than max_pixels {max_pixels}")
        self._strips = truth("strip_metadata", strip_metadata)
        self._check = one_of("check", check, CHECK_MODES)
        self._labelled = truth("labelled", labelled)
        features = _features(layout, self._labelled)
        features = with_pixels(features, self._pixels.fixed_shape)
        if depth == 16 and stores_pixels(features):
            raise ValueError(f"depth 16 cannot be used with {PIXELS} of a layout: it has 8 bits")
        self._embedding = _embedding(layout, features, model, model_weights, embed_dtype)
        if self._embedding is not None:
            features = with_embedding(features, self._embedding.shape, self._embedding.dtype)
        self._features = features
        self._rules = label_rules(label_kind, class_names, dense_labels)
        gzip = one_of("compression", compression, COMPRESSIONS) == "gzip"
        self._plan = shard_plan(num_shards, shard_size, shard_by, gzip)._replace(
            per_image=files == "per_image"
        )
        self._files = one_of("files", files, FILES)
        if files == "per_image" and (num_shards or shard_size):
            raise ValueError("num_shards and shard_size do not go with files 'per_image'")
        if files == "per_image" and self._plan.by_records:
            raise ValueError("shard_by 'records' does not go with files 'per_image'")
        self._quarantine = optional_path("quarantine", quarantine)
        if self._quarantine is not None and overlap(self._quarantine, self._output):
            raise ValueError(f"quarantine {quarantine} and output {output} contain each other")
        self._dedupe = one_of("dedupe", dedupe, DEDUPE_MODES)
        self._max_rejected = rejection_limit(max_rejected)
        self._strict, self._overwrite = truth("strict", strict), truth("overwrite", overwrite)
        self._options = self._recorded(layout)
        self._given = {"splits": splits, "seed": seed}
        # Also checks the two arguments where they are written.
        self._stage = StageImages(
            self._output,
            labelled=self._labelled,
            splits=_ONE_SPLIT if splits is None else splits,
            seed=0 if seed is None else seed,
            requirements=row_requirements(self._features),
        )

    def expand(
        self, images: JoinedImages | beam.PCollection[tuple[object, ...]]
    ) -> beam.PCollection[str]:
        if isinstance(images, beam.PCollection):
            if self._root:
                raise ValueError("root is the folder of image files: images from memory have none")
            joined: JoinedImages = images | "Stage images" >> self._stage
            root = MEMORY
        else:
            joined, root = self._joined(images), self._root
        drop = None
        if self._dedupe == "drop":
            originals = originals_root(self._output, root)
            drop = DropDuplicates(originals, max_bytes=self._limits.max_bytes, waits=True)
        plan = joined | "Plan images" >> PlanImages(self._plan, self._rules, drop)
        return plan.shards | "Write dataset" >> WritePlan(plan, self._target(root))

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
        requirements = row_requirements(self._features)
        return DatasetTarget(
            output=self._output,
            dataset=Dataset(self._options, {}, root, self._features, (), is_strict=self._strict),
            converter=ImageConverter(
                root=originals_root(self._output, root),
                features=self._features,
                limits=self._limits,
                check=self._check,
                pixels=self._pixels,
                rows=RowValues(self._features, requirements) if requirements.needs_rows else None,
                waits=True,
                embedder=self._embedder(),
                fingerprints=self._dedupe != "off",
                strips=self._strips,
            ),
            plan=self._plan,
            max_rejected=self._max_rejected,
            overwrite=self._overwrite,
            rules=self._rules,
            quarantine=self._quarantine,
            per_image=self._files == "per_image",
        )

    def _embedder(self) -> Embedder | None:
        if self._embedding is None:
            return None
        from transforms.embed_images import Embedder

        return Embedder(self._embedding)

    def _recorded(self, layout: str) -> dict[str, Any]:
        """The options that affect output bytes, by the names of the flags."""
        names, pixels = self._rules.class_names, self._pixels
        options = {
            "layout": layout,
            "class_names": None if names is None else list(names),
            "label_kind": self._rules.kind,
            "dense_labels": self._rules.dense,
            "num_shards": self._plan.num_shards,
            "shard_size": self._plan.shard_size,
            "compression": "gzip" if self._plan.gzip else "none",
            "check": self._check,
            **self._limits._asdict(),
            **pixels._asdict(),
            "resize": str(pixels.resize) if pixels.resize else None,
        }
        # As in the command, default values do not change the digest.
        if self._files != FILES[0]:
            options["files"] = self._files
        if self._dedupe == "drop":
            options["dedupe"] = self._dedupe
        if self._plan.by_records:
            options["shard_by"] = "records"
        if self._strips:
            options["strip_metadata"] = True
        if self._pixels.depth == DEPTHS[0]:
            del options["depth"]
        if (embedding := self._embedding) is not None:
            # The content of the files: their location affects no byte.
            options["model"] = embedding.digests[0] or embedding.model
            options["model_weights"] = embedding.digests[1] or None
            options["embed_dtype"] = embedding.dtype
        return options


def _embedding(
    layout: str,
    features: Sequence[Feature],
    model: str | os.PathLike[str] | None,
    weights: str | os.PathLike[str] | None,
    dtype: str | None,
) -> Embedding | None:
    """The model of the layout's embedding, or None without one.

    Raises:
        ValueError: the layout needs a model, or the arguments do not fit.
    """
    path, own = optional_path("model", model), optional_path("model_weights", weights)
    if not needs_model(features):
        for name, value in (("model", path), ("model_weights", own), ("embed_dtype", dtype)):
            if value is not None:
                raise ValueError(f"{name} has no effect with layout {layout}: it has no embedding")
        return None
    if path is None:
        raise ValueError(f"layout {layout} needs model: a Keras file, a SavedModel or a name")
    if is_application(path) != (own is not None):
        raise ValueError("model_weights goes with a model of keras.applications, and no other")
    dtype = one_of("embed_dtype", "float32" if dtype is None else dtype, EMBED_DTYPES)
    # This imports Beam's inference, which other datasets do not need.
    from transforms.embed_images import ModelFileError, load_embedding

    try:
        return load_embedding(path, own, dtype)
    except ModelFileError as error:
        raise ValueError(f"{error}: {first_line(error.cause)}") from error
    except ModelError as error:
        raise ValueError(f"model {path} {error}") from error


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
        if feature.needs & Needs.ROWS and not is_label:
            raise ValueError(
                f"layout {layout}: {feature.name!r} has the source {feature.source}, which is "
                "neither an image nor its label: use ConvertDataset"
            )
    return features


# FindImages: lists and labels images for a caller's pipeline; with `WriteDataset`, all of it.

__all__ = ["FindImages", "LabelImages", "WriteDataset"]

# Rows of a CSV from which its columns are inferred.
_FIRST_ROWS = 20

# Where labels come from without a CSV.
_PATH_LABELS = ("directory", "regex", "webdataset", "none")


class FindImages(FindLabelledImages):
    """Lists images by globs and labels them by a CSV or by their folders.

    Input: the pipeline's begin. Output: `JoinedImages`. Only names move; no image is opened.
    """

    def __init__(
        self,
        images: Sequence[str | os.PathLike[str]],
        *,
        labels: str | os.PathLike[str] | None = None,
        label_key: str | None = None,
        label_column: str | None = None,
        csv_encoding: str = "utf-8",
        csv_delimiter: str | None = None,
        label_from: str | None = None,
        label_regex: str | None = None,
        label_kind: str = "auto",
        class_names: Sequence[str] | None = None,
        key: str | None = None,
        root: str | os.PathLike[str] = "",
        splits: str = "train=1",
        split_from: str | None = None,
        split_column: str | None = None,
        group_by: str | None = None,
        seed: int = 0,
    ) -> None:
        """Checks the inputs: finds an image for each glob, and reads the first rows of `labels`.

        Args:
            images: globs, also of files in archives, such as `photos.zip!/**/*.jpg`.
            labels: path of a CSV, Parquet, JSON Lines or COCO file, or None.
            label_key: its column that names images, by name or number; None to infer it.
            label_column: its column of labels, by name or number; None to infer it.
            csv_encoding: a Python codec name.
            csv_delimiter: the character between cells, or `tab`; None to infer it.
            label_from: `directory`, `regex`, `webdataset` or `none` without `labels`; None is
                `regex` with `label_regex`, and `directory` without.
            label_regex: finds the label in a path below `root`.
            label_kind: the same as for `WriteDataset`; with `text`, `nan` is also a label.
            class_names: the same as for `WriteDataset`; a class `NA` is then a label.
            key: `stem`, `name`, `path` or `uri`; None is `stem` with `labels` and `path` without.
            root: a folder that contains all images; paths in the dataset are relative to it.
            splits: name and share of each, as in `train=0.9,test=0.1`.
            split_from: `hash`, `csv` or `directory`; None is `csv` with `split_column`, and `hash`
                without.
            split_column: column of `labels` that names the split, by name or number.
            group_by: column of `labels` whose equal cells stay in one split, by name or number.
            seed: for record order and split assignment.

        Raises:
            LabelsError: the CSV has no such columns, or they cannot be inferred.
            OSError: the CSV cannot be read, or a folder cannot be listed.
            TypeError: an argument has the wrong type.
            ValueError: an argument has an invalid value, or a glob matches nothing.
        """
        path = optional_path("labels", labels)
        label_from = _label_source(label_from, label_regex, path)
        split_from = split_from or ("hash" if split_column is None else "csv")
        _check_places(split_from, split_column, group_by)
        chosen = {
            "label_key": label_key,
            "label_column": label_column,
            "split_column": split_column,
            "group_by": group_by,
        }
        if csv_delimiter is not None and path is None:
            raise ValueError("csv_delimiter is between the cells of labels: give labels, too")
        delimiter = optional_delimiter("csv_delimiter", csv_delimiter)
        columns = _columns(path, csv_encoding, delimiter, chosen, split_from)
        kind = one_of("key", key or ("path" if path is None else "stem"), KEY_KINDS)
        assigner = SplitAssigner(
            Splits(split_shares(splits)),
            seed=seed_number(seed),
            split_from=split_from,
            by_group=group_by is not None,
        )
        rules = PathRules(label_from, label_regex or "", split_from == "directory")
        finder = ImageFinder(root=root_text("root", root), key=kind, rules=rules)
        names = class_texts("class_names", class_names)
        missing = missing_labels(one_of("label_kind", label_kind, LABEL_KINDS), names)
        reader = columns and RowReader(columns, key=kind, encoding=csv_encoding, missing=missing)
        csv_paths = [] if path is None else [path]
        source = ImageSource(_globs(images), finder, csv_paths, reader, label_from, assigner)
        super().__init__(source)


def _label_source(label_from: str | None, label_regex: str | None, path: str | None) -> str:
    """The source of labels, from the given arguments.

    Raises:
        ValueError: the arguments contradict each other.
    """
    given = label_from or ("directory" if label_regex is None else "regex")
    one_of("label_from", given, _PATH_LABELS)
    if path is not None:
        for name, value in (("label_from", label_from), ("label_regex", label_regex)):
            if value is not None:
                raise ValueError(f"{name} is for images without labels: leave one of them out")
        return "csv"
    if (given == "regex") != (label_regex is not None):
        raise ValueError("label_regex goes with label_from 'regex', and with no other")
    if label_regex is not None:
        try:
            parse_label_regex(label_regex)
        except ValueError as error:
            raise ValueError(f"label_regex {error}") from error
    return given


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


def _check_places(split_from: str, split_column: str | None, group_by: str | None) -> None:
    one_of("split_from", split_from, SPLIT_SOURCES)
    if split_column is not None and split_from != "csv":
        raise ValueError(f"split_column cannot be used with split_from {split_from!r}")
    if group_by is not None and split_from == "directory":
        raise ValueError("group_by cannot be used with split_from 'directory'")


def _columns(
    path: str | None,
    encoding: str,
    delimiter: str | None,
    chosen: Mapping[str, str | None],
    split_from: str,
) -> CsvColumns | None:
    """The columns of `labels`, inferred from its first rows."""
    if path is None:
        for name, column in chosen.items():
            if column is not None:
                raise ValueError(f"{name} is a column of labels: give labels, too")
        if split_from == "csv":
            raise ValueError("split_from 'csv' reads a column of labels: give labels, too")
        return None
    key, label, split, group = chosen.values()
    try:
        with storage_of(path).open_reader(path) as file:
            first = first_rows(file, _FIRST_ROWS, encoding=encoding, delimiter=delimiter, path=path)
        columns = resolve_columns(first, key=key, label=label, path=path)
        return with_place_columns(
            columns, first, split_from=split_from, split_column=split, group_by=group, path=path
        )
    except LabelsError as error:
        raise LabelsError(own_words(str(error))) from error
