"""Members of zip and tar archives."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import itertools
import json
import posixpath
import re
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from transforms.core.messages import FinalError, MemberError
from transforms.labels.csv_tables import MOST_TIMES, check_growth, held_bytes
from transforms.labels.label_rows import MAX_KEY, label_text, text_problem
from transforms.storage.interface import Read, Stored

# What the directory of an archive says about one file, and the version that identifies it.

MAX_OFFSET = 1 << 42
"""Bytes of an archive in which members may begin: a version has 63 bits. A member has no more."""

DIGEST_BITS = 21
"""The bits of a version that are a hash of the archive's version."""


class Member(NamedTuple):
    """One file in an archive.

    Attributes:
        name: without empty and `.` components; as it is if it is not safe.
        size: bytes, decompressed.
        offset: of its data in a tar, of its local header in a zip.
        problem: the reason why it cannot be read; empty if it can.
        label: what its neighbors in a WebDataset archive say; empty if they say nothing.
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
    if len(raw) > MAX_KEY:
        # Its end is what globs match.
        return raw[-MAX_KEY:].lstrip("/"), f"its name has {len(raw)} characters"
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


def member_version(archive: Stored, offset: int, size: int, *, bits: int = DIGEST_BITS) -> int:
    """The version of a member: where it begins, and a hash of the archive's version.

    Whoever reads it needs nothing else, so no worker reads the directory again.

    Args:
        archive: its size and its version.
        offset: of the member.
        size: of the member.
        bits: of the hash.
    """
    text = f"{archive.size} {archive.version} {offset} {size}"
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    # Zero stands for an unknown version.
    return offset << bits | 1 + int.from_bytes(digest) % ((1 << bits) - 1)


def member_offset(version: int, *, bits: int = DIGEST_BITS) -> int:
    """The offset in a `member_version`.

    >>> member_offset(member_version(Stored(9, 1), 5, 2))
    5
    """
    return version >> bits


# An archive as a seekable file, of which parts are requested.

# Bytes at the end that are read at once: they hold the whole directory of a small zip.
_TAIL = 128 << 10

MAX_READ = 48 << 20
"""Bytes that are read at once: the directory of a zip with a million files, which takes 0.7 GB."""

# An entry of such a directory with an extra field of 256 bytes or more, and of how many times 256,
# which `zipfile` copies once for each of its parts; and of how many times 256 all of them may be.
# Programs write dates, sizes and a second name, of at most 4 kB.
_ENTRY = b"PK\x01\x02"
_LARGE_EXTRA = re.compile(_ENTRY + b".{27}([\x01-\xff])", re.DOTALL)
_MOST_EXTRAS = 1 << 15

# Bytes of the headers of a tar, besides some for each of its files, and what each line and each
# part of a list in them counts, for which `tarfile` takes as long.
_HEADERS, _HEADERS_OF_FILE, _LINE = 16 << 20, 4 << 10, 64

# `tarfile` searches the digits of a header once for each of them. No file name has so many.
_MANY_DIGITS = re.compile(rb"[0-9]{300}")

# Zeros between archives that were appended to each other, and what is read of them at once, first
# and then: each archive of a thousand may end with a few.
_MAX_ZEROS, _FIRST_ZEROS, _ZEROS = 1 << 30, 1 << 11, 1 << 20


class Ranges(io.RawIOBase):
    """The bytes of an archive, or of a file in it, one range at a time."""

    def __init__(self, read: Read, size: int) -> None:
        self._read = read
        self._size = size
        self._at = 0
        self._tail = b""

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def fileno(self) -> int:
        """The number of a local file.

        Raises:
            OSError: it is none.
        """
        return int(getattr(self._read, "fileno", super().fileno)())

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(0, start + offset)
        return self._at

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        length = min(len(buffer), self._size - self._at)
        if length <= 0:
            return 0
        tail = max(0, self._size - _TAIL)
        if self._at >= tail:
            self._tail = self._tail or self._read(tail, self._size - tail)
            data = self._tail[self._at - tail : self._at - tail + length]
        else:
            data = self._read(self._at, length)
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


class ArchiveFile(io.BufferedReader):
    """An archive, read in blocks; no single read takes more than `MAX_READ` bytes of memory."""

    def __init__(self, read: Read, size: int, *, block: int) -> None:
        """Describes the archive.

        Args:
            read: a function from offset and length to a part of it.
            size: its bytes.
            block: bytes to read ahead where it is read in order.
        """
        super().__init__(Ranges(read, size), block)

    def read(self, size: int | None = -1, /) -> bytes:
        """See `io.BufferedReader.read`.

        Raises:
            FinalError: it is too much.
        """
        if size is not None and size > MAX_READ:
            problem = f"its directory has {size} bytes, more than {MAX_READ}: split the archive"
            raise FinalError(errno.EFBIG, problem)
        data = super().read(size)
        sizes = b"".join(_LARGE_EXTRA.findall(data)) if data.startswith(_ENTRY) else b""
        if max(sizes, default=0) >= 20 or sum(sizes) > _MOST_EXTRAS:
            problem = "its directory has extra fields of 5 kB, or of 8 MB in all: pack it again"
            raise FinalError(errno.EFBIG, problem)
        return data


class _HeaderReader:
    """An archive as `tarfile` reads it: nothing but headers.

    Attributes:
        left: bytes that further headers may have.
    """

    def __init__(self, file: ArchiveFile) -> None:
        self._file = file
        self.tell = file.tell
        self.seek = file.seek
        self.left = _HEADERS

    def read(self, size: int) -> bytes:
        self.left -= size
        data = self._file.read(size) if self.left >= 0 else b""
        self.left -= _LINE * (data.count(b"\n") + data.count(b","))
        if self.left < 0:
            raise tarfile.ReadError("its headers say more than real ones do")
        if size > tarfile.BLOCKSIZE and _MANY_DIGITS.search(data):
            raise tarfile.ReadError("a header has a number of 300 digits")
        return data


# Tar archives: their files, and the labels that WebDataset puts next to its images.

# The files of a sample that give its label, and the fields of the second one, by precedence; a
# number in the first one is an id, whose name the second one may have.
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
            members.append(Member(name, info.size, info.offset_data, problem or _tar_problem(info)))
            key, extension = sample_key(name)
            if extension in _LABEL_FILES and info.isreg() and info.size <= _MAX_LABEL_BYTES:
                file.seek(info.offset_data)
                text = file.read(info.size).decode(errors="replace")
                # Only the labels are kept: all captions of an archive may take gigabytes.
                if label := sample_label(extension, text):
                    labels.setdefault(key, {})[extension] = label
    except _DAMAGE as error:
        file.seek(0)
        problem = f"it is not a tar archive, or a damaged one ({error}): fetch or pack it again"
        if file.read(_LONGEST_MAGIC).startswith(_COMPRESSED):
            problem = "it is compressed, in spite of its name: decompress it to a .tar"
        raise FinalError(errno.EIO, problem) from error
    return list(_labelled(members, labels)) if labels else members


def _headers(file: ArchiveFile) -> Iterator[tarfile.TarInfo]:
    """The headers of an archive, and of others that were appended to it, as `cat` does."""
    start: int | None = 0
    left = _MAX_ZEROS
    headers: Any = _HeaderReader(file)
    while start is not None:
        file.seek(start)
        with tarfile.open(fileobj=headers, mode="r:") as archive:
            end = start
            while (info := archive.next()) is not None:
                # It looks at all tags of the archive for each file.
                tags = archive.pax_headers
                headers.left -= _LINE * len(tags) + sum(map(len, tags.values()))
                headers.left += _HEADERS_OF_FILE
                # A size below zero leads back to a header that was read, again and again.
                if info.size < 0 or archive.offset <= end:
                    raise tarfile.ReadError(f"the size at byte {info.offset} is below zero")
                end = archive.offset
                yield info
                # It keeps all of them otherwise.
                archive.members = []  # type: ignore[attr-defined]
            end = archive.offset
        start = _after_zeros(file, end, left)
        # A header that is damaged ends the archive for `tarfile`, and the rest would be missing.
        if start == end:
            raise tarfile.ReadError(f"no header at byte {end}")
        left -= (start or end) - end


def _after_zeros(file: ArchiveFile, place: int, most: int) -> int | None:
    """Where the next block begins that is not all zeros; None at the end of the file."""
    file.seek(place)
    first = place
    while block := file.read(min(_ZEROS, _FIRST_ZEROS + place - first)):
        if block != bytes(len(block)):
            zeros = len(block) - len(block.lstrip(b"\0"))
            return place + zeros // tarfile.BLOCKSIZE * tarfile.BLOCKSIZE
        place += len(block)
        if place - first > most:
            raise tarfile.ReadError(f"more than {_MAX_ZEROS} zeros from byte {first} on")
    return None


def _tar_problem(info: tarfile.TarInfo) -> str:
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
        found = labels.get(sample_key(member.name)[0], {})
        ranked = sorted(found, key=lambda each: (found[each].isdecimal(), each))
        yield member._replace(label=found[ranked[0]]) if ranked else member


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
    # No class has a name of kilobytes: 2,000 of them took 1.7 GB.
    return "" if len(label) > MAX_KEY or text_problem([label]) else label


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


def read_tar_member(read: Read, offset: int, size: int) -> bytes:
    """The bytes of a member, with one request.

    Raises:
        MemberError: the archive ends before it does.
        OSError: the archive cannot be read.
    """
    data = read(offset, size) if size else b""
    if len(data) != size:
        raise MemberError("the archive ends in the middle of it")
    return data


# Zip archives: their directory, and a member by one request.

# The flags of a member that is encrypted, whose sizes follow its data, and whose name is UTF-8.
_ENCRYPTED, _SIZES_FOLLOW, _IS_UTF8 = 1, 8, 0x800

# The system of a program that writes no rights of files.
_WINDOWS = 0

# Compression methods that a user may know by name.
_METHODS = {zipfile.ZIP_BZIP2: "bzip2", zipfile.ZIP_LZMA: "lzma", 9: "deflate64", 93: "zstd"}

# Signature, flags, method, CRC-32, name and extra field of a local header.
_HEADER = struct.Struct("<4s2xHH4xI8xHH")
_SIGNATURE = b"PK\x03\x04"

# What follows the data of a member, beginning with its CRC-32; some programs omit the signature.
_DESCRIPTOR = b"PK\x07\x08"
_DESCRIPTOR_BYTES = 24

# Room for the name and the extra field, which differ from those in the directory.
_NAME_ROOM = 512

# What files may have together that grow more than `MOST_TIMES`, such as empty pages that were
# scanned. 300 of 60 MB are a zip of 18 MB.
_FREE_BYTES = 256 << 20

# Compressed bytes that are read at once, and twice in all, beyond those of a member that did not
# shrink.
_MORE = 64 << 10


def zip_members(file: ArchiveFile) -> Iterator[Member]:
    """The files in a zip, in the order of its directory.

    Raises:
        FinalError: it is damaged, or no zip.
        OSError: it cannot be read.
    """
    try:
        with zipfile.ZipFile(file) as archive:
            infos = archive.infolist()
    except (zipfile.BadZipFile, NotImplementedError, struct.error, UnicodeDecodeError) as error:
        # `zipfile` takes a failed request for a damaged archive.
        if isinstance(error.__context__, OSError):
            raise error.__context__ from None
        said = str(error)[:1].lower() + str(error)[1:]
        problem = f"it is not a zip archive, or a damaged one ({said}): fetch or pack it again"
        raise FinalError(errno.EIO, problem) from error
    shared, free = _overlapping(infos), _FREE_BYTES
    for info in infos:
        name = _name(info)
        # `is_dir` fails for an empty name.
        if not name.endswith("/"):
            name, problem = safe_name(name)
            problem = problem or _zip_problem(info, free)
            if info.header_offset in shared:
                problem = problem or "it overlaps with another file of the archive"
            if not problem:
                free -= max(0, info.file_size - MOST_TIMES * info.compress_size)
            yield Member(name, min(info.file_size, MAX_OFFSET), info.header_offset, problem)


def _overlapping(infos: Iterable[zipfile.ZipInfo]) -> frozenset[int]:
    """Where files begin whose bytes are those of others, too.

    A zip of a megabyte may list one of them any number of times.
    """
    ordered = sorted(infos, key=lambda info: info.header_offset)
    ends = (info.header_offset + _HEADER.size + info.compress_size for info in ordered)
    reached = zip(itertools.pairwise(ordered), itertools.accumulate(ends, max), strict=False)
    shared = (pair for pair, end in reached if pair[1].header_offset < end)
    return frozenset(info.header_offset for pair in shared for info in pair)


def _name(info: zipfile.ZipInfo) -> str:
    """The name of a member.

    Many programs write UTF-8 without saying so, and some of Windows write its separators.
    """
    name = info.filename
    if not info.flag_bits & _IS_UTF8:
        with contextlib.suppress(UnicodeError):
            name = name.encode("cp437").decode()
    is_of_windows = info.create_system == _WINDOWS and "/" not in name
    return name.replace("\\", "/") if is_of_windows else name


def _zip_problem(info: zipfile.ZipInfo, free: int) -> str:
    """The reason why a member cannot be read; empty if the directory shows none.

    Args:
        info: of the member.
        free: what it may have besides `MOST_TIMES` its compressed size.
    """
    if info.flag_bits & _ENCRYPTED:
        return "it is encrypted: decrypt the archive"
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        return _unread(info.compress_type)
    if stat.S_ISLNK(info.external_attr >> 16):
        return "it is a link, not a file"
    # Deflate makes 1,032 bytes of one. Of a file that says more, the bytes of others are read.
    times = 1 if info.compress_type == zipfile.ZIP_STORED else 1032
    if info.file_size > min(MAX_OFFSET, times * info.compress_size):
        return f"the directory of the archive says that it has {info.file_size} bytes"
    if info.file_size > free + MOST_TIMES * info.compress_size:
        return f"it would have {info.file_size} bytes, more than {MOST_TIMES} times its size"
    return "" if 0 <= info.header_offset < MAX_OFFSET else "it begins outside of the archive"


def _unread(method: int) -> str:
    named = _METHODS.get(method, f"method {method}")
    return f"its compression, {named}, is not read: pack it again with deflate"


def read_zip_member(read: Read, offset: int, size: int) -> bytes:
    """The bytes of a member, with one request if it is not larger than without compression.

    Args:
        read: a function from offset and length to a part of the archive.
        offset: of its local header.
        size: bytes that the directory gives it; no more are decompressed.

    Raises:
        MemberError: it is damaged.
        OSError: the archive cannot be read.
    """
    return b"".join(_zip_pieces(read, offset, size, max(_MORE, size + _DESCRIPTOR_BYTES)))


def _zip_pieces(read: Read, offset: int, size: int, block: int) -> Iterator[bytes]:
    """The bytes of a member, in pieces; the arguments are those of `read_zip_member`.

    A piece has at most `block` bytes, and so many of the compressed data are read at once.
    """
    wanted = _HEADER.size + _NAME_ROOM + min(block, size + _DESCRIPTOR_BYTES)
    first = read(offset, wanted)
    start, flags, method, crc = _local_header(first)
    at, is_end = offset + max(start, len(first)), len(first) < wanted
    rest = memoryview(first)[start:]

    def following(length: int) -> memoryview:
        """Some of the next bytes; none at the end of the archive."""
        nonlocal rest, at
        if not rest and length and not is_end:
            rest = memoryview(read(at, length))
            at += len(rest)
        found, rest = rest[:length], rest[length:]
        return found

    inflater = None if method == zipfile.ZIP_STORED else zlib.decompressobj(-zlib.MAX_WBITS)
    # Data that does not shrink grows by a few bytes for each 16 kB.
    checksum, left, most = 0, size, size + (size // 8 + 2 * _MORE if inflater else 0)
    while not inflater.eof if inflater else left:
        if not (data := inflater.unconsumed_tail if inflater else b""):
            data = bytes(following(min(block, most)))
            most -= len(data)
        if not data:
            break
        if inflater:
            data = _inflated(inflater, data, min(block, left + 1))
        left -= len(data)
        if left < 0:
            raise MemberError(f"it decompresses to more than the {size} bytes of the directory")
        checksum = zlib.crc32(data, checksum)
        if data:
            yield data
    if left:
        raise MemberError(f"its data has {size - left} bytes, not the {size} of the directory")
    if flags & _SIZES_FOLLOW:
        after = inflater.unused_data if inflater else b""
        while more := following(max(0, _DESCRIPTOR_BYTES - len(after))):
            after += more
        start = 4 if after.startswith(_DESCRIPTOR) else 0
        crc = int.from_bytes(after[start : start + 4], "little")
    if checksum != crc:
        raise MemberError("its checksum is wrong")


def _inflated(inflater: Any, data: bytes, most: int) -> bytes:
    try:
        return bytes(inflater.decompress(data, most))
    except zlib.error as error:
        raise MemberError(f"its compressed data is damaged ({error})") from error


def _local_header(data: bytes) -> tuple[int, int, int, int]:
    """Where the data of a member begins behind its local header, its flags, method and CRC-32.

    Raises:
        MemberError: it is not read.
    """
    if len(data) < _HEADER.size:
        raise MemberError("the archive ends before it")
    signature, flags, method, crc, name, extra = _HEADER.unpack_from(data)
    if signature != _SIGNATURE:
        raise MemberError("the directory of the archive names a place where no file begins")
    if flags & _ENCRYPTED:
        raise MemberError("it is encrypted: decrypt the archive")
    if method not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise MemberError(_unread(method))
    return _HEADER.size + name + extra, flags, method, crc


class ZipText(Ranges):
    """A label file in a zip, decompressed as far as it is read; a way back begins at its start."""

    def __init__(self, read: Read, file: Member, uri: str, block: int) -> None:
        """Begins with nothing read.

        Args:
            read: a function from offset and length to a part of the archive.
            file: what the directory says about it.
            uri: its path, for messages.
            block: see `_zip_pieces`.
        """
        super().__init__(read, file.size)
        self._member, self._path, self._block = file, uri, block
        self._begin()

    def _begin(self) -> None:
        self._pieces = _zip_pieces(self._counted, self._member.offset, self._size, self._block)
        self._piece, self._end, self._stored, self._held = b"", 0, 0, 0

    def _counted(self, offset: int, length: int) -> bytes:
        data = self._read(offset, length)
        self._stored += len(data)
        return data

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        """See `io.RawIOBase.readinto`.

        Raises:
            LabelsError: it holds far more than its size.
            MemberError: it is damaged.
        """
        # After damage, the pieces have ended.
        if self._at in range(max(1, self._end - len(self._piece))):
            self._begin()
        while self._at >= self._end:
            self._piece = next(self._pieces, b"")
            if not self._piece:
                return 0
            self._end += len(self._piece)
            self._held += held_bytes(self._piece)
            check_growth(self._held, self._stored, self._path, "unpack the archive")
        start = len(self._piece) + self._at - self._end
        data = self._piece[start : start + len(buffer)]
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)
