"""Decodes Examples, for people, for programs and for another layout."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from tfx_bsl.coders.example_coder import ExampleToNumpyDict

from transforms.core.rejections import Reason, RejectedImageError
from transforms.examples.boxes import SIDES, Box, box_values, turned
from transforms.examples.encoder import length_delimited
from transforms.examples.layouts import (
    CLASSES,
    COLUMN,
    RAW,
    SIZES,
    SOURCES,
    Feature,
    Role,
    partner_of,
    source_of,
)
from transforms.examples.row_features import class_values, in_shape
from transforms.images.embeddings import bfloat16
from transforms.images.headers import image_format
from transforms.images.pixel_options import Frame, Limits, check_mask_cost
from transforms.labels.joins import parsed_rows
from transforms.labels.label_rows import read_number

# Serialized `tf.train.Example`s to arrays, through tfx-bsl, without TensorFlow.

# Tags of length-delimited fields: number 1, and number 2, the feature in an entry of the map.
_FIRST, _VALUE = 0x0A, 0x12

_NO_EXAMPLE = "its bytes are not a tf.train.Example"

# Bytes of numbers and names in an Example. While it is decoded, each of a number takes 17 bytes of
# memory, and each MB of names half a second. A value of bytes takes as much as one of them, and a
# feature as much time as a thousand: 16,384 may be there, and a layout has at most 10,000.
_MOST_NUMBERS, _VALUE_BYTES, _FEATURE_BYTES = 1 << 24, 16, 1 << 10


class SequenceExampleError(ValueError):
    """A record is a `tf.train.SequenceExample`."""


def decode_example(example: bytes) -> dict[str, Any]:
    """The features of a serialized Example.

    Returns:
        name to a numpy array of one dimension: `object` (bytes), `int64` or `float32`.

    Raises:
        SequenceExampleError: the bytes are a SequenceExample.
        ValueError: they are not an Example, or hold numbers that would take gigabytes.
    """
    # The decoder skips unknown fields, so it takes many inputs for an Example without features.
    behind = _behind_first(example)
    if example[behind : behind + 1] == b"\x12":
        raise SequenceExampleError("it is a tf.train.SequenceExample, not a tf.train.Example")
    # Smaller ones do not hold that much.
    try:
        if len(example) > 1 << 17:
            _check_numbers(example)
        return dict(ExampleToNumpyDict(example))
    except (RuntimeError, IndexError) as error:
        raise ValueError(_NO_EXAMPLE) from error


def sequence_values(record: bytes) -> dict[str, list[bytes]]:
    """The values of bytes in a serialized SequenceExample, by the names of features and lists.

    Raises:
        ValueError: it is none, or holds numbers that would take gigabytes.
    """
    # Without TensorFlow, and an object of protobuf for each step: the first field is an Example, so
    # is the second one with steps as its values, and what these hold of a name is one list.
    try:
        end = _behind_first(record)
        start, size = _field(record, end, _VALUE)
        values = decode_example(record[:end])
        lists = decode_example(length_delimited(1, record[start:]))
        values |= dict.fromkeys(lists)
        joined = {name: b"".join(steps) for name, steps in lists.items() if steps is not None}
        features = (
            length_delimited(1, name.encode()) + length_delimited(2, length_delimited(1, steps))
            for name, steps in joined.items()
            if steps
        )
        entries = b"".join(length_delimited(1, feature) for feature in features)
        values |= decode_example(length_delimited(1, entries))
        if size != len(record):
            raise ValueError(_NO_EXAMPLE)
    except ValueError as error:
        raise ValueError(str(error).replace("tf.train.E", "tf.train.SequenceE")) from error
    listed = {name: [*(() if each is None else each)] for name, each in values.items()}
    return {name: [each for each in listed[name] if isinstance(each, bytes)] for name in listed}


def _check_numbers(example: bytes) -> None:
    """Raises ValueError if an Example holds too much, or IndexError if it ends too soon."""
    numbers = 0
    position, end = _field(example, 0)
    is_plain = end == len(example)
    while position < end and is_plain:
        entry, position = _field(example, position)
        _, key_end = _field(example, entry)
        feature, feature_end = _field(example, key_end, _VALUE)
        # The decoder takes what follows as more values of it.
        is_plain = feature_end == position
        numbers += feature - entry + _FEATURE_BYTES
        # A feature begins with the tag of its kind of list; that of bytes is the first.
        while feature < feature_end and example[feature] == _FIRST and numbers <= _MOST_NUMBERS:
            value, feature = _field(example, feature)
            numbers += _VALUE_BYTES
            while value < feature and example[value] == _FIRST and numbers <= _MOST_NUMBERS:
                _, value = _field(example, value)
                numbers += _VALUE_BYTES
            # Steps of numbers look like lists of something else.
            numbers += feature - value
        numbers += feature_end - feature
        if numbers > _MOST_NUMBERS:
            raise ValueError(f"it has more than {_MOST_NUMBERS} bytes of numbers and names")
    if not is_plain:
        raise ValueError(_NO_EXAMPLE)


def _field(example: bytes, position: int, tag: int = _FIRST) -> tuple[int, int]:
    """The first byte of a length-delimited field, after its length, and the first one after it.

    Raises:
        ValueError: there is none with this tag.
    """
    try:
        if example[position] == tag:
            length = example[position + 1]
            if length < 0x80:
                return position + 2, position + 2 + length
            length, start = read_number(example, position + 1)
            return start, start + length
    except IndexError:
        pass
    raise ValueError(_NO_EXAMPLE)


def _behind_first(record: bytes) -> int:
    """Where the field 1 ends with which a record begins; 0 if it does not begin so."""
    return _field(record, 0)[1] if record[:1] == b"\n" else 0


# Values that a record of another dataset keeps: boxes, objects, labels and columns.

_BOXES = tuple(f"box.{side}" for side in SIDES)
_AREA = "object.area"


class Kept(NamedTuple):
    """A record whose values are kept.

    Attributes:
        names: the feature of each source in its dataset.
        example: its values, by feature.
        labels: its class ids and class names there.
        size: height and width of its image.
    """

    names: Mapping[str, str]
    example: Mapping[str, Any]
    labels: Sequence[tuple[int, str]]
    size: tuple[int, int]

    def values(self, source: str) -> list[Any] | None:
        """The values of a source, as Python's own types; None if its dataset does not hold it."""
        name = self.names.get(source)
        if name is None:
            return None
        values: list[Any] = self.example[name].tolist() if name in self.example else []
        return values

    @property
    def boxes(self) -> list[Box] | None:
        """The boxes of its objects, if its dataset holds them."""
        sides = [self.values(source) or [] for source in _BOXES if source in self.names]
        if len(sides) < len(_BOXES):
            return None
        return [Box(*box) for box in zip(*sides, strict=True)]

    @property
    def objects(self) -> list[str]:
        """The class name of each of its objects."""
        texts = self.values("object.texts")
        if texts is not None:
            return [text.decode(errors="replace") for text in texts]
        names = dict(self.labels)
        return [names.get(class_id, "") for class_id in self.values("object.ids") or ()]


class KeptValues:
    """Computes the features that rows would fill from the record that an image is from."""

    def __init__(self, features: Iterable[Feature], *, check: str = "full") -> None:
        """Takes the features of the new dataset.

        Args:
            features: all of them.
            check: mode of `check_image` for masks of objects.
        """
        self._features = tuple(feature for feature in features if feature.from_rows)
        self._check = check

    def of(
        self,
        cells: str,
        kept: Kept,
        *,
        label: tuple[int, str] = (0, ""),
        turn: int = 1,
        stored: tuple[int, int] | None = None,
    ) -> dict[str, Any]:
        """The values by the names of features.

        Args:
            cells: the labels of the image with their ids in this dataset, see `parsed_rows`.
            kept: the record.
            label: the only label of the image with its id, if the layout holds no others.
            turn: the EXIF orientation that was applied to its image now, 1 for none.
            stored: height and width of the new image; None for those of the record's.

        Raises:
            RejectedImageError: the record does not hold a value.
        """
        classes = {
            text: class_id
            for _, labels, _ in (parsed_rows(cells) if cells else ())
            for class_id, text in labels
        }
        if label[1]:
            classes[label[1]] = label[0]
        objects = kept.objects if classes else []
        if unknown := {*objects} - {*classes}:
            detail = f"its record has an object {min(unknown)!r}, which is not one of its labels"
            raise RejectedImageError(Reason.BAD_CELL, detail)
        made = class_values("label", ((classes[text], text) for text in classes))
        made |= class_values("object", ((classes[text], text) for text in objects))
        if turn != 1 and (boxes := kept.boxes) is not None:
            made |= box_values([turned(box, turn) for box in boxes])
        frame = Frame(*kept.size, turn, turn, stored or kept.size)
        values: dict[str, Any] = {}
        for feature in self._features:
            found = made.get(feature.source)
            values[feature.name] = self._value(feature, kept, frame) if found is None else found
        return values

    def _value(self, feature: Feature, kept: Kept, frame: Frame) -> Any:
        values = kept.values(feature.source)
        if values is None:
            return _default(feature, kept, frame)
        if feature.role is Role.OBJECT_MASK:
            return _masks(values, kept.size, frame, self._check)
        if feature.source == _AREA and frame.stored != kept.size:
            return [area * math.prod(frame.stored) / math.prod(kept.size) for area in values]
        if feature.holds_many:
            return in_shape(feature, values, "its record")
        if len(values) != 1:
            name = kept.names[feature.source]
            detail = f"its record has {len(values)} values of {name!r}, not 1"
            raise RejectedImageError(Reason.BAD_CELL, detail)
        return values[0]


def _masks(masks: Sequence[bytes], size: tuple[int, int], frame: Frame, check: str) -> list[bytes]:
    """The masks of the objects in the record, for the new image."""
    # This imports Pillow, which other layouts do not need.
    from transforms.images.masks import refitted_mask

    made: dict[bytes, bytes] = {}
    check_mask_cost(len({*masks}), *max(size, frame.stored, key=math.prod))
    for number, mask in enumerate(masks):
        if mask in made:
            continue
        try:
            made[mask] = refitted_mask(mask, frame, check=check)
        except RejectedImageError as error:
            detail = f"the mask of object {number} in its record: {error.detail}"
            raise RejectedImageError(error.reason, detail) from None
    return [made[mask] for mask in masks]


def _default(feature: Feature, kept: Kept, frame: Frame) -> list[Any]:
    """The values of an optional source that the other dataset does not have, as of empty cells."""
    source, boxes = source_of(feature.source), kept.boxes
    if not source.is_optional or boxes is None:
        detail = f"no row has its key, and its record does not hold {feature.source}"
        raise RejectedImageError(Reason.NO_LABEL, detail)
    if source.role is Role.MARK:
        return [0] * len(boxes)
    return [box.area * math.prod(frame.stored) for box in boxes]


# The values of a decoded Example as a reader gets them: scalars, arrays of their shape, images.

# The type of the arrays that `decode_example` returns, by that of the feature.
_KINDS: Mapping[str, Any] = {"bytes": np.object_, "int64": np.int64, "float": np.float32}


@dataclasses.dataclass
class RecordParser:
    """Parses serialized Examples to values, as `load` gives them, without TensorFlow.

    Attributes:
        features: those of the manifest.
        channels: 3 or 1, of decoded images.
        limits: of an image that is decoded.
        decode: whether to decode images and packed arrays; otherwise both stay bytes.
        depth: bits of the samples of decoded images, 8 or 16.
    """

    features: Sequence[Feature]
    _: dataclasses.KW_ONLY
    channels: int
    limits: Limits
    decode: bool
    depth: int = 8

    def __post_init__(self) -> None:
        # Packed pixels of variable size store their shape in other features.
        by_source = {feature.source: feature.name for feature in self.features}
        has_sizes = by_source.keys() >= {*SIZES}
        self._sizes = [by_source[source] for source in SIZES] if has_sizes else []
        # Whose size the masks of objects have, so it is decoded before them.
        of_image = (Role.IMAGE, Role.PIXELS)
        self._shown = next((each.name for each in self.features if each.role in of_image), "")
        self._decoded = sorted(self.features, key=lambda each: each.role is Role.OBJECT_MASK)

    def parse(self, record: bytes) -> dict[str, Any]:
        """Values by feature name.

        Returns:
            `bytes`, `numpy.int64` or `numpy.float32` for a single value, and an array otherwise:
            of one dimension for a list, of dtype object if it holds bytes.

        Raises:
            ValueError: the record is not an Example of these features.
            RejectedImageError: an image cannot be decoded.
        """
        stored = decode_example(record)
        values = {feature.name: _stored_value(feature, stored) for feature in self.features}
        for feature in self._decoded if self.decode else ():
            value = values[feature.name]
            if feature.role in (Role.IMAGE, Role.FURTHER_IMAGE):
                value = self._image(value, self.channels, self.depth)
            elif feature.role is Role.MASK:
                value = self._image(value, 1, 8)
            elif feature.role is Role.OBJECT_MASK:
                masks = [self._image(mask, 1, 8) for mask in value]
                # Without objects, they have the size of the image if the record holds it.
                size = values[self._shown].shape[:2] if self._shown else (0, 0)
                value = np.stack(masks) if masks else np.empty((0, *size, 1), np.uint8)
            elif feature.encoding:
                value = self._array(feature, values)
            values[feature.name] = value
        return values

    def _image(self, data: bytes, channels: int, depth: int) -> Any:
        # This imports Pillow, which other uses of records do not need.
        from transforms.images.pixels import stored_pixels

        return stored_pixels(data, channels, self.limits, depth=depth)

    def _array(self, feature: Feature, values: Mapping[str, Any]) -> Any:
        data = values[feature.name]
        dtype = np.dtype(np.uint8 if feature.encoding == RAW else bfloat16())
        if len(data) % dtype.itemsize:
            raise ValueError(f"{feature.name!r} has {len(data)} bytes, not whole values")
        flat = np.frombuffer(data, dtype)
        shape = feature.shape or [int(values[name]) for name in self._sizes] or (-1,)
        try:
            # A copy, which may be written to.
            return flat.reshape(shape).copy()
        except ValueError as error:
            raise ValueError(f"{feature.name!r} has {flat.size} values: {error}") from error


def _stored_value(feature: Feature, stored: Mapping[str, Any]) -> Any:
    """The value of a feature as it is stored.

    Raises:
        ValueError: it is missing, or has another type or number of values.
    """
    values, kind = stored.get(feature.name), _KINDS[feature.dtype]
    if values is None:
        if feature.is_list:
            return np.empty(0, kind)
        raise ValueError(f"it has no {feature.name!r}")
    if values.dtype != kind:
        raise ValueError(f"{feature.name!r} is not of type {feature.dtype}")
    if feature.is_list:
        return values
    if feature.shape and not feature.encoding:
        try:
            return values.reshape(feature.shape)
        except ValueError:
            problem = f"{feature.name!r} has {len(values)} values, not those of {feature.shape}"
            raise ValueError(problem) from None
    if len(values) != 1:
        raise ValueError(f"{feature.name!r} has {len(values)} values, not 1")
    return values[0]


# Finds the features with a record's image, class and key; guesses without a manifest.

# Names of such features in TFRecords of other programs.
_CLASS_NAME = re.compile(r"(?:^|[/_])(?:label|class|category)s?(?:$|[/_])", re.IGNORECASE)
_KEY_NAME = re.compile(
    r"(?:^|[/_])(?:id|key|name|file_?name|path|source_id|uri|url)$", re.IGNORECASE
)


class RecordFields(NamedTuple):
    """The meaning of the features in the records of one dataset.

    Attributes:
        sources: source of each feature by its name, None without a manifest.
        labels: class names by class id; empty when they are not known.
    """

    sources: Mapping[str, str] | None = None
    labels: Mapping[int, str] = {}

    def class_features(self, names: Sequence[str]) -> list[str]:
        """The features that hold a class: its id or its text."""
        if self.sources is None:
            return [name for name in names if _CLASS_NAME.search(name)]
        return [name for name in names if self._role(name) in CLASSES]

    def key_features(self, names: Sequence[str]) -> list[str]:
        """The features that identify the record: the join key, the image's path or an id."""
        if self.sources is None:
            return [n for n in names if _KEY_NAME.search(n) and not _CLASS_NAME.search(n)]
        known = [name for name in names if self._role(name) is Role.KEY]
        columns = [name for name in names if self.sources.get(name, "").startswith(COLUMN)]
        return known + [name for name in columns if _KEY_NAME.search(name)]

    def has_class(self, example: Mapping[str, Any], wanted: str) -> bool:
        """Whether a record is of a class, or holds an object of it.

        Args:
            example: as `decode_example` gives it.
            wanted: the class's text or id.
        """
        ids = {int(wanted)} if re.fullmatch(r"-?\d+", wanted) else set()
        ids |= {number for number, label in self.labels.items() if label == wanted}
        return any(
            value == wanted.encode() if isinstance(value, bytes) else value in ids
            for name in self.class_features(list(example))
            for value in values_of(example, name)
        )

    def has_key(self, example: Mapping[str, Any], wanted: str) -> bool:
        """Whether a record has a key: one of its names, with or without folder and extension."""
        return any(
            wanted in _spellings(value)
            for name in self.key_features(list(example))
            for value in values_of(example, name)
        )

    def name_feature(self) -> str | None:
        """The feature with the image's path, or else its key, according to the manifest."""
        names = {source: name for name, source in (self.sources or {}).items()}
        keys = (each.name for each in SOURCES.values() if each.role is Role.KEY)
        return next((names[key] for key in keys if key in names), None)

    def image_feature(self, example: Mapping[str, Any]) -> str | None:
        """The feature that holds the image, or None."""
        if self.sources is not None:
            return next((name for name in self.sources if self._role(name) is Role.IMAGE), None)
        found = (name for name, values in sorted(example.items()) if _is_image(values))
        return next(found, None)

    def partner_features(self) -> dict[str, str]:
        """The features that hold masks and further images, with the names of these."""
        found = {name: partner_of(source) for name, source in (self.sources or {}).items()}
        roles = (Role.MASK, Role.FURTHER_IMAGE)
        return {name: each[0] for name, each in found.items() if each and self._role(name) in roles}

    def _role(self, name: str) -> Role:
        return source_of((self.sources or {}).get(name, "")).role


def values_of(example: Mapping[str, Any], name: str) -> Sequence[Any]:
    """The values of a feature in the result of `decode_example`; none for one that is not set."""
    values: Sequence[Any] | None = example.get(name)
    return () if values is None else values


def only_bytes(example: Mapping[str, Any], name: str) -> bytes:
    """The value of a feature that holds one value of bytes, in the result of `decode_example`.

    Raises:
        ValueError: it does not.
    """
    values = values_of(example, name)
    if len(values) != 1 or not isinstance(values[0], bytes):
        raise ValueError(f"it has no single value of {name!r}")
    return values[0]


def _spellings(value: Any) -> Iterator[str]:
    text = value.decode(errors="replace") if isinstance(value, bytes) else str(value)
    file = text.rpartition("/")[2]
    yield from (text, file, file.rpartition(".")[0] or file)


def _is_image(values: Sequence[Any] | None) -> bool:
    if values is None or len(values) != 1 or not isinstance(values[0], bytes):
        return False
    return bool(image_format(values[0]))
