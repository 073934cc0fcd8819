"""Feature layouts: the features of an Example and their sources."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from transforms.core.features.boxes import SIDES
from transforms.core.features.feature_sources import (
    COLUMN,
    EMBEDDING,
    MASK,
    PIXELS,
    SIZES,
    Needs,
    Role,
    source_of,
)


class Feature(NamedTuple):
    """One feature of the Examples.

    Attributes:
        name: the feature's name in the Example.
        source: one of `feature_sources.SOURCES`, or `csv.COLUMN`.
        dtype: `bytes`, `int64` or `float` (32 bits).
        shape: `()` for a single value, None for a list of any length, otherwise that of the
            array whose flat values it holds. For `PIXELS`, `()` if images differ in shape.
        default: the text to use for an empty cell of a column, or None.
        separator: between the values in one cell of a column; empty for single values.
        encoding: `bfloat16` or `uint8` when one bytes value holds an array, empty otherwise.
        type: of a column, one of `cells.TYPES`, if more specific than the dtype; else empty.
    """

    name: str
    source: str
    dtype: str
    shape: tuple[int, ...] | None = ()
    default: str | None = None
    separator: str = ""
    encoding: str = ""
    type: str = ""

    @property
    def is_list(self) -> bool:
        """Whether it may hold any number of values."""
        return self.shape is None

    @property
    def holds_many(self) -> bool:
        """Whether it is a list of values: of any length, or of the size of its shape."""
        return self.shape != () and not self.encoding

    @property
    def column(self) -> str | None:
        """The name of the CSV's column that fills it, or None."""
        return self.source.removeprefix(COLUMN) if self.source.startswith(COLUMN) else None

    @property
    def role(self) -> Role:
        """The role of its values."""
        return source_of(self.source).role

    @property
    def needs(self) -> Needs:
        """What it needs in addition to an image."""
        return source_of(self.source).needs

    @property
    def from_label(self) -> bool:
        """Whether a label fills it, or those of all rows."""
        return Needs.LABEL in self.needs

    @property
    def from_rows(self) -> bool:
        """Whether the cells of an image's rows fill it."""
        return Needs.ROWS in self.needs

    @property
    def of_object(self) -> bool:
        """Whether it has a value for each object in an image."""
        return source_of(self.source).of_object

    @classmethod
    def of_source(cls, name: str, source: str) -> Feature:
        """The feature of a source that is not a column.

        >>> Feature.of_source("height", "image.height").dtype
        'int64'
        """
        described = source_of(source)
        shape = None if described.is_list else ()
        return cls(name, source, described.dtype, shape, encoding=described.encoding)

    def to_manifest(self) -> dict[str, Any]:
        """Name, source and dtype, and further attributes that differ from their defaults.

        >>> Feature("age", "csv.age", "int64").to_manifest()
        {'name': 'age', 'source': 'csv.age', 'dtype': 'int64'}
        """
        described: dict[str, Any] = {"name": self.name, "source": self.source, "dtype": self.dtype}
        if self.shape != ():
            described["shape"] = self.shape if self.shape is None else list(self.shape)
        if self.default is not None:
            described["default"] = self.default
        for name in ("separator", "encoding", "type"):
            if value := getattr(self, name):
                described[name] = value
        return described

    @classmethod
    def from_manifest(cls, described: Mapping[str, Any]) -> Feature:
        """Reads the result of `to_manifest`."""
        shape = described.get("shape", ())
        return cls(
            described["name"],
            described["source"],
            described["dtype"],
            shape if shape is None else tuple(shape),
            described.get("default"),
            described.get("separator", ""),
            described.get("encoding", ""),
            described.get("type", ""),
        )


MASK_FEATURES = tuple(
    Feature.of_source(f"image/segmentation/class/{name}", f"{MASK}.{field}")
    for name, field in (("encoded", "bytes"), ("format", "format"))
)
"""The features of `--masks` in a preset, as DeepLab's dataset scripts name them."""

_SLIM_IMAGE = {"image/encoded": "image.bytes", "image/format": "image.format"}
_SLIM_SIZE = {
    "image/height": "image.height",
    "image/width": "image.width",
    "image/filename": "image.path",
}
_DETECTION = {
    **_SLIM_IMAGE,
    "image/key/sha256": "image.sha256",
    "image/source_id": "image.key",
    "image/class/label": "label.ids",
    "image/class/text": "label.texts",
    **_SLIM_SIZE,
    **{f"image/object/bbox/{side}": f"box.{side}" for side in SIDES},
    "image/object/class/label": "object.ids",
    "image/object/class/text": "object.texts",
    "image/object/area": "object.area",
    "image/object/is_crowd": "object.is_crowd",
    "image/object/difficult": "object.difficult",
    "image/object/group_of": "object.group_of",
    "image/object/truncated": "object.truncated",
    "image/object/view": "object.view",
}
_LAYOUTS = {
    # TF-Slim and the TensorFlow Model Garden (research/slim/datasets/dataset_utils.py).
    "slim": {
        **_SLIM_IMAGE,
        "image/class/label": "label.id",
        "image/class/text": "label.text",
        **_SLIM_SIZE,
    },
    # tensorflow.org/tutorials/load_data/tfrecord, "Walkthrough: Reading and writing image data".
    "tutorial": {
        "height": "image.height",
        "width": "image.width",
        "depth": "image.channels",
        "label": "label.id",
        "image_raw": "image.bytes",
    },
    # Landmark recognition competitions: the image's id and its landmark's.
    "landmark": {"image_raw": "image.bytes", "landmark_id": "label.id", "id": "image.key"},
    # The flat output of a frozen backbone for each image, to train a head on.
    "embedding": {"Feature": EMBEDDING, "Label": "label.id"},
    # Read by two decoders: official/vision/dataloaders/tf_example_decoder.py of the Model Garden,
    # and research/object_detection/data_decoders/tf_example_decoder.py.
    "detection": _DETECTION,
    # With --include_masks, create_coco_tf_record.py writes this, and both read it.
    "detection_masks": {**_DETECTION, "image/object/mask": "object.mask"},
}

LAYOUTS: dict[str, tuple[Feature, ...]] = {
    layout: tuple(Feature.of_source(name, source) for name, source in features.items())
    for layout, features in _LAYOUTS.items()
}
"""The presets of `--layout` with images."""

DETECTION = ("detection", "detection_masks")
"""The layouts whose readers reserve the class id 0 for the background."""

ROWS = "rows"
"""The layout of rows without images: every column of the CSV is a feature."""


def needs_model(features: Sequence[Feature]) -> bool:
    """Whether a model fills one of the features."""
    return any(Needs.MODEL in feature.needs for feature in features)


def stores_pixels(features: Iterable[Feature]) -> bool:
    """Whether records hold decoded pixels, which have 8 bits."""
    return any(feature.source == PIXELS for feature in features)


def with_embedding(
    features: Sequence[Feature], shape: tuple[int, ...], dtype: str
) -> tuple[Feature, ...]:
    """The features, with the shape and type of a model's output set for embeddings.

    Args:
        features: of a layout.
        shape: of the output for one image.
        dtype: `float32`, or `bfloat16`, which is stored as one bytes value.
    """
    stored = {"float32": ("float", ""), "bfloat16": ("bytes", "bfloat16")}[dtype]
    return tuple(
        feature._replace(dtype=stored[0], shape=shape, encoding=stored[1])
        if feature.source == EMBEDDING
        else feature
        for feature in features
    )


def with_pixels(
    features: Sequence[Feature], shape: tuple[int, int, int] | None
) -> tuple[Feature, ...]:
    """The features, with the common shape of all images set for `PIXELS`.

    Args:
        features: of a layout.
        shape: height, width and channels, or None if the options do not fix it.

    Raises:
        ValueError: the layout gives another shape, or a reader could not know the shape.

    >>> with_pixels([Feature.of_source("a", PIXELS)], (2, 3, 1))[0].shape
    (2, 3, 1)
    """
    sources = {feature.source for feature in features}
    resolved = []
    for feature in features:
        if feature.source == PIXELS:
            if not (shape or feature.shape or sources.issuperset(SIZES)):
                raise ValueError(
                    f"the shape of {feature.name!r} ({PIXELS}) is unknown: add features of "
                    f"{', '.join(SIZES)}, or make all shapes equal with --resize WxH and "
                    "--color rgb or gray, or give shape: [HEIGHT, WIDTH, CHANNELS] if they are "
                    "equal already"
                )
            if shape and feature.shape and shape != feature.shape:
                raise ValueError(
                    f"the shape of {feature.name!r} is {list(feature.shape)}, but --resize and "
                    f"--color make it {list(shape)}"
                )
            feature = feature._replace(shape=shape or feature.shape)
        resolved.append(feature)
    return tuple(resolved)


def is_layout_file(layout: str) -> bool:
    """Whether `--layout` is a file, not a preset.

    >>> is_layout_file("my.yaml"), is_layout_file("slim")
    (True, False)
    """
    return layout.endswith((".yaml", ".yml"))


def layout_features(layout: str, *, labelled: bool) -> tuple[Feature, ...]:
    """The features of a layout; without labels, those that come from a label are left out.

    >>> [feature.name for feature in layout_features("landmark", labelled=False)]
    ['image_raw', 'id']
    """
    features = LAYOUTS[layout]
    return tuple(f for f in features if labelled or f.of_object or not f.from_label)
