"""Sums over ragged lists, in log space.

`Segments` cuts the positions 0 .. items-1 into lists, for instance the fine labels into the children of each coarse
label. `logsumexp` then gives one value per list. The lists are padded to powers of two and handled size by size, so the
work is at most twice the number of items, whatever their distribution, and only gathers and reductions are used: exact,
free of data-dependent branches, and easy to export.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from finegraph.inference.constants import Constants
from finegraph.inference.numerics import first_derivatives_only


class Segments(Constants):
    """A partition of `items` positions into `count` lists; a list may be empty, a position may be in none (-1)."""

    owner: Tensor
    restore: Tensor

    def __init__(self, owner: NDArray[np.int64], count: int) -> None:
        """Cut the positions into lists.

        Args:
            owner: the list that each position belongs to, -1 for none.
            count: how many lists there are.
        """
        super().__init__()
        self.count = count
        sizes = np.bincount(owner[owner >= 0], minlength=count)
        order = np.argsort(owner, kind="stable")[(owner < 0).sum() :]
        starts = np.concatenate([[0], np.cumsum(sizes)])
        widths = np.where(sizes > 0, 2 ** np.ceil(np.log2(np.maximum(sizes, 1))).astype(np.int64), 0)
        chosen: list[NDArray[np.int64]] = []
        self.tables: list[Tensor] = []
        for width in np.unique(widths):
            lists = np.flatnonzero(widths == width)
            chosen.append(lists)
            position = np.arange(width)
            # A padded place points one past the last item, where a column of minus infinity is put.
            table = np.where(
                position < sizes[lists, None],
                order[np.minimum(starts[lists, None] + position, max(len(order) - 1, 0))] if len(order) else len(owner),
                len(owner),
            ).astype(np.int64)
            self.tables.append(torch.from_numpy(table))
        restore = np.argsort(np.concatenate(chosen)) if chosen else np.zeros(0, np.int64)
        self.keep({"owner": owner, "restore": restore})

    def logsumexp(self, values: Float[Tensor, "batch item"]) -> Float[Tensor, "batch list"]:
        """The log of the sum of exponentials of each list; minus infinity for an empty one."""
        result: Tensor = _SegmentLogSumExp.apply(values, self)  # type: ignore[no-untyped-call]
        return result

    def reduce(self, values: Float[Tensor, "batch item"]) -> Float[Tensor, "batch list"]:
        """`logsumexp` without its closed-form gradient."""
        batch = values.shape[0]
        nothing = values.new_full((batch, 1), -torch.inf)
        padded = torch.cat([values, nothing], dim=1)
        parts = []
        for table in self.tables:
            lists, width = table.shape
            if width == 0:
                parts.append(nothing.expand(batch, lists))
            elif width == 1:
                parts.append(padded.index_select(1, table.reshape(-1)))
            else:
                gathered = padded.index_select(1, table.reshape(-1)).reshape(batch, lists, width)
                parts.append(torch.logsumexp(gathered, dim=2))
        return torch.cat(parts, dim=1).index_select(1, self.restore)


class _SegmentLogSumExp(torch.autograd.Function):
    """d out[list] / d value[item] = exp(value - out) for the list that owns the item: one gather, no scatter."""

    @staticmethod
    def forward(ctx: Any, values: Float[Tensor, "batch item"], segments: Segments) -> Float[Tensor, "batch list"]:
        out = segments.reduce(values)
        ctx.save_for_backward(values, out)
        ctx.segments = segments
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        first_derivatives_only()
        values, out = ctx.saved_tensors
        owner: Int[Tensor, " item"] = ctx.segments.owner
        place = owner.clamp_min(0)
        share = (values - out.index_select(1, place)).exp_()
        # Minus infinity minus itself is not a number, but such an item has no share; nor has one without an owner.
        share = share.masked_fill_(values.isneginf() | (owner < 0), 0.0)
        return grads[0].index_select(1, place) * share, None
