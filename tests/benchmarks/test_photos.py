"""The photos of the benchmarks: the same bytes however they are built, and built once."""

from __future__ import annotations

import io
from pathlib import Path

import photos
import pytest
import simplejpeg
from PIL import Image


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


def test_a_set_is_built_once_and_replaced_by_another_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[int] = []

    class Pool:
        """Stands for the processes, which would take seconds to render scenes."""

        def __init__(self, *_: object, **__: object) -> None:
            pass

        def __enter__(self) -> Pool:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def map(self, _: object, folders: list[Path], chunks: list[range]) -> list[int]:
            indices = [index for chunk in chunks for index in chunk]
            for index in indices:
                label, stem = photos.photo_name(index)
                (folders[0] / label / f"{stem}.jpg").touch()
            written.extend(indices)
            return indices

    monkeypatch.setattr(photos, "ProcessPoolExecutor", Pool)
    assert photos.build_photos(tmp_path / "set", count=4)
    assert not photos.build_photos(tmp_path / "set", count=4)
    assert written == [0, 1, 2, 3]
    assert photos.build_photos(tmp_path / "set", count=2)
    assert len(list((tmp_path / "set").rglob("*.jpg"))) == 2


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(FileExistsError, match="something else"):
        photos.build_photos(tmp_path, count=1)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_photo_has_the_size_and_the_entropy_of_a_photo() -> None:
    data = photos.cut_photo(0)
    height, width = simplejpeg.decode_jpeg_header(data)[:2]
    assert (height, width) in {(375, 500), (500, 375), (333, 500)}
    assert 0.2 < len(data) / (height * width) < 1.5


@pytest.mark.parametrize(
    ("kind", "format_", "mode", "size"),
    [("small", "JPEG", "RGB", (32, 32)), ("small-png", "PNG", "L", (28, 28))],
)
def test_small_images_are_windows_of_the_same_scenes(
    kind: str, format_: str, mode: str, size: tuple[int, int]
) -> None:
    with Image.open(io.BytesIO(photos.cut_photo(0, photos.KINDS[kind]))) as picture:
        assert (picture.format, picture.mode, picture.size) == (format_, mode, size)
