"""Metadata for other readers: TensorFlow Datasets, TFX, the Object Detection API."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from transforms.dataset.dataset_options import DEFAULT_VERSION, Card, card_of
from transforms.dataset.ledger import Gathered, ShardSummary
from transforms.dataset.manifest import Dataset
from transforms.dataset.output_names import CLASS_NAMES, FEATURES, INFO, PARTIAL
from transforms.examples.layouts import Feature, Role
from transforms.images.pixel_options import stored_depth, stored_shape
from transforms.labels.shards import ShardName

if TYPE_CHECKING:
    from transforms.labels.vocabulary import Vocabulary

# Reads splits and slices of splits as TensorFlow Datasets writes them: `train[:10%]+test`.

Shards = Sequence[tuple[str, int]]
"""The files of a split with their numbers of records, in order."""

ALL = "all"
"""All splits, unless one of them has this name."""

_EXAMPLES = "write it like train, train[:10%], train[100:200] or train+validation"

_PART = re.compile(r"(?P<split>[^\[\]]+?)(?:\[(?P<slice>[^\[\]]*)\])?")
# One end of a slice; without a value it is open.
_BOUND = re.compile(r"(?:(?P<value>-?\d+(?:\.\d+)?(?=%)|-?\d+)(?P<unit>%|shard)?)?", re.ASCII)


class ShardRange(NamedTuple):
    """Consecutive records of one file.

    Attributes:
        file: its name.
        skip: records before the first one to read.
        take: records to read.
        records: records in the file.
    """

    file: str
    skip: int
    take: int
    records: int


def shard_ranges(text: str, splits: Mapping[str, Shards]) -> list[ShardRange]:
    """The records that a text such as `train[:10%]+test` names, in the order of the files.

    Slices count records as TensorFlow Datasets does: percentages are rounded to the closest
    record (halves to the even one), negative ends count from the end, and `shard` counts files.

    Args:
        text: splits or slices, with `+` between them.
        splits: the files of each split.

    Returns:
        ranges with records, and of a whole split also those without.

    Raises:
        ValueError: it is not such a text, or names an unknown split or records that are not there.

    >>> [(r.skip, r.take) for r in shard_ranges("train[2:-1]", {"train": [("a", 4), ("b", 4)]})]
    [(2, 2), (0, 3)]
    """
    return [each for part in text.split("+") for each in _part_ranges(part.strip(), splits)]


def _part_ranges(part: str, splits: Mapping[str, Shards]) -> list[ShardRange]:
    match = _PART.fullmatch(part)
    if match is None:
        raise ValueError(f"{part!r} is not a split: {_EXAMPLES}")
    name, slice_text = match["split"].strip(), match["slice"]
    if name not in splits:
        if name == ALL and slice_text is None:
            return [each for split in splits for each in _part_ranges(split, splits)]
        raise ValueError(f"there is no split {name!r}, only {', '.join(splits)}")
    shards = splits[name]
    if slice_text is None:
        return [ShardRange(file, 0, records, records) for file, records in shards]
    first, last = _records(part, slice_text, [records for _, records in shards])
    ranges: list[ShardRange] = []
    before = 0
    for file, records in shards:
        skip = min(max(first - before, 0), records)
        take = min(last - before, records) - skip
        if take > 0:
            ranges.append(ShardRange(file, skip, take, records))
        before += records
    return ranges


def _records(part: str, text: str, shards: Sequence[int]) -> tuple[int, int]:
    """The first record of a slice, and the record after its last one."""
    found = [_BOUND.fullmatch(end.strip()) for end in text.split(":")]
    ends = [
        (float(end["value"]) if end["value"] else None, end["unit"] or "") for end in found if end
    ]
    if len(ends) == 1 and ends[0][1] == "shard":
        start = ends[0][0]
        # The shard after the last one is its open end.
        ends.append((start + 1 if start not in (None, -1) else None, "shard"))
    units = {unit for value, unit in ends if value is not None}
    if None in found or len(ends) != 2 or len(units) != 1:
        raise ValueError(f"{part!r} has no valid slice: {_EXAMPLES}")
    [unit], total = units, sum(shards)
    limit = {"%": 100, "shard": len(shards), "": total}[unit]
    places: list[int] = []
    for (given, _), default in zip(ends, (0, limit), strict=True):
        value = default if given is None else given
        if abs(value) > limit:
            kind = {"%": "percent", "shard": "shards", "": "records"}[unit]
            raise ValueError(f"{part!r} goes beyond the {limit} {kind} of the split")
        place = limit + value if value < 0 else value
        if unit == "%":
            places.append(_closest(value, total))
        else:
            places.append(sum(shards[: int(place)]) if unit == "shard" else int(place))
    first, last = places
    if last <= first:
        raise ValueError(f"{part!r} has no records: the split has {total}")
    return first, last


def _closest(percent: float, total: int) -> int:
    """A record, from the beginning; rounded before a negative percentage counts from the end."""
    place = round(percent * total / 100.0)
    return total + place if percent < 0 else place


# The metadata that TensorFlow Datasets reads: `tfds.builder_from_directory(FOLDER)`.
#
# The files are those of `tfds.folder_dataset.write_metadata`, written as plain JSON, so converting
# does not need tensorflow-datasets. Numbers of 64 bits are strings in them, as in protobuf's JSON.

# Formats that `tfds.features.Image` decodes to pixels of one rank and the given channels. GIF and
# WebP get one more dimension there; a JPEG XL is refused unless it has that many channels.
DECODED = frozenset({"bmp", "jpeg", "png"})

# The name of a dataset without one.
_NO_NAME = "image_tfrecords"

_MODULE = "tensorflow_datasets.core.features."
_DTYPES = {"bytes": "string", "int64": "int64", "float": "float32"}
# Of a file's name, in bytes; while it is written, `.partial` follows it.
_LONGEST_NAME = 255 - len(PARTIAL)


def tfds_files(dataset: Dataset, gathered: Gathered, vocabulary: Vocabulary) -> dict[str, bytes]:
    """The files by name; none if TensorFlow Datasets cannot read the records.

    It does not read compressed shards or files named after keys.

    Args:
        dataset: its description.
        gathered: the results of its run.
        vocabulary: the classes.
    """
    shards, features = gathered.shards, dataset.features
    template = _filepath_template(dataset.options.get("file_name", ""))
    if not template or any(
        ShardName.parse(each.file).gzip or each.files is not None for each in shards
    ):
        return {}
    formats, shape = gathered.run.statistics.formats, stored_shape(dataset.options)
    image, mask = _tensor("string"), _image(("png",), (*shape[:2], 1), 8)
    if DECODED.issuperset(formats):
        image = _image(formats, shape, stored_depth(dataset.options))
    id_count, class_names = vocabulary.id_count, vocabulary.id_names
    described = {feature.name: _feature(feature, image, mask, id_count) for feature in features}
    info: _Json = {
        "name": _NO_NAME,
        "version": DEFAULT_VERSION,
        "fileFormat": "tfrecord",
        "splits": [_split(split, shards, template) for split in gathered.splits],
        **_said(card_of(dataset.options)),
    }
    if keys := supervised_keys(features):
        info["supervisedKeys"] = {"tuple": {"items": [{"featureKey": key} for key in keys]}}
    named = _connector("features_dict.FeaturesDict", featuresDict={"features": described})
    files = {FEATURES: _to_bytes(named), INFO: _to_bytes(info)}
    for feature in features:
        name = f"{feature.name.replace('/', '.')}{CLASS_NAMES}"
        if feature.role is Role.CLASS_ID and class_names and len(name.encode()) <= _LONGEST_NAME:
            files[name] = "".join(f"{each}\n" for each in class_names).encode()
    return files


_Json = dict[str, Any]


def _connector(name: str, **content: Any) -> _Json:
    return {"pythonClassName": _MODULE + name, **content}


def _feature(feature: Feature, image: _Json, mask: _Json, id_count: int | None) -> _Json:
    """What is said of a feature; further images have formats that are not counted."""
    if feature.encoding:
        # Pixels of images that differ in size stay flat.
        return _tensor(feature.encoding, feature.shape or (None,), encoding="bytes")
    if feature.shape:
        return _tensor(_DTYPES[feature.dtype], feature.shape)
    of_files = {Role.IMAGE: image, Role.MASK: mask, Role.FURTHER_IMAGE: _tensor("string")}
    if feature.role in of_files:
        return of_files[feature.role]
    single = mask if feature.role is Role.OBJECT_MASK else _single(feature, id_count)
    if not feature.is_list:
        return single
    return _connector("sequence_feature.Sequence", sequence={"feature": single, "length": "-1"})


def _single(feature: Feature, id_count: int | None) -> dict[str, Any]:
    if feature.role is Role.CLASS_ID and id_count:
        # Without a file of names, the name of a class is its number.
        label = {"numClasses": str(id_count)}
        return _connector("class_label_feature.ClassLabel", classLabel=label)
    if feature.dtype == "bytes":
        return _connector("text_feature.Text", text={})
    return _tensor(_DTYPES[feature.dtype], name="scalar.Scalar")


def _tensor(
    dtype: str,
    shape: Sequence[int | None] = (),
    *,
    encoding: str = "none",
    name: str = "tensor_feature.Tensor",
) -> dict[str, Any]:
    content = {"dtype": dtype, "encoding": encoding, "shape": _dimensions(shape)}
    return _connector(name, tensor=content)


def _image(formats: Collection[str], shape: tuple[int | None, ...], depth: int) -> dict[str, Any]:
    image: dict[str, Any] = {"dtype": f"uint{depth}", "shape": _dimensions(shape)}
    # TensorFlow Datasets reads JPEGs as uint16 only if the format is left open.
    for only in ("jpeg", "png") if depth == 8 else ("png",):
        if set(formats) == {only}:
            image["encodingFormat"] = only
    return _connector("image_feature.Image", image=image)


def _dimensions(shape: Sequence[int | None]) -> dict[str, Any]:
    return {"dimensions": ["-1" if size is None else str(size) for size in shape]}


def _said(card: Card | None) -> dict[str, Any]:
    """What a publisher says about a dataset, in the fields of `dataset_info.proto`."""
    if card is None:
        return {}
    said = {
        "name": card.name,
        "version": card.dataset_version,
        "description": card.description,
        "citation": card.citation,
        "location": {"urls": [card.homepage]} if card.homepage else None,
        "redistributionInfo": {"license": card.license} if card.license else None,
    }
    return {name: value for name, value in said.items() if value}


def _filepath_template(file_name: str) -> str:
    """`--file_name` for TensorFlow Datasets, whose numbers have 5 digits; empty if others have.

    >>> _filepath_template("{split}_{shard:05d}.tfrec"), _filepath_template("{shard}.tfrec")
    ('{SPLIT}_{SHARD_INDEX}.tfrec', '')
    """
    fields = {"{split}": "{SPLIT}", "{shard:05d}": "{SHARD_INDEX}", "{shards:05d}": "{NUM_SHARDS}"}
    text = file_name or "{split}-{SHARD_X_OF_Y}.{FILEFORMAT}"
    for ours, theirs in fields.items():
        text = text.replace(ours, theirs)
    return text if not re.search("[{][a-z]", text) else ""


def _split(split: str, shards: Sequence[ShardSummary], template: str) -> dict[str, Any]:
    own = [shard for shard in shards if ShardName.parse(shard.file).split == split]
    return {
        "name": split,
        "filepathTemplate": template,
        "shardLengths": [str(shard.records) for shard in own],
        "numBytes": str(sum(shard.bytes for shard in own)),
    }


def supervised_keys(features: Sequence[Feature]) -> tuple[str, str] | None:
    """The names of a model's input and target features, if there is one of each.

    The target is the class id, or else the mask.

    >>> from transforms.examples.layouts import LAYOUTS
    >>> supervised_keys(LAYOUTS["slim"])
    ('image/encoded', 'image/class/label')
    """
    seen = [f.name for f in features if f.role in (Role.IMAGE, Role.PIXELS, Role.EMBEDDING)]
    learnt = single_class_ids(features) or [f.name for f in features if f.role is Role.MASK]
    return (seen[0], learnt[0]) if len(seen) == len(learnt) == 1 else None


def single_class_ids(features: Sequence[Feature]) -> list[str]:
    """The names of the features that hold one class id of a record."""
    return [f.name for f in features if f.role is Role.CLASS_ID and not f.is_list]


def _to_bytes(content: Mapping[str, Any]) -> bytes:
    return (json.dumps(content, indent=1, sort_keys=True) + "\n").encode()


# `schema.pbtxt`: the features for TFX, as a `tensorflow_metadata` schema.

_TYPES = {"bytes": "BYTES", "int64": "INT", "float": "FLOAT"}


def schema_text(features: Sequence[Feature], vocabulary: Vocabulary) -> str:
    """The schema of Examples, as protobuf's text.

    A feature that every Example has is of fixed shape and becomes a dense tensor; a list becomes a
    sparse or a ragged one.

    Args:
        features: of the Examples.
        vocabulary: the classes.
    """
    # The start of a command needs none of it.
    from google.protobuf import text_format
    from tensorflow_metadata.proto.v0 import schema_pb2

    schema = schema_pb2.Schema()
    for feature in features:
        entry = schema.feature.add(name=feature.name, type=_TYPES[feature.dtype])
        if feature.is_list:
            entry.value_count.min = 0
        else:
            entry.presence.min_fraction = 1
            entry.presence.min_count = 1
            entry.shape.SetInParent()
            for size in () if feature.encoding else feature.shape or ():
                entry.shape.dim.add(size=size)
        _add_domain(entry, feature.role, vocabulary)
    text: str = text_format.MessageToString(schema, as_utf8=True)
    return text


def _add_domain(entry: Any, role: Role, vocabulary: Vocabulary) -> None:
    """Sets the domain of the values, if their role defines one."""
    if role in (Role.IMAGE, Role.MASK, Role.FURTHER_IMAGE, Role.OBJECT_MASK):
        entry.image_domain.SetInParent()
    elif role is Role.CLASS_ID:
        entry.int_domain.is_categorical = True
        if vocabulary.id_count is not None:
            entry.int_domain.min = vocabulary.first_id
            entry.int_domain.max = vocabulary.id_count - 1
    elif role is Role.CLASS_TEXT and vocabulary.lines:
        entry.string_domain.value.extend(vocabulary.lines)
    elif role is Role.MARK:
        entry.int_domain.min = 0
        entry.int_domain.max = 1
    elif role is Role.COORDINATE:
        entry.float_domain.min = 0
        entry.float_domain.max = 1


# `label_map.pbtxt`: names and ids of classes for the Object Detection API.


def label_map(class_ids: Mapping[str, int]) -> str:
    """A `StringIntLabelMap` (object_detection/protos/string_int_label_map.proto) as text.

    Args:
        class_ids: the id of each class by its name, from 1: the reader keeps 0 for the background.

    >>> print(label_map({"cat": 1}), end="")
    item {
      id: 1
      name: "cat"
    }
    """
    from google.protobuf import text_encoding

    return "".join(
        f'item {{\n  id: {number}\n  name: "{text_encoding.CEscape(name, as_utf8=True)}"\n}}\n'
        for name, number in class_ids.items()
    )
