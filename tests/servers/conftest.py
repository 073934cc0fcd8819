"""The server as its own tests see it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from google.cloud.storage import Bucket, Client

from tests.servers.gcs import GcsServer
from tests.servers.gcs_objects import BUCKET


@pytest.fixture
def server(gcs: GcsServer, monkeypatch: pytest.MonkeyPatch) -> GcsServer:
    """The server with an empty bucket, which gets only the requests of a test."""
    # The client would request the metadata of a bucket in the background.
    monkeypatch.setenv("DISABLE_GCS_PYTHON_CLIENT_OTEL_BUCKET_METADATA", "true")
    gcs.make_bucket(BUCKET)
    return gcs


@pytest.fixture
def bucket(server: GcsServer) -> Iterator[Bucket]:
    """The bucket as programs see it."""
    with Client() as client:
        yield client.bucket(BUCKET)
