"""The commands: options, the graph, launching. The flow itself is in `graph.py`.

`from pipeline import load` imports what it names, and no TensorFlow before data is read.
"""

from __future__ import annotations

import importlib
import sys
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipeline.errors import UsageError as UsageError
    from pipeline.graph import ConvertDataset as ConvertDataset
    from pipeline.random_access import Records as Records
    from pipeline.read import DatasetInfo as DatasetInfo
    from pipeline.read import class_names as class_names
    from pipeline.read import dataset_info as dataset_info
    from pipeline.read import feature_spec as feature_spec
    from pipeline.read import load as load

_MODULES = {
    "ConvertDataset": "graph",
    "DatasetInfo": "read",
    "Records": "random_access",
    "UsageError": "errors",
    "class_names": "read",
    "dataset_info": "read",
    "feature_spec": "read",
    "load": "read",
}

__all__ = [*_MODULES]

__version__ = "0.2.0"
"""The version of the distribution `image-tfrecords`, which `setup.py` reads here."""


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _package(error: ModuleNotFoundError) -> str:
    return (error.name or "").partition(".")[0]


def _report_early_end(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """Prints one line when a command is interrupted, or lacks a package, while it imports."""
    if issubclass(kind, KeyboardInterrupt):
        sys.stderr.write("interrupted\n")
    elif isinstance(error, ModuleNotFoundError) and _package(error) not in sys.modules:
        sys.stderr.write(
            f"{sys.executable} has no package {_package(error)}: activate the environment of "
            "image-tfrecords (source .venv/bin/activate), or install it (pip install .)\n"
        )
        raise SystemExit(2)
    else:
        sys.__excepthook__(kind, error, trace)


# Only where `python -m` looks for a command's module and in the console script, not when the
# package is imported.
if sys.argv[:1] == ["-m"] or "".join(sys.argv[:1]).endswith("/image-tfrecords"):
    sys.excepthook = _report_early_end
