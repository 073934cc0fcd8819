"""Finds the features with a record's image, class and key; guesses without a manifest."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from transforms.core.features.feature_sources import (
    COLUMN,
    SOURCES,
    Role,
    partner_of,
    source_of,
)
from transforms.core.formats.headers import image_format

_CLASSES = (Role.CLASS_ID, Role.CLASS_TEXT)

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
        return [name for name in names if self._role(name) in _CLASSES]

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
            for value in _values(example, name)
        )

    def has_key(self, example: Mapping[str, Any], wanted: str) -> bool:
        """Whether a record has a key: one of its names, with or without folder and extension."""
        return any(
            wanted in _spellings(value)
            for name in self.key_features(list(example))
            for value in _values(example, name)
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


def _values(example: Mapping[str, Any], name: str) -> Sequence[Any]:
    values: Sequence[Any] | None = example[name]
    return () if values is None else values


def _spellings(value: Any) -> Iterator[str]:
    text = value.decode(errors="replace") if isinstance(value, bytes) else str(value)
    file = text.rpartition("/")[2]
    yield from (text, file, file.rpartition(".")[0] or file)


def _is_image(values: Sequence[Any] | None) -> bool:
    if values is None or len(values) != 1 or not isinstance(values[0], bytes):
        return False
    return bool(image_format(values[0]))
