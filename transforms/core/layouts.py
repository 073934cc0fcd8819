"""Feature layouts: which features an Example has, and where each comes from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple


class Feature(NamedTuple):
    """One feature of the Examples.

    Attributes:
        name: the feature's name in the Example.
        source: what fills it: `image.bytes|format|height|width|channels|path|key` or
            `label.id|text`, or `image.embedding`.
        dtype: `bytes`, `int64` or `float` (32 bits).
        shape: `()` for a single value, otherwise that of the array whose values it holds, flat.
        encoding: `bfloat16` when one bytes value holds that array, empty otherwise.
    """

    name: str
    source: str
    dtype: str
    shape: tuple[int, ...] = ()
    encoding: str = ""

    def to_manifest(self) -> dict[str, Any]:
        """Name, source and dtype; shape and encoding unless it is a single plain value.

        >>> Feature("Label", "label.id", "int64").to_manifest()
        {'name': 'Label', 'source': 'label.id', 'dtype': 'int64'}
        """
        described: dict[str, Any] = {"name": self.name, "source": self.source, "dtype": self.dtype}
        if self.shape:
            described["shape"] = list(self.shape)
        if self.encoding:
            described["encoding"] = self.encoding
        return described

    @classmethod
    def from_manifest(cls, described: Mapping[str, Any]) -> Feature:
        """Reads what `to_manifest` gave."""
        return cls(**{**described, "shape": tuple(described.get("shape", ()))})


EMBEDDING = "image.embedding"
"""The source that a model fills."""


LAYOUTS: dict[str, tuple[Feature, ...]] = {
    # TF-Slim and the TensorFlow Model Garden (research/slim/datasets/dataset_utils.py).
    "slim": (
        Feature("image/encoded", "image.bytes", "bytes"),
        Feature("image/format", "image.format", "bytes"),
        Feature("image/class/label", "label.id", "int64"),
        Feature("image/class/text", "label.text", "bytes"),
        Feature("image/height", "image.height", "int64"),
        Feature("image/width", "image.width", "int64"),
        Feature("image/filename", "image.path", "bytes"),
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
}


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
        Feature(feature.name, EMBEDDING, stored[0], shape, stored[1])
        if feature.source == EMBEDDING
        else feature
        for feature in features
    )


def layout_features(layout: str, *, labelled: bool) -> tuple[Feature, ...]:
    """The features of a layout; without labels, those that come from a label are left out.

    >>> [feature.name for feature in layout_features("landmark", labelled=False)]
    ['image_raw', 'id']
    """
    features = LAYOUTS[layout]
    return tuple(f for f in features if labelled or not f.source.startswith("label."))
