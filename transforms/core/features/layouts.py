"""Feature layouts: which features an Example has, and where each comes from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

IMAGE_SOURCES: dict[str, str] = {
    "image.bytes": "bytes",
    "image.format": "bytes",
    "image.height": "int64",
    "image.width": "int64",
    "image.channels": "int64",
    "image.path": "bytes",
    "image.key": "bytes",
    "image.sha256": "bytes",
    "image.pixels": "bytes",
}
"""What an image itself fills, and the dtype of each."""

LABEL_SOURCES: dict[str, str] = {"label.id": "int64", "label.text": "bytes"}
"""What the one label of an image fills."""

LIST_SOURCES: dict[str, str] = {
    "label.ids": "int64",
    "label.texts": "bytes",
    "object.ids": "int64",
    "object.texts": "bytes",
    "box.xmin": "float",
    "box.xmax": "float",
    "box.ymin": "float",
    "box.ymax": "float",
    "object.area": "float",
    "object.is_crowd": "int64",
    "object.difficult": "int64",
    "object.group_of": "int64",
}
"""What all rows of an image fill together: `label.*` once for each class, the others once a row."""

OBJECT_COLUMNS: dict[str, tuple[str, ...]] = {
    "object.area": ("area",),
    "object.is_crowd": ("iscrowd", "crowd"),
    "object.difficult": ("difficult", "isdifficult"),
    "object.group_of": ("groupof", "isgroupof"),
}
"""The sources that a column fills if a CSV has it, and its names without case and punctuation."""

_FROM_LABEL = frozenset(
    {"label.id", "label.text", "label.ids", "label.texts", "object.ids", "object.texts"}
)

COLUMN = "csv."
"""How the source begins that is a column of the CSV."""

EMBEDDING = "image.embedding"
"""The source that a model fills."""

PIXELS = "image.pixels"
"""The source that is what is decoded: height x width x channels bytes."""

RAW = "uint8"
"""The encoding of `PIXELS`, as `tf.io.decode_raw` names it."""

SIZES = ("image.height", "image.width", "image.channels")
"""The sources that tell the shape of `PIXELS`, in its order."""


class Feature(NamedTuple):
    """One feature of the Examples.

    Attributes:
        name: the feature's name in the Example.
        source: what fills it: of `IMAGE_SOURCES`, `LABEL_SOURCES` or `LIST_SOURCES`,
            `csv.COLUMN`, or `EMBEDDING`.
        dtype: `bytes`, `int64` or `float` (32 bits).
        shape: `()` for a single value, None for a list of any length, otherwise that of the
            array whose values it holds, flat. Of `PIXELS`, `()` when each image has its own.
        default: the text that stands for an empty cell of a column, or None.
        separator: between the values in one cell of a column; empty when it holds a single one.
        encoding: `bfloat16` or `uint8` when one bytes value holds an array, empty otherwise.
        type: of a column, one of `cells.TYPES`, when it says more than the dtype; else empty.
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
        """Whether it is a list of values: of any length, or as many as its shape has."""
        return self.shape != () and not self.encoding

    @property
    def column(self) -> str | None:
        """The name of the CSV's column that fills it, or None."""
        return self.source.removeprefix(COLUMN) if self.source.startswith(COLUMN) else None

    @property
    def from_label(self) -> bool:
        """Whether a label fills it, or those of all rows."""
        return self.source in _FROM_LABEL

    @property
    def from_rows(self) -> bool:
        """Whether the cells of an image's rows fill it."""
        return self.source in LIST_SOURCES or self.column is not None

    def to_manifest(self) -> dict[str, Any]:
        """Name, source and dtype, and of the rest what it does not share with most features.

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
        """Reads what `to_manifest` gave."""
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


_SLIM_IMAGE = (
    Feature("image/encoded", "image.bytes", "bytes"),
    Feature("image/format", "image.format", "bytes"),
)
_SLIM_SIZE = (
    Feature("image/height", "image.height", "int64"),
    Feature("image/width", "image.width", "int64"),
    Feature("image/filename", "image.path", "bytes"),
)

LAYOUTS: dict[str, tuple[Feature, ...]] = {
    # TF-Slim and the TensorFlow Model Garden (research/slim/datasets/dataset_utils.py).
    "slim": (
        *_SLIM_IMAGE,
        Feature("image/class/label", "label.id", "int64"),
        Feature("image/class/text", "label.text", "bytes"),
        *_SLIM_SIZE,
    ),
    # tensorflow.org/tutorials/load_data/tfrecord, "Walkthrough: Reading and writing image data".
    "tutorial": (
        Feature("height", "image.height", "int64"),
        Feature("width", "image.width", "int64"),
        Feature("depth", "image.channels", "int64"),
        Feature("label", "label.id", "int64"),
        Feature("image_raw", "image.bytes", "bytes"),
    ),
    # Landmark recognition competitions: the image's id and its landmark's.
    "landmark": (
        Feature("image_raw", "image.bytes", "bytes"),
        Feature("landmark_id", "label.id", "int64"),
        Feature("id", "image.key", "bytes"),
    ),
    # What a frozen backbone makes of each image, flat, for a head to be trained on.
    "embedding": (
        Feature("Feature", EMBEDDING, "float"),
        Feature("Label", "label.id", "int64"),
    ),
    # What two decoders read: official/vision/dataloaders/tf_example_decoder.py of the Model Garden,
    # and research/object_detection/data_decoders/tf_example_decoder.py.
    "detection": (
        *_SLIM_IMAGE,
        Feature("image/key/sha256", "image.sha256", "bytes"),
        Feature("image/source_id", "image.key", "bytes"),
        Feature("image/class/label", "label.ids", "int64", None),
        Feature("image/class/text", "label.texts", "bytes", None),
        *_SLIM_SIZE,
        *(
            Feature(f"image/object/bbox/{side}", f"box.{side}", "float", None)
            for side in ("xmin", "xmax", "ymin", "ymax")
        ),
        Feature("image/object/class/label", "object.ids", "int64", None),
        Feature("image/object/class/text", "object.texts", "bytes", None),
        *(
            Feature(source.replace("object.", "image/object/"), source, LIST_SOURCES[source], None)
            for source in OBJECT_COLUMNS
        ),
    ),
}

DETECTION = "detection"
"""The layout whose readers keep the class id 0 for the background."""


ROWS = "rows"
"""The layout of rows without images: every column of the CSV is a feature."""


def needs_model(features: Sequence[Feature]) -> bool:
    """Whether a model fills one of the features."""
    return any(feature.source == EMBEDDING for feature in features)


def with_embedding(
    features: Sequence[Feature], shape: tuple[int, ...], dtype: str
) -> tuple[Feature, ...]:
    """The features, in which those that a model fills get the shape and type of its output.

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
    """The features, in which `PIXELS` has the shape that all images get.

    Args:
        features: of a layout.
        shape: height, width and channels, or None when the options fix none.

    Raises:
        ValueError: the layout gives another shape, or nothing would tell a reader which it is.

    >>> with_pixels([Feature("a", PIXELS, "bytes", encoding=RAW)], (2, 3, 1))[0].shape
    (2, 3, 1)
    """
    sources = {feature.source for feature in features}
    resolved = []
    for feature in features:
        if feature.source == PIXELS:
            if not (shape or feature.shape or sources.issuperset(SIZES)):
                raise ValueError(
                    f"nothing tells the shape of {feature.name!r} ({PIXELS}): add features of "
                    f"{', '.join(SIZES)}, or give all images one with --resize WxH and --color "
                    "rgb or gray, or with shape: [HEIGHT, WIDTH, CHANNELS] if they have it already"
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
    """Whether `--layout` is a file and no preset.

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
    return tuple(f for f in features if labelled or not f.source.startswith("label."))
