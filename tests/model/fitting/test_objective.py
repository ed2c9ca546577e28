"""The objective and its matrices against the same thing said with the public heads, losses and priors."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import finegraph as fg
from finegraph.model.fitting import objective as objective_module
from finegraph.model.fitting.fit_samples import FitSamples
from finegraph.model.fitting.objective import Objective
from finegraph.model.fitting.rows import Strengths, rows_of
from reference.random_graphs import FORMS, random_graph

STRENGTHS = Strengths(0.3, 0.7, 0.2)


def make(form, seed, kind_targets=False, dtype=torch.float64):
    """A random graph, a head with random weights for it, samples, and the weights of kinds."""
    graph = random_graph(np.random.default_rng([seed, FORMS.index(form)]), form).graph
    torch.manual_seed(seed)
    head = fg.BipartiteHead(3, graph).to(dtype)
    features = torch.randn(9, 3, dtype=dtype)
    target = torch.randint(len(graph), (9,))
    target[0] = -100
    seen = {}
    if kind_targets and graph.kinds:
        kind = graph.kind(graph.kinds[-1])
        possible = np.flatnonzero(kind.matrix().sum(axis=0) + (kind.prior if kind.unknown.any() else 0))
        labels = torch.from_numpy(possible)[torch.randint(len(possible), (9,))]
        seen = {kind.name: torch.where(torch.arange(9) < 5, labels, -100)}
    weight = torch.rand(9, dtype=dtype)
    columns = torch.cat([features, torch.full((9, 1), 2.0, dtype=dtype)], dim=1)
    return graph, head, features, FitSamples((columns,), target, seen, weight / weight.sum())


def plainly(head, features, samples, kind_weights):
    """The objective in the public words of the package."""
    loss = fg.joint_loss(head(features), samples.target, samples.kind_targets, kind_weights, reduction="none")
    l2 = STRENGTHS.fine / 2 * head.fine.weight.square().sum() + STRENGTHS.coarse / 2 * head.coarse.weight.square().sum()
    return samples.weight @ loss + l2 + STRENGTHS.laplacian * fg.laplacian_prior(head)


def rows_of_head(head, constant=2.0):
    weight = torch.cat([head.fine.weight, head.coarse.weight])
    bias = torch.cat([head.fine.bias, head.coarse.bias])
    return (torch.cat([weight, bias.unsqueeze(1) / constant], dim=1).detach(),)


@pytest.mark.parametrize("kind_targets", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_value_and_gradient_are_those_of_the_public_parts(form, kind_targets):
    graph, head, features, samples = make(form, 1, kind_targets)
    kind_weights = {name: 0.5 + index for index, name in enumerate(graph.kinds)}
    expected = plainly(head, features, samples, kind_weights)
    parameters = [head.fine.weight, head.coarse.weight, head.fine.bias, head.coarse.bias]
    fine, coarse, fine_bias, coarse_bias = torch.autograd.grad(expected, parameters, materialize_grads=True)
    rows = rows_of(graph, graph.kinds, STRENGTHS, [1.0], samples.columns[0])
    objective = Objective(graph, rows, samples, kind_weights)
    value, grad = objective(objective.point(rows_of_head(head)))
    assert value == pytest.approx(expected.item(), rel=1e-12)
    bias_grad = torch.cat([fine_bias, coarse_bias]).unsqueeze(1)
    scale = rows.blocks[0].scale.unsqueeze(1)
    expected_grad = torch.cat([torch.cat([fine, coarse]), 2.0 * bias_grad], dim=1) * scale
    assert torch.allclose(grad, expected_grad.reshape(-1), atol=1e-12)


@pytest.mark.parametrize("form", ["one parent", "mixed"])
def test_kinds_of_weight_0_have_no_term(form):
    graph, head, features, samples = make(form, 2)
    kind_weights = dict.fromkeys(graph.kinds, 0.0)
    rows = rows_of(graph, graph.kinds, STRENGTHS, [1.0], samples.columns[0])
    objective = Objective(graph, rows, samples, kind_weights)
    value, _ = objective(objective.point(rows_of_head(head)))
    assert value == pytest.approx(plainly(head, features, samples, kind_weights).item(), rel=1e-12)


@pytest.mark.parametrize("form", ["one parent", "unknown cells"])
def test_taking_samples_some_at_a_time_changes_nothing(form, monkeypatch):
    graph, head, _, samples = make(form, 3, kind_targets=True)
    rows = rows_of(graph, graph.kinds, STRENGTHS, [1.0], samples.columns[0])
    kind_weights = dict.fromkeys(graph.kinds, 1.0)
    at_once = Objective(graph, rows, samples, kind_weights)
    monkeypatch.setattr(objective_module, "_MAX_SCORES", 2 * rows.score_count)
    in_parts = Objective(graph, rows, samples, kind_weights)
    assert len(in_parts._parts) == 5
    point = at_once.point(rows_of_head(head))
    (value, grad), (same_value, same_grad) = at_once(point), in_parts(point)
    assert same_value == pytest.approx(value, rel=1e-13)
    assert torch.allclose(same_grad, grad, atol=1e-13)


def test_only_kinds_with_one_known_parent_fold():
    graph = fg.LabelGraph.from_table(
        {
            "a": {"plain": "x", "several": {"p", "q"}, "unknown": "u"},
            "b": {"plain": "y", "several": "p", "unknown": None},
        }
    )
    rows = rows_of(graph, graph.kinds, STRENGTHS, [1.0], torch.zeros(1))
    assert rows.unfolded == {"several": slice(2, 4), "unknown": slice(4, 5)}
    assert rows.blocks[0].scores.to_dense().tolist() == [
        [1, 0, 1, 0, 0, 0, 0],
        [0, 1, 0, 1, 0, 0, 0],
        [0, 0, 0, 0, 1, 0, 0],
        [0, 0, 0, 0, 0, 1, 0],
        [0, 0, 0, 0, 0, 0, 1],
    ]


def test_scaled_rows_have_a_prior_of_one():
    graph = fg.LabelGraph.from_parents(["a", "b", "c"], {"kind": [0, 0, 1]})
    rows = rows_of(graph, graph.kinds, Strengths(4.0, 9.0, 0.0), [0.0], torch.zeros(1).double())
    assert rows.blocks[0].scale.tolist() == pytest.approx([1 / 2] * 3 + [1 / 3] * 2)
    weak = rows_of(graph, graph.kinds, Strengths(0.0, 0.0, 0.0), [1.0], torch.zeros(1).double())
    scale = weak.blocks[0].scale
    assert (scale > 0).all()
    assert scale[3] < scale[4]  # the label with two children moves the scores more
