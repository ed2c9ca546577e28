"""Checkpoints: everything that a run needs to resume exactly.

    checkpoints/000007-step-350-best/tensors.safetensors     every tensor by name
                                    /state.json              the rest, and the checksums of both files

A checkpoint is a folder that appears in one step and never changes; the number in front counts the saves. When `save`
returns, the checkpoint is on the disk. Nothing is removed before the next one is on the disk, so a kill, a full disk or
a loss of power leaves the last acknowledged checkpoint or a newer one. Reading checks every byte; if a checkpoint is
damaged, the one before it is used and the notes say why. No code is ever loaded from a file.

Cost: saving reads each tensor once and copies none that is contiguous in main memory; the disk holds the last and the
best checkpoint, `keep` more of each to fall back to, and one more while saving.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path

import torch
from jaxtyping import Shaped
from torch import Tensor

from finegraph.errors import CheckpointError, InputError, unknown_name
from finegraph.files.durable import (
    free_bytes,
    make_folder,
    reason_of,
    remove_stale,
    sync_folder,
    synced_file,
    write_all,
)
from finegraph.files.folder_swap import temporary_folder
from finegraph.files.sealed_json import seal
from finegraph.training.checkpoints.checkpoint_reader import (
    FORMAT,
    RECORD,
    TENSORS,
    VERSION,
    Checkpoint,
    load_checkpoint,
)
from finegraph.training.checkpoints.kept_checkpoints import MAX_NAMES, KeptCheckpoints
from finegraph.training.checkpoints.tensor_file import TensorWriter

__all__ = ["Checkpoint", "CheckpointFolder", "load_checkpoint"]

_NO_DIGEST = "0" * 64


class CheckpointFolder(KeptCheckpoints):
    """The checkpoints of one run.

    Any number of processes may read; only one may save (`RunFolder.lock` sees to that).

    Args:
        path: the folder; it is made by the first save.
        keep: how many earlier checkpoints are kept beside the last, and beside the best, to fall back to.

    Example:
        >>> import tempfile, torch
        >>> folder = CheckpointFolder(tempfile.mkdtemp())
        >>> folder.save(10, {"weight": torch.ones(2)}, {"epoch": 1}, best=True).name
        '000001-step-10-best'
        >>> folder.last().state
        {'epoch': 1}
    """

    def save(
        self,
        step: int,
        tensors: Mapping[str, Shaped[Tensor, " ..."]],
        state: Mapping[str, object],
        *,
        best: bool = False,
        check_finite: Iterable[str] = (),
    ) -> Path:
        """Save a checkpoint; when this returns, it is on the disk and `last` gives it or a newer one.

        Args:
            step: the step that was just finished.
            tensors: weights, optimizer state, generators' states: whatever is a tensor, by name.
            state: the rest: text, finite numbers, true, false, None, lists and dicts with text keys.
            best: whether this is the best so far.
            check_finite: names of tensors that must hold neither NaN nor infinity.

        Returns:
            The folder of the new checkpoint.

        Raises:
            CheckpointError: it cannot be written, or has values that must not be saved; the earlier ones are untouched.
            InputError: an argument cannot be saved at all.
        """
        if isinstance(step, bool) or not isinstance(step, int) or step < 0:
            raise InputError(f"expected a step, 0 or more, got {step!r}")
        _check_finite(step, tensors, check_finite)
        writer = TensorWriter(tensors)
        name = self._next_name(step, best)
        about = {"format": FORMAT, "version": VERSION, **asdict(name)}
        # Any checksum is as long as this one: so the state is checked and the size known before anything is written.
        size = writer.size + len(_record(about, writer, _NO_DIGEST, state))
        target = self.path / str(name)
        try:
            make_folder(self.path)
            remove_stale(self.path)
            self._write(target, writer, about, state)
        except OSError as error:
            raise self._cannot_save(step, size, error) from error
        self._prune()
        return target

    def _write(
        self, target: Path, writer: TensorWriter, about: Mapping[str, object], state: Mapping[str, object]
    ) -> None:
        """Write a checkpoint under another name, and give it its own when it is on the disk."""
        with temporary_folder(self.path) as temporary:
            with synced_file(temporary / TENSORS) as handle:
                digest = writer.write(handle)
            with synced_file(temporary / RECORD) as handle:
                write_all(handle, _record(about, writer, digest, state))
            sync_folder(temporary)
            os.rename(temporary, target)
            sync_folder(self.path)

    def last(self) -> Checkpoint | None:
        """The last checkpoint, or the newest that is whole; None if none was ever saved.

        Raises:
            CheckpointError: there are some, and all of them are damaged; or one cannot be read for another reason.
        """
        return self._newest(False, load_checkpoint)

    def best(self) -> Checkpoint | None:
        """The last checkpoint that was saved as the best, or the newest such that is whole; None if there is none.

        Raises:
            CheckpointError: there are some, and all of them are damaged; or one cannot be read for another reason.
        """
        return self._newest(True, load_checkpoint)

    def _cannot_save(self, step: int, size: int, error: OSError) -> CheckpointError:
        free = free_bytes(self.path) if error.errno in (errno.ENOSPC, errno.EDQUOT) else None
        room = f", {free:,} are free there" if free is not None else ""
        return CheckpointError(
            f"{self.path}: cannot save the checkpoint of step {step}: {reason_of(error)}. "
            f"It needs {size:,} bytes{room}. The checkpoints saved before are untouched; "
            "make room or make the folder writable, then resume the run"
        )


def _record(about: Mapping[str, object], writer: TensorWriter, digest: str, state: Mapping[str, object]) -> bytes:
    """The content of `state.json`."""
    tensors = {"file": TENSORS, "bytes": writer.size, "sha256": digest}
    try:
        return seal({**about, "tensors": tensors, "state": dict(state)})
    except ValueError as error:
        raise InputError(f"this state cannot be saved: {error}") from None


def _check_finite(step: int, tensors: Mapping[str, Tensor], names: Iterable[str]) -> None:
    """Refuse to save NaN and infinity under these names."""
    bad = []
    for name in names:
        if name not in tensors:
            raise unknown_name("tensor", name, list(tensors), "to check")
        if not bool(torch.isfinite(tensors[name]).all()):
            bad.append(name)
    if bad:
        few = ", ".join(bad[:MAX_NAMES]) + (", ..." if len(bad) > MAX_NAMES else "")
        raise CheckpointError(
            f"step {step}: expected finite values, got NaN or infinity in {len(bad)} "
            f"{'tensor' if len(bad) == 1 else 'tensors'} ({few}); nothing was saved, the checkpoints saved before are "
            "untouched"
        )
