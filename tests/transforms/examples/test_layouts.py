"""Presets and layout files."""

import re
from collections import Counter
from pathlib import Path

import pytest

import pipeline
import transforms
from tests.marks import cases
from transforms.examples.encoder import VALUES
from transforms.examples.layout_files import LayoutError, parse_layout
from transforms.examples.layouts import (
    EMBEDDING,
    LAYOUTS,
    SOURCES,
    Feature,
    Role,
    layout_features,
    source_of,
)

# The layouts have the features of the programs that they are made for.


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_feature_has_a_known_source_and_type(layout: str) -> None:
    features = LAYOUTS[layout]
    assert {feature.source for feature in features} <= set(SOURCES)
    assert {feature.dtype for feature in features} <= {"bytes", "float", "int64"}
    assert len({feature.name for feature in features}) == len(features)
    assert {"image.bytes", "image.embedding"} & {feature.source for feature in features}


@cases(
    # research/slim/datasets/dataset_utils.py and build_imagenet_data.py
    (
        "slim",
        "image/encoded image/format image/class/text image/filename",
        "image/class/label image/height image/width",
    ),
    ("tutorial", "image_raw", "height width depth label"),
)
def test_layouts_are_what_their_programs_write(layout: str, texts: str, integers: str) -> None:
    expected = dict.fromkeys(texts.split(), "bytes") | dict.fromkeys(integers.split(), "int64")
    assert {feature.name: feature.dtype for feature in LAYOUTS[layout]} == expected


@cases(
    ("slim", {"image/class/label", "image/class/text"}),
    ("tutorial", {"label"}),
    ("landmark", {"landmark_id"}),
)
def test_without_labels_their_features_are_left_out(layout: str, dropped: set[str]) -> None:
    labelled = layout_features(layout, labelled=True)
    plain = layout_features(layout, labelled=False)
    assert labelled == LAYOUTS[layout]
    assert plain == tuple(feature for feature in labelled if feature.name not in dropped)


def test_a_whole_layout() -> None:
    text = """\
features:
  image: image.bytes
  sha: image.sha256
  boxes/xmin: box.xmin
  classes: label.ids
  age: {source: csv.age, type: int64, default: -1}
  names: {source: csv.name, list: true}
  tags:
    source: csv.tags
    type: bytes
    separator: "|"
  matrix: {source: csv.m, type: float, separator: " ", shape: [2, 3]}
  turns: {source: csv.turn, type: int64, list: true, shape: [4]}
  pixels: {source: image.pixels, shape: [32, 32, 3]}
  any: image.pixels
"""
    assert parse_layout(text, "my.yaml").features == (
        Feature("image", "image.bytes", "bytes"),
        Feature("sha", "image.sha256", "bytes"),
        Feature("boxes/xmin", "box.xmin", "float", None),
        Feature("classes", "label.ids", "int64", None),
        Feature("age", "csv.age", "int64", (), "-1"),
        Feature("names", "csv.name", "", None),
        Feature("tags", "csv.tags", "bytes", None, None, "|"),
        Feature("matrix", "csv.m", "float", (2, 3), None, " "),
        Feature("turns", "csv.turn", "int64", (4,)),
        Feature("pixels", "image.pixels", "bytes", (32, 32, 3), encoding="uint8"),
        Feature("any", "image.pixels", "bytes", (), encoding="uint8"),
    )


@cases(
    ("", "is empty"),
    ("- a", "line 1: the layout must be written as NAME: VALUE"),
    ("feature: {a: image.key}", "line 1: unknown key 'feature'; did you mean 'features'?"),
    ("features:\n  a: [", "line 2: invalid YAML"),
    ("features: {}", "line 1: there are no features"),
    ("features:\n  a: image.hieght", "line 2: unknown source 'image.hieght'; did you mean"),
    ("features:\n  a: csv.", "line 2: unknown source 'csv.'"),
    ("features:\n  a:\n    sources: x", "line 3: unknown key 'sources'; did you mean 'source'"),
    ("features:\n  a:\n    type: int64", "line 3: the feature 'a' has no source"),
    ("features:\n  a: image.key\n  a: label.id", "line 3: 'a' is given twice, first in line 2"),
    ("features:\n  a: {source: csv.a, type: int}", "line 2: unknown type 'int'; did you mean"),
    ("features:\n  a: {source: label.id, type: float}", "line 2: label.id is int64, not float"),
    ("features:\n  a: {source: label.id, default: 0}", "line 2: default is only for sources"),
    ("features:\n  a: {source: csv.a, list: maybe}", "line 2: list must be true or false"),
    ("features:\n  a: {source: csv.a, separator: ''}", "line 2: a separator must not be empty"),
    ("features: {a: {source: csv.a, type: int64,\n default: x}}", "line 2: the default 'x' is"),
    ("features:\n  a:\n    source: csv.a\n    shape: 4", "line 4: shape must be a list of"),
    ("features:\n  a: {source: csv.a, shape: [2, 0]}", "line 2: shape must be a list of"),
    ("features:\n  a: {source: csv.a, shape: []}", "line 2: shape must be a list of"),
    ("features:\n  a: {source: csv.a, shape: [[2]]}", "line 2: shape must be a list of"),
    ("features:\n  a: {source: csv.a,\n    shape: [2]}", "line 3: a shape needs a separator"),
    ("features:\n  a: {source: label.ids, shape: [2]}", "line 2: shape is for image.pixels"),
    ("features:\n  a: {source: image.pixels, shape: [3, 32, 32]}", "line 2: the shape of"),
    (
        "features:\n  a: {source: csv.a, separator: ';', shape: [3],\n    default: 1;2}",
        "line 3: the default '1;2' does not have 3 values",
    ),
    ("images:\n  a-b: x/*.png\nfeatures: {i: image.bytes}", "line 2: 'a-b' is not a name of"),
    ("masks:\n  a: []\nfeatures: {i: masks.a.bytes}", "line 2: masks.a has no glob"),
    ("masks: {a: {b: c}}\nfeatures: {i: masks.a.bytes}", "line 1: the glob of masks.a must be"),
    ("masks: {a: x/*}\nfeatures: {i: image.bytes}", "no feature has the source masks.a.bytes"),
    ("masks: {a: x/*}\nfeatures: {i: images.a.bytes}", "line 2: unknown source 'images.a.byte"),
)
def test_mistakes_are_named_with_their_lines(text: str, says: str) -> None:
    with pytest.raises(LayoutError) as caught:
        parse_layout(text, "my.yaml")
    message = str(caught.value)
    assert message.startswith("--layout my.yaml ")
    assert says in message
    assert "\n" not in message


@pytest.mark.parametrize("default", ["nan", "NA", "null", "None"])
@pytest.mark.parametrize("type_", ["", "type: float, ", "type: int64, ", "type: text, "])
def test_a_default_that_is_missing_itself_is_refused(default: str, type_: str) -> None:
    text = f"features:\n  a: {{source: csv.a, {type_}default: {default}}}"
    if "text" in type_:
        assert parse_layout(text, "a.yaml").features[0].default == default
        return
    with pytest.raises(LayoutError, match=f"line 2: the default '{default}' is a missing value"):
        parse_layout(text, "a.yaml")


def test_further_images_and_masks_have_globs() -> None:
    text = """
images: {right: r/*.jpg}
masks:
  hand: [a/*.png, "b/*.{png,gif}"]
features:
  left: image.bytes
  right: images.right.bytes
  right/format: images.right.format
  hand: masks.hand.bytes
  mask: mask.bytes
"""
    features, partners = parse_layout(text, "my.yaml")
    assert partners == {"images.right": ("r/*.jpg",), "masks.hand": ("a/*.png", "b/*.{png,gif}")}
    roles = [Role.IMAGE, Role.FURTHER_IMAGE, Role.OTHER, Role.MASK, Role.MASK]
    assert [feature.role for feature in features] == roles
    assert all(Feature.from_manifest(each.to_manifest()) == each for each in features)


# Each source is declared once, and computed in one place.

PACKAGES = [Path(str(package.__file__)).parent for package in (transforms, pipeline)]
# The registry, the presets, what computes values, and the columns of an index with the same values.
PLACES = {"layouts.py", "encoder.py", "row_features.py", "decoder.py", "record_index.py"}
# What the features of other programs are called, and which source each would be.
PLACES |= {"datasets.py", "foreign_records.py"}


def test_sources_are_named_where_they_are_declared_and_computed() -> None:
    """Everything else asks the registry for a role or a need."""
    places = Counter(
        path.name
        for package in PACKAGES
        for path in package.rglob("*.py")
        for name in re.findall(r'"([a-z]+\.[a-z0-9_]+)"', path.read_text())
        if name in SOURCES
    )
    assert set(places) <= PLACES
    assert places["layouts.py"] and places["encoder.py"]


def test_every_source_is_documented_and_computed_once() -> None:
    text = (PACKAGES[0].parent / "docs" / "layouts.md").read_text("utf-8")
    assert [name for name in {*SOURCES} - {EMBEDDING} if f"`{name}`" not in text] == []
    # The encoder has what an image and its label give; rows, what is in their cells.
    of_rows = {name for name, source in SOURCES.items() if source.is_list}
    assert set(VALUES) == set(SOURCES) - of_rows
    presets = {feature.source for features in LAYOUTS.values() for feature in features}
    assert of_rows <= presets


@pytest.mark.parametrize("name", ["csv.image.bytes", "csv.", "image.Bytes", ""])
def test_other_names_have_no_role(name: str) -> None:
    source = source_of(name)
    assert (source.name, source.dtype, source.role) == (name, "", Role.OTHER)
    assert Feature("a", name, "").from_rows == name.startswith("csv.")
