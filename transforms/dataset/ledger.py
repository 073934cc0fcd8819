"""Counts of a run and of its shards, and whether they add up."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import google_crc32c

from transforms.core import rejections
from transforms.core.messages import LabelsError, parse_json, quantity
from transforms.core.records import Count, PlannedImage, RejectedPart, Totals, partner_files
from transforms.core.rejections import Reason, Rejection, RejectionLimit, RejectionTotals
from transforms.dataset.image_statistics import DatasetWarning, Statistics, split_warnings
from transforms.dataset.output_names import (
    REJECTED,
    ImageFile,
    is_attempt,
    is_chosen,
    staged_shard,
)
from transforms.labels.joins import row_labels
from transforms.labels.shards import ShardName, empty_shards_warning, splits_in_order
from transforms.labels.vocabulary import LabelCells, Vocabulary, class_order, merge_cells

# Counts: totals of the plan, summaries of shards, and the ledger of the whole run.

MAX_CLASSES = 2_000_000
"""Different labels of a dataset: 100 bytes each in the totals, and 75 in each vocabulary.

The totals are one element, of 20 to 40 bytes for each: Beam's limit for an element is 100 MB.
"""

MAX_TAGS = 50_000
"""Different labels of fewer images: each takes 0.1 ms of a run, and a few bytes of its row."""


@dataclasses.dataclass
class PlanTotals(Totals):
    """Totals over all labelled images; a mergeable accumulator.

    Both ways of counting raise `LabelsError` for more than `MAX_CLASSES` labels.

    Attributes:
        images: images of each split.
        bytes: listed bytes of each split's images, with their masks and further images.
        labels: images with each label text, also an empty one.
        rows_used: label rows that gave an image its label, or the cells that the layout needs.
        rows_repeated: further rows with the same content.
        partners_used: files of masks and further images of these images.
        cells: how many of the labels read are integers, text or missing.
        label_kind: `integer`, `text` or `none`; `auto` before it is decided.
        shard_starts: with `--shard_by records`, the orders at which the shards of each split begin,
            without its first shard.
    """

    images: Counter[str] = dataclasses.field(default_factory=Counter)
    bytes: Counter[str] = dataclasses.field(default_factory=Counter)
    labels: Counter[str] = dataclasses.field(default_factory=Counter)
    rows_used: int = 0
    rows_repeated: int = 0
    partners_used: int = 0
    cells: LabelCells = LabelCells()
    label_kind: str = "auto"
    shard_starts: Mapping[str, Sequence[int]] = dataclasses.field(default_factory=dict)

    def add(self, image: PlannedImage) -> None:
        """Counts one image."""
        self.images[image.split] += 1
        self.bytes[image.split] += image.size
        self.labels[image.label] += 1
        if image.partners:
            files = partner_files(image.partners)
            self.bytes[image.split] += sum(file.size for file in files)
            self.partners_used += len(files)
        if image.cells:
            used, labels = row_labels(image.cells)
            # The labels of an image that is a record of a dataset are of no row.
            used = min(used, image.rows)
            self.labels.update({*labels} - {image.label})
            self.rows_used += used
            self.rows_repeated += image.rows - used
        elif image.rows:
            self.rows_used += 1
            self.rows_repeated += image.rows - 1
        self.check_classes()

    def merge(self, other: PlanTotals) -> None:
        """Adds the counts of `other`."""
        super().merge(other)
        self.cells = merge_cells((self.cells, other.cells))
        self.check_classes()

    def classes(self, vocabulary: Vocabulary) -> Counter[str]:
        """The images of each class; those with other labels are rejected."""
        found: Counter[str] = Counter()
        for label, images in self.labels.items():
            if vocabulary.id_of(label) is not None:
                found[vocabulary.text_of(label)] += images
        return found

    def check_classes(self, most: int = 0) -> None:
        """Checks that there are no more labels than a dataset may have, or than `most`."""
        if len(self.labels) > (most or MAX_CLASSES):
            some = ", ".join(f"{label[:40]!r}" for label in sorted(filter(None, self.labels))[:3])
            raise LabelsError(
                f"more than {most or MAX_CLASSES} different labels"
                f"{' of fewer images' if most else ''} (such as {some}), and each is a class: "
                "correct --label_column or --label_from, or leave out rare labels; "
                "--label_from none needs none"
            )


@dataclasses.dataclass(frozen=True, slots=True)
class ShardSummary:
    """The content of one shard file. The worker that publishes holds those of all shards.

    Attributes:
        file: its name.
        recipe: digest of its inputs and options, see `shard_recipe`.
        records: records in it.
        bytes: bytes of the file.
        crc32c: checksum of the file, 8 hexadecimal digits.
        image_bytes: bytes of the images in it.
        labels: records of each label text.
        rejections: its images that are not in it.
        pixels: records of each change, names from `pixel_options.CHANGES`; empty if no option
            changes pixels.
        files: of the images, in the order of the records, if each has its own file; None
            if they are in one file.
        folder: the folder of these files, below the staging folder.
        statistics: of its images, see `Statistics.to_json`; empty if there are none.
        index_bytes: bytes of its index.
        index_crc32c: checksum of its index, 8 hexadecimal digits; empty if it has none.
        sha256: of the file, 64 hexadecimal digits; empty if the dataset has no name, and for files
            of single images.
        index_sha256: of its index; empty if the dataset has no name.
        roots: digest of the folders below which the paths of its images begin, see `Roots`.
        chosen: the name that `--file_name` gives it in the dataset; empty for `file`.
    """

    file: str
    recipe: str
    records: int = 0
    bytes: int = 0
    crc32c: str = ""
    image_bytes: int = 0
    labels: Mapping[str, int] = dataclasses.field(default_factory=dict)
    rejections: tuple[Rejection, ...] = ()
    pixels: Mapping[str, int] = dataclasses.field(default_factory=dict)
    statistics: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    files: tuple[ImageFile, ...] | None = None
    folder: str = ""
    index_bytes: int = 0
    index_crc32c: str = ""
    sha256: str = ""
    index_sha256: str = ""
    roots: str = ""
    chosen: str = ""

    @property
    def published(self) -> str:
        """Its name in the dataset."""
        return self.chosen or self.file

    @property
    def staged(self) -> list[str]:
        """The names of its files below the staging folder."""
        if self.files is None:
            return [f"{self.file}.{self.recipe}"]
        return [f"{self.folder}/{number:07d}" for number in range(len(self.files))]

    @property
    def staged_index(self) -> str:
        """The name of its index below the staging folder."""
        return f"{self.file}.{self.recipe}.parquet"

    def is_of(self, file: str, recipe: str) -> bool:
        """Whether it describes this shard, and its files are in the staging folder.

        >>> ShardSummary("a", "b").is_of("a", "b"), ShardSummary("../a", "b").is_of("a", "b")
        (True, False)
        """
        is_staged = self.files is None or (
            is_attempt(self.folder) and staged_shard(self.folder) == (file, recipe)
        )
        names = (self.chosen, *(each.name for each in self.files or ()))
        is_named = all(map(is_chosen, filter(None, names)))
        return (self.file, self.recipe) == (file, recipe) and is_staged and is_named

    def to_sidecar(self) -> str:
        """The text of the sidecar of a staged shard: a line, and its digest."""
        # `asdict` would copy each rejection.
        line = json.dumps({name: getattr(self, name) for name in self.__slots__})
        return f"{line}\n{_line_digest(line)}\n"

    @classmethod
    def from_sidecar(cls, text: str) -> ShardSummary | None:
        """Reads the result of `to_sidecar`; None if it is truncated or damaged."""
        lines = text.split("\n")
        if len(lines) != 3 or lines[2] or _line_digest(lines[0]) != lines[1]:
            return None
        try:
            data = parse_json(lines[0])
            data["rejections"] = tuple(Rejection(*fields) for fields in data["rejections"])
            if data["files"] is not None:
                data["files"] = tuple(ImageFile(*fields) for fields in data["files"])
            return cls(**data)
        except (ValueError, TypeError, KeyError):
            return None


# One for all: objects that are pickled together get one, too.
_NOTHING: dict[str, Any] = {}


def shortened(shard: ShardSummary) -> ShardSummary:
    """A shard without what `RunTotals` add up: less than 170 bytes instead of 30 to 41 kB."""
    return dataclasses.replace(
        shard, labels=_NOTHING, pixels=_NOTHING, statistics=_NOTHING, rejections=(), roots=""
    )


def with_index(shard: ShardSummary, index: bytes, *, with_sha256: bool) -> ShardSummary:
    """The summary of a shard with that of its index.

    Args:
        shard: without an index.
        index: the file.
        with_sha256: whether to compute its SHA-256.
    """
    return dataclasses.replace(
        shard,
        index_bytes=len(index),
        index_crc32c=f"{google_crc32c.value(index):08x}",
        index_sha256=hashlib.sha256(index).hexdigest() if with_sha256 else "",
    )


def _line_digest(line: str) -> str:
    return hashlib.blake2b(line.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


# What is counted, all of it, its parts, and those that are only named if there are any.
_BALANCES = (
    ("images", "images matched", ("written", "rejected"), ("left_out",)),
    ("rows", "rows read", ("used", "repeated", "unmatched", "rejected"), ("written", "left_out")),
    (
        "partners",
        "masks and further images matched",
        ("used", "unmatched", "rejected", "left_out"),
        (),
    ),
)


class LedgerError(RuntimeError):
    """The counts do not add up: an item was lost or counted twice."""


@dataclasses.dataclass(frozen=True)
class Ledger:
    """All inputs and what became of them.

    Attributes:
        images_matched: distinct images that the globs matched.
        records_written: records in the shards.
        images_rejected: images with a line in `rejected.jsonl`.
        rows_read: label rows in the CSV files, without headers and blank lines.
        rows_used: rows that gave an image its label.
        rows_repeated: further rows with the same content for the same image.
        rows_unmatched: rows without an image.
        rows_rejected: rows that are malformed, that contradict each other, or that name
            several images at once.
        rows_written: rows that became a record each, without an image.
        images_left_out: images whose key `--keys` does not list.
        rows_left_out: rows with such a key.
        partners_matched: distinct files of masks and further images.
        partners_used: those of images that were planned.
        partners_unmatched: those without an image.
        partners_rejected: those of rejected images, and those that cannot be read.
        partners_left_out: those with a key that `--keys` does not list.
    """

    images_matched: int
    records_written: int
    images_rejected: int
    rows_read: int
    rows_used: int
    rows_repeated: int
    rows_unmatched: int
    rows_rejected: int
    rows_written: int = 0
    images_left_out: int = 0
    rows_left_out: int = 0
    partners_matched: int = 0
    partners_used: int = 0
    partners_unmatched: int = 0
    partners_rejected: int = 0
    partners_left_out: int = 0

    @property
    def images_written(self) -> int:
        """The records that were made of images."""
        return self.records_written - self.rows_written

    @property
    def images_selected(self) -> int:
        """The images that were not left out."""
        return self.images_matched - self.images_left_out

    def to_manifest(self) -> dict[str, int]:
        """The entry `ledger` of the manifest; optional counts, only if they are not 0."""
        counts: dict[str, int] = dataclasses.asdict(self)
        return {name: count for name, count in counts.items() if count or not is_optional(name)}

    def check(self) -> None:
        """Checks that nothing was lost.

        Raises:
            LedgerError: inputs and outputs do not balance.
        """
        for what, whole, parts, others in _BALANCES:
            total = getattr(self, f"{what}_{whole.rpartition(' ')[2]}")
            counts = {name: getattr(self, f"{what}_{name}") for name in (*parts, *others)}
            if total != sum(counts.values()):
                named = (
                    f"{count} {name.replace('_', ' ')}"
                    for name, count in counts.items()
                    if count or name in parts
                )
                raise LedgerError(
                    f"the ledger does not balance: {total} {whole}, but {' + '.join(named)} = "
                    f"{sum(counts.values())}"
                )


def is_optional(count: str) -> bool:
    """Whether a manifest has a count of the ledger only with `--keys`, or with masks."""
    return count.startswith("partners_") or count.endswith("_left_out")


def count_reasons(reasons: Mapping[tuple[str, str], int]) -> dict[str, int]:
    """The number of rejections for each reason, the most frequent first.

    Args:
        reasons: their number by subject and reason.
    """
    counts: Counter[str] = Counter()
    for (_, reason), number in reasons.items():
        counts[reason] += number
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


# RunTotals: what is added up of a run, in any order.

MAX_SAMPLED = 10_000
"""Of more rejections, so many say where parts begin, and are listed where all would be too many."""


@dataclasses.dataclass
class RunTotals(Totals):
    """Totals of a run that may have any number of images; a mergeable accumulator.

    Attributes:
        counts: numbers of the listing, the reading and the join.
        rejected: totals of the rejections.
        labels: records of each label text, by split; splits without a shard are left out.
        pixels: records of each change to the pixels, by name.
        statistics: of the images.
    """

    counts: Counter[str] = dataclasses.field(default_factory=Counter)
    rejected: RejectionTotals = dataclasses.field(default_factory=RejectionTotals)
    labels: dict[str, Counter[str]] = dataclasses.field(default_factory=dict)
    pixels: Counter[str] = dataclasses.field(default_factory=Counter)
    statistics: Statistics = dataclasses.field(default_factory=Statistics)
    # Plain tuples are pickled in a third of the time.
    _sample: list[tuple[int, tuple[str, ...]]] = dataclasses.field(default_factory=list)

    def add(self, element: Count | Rejection | ShardSummary) -> None:
        """Adds a count, a rejection of the join or the plan, or a shard with its rejections."""
        if isinstance(element, Count):
            self.counts[element.name] += element.value
        elif isinstance(element, Rejection):
            self.rejected.add(element)
            self._keep([_sampled(element)])
        else:
            self._add_labels(ShardName.parse(element.file).split, element.labels)
            self.pixels.update(element.pixels)
            self.statistics.merge(Statistics.from_json(element.statistics))
            for rejection in element.rejections:
                self.rejected.add(rejection, is_of_shard=True)
            self._keep(map(_sampled, element.rejections))

    def merge(self, other: RunTotals) -> None:
        """Adds the totals of another part of the run."""
        super().merge(other)
        for split, labels in other.labels.items():
            self._add_labels(split, labels)
        self._keep(other._sample)

    def _add_labels(self, split: str, labels: Mapping[str, int]) -> None:
        self.labels.setdefault(split, Counter()).update(labels)

    def _keep(self, sample: Iterable[tuple[int, tuple[str, ...]]]) -> None:
        self._sample.extend(sample)
        if len(self._sample) > 2 * MAX_SAMPLED:
            self._sample = sorted(self._sample)[:MAX_SAMPLED]

    def split_classes(self, splits: Iterable[str]) -> dict[str, dict[str, int]]:
        """Records of each label in each split, labels in the order of `class_order`.

        Args:
            splits: all of them, in order; those without a shard are left out.
        """
        return {
            split: {label: labels[label] for label in sorted(labels, key=class_order)}
            for split in splits
            if (labels := self.labels.get(split)) is not None
        }

    @property
    def sample(self) -> list[Rejection]:
        """All rejections, sorted; of more than `MAX_SAMPLED`, some that every retry gives."""
        return sorted(Rejection(*fields) for _, fields in sorted(self._sample)[:MAX_SAMPLED])


def _sampled(rejection: Rejection) -> tuple[int, tuple[str, ...]]:
    """The place of a rejection in the sample, and its fields."""
    path_and_key = f"{rejection.path}\0{rejection.key}"
    return zlib.crc32(path_and_key.encode(errors="replace")), tuple(rejection)


# All counts of a finished run, in a fixed order.


class Gathered(NamedTuple):
    """All counts of a run, in a fixed order.

    Attributes:
        splits: names of the splits in their order.
        totals: totals of the plan.
        shards: sorted by split and number.
        run: totals of the run; what they hold of shards may be left out of `shards`.
        of_rows: whether records are made of rows, without images.
        parts: the parts of `rejected.jsonl` that workers wrote; None if nothing is written.
    """

    splits: tuple[str, ...]
    totals: PlanTotals
    shards: list[ShardSummary]
    run: RunTotals
    of_rows: bool = False
    parts: list[RejectedPart] | None = None

    @property
    def reasons(self) -> Counter[tuple[str, str]]:
        """The number of all rejections by subject and reason."""
        return self.run.rejected.reasons

    @property
    def failed(self) -> tuple[int, int]:
        """The number of rejections, and the total: of images, or of rows without images.

        Exact duplicates that were dropped as requested, also of images held out, do not count as
        rejected.
        """
        ledger = self.ledger
        if self.of_rows:
            return ledger.rows_rejected, ledger.rows_read
        dropped = self.reasons["image", Reason.DUPLICATE_IMAGE.code]
        dropped += self.reasons["image", Reason.HOLDOUT_IMAGE.code]
        return ledger.images_rejected - dropped, ledger.images_selected

    @property
    def unlisted(self) -> int:
        """The number of rejections that were too many for `rejected.jsonl`."""
        count = self.run.rejected.count
        return 0 if self.parts is None or count <= rejections.MAX_LISTED else count

    def check(self) -> None:
        """Checks that every input is accounted for.

        Raises:
            LedgerError: one is not.
        """
        self.ledger.check()
        if self.parts is not None and not self.unlisted:
            lines = sum(part.lines for part in self.parts)
            if lines != (count := self.run.rejected.count):
                raise LedgerError(f"{lines} of {count} lines of {REJECTED} written")

    @property
    def unselected(self) -> str:
        """Why a run whose images are all left out is not published; empty if some are kept."""
        ledger = self.ledger
        if not ledger.images_left_out or ledger.images_selected:
            return ""
        left = ledger.images_left_out
        images = f"all {left} images were" if left > 1 else "the only image was"
        return f"no image has a key in --keys: {images} left out; nothing published"

    def refusal(self, limit: RejectionLimit, lines: str) -> str:
        """Why a run with too many rejections is not published, and what to do.

        Args:
            limit: those that may be rejected.
            lines: the path of the file that lists them.
        """
        rejected, count = self.failed
        why = f"{rejected} of {count} {'rows' if self.of_rows else 'images'} rejected, more than "
        why += f"--max_rejected ({limit})"
        listed, action = "", "fix these inputs, or raise --max_rejected"
        if self.unlisted:
            listed = f" ({len(self.run.sample)} of them)"
            if limit.allows(rejected, count):
                why = f"{self.unlisted} images and rows left out, more than "
                why += f"{REJECTED} can list ({rejections.MAX_LISTED})"
                action = "fix these inputs"
        reasons = ", ".join(f"{n} {reason}" for reason, n in count_reasons(self.reasons).items())
        first = f"{self.run.sample[0].path}: {self.run.sample[0].detail}"
        why += f"; nothing published. Left out: {reasons}; see {lines}{listed}, then {action}"
        return f"{why}. The first is {first}"

    def warnings(
        self, options: Mapping[str, Any], shards: Mapping[str, int], vocabulary: Vocabulary
    ) -> list[DatasetWarning]:
        """Warnings about the splits, their shards and classes.

        Args:
            options: those of the dataset, by flag name.
            shards: of each split, including empty ones; none if every record has its own file.
            vocabulary: the classes.
        """
        records = dict.fromkeys(self.splits, 0)
        for shard in self.shards:
            records[ShardName.parse(shard.file).split] += shard.records
        what, found = "row" if self.of_rows else "image", []
        # Images held out do not count as rejected, and may be all of them.
        if not sum(records.values()):
            text = f"the dataset has no record: {REJECTED} says why each {what} was left out"
            found.append(DatasetWarning("no_records", text))
        reason = Reason.KEY_NOT_FOUND.code
        if count := self.reasons["key", reason]:
            shown = ", ".join(repr(each.key[:80]) for each in self.run.rejected.first_of(reason))
            keys = quantity(count, "key")
            text = f"{keys} in --keys {'names' if count == 1 else 'name'} no image, such as {shown}"
            found.append(DatasetWarning("keys_not_found", f"{text}; {REJECTED} lists them"))
        texts = (empty_shards_warning(name, records[name], count) for name, count in shards.items())
        found += [DatasetWarning("empty_shards", text) for text in texts if text]
        classes = self.run.split_classes(self.splits)
        return found + split_warnings(
            records,
            classes,
            planned=self.totals.images,
            options=options,
            what=what,
            labelled=self.totals.classes(vocabulary),
        )

    @property
    def ledger(self) -> Ledger:
        """All inputs and what became of them."""
        counts = self.run.counts
        rows = Counter({why: n for (what, why), n in self.reasons.items() if what == "row"})
        unmatched = rows.pop(Reason.ROW_WITHOUT_IMAGE.code, 0)
        partners = Counter({why: n for (what, why), n in self.reasons.items() if what == "partner"})
        alone = partners.pop(Reason.PARTNER_WITHOUT_IMAGE.code, 0)
        records = sum(shard.records for shard in self.shards)
        return Ledger(
            images_matched=counts["images_found"] - counts["images_found_again"],
            records_written=records,
            images_rejected=sum(n for (what, _), n in self.reasons.items() if what == "image"),
            rows_read=counts["rows_read"],
            rows_used=self.totals.rows_used,
            rows_repeated=self.totals.rows_repeated,
            rows_unmatched=unmatched,
            rows_rejected=rows.total() + counts["rows_rejected"],
            rows_written=records if self.of_rows else 0,
            images_left_out=counts["images_left_out"],
            rows_left_out=counts["rows_left_out"],
            partners_matched=counts["partners_found"] - counts["partners_found_again"],
            partners_used=self.totals.partners_used,
            partners_unmatched=alone,
            partners_rejected=partners.total() + counts["partners_rejected"],
            partners_left_out=counts["partners_left_out"],
        )


def in_order(
    splits: Iterable[str], everything: Mapping[str, list[Any]], *, of_rows: bool = False
) -> Gathered:
    """Sorts counts that arrive in any order.

    Args:
        splits: the splits in order; if empty, those that occur in the totals.
        everything: `totals`, one `PlanTotals`; `run`, one `RunTotals`; `shards`, each with its
            `ShardSummary`, which may be shortened; and the `parts` of `rejected.jsonl`, if any.
        of_rows: whether records are made of rows, without images.
    """
    [totals], [run] = everything["totals"], everything["run"]
    ordered = tuple(splits) or splits_in_order(totals.images)
    rank = {split: position for position, split in enumerate(ordered)}

    def place(shard: ShardSummary) -> tuple[int, int]:
        name = ShardName.parse(shard.file)
        return rank[name.split], name.number

    return Gathered(
        ordered,
        totals,
        sorted(everything["shards"], key=place),
        run,
        of_rows,
        everything.get("parts"),
    )
