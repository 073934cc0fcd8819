"""Changes of the publishing step to an output folder; a run that was taken over changes nothing.

A local folder is locked for as long as its process lives, suspended or not. A bucket has no such
lock: a run without a heartbeat for a while is taken over, and may wake up in the middle of
publishing. So it lists the folder once, checks that the lock still names it, and from then on
names the generation of each object that it replaces, moves or removes. Its successor removes
its staged files and gives every object of its own dataset a new generation, so whatever the sleeper
does next fails. The generations are part of each `Put` and `Leftover`: other workers move and
remove without requesting them again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from transforms.core.messages import parse_json
from transforms.dataset.manifest import crc32c_hex
from transforms.dataset.output_names import LOCK, MANIFEST, STAGING
from transforms.storage.files import join, storage_of
from transforms.storage.gcs_requests import throttling_counted
from transforms.storage.gcs_storage import GcsStorage
from transforms.storage.interface import Storage, Stored, check_staged


class Put(NamedTuple):
    """A file that is moved to its final name.

    Attributes:
        source: its path below the output folder while it is staged.
        target: its final path below the output folder.
        bytes: its size.
        crc32c: its checksum, 8 hexadecimal digits.
        version: the generation of `source`, see `OutputChanges.find_staged`.
        former: the generation of the file that it replaces; 0 if there is none.
    """

    source: str
    target: str
    bytes: int
    crc32c: str
    version: int = 0
    former: int = 0


class Leftover(NamedTuple):
    """A staged file that nothing needs any more: its path below the folder, its generation."""

    name: str
    version: int


class OutputChanges:
    """Changes of a local output folder, or of one on a file system without generations.

    Attributes:
        output: the folder; all names are paths below it.
    """

    def __init__(self, output: str, storage: Storage) -> None:
        self.output = output
        self._storage = storage

    def begin(self) -> None:
        """Lists the folder; changes that others make from now on are not overwritten.

        Raises:
            OSError: another run took the output over.
        """

    def staged_names(self) -> list[str]:
        """All files in the staging folder, see `Storage.staged_names`."""
        return self._storage.staged_names(join(self.output, STAGING))

    def exists(self, name: str) -> bool:
        """Whether a file is there."""
        return self._storage.exists(join(self.output, name))

    def write(self, name: str, data: bytes) -> None:
        """Writes a file so that a reader sees all of it or nothing."""
        self._storage.write_whole(join(self.output, name), data)

    def move(self, source: str, target: str, *, is_synced: bool = True) -> None:
        """Moves a file to the path of another, which may exist."""
        ends = (join(self.output, source), join(self.output, target))
        self._storage.rename(*ends, is_synced=is_synced)

    def move_all(self, puts: Sequence[Put]) -> None:
        """Gives files their final names, in any order; those that have them stay.

        Args:
            puts: results of `find_staged`. Their names are on disk when this returns.
        """

        def place(put: Put) -> None:
            self.move(put.source, put.target, is_synced=False)

        self._each_synced(place, (put for put in puts if put.source != put.target))

    def missing(self, sizes: Mapping[str, int]) -> list[str]:
        """The files, of these with their sizes, that are not there or have another size."""

        def has_size(name: str) -> bool:
            return self._storage.has_size(join(self.output, name), sizes[name])

        there = self._storage.for_each(has_size, sizes)
        return [name for name, is_there in zip(sizes, there, strict=True) if not is_there]

    def has_content(self, put: Put) -> bool:
        """Whether the target of a file has its content."""
        target = join(self.output, put.target)
        return self._storage.has_checksum(target, put.crc32c, put.bytes)

    def is_in_place(self, put: Put) -> bool:
        """Whether an earlier attempt gave a file its final name."""
        return self._storage.has_size(join(self.output, put.target), put.bytes)

    def remove(self, names: Iterable[str]) -> None:
        """Removes files, and the folders that they leave empty."""
        names = sorted(names)
        for _ in self._storage.for_each(self._remove, names):
            pass
        for folder in sorted({name.rpartition("/")[0] for name in names} - {""}):
            self._storage.remove_if_empty(join(self.output, folder))

    def _remove(self, name: str) -> None:
        self._storage.remove(join(self.output, name))

    def find_staged(self, puts: Sequence[Put]) -> list[Put]:
        """The moves that are left; a file in place gets its own path as its source.

        Raises:
            OSError: a file is neither staged nor in place.
        """
        there = list(self._storage.for_each(lambda put: self.exists(put.source), puts))
        for put, is_staged in zip(puts, there, strict=True):
            if not is_staged and not self.is_in_place(put):
                target = join(self.output, put.target)
                raise OSError(f"{target} was written, but is neither staged nor in place")
        return self._moves(zip(puts, there, strict=True))

    def _moves(self, puts: Iterable[tuple[Put, bool]]) -> list[Put]:
        return [put if is_staged else put._replace(source=put.target) for put, is_staged in puts]

    def put_in_place(self, puts: Iterable[Put], count: Callable[[], None]) -> None:
        """Gives staged files their final names, unless an earlier attempt did.

        Needs no `begin`: the files know their generations.

        Args:
            puts: results of `find_staged`.
            count: called for each file once it is in place.
        """

        def place(put: Put) -> None:
            self._place(put)
            count()

        self._each_synced(place, puts)

    def _each_synced(self, place: Callable[[Put], None], puts: Iterable[Put]) -> None:
        """Calls a function for each file, then puts their names on disk."""

        def placed(put: Put) -> str:
            place(put)
            return os.path.dirname(join(self.output, put.target))

        for changed in sorted(set(self._storage.for_each(placed, puts))):
            self._storage.sync_folder(changed)

    def _place(self, put: Put) -> None:
        if put.source == put.target:
            return
        try:
            self.move(put.source, put.target, is_synced=False)
        except FileNotFoundError:
            # Another attempt may have moved it.
            if not self.is_in_place(put):
                raise

    def check_placed(self, puts: Iterable[Put]) -> None:
        """Checks that all files are in place, where that costs no request for each.

        Raises:
            OSError: one is not.
        """

    has_generations = False
    """Whether changes name generations, so that other workers can make them safely."""

    def leftovers(self) -> list[Leftover]:
        """The staged files that are left, where there are generations."""
        return []

    def remove_leftovers(self, leftovers: Iterable[Leftover]) -> None:
        """Removes files of the given generations."""

        def remove(leftover: Leftover) -> None:
            self._storage.remove(join(self.output, leftover.name), generation=leftover.version)

        for _ in self._storage.for_each(remove, leftovers):
            pass

    def remove_staging(self) -> None:
        """Removes the staging folder."""
        self._storage.remove_staging(join(self.output, STAGING))


class BucketChanges(OutputChanges):
    """Changes of a folder in a bucket of Google Cloud Storage.

    Attributes:
        run: the name of this run in the lock; empty without a lock.
    """

    has_generations = True

    def __init__(self, output: str, storage: GcsStorage, run: str) -> None:
        super().__init__(output, storage)
        self._objects = storage
        self._run = run
        self._there: dict[str, Stored] = {}

    def begin(self) -> None:
        there, former = self._objects.stored_below(self.output), self._there
        # Checked after the listing: if we hold the lock now, we held it during the listing.
        self._check_lock()
        if former and there.get(MANIFEST) != former.get(MANIFEST):
            raise self._taken_over()
        self._there = there

    def _check_lock(self) -> None:
        path = join(self.output, STAGING, LOCK)
        if not self._run or (text := self._objects.read_text(path)) is None:
            return
        try:
            owner = parse_json(text)
        except ValueError:
            owner = None
        if not isinstance(owner, dict) or owner.get("run") != self._run:
            raise self._taken_over()

    def _taken_over(self) -> OSError:
        return OSError(f"another run took over --output {self.output}; this one stops")

    def staged_names(self) -> list[str]:
        # The folder is listed already: one page of it follows the other.
        inside = f"{STAGING}/"
        there = sorted(name for name in self._there if name.startswith(inside))
        names = [name.removeprefix(inside) for name in there]
        check_staged(join(self.output, STAGING), names)
        return names

    def exists(self, name: str) -> bool:
        return name in self._there

    def missing(self, sizes: Mapping[str, int]) -> list[str]:
        # The folder is listed once: a request for each file of a large dataset takes minutes.
        there = {name: stored.size for name, stored in self._there.items()}
        return [name for name, size in sizes.items() if there.get(name) != size]

    def write(self, name: str, data: bytes) -> None:
        former = self._there.get(name)
        generation = former.version if former else 0
        written = self._objects.write_whole(join(self.output, name), data, generation=generation)
        self._there[name] = Stored(len(data), written, crc32c_hex(data))

    def is_in_place(self, put: Put) -> bool:
        there = self._there.get(put.target)
        return there is not None and (there.size, there.crc32c) == (put.bytes, put.crc32c)

    def has_content(self, put: Put) -> bool:
        return self.is_in_place(put)

    def move(self, source: str, target: str, *, is_synced: bool = True) -> None:
        ends = (join(self.output, source), join(self.output, target))
        moved = self._there[source]
        generation = self._objects.move(*ends, moved, self._there.get(target))
        self._there.pop(source)
        self._there[target] = moved._replace(version=generation)

    def move_all(self, puts: Sequence[Put]) -> None:
        with throttling_counted():
            super().move_all(puts)

    def _remove(self, name: str) -> None:
        if (there := self._there.pop(name, None)) is not None:
            self._objects.remove(join(self.output, name), generation=there.version)

    def _moves(self, puts: Iterable[tuple[Put, bool]]) -> list[Put]:
        # What is in place is moved onto itself, to get a generation of this run.
        moves = []
        for put in super()._moves(puts):
            former = self._there.get(put.target)
            version = self._there[put.source].version
            moves.append(put._replace(version=version, former=former.version if former else 0))
        return moves

    def put_in_place(self, puts: Iterable[Put], count: Callable[[], None]) -> None:
        with throttling_counted():
            super().put_in_place(puts, count)

    def _place(self, put: Put) -> None:
        ends = (join(self.output, put.source), join(self.output, put.target))
        former = Stored(0, put.former) if put.former else None
        self._objects.move(*ends, Stored(put.bytes, put.version, put.crc32c), former)

    def check_placed(self, puts: Iterable[Put]) -> None:
        for put in puts:
            if not self.is_in_place(put):
                target = join(self.output, put.target)
                raise OSError(f"{target} was moved, but is not in place: another run changed it")

    def leftovers(self) -> list[Leftover]:
        staged = ((n, there) for n, there in self._there.items() if n.startswith(f"{STAGING}/"))
        return [Leftover(name, there.version) for name, there in staged]

    def remove_leftovers(self, leftovers: Iterable[Leftover]) -> None:
        with throttling_counted():
            super().remove_leftovers(leftovers)

    def remove_staging(self) -> None:
        self.remove_leftovers(self.leftovers())


def changes_of(output: str, run: str) -> OutputChanges:
    """The object that changes an output folder.

    Args:
        output: the folder.
        run: the name of this run in a bucket's lock; empty without a lock.
    """
    storage = storage_of(output)
    if isinstance(storage, GcsStorage):
        return BucketChanges(output, storage, run)
    return OutputChanges(output, storage)


def remove_staging(output: str, run: str) -> None:
    """Removes the staging folder of an output folder, next to a whole dataset.

    Args:
        output: the folder.
        run: see `changes_of`.

    Raises:
        OSError: another run took the output over.
    """
    changes = changes_of(output, run)
    changes.begin()
    changes.remove_staging()
