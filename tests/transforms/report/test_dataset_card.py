"""The values of a card, its license, and the options that are of the card alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from transforms.dataset.dataset_options import (
    Card,
    card_of,
    check_homepage,
    check_name,
    check_text,
    check_version,
    hub_license,
    license_address,
    record_options,
)


@pytest.mark.parametrize(
    ("check", "value", "kept"),
    [
        *((check_name, name, name) for name in ("pets", "a", "pets_2", "a__b")),
        *((check_version, each, each) for each in ("0.0.0", "1.2.0", "10.200.3000")),
        (check_text, "\n# 애완동물\r\n\tcats\rdogs ", "# 애완동물\n\tcats\ndogs"),
        (check_text, "word " * 100_000, ("word " * 100_000).rstrip()),
        (check_homepage, "https://example.org/pets?a=1", "https://example.org/pets?a=1"),
        (check_homepage, " https://example.org\n", "https://example.org"),
    ],
)
def test_a_value_is_kept(check: Callable[[str], str], value: str, kept: str) -> None:
    assert check(value) == kept


ADDRESSES = ("example.org", "ftp://a/b", "https:///a", "https://a b", "javascript:1")
VERSIONS = ("", "1", "1.2", "1.2.3.4", "01.2.3", "1.2.3\n", "v1.2.3", "1.*.*", "١.٢.٣")
NAMES = {"My-Pets": "such as my_pets", "2 pets": "such as pets", "pets\n": "such as pets"}
NAMES |= {"../pets": "such as pets", "애완": "beginning with a-z", "": "beginning with a-z"}


@pytest.mark.parametrize(
    ("check", "value", "why"),
    [
        *((check_name, name, f"is not a name: .*{hint}$") for name, hint in NAMES.items()),
        *((check_version, each, "is not a version: write three numbers") for each in VERSIONS),
        (check_text, " \n", "it is blank"),
        (check_text, "a\0b", r"holds the control character '\\x00'"),
        (check_text, "\x1b[31m", "holds the control character"),
        (check_text, "a\udcff", "is not valid UTF-8"),
        *((check_homepage, each, "is not a web address") for each in ADDRESSES),
        (check_homepage, "https://a.org/><b>", "is not a web address"),
        (check_homepage, 'https://a"', "is not a web address"),
    ],
)
def test_another_value_is_refused(check: Callable[[str], str], value: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        check(value)


def test_a_card_is_options() -> None:
    card = Card("pets", "1.2.0", license="MIT")
    options = {"seed": 1, "name": "pets", "dataset_version": "1.2.0", "license": "MIT"}
    assert card_of(options) == card
    assert card_of({"seed": 1}) is None
    assert record_options(options) == {"seed": 1}


@pytest.mark.parametrize(
    ("text", "hub"),
    [
        *(("CC-BY-4.0", "cc-by-4.0"), ("cc0-1.0", "cc0-1.0"), ("mit", "mit")),
        *(("ODC-By-1.0", "odc-by"), ("ask Ann", ""), ("https://example.org/license", "")),
        ("https://creativecommons.org/licenses/by-nc-sa/4.0/legalcode", "cc-by-nc-sa-4.0"),
        ("https://creativecommons.org/licenses/by/4.0/deed.ko", "cc-by-4.0"),
        ("http://creativecommons.org/publicdomain/zero/1.0/", "cc0-1.0"),
        ("https://creativecommons.org/licenses/by/9.0/", ""),
    ],
)
def test_the_hub_has_its_own_names_of_licenses(text: str, hub: str) -> None:
    assert hub_license(text) == hub


@pytest.mark.parametrize("text", ["https://example.org/license", "ask Ann", ""])
def test_a_license_has_an_address_if_spdx_knows_it(text: str) -> None:
    assert license_address("odbl") == "https://spdx.org/licenses/ODbL-1.0.html"
    assert license_address(text) == text
