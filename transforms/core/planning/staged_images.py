"""The files that hold images from memory, in the staging folder, until they are published.

The bytes of an image are written once, where they arise. From then on it is an image like any
other: its name is shuffled, and its bytes are read inside the call that writes its shard.
"""

from __future__ import annotations

import hashlib

IN_STAGING = "images"
"""The folder of these files in the staging folder of an output folder."""

MEMORY = "memory:"
"""The root of images from memory in a manifest, whatever the output folder; no file is below it."""

_ROOT = f"/.staging/{IN_STAGING}"

# Versions below 1 have other meanings.
_VERSIONS = 2**63 - 1


def is_staged_root(root: str) -> bool:
    """Whether images are staged: `root` is that folder, and paths are the keys of the images.

    >>> is_staged_root("out/.staging/images"), is_staged_root("photos/images")
    (True, False)
    """
    return root.endswith(_ROOT)


def staged_image(path: str) -> str:
    """The name of an image's file: a hash of the path, which everything that reads it knows.

    >>> staged_image("cat/1.jpg")
    '830d7a3a1867c94d3441d5671f5c4f69'
    """
    return hashlib.blake2b(path.encode(), digest_size=16).hexdigest()


def content_version(data: bytes) -> int:
    """The version of an image: a hash of its bytes, from 1 to 2**63 - 1.

    >>> content_version(b"") == content_version(b"") != content_version(b"1")
    True
    """
    number = int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "big")
    return number % _VERSIONS + 1
