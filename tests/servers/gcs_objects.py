"""Reads and writes objects as programs do, through Google's own client."""

from __future__ import annotations

from google.cloud.storage import Bucket
from google.cloud.storage.exceptions import InvalidResponse
from google.cloud.storage.fileio import BlobWriter

BUCKET = "photos"
PART = 256 * 1024


def download(bucket: Bucket, name: str, generation: int | None = None) -> bytes:
    data: bytes = bucket.blob(name).download_as_bytes(
        raw_download=True, if_generation_match=generation
    )
    return data


def write(bucket: Bucket, name: str, generation: int) -> None:
    stream = bucket.blob(name).open("wb", chunk_size=PART, if_generation_match=generation)
    stream.write(b"new")
    close(stream)


def close(stream: BlobWriter) -> None:
    try:
        stream.close()
    except InvalidResponse:
        stream.terminate()  # or the garbage collector would close it once more
        raise
