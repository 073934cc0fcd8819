"""What a test needs that pip does not install: a browser, Java, another environment."""

import os

import pytest


def skip_unless(is_there: object, reason: str) -> None:
    """Skips a test that cannot run here; in CI, where everything has to be there, it fails.

    Args:
        is_there: what the test needs, or something false.
        reason: what is missing, and how to get it.
    """
    if is_there:
        return
    if os.environ.get("CI"):
        pytest.fail(f"CI must run this: {reason}", pytrace=False)
    pytest.skip(reason)
