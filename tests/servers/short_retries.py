"""Lets requests to Google Cloud Storage fail after a moment, and not after minutes."""

import pytest

from transforms.storage import gcs_requests


def retry_for(seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits the time in which a failed request is sent again, with pauses of up to 50 ms."""
    monkeypatch.setattr(gcs_requests, "RETRY_SECONDS", seconds)
    monkeypatch.setattr(gcs_requests, "_FIRST_RETRY", 0.02)
    monkeypatch.setattr(gcs_requests, "_LONGEST_RETRY", 0.05)
