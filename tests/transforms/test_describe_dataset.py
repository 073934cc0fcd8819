"""What `statistics.json` says does not depend on the attempt that wrote it."""

from __future__ import annotations

import errno
import threading
from pathlib import Path
from typing import Any

import pytest

from transforms import dataset_files
from transforms.core.messages import TransientError
from transforms.storage.local_storage import LocalStorage


def test_a_temporary_failure_is_no_missing_hash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.jpg").write_bytes(b"x")
    failures = iter([errno.EACCES, errno.EIO])

    def fail(*_: Any, **__: Any) -> bytes:
        raise OSError(next(failures), "no answer")

    monkeypatch.setattr(LocalStorage, "read_bytes", fail)
    assert dataset_files.sha256(str(tmp_path), {"path": "a.jpg"}) is None
    with pytest.raises(TransientError, match="run the same command again"):
        dataset_files.sha256(str(tmp_path), {"path": "a.jpg"})


def test_the_hashes_of_objects_are_computed_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each reads an object: one after the other, a hundred take seconds."""
    together = threading.Barrier(3, timeout=60)

    def wait(_: str, image: dict[str, str]) -> str:
        together.wait()
        return f"hash of {image['path']}"

    monkeypatch.setattr(dataset_files, "sha256", wait)
    images = [{"path": path} for path in "abc"]
    found = dataset_files.sha256_of("gs://photos", images)
    assert found == [f"hash of {path}" for path in "abc"]
