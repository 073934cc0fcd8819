"""What TFRecord files of any program hold: records, features, images, and what is wrong with them.

Nothing says what their features mean. So they are described over all records: names, types, numbers
of values. A feature whose values mostly begin as images do holds images.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

import xxhash

from transforms.core.messages import format_bytes, printable, quantity
from transforms.core.rejections import RejectedImageError
from transforms.dataset.record_checks import Problem
from transforms.examples.decoder import SequenceExampleError, decode_example, sequence_values
from transforms.examples.layouts import LAYOUTS
from transforms.examples.tfrecord import Part
from transforms.images.headers import image_format
from transforms.records.foreign_records import Described, Noted, kind_of

# Of the names of a layout and of those found, how many must be in both to be alike.
_ALIKE = 0.5


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
        if kind_of(values) != "bytes":
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


class LooseRecords(Noted):
    """Adds up the parts of files, and finds what is wrong.

    Attributes:
        files: how many there are.
        damaged: ranges of damaged bytes.
        bytes: of all records, uncompressed.
        sequences: SequenceExamples among the records.
    """

    def __init__(self) -> None:
        super().__init__()
        self.files = self.damaged = self.bytes = self.sequences = 0

    def add(self, file: str, part: Part, looked: Looked) -> Iterator[Problem]:
        """Adds a part of a file with the result of `look_at`, and names its problems."""
        self.bytes += part.length
        if part.problem:
            self.damaged += 1
            yield Problem(file, part.record, part.damage)
            return
        digest, example, is_sequence, problems = looked
        self.sequences += is_sequence
        self.digests.append(digest)
        self.add_features(example, (file, part.record))
        for problem in problems:
            yield Problem(file, part.record, problem)

    def differing(self) -> Iterator[Problem]:
        """Features of which some records hold other values than most."""
        for name, kinds in sorted(self.kinds.items()):
            usual = max(kinds, key=lambda kind: kinds[kind].records)
            for kind, found in kinds.items():
                images, more = found.formats.total(), f"; in {quantity(found.records, 'record')}"
                if kind not in (usual, "unset"):
                    detail = f"{printable(name)!r} is {kind}{more}, {usual} in "
                    yield Problem(*found.first, f"{detail}{kinds[usual].records}")
                if found.other is not None and images > found.others:
                    more = f"; {found.others} of {images + found.others} values are not"
                    yield Problem(*found.other, f"{printable(name)!r} is not an image{more}")

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
            for name, kinds in sorted(self.kinds.items())
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
            for name, kinds in sorted(self.kinds.items())
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
        names = self.kinds.keys()
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
