"""WriteDataset: writes the images of a caller's pipeline as a published dataset."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import apache_beam as beam

from transforms.convert_images import ImageConverter
from transforms.copy_rejected import overlap
from transforms.core.arguments import (
    label_rules,
    one_of,
    optional_path,
    path_text,
    rejection_limit,
    root_text,
    shard_plan,
    truth,
    whole_number,
)
from transforms.core.dataset.image_file_names import FILES
from transforms.core.dataset.manifest import Dataset
from transforms.core.features.feature_sources import PIXELS, Needs
from transforms.core.features.layout_files import parse_layout
from transforms.core.features.layouts import (
    LAYOUTS,
    Feature,
    is_layout_file,
    layout_features,
    needs_model,
    stores_pixels,
    with_embedding,
    with_pixels,
)
from transforms.core.features.row_features import RowValues, row_requirements
from transforms.core.images.check import DEFAULT_LIMITS, Limits
from transforms.core.images.choices import CHECK_MODES, DEDUPE_MODES, EMBED_DTYPES
from transforms.core.images.embeddings import Embedding, ModelError, is_application
from transforms.core.images.pixel_options import DEPTHS, Resize, given_pixels
from transforms.core.planning.rejection_limit import DEFAULT_LIMIT
from transforms.core.planning.staged_images import MEMORY
from transforms.core.shown_text import first_line
from transforms.drop_duplicates import DropDuplicates
from transforms.flow import DatasetTarget, PlanImages, WritePlan
from transforms.join_labels import JoinedImages
from transforms.original_images import originals_root
from transforms.stage_images import StageImages
from transforms.storage.files import storage_of

if TYPE_CHECKING:
    from transforms.embed_images import Embedder

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
