"""What TFRecord files of any program hold: records, features, images, and what is wrong with them.

Nothing says what their features mean. So they are described over all records: names, types, numbers
of values. A feature whose values mostly begin as images do holds images.
"""

from __future__ import annotations

import dataclasses
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np
import xxhash

from transforms.core.messages import format_bytes, printable, quantity
from transforms.core.rejections import RejectedImageError
from transforms.dataset.record_checks import Problem
from transforms.examples.decoder import SequenceExampleError, decode_example, sequence_values
from transforms.examples.layouts import LAYOUTS
from transforms.examples.tfrecord import Part
from transforms.images.headers import image_format

# Names of features that are described: a hostile file has as many as it has bytes.
_MOST_NAMES = 1_000

# Of the names of a layout and of those found, how many must be in both to be alike.
_ALIKE = 0.5

_KINDS = {"O": "bytes", "i": "int64", "f": "float"}


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
        """Adds the values of a record, see `Looked`."""
        self.records += 1
        self.fewest, self.most = min(self.fewest, len(values)), max(self.most, len(values))
        for format_ in values if isinstance(values, list) else ():
            if format_:
                self.formats[format_] += 1
            else:
                self.others += 1
                self.other = self.other or place
        if isinstance(values, np.ndarray) and len(values) and values.dtype.kind == "i":
            low, high = int(values.min()), int(values.max())
            self.low = low if self.low is None else min(self.low, low)
            self.high = high if self.high is None else max(self.high, high)


# What a whole record holds: its digest, its features, whether it is a SequenceExample, and what is
# wrong with it. Of values of bytes, these are the formats of images; they may be large.
Looked: TypeAlias = tuple[int, Mapping[str, Any], bool, list[str]]


def look_at(part: Part, check: Callable[[bytes], object] | None) -> Looked:
    """What a part of a file holds; this may be done in any thread.

    Args:
        part: nothing is looked at if it is damaged.
        check: decodes an image, and raises RejectedImageError; None to decode none.
    """
    if part.problem:
        return 0, {}, False, []
    digest, is_sequence = xxhash.xxh3_64_intdigest(part.payload), False
    try:
        try:
            example = decode_example(part.payload)
        except SequenceExampleError:
            example, is_sequence = sequence_values(part.payload), True
    except ValueError as error:
        return digest, {}, False, [str(error)]
    features, problems = {}, []
    for name, values in example.items():
        if _kind(values) != "bytes":
            features[name] = values
            continue
        features[name] = [*map(image_format, values)]
        for value, format_ in zip(values, features[name], strict=True):
            try:
                if format_ and check is not None:
                    check(value)
            except RejectedImageError as error:
                problems.append(f"{printable(name)!r} is {error.reason.code}: {error.detail}")
    return digest, features, is_sequence, problems


def _kind(values: Any) -> str:
    # NumPy would make all texts of a list as long as the longest.
    is_array = isinstance(values, np.ndarray)
    return "unset" if values is None else _KINDS[values.dtype.kind] if is_array else "bytes"


class LooseRecords:
    """Adds up the parts of files, and finds what is wrong.

    Attributes:
        files: how many there are.
        records: whole ones.
        damaged: ranges of damaged bytes.
        bytes: of all records, uncompressed.
        sequences: SequenceExamples among the records.
        others: features of records that are not described, behind the first names.
        features: what is known of each feature, by name and type.
    """

    def __init__(self) -> None:
        self.files = self.records = self.damaged = self.bytes = self.sequences = self.others = 0
        self.features: dict[str, dict[str, Described]] = {}
        self._digests = array("Q")

    def add(self, file: str, part: Part, looked: Looked) -> Iterator[Problem]:
        """Adds a part of a file with the result of `look_at`, and names its problems."""
        self.bytes += part.length
        if part.problem:
            self.damaged += 1
            yield Problem(file, part.record, part.damage)
            return
        digest, example, is_sequence, problems = looked
        self.records += 1
        self.sequences += is_sequence
        self._digests.append(digest)
        for name, values in example.items():
            self._describe(name, values, (file, part.record))
        for problem in problems:
            yield Problem(file, part.record, problem)

    def _describe(self, name: str, values: Any, place: tuple[str, int]) -> None:
        if name not in self.features and len(self.features) >= _MOST_NAMES:
            self.others += 1
            return
        found = self.features.setdefault(name, {}).setdefault(_kind(values), Described(place))
        found.add(() if values is None else values, place)

    def differing(self) -> Iterator[Problem]:
        """Features of which some records hold other values than most."""
        for name, kinds in sorted(self.features.items()):
            usual = max(kinds, key=lambda kind: kinds[kind].records)
            for kind, found in kinds.items():
                images, more = found.formats.total(), f"; in {quantity(found.records, 'record')}"
                if kind not in (usual, "unset"):
                    detail = f"{printable(name)!r} is {kind}{more}, {usual} in "
                    yield Problem(*found.first, f"{detail}{kinds[usual].records}")
                if found.other is not None and images > found.others:
                    more = f"; {found.others} of {images + found.others} values are not"
                    yield Problem(*found.other, f"{printable(name)!r} is not an image{more}")

    def repeated(self) -> int:
        """Records that are equal to another one, byte for byte, without the first of each."""
        digests = np.frombuffer(self._digests, np.uint64)
        return len(digests) - len(np.unique(digests))

    def to_json(self) -> dict[str, Any]:
        """The summary, for programs."""
        features = {
            name: {
                kind: {
                    "records": found.records,
                    "values": [found.fewest, found.most],
                    "range": None if found.low is None else [found.low, found.high],
                    "images": dict(sorted(found.formats.items())),
                }
                for kind, found in sorted(kinds.items())
            }
            for name, kinds in sorted(self.features.items())
        }
        counts = {
            each: getattr(self, each)
            for each in ("files", "records", "damaged", "bytes", "sequences", "others")
        }
        return {**counts, "repeated": self.repeated(), "like": self._like(), "features": features}

    def lines(self) -> Iterator[str]:
        """The summary, for people."""
        notes = [f"{self.sequences} SequenceExamples"] if self.sequences else []
        if repeated := self.repeated():
            notes.append(f"{repeated} equal to an earlier one")
        if self.damaged:
            notes.append(f"{self.damaged} damaged")
        more = f" ({', '.join(notes)})" if notes else ""
        yield f"files    {self.files}"
        yield f"records  {self.records}{more}, {format_bytes(self.bytes)}"
        if like := self._like():
            yield f"layout   like {like}"
        rows = [
            (printable(name), kind, str(found.records), _values(found))
            for name, kinds in sorted(self.features.items())
            for kind, found in sorted(kinds.items())
        ]
        if rows:
            rows.insert(0, ("feature", "type", "records", "values"))
            width = max(len(row[0]) for row in rows)
            for name, kind, records, values in rows:
                yield f"{name:<{width}}  {kind:<5} {records:>9}  {values}"
        if self.others:
            yield f"others   {self.others} of further names, which are checked and not described"

    def _like(self) -> str:
        names = self.features.keys()
        alike = {
            layout: len(names & (known := {each.name for each in features})) / len(names | known)
            for layout, features in LAYOUTS.items()
        }
        best = max(alike, key=lambda layout: alike[layout])
        return best if alike[best] >= _ALIKE else ""


def _values(found: Described) -> str:
    count = f"{found.fewest}" + (f" to {found.most}" if found.most > found.fewest else "")
    said = [f"{count} each"]
    said += [f"{number} {kind}" for kind, number in found.formats.most_common()]
    if found.low is not None:
        said.append(f"from {found.low} to {found.high}")
    return ", ".join(said)
