"""Names of images: globs, archives, keys, and cells that name a file."""

from __future__ import annotations

import fnmatch
import functools
import hashlib
import itertools
import os.path
import posixpath
import re
import struct
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

# Globs for names that no file system expands, such as objects in a bucket.

WILDCARD = re.compile(r"[*?\[]")
"""The characters that make a path a glob."""

_TOKEN = re.compile(r"\*+|\?|\[!?\]?[^\]]*\]|.", re.DOTALL)

# What `*` and `**` match.
_STAR = "[^/]*"
_FOLDERS = r"(?:(?!\.)[^/]+/)*"


def literal_prefix(pattern: str) -> str:
    """The common beginning of all names that a glob matches.

    >>> literal_prefix("photos/2024-*/x.jpg"), literal_prefix("a/[b]"), literal_prefix("a/b?")
    ('photos/2024-', 'a/', 'a/b')
    """
    return WILDCARD.split(pattern, maxsplit=1)[0]


def glob_tokens(pattern: str) -> list[str]:
    """The characters and the wildcards of a glob.

    >>> glob_tokens("a*[0-9].png")
    ['a', '*', '[0-9]', '.', 'p', 'n', 'g']
    """
    return _TOKEN.findall(pattern)


def literal_ending(tokens: Sequence[str]) -> str:
    """The common ending of all texts that tokens match: what follows the last wildcard.

    >>> literal_ending(glob_tokens("*_[ab]_mask")), literal_ending(glob_tokens("mask"))
    ('_mask', 'mask')
    """
    literal = itertools.takewhile(lambda each: len(each) == 1 and each not in "*?", tokens[::-1])
    return "".join(literal)[::-1]


def glob_regex(pattern: str) -> re.Pattern[str]:
    """A regular expression for `fullmatch` that matches like a glob of local files.

    `*`, `?` and `[a-z]` stay within a folder, `**` crosses folders, and names with a leading dot
    need one in the pattern.

    >>> bool(glob_regex("photos/**/*.jpg").fullmatch("photos/a/b/1.jpg"))
    True
    """
    *folders, name = pattern.split("/")
    parts = [_FOLDERS if part == "**" else _part_regex(part) + "/" for part in folders]
    parts.append(_FOLDERS + _part_regex("*") if name == "**" else _part_regex(name))
    return re.compile(_leftmost("".join(parts), _FOLDERS), re.DOTALL)


def _part_regex(part: str) -> str:
    if not WILDCARD.search(part):
        return re.escape(part)
    hidden = "" if part[0] == "." else r"(?!\.)"
    tokens = "".join(map(_token_regex, glob_tokens(part)))
    return hidden + r"(?=[^/])" + _leftmost(tokens, _STAR)


def _leftmost(text: str, repeat: str) -> str:
    """A regular expression that finds what follows each repetition but the last one only once.

    The first place is always right. With three stars, a name of 4,000 characters took 18 s.
    """
    first, *others = text.split(repeat)
    inner = "".join(f"(?>{repeat}?{each})" for each in others[:-1])
    return first + inner + "".join(repeat + each for each in others[-1:])


def _token_regex(token: str) -> str:
    if token[0] == "*":
        return _STAR
    if token == "?":
        return "[^/]"
    if len(token) < 3 or token[0] != "[":
        return re.escape(token)
    # As local files are listed, also a range that is none, such as `[z-a]`: `(?s:` … `)\Z`.
    return f"(?!/){fnmatch.translate(token)[4:-3]}"


# The files that hold images from memory, in the staging folder, until they are published.
#
# The bytes of an image are written once, where they arise. From then on it is an image like any
# other: its name is shuffled, and its bytes are read inside the call that writes its shard.

IN_STAGING = "images"
"""The folder of these files in the staging folder of an output folder."""

MEMORY = "memory:"
"""The root of images from memory in a manifest, whatever the output folder; no file is below it."""

_ROOT = f"/.staging/{IN_STAGING}"

# Versions below 1 have other meanings.
_VERSIONS = 2**63 - 1


def is_staged_root(root: str) -> bool:
    """Whether images are staged: `root` is that folder, and paths are the keys of the images.

    >>> is_staged_root("out/.staging/images"), is_staged_root("photos/images")
    (True, False)
    """
    return root.endswith(_ROOT)


def staged_image(path: str) -> str:
    """The name of an image's file: a hash of the path, which everything that reads it knows.

    >>> staged_image("cat/1.jpg")
    '830d7a3a1867c94d3441d5671f5c4f69'
    """
    return hashlib.blake2b(path.encode(), digest_size=16).hexdigest()


def content_version(data: bytes) -> int:
    """The version of an image: a hash of its bytes, from 1 to 2**63 - 1.

    >>> content_version(b"") == content_version(b"") != content_version(b"1")
    True
    """
    number = int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "big")
    return number % _VERSIONS + 1


# The join key that an image and a CSV row must share to belong together.
#
# Both sides are brought to the same form here and nowhere else: Unicode NFC (an archive made on
# macOS stores `한강` in NFD), without whitespace at the ends. The hashes of a key decide its split
# and its position in the dataset, so any change here needs a new format version.

KEY_KINDS = ("stem", "name", "path", "uri")

IMAGE_EXTENSIONS = frozenset(
    "avif bmp dib gif heic heif j2k jfif jp2 jpe jpeg jpg jxl pbm pgm png pnm ppm tga tif tiff"
    " webp".split()
)
"""Extensions (lower case, no dot) that are dropped from a CSV cell to make it a stem."""

_HASHES = struct.Struct("<QQ")

# Accents without letters, which no name has: sorting 30,000 of them takes three seconds. Only where
# they begin, or each of them would be a begin.
_MANY_MARKS = re.compile(r"(?<![^\w\0-\x7f])[^\w\0-\x7f]{200}")


def nfc(text: str) -> str:
    """`text` in Unicode Normalisation Form C; lone surrogates and hundreds of accents stay.

    >>> nfc("e" + chr(0x301)) == chr(0xE9)
    True
    """
    if text.isascii() or unicodedata.is_normalized("NFC", text) or _MANY_MARKS.search(text):
        return text
    return unicodedata.normalize("NFC", text)


def fixed_root(globs: Sequence[str]) -> str:
    """The longest directory that all `globs` share before their first wildcard (`*`, `?` or `[`).

    Whole directories only, never a part of `scheme://`; empty when they share nothing.

    >>> fixed_root(["photos/*/*.jpg"]), fixed_root(["t/train/*.jpg", "t/test/*.jpg"])
    ('photos', 't')
    >>> fixed_root(["gs://b/x/*.jpg"]), fixed_root(["/*.jpg"]), fixed_root(["*.jpg"])
    ('gs://b/x', '/', '')
    """
    parts = os.path.commonprefix([_fixed_directories(glob) for glob in globs]) if globs else []
    root = "/".join(parts)
    at_top = len(parts) == 1 and (not root or root.endswith("://"))
    return root + "/" if at_top else root


def tidy_root(folder: str) -> str:
    """A folder as `fixed_root` spells it.

    >>> tidy_root("./photos//2024/"), tidy_root("gs://b/x/"), tidy_root("."), tidy_root("/")
    ('photos/2024', 'gs://b/x', '', '/')
    """
    if "://" in folder:
        return folder.rstrip("/")
    top = "/" if folder.startswith("/") else ""
    return top + "/".join(part for part in folder.split("/") if part not in ("", "."))


def is_below(glob: str, root: str) -> bool:
    """Whether everything that a glob matches is below `root`, as `tidy_root` spells it.

    >>> is_below("photos/*/1.jpg", "photos"), is_below("photos*/1.jpg", "photos")
    (True, False)
    >>> is_below("./a.jpg", ""), is_below("/a.jpg", "")
    (True, False)
    """
    parts = _fixed_directories(glob)
    scheme, separator, rest = root.rpartition("://")
    folders = rest.split("/") if root.strip("/") else [""] if root else []
    if separator:
        folders[0] = scheme + separator + folders[0]
    if not root and ("://" in glob or parts[:1] == [""]):
        return False
    return parts[: len(folders)] == folders and ".." not in parts[len(folders) :]


def relative_path(uri: str, root: str) -> str:
    """The POSIX path of `uri` below `root`, as `fixed_root` gives it; all of `uri` without a root.

    `root`, a `/` and this path are the file again: names are not normalised.

    Raises:
        ValueError: `uri` is not below `root`.

    >>> relative_path("gs://b/x/cats/1.jpg", "gs://b/x")
    'cats/1.jpg'
    """
    if not root:
        return _tidy(uri)
    prefix = root if root.endswith("/") else root + "/"
    if not uri.startswith(prefix):
        uri = _tidy(uri)  # './photos/1.jpg' is below 'photos'
        if not uri.startswith(prefix):
            raise ValueError(f"{uri!r} is not below {root!r}, the fixed part of --images")
    rest = uri[len(prefix) :]
    return rest if "://" in prefix else _tidy(rest.lstrip("/"))


def full_uri(root: str, path: str) -> str:
    """The file at a path below `root`: what `relative_path` was given, but for `./` and `//`.

    An image that a row lists may be elsewhere; its path is then the whole URI.

    >>> full_uri("gs://bucket/photos", "a/1.jpg"), full_uri("", "1.jpg")
    ('gs://bucket/photos/a/1.jpg', '1.jpg')
    """
    if is_staged_root(root):
        # The path is a key that a program chose: it must not lead to another file.
        return f"{root}/{staged_image(path)}"
    if path.startswith("gs://") or (path.startswith("/") and "://" not in root):
        return path
    return f"{root.removesuffix('/')}/{path}" if root else path


def is_inside(uri: str, root: str) -> bool:
    """Whether a file is below the common root of a dataset's images, without leaving it by `..`.

    >>> is_inside("photos/cat/1.jpg", "photos"), is_inside("photos/../me/1.jpg", "photos")
    (True, False)
    >>> is_inside("/etc/1.jpg", ""), is_inside("1.jpg", ""), is_inside("./x/1.jpg", "x")
    (False, True, True)
    """
    try:
        below = relative_path(uri, root)
    except ValueError:
        return False
    is_elsewhere = not root and (uri.startswith("/") or "://" in uri)
    return not is_elsewhere and ".." not in below.split("/")


def image_key(uri: str, *, kind: str, root: str) -> str:
    """The join key of an image.

    Args:
        uri: the image's path or URI as listed.
        kind: `stem`, the file name without its last extension; `name`, the file name; `path`, the
            path below `root`, or the name in a Parquet file; `uri`, all of it.
        root: the result of `fixed_root` for the globs; only `path` uses it.

    Raises:
        ValueError: no such `kind`, or for `path` the image is not below `root`.

    >>> image_key("photos/cats/a.b.jpg", kind="stem", root="photos")
    'a.b'
    >>> image_key("photos/cats/a.b.jpg", kind="path", root="photos")
    'cats/a.b.jpg'
    >>> image_key("hf/0.parquet!/cats/1.jpg", kind="path", root="hf")
    'cats/1.jpg'
    """
    if kind in ("stem", "name"):
        name = uri[uri.rfind("/") + 1 :]
        dot = name.rfind(".") if kind == "stem" else 0
        return _canonical(name[:dot] if dot > 0 else name)
    if kind == "path":
        inside = archive_path(uri)
        if inside is not None and inside.kind == "parquet":
            return _canonical(inside.name)
        return _canonical(relative_path(uri, root))
    if kind == "uri":
        return _canonical(uri)
    raise ValueError(f"--key {kind!r} is not one of {', '.join(KEY_KINDS)}")


def row_key(cell: str, *, kind: str) -> str:
    """The join key of a CSV cell; empty if the cell names no file.

    A `stem` loses its extension only if that is one of `IMAGE_EXTENSIONS`: a cell `photo.2020.01`
    is a stem already.

    Raises:
        ValueError: no such `kind`.

    >>> row_key(" cats/1.JPG", kind="stem"), row_key("photo.2020.01", kind="stem")
    ('1', 'photo.2020.01')
    >>> row_key("./cats/1.jpg", kind="path")
    'cats/1.jpg'
    """
    cell = cell.strip()
    if kind != "stem":
        return image_key(cell, kind=kind, root="")
    name = cell[cell.rfind("/") + 1 :]
    dot = name.rfind(".")
    known = dot > 0 and name[dot + 1 :].lower() in IMAGE_EXTENSIONS
    return _canonical(name[:dot] if known else name)


def key_hashes(key: str, *, seed: int) -> tuple[int, int]:
    """Two independent unsigned 64-bit hashes of a key: the split hash and the order hash.

    They are the same on every machine and never change.

    Args:
        key: the result of `image_key` or `row_key`, or any other text.
        seed: any integer of 128 signed bits; another seed gives another order and other splits.

    Raises:
        OverflowError: `seed` takes more than 128 bits.

    >>> key_hashes("1", seed=0) == key_hashes("1", seed=0) != key_hashes("1", seed=1)
    True
    """
    hasher = _seeded(seed).copy()
    hasher.update(key.encode("utf-8", "surrogatepass"))
    split_hash, order_hash = _HASHES.unpack(hasher.digest())
    return split_hash, order_hash


@functools.lru_cache(maxsize=16)
def _seeded(seed: int) -> hashlib.blake2b:
    salt = seed.to_bytes(16, "little", signed=True)
    return hashlib.blake2b(digest_size=_HASHES.size, person=b"image-tfrecords", salt=salt)


def _canonical(key: str) -> str:
    """`key` in NFC, without whitespace at its ends; a key of whitespace alone stays."""
    key = key.strip() or key
    return key if key.isascii() else nfc(key)


def _tidy(path: str) -> str:
    """A local path without empty and `.` components; a URI as it is.

    >>> _tidy("./a//b.jpg"), _tidy("gs://b//c.jpg")
    ('a/b.jpg', 'gs://b//c.jpg')
    """
    is_tidy = "://" in path or ("//" not in path and "./" not in path)
    return path if is_tidy else tidy_root(path)


def _fixed_directories(glob: str) -> list[str]:
    """The directories before the first wildcard; the first is `scheme://bucket` of a URI.

    >>> _fixed_directories("gs://b/x/*.jpg"), _fixed_directories("/a/1.jpg")
    (['gs://b', 'x'], ['', 'a'])
    """
    scheme, separator, rest = literal_prefix(glob).rpartition("://")
    parts = rest.split("/")[:-1]
    if not separator:
        return [
            part for at, part in enumerate(parts) if part not in ("", ".") or (at == 0 and not part)
        ]
    return [scheme + separator + parts[0], *parts[1:]] if parts else []


# Names of files inside archives: `ARCHIVE.zip!/NAME`, as if the archive were a folder.
#
# In this form, unlike in `zip://NAME::ARCHIVE`, a name begins with the path of its archive. So
# roots, globs, keys and folders of classes need no rule of their own.

# The first archive counts: one inside another is a file like any other.
_INSIDE = re.compile(
    r"(.+?\.(zip|tar|parquet))!((?<=\.parquet!)[^/]*|)(?:/(.*))?", re.IGNORECASE | re.DOTALL
)

# `photos.zip!*.jpg`, as it may be written.
_NO_SLASH = re.compile(r"(\.(?:zip|tar)!)(?=[^/])", re.IGNORECASE)

_COMPRESSED = re.compile(r"(.+\.(?:tar\.(?:gz|bz2|xz|zst)|tgz|tbz2?|txz))(?:!.*)?", re.I | re.S)


class ArchivePath(NamedTuple):
    """A file in an archive, or a glob of such files.

    Attributes:
        archive: path, URI or glob of the archive.
        kind: `zip`, `tar` or `parquet`.
        name: in the archive; empty for the archive itself as a folder.
        columns: of images in Parquet, see `record_features`; empty to find them.
    """

    archive: str
    kind: str
    name: str
    columns: str = ""


@functools.lru_cache(maxsize=256)
def archive_path(path: str) -> ArchivePath | None:
    """The parts of a path into an archive; None for another path.

    >>> archive_path("gs://b/photos.zip!/cat/*.jpg")
    ArchivePath(archive='gs://b/photos.zip', kind='zip', name='cat/*.jpg', columns='')
    >>> archive_path("photos!/1.jpg") is None, archive_path("photos.TAR!").kind
    (True, 'tar')
    """
    found = _INSIDE.fullmatch(path) if "!" in path else None
    return found and ArchivePath(found[1], found[2].lower(), found[4] or "", found[3])


def is_parquet(pattern: str) -> bool:
    """Whether a path or a glob is that of Parquet files."""
    return pattern.lower().endswith(".parquet")


def images_in_parquet(pattern: str, columns: Mapping[str, str] | None = None) -> str:
    """The glob of all images, if a pattern is that of Parquet files; the pattern if not.

    Args:
        pattern: of images.
        columns: see `record_features`; None to find them.

    >>> images_in_parquet("a/*.parquet", {"image": "a/jpg"}), images_in_parquet("a/*.jpg")
    ('a/*.parquet!image=a%2Fjpg/**', 'a/*.jpg')
    """
    if not is_parquet(pattern):
        return pattern
    named = ",".join(f"{what}={name}" for what, name in (columns or {}).items())
    return f"{pattern}!{named.replace('/', '%2F')}/**"


def is_in_parquet(path: str) -> bool:
    """Whether a path is that of an image in a Parquet file, or a glob of such images."""
    parts = archive_path(path)
    return parts is not None and parts.kind == "parquet"


def record_features(text: str) -> dict[str, str]:
    """Names of features, or of columns, by what they hold.

    Raises:
        ValueError: it is no list of these.

    >>> record_features("image=jpg,key=")
    {'image': 'jpg', 'key': ''}
    """
    pairs = [part.partition("=") for part in text.split(",")]
    named = {what.strip(): name.strip() for what, _, name in pairs}
    if len(named) < len(pairs) or not {*named} <= {"image", "label", "key"} or "=" not in text:
        raise ValueError(f"{text!r} is not like image=NAME,label=NAME,key=NAME")
    return named


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
    if (parts := archive_path(f"{glob}!")) and not parts.name:
        return f"is an archive: write {glob + '!/**/*'!r} for the images in it"
    return ""


# Image globs in addition to `*`, `?` and `[...]`: alternatives, and extensions of any case.
#
# One rule for every file system: alternatives become several globs, and a case becomes `[...]`.

MAX_GLOBS = 4000
"""Globs of a flag: each is listed by itself, and 12,000 took 20 s before the first image."""

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
    >>> expand_braces("p/{a}.jpg"), expand_braces("photos.zip!**/*.jpg")
    (('p/{a}.jpg',), ('photos.zip!/**/*.jpg',))
    """
    done: dict[str, None] = {}
    todo = [pattern]
    while todo:
        glob = todo.pop()
        found = _BRACES.search(glob)
        if found is None:
            done[_NO_SLASH.sub(r"\1/", glob, count=1)] = None
        else:
            before, after = glob[: found.start()], glob[found.end() :]
            todo += [f"{before}{part}{after}" for part in reversed(found[1].split(","))]
        if len(done) + len(todo) > MAX_GLOBS:
            raise ValueError(f"{pattern!r} expands to more than {MAX_GLOBS} globs: use * or **")
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
    return any_case(glob) != glob and not glob.endswith(f".{name.rpartition('.')[2]}")


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
