"""Names of files inside archives: `ARCHIVE.zip!/NAME`, as if the archive were a folder.

In this form, unlike in `zip://NAME::ARCHIVE`, a name begins with the path of its archive. So roots,
globs, keys and folders of classes need no rule of their own.
"""

from __future__ import annotations

import re
from typing import NamedTuple

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
