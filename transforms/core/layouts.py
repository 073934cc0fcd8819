"""Feature layouts: which features an Example has, and where each comes from."""

from __future__ import annotations

from typing import NamedTuple


class Feature(NamedTuple):
    """One feature of the Examples.

    Attributes:
        name: the feature's name in the Example.
        source: what fills it: `image.bytes|format|height|width|channels|path|key` or
            `label.id|text`.
        dtype: `bytes` or `int64`.
    """

    name: str
    source: str
    dtype: str


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
}


def layout_features(layout: str, *, labelled: bool) -> tuple[Feature, ...]:
    """The features of a layout; without labels, those that come from a label are left out.

    >>> [feature.name for feature in layout_features("landmark", labelled=False)]
    ['image_raw', 'id']
    """
    features = LAYOUTS[layout]
    return tuple(f for f in features if labelled or not f.source.startswith("label."))
