"""Which checkpoints of a folder are read, and which are kept.

Reading takes the newest that is whole, and the notes say what was wrong with newer ones. The last and the best are
kept, and `keep` more of each to fall back to; damaged ones do not count. What a checkpoint consists of is the business
of `checkpoint.py` and, where labels are sharded, of `shard_files.py`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from finegraph.errors import CheckpointError, InputError
from finegraph.files.durable import remove_folder
from finegraph.training.checkpoints.checkpoint_reader import CheckpointName, checkpoint_names

MAX_NAMES = 3
"""How many of several faults a message tells."""
_ATTEMPTS = 20
_Found = TypeVar("_Found")


class KeptCheckpoints:
    """The checkpoints in a folder, by name.

    Args:
        path: the folder; it need not exist.
        keep: how many earlier checkpoints are kept beside the last, and beside the best, to fall back to.
    """

    def __init__(self, path: str | os.PathLike[str], keep: int = 1) -> None:
        if keep < 0:
            raise InputError(f"expected how many earlier checkpoints to keep, 0 or more, got {keep}")
        self.path = Path(path)
        self.keep = keep
        self._damaged: set[CheckpointName] = set()

    def _next_name(self, step: int, best: bool) -> CheckpointName:
        """The name of the checkpoint that is saved now."""
        number = max((name.number for name in checkpoint_names(self.path)), default=0) + 1
        return CheckpointName(number, step, bool(best))

    def _newest(self, best: bool, load: Callable[[Path, CheckpointName, Sequence[str]], _Found]) -> _Found | None:
        """What `load` gives of the newest checkpoint that is whole, or of the newest best one; None if there is none.

        Raises:
            CheckpointError: there are some, and all of them are damaged; or one cannot be read for another reason.
        """
        for _ in range(_ATTEMPTS):
            names = [name for name in checkpoint_names(self.path) if name.best or not best]
            notes: list[str] = []
            for name in reversed(names):
                path = self.path / str(name)
                try:
                    return load(path, name, notes)
                except CheckpointError as error:
                    if not error.damaged:
                        raise
                    if not path.exists():
                        break  # the saving process has removed it: there are newer ones
                    notes.append(str(error))
                    self._damaged.add(name)
            else:
                if not names:
                    return None
                raise self._all_damaged(notes)
        raise CheckpointError(f"{self.path}: checkpoints are removed faster than they can be read; try again")

    def _prune(self) -> None:
        """Remove checkpoints that are no longer needed; damaged ones do not count as fallbacks."""
        try:
            names = checkpoint_names(self.path)
            whole = [name for name in names if name not in self._damaged]
            newest = -1 - self.keep
            kept = {*whole[newest:], *[name for name in whole if name.best][newest:]}
            for name in names:
                if name not in kept:
                    remove_folder(self.path / str(name))
        except (OSError, CheckpointError):
            return  # the new checkpoint is safe, and that is what counts; the next save tries again

    def _all_damaged(self, notes: Sequence[str]) -> CheckpointError:
        few = "; ".join(notes[:MAX_NAMES]) + ("; ..." if len(notes) > MAX_NAMES else "")
        return CheckpointError(
            f"{self.path}: expected a checkpoint that is whole, but all {len(notes)} are damaged: {few}. "
            "Restore the folder from a copy, or begin a new run",
            damaged=True,
        )
