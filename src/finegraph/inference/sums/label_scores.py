"""Joint scores of fine labels as rows, computed from features, and sums of them in log space.

`label_rows.py` keeps exponentials, as the loss needs them. Answers need the logs of very small probabilities, which
exponentials lose: in float32 everything below exp(-104) is 0. So the joint scores (2) of docs/idea.md are computed some
rows at a time, in float64, and each sum is kept as its largest term and the sum of all terms relative to it. Sums of
several processes are added in the same way. Nothing of the size (fine, batch) is held.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from jaxtyping import Float, Int
from torch import Tensor

from finegraph.inference.sums.label_rows import LabelRows, chunk_rows, side_by_side


def joint_score_chunks(
    rows: LabelRows,
    groups: Float[Tensor, "batch group"] | None,
    features: Float[Tensor, "batch feature"],
    weight: Float[Tensor, "fine feature"],
    bias: Float[Tensor, " fine"] | None,
) -> Iterator[tuple[slice, Float[Tensor, "_ batch"]]]:
    """The joint scores of some fine labels after the other, with their places.

    Args:
        rows: the fine labels.
        groups: the scores of the groups; None if all are 0, as in softmax.
        features: the features of the batch.
        weight: the weights of the fine labels.
        bias: the biases of the fine labels; None if there are none.
    """
    table = None
    if groups is not None and rows.fine_item.shape[1]:
        table = rows.score_table(groups.t().double().contiguous())
    columns, step = features.t(), chunk_rows(len(features))
    for start in range(0, len(weight), step):
        part = slice(start, min(start + step, len(weight)))
        scores = (weight[part].to(features.dtype) @ columns).double()
        if bias is not None:
            scores += bias[part, None]
        if table is not None:
            scores += side_by_side(table, rows.fine_item[part])
        yield part, scores


class LogSums:
    """Logs of sums of exponentials, one for each list and sample, filled little by little.

    Attributes:
        largest: the largest exponent of each list; minus infinity for an empty one.
        total: the sum of the exponentials relative to it.
    """

    def __init__(self, count: int, batch: int) -> None:
        self.largest = torch.full((count, batch), -torch.inf, dtype=torch.float64)
        self.total = torch.zeros(count, batch, dtype=torch.float64)

    def see(self, owner: Int[Tensor, " item"], exponents: Float[Tensor, "item batch"]) -> None:
        """Look at terms that will be added, before any is.

        Scaling all sums whenever some terms are larger would take longer than computing the terms twice.

        Args:
            owner: the list of each term.
            exponents: their logs.
        """
        self.largest.scatter_reduce_(0, owner.unsqueeze(1).expand_as(exponents), exponents, "amax")

    def add_seen(self, owner: Int[Tensor, " item"], exponents: Float[Tensor, "item batch"]) -> None:
        """Add terms, none of which is above the largest one of its list."""
        reference = self.largest.index_select(0, owner)
        reference.masked_fill_(reference.isneginf(), 0.0)
        self.total.index_add_(0, owner, (exponents - reference).exp_())

    def add(self, owner: Int[Tensor, " item"], exponents: Float[Tensor, "item batch"]) -> None:
        """Add terms that were not seen before."""
        places = owner.unsqueeze(1).expand_as(exponents)
        self.raise_to(self.largest.scatter_reduce(0, places, exponents, "amax"))
        self.add_seen(owner, exponents)

    def take(self, place: Int[Tensor, " _"], other: LogSums, rows: Int[Tensor, " _"]) -> None:
        """Copy some lists of another object to these places."""
        self.largest[place], self.total[place] = other.largest[rows], other.total[rows]

    def raise_to(self, largest: Float[Tensor, "list batch"]) -> None:
        """Make the sums relative to other exponents, none of which is below the largest one of its list."""
        before, self.largest = self.largest, largest
        self.total *= (before - self._reference()).exp()

    def log(self) -> Float[Tensor, "list batch"]:
        """The logs of the sums."""
        return self._reference() + self.total.log()

    def _reference(self) -> Tensor:
        """What the sums are relative to; 0 for an empty list, whose largest exponent would give NaN."""
        return self.largest.masked_fill(self.largest.isneginf(), 0.0)
