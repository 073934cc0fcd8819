"""What tests of the image check and of changed pixels share."""

from __future__ import annotations

from typing import Any

import pytest

from transforms.images import check


@pytest.fixture(scope="session")
def tensorflow() -> Any:
    """TensorFlow, imported as the check imports it."""
    return check.import_tensorflow()
