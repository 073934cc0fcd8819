"""Flags that name files and folders, and the listing of their globs."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import difflib
import glob
import itertools
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pipeline.errors import UsageError, refusing, trying
from transforms.core.messages import Decision, holds_secret, is_utf8
from transforms.dataset.dataset_options import DEFAULT_VERSION, CardOptions
from transforms.dataset.output_names import MANIFEST
from transforms.labels.keys import (
    IMAGE_EXTENSIONS,
    MAX_GLOBS,
    archive_path,
    archive_problem,
    expand_braces,
    fixed_root,
    images_in_parquet,
    is_in_parquet,
)
from transforms.report.card_files import PropertiesError, parse_properties
from transforms.storage.files import join, storage_of
from transforms.storage.parquet_images import ImageFile

# Checks the paths that flags name, and reads the text files among them.

# Schemes as they are often written, and as Beam has them.
_SCHEMES = {"gs": "gs", "gcs": "gs", "s3": "s3", "s3a": "s3", "s3n": "s3", "hdfs": "hdfs"}
_SCHEME = re.compile(rf"({'|'.join(_SCHEMES)}):/{{1,2}}(?!/)", re.IGNORECASE)


def check_path(flag: str, path: str) -> None:
    """Refuses a path that cannot be read or recorded: the manifest names every input.

    A signed URL is refused: anyone who reads the manifest could use it, and it expires before
    the dataset does.

    Args:
        flag: its name in the message.
        path: a path, a glob or a URL.

    Raises:
        UsageError: it is not UTF-8, holds a secret, is the address of a web server, or names no
            bucket.
    """
    if not is_utf8(path):
        raise UsageError(f"{flag} {path!r} is not valid UTF-8: rename the folder or file")
    if path.startswith("~") and os.path.expanduser(path) != path and not os.path.lexists(path[0]):
        written = os.path.expanduser(path)
        raise UsageError(
            f"{flag} {path!r}: the shell does not expand ~ in quotes; write {written!r}"
        )
    if found := _SCHEME.match(path):
        meant = f"{_SCHEMES[found[1].lower()]}://{path[found.end() :]}"
        if meant != path:
            raise UsageError(f"{flag} {path!r}: did you mean {meant!r}?")
    if not holds_secret(path) and (problem := storage_of(path).name_problem(path)):
        raise UsageError(f"{flag} {path!r} {problem}")
    is_web = is_web_address(path)
    if not is_web and not holds_secret(path):
        return
    # Of the parameters, nothing is shown.
    scheme, _, rest = re.split("[?#;]", path, maxsplit=1)[0].rpartition("://")
    shown = f"{scheme}://{rest.rpartition('@')[2]}" if scheme else rest
    if is_web:
        problem = "is a web address, which cannot be read: copy the files, or give gs://BUCKET/NAME"
    else:
        problem = "is signed or has a password: give only the name"
    raise UsageError(f"{flag} {shown!r} {problem}; credentials come from the environment")


def is_web_address(path: str) -> bool:
    """Whether it is the address of a web server."""
    return path.lower().startswith(("http://", "https://"))


def read_flag_file(flag: str, path: str) -> str:
    """The text of the file that a flag names.

    Raises:
        UsageError: there is none, or it cannot be read.
    """
    with trying(f"read {flag} {path}"):
        text = storage_of(path).read_text(path)
    if text is None:
        raise UsageError(f"no such file: {flag} {path}")
    return text


# Resolves the flags about the name of a dataset and what is said about it.


def given_card(flags: argparse.Namespace) -> CardOptions:
    """The options of the card as they are recorded.

    Raises:
        UsageError: the properties of `--croissant` cannot be read or used.
    """
    card = CardOptions.of(vars(flags))
    if card.name is None:
        return card
    properties = _properties(card.croissant) if card.croissant else None
    version = card.dataset_version or DEFAULT_VERSION
    return dataclasses.replace(card, dataset_version=version, croissant=properties)


def _properties(given: str) -> str:
    """The properties of a file, or of a JSON object in place of its path."""
    if given.lstrip().startswith("{"):
        text, where = given, "--croissant"
    else:
        check_path("--croissant", given)
        text, where = read_flag_file("--croissant", given), f"--croissant {given}"
    with refusing(PropertiesError, because=f"{where}: "):
        return parse_properties(text)


# Lists the globs of flags.


def plain_globs(patterns: Iterable[str], flag: str) -> list[str]:
    """Expands the alternatives in braces of a flag's patterns.

    Raises:
        UsageError: there are too many.
    """
    with refusing(ValueError, because=f"{flag} "):
        globs = itertools.chain.from_iterable(map(expand_braces, patterns))
        found = [*itertools.islice(globs, MAX_GLOBS + 1)]
    if len(found) > MAX_GLOBS:
        raise UsageError(f"{flag} names more than {MAX_GLOBS} globs: use * or **")
    return found


def image_globs(patterns: Iterable[str], title: str) -> list[str]:
    """The globs of images or masks, as `plain_globs` gives them.

    Raises:
        UsageError: there are too many, or one names an archive in the wrong way.
    """
    globs = plain_globs(patterns, title)
    for each in globs:
        if problem := archive_problem(each):
            raise UsageError(f"{title} {each!r} {problem}")
    return globs


def images_below(folder: str) -> tuple[list[str], Decision] | None:
    """Globs of the images below a local folder, or in a local archive; None without one.

    Each extension of an image that occurs has a glob, so that lists next to the images are none.

    Raises:
        UsageError: it cannot be listed.
    """
    inside = folder if "!" in folder else f"{folder}!"
    archive = None if glob.has_magic(folder) or is_in_parquet(inside) else archive_path(inside)
    if archive and os.path.isfile(archive.archive):
        folder = inside
    elif not (storage_of(folder).has_folders and os.path.isdir(folder)):
        return None
    below = join(glob.escape(folder), "**")
    files = list_inputs(folder, "--images", listed=below)
    found = Counter(file.uri.rpartition(".")[2] for file in files)
    images = [each for each, _ in found.most_common() if each.lower() in IMAGE_EXTENSIONS]
    # The usual spelling of each; a glob matches all of them.
    kept = sorted({each.lower(): each for each in reversed(images)}.values())
    others = found.total() - sum(found[each] for each in images)
    because = f"all below the folder {folder!r}" + (f"; other files: {others}" if others else "")
    decision = Decision("images", ", ".join(f"*.{each}" for each in kept), because, "--images")
    return ([join(below, f"*.{each}") for each in kept], decision) if kept else None


# What is said of the columns of Parquet files: what is in them, and elsewhere, and why.
_OF_COLUMNS = (
    ("images", "", "Hugging Face's Image, or the only such column"),
    ("labels", "", "ClassLabel, or a usual name"),
    ("keys", "file and row", "paths of images, if each has another"),
)
_NAMED = "--record_features"


def parquet_images(
    patterns: Sequence[str], named: Mapping[str, str] | None
) -> tuple[list[str], list[Decision], tuple[str, ...]]:
    """The values of `--images` with the images in Parquet files, what is in their columns, and the
    names of the labels.

    Args:
        patterns: files, or globs of them.
        named: the columns of `--record_features`.

    Raises:
        UsageError: a file cannot be read.
        LabelsError: a file is not Parquet, or has no column of images.
    """
    found = [images_in_parquet(pattern, named) for pattern in patterns]
    globs = [each for each in image_globs(found, "--images") if is_in_parquet(each)]
    inside = [parts for glob in globs if (parts := archive_path(glob))]
    listed = ((parts, list_inputs(parts.archive, "--images")) for parts in inside)
    files = ((file, parts.columns) for parts, files in listed for file in files)
    for file, given in itertools.islice(files, 1):
        storage = storage_of(file.uri)
        with trying(f"read {file.uri}"), storage.open_reader(file.uri) as binary:
            read = storage.open_ranges(file.uri)
            columns = ImageFile(binary, read, given, file.uri).columns
        decisions = [
            Decision(what, f"in {'.'.join(path)!r}" if path else other, because, _NAMED)
            for path, (what, other, because) in zip(columns, _OF_COLUMNS, strict=False)
            if path or other
        ]
        return found, decisions, columns.classes
    return found, [], ()


def list_inputs(pattern: str, flag: str, *, listed: str | None = None) -> Iterator[Any]:
    """The files that the glob of a flag matches.

    Args:
        pattern: the glob, for messages.
        flag: its flag, for messages.
        listed: the glob to list; None for the pattern.

    Raises:
        UsageError: it cannot be listed.
        DatasetError: it could not be listed this time.
    """
    storage = storage_of(pattern)
    with trying(f"list {flag} {pattern!r}"):
        try:
            yield from storage.list_files(listed or pattern)
        except PermissionError as error:
            if not storage.has_folders:
                raise
            raise UsageError(
                f"no permission to read the folder {error.filename!r}, "
                f"which {flag} {pattern!r} needs"
            ) from error


# Suggestions for a flag whose glob matches nothing, based on the files that are there.

# Before others: a JSON file may hold anything.
_CSVS = frozenset({"csv", "tsv"})
LABEL_EXTENSIONS = _CSVS | {"json", "jsonl", "parquet", "xml"}
"""Of files of labels, which are never images."""

# Matches of a glob that are searched for folders.
_MATCHES = 20_000

# Files to list in a folder to find out what it contains.
_FILES = 2_000

# From 0 to 1, of names in a folder.
_ALIKE = 0.75

_WINDOWS = re.compile(r"([a-zA-Z]):[/\\]")


def why_empty(pattern: str, *, of_labels: bool = False) -> str:
    """The likely reason why a glob does not match.

    Args:
        pattern: the glob, of images unless `of_labels`.
        of_labels: whether it is that of `--labels`.
    """
    if parts := archive_path(pattern):
        with trying(f"list {pattern!r}"):
            for first in storage_of(pattern).list_files(f"{parts.archive}!/**"):
                return f"a file in an archive is {first.uri!r}"
        return f"there is no archive {parts.archive!r}, or no file in it"
    storage = storage_of(pattern)
    if storage.is_folder(pattern):
        try:
            if found := datasets_below(pattern):
                return f"did you mean {found}?"
            return f"it is a folder, which {_content(pattern, of_labels=of_labels)}"
        except PermissionError as error:
            return f"no permission to read the folder {error.filename or pattern!r}"
    if not storage.has_folders:
        return "check the bucket and the path"
    if drive := _WINDOWS.match(pattern):
        rest = pattern[drive.end() :].replace("\\", "/")
        return f"a path of Windows: WSL has it as '/mnt/{drive[1].lower()}/{rest}'"
    folder = fixed_root([pattern]) or "."
    if not os.path.isdir(folder):
        return f"there is no folder {folder!r}{near_path(folder)}"
    if not os.access(folder, os.R_OK | os.X_OK):
        return f"no permission to read the folder {folder!r}"
    if os.path.lexists(pattern):
        return "it is not a regular file"
    if not glob.has_magic(pattern):
        return f"there is no such file in {folder!r}{near_path(pattern)}"
    if any(os.path.isdir(each) for each in itertools.islice(glob.iglob(pattern), _MATCHES)):
        return f"it matches folders: try {os.path.join(pattern, '**', '*')!r}"
    if "\\" in pattern:
        return "write / instead of \\"
    return f"check the pattern; {folder!r} {_content(folder, of_labels=of_labels)}"


def datasets_below(folder: str) -> str:
    """The first datasets in a folder, such as `out/a or out/b`; empty without one."""
    storage = storage_of(folder)
    # In a bucket, this would list all that is below.
    found = (
        storage.list_files(join(glob.escape(folder), "*", MANIFEST)) if storage.has_folders else ()
    )
    return " or ".join(sorted(file.uri.rpartition("/")[0] for file in found)[:3])


def near_path(path: str) -> str:
    """The path that was probably meant; without one, where a relative path begins."""
    while not os.path.isdir(above := os.path.dirname(path) or "."):
        path = os.path.dirname(path)
    with contextlib.suppress(OSError):
        names = {
            each.name.lower(): each.name for each in itertools.islice(os.scandir(above), _FILES)
        }
        for near in difflib.get_close_matches(
            os.path.basename(path).lower(), names, n=1, cutoff=_ALIKE
        ):
            return f"; did you mean {os.path.join(os.path.dirname(path), names[near])!r}?"
    return "" if os.path.isabs(path) else f"; the working directory is {os.getcwd()}"


def _content(folder: str, *, of_labels: bool) -> str:
    """What a folder holds, and the file, or the glob of some, to pass to a flag instead."""
    below = storage_of(folder).list_files(join(folder, "**"))
    uris = [file.uri for file in itertools.islice(below, _FILES)]
    found = Counter(os.path.splitext(uri)[1] for uri in uris)
    extensions = LABEL_EXTENSIONS if of_labels else IMAGE_EXTENSIONS | {"parquet"}
    fitting = [each for each in found if each[1:].lower() in extensions]
    # Boxes of YOLO, or else what a label file never is.
    fitting = fitting or [each for each in found if of_labels and each == ".txt"]
    if not fitting:
        shown = ((count, each or "without extension") for each, count in found.most_common(3))
        others = ", ".join(f"{count} {each}" for count, each in shown)
        what = "*.csv" if of_labels else "images"
        return f"holds no {what}, {f'but {others}' if others else 'and nothing else'}"
    extension = max(fitting, key=lambda each: (each[1:] in _CSVS, found[each]))
    count = f"{'at least ' if len(uris) == _FILES else ''}{found[extension]}"
    those = [uri for uri in uris if uri.endswith(extension)]
    folder = folder.rstrip("/")
    is_flat = of_labels and all("/" not in uri.removeprefix(f"{folder}/") for uri in those)
    pattern = join(folder, *([] if is_flat else ["**"]), f"*{extension}")
    tried = those[0] if of_labels and len(those) == 1 else pattern
    return f"holds {count} {extension}: try {tried!r}"
