"""The limit of rejected images above which a run is not published."""

from __future__ import annotations

import decimal
import math
from typing import NamedTuple

DEFAULT_LIMIT = "1% or 10"
"""The default of `--max_rejected`: tolerates a few bad files in a small dataset."""


class RejectionLimit(NamedTuple):
    """How many images may be rejected: a share of those matched, or a count.

    Attributes:
        value: the share or the count.
        is_share: whether the value is a share.
        least: a number that may be rejected even if it exceeds the share, as long as not
            all are.
    """

    value: float
    is_share: bool
    least: int = 0

    @classmethod
    def parse(cls, text: str) -> RejectionLimit:
        """Reads `0.01` or `1%` as a share, `25` as a count, `1% or 10` as the larger of two.

        Raises:
            ValueError: when it is neither, or negative, or a share above one.

        >>> RejectionLimit.parse("1%")
        RejectionLimit(value=0.01, is_share=True, least=0)
        """
        number, joint, count = (part.strip() for part in text.partition(" or "))
        if joint:
            share, least = cls.parse(number), cls.parse(count)
            if not share.is_share or least.is_share or least.least:
                raise ValueError(f"{text!r} is not a share and a count: write it like '1% or 10'")
            return share._replace(least=int(least.value))
        is_share = number.endswith("%") or "." in number
        try:
            value = parse_number(number)
        except (ArithmeticError, ValueError):
            value = math.nan
        if not 0 <= value or (is_share and value > 1) or not (is_share or value.is_integer()):
            raise ValueError(f"{text!r} is neither a share such as 0.01 or 1% nor a count")
        return cls(value, is_share)

    def allows(self, rejected: int, matched: int) -> bool:
        """Whether a run with `rejected` of `matched` images may be published."""
        if rejected <= self.least and rejected < matched:
            return True
        if self.is_share and matched:
            # A quotient, unlike a product, rounds to the same float as `parse`.
            return rejected / matched <= self.value
        return rejected <= self.value

    def __str__(self) -> str:
        count = f" or {self.least}" if self.least else ""
        return f"{self.value * 100:.6g}%{count}" if self.is_share else f"{self.value:.0f}"


def parse_number(number: str) -> float:
    """The nearest float, also for a percentage: `13.7%` is the same number as `0.137`.

    Raises:
        ArithmeticError, ValueError: it is not a number.

    >>> parse_number("13.7%") == parse_number("0.137") == 0.137
    True
    """
    if number.endswith("%"):
        return float(decimal.Decimal(number[:-1].strip()).scaleb(-2))
    return float(number)
