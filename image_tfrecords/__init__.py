"""Image datasets as TFRecords: `from image_tfrecords import convert, load`.

These are names of `pipeline`, which a program gets here even if it has a `transforms.py` or a
`pipeline.py` of its own. Nothing heavy is imported before a name is used.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.machinery import PathFinder
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipeline import DatasetInfo as DatasetInfo
    from pipeline import Records as Records
    from pipeline import UsageError as UsageError
    from pipeline import class_names as class_names
    from pipeline import dataset_info as dataset_info
    from pipeline import feature_spec as feature_spec
    from pipeline import load as load

_NAMES = (
    *("DatasetInfo", "Records", "UsageError"),
    *("class_names", "dataset_info", "feature_spec", "load"),
)
__all__ = [*_NAMES, "convert"]

_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_PACKAGES = ("pipeline", "transforms")

# What the modules of these names import late: whatever `transforms` names then, it is found.
_LATE = ("images.masks", "images.pixels", "images.pillow_images", "report.thumbnails")

# Our packages, while a program has its own ones under their names.
_aside: dict[str, ModuleType] = {}


def convert(
    *places: str, **options: str | float | Sequence[str] | Mapping[str, Any] | None
) -> DatasetInfo:
    """Runs the command `convert` in a process of its own, and prints what it says.

    Args:
        places: images, labels and output; each may be given by name instead.
        options: the other flags by their names. A switch is True, a list repeats its flag, and
            splits and boxes may be a dict.

    Returns:
        what the dataset holds.

    Raises:
        UsageError: an option or an input is wrong; nothing was done.
        DatasetError: the run failed, or rejected too many images.
    """
    words = [*map(os.fspath, places)]
    for name, value in options.items():
        if isinstance(value, Mapping):
            value = ",".join(f"{each}={of_it}" for each, of_it in value.items())
        for each in value if isinstance(value, (list, tuple)) else [value]:
            if each is not None and each is not False:
                words.append(f"--{name}" if each is True else f"--{name}={each}")
    # What it says comes at once.
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    if path := environment.get("PYTHONPATH"):
        environment["PYTHONPATH"] = os.pathsep.join([_ROOT, path])
    command = [sys.executable, "-P", "-m", "pipeline.convert", *words]
    line = ""
    pipe, both = subprocess.PIPE, subprocess.STDOUT
    with subprocess.Popen(command, env=environment, stdout=pipe, stderr=both, text=True) as child:
        try:
            for line in child.stdout or ():
                print(line, end="")
        except KeyboardInterrupt:
            # A notebook interrupts only its own process.
            child.send_signal(signal.SIGINT)
            child.wait()
            raise
    with _own_packages():
        from pipeline.errors import USAGE, DatasetError, UsageError
        from pipeline.read import dataset_info
    if child.returncode:
        failure = UsageError if child.returncode == USAGE else DatasetError
        raise failure(line.strip().removeprefix("convert: "))
    return dataset_info(str(options.get("output") or places[-1]))


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with _own_packages():
        return getattr(importlib.import_module("pipeline"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


@contextlib.contextmanager
def _own_packages() -> Iterator[None]:
    """Lets `pipeline` and `transforms` be ours in this block, and a program's own ones after it.

    Modules of ours that were imported are found under their full names later, too.
    """
    theirs = {
        name: module
        for name, module in sys.modules.items()
        if name.partition(".")[0] in _PACKAGES
        and not _is_ours(name, getattr(module, "__spec__", None))
    }
    # Without one of these names on the path, as in an editable installation, it is ours.
    found = {name: PathFinder.find_spec(name) for name in _PACKAGES}
    others = {name for name, spec in found.items() if spec and not _is_ours(name, spec)}
    others |= theirs.keys() & set(_PACKAGES)
    for name in theirs:
        del sys.modules[name]
    sys.modules.update(_aside)
    sys.path.insert(0, _ROOT)
    try:
        for late in _LATE if others else ():
            importlib.import_module(f"transforms.{late}")
        yield
    finally:
        sys.path.remove(_ROOT)
        for name in others & sys.modules.keys():
            _aside[name] = sys.modules.pop(name)
        sys.modules.update(theirs)


def _is_ours(name: str, spec: Any) -> bool:
    folder = os.path.join(_ROOT, name.partition(".")[0], "")
    return str(getattr(spec, "origin", "")).startswith(folder)
