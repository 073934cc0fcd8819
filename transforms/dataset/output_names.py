"""Names of all files that a dataset has."""

from __future__ import annotations

import hashlib
import re
import string
from collections import Counter
from collections.abc import Callable, Container, Sequence
from typing import Any, NamedTuple

from transforms.core.messages import FinalError, parse_json
from transforms.labels.keys import IN_STAGING, nfc
from transforms.labels.shards import MAX_SHARDS, ShardName, is_split_name

# `--files per_image`: the name of the file that holds one image's record, after the image's key.
#
# `SPLIT/KEY.tfrecord`. A character with a special meaning in some file system or glob is written
# as `%` and two hexadecimal digits for each of its bytes, including `/`, so that a split is one
# folder. A name that is too long, or that differs from another one in upper and lower case only,
# ends in `~` and a digest of its key, so that no two keys share a file on any file system.

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
        name: that `--file_name` gives it; empty without.
    """

    key: str
    bytes: int
    crc32c: str
    name: str = ""


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
    return distinct(names, lambda at: image_file(*images[at], gzip=gzip, is_marked=True))


def distinct(names: Sequence[str], marked: Callable[[int], str]) -> list[str]:
    """Names, with the marked one in place of each that others share on some file system."""
    spelled = Counter(map(_folded, names))
    return [marked(at) if spelled[_folded(name)] > 1 else name for at, name in enumerate(names)]


def _folded(name: str) -> str:
    """A name in the form in which some file systems compare names."""
    return nfc(name.casefold())


def _escaped(character: str) -> str:
    if character not in _ESCAPED and (character.isprintable() or character == " "):
        return character
    return "".join(f"%{byte:02X}" for byte in character.encode("utf-8", "surrogatepass"))


# The names of all files that this tool writes into an output folder, and of nothing else.
#
# Names are read back from the manifest, from the staging folder and from sidecars. These may be
# untrusted, so a name is used only if it is of a kind that this module defines: such a name has no
# `..`, is never absolute, and never leaves its folder.

MANIFEST = "manifest.json"
LABELS = "labels.txt"
REJECTED = "rejected.jsonl"
STATISTICS = "statistics.json"
SCHEMA = "schema.pbtxt"
LABEL_MAP = "label_map.pbtxt"
# Of a dataset with a name.
CARD = "README.md"
CROISSANT = "croissant.json"
FEATURES = "features.json"
INFO = "dataset_info.json"
# Not part of the dataset: the report can be made again from the rest.
REPORT = "report.html"

# The folder of the indexes of all shards, see `record_index`.
INDEX = "index"

# The end of the names of files that hold class names for TensorFlow Datasets.
CLASS_NAMES = ".labels.txt"

# The folder in an output folder where a dataset is staged until it is complete.
STAGING = ".staging"

# The reason why a run did not publish, written to the staging folder for its launcher.
OUTCOME = "outcome.json"

# The manifest of the dataset that is being replaced, in the staging folder.
FORMER = "former.json"

# The names of the small files that are being written, in the staging folder: files of a run that
# was killed must be removed by a run with other options, which may write fewer.
SMALL = "small_files.json"

# The object of a bucket's lock, in the staging folder.
LOCK = "lock.json"

# The file that `check_writable` writes and removes.
PROBE = "probe"

# The suffix of a local file while it is written.
PARTIAL = ".partial"

# The end of the name of an empty file that notes an attempt at a shard.
BEGUN = ".begun"

# The end of the name of an index.
_TABLE = ".parquet"

_LONGEST = 255
_SMALL_FILES = frozenset(
    {LABELS, REJECTED, STATISTICS, SCHEMA, LABEL_MAP, FEATURES, INFO, CARD, CROISSANT}
)
_CONTROL = frozenset({OUTCOME, FORMER, SMALL, LOCK, REJECTED, PROBE})

_SHARD = r"(?P<file>[A-Za-z][A-Za-z0-9_]*-\d{5}-of-\d{5}\.tfrecord(?:\.gz)?)"
_DIGEST = "[0-9a-f]{32}"
_STAGED = re.compile(
    rf"(?P<shard>{_SHARD}\.(?P<recipe>{_DIGEST}))"
    rf"(?:\.(?:json|parquet|begun)(?:\.partial)?|(?P<attempt>\.{_DIGEST}\.partial))?"
)
# The file of one image, in the folder of one attempt at its shard.
_NUMBER = re.compile(r"\d{7,}")
# A small file that is staged until the shards are in place, by the attempt that wrote it.
_WAITING = re.compile(rf"small\.(?P<attempt>{_DIGEST})\.\d{{3,}}(?:\.partial)?")
# An image from memory, also while one of several attempts writes it.
_IMAGE = re.compile(rf"{_DIGEST}(?:\.{_DIGEST}\.partial)?")
# A part of `rejected.jsonl`, named after its content.
_PART = re.compile(rf"rejected\.{_DIGEST}(?:\.partial)?")
_PROBE = re.compile(rf"{PROBE}\.{_DIGEST}(?:\.partial)?")


# `--file_name`: the names of files that people choose, `FOLDER/NAME` of an image. They end as
# TFRecord files do, so that a manifest that was edited cannot name other files of theirs.

DEFAULT_FILE_NAME = "{split}-{shard:05d}-of-{shards:05d}.tfrecord"
FILE_ENDING = r"[.](tfrecords?|tfrec|record)(-[^/]*)?([.]gz)?"

_PLAIN = r"""(?!\.)[^\x00-\x1f\x7f/\\:*?"<>|\[\]{}\ud800-\udfff]+"""
_CHOSEN = re.compile(rf"(?=.*{FILE_ENDING}$)(?:(?P<folder>{_PLAIN})/)?{_PLAIN}")
_OF_SHARDS = {"split": "", "shard": "(0?[1-9])?d?", "shards": "(0?[1-9])?d?"}
_OF_IMAGES = {"split": "", "label": "", "stem": "", "key": ""}
# Of a field, in bytes; a name has up to three of them.
_MAX_FIELD = 60


def check_file_name(text: str) -> str:
    """The names of shards, or with a `/` those of the files of single images.

    Raises:
        ValueError: they are not names of TFRecord files in a folder, or equal for all files.

    >>> check_file_name("{split}_{shard:03d}.tfrec")
    '{split}_{shard:03d}.tfrec'
    """
    forms, needed = (_OF_IMAGES, {"stem", "key"}) if "/" in text else (_OF_SHARDS, {"shard"})
    try:
        fields = [field for field in string.Formatter().parse(text) if field[1] is not None]
    except ValueError as error:
        raise ValueError(f"{text!r}: {error}") from error
    for _, name, spec, conversion in fields:
        form = forms.get(name or "")
        if form is None or conversion or not re.fullmatch(form, spec or ""):
            known = "{split}, {label}, {stem} and {key}"
            if "/" not in text:
                known = "{split}, {shard:05d} and {shards:05d}"
            raise ValueError(f"{text!r}: fields are {known}")
    if needed.isdisjoint(name for _, name, *_ in fields):
        raise ValueError(f"{text!r} gives all files one name: it needs {{{max(needed)}}}")
    longest = "s" * 100
    if "/" in text:
        name = chosen_image(text, longest, longest, longest)
        names = [name, marked_image(name, "")] if is_chosen(name) else [name]
    else:
        names = [ShardName(longest, 0, MAX_SHARDS).named(text)]
    if not all(map(is_chosen, names)):
        raise ValueError(
            f"{text!r} is not a name of files in the folder: use up to 60 characters without any "
            'of \\:*?"<>|[]{} and end it in .tfrecord, .tfrecords, .tfrec or .record'
        )
    return text


def chosen_image(file_name: str, split: str, label: str, key: str) -> str:
    """The name of the file of an image; several may have one.

    >>> chosen_image("{label}/{stem}.tfrecords", "train", "cat", "photos/1.jpg")
    'cat/1.tfrecords'
    """
    base = key.rpartition("/")[2]
    texts = {"split": split, "label": label or "_", "stem": base.rpartition(".")[0] or base}
    fields = {
        name: file_stem(text, max_bytes=_MAX_FIELD) for name, text in {**texts, "key": key}.items()
    }
    folder, _, file = file_name.format(**fields).partition("/")
    return f"{folder}{'~' * _is_taken(folder)}/{file}"


def marked_image(name: str, key: str) -> str:
    """The name of the file of an image if others would have the same."""
    digest = file_stem(key, max_bytes=_MAX_FIELD, is_marked=True)[-17:]
    end = name.rindex(".tfrec") if ".tfrec" in name else name.rindex(".record")
    return f"{name[:end]}{digest}{name[end:]}"


def _is_taken(folder: str) -> bool:
    """Whether a dataset has another file or folder of this name."""
    folder = folder.casefold()
    return folder in (INDEX, MANIFEST, REPORT) or is_small_file(folder)


def is_chosen(name: object) -> bool:
    """Whether `--file_name` can give a shard this name.

    >>> is_chosen("cats_0.tfrec"), is_chosen("../0.tfrec"), is_chosen("thesis.doc")
    (True, False, False)
    """
    found = _CHOSEN.fullmatch(name) if isinstance(name, str) else None
    if found is None or _is_taken(found["folder"] or ""):
        return False
    return all(len(part.encode()) <= _LONGEST for part in found[0].split("/"))


class ForeignNameError(FinalError):
    """A file that was read back names, or a folder contains, a file that this tool never writes."""


def is_shard(name: str) -> bool:
    """Whether a shard can have this name.

    >>> is_shard("train-00000-of-00002.tfrecord"), is_shard("../train-00000-of-00002.tfrecord")
    (True, False)
    """
    try:
        ShardName.parse(name)
    except ValueError:
        return False
    return len(name) <= _LONGEST


def index_file(shard: str) -> str:
    """The file of a shard's index, below the dataset's folder.

    >>> index_file("train-00000-of-00002.tfrecord.gz")
    'index/train-00000-of-00002.parquet'
    """
    stem = shard.removesuffix(".gz").removesuffix(".tfrecord")
    return f"{INDEX}/{stem}{_TABLE}"


def is_index_file(name: str) -> bool:
    """Whether `index_file` can give this name.

    >>> is_index_file("index/a-00000-of-00001.parquet"), is_index_file("index/../a.parquet")
    (True, False)
    """
    stem = name.removeprefix(f"{INDEX}/").removesuffix(_TABLE)
    return name == f"{INDEX}/{stem}{_TABLE}" and is_shard(f"{stem}.tfrecord")


def is_data_file(name: str) -> bool:
    """Whether a file of records can have this name: a shard, or the file of one image.

    >>> is_data_file("train/cat%2F1.tfrecord"), is_data_file("train/../../1.tfrecord")
    (True, False)
    """
    return is_shard(name) or is_image_file(name)


def is_small_file(name: str) -> bool:
    """Whether a file next to the shards that the manifest lists can have this name.

    >>> is_small_file("labels.txt"), is_small_file("x.labels.txt"), is_small_file("/labels.txt")
    (True, True, False)
    """
    return name in _SMALL_FILES or (name.endswith(CLASS_NAMES) and is_plain(name))


def is_plain(name: str) -> bool:
    """Whether a name is that of a file in a folder, and fits into it."""
    if "/" in name or "\0" in name:
        return False
    try:
        return len(name.encode()) <= _LONGEST
    except UnicodeEncodeError:
        return False


def staged_shard(name: str) -> tuple[str, str] | None:
    """The shard to which a file in the staging folder belongs, as its file and its recipe.

    None if it belongs to no shard.

    >>> staged_shard("a-00000-of-00001.tfrecord." + 32 * "0" + ".json")[0]
    'a-00000-of-00001.tfrecord'
    """
    match = _STAGED.fullmatch(name)
    return (match["file"], match["recipe"]) if match and is_shard(match["file"]) else None


def is_attempt(name: str) -> bool:
    """Whether this is the output of an attempt at a shard: a file, or a folder of files."""
    match = _STAGED.fullmatch(name)
    return bool(match and match["attempt"]) and staged_shard(name) is not None


def is_staged_folder(name: str) -> bool:
    """Whether this tool makes a folder of this name in the staging folder."""
    return name == IN_STAGING or is_attempt(name)


def is_staged(name: str) -> bool:
    """Whether this tool writes a file of this name into the staging folder.

    Args:
        name: the path below the staging folder.

    >>> is_staged("outcome.json"), is_staged("thesis.doc"), is_staged("../outcome.json")
    (True, False, False)
    """
    folder, slash, file = name.rpartition("/")
    if folder == IN_STAGING:
        return _IMAGE.fullmatch(file) is not None
    if slash:
        return is_attempt(folder) and _NUMBER.fullmatch(file) is not None
    if name in _CONTROL or name.removesuffix(PARTIAL) in _CONTROL:
        return True
    is_ours = any(kind.fullmatch(name) for kind in (_PROBE, _PART, _WAITING))
    return is_ours or staged_shard(name) is not None


def waiting_file(attempt: str, number: int) -> str:
    """The name of a small file in the staging folder, until the shards are in place.

    Args:
        attempt: at publishing, 32 hexadecimal digits.
        number: of the file.
    """
    return f"small.{attempt}.{number:03d}"


def rejected_part(digest: str) -> str:
    """The name of a part of `rejected.jsonl` in the staging folder.

    Args:
        digest: of its content, 32 hexadecimal digits.
    """
    return f"rejected.{digest}"


def is_source(name: str, *, shards: Container[tuple[str, str]], attempt: str) -> bool:
    """Whether an earlier run could still publish something in the staging folder.

    Args:
        name: of a staged file.
        shards: those of this run, as file and recipe.
        attempt: the current attempt at publishing.
    """
    if match := _WAITING.fullmatch(name):
        return match["attempt"] != attempt
    shard = staged_shard(name.partition("/")[0])
    # A sidecar gives its shard's name; it is never renamed itself.
    return shard is not None and shard not in shards and not name.endswith(".json")


def parse_small_files(text: str, path: str) -> list[str]:
    """The names in `small_files.json`.

    Args:
        text: its content.
        path: where it is.

    Raises:
        ForeignNameError: it holds something else.
    """
    try:
        names: Any = parse_json(text)
    except ValueError:
        names = None
    if not isinstance(names, list):
        raise ForeignNameError(f"{path} was edited: it is not a list of file names; remove it")
    for name in names:
        if not (isinstance(name, str) and is_small_file(name)):
            raise ForeignNameError(
                f"{path} was edited: it names {name!r:.200}, which is not a file of a dataset; "
                "remove it"
            )
    return names
