"""The objective: the mean joint loss of the samples plus the priors, as a function of all weight rows.

    F(U) = sum_n weight_n L(x_n, y_n; J V) + 1/2 trace((r U)' P (r U)),   V = C + r U      r, J, P: see rows.py

The weights sum to 1. C, the centre, is where the priors pull to: 0, or the rows of another head. The last column of V
belongs to the biases, which have no prior. The loss and its gradient for the scores come from `joint_loss`, in
closed form; what remains are two matrix products with the features, the same two as in plain softmax if all
kinds fold. Samples are processed in chunks, so that memory does not grow with samples times labels.

If coarse labels have features of their own, V has two blocks, each with its own columns, and scores are the sum of
both. U is then one long vector, so that the minimiser need not know.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import softplus

from finegraph.graph import LabelGraph
from finegraph.inference import Posterior, joint_loss
from finegraph.model.fitting.fit_samples import FitSamples
from finegraph.model.fitting.rows import Blocks, Rows

_MAX_SCORES = 1 << 23
"""How many scores are held at a time."""


class Objective:
    """F and its gradient."""

    def __init__(
        self,
        graph: LabelGraph,
        rows: Rows,
        samples: FitSamples,
        kind_weights: Mapping[str, float],
        centre: Blocks | None = None,
    ) -> None:
        """Make the objective of some samples.

        Args:
            graph: the label graph.
            rows: the matrices of the graph.
            samples: the samples to fit.
            kind_weights: for each kind and number the weight of its term in the loss.
            centre: the rows C that the priors pull to; 0 by default.
        """
        # A kind or number without scores of its own and without a term in the loss would only cost time.
        names = [name for name in (*graph.kinds, *graph.numbers) if kind_weights[name] > 0 or name in rows.unfolded]
        self._graph = graph if len(names) == len(graph.kinds) + len(graph.numbers) else graph.only(names)
        self._kind_weights = {name: kind_weights[name] for name in names} or None
        seen = {name: labels for name, labels in samples.kind_targets.items() if name in names}
        self._rows = rows
        self._parts = samples._replace(kind_targets=seen).split(max(1, _MAX_SCORES // rows.score_count))
        self._shapes = [
            (len(block.scale), columns.shape[1]) for block, columns in zip(rows.blocks, samples.columns, strict=True)
        ]
        self._sizes = [rows * columns for rows, columns in self._shapes]
        self._centre = centre
        self._scores_transposed = [block.scores.t().coalesce() for block in rows.blocks]

    @property
    def origin(self) -> Float[Tensor, " number"]:
        """The point where all weights are those of the centre."""
        return self._parts[0].columns[0].new_zeros(sum(self._sizes))

    def rows(self, point: Float[Tensor, " number"]) -> Blocks:
        """V of a point U."""
        return self._moved(self.away(point))

    def _moved(self, away: Blocks) -> Blocks:
        """V of V - C."""
        if self._centre is None:
            return away
        return tuple(own + rest for own, rest in zip(self._centre, away, strict=True))

    def away(self, point: Float[Tensor, " number"]) -> Blocks:
        """V - C of a point U: how far the rows are from the centre."""
        parts = zip(torch.split(point, self._sizes), self._shapes, self._rows.blocks, strict=True)
        return tuple(block.scale.unsqueeze(1) * part.view(shape) for part, shape, block in parts)

    def point(self, rows: Blocks) -> Float[Tensor, " number"]:
        """U of rows V."""
        scales = [block.scale.unsqueeze(1) for block in self._rows.blocks]
        away = rows if self._centre is None else [own - one for own, one in zip(rows, self._centre, strict=True)]
        return _flat([torch.where(scale > 0, own / scale, 0.0) for scale, own in zip(scales, away, strict=True)])

    def __call__(self, point: Float[Tensor, " number"]) -> tuple[float, Float[Tensor, " number"]]:
        """The value and the gradient at U."""
        away = self.away(point)
        both = zip(self._rows.blocks, self._moved(away), strict=True)
        score_rows = [torch.sparse.mm(block.scores, own) for block, own in both]
        score_rows_grad = [torch.zeros_like(own) for own in score_rows]
        value = 0.0
        for part in self._parts:
            loss, score_grad = self._loss(part, self._scores(part, score_rows))
            value += loss
            for grad, columns in zip(score_rows_grad, part.columns, strict=True):
                grad.addmm_(score_grad[:, : len(grad)].t(), columns)
        del score_rows  # as large as all weights, like everything below
        grads = []
        for number, (block, own) in enumerate(zip(self._rows.blocks, away, strict=True)):
            grad = torch.sparse.mm(self._scores_transposed[number], score_rows_grad[number])
            for other, force in block.prior.items():
                pull = torch.sparse.mm(force, away[other][:, :-1])
                grad[:, :-1] += pull
                value += 0.5 * float((own[:, :-1] * pull).sum(dtype=torch.float64))
            if number == len(away) - 1 and self._rows.constant:
                grad[list(self._rows.constant), :-1] = 0.0
            grads.append(grad.mul_(block.scale.unsqueeze(1)))
        return value, _flat(grads)

    def _scores(self, samples: FitSamples, score_rows: list[Tensor]) -> Tensor:
        """The score columns of some samples; the last block has a row for every score, the first for the fine ones."""
        scores = samples.columns[-1] @ score_rows[-1].t()
        for columns, own in zip(samples.columns[:-1], score_rows[:-1], strict=True):
            scores[:, : len(own)].addmm_(columns, own.t())
        return scores

    def _loss(self, samples: FitSamples, scores: Tensor) -> tuple[float, Tensor]:
        """The weighted loss of some samples, summed in float64, and its gradient for the score columns."""
        scores.requires_grad_()
        own = {name: scores[:, columns] for name, columns in self._rows.unfolded.items()}
        fine = scores[:, : self._rows.fine_count] if own else scores
        coarse = {name: columns for name, columns in own.items() if name not in self._graph.numbers}
        numbers = None
        if len(coarse) < len(own):
            # Numbers with exact values are already in the fine scores.
            zeros = scores.new_zeros(len(scores), 2)
            both = [potential(own[name]) if name in own else zeros for name in self._graph.numbers]
            numbers = torch.stack(both, dim=1)
        posterior = Posterior(self._graph, fine, coarse, number_scores=numbers)
        loss = joint_loss(posterior, samples.target, samples.kind_targets, self._kind_weights, reduction="none")
        # Passing a gradient to autograd would make it compare shapes symbolically, which loads a large library.
        (grad,) = torch.autograd.grad((loss * samples.weight).sum(), scores)
        return float(loss.detach().double() @ samples.weight.double()), grad


def potential(scores: Float[Tensor, "batch 2"]) -> Float[Tensor, "batch 2"]:
    """The pull and the precision of a number from its two columns of scores."""
    return torch.stack([scores[:, 0], softplus(scores[:, 1])], dim=1)


def _flat(parts: list[Tensor]) -> Tensor:
    return parts[0].reshape(-1) if len(parts) == 1 else torch.cat([part.reshape(-1) for part in parts])
