"""The loopback Google Cloud Storage holds to conditions on generations, as GCS does."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from google.api_core.exceptions import PreconditionFailed
from google.cloud.storage import Bucket
from google.cloud.storage.exceptions import InvalidResponse

from tests.servers.gcs import GcsServer
from tests.servers.gcs_objects import BUCKET, PART, close, download, write

CONDITIONAL: dict[str, Callable[[Bucket, int], object]] = {
    "media": lambda bucket, generation: download(bucket, "a", generation),
    "metadata": lambda bucket, generation: bucket.blob("a").reload(if_generation_match=generation),
    "delete": lambda bucket, generation: bucket.blob("a").delete(if_generation_match=generation),
    "multipart upload": lambda bucket, generation: bucket.blob("a").upload_from_string(
        b"new", if_generation_match=generation
    ),
    "resumable upload": lambda bucket, generation: write(bucket, "a", generation),
    "copy onto": lambda bucket, generation: bucket.copy_blob(
        bucket.blob("source"), bucket, "a", if_generation_match=generation
    ),
    "copy from": lambda bucket, generation: bucket.copy_blob(
        bucket.blob("a"), bucket, "copy", if_source_generation_match=generation
    ),
    "rewrite onto": lambda bucket, generation: bucket.blob("a").rewrite(
        bucket.blob("source"), if_generation_match=generation
    ),
    "rewrite from": lambda bucket, generation: bucket.blob("copy").rewrite(
        bucket.blob("a"), if_source_generation_match=generation
    ),
    "compose onto": lambda bucket, generation: bucket.blob("a").compose(
        [bucket.blob("source")], if_generation_match=generation
    ),
}


@pytest.mark.parametrize("request_of", CONDITIONAL.values(), ids=CONDITIONAL)
def test_a_generation_can_be_demanded(
    server: GcsServer, bucket: Bucket, request_of: Callable[[Bucket, int], object]
) -> None:
    server.put(BUCKET, "source", b"source")
    former = server.put(BUCKET, "a", b"1")
    current = server.put(BUCKET, "a", b"2")
    # The writer of a resumable upload raises the bare InvalidResponse.
    with pytest.raises((PreconditionFailed, InvalidResponse), match="412"):
        request_of(bucket, former)
    assert server.get(BUCKET, "a") == b"2"
    assert server.names(BUCKET) == ["a", "source"]
    request_of(bucket, current)


CREATING = ["multipart upload", "resumable upload", "copy onto", "rewrite onto", "compose onto"]


@pytest.mark.parametrize("name", CREATING)
def test_an_object_can_be_demanded_to_be_new(server: GcsServer, bucket: Bucket, name: str) -> None:
    server.put(BUCKET, "source", b"source")
    CONDITIONAL[name](bucket, 0)
    made = server.get(BUCKET, "a")
    with pytest.raises((PreconditionFailed, InvalidResponse), match="412"):
        CONDITIONAL[name](bucket, 0)
    assert server.get(BUCKET, "a") == made


def test_an_upload_in_parts_checks_again_at_its_end(server: GcsServer, bucket: Bucket) -> None:
    stream = bucket.blob("a+b").open("wb", chunk_size=PART, if_generation_match=0)
    stream.write(b"x" * (PART + 1))
    server.put(BUCKET, "a+b", b"quicker")
    with pytest.raises(InvalidResponse, match="412"):
        close(stream)
    assert server.get(BUCKET, "a+b") == b"quicker"
