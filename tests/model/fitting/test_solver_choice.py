"""The contest between the closed form and descent."""

from __future__ import annotations

import math
import re

import pytest
import torch
from sklearn.datasets import load_iris

import finegraph as fg
from finegraph.model.fitting import FitSettings
from finegraph.model.fitting.prototypes import fit_prototypes
from finegraph.model.fitting.solver_choice import SOFTMAX_RATIO, SolverChoice, choose_solver, errors_of_chance, fit_head

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


def test_three_classes_are_enough_for_descent_to_win():
    """Over three classes two standard errors could hardly be reached; groups of alike samples tell chance better."""
    x, y = load_iris(return_X_y=True)
    features = torch.from_numpy((x - x.mean(axis=0)) / x.std(axis=0))
    graph = fg.LabelGraph.from_table({"setosa": {"k": "a"}, "versicolor": {"k": "b"}, "virginica": {"k": "b"}})
    choice = _choose(features, torch.from_numpy(y), graph)
    assert choice.solver == "descent"
    assert choice.log_likelihoods["descent"] > choice.log_likelihoods["prototypes"] + 0.2


def test_a_lead_that_may_be_chance_is_said():
    x = torch.linspace(-3.0, 3.0, 9, dtype=torch.float64)[:, None]
    targets = (x[:, 0] > -1.0).long() + (x[:, 0] > 1.0).long()
    choice = _choose(x, targets, fg.LabelGraph(["low", "middle", "high"], []))
    assert choice.solver == "prototypes"
    found = re.fullmatch(
        r"descent was ahead by (.*) on held-out samples, less than (.*) standard errors \(of (.*) each\), "
        "so it may be chance",
        choice.reason,
    )
    assert found is not None
    ahead, errors, error = map(float, found.groups())
    assert 0.2 < ahead < errors * error
    assert 2.0 < errors < 3.0


def test_few_groups_tell_chance_badly():
    """By the table of Student's t, at the level of two standard deviations."""
    table = {5: 2.869, 9: 2.366, 15: 2.195, 64: 2.040}
    for groups, wanted in table.items():
        assert errors_of_chance(groups) == pytest.approx(wanted, abs=0.02)
    assert errors_of_chance(1) == errors_of_chance(2) == math.inf


def test_one_class_leaves_nothing_to_compare():
    choice = _choose(*_clouds(1, 6), _graph(1))
    assert (choice.solver, choice.log_likelihoods) == ("prototypes", {})
    assert choice.reason == "all samples have one class, so there is nothing to compare"


def test_descent_without_the_graph_is_softmax():
    x, y = _clouds(12, 4)
    graph = _graph(12)
    plain = fit_head(x, y, graph, FitSettings(head="softmax", l2=0.01, tolerance=1e-6)).head
    settings = FitSettings(l2=0.01, coarse_ratio=SOFTMAX_RATIO, kind_weight=0.0, tolerance=1e-6)
    found = fit_head(x, y, graph, settings).head
    torch.testing.assert_close(found(x).log_probs(), plain(x).log_probs(), atol=0, rtol=0)
