"""What goes wrong with a command, and the exit code that says so; no Beam.

DatasetError              1  the run or the check failed
├─ UsageError             2  wrong flags or inputs, found before a job starts
└─ RejectedError          3  more images rejected than --max_rejected, nothing published
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from pipeline.run.streams import open_standard_streams
from transforms.core.file_errors import is_final
from transforms.core.shown_text import first_line, printable, redacted

DONE = 0
FAILED = 1
USAGE = 2
TOO_MANY_REJECTED = 3
INTERRUPTED = 130
# What a shell says of a command that SIGPIPE ended.
UNREAD = 141


class DatasetError(Exception):
    """A failure that is told in one line: what, which file or flag, what to do."""

    exit_code = FAILED


class UsageError(DatasetError):
    """Wrong flags or inputs; nothing was done."""

    exit_code = USAGE


class RejectedError(DatasetError):
    """More images were rejected than `--max_rejected` allows; nothing was published."""

    exit_code = TOO_MANY_REJECTED


def run_command(main: Callable[[], None], command: str) -> int:
    """Runs a command; a failure that the user can do something about is one line.

    Returns:
        the exit code.
    """
    open_standard_streams()
    try:
        main()
        # What is left would be written when Python ends, where no one catches it.
        sys.stdout.flush()
    except KeyboardInterrupt as interrupt:
        told = str(interrupt) or "the same command goes on where it stopped"
        print(f"{command}: interrupted; {told}", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # `| head` has read enough. Python would flush the rest once more at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return UNREAD
    except (DatasetError, OSError) as error:
        # A disk that is full or a bucket that is out of reach can be so at any moment.
        print(f"{command}: {printable(redacted(str(error)))}", file=sys.stderr)
        return error.exit_code if isinstance(error, DatasetError) else FAILED
    return DONE


def input_error(message: str, error: Exception) -> DatasetError:
    """What to raise before a job when an input or an output cannot be used.

    Args:
        message: what cannot be done, without the reason.
        error: why.

    Returns:
        a `UsageError`; when the same command may succeed later, a `DatasetError` that says so: a
        scheduler tries its exit code again.
    """
    told = f"{message}: {one_line(error)}"
    if not isinstance(error, OSError) or error.errno is None or is_final(error):
        return UsageError(told)
    return DatasetError(f"{told}; run the same command again")


def one_line(error: Exception) -> str:
    """The cause of an error in one line, without Beam's wrapping."""
    cause: object = error
    while isinstance(cause, Exception):
        strerror = getattr(cause, "strerror", None)
        if strerror:
            return str(strerror)
        details = getattr(cause, "exception_details", None) or {}
        inner = next(iter(details.values()), None) or (cause.args[0] if cause.args else None)
        if not isinstance(inner, Exception):
            break
        cause = inner
    return first_line(error)
