"""Atomic writing: a kill -9, a full disk or a loss of power never leaves a file half written.

A file is written under a temporary name, synced to the disk, and only then renamed, which is atomic; then the folder is
synced. A process that dies in between leaves only a temporary file or folder, which the next start removes.

Cost: one write of the data and one fsync per file and folder.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import shutil
import stat
import time
from collections.abc import Iterator
from pathlib import Path

MAX_WRITE = 2**23
"""The largest number of bytes per write; all systems accept it, and it fits the cache for a checksum."""
_TEMPORARY = re.compile(r"\.finegraph-[0-9a-f]{16}\.tmp")
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK)
_NO_FOLDER_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.EBADF)


def temporary_in(folder: Path) -> Path:
    """A new temporary name in a folder."""
    return folder / f".finegraph-{secrets.token_hex(8)}.tmp"


def is_temporary(name: str) -> bool:
    """Whether a name is a temporary one."""
    return _TEMPORARY.fullmatch(name) is not None


def remove_stale(folder: Path, min_age: float = 0.0) -> None:
    """Remove the temporary files and folders that a dead process left.

    Args:
        folder: where to look; it need not exist.
        min_age: in seconds; younger ones stay. Without it, only the one process that writes in the folder may call
            this: it cannot tell old ones from those in use.
    """
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        for entry in list(os.scandir(folder)):
            if is_temporary(entry.name) and (
                not min_age or time.time() - entry.stat(follow_symlinks=False).st_mtime > min_age
            ):
                if entry.is_dir(follow_symlinks=False):
                    shutil.rmtree(entry.path)
                else:
                    os.unlink(entry.path)


def remove_folder(path: Path) -> None:
    """Remove a folder so that it is never seen half removed."""
    temporary = temporary_in(path.parent)
    os.rename(path, temporary)
    shutil.rmtree(temporary)


@contextlib.contextmanager
def synced_file(path: Path) -> Iterator[int]:
    """Open a new file for writing; when the block ends, it is synced to the disk."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    try:
        yield handle
        os.fsync(handle)
    finally:
        os.close(handle)


def write_all(handle: int, data: bytes | memoryview) -> None:
    """Write all of the data; the system may take only a part of it at a time."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(handle, rest[:MAX_WRITE]) :]


def sync_folder(folder: Path) -> None:
    """Sync the names in a folder to the disk, where the system supports that."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in _NO_FOLDER_SYNC:  # some file systems cannot do this for folders
            raise
    finally:
        os.close(handle)


def make_folder(folder: Path) -> None:
    """Make a folder and its parents, and sync their names to the disk."""
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    os.makedirs(folder, exist_ok=True)
    for place in missing:
        sync_folder(place.parent)


def write_new(path: Path, data: bytes) -> None:
    """Write a new file atomically.

    Raises:
        FileExistsError: it is there; it is not touched.
        OSError: it cannot be written; nothing of it is left.
    """
    temporary = temporary_in(path.parent)
    try:
        with synced_file(temporary) as handle:
            write_all(handle, data)
        place_new(temporary, path)
    finally:
        with contextlib.suppress(OSError):  # what cannot be removed now goes at the next start
            os.unlink(temporary)


def place_new(temporary: Path, path: Path) -> None:
    """Give a file that is on the disk its own name too; the temporary name may remain, and is the caller's to remove.

    Raises:
        FileExistsError: there is a file of this name; it is not touched.
    """
    try:
        os.link(temporary, path)  # unlike a renaming, this never replaces a file
    except OSError as error:
        if error.errno not in _NO_LINKS or path.exists():
            raise
        os.rename(temporary, path)
    sync_folder(path.parent)


def write_over(path: Path, data: bytes) -> None:
    """Write a file atomically, replacing an existing one.

    A symbolic link stays a link; its target is replaced. The new file keeps the permissions of the old one.

    Raises:
        OSError: it cannot be written; the earlier one is as it was.
    """
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, "it is a folder")
    temporary = temporary_in(target.parent)
    try:
        with synced_file(temporary) as handle:
            if target.exists():
                os.chmod(temporary, stat.S_IMODE(target.stat().st_mode))
            write_all(handle, data)
        os.replace(temporary, target)
        sync_folder(target.parent)
    finally:
        with contextlib.suppress(OSError):  # it is gone if all went well
            os.unlink(temporary)


def reason_of(error: OSError) -> str:
    """The reason of an error of the operating system, in its own words."""
    return error.strerror or str(error) or type(error).__name__


def free_bytes(folder: Path) -> int | None:
    """The free space on the disk of a folder; None if it is unknown."""
    for place in (folder, *folder.parents):
        with contextlib.suppress(OSError):
            return shutil.disk_usage(place).free
    return None
