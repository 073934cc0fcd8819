"""Files that change after they were listed and before they are read."""

import contextlib
import os
import resource
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import transforms.convert_images
from transforms.core.records import PlannedImage
from transforms.records.image_origins import ReadImage, ShardOrigins


def _grow(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"more")


def _rewrite(path: Path) -> None:
    """Other bytes, as many; only the time tells."""
    status = path.stat()
    data = path.read_bytes()
    path.write_bytes(data[:100] + bytes(len(data) - 100))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 1))


def _replaced_by(make: Callable[[Path], object]) -> Callable[[Path], None]:
    def replace(path: Path) -> None:
        path.unlink()
        make(path)

    return replace


CHANGES: dict[str, Callable[[Path], None]] = {
    "vanishes": Path.unlink,
    "grows": _grow,
    "shrinks": lambda path: os.truncate(path, 100),
    "is_rewritten": _rewrite,
    "becomes_a_fifo": _replaced_by(os.mkfifo),
    "becomes_a_folder": _replaced_by(Path.mkdir),
    "becomes_a_device": _replaced_by(lambda path: path.symlink_to("/dev/zero")),
    "becomes_a_link_to_itself": _replaced_by(lambda path: path.symlink_to(path)),
    "loses_its_folder": lambda path: path.parent.rename(path.parent.with_name("moved")),
}


@contextlib.contextmanager
def within_a_minute() -> Iterator[None]:
    """What waits for somebody to write to a FIFO would wait for ever."""

    def stop(*_: object) -> None:
        raise TimeoutError("it still waits")

    former = signal.signal(signal.SIGALRM, stop)
    signal.alarm(60)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, former)


@contextlib.contextmanager
def changing(name: str, change: str) -> Iterator[None]:
    """Makes the change just before the file of this name is read for a shard.

    What then reads a device for ever ends with 2 GB more memory.
    """

    class Changing(ShardOrigins):
        def read(self, image: PlannedImage) -> ReadImage:
            path = Path(self._origins.root, image.path)
            if path.name == name:
                CHANGES[change](path)
            return super().read(image)

    limits = resource.getrlimit(resource.RLIMIT_AS)
    mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    with pytest.MonkeyPatch.context() as patch, within_a_minute():
        # Only where shards are written: images are read before to be compared.
        patch.setattr(transforms.convert_images, "ShardOrigins", Changing)
        resource.setrlimit(resource.RLIMIT_AS, (mapped + (2 << 30), limits[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_AS, limits)
