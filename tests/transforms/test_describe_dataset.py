"""What `statistics.json` says does not depend on the attempt that wrote it."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from transforms.core.file_errors import TransientError
from transforms.describe_dataset import DatasetDescriber
from transforms.storage.local.local_storage import LocalStorage


def test_a_temporary_failure_is_no_missing_hash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.jpg").write_bytes(b"x")
    describer = DatasetDescriber.__new__(DatasetDescriber)
    describer._root = str(tmp_path)
    failures = iter([errno.EACCES, errno.EIO])

    def fail(*_: Any, **__: Any) -> bytes:
        raise OSError(next(failures), "no answer")

    monkeypatch.setattr(LocalStorage, "read_bytes", fail)
    assert describer.sha256({"path": "a.jpg"}) is None
    with pytest.raises(TransientError, match="run the same command again"):
        describer.sha256({"path": "a.jpg"})
