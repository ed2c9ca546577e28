"""One run, one process that trains in it; see `finegraph.files.folder_lock`.

Of several ranks, only the one that writes takes the lock.
"""

from __future__ import annotations

from pathlib import Path

from finegraph.errors import RunFolderError
from finegraph.files.folder_lock import LOCK_FILE, FolderLock, LockMessages

__all__ = ["LOCK_FILE", "RunLock"]

_WORDS = LockMessages(noun="run", purpose="training", instead=", or train under another name", error=RunFolderError)


class RunLock(FolderLock):
    """The right to train in a run folder, until `release` or the end of the process.

    Args:
        folder: the run folder.

    Raises:
        RunFolderError: a living process has it, or the folder cannot be written.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, _WORDS)
