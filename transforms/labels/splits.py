"""Splits: their shares, and which image is in which."""

from __future__ import annotations

import dataclasses
import math
import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import accumulate, pairwise

from transforms.core.messages import LabelsError
from transforms.core.rejections import Reason, RejectedImageError, parse_number
from transforms.labels.keys import key_hashes, nfc

# Assigns keys to splits: `--splits train=0.8,validation=0.1,test=0.1`.
#
# A split is a range of the 64-bit split hash of a key, so adding or removing images moves no
# others.

HASH_SPACE = 2**64
"""The number of split hashes."""

# Staged shards are named after their split, and file names are limited to 255 bytes.
_MAX_NAME = 100

# Each has shards of its own, which take milliseconds even without images.
_MAX_SPLITS = 100

KNOWN_SPLITS = ("train", "validation", "test")
"""Splits that come first, in this order; their names are case-insensitive."""

# Further names of AutoML, and their meaning.
_AUTOML = {"unassigned": "", "training": "train"}
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_EXAMPLE = "write it like train=0.8,validation=0.1,test=0.1"


class Splits:
    """All splits in order; together they cover every split hash exactly once.

    Attributes:
        names: the names in order.
        shares: how many split hashes each split has; together 2**64.
    """

    def __init__(self, shares: Sequence[tuple[str, float]]) -> None:
        """Computes the ranges of the splits.

        Args:
            shares: the result of `parse_splits`; the last split gets the remainder.

        Raises:
            ValueError: there is none, or a share is not above 0.
        """
        if not shares or not all(share > 0 for _, share in shares):
            raise ValueError(f"splits need shares above 0, not {tuple(shares)}")
        self.names = tuple(name for name, _ in shares)
        # In exact arithmetic, so that rounding loses no hash.
        totals = accumulate(Fraction(share) for _, share in shares)
        uppers = [min(round(total * HASH_SPACE), HASH_SPACE) for total in totals]
        self._inner_uppers = uppers[:-1]
        ends = [0, *self._inner_uppers, HASH_SPACE]
        self.shares = tuple(end - start for start, end in pairwise(ends))

    def of(self, split_hash: int) -> str:
        """The name of the split that contains `split_hash`, an integer in 0..2**64-1.

        >>> splits = Splits([("train", 0.75), ("test", 0.25)])
        >>> splits.of(0), splits.of(2**63), splits.of(2**64 - 1)
        ('train', 'train', 'test')
        """
        return self.names[bisect_right(self._inner_uppers, split_hash)]


def parse_splits(text: str) -> tuple[tuple[str, float], ...]:
    """Parses names and shares from text; a share is a number in 0..1 or a percentage.

    Raises:
        ValueError: the text is not valid; the message says what to write.

    >>> parse_splits("train=80%,test=0.2")
    (('train', 0.8), ('test', 0.2))
    """
    parts = text.split(",")
    if len(parts) > _MAX_SPLITS:
        raise _usage(f"{text[:40]}...", f"{len(parts)} splits are more than {_MAX_SPLITS}")
    shares = tuple(_parse_one(part, text) for part in parts)
    seen: set[str] = set()
    for name, _ in shares:
        if name.casefold() in seen:  # some file systems treat 'Test' and 'test' as one name
            raise _usage(text, f"{name!r} is given twice; name each split once")
        seen.add(name.casefold())
    total = math.fsum(share for _, share in shares)
    if abs(round(total - 1, 9)) > 1e-6:
        hint = "make them add up to 1"
        if abs(total - 100) < 1e-4:
            meant = ",".join(f"{name}={share:.6g}%" for name, share in shares)
            hint = f"did you mean {meant}?"
        elif len(shares) == 1 and total < 1:
            # Shells end a word at a space.
            other = "test" if shares[0][0] == "validation" else "validation"
            hint = f"did you mean {shares[0][0]}={total:.6g},{other}={1 - total:.6g}?"
        raise _usage(text, f"the shares add up to {total:.6g}; {hint}")
    return shares


def is_split_name(name: str) -> bool:
    """Whether shards can be named after a split.

    >>> is_split_name("val_2"), is_split_name("2nd")
    (True, False)
    """
    return len(name) <= _MAX_NAME and _NAME.fullmatch(name) is not None


def split_text(said: str) -> str:
    """The split in a cell or a folder name; empty if the hash decides.

    AutoML writes TRAIN or TRAINING, VALIDATION, TEST and, to leave it open, UNASSIGNED; every other
    name is kept.

    >>> split_text("TRAIN"), split_text("UNASSIGNED"), split_text(" Holdout ")
    ('train', '', 'Holdout')
    """
    said = said.strip()
    folded = said.casefold()
    if folded in KNOWN_SPLITS:
        return folded
    return _AUTOML.get(folded, nfc(said))


def splits_in_order(names: Iterable[str]) -> tuple[str, ...]:
    """The splits in use: train, validation and test first, the others by name.

    Raises:
        LabelsError: two differ only in case, and so would their file names.

    >>> splits_in_order({"test", "a", "train"})
    ('train', 'test', 'a')
    """
    distinct = set(names)
    known = [name for name in KNOWN_SPLITS if name in distinct]
    others = sorted(distinct.difference(KNOWN_SPLITS))
    spelt: dict[str, str] = {}
    for name in others:
        if spelt.setdefault(name.casefold(), name) != name:
            raise LabelsError(
                f"the splits {spelt[name.casefold()]!r} and {name!r} differ in upper and lower "
                "case only: use one spelling"
            )
    return (*known, *others)


def _parse_one(part: str, text: str) -> tuple[str, float]:
    name, equals, number = (piece.strip() for piece in part.partition("="))
    if not equals and _number(name) is not None:
        raise _usage(text, f"{name!r} has no name; {_EXAMPLE}")
    if not equals:
        raise _usage(text, f"{part.strip()!r} has no '='; {_EXAMPLE}")
    if not _NAME.fullmatch(name):
        raise _usage(text, f"{name!r} is not a name; use a letter, then letters, digits and '_'")
    if len(name) > _MAX_NAME:
        problem = f"a name of {len(name)} characters is too long; use at most {_MAX_NAME}"
        raise _usage(f"{text[:40]}...", problem)
    share = _number(number)
    if share is None:
        raise _usage(text, f"{number!r} is not a number; {_EXAMPLE}")
    if not 0 < share < math.inf:
        raise _usage(text, f"{name} has the share {number}; give it more than 0 or leave it out")
    return name, share


def _number(text: str) -> float | None:
    try:
        return parse_number(text)
    except (ArithmeticError, ValueError):
        return None


def _usage(text: str, problem: str) -> ValueError:
    return ValueError(f"{text!r}: {problem}")


# Assigns images to splits by hash, row or folder, and to positions in the order.


@dataclasses.dataclass(frozen=True)
class SplitAssigner:
    """Assigns images to splits and positions in the order; picklable.

    Attributes:
        splits: the splits with their shares.
        seed: of their hash and of the order.
        split_from: `hash` for shares, `csv` for a column, `directory` for a folder, or `records`
            for the splits of other datasets.
        by_group: whether to hash the group instead of the key.
        keeps_group: whether a later step assigns groups to splits, and needs their names.
    """

    splits: Splits
    _: dataclasses.KW_ONLY
    seed: int
    split_from: str = "hash"
    by_group: bool = False
    keeps_group: bool = False

    def assign(self, key: str, *, split: str, group: str) -> tuple[str, int]:
        """The split of an image, and its place in the order, a signed 64-bit number.

        Args:
            key: the join key; it alone decides the order.
            split: the split of the image's row or folder, from `split_text`.
            group: the group, empty when there is none.

        Raises:
            RejectedImageError: it names no split, or has no group but needs one.
        """
        split_hash, order_hash = key_hashes(key, seed=self.seed)
        # Beam's integers are signed; the order stays the same.
        order = order_hash - 2**63
        if self.split_from != "hash" and split:
            if not is_split_name(split):
                raise RejectedImageError(
                    Reason.BAD_SPLIT, f"{split[:120]!r} is not a valid split name"
                )
            return split, order
        if self.by_group:
            if not group:
                raise RejectedImageError(Reason.NO_GROUP, f"no row has a group for {key!r}")
            split_hash, _ = key_hashes(group, seed=self.seed)
        return self.splits.of(split_hash), order
