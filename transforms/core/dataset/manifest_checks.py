"""Checks that a manifest has the expected structure."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from transforms.core.dataset.ledger import OPTIONAL_COUNTS, Ledger
from transforms.core.dataset.output_names import is_data_file, is_index_file, is_small_file
from transforms.core.features.layouts import Feature
from transforms.core.planning.splits import is_split_name

Check = Callable[[Any], bool]

_CRC32C = re.compile("[0-9a-f]{8}")
_DTYPES = ("bytes", "int64", "float")
# Real files and images are fewer; larger numbers would only take time and memory.
_MOST = 1 << 62


def damage(manifest: Mapping[str, Any]) -> Iterator[str]:
    """The problem of an unusable manifest, such as `its 'ledger' cannot be read`.

    Args:
        manifest: a JSON object, of this format version.
    """
    for key, check in _CHECKS.items():
        if key not in manifest:
            yield f"it lacks {key!r}"
        elif not check(manifest[key]):
            yield f"its {key!r} cannot be read"
    if not _are_mappings(manifest.get("decided", [])):
        yield "its 'decided' cannot be read"
    if "pixels" in manifest and not _are_counts(manifest["pixels"]):
        yield "its 'pixels' cannot be read"
    if "partners" in manifest and not _are_texts(manifest["partners"]):
        yield "its 'partners' cannot be read"
    if "index" in manifest and not _are_indexes(manifest["index"]):
        yield "its 'index' cannot be read"


def foreign_names(manifest: Mapping[str, Any]) -> Iterator[str]:
    """The names in a manifest that are not files of a dataset; see `output_names`.

    Args:
        manifest: one without `damage`.
    """
    for split in manifest["splits"].values():
        yield from (s["file"] for s in split["shards"] if not is_data_file(s["file"]))
    yield from (name for name in manifest["files"] if not is_small_file(name))
    indexes = manifest.get("index", ())
    yield from (each["file"] for each in indexes if not is_index_file(each["file"]))


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MOST


def _is_crc32c(value: Any) -> bool:
    return isinstance(value, str) and _CRC32C.fullmatch(value) is not None


def _is_mapping(value: Any) -> bool:
    return isinstance(value, dict)


def _are_mappings(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_mapping, value))


def _are_counts(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_is_count, value.values()))


def _are_texts(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_is_text, value.values()))


def _has(value: Any, checks: Mapping[str, Check]) -> bool:
    return isinstance(value, dict) and all(
        key in value and check(value[key]) for key, check in checks.items()
    )


def _is_ledger(value: Any) -> bool:
    names = {field.name for field in dataclasses.fields(Ledger)}
    return _are_counts(value) and names - OPTIONAL_COUNTS <= set(value) <= names


def _are_options(value: Any) -> bool:
    # `verify` bounds what it decodes by these.
    limits = ("max_pixels", "max_bytes")
    return isinstance(value, dict) and all(
        value.get(name) is None or _is_count(value[name]) for name in limits
    )


def _are_features(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_feature, value))


def _is_feature(value: Any) -> bool:
    try:
        feature = Feature.from_manifest(value)
    except (AttributeError, KeyError, TypeError):
        return False
    texts = (feature.name, feature.source, feature.separator, feature.encoding, feature.type)
    return (
        all(map(_is_text, texts))
        and feature.dtype in _DTYPES
        and all(map(_is_count, feature.shape or ()))
        and isinstance(feature.default, str | None)
    )


def _is_shard(value: Any) -> bool:
    return _has(value, _SHARD)


def _are_indexes(value: Any) -> bool:
    return isinstance(value, list) and all(_has(each, _INDEX) for each in value)


def _are_splits(value: Any) -> bool:
    return isinstance(value, dict) and all(
        is_split_name(name) and _has(split, _SPLIT) for name, split in value.items()
    )


def _are_files(value: Any) -> bool:
    return isinstance(value, dict) and all(_has(file, _FILE) for file in value.values())


_FILE: dict[str, Check] = {"bytes": _is_count, "crc32c": _is_crc32c}
_SHARD: dict[str, Check] = {**_FILE, "file": _is_text, "recipe": _is_text, "records": _is_count}
_INDEX: dict[str, Check] = {**_FILE, "file": _is_text, "records": _is_count}
_SPLIT: dict[str, Check] = {
    **dict.fromkeys(("records", "bytes", "image_bytes"), _is_count),
    "classes": _are_counts,
    "shards": lambda shards: isinstance(shards, list) and all(map(_is_shard, shards)),
}
_CHECKS: dict[str, Check] = {
    **dict.fromkeys(("recipe", "options_digest", "root", "labels"), _is_text),
    **dict.fromkeys(("inputs", "versions"), _is_mapping),
    "options": _are_options,
    "ledger": _is_ledger,
    "rejected": _are_counts,
    "splits": _are_splits,
    "files": _are_files,
    "features": _are_features,
}
