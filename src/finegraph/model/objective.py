"""What is minimised: the mean joint loss of the samples plus the priors, as a function of all weight rows.

    F(V) = sum_n weight_n L(x_n, y_n; J V) + 1/2 trace(V' P V)          J, P: see rows.py; the weights sum to 1

The last column of V are the biases, which no prior touches; the samples carry a column of ones for them. The loss and its
gradient for the scores come from `joint_loss`, in closed form; what remains are two matrix products with the features,
the same two that plain softmax needs when all kinds fold.

In V the function is curved very unevenly. `Scaled` is the same function of coordinates u, V = V_0 + basis (scale * u), in
which its second derivative at zero is about the identity.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from finegraph.graph import LabelGraph
from finegraph.inference import Posterior, joint_loss
from finegraph.model.rows import Coordinates, Rows


class Samples(NamedTuple):
    """What a head is fitted to.

    Attributes:
        columns: the features along their axes, and a last column of ones.
        target: the fine label of each sample, -100 where it was not observed.
        kind_targets: per kind the label seen on each sample, -100 where none was.
        weight: the weight of each sample; they sum to 1.
    """

    columns: Float[Tensor, "batch axis"]
    target: Int[Tensor, " batch"]
    kind_targets: Mapping[str, Tensor]
    weight: Float[Tensor, " batch"]


class Objective:
    """F and its gradient."""

    def __init__(self, graph: LabelGraph, rows: Rows, samples: Samples, kind_weights: Mapping[str, float]) -> None:
        """Args:
        graph: the label graph.
        rows: the matrices of the graph.
        samples: what to fit.
        kind_weights: the weight of each kind's term in the loss.
        """
        # A kind without scores of its own in the loss, and without a term, would only cost time.
        self._kinds = [name for name in graph.kinds if kind_weights[name] > 0 or name in rows.unfolded]
        self._graph = graph if len(self._kinds) == len(graph.kinds) else graph.only(self._kinds)
        self._kind_weights = {name: kind_weights[name] for name in self._kinds}
        self._kind_targets = {name: label for name, label in samples.kind_targets.items() if name in self._kinds}
        self._rows, self._samples = rows, samples
        self._scores_transposed = rows.scores.t().coalesce()

    def __call__(self, rows: Float[Tensor, "row axis"]) -> tuple[float, Float[Tensor, "row axis"]]:
        """The value and the gradient at V = `rows`."""
        scores = self._samples.columns @ torch.sparse.mm(self._rows.scores, rows).t()
        loss, score_grad = self._loss(scores)
        grad = torch.sparse.mm(self._scores_transposed, score_grad.t() @ self._samples.columns)
        pull = torch.sparse.mm(self._rows.prior, rows[:, :-1])
        grad[:, :-1] += pull
        return loss + 0.5 * float((rows[:, :-1] * pull).sum(dtype=torch.float64)), grad

    def _loss(self, scores: Tensor) -> tuple[float, Tensor]:
        """The weighted loss, summed in float64, and its gradient for the scores."""
        scores.requires_grad_()
        fine = self._rows.fine_count
        unfolded = {name: scores[:, columns] for name, columns in self._rows.unfolded.items()}
        posterior = Posterior(self._graph, scores[:, :fine] if unfolded else scores, unfolded)
        loss = joint_loss(
            posterior,
            self._samples.target,
            self._kind_targets or None,
            self._kind_weights if self._kinds else None,
            reduction="none",
        )
        (grad,) = torch.autograd.grad(loss, scores, self._samples.weight)
        return float(loss.detach().double() @ self._samples.weight.double()), grad


class Scaled:
    """F as a function of well-scaled coordinates about a start."""

    def __init__(
        self, objective: Objective, space: Coordinates, variance: Float[Tensor, " axis"], start: Tensor
    ) -> None:
        """Args:
        objective: F.
        space: coordinates of the rows.
        variance: the second derivative of the loss along each axis per unit of label curvature; the last one is that of
            the bias, for which there is no prior.
        start: V_0.
        """
        self._objective, self._basis, self._start = objective, space.basis, start
        self._back = space.basis.t().coalesce() if space.basis.is_sparse else space.basis.t()
        prior = space.prior.unsqueeze(1).expand(-1, len(variance)).clone()
        prior[:, -1] = 0.0
        curvature = torch.outer(space.curvature, variance) + prior
        # Where neither loss nor prior is curved nothing can be gained, and no step is taken.
        self._scale = torch.where(curvature > 0, curvature.rsqrt(), 0.0)

    @property
    def origin(self) -> Tensor:
        """The coordinates of the start."""
        return torch.zeros_like(self._scale)

    def rows(self, coordinates: Tensor) -> Tensor:
        """V at some coordinates."""
        return torch.add(self._start, self._basis @ (self._scale * coordinates))

    def __call__(self, coordinates: Tensor) -> tuple[float, Tensor]:
        """The value and the gradient for the coordinates."""
        value, grad = self._objective(self.rows(coordinates))
        return value, self.grad(grad)

    def grad(self, grad: Tensor) -> Tensor:
        """A gradient for V as one for the coordinates."""
        return (self._back @ grad).mul_(self._scale)
