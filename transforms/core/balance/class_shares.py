"""How far the classes of a dataset are from their shares of the splits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from transforms.core.labels.label_kinds import class_order
from transforms.core.planning.splits import HASH_SPACE, Splits

# One image, in 2**64ths, and a little: a share such as 0.8 is no sum of powers of two.
_ONE = HASH_SPACE + HASH_SPACE // 10**6


class ClassShares(NamedTuple):
    """The classes of a dataset, and those that are off their share by more than one image.

    Attributes:
        classes: how many there are.
        off: how many of them have more than one image too many, or too few, in a split.
        furthest: the one that is furthest from its share; empty if none is off.
        images: by how many images.
        split: in which split.
    """

    classes: int
    off: int = 0
    furthest: str = ""
    images: float = 0
    split: str = ""


def class_shares(counts: Mapping[str, Mapping[str, int]], splits: Splits) -> ClassShares:
    """Compares the images of each class in each split with the shares of the splits.

    Args:
        counts: images of each class, by split; the class without a name is ignored.
        splits: the splits with their shares.

    >>> halves = Splits([("train", 0.5), ("test", 0.5)])
    >>> class_shares({"train": {"cat": 9, "dog": 2}, "test": {"cat": 4, "dog": 1}}, halves)
    ClassShares(classes=2, off=1, furthest='cat', images=2.5, split='train')
    """
    sizes: Counter[str] = Counter()
    for found in counts.values():
        sizes.update(found)
    del sizes[""]
    shares = dict(zip(splits.names, splits.shares, strict=True))
    off, most, furthest, where = 0, _ONE, "", ""
    for name in sorted(sizes, key=class_order):
        # In 2**64ths of an image, like the cuts themselves.
        distances = {
            split: abs(counts.get(split, {}).get(name, 0) * HASH_SPACE - share * sizes[name])
            for split, share in shares.items()
        }
        split = max(distances, key=distances.__getitem__)
        off += distances[split] > _ONE
        if distances[split] > most:
            most, furthest, where = distances[split], name, split
    if not off:
        return ClassShares(len(sizes))
    return ClassShares(len(sizes), off, furthest, most / HASH_SPACE, where)
