"""Where an image goes: its split, by hash, row or folder, and its place in the order."""

from __future__ import annotations

from transforms.core.planning.keys import key_hashes
from transforms.core.planning.splits import Splits, is_split_name
from transforms.core.rejections import Reason, RejectedImageError

SPLIT_SOURCES = ("hash", "csv", "directory")
"""What decides the split: the ratio split, a column of the CSV, or a folder."""


class SplitAssigner:
    """Gives images their splits and their places in the order; picklable."""

    def __init__(
        self, splits: Splits, *, seed: int, split_from: str = "hash", by_group: bool = False
    ) -> None:
        """Describes the rules.

        Args:
            splits: the ratio split.
            seed: of its hash and of the order.
            split_from: one of `SPLIT_SOURCES`.
            by_group: whether the ratio split takes the hash of the group, not of the key.
        """
        self._splits = splits
        self._seed = seed
        self._split_from = split_from
        self._by_group = by_group

    def assign(self, key: str, *, split: str, group: str) -> tuple[str, int]:
        """The split of an image, and its place in the order, a signed 64-bit number.

        Args:
            key: the join key; it alone decides the order.
            split: what the image's row or folder says, as `split_text` gives it.
            group: the group, empty when there is none.

        Raises:
            RejectedImageError: it names no split, or has no group where that decides.
        """
        split_hash, order_hash = key_hashes(key, seed=self._seed)
        # Beam's integers are signed; the order stays the same.
        order = order_hash - 2**63
        if self._split_from != "hash" and split:
            if not is_split_name(split):
                raise RejectedImageError(Reason.BAD_SPLIT, f"{split[:120]!r} is no name of a split")
            return split, order
        if self._by_group:
            if not group:
                raise RejectedImageError(Reason.NO_GROUP, f"no row gives {key!r} a group")
            split_hash, _ = key_hashes(group, seed=self._seed)
        return self._splits.of(split_hash), order
