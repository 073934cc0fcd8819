"""`--max_rejected` is a count or a share, and allows exactly that."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transforms.core.rejections import RejectionLimit


@pytest.mark.parametrize(
    ("text", "limit", "shown"),
    [
        ("0.01", (0.01, True, 0), "1%"),
        ("1%", (0.01, True, 0), "1%"),
        (" 0.5% ", (0.005, True, 0), "0.5%"),
        ("0.7%", (0.007, True, 0), "0.7%"),
        ("100%", (1, True, 0), "100%"),
        ("1.0", (1, True, 0), "100%"),
        ("0%", (0, True, 0), "0%"),
        ("0", (0, False, 0), "0"),
        ("1", (1, False, 0), "1"),
        ("25", (25, False, 0), "25"),
        ("1000000", (1_000_000, False, 0), "1000000"),
        ("1% or 10", (0.01, True, 10), "1% or 10"),
    ],
)
def test_parse(text: str, limit: tuple[float, bool, int], shown: str) -> None:
    assert RejectionLimit.parse(text) == limit
    assert str(RejectionLimit.parse(text)) == shown


TEXTS = ["", "%", "many", "-1", "-1%", "-0.5", "1.5", "101%", "nan", "nan%", "inf", "inf%"]


@pytest.mark.parametrize("text", [*TEXTS, "1e-3", "1 2"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="neither a share such as 0.01 or 1% nor a count"):
        RejectionLimit.parse(text)


@pytest.mark.parametrize("text", ["10 or 1%", "1% or 2%", "1% or 2 or 3"])
def test_a_share_or_a_count_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="write it like '1% or 10'"):
        RejectionLimit.parse(text)


@pytest.mark.parametrize(
    ("text", "rejected", "matched", "allowed"),
    [
        ("0", 0, 0, True),
        ("0", 1, 100, False),
        ("2", 2, 2, True),
        ("2", 3, 10**9, False),
        ("0%", 0, 0, True),
        ("1%", 0, 0, True),
        ("1%", 1, 100, True),
        ("1%", 1, 99, False),
        ("1%", 2, 199, False),
        ("100%", 5, 5, True),
        ("1% or 10", 10, 11, True),
        ("1% or 10", 10, 10, False),
        ("1% or 10", 11, 1099, False),
        ("1% or 10", 11, 1100, True),
        ("1% or 10", 1, 1, False),
        ("1% or 10", 0, 0, True),
    ],
)
def test_allows(text: str, rejected: int, matched: int, allowed: bool) -> None:
    assert RejectionLimit.parse(text).allows(rejected, matched) == allowed


@given(st.integers(0, 1000), st.integers(1, 50))
def test_a_share_allows_exactly_its_part(tenths: int, thousands: int) -> None:
    matched = 1000 * thousands
    share = tenths * thousands
    for text in (f"{tenths / 10}%", f"{tenths / 1000:.3f}"):
        limit = RejectionLimit.parse(text)
        assert limit.allows(share, matched)
        assert not limit.allows(share + 1, matched)
