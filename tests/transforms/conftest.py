"""What tests of the image check, of changed pixels and of packed names share."""

import zlib
from typing import Any

import pytest

from transforms.images import check


@pytest.fixture(scope="session")
def tensorflow() -> Any:
    """TensorFlow, imported as the check imports it."""
    return check.import_tensorflow()


@pytest.fixture
def sizes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The bytes of each pack that is compressed in the test."""
    found: list[int] = []
    compress = zlib.compress

    def measured(*arguments: Any, **options: Any) -> bytes:
        packed = compress(*arguments, **options)
        found.append(len(packed))
        return packed

    monkeypatch.setattr(zlib, "compress", measured)
    return found
