"""The manifest: what it says, how it is read and checked."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from typing import Any, NamedTuple, TypeAlias

import google_crc32c

from transforms.core.messages import Decision, entries_of, parse_json
from transforms.core.option import unite
from transforms.core.records import RejectedPart
from transforms.dataset.dataset_options import record_options
from transforms.dataset.image_statistics import DatasetWarning
from transforms.dataset.ledger import Gathered, Ledger, ShardSummary, count_reasons, is_optional
from transforms.dataset.output_names import (
    distinct,
    image_file,
    image_files,
    index_file,
    is_chosen,
    is_data_file,
    is_index_file,
    is_plain,
    is_small_file,
    marked_image,
)
from transforms.examples.layouts import Feature, Role
from transforms.images.pixel_options import FROM_HEIC
from transforms.labels.label_rows import MAX_KEY
from transforms.labels.shards import (
    OBJECT_MASK_LIBRARIES,
    ShardName,
    is_split_name,
    recorded_versions,
)

# What a file of a dataset holds, in one piece or in parts: its size and its CRC32C.


def crc32c_hex(data: bytes) -> str:
    """The CRC32C of `data`, 8 hexadecimal digits.

    >>> crc32c_hex(b"123456789")
    'e3069283'
    """
    return f"{google_crc32c.value(data):08x}"


# The bytes of a file, or its parts in order.
FileContent: TypeAlias = bytes | tuple[RejectedPart, ...]


class ContentSummary(NamedTuple):
    """What a manifest says about a file: its bytes, and 8 hexadecimal digits."""

    bytes: int
    crc32c: str


def in_parts(parts: Iterable[RejectedPart]) -> tuple[RejectedPart, ...]:
    """The file that these parts give, in the order of their numbers; empty ones are left out."""
    return tuple(sorted(part for part in parts if part.bytes))


def content_summary(content: FileContent) -> ContentSummary:
    """The size and the checksum of a file; parts are not read.

    >>> content_summary(b"123456789")
    ContentSummary(bytes=9, crc32c='e3069283')
    """
    if isinstance(content, bytes):
        return ContentSummary(len(content), crc32c_hex(content))
    crc = reduce(lambda crc, part: joined_crc32c(crc, int(part.crc32c, 16), part.bytes), content, 0)
    return ContentSummary(sum(part.bytes for part in content), f"{crc:08x}")


def joined_crc32c(first: int, second: int, length: int) -> int:
    """The CRC32C of two texts in a row.

    Args:
        first: that of the first.
        second: that of the second.
        length: bytes of the second.

    >>> hex(joined_crc32c(google_crc32c.value(b"1234"), google_crc32c.value(b"56789"), 5))
    '0xe3069283'
    """
    # A checksum is linear: that of zeros in the place of the second text takes out their part.
    zeros = bytes(length)
    first = google_crc32c.extend(first, zeros)
    return first ^ second ^ int(google_crc32c.value(zeros))


# Checks that a manifest has the expected structure.

Check = Callable[[Any], bool]

_CRC32C = re.compile("[0-9a-f]{8}")
_DTYPES = ("bytes", "int64", "float")
# Real files and images are fewer; larger numbers would only take time and memory.
_MOST = 1 << 62
# Splits, small files, reasons of rejections and changes of pixels: each takes the time of all.
_MOST_KINDS = 1000
# Twice as many as a table has columns at most: each takes 0.3 ms and 20 kB.
_MOST_FEATURES = 20_000


def damage(manifest: Mapping[str, Any]) -> Iterator[str]:
    """The problem of an unusable manifest, such as `its 'ledger' cannot be read`.

    Args:
        manifest: a JSON object, of this format version.
    """
    if len(manifest) > _MOST_KINDS:
        yield f"it has more than {_MOST_KINDS} entries"
    for key, check in (_CHECKS | _OPTIONAL).items():
        if key not in manifest:
            if key in _CHECKS:
                yield f"it lacks {key!r}"
        elif not check(manifest[key]):
            yield f"its {key!r} cannot be read"


def foreign_names(manifest: Mapping[str, Any]) -> Iterator[str]:
    """The names in a manifest that are not files of a dataset; see `output_names`.

    Args:
        manifest: one without `damage`.
    """
    is_ours = is_chosen if manifest["options"].get("file_name") else is_data_file
    is_ours = is_plain if INDEXED in manifest else is_ours
    yield from (each["file"] for each in manifest_shards(manifest) if not is_ours(each["file"]))
    yield from (name for name in manifest["files"] if not is_small_file(name))
    yield from (each["file"] for each in manifest["index"] if not is_index_file(each["file"]))


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MOST


def _is_mapping(value: Any) -> bool:
    return isinstance(value, dict)


def _list_of(check: Check) -> Check:
    return lambda value: isinstance(value, list) and all(map(check, value))


def _dict_of(check: Check) -> Check:
    return lambda value: isinstance(value, dict) and all(map(check, value.values()))


def _few(check: Check, most: int = _MOST_KINDS) -> Check:
    return lambda value: check(value) and len(value) <= most


def _with(checks: Mapping[str, Check]) -> Check:
    """Checks a mapping that may have further entries."""
    return lambda value: (
        isinstance(value, dict)
        and all(key in value and check(value[key]) for key, check in checks.items())
    )


_are_counts = _dict_of(_is_count)


def _is_ledger(value: Any) -> bool:
    names = {field.name for field in dataclasses.fields(Ledger)}
    return _are_counts(value) and {*itertools.filterfalse(is_optional, names)} <= {*value} <= names


def _are_options(value: Any) -> bool:
    try:
        unite(value)
    except (AttributeError, TypeError, ValueError):
        return False
    # `verify` bounds what it decodes by these.
    limits = dict.fromkeys(("max_pixels", "max_bytes"), _is_count)
    checks: dict[str, Check] = {**limits, "categories": _are_counts, "key": _is_text}
    return isinstance(value, dict) and all(
        value.get(name) is None or check(value[name]) for name, check in checks.items()
    )


def _is_feature(value: Any) -> bool:
    try:
        feature = Feature.from_manifest(value)
    except (AttributeError, KeyError, TypeError):
        return False
    texts = (feature.name, feature.source, feature.separator, feature.encoding, feature.type)
    return (
        all(map(_is_text, texts))
        and feature.dtype in _DTYPES
        # A message has it for each record. NumPy takes no more sides.
        and len(feature.shape or ()) <= 64
        and all(map(_is_count, feature.shape or ()))
        and isinstance(feature.default, str | None)
    )


def _are_splits(value: Any) -> bool:
    is_right = _dict_of(_with(_SPLIT))(value) and all(map(is_split_name, value))
    return is_right and _are_distinct(manifest_shards({"splits": value}))


def _are_indexes(value: Any) -> bool:
    return _list_of(_with(_INDEX))(value) and _are_distinct(value)


def _are_distinct(entries: Iterable[Mapping[str, Any]]) -> bool:
    """Whether no file is listed twice: each entry takes a reading of its file."""
    files = [entry["file"] for entry in entries]
    return len({*files}) == len(files)


_FILE: dict[str, Check] = {
    "bytes": _is_count,
    "crc32c": lambda value: isinstance(value, str) and _CRC32C.fullmatch(value) is not None,
}
_INDEX: dict[str, Check] = {**_FILE, "file": _is_text, "records": _is_count}
_SPLIT: dict[str, Check] = {
    **dict.fromkeys(("records", "bytes", "image_bytes"), _is_count),
    "classes": _are_counts,
    "shards": _list_of(_with({**_INDEX, "recipe": _is_text})),
}
_CHECKS: dict[str, Check] = {
    **dict.fromkeys(("recipe", "options_digest", "labels"), _is_text),
    "root": _few(_is_text, MAX_KEY),
    **dict.fromkeys(("inputs", "versions"), _is_mapping),
    "options": _are_options,
    "ledger": _is_ledger,
    "rejected": _few(_are_counts),
    "splits": _few(_are_splits),
    "files": _few(_dict_of(_with(_FILE))),
    "features": _few(_list_of(_is_feature), _MOST_FEATURES),
    "index": _are_indexes,
}
_OPTIONAL: dict[str, Check] = {
    **dict.fromkeys(("decided", "warnings"), _few(_list_of(_is_mapping), _MOST_FEATURES)),
    "pixels": _few(_are_counts),
    "partners": _dict_of(_is_text),
}


# `manifest.json` describes a finished dataset. It is written last: it marks it as complete.

# Raise it if the same options and inputs give different bytes, or the manifest's structure changes.
FORMAT_VERSION = 2

INDEXED = "indexed"
"""The entry of a manifest that only indexes files that another program wrote."""

_SHARD_KEYS = ("file", "recipe", "records", "bytes", "crc32c")

_VERSIONED = "image-tfrecords apache-beam tfx-bsl tensorflow simplejpeg pillow pyarrow".split()


class ManifestError(ValueError):
    """A manifest is damaged or of another version; the message is one line."""


@dataclasses.dataclass(frozen=True)
class Dataset:
    """The fixed description of a dataset that its run knows before it starts.

    Attributes:
        options: options that affect output bytes, by flag name.
        inputs: where images and labels came from, by flag name.
        root: common root of the globs; record paths are below it.
        features: features of the Examples.
        splits: names of the splits in their order; empty if the inputs define them.
        of_rows: whether records are made of rows, without images.
        decisions: decisions made by the tool before the run.
        warnings: warnings given before the run.
        is_strict: whether warnings keep it from being published.
        partners: the common root of the files of each mask and further image, by its name.
    """

    options: Mapping[str, Any]
    inputs: Mapping[str, Any]
    root: str
    features: tuple[Feature, ...]
    splits: tuple[str, ...]
    of_rows: bool = False
    decisions: tuple[Decision, ...] = ()
    warnings: tuple[DatasetWarning, ...] = ()
    is_strict: bool = False
    partners: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def digest(self) -> str:
        """Digest of the options of records, the features and the format version."""
        features = [feature.to_manifest() for feature in self.features]
        text = json.dumps([FORMAT_VERSION, record_options(self.options), features], sort_keys=True)
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


class DataFile(NamedTuple):
    """A file of records.

    Attributes:
        split: the split it is of.
        file: its path below the dataset's folder.
        staged: its path below the staging folder.
        recipe: of its shard, see `shard_recipe`.
        records: records in it.
        bytes: bytes of it.
        crc32c: its checksum, 8 hexadecimal digits.
        sha256: of it, 64 hexadecimal digits; empty if the dataset has no name, and for files of
            single images.
    """

    split: str
    file: str
    staged: str
    recipe: str
    records: int
    bytes: int
    crc32c: str
    sha256: str = ""

    def to_manifest(self) -> dict[str, Any]:
        """Its entry in the manifest."""
        return {name: getattr(self, name) for name in _SHARD_KEYS}


def data_files(shards: Sequence[ShardSummary]) -> list[DataFile]:
    """The files of the shards, in order: one per shard, or one per image."""
    found: list[DataFile] = []
    keys: list[tuple[str, str]] = []
    gzip = False
    for shard in shards:
        split, *_, gzip = ShardName.parse(shard.file)
        if shard.files is None:
            counted = (shard.records, shard.bytes, shard.crc32c, shard.sha256)
            found.append(DataFile(split, shard.published, shard.staged[0], shard.recipe, *counted))
        else:
            keys += [(split, file.key) for file in shard.files]
            found += [
                DataFile(split, "", staged, shard.recipe, 1, file.bytes, file.crc32c)
                for staged, file in zip(shard.staged, shard.files, strict=True)
            ]
    if not keys:
        return found
    chosen = [file for shard in shards for file in shard.files or () if file.name]
    if chosen:
        marked = [marked_image(file.name, file.key) for file in chosen]
        names = distinct([file.name for file in chosen], marked.__getitem__)
    else:
        names = image_files(keys, gzip=gzip)
    return [file._replace(file=name) for file, name in zip(found, names, strict=True)]


def index_files(shards: Iterable[ShardSummary]) -> list[DataFile]:
    """The indexes of the shards, in order."""
    files = []
    for shard in shards:
        if shard.index_crc32c:
            split, name = ShardName.parse(shard.file).split, index_file(shard.file)
            counted = shard.records, shard.index_bytes, shard.index_crc32c, shard.index_sha256
            files.append(DataFile(split, name, shard.staged_index, shard.recipe, *counted))
    return files


def index_entries(shards: Iterable[ShardSummary]) -> list[dict[str, Any]]:
    """The entries of the indexes in the manifest, in the order of the shards."""
    names = ("file", "records", "bytes", "crc32c")
    return [{name: getattr(file, name) for name in names} for file in index_files(shards)]


def possible_files(shard: ShardSummary) -> list[set[str]]:
    """The names that each file of one shard may have, regardless of the other shards."""
    if shard.files is None:
        return [{shard.published}]
    split, *_, gzip = ShardName.parse(shard.file)
    return [
        {file.name, marked_image(file.name, file.key)}
        if file.name
        else {image_file(split, file.key, gzip=gzip, is_marked=marked) for marked in (False, True)}
        for file in shard.files
    ]


def dataset_recipe(shards: Iterable[ShardSummary], rejected: bytes) -> str:
    """The digest of a whole dataset: of its shards' recipes and of the rejections before them.

    Args:
        shards: sorted by split and number.
        rejected: `RejectionTotals.digest` of the join and the plan.
    """
    digest = hashlib.blake2b(digest_size=16)
    for shard in shards:
        digest.update(shard.recipe.encode())
    digest.update(rejected)
    return digest.hexdigest()


def build_manifest(
    dataset: Dataset,
    gathered: Gathered,
    *,
    data: Sequence[DataFile],
    recipe: str,
    label_kind: str,
) -> dict[str, Any]:
    """The manifest of a dataset as a JSON object, without its small files; it has no timestamps.

    Args:
        dataset: the description made before the run.
        gathered: the results of the run.
        data: the result of `data_files` for the shards.
        recipe: see `dataset_recipe`.
        label_kind: `text`, `integer` or `none`.
    """
    shards, changes = gathered.shards, dict(sorted(gathered.run.pixels.items()))
    classes = gathered.run.split_classes(dataset.splits)
    has_masks = any(feature.role is Role.OBJECT_MASK for feature in dataset.features)
    versioned = (*_VERSIONED, *(OBJECT_MASK_LIBRARIES if has_masks else ()))
    return {
        "format_version": FORMAT_VERSION,
        "recipe": recipe,
        "options_digest": dataset.digest,
        "options": dict(sorted(dataset.options.items())),
        "inputs": dict(dataset.inputs),
        "root": dataset.root,
        **({"partners": dict(dataset.partners)} if dataset.partners else {}),
        "versions": recorded_versions(versioned, has_heic=FROM_HEIC in changes),
        "features": [feature.to_manifest() for feature in dataset.features],
        "labels": label_kind,
        "decided": entries_of(dataset.decisions),
        "warnings": entries_of(dataset.warnings),
        "ledger": gathered.ledger.to_manifest(),
        "rejected": count_reasons(gathered.reasons),
        **({"pixels": changes} if changes else {}),
        "splits": {
            split: _split(split, shards, data, classes.get(split, {})) for split in dataset.splits
        },
        "index": index_entries(shards),
    }


def _split(
    split: str, shards: Sequence[ShardSummary], data: Sequence[DataFile], classes: dict[str, int]
) -> dict[str, Any]:
    own = [shard for shard in shards if ShardName.parse(shard.file).split == split]
    return {
        "records": sum(shard.records for shard in own),
        "bytes": sum(shard.bytes for shard in own),
        "image_bytes": sum(shard.image_bytes for shard in own),
        "classes": classes,
        "shards": [file.to_manifest() for file in data if file.split == split],
    }


def to_bytes(manifest: Mapping[str, Any]) -> bytes:
    """The manifest as its file, with a digest of its content.

    It is encoded piece by piece: the text of many shards is held once.
    """
    sealed = {**manifest, "digest": content_digest(manifest)}
    data = io.BytesIO()
    with io.TextIOWrapper(data, "utf-8", newline="") as text:
        # `dumps` would hold each name and each value of all files as a text of its own.
        json.dump(sealed, text, indent=1, ensure_ascii=False)
        text.write("\n")
        text.flush()
        return data.getvalue()


def content_digest(manifest: Mapping[str, Any]) -> str:
    """The digest of a manifest without its `digest` entry, used to detect edits.

    Empty if it cannot be computed.
    """
    digest, before = hashlib.blake2b(b"{", digest_size=16), ""
    try:
        # The text of the whole, entry by entry.
        for name in sorted(manifest.keys() - {"digest"}):
            digest.update(f"{before}{json.dumps(name)}: ".encode())
            digest.update(json.dumps(manifest[name], sort_keys=True).encode())
            before = ", "
    except RecursionError:
        # Nested as deeply as can just be read: only an edited file is like that.
        return ""
    digest.update(b"}")
    return digest.hexdigest()


def parse_manifest(text: str, path: str, *, may_index: bool = False) -> dict[str, Any]:
    """Reads a manifest.

    Args:
        text: its content.
        path: where it is.
        may_index: whether it may be the index of files that another program wrote.

    Raises:
        ManifestError: it is not a manifest, was edited so that it cannot be used, names files
            that no dataset has, or has an unsupported version.
    """
    try:
        manifest = parse_json(text)
        version = manifest["format_version"]
    except (ValueError, TypeError, KeyError) as error:
        raise ManifestError(f"{path} is not a manifest of this tool: {error}") from error
    if version != FORMAT_VERSION:
        found = f"{path} has format version {version}, this program reads {FORMAT_VERSION}: "
        if isinstance(version, int) and version > FORMAT_VERSION:
            raise ManifestError(f"{found}a newer image-tfrecords wrote it; install that one")
        raise ManifestError(
            f"{found}an older image-tfrecords wrote it; use that one, or convert again into "
            "another folder"
        )
    for problem in damage(manifest):
        if problem.startswith("it lacks"):
            raise ManifestError(f"{path} is not a manifest of this tool: {problem}")
        raise ManifestError(f"{path} was edited: {problem}")
    if manifest.get(INDEXED) and not may_index:
        raise ManifestError(f"{path} is the index of files that another program wrote")
    for name in foreign_names(manifest):
        raise ManifestError(
            f"{path} was edited: it names {name!r:.200}, which is not a file of a dataset"
        )
    return dict(manifest)


def check_digest(manifest: Mapping[str, Any], path: str) -> None:
    """Checks that a manifest was not edited, before files that it lists are removed.

    Raises:
        ManifestError: it was edited.
    """
    if manifest.get("digest") != content_digest(manifest):
        raise ManifestError(f"{path} was edited since the dataset was written: restore it")


def manifest_shards(manifest: Mapping[str, Any]) -> list[dict[str, Any]]:
    """All shards that a manifest lists, split by split."""
    return [shard for split in manifest["splits"].values() for shard in split["shards"]]


def shards_by_name(manifest: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The shards that a manifest lists, by the names that they have without `--file_name`."""
    if not (manifest["options"].get("file_name") or INDEXED in manifest):
        return {shard["file"]: shard for shard in manifest_shards(manifest)}
    gzip = manifest["options"].get("compression") == "gzip"
    return {
        str(ShardName(split, number, len(listed["shards"]), gzip)): shard
        for split, listed in manifest["splits"].items()
        for number, shard in enumerate(listed["shards"])
    }


def names_of_ids(manifest: Mapping[str, Any]) -> dict[int, str]:
    """The class names by class id that a manifest itself has: of categories, or if it indexes."""
    return {number: name for name, number in manifest["options"].get("categories", {}).items()}
