"""What goes wrong with a command, and the exit code that says so.

DatasetError              1  the run or the check failed
├─ UsageError             2  wrong flags or inputs, found before a job starts
└─ RejectedError          3  more images rejected than --max_rejected, nothing published
"""

from __future__ import annotations

DONE = 0
FAILED = 1
USAGE = 2
TOO_MANY_REJECTED = 3


class DatasetError(Exception):
    """A failure that is told in one line: what, which file or flag, what to do."""

    exit_code = FAILED


class UsageError(DatasetError):
    """Wrong flags or inputs; nothing was done."""

    exit_code = USAGE


class RejectedError(DatasetError):
    """More images were rejected than `--max_rejected` allows; nothing was published."""

    exit_code = TOO_MANY_REJECTED
