"""Zip archives: their directory, and a member by one request."""

from __future__ import annotations

import contextlib
import errno
import stat
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator

from transforms.core.file_errors import FinalError, MemberError
from transforms.storage.archives.archive_file import ArchiveFile
from transforms.storage.archives.archive_members import MAX_OFFSET, Member, safe_name

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

# Compressed bytes that are read at once beyond those of a member that did not shrink.
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
        problem = f"it is a damaged zip archive, or none ({said})"
        raise FinalError(errno.EIO, problem) from error
    for info in infos:
        name = _name(info)
        # `is_dir` fails for an empty name.
        if not name.endswith("/"):
            name, problem = safe_name(name)
            size = min(info.file_size, MAX_OFFSET)
            yield Member(name, size, info.header_offset, problem or _problem(info))


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


def _problem(info: zipfile.ZipInfo) -> str:
    """The reason why a member cannot be read; empty if the directory shows none."""
    if info.flag_bits & _ENCRYPTED:
        return "it is encrypted: decrypt the archive"
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        return _unread(info.compress_type)
    if stat.S_ISLNK(info.external_attr >> 16):
        return "it is a link, not a file"
    if info.file_size > MAX_OFFSET:
        return f"the directory of the archive says that it has {info.file_size} bytes"
    return "" if 0 <= info.header_offset < MAX_OFFSET else "it begins outside of the archive"


def _unread(method: int) -> str:
    named = _METHODS.get(method, f"method {method}")
    return f"its compression, {named}, is not read: pack it again with deflate"


def read_zip_member(read: Callable[[int, int], bytes], offset: int, size: int) -> bytes:
    """The bytes of a member, with one request if it is not larger than without compression.

    Args:
        read: a function from offset and length to a part of the archive.
        offset: of its local header.
        size: bytes that the directory gives it; no more are decompressed.

    Raises:
        MemberError: it is damaged.
        OSError: the archive cannot be read.
    """
    wanted = _HEADER.size + _NAME_ROOM + size + _DESCRIPTOR_BYTES
    data = read(offset, wanted)
    if len(data) < _HEADER.size:
        raise MemberError("the archive ends before it")
    signature, flags, method, crc, name, extra = _HEADER.unpack_from(data)
    start = _HEADER.size + name + extra
    if signature != _SIGNATURE:
        raise MemberError("the directory of the archive names a place where no file begins")
    if flags & _ENCRYPTED:
        raise MemberError("it is encrypted: decrypt the archive")
    rest = _Rest(read, offset, start, data, is_end=len(data) < wanted)
    if method == zipfile.ZIP_STORED:
        plain, after = rest.next(size), b""
    elif method == zipfile.ZIP_DEFLATED:
        plain, after = _inflated(rest, size)
    else:
        raise MemberError(_unread(method))
    if len(plain) != size:
        raise MemberError(f"its data has {len(plain)} bytes, not the {size} of the directory")
    if flags & _SIZES_FOLLOW:
        after += rest.next(_DESCRIPTOR_BYTES - len(after))
        at = 4 if after.startswith(_DESCRIPTOR) else 0
        crc = int.from_bytes(after[at : at + 4], "little")
    if zlib.crc32(plain) != crc:
        raise MemberError("its checksum is wrong")
    return plain


class _Rest:
    """The bytes of an archive from a member's data on."""

    def __init__(
        self,
        read: Callable[[int, int], bytes],
        offset: int,
        start: int,
        data: bytes,
        *,
        is_end: bool,
    ) -> None:
        self._read = read
        self._offset = offset
        self._at = start
        self._data = data
        self._is_end = is_end

    def next(self, length: int) -> bytes:
        """The next bytes; fewer at the end of the archive."""
        missing = self._at + length - len(self._data)
        if missing > 0 and not self._is_end:
            self._data += self._read(self._offset + len(self._data), missing)
        found = self._data[self._at : self._at + length]
        self._at += len(found)
        return found


def _inflated(rest: _Rest, size: int) -> tuple[bytes, bytes]:
    """The decompressed data of a member, and some bytes that follow it.

    Raises:
        MemberError: it is damaged, or decompresses to more than `size` bytes.
    """
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    plain = b""
    # Data that does not shrink grows by a few bytes for each 16 kB.
    lengths = [size + _DESCRIPTOR_BYTES, _MORE, _MORE + size // 8]
    try:
        while lengths and not inflater.eof and len(plain) <= size:
            found = rest.next(lengths.pop(0))
            if not found:
                break
            plain += inflater.decompress(found, size + 1 - len(plain))
    except zlib.error as error:
        raise MemberError(f"its compressed data is damaged ({error})") from error
    if len(plain) > size:
        raise MemberError(f"it decompresses to more than the {size} bytes of the directory")
    if not inflater.eof:
        raise MemberError("its compressed data has no end")
    return plain, inflater.unused_data
