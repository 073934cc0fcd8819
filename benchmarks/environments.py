"""Creates the environment of one peer: `python benchmarks/environments.py PEER DIR`.

The peers of `benchmarks/contenders/` cannot be installed with the product, so each gets its own
virtual environment. Versions are pinned, so that a comparison can be repeated, and byte-compiled
at install time, so that no peer pays for compiling its packages when it is timed. The path of the
environment's Python is printed last; a second call for the same pins only prints it.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

# Packages shared with the product have the versions with which the product was measured.
_SHARED = ("numpy==2.4.6", "pillow==12.3.0", "protobuf==6.33.6", "tensorflow==2.21.0")

PINS: dict[str, tuple[str, ...]] = {
    "tfds": (*_SHARED, "tensorflow-datasets==4.9.10", "importlib_resources==7.1.0"),
    "grain": ("numpy==2.4.6", "protobuf==6.33.6", "grain==0.2.18", "array_record==0.8.6"),
    "ray": (*_SHARED, "ray[data]==2.60.0", "pyarrow==25.0.1", "crc32c==2.9.post0"),
    # The first two bring PyTorch, of 5 GB with its libraries for GPUs.
    "litdata": ("numpy==2.4.6", "pillow==12.3.0", "litdata==0.2.76"),
    "mosaic": ("pillow==12.3.0", "mosaicml-streaming==0.13.0"),
    "webdataset": ("numpy==2.4.6", "pillow==12.3.0", "webdataset==1.0.2"),
    "datasets": ("numpy==2.4.6", "pillow==12.3.0", "datasets==5.2.0"),
}

_STAMP = "peer.json"


def python_of(directory: Path) -> Path:
    """The Python of the virtual environment in `directory`, where this platform puts it."""
    if os.name == "nt":
        return directory / "Scripts" / "python.exe"
    return directory / "bin" / "python"


def _recipe(peer: str) -> str:
    """The definition of an environment; with an equal stamp it is not installed again."""
    version = ".".join(map(str, sys.version_info[:2]))
    return json.dumps({"peer": peer, "python": version, "pins": PINS[peer]}, indent=1)


def _run(*command: str | Path) -> None:
    """Runs an installer with its output on standard error; standard output is for the path."""
    subprocess.run([str(part) for part in command], check=True, stdout=sys.stderr)


def _install(directory: Path, pins: tuple[str, ...]) -> None:
    """Fills `directory` with a new environment that holds `pins`, with uv where there is one."""
    python = python_of(directory)
    uv = shutil.which("uv")
    if uv:
        _run(uv, "venv", "--clear", "--python", sys.executable, directory)
    else:
        venv.create(directory, clear=True, with_pip=True)
    (directory / _STAMP).touch()  # ours from here on, finished or not
    if uv:
        _run(uv, "pip", "install", "--compile-bytecode", "--python", python, *pins)
    else:
        _run(python, "-m", "pip", "install", "--compile", *pins)


def make_environment(peer: str, directory: Path) -> Path:
    """Makes the environment of a peer, unless `directory` already holds it.

    Args:
        peer: a key of `PINS`.
        directory: where the environment goes; one made from other pins is replaced, and a folder
            that holds anything else is left alone.

    Returns:
        The absolute path of the environment's Python.

    Raises:
        FileExistsError: `directory` is neither empty nor an environment made here.
        subprocess.CalledProcessError: the installer failed.
    """
    directory = directory.absolute()
    stamp = directory / _STAMP
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == _recipe(peer):
        return python_of(directory)
    if directory.exists() and any(directory.iterdir()) and not stamp.is_file():
        raise FileExistsError(f"{directory} holds something else; name a new folder")
    _install(directory, PINS[peer])
    stamp.write_text(_recipe(peer), encoding="utf-8")
    return python_of(directory)


def main() -> int:
    """Makes the requested environment and prints its Python."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("peer", choices=sorted(PINS))
    parser.add_argument("directory", type=Path)
    args = parser.parse_args()
    try:
        print(make_environment(args.peer, args.directory))
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"environments: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
