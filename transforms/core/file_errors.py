"""Classifies failures of a read as final or temporary."""

from __future__ import annotations

import errno

# Errors that a retry would repeat: the file is missing, forbidden, or not a file; or, when writing,
# the disk is full.
_FINAL = frozenset(
    {
        errno.ENOENT,
        errno.EACCES,
        errno.EPERM,
        errno.EISDIR,
        errno.ENOTDIR,
        errno.ELOOP,
        errno.ENAMETOOLONG,
        errno.EINVAL,
        errno.EFBIG,
        errno.ENXIO,
        errno.ENODEV,
        errno.EOPNOTSUPP,
        errno.EEXIST,
        errno.EROFS,
        errno.ENOSPC,
        errno.EDQUOT,
    }
)


class FinalError(OSError):
    """The file itself is damaged, whatever the errno."""


class ChangedError(FinalError):
    """A file or an object is no longer the one that was listed."""


class TooLargeError(FinalError):
    """A file that is read whole has more bytes than allowed."""

    def __init__(self, size: int, most: int, path: str) -> None:
        name = path.rpartition("/")[2]
        problem = f"{name} has at least {size} bytes, more than {most}: it is not read"
        super().__init__(errno.EFBIG, problem, path)


class MemberError(FinalError):
    """A file in an archive is encrypted, damaged, or no file; the rest can be read."""

    def __init__(self, problem: str) -> None:
        super().__init__(errno.EIO, problem)


class TransientError(OSError):
    """A read failed but may succeed later; the message says what to do."""


def is_final(error: OSError) -> bool:
    """Whether a retry would fail too, so that an image can be rejected for it.

    Everything else may be temporary: 429 and 5xx of a service, a time-out, expired credentials, the
    errors of a network file system, which reports many kinds of trouble as `EIO`.

    >>> is_final(FileNotFoundError(errno.ENOENT, "no such file"))
    True
    >>> is_final(TimeoutError(errno.ETIMEDOUT, "no answer")), is_final(OSError("no errno"))
    (False, False)
    """
    if isinstance(error, TransientError):
        return False
    return isinstance(error, FinalError) or error.errno in _FINAL


def check_final(error: OSError, uri: str) -> None:
    """Returns for a final error, and raises for a temporary one.

    Args:
        error: the reason why `uri` could not be read.
        uri: a path or a URL.

    Raises:
        TransientError: a retry may succeed.
    """
    if is_final(error):
        return
    if isinstance(error, TransientError):
        raise error
    raise TransientError(
        f"cannot read {uri}: {error.strerror or error}; run the same command again"
    ) from error
