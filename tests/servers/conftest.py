"""The server as its own tests see it."""

import pytest

from tests.servers.gcs import GcsServer

BUCKET = "photos"


@pytest.fixture
def server(gcs: GcsServer) -> GcsServer:
    """The server with an empty bucket, which gets only the requests of a test."""
    gcs.make_bucket(BUCKET)
    return gcs
