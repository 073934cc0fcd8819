"""Records of TFRecord files that another program wrote: what their features mean, and their index.

Only the names of features say what they mean. Those of TF-Slim, TensorFlow Datasets, the Object
Detection API and tutorials are known; others can be given.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import xxhash

from transforms.core.rejections import RejectedImageError
from transforms.dataset.ledger import Ledger
from transforms.dataset.manifest import FORMAT_VERSION, INDEXED
from transforms.examples.layouts import COLUMN, IMAGE, LAYOUTS, PATH, Feature, Role
from transforms.examples.tfrecord import FRAME_BYTES, Part
from transforms.images.headers import image_format, read_header
from transforms.images.tags import read_tags
from transforms.labels.keys import nfc
from transforms.labels.label_rows import MAX_KEY, label_text
from transforms.records.record_index import (
    RecordIndexError,
    content_hash,
    index_schema,
    joined,
    key_kind,
    path_key,
    to_array,
)
from transforms.records.written_index import is_gzip, scan_stored

if TYPE_CHECKING:
    import pyarrow as pa

# What the features of records mean.

_IMAGES = "image/encoded image_raw image jpg jpeg png webp image_bytes encoded"
_LABELS = (
    "image/class/label image/class/text label label_text class class_name label_id class_id "
    "landmark_id target cls"
)
_KEYS = "image/filename file_name filename image/source_id tfds_id image_id id"

USUAL: dict[str, tuple[str, ...]] = {
    what: tuple(names.split())
    for what, names in {"image": _IMAGES, "label": _LABELS, "key": _KEYS}.items()
}
"""Usual names of the features with the image, the label and the key, the first before others."""

KEY = "image.key"

_OBJECTS = tuple(feature for feature in LAYOUTS["detection_masks"] if feature.of_object)

_DTYPES = {"O": "bytes", "i": "int64", "f": "float"}

# Records of a file in which the meaning of features is looked for: the first may lack some.
_FIRST = 5

# Names of features that are described: a hostile file has as many as it has bytes.
_MOST_NAMES = 1_000

# Rows that are Python objects at the same time.
_BATCH = 4096

Example = Mapping[str, Any]


def examples(path: str) -> Iterator[tuple[Part, Example]]:
    """The records of a file, each with the values of its features.

    Raises:
        RecordIndexError: one is damaged or no Example, or the file is compressed.
        OSError: it cannot be read.
    """
    # These import Arrow.
    from transforms.dataset.record_checks import Problem
    from transforms.examples.decoder import decode_example

    if is_gzip(path):
        raise RecordIndexError(
            f"{path} is compressed, so no record can be read alone: decompress it with gunzip"
        )
    for part in scan_stored(path):
        try:
            if part.problem:
                raise ValueError(part.damage)
            example = decode_example(part.payload)
        except ValueError as error:
            said = Problem(path, part.record, str(error))
            raise RecordIndexError(f"{said}; `salvage` copies the whole records") from error
        yield part, {name: values for name, values in example.items() if values is not None}


def first_examples(path: str) -> list[Example]:
    """The first records of a file; raises as `examples` does."""
    return [example for _, example in itertools.islice(examples(path), _FIRST)]


def meanings(
    first: Iterable[Example],
    given: Mapping[str, str],
    known: Mapping[str, Sequence[str]],
) -> dict[str, str]:
    """The name of the feature of each source.

    Args:
        first: some records.
        given: names of features by the keys of `USUAL`; an empty one is none.
        known: other usual names, by the same keys.

    Raises:
        ValueError: a feature holds something else than given, or none holds images.
    """
    held: dict[str, Any] = {}
    for example in first:
        held = {**{name: values for name, values in example.items() if len(values)}, **held}
    has = ", ".join(sorted(held)[:20]) or "none"
    names: dict[str, str] = {}
    for what, usual in USUAL.items():
        asked = given.get(what)
        usual = (*usual, *known.get(what, ()))
        for name in usual if asked is None else filter(None, [asked]):
            if source := _source(what, held.get(name)):
                names.setdefault(source, name)
            elif asked:
                raise ValueError(f"no {what} is in {name!r} of the first records, which have {has}")
    if given.get("label") is None:
        for feature in _OBJECTS:
            found = held.get(feature.name)
            if found is not None and kind_of(found) == feature.dtype:
                names[feature.source] = feature.name
    if IMAGE not in names:
        images = [name for name, values in sorted(held.items()) if _source("image", values)]
        if len(images) != 1:
            many = f"several features hold images ({', '.join(images)})" if images else ""
            raise ValueError(many or f"no feature holds an image file: there are {has}")
        names[IMAGE] = images[0]
    return names


def _source(what: str, values: Any) -> str:
    """The source of the values of a feature, if they can be of this kind; else empty."""
    kind = "" if values is None else values.dtype.kind
    if kind == "O" and image_format(values[0]):
        return IMAGE if what == "image" and len(values) == 1 else ""
    if what == "label":
        return {"i": "label.id", "O": "label.text"}.get(kind, "")
    return KEY if what == "key" and kind in ("i", "O") and len(values) == 1 else ""


def kind_of(values: Any) -> str:
    """The type of the values of a feature; formats of images stand for bytes."""
    # NumPy would make all texts of a list as long as the longest.
    is_array = hasattr(values, "dtype")
    return "unset" if values is None else _DTYPES[values.dtype.kind] if is_array else "bytes"


@dataclasses.dataclass
class Described:
    """A feature of one type, over all records that have it.

    Attributes:
        first: the file and the number of the first record.
        records: how many they are.
        fewest: values in a record.
        most: values in a record.
        low: the smallest integer; None without integers.
        high: the largest one.
        formats: values that begin as images do, by their format.
        others: values that do not.
        other: the file and the number of the first record with another value.
    """

    first: tuple[str, int]
    records: int = 0
    fewest: int = 1 << 62
    most: int = 0
    low: int | None = None
    high: int | None = None
    formats: Counter[str] = dataclasses.field(default_factory=Counter)
    others: int = 0
    other: tuple[str, int] | None = None

    def add(self, values: Any, place: tuple[str, int]) -> None:
        """Adds the values of a record, or the formats of those of bytes."""
        self.records += 1
        self.fewest, self.most = min(self.fewest, len(values)), max(self.most, len(values))
        for format_ in values if isinstance(values, list) else ():
            if format_:
                self.formats[format_] += 1
            else:
                self.others += 1
                self.other = self.other or place
        if kind_of(values) == "int64" and len(values):
            # Most features hold one number, for which NumPy takes a tenth of the time of a record.
            some = values.tolist() if len(values) < 32 else [int(values.min()), int(values.max())]
            low, high = min(some), max(some)
            self.low = low if self.low is None else min(self.low, low)
            self.high = high if self.high is None else max(self.high, high)


class Noted:
    """What is noted of the records of several files.

    Attributes:
        records: how many there are.
        kinds: what is known of each feature, by name and type.
        others: features of records that are not described, behind the first names.
        labels: records of each.
        digests: eight bytes of each record, or of its key.
    """

    def __init__(self) -> None:
        self.records = self.others = 0
        self.kinds: dict[str, dict[str, Described]] = {}
        self.labels: Counter[str] = Counter()
        self.digests = array("Q")

    def add_features(self, example: Example, place: tuple[str, int] = ("", 0)) -> None:
        """Describes the features of a record, of which the file and the number are given."""
        self.records += 1
        for name, values in example.items():
            if name not in self.kinds and len(self.kinds) >= _MOST_NAMES:
                self.others += 1
                continue
            kinds, kind = self.kinds.setdefault(name, {}), kind_of(values)
            found = kinds.get(kind) or kinds.setdefault(kind, Described(place))
            found.add(() if values is None else values, place)

    def add_row(self, row: Mapping[str, Any]) -> None:
        """Notes the key of a record, in eight bytes, and its labels."""
        self.digests.append(xxhash.xxh3_64_intdigest(row["key"].encode()))
        self.labels.update(row["label"] or [""])

    def features(self, names: Mapping[str, str]) -> list[Feature]:
        """The features; those of several types are left out.

        Args:
            names: the feature of each source; others count as columns of rows.
        """
        sources = {name: source for source, name in names.items()}
        return [
            Feature(name, sources.get(name, f"{COLUMN}{name}"), dtype, () if is_single else None)
            for name, kinds in sorted(self.kinds.items())
            for dtype, found in kinds.items()
            for is_single in (found.records == self.records and found.fewest == found.most == 1,)
            if len(kinds) == 1
        ]

    def repeated(self) -> int:
        """Records with the digest of an earlier one."""
        import numpy as np

        digests = np.frombuffer(self.digests, np.uint64)
        return len(digests) - len(np.unique(digests))


# The index of such records: a row for each, as if a conversion had written it.


def record_rows(
    path: str,
    file: str,
    split: str,
    names: Mapping[str, str],
    classes: Mapping[int, str],
    noted: Noted | None = None,
) -> Iterator[dict[str, Any]]:
    """The rows of the records of a file; labels are lists, and `record_content` is no column.

    Args:
        path: of the file.
        file: its name below the folder of all.
        split: of its records.
        names: the feature of each source.
        classes: class names by class id; empty if they are not known.
        noted: what to add the records to.

    Raises:
        RecordIndexError: see `examples`.
        OSError: it cannot be read.
    """
    empty = dict.fromkeys(index_schema(many_labels=True).names)
    for part, example in examples(path):
        held = {source: example.get(name, ()) for source, name in names.items()}
        images = held[IMAGE]
        data = images[0] if len(images) == 1 and isinstance(images[0], bytes) else b""
        key = _text(*held.get(KEY, ())[:1]) or f"{file}__{part.record}"
        labels = _labels(held, classes)
        row = {
            **empty,
            "shard": file,
            "split": split,
            "record": part.record,
            "offset": part.offset,
            "length": part.length - FRAME_BYTES,
            "key": nfc(key),
            "path": key,
            "size": len(data),
            "content": bytes.fromhex(content_hash(data)) if data else None,
            "record_content": content_hash(part.payload),
            **_described(data),
            "label": [*labels],
            "label_id": [number for number in labels.values() if number is not None],
        }
        if noted is not None:
            noted.add_features(example)
            noted.add_row(row)
        yield row


def _text(value: Any = b"") -> str:
    """A value as a text of one line; empty if it is none."""
    try:
        text = label_text(value.decode() if isinstance(value, bytes) else str(value))
    except UnicodeDecodeError:
        return ""
    return text if len(text) <= MAX_KEY and text.isprintable() else ""


def key_feature(manifest: Mapping[str, Any]) -> tuple[str, str]:
    """The feature that tells the key of a record, or an empty text, and the kind of its path."""
    features = map(Feature.from_manifest, manifest["features"])
    names = {each.source: each.name for each in features if not each.is_list}
    kind = "" if KEY in names else key_kind(manifest) or ""
    return names.get(PATH if kind else KEY, ""), kind


def key_problem(keyed: tuple[str, str], key: str, values: Mapping[str, Any]) -> str:
    """Whether a record holds another key than an index, which may have been edited, says.

    Args:
        keyed: see `key_feature`.
        key: of the index.
        values: of the record, as `RecordParser` gives them.
    """
    name, kind = keyed
    value = values[name] if name else b""
    own = path_key(value.decode("utf-8", "replace"), kind) if kind else _text(value)
    is_same = own == key or _text(own) in ("", _text(key))
    return "" if is_same else f"its key is {own!r:.60}, but {key!r:.60} in"


def _labels(held: Mapping[str, Any], classes: Mapping[int, str]) -> dict[str, int | None]:
    """The labels of a record with their class ids, each once; None for an id that is not known."""
    kind = "object" if held.keys() & {"object.id", "object.ids", "object.texts"} else "label"
    plural = "s" if kind == "object" else ""
    ids, texts = (held.get(f"{kind}.{each}{plural}", ()) for each in ("id", "text"))
    pairs = itertools.zip_longest(map(_text, texts), map(int, ids))
    named = ((text or classes.get(number, str(number)), number) for text, number in pairs)
    # TensorFlow Datasets writes -1 for an unknown label.
    return {text: number for text, number in named if text and (number is None or number >= 0)}


def _described(data: bytes) -> dict[str, Any]:
    """Format, size and tags of an image; zeros if its header is broken."""
    format_, columns = image_format(data), ("height", "width", "channels", "orientation", "gps")
    values = [0] * len(columns)
    with contextlib.suppress(RejectedImageError, KeyError):
        header, tags = read_header(data, format_), read_tags(data, format_)
        values = [header.height, header.width, header.channels, *map(int, tags)]
    return {"format": format_, **dict(zip(columns, values, strict=True))}


def index_table(rows: Iterator[Mapping[str, Any]]) -> pa.Table:
    """The index of these rows; a label is no list if no record has two."""
    import pyarrow as pa
    import pyarrow.compute as pc

    schema = index_schema(many_labels=True)
    tables = [schema.empty_table()]
    while batch := [*itertools.islice(rows, _BATCH)]:
        arrays = [to_array([row[field.name] for row in batch], field.type) for field in schema]
        tables.append(pa.Table.from_arrays(arrays, schema=schema))
    table = joined(tables)
    single = index_schema(many_labels=False)
    columns = {name: table.column(name).combine_chunks() for name in ("label", "label_id")}
    if (pc.max(pc.list_value_length(columns["label"])).as_py() or 0) > 1:
        return table
    # `pyarrow.array` would import pandas.
    rows_of_all = to_array(range(len(table)), pa.int64())
    for name, lists in columns.items():
        places = pc.index_in(rows_of_all, value_set=pc.list_parent_indices(lists))
        at = schema.get_field_index(name)
        table = table.set_column(at, single.field(name), lists.flatten().take(places))
    return table


def foreign_manifest(
    given: Iterable[str],
    files: Iterable[tuple[str, str, int]],
    features: Sequence[Feature],
    classes: Mapping[int, str],
) -> dict[str, Any]:
    """What stands for the manifest of files that have none; nothing is known of their records.

    Args:
        given: paths and globs that named the files.
        files: name, split and size of each.
        features: of the records.
        classes: class names by class id.
    """
    splits: dict[str, Any] = {}
    for file, split, size in files:
        none = {"records": 0, "bytes": 0, "image_bytes": 0, "classes": {}, "shards": []}
        listed = splits.setdefault(split, none)
        listed["bytes"] += size
        entry = {"file": file, "recipe": "", "records": 0, "bytes": size, "crc32c": 8 * "0"}
        listed["shards"].append(entry)
    numbers = {name: number for number, name in classes.items()}
    described = [feature.to_manifest() for feature in features]
    roles = {feature.role for feature in features}
    kinds = {"text": bool(classes) or Role.CLASS_TEXT in roles, "integer": Role.CLASS_ID in roles}
    return {
        "format_version": FORMAT_VERSION,
        INDEXED: True,
        **dict.fromkeys(("recipe", "options_digest", "root"), ""),
        # No run checked the images: none may be stored as it is.
        "options": {"check": "unknown", **({"categories": numbers} if classes else {})},
        "inputs": {"images": [*given]},
        "versions": {},
        "features": described,
        "labels": next((kind for kind, is_there in kinds.items() if is_there), "none"),
        "ledger": Ledger(*8 * [0]).to_manifest(),
        "rejected": {},
        "splits": splits,
        "files": {},
        "index": [],
    }
