"""What a storage knows of a file without reading it: its size, version and checksums."""

from __future__ import annotations

import base64
from typing import NamedTuple

UNKNOWN_CHECKSUM = "-"
"""Stands for a checksum that cannot be known without reading the file."""

CRC_CHARACTERS = 8
"""The characters of the CRC32C at the beginning of a `FoundFile.checksum`."""


class FoundFile(NamedTuple):
    """One file as listed.

    Attributes:
        uri: local path or URL.
        size: bytes.
        version: changes when the content does.
        checksum: CRC32C and MD5 in base64, 8 and 24 characters; see `Storage.list_range`.
        problem: the reason why it cannot be read, if it is in an archive that says so.
        label: what its neighbours in an archive say; empty elsewhere.
    """

    uri: str
    size: int
    version: int
    checksum: str = ""
    problem: str = ""
    label: str = ""


class Stored(NamedTuple):
    """The metadata of a stored file, known without reading it.

    Attributes:
        size: bytes.
        version: changes when the content does; the generation where there are generations.
        crc32c: 8 hexadecimal digits; empty unless `Storage.keeps_checksums`.
        checksum: see `FoundFile`; empty unless `Storage.keeps_checksums`.
    """

    size: int
    version: int
    crc32c: str = ""
    checksum: str = ""


def listed_md5(checksum: str) -> str:
    """The MD5 in a `FoundFile.checksum`, 32 hexadecimal digits; empty if it is not known.

    >>> listed_md5("nWr6zg==1B2M2Y8AsgTpgAmY7PhCfg==")
    'd41d8cd98f00b204e9800998ecf8427e'
    >>> listed_md5("nWr6zg=="), listed_md5("-"), listed_md5("")
    ('', '', '')
    """
    return base64.b64decode(checksum[CRC_CHARACTERS:]).hex()
