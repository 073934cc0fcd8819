"""`convert` on a file that changes after it was listed and before it is read.

python -m tests.hostile.changing NAME CHANGE [WORD ...]
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pipeline.convert
import transforms.convert_images
from pipeline.errors import run_command
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


def main() -> int:
    """Converts, and makes the change just before the file is read."""
    name, change, *words = sys.argv[1:]

    class Changing(ShardOrigins):
        def read(self, image: PlannedImage) -> ReadImage:
            path = Path(self._origins.root, image.path)
            if str(path).endswith(name):
                CHANGES[change](path)
            return super().read(image)

    # Only where shards are written: images are read before to be compared.
    transforms.convert_images.ShardOrigins = Changing
    return run_command(lambda: pipeline.convert.main(words), "convert")


if __name__ == "__main__":
    sys.exit(main())
