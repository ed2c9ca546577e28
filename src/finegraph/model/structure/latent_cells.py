"""Cells learnt together with a head that is fitted by descent: how much photos favour each parent, judged by that head.

The weights g of cells are parameters of the joint like all others, with a Dirichlet prior of mean `prior` and a
strength in photos. Given the head, this update increases the log likelihood of the photos plus the log prior:

    members_ic  =  sum over photos and terms of the loss of P(i, its parent c | photo, what the term asks for)
    expected_ic =  sum over photos and terms of P(i, its parent c | photo), divided by g_ic
    cost_ic     =  - weight_j sum over the photos of i of log p^j_c           the loss asks for c with weight g
    g_ic       <-  (members_ic + strength prior_ic) / (expected_ic + cost_ic + shift)       shift: makes the sum 1

This is expectation-maximisation for a conditional likelihood: a term is the log of a sum in which g is linear, minus
log z. Jensen's inequality bounds the first from below, as always, and a tangent bounds log z from above, as z is linear
in the cells of one kind. For the photos of i, members are the responsibilities r_ic. All terms are in dL/df of
`joint_loss`: members = terms x p - dL/df. The cost has no such bound, so a step that would lower the objective is
halved until it does not. The objective never falls.

A head fitted to few photos memorises them: what it infers about a cell from the photos of its own fine label merely
repeats the current weights. So the prior comes from the closed form with the fine label left out (cell_learning.py),
and counts more than the photos themselves. Cost of a step: two losses, and three products photos x cells x labels per
kind.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from finegraph.graph import LabelGraph
from finegraph.inference import Posterior, joint_loss
from finegraph.inference.sums.targets import FROM_FINE
from finegraph.model.fitting.descent import Fit, FitSettings, fit_head
from finegraph.model.fitting.fit_samples import NOT_OBSERVED
from finegraph.model.fitting.head_solver import descend
from finegraph.model.fitting.selection import LabelledFeatures
from finegraph.nn import BipartiteHead

Targets = Mapping[str, Int[Tensor, " batch"] | Float[Tensor, " batch"]]
MIN_WEIGHT = 0.01
"""Links of learnt cells with less weight are dropped in the end."""
_ROUNDS, _MIN_CHANGE = 8, 0.01
"""The maximum number of rounds, and the change of a weight below which they stop."""
_PASSES = 5
"""How many passes over the weights there are per head."""
_TINY, _LOWEST = 1e-300, -1e6
_HALVINGS = 20


@dataclass(frozen=True, eq=False, kw_only=True)
class LatentCells:
    """The cells to learn, and their prior.

    Attributes:
        places: per kind, which fine labels have such a cell.
        prior: per kind, the prior probability of each label for each fine label.
        strength: how many photos of each fine label the prior counts as.
    """

    places: Mapping[str, Bool[Tensor, " fine"]]
    prior: Mapping[str, Float[Tensor, "fine _"]]
    strength: Float[Tensor, " fine"]

    def on(self, graph: LabelGraph, weights: Mapping[str, Float[Tensor, "fine _"]] | None = None) -> LabelGraph:
        """The graph with weights in these cells.

        Args:
            graph: the label graph.
            weights: per kind the weights of all fine labels; by default those of the prior.
        """
        for name, places in self.places.items():
            rows = self.prior[name] if weights is None else weights[name]
            kind = graph.kind(name)
            matrix = kind.matrix()
            matrix[places.numpy()] = rows[places].numpy()
            graph = graph.with_kind(kind.with_matrix(matrix))
        return graph

    def weights_in(self, graph: LabelGraph) -> dict[str, Float[Tensor, "fine _"]]:
        """The weights of a graph, per kind."""
        return {name: torch.from_numpy(graph.kind(name).matrix()) for name in self.places}

    def log_prior(self, graph: LabelGraph) -> float:
        """The log prior of the weights of a graph, up to a constant."""
        total = 0.0
        for name, weights in self.weights_in(graph).items():
            places = self.places[name]
            prior = self.strength[places, None] * self.prior[name][places]
            total += float(torch.where(prior > 0, prior * weights[places].clamp_min(_TINY).log(), 0.0).sum())
        return total

    def without_small(self, graph: LabelGraph) -> LabelGraph:
        """The graph without links of negligible weight in these cells."""
        kept = {name: torch.where(rows >= MIN_WEIGHT, rows, 0.0) for name, rows in self.weights_in(graph).items()}
        return self.on(graph, {name: rows / rows.sum(dim=1, keepdim=True) for name, rows in kept.items()})


class CellStatistics(NamedTuple):
    """The statistics of photos for the latent cells of one kind; see the module docstring.

    Attributes:
        members: the expected number of photos with each parent, given the targets.
        expected: the same without the targets, divided by the weight of the parent.
        cost: what a label as the target of the photos of the fine label adds to the loss.
    """

    members: Float[Tensor, "row label"]
    expected: Float[Tensor, "row label"]
    cost: Float[Tensor, "row label"]


@dataclass(frozen=True, eq=False, kw_only=True)
class Scored:
    """Photos with the scores of a head, which do not depend on the weights of cells.

    Attributes:
        fine_scores: the scores of the fine labels.
        coarse_scores: the scores of the coarse labels, all kinds side by side.
        number_scores: the scores of the numbers; None if there are none.
        fine: the fine labels, -100 if not observed.
        kind_targets: photo labels of kinds and measured values of numbers; the rest comes from the graph.
        kind_weights: the weight of the term of each kind and number.
    """

    fine_scores: Float[Tensor, "batch fine"]
    coarse_scores: Float[Tensor, "batch coarse"] | None
    number_scores: Float[Tensor, "batch number 2"] | None
    fine: Int[Tensor, " batch"]
    kind_targets: Targets
    kind_weights: Mapping[str, float]

    @classmethod
    def by(
        cls,
        head: BipartiteHead,
        features: Float[Tensor, "batch feature"],
        coarse_features: Float[Tensor, "batch coarse_feature"] | None,
        fine: Int[Tensor, " batch"],
        kind_targets: Targets,
        kind_weights: Mapping[str, float],
    ) -> Scored:
        """Photos with the scores of a head, in float64."""
        with torch.no_grad():
            posterior = head(features) if coarse_features is None else head(features, coarse_features)
        coarse, numbers = posterior.coarse_scores, posterior.number_scores
        return cls(
            fine_scores=posterior.fine_scores.double(),
            coarse_scores=None if coarse is None else coarse.double(),
            number_scores=None if numbers is None else numbers.double(),
            fine=fine,
            kind_targets=kind_targets,
            kind_weights=kind_weights,
        )

    def loss(self, graph: LabelGraph) -> float:
        """The summed loss with a graph."""
        return float(self._loss(self._posterior(graph, self.fine_scores)))

    def statistics(self, graph: LabelGraph, kind: str, places: Bool[Tensor, " fine"]) -> CellStatistics:
        """The statistics of photos for some cells of a kind.

        Args:
            graph: the graph with the current weights.
            kind: the kind.
            places: which fine labels have such a cell.
        """
        fine_scores = self.fine_scores.detach().requires_grad_()
        with torch.enable_grad():
            posterior = self._posterior(graph, fine_scores)
            (slope,) = torch.autograd.grad(self._loss(posterior), fine_scores)
        with torch.no_grad():
            terms = 1.0 + sum(self.kind_weights.values())
            probs = posterior.log_probs()[:, places].exp()
            members = (terms * probs - slope[:, places]).clamp_min(0.0)
            weights = torch.from_numpy(graph.kind(kind).matrix())
            assert posterior.coarse_scores is not None
            scores = posterior.coarse_scores[:, posterior.tensors.columns[kind]]
            likely = (scores - scores.amax(dim=1, keepdim=True)).exp()
            rows = weights[places]
            mixed = (likely @ rows.t()).clamp_min(_TINY)
            # The term of this kind also constrains the parent; the others constrain only the fine label.
            asked, log_probs = self._asked(kind, weights) * self.kind_weights[kind], posterior.log_probs(kind)
            ratio = asked * likely / log_probs.exp().clamp_min(_TINY)
            share = probs / mixed
            own = share * (ratio @ rows.t())
            member_sums = ((members - own).clamp_min(0.0) / mixed).t() @ likely + share.t() @ ratio
            return CellStatistics(rows * member_sums, terms * (share.t() @ likely), self._cost(kind, places, log_probs))

    def _cost(self, kind: str, places: Tensor, log_probs: Tensor) -> Tensor:
        """What each label of a kind, as the target of the photos of some fine labels, adds to the loss."""
        given = self.kind_targets.get(kind)
        used = self.fine != NOT_OBSERVED if given is None else given == FROM_FINE
        cost = torch.zeros(len(places), log_probs.shape[1], dtype=torch.float64)
        cost.index_add_(0, self.fine[used], -log_probs[used].clamp_min(_LOWEST))
        return self.kind_weights[kind] * cost[places]

    def _asked(self, kind: str, weights: Tensor) -> Tensor:
        """The weight of each label of a kind as a target, for each photo."""
        given = self.kind_targets.get(kind)
        if given is None:
            given = torch.where(self.fine == NOT_OBSERVED, NOT_OBSERVED, FROM_FINE)
        asked = weights[self.fine.clamp_min(0)] * (given == FROM_FINE)[:, None]
        seen = given >= 0
        return asked + torch.nn.functional.one_hot(given.clamp_min(0), weights.shape[1]) * seen[:, None]

    def _posterior(self, graph: LabelGraph, fine_scores: Tensor) -> Posterior:
        return Posterior(graph, fine_scores, self.coarse_scores, number_scores=self.number_scores)

    def _loss(self, posterior: Posterior) -> Tensor:
        targets = {name: labels for name, labels in self.kind_targets.items() if self.kind_weights[name] > 0}
        return joint_loss(posterior, self.fine, targets or None, self.kind_weights, "sum")


def move_cells(graph: LabelGraph, cells: LatentCells, scored: Scored, *, passes: int = _PASSES) -> LabelGraph:
    """Update the weights of the cells; the objective never falls.

    Args:
        graph: the graph with the current weights.
        cells: which cells, with their prior.
        scored: the photos.
        passes: the number of passes over the kinds.
    """
    value = _value(graph, cells, scored)
    for _ in range(passes):
        for name, places in cells.places.items():
            if not bool(places.any()):
                continue
            found = scored.statistics(graph, name, places)
            prior = cells.strength[places, None] * cells.prior[name][places]
            before = torch.from_numpy(graph.kind(name).matrix())
            after = before.clone()
            after[places] = best_weights(found.members + prior, found.expected + found.cost)
            one = LatentCells(places={name: places}, prior=cells.prior, strength=cells.strength)
            step = 1.0
            for _ in range(_HALVINGS):
                moved = one.on(graph, {name: before + step * (after - before)})
                reached = _value(moved, cells, scored)
                if reached >= value:
                    graph, value = moved, reached
                    break
                step *= 0.5
    return graph


def _value(graph: LabelGraph, cells: LatentCells, scored: Scored) -> float:
    """The log likelihood of the photos plus the log prior of the weights."""
    return cells.log_prior(graph) - scored.loss(graph)


def best_weights(
    members: Float[Tensor, "row label"], expected: Float[Tensor, "row label"]
) -> Float[Tensor, "row label"]:
    """The rows g that sum to 1 and maximise sum_c members_c log g_c - expected_c g_c."""
    counted = members > 0
    # The sum of members / (expected + shift) falls from infinity to 0 as the shift grows: bisect for 1.
    expected = expected.double()
    least = torch.where(counted, expected, torch.inf).amin(dim=1, keepdim=True)
    low = -least + torch.where(counted & (expected == least), members, 0.0).amax(dim=1, keepdim=True)
    high = -least + members.sum(dim=1, keepdim=True)
    for _ in range(100):
        middle = 0.5 * (low + high)
        above = (torch.where(counted, members / (expected + middle), 0.0)).sum(dim=1, keepdim=True) > 1.0
        low, high = torch.where(above, middle, low), torch.where(above, high, middle)
    found = torch.where(counted, members / (expected + 0.5 * (low + high)), 0.0)
    return found / found.sum(dim=1, keepdim=True)


@dataclass(frozen=True, kw_only=True)
class CellFit:
    """A head fitted together with the weights of cells.

    Attributes:
        fit: the head, whose graph has these weights.
        values: the log likelihood plus the log prior, before and after each update of the cells.
        change: the largest change of a weight in the last round.
    """

    fit: Fit
    values: tuple[tuple[float, float], ...]
    change: float

    @property
    def words(self) -> str:
        """The course of the fit in words."""
        turns = "1 turn" if len(self.values) == 1 else f"{len(self.values)} turns"
        ends = "" if self.change < _MIN_CHANGE else f", the last of which moved a weight by {self.change:.2f}"
        return f"cells and weights took {turns} in descent{ends}"


def fit_with_cells(
    features: Float[Tensor, "batch feature"],
    targets: Int[Tensor, " batch"],
    graph: LabelGraph,
    settings: FitSettings,
    cells: LatentCells,
    *,
    coarse_features: Float[Tensor, "batch coarse_feature"] | None = None,
    kind_targets: Targets | None = None,
) -> CellFit:
    """Fit a head by descent together with the weights of cells, in alternation, until no weight changes.

    Args:
        features: one row per sample.
        targets: the fine label of each sample, -100 if not observed.
        graph: the label graph, with the initial weights in the cells.
        settings: the settings of a bipartite head.
        cells: which cells, with their prior.
        coarse_features: the features of the coarse labels, if they have their own.
        kind_targets: the photo labels of some kinds.
    """
    weights, values, change = settings.kind_weights(graph), [], 0.0

    def fitted(graph: LabelGraph, start: BipartiteHead | None) -> Fit:
        given = None if start is None or settings.is_softmax else start
        if given is not None:
            given.relink(graph)
        return fit_head(
            features,
            targets,
            graph,
            settings,
            coarse_features=coarse_features,
            kind_targets=kind_targets,
            start=given,
        )

    fit = fitted(graph, None)
    for _ in range(_ROUNDS):
        assert isinstance(fit.head, BipartiteHead)
        scored = Scored.by(fit.head, features, coarse_features, targets, kind_targets or {}, weights)
        moved = move_cells(graph, cells, scored)
        values.append((_value(graph, cells, scored), _value(moved, cells, scored)))
        change = _change(cells, graph, moved)
        graph = moved
        fit = fitted(graph, fit.head)
        if change < _MIN_CHANGE:
            break
    kept = cells.without_small(graph)
    if kept != graph:
        assert isinstance(fit.head, BipartiteHead)
        fit = fitted(kept, fit.head)
    return CellFit(fit=fit, values=tuple(values), change=change)


class CellDescent:
    """Descent that moves the weights of cells along with a head, for `solve_head`; softmax has no use for cells.

    Attributes:
        cells: which cells, with their prior.
        notes: the course of the last fit in words; empty if it was softmax.
    """

    def __init__(self, cells: LatentCells) -> None:
        self.cells = cells
        self.notes: tuple[str, ...] = ()

    def __call__(self, samples: LabelledFeatures, graph: LabelGraph, settings: FitSettings) -> Fit:
        """Minimise the joint loss of samples."""
        self.notes = ()
        if settings.head == "softmax" or settings.is_softmax:
            return descend(samples, graph, settings)
        found = fit_with_cells(
            samples.features,
            samples.targets,
            graph,
            settings,
            self.cells,
            coarse_features=samples.coarse_features,
            kind_targets=samples.kind_targets,
        )
        self.notes = (found.words,)
        return found.fit


def _change(cells: LatentCells, graph: LabelGraph, other: LabelGraph) -> float:
    """The largest difference of a weight."""
    one, two = cells.weights_in(graph), cells.weights_in(other)
    return max((float((one[name] - two[name]).abs().max()) for name in one), default=0.0)
