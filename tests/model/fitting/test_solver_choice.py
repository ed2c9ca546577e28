"""The contest between the closed form and descent."""

from __future__ import annotations

import torch

import finegraph as fg
from finegraph.model.fitting import FitSettings
from finegraph.model.fitting.prototypes import fit_prototypes
from finegraph.model.fitting.solver_choice import SOFTMAX_RATIO, SolverChoice, choose_solver, fit_head

SIZE = 20


def _graph(fine: int) -> fg.LabelGraph:
    return fg.LabelGraph.from_table({f"label {i}": {"dish": f"dish {i // 3}"} for i in range(fine)})


def _choose(x: torch.Tensor, y: torch.Tensor, graph: fg.LabelGraph) -> SolverChoice:
    return choose_solver(x, y, graph, fit_prototypes(x, y, graph).strengths, FitSettings())


def _clouds(fine: int, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    means = torch.randn(fine, SIZE, generator=generator)
    targets = torch.arange(fine).repeat_interleave(count)
    return means[targets] + torch.randn(fine * count, SIZE, generator=generator), targets


def test_few_samples_of_clouds_are_fitted_in_closed_form():
    choice = _choose(*_clouds(24, 3), _graph(24))
    assert choice.solver == "prototypes"
    assert choice.log_likelihoods["prototypes"] > choice.log_likelihoods["descent"]
    assert "less likely under descent" in choice.reason


def test_one_sample_of_each_class_leaves_nothing_to_hold_out():
    choice = _choose(*_clouds(24, 1), _graph(24))
    assert (choice.solver, choice.settings, choice.log_likelihoods) == ("prototypes", None, {})


def test_descent_wins_where_the_length_of_features_says_it_all():
    """Three classes along one feature; brought to one length, nothing but its sign is left."""
    x = torch.linspace(-3.0, 3.0, 180, dtype=torch.float64)[:, None]
    targets = (x[:, 0] > -1.0).long() + (x[:, 0] > 1.0).long()
    choice = _choose(x, targets, fg.LabelGraph(["low", "middle", "high"], []))
    assert choice.solver == "descent"
    assert choice.settings is not None
    assert "more likely under descent" in choice.reason


def test_descent_without_the_graph_is_softmax():
    x, y = _clouds(12, 4)
    graph = _graph(12)
    plain = fit_head(x, y, graph, FitSettings(head="softmax", l2=0.01, tolerance=1e-6)).head
    settings = FitSettings(l2=0.01, coarse_ratio=SOFTMAX_RATIO, kind_weight=0.0, tolerance=1e-6)
    found = fit_head(x, y, graph, settings).head
    torch.testing.assert_close(found(x).log_probs(), plain(x).log_probs(), atol=0, rtol=0)
