"""Totals of rejections do not depend on the order in which they are added and merged."""

from __future__ import annotations

from collections import Counter
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from transforms.core.rejections import Rejection, RejectionTotals

TEXTS = st.text("ab", max_size=2)
REASONS = st.sampled_from(["key_not_found", "bad_cell", "row_conflict", "no_label"])
SOME = st.lists(st.builds(Rejection, TEXTS, REASONS, TEXTS, TEXTS, TEXTS), max_size=20)
CELLS = ("bad_cell", "row_conflict")


@given(SOME, st.integers(), st.integers(0, 20))
def test_any_order_gives_the_same(rejections: list[Rejection], seed: int, cut: int) -> None:
    whole = RejectionTotals.of(rejections)
    assert whole.reasons == Counter((each.subject, each.reason) for each in rejections)
    assert whole.count == len(rejections)
    of_cells = sorted(each for each in rejections if each.reason in CELLS)
    assert whole.first_of(*CELLS) == of_cells[:3]
    assert whole.first_of("no_label") == []
    mixed = Random(seed).sample(rejections, len(rejections))
    merged = RejectionTotals.of(mixed[:cut])
    merged.merge(RejectionTotals.of(mixed[cut:]))
    assert merged == whole
    assert merged.digest == whole.digest


def test_the_digest_depends_on_every_rejection() -> None:
    one = Rejection("image", "no_label", "", "a.jpg", "a")
    other = one._replace(key="b")
    digests = [RejectionTotals.of(each).digest for each in ([], [one], [other], [one] * 2)]
    assert len(set(digests)) == 4
    assert digests[0] == b""
