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
from transforms.storage.interface import Stored, check_staged


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
    """Changes of an output folder; all names are paths below it.

    Attributes:
        has_generations: whether changes name generations, so that other workers can make them
            safely.
    """

    def __init__(self, output: str, run: str) -> None:
        """Changes nothing yet.

        Args:
            output: the folder.
            run: the name of this run in a bucket's lock; empty without a lock.
        """
        self._output = output
        self._run = run
        self._storage = storage_of(output)
        self.has_generations = self._storage.has_generations
        # What is in a bucket; empty without generations.
        self._there: dict[str, Stored] = {}

    def begin(self) -> None:
        """Lists a bucket's folder; changes that others make from now on are not overwritten.

        Raises:
            OSError: another run took the output over.
        """
        if not self.has_generations:
            return
        there, former = self._storage.stored_below(self._output), self._there
        # Checked after the listing: if we hold the lock now, we held it during the listing.
        self._check_lock()
        if former and there.get(MANIFEST) != former.get(MANIFEST):
            raise self._taken_over()
        self._there = there

    def _check_lock(self) -> None:
        path = self._path(f"{STAGING}/{LOCK}")
        if not self._run or (text := self._storage.read_text(path)) is None:
            return
        try:
            owner = parse_json(text)
        except ValueError:
            owner = None
        if not isinstance(owner, dict) or owner.get("run") != self._run:
            raise self._taken_over()

    def _taken_over(self) -> OSError:
        return OSError(f"another run took over --output {self._output}; this one stops")

    def _path(self, name: str) -> str:
        return join(self._output, name)

    def staged_names(self) -> list[str]:
        """All files in the staging folder, see `Storage.staged_names`."""
        if not self.has_generations:
            return self._storage.staged_names(self._path(STAGING))
        # The folder is listed already: one page of it follows the other.
        names = sorted(each.name.removeprefix(f"{STAGING}/") for each in self.leftovers())
        check_staged(self._path(STAGING), names)
        return names

    def exists(self, name: str) -> bool:
        """Whether a file is there."""
        if self.has_generations:
            return name in self._there
        return self._storage.exists(self._path(name))

    def missing(self, sizes: Mapping[str, int]) -> list[str]:
        """The files, of these with their sizes, that are not there or have another size."""
        if self.has_generations:
            # The folder is listed once: a request for each file of a large dataset takes minutes.
            found = {name: stored.size for name, stored in self._there.items()}
            return [name for name, size in sizes.items() if found.get(name) != size]

        def has_size(name: str) -> bool:
            return self._storage.has_size(self._path(name), sizes[name])

        there = self._storage.for_each(has_size, sizes)
        return [name for name, is_there in zip(sizes, there, strict=True) if not is_there]

    def has_content(self, put: Put) -> bool:
        """Whether the target of a file has its content."""
        if self.has_generations:
            return self.is_in_place(put)
        return self._storage.has_checksum(self._path(put.target), put.crc32c, put.bytes)

    def is_in_place(self, put: Put) -> bool:
        """Whether an earlier attempt gave a file its final name."""
        if not self.has_generations:
            return self._storage.has_size(self._path(put.target), put.bytes)
        there = self._there.get(put.target)
        return there is not None and (there.size, there.crc32c) == (put.bytes, put.crc32c)

    def write(self, name: str, data: bytes) -> None:
        """Writes a file so that a reader sees all of it or nothing."""
        generation = self._version(name)
        written = self._storage.write_whole(self._path(name), data, generation=generation)
        if self.has_generations:
            self._there[name] = Stored(len(data), written, crc32c_hex(data))

    def _version(self, name: str) -> int:
        """The generation of a file; 0 if there is none."""
        there = self._there.get(name)
        return there.version if there else 0

    def remove(self, names: Iterable[str]) -> None:
        """Removes files, and the folders that they leave empty."""
        names = sorted(names)
        there = (name for name in names if name in self._there or not self.has_generations)
        self.remove_leftovers([Leftover(name, self._version(name)) for name in there])
        for folder in sorted({name.rpartition("/")[0] for name in names} - {""}):
            self._storage.remove_if_empty(self._path(folder))

    def find_staged(self, puts: Sequence[Put]) -> list[Put]:
        """The moves that are left; a file in place gets its own path as its source.

        In a bucket, what is in place is moved onto itself, to get a generation of this run.

        Raises:
            OSError: a file is neither staged nor in place.
        """
        there = list(self._storage.for_each(lambda put: self.exists(put.source), puts))
        moves = []
        for put, is_staged in zip(puts, there, strict=True):
            if not is_staged and not self.is_in_place(put):
                target = self._path(put.target)
                raise OSError(f"{target} was written, but is neither staged nor in place")
            source = put.source if is_staged else put.target
            version, former = self._version(source), self._version(put.target)
            moves.append(put._replace(source=source, version=version, former=former))
        return moves

    def move(self, name: str, target: str) -> None:
        """Moves a file to the path of another, which may exist."""
        there = self._there.get(name, Stored(0, 0))
        self._move(
            Put(name, target, there.size, there.crc32c, there.version, self._version(target))
        )
        self._storage.sync_folder(os.path.dirname(self._path(target)))

    def move_all(self, puts: Iterable[Put]) -> None:
        """Gives files their final names, in any order; those that have them stay.

        Args:
            puts: results of `find_staged`. Their names are on disk when this returns.
        """
        self.put_in_place(put for put in puts if put.source != put.target)

    def put_in_place(self, puts: Iterable[Put], count: Callable[[], object] = lambda: None) -> None:
        """Gives staged files their final names, unless an earlier attempt did.

        Needs no `begin`: the files know their generations.

        Args:
            puts: results of `find_staged`.
            count: called for each file once it is in place.
        """

        def placed(put: Put) -> str:
            self._place(put)
            count()
            return os.path.dirname(self._path(put.target))

        with throttling_counted():
            for changed in sorted(set(self._storage.for_each(placed, puts))):
                self._storage.sync_folder(changed)

    def _place(self, put: Put) -> None:
        if put.source == put.target and not self.has_generations:
            return
        try:
            self._move(put)
        except FileNotFoundError:
            # Another attempt may have moved it.
            if not self.is_in_place(put):
                raise

    def _move(self, put: Put) -> None:
        ends = self._path(put.source), self._path(put.target)
        former = Stored(0, put.former) if put.former else None
        there = Stored(put.bytes, put.version, put.crc32c)
        version = self._storage.move(*ends, there, former)
        if self._there.pop(put.source, None):
            self._there[put.target] = there._replace(version=version)

    def check_placed(self, puts: Iterable[Put]) -> None:
        """Checks that all files are in place, where that costs no request for each.

        Raises:
            OSError: one is not.
        """
        for put in puts if self.has_generations else ():
            if not self.is_in_place(put):
                target = self._path(put.target)
                raise OSError(f"{target} was moved, but is not in place: another run changed it")

    def leftovers(self) -> list[Leftover]:
        """The staged files that are left, where there are generations."""
        staged = ((n, there) for n, there in self._there.items() if n.startswith(f"{STAGING}/"))
        return [Leftover(name, there.version) for name, there in staged]

    def remove_leftovers(self, leftovers: Iterable[Leftover]) -> None:
        """Removes files of the given generations."""

        def remove(leftover: Leftover) -> None:
            generation = leftover.version or None
            self._storage.remove(self._path(leftover.name), generation=generation)
            self._there.pop(leftover.name, None)

        with throttling_counted():
            list(self._storage.for_each(remove, leftovers))

    def remove_staging(self) -> None:
        """Removes the staging folder."""
        if self.has_generations:
            self.remove_leftovers(self.leftovers())
        else:
            self._storage.remove_staging(self._path(STAGING))


def remove_staging(output: str, run: str) -> None:
    """Removes the staging folder of an output folder, next to a whole dataset.

    Args:
        output: the folder.
        run: see `OutputChanges`.

    Raises:
        OSError: another run took the output over.
    """
    changes = OutputChanges(output, run)
    changes.begin()
    changes.remove_staging()
