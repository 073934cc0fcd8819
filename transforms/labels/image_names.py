"""Names of images: braces, ranges, archives, cells that name a file."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection
from typing import NamedTuple

from transforms.labels.keys import IMAGE_EXTENSIONS, WILDCARD, image_key, relative_path

# Names of files inside archives: `ARCHIVE.zip!/NAME`, as if the archive were a folder.
#
# In this form, unlike in `zip://NAME::ARCHIVE`, a name begins with the path of its archive. So
# roots, globs, keys and folders of classes need no rule of their own.

# The first archive counts: one inside another is a file like any other.
_INSIDE = re.compile(r"(.+?\.(zip|tar))!(?:/(.*))?", re.IGNORECASE | re.DOTALL)

# `photos.zip!*.jpg`, as it may be written.
_NO_SLASH = re.compile(r"(\.(?:zip|tar)!)(?=[^/])", re.IGNORECASE)

_COMPRESSED = re.compile(r"(.+\.(?:tar\.(?:gz|bz2|xz|zst)|tgz|tbz2?|txz))(?:!.*)?", re.I | re.S)

_WHOLE = re.compile(r".+\.(?:zip|tar)", re.IGNORECASE | re.DOTALL)


class ArchivePath(NamedTuple):
    """A file in an archive, or a glob of such files.

    Attributes:
        archive: path, URI or glob of the archive.
        kind: `zip` or `tar`.
        name: in the archive; empty for the archive itself as a folder.
    """

    archive: str
    kind: str
    name: str


def archive_path(path: str) -> ArchivePath | None:
    """The parts of a path into an archive; None for another path.

    >>> archive_path("gs://b/photos.zip!/cat/*.jpg")
    ArchivePath(archive='gs://b/photos.zip', kind='zip', name='cat/*.jpg')
    >>> archive_path("photos!/1.jpg") is None, archive_path("photos.TAR!").kind
    (True, 'tar')
    """
    found = _INSIDE.fullmatch(path) if "!" in path else None
    return found and ArchivePath(found[1], found[2].lower(), found[3] or "")


def with_slash(glob: str) -> str:
    """A glob with the slash that may be left out after the `!` of an archive.

    >>> with_slash("photos.zip!**/*.jpg"), with_slash("photos.zip!/*.jpg")
    ('photos.zip!/**/*.jpg', 'photos.zip!/*.jpg')
    """
    return _NO_SLASH.sub(r"\1/", glob, count=1)


def as_folder(path: str) -> str:
    """The path that a file in an archive has after unpacking into a folder of the same name.

    >>> as_folder("a.zip!/cat/1.jpg"), as_folder("a!/1.jpg")
    ('a.zip/cat/1.jpg', 'a!/1.jpg')
    """
    parts = archive_path(path)
    return f"{parts.archive}/{parts.name}" if parts else path


def archive_problem(glob: str) -> str:
    """The reason why a glob of images names an archive in the wrong way; empty if it does not.

    >>> archive_problem("a.zip")
    "is an archive: write 'a.zip!/**/*' for the images in it"
    >>> archive_problem("a/*.jpg")
    ''
    """
    if found := _COMPRESSED.fullmatch(glob):
        return (
            "is a compressed tar, whose files can only be read one after the other: decompress "
            f"it to .tar, with gunzip {found[1]!r} or the like"
        )
    if _WHOLE.fullmatch(glob):
        return f"is an archive: write {glob + '!/**/*'!r} for the images in it"
    return ""


# Image globs in addition to `*`, `?` and `[...]`: alternatives, and extensions of any case.
#
# One rule for every file system: alternatives become several globs, and a case becomes `[...]`.

_MAX_GLOBS = 1000

# The innermost alternatives: `{jpg,png}`.
_BRACES = re.compile(r"\{([^{}]*,[^{}]*)\}")


def expand_braces(pattern: str) -> tuple[str, ...]:
    """Expands a pattern with alternatives to globs, in order, without repetitions.

    Braces without a comma are literal, as in a shell. A glob in an archive gets the slash after
    its `!` if it is missing.

    Raises:
        ValueError: there are too many.

    >>> expand_braces("p/{cat,dog}/*.{jpg,png}")[:3]
    ('p/cat/*.jpg', 'p/cat/*.png', 'p/dog/*.jpg')
    >>> expand_braces("p/{a}.jpg")
    ('p/{a}.jpg',)
    """
    done: dict[str, None] = {}
    todo = [pattern]
    while todo:
        glob = todo.pop()
        found = _BRACES.search(glob)
        if found is None:
            done[with_slash(glob)] = None
        else:
            before, after = glob[: found.start()], glob[found.end() :]
            todo += [f"{before}{part}{after}" for part in reversed(found[1].split(","))]
        if len(done) + len(todo) > _MAX_GLOBS:
            raise ValueError(f"{pattern!r} expands to more than {_MAX_GLOBS} globs: use * or **")
    return tuple(done)


def any_case(glob: str) -> str:
    """A glob that matches an image extension in upper and lower case.

    A name without a wildcard is that one file.

    >>> any_case("p/*.jpg"), any_case("p/1.jpg"), any_case("p/*.csv")
    ('p/*.[jJ][pP][gG]', 'p/1.jpg', 'p/*.csv')
    """
    name, dot, extension = glob.rpartition(".")
    if not dot or extension.lower() not in IMAGE_EXTENSIONS or not WILDCARD.search(name):
        return glob
    letters = (f"[{c.lower()}{c.upper()}]" if c.isalpha() else c for c in extension)
    return f"{name}.{''.join(letters)}"


def other_case(glob: str, name: str) -> bool:
    """Whether a file has the extension of a glob, but in another case.

    >>> other_case("p/*.jpg", "p/a.JPG"), other_case("p/*.jpg", "p/a.jpg")
    (True, False)
    """
    extension = name.rpartition(".")[2]
    return any_case(glob) != glob and not glob.endswith(f".{extension}")


# Images that the rows of a CSV list instead of a glob: their location and key.

MISSING = -1
"""The version of a listed image that does not exist."""

OUTSIDE = -2
"""The version of a listed image outside the folders that rows may use."""

# Folders that contain the home folders of users.
_HOMES = frozenset({"home", "Users"})


def listed_uri(cell: str, csv_path: str) -> str:
    """The file that a cell names: a URL or an absolute path, or one from the CSV's folder.

    >>> listed_uri("cat/1.jpg", "data/list.csv"), listed_uri("../1.jpg", "gs://b/x/list.csv")
    ('data/cat/1.jpg', 'gs://b/1.jpg')
    >>> listed_uri("gs://b/1.jpg", "list.csv"), listed_uri("/photos/1.jpg", "list.csv")
    ('gs://b/1.jpg', '/photos/1.jpg')
    """
    cell = cell.strip()
    if "://" in cell or cell.startswith("/"):
        return cell
    scheme, separator, path = csv_path.rpartition("://")
    return scheme + separator + posixpath.normpath(posixpath.join(posixpath.dirname(path), cell))


def top_folder(path: str) -> str:
    """The top folder of an absolute path: its first folder.

    For a path in a user's home folder, that folder. Empty for an object in a bucket, whose
    permissions decide what may be read.

    >>> top_folder("/data/photos/cat/1.jpg"), top_folder("/home/me/x/../photos/1.jpg")
    ('/data', '/home/me')
    >>> top_folder("/1.jpg"), top_folder("/data/../etc/shadow")
    ('/', '/etc')
    >>> top_folder("gs://bucket/1.jpg")
    ''
    """
    if "://" in path:
        return ""
    folders = posixpath.normpath(path).strip("/").split("/")[:-1]
    return "/" + "/".join(folders[: 2 if folders[:1] and folders[0] in _HOMES else 1])


def is_in_places(cell: str, csv_path: str, places: Collection[str]) -> bool:
    """Whether a cell names a file in one of some top folders; always true for a bucket's object.

    Args:
        cell: names a file.
        csv_path: of the label file, absolute.
        places: as `top_folder` gives them.

    >>> is_in_places("cat/1.jpg", "/data/list.csv", {"/data"})
    True
    >>> is_in_places("../../etc/shadow", "/data/x/list.csv", {"/data"})
    False
    """
    place = top_folder(listed_uri(cell, csv_path))
    return not place or place in places


def listed_path(uri: str, root: str) -> str:
    """The path of a listed file relative to `root`, or its whole URI if it is elsewhere.

    >>> listed_path("data/cat/1.jpg", "data"), listed_path("gs://b/1.jpg", "data")
    ('cat/1.jpg', 'gs://b/1.jpg')
    >>> listed_path("1.jpg", "data")
    '../1.jpg'
    """
    try:
        return relative_path(uri, root)
    except ValueError:
        is_whole = "://" in uri + root or uri.startswith("/") or root.startswith("/")
        return uri if is_whole else posixpath.relpath(uri, root)


def listed_problem(cell: str, csv_path: str) -> str:
    """The reason why a cell does not name a readable file; empty if it does.

    >>> listed_problem("s3://b/1.jpg", "list.csv")
    "'s3://b/1.jpg' is neither a path nor a gs:// URI"
    """
    cell = cell.strip()
    if "://" in cell and not cell.startswith("gs://"):
        return f"{cell!r} is neither a path nor a gs:// URI"
    if cell.startswith("/") and "://" in csv_path:
        return f"{cell!r} is a local file, but its CSV is in a bucket"
    return ""


def listed_key(uri: str, *, kind: str, root: str) -> str:
    """The join key of a listed file; for a `path` outside `root`, the whole URI."""
    is_path = kind == "path"
    return image_key(listed_path(uri, root) if is_path else uri, kind=kind, root="")


def names_image(cell: str) -> bool:
    """Whether a cell looks like the path of an image.

    >>> names_image("gs://b/x"), names_image("1.JPG"), names_image("cat.5")
    (True, True, False)
    """
    cell = cell.strip()
    stem, dot, extension = cell.rpartition(".")
    return cell.startswith("gs://") or (
        bool(stem and dot) and extension.lower() in IMAGE_EXTENSIONS
    )
