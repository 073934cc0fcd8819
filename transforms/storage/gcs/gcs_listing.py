"""Lists objects of Google Cloud Storage, page by page, with the fields that are requested."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import TYPE_CHECKING

from transforms.core.records import NameRange
from transforms.storage.file_metadata import UNKNOWN_CHECKSUM, Stored
from transforms.storage.gcs.gcs_client import client, split_uri
from transforms.storage.gcs.gcs_errors import translate_errors
from transforms.storage.gcs.gcs_retry import GATE, count_since, retry

if TYPE_CHECKING:
    from google.cloud.storage import Blob


def list_objects(folder: str, prefix: str, fields: str) -> Iterator[Blob]:
    """The objects of a folder's bucket whose names begin with a prefix; see `list_pages`."""
    for page, _ in list_pages(NameRange(folder), prefix, fields):
        yield from page


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
            retry=retry(),
        )
        shut = GATE.shut_seconds
        for page in listing.pages:
            shut = count_since(shut)
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
