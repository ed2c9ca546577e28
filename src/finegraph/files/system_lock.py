"""The system's own locks on files and folders, which end with the process that holds them.

There are two kinds, which do not see each other: those of a process (POSIX record locks, `lockf`) and those of a handle
(`flock`). Each lock file and folder keeps its kind, so that processes of different versions exclude each other.
"""

from __future__ import annotations

import errno
from typing import Literal

try:
    import fcntl
except ImportError:  # not a POSIX system
    fcntl = None  # type: ignore[assignment]

Owner = Literal["process", "handle"]
_IN_USE = (errno.EACCES, errno.EAGAIN)
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP)


def has_locks() -> bool:
    """Whether the system has such locks."""
    return fcntl is not None


def take_lock(handle: int, owner: Owner, *, wait: bool = False) -> bool:
    """Take the exclusive lock of an open file or folder, until the handle is closed or the process ends.

    Args:
        handle: of the file or folder; one to write in, if the lock is the process's.
        owner: the kind of lock. One of the process is not inherited by its children and is granted to it twice; it ends
            when the process closes any handle of the file.
        wait: whether to wait for another that holds it.

    Returns:
        Whether it is locked; False if there are no locks here.

    Raises:
        BlockingIOError: another holds it.
        OSError: the system refuses for another reason.
    """
    if fcntl is None:
        return False
    lock = fcntl.lockf if owner == "process" else fcntl.flock
    try:
        lock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError as error:
        if error.errno in _NO_LOCKS:
            return False
        if error.errno in _IN_USE:
            raise BlockingIOError(error.errno, error.strerror) from None
        raise
    return True
