"""The values of a card, and the options that are of the card alone."""

from __future__ import annotations

import pytest

from transforms.dataset.dataset_options import (
    Card,
    card_of,
    card_options,
    check_homepage,
    check_name,
    check_text,
    check_version,
    record_options,
)


@pytest.mark.parametrize("name", ["pets", "a", "pets_2", "a__b"])
def test_a_name_is_kept(name: str) -> None:
    assert check_name(name) == name


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("My-Pets", "such as my_pets"),
        ("2 pets", "such as pets"),
        ("pets\n", "such as pets"),
        ("../pets", "such as pets"),
        ("애완", "beginning with a-z"),
        ("", "beginning with a-z"),
    ],
)
def test_another_name_is_refused(name: str, hint: str) -> None:
    with pytest.raises(ValueError, match=f"is not a name: .*{hint}$"):
        check_name(name)


@pytest.mark.parametrize("version", ["0.0.0", "1.2.0", "10.200.3000"])
def test_a_version_is_kept(version: str) -> None:
    assert check_version(version) == version


@pytest.mark.parametrize(
    "version", ["", "1", "1.2", "1.2.3.4", "01.2.3", "1.2.3\n", "v1.2.3", "1.*.*", "١.٢.٣"]
)
def test_another_version_is_refused(version: str) -> None:
    with pytest.raises(ValueError, match="is not a version: write three numbers"):
        check_version(version)


def test_texts_keep_their_lines() -> None:
    assert check_text("\n# 애완동물\r\n\tcats\rdogs ") == "# 애완동물\n\tcats\ndogs"
    assert len(check_text("word " * 100_000)) == 499_999


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (" \n", "it is blank"),
        ("a\0b", r"holds the control character '\\x00'"),
        ("\x1b[31m", "holds the control character"),
        ("a\udcff", "is not valid UTF-8"),
    ],
)
def test_a_text_that_files_cannot_hold_is_refused(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        check_text(text)


def test_a_homepage_is_an_address() -> None:
    assert check_homepage("https://example.org/pets?a=1") == "https://example.org/pets?a=1"
    assert check_homepage(" https://example.org\n") == "https://example.org"
    others = ("example.org", "ftp://a/b", "https:///a", "https://a b", "javascript:1")
    for other in (*others, "https://a.org/><b>", 'https://a"'):
        with pytest.raises(ValueError, match="is not a web address"):
            check_homepage(other)


def test_a_card_is_options() -> None:
    card = Card("pets", "1.2.0", license="MIT")
    options = {"seed": 1, "name": "pets", "dataset_version": "1.2.0", "license": "MIT"}
    assert card_of(options) == card
    assert card_of({"seed": 1}) is None
    assert record_options(options) == {"seed": 1}
    assert {**record_options(options), **card_options(options)} == options
