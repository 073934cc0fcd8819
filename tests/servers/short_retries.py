"""Lets requests to Google Cloud Storage fail after a moment, and not after minutes."""

from __future__ import annotations

import pytest

from transforms.storage import (
    gcs_requests as gcs_media,
)
from transforms.storage import (
    gcs_requests as gcs_retry,
)
from transforms.storage import (
    gcs_storage,
)
from transforms.storage import (
    gcs_storage as gcs_listing,
)


def retry_for(seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits the time in which a failed request is sent again, with pauses of 20 to 50 ms."""
    policy = gcs_retry.retry().with_timeout(seconds).with_delay(0.02, 0.05, 2)
    for module in (gcs_listing, gcs_media, gcs_storage):
        monkeypatch.setattr(module, "retry", lambda: policy)
