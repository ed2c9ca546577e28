"""The processes that fit one head together, as seen by a fit: each has some of the samples.

Every process makes the same calls at the same point. What they exchange are sums of statistics, and the few samples
that strengths are chosen on. Training brings the processes of a job (training/distributed.py); otherwise there is one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from jaxtyping import Shaped
from torch import Tensor


class Processes(Protocol):
    """This process among those of a job."""

    @property
    def first(self) -> bool:
        """Whether this is the process that solves and gets the head."""

    def sum(self, tensors: Sequence[Shaped[Tensor, " ..."]]) -> None:
        """Replace each tensor by its sum over all processes."""

    def largest(self, values: Shaped[Tensor, " ..."]) -> None:
        """Replace each value by its maximum over all processes."""

    def copy_first(self, tensors: Sequence[Shaped[Tensor, " ..."]]) -> None:
        """Replace each tensor by that of the first process."""

    def all_rows(self, rows: Shaped[Tensor, "batch ..."]) -> Shaped[Tensor, "_ ..."]:
        """The rows of all processes below each other, in each of them."""


class _OneProcess:
    """A process that has all samples."""

    first = True

    def sum(self, tensors: Sequence[Shaped[Tensor, " ..."]]) -> None:
        """Sums of one process are what they are."""

    def largest(self, values: Shaped[Tensor, " ..."]) -> None:
        """Largest values of one process are what they are."""

    def copy_first(self, tensors: Sequence[Shaped[Tensor, " ..."]]) -> None:
        """The first process is this one."""

    def all_rows(self, rows: Shaped[Tensor, "batch ..."]) -> Shaped[Tensor, "_ ..."]:
        """All rows are here."""
        return rows


ONE_PROCESS: Processes = _OneProcess()
