"""The layouts have the features of the programs that they are made for."""

from __future__ import annotations

import pytest

from transforms.examples.layouts import LAYOUTS, SOURCES, layout_features


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_feature_has_a_known_source_and_type(layout: str) -> None:
    features = LAYOUTS[layout]
    assert {feature.source for feature in features} <= set(SOURCES)
    assert {feature.dtype for feature in features} <= {"bytes", "float", "int64"}
    assert len({feature.name for feature in features}) == len(features)
    assert {"image.bytes", "image.embedding"} & {feature.source for feature in features}


def test_slim_is_what_tf_slim_writes() -> None:
    # research/slim/datasets/dataset_utils.py and build_imagenet_data.py
    assert {feature.name: feature.dtype for feature in LAYOUTS["slim"]} == {
        "image/encoded": "bytes",
        "image/format": "bytes",
        "image/class/label": "int64",
        "image/class/text": "bytes",
        "image/height": "int64",
        "image/width": "int64",
        "image/filename": "bytes",
    }


def test_tutorial_is_what_the_guide_writes() -> None:
    assert {feature.name: feature.dtype for feature in LAYOUTS["tutorial"]} == {
        "height": "int64",
        "width": "int64",
        "depth": "int64",
        "label": "int64",
        "image_raw": "bytes",
    }


@pytest.mark.parametrize(
    ("layout", "dropped"),
    [
        ("slim", {"image/class/label", "image/class/text"}),
        ("tutorial", {"label"}),
        ("landmark", {"landmark_id"}),
    ],
)
def test_without_labels_their_features_are_left_out(layout: str, dropped: set[str]) -> None:
    labelled = layout_features(layout, labelled=True)
    plain = layout_features(layout, labelled=False)
    assert labelled == LAYOUTS[layout]
    assert plain == tuple(feature for feature in labelled if feature.name not in dropped)
