"""Identifiers of licenses of the Hub and of SPDX."""

from __future__ import annotations

import pytest

from transforms.dataset.dataset_options import hub_license, license_address


@pytest.mark.parametrize(
    ("text", "hub"),
    [
        ("CC-BY-4.0", "cc-by-4.0"),
        ("cc0-1.0", "cc0-1.0"),
        ("mit", "mit"),
        ("ODC-By-1.0", "odc-by"),
        ("https://creativecommons.org/licenses/by-nc-sa/4.0/legalcode", "cc-by-nc-sa-4.0"),
        ("https://creativecommons.org/licenses/by/4.0/deed.ko", "cc-by-4.0"),
        ("http://creativecommons.org/publicdomain/zero/1.0/", "cc0-1.0"),
        ("https://creativecommons.org/licenses/by/9.0/", ""),
        ("https://example.org/license", ""),
        ("ask Ann", ""),
    ],
)
def test_the_hub_has_its_own_names(text: str, hub: str) -> None:
    assert hub_license(text) == hub


def test_addresses() -> None:
    assert license_address("odbl") == "https://spdx.org/licenses/ODbL-1.0.html"
    assert license_address("https://example.org/license") == "https://example.org/license"
    assert license_address("ask Ann") == "ask Ann"
    assert license_address("") == ""
