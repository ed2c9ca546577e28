"""The processes that work on one model together, as seen by one of them: its place among them, and what they exchange.

Each process has some of the fine labels of a head, or some of the samples of a fit. Every process makes the same calls
at the same point. What they exchange are sums, largest values and rows of samples, never weights of sharded labels.
Training brings the processes of a job (training/distributed.py); otherwise there is one, and every call is free.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Shaped
from torch import Tensor


class Processes:
    """This process among those that work together; this base class serves a single process.

    Attributes:
        rank: the number of this process, from 0.
        size: the number of processes.
    """

    rank: int = 0
    size: int = 1

    @property
    def first(self) -> bool:
        """Whether this is the first process, which solves, writes files and prints."""
        return self.rank == 0

    def sum(self, tensors: Sequence[Shaped[Tensor, " ..."]]) -> None:
        """Replace each tensor by its sum over all processes."""

    def largest(self, values: Shaped[Tensor, " ..."]) -> None:
        """Replace each value by its maximum over all processes."""

    def copy_first(self, tensors: Sequence[Shaped[Tensor, " ..."]]) -> None:
        """Replace each tensor by that of the first process."""

    def all_rows(self, rows: Shaped[Tensor, "batch ..."]) -> Shaped[Tensor, "_ ..."]:
        """The rows of all processes below each other, in each of them; each may have another number of rows.

        Where a loss of all rows is found in every process, its gradient comes back to the rows of this one.
        """
        if self.size == 1:
            return rows
        counts = torch.zeros(self.size, dtype=torch.int64, device=rows.device)
        counts[self.rank] = len(rows)
        self.sum([counts])
        result: Tensor = _AllRows.apply(rows, counts.tolist(), self)  # type: ignore[no-untyped-call]
        return result


class _AllRows(torch.autograd.Function):
    """All rows; of a gradient that all processes agree on, the part of this one."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, counts: list[int], processes: Processes) -> Tensor:
        ctx.own = slice(sum(counts[: processes.rank]), sum(counts[: processes.rank + 1]))
        all_rows = rows.new_zeros(sum(counts), *rows.shape[1:])
        all_rows[ctx.own] = rows
        processes.sum([all_rows])
        return all_rows

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        return grads[0][ctx.own], None, None


ONE_PROCESS = Processes()
