"""Lines are divided at exactly the ranks that are asked for, whatever the bins."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from tests.transforms.core.balance.dividing import divide
from transforms.core.balance.hash_cuts import Cuts, Draw, bin_count, bin_end, bin_of

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
    cuts = divide(draws, lambda *_: ranks, lambda _: bins)
    counted = parts(draws, cuts)
    ends = [*ranks, len(hashes)]
    sizes = [end - start for start, end in zip([0, *ranks], ends, strict=True)]
    assert [counted[part] for part in range(len(ends))] == sizes
    # Parts are ranges of the hashes.
    in_order = [cuts.part("a", hash_) for hash_ in sorted(hashes)]
    assert in_order == sorted(in_order)


@given(
    st.dictionaries(CLOSE, st.integers(1, 9), min_size=1, max_size=20),
    st.integers(0, 200),
    BINS,
    BINS,
)
def test_records_of_one_hash_stay_together_as_near_to_the_rank_as_they_allow(
    records: dict[int, int], rank: int, bins: int, others: int
) -> None:
    draws = [Draw("a", hash_, count) for hash_, count in records.items()]
    rank = min(rank, sum(records.values()))

    def divided(count: int) -> list[int]:
        return parts(draws, divide(draws, lambda *_: [rank], lambda _: count))

    found = [divided(count) for count in (bins, others)]
    assert found[0] == found[1]
    assert abs(found[0][0] - rank) <= max(records.values()) / 2
    sums = [0]
    for _, count in sorted(records.items()):
        sums.append(sums[-1] + count)
    assert abs(found[0][0] - rank) == min(abs(each - rank) for each in sums)


def test_lines_are_divided_apart() -> None:
    draws = [Draw(line, hash_, 1) for line in "ab" for hash_ in range(10)]
    cuts = divide(draws, lambda line, count: [count // 2 if line == "a" else 1], lambda _: 7)
    assert cuts == Cuts({"a": (5,), "b": (1,)})


@given(HASHES, st.integers(1, 2**20))
def test_bins_are_ranges_that_leave_out_no_hash(hash_: int, count: int) -> None:
    number = bin_of(hash_, count)
    assert 0 <= number < count
    assert hash_ < bin_end(number, count)
    assert number == 0 or hash_ >= bin_end(number - 1, count)
    assert bin_end(count - 1, count) == 2**64


@given(st.integers(0, 10**9), st.integers(0, 10**5))
def test_a_worker_gets_few_bins_and_few_hashes(records: int, cuts: int) -> None:
    bins = bin_count(records, cuts)
    assert 1 <= bins <= 2**20
    # There are as many hashes in all bins with a cut as there are bins.
    assert records * cuts <= bins * (bins + 2) or bins == 2**20
