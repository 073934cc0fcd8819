"""Objects in Google Cloud Storage."""

from __future__ import annotations

import base64
import bisect
import contextlib
import errno
import functools
import glob
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, TypeAlias

from transforms.core.messages import ChangedError
from transforms.core.records import NameRange
from transforms.dataset.output_names import STAGING
from transforms.labels.keys import glob_regex, literal_prefix
from transforms.storage.gcs_requests import (
    SCHEME,
    blob_of,
    client,
    get_media,
    read_object,
    retry,
    split_uri,
    throttling_counted,
    translate_errors,
)
from transforms.storage.interface import (
    MAX_DATASET_FILE,
    MAX_RANGES,
    UNKNOWN_CHECKSUM,
    FoundFile,
    Storage,
    Stored,
)

if TYPE_CHECKING:
    from google.cloud.storage import Blob


# Cuts a sorted list of unknown length into ranges of names, with few requests.
#
# A bucket lists names in order, page after page, and cannot say how many there are. It can say
# which name is the first at or after a text, so the tree of the names' beginnings is searched: the
# names `a1`, `a2` and `b1` branch at `a` and `b`. How many names a range has is not known, so that
# a long one is cut again by the worker that lists it.

FirstAt: TypeAlias = Callable[[str], str]
"""Gives the first name at or after a text, empty if there is none."""

# A list with as many branches is not searched deeper.
_ENOUGH = MAX_RANGES // 2

# A level of the tree has at least twice as many branches as the one above, unless names contain
# each other.
_MAX_LEVELS = 6

_LAST_CHARACTER = 0x10FFFF
_SURROGATES = (0xD800, 0xE000)


class _Branch(NamedTuple):
    """The names that begin alike.

    Attributes:
        prefix: the beginning that they share.
        first: the first of them.
        is_name: whether it is only the name `prefix`, without the longer ones.
    """

    prefix: str
    first: str
    is_name: bool = False


def range_starts(
    first_at: FirstAt, start: str, *, each: Callable[..., Iterator[Any]] = map
) -> list[str]:
    """The texts at which the ranges of a list begin: `start`, then up to 63 more, sorted.

    Args:
        first_at: requests a name of the list.
        start: the text at or after which the list begins.
        each: like `map`; may call several at once.
    """
    first_at = functools.cache(first_at)
    branches = [_Branch("", first_at(start))]
    for _ in range(_MAX_LEVELS):
        if len(branches) >= _ENOUGH:
            break
        deeper = [
            found
            for below in each(functools.partial(_below, first_at), branches)
            for found in below
        ]
        if len(deeper) == len(branches):
            break
        branches = deeper
    inner = [branch.prefix for branch in branches[1:]]
    return [start, *inner][:: -(-len(branches) // MAX_RANGES)]


def _below(first_at: FirstAt, branch: _Branch) -> list[_Branch]:
    """The branches of a branch, in order; itself if it is one name."""
    prefix, name, is_name = branch
    if is_name or not name:
        return [branch]
    shared = _shared_length(first_at, branch)
    found: list[_Branch] = []
    while name and name.startswith(prefix) and len(found) < _ENOUGH:
        is_name = len(name) == shared
        found.append(_Branch(name[: shared + 1], name, is_name))
        # A name that the others contain comes before them.
        after = f"{name} " if is_name else _past(name[: shared + 1])
        name = first_at(after) if after else ""
    return found


def _shared_length(first_at: FirstAt, branch: _Branch) -> int:
    """How long the beginning is that all names of a branch share."""
    prefix, name, _ = branch

    def is_shared(length: int) -> bool:
        end = _past(name[:length])
        other = first_at(end) if end else ""
        return not (other and other.startswith(prefix))

    low, step = len(prefix), 1
    while low + step <= len(name) and is_shared(low + step):
        low += step
        step *= 2
    longer = range(low + 1, min(low + step - 1, len(name)) + 1)
    return low + bisect.bisect_left(longer, True, key=lambda length: not is_shared(length))


def _past(prefix: str) -> str:
    """The first text after all that begin with a prefix; empty if there is none.

    >>> _past("img_09"), _past("a\U0010ffff")
    ('img_0:', 'b')
    """
    while prefix:
        code = ord(prefix[-1]) + 1
        if code <= _LAST_CHARACTER:
            lowest, after = _SURROGATES
            return prefix[:-1] + chr(after if code == lowest else code)
        prefix = prefix[:-1]
    return ""


# Lists objects of Google Cloud Storage, page by page, with the fields that are requested.


def list_pages(
    part: NameRange, prefix: str, fields: str, *, max_results: int | None = None
) -> Iterator[tuple[list[Blob], bool]]:
    """Pages of the objects of a bucket, and whether each is the last; one request a page.

    Args:
        part: a glob or a folder in the bucket, for messages, and the range of the names.
        prefix: of the names.
        fields: the fields to request for each object.
        max_results: objects to list; None for all.
    """
    with translate_errors(part.glob, missing="no such bucket"):
        listing = client().list_blobs(
            split_uri(part.glob)[0],
            prefix=prefix,
            start_offset=part.start or None,
            end_offset=part.end or None,
            max_results=max_results,
            fields=f"items({fields}),nextPageToken",
            retry=retry,
        )
        pages = listing.pages
        while True:
            with throttling_counted():
                page = next(pages, None)
            if page is None:
                return
            yield [*page], not listing.next_page_token


def stored_object(blob: Blob) -> Stored:
    """The metadata of an object."""
    crc32c = base64.b64decode(blob.crc32c).hex()
    return Stored(int(blob.size or 0), int(blob.generation), crc32c, checksum_of(blob))


def checksum_of(blob: Blob) -> str:
    """See `FoundFile.checksum`."""
    if blob.content_encoding == "gzip":
        return UNKNOWN_CHECKSUM
    return f"{blob.crc32c}{blob.md5_hash or ''}"


# Objects of Google Cloud Storage: list, read, write, move; one client for a process.
#
# Beam's own file system requests an object's metadata before every read and lists without saying
# which fields it wants. Here a read is one request, pinned to the generation that was listed, and
# every failure is an `OSError` that says in one line what to do.

# One part of a download that is streamed, and of an upload; multiples of 256 KiB.
_CHUNK = 8 << 20
_SENT_CHUNK = 16 << 20


class GcsStorage(Storage):
    """Paths that begin with `gs://`; every version is a generation."""

    has_generations = True
    lists_checksums = True

    def list_range(
        self, part: NameRange, limit: int, *, with_checksums: bool = False
    ) -> Iterator[FoundFile | NameRange]:
        """See `Storage.list_range`; the objects are in the order of their names.

        What follows the page of the `limit`-th name is cut into ranges. Folder placeholders, whose
        names end with a slash, are left out.
        """
        bucket, names = split_uri(part.glob)
        if not bucket:
            raise FileNotFoundError(errno.ENOENT, "no such bucket", part.glob)
        matches, listed = glob_regex(names).fullmatch, 0
        more = ",crc32c,md5Hash,contentEncoding" if with_checksums else ""
        pages = list_pages(part, literal_prefix(names), f"name,size,generation{more}")
        for page, is_last in pages:
            listed += len(page)
            is_cut = bool(limit) and listed >= limit and not is_last
            # The next range begins with the last name, at which it can be named.
            for blob in page[: -1 if is_cut else None]:
                if matches(blob.name) and not blob.name.endswith("/"):
                    uri = f"{SCHEME}{bucket}/{blob.name}"
                    checksum = checksum_of(blob) if with_checksums else ""
                    yield FoundFile(uri, blob.size or 0, blob.generation, checksum)
            if is_cut:
                with throttling_counted():
                    ranges = list(self._cut(part._replace(start=page[-1].name)))
                yield from ranges
                return

    def _cut(self, part: NameRange) -> Iterator[NameRange]:
        """Ranges that together are one range."""
        prefix = literal_prefix(split_uri(part.glob)[1])

        def first_at(start: str) -> str:
            first = list_pages(part._replace(start=start), prefix, "name", max_results=1)
            return next((blob.name for page, _ in first for blob in page), "")

        starts = range_starts(first_at, part.start, each=self.for_each)
        for start, end in zip(starts, [*starts[1:], part.end], strict=True):
            yield NameRange(part.glob, start, end)

    def names_below(self, folder: str) -> list[str]:
        return sorted(self.stored_below(folder))

    def stored_below(self, folder: str) -> dict[str, Stored]:
        name = split_uri(folder)[1]
        prefix = f"{name}/" if name else ""
        pages = list_pages(NameRange(folder), prefix, "name,size,generation,crc32c")
        below = (blob for page, _ in pages for blob in page)
        return {blob.name.removeprefix(prefix): stored_object(blob) for blob in below}

    def find(self, path: str) -> Stored | None:
        try:
            return stored_object(_metadata(path))
        except FileNotFoundError:
            return None

    def checksum(self, path: str, *, size: int) -> str | None:
        stored = self.find(path)
        return stored and (stored.crc32c if stored.size <= size else "")

    def read_bytes(self, path: str, *, max_bytes: int | None = None) -> bytes:
        return read_object(path, None, max_stored=max_bytes)

    def read_listed(self, uri: str, *, size: int, version: int, max_bytes: int) -> bytes:
        return read_object(uri, version or None, max_bytes=max_bytes)

    def read_text(self, path: str) -> str | None:
        # One request: the error of the bucket itself says that there is no such object.
        try:
            return self.read_bytes(path, max_bytes=MAX_DATASET_FILE).decode()
        except FileNotFoundError:
            return None

    def open_ranges(self, path: str, *, version: int = 0) -> Callable[[int, int], bytes]:
        def read(offset: int, length: int) -> bytes:
            with translate_errors(path):
                part = offset, length
                return bytes(retry(get_media)(path, version or None, part=part, damaged=set())[0])

        return read

    @contextlib.contextmanager
    def open_reader(self, path: str) -> Iterator[BinaryIO]:
        """A stream of an object's bytes as stored, fetched in parts of one generation."""
        blob = _metadata(path)
        with (
            translate_errors(path),
            blob.open(
                "rb",
                chunk_size=_CHUNK,
                raw_download=True,
                if_generation_match=blob.generation,
                retry=retry,
            ) as stream,
        ):
            yield stream

    @contextlib.contextmanager
    def open_writer(self, path: str) -> Iterator[Any]:
        """A stream to a new object, sent in parts; no object is created if the body raises."""
        with translate_errors(path):
            stream = blob_of(path).open(
                "wb",
                chunk_size=_SENT_CHUNK,
                ignore_flush=True,
                content_type="application/octet-stream",
                if_generation_match=0,
                retry=retry,
            )
            try:
                yield stream
                stream.close()
            except BaseException:
                # A dropped stream would upload its data when it is garbage-collected.
                stream.terminate()
                raise

    def write_whole(
        self, path: str, data: bytes, *, generation: int | None = None, is_synced: bool = True
    ) -> int:
        blob = blob_of(path)
        try:
            with translate_errors(path):
                blob.upload_from_string(
                    data,
                    # A browser shows these types; it saves everything else.
                    content_type=(
                        "text/html" if path.endswith(".html") else "application/octet-stream"
                    ),
                    if_generation_match=generation,
                    retry=retry,
                )
            return int(blob.generation)
        except ChangedError as error:
            # Our own retry finds the result of the first attempt.
            there = self.find(path)
            if there is None or read_object(path, there.version) != data:
                raise FileExistsError(errno.EEXIST, "another run wrote it", path) from error
            return there.version

    def rename(self, source: str, target: str, *, is_synced: bool = True) -> None:
        """Copies on the server, pinned to the generations that are there now.

        Another attempt may move the same bytes at the same time.

        Raises:
            FileNotFoundError: there is no `source`, and `target` does not exist either.
            OSError: `target` was changed by another run, or permissions are missing.
        """
        there, former = self.find(source), self.find(target)
        if there is None:
            raise FileNotFoundError(errno.ENOENT, "no such object", source)
        self.move(source, target, there, former)

    def move(self, source: str, target: str, there: Stored, former: Stored | None) -> int:
        """Replaces one generation of `target` by one of `source`; see `rename`."""
        try:
            generation = int(_rewrite(source, there, target, former).generation)
        except (ChangedError, FileNotFoundError):
            now = self.find(target)
            if now is None or now.crc32c != there.crc32c:
                raise
            generation = now.version
        if source != target:
            self.remove(source, generation=there.version)
        return generation

    def copy(self, source: str, target: str, *, size: int, crc32c: str) -> bool:
        """Copies on the server: one request, whose answer has the checksum of the copy."""
        try:
            copied = stored_object(_rewrite(source, None, target, None))
        except ChangedError:
            # Another attempt, or one of a killed run.
            return self.has_checksum(target, crc32c, size)
        if (copied.size, copied.crc32c) == (size, crc32c):
            return True
        self.remove(target, generation=copied.version)
        return False

    def remove(self, path: str, *, generation: int | None = None) -> None:
        with contextlib.suppress(FileNotFoundError, ChangedError), translate_errors(path):
            blob_of(path).delete(if_generation_match=generation, retry=retry)

    def name_problem(self, path: str) -> str:
        # The result of an unset shell variable, as in gs://$BUCKET/x.
        return "" if split_uri(path)[0] else "names no bucket: write gs://BUCKET/NAME"

    def find_foreign(self, output: str) -> str | None:
        folder = glob.escape(output.rstrip("/"))
        other = next(self.list_files(f"{folder}/**"), None)
        is_ours = next(self.list_files(f"{folder}/{STAGING}/**"), None) is not None
        return other.uri if other and not is_ours else None


def _metadata(uri: str) -> Blob:
    """An object with its metadata: one request.

    Raises:
        OSError: it is gone, or cannot be queried.
    """
    with translate_errors(uri):
        blob = blob_of(uri)
        blob.reload(retry=retry)
    return blob


def _rewrite(source: str, there: Stored | None, target: str, former: Stored | None) -> Blob:
    """Copies an object, or one generation of it, over one of `target`, or where none is."""
    blob, original = blob_of(target), blob_of(source)
    token: str | None = None
    with translate_errors(target):
        while True:
            token, _, _ = blob.rewrite(
                original,
                token=token,
                if_generation_match=former.version if former else 0,
                if_source_generation_match=there.version if there else None,
                retry=retry,
            )
            if token is None:
                return blob
