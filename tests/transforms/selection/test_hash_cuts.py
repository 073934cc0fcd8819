"""Lines, and splits into shards, are divided at exactly the ranks that are asked for."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

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
    bin_of,
    shard_ranks,
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


@given(
    st.dictionaries(CLOSE, st.integers(1, 9), min_size=1, max_size=20),
    st.lists(st.floats(0, 1), min_size=1, max_size=4),
    HASHES,
    BINS,
    BINS,
)
def test_parts_differ_by_less_than_the_largest_group_of_one_hash(
    records: dict[int, int], shares: list[float], rounding: int, bins: int, others: int
) -> None:
    draws = [Draw("a", hash_, count) for hash_, count in records.items()]
    total, most = sum(records.values()), max(records.values())
    ranks = Ranks([int(share * total * 2**64) for share in sorted(shares)], rounding)

    def divided(count: int) -> Counter[int]:
        return parts(draws, divide(draws, lambda *_: ranks, lambda _: count))

    found = divided(bins)
    assert found == divided(others)
    ends = [0, *ranks.before, total << 64]
    for part in range(len(ends) - 1):
        exact = Fraction(ends[part + 1] - ends[part], 2**64)
        assert abs(found[part] - exact) < most


@given(st.integers(1, 9), st.integers(0, 2**64 - 1), HASHES)
def test_a_single_group_is_before_a_cut_as_often_as_its_part_is(
    records: int, part: int, rounding: int
) -> None:
    """So it is for a share of 0.8 with 0.8 of all numbers for rounding."""
    draw = Draw("a", 7, records)
    cuts = divide([draw], lambda *_: Ranks([part * records], rounding), lambda _: 3)
    assert (cuts.part("a", 7) == 0) == (part + rounding >= 2**64)


def test_lines_are_divided_apart() -> None:
    draws = [Draw(line, hash_, 1) for line in "ab" for hash_ in range(10)]
    ranks = {"a": Ranks([5 << 64]), "b": Ranks([1 << 64])}
    cuts = divide(draws, lambda line, _: ranks[line], lambda _: 7)
    assert cuts == Cuts({"a": [5], "b": [1]})


@given(HASHES, HASHES, st.integers(1, 2**20))
def test_bins_are_ranges_of_hashes(hash_: int, other: int, count: int) -> None:
    assert 0 <= bin_of(hash_, count) < count
    assert hash_ > other or bin_of(hash_, count) <= bin_of(other, count)
    assert bin_of(2**64 - 1, count) == count - 1


@given(
    st.dictionaries(CLOSE, st.integers(1, 9), min_size=1, max_size=20),
    st.lists(st.floats(0, 1), max_size=4),
    BINS,
)
def test_what_records_add_is_counted_for_their_parts(
    records: dict[int, int], shares: list[float], bins: int
) -> None:
    draws = [
        Draw("a", hash_, count, (("x", 1), (f"{hash_}", count))) for hash_, count in records.items()
    ]
    ranks = Ranks([int(share * sum(records.values()) * 2**64) for share in sorted(shares)])
    cuts = divide(draws, lambda *_: ranks, lambda _: bins)
    assert cuts.added.pop("x") == Counter(cuts.part("a", hash_) for hash_ in records)
    assert cuts.added == {
        f"{hash_}": Counter({cuts.part("a", hash_): count}) for hash_, count in records.items()
    }


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


@given(st.integers(0, 10**9), st.integers(1, 300))
def test_no_shard_is_planned_larger_by_two(records: int, shards: int) -> None:
    ends = [0, *shard_ranks(records, shards), records]
    sizes = {end - start for start, end in zip(ends[:-1], ends[1:], strict=True)}
    assert max(sizes) - min(sizes) <= 1
