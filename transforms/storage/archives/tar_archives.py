"""Tar archives: their files, and the labels that WebDataset puts next to its images."""

from __future__ import annotations

import errno
import json
import posixpath
import struct
import tarfile
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any

from transforms.core.file_errors import FinalError, MemberError
from transforms.core.tables.cell_texts import text_problem
from transforms.core.tables.csv_rows import label_text
from transforms.storage.archives.archive_file import ArchiveFile
from transforms.storage.archives.archive_members import MAX_OFFSET, Member, safe_name

# The files of a sample that give its label, and the fields of the second one, by precedence.
_LABEL_FILES = ("cls", "json")
_LABEL_FIELDS = ("label", "class", "cls")

# How files begin that gzip, bzip2, xz and zstd wrote.
_COMPRESSED = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd")
_LONGEST_MAGIC = 5

# A larger file next to an image is no label.
_MAX_LABEL_BYTES = 64 << 10

# What `tarfile` raises for headers that contradict themselves, besides its own errors: sizes above
# 64 bits, a list of parts that ends too early, thousands of headers about one file.
_DAMAGE = (
    tarfile.TarError,
    *(EOFError, ValueError, LookupError, OverflowError, RecursionError, struct.error),
)


def tar_members(file: ArchiveFile) -> list[Member]:
    """The files in a tar, in its order, with the labels of a WebDataset.

    Raises:
        FinalError: it is damaged, or no tar.
        OSError: it cannot be read.
    """
    labels: dict[str, dict[str, str]] = {}
    members: list[Member] = []
    try:
        for info in _headers(file):
            if info.isdir():
                continue
            name, problem = safe_name(info.name)
            members.append(Member(name, info.size, info.offset_data, problem or _problem(info)))
            key, extension = sample_key(name)
            if extension in _LABEL_FILES and info.isreg() and info.size <= _MAX_LABEL_BYTES:
                file.seek(info.offset_data)
                text = file.read(info.size).decode(errors="replace")
                # Only the labels are kept: all captions of an archive may take gigabytes.
                if label := sample_label(extension, text):
                    labels.setdefault(key, {})[extension] = label
    except _DAMAGE as error:
        file.seek(0)
        problem = f"it is a damaged tar archive, or none ({error})"
        if file.read(_LONGEST_MAGIC).startswith(_COMPRESSED):
            problem = "it is compressed, in spite of its name: decompress it to a .tar"
        raise FinalError(errno.EIO, problem) from error
    return list(_labelled(members, labels)) if labels else members


def _headers(file: ArchiveFile) -> Iterator[tarfile.TarInfo]:
    """The headers of an archive, and of others that were appended to it, as `cat` does."""
    start: int | None = 0
    while start is not None:
        file.seek(start)
        end = yield from _headers_of_one(file, start)
        start = _after_zeros(file, end)
        # A header that is damaged ends the archive for `tarfile`, and the rest would be missing.
        if start == end:
            raise tarfile.ReadError(f"no header at byte {end}")


def _headers_of_one(file: ArchiveFile, start: int) -> Generator[tarfile.TarInfo, None, int]:
    """The headers up to the next end of an archive, and where that is."""
    with tarfile.open(fileobj=file, mode="r:") as archive:
        place = start
        while (info := archive.next()) is not None:
            # A size below zero leads back to a header that was read, again and again.
            if info.size < 0 or archive.offset <= place:
                raise tarfile.ReadError(f"the size at byte {info.offset} is below zero")
            place = archive.offset
            yield info
            # It keeps all of them otherwise.
            archive.members = []  # type: ignore[attr-defined]
        return archive.offset


def _after_zeros(file: ArchiveFile, place: int) -> int | None:
    """Where the next block begins that is not all zeros; None at the end of the file."""
    file.seek(place)
    while block := file.read(tarfile.BLOCKSIZE):
        if block.strip(b"\0"):
            return place
        place += len(block)
    return None


def _problem(info: tarfile.TarInfo) -> str:
    """The reason why a member cannot be read; empty if its header shows none."""
    if info.issym() or info.islnk():
        return f"it is a link to {info.linkname!r}, not a file"
    if not info.isreg():
        return "it is not a regular file"
    if info.sparse is not None:
        return "it is a sparse file, which is not read"
    return "" if info.offset_data < MAX_OFFSET else "it begins outside of the archive"


def sample_key(name: str) -> tuple[str, str]:
    """The key and the extension of a file in a WebDataset archive, which begins at the first dot.

    >>> sample_key("a.b/000.left.JPG"), sample_key("a/1")
    (('a.b/000', 'left.jpg'), ('a/1', ''))
    """
    folder, base = posixpath.split(name)
    stem, _, extension = base.partition(".")
    return posixpath.join(folder, stem), extension.lower()


def _labelled(members: Iterable[Member], labels: dict[str, dict[str, str]]) -> Iterator[Member]:
    """The members with the labels of their samples."""
    for member in members:
        found = labels.get(sample_key(member.name)[0])
        label = next((found[each] for each in _LABEL_FILES if each in found), "") if found else ""
        yield member._replace(label=label) if label else member


def sample_label(extension: str, text: str) -> str:
    """The label in a file next to an image, empty if there is none.

    Args:
        extension: `cls` or `json`.
        text: of the file.

    >>> sample_label("cls", "7\\n"), sample_label("json", '{"label": "cat"}')
    ('7', 'cat')
    >>> sample_label("json", "[1]"), sample_label("json", '{"caption": "x"}')
    ('', '')
    """
    label = label_text(text if extension == "cls" else _json_label(text))
    return "" if text_problem([label]) else label


def _json_label(text: str) -> str:
    try:
        read: Any = json.loads(text)
    except (ValueError, RecursionError):
        return ""
    for field in _LABEL_FIELDS if isinstance(read, dict) else ():
        value = read.get(field)
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            return str(value)
    return ""


def read_tar_member(read: Callable[[int, int], bytes], offset: int, size: int) -> bytes:
    """The bytes of a member, with one request.

    Raises:
        MemberError: the archive ends before it does.
        OSError: the archive cannot be read.
    """
    data = read(offset, size) if size else b""
    if len(data) != size:
        raise MemberError("the archive ends in the middle of it")
    return data
