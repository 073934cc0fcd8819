"""Files of this machine."""

from __future__ import annotations

import contextlib
import errno
import fnmatch
import functools
import glob
import json
import os
import shutil
import stat
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, BinaryIO, NamedTuple

from transforms.core.machine import mounts
from transforms.core.messages import (
    ChangedError,
    FinalError,
    TooLargeError,
    WriteError,
    check_final,
    format_bytes,
    is_final,
)
from transforms.core.records import NameRange
from transforms.dataset.output_names import (
    MANIFEST,
    STAGING,
    ForeignNameError,
    is_staged,
    is_staged_folder,
)
from transforms.labels.csv_tables import stored_size
from transforms.storage.interface import (
    MAX_RANGES,
    FoundFile,
    Storage,
    Stored,
    foreign_name,
    read_up_to,
)

# Expands globs on local disk, folder by folder; an unreadable folder is an error.

# Limit for paths through links to one folder; a dozen folders linked in a circle have millions.
_MAX_WAYS = 1000

# The fields of a place that say where it is; the others follow from the folder.
_OF_RANGE = 3

_Inode = tuple[int, int]
_Ways = Counter[tuple[str, _Inode]]


class Place(NamedTuple):
    """A folder in which a part of a glob is matched.

    Attributes:
        folder: `""`, or a path that ends in a slash.
        at: the number of the part.
        top: the length of the path of the folder in which `**` began; -1 outside of `**`.
        above: within `**`, the inodes of the folders from the top to the one above.
        is_linked: whether a link leads there from the top.
    """

    folder: str
    at: int
    top: int = -1
    above: frozenset[_Inode] = frozenset()
    is_linked: bool = False


def expand_range(part: NameRange, limit: int) -> Iterator[str | NameRange]:
    """Like `glob.iglob(pattern, recursive=True)` without folders; an unreadable one is an error.

    Args:
        part: a glob, or some of its folders.
        limit: the number of paths after which the folders that are left become ranges; 0 for none.

    Raises:
        OSError: a folder cannot be read, or there are too many ways through links to one.
    """
    parts = part.glob.split("/")
    if parts[-1] == "**":
        parts.append("*")
    is_absolute = parts[0] == "" and len(parts) > 1
    begins = [Place("/", 1) if is_absolute else Place("", 0)]
    if part.start:
        begins = [Place(*begin) for begin in json.loads(part.start)]
    found, left = 0, list[Place]()
    ways: _Ways = Counter()
    # Folders in each other: the last one is expanded.
    opened: list[Iterator[str | Place]] = [iter(begins)]
    while opened:
        for each in opened[-1]:
            if isinstance(each, str):
                found += 1
                yield each
            elif limit and found >= limit:
                left.append(each)
            else:
                opened.append(_expand(parts, each, ways))
                break
        else:
            opened.pop()
    for number in range(min(len(left), MAX_RANGES)):
        # As JSON, names that are not UTF-8 cross a shuffle, too.
        start = json.dumps([place[:_OF_RANGE] for place in left[number::MAX_RANGES]])
        yield NameRange(part.glob, start)


def _expand(parts: list[str], place: Place, ways: _Ways) -> Iterator[str | Place]:
    """The paths in a folder, and places below it."""
    folder, at = place.folder, place.at
    while at < len(parts) - 1 and not glob.has_magic(parts[at]):
        folder += f"{parts[at]}/"
        at += 1
    part = parts[at]
    if part == "**":
        yield from _expand_tree(parts, _in_tree(place._replace(folder=folder, at=at)), ways)
    elif not glob.has_magic(part):
        if part and os.path.lexists(folder + part):
            yield folder + part
    else:
        inner = Place(folder, at + 1)
        for entry in _entries(folder):
            if _fits(entry.name, part):
                yield from _match_entry(parts, inner, entry)


def _fits(name: str, part: str) -> bool:
    return fnmatch.fnmatchcase(name, part) and (part[0] == "." or name[0] != ".")


def _match_entry(parts: list[str], place: Place, entry: os.DirEntry[str]) -> Iterator[str | Place]:
    """The place below something in a folder, where the rest of a glob is matched, or itself."""
    if place.at == len(parts):
        if not entry.is_dir(follow_symlinks=False):
            yield place.folder + entry.name
    elif _is_folder(entry):
        yield Place(f"{place.folder}{entry.name}/", place.at)


def _in_tree(place: Place) -> Place:
    """A place within `**`, with what links need."""
    if place.above:
        return place
    folder = place.folder
    top = len(folder) if place.top < 0 else place.top
    ends = [at for at in range(top, len(folder)) if folder[at] == "/"]
    above = frozenset(_inode(folder[:end]) for end in [top, *ends][:-1])
    return Place(folder, place.at, top, above, any(os.path.islink(folder[:end]) for end in ends))


def _inode(folder: str) -> _Inode:
    """What all paths to a folder share; its path without links takes a call for each name in it."""
    try:
        found = os.stat(folder or ".")
    except OSError:
        # It cannot be listed, either, which says why.
        return 0, 0
    return found.st_dev, found.st_ino


def _expand_tree(parts: list[str], place: Place, ways: _Ways) -> Iterator[str | Place]:
    """Expands `**`: matches the rest in a folder, and in every one below that is not hidden.

    Links to folders are followed, unless they lead back to a folder above.
    """
    folder, at, top, above, is_linked = place
    inode = _inode(folder)
    # One set for all folders in it: there may be a million.
    path = above | {inode}
    if is_linked:
        if inode in above:
            return
        ways[folder[:top], inode] += 1
        if ways[folder[:top], inode] > _MAX_WAYS:
            raise OSError(errno.ELOOP, f"more than {_MAX_WAYS} paths with links lead to it", folder)
    # Each folder is listed once, for its files and for the folders in it.
    is_listed = glob.has_magic(parts[at + 1]) and parts[at + 1] != "**"
    if not is_listed:
        yield Place(folder, at + 1)
    below, inner = [], Place(folder, at + 2)
    for entry in _entries(folder):
        name = entry.name
        if is_listed and _fits(name, parts[at + 1]):
            yield from _match_entry(parts, inner, entry)
        if name[0] != "." and _is_folder(entry):
            is_link = is_linked or entry.is_symlink()
            below.append(Place(f"{folder}{name}/", at, top, path, is_link))
    # No folder stays open meanwhile: folders may be thousands deep.
    yield from below


def _entries(folder: str) -> Iterator[os.DirEntry[str]]:
    """What is in a folder, as it is read; nothing if the folder is gone.

    Raises:
        OSError: it cannot be listed.
    """
    try:
        listing = os.scandir(folder or ".")
    except (FileNotFoundError, NotADirectoryError):
        return
    except PermissionError as error:
        raise closed_folder(folder, error) from error
    with listing:
        yield from listing


def closed_folder(path: str, error: PermissionError) -> PermissionError:
    """The error that names the folder whose permissions keep a path from being read."""
    above = os.path.dirname(path.rstrip("/"))
    try:
        os.stat(os.path.join(above, "."))
    except PermissionError:
        path = above
    return PermissionError(error.errno, error.strerror, path.rstrip("/"))


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """Whether something is a folder, or a link to one; a call to the system only for a link.

    Raises:
        OSError: that is unknown; images would be missed.
    """
    try:
        return entry.is_dir()
    except PermissionError as error:
        raise PermissionError(error.errno, error.strerror, os.path.dirname(entry.path)) from error
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            return False
        raise


# Recognizes ordinary local files: reading them ends, and returns the listed bytes.
#
# A FIFO or a device may never end. Neither may a file of `/proc` or `/sys`, although it claims to
# be regular: the kernel generates its bytes on reading, which can block or change something.

# File systems whose content the kernel generates.
_MADE_UP = frozenset(
    "autofs binfmt_misc bpf cgroup cgroup2 configfs debugfs devpts efivarfs fusectl mqueue nfsd "
    "nsfs proc pstore rpc_pipefs securityfs selinuxfs smackfs sysfs tracefs".split()
)

# The file system has no links, or not to another one, or not that many.
_NO_LINK = (errno.EXDEV, errno.EPERM, errno.EACCES, errno.EMLINK, errno.EOPNOTSUPP, errno.ENOSYS)


def is_ordinary(status: os.stat_result) -> bool:
    """Whether a file is regular and on a file system that stores bytes. No system call."""
    return stat.S_ISREG(status.st_mode) and status.st_dev not in _made_up_devices()


@functools.lru_cache(maxsize=1)
def _made_up_devices() -> frozenset[int]:
    """The devices of such file systems, read once per process; none without `/proc`."""
    return frozenset(device for line in mounts() if (device := _made_up_device(line)))


def _made_up_device(line: str) -> int:
    """The device in a line of `mountinfo`, 0 if its files are ordinary.

    >>> _made_up_device("24 29 0:22 / /proc rw,relatime - proc proc rw") == os.makedev(0, 22)
    True
    >>> _made_up_device("29 1 8:1 / / rw,relatime - ext4 /dev/root rw")
    0
    """
    mount, _, kind = line.partition(" - ")
    fields = mount.split()
    if len(fields) < 3 or kind.split(" ")[0] not in _MADE_UP:
        return 0
    major, _, minor = fields[2].partition(":")
    return os.makedev(int(major), int(minor))


# Output folders on local disk: what is in their way may be a link, a FIFO or a folder.

# The path does not exist: a part of it is missing, or a file is in place of a folder.
NOTHING_THERE = (FileNotFoundError, NotADirectoryError)


def _check_folder(path: str) -> None:
    """Checks that a folder of the output, if it exists, is a folder and not a link.

    Raises:
        ForeignNameError: it is something else.
    """
    with contextlib.suppress(*NOTHING_THERE):
        mode = os.lstat(path).st_mode
        if not stat.S_ISDIR(mode):
            kind = "a link" if stat.S_ISLNK(mode) else "not a folder"
            raise ForeignNameError(f"{path} is {kind}: it must be a real folder; remove it")


def _staged_name(entry: os.DirEntry[str], folder: str = "") -> str:
    """The path below the staging folder of something in it, or in a folder of it.

    Raises:
        ForeignNameError: it is not a file that this tool writes, or is a link.
    """
    name = folder + entry.name
    if is_staged(name) and entry.is_file(follow_symlinks=False):
        return name
    raise foreign_name(entry.path)


# Files on local disk, whose names may come from untrusted sources: no call blocks.
#
# A folder that was copied from elsewhere may hold links, FIFOs and devices under the names of a
# dataset's files. Opening a FIFO would block forever; through a link, a file elsewhere would be
# read or overwritten.

# The errno of Linux and macOS for a link in the last part of a path.
_IS_LINK = errno.ELOOP

# Errors from opening something other than a file of the dataset.
_NO_FILE = (errno.EINVAL, errno.EISDIR, errno.ENOTDIR)

# A part of a file that is read without a look at its size.
_CHUNK = 1 << 20

# Seconds between attempts to read a file after a temporary failure.
_PAUSES = (0.1, 0.5, 2.0)


class LocalStorage(Storage):
    """Paths without a scheme."""

    is_remote = False
    has_folders = True

    def __init__(self, *, follow_links: bool = True) -> None:
        """Says whether files that are read may be links."""
        self._follow_links = follow_links

    def staged_names(self, staging: str) -> list[str]:
        """All files in a staging folder; a link is refused, too."""
        _check_folder(staging)
        try:
            entries = sorted(os.scandir(staging), key=lambda entry: entry.name)
        except NOTHING_THERE:
            return []
        names = []
        for entry in entries:
            if entry.is_dir(follow_symlinks=False) and is_staged_folder(entry.name):
                found = sorted(os.scandir(entry.path), key=lambda each: each.name)
                names += [_staged_name(each, f"{entry.name}/") for each in found]
            else:
                names.append(_staged_name(entry))
        return names

    def remove_staging(self, staging: str) -> None:
        super().remove_staging(staging)
        if os.path.lexists(staging):
            for entry in [*os.scandir(staging)]:
                if entry.is_dir(follow_symlinks=False):
                    os.rmdir(entry.path)
            os.rmdir(staging)

    def find_foreign(self, output: str) -> str | None:
        if not os.path.lexists(output):
            return None
        if not os.path.isdir(output):
            raise NotADirectoryError(errno.ENOTDIR, "it is a file", output)
        names = sorted(os.listdir(output))
        is_ours = MANIFEST in names or STAGING in names
        return names[0] if names and not is_ours else None

    def check_folders(
        self, output: str, names: Iterable[str], *, are_replaced: bool = False
    ) -> None:
        names = list(names)
        for folder in sorted({name.rpartition("/")[0] for name in names} - {""}):
            _check_folder(os.path.join(output, folder))
        for path in (os.path.join(output, name) for name in names if are_replaced):
            if os.path.isdir(path) and not os.path.islink(path):
                raise ForeignNameError(
                    f"{path} is a folder, but the dataset needs a file there; move the folder"
                )

    def list_range(
        self, part: NameRange, limit: int, *, with_checksums: bool = False
    ) -> Iterator[FoundFile | NameRange]:
        """See `list_files`; folders that follow the `limit`-th file become ranges."""
        # One by one as the folders are read, so a million names need no list.
        for path in expand_range(part, limit):
            if isinstance(path, NameRange):
                yield path
                continue
            try:
                status = os.stat(path)
            except OSError as error:
                if isinstance(error, PermissionError):
                    closed = closed_folder(path, error)
                    if closed.filename != path:
                        raise closed from error
                # A dangling link, or a file removed since the listing: reading it will show which.
                check_final(error, path)
                yield FoundFile(path, 0, 0)
                continue
            if is_ordinary(status):
                yield FoundFile(path, status.st_size, status.st_mtime_ns)

    def find(self, path: str) -> Stored | None:
        try:
            status = os.stat(path)
        except OSError as error:
            check_final(error, path)
            return None
        return Stored(status.st_size, status.st_mtime_ns) if is_ordinary(status) else None

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def open_reader(self, path: str) -> BinaryIO:
        return os.fdopen(_open_ordinary(path, self._follow_links), "rb")

    def open_ranges(self, path: str, *, version: int = 0) -> Callable[[int, int], bytes]:
        return _OpenFile(_open_ordinary(path, self._follow_links), path)

    def read_listed(self, uri: str, *, size: int, version: int, max_bytes: int) -> bytes:
        # On a network file system, many errors are temporary.
        for pause in _PAUSES:
            try:
                return _read_once(uri, size, version)
            except OSError as error:
                if is_final(error):
                    raise
            time.sleep(pause)
        return _read_once(uri, size, version)

    @contextlib.contextmanager
    def open_writer(self, path: str) -> Iterator[Any]:
        # Synced before it gets its name, so that a crash cannot leave half a file.
        with new_file(path) as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())

    def rename(self, source: str, target: str, *, is_synced: bool = True) -> None:
        os.replace(source, target)
        if is_synced:
            self.sync_folder(os.path.dirname(target))

    def copy(self, source: str, target: str, *, size: int, crc32c: str) -> bool:
        """Links the file. This tool never writes into a file that has its name."""
        _remove(target)
        status = os.lstat(source)
        # A file of somebody else would stay theirs.
        if not is_ordinary(status) or status.st_uid != os.geteuid():
            return False
        try:
            os.link(source, target, follow_symlinks=False)
        except FileExistsError:
            pass  # another attempt made it meanwhile
        except OSError as error:
            if error.errno in _NO_LINK:
                return False
            raise
        if self.has_checksum(target, crc32c, size):
            return True
        _remove(target)
        return False

    def remove(self, path: str, *, generation: int | None = None) -> None:
        """Removes a file, or a link itself; a folder is an error."""
        _remove(path)

    def names_below(self, folder: str) -> list[str]:
        return sorted(
            os.path.relpath(os.path.join(inner, name), folder)
            for inner, _, names in os.walk(folder)
            for name in names
        )

    def read_bytes(self, path: str, *, max_bytes: int | None = None) -> bytes:
        with self.open_reader(path) as file:
            size = 0 if max_bytes is None else os.fstat(file.fileno()).st_size
            if max_bytes is not None and size > max_bytes:
                raise TooLargeError(size, max_bytes, path)
            return read_up_to(file, max_bytes, path)

    def checksum(self, path: str, *, size: int) -> str | None:
        # Checksums are those of a dataset's files, which are no links.
        if self._follow_links:
            return LocalStorage(follow_links=False).checksum(path, size=size)
        return super().checksum(path, size=size)

    def has_checksum(self, path: str, crc32c: str, size: int) -> bool:
        try:
            return super().has_checksum(path, crc32c, size)
        except OSError as error:
            if error.errno in _NO_FILE:
                return False
            raise

    def has_size(self, path: str, size: int) -> bool:
        try:
            status = os.lstat(path)
        except NOTHING_THERE:
            return False
        return stat.S_ISREG(status.st_mode) and status.st_size == size

    def is_ordinary(self, path: str) -> bool:
        try:
            return is_ordinary(os.stat(path))
        except (OSError, ValueError):
            return False

    def is_misplaced(self, path: str) -> bool:
        return os.path.lexists(path) and not (os.path.isfile(path) and not os.path.islink(path))

    def is_folder(self, path: str) -> bool:
        return os.path.isdir(path)

    def absolute(self, path: str) -> str:
        return os.path.abspath(path)

    def resolved(self, path: str) -> str:
        try:
            return os.path.realpath(path)
        except ValueError:
            # No file can have such a name.
            return self.absolute(path)

    def spellings(self, path: str) -> list[str]:
        relative = os.path.relpath(path)
        return [path, os.path.abspath(path), relative, f"./{relative}"]

    def make_directory(self, path: str) -> None:
        if not os.path.exists(path):
            os.makedirs(path, exist_ok=True)

    def sync_folder(self, folder: str) -> None:
        descriptor = os.open(folder or ".", os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def remove_if_empty(self, folder: str) -> None:
        with contextlib.suppress(OSError):
            os.rmdir(folder)


# What a file may have besides some times its bytes on the disk, which may compress it. A tar with a
# hole for each of 400 images had 20 GB in a megabyte.
_FREE_HOLES, _MOST_HOLES = 16 << 20, 50


def _refuse_holes(descriptor: int, size: int, path: str) -> None:
    """Refuses a large file of which the disk has a small part, unless it is on tape."""
    if size > _FREE_HOLES:
        with open(descriptor, "rb", closefd=False) as file:
            held = stored_size(file, size)
        if size > _FREE_HOLES + _MOST_HOLES * held:
            said = f"the disk has {held} of its {size} bytes: fetch it again"
            raise FinalError(errno.EFBIG, said, path)


class _OpenFile:
    """An open file, closed with its last reference: no thread reads from another file's number."""

    def __init__(self, descriptor: int, path: str) -> None:
        self._descriptor = descriptor
        _refuse_holes(descriptor, os.fstat(descriptor).st_size, path)

    def fileno(self) -> int:
        """The number of the file."""
        return self._descriptor

    def __call__(self, offset: int, length: int) -> bytes:
        """A part of the file, in one system call; fewer bytes at its end."""
        if length > _CHUNK:
            # The system would reserve all of it, and an index that was edited may name any length.
            length = min(length, max(os.fstat(self._descriptor).st_size - offset, 0))
        data = os.pread(self._descriptor, length, offset)
        while 0 < len(data) < length and (
            more := os.pread(self._descriptor, length - len(data), offset + len(data))
        ):
            data += more
        return data

    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        # When Python ends, `os` may be gone before this.
        close(self._descriptor)


def _open_ordinary(path: str, follow_links: bool) -> int:
    """The descriptor of a file to read.

    Raises:
        OSError: it cannot be opened, or is not a regular file.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | (0 if follow_links else os.O_NOFOLLOW)
    try:
        descriptor = os.open(path, flags)
    except OSError as error:
        if error.errno == _IS_LINK and not follow_links and os.path.islink(path):
            detail = "it is a link, not a file of the dataset"
            raise OSError(errno.EINVAL, detail, path) from error
        if error.errno == errno.ENXIO:
            raise OSError(errno.EINVAL, "it is not a regular file", path) from error
        raise
    try:
        if not is_ordinary(os.fstat(descriptor)):
            raise OSError(errno.EINVAL, "it is not a regular file", path)
        return descriptor
    except BaseException:
        os.close(descriptor)
        raise


def _why_unwritten(error: OSError, path: str) -> str:
    """The reason that a user can remove, and how; empty for others."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        full = "your quota" if error.errno == errno.EDQUOT else "the disk"
        free = format_bytes(free_bytes(path))
        return f"{full} is full ({free} free): make room, and run the same command again to resume"
    if error.errno == errno.EFBIG:
        return "no file may have that size: raise the limit (ulimit -f), or make more shards"
    if error.errno == errno.ENAMETOOLONG:
        length = len(os.fsencode(path))
        return f"its path of {length} bytes, or a name in it, is too long: give a shorter folder"
    return ""


def free_bytes(path: str) -> int:
    """Bytes that can be written where a path is, or will be."""
    while not os.path.isdir(path):
        path = os.path.dirname(path) or "."
    return shutil.disk_usage(path).free


@contextlib.contextmanager
def new_file(path: str) -> Iterator[BinaryIO]:
    """A new file to write, replacing one of a killed run; creates its folder.

    Raises:
        WriteError: it cannot be created or written, for a reason that the user can remove.
        OSError: it cannot, for another one.
    """
    try:
        with _create(path) as stream:
            yield stream
    except OSError as error:
        if error.filename in (None, path) and (why := _why_unwritten(error, path)):
            raise WriteError(error.errno, f"cannot write {path}: {why}") from error
        raise


def _create(path: str) -> BinaryIO:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    try:
        return os.fdopen(os.open(path, flags, 0o666), "wb")
    except FileNotFoundError:
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    except FileExistsError:
        # Not truncated on opening: a link would lead elsewhere, and a FIFO wait for a reader.
        _remove(path)
    return os.fdopen(os.open(path, flags, 0o666), "wb")


def _remove(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def _read_once(path: str, size: int, version: int) -> bytes:
    """All bytes of a file: five system calls, since a thread gives up Python's lock in each.

    Raises:
        OSError: the file is not the one that was listed, or cannot be read.
    """
    # Otherwise it would block if the file has been replaced by a FIFO.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        _check_unchanged(os.fstat(descriptor), path, size, version)
        _refuse_holes(descriptor, size, path)
        data = os.read(descriptor, size + 1)
        while 0 < len(data) < size and (more := os.read(descriptor, size - len(data))):
            data += more
        _check_unchanged(os.fstat(descriptor), path, size, version)
    finally:
        os.close(descriptor)
    if len(data) != size:
        raise _overwritten(path)
    return data


def _check_unchanged(status: os.stat_result, path: str, size: int, version: int) -> None:
    if not is_ordinary(status):
        if stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        raise OSError(errno.EINVAL, "it is no longer a regular file", path)
    if status.st_size != size or version not in (0, status.st_mtime_ns):
        raise _overwritten(path)


def _overwritten(path: str) -> OSError:
    return ChangedError(errno.ESTALE, "it was overwritten meanwhile", path)
