"""FindImages: lists images, masks and further images."""

from __future__ import annotations

import abc
import codecs
import dataclasses
import functools
import glob
import os
from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar, NamedTuple

from transforms.core.records import Count, JoinSide, Kind, NameRange
from transforms.core.rejections import Reason, Rejection
from transforms.examples.partners import Partner, PartnerKeys, partner_side
from transforms.labels.joins import MAX_LINE, key_line, key_of_line
from transforms.labels.keys import any_case, image_key, relative_path
from transforms.labels.label_rows import label_text
from transforms.labels.label_rules import PathRules
from transforms.storage.files import storage_of
from transforms.storage.interface import FoundFile

# Lists the files of a glob, or of a range of its names, as sides of the join. Opens none.


class LeftOut(NamedTuple):
    """Files that are not images, even if a glob matches them.

    Attributes:
        files: each in all spellings that a listing may use.
        folders: each in all spellings, with a slash at the end.
    """

    files: frozenset[str] = frozenset()
    folders: tuple[str, ...] = ()

    def has(self, uri: str) -> bool:
        """Whether a file is left out.

        >>> LeftOut(frozenset(["a.csv"]), ("out/",)).has("out/labels.txt")
        True
        """
        return uri in self.files or uri.startswith(self.folders)


@dataclasses.dataclass(kw_only=True)
class FileFinder(abc.ABC):
    """Lists globs; a subclass gives the files their keys.

    Attributes:
        counts: the name of the count of files.
        left_out: files that are not listed.
        with_checksums: whether to find checksums, too, where they come with the listing.
    """

    counts: ClassVar[str]
    left_out: LeftOut = LeftOut()
    with_checksums: bool = False

    def find(
        self, part: NameRange, limit: int = 0
    ) -> Iterator[tuple[str, JoinSide] | Rejection | Count | NameRange]:
        """Lists one glob: yields every file with its key, and their number at the end.

        Args:
            part: the glob, or a range of its names.
            limit: after this many names, the rest may follow as ranges; 0 for no limit.
        """
        found = 0
        describe = self._describer(part)
        left_out, left_out_folders = self.left_out
        listed = part._replace(glob=any_case(part.glob))
        storage = storage_of(part.glob)
        for file in storage.list_range(listed, limit, with_checksums=self.with_checksums):
            if isinstance(file, NameRange):
                yield file._replace(glob=part.glob, partner=part.partner)
            elif not (file.uri in left_out or file.uri.startswith(left_out_folders)):
                found += 1
                yield describe(file)
        yield Count(self.counts, found)

    @abc.abstractmethod
    def _describer(
        self, part: NameRange
    ) -> Callable[[FoundFile], tuple[str, JoinSide] | Rejection]:
        """A function that gives a file of a glob its key, or rejects it."""


# Selects the listed files that are images of the dataset, with their keys. Opens no image.


@dataclasses.dataclass(kw_only=True)
class ImageFinder(FileFinder):
    """Finds the images of one dataset.

    Attributes:
        root: the folder below which paths and keys begin.
        key: kind of the join key.
        rules: how an image's path gives its label and its split.
    """

    counts = "images_found"
    root: str
    key: str
    rules: PathRules

    def _describer(
        self, part: NameRange
    ) -> Callable[[FoundFile], tuple[str, JoinSide] | Rejection]:
        return functools.partial(self._describe, named_folder(part.glob))

    def _describe(self, folder: str, file: FoundFile) -> tuple[str, JoinSide] | Rejection:
        path = relative_path(file.uri, self.root)
        try:
            if not path.isascii():
                path.encode()
        except UnicodeEncodeError:
            shown = path.encode(errors="surrogateescape").decode(errors="backslashreplace")
            detail = f"the name holds bytes that are not UTF-8: {shown}"
            return Rejection("image", Reason.NAME_NOT_UTF8.code, detail, shown, "")
        key = image_key(file.uri, kind=self.key, root=self.root)
        if file.problem:
            return Rejection("image", Reason.BAD_MEMBER.code, file.problem, path, key)
        is_neighbour = self.rules.label_from == "webdataset"
        label = file.label if is_neighbour else self.rules.label(path, folder=folder)
        split = self.rules.split(path)
        return key, JoinSide(
            path, file.size, file.version, label, "", split, "", "", Kind.IMAGE, file.checksum
        )


def named_folder(pattern: str) -> str:
    """The class that a glob itself names: the folder of `photos/cat/*.jpg`.

    An image directly in the root of `photos/*/*.jpg` or `photos/**` has no class.

    >>> named_folder("photos/cat/*.jpg"), named_folder("photos/**/*.jpg")
    ('cat', '')
    """
    folder = os.path.dirname(pattern)
    return "" if glob.has_magic(folder) else label_text(os.path.basename(folder))


# Lists masks and further images, with the keys of their images. Opens none of them.


@dataclasses.dataclass
class PartnerFinder(FileFinder):
    """Finds the files of all partners of the images of one dataset.

    Attributes:
        partners: all of them, in their order.
        key: kind of the join key.
        images: the globs of the images; empty if rows list them.
    """

    counts = "partners_found"
    partners: tuple[Partner, ...]
    _: dataclasses.KW_ONLY
    key: str
    images: Sequence[str]

    def __post_init__(self) -> None:
        self.partners = tuple(
            each._replace(extension=self._keys(each).extension) for each in self.partners
        )

    @property
    def globs(self) -> list[NameRange]:
        """All globs, each with the name of its partner."""
        return [
            NameRange(glob, partner=partner.name)
            for partner in self.partners
            for glob in partner.globs
        ]

    def _describer(
        self, part: NameRange
    ) -> Callable[[FoundFile], tuple[str, JoinSide] | Rejection]:
        [partner] = [each for each in self.partners if each.name == part.partner]
        return functools.partial(self._describe, partner, self._keys(partner).of_glob(part.glob))

    def _keys(self, partner: Partner) -> PartnerKeys:
        return PartnerKeys(partner, kind=self.key, images=self.images)

    def _describe(
        self, partner: Partner, key_of: Callable[[str], str], file: FoundFile
    ) -> tuple[str, JoinSide] | Rejection:
        path = relative_path(file.uri, partner.root)
        try:
            path.encode()
        except UnicodeEncodeError:
            shown = file.uri.encode(errors="surrogateescape").decode(errors="backslashreplace")
            detail = f"the name of a file of {partner.title} holds bytes that are not UTF-8"
            return Rejection("partner", Reason.NAME_NOT_UTF8.code, detail, shown, "")
        key = key_of(file.uri)
        if file.problem:
            return Rejection("partner", Reason.BAD_MEMBER.code, file.problem, file.uri, key)
        return key, partner_side(partner.name, path, file.size, file.version)


# Reads the keys of the images to keep, one per line.

_CHUNK = 1 << 20


class KeyReader:
    """Reads a file of keys in bounded memory.

    Attributes:
        path: the file; workers read it.
        name: the file in messages and in the manifest.
    """

    def __init__(self, path: str, name: str = "") -> None:
        self.path = path
        self.name = name or path

    def read(self) -> Iterator[tuple[str, JoinSide]]:
        """Yields every key with its line; blank lines, and most repeated ones, are left out.

        Raises:
            LabelsError: a line is not UTF-8, or too long.
            OSError: the file cannot be read.
        """
        for line, number in self._lines():
            where = f"{self.name}:{number}"
            if number == 1:
                line = line.removeprefix(codecs.BOM_UTF8)
            if key := key_of_line(line, where):
                yield key, key_line(where)

    def _lines(self) -> Iterator[tuple[bytes, int]]:
        """The lines with their numbers; of equal ones in a megabyte, the first."""
        rest, number = b"", 0
        with storage_of(self.path).open_reader(self.path) as file:
            while chunk := file.read(_CHUNK):
                *lines, rest = (rest + chunk).split(b"\n")
                # Five million lines of one key would take a gigabyte in the join.
                first: dict[bytes, int] = {}
                for line in lines:
                    number += 1
                    first.setdefault(line, number)
                yield from first.items()
                if len(rest) > MAX_LINE:
                    break
        if rest:
            yield rest, number + 1
