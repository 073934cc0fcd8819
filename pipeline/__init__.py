"""The commands: options, the graph, launching. The flow itself is in `graph.py`."""

import sys
from types import TracebackType

__version__ = "0.2.0"
"""The version of the distribution `image-tfrecords`; that of `setup.py`, as a test checks."""


def _report_interrupt(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """Prints one line when a command is interrupted while it imports its modules."""
    if issubclass(kind, KeyboardInterrupt):
        sys.stderr.write("interrupted\n")
    else:
        sys.__excepthook__(kind, error, trace)


# Only where `python -m` looks for a command's module and in the console script, not when the
# package is imported.
if sys.argv[:1] == ["-m"] or "".join(sys.argv[:1]).endswith("/image-tfrecords"):
    sys.excepthook = _report_interrupt
