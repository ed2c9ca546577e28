"""Checkpoints of heads whose labels are shared out: a file per process, read by any number of processes.

    000350/shard-00001-of-00002.safetensors    the rows of one process, and which labels they are of
          /shard-00001-of-00002.json           what the file is, and its checksum
          /whole.json                          written last: the step, the graph, the checksums of all records

Each process writes its own rows and no others; rows that all of them hold are written by the first. A folder counts
only with `whole.json`, which the first process writes once all others are done, so a kill at any moment leaves the
folders before it. A process reads the rows of its labels from the files that have them, which are mapped into memory:
so a run goes on with another number of processes. No code is ever loaded from a file. Cost: each process writes and
checks its own part; reading checks all files once.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Shaped
from torch import Tensor

from finegraph.errors import CheckpointError
from finegraph.files.checked_file import FileEntry, damage_of, entry_of, map_file
from finegraph.files.durable import make_folder, reason_of, remove_folder, sync_folder, synced_file, write_new
from finegraph.files.sealed_json import seal, unseal
from finegraph.files.tensor_frame import Frame, read_frame
from finegraph.graph import LabelGraph
from finegraph.graph.label_shards import LabelShard
from finegraph.training.checkpoints.tensor_file import TYPES, TensorWriter
from finegraph.training.distributed import Ranks

FORMAT, VERSION = "finegraph shards", 1
_WHOLE = "whole.json"
_FINE, _COARSE, _ALL = "labels.fine", "labels.coarse", "all."


@dataclass(frozen=True)
class ShardState:
    """What a folder holds for one process.

    Attributes:
        step: after how many steps it was written.
        fine: tensors with a row for each fine label of the process, by name.
        coarse: the same for its coarse labels.
        whole: tensors that all processes hold.
        state: what was kept beside them.
    """

    step: int
    fine: dict[str, Shaped[Tensor, " ..."]]
    coarse: dict[str, Shaped[Tensor, " ..."]]
    whole: dict[str, Shaped[Tensor, " ..."]]
    state: dict[str, Any]


def save_shards(
    folder: Path,
    graph: LabelGraph,
    shard: LabelShard,
    ranks: Ranks,
    step: int,
    fine: Mapping[str, Shaped[Tensor, " ..."]],
    coarse: Mapping[str, Shaped[Tensor, " ..."]],
    whole: Mapping[str, Shaped[Tensor, " ..."]] | None = None,
    state: Mapping[str, object] | None = None,
) -> Path:
    """Save the rows of all processes; all call this at the same point. The one before it is kept, older ones go.

    Args:
        folder: where checkpoints are; on a disk that all processes see.
        graph: the label graph.
        shard: the labels of this process.
        ranks: this process among the others.
        step: how many steps were taken.
        fine: tensors with a row for each of its fine labels, by name: weights, momentum.
        coarse: the same for its coarse labels.
        whole: tensors that all processes hold, such as the network in front; those of the first one are written.
        state: text, numbers, lists and dicts to keep beside them.

    Raises:
        CheckpointError: a file cannot be written; earlier checkpoints are untouched.
    """
    target = folder / f"{step:06d}"
    shard_coarse = shard.coarse(graph)
    kept = np.ones(len(shard_coarse), bool) if ranks.first else _local(graph, shard, shard_coarse)
    tensors: dict[str, Tensor] = {_FINE: torch.from_numpy(shard.fine), _COARSE: torch.from_numpy(shard_coarse[kept])}
    rows = torch.from_numpy(np.flatnonzero(kept))
    tensors |= {f"fine.{name}": values for name, values in fine.items()}
    tensors |= {
        f"coarse.{name}": values.detach() if kept.all() else values.detach()[rows] for name, values in coarse.items()
    }
    if ranks.first:
        tensors |= {f"{_ALL}{name}": values for name, values in (whole or {}).items()}
    faults = ranks.gather(_made_anew(target) if ranks.first else None)
    # All must know whether all can go on, or one would wait for ever.
    _refuse(target, step, faults)
    written = _written(target, f"shard-{shard.rank + 1:05d}-of-{shard.size:05d}", tensors)
    records = ranks.gather(written)
    _refuse(target, step, [record for record in records if isinstance(record, str)])
    if ranks.first:
        about = {"format": FORMAT, "version": VERSION, "step": step, "graph": graph.digest}
        write_new(target / _WHOLE, seal({**about, "records": records, "state": dict(state or {})}))
        sync_folder(folder)
        for old in saved_steps(folder)[:-2]:
            remove_folder(folder / f"{old:06d}")
    ranks.wait()
    return target


def saved_steps(folder: Path) -> list[int]:
    """The steps of the checkpoints in a folder that were written to the end, rising."""
    if not folder.is_dir():
        return []
    names = [entry for entry in os.listdir(folder) if entry.isdigit() and (folder / entry / _WHOLE).is_file()]
    return sorted(int(name) for name in names)


def load_shards(folder: Path, graph: LabelGraph, shard: LabelShard) -> ShardState | None:
    """The rows of this process from the newest checkpoint, whatever number of processes wrote it; None without any.

    Args:
        folder: where checkpoints are.
        graph: the label graph.
        shard: the labels of this process.

    Raises:
        CheckpointError: a file is damaged or missing, or it is of another graph.
    """
    steps = saved_steps(folder)
    if not steps:
        return None
    target = folder / f"{steps[-1]:06d}"
    about = _unsealed(target / _WHOLE)
    if about.get("format") != FORMAT or about.get("version") != VERSION:
        raise CheckpointError(f"{target}: expected the format {FORMAT!r}, version {VERSION}")
    if about["graph"] != graph.digest:
        raise CheckpointError(f"{target}: its rows are of another label graph; resume with the graph it began with")
    filled_rows: dict[str, _Rows] = {}
    whole: dict[str, Tensor] = {}
    for entry in about["records"]:
        _take(target, FileEntry(**entry), filled_rows, whole, graph, shard)
    missing = [name for name, rows in filled_rows.items() if not bool(rows.filled.all())]
    if missing:
        raise CheckpointError(f"{target}: rows of {missing[0]!r} are in none of its files; restore it from a copy")
    parts = {
        kind: {name.removeprefix(kind): rows.values for name, rows in filled_rows.items() if name.startswith(kind)}
        for kind in ("fine.", "coarse.")
    }
    return ShardState(steps[-1], parts["fine."], parts["coarse."], whole, about["state"])


@dataclass(frozen=True)
class _Rows:
    """A tensor that is being filled, and which of its rows are."""

    values: Tensor
    filled: Tensor


def _take(
    target: Path,
    record: FileEntry,
    filled_rows: dict[str, _Rows],
    whole: dict[str, Tensor],
    graph: LabelGraph,
    shard: LabelShard,
) -> None:
    """Copy the rows of this process, and the tensors that all hold, from one file."""
    path = target / record.name
    sealed = _read(path)
    fault = damage_of(sealed, size=record.bytes, sha256=record.sha256)
    if fault is not None:
        raise CheckpointError(f"{path}: {fault}; restore it from a copy", damaged=True)
    file = FileEntry(**_content(path, bytes(sealed))["file"])
    data = _read(target / file.name)
    fault = damage_of(data, size=file.bytes, sha256=file.sha256)
    if fault is not None:
        raise CheckpointError(f"{target / file.name}: {fault}; restore it from a copy", damaged=True)
    frame = read_frame(data)

    wanted = {"fine.": (shard.fine, _FINE), "coarse.": (shard.coarse(graph), _COARSE)}
    for kind, (numbers, labels) in wanted.items():
        theirs = _rows_of(data, frame, labels, slice(None)).numpy()
        place = np.searchsorted(theirs, numbers)
        hit = np.flatnonzero(place < len(theirs))
        hit = hit[theirs[place[hit]] == numbers[hit]]
        at = torch.from_numpy(hit)
        for name in (name for name in frame.entries if name.startswith(kind)):
            rows = _rows_of(data, frame, name, place[hit])
            if name not in filled_rows:
                empty = rows.new_empty(len(numbers), *rows.shape[1:])
                filled_rows[name] = _Rows(empty, torch.zeros(len(numbers), dtype=torch.bool))
            filled_rows[name].values[at] = rows
            filled_rows[name].filled[at] = True

    for name in (name for name in frame.entries if name.startswith(_ALL)):
        entry = frame.entries[name]
        flat = np.array(np.frombuffer(data, np.uint8, entry.end - entry.start, frame.start + entry.start))
        dtype = TYPES[entry.dtype]
        values = torch.from_numpy(flat).view(dtype) if len(flat) else torch.empty(0, dtype=dtype)
        whole[name.removeprefix(_ALL)] = values.view(entry.shape)


def _rows_of(data: Any, frame: Frame, name: str, rows: Any) -> Tensor:
    """Some rows of a tensor of a file; only these are copied."""
    entry = frame.entries[name]
    count = entry.shape[0]
    size, chosen_count = (entry.end - entry.start) // max(count, 1), len(np.arange(count)[rows])
    if not size or not chosen_count:
        return torch.empty((chosen_count, *entry.shape[1:]), dtype=TYPES[entry.dtype])
    table = np.frombuffer(data, np.uint8, count * size, frame.start + entry.start).reshape(count, size)
    chosen = np.array(table[rows])
    return torch.from_numpy(chosen).view(TYPES[entry.dtype]).view(len(chosen), *entry.shape[1:])


def _local(graph: LabelGraph, shard: LabelShard, coarse: Any) -> Any:
    """Which of the coarse labels of a process no other one holds."""
    start = 0
    for name in graph.kinds:
        count = len(graph.labels(name))
        if name == shard.kind:
            return (coarse >= start) & (coarse < start + count)
        start += count
    return np.zeros(len(coarse), bool)


def _made_anew(target: Path) -> str | None:
    """Make an empty folder, without what a job that was killed while saving has left; returns why it cannot be made."""
    try:
        if target.exists():
            remove_folder(target)
        make_folder(target)
    except OSError as error:
        return reason_of(error)
    return None


def _written(target: Path, name: str, tensors: Mapping[str, Tensor]) -> dict[str, Any] | str:
    """Write the file of one process and its record; returns what to keep of the record, or why it cannot be written."""
    writer = TensorWriter(tensors)
    try:
        with synced_file(target / f"{name}.safetensors") as handle:
            digest = writer.write(handle)
        entry = FileEntry(name=f"{name}.safetensors", bytes=writer.size, sha256=digest)
        record = seal({"format": FORMAT, "version": VERSION, "file": asdict(entry)})
        write_new(target / f"{name}.json", record)
    except OSError as error:
        return reason_of(error)
    return asdict(entry_of(f"{name}.json", record))


def _refuse(target: Path, step: int, faults: Sequence[str | None]) -> None:
    """Raise in all processes if one of them cannot go on."""
    known = [fault for fault in faults if fault is not None]
    if known:
        raise CheckpointError(
            f"{target}: cannot save the rows of step {step}: {known[0]}; earlier checkpoints are untouched"
        )


def _read(path: Path) -> Any:
    try:
        return map_file(path)
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read: {reason_of(error)}") from error


def _unsealed(path: Path) -> dict[str, Any]:
    return _content(path, bytes(_read(path)))


def _content(path: Path, data: bytes) -> dict[str, Any]:
    try:
        return unseal(data)
    except ValueError as error:
        raise CheckpointError(f"{path}: {error}; restore it from a copy", damaged=True) from error
