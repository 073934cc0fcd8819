"""The photos of the benchmarks: the same bytes however they are built, and built once."""

from __future__ import annotations

from pathlib import Path

import photos
import pytest
import simplejpeg


@pytest.fixture(autouse=True)
def small_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two photos to a task, so that several processes share a small set."""
    monkeypatch.setattr(photos, "_CHUNK", 2)


def _files(directory: Path) -> dict[str, bytes]:
    """The bytes of each file below `directory`, by relative path."""
    return {
        path.relative_to(directory).as_posix(): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


@pytest.mark.slow
def test_photos_are_the_same_with_one_process_and_with_two(tmp_path: Path) -> None:
    assert photos.build_photos(tmp_path / "one", count=5, processes=1)
    assert photos.build_photos(tmp_path / "two", count=5, processes=2)
    one = _files(tmp_path / "one")
    assert one == _files(tmp_path / "two")
    assert len([name for name in one if name.endswith(".jpg")]) == 5
    assert one["labels.csv"].startswith(b"id,label\nbeach_000000,beach\n")


def test_a_photo_has_the_size_and_the_entropy_of_a_photo() -> None:
    data = photos.cut_photo(0)
    height, width = simplejpeg.decode_jpeg_header(data)[:2]
    assert (height, width) in {(375, 500), (500, 375), (333, 500)}
    assert 0.2 < len(data) / (height * width) < 1.5
