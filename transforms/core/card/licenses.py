"""Identifiers of licenses: the Hugging Face Hub and SPDX write the same license differently."""

from __future__ import annotations

import re

from transforms.core.card.dataset_card import is_address

# Those of data, by the identifier of the Hub: that of SPDX.
_SPDX = {
    "apache-2.0": "Apache-2.0",
    "bsd-2-clause": "BSD-2-Clause",
    "bsd-3-clause": "BSD-3-Clause",
    "c-uda": "C-UDA-1.0",
    "cc0-1.0": "CC0-1.0",
    "cc-by-2.0": "CC-BY-2.0",
    "cc-by-2.5": "CC-BY-2.5",
    "cc-by-3.0": "CC-BY-3.0",
    "cc-by-4.0": "CC-BY-4.0",
    "cc-by-sa-3.0": "CC-BY-SA-3.0",
    "cc-by-sa-4.0": "CC-BY-SA-4.0",
    "cc-by-nc-2.0": "CC-BY-NC-2.0",
    "cc-by-nc-3.0": "CC-BY-NC-3.0",
    "cc-by-nc-4.0": "CC-BY-NC-4.0",
    "cc-by-nd-4.0": "CC-BY-ND-4.0",
    "cc-by-nc-nd-3.0": "CC-BY-NC-ND-3.0",
    "cc-by-nc-nd-4.0": "CC-BY-NC-ND-4.0",
    "cc-by-nc-sa-2.0": "CC-BY-NC-SA-2.0",
    "cc-by-nc-sa-3.0": "CC-BY-NC-SA-3.0",
    "cc-by-nc-sa-4.0": "CC-BY-NC-SA-4.0",
    "cdla-permissive-1.0": "CDLA-Permissive-1.0",
    "cdla-permissive-2.0": "CDLA-Permissive-2.0",
    "cdla-sharing-1.0": "CDLA-Sharing-1.0",
    "mit": "MIT",
    "odbl": "ODbL-1.0",
    "odc-by": "ODC-By-1.0",
    "pddl": "PDDL-1.0",
    "unlicense": "Unlicense",
}
_HUB = {spdx.lower(): hub for hub, spdx in _SPDX.items()}
_CREATIVE_COMMONS = re.compile(
    r"https?://creativecommons\.org/(?:licenses/(by(?:-[a-z]+)*)/([0-9.]+)"
    r"|publicdomain/(zero)/1\.0)(?:/(?:deed(?:\.\w+)?|legalcode(?:\.\w+)?)?)?",
    re.IGNORECASE,
)


def hub_license(text: str) -> str:
    """The identifier that the Hugging Face Hub has for a license; empty if it has none.

    Args:
        text: an identifier of SPDX or of the Hub in any case, or an address of Creative Commons.

    >>> hub_license("CC-BY-4.0"), hub_license("ODbL-1.0"), hub_license("ask Ann")
    ('cc-by-4.0', 'odbl', '')
    >>> hub_license("https://creativecommons.org/licenses/by-nc/4.0/")
    'cc-by-nc-4.0'
    """
    if found := _CREATIVE_COMMONS.fullmatch(text):
        text = "cc0-1.0" if found[3] else f"cc-{found[1]}-{found[2]}"
    text = text.lower()
    return text if text in _SPDX else _HUB.get(text, "")


def license_address(text: str) -> str:
    """The web address of a license, which Croissant wants; the text itself if none is known.

    >>> license_address("cc-by-4.0"), license_address("ask Ann")
    ('https://spdx.org/licenses/CC-BY-4.0.html', 'ask Ann')
    """
    if is_address(text):
        return text
    known = hub_license(text)
    return f"https://spdx.org/licenses/{_SPDX[known]}.html" if known else text
