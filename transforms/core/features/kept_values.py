"""Values that a record of another dataset keeps: boxes, objects, labels and columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from transforms.core.features.boxes import SIDES, Box, turned
from transforms.core.features.cells import in_shape
from transforms.core.features.feature_sources import Role, source_of
from transforms.core.features.layouts import Feature
from transforms.core.planning.row_cells import parsed_rows
from transforms.core.rejections import Reason, RejectedImageError

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
            made |= _turned(kept, turn)
        values: dict[str, Any] = {}
        for feature in self._features:
            found = made.get(feature.source)
            if found is None and feature.role is Role.OBJECT_MASK and feature.source in kept.names:
                found = _masks(feature, kept, turn, stored, self._check)
            values[feature.name] = _value(feature, kept, stored) if found is None else found
        return values


def _masks(
    feature: Feature, kept: Kept, turn: int, stored: tuple[int, int] | None, check: str
) -> list[bytes]:
    """The masks of the objects in the record, for the new image."""
    # This imports Pillow, which other layouts do not need.
    from transforms.core.features.segmentations import refitted_mask

    size = stored or kept.size
    masks = []
    for number, mask in enumerate(_list(kept, kept.names[feature.source])):
        try:
            masks.append(refitted_mask(mask, kept.size, turn=turn, stored=size, check=check))
        except RejectedImageError as error:
            detail = f"the mask of object {number} in its record: {error.detail}"
            raise RejectedImageError(error.reason, detail) from None
    return masks


def _value(feature: Feature, kept: Kept, stored: tuple[int, int] | None) -> Any:
    name = kept.names.get(feature.source)
    if name is None:
        return _default(feature, kept, stored)
    values = _list(kept, name)
    if feature.source == _AREA and stored is not None and stored != kept.size:
        return [area * _pixels(stored) / _pixels(kept.size) for area in values]
    if feature.holds_many:
        return in_shape(feature, values, "its record")
    if len(values) != 1:
        detail = f"its record has {len(values)} values of {name!r}, not 1"
        raise RejectedImageError(Reason.BAD_CELL, detail)
    return values[0]


def _default(feature: Feature, kept: Kept, stored: tuple[int, int] | None) -> list[Any]:
    """The values of an optional source that the other dataset does not have, as of empty cells."""
    if not (source_of(feature.source).is_optional and all(name in kept.names for name in _BOXES)):
        detail = f"no row has its key, and its record does not hold {feature.source}"
        raise RejectedImageError(Reason.NO_LABEL, detail)
    sides = [_list(kept, kept.names[source]) for source in _BOXES]
    if source_of(feature.source).role is Role.MARK:
        return [0] * len(sides[0])
    pixels = _pixels(stored or kept.size)
    return [
        (xmax - xmin) * (ymax - ymin) * pixels
        for xmin, xmax, ymin, ymax in zip(*sides, strict=True)
    ]


def _objects(kept: Kept) -> list[str]:
    """The class name of each object in the record."""
    if name := kept.names.get("object.texts"):
        return [text.decode(errors="replace") for text in _list(kept, name)]
    texts = dict(kept.labels)
    ids = _list(kept, kept.names["object.ids"]) if "object.ids" in kept.names else []
    return [texts.get(class_id, "") for class_id in ids]


def _turned(kept: Kept, turn: int) -> dict[str, list[Any]]:
    sides = (_list(kept, kept.names[source]) for source in _BOXES)
    boxes = [turned(Box(*box), turn) for box in zip(*sides, strict=True)]
    return {f"box.{side}": [getattr(box, side) for box in boxes] for side in SIDES}


def _list(kept: Kept, name: str) -> list[Any]:
    """The values of a feature, as Python's own types."""
    values: list[Any] = kept.example[name].tolist() if name in kept.example else []
    return values


def _pixels(size: tuple[int, int]) -> int:
    return size[0] * size[1]
