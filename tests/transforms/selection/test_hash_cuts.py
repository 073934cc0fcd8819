"""Lines, and splits into shards, are divided at exactly the ranks that are asked for."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from tests.transforms.selection.dividing import divide
from transforms.dataset.ledger import PlanTotals
from transforms.labels.shards import ShardPlan, shard_index
from transforms.selection.hash_cuts import (
    Cuts,
    Draw,
    Ranks,
    ShardLines,
    shard_starts,
)

HASHES = st.integers(0, 2**64 - 1)
# Hashes that are close to each other, and to both ends.
CLOSE = st.one_of(HASHES, st.integers(0, 9), st.integers(2**64 - 9, 2**64 - 1))
BINS = st.integers(1, 40)


def parts(draws: list[Draw], cuts: Cuts) -> Counter[int]:
    """The records of each part of the only line."""
    counted: Counter[int] = Counter()
    for draw in draws:
        counted[cuts.part(draw.line, draw.hash)] += draw.records
    return counted


@given(st.data(), st.sets(CLOSE, max_size=40), BINS)
def test_hashes_are_cut_at_their_ranks(data: st.DataObject, hashes: set[int], bins: int) -> None:
    ranks = sorted(data.draw(st.lists(st.integers(0, len(hashes)), max_size=5)))
    draws = data.draw(st.permutations([Draw("a", hash_, 1) for hash_ in hashes]))
    whole = Ranks([rank << 64 for rank in ranks], data.draw(HASHES))
    cuts = divide(draws, lambda *_: whole, lambda _: bins)
    counted = parts(draws, cuts)
    ends = [*ranks, len(hashes)]
    sizes = [end - start for start, end in zip([0, *ranks], ends, strict=True)]
    assert [counted[part] for part in range(len(ends))] == sizes
    # Parts are ranges of the hashes.
    in_order = [cuts.part("a", hash_) for hash_ in sorted(hashes)]
    assert in_order == sorted(in_order)


# The shards of a split have equal numbers of records, and each record has one shard.

ORDERS = st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(-3, 3))


@given(st.dictionaries(st.sampled_from("ab"), st.sets(ORDERS, max_size=40)), st.integers(1, 9))
def test_shards_differ_by_at_most_one_record(splits: dict[str, set[int]], shards: int) -> None:
    images = Counter({split: len(orders) for split, orders in splits.items()})
    lines = ShardLines(ShardPlan((), 1, shards, gzip=False, by_records=True))
    lines.prepare(PlanTotals(images, images))
    draws = [lines.draw(split, order) for split, orders in splits.items() for order in orders]
    starts = shard_starts(divide(draws, lines.ranks, lines.bins))
    for split, orders in splits.items():
        places = [shard_index(order, shards, starts.get(split, ())) for order in sorted(orders)]
        assert places == sorted(places)
        sizes = [places.count(number) for number in range(shards)]
        assert sum(sizes) == len(orders)
        assert max(sizes) - min(sizes) <= 1
