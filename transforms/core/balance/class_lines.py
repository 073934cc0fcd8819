"""Stratified splits: each class gets its share of each split, within one image.

A class is a line of images in the order of their split hashes, and the splits are parts of it. So
is a set of classes that many images have. An image with a rarer set counts for its rarest class, as
in iterative stratification (Sechidis et al., 2011), which also begins with the rarest. A group has
the classes of all of its images. Where shares are no whole numbers, a hash of the line decides
which way they are rounded, so that small classes together have the right shares, too.
"""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from transforms.core.balance.hash_cuts import Cuts, Draw, bin_count
from transforms.core.dataset.ledger import PlanTotals
from transforms.core.label_errors import LabelsError
from transforms.core.labels.label_rules import LabelRules
from transforms.core.planning.keys import key_hashes
from transforms.core.planning.row_cells import row_labels
from transforms.core.planning.splits import HASH_SPACE, Splits
from transforms.core.records import LabelledImage

MAX_CLASSES = 200_000
"""Classes of a stratified dataset: their cuts are one element, 50 bytes each with three splits."""

MAX_ENDS = 1_000_000
"""Ends of splits of all classes, but for the last split: one worker merges them, 800 bytes each."""

# The same for sets of classes.
_MAX_SETS = 100_000

# Precedes the names of the classes of a set: no class begins so.
_SET = "\0set\0"

# Precedes the name of a class where its hash must not be that of a key.
_CLASS = "\0class\0"


def split_ranks(splits: Splits, records: int, offset: int) -> list[int]:
    """The images of a class before the end of each split but the last.

    Each split gets the share of the images that it asks for, rounded up or down.

    Args:
        splits: the splits with their ranges.
        records: images of the class.
        offset: 0 rounds every sum of shares down, and 2**64-1 up.

    >>> halves = Splits([("train", 0.5), ("test", 0.5)])
    >>> split_ranks(halves, 5, 0), split_ranks(halves, 5, 2**63), split_ranks(halves, 4, 2**63)
    ([2], [3], [2])
    """
    return [(split.upper * records + offset) >> 64 for split in splits.bounds[:-1]]


def image_labels(image: LabelledImage) -> set[str]:
    """The labels of an image, of its path and of its rows."""
    labels = {image.label}
    if image.cells:
        labels.update(row_labels(image.cells)[1])
    return labels - {""}


@dataclasses.dataclass(frozen=True)
class Classes:
    """The classes of all images, which lines are made of.

    Attributes:
        images: how many there are.
        names: the class of each label.
        sizes: images of each class.
        sets: images of each set of classes that is a line of its own, by the name of the line.
    """

    images: int
    names: Mapping[str, str]
    sizes: Mapping[str, int]
    sets: Mapping[str, int] = dataclasses.field(default_factory=dict)

    @classmethod
    def of(cls, totals: PlanTotals, rules: LabelRules, splits: Splits) -> Classes:
        """The classes of the images with these totals, without sets.

        Raises:
            LabelsError: there are too many.
        """
        vocabulary = rules.vocabulary(totals.labels, totals.label_kind)
        names = {label: vocabulary.text_of(label) for label in totals.labels}
        sizes: Counter[str] = Counter()
        for label, name in names.items():
            sizes[name] += totals.labels[label]
        if len(sizes) > (most := min(MAX_CLASSES, _most_lines(splits))):
            raise LabelsError(
                f"--stratify label: {len(sizes)} classes are more than {most}, since each worker "
                f"keeps where their {len(splits.names)} splits begin; leave out --stratify"
            )
        return cls(totals.images.total(), names, sizes)

    def set_line(self, labels: Iterable[str]) -> str:
        """The name of the line of images with these labels, if there are several; else empty."""
        names = {self.names[label] for label in labels}
        return _SET + json.dumps(sorted(names)) if len(names) > 1 else ""

    def line(self, labels: Iterable[str]) -> str:
        """The line of an image with these labels."""
        several = self.set_line(labels)
        if several and several in self.sets:
            return several
        names = {self.names[label] for label in labels}
        return min(names, key=lambda name: (self.sizes[name], name), default="")

    def size(self, line: str) -> int:
        """About how many images a line has; at least as many."""
        return self.sets.get(line) or self.sizes.get(line, 0)


def least_of_set(splits: Splits, images: int) -> int:
    """The images that a set of classes needs to be a line: two for the smallest split.

    >>> tenths = Splits([("train", 0.9), ("test", 0.1)])
    >>> least_of_set(tenths, 1000), least_of_set(tenths, 100_000_000)
    (20, 1000)
    """
    starts = (0, *(split.upper for split in splits.bounds))
    smallest = min(split.upper - start for split, start in zip(splits.bounds, starts, strict=False))
    most = min(_MAX_SETS, _most_lines(splits))
    return max(2 * HASH_SPACE // max(1, smallest), -(-images // most))


def _most_lines(splits: Splits) -> int:
    return max(1, MAX_ENDS // max(1, len(splits.names) - 1))


class ClassLines:
    """The lines of classes, and how splits divide them. Picklable.

    `prepare` is called first, with the classes of all images.
    """

    def __init__(self, splits: Splits, *, seed: int) -> None:
        """Sets the rules.

        Args:
            splits: the splits with their shares.
            seed: of the hashes.
        """
        self._splits = splits
        self._seed = seed

    def prepare(self, classes: Classes) -> None:
        """Takes the classes of all images."""
        self._classes = classes

    def draw(self, labels: Iterable[str], key: str, records: int) -> Draw:
        """The draw of an image, or of a group.

        Args:
            labels: of all of its images.
            key: of the image, or the name of the group: its hash decides.
            records: how many images there are.
        """
        return Draw(self._classes.line(labels), key_hashes(key, seed=self._seed)[0], records)

    def bins(self, line: str) -> int:
        """The bins of a line."""
        return bin_count(self._classes.size(line), len(self._splits.names) - 1)

    def ranks(self, line: str, records: int) -> Sequence[int]:
        """The images of a line before the end of each split but the last."""
        offset, _ = key_hashes(f"{_CLASS}{line}", seed=self._seed)
        return split_ranks(self._splits, records, offset)

    def split(self, draw: Draw, cuts: Cuts) -> str:
        """The split of an image, or of a group."""
        return self._splits.names[cuts.part(draw.line, draw.hash)]
