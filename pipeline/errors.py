"""The errors of the commands and their exit codes; no Beam.

DatasetError              1  the run or the check failed
├─ UsageError             2  wrong flags or inputs, found before a job starts
└─ RejectedError          3  more images rejected than --max_rejected, nothing published
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from pipeline.run.streams import error_name, open_standard_streams
from pipeline.run.verbosity import log_traceback
from transforms.core.file_errors import is_final
from transforms.core.shown_text import first_line, printable, redacted

DONE = 0
FAILED = 1
USAGE = 2
TOO_MANY_REJECTED = 3
INTERRUPTED = 130
# The exit code that a shell reports for a command that SIGPIPE ended.
UNREAD = 141


class DatasetError(Exception):
    """A failure reported in one line: what, which file or flag, what to do."""

    exit_code = FAILED


class UsageError(DatasetError):
    """Wrong flags or inputs; nothing was done."""

    exit_code = USAGE


class RejectedError(DatasetError):
    """More images were rejected than `--max_rejected` allows; nothing was published."""

    exit_code = TOO_MANY_REJECTED


def run_command(main: Callable[[], None], command: str) -> int:
    """Runs a command; a failure that the user can fix is reported in one line.

    Returns:
        the exit code.
    """
    open_standard_streams()
    try:
        main()
        # Python would write the rest at exit, where nothing catches the error.
        sys.stdout.flush()
    except KeyboardInterrupt as interrupt:
        hint = str(interrupt) or "run the same command to resume"
        print(f"{command}: interrupted; {hint}", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # `| head` has read enough. Python would flush the rest again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return UNREAD
    except (DatasetError, OSError) as error:
        # A disk can fill up, or a bucket become unreachable, at any moment.
        log_traceback(error)
        name = error_name(command, sys.stderr)
        print(f"{name}: {printable(redacted(str(error)))}", file=sys.stderr)
        return error.exit_code if isinstance(error, DatasetError) else FAILED
    return DONE


def input_error(message: str, error: Exception) -> DatasetError:
    """The error to raise before a job when an input or an output cannot be used.

    Args:
        message: the action that failed, without the reason.
        error: the reason.

    Returns:
        a `UsageError`; if the same command may succeed later, a `DatasetError` that says so: a
        scheduler retries on its exit code.
    """
    text = f"{message}: {one_line(error)}"
    if not isinstance(error, OSError) or error.errno is None or is_final(error):
        return UsageError(text)
    return DatasetError(f"{text}; run the same command again")


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
