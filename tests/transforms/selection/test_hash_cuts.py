"""Lines are divided at exactly the ranks that are asked for, whatever the bins."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.transforms.selection.dividing import divide
from transforms.selection.hash_cuts import (
    Bins,
    Cuts,
    Draw,
    Place,
    Ranks,
    bin_count,
    bin_end,
    bin_of,
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


class Counted(list[int]):
    """Numbers that count how many of them are read."""

    read = 0

    def __getitem__(self, key: Any) -> Any:
        self.read += 1
        return super().__getitem__(key)

    def __iter__(self) -> Iterator[int]:
        self.read += len(self)
        return super().__iter__()


def test_a_place_is_found_without_reading_all_cuts() -> None:
    """A split of 100,000 shards has as many, and as many places are asked for."""
    numbers = Counted([*range(0, 200_000, 2)])
    bins = Bins(200_000, numbers, range(100_000), 7)
    assert bins.number(bin_end(50_000, 200_000) - 1) == 50_000
    assert bins.place(50_000) == Place(25_000, range(25_000, 25_001), 7, bin_end(50_000, 200_000))
    # The next bin has no cut.
    assert bins.number(bin_end(50_000, 200_000)) == ~25_001
    assert 0 < numbers.read < 100


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
    found = {name: Counter(dict(enumerate(parts))) for name, parts in cuts.added.items()}
    assert +found.pop("x") == Counter(cuts.part("a", hash_) for hash_ in records)
    assert {name: +parts for name, parts in found.items()} == {
        f"{hash_}": Counter({cuts.part("a", hash_): count}) for hash_, count in records.items()
    }
