"""Compares records with the manifest; every difference is one `Problem`."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import math
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from transforms.core.messages import parse_json
from transforms.core.records import Totals
from transforms.core.rejections import RejectedImageError
from transforms.dataset.ledger import Ledger, LedgerError
from transforms.examples.decoder import decode_example, values_of
from transforms.examples.layouts import (
    DETECTION,
    PIXELS,
    RAW,
    SIZES,
    SOURCES,
    Feature,
    Role,
    Source,
    source_of,
)
from transforms.examples.partners import partner_problems
from transforms.examples.tfrecord import LARGEST_RECORD, largest_record
from transforms.images.check import check_image
from transforms.images.checked_images import ImageInfo
from transforms.images.embeddings import read_bfloat16
from transforms.images.pixel_options import Limits
from transforms.labels.vocabulary import class_order

MAX_PROBLEMS = 1000
"""Problems of a split that are kept; the others are counted."""

_Held = Mapping[str, Sequence[Any]]  # the values of a record by their source

_KINDS = {"bytes": "O", "int64": "i", "float": "f"}

# Bytes of a value in an encoded array.
_ITEM_BYTES = {"bfloat16": 2, RAW: 1}


ImageCheck = Callable[..., ImageInfo]
"""Decodes an image as `check_image` does: of bytes, with `limits`."""


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
class Verified(Totals):
    """The result of reading some shards; mergeable.

    Attributes:
        split: their split; empty when it does not matter.
        shards: how many they are.
        damaged: how many of them have a problem.
        records: records that could be read.
        bytes: bytes of the files.
        problems: the first problems of each shard; of very many, the first files and the last one.
        labels: records of each class.
        more: problems that are not kept.
    """

    split: str = ""
    shards: int = 0
    damaged: int = 0
    records: int = 0
    bytes: int = 0
    problems: list[Problem] = dataclasses.field(default_factory=list)
    labels: Counter[str] = dataclasses.field(default_factory=Counter)
    more: int = 0

    def merge(self, other: Verified) -> None:
        """Adds the results of other shards."""
        super().merge(other)
        self.add_problems(other.problems)

    def add_problems(self, problems: Iterable[Problem]) -> None:
        """Adds problems; no more than `MAX_PROBLEMS` are kept, whatever the order of merging."""
        problems = iter(problems)
        # Sorting takes as long for one more problem as for a thousand.
        while some := [*itertools.islice(problems, MAX_PROBLEMS)]:
            self.problems += some
            if len(self.problems) > MAX_PROBLEMS:
                self.sort_problems()
                self.more += len(self.problems) - MAX_PROBLEMS
                del self.problems[MAX_PROBLEMS - 1 : -1]

    def sort_problems(self) -> None:
        """Sorts problems by file, those of a file last; those of records stay in their order."""
        self.problems.sort(key=lambda problem: (problem.file, problem.record is None))

    def to_text(self) -> str:
        """One line that `from_text` reads."""
        return json.dumps(vars(self))

    @classmethod
    def from_text(cls, text: str) -> Verified:
        """Reads the result of `to_text`."""
        data = json.loads(text)
        problems = [Problem(*fields) for fields in data["problems"]]
        return cls(**{**data, "problems": problems, "labels": Counter(data["labels"])})


class RecordCheck(NamedTuple):
    """The result of checking one record: its problems, and the classes that it counts for."""

    problems: tuple[str, ...]
    labels: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class RecordVerifier:
    """Checks records of one dataset.

    Attributes:
        features: those of the manifest.
        labels: the names in labels.txt by class id; None when class ids have no lines there.
        limits: those of the conversion.
        first_id: the lowest id that a label may have; None for any.
    """

    features: tuple[Feature, ...]
    labels: Mapping[int, str] | None
    limits: Limits
    first_id: int | None = None

    @classmethod
    def of(cls, manifest: Mapping[str, Any]) -> RecordVerifier:
        """The verifier of the dataset that `manifest` describes, without the names of classes."""
        options = manifest["options"]
        return cls(
            features=tuple(map(Feature.from_manifest, manifest["features"])),
            labels={} if manifest["labels"] == "text" else None,
            # Rows without images have no limits.
            limits=Limits(
                max_pixels=options.get("max_pixels") or sys.maxsize,
                max_bytes=options.get("max_bytes") or sys.maxsize,
            ),
            first_id=1 if options.get("layout") in DETECTION else None,
        )

    @property
    def largest_record(self) -> int:
        """The most bytes that a record may have."""
        # Rows without images have no limits, and small records.
        has_limits = sys.maxsize not in self.limits
        return largest_record(*self.limits) if has_limits else LARGEST_RECORD

    def check(
        self,
        record: bytes,
        *,
        decode: ImageCheck = check_image,
        more: Callable[[_Held], Iterable[str]] | None = None,
    ) -> RecordCheck:
        """Checks the schema, the label and the pixels of one serialized Example.

        Args:
            record: the serialized Example.
            decode: decodes an image, as `check_image` does.
            more: gives further problems of the values of a record, by their source.
        """
        try:
            example = decode_example(record)
        except ValueError as error:
            return RecordCheck((str(error),), ())
        problems = list(self._schema_problems(example))
        if problems:
            return RecordCheck(tuple(problems), ())
        held = {feature.source: values_of(example, feature.name) for feature in self.features}
        problems += self._class_problems(held)
        problems += _box_problems(held)
        problems += self._array_problems(example)
        problems += self._image_problems(held, decode)
        if more is not None:
            problems += more(held)
        return RecordCheck(tuple(problems), self._labels(held))

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
                    wanted = f"{math.prod(feature.shape)} of shape {list(feature.shape)}"
                    yield f"feature {feature.name!r} has {count} values, not {wanted}"
                    continue
            elif values is None or (len(values) != 1 and not feature.is_list):
                yield f"feature {feature.name!r} does not have exactly one value"
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
                    wanted = f"{feature.encoding} of shape {list(feature.shape)}"
                    yield f"feature {feature.name!r} has {len(data)} bytes, not {wanted}"
                    continue
                if feature.encoding == RAW:
                    continue
                array = read_bfloat16(data)
            if array.dtype.kind == "f" and not np.isfinite(array).all():
                yield f"feature {feature.name!r} has values that are not finite"

    def _class_problems(self, held: _Held) -> Iterator[str]:
        """Class ids and texts that differ from labels.txt."""
        for source, ids in _with_role(held, Role.CLASS_ID):
            texts = held.get(source.texts)
            if texts is not None and len(ids) != len(texts):
                kind = "object" if source.of_object else "label"
                yield f"has {len(ids)} {kind} ids but {len(texts)} {kind} texts"
                continue
            for at, label_id in enumerate(ids):
                yield from self._label_problems(label_id, None if texts is None else texts[at])

    def _label_problems(self, label_id: int, text: bytes | None) -> Iterator[str]:
        if self.first_id is not None and label_id < self.first_id:
            yield f"label {label_id} is below {self.first_id}: readers reserve 0 for the background"
        elif self.labels is None:
            return
        elif label_id not in self.labels:
            yield f"label {label_id} is not a line of labels.txt"
        elif text is not None and text != self.labels[label_id].encode():
            yield f"label {label_id} is {self.labels[label_id]!r} in labels.txt, but not here"

    def _image_problems(self, held: _Held, decode: ImageCheck) -> Iterator[str]:
        held = {source: values for source, values in held.items() if len(values)}
        shape = [int(held[size][0]) for size in SIZES if size in held]
        if PIXELS in held and len(shape) == 3 and len(held[PIXELS][0]) != math.prod(shape):
            yield f"has {len(held[PIXELS][0])} bytes of pixels, which do not fit the shape {shape}"
        for _, data in _with_role(held, Role.IMAGE):
            try:
                info = decode(data[0], limits=self.limits)
            except RejectedImageError as error:
                yield f"the image is {error.reason.code}: {error.detail}"
                return
            for source, (stored, *_) in _with_role(held, Role.HEADER):
                name = source.name.rpartition(".")[2]
                actual = getattr(info, name)
                stored = stored.decode(errors="replace") if isinstance(stored, bytes) else stored
                if stored != actual:
                    yield f"the image's {name} is {actual}, the record says {stored}"
            held = {**held, SIZES[0]: [info.height], SIZES[1]: [info.width]}
        size = (held[SIZES[0]][0], held[SIZES[1]][0]) if held.keys() >= {*SIZES[:2]} else None
        yield from partner_problems(held, size, functools.partial(decode, limits=self.limits))

    def _labels(self, held: _Held) -> tuple[str, ...]:
        """The classes of a record, each once."""
        for _, texts in _with_role(held, Role.CLASS_TEXT):
            return tuple(dict.fromkeys(text.decode(errors="replace") for text in texts)) or ("",)
        for _, ids in _with_role(held, Role.CLASS_ID):
            return tuple(dict.fromkeys(map(self._class_of, ids))) or ("",)
        return ("",)

    def _class_of(self, label_id: int) -> str:
        return str(label_id) if self.labels is None else self.labels.get(label_id, "")


def _with_role(held: _Held, role: Role) -> Iterator[tuple[Source, Sequence[Any]]]:
    """The sources of a record that have a role, in the order of the registry, and their values."""
    for name, source in SOURCES.items():
        if source.role is role and name in held:
            yield source, held[name]


def _box_problems(held: _Held) -> Iterator[str]:
    """Invalid boxes, and lists of different lengths."""
    boxes = [sides for _, sides in _with_role(held, Role.COORDINATE)]
    sizes = {len(sides) for sides in boxes}
    if len(sizes) > 1:
        yield "its lists of box coordinates have different lengths"
    objects = {len(values) for name, values in held.items() if source_of(name).columns}
    if boxes and objects - sizes:
        yield "its lists of box attributes and of boxes have different lengths"
    if not all(0 <= side <= 1 for sides in boxes for side in sides):
        yield "a box coordinate is not between 0 and 1"


def ledger_problems(manifest: Mapping[str, Any]) -> Iterator[str]:
    """Checks that the manifest's own numbers add up."""
    ledger = Ledger(**manifest["ledger"])
    try:
        ledger.check()
    except LedgerError as error:
        yield str(error)
    for name, split in manifest["splits"].items():
        if split["records"] != sum(shard["records"] for shard in split["shards"]):
            yield f"split {name!r} has another number of records than its shards together"
    if ledger.records_written != sum(split["records"] for split in manifest["splits"].values()):
        yield "the ledger has another number of records than the splits together"


def rejected_problems(manifest: Mapping[str, Any], lines: Iterable[bytes]) -> Iterator[str]:
    """Whether `rejected.jsonl` holds the rejections that the ledger counts.

    Args:
        manifest: the dataset's.
        lines: those of the file.
    """
    reasons: Counter[str] = Counter()
    images = 0
    try:
        for line in lines:
            rejection = parse_json(line)
            reasons[rejection["reason"]] += 1
            images += rejection["subject"] == "image"
    except (ValueError, TypeError, KeyError):
        yield "has a line that is not a rejection"
        return
    if reasons != Counter(manifest["rejected"]):
        yield "its counts of reasons differ from the manifest"
    if images != manifest["ledger"]["images_rejected"]:
        rejected = manifest["ledger"]["images_rejected"]
        yield f"lists {images} images, the ledger counts {rejected} rejected images"


def class_problems(split: str, found: Counter[str], listed: Mapping[str, int]) -> Iterator[str]:
    """Whether a split holds as many records of each class as listed.

    Args:
        split: its name.
        found: records of each class that were read.
        listed: the same by the manifest.
    """
    each = ((name, found.get(name, 0), listed.get(name, 0)) for name in {*found, *listed})
    unlike = {name: (has, said) for name, has, said in each if has != said}
    # To order a million names takes 10 s.
    for name in sorted(unlike, key=class_order if len(unlike) <= MAX_PROBLEMS else None):
        has, said = unlike[name]
        yield f"split {split!r} has {has} records of class {name!r}, the manifest says {said}"
