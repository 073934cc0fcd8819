"""Layouts: the features of an Example, and the source of each."""

from __future__ import annotations

import dataclasses
import enum
import functools
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from transforms.core.option import (
    NOT_RECORDED,
    Group,
    alike,
    as_it_is,
    declared,
    option,
    vars_of,
)
from transforms.examples.boxes import SIDES, BoxRules, folded_name, parse_boxes
from transforms.images.pixel_options import EMBED_DTYPES, is_application

# The sources of features: each is declared here once, with all of its properties.


class Role(enum.Enum):
    """The role of a source's values; `OTHER` if none of these applies."""

    IMAGE = "a whole image file"
    FURTHER_IMAGE = "the file of a further image"
    MASK = "the file of a mask"
    OBJECT_MASK = "the file of the mask of an object"
    PIXELS = "decoded pixels"
    EMBEDDING = "the output of a model"
    HEADER = "the field of `ImageInfo` that is the last part of the source's name"
    KEY = "a name of the record"
    CLASS_ID = "a class id"
    CLASS_TEXT = "the name of a class"
    COORDINATE = "a side of a box, 0 to 1"
    MARK = "0 or 1"
    OTHER = "anything"


CLASSES = (Role.CLASS_ID, Role.CLASS_TEXT)
"""The roles of a label."""


class Source(NamedTuple):
    """A source of the values of a feature.

    Attributes:
        name: as layouts and the manifest have it.
        dtype: `bytes`, `int64` or `float` (32 bits); empty if the source does not determine it.
        role: the role of the values.
        is_list: whether the rows of an image give any number of values.
        of_object: whether there is a value for each object in an image.
        encoding: of an array in one bytes value, as `tf.io.decode_raw` names it; else empty.
        texts: the source of the names, for class ids.
        columns: names of the CSV column that fills it, without case and punctuation.
    """

    name: str
    dtype: str
    role: Role = Role.OTHER
    is_list: bool = False
    of_object: bool = False
    encoding: str = ""
    texts: str = ""
    columns: tuple[str, ...] = ()

    @property
    def is_optional(self) -> bool:
        """Whether a preset leaves it out if the CSV has no column that fills it."""
        return bool(self.columns) and self.role is not Role.OBJECT_MASK


IMAGE = "image.bytes"
"""The source of a whole image file."""

EMBEDDING = "image.embedding"
"""The source that a model fills."""

PATH = "image.path"
"""The source of the path of an image below the root of its dataset."""

PIXELS = "image.pixels"
"""The source of decoded pixels: height x width x channels bytes."""

FORMAT = "image.format"
"""The source of the format of an image, such as `jpeg`."""

SIZES = ("image.height", "image.width", "image.channels")
"""The sources of the shape of `PIXELS`, in its order."""

COLUMN = "csv."
"""The prefix of a source that is a column of the CSV."""

RAW = "uint8"
"""The encoding of `PIXELS`."""


# A source with a value for each row of an image.
_of_object = functools.partial(Source, is_list=True, of_object=True)

MASK = "mask"
"""The name of the masks of `--masks`, with which their sources begin."""

MASKS, IMAGES = "masks", "images"
"""Before the names of further masks and images that a layout file declares."""

PARTNER_FIELDS = ("bytes", "format", "path")
"""The last parts of the sources of masks and further images."""

_PARTNER = re.compile(rf"({MASK}|(?:{MASKS}|{IMAGES})\.[A-Za-z_][A-Za-z0-9_]*)\.(\w+)", re.ASCII)

_DECLARED = (
    Source(IMAGE, "bytes", Role.IMAGE),
    Source(FORMAT, "bytes", Role.HEADER),
    *(Source(name, "int64", Role.HEADER) for name in SIZES),
    Source(PATH, "bytes", Role.KEY),
    Source("image.key", "bytes", Role.KEY),
    Source("image.sha256", "bytes"),
    Source(PIXELS, "bytes", Role.PIXELS, encoding=RAW),
    Source(EMBEDDING, "float", Role.EMBEDDING),
    # The one label of an image.
    Source("label.id", "int64", Role.CLASS_ID, texts="label.text"),
    Source("label.text", "bytes", Role.CLASS_TEXT),
    # The labels of all of its rows, each once.
    Source("label.ids", "int64", Role.CLASS_ID, is_list=True, texts="label.texts"),
    Source("label.texts", "bytes", Role.CLASS_TEXT, is_list=True),
    _of_object("object.ids", "int64", Role.CLASS_ID, texts="object.texts"),
    _of_object("object.texts", "bytes", Role.CLASS_TEXT),
    *(_of_object(f"box.{side}", "float", Role.COORDINATE) for side in SIDES),
    _of_object("object.area", "float", columns=("area",)),
    _of_object("object.is_crowd", "int64", Role.MARK, columns=("iscrowd", "crowd")),
    _of_object("object.difficult", "int64", Role.MARK, columns=("difficult", "isdifficult")),
    _of_object("object.group_of", "int64", Role.MARK, columns=("groupof", "isgroupof")),
    _of_object("object.truncated", "int64", Role.MARK, columns=("truncated", "istruncated")),
    _of_object("object.view", "bytes", columns=("pose", "view")),
    _of_object("object.mask", "bytes", Role.OBJECT_MASK, columns=("segmentation",)),
)

SOURCES: dict[str, Source] = {source.name: source for source in _DECLARED}
"""All sources but columns, in the order in which messages list them."""


def source_of(name: str) -> Source:
    """The source of this name: one of `SOURCES`, a column, or an unknown one from a manifest."""
    if name.startswith(COLUMN):
        return Source(name, "")
    if name in SOURCES:
        return SOURCES[name]
    partner, field = partner_of(name) or ("", "")
    if field != "bytes":
        return Source(name, "bytes" if partner else "")
    return Source(name, "bytes", Role.MASK if is_mask(partner) else Role.FURTHER_IMAGE)


def partner_of(source: str) -> tuple[str, str] | None:
    """The name of the mask or further image that a source is of, and the last part of the source.

    >>> partner_of("masks.hand.bytes"), partner_of("mask.format"), partner_of("image.bytes")
    (('masks.hand', 'bytes'), ('mask', 'format'), None)
    """
    found = _PARTNER.fullmatch(source)
    return (found[1], found[2]) if found and found[2] in PARTNER_FIELDS else None


def is_mask(partner: str) -> bool:
    """Whether a name is that of masks, which follow the geometry of their image.

    >>> is_mask("mask"), is_mask("masks.hand"), is_mask("images.left")
    (True, True, False)
    """
    return partner.partition(".")[0] in (MASK, MASKS)


def with_role(features: Iterable[Mapping[str, Any]], role: Role) -> list[str]:
    """The names of a manifest's features whose source has a role.

    >>> with_role([{"name": "a", "source": "image.key"}, {"name": "b", "source": "-"}], Role.KEY)
    ['a']
    """
    return [each["name"] for each in features if source_of(each["source"]).role is role]


# Feature layouts: the features of an Example and their sources.


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
    def tensor(self) -> tuple[str, tuple[int, ...] | None]:
        """The TensorFlow type and the shape of a parsed record's values; None for any number."""
        dtype = {"bytes": "string", "int64": "int64", "float": "float32"}[self.dtype]
        return dtype, () if self.encoding else self.shape

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
    def from_label(self) -> bool:
        """Whether a label fills it, or those of all rows."""
        return self.role in CLASSES

    @property
    def from_rows(self) -> bool:
        """Whether the cells of an image's rows fill it."""
        return self.column is not None or source_of(self.source).is_list

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
        kept = {
            name: value
            for name, value in self._asdict().items()
            if value != self._field_defaults.get(name)
        }
        return kept | ({"shape": list(self.shape)} if self.shape else {})

    @classmethod
    def from_manifest(cls, described: Mapping[str, Any]) -> Feature:
        """Reads the result of `to_manifest`."""
        needed = {name: described[name] for name in ("name", "source", "dtype")}
        others = {name: described[name] for name in cls._field_defaults if name in described}
        if others.get("shape") is not None:
            others["shape"] = tuple(others["shape"])
        return cls(**needed, **others)


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


def further_columns(names: Sequence[str], sources: Iterable[str]) -> dict[str, int]:
    """The further columns of objects that the CSV has, by source.

    Args:
        names: the header's.
        sources: those with columns that the layout needs.

    >>> further_columns(["XMin", "IsGroupOf"], ["object.area", "object.group_of"])
    {'object.group_of': 1}
    """
    folded = [folded_name(name) for name in names]
    found = {}
    for source in sources:
        at = [folded.index(name) for name in SOURCES[source].columns if name in folded]
        if at:
            found[source] = at[0]
    return found


# The options of the layout: features, boxes and embeddings.

LAYOUT_NAMES = (*LAYOUTS, ROWS)

_BOX = "(form|units|columns|orientation)=[^=,]+(,[^=,]+,[^=,]+,[^=,]+)?"

_LAYOUT = f"^({'|'.join(LAYOUT_NAMES)}|gs://[a-z0-9._-]+/.+[.]ya?ml)$"


def layout_name(text: str) -> str:
    """The name of a layout, or the path of a layout file.

    Raises:
        ValueError: it is neither.
    """
    if text not in LAYOUT_NAMES and not is_layout_file(text):
        hint = "".join(f"; did you mean {each}?" for each in alike(text.lower(), LAYOUT_NAMES))
        raise ValueError(
            f"{text!r} is neither one of {', '.join(LAYOUT_NAMES)} nor a .yaml file{hint}"
        )
    return text


@dataclasses.dataclass(frozen=True)
class LayoutOptions(Group, title="layout and boxes", of_images=True, recorded=as_it_is):
    """The features of the Examples, and the columns of boxes."""

    layout: str = option(
        "slim",
        metavar="NAME|FILE",
        parse=layout_name,
        is_usual=True,
        help=f"features of the Examples: {', '.join(LAYOUT_NAMES)}, or your own .yaml file",
        is_path=True,
        regex=_LAYOUT,
        of_images=False,
    )
    boxes: BoxRules = option(
        "",
        metavar="form=FORM,...",
        parse=parse_boxes,
        help="what is not as inferred: form=corners, xywh (COCO) or center (YOLO); units=pixel or "
        "normalized; columns=COL,COL,COL,COL, names or numbers; orientation=stored, or upright "
        "(after EXIF rotation)",
        recorded_as=("box_columns", "box_form", "box_units", "box_orientation"),
        regex=f"^{_BOX}(,{_BOX})*$",
        python="Several | Mapping[str, Several]",
    )


@dataclasses.dataclass(frozen=True)
class EmbeddingOptions(Group, title="embeddings", of_images=True, recorded=as_it_is):
    """The model of a layout with embeddings."""

    model: str | None = option(
        metavar="MODEL",
        help="Keras file, SavedModel folder or keras.applications name, for --layout embedding",
        is_path=True,
        regex="^(gs://[a-z0-9._-]+/.+|[A-Za-z][A-Za-z0-9_]*)$",
    )
    model_weights: str | None = option(
        metavar="FILE",
        help="weights for a keras.applications name",
        is_path=True,
    )
    embed_dtype: str | None = option(
        choices=EMBED_DTYPES,
        help="type of the embeddings; bfloat16 takes half the size; if omitted: float32",
    )

    def check(self, layout: str, features: Sequence[Feature]) -> None:
        """Checks that the model fits the features of a layout; opens nothing.

        Raises:
            ValueError: it does not fit; the message names its flag.
        """
        if all(feature.source != EMBEDDING for feature in features):
            if given := [name for name, value in vars_of(self).items() if value is not None]:
                raise ValueError(
                    f"--{given[0]} has no effect with --layout {layout}, which has no embedding: "
                    "use --layout embedding"
                )
        elif self.model is None:
            raise ValueError(
                f"--layout {layout} needs --model: a Keras file, a SavedModel folder, or a name "
                "such as EfficientNetB0 with --model_weights FILE"
            )
        elif is_application(self.model) and self.model_weights is None:
            raise ValueError(
                f"--model {self.model}: no such file; if it is a name of keras.applications, give "
                "--model_weights FILE, since nothing is downloaded"
            )
        elif not is_application(self.model) and self.model_weights is not None:
            raise ValueError(
                f"--model_weights is for a name of keras.applications; the file --model "
                f"{self.model} has its own weights"
            )


class Embedding(NamedTuple):
    """The model of the embeddings, and how they are stored.

    Attributes:
        model: path of a Keras model or SavedModel, or a name in `keras.applications`.
        weights: path of that application's weights; None with a path.
        dtype: one of `EMBED_DTYPES`.
        digests: of the content of the files of `model` (empty for a name) and `weights` (or empty).
        input_shape: height, width and channels of the images that the model takes.
        shape: of its output for one image.
    """

    model: str
    weights: str | None
    dtype: str
    digests: tuple[str, str]
    input_shape: tuple[int, int, int]
    shape: tuple[int, ...]


def embedding_options(embedding: Embedding | None) -> dict[str, Any]:
    """What is recorded of an embedding: the content of files, whose location affects no byte."""
    if embedding is None:
        return dict.fromkeys(declared(EmbeddingOptions), NOT_RECORDED)
    model, weights = embedding.digests
    return {
        "model": model or embedding.model,
        "model_weights": weights or None,
        "embed_dtype": embedding.dtype,
    }


class LayoutFile(NamedTuple):
    """A layout file.

    Attributes:
        features: in their order; the dtype of a column whose type is not given is empty.
        partners: the globs of each further image (`images.NAME`) and mask (`masks.NAME`).
    """

    features: tuple[Feature, ...]
    partners: Mapping[str, tuple[str, ...]]
