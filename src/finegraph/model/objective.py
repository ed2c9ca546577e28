"""What is minimised: the mean joint loss of the samples plus the priors, as a function of all weight rows.

    F(U) = sum_n weight_n L(x_n, y_n; J V) + 1/2 trace(V' P V),    V = r U        r, J, P: see rows.py; weights sum to 1

The last column of V belongs to the biases, which no prior touches. The loss and its gradient for the scores come from
`joint_loss`, in closed form; what remains are two matrix products with the features, the same two that plain softmax
needs when all kinds fold. Samples are taken some at a time, so that memory does not grow with samples times labels.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor

from finegraph.graph import LabelGraph
from finegraph.inference import Posterior, joint_loss
from finegraph.model.rows import Rows
from finegraph.model.samples import Samples

_MOST_SCORES = 1 << 23
"""How many scores are held at a time."""


class Objective:
    """F and its gradient."""

    def __init__(self, graph: LabelGraph, rows: Rows, samples: Samples, kind_weights: Mapping[str, float]) -> None:
        """Make the objective of some samples.

        Args:
            graph: the label graph.
            rows: the matrices of the graph.
            samples: what to fit.
            kind_weights: for each kind the weight of its term in the loss.
        """
        # A kind without scores of its own and without a term in the loss would only cost time.
        kinds = [name for name in graph.kinds if kind_weights[name] > 0 or name in rows.unfolded]
        self._graph = graph if len(kinds) == len(graph.kinds) else graph.only(kinds)
        self._kind_weights = {name: kind_weights[name] for name in kinds} or None
        seen = {name: labels for name, labels in samples.kind_targets.items() if name in kinds}
        self._rows = rows
        self._parts = samples._replace(kind_targets=seen).split(max(1, _MOST_SCORES // rows.scores.shape[0]))
        self._scale = rows.scale.unsqueeze(1)
        self._scores_transposed = rows.scores.t().coalesce()

    @property
    def origin(self) -> Float[Tensor, "row column"]:
        """The point where all weights are 0."""
        columns = self._parts[0].columns
        return columns.new_zeros(len(self._scale), columns.shape[1])

    def rows(self, point: Float[Tensor, "row column"]) -> Float[Tensor, "row column"]:
        """V of a point U."""
        return self._scale * point

    def point(self, rows: Float[Tensor, "row column"]) -> Float[Tensor, "row column"]:
        """U of rows V."""
        return torch.where(self._scale > 0, rows / self._scale, 0.0)

    def __call__(self, point: Float[Tensor, "row column"]) -> tuple[float, Float[Tensor, "row column"]]:
        """The value and the gradient at U."""
        rows = self.rows(point)
        score_rows = torch.sparse.mm(self._rows.scores, rows)
        value, score_rows_grad = 0.0, torch.zeros_like(score_rows)
        for part in self._parts:
            loss, score_grad = self._loss(part, part.columns @ score_rows.t())
            value += loss
            score_rows_grad.addmm_(score_grad.t(), part.columns)
        grad = torch.sparse.mm(self._scores_transposed, score_rows_grad)
        pull = torch.sparse.mm(self._rows.prior, rows[:, :-1])
        grad[:, :-1] += pull
        return value + 0.5 * float((rows[:, :-1] * pull).sum(dtype=torch.float64)), grad.mul_(self._scale)

    def _loss(self, samples: Samples, scores: Tensor) -> tuple[float, Tensor]:
        """The weighted loss of some samples, summed in float64, and its gradient for the score columns."""
        scores.requires_grad_()
        unfolded = {name: scores[:, columns] for name, columns in self._rows.unfolded.items()}
        fine = scores[:, : self._rows.fine_count] if unfolded else scores
        posterior = Posterior(self._graph, fine, unfolded)
        loss = joint_loss(posterior, samples.target, samples.kind_targets, self._kind_weights, reduction="none")
        (grad,) = torch.autograd.grad(loss, scores, samples.weight)
        return float(loss.detach().double() @ samples.weight.double()), grad
