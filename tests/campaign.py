"""How much is tried of what could be tried for hours: a sample in CI, all of it in a campaign.

`CAMPAIGN=1 ./run_tests.sh -m slow tests/crash` tries all. A sample is chosen by a fixed seed, so
that a failure in CI fails here too, and holds at least one case of every kind.
"""

import os
import random
from collections.abc import Callable, Iterable
from typing import TypeVar

Case = TypeVar("Case")

CAMPAIGN = bool(os.environ.get("CAMPAIGN"))


def size(sample: int, campaign: int) -> int:
    """How many cases a test makes."""
    return campaign if CAMPAIGN else sample


def one_of_each(cases: Iterable[Case], kind: Callable[[Case], str | None]) -> list[Case]:
    """One case of each kind, in their order; all of them in a campaign.

    Args:
        kind: the kind of a case; None for what is tried in a campaign alone.
    """
    every = list(cases)
    kinds: dict[str, list[int]] = {}
    for number, case in enumerate(every):
        if (name := kind(case)) is not None:
            kinds.setdefault(name, []).append(number)
    source = random.Random(15)
    chosen = {source.choice(numbers) for numbers in kinds.values()}
    return [case for number, case in enumerate(every) if CAMPAIGN or number in chosen]
