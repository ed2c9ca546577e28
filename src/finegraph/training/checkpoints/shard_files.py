"""Checkpoints of heads whose labels are sharded: a file per process, read by any number of processes.

    checkpoints/000007-step-350-best/shard-00001-of-00002.safetensors    the rows of one process, and of which labels
                                    /shard-00001-of-00002.json           what the file is, and its checksum
                                    /whole.json                          the step, the graph, the state, the checksums

Each process writes its own rows and no others; rows that all of them hold are written by the first. If processes form
several groups with all labels each, those of one group write. The folder has a temporary name until all have written
and `whole.json` is there, and appears in one step: so what `checkpoint.py` promises holds here too. When `save`
returns, the checkpoint is on the disk; nothing is removed before; a kill at any moment leaves the ones before it; a
damaged one is passed over. A process reads the rows of its labels from the files that have them, which are mapped into
memory: so a run continues with another number of processes. No code is loaded from a file. Cost: each process writes
and checks its own part; reading checks all files once, in each process.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Shaped
from torch import Tensor

from finegraph.errors import CheckpointError
from finegraph.files.checked_file import FileEntry, damage_of, entry_of, map_file
from finegraph.files.durable import (
    make_folder,
    reason_of,
    remove_stale,
    sync_folder,
    synced_file,
    temporary_in,
    write_all,
)
from finegraph.files.sealed_json import seal, unseal
from finegraph.files.tensor_frame import Frame, read_frame
from finegraph.graph import LabelGraph
from finegraph.graph.label_shards import LabelShard
from finegraph.training.checkpoints.checkpoint_reader import (
    CheckpointName,
    damage,
    unreadable_checkpoint,
    with_fallback,
)
from finegraph.training.checkpoints.kept_checkpoints import KeptCheckpoints
from finegraph.training.checkpoints.tensor_file import TYPES, TensorWriter
from finegraph.training.distributed import Ranks

FORMAT, VERSION = "finegraph.shards", 1
_WHOLE = "whole.json"
_FINE, _COARSE, _ALL = "labels.fine", "labels.coarse", "all."


@dataclass(frozen=True, kw_only=True)
class ShardState:
    """What a checkpoint holds for one process.

    Attributes:
        step: after how many steps it was written.
        fine: tensors with a row for each fine label of the process, by name.
        coarse: the same for its coarse labels.
        whole: tensors that all processes hold.
        state: what was kept beside them.
        kinds: tensors with a row for each of its labels of one kind, by kind and name.
        notes: what was wrong with newer ones that should have been taken; empty if nothing was.
    """

    step: int
    fine: dict[str, Shaped[Tensor, " ..."]]
    coarse: dict[str, Shaped[Tensor, " ..."]]
    whole: dict[str, Shaped[Tensor, " ..."]]
    state: dict[str, Any]
    kinds: dict[str, dict[str, Shaped[Tensor, " ..."]]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def tensors(self) -> dict[str, Shaped[Tensor, " ..."]]:
        """All tensors of the process by name, without those of single kinds."""
        return {**self.whole, **self.fine, **self.coarse}


class ShardFolder(KeptCheckpoints):
    """The checkpoints of a job with sharded labels; on a disk that all of them see.

    All processes call each method at the same point.

    Args:
        path: the folder; it is made by the first save.
        graph: the label graph.
        shard: the labels of this process.
        ranks: this process among the others.
        keep: how many earlier checkpoints are kept beside the last, and beside the best, to fall back to.
        writes: whether this process writes its rows; if there are several groups, those of one group do, the first
            process of all among them.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        graph: LabelGraph,
        shard: LabelShard,
        ranks: Ranks,
        keep: int = 1,
        *,
        writes: bool = True,
    ) -> None:
        super().__init__(path, keep)
        self.graph, self.shard, self.ranks, self.writes = graph, shard, ranks, writes

    def save(
        self,
        step: int,
        fine: Mapping[str, Shaped[Tensor, " ..."]],
        coarse: Mapping[str, Shaped[Tensor, " ..."]],
        whole: Mapping[str, Shaped[Tensor, " ..."]] | None = None,
        state: Mapping[str, object] | None = None,
        *,
        kinds: Mapping[str, Mapping[str, Shaped[Tensor, " ..."]]] | None = None,
        best: bool = False,
    ) -> Path:
        """Save the rows of all processes; when this returns, they are on the disk and `last` gives them or newer ones.

        Args:
            step: how many steps were taken.
            fine: tensors with a row for each of its fine labels, by name: weights, momentum.
            coarse: the same for its coarse labels.
            whole: tensors that all processes hold, such as the network in front; those of the first one are written.
            state: text, numbers, lists and dicts to keep beside them; that of the first process is written.
            kinds: tensors with a row for each of its labels of one kind, by kind and name: weights of layers that take
                features of their own.
            best: whether this is the best so far.

        Returns:
            The folder of the new checkpoint.

        Raises:
            CheckpointError: a file cannot be written; earlier checkpoints are untouched.
            UnknownNameError: the graph has no such kind.
        """
        for kind in kinds or ():
            self.graph.kind(kind)
        # All must hear whether all can go on, or one would wait for ever.
        name, temporary, fault = self.ranks.gather(self._begin(step, best) if self.ranks.first else None)[0]
        self._refuse(step, temporary, [fault])
        record = self._write_own(temporary, fine, coarse, whole or {}, kinds or {}) if self.writes else None
        records = self.ranks.gather(record)
        self._refuse(step, temporary, [record for record in records if isinstance(record, str)])
        target = self.path / str(name)
        fault = None
        if self.ranks.first:
            about = {"format": FORMAT, "version": VERSION, **asdict(name), "graph": self.graph.digest}
            written = [record for record in records if record is not None]
            fault = _finished(temporary, target, {**about, "records": written, "state": dict(state or {})})
        self._refuse(step, temporary, self.ranks.gather(fault))
        if self.ranks.first:
            self._prune()
        return target

    def _write_own(
        self,
        temporary: Path,
        fine: Mapping[str, Shaped[Tensor, " ..."]],
        coarse: Mapping[str, Shaped[Tensor, " ..."]],
        whole: Mapping[str, Shaped[Tensor, " ..."]],
        kinds: Mapping[str, Mapping[str, Shaped[Tensor, " ..."]]],
    ) -> dict[str, Any] | str:
        """Write the rows of this process; returns what to keep of that, or why they cannot be written."""
        shard_coarse = self.shard.coarse(self.graph)
        kept = np.ones(len(shard_coarse), bool) if self.ranks.first else _local(self.graph, self.shard, shard_coarse)
        tensors = {_FINE: torch.from_numpy(self.shard.fine), _COARSE: torch.from_numpy(shard_coarse[kept])}
        tensors |= {f"fine.{name}": values for name, values in fine.items()}
        tensors |= {f"coarse.{name}": _some_rows(values, kept) for name, values in coarse.items()}
        for kind, layer in kinds.items():
            own = kept[_between(shard_coarse, _labels_of(self.graph, kind))]
            tensors |= {_prefix_of(self.graph, kind) + name: _some_rows(values, own) for name, values in layer.items()}
        if self.ranks.first:
            tensors |= {f"{_ALL}{name}": values for name, values in whole.items()}
        return _written(temporary, f"shard-{self.shard.rank + 1:05d}-of-{self.shard.size:05d}", tensors)

    def last(self) -> ShardState | None:
        """The rows of this process from the last checkpoint, or the newest that is whole; None without any.

        It does not matter how many processes wrote it.

        Raises:
            CheckpointError: there are some, and all of them are damaged; or they are of another graph.
        """
        return self._newest(False, self._load)

    def best(self) -> ShardState | None:
        """The same from the last checkpoint that was saved as the best.

        Raises:
            CheckpointError: there are some, and all of them are damaged; or they are of another graph.
        """
        return self._newest(True, self._load)

    def _begin(self, step: int, best: bool) -> tuple[CheckpointName, Path, str | None]:
        """Make the folder that all processes write to; returns what it will be called, where it is, and any fault."""
        temporary = temporary_in(self.path)
        try:
            make_folder(self.path)
            remove_stale(self.path)
            os.mkdir(temporary)
            return self._next_name(step, best), temporary, None
        except OSError as error:
            return CheckpointName(0, step, best), temporary, reason_of(error)
        except CheckpointError as error:
            return CheckpointName(0, step, best), temporary, str(error)

    def _refuse(self, step: int, temporary: Path, faults: Sequence[str | None]) -> None:
        """Raise in all processes if one of them cannot go on."""
        known = [fault for fault in faults if fault is not None]
        if not known:
            return
        if self.ranks.first:
            shutil.rmtree(temporary, ignore_errors=True)  # what cannot be removed now goes at the next start
        raise CheckpointError(
            f"{self.path}: cannot save the rows of step {step}: {known[0]}. The checkpoints saved before are "
            "untouched; make room or make the folder writable, then resume the run"
        )

    def _load(self, target: Path, name: CheckpointName, notes: Sequence[str]) -> ShardState:
        """The rows of this process from one checkpoint, with every byte checked."""
        about = _unsealed(target / _WHOLE)
        if about.get("format") != FORMAT or about.get("version") != VERSION:
            raise CheckpointError(
                f"{target}: expected the format {FORMAT!r}, version {VERSION}, got {about.get('format')!r}, version "
                f"{about.get('version')!r}; use the finegraph that it was saved by, or a later one"
            )
        recorded_name = CheckpointName(about["number"], about["step"], about["best"])
        if name != recorded_name:
            raise damage(target, f"its name was changed; its record says {recorded_name}")
        if about["graph"] != self.graph.digest:
            raise CheckpointError(f"{target}: its rows are of another label graph; resume with the graph it began with")
        filled_rows: dict[str, _Rows] = {}
        whole: dict[str, Tensor] = {}
        for entry in about["records"]:
            _take(target, FileEntry(**entry), filled_rows, whole, self.graph, self.shard)
        missing = [name for name, rows in filled_rows.items() if not bool(rows.filled.all())]
        if missing:
            raise damage(target, f"rows of {missing[0]!r} are in none of its files")
        parts = {
            part: {name.removeprefix(part): rows.values for name, rows in filled_rows.items() if name.startswith(part)}
            for part in ("fine.", "coarse.", *(_prefix_of(self.graph, kind) for kind in self.graph.kinds))
        }
        by_kind = {kind: parts[_prefix_of(self.graph, kind)] for kind in self.graph.kinds}
        return ShardState(
            step=name.step,
            fine=parts["fine."],
            coarse=parts["coarse."],
            whole=whole,
            state=about["state"],
            kinds={kind: tensors for kind, tensors in by_kind.items() if tensors},
            notes=with_fallback(notes, name.step),
        )


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
        raise damage(path, fault)
    file = FileEntry(**_content(path, bytes(sealed))["file"])
    data = _read(target / file.name)
    fault = damage_of(data, size=file.bytes, sha256=file.sha256)
    if fault is not None:
        raise damage(target / file.name, fault)
    frame = read_frame(data)

    own_coarse = shard.coarse(graph)
    fine, coarse = (_rows_of(data, frame, labels, slice(None)).numpy() for labels in (_FINE, _COARSE))
    wanted = {"fine.": (shard.fine, fine), "coarse.": (own_coarse, coarse)}
    for kind in graph.kinds:
        labels = _labels_of(graph, kind)
        wanted[_prefix_of(graph, kind)] = tuple(one[_between(one, labels)] for one in (own_coarse, coarse))
    for part, (numbers, theirs) in wanted.items():
        place = np.searchsorted(theirs, numbers)
        hit = np.flatnonzero(place < len(theirs))
        hit = hit[theirs[place[hit]] == numbers[hit]]
        at = torch.from_numpy(hit)
        for name in (name for name in frame.entries if name.startswith(part)):
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
    return np.zeros(len(coarse), bool) if shard.kind is None else _between(coarse, _labels_of(graph, shard.kind))


def _labels_of(graph: LabelGraph, kind: str) -> range:
    """The labels of a kind among all coarse labels."""
    start = sum(len(graph.labels(name)) for name in graph.kinds[: graph.kinds.index(kind)])
    return range(start, start + len(graph.labels(kind)))


def _between(labels: Any, wanted: range) -> Any:
    """Which labels are in a range."""
    return (labels >= wanted.start) & (labels < wanted.stop)


def _prefix_of(graph: LabelGraph, kind: str) -> str:
    """How the names of the tensors of a kind begin in a file; names of kinds may have dots."""
    return f"kind {graph.kinds.index(kind)}."


def _some_rows(values: Tensor, kept: Any) -> Tensor:
    return values.detach() if kept.all() else values.detach()[torch.from_numpy(np.flatnonzero(kept))]


def _written(target: Path, name: str, tensors: Mapping[str, Tensor]) -> dict[str, Any] | str:
    """Write the file of one process and its record; returns what to keep of the record, or why it cannot be written."""
    writer = TensorWriter(tensors)
    try:
        with synced_file(target / f"{name}.safetensors") as handle:
            digest = writer.write(handle)
        entry = FileEntry(name=f"{name}.safetensors", bytes=writer.size, sha256=digest)
        record = seal({"format": FORMAT, "version": VERSION, "file": asdict(entry)})
        with synced_file(target / f"{name}.json") as handle:
            write_all(handle, record)
    except OSError as error:
        return reason_of(error)
    return asdict(entry_of(f"{name}.json", record))


def _finished(temporary: Path, target: Path, whole: Mapping[str, object]) -> str | None:
    """Write what makes a checkpoint whole and give it its name; returns why that cannot be done."""
    try:
        with synced_file(temporary / _WHOLE) as handle:
            write_all(handle, seal(dict(whole)))
        sync_folder(temporary)
        os.rename(temporary, target)
        sync_folder(target.parent)
    except OSError as error:
        return reason_of(error)
    return None


def _read(path: Path) -> Any:
    try:
        return map_file(path)
    except OSError as error:
        raise unreadable_checkpoint(path, error) from error


def _unsealed(path: Path) -> dict[str, Any]:
    return _content(path, bytes(_read(path)))


def _content(path: Path, data: bytes) -> dict[str, Any]:
    try:
        return unseal(data)
    except ValueError as error:
        raise damage(path, str(error)) from error
