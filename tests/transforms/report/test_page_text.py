"""Text of the page: lines break between parts of a name, and numbers are readable."""

from __future__ import annotations

import html

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transforms.report.page import pieces, prose, settings, wrapped


@pytest.mark.parametrize(
    ("word", "parts"),
    [
        ("image.class.label.labels.txt", "image .class .label .labels .txt"),
        ("gs://bucket/photos/cat_1.jpg", "gs:// bucket/ photos/ cat_ 1 .jpg"),
        ("German_short-haired_pointer", "German_ short- haired_ pointer"),
        ("--box_orientation", "--box_ orientation"),
        ("train=0.7,validation=0.3", "train=0.7, validation=0.3"),
        ("2026-11-22T10:00:00.123", "2026- 11- 22T10: 00: 00.123"),
        ("f" * 60, f"{'f' * 24} {'f' * 24} {'f' * 12}"),
        ("///", "///"),
        ("..", ".."),
    ],
)
def test_a_name_breaks_at_its_separators(word: str, parts: str) -> None:
    assert pieces(word) == parts.split()


@given(st.text())
def test_the_parts_are_the_whole_name(text: str) -> None:
    assert "".join(pieces(text)) == text
    assert all(pieces(text)) or not text


@given(st.text(alphabet="<>&\"'-/_. ab", max_size=60))
def test_everything_is_escaped_and_nothing_else_is_changed(text: str) -> None:
    for marked in (wrapped(text), prose(text)):
        left = marked.replace("<wbr>", "").replace('<code class="flag">', "")
        left = left.replace("</code>", "")
        assert not set("<>\"'") & set(left)
        assert html.unescape(left) == text


def test_flags_are_code_and_other_dashes_are_not() -> None:
    assert prose("a--b --key, (--seed) -- x") == (
        'a--b <code class="flag">--key</code>, (<code class="flag">--seed</code>) -- x'
    )


def test_only_the_first_values_of_a_long_setting_are_shown() -> None:
    """200,000 categories took ten seconds of a run."""
    shown = dict(settings({"classes": {f"c{at}": at for at in range(30)}, "files": ["f"] * 30}))
    assert shown["classes"].endswith("c18=18, c19=19 …")
    assert shown["files"] == f"{', '.join(['f'] * 20)} …"


def test_settings_have_units_separators_and_words() -> None:
    options = {
        "max_bytes": 256_000_000,
        "shard_size": 1_500_000,
        "max_pixels": 178_956_970,
        "seed": 20_261_122,
        "dense_labels": True,
        "splits": {"train": 0.7, "test": 0.3},
        "images": [f"{at}.jpg" for at in range(30)],
        "quality": "95",
    }
    shown = dict(settings(options))
    assert shown.pop("images").endswith("19.jpg …")
    assert shown == {
        "max_bytes": "256 MB",
        "shard_size": "1.5 MB",
        "max_pixels": "178,956,970",
        "seed": "20261122",
        "dense_labels": "yes",
        "splits": "train=0.7, test=0.3",
        "quality": "95",
    }
