"""Usual names of columns with the key or the label of an image."""

from __future__ import annotations

import re

KEY_NAMES = frozenset(
    "file filename filepath id idcode image imagefile imagefilename imageid imagename imagepath"
    " imageuri img imgid imgname imgpath key name path photo photoid photoname picture stem"
    " uri".split()
)
"""Header names known to hold the key, as `folded` spells them."""

LABEL_NAMES = frozenset(
    "breed category categoryid categoryname class classid classlabel classname label labelid"
    " labelname labels landmark landmarkid species target".split()
)
"""Header names known to hold the label, as `folded` spells them."""


def folded(name: str) -> str:
    """A header name without case and punctuation.

    >>> folded("Image_ID"), folded("image id")
    ('imageid', 'imageid')
    """
    return re.sub(r"[\s_-]|^#", "", name.casefold())


def is_key_name(name: str) -> bool:
    """Whether a column of this name holds keys.

    >>> is_key_name("Image_ID"), is_key_name("label")
    (True, False)
    """
    return folded(name) in KEY_NAMES


def is_label_name(name: str) -> bool:
    """Whether a column of this name holds labels."""
    return folded(name) in LABEL_NAMES
