"""Errors of the commands, and what they print where."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from typing import TextIO

from transforms.core.messages import LabelsError, is_final, one_line, printable, redacted

# Standard streams: those that were closed (`command >&-`), and colors on a terminal.

_STREAMS = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))


# Lines that begin so need attention.
_ATTENTION = ("warning ", "leakage ")
_YELLOW, _RED, _PLAIN = "\x1b[1;33m", "\x1b[1;31m", "\x1b[0m"


def emphasized(line: str, stream: TextIO) -> str:
    """A line of a summary, in color if it needs attention and the stream is a terminal."""
    if line.startswith(_ATTENTION) and _has_colors(stream):
        return f"{_YELLOW}{line}{_PLAIN}"
    return line


def _has_colors(stream: TextIO) -> bool:
    # See no-color.org.
    wanted = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return wanted and stream.isatty()


def keep_standard_input() -> None:
    """Replaces a pipe as standard input by a file with its content, which can be read again."""
    # Commands that do not need these start without them.
    import shutil
    import tempfile

    open_standard_streams()
    if sys.stdin.seekable():
        return
    with tempfile.TemporaryFile() as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
        file.seek(0)
        os.dup2(file.fileno(), sys.stdin.fileno())


def open_standard_streams() -> None:
    """Opens each closed standard stream on the null device.

    Python sets it to None, and the next file that is opened gets its descriptor: output of a
    library to standard output or standard error would end up in a shard.
    """
    for number, (name, mode) in enumerate(_STREAMS):
        try:
            os.fstat(number)
        except OSError:
            # The lowest free descriptor is this one.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))


# `-v`: logs of libraries, and tracebacks of errors that are otherwise one line.

_OURS = "pipeline"
_PACKAGES = (_OURS, "transforms")


class _Redacting(logging.Formatter):
    """Hides secrets, as messages do; without `-v`, our own warnings are lines for people."""

    def format(self, record: logging.LogRecord) -> str:
        is_plain = record.name.partition(".")[0] in _PACKAGES and not shows_logs()
        return redacted(record.getMessage() if is_plain else super().format(record))


def show_plain_warnings() -> None:
    """Writes our warnings without level and module; Beam's options have set up logging."""
    for handler in logging.getLogger().handlers:
        # Others have a form of their own.
        if type(handler) is logging.StreamHandler:
            handler.setFormatter(_Redacting(logging.BASIC_FORMAT))


def show_logs() -> None:
    """Writes the logs of all libraries, from INFO, to standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(_Redacting("%(levelname)s %(name)s: %(message)s"))
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    logging.getLogger(_OURS).setLevel(logging.DEBUG)


def shows_logs() -> bool:
    """Whether `-v` is given."""
    return logging.getLogger(_OURS).isEnabledFor(logging.DEBUG)


def log_traceback(error: BaseException) -> None:
    """Logs where an error comes from, for `-v`, without secrets whoever handles the logs."""
    if shows_logs():
        trace = redacted("".join(traceback.format_exception(error)))
        logging.getLogger(_OURS).debug("where the error comes from\n%s", trace)


# The errors of the commands and their exit codes; no Beam.
#
# DatasetError              1  the run or the check failed
# ├─ UsageError             2  wrong flags or inputs, found before a job starts
# └─ RejectedError          3  more images rejected than --max_rejected, nothing published

DONE = 0
FAILED = 1
USAGE = 2
TOO_MANY_REJECTED = 3
INTERRUPTED = 130
# The exit code that a shell reports for a command that SIGPIPE ended.
UNREAD = 141

# A disk, a quota or `ulimit -f` leaves no room; an error of standard output names no file.
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class DatasetError(Exception):
    """A failure reported in one line: what, which file or flag, what to do."""

    exit_code = FAILED


class UsageError(DatasetError):
    """Wrong flags or inputs; nothing was done."""

    exit_code = USAGE


class RejectedError(DatasetError):
    """More images were rejected than `--max_rejected` allows; nothing was published."""

    exit_code = TOO_MANY_REJECTED


def run_command(main: Callable[[], int | None], command: str) -> int:
    """Runs a command; a failure that the user can fix is reported in one line.

    Returns:
        the exit code; without a failure, the one that `main` returns.
    """
    open_standard_streams()
    try:
        code = main()
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
        name = f"{_RED}{command}{_PLAIN}" if _has_colors(sys.stderr) else command
        why = str(error)
        if isinstance(error, OSError) and error.errno in _FULL and error.filename is None:
            why = f"cannot write: {error.strerror}; make room, or raise the limit, and run it again"
        why = printable(redacted(why))
        # A file may hold a value, or an archive a name, of any length.
        why = why if len(why) < 2000 else f"{why[:1000]} ... {why[-200:]}"
        print(f"{name}: {why}", file=sys.stderr)
        return error.exit_code if isinstance(error, DatasetError) else FAILED
    return code or DONE


def input_error(message: str, error: Exception) -> DatasetError:
    """The error to raise before a job when an input or an output cannot be used.

    Args:
        message: the action that failed, without the reason.
        error: the reason.

    Returns:
        a `UsageError`; if the same command may succeed later, a `DatasetError` that says so: a
        scheduler retries on its exit code.
    """
    is_text = not isinstance(error, UnicodeDecodeError)
    text = f"{message}: {one_line(error) if is_text else 'it is not UTF-8: save it as UTF-8'}"
    if (path := str(getattr(error, "filename", None) or "")) not in text:
        text += f": {path!r}"
    if not isinstance(error, OSError) or error.errno is None or is_final(error):
        return UsageError(text)
    return DatasetError(f"{text}; run the same command again")


@contextlib.contextmanager
def trying(to: str) -> Iterator[None]:
    """Raises what `input_error` says if an input or an output cannot be used within the block.

    Args:
        to: the action, such as `read --labels labels.csv`.
    """
    try:
        yield
    except LabelsError:
        # It says more.
        raise
    except (OSError, ValueError) as error:
        raise input_error(f"cannot {to}", error) from error


@contextlib.contextmanager
def refusing(*errors: type[Exception], because: str = "") -> Iterator[None]:
    """Raises a `UsageError` for errors within the block whose messages are for users.

    Args:
        errors: their classes.
        because: what comes before the message.
    """
    try:
        yield
    except errors as error:
        raise UsageError(f"{because}{error}") from error
