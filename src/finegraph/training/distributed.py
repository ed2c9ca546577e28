"""Several processes that train one network: the only file that knows of ranks.

Every process holds the whole network, except for the rows of labels that are sharded, and takes its share of each
batch. Gradients, the number of samples they are of, and whatever else must be agreed on are summed in each step, then
divided by the number of samples of all processes. So missing labels and uneven shares weigh as they do in one process,
a process with nothing to do in a step takes part with zeros, and nothing can hang on a sample that another process
lacks. Statistics of normalisation layers are averaged in the same exchange, so that all processes stay alike and any of
them can save.

Where labels are sharded, processes may form a grid: groups, each of which holds all labels and takes photos of its own.
A `Ranks` is then this process among those of its group, or among those of other groups that hold the same labels.

Started by `torchrun`, which sets the variables that `joined_ranks` reads and ends all processes when one dies.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from jaxtyping import Shaped
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from finegraph.errors import JobError
from finegraph.inference.processes import Processes

_TIMEOUT = timedelta(minutes=30)
"""How long to wait for a process that is alive but silent; a dead one is noticed at once."""


@dataclass(frozen=True)
class Ranks(Processes):
    """This process among those of a job, or of a group of them; by default the only one.

    Every process must make the same collective call at the same point.

    Attributes:
        rank: its number, from 0.
        size: how many there are.
        group: the processes; None for all of the job.
    """

    rank: int = 0
    size: int = 1
    group: dist.ProcessGroup | None = None

    @classmethod
    def of(cls, processes: dist.ProcessGroup | DeviceMesh) -> Ranks:
        """This process among those of a process group, or of a device mesh with one dimension."""
        group = processes.get_group() if isinstance(processes, DeviceMesh) else processes
        return cls(dist.get_rank(group), dist.get_world_size(group), group)

    def grid(self, groups: int) -> tuple[Ranks, Ranks]:
        """Arrange all processes of the job as a grid of groups, each of as many processes.

        Args:
            groups: the number of groups; it divides the number of processes.

        Returns:
            This process among those of its group, and among those at its place in all groups.
        """
        if groups == 1:
            return self, Ranks()
        if groups == self.size:
            return Ranks(), self
        device = "cuda" if "nccl" in dist.get_backend_config() else "cpu"
        with _exchange():
            mesh = init_device_mesh(device, (groups, self.size // groups), mesh_dim_names=("data", "labels"))
        return Ranks.of(mesh["labels"]), Ranks.of(mesh["data"])

    def share(self, numbers: Sequence[int]) -> list[int]:
        """The part of a list that is this process's."""
        return list(numbers[self.rank :: self.size])

    def sum(self, tensors: Sequence[Shaped[Tensor, " ..."]]) -> None:
        """Replace each tensor by its sum over all processes; shapes must be the same in all."""
        if self.size == 1 or not tensors:
            return
        if len(tensors) == 1 and tensors[0].is_contiguous():  # it may be large
            with _exchange(), torch.no_grad():
                dist.all_reduce(tensors[0], group=self.group)
            return
        for own in _by_device(tensors):
            flat = torch.cat([tensor.reshape(-1) for tensor in own])
            with _exchange():
                dist.all_reduce(flat, group=self.group)
            _spread(flat, own)

    def largest(self, values: Shaped[Tensor, " ..."]) -> None:
        """Replace each number by the largest one of all processes."""
        if self.size > 1:
            with _exchange():
                dist.all_reduce(values, dist.ReduceOp.MAX, self.group)

    def copy_first(self, tensors: Sequence[Shaped[Tensor, " ..."]]) -> None:
        """Replace each tensor by that of the first process; shapes and types must be the same in all."""
        for own in _by_device(tensors) if self.size > 1 else ():
            flat = torch.cat([tensor.reshape(-1) for tensor in own])
            with _exchange():
                dist.broadcast(flat, self._first, self.group)
            _spread(flat, own)

    def any(self, flag: bool) -> bool:
        """Whether any process says yes."""
        if self.size == 1:
            return flag
        count = torch.tensor([int(flag)])
        self.sum([count])
        return bool(count)

    def gather(self, value: Any) -> list[Any]:
        """The objects of all processes, on every process; for small objects only."""
        if self.size == 1:
            return [value]
        values: list[Any] = [None] * self.size
        with _exchange():
            dist.all_gather_object(values, value, self.group)
        return values

    def gather_first(self, value: Any) -> list[Any] | None:
        """The objects of all processes in the first one, None in the others."""
        if self.size == 1:
            return [value]
        values: list[Any] | None = [None] * self.size if self.first else None
        with _exchange():
            dist.gather_object(value, values, self._first, self.group)
        return values

    def wait(self) -> None:
        """Wait until all processes have called this."""
        if self.size > 1:
            with _exchange():
                dist.barrier(self.group)

    @property
    def _first(self) -> int:
        """The number of the first process of the group among all of the job."""
        return 0 if self.group is None else dist.get_global_rank(self.group, 0)


def _by_device(tensors: Sequence[Tensor]) -> list[list[Tensor]]:
    """The tensors of each device; optimizers keep their count of steps on the CPU."""
    parts: dict[torch.device, list[Tensor]] = {}
    for tensor in tensors:
        parts.setdefault(tensor.device, []).append(tensor)
    return list(parts.values())


def _spread(flat: Tensor, tensors: Sequence[Tensor]) -> None:
    """Copy the parts of a concatenated tensor back into the tensors that it was made of."""
    parts = torch.split(flat, [tensor.numel() for tensor in tensors])
    with torch.no_grad():
        for part, tensor in zip(parts, tensors, strict=True):
            tensor.copy_(part.view(tensor.shape))


@contextmanager
def _exchange() -> Iterator[None]:
    """Explain errors of communication between processes."""
    try:
        yield
    except RuntimeError as error:
        raise JobError(
            "another process of this job ended or cannot be reached; its output says why. The run can be resumed "
            "from its last checkpoint"
        ) from error


@contextmanager
def joined_ranks(device: str = "cpu") -> Iterator[Ranks]:
    """The processes of this job, for as long as the block runs.

    Args:
        device: where the network is; on `cuda` processes talk through nccl, else through gloo.
    """
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        yield Ranks()
        return
    backend = "gloo"
    if device.startswith("cuda"):
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
        backend = "cpu:gloo,cuda:nccl"  # small things that must be agreed on are not on the GPU
    _load_defaults()
    with _exchange():
        dist.init_process_group(backend, timeout=_TIMEOUT)
    try:
        yield Ranks(dist.get_rank(), size)
    finally:
        dist.destroy_process_group()


def _load_defaults() -> None:
    """Import what takes the group of all processes for a default argument, while there is no group yet.

    Optimizers import it in their first step. Its functions would then hold the group for ever, `destroy_process_group`
    could not end the threads of gloo, and one that lets a tensor go while the interpreter ends aborts the process.
    """
    importlib.import_module("torch.distributed.nn.functional")
