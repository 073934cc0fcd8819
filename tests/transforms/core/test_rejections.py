"""Reasons are stable, their help is at hand, and totals do not depend on the order."""

from __future__ import annotations

import json
import pickle
from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.transforms.added import totals_of
from transforms.core.rejections import (
    Reason,
    RejectedImageError,
    Rejection,
    help_for,
)

# Reasons are stable codes with help, and a rejection is one line of JSON.

TEXT = st.text(st.characters(exclude_categories=["Cs"]))


@pytest.mark.parametrize("reason", Reason)
def test_a_reason_is_one_word_with_help(reason: Reason) -> None:
    assert reason.code == reason.name.lower()
    assert reason.code.isidentifier()
    assert 0 < len(reason.value) < 100
    assert "\n" not in reason.value
    # Without options there is the same help.
    assert help_for(reason.code, {}) == reason.value


@pytest.mark.parametrize(
    ("reason", "options", "says", "never"),
    [
        ("not_an_image", {"transcode": "keep"}, "TIFF, AVIF, HEIC, JPEG 2000", "not HEIC"),
        ("not_an_image", {"transcode": "auto"}, "such as PSD; convert it to JPEG", "auto"),
        ("not_an_image", {"transcode": "png"}, "such as PSD; convert it to JPEG", "auto"),
        ("duplicate_key", {"key": "stem", "label_key": "id"}, "if the rows hold paths", "rename"),
        ("duplicate_key", {"key": "name", "label_key": None}, "--key path tells", "if the rows"),
        ("duplicate_key", {"key": "path"}, "rename them", "--key"),
        ("duplicate_key", {"key": "uri"}, "rename them", "--key"),
    ],
)
def test_advice_is_not_what_is_in_use(
    reason: str, options: dict[str, str | None], says: str, never: str
) -> None:
    help_ = help_for(reason, options)
    assert says in help_
    assert never not in help_
    assert len(help_) < 100


def test_reasons_are_stable() -> None:
    # Others read them in rejected.jsonl: add some, but change none.
    codes = """
        unreadable empty_file too_many_bytes too_many_pixels too_costly not_an_image corrupt_image
        decoder_crash unsupported_image no_decoder bad_shape name_not_utf8 no_label unknown_label
        label_conflict ambiguous_label duplicate_key duplicate_image conflicting_labels bad_cell
        bad_box row_conflict no_group bad_split split_conflict row_without_image malformed_row
    """
    assert {reason.code for reason in Reason} >= {*codes.split()}


@given(TEXT, TEXT, TEXT)
def test_a_rejection_is_one_line_of_json(detail: str, path: str, key: str) -> None:
    line = Rejection("image", "no_label", detail, path, key).to_json()
    assert line.splitlines() == [line]
    said = {"subject": "image", "reason": "no_label", "detail": detail, "path": path, "key": key}
    assert list(json.loads(line).items()) == list(said.items())
    assert "한강" in Rejection("row", "malformed_row", "한강", path, key).to_json()


def test_the_error_keeps_its_reason_between_processes() -> None:
    error = pickle.loads(pickle.dumps(RejectedImageError(Reason.EMPTY_FILE, "0 bytes")))
    assert (error.reason, error.detail) == (Reason.EMPTY_FILE, "0 bytes")


# Totals of rejections do not depend on the order in which they are added and merged.

TEXTS = st.text("ab", max_size=2)
REASONS = st.sampled_from(["key_not_found", "bad_cell", "row_conflict", "no_label"])
SOME = st.lists(st.builds(Rejection, TEXTS, REASONS, TEXTS, TEXTS, TEXTS), max_size=20)
CELLS = ("bad_cell", "row_conflict")


@given(SOME, st.integers(), st.integers(0, 20))
def test_any_order_gives_the_same(rejections: list[Rejection], seed: int, cut: int) -> None:
    whole = totals_of(rejections)
    assert whole.reasons == Counter((each.subject, each.reason) for each in rejections)
    assert whole.count == len(rejections)
    of_cells = sorted(each for each in rejections if each.reason in CELLS)
    assert whole.first_of(*CELLS) == of_cells[:3]
    assert whole.first_of("no_label") == []
    mixed = Random(seed).sample(rejections, len(rejections))
    merged = totals_of(mixed[:cut])
    merged.merge(totals_of(mixed[cut:]))
    assert merged == whole
    assert merged.digest == whole.digest


def test_the_digest_depends_on_every_rejection() -> None:
    one = Rejection("image", "no_label", "", "a.jpg", "a")
    other = one._replace(key="b")
    digests = [totals_of(each).digest for each in ([], [one], [other], [one] * 2)]
    assert len(set(digests)) == 4
    assert digests[0] == b""
