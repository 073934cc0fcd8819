"""Reasons are stable, their help is at hand, and totals do not depend on the order."""

import json
import pickle
from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.marks import cases
from tests.transforms.added import totals_of
from transforms.core.rejections import (
    Reason,
    RejectedImageError,
    Rejection,
    RejectionLimit,
    help_for,
)

# Reasons are stable codes with help, and a rejection is one line of JSON.

TEXT = st.text(st.characters(exclude_categories=["Cs"]))


def test_a_reason_is_one_word_with_help() -> None:
    for reason in Reason:
        assert reason.code == reason.name.lower() and reason.code.isidentifier()
        assert 0 < len(reason.value) < 100 and "\n" not in reason.value
        # Without options there is the same help.
        assert help_for(reason.code, {}) == reason.value


@cases(
    ("not_an_image", {"transcode": "keep"}, "TIFF, AVIF, HEIC, JPEG 2000", "not HEIC"),
    ("not_an_image", {"transcode": "auto"}, "such as PSD; convert it to JPEG", "auto"),
    ("not_an_image", {"transcode": "png"}, "such as PSD; convert it to JPEG", "auto"),
    ("duplicate_key", {"key": "stem", "label_key": "id"}, "if the rows hold paths", "rename"),
    ("duplicate_key", {"key": "name", "label_key": None}, "--key path tells", "if the rows"),
    ("duplicate_key", {"key": "path"}, "rename them", "--key"),
    ("duplicate_key", {"key": "uri"}, "rename them", "--key"),
)
def test_advice_is_not_what_is_in_use(
    reason: str, options: dict[str, str | None], says: str, never: str
) -> None:
    help_ = help_for(reason, options)
    assert says in help_
    assert never not in help_
    assert len(help_) < 100


def test_an_error_keeps_its_reason_between_processes_and_codes_are_stable() -> None:
    # Others read them in rejected.jsonl: add some, but change none.
    codes = """
        unreadable empty_file too_many_bytes too_many_pixels too_costly not_an_image corrupt_image
        decoder_crash unsupported_image no_decoder bad_shape name_not_utf8 no_label unknown_label
        label_conflict ambiguous_label duplicate_key duplicate_image conflicting_labels bad_cell
        bad_box row_conflict no_group bad_split split_conflict row_without_image malformed_row
    """
    assert {reason.code for reason in Reason} >= {*codes.split()}
    error = pickle.loads(pickle.dumps(RejectedImageError(Reason.EMPTY_FILE, "0 bytes")))
    assert (error.reason, error.detail) == (Reason.EMPTY_FILE, "0 bytes")


@given(TEXT, TEXT, TEXT)
def test_a_rejection_is_one_line_of_json(detail: str, path: str, key: str) -> None:
    line = Rejection("image", "no_label", detail, path, key).to_json()
    assert line.splitlines() == [line]
    said = {"subject": "image", "reason": "no_label", "detail": detail, "path": path, "key": key}
    assert list(json.loads(line).items()) == list(said.items())
    assert "한강" in Rejection("row", "malformed_row", "한강", path, key).to_json()


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


# `--max_rejected` is a count or a share, and allows exactly that.


@cases(
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
)
def test_parse(text: str, limit: tuple[float, bool, int], shown: str) -> None:
    assert RejectionLimit.parse(text) == limit
    assert str(RejectionLimit.parse(text)) == shown


OTHERS = ["", "%", "many", "-1", "-1%", "-0.5", "1.5", "101%", "nan", "nan%", "inf", "inf%"]


def test_anything_else_is_refused() -> None:
    for text in (*OTHERS, "1e-3", "1 2"):
        with pytest.raises(ValueError, match="neither a share such as 0.01 or 1% nor a count"):
            RejectionLimit.parse(text)
    for text in ("10 or 1%", "1% or 2%", "1% or 2 or 3"):
        with pytest.raises(ValueError, match="write it like '1% or 10'"):
            RejectionLimit.parse(text)


@cases(
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
