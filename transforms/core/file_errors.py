"""Which failures of a read are final, and which may pass."""

from __future__ import annotations

import errno

# What another try ends with again: the file is gone, closed to us, or no file; or, where one is to
# be written, there is no room.
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
    """What is wrong with one file itself, whatever its errno: its bytes are damaged."""


class ChangedError(FinalError):
    """A file or an object is no longer the one that was listed."""


class TooLargeError(FinalError):
    """A file that is read whole, and has more bytes than such a file may have."""

    def __init__(self, size: int, most: int, path: str) -> None:
        name = path.rpartition("/")[2]
        told = f"{name} has at least {size} bytes, more than {most}: it is not read"
        super().__init__(errno.EFBIG, told, path)


class TransientError(OSError):
    """A read that failed and may succeed later; the message says what to do."""


def is_final(error: OSError) -> bool:
    """Whether another try would fail too, so that an image can be rejected for it.

    Everything else may pass: 429 and 5xx of a service, a time-out, credentials that ended, and the
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
    """Lets a final error pass.

    Args:
        error: why `uri` could not be read.
        uri: a path or a URL.

    Raises:
        TransientError: another try may succeed.
    """
    if is_final(error):
        return
    if isinstance(error, TransientError):
        raise error
    raise TransientError(
        f"cannot read {uri}: {error.strerror or error}; run the same command again"
    ) from error
