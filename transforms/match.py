"""What the globs match, with sizes, as small records. No image is opened."""

from __future__ import annotations

import errno
import fnmatch
import glob
import os
import stat
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from apache_beam.io.filesystem import FileMetadata
from apache_beam.io.filesystems import FileSystems

from transforms import gcs
from transforms.core.csv_rows import label_text
from transforms.core.file_errors import check_final
from transforms.core.image_globs import any_case
from transforms.core.keys import image_key, relative_path
from transforms.core.path_labels import PathRules
from transforms.core.records import Count, JoinSide
from transforms.core.rejections import Reason, Rejection
from transforms.ordinary import is_ordinary

# Ways through links that lead to one folder; linked in a circle, a dozen folders have millions.
_MAX_WAYS = 1000


class FoundFile(NamedTuple):
    """One file as listed.

    Attributes:
        uri: local path or URL.
        size: bytes.
        version: changes when the content does.
    """

    uri: str
    size: int
    version: int


def is_local(uri: str) -> bool:
    """Whether `uri` is a path of this machine, not a URL.

    >>> is_local("photos/*.jpg"), is_local("gs://bucket/*.jpg")
    (True, False)
    """
    return "://" not in uri


def list_files(pattern: str) -> Iterator[FoundFile]:
    """The ordinary files that a glob matches; `**` crosses folders, hidden files need a dot.

    Local files are listed one by one as the folders are read, so a million names need no list.

    Raises:
        OSError: a folder cannot be read; its images would be missed in silence.
    """
    if gcs.is_gcs(pattern):
        yield from map(FoundFile._make, gcs.list_objects(pattern))
        return
    if not is_local(pattern):
        for metadata in FileSystems.match([pattern])[0].metadata_list:
            yield _remote_file(metadata)
        return
    for path in _expand_glob(pattern):
        try:
            status = os.stat(path)
        except OSError as error:
            # A dangling link, or gone since it was listed: reading it will say which.
            check_final(error, path)
            yield FoundFile(path, 0, 0)
            continue
        if is_ordinary(status):
            yield FoundFile(path, status.st_size, status.st_mtime_ns)


def _expand_glob(pattern: str) -> Iterator[str]:
    """What `glob.iglob(pattern, recursive=True)` gives, but an unreadable folder is an error."""
    first, *parts = pattern.split("/")
    if first == "" and parts:
        yield from _match_parts("/", parts)
    else:
        yield from _match_parts("", [first, *parts])


def _match_parts(folder: str, parts: list[str]) -> Iterator[str]:
    """The paths in `folder` (`""` or ending in a slash) that the rest of a glob matches."""
    at = next((at for at, part in enumerate(parts) if glob.has_magic(part)), len(parts) - 1)
    folder += "".join(f"{name}/" for name in parts[:at])
    part, rest = parts[at], parts[at + 1 :]
    if part == "**":
        yield from _match_below(folder, rest or ["*"])
    elif not glob.has_magic(part):
        if part and os.path.lexists(folder + part):
            yield folder + part
    else:
        for name in _names(folder):
            if fnmatch.fnmatchcase(name, part) and (part[0] == "." or name[0] != "."):
                if not rest:
                    yield folder + name
                elif _is_folder(folder + name):
                    yield from _match_parts(folder + name + "/", rest)


def _match_below(top: str, rest: list[str]) -> Iterator[str]:
    """`**`: what the rest matches in `top` and in every folder below it that is not hidden.

    Links to folders are followed, unless they lead back to a folder above.

    Raises:
        OSError: there are too many ways through links to one folder.
    """
    ways: Counter[str] = Counter()
    # A folder, the same without links in it, and all those above it.
    todo: list[tuple[str, str, frozenset[str]]] = [(top, os.path.realpath(top), frozenset())]
    while todo:
        folder, real, above = todo.pop()
        if real in above:
            continue
        ways[real] += 1
        if ways[real] > _MAX_WAYS:
            raise OSError(errno.ELOOP, f"links lead to it in more than {_MAX_WAYS} ways", folder)
        yield from _match_parts(folder, rest)
        below = above | {real}
        for name in _names(folder):
            path = folder + name
            if name[0] != "." and _is_folder(path):
                target = os.path.join(real, name)
                if os.path.islink(path):
                    target = os.path.realpath(target)
                todo.append((path + "/", target, below))


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder or ".")
    except (FileNotFoundError, NotADirectoryError):
        return []


def _is_folder(path: str) -> bool:
    """Whether `path` is a folder, or a link to one.

    Raises:
        OSError: it cannot be known, as in a folder that may be listed but not entered, and as with
            a path that is too long; `os.path.isdir` says no, and images would be missed in silence.
    """
    try:
        return stat.S_ISDIR(os.stat(path).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except PermissionError as error:
        raise PermissionError(error.errno, error.strerror, os.path.dirname(path)) from error
    except OSError as error:
        if error.errno == errno.ELOOP:
            return False
        raise


def _remote_file(metadata: FileMetadata) -> FoundFile:
    version = int((metadata.last_updated_in_seconds or 0) * 1_000_000)
    return FoundFile(metadata.path, metadata.size_in_bytes, version)


class LeftOut(NamedTuple):
    """Files that are no images, whatever glob matches them.

    Attributes:
        files: each in all spellings that a listing may give.
        folders: likewise, with a slash at their ends.
    """

    files: frozenset[str] = frozenset()
    folders: tuple[str, ...] = ()

    def has(self, uri: str) -> bool:
        """Whether a file is left out.

        >>> LeftOut(frozenset(["a.csv"]), ("out/",)).has("out/labels.txt")
        True
        """
        return uri in self.files or uri.startswith(self.folders)


class ImageFinder:
    """Finds the images of one dataset.

    Attributes:
        root: the folder below which paths and keys begin.
        key: kind of the join key.
        rules: what an image's path says of its label and its split.
        left_out: what is no image.
    """

    def __init__(
        self, *, root: str, key: str, rules: PathRules, left_out: LeftOut | None = None
    ) -> None:
        self._root = root
        self._key = key
        self._rules = rules
        self._left_out = left_out or LeftOut()
        self._reads_paths = rules.has_splits or rules.label_from in ("directory", "regex")

    def find(self, pattern: str) -> Iterator[tuple[str, JoinSide] | Rejection | Count]:
        """Lists one glob: every image with its key, and at the end how many there were."""
        found = 0
        folder = named_folder(pattern)
        for file in list_files(any_case(pattern)):
            if self._left_out.has(file.uri):
                continue
            found += 1
            yield self._describe(file, folder)
        yield Count("images_found", found)

    def _describe(self, file: FoundFile, folder: str) -> tuple[str, JoinSide] | Rejection:
        path = relative_path(file.uri, self._root)
        try:
            path.encode()
        except UnicodeEncodeError:
            shown = path.encode(errors="surrogateescape").decode(errors="backslashreplace")
            detail = f"the name holds bytes that are not UTF-8: {shown}"
            return Rejection("image", Reason.NAME_NOT_UTF8.value, detail, shown, "")
        key = image_key(file.uri, kind=self._key, root=self._root)
        if not self._reads_paths:
            return key, JoinSide(path, file.size, file.version, "", "")
        label, split = self._rules.label(path, folder=folder), self._rules.split(path)
        return key, JoinSide(path, file.size, file.version, label, "", split)


def named_folder(pattern: str) -> str:
    """The class that a glob itself names: the folder of `photos/cat/*.jpg`.

    An image that lies straight in the root of `photos/*/*.jpg` or `photos/**` has no class.

    >>> named_folder("photos/cat/*.jpg"), named_folder("photos/**/*.jpg")
    ('cat', '')
    """
    folder = os.path.dirname(pattern)
    return "" if glob.has_magic(folder) else label_text(os.path.basename(folder))
