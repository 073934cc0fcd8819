"""Images that the rows of a CSV list instead of a glob: their location and key."""

from __future__ import annotations

import posixpath
from collections.abc import Collection

from transforms.core.planning.keys import IMAGE_EXTENSIONS, image_key, relative_path

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
