"""`--files per_image`: the name of the file that holds one image's record, after the image's key.

`SPLIT/KEY.tfrecord`. A character with a special meaning in some file system or glob is written
as `%` and two hexadecimal digits for each of its bytes, including `/`, so that a split is
one folder. A name that is too long, or that differs from another one in upper and lower case only,
ends in `~` and a digest of its key, so that no two keys share a file on any file system.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from transforms.core.planning.keys import nfc
from transforms.core.planning.splits import is_split_name

FILES = ("sharded", "per_image")
"""The content of a file: a shard, or the record of one image."""

# The limit of file systems for a name, in bytes.
_MAX_NAME = 255

_ESCAPED = frozenset('/\\:*?"<>|[]%~')

# The last folder and file of `image_file`.
_FILE = re.compile(
    r"(?P<split>\w+)/"
    r"""(?!\.)(?:[^\x00-\x1f\x7f/\\:*?"<>|\[\]%~\ud800-\udfff]|%[0-9A-F]{2})*(?:~[0-9a-f]{16})?"""
    r"\.tfrecord(?:\.gz)?"
)


class ImageFile(NamedTuple):
    """The staged file of one image.

    Attributes:
        key: the image's.
        bytes: of the file.
        crc32c: its checksum, 8 hexadecimal digits.
    """

    key: str
    bytes: int
    crc32c: str


def file_stem(text: str, *, max_bytes: int, is_marked: bool = False) -> str:
    """A file name for a text, without extension; different texts get different names.

    Args:
        text: any.
        max_bytes: bytes that the name may have, 40 or more.
        is_marked: whether the name always gets its digest.

    >>> file_stem("cat/1.jpg", max_bytes=99), file_stem("..", max_bytes=99)
    ('cat%2F1.jpg', '%2E.')
    """
    parts = [_escaped(character) for character in text]
    if text.startswith("."):
        parts[0] = "%2E"
    if not is_marked and sum(len(part.encode()) for part in parts) <= max_bytes:
        return "".join(parts)
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    room = max_bytes - len(digest) - 1
    kept = ""
    for part in parts:
        room -= len(part.encode())
        if room < 0:
            break
        kept += part
    return f"{kept}~{digest}"


def image_file(split: str, key: str, *, gzip: bool, is_marked: bool = False) -> str:
    """The file of one image below the dataset's folder.

    >>> image_file("train", "cat0", gzip=False)
    'train/cat0.tfrecord'
    """
    extension = ".tfrecord.gz" if gzip else ".tfrecord"
    stem = file_stem(key, max_bytes=_MAX_NAME - len(extension), is_marked=is_marked)
    return f"{split}/{stem}{extension}"


def is_image_file(name: str) -> bool:
    """Whether `image_file` can give this name.

    >>> is_image_file("train/cat%2F1.tfrecord"), is_image_file("train/a/b.tfrecord")
    (True, False)
    """
    match = _FILE.fullmatch(name)
    if match is None or not is_split_name(match["split"]):
        return False
    return len(name.encode()) - len(match["split"]) - 1 <= _MAX_NAME


def image_files(images: Sequence[tuple[str, str]], *, gzip: bool) -> list[str]:
    """The files of all images of a dataset.

    Args:
        images: split and key of each; no two are the same.
        gzip: whether they are compressed.

    >>> image_files([("train", "A"), ("train", "b")], gzip=False)
    ['train/A.tfrecord', 'train/b.tfrecord']
    """
    names = [image_file(split, key, gzip=gzip) for split, key in images]
    spelt = Counter(map(_folded, names))
    return [
        image_file(*image, gzip=gzip, is_marked=True) if spelt[_folded(name)] > 1 else name
        for name, image in zip(names, images, strict=True)
    ]


def _folded(name: str) -> str:
    """A name in the form in which some file systems compare names."""
    return nfc(name.casefold())


def _escaped(character: str) -> str:
    if character not in _ESCAPED and (character.isprintable() or character == " "):
        return character
    return "".join(f"%{byte:02X}" for byte in character.encode("utf-8", "surrogatepass"))
