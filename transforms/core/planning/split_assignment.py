"""Assigns images to splits by hash, row or folder, and to positions in the order."""

from __future__ import annotations

from transforms.core.planning.keys import key_hashes
from transforms.core.planning.splits import Splits, is_split_name
from transforms.core.rejections import Reason, RejectedImageError

SPLIT_SOURCES = ("hash", "csv", "directory")
"""The sources of a split: shares and a hash, a column of the CSV, or a folder."""


class SplitAssigner:
    """Assigns images to splits and positions in the order; picklable.

    Attributes:
        keeps_group: whether images keep the names of their groups.
    """

    def __init__(
        self,
        splits: Splits,
        *,
        seed: int,
        split_from: str = "hash",
        by_group: bool = False,
        keeps_group: bool = False,
    ) -> None:
        """Sets the rules.

        Args:
            splits: the splits with their shares.
            seed: of its hash and of the order.
            split_from: one of `SPLIT_SOURCES`, or `records`: the splits of other datasets.
            by_group: whether to hash the group instead of the key.
            keeps_group: whether a later step assigns groups to splits, and needs their names.
        """
        self.keeps_group = keeps_group
        self._splits = splits
        self._seed = seed
        self._split_from = split_from
        self._by_group = by_group

    def assign(self, key: str, *, split: str, group: str) -> tuple[str, int]:
        """The split of an image, and its place in the order, a signed 64-bit number.

        Args:
            key: the join key; it alone decides the order.
            split: the split of the image's row or folder, from `split_text`.
            group: the group, empty when there is none.

        Raises:
            RejectedImageError: it names no split, or has no group but needs one.
        """
        split_hash, order_hash = key_hashes(key, seed=self._seed)
        # Beam's integers are signed; the order stays the same.
        order = order_hash - 2**63
        if self._split_from != "hash" and split:
            if not is_split_name(split):
                raise RejectedImageError(
                    Reason.BAD_SPLIT, f"{split[:120]!r} is not a valid split name"
                )
            return split, order
        if self._by_group:
            if not group:
                raise RejectedImageError(Reason.NO_GROUP, f"no row has a group for {key!r}")
            split_hash, _ = key_hashes(group, seed=self._seed)
        return self._splits.of(split_hash), order
