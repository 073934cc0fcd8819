"""Does a record hold what the manifest says it does? Every difference is one `Problem`."""

from __future__ import annotations

import dataclasses
import json
import math
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np

from transforms.core.dataset.ledger import Ledger, LedgerError
from transforms.core.examples.decoder import decode_example
from transforms.core.examples.tfrecord import LARGEST_RECORD, largest_record
from transforms.core.features.layouts import DETECTION, OBJECT_COLUMNS, PIXELS, RAW, SIZES, Feature
from transforms.core.images.check import ImageInfo, Limits, check_image
from transforms.core.images.embeddings import read_bfloat16
from transforms.core.json_text import parse_json
from transforms.core.labels.label_kinds import class_order
from transforms.core.rejections import RejectedImageError

_KINDS = {"bytes": "O", "int64": "i", "float": "f"}

# Bytes of a value in an encoded array.
_ITEM_BYTES = {"bfloat16": 2, RAW: 1}


class ImageCheck(Protocol):
    """Decodes an image as `check_image` does."""

    def __call__(self, data: bytes, *, limits: Limits) -> ImageInfo:
        """What is in a file."""


class Problem(NamedTuple):
    """One difference between a dataset and its manifest.

    Attributes:
        file: the file it is in.
        record: number of the record, from 0; None when it is not in a record.
        detail: what is wrong, in one line.
    """

    file: str
    record: int | None
    detail: str

    def __str__(self) -> str:
        place = self.file if self.record is None else f"{self.file}: record {self.record}"
        return f"{place}: {self.detail}"


@dataclasses.dataclass
class Verified:
    """What reading some shards showed; mergeable.

    Attributes:
        split: the split that they are of; empty when it does not matter.
        shards: how many they are.
        damaged: how many of them have a problem.
        records: records that could be read.
        bytes: bytes of the files.
        problems: those of each shard, the first ones.
        labels: records of each class.
    """

    split: str = ""
    shards: int = 0
    damaged: int = 0
    records: int = 0
    bytes: int = 0
    problems: list[Problem] = dataclasses.field(default_factory=list)
    labels: Counter[str] = dataclasses.field(default_factory=Counter)

    def merge(self, other: Verified) -> None:
        """Adds what was found in other shards."""
        self.shards += other.shards
        self.damaged += other.damaged
        self.records += other.records
        self.bytes += other.bytes
        self.problems += other.problems
        self.labels.update(other.labels)

    def to_text(self) -> str:
        """One line that `from_text` reads."""
        return json.dumps(vars(self))

    @classmethod
    def from_text(cls, text: str) -> Verified:
        """Reads what `to_text` gave."""
        data = json.loads(text)
        problems = [Problem(*fields) for fields in data["problems"]]
        return cls(**{**data, "problems": problems, "labels": Counter(data["labels"])})


class RecordCheck(NamedTuple):
    """What one record turned out to be: its problems, and the classes that it counts for."""

    problems: tuple[str, ...]
    labels: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class RecordVerifier:
    """Checks records of one dataset.

    Attributes:
        features: those of the manifest.
        labels: the names in labels.txt by class id; None when class ids have no lines there.
        limits: those of the conversion.
        first_id: the lowest id that a label may have; None when it may be any.
    """

    features: tuple[Feature, ...]
    labels: Mapping[int, str] | None
    limits: Limits
    first_id: int | None = None

    @classmethod
    def of(cls, manifest: Mapping[str, Any], labels: Mapping[int, str]) -> RecordVerifier:
        """The verifier of the dataset that `manifest` describes, with the names in labels.txt."""
        options = manifest["options"]
        return cls(
            features=tuple(map(Feature.from_manifest, manifest["features"])),
            labels=labels if labels or manifest["labels"] == "text" else None,
            # Rows without images have no limits.
            limits=Limits(
                max_pixels=options.get("max_pixels") or sys.maxsize,
                max_bytes=options.get("max_bytes") or sys.maxsize,
            ),
            first_id=1 if options.get("layout") == DETECTION else None,
        )

    @property
    def largest_record(self) -> int:
        """The most bytes that a record may have."""
        # Rows without images have no limits, and small records.
        has_limits = sys.maxsize not in self.limits
        return largest_record(*self.limits) if has_limits else LARGEST_RECORD

    @property
    def tells_classes(self) -> bool:
        """Whether records say which class they are of."""
        return any(feature.from_label for feature in self.features)

    def check(self, record: bytes, *, decode: ImageCheck = check_image) -> RecordCheck:
        """Checks the schema, the label and the pixels of one serialized Example.

        Args:
            record: the serialized Example.
            decode: decodes an image, as `check_image` does.
        """
        try:
            example = decode_example(record)
        except ValueError as error:
            return RecordCheck((str(error),), ())
        problems = list(self._schema_problems(example))
        if problems:
            return RecordCheck(tuple(problems), ())
        values = {
            feature.source: example[feature.name][0]
            for feature in self.features
            if not feature.is_list
        }
        lists = {
            f.source: () if example.get(f.name) is None else example[f.name]
            for f in self.features
            if f.is_list
        }
        problems += self._label_problems(values)
        problems += self._list_problems(lists)
        problems += self._array_problems(example)
        problems += self._image_problems(values, decode)
        return RecordCheck(tuple(problems), self._labels(values, lists))

    def _schema_problems(self, example: Mapping[str, Any]) -> Iterator[str]:
        names = {feature.name for feature in self.features}
        if extra := sorted(set(example) - names):
            yield f"has the feature {extra[0]!r}, which the manifest does not list"
        for feature in self.features:
            values = example.get(feature.name)
            if feature.is_list and (values is None or not len(values)):
                continue
            if feature.shape and not feature.encoding:
                if values is None or len(values) != math.prod(feature.shape):
                    count = 0 if values is None else len(values)
                    told = f"{math.prod(feature.shape)} of shape {list(feature.shape)}"
                    yield f"feature {feature.name!r} has {count} values, not {told}"
                    continue
            elif values is None or (len(values) != 1 and not feature.is_list):
                yield f"feature {feature.name!r} has no single value"
                continue
            if values.dtype.kind != _KINDS[feature.dtype]:
                yield f"feature {feature.name!r} is not {feature.dtype}"

    def _array_problems(self, example: Mapping[str, Any]) -> Iterator[str]:
        """Whether the arrays have the size of their shape and only finite values."""
        for feature in self.features:
            if not feature.shape:
                continue
            array = example[feature.name]
            if feature.encoding:
                data = array[0]
                if len(data) != _ITEM_BYTES[feature.encoding] * math.prod(feature.shape):
                    told = f"{feature.encoding} of shape {list(feature.shape)}"
                    yield f"feature {feature.name!r} has {len(data)} bytes, not those of {told}"
                    continue
                if feature.encoding == RAW:
                    continue
                array = read_bfloat16(data)
            if array.dtype.kind == "f" and not np.isfinite(array).all():
                yield f"feature {feature.name!r} has values that are not finite"

    def _label_problems(self, values: Mapping[str, Any]) -> Iterator[str]:
        label_id = values.get("label.id")
        if label_id is not None and self.first_id is not None and label_id < self.first_id:
            yield f"label {label_id} is below {self.first_id}: readers keep 0 for the background"
            return
        if self.labels is None or label_id is None:
            return
        if label_id not in self.labels:
            yield f"label {label_id} is not a line of labels.txt"
        elif "label.text" in values and values["label.text"] != self.labels[label_id].encode():
            yield f"label {label_id} is {self.labels[label_id]!r} in labels.txt, but not here"

    def _list_problems(self, lists: Mapping[str, Any]) -> Iterator[str]:
        """Labels that are not as labels.txt has them, boxes of no sense, lists of other lengths."""
        for kind in ("label", "object"):
            ids, texts = lists.get(f"{kind}.ids"), lists.get(f"{kind}.texts")
            if ids is not None and texts is not None and len(ids) != len(texts):
                yield f"has {len(ids)} ids but {len(texts)} texts of its {kind}s"
                continue
            for at, label_id in enumerate(() if ids is None else ids):
                values = {"label.id": label_id}
                yield from self._label_problems(
                    values if texts is None else values | {"label.text": texts[at]}
                )
        boxes = {source: sides for source, sides in lists.items() if source.startswith("box.")}
        if len({len(sides) for sides in boxes.values()}) > 1:
            yield "its boxes have different numbers of sides"
        objects = {len(lists[source]) for source in OBJECT_COLUMNS if source in lists}
        if boxes and objects - {len(sides) for sides in boxes.values()}:
            yield "has other numbers of marks or areas than of boxes"
        if not all(0 <= side <= 1 for sides in boxes.values() for side in sides):
            yield "a side of a box is not in 0 to 1"

    def _image_problems(self, values: Mapping[str, Any], decode: ImageCheck) -> Iterator[str]:
        shape = [int(values[size]) for size in SIZES if size in values]
        if PIXELS in values and len(shape) == 3 and len(values[PIXELS]) != math.prod(shape):
            yield f"has {len(values[PIXELS])} bytes of pixels, not those of shape {shape}"
        if "image.bytes" not in values:
            return
        try:
            info = decode(values["image.bytes"], limits=self.limits)
        except RejectedImageError as error:
            yield f"the image is {error.reason.value}: {error.detail}"
            return
        for name, actual in _described(info).items():
            stored = values.get(f"image.{name}")
            stored = stored.decode(errors="replace") if isinstance(stored, bytes) else stored
            if stored is not None and stored != actual:
                yield f"the image's {name} is {actual}, the record says {stored}"

    def _labels(self, values: Mapping[str, Any], lists: Mapping[str, Any]) -> tuple[str, ...]:
        """The classes of a record, each once."""
        single = {source: (value,) for source, value in values.items()}
        known: dict[str, Any] = {**lists, **single}
        for source in ("label.text", "label.texts", "object.texts"):
            if source in known:
                texts = (text.decode(errors="replace") for text in known[source])
                return tuple(dict.fromkeys(texts)) or ("",)
        for source in ("label.id", "label.ids", "object.ids"):
            if source in known:
                return tuple(dict.fromkeys(map(self._class_of, known[source]))) or ("",)
        return ("",)

    def _class_of(self, label_id: int) -> str:
        if self.labels is None:
            return str(label_id)
        return self.labels.get(label_id, "")


def _described(info: ImageInfo) -> dict[str, Any]:
    return {name: getattr(info, name) for name in ("format", "height", "width", "channels")}


def ledger_problems(manifest: Mapping[str, Any]) -> Iterator[str]:
    """Whether the manifest's own numbers add up."""
    ledger = Ledger(**manifest["ledger"])
    try:
        ledger.check()
    except LedgerError as error:
        yield str(error)
    for name, split in manifest["splits"].items():
        if split["records"] != sum(shard["records"] for shard in split["shards"]):
            yield f"split {name!r} has other records than its shards together"
    if ledger.records_written != sum(split["records"] for split in manifest["splits"].values()):
        yield "the ledger has other records than the splits together"


def rejected_problems(manifest: Mapping[str, Any], text: str) -> Iterator[str]:
    """Whether `rejected.jsonl` holds the rejections that the ledger counts.

    Args:
        manifest: the dataset's.
        text: the content of the file.
    """
    try:
        lines = [parse_json(line) for line in text.splitlines()]
        reasons = Counter(line["reason"] for line in lines)
        images = sum(line["subject"] == "image" for line in lines)
    except (ValueError, TypeError, KeyError):
        yield "has a line that is no rejection"
        return
    if reasons != Counter(manifest["rejected"]):
        yield "has other reasons than the manifest counts"
    if images != manifest["ledger"]["images_rejected"]:
        rejected = manifest["ledger"]["images_rejected"]
        yield f"has {images} images, the ledger says {rejected} were rejected"


def class_problems(split: str, found: Counter[str], listed: Mapping[str, int]) -> Iterator[str]:
    """Whether a split holds as many records of each class as listed.

    Args:
        split: its name.
        found: records of each class that were read.
        listed: the same by the manifest.
    """
    for name in sorted({*found, *listed}, key=class_order):
        if found[name] != listed.get(name, 0):
            yield (
                f"split {split!r} has {found[name]} records of class {name!r}, the manifest "
                f"says {listed.get(name, 0)}"
            )
