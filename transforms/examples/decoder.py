"""Decodes Examples, with the values that a record keeps in another layout."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from tfx_bsl.coders.example_coder import ExampleToNumpyDict

from transforms.core.rejections import Reason, RejectedImageError
from transforms.examples.boxes import Box, turned
from transforms.examples.columns import in_shape
from transforms.examples.layouts import SIDES, Feature, Role, source_of
from transforms.images.check import check_mask_cost
from transforms.images.pixel_options import Frame
from transforms.labels.joins import parsed_rows

# Serialized `tf.train.Example`s to arrays, through tfx-bsl, without TensorFlow.

# Tags of length-delimited fields: number 1, and number 2, the feature in an entry of the map.
_FIRST, _VALUE = 0x0A, 0x12

_NO_EXAMPLE = "its bytes are not a tf.train.Example"

# Bytes of numbers and names in an Example. While it is decoded, each of a number takes 17 bytes of
# memory, and each MB of names half a second.
_MOST_NUMBERS = 1 << 24


def decode_example(example: bytes) -> dict[str, Any]:
    """The features of a serialized Example.

    Returns:
        name to a numpy array of one dimension: `object` (bytes), `int64` or `float32`.

    Raises:
        ValueError: the bytes are not an Example, or hold numbers that would take gigabytes.
    """
    # The decoder skips unknown fields, so it takes many inputs for an Example without features.
    if example[:1] == b"\x12" or _tag_after_first_field(example) == 0x12:
        raise ValueError("it is a tf.train.SequenceExample, not a tf.train.Example")
    if len(example) > _MOST_NUMBERS:
        _check_numbers(example)
    try:
        return dict(ExampleToNumpyDict(example))
    except (RuntimeError, ValueError) as error:
        raise ValueError(_NO_EXAMPLE) from error


def _check_numbers(example: bytes) -> None:
    numbers = 0
    position, end = _field(example, 0)
    while position < end:
        entry, position = _field(example, position)
        _, key_end = _field(example, entry)
        feature, feature_end = _field(example, key_end, _VALUE)
        # A feature begins with the tag of its kind of list; that of bytes is the first.
        is_bytes = example[feature : feature + 1] == b"\n"
        numbers += (feature if is_bytes else feature_end) - entry
        if numbers > _MOST_NUMBERS:
            raise ValueError(f"it has more than {_MOST_NUMBERS} bytes of numbers and names")


def only_bytes(example: bytes, name: str) -> bytes:
    """The value of a feature that holds one value of bytes, in an Example of `ExampleEncoder`.

    Nothing else is decoded or checked: `decode_example` takes two to three times as long.

    Raises:
        ValueError: the bytes are no such Example, or it has no such feature.
    """
    wanted = name.encode()
    position, end = _field(example, 0)
    while position < end:
        entry, position = _field(example, position)
        key, key_end = _field(example, entry)
        if example[key:key_end] == wanted:
            # The feature, its list and the only value end where its entry does.
            feature, feature_end = _field(example, key_end, _VALUE)
            values, list_end = _field(example, feature)
            value, value_end = _field(example, values)
            if feature_end == list_end == value_end == position <= len(example):
                return example[value:position]
            break
    raise ValueError(f"it has no single value of {name!r}")


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
            length, start = _read_varint(example, position + 1)
            return start, start + length
    except IndexError:
        pass
    raise ValueError(_NO_EXAMPLE)


def _tag_after_first_field(example: bytes) -> int:
    """The tag after the field `features`, or 0 if the record ends with it."""
    try:
        length, body = _read_varint(example, 1)
        return example[body + length]
    except IndexError:
        return 0


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
    """The base-128 number at `position`, and the position after it."""
    value = shift = 0
    while True:
        byte = data[position]
        value |= (byte & 0x7F) << shift
        position += 1
        if byte < 0x80:
            return value, position
        shift += 7


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
            cells: the labels of the image with their ids in this dataset, see `row_cells`.
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
        made: dict[str, list[Any]] = {
            "label.ids": list(classes.values()),
            "label.texts": [text.encode() for text in classes],
        }
        objects = _objects(kept) if classes else []
        if unknown := {*objects} - {*classes}:
            detail = f"its record has an object {min(unknown)!r}, which is not one of its labels"
            raise RejectedImageError(Reason.BAD_CELL, detail)
        made["object.ids"] = [classes[text] for text in objects]
        made["object.texts"] = [text.encode() for text in objects]
        if turn != 1 and all(source in kept.names for source in _BOXES):
            sides = (_list(kept, kept.names[source]) for source in _BOXES)
            boxes = [turned(Box(*box), turn) for box in zip(*sides, strict=True)]
            made |= {f"box.{side}": [getattr(box, side) for box in boxes] for side in SIDES}
        frame = Frame(*kept.size, turn, turn, stored or kept.size)
        values: dict[str, Any] = {}
        for feature in self._features:
            found = made.get(feature.source)
            if found is None and feature.role is Role.OBJECT_MASK and feature.source in kept.names:
                found = _masks(feature, kept, frame, self._check)
            values[feature.name] = _value(feature, kept, frame) if found is None else found
        return values


def _masks(feature: Feature, kept: Kept, frame: Frame, check: str) -> list[bytes]:
    """The masks of the objects in the record, for the new image."""
    # This imports Pillow, which other layouts do not need.
    from transforms.examples.segmentations import refitted_mask

    masks = _list(kept, kept.names[feature.source])
    made: dict[bytes, bytes] = {}
    check_mask_cost(len({*masks}), *max(kept.size, frame.stored, key=math.prod))
    for number, mask in enumerate(masks):
        if mask in made:
            continue
        try:
            made[mask] = refitted_mask(mask, frame, check=check)
        except RejectedImageError as error:
            detail = f"the mask of object {number} in its record: {error.detail}"
            raise RejectedImageError(error.reason, detail) from None
    return [made[mask] for mask in masks]


def _value(feature: Feature, kept: Kept, frame: Frame) -> Any:
    name = kept.names.get(feature.source)
    if name is None:
        return _default(feature, kept, frame)
    values = _list(kept, name)
    if feature.source == _AREA and frame.stored != kept.size:
        return [area * math.prod(frame.stored) / math.prod(kept.size) for area in values]
    if feature.holds_many:
        return in_shape(feature, values, "its record")
    if len(values) != 1:
        detail = f"its record has {len(values)} values of {name!r}, not 1"
        raise RejectedImageError(Reason.BAD_CELL, detail)
    return values[0]


def _default(feature: Feature, kept: Kept, frame: Frame) -> list[Any]:
    """The values of an optional source that the other dataset does not have, as of empty cells."""
    if not (source_of(feature.source).is_optional and all(name in kept.names for name in _BOXES)):
        detail = f"no row has its key, and its record does not hold {feature.source}"
        raise RejectedImageError(Reason.NO_LABEL, detail)
    sides = [_list(kept, kept.names[source]) for source in _BOXES]
    if source_of(feature.source).role is Role.MARK:
        return [0] * len(sides[0])
    return [
        (xmax - xmin) * (ymax - ymin) * math.prod(frame.stored)
        for xmin, xmax, ymin, ymax in zip(*sides, strict=True)
    ]


def _objects(kept: Kept) -> list[str]:
    """The class name of each object in the record."""
    if name := kept.names.get("object.texts"):
        return [text.decode(errors="replace") for text in _list(kept, name)]
    texts = dict(kept.labels)
    ids = _list(kept, kept.names["object.ids"]) if "object.ids" in kept.names else []
    return [texts.get(class_id, "") for class_id in ids]


def _list(kept: Kept, name: str) -> list[Any]:
    """The values of a feature, as Python's own types."""
    values: list[Any] = kept.example[name].tolist() if name in kept.example else []
    return values
