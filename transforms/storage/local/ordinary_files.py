"""Recognizes ordinary local files: reading them ends, and returns the listed bytes.

A FIFO or a device may never end. Neither may a file of `/proc` or `/sys`, although it claims to be
regular: the kernel generates its bytes on reading, which can block or change something.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import stat
from pathlib import Path

# File systems whose content the kernel generates.
_MADE_UP = frozenset(
    "autofs binfmt_misc bpf cgroup cgroup2 configfs debugfs devpts efivarfs fusectl mqueue nfsd "
    "nsfs proc pstore rpc_pipefs securityfs selinuxfs smackfs sysfs tracefs".split()
)

# The file system has no links, or not to another one, or not that many.
_NO_LINK = (errno.EXDEV, errno.EPERM, errno.EACCES, errno.EMLINK, errno.EOPNOTSUPP, errno.ENOSYS)

_MOUNTS = Path("/proc/self/mountinfo")


def is_ordinary(status: os.stat_result) -> bool:
    """Whether a file is regular and on a file system that stores bytes. No system call."""
    return stat.S_ISREG(status.st_mode) and status.st_dev not in _made_up_devices()


def is_ordinary_file(path: str) -> bool:
    """Whether a path leads to an ordinary file; links are followed."""
    try:
        return is_ordinary(os.stat(path))
    except (OSError, ValueError):
        return False


def link_file(source: str, target: str) -> bool:
    """Makes a hard link to a regular file of this user.

    Args:
        source: the file; a link is not followed.
        target: the new path. If another attempt made it meanwhile, it stays.

    Returns:
        False if it is a file of another kind or user, or the file system has no such link.

    Raises:
        OSError: it is not there.
    """
    status = os.lstat(source)
    # A file of somebody else would stay theirs.
    if not is_ordinary(status) or status.st_uid != os.geteuid():
        return False
    try:
        os.link(source, target, follow_symlinks=False)
    except FileExistsError:
        return True
    except OSError as error:
        if error.errno in _NO_LINK:
            return False
        raise
    return True


@functools.lru_cache(maxsize=1)
def _made_up_devices() -> frozenset[int]:
    """The devices of such file systems, read once per process; none without `/proc`."""
    text = ""
    with contextlib.suppress(OSError):
        text = _MOUNTS.read_text(errors="replace")
    return frozenset(device for line in text.splitlines() if (device := _made_up_device(line)))


def _made_up_device(line: str) -> int:
    """The device in a line of `mountinfo`, 0 if its files are ordinary.

    >>> _made_up_device("24 29 0:22 / /proc rw,relatime - proc proc rw") == os.makedev(0, 22)
    True
    >>> _made_up_device("29 1 8:1 / / rw,relatime - ext4 /dev/root rw")
    0
    """
    mount, _, kind = line.partition(" - ")
    fields = mount.split()
    if len(fields) < 3 or kind.split(" ")[0] not in _MADE_UP:
        return 0
    major, _, minor = fields[2].partition(":")
    return os.makedev(int(major), int(minor))
