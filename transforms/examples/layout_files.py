"""Reads user-defined layouts from YAML, and checks them line by line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import prod
from typing import Any

import yaml

from transforms.core.messages import parse_yaml
from transforms.core.option import alike
from transforms.examples.layouts import (
    COLUMN,
    EMBEDDING,
    IMAGES,
    MASK,
    MASKS,
    PARTNER_FIELDS,
    PIXELS,
    SOURCES,
    Feature,
    LayoutFile,
    partner_of,
)
from transforms.examples.row_features import TYPES, cell_parts, fits
from transforms.labels.vocabulary import MISSING_LABELS

_KEYS = ("source", "type", "list", "separator", "default", "shape")


_TOP = ("features", IMAGES, MASKS)

# The nodes of each key and its value, which know their lines; the values that are texts.
_Nodes = dict[str, tuple[yaml.Node, yaml.Node]]
_Texts = dict[str, str]
_Shape = tuple[int, ...] | None

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


class LayoutError(ValueError):
    """An invalid layout; the message has file, line, problem and remedy in one line."""


def parse_layout(text: str, path: str) -> LayoutFile:
    """Reads a layout: `features:`, and below it the source of each feature, by its name.

    A source is a text, or a mapping with `source` and any of `type`, `list`, `separator`, `default`
    and `shape`. `images:` and `masks:` name globs of further images and masks (docs/layouts.md).

    Args:
        text: YAML.
        path: the name of the file for messages.

    Raises:
        LayoutError: it is not valid YAML, or not a layout.

    >>> parse_layout("features: {height: image.height}", "a.yaml").features[0].dtype
    'int64'
    """
    try:
        root = parse_yaml(text)
    except ValueError as error:
        raise LayoutError(f"--layout {path} {error}") from error
    if root is None:
        raise LayoutError(f"--layout {path} is empty: write the features below `features:`")
    return _Reader(path).layout(root)


class _Reader:
    """Reads the nodes of one file, which know their lines."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._partners: dict[str, tuple[str, ...]] = {}

    def layout(self, root: yaml.Node) -> LayoutFile:
        top = self._items(root, "the layout", _TOP)
        if "features" not in top:
            raise self._error(root, "`features:` is missing")
        declared = {
            f"{kind}.{name}": nodes
            for kind in (IMAGES, MASKS)
            if kind in top
            for name, nodes in self._items(top[kind][1], kind).items()
        }
        self._partners = {name: self._globs(name, *nodes) for name, nodes in declared.items()}
        described = self._items(top["features"][1], "features")
        features = [self._feature(name, node) for name, (_, node) in described.items()]
        if not features:
            raise self._error(top["features"][1], "there are no features: write NAME: SOURCE")
        used = {partner[0] for each in features if (partner := partner_of(each.source))}
        for name, (key_node, _) in declared.items():
            if name not in used:
                raise self._error(key_node, f"no feature has the source {name}.bytes")
        return LayoutFile(tuple(features), self._partners)

    def _globs(self, name: str, key: yaml.Node, value: yaml.Node) -> tuple[str, ...]:
        """The globs of a mask or a further image."""
        if not _NAME.fullmatch(name.partition(".")[2]):
            raise self._error(key, f"{key.value!r} is not a name of letters, digits and _")
        nodes = value.value if isinstance(value, yaml.SequenceNode) else [value]
        globs = tuple(self._text(f"the glob of {name}", node) for node in nodes)
        if not globs or not all(globs):
            raise self._error(key, f"{name} has no glob: write {key.value}: FOLDER/*.png")
        return globs

    def _feature(self, name: str, node: yaml.Node) -> Feature:
        given = {"source": (node, node)}
        if not isinstance(node, yaml.ScalarNode):
            given = self._items(node, f"the feature {name!r}", _KEYS)
        if "source" not in given:
            raise self._error(node, f"the feature {name!r} has no source")
        texts = {key: self._text(key, node) for key, (_, node) in given.items() if key != "shape"}
        shape = self._shape(given["shape"][1]) if "shape" in given else None
        if "type" in texts and texts["type"] not in TYPES:
            raise self._unknown(given["type"][1], "type", texts["type"], tuple(TYPES))
        is_column = texts["source"].startswith(COLUMN) and texts["source"] != COLUMN
        return (self._of_column if is_column else self._of_source)(name, given, texts, shape)

    def _of_source(self, name: str, given: _Nodes, texts: _Texts, shape: _Shape) -> Feature:
        source, dtype = texts["source"], TYPES.get(texts.get("type", ""), "")
        known = [name for name in SOURCES if name != EMBEDDING]
        known += [f"{name}.{field}" for name in (MASK, *self._partners) for field in PARTNER_FIELDS]
        if source not in known:
            raise self._unknown(given["source"][1], "source", source, (*known, "csv.COLUMN"))
        feature = Feature.of_source(name, source)
        if only := next((key for key in ("list", "separator", "default") if key in texts), ""):
            wrong = f"{only} is only for sources csv.COLUMN, not {source}"
            raise self._error(given[only][0], wrong)
        if dtype not in ("", feature.dtype):
            raise self._error(given["type"][1], f"{source} is {feature.dtype}, not {dtype}")
        if shape and source != PIXELS:
            wrong = f"shape is for {PIXELS} and lists of csv.COLUMN, not {source}"
            raise self._error(given["shape"][0], wrong)
        if shape and (len(shape) != 3 or shape[2] > 4):
            wrong = f"the shape of {PIXELS} must be [HEIGHT, WIDTH, CHANNELS], with 1 to 4 channels"
            raise self._error(given["shape"][1], wrong)
        return feature._replace(shape=shape) if shape else feature

    def _of_column(self, name: str, given: _Nodes, texts: _Texts, shape: _Shape) -> Feature:
        type_, default = texts.get("type", ""), texts.get("default")
        dtype, separator = TYPES.get(type_, ""), texts.get("separator", "")
        is_list = self._is_true(given["list"][1]) if "list" in given else bool(separator)
        if "separator" in texts and not (separator and is_list):
            wrong = "a separator must not be empty, and needs list: true"
            raise self._error(given["separator"][0], wrong)
        if shape and not is_list:
            raise self._error(given["shape"][0], "a shape needs a separator, or list: true")
        specific = "" if type_ == dtype else type_
        shape = shape if is_list else ()
        feature = Feature(name, texts["source"], dtype, shape, default, separator, type=specific)
        if default in MISSING_LABELS and dtype != "bytes":
            wrong = (
                f"the default {default!r} is a missing value itself: write a number, or add "
                "type: text if it is a text"
            )
            raise self._error(given["default"][1], wrong)
        parts = cell_parts(feature, default or "")
        for value in parts if dtype else ():
            if value and not fits(value, type_):
                wrong = f"the default {value!r} is not of type {type_}"
                raise self._error(given["default"][1], wrong)
        if default and shape and separator and len(parts) != prod(shape):
            wrong = (
                f"the default {default!r} does not have {prod(shape)} values, as its shape needs"
            )
            raise self._error(given["default"][1], wrong)
        return feature

    def _shape(self, node: yaml.Node) -> tuple[int, ...]:
        wrong = "shape must be a list of positive integers, such as [2, 3]"
        if not isinstance(node, yaml.SequenceNode) or not node.value:
            raise self._error(node, wrong)
        sides = [str(side.value) for side in node.value]
        if not all(re.fullmatch(r"[1-9][0-9]{0,8}", side, re.ASCII) for side in sides):
            raise self._error(node, wrong)
        return tuple(map(int, sides))

    def _items(self, node: yaml.Node, what: str, known: Sequence[str] = ()) -> _Nodes:
        """Maps each key, if need be a known one, to its node and the value's node."""
        if not isinstance(node, yaml.MappingNode):
            raise self._error(node, f"{what} must be written as NAME: VALUE")
        found: _Nodes = {}
        for key_node, value in node.value:
            key = self._text("a name", key_node)
            if not key:
                raise self._error(key_node, "a name is empty")
            if key in found:
                first = found[key][0].start_mark.line + 1
                raise self._error(key_node, f"{key!r} is given twice, first in line {first}")
            found[key] = key_node, value
        for key, (key_node, _) in found.items():
            if known and key not in known:
                raise self._unknown(key_node, "key", key, known)
        return found

    def _text(self, what: str, node: yaml.Node) -> str:
        if not isinstance(node, yaml.ScalarNode):
            raise self._error(node, f"{what} must be a single value")
        return str(node.value)

    def _is_true(self, node: yaml.Node) -> bool:
        value = str(node.value).lower()
        if value not in ("true", "false"):
            raise self._error(node, f"list must be true or false, not {node.value!r}")
        return value == "true"

    def _unknown(self, node: yaml.Node, what: str, value: str, known: Sequence[str]) -> LayoutError:
        near = alike(value, known)
        hint = f"did you mean {near[0]!r}?" if near else f"it is one of {', '.join(known)}"
        return self._error(node, f"unknown {what} {value!r}; {hint}")

    def _error(self, node: Any, message: str) -> LayoutError:
        return LayoutError(f"--layout {self._path} line {node.start_mark.line + 1}: {message}")
