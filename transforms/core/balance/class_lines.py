"""Stratified splits: each class gets its share of each split, within one image.

A class is a line of images in the order of their split hashes, and the splits are parts of it. An
image with several classes is in the line of its rarest class. As in iterative stratification
(Sechidis et al., 2011), what it gives to its other classes is made up for by those that come later:
images with most classes are divided first, in `ROUNDS` rounds, and those with one class last. A
group has the classes of all of its images. Where a split would end within an image, or a group, a
hash of the class decides which way it is rounded, so that small classes together have the right
shares, too.
"""

from __future__ import annotations

import dataclasses
import functools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, zip_longest

from transforms.core.balance.hash_cuts import Added, Cuts, Draw, Ranks, bin_count
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
"""Ends of splits of all classes, but for the last split: one worker merges them, 400 bytes each."""

ROUNDS = 4
"""Images or groups with this many classes or more are divided first, those with one last."""

# Precedes the name of a class where its hash must not be that of a key.
_CLASS = "\0class\0"


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
        names: the class of each label.
        sizes: images of each class.
        given: images of each class that the rounds before gave to each split.
    """

    names: Mapping[str, str]
    sizes: Mapping[str, int]
    given: Mapping[str, Sequence[int]] = dataclasses.field(default_factory=dict)

    @classmethod
    def of(cls, totals: PlanTotals, rules: LabelRules, splits: Splits) -> Classes:
        """The classes of the images with these totals, before the first round.

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
        return cls(names, sizes)

    def of_labels(self, labels: Iterable[str]) -> set[str]:
        """The classes of these labels."""
        return {self.names[label] for label in labels}

    def line(self, classes: Iterable[str]) -> str:
        """The line of an image with these classes: the rarest one."""
        return min(classes, key=lambda name: (self.sizes[name], name), default="")

    def after(self, given: Mapping[str, Sequence[int]]) -> Classes:
        """The classes after a round that gave these images to the splits."""
        added = {
            name: [sum(each) for each in zip_longest(self.given.get(name, ()), own, fillvalue=0)]
            for name, own in given.items()
        }
        return dataclasses.replace(self, given={**self.given, **added})


def _most_lines(splits: Splits) -> int:
    return max(1, MAX_ENDS // max(1, len(splits.names) - 1))


class ClassLines:
    """The lines of classes, and how splits divide them. Picklable.

    `prepare` is called first, with the classes of all images.
    """

    def __init__(self, splits: Splits, *, seed: int, rounds: int = 1) -> None:
        """Sets the rules.

        Args:
            splits: the splits with their shares.
            seed: of the hashes.
            rounds: how many there are: one, if no image has several classes.
        """
        self._splits = splits
        self._seed = seed
        self.rounds = rounds
        self._known: tuple[object, ...] = ()

    def prepare(self, classes: Classes, *before: Cuts) -> None:
        """Takes the classes of all images, and for `rule` the cuts of the rounds before."""
        known = (classes, *before)
        # Their contents are too large to be compared for each image.
        if [*map(id, known)] != [*map(id, self._known)]:
            self._known = known
            given = (cuts.added for cuts in before)
            self._classes = functools.reduce(Classes.after, given, classes)

    def round(self, labels: Iterable[str]) -> int:
        """The round, from 0, in which an image or a group with these labels gets its split."""
        return max(0, self.rounds - max(1, len(self._classes.of_labels(labels))))

    def draw(self, labels: Mapping[str, int], key: str, records: int) -> Draw:
        """The draw of an image, or of a group. Before the last round, it adds to its classes.

        Args:
            labels: how many of its images have each label.
            key: of the image, or the name of the group: its hash decides.
            records: how many images there are.
        """
        classes = self._classes.of_labels(labels)
        hash_, _ = key_hashes(key, seed=self._seed)
        is_last = self.rounds == 1 or len(classes) < 2
        added = () if is_last else self._added(labels, records)
        return Draw(self._classes.line(classes), hash_, records, added)

    def _added(self, labels: Mapping[str, int], records: int) -> Added:
        images: Counter[str] = Counter()
        for label, number in labels.items():
            images[self._classes.names[label]] += number
        # Two spellings of an integer are one class.
        return tuple((name, min(number, records)) for name, number in images.items())

    def bins(self, line: str) -> int:
        """The bins of a line."""
        return bin_count(self._classes.sizes.get(line, 0), len(self._splits.names) - 1)

    def rule(self, line: str) -> list[int]:
        """What the splits lack of their shares of a class: of each with those before it."""
        size, given = self._classes.sizes.get(line, 0), self._classes.given.get(line, ())
        lacks = zip_longest(self._splits.shares, given, fillvalue=0)
        return [*accumulate(max(0, share * size - has * HASH_SPACE) for share, has in lacks)]

    def ranks(self, line: str, rule: Sequence[int], records: int) -> Ranks:
        """The images of a line before the end of each split but the last.

        Each split gets a part of them in proportion to what its share of the class lacks.

        Args:
            line: its class.
            rule: of the line, see `rule`.
            records: its images.
        """
        rounding, _ = key_hashes(f"{_CLASS}{line}", seed=self._seed)
        whole = records * HASH_SPACE
        return Ranks([end * whole // rule[-1] for end in rule[:-1]], rounding)

    def split(self, draw: Draw, cuts: Cuts) -> str:
        """The split of an image, or of a group."""
        return self._splits.names[cuts.part(draw.line, draw.hash)]
