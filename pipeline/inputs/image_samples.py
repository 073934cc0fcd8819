"""The first images that a command's globs match, used to check its other flags."""

from __future__ import annotations

import dataclasses
import glob
import itertools
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pipeline.errors import UsageError, input_error
from pipeline.inputs.folder_hints import csvs_in_folder, files_in_archive, images_in_folder
from pipeline.inputs.job_size import JobSize
from transforms.core.planning.archives import archive_problem
from transforms.core.planning.image_globs import any_case, expand_braces, other_case
from transforms.core.planning.keys import fixed_root, image_key
from transforms.find_files import LeftOut
from transforms.storage.file_metadata import FoundFile
from transforms.storage.files import storage_of

# Images inspected before the job: enough to match a row of any sorted or shuffled CSV.
_SAMPLE = 20_000


@dataclasses.dataclass(frozen=True)
class ImageSample:
    """The first images that the globs match.

    Attributes:
        uris: at most `_SAMPLE` of them.
        root: the folder below which paths and keys begin.
        is_all: whether there are no more.
        others: those with an extension in a different case than in their glob.
        size: of the job, as far as the sample shows it.
        labels: of those that have one next to them in their archive.
    """

    uris: list[str]
    root: str
    is_all: bool
    others: int = 0
    size: JobSize = JobSize()
    labels: Mapping[str, str] = dataclasses.field(default_factory=dict, repr=False)
    _keys: dict[str, set[str]] = dataclasses.field(default_factory=dict, repr=False)

    def keys(self, kind: str) -> set[str]:
        """The images' keys of one kind."""
        if kind not in self._keys:
            keys = {image_key(uri, kind=kind, root=self.root) for uri in self.uris}
            self._keys[kind] = keys
        return self._keys[kind]

    def by_key(self, kind: str) -> dict[str, str]:
        """The images by their keys of one kind."""
        return {image_key(uri, kind=kind, root=self.root): uri for uri in self.uris}


def sample_images(globs: list[str], root: str, left_out: LeftOut) -> ImageSample:
    """The first images of all globs below `root`, without the files that are left out.

    Each glob has an equal part of the sample. What some need not, others get: they are listed a
    second time, so that all globs together are listed to twice the size of the sample.

    Raises:
        UsageError: a glob matches nothing, or cannot be listed.
    """
    plain = [(each, pattern) for pattern in globs for each in plain_globs([pattern], "--images")]
    for each, _ in plain:
        if problem := archive_problem(each):
            raise UsageError(f"--images {each!r} {problem}")

    def first(at: int, count: int) -> list[FoundFile]:
        each = plain[at][0]
        images = list_inputs(each, "--images", listed=any_case(each))
        return [*itertools.islice((file for file in images if not left_out.has(file.uri)), count)]

    most = max(1, _SAMPLE // len(plain))
    found = [first(at, most + 1) for at in range(len(plain))]
    matched = {pattern for (_, pattern), files in zip(plain, found, strict=True) if files}
    for pattern in globs:
        if pattern not in matched:
            why = why_empty(pattern)
            if any(_lists(each) for each, of in plain if of == pattern):
                # Left out, as the output of an earlier run would be.
                why = "its files are in --output, or are those of other flags: give another folder"
            raise UsageError(f"no file matches --images {pattern!r}; {why}")
    left = _SAMPLE - sum(min(len(files), most) for files in found)
    is_all = True
    for at, files in enumerate(found):
        if len(files) > most:
            limit = most + max(0, left)
            files = first(at, limit + 1) if left > 0 else files
            is_all = is_all and len(files) <= limit
            found[at] = files[:limit]
            left -= len(found[at]) - most
    others = sum(
        other_case(each, file.uri)
        for (each, _), files in zip(plain, found, strict=True)
        for file in files
    )
    uris = [file.uri for files in found for file in files]
    size = sum(file.size for files in found for file in files)
    labels = {file.uri: file.label for files in found for file in files if file.label}
    return ImageSample(uris, root, is_all, others, JobSize(len(uris), size, is_all), labels)


def _lists(pattern: str) -> bool:
    return next(list_inputs(pattern, "--images", listed=any_case(pattern)), None) is not None


def plain_globs(patterns: Iterable[str], flag: str) -> list[str]:
    """Expands the alternatives in braces of a flag's patterns.

    Raises:
        UsageError: there are too many.
    """
    try:
        return [glob for pattern in patterns for glob in expand_braces(pattern)]
    except ValueError as error:
        raise UsageError(f"{flag} {error}") from error


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
    try:
        yield from storage.list_files(listed or pattern)
    except (OSError, ValueError) as error:
        if isinstance(error, PermissionError) and storage.has_folders:
            raise UsageError(
                f"no permission to read the folder {error.filename!r}, "
                f"which {flag} {pattern!r} needs"
            ) from error
        raise input_error(f"cannot list {flag} {pattern!r}", error) from error


def why_empty(pattern: str, *, of_labels: bool = False) -> str:
    """The likely reason why a glob does not match.

    Args:
        pattern: the glob, of images unless `of_labels`.
        of_labels: whether it is that of `--labels`.
    """
    if hint := files_in_archive(pattern):
        return hint
    in_folder = csvs_in_folder if of_labels else images_in_folder
    storage = storage_of(pattern)
    if storage.is_folder(pattern):
        try:
            return in_folder(pattern)
        except PermissionError as error:
            return f"no permission to read the folder {error.filename or pattern!r}"
    if not storage.has_folders:
        return "check the bucket and the path"
    folder = fixed_root([pattern]) or "."
    if not os.path.isdir(folder):
        return f"there is no folder {folder!r}"
    if not os.access(folder, os.R_OK | os.X_OK):
        return f"no permission to read the folder {folder!r}"
    if os.path.lexists(pattern):
        return "it is not a regular file"
    if not glob.has_magic(pattern):
        return f"there is no such file in {folder!r}"
    if any(os.path.isdir(each) for each in itertools.islice(glob.iglob(pattern), _SAMPLE)):
        return f"it matches folders: try {os.path.join(pattern, '**', '*')!r}"
    if "\\" in pattern:
        return "write / instead of \\"
    return "check the pattern; quote it so that the shell leaves it alone"
