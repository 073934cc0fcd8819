"""Publication: puts a staged dataset in place: the former one away, the files, the manifest last.

`prepare`, `put_in_place` and `finish` may run on different workers. A runner may repeat each of
them, and a worker that it has given up may still be at work: whatever was done before is found
done, and every name and content is the same in each attempt. So a second `prepare` does not take
away the manifest that the first one's `finish` has published.
"""

from __future__ import annotations

import errno
import hashlib
import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from functools import partial
from typing import NamedTuple, cast

from transforms.core.dataset.file_content import FileContent, content_summary
from transforms.core.dataset.ledger import ShardSummary
from transforms.core.dataset.output_names import (
    FORMER,
    MANIFEST,
    PARTIAL,
    REPORT,
    SMALL,
    STAGING,
    is_source,
    staged_shard,
    waiting_file,
)
from transforms.core.records import RejectedPart
from transforms.staging import check_output, staged_files
from transforms.storage.files import join, read_dataset_file, read_manifest, storage_of
from transforms.storage.lineage import report_sink
from transforms.storage.output_changes import Leftover, OutputChanges, Put, changes_of
from transforms.storage.read_ahead import ReadAhead, reading_threads

_LOGGER = logging.getLogger(__name__)

JOINED_AHEAD = 16 << 20
"""Bytes of parts that are read while others are written."""


class Prepared(NamedTuple):
    """The moves that are left after `Publication.prepare`.

    Attributes:
        puts: files to move first, in any order.
        small: files to move then: the last one, the manifest, after all others.
    """

    puts: list[Put]
    small: list[Put]


class Publication:
    """Makes a dataset appear in an output folder.

    Attributes:
        output: the folder.
        overwrite: whether a dataset in it may be replaced.
        run: see `changes_of`.
    """

    def __init__(self, output: str, *, overwrite: bool, run: str) -> None:
        self._output = output
        self._overwrite = overwrite
        self._run = run

    def prepare(
        self,
        puts: Sequence[Put],
        shards: Iterable[ShardSummary],
        small_files: Mapping[str, FileContent],
    ) -> Prepared:
        """Stages the small files, and removes the former dataset and other runs' staged files.

        Args:
            puts: all other files of the dataset.
            shards: of the dataset.
            small_files: the files next to them, by name; the manifest last.

        Raises:
            OSError: another run wrote a dataset or took the output over, or a file is neither
                staged nor in place.
        """
        storage, attempt = storage_of(self._output), _attempt(small_files)
        small = [
            Put(f"{STAGING}/{waiting_file(attempt, number)}", name, *content_summary(content))
            for number, (name, content) in enumerate(small_files.items())
        ]
        for _ in storage.for_each(lambda put: self._stage(put, small_files[put.target]), small):
            pass
        ours = {(shard.file, shard.recipe) for shard in shards}
        # The folder was named before it was known whether an image would be changed.
        ours |= {begun for shard in shards if (begun := staged_shard(shard.folder))}
        keep = {put.target for put in (*puts, *small)}
        changes = changes_of(self._output, self._run)
        changes.begin()
        is_published = changes.has_content(small[-1])
        if not self._overwrite and not is_published:
            self._check_unpublished(changes)
        former = read_manifest(join(self._output, MANIFEST))
        left = check_output(self._output, former, keep, changes.staged_names())
        # A run that was taken over must not publish its staged files any more.
        is_other = partial(is_source, shards=ours, attempt=attempt)
        changes.remove(f"{STAGING}/{name}" for name in left.staged if is_other(name))
        changes.begin()
        moves = changes.find_staged(puts)
        if is_published:
            # Every file is replaced by the same bytes, so the dataset stays whole meanwhile.
            keep |= {REPORT}
        elif changes.exists(MANIFEST):
            # Before its files; kept in the staging folder, so that a rerun still knows them.
            changes.move(MANIFEST, f"{STAGING}/{FORMER}")
        changes.remove(left.names - keep)
        self._drop_stale(changes, left.shards - ours, keep)
        # With an incomplete shard, no work is lost.
        if dropped := left.complete - ours:
            _LOGGER.warning(
                "dropped %d shards staged by an earlier run with other inputs or options",
                len(dropped),
            )
        changes.write(f"{STAGING}/{SMALL}", json.dumps([*small_files][:-1]).encode())
        for folder in sorted({put.target.rpartition("/")[0] for put in puts} - {""}):
            storage.make_directory(join(self._output, folder))
        return Prepared(moves, small)

    def _stage(self, put: Put, content: FileContent) -> None:
        try:
            # The list of these files follows, and puts the names of all on disk.
            write_content(self._output, put.source, content, is_synced=False)
        except FileNotFoundError:
            # Its parts are removed after it is in place.
            target = join(self._output, put.target)
            if not storage_of(target).has_checksum(target, put.crc32c, put.bytes):
                raise

    def _check_unpublished(self, changes: OutputChanges) -> None:
        if changes.exists(MANIFEST):
            path = join(self._output, MANIFEST)
            raise FileExistsError(errno.EEXIST, "another run wrote it", path)

    def _drop_stale(
        self, changes: OutputChanges, stale: Set[tuple[str, str]], keep: Set[str]
    ) -> None:
        """Removes staged shards of an unfinished run with other inputs or options.

        Some may have their final names already; their sidecars are still staged.
        """
        storage = storage_of(self._output)
        found = storage.for_each(lambda shard: staged_files(self._output, *shard), stale)
        names = set[str]().union(*found)
        storage.check_replaced(self._output, names - keep)
        changes.remove(names - keep)

    def put_in_place(self, puts: Sequence[Put], count: Callable[[], None]) -> None:
        """Moves some files.

        Args:
            puts: of `Prepared.puts`.
            count: called for each file once it is in place.

        Raises:
            OSError: another run changed one.
        """
        changes_of(self._output, self._run).put_in_place(puts, count)

    def finish(self, puts: Iterable[Put], small: Sequence[Put]) -> list[Leftover]:
        """Checks the files that were moved, and moves the small ones, the manifest last.

        Args:
            puts: of `Prepared`, after `put_in_place` for all of them.
            small: of `Prepared`.

        Returns:
            staged files that are left, for `remove`.

        Raises:
            OSError: another run wrote a dataset or took the output over, or a file is gone.
        """
        changes = changes_of(self._output, self._run)
        changes.begin()
        if not changes.has_content(small[-1]):
            self._check_unpublished(changes)
        changes.check_placed(puts)
        *others, manifest = changes.find_staged(small)
        changes.move_all(others)
        changes.move_all([manifest])
        report_sink(self._output)
        return _left(changes)

    def remove(self, leftovers: Iterable[Leftover]) -> None:
        """Removes staged files, unless they have changed since."""
        changes_of(self._output, self._run).remove_leftovers(leftovers)


def _left(changes: OutputChanges) -> list[Leftover]:
    """Staged files that any worker may remove; without generations they are removed at once."""
    if not changes.has_generations:
        changes.remove_staging()
    return changes.leftovers()


def _attempt(small_files: Mapping[str, FileContent]) -> str:
    """The name of an attempt at publishing.

    It is the same for the same dataset, so that a repeated attempt finds its own files.
    """
    digest = hashlib.blake2b(digest_size=16)
    for name, content in small_files.items():
        digest.update(f"{name} {content_summary(content)} ".encode())
    # The manifest has digests of all others.
    digest.update(cast(bytes, small_files[MANIFEST]))
    return digest.hexdigest()


def write_content(output: str, name: str, content: FileContent, *, is_synced: bool = True) -> None:
    """Writes a file of an output folder; parts are joined, and never held as a whole.

    Args:
        output: the folder.
        name: of the file, below the folder.
        content: its bytes, or its parts in the staging folder.
        is_synced: whether its name is on disk, too, when this returns.

    Raises:
        OSError: a part is missing or was changed.
    """
    path, storage = join(output, name), storage_of(output)
    if isinstance(content, bytes):
        storage.write_whole(path, content, is_synced=is_synced)
        return
    # In a bucket a stream makes a new object only.
    storage.remove(path + PARTIAL)
    ahead = ReadAhead(max_bytes=JOINED_AHEAD, threads=reading_threads(output))
    with storage.open_writer(path + PARTIAL) as stream:
        for data in ahead.map(partial(_read_part, output), content.parts, size=_part_bytes):
            stream.write(data)
    storage.rename(path + PARTIAL, path, is_synced=is_synced)


def _read_part(output: str, part: RejectedPart) -> bytes:
    path = join(output, STAGING, part.name)
    data = read_dataset_file(path, part._asdict())
    if data is None:
        raise OSError(f"{path} was changed meanwhile: run the command again")
    return data


def _part_bytes(part: RejectedPart) -> int:
    return part.bytes
