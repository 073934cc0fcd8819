"""Shards with equal numbers of records: a split is a line of its records in their order."""

from __future__ import annotations

from transforms.core.balance.hash_cuts import Cuts, Draw, Ranks, bin_count
from transforms.core.dataset.ledger import PlanTotals
from transforms.core.planning.shards import ShardPlan
from transforms.core.planning.splits import HASH_SPACE

# The order is a signed number.
_LOWEST = 2**63


def shard_ranks(records: int, shards: int) -> list[int]:
    """The records of a split before each shard but the first: shards differ by at most one.

    >>> shard_ranks(10, 4), shard_ranks(1, 3)
    ([2, 5, 7], [0, 0])
    """
    return [records * number // shards for number in range(1, shards)]


class ShardLines:
    """The lines of splits, and how their shards divide them. Picklable.

    `prepare` is called first, with the totals of all images or rows.
    """

    def __init__(self, plan: ShardPlan) -> None:
        self._plan = plan
        self._totals: PlanTotals | None = None

    def prepare(self, totals: PlanTotals) -> None:
        """Takes the images and bytes of each split, which decide the number of its shards."""
        if totals is not self._totals:
            self._totals = totals
            files = self._plan.files(totals.bytes, totals.images)
            self._shards = {split: len(names) for split, names in files.items()}
            self._records = totals.images

    def draw(self, split: str, order: int) -> Draw:
        """The draw of an image or a row.

        Args:
            split: its split.
            order: its place in the order, a signed 64-bit number.
        """
        return Draw(split, order + _LOWEST, 1)

    def bins(self, line: str) -> int:
        """The bins of a split."""
        return bin_count(self._records[line], self._shards[line] - 1)

    def rule(self, line: str) -> int:
        """The shards of a split."""
        return self._shards[line]

    def ranks(self, line: str, rule: int, records: int) -> Ranks:
        """The records of a split before each shard but the first."""
        return Ranks([rank * HASH_SPACE for rank in shard_ranks(records, rule)])


def shard_starts(cuts: Cuts) -> dict[str, tuple[int, ...]]:
    """The order at which each shard of a split begins, without its first shard."""
    return {split: tuple(cut - _LOWEST for cut in own) for split, own in cuts.lines.items()}
