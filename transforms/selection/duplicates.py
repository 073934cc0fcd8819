"""Decides which images with equal content are dropped."""

from __future__ import annotations

import bisect
import dataclasses
from typing import NamedTuple

from transforms.core.messages import and_more
from transforms.core.records import LabelledImage
from transforms.core.rejections import Reason, Rejection
from transforms.images.pixel_options import HOLDOUT
from transforms.labels.joins import row_labels
from transforms.records.fingerprints import MAX_IMAGES, described
from transforms.selection.equal_images import Equal, equal_group, held_place, is_held_image

# Labels named in one detail.
_MAX_NAMED = 5

CONTENT = "xxh3:"
"""Precedes a `content_hash` where an MD5 is expected: the hash that indexes have."""

PARTS = 64
"""Parts of the images with one content, which may be most of a dataset."""


@dataclasses.dataclass
class ContentGroup:
    """Images with the same content, added up in any order.

    Attributes:
        images: how many there are.
        first: those whose keys sort first, at most `MAX_IMAGES`.
        classes: the labels of each image, sorted.
        splits: their splits.
        parts: numbers of the parts that they are in, see `part_of`.
        held: the first image held out with this content, which is none of them.
    """

    images: int = 0
    first: list[LabelledImage] = dataclasses.field(default_factory=list)
    classes: set[tuple[str, ...]] = dataclasses.field(default_factory=set)
    splits: set[str] = dataclasses.field(default_factory=set)
    parts: set[int] = dataclasses.field(default_factory=set)
    held: LabelledImage | None = None

    @property
    def has_several(self) -> bool:
        """Whether an image has this content that equals another one, or one held out."""
        return bool(self.images) and self.images + (self.held is not None) > 1

    def add(self, image: LabelledImage) -> None:
        """Adds an image."""
        if is_held_image(image):
            self.held = image if self.held is None else min(self.held, image)
            return
        self.images += 1
        self._list(image)
        self.classes.add(tuple(sorted(labels_of(image))))
        self.splits.add(image.split)
        self.parts.add(part_of(image))

    def merge(self, other: ContentGroup) -> None:
        """Adds the images of another group."""
        self.images += other.images
        for image in other.first:
            self._list(image)
        self.classes |= other.classes
        self.splits |= other.splits
        self.parts |= other.parts
        if other.held is not None:
            self.add(other.held)

    def _list(self, image: LabelledImage) -> None:
        bisect.insort(self.first, image, key=lambda each: each.key)
        del self.first[MAX_IMAGES:]


# An image that is in no shard, in `statistics.json`.
_NO_PLACE = {"file": None, "offset": None, "length": None}


class Verdict(NamedTuple):
    """What happens to images with the same content.

    Attributes:
        kept: the key of the image that is kept; empty if none is.
        reason: the code of the `Reason` for rejecting the others.
        detail: of their rejections.
    """

    kept: str
    reason: str
    detail: str

    def rejection(self, image: LabelledImage) -> Rejection | None:
        """The rejection of an image; None for the one that is kept."""
        if image.key == self.kept:
            return None
        return Rejection("image", self.reason, self.detail, image.path, image.key)


def decide(group: ContentGroup, *, md5: str) -> tuple[Verdict, Equal]:
    """Keeps the image whose key sorts first, or none if their classes differ, or one is held out.

    Args:
        group: all images with one content, see `ContentGroup.has_several`.
        md5: of that content, to detect a file that was overwritten since; or `CONTENT` and its
            `content_hash`.
    """
    is_conflict = len(group.classes) > 1 and group.held is None
    first, second, *_ = (*group.first, *group.first)
    if group.held is not None:
        folder, split, _ = held_place(group.held)
        detail = f"an exact duplicate of {group.held.path!r} in {HOLDOUT} {folder}, split {split}"
        verdict = Verdict("", Reason.HOLDOUT_IMAGE.code, detail)
    elif is_conflict:
        said = [" and ".join(labels) or "nothing" for labels in sorted(group.classes)]
        detail = (
            f"{group.images} exact duplicates, such as {first.path!r} and {second.path!r}, are "
            f"labelled {and_more([*map(repr, said[:_MAX_NAMED])], len(said))}"
        )
        verdict = Verdict("", Reason.CONFLICTING_LABELS.code, detail)
    else:
        detail = f"an exact duplicate of {first.path!r}, which is kept"
        verdict = Verdict(first.key, Reason.DUPLICATE_IMAGE.code, detail)
    named = [_named(image, md5, is_kept=image.key == verdict.kept) for image in group.first]
    return verdict, equal_group(
        named if group.held is None else [*named, _named_held(group.held)],
        size=group.images,
        across=len(group.splits) > 1,
        conflict=is_conflict,
        dropped=0 if is_conflict else group.images - bool(verdict.kept),
        held=group.held is not None,
    )


def _named_held(image: LabelledImage) -> dict[str, object]:
    """The image held out for `statistics.json`."""
    folder, split, _ = held_place(image)
    named = described(image.key, image.path, [image.label])
    return {**named, "split": split, **_NO_PLACE, "dataset": folder}


def part_of(image: LabelledImage) -> int:
    """The part of an image among those with its content: at random, and always the same."""
    return image.order % PARTS


def labels_of(image: LabelledImage) -> list[str]:
    """The labels of an image, each once: its own, or those of its rows."""
    labels = row_labels(image.cells)[1] if image.cells else [image.label]
    return list(dict.fromkeys(labels)) or [""]


def _named(image: LabelledImage, md5: str, *, is_kept: bool) -> dict[str, object]:
    """The image for `statistics.json`; the order gives the future position of a kept image."""
    return {
        **described(image.key, image.path, labels_of(image)),
        "split": image.split,
        **_NO_PLACE,
        **({"content": md5.removeprefix(CONTENT)} if md5.startswith(CONTENT) else {"md5": md5}),
        **({"order": image.order} if is_kept else {}),
    }
