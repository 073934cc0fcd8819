"""The names of all files that this tool writes into an output folder, and of nothing else.

Names are read back from the manifest, from the staging folder and from sidecars. These may be
untrusted, so a name is used only if it is of a kind that this module defines: such a
name has no `..`, is never absolute, and never leaves its folder.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable
from typing import Any

from transforms.core.dataset.image_file_names import is_image_file
from transforms.core.file_errors import FinalError
from transforms.core.json_text import parse_json
from transforms.core.planning.shards import ShardName
from transforms.core.planning.staged_images import IN_STAGING

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
    rf"(?:\.(?:json|parquet)(?:\.partial)?|(?P<attempt>\.{_DIGEST}\.partial))?"
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


def is_index_file(name: object) -> bool:
    """Whether `index_file` can give this name.

    >>> is_index_file("index/a-00000-of-00001.parquet"), is_index_file("index/../a.parquet")
    (True, False)
    """
    if not isinstance(name, str):
        return False
    stem = name.removeprefix(f"{INDEX}/").removesuffix(_TABLE)
    return name == f"{INDEX}/{stem}{_TABLE}" and is_shard(f"{stem}.tfrecord")


def is_data_file(name: object) -> bool:
    """Whether a file of records can have this name: a shard, or the file of one image.

    >>> is_data_file("train/cat%2F1.tfrecord"), is_data_file("train/../../1.tfrecord")
    (True, False)
    """
    return isinstance(name, str) and (is_shard(name) or is_image_file(name))


def is_small_file(name: object) -> bool:
    """Whether a file next to the shards that the manifest lists can have this name.

    >>> is_small_file("labels.txt"), is_small_file("x.labels.txt"), is_small_file("/labels.txt")
    (True, True, False)
    """
    if not isinstance(name, str):
        return False
    return name in _SMALL_FILES or (name.endswith(CLASS_NAMES) and _is_plain(name))


def _is_plain(name: str) -> bool:
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
    matches = (
        _PROBE.fullmatch(name),
        _PART.fullmatch(name),
        _WAITING.fullmatch(name),
        staged_shard(name),
    )
    return any(match is not None for match in matches)


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


def check_names(data: Iterable[object], small: Iterable[object], path: str) -> None:
    """Checks names that were read back.

    Args:
        data: of files of records.
        small: of files next to them.
        path: of the file that contains them.

    Raises:
        ForeignNameError: one is not a name that this tool gives.
    """
    for names, is_ours in ((data, is_data_file), (small, is_small_file)):
        for name in names:
            if not is_ours(name):
                raise ForeignNameError(
                    f"{path} was edited: it names {name!r:.200}, which is not a file of a dataset; "
                    "remove it"
                )


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
    check_names((), names, path)
    return names
