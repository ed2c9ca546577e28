"""Replacing a folder so that a crash leaves the old one or the new one, never a mixture.

The files go into a hidden folder beside the target, each is brought to the disk, and then the two folders change names
in one step of the file system. If that step does not exist (other systems than Linux), the old folder is first moved
aside and then deleted; a crash between the two moves leaves it there, whole, under a name that says so.

Whoever saves holds a lock on the hidden folder, which ends with the process. So what a killed saving left is known for
what it is, and the next start removes it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from finegraph.files.durable import sync_folder, synced_file, temporary_in, write_all
from finegraph.files.system_lock import has_locks, take_lock

LEFT_OVER = 600.0
"""Seconds after which a hidden folder is taken for that of a killed saving, where folders cannot be locked."""
_AT_FDCWD = -100
_EXCHANGE = 2


def replace_folder(target: Path, files: Mapping[str, bytes]) -> None:
    """Make `target` a folder with these files, replacing its content.

    Raises:
        OSError: it could not be done; the old folder is as it was.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    new = target.with_name(f".{target.name}.{secrets.token_hex(8)}.saving")
    with contextlib.ExitStack() as stack:
        with locked_folder(target.parent):  # so that no other process removes it as stale before it is locked
            _sweep(target)
            new.mkdir()
            stack.callback(shutil.rmtree, new, ignore_errors=True)  # the old folder, or the leftover of a failure
            stack.enter_context(locked_folder(new))
        for name, data in files.items():
            with synced_file(new / name) as handle:
                write_all(handle, data)
        sync_folder(new)
        _put(new, target)
        sync_folder(target.parent)


@contextlib.contextmanager
def temporary_folder(parent: Path) -> Iterator[Path]:
    """A new folder with a temporary name, to be filled and then renamed; the end of the block removes what is left.

    What a killed process leaves is removed by `durable.remove_stale`.
    """
    temporary = temporary_in(parent)
    temporary.mkdir(parents=True)
    try:
        yield temporary
    finally:
        shutil.rmtree(temporary, ignore_errors=True)  # it is gone if all went well


def remove_leftovers(target: Path) -> None:
    """Remove what killed saves of a folder left; a save in progress is not touched."""
    if target.parent.is_dir():
        with locked_folder(target.parent):
            _sweep(target)


def _put(new: Path, target: Path) -> None:
    """Let a new folder take the place of the target."""
    if not target.exists() or not any(target.iterdir()):
        with contextlib.suppress(FileNotFoundError):
            target.rmdir()  # other systems than POSIX do not rename onto an empty folder
        new.rename(target)
        return
    if _exchange(new, target):
        return
    aside = target.with_name(f"{target.name}.old-{secrets.token_hex(4)}")
    target.rename(aside)
    try:
        new.rename(target)
    except OSError:
        aside.rename(target)
        raise
    shutil.rmtree(aside, ignore_errors=True)


def _exchange(one: Path, two: Path) -> bool:
    """Let two folders change names in one step; False if the system cannot."""
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError, TypeError):
        return False
    return bool(rename(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(two), _EXCHANGE) == 0)


def _sweep(target: Path) -> None:
    """Remove what killed saves of this folder left."""
    left = re.compile(rf"\.{re.escape(target.name)}\.[0-9a-f]{{16}}\.saving")
    with contextlib.suppress(OSError):
        for entry in list(os.scandir(target.parent)):
            if left.fullmatch(entry.name) and _is_left(Path(entry.path)):
                shutil.rmtree(entry.path, ignore_errors=True)


def _is_left(folder: Path) -> bool:
    """Whether a hidden folder is stale: no process saves into it."""
    if not has_locks():
        return time.time() - folder.stat(follow_symlinks=False).st_mtime > LEFT_OVER
    try:
        with locked_folder(folder, wait=False):
            return True
    except BlockingIOError:
        return False


@contextlib.contextmanager
def locked_folder(folder: Path, wait: bool = True) -> Iterator[None]:
    """Hold the lock of a folder, if the system has such locks.

    Raises:
        BlockingIOError: another process has it, and is not waited for.
    """
    if not has_locks():
        yield
        return
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            locked = take_lock(handle, "handle", wait=wait)
        except BlockingIOError:
            raise
        except OSError:  # a file system that locks files only
            locked = False
        if not locked and not wait and time.time() - os.fstat(handle).st_mtime <= LEFT_OVER:
            raise BlockingIOError
        yield
    finally:
        os.close(handle)
