"""What the directory of an archive says about one file, and the version that identifies it."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

from transforms.storage.file_metadata import Stored

MAX_OFFSET = 1 << 42
"""Bytes of an archive in which members may begin: a version has 63 bits. A member has no more."""

_DIGEST_BITS = 21


class Member(NamedTuple):
    """One file in an archive.

    Attributes:
        name: without empty and `.` components; as it is if it is not safe.
        size: bytes, decompressed.
        offset: of its data in a tar, of its local header in a zip.
        problem: the reason why it cannot be read; empty if it can.
        label: what its neighbours in a WebDataset archive say; empty if they say nothing.
    """

    name: str
    size: int
    offset: int
    problem: str = ""
    label: str = ""


def safe_name(raw: str) -> tuple[str, str]:
    """The name of a member, and the reason why it is not safe; empty if it is.

    >>> safe_name("./cat//1.jpg"), safe_name("a/../../1.jpg")
    (('cat/1.jpg', ''), ('a/../../1.jpg', "its name 'a/../../1.jpg' leads out of the archive"))
    """
    parts = [part for part in raw.split("/") if part not in ("", ".")]
    if raw.startswith("/") or ".." in parts:
        return raw.lstrip("/"), f"its name {raw!r} leads out of the archive"
    if "\0" in raw:
        return "/".join(parts), f"its name {raw!r} holds a NUL character"
    return "/".join(parts), ""


def matched_name(member: Member) -> str:
    """The name that a glob must match: of one that is not safe, without its `..`."""
    if not member.problem:
        return member.name
    return "/".join(part for part in member.name.split("/") if part not in ("", ".", ".."))


def member_version(archive: Stored, offset: int, size: int) -> int:
    """The version of a member: where it begins, and a hash of the archive's version.

    Whoever reads it needs nothing else, so no worker reads the directory again.

    Args:
        archive: its size and its version.
        offset: of the member.
        size: of the member.
    """
    text = f"{archive.size} {archive.version} {offset} {size}"
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    # Zero stands for an unknown version.
    return offset << _DIGEST_BITS | 1 + int.from_bytes(digest) % ((1 << _DIGEST_BITS) - 1)


def member_offset(version: int) -> int:
    """The offset in a `member_version`.

    >>> member_offset(member_version(Stored(9, 1), 5, 2))
    5
    """
    return version >> _DIGEST_BITS
