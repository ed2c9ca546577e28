"""Finding checkpoints by their names, and reading one after it is checked.

    000007-step-350-best

A name says the number of the save, the step and whether it is a best one. Numbers count the saves and order them; steps
need not grow, if a run fell back to an earlier checkpoint.

First the record `state.json`, which carries its own checksum, then the tensors against the size and the checksum that
the record gives. Cost: one read of both files, one buffer for all tensors.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Shaped
from torch import Tensor

from finegraph.errors import CheckpointError
from finegraph.files.checked_file import damage_of
from finegraph.files.durable import reason_of
from finegraph.files.sealed_json import unseal
from finegraph.training.checkpoints.tensor_file import parse_tensors

FORMAT = "finegraph.checkpoint"
VERSION = 1
RECORD = "state.json"
TENSORS = "tensors.safetensors"
_NAME = re.compile(r"([0-9]{6,})-step-([0-9]+)(-best)?")
_FIELDS = {"number": int, "step": int, "best": bool, "tensors": dict, "state": dict}
# What the system says of a file that is lost, replaced by something else, or on a bad part of the disk.
_LOST = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EIO, errno.ENXIO, errno.ELOOP)


@dataclass(frozen=True, order=True)
class CheckpointName:
    """What the name of a checkpoint says.

    Attributes:
        number: which save it was, counted from 1.
        step: the step after which it was saved.
        best: whether it was the best then.
    """

    number: int
    step: int
    best: bool

    def __str__(self) -> str:
        return f"{self.number:06}-step-{self.step}{'-best' if self.best else ''}"


def checkpoint_names(folder: Path) -> list[CheckpointName]:
    """All checkpoints in a folder, the oldest first; anything else in it is not ours.

    Raises:
        CheckpointError: the folder cannot be read.
    """
    try:
        entries = os.listdir(folder)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise CheckpointError(f"{folder}: expected a folder of checkpoints: {reason_of(error)}") from error
    matches = [match for match in map(_NAME.fullmatch, entries) if match]
    names = [CheckpointName(int(match[1]), int(match[2]), match[3] is not None) for match in matches]
    # A number with more zeros in front than it should have is not ours either.
    return sorted(name for name, match in zip(names, matches, strict=True) if str(name) == match[0])


@dataclass(frozen=True, kw_only=True, eq=False)
class Checkpoint:
    """What was saved.

    Attributes:
        step: the step after which it was saved.
        tensors: the tensors by name, in main memory, contiguous.
        state: the rest.
        path: the folder it came from.
        best: whether it was saved as the best so far.
        notes: what was wrong with newer ones that should have been taken; empty if nothing was.
    """

    step: int
    tensors: dict[str, Shaped[Tensor, " ..."]]
    state: dict[str, Any]
    path: Path
    best: bool = False
    notes: tuple[str, ...] = ()


def load_checkpoint(
    path: str | os.PathLike[str], name: CheckpointName | None = None, notes: Sequence[str] = ()
) -> Checkpoint:
    """Read the checkpoint in a folder, with every byte checked.

    Args:
        path: the folder of this checkpoint.
        name: what its name says, where this must agree with what is in it.
        notes: what was wrong with newer ones.

    Raises:
        CheckpointError: it is damaged, of a later version, or cannot be read.
    """
    path = Path(path)
    record = _record(path / RECORD)
    recorded_name = CheckpointName(record["number"], record["step"], record["best"])
    if name not in (None, recorded_name):
        raise damage(path, f"its name was changed; its record says {recorded_name}")
    tensors = _tensors(path / TENSORS, record["tensors"])
    return Checkpoint(
        step=record["step"],
        tensors=tensors,
        state=record["state"],
        path=path,
        best=record["best"],
        notes=with_fallback(notes, record["step"]),
    )


def with_fallback(notes: Sequence[str], step: int) -> tuple[str, ...]:
    """What was wrong with newer checkpoints, and which one was taken instead; empty if nothing was."""
    return (*notes, f"took the checkpoint of step {step} in their place") if notes else ()


def _record(path: Path) -> dict[str, Any]:
    """The content of `state.json`."""
    try:
        data = path.read_bytes()
        record: dict[str, Any] = unseal(data)
    except OSError as error:
        raise unreadable_checkpoint(path, error) from error
    except (ValueError, RecursionError) as error:
        raise damage(path, str(error)) from None
    if record.get("format") != FORMAT or not isinstance(record.get("version"), int):
        raise CheckpointError(f"{path}: expected the record of a checkpoint, got {record.get('format')!r}")
    if record["version"] != VERSION:
        raise CheckpointError(
            f"{path}: expected a checkpoint of version {VERSION}, got version {record['version']}; "
            "it was saved by a later finegraph: use that one, or a later one"
        )
    parts = [record.get(name) for name in _FIELDS]
    if not all(isinstance(part, kind) for part, kind in zip(parts, _FIELDS.values(), strict=True)):
        raise damage(path, f"expected {', '.join(_FIELDS)} in the record")
    return record


def _tensors(path: Path, expected: dict[str, Any]) -> dict[str, Tensor]:
    """The tensors, from bytes that have been checked."""
    try:
        with open(path, "rb", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            if size != expected.get("bytes"):
                raise damage(path, f"expected {expected.get('bytes')} bytes, got {size}")
            buffer = torch.empty(size, dtype=torch.uint8)
            view = buffer.numpy().data
            done = 0
            while done < size and (count := file.readinto(view[done:])):
                done += count
    except OSError as error:
        raise unreadable_checkpoint(path, error) from error
    if fault := damage_of(view[:done], size=size, sha256=expected.get("sha256")):
        raise damage(path, fault)
    try:
        return parse_tensors(buffer)
    except (ValueError, RecursionError) as error:
        raise damage(path, str(error)) from error


def damage(path: Path, what: str) -> CheckpointError:
    """The error for a file whose content is not what was written."""
    return CheckpointError(f"{path}: damaged: {what}", damaged=True)


def unreadable_checkpoint(path: Path, error: OSError) -> CheckpointError:
    """The error for a file: a lost file is damage; one without read permission is not, and the user can help."""
    if error.errno in _LOST:
        return damage(path, reason_of(error))
    return CheckpointError(f"{path}: cannot be read: {reason_of(error)}; make it readable and try again")
