"""Several processes that train one network: the only file that knows of ranks.

Every process holds the whole network, except for the rows of labels that are sharded, and takes its share of each
batch. Gradients, the number of samples they are of, and whatever else must be agreed on are summed in each step, then
divided by the number of samples of all processes. So missing labels and uneven shares weigh as they do in one process,
a process with nothing to do in a step takes part with zeros, and nothing can hang on a sample that another process
lacks. Statistics of normalisation layers are averaged in
the same exchange, so that all processes stay alike and any of them can save.

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

from finegraph.errors import JobError
from finegraph.inference.loss.rows_loss import Exchange

_TIMEOUT = timedelta(minutes=30)
"""How long to wait for a process that is alive but silent; a dead one is noticed at once."""


@dataclass(frozen=True)
class Ranks(Exchange):
    """This process among those of a job; by default the only one.

    Every process must make the same collective call at the same point.

    Attributes:
        rank: its number, from 0.
        size: how many there are.
    """

    rank: int = 0
    size: int = 1

    @property
    def first(self) -> bool:
        """Whether this is the process that writes files and prints."""
        return self.rank == 0

    def share(self, numbers: Sequence[int]) -> list[int]:
        """The part of a list that is this process's."""
        return list(numbers[self.rank :: self.size])

    def sum(self, tensors: Sequence[Shaped[Tensor, " ..."]]) -> None:
        """Replace each tensor by its sum over all processes; shapes must be the same in all."""
        if self.size > 1 and tensors:
            flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
            with _exchange():
                dist.all_reduce(flat)
            _spread(flat, tensors)

    def largest(self, values: Shaped[Tensor, " ..."]) -> None:
        """Replace each number by the largest one of all processes."""
        if self.size > 1:
            with _exchange():
                dist.all_reduce(values, dist.ReduceOp.MAX)

    def all_rows(self, rows: Shaped[Tensor, "batch ..."]) -> Shaped[Tensor, "_ ..."]:
        """The rows of all processes below each other, in all of them; each may have another number of rows.

        Where a loss of all rows is found in every process, its gradient comes back to the rows of this one.
        """
        if self.size == 1:
            return rows
        counts = torch.zeros(self.size, dtype=torch.int64)
        counts[self.rank] = len(rows)
        self.sum([counts])
        result: Tensor = _AllRows.apply(rows, counts.tolist(), self)  # type: ignore[no-untyped-call]
        return result

    def copy_first(self, tensors: Sequence[Shaped[Tensor, " ..."]]) -> None:
        """Replace each tensor by that of the first process; shapes and types must be the same in all."""
        if self.size > 1 and tensors:
            flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
            with _exchange():
                dist.broadcast(flat, 0)
            _spread(flat, tensors)

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
            dist.all_gather_object(values, value)
        return values

    def gather_first(self, value: Any) -> list[Any] | None:
        """The objects of all processes in the first one, None in the others."""
        if self.size == 1:
            return [value]
        values: list[Any] | None = [None] * self.size if self.first else None
        with _exchange():
            dist.gather_object(value, values)
        return values

    def wait(self) -> None:
        """Wait until all processes have called this."""
        if self.size > 1:
            with _exchange():
                dist.barrier()


class _AllRows(torch.autograd.Function):
    """All rows; of a gradient that all processes agree on, the part of this one."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, counts: list[int], ranks: Ranks) -> Tensor:
        ctx.own = slice(sum(counts[: ranks.rank]), sum(counts[: ranks.rank + 1]))
        all_rows = rows.new_zeros(sum(counts), *rows.shape[1:])
        all_rows[ctx.own] = rows
        ranks.sum([all_rows])
        return all_rows

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        return grads[0][ctx.own], None, None


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
