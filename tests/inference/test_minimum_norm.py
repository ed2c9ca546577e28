"""The smallest split equals a dense solution, whichever way it is found."""

import numpy as np
import pytest
import torch

import finegraph as fg
from finegraph.inference import minimum_norm
from finegraph.inference.minimum_norm import MinimumNorm, links_of
from reference.random_graphs import FORMS, random_graph

WAYS = {
    "factorised": {},
    "kind by kind": {"MAX_TOGETHER": 1},
    "partly factorised": {"MAX_FACTOR": 4},
    "by the diagonal alone": {"MAX_FACTOR": 0},
    "no cells": {"_MAX_CELLS": 0, "MAX_FACTOR": 6},
    "products in parts": {"_MAX_PAIRS": 5, "_PAIR_COST": 0.0},
    "dense products in parts": {"_MAX_PAIRS": 5, "_PAIR_COST": 1e9},
}


@pytest.fixture(params=WAYS, autouse=True)
def way(request, monkeypatch):
    for name, value in WAYS[request.param].items():
        monkeypatch.setattr(minimum_norm, name, value)
    return request.param


def dense(graph):
    """G, all kinds side by side."""
    return np.concatenate([np.zeros((len(graph), 0)), *(graph.matrix(kind) for kind in graph.kinds)], axis=1)


def solved(graph, scores):
    """The constant and alpha, one row per row of scores, by a dense solution."""
    inverse = np.linalg.inv(np.eye(len(graph)) + dense(graph) @ dense(graph).T)
    constant = (scores @ inverse).sum(axis=1, keepdims=True) / inverse.sum()
    return constant, (scores - constant) @ inverse


def check(graph):
    scores = 10 * torch.randn(3, len(graph), dtype=torch.float64, generator=torch.manual_seed(0))
    split = MinimumNorm([links_of(graph, kind) for kind in graph.kinds], len(graph)).split(scores)
    constant, alpha = solved(graph, scores.numpy())
    np.testing.assert_allclose(split.constant, constant, atol=1e-10)
    np.testing.assert_allclose(split.fine, alpha, atol=1e-10)
    assert len(split.coarse) == len(graph.kinds)
    for kind, coarse in zip(graph.kinds, split.coarse, strict=True):
        np.testing.assert_allclose(coarse, alpha @ graph.matrix(kind), atol=1e-10)


@pytest.mark.parametrize("form", FORMS[:4])
def test_dense_columns_are_like_a_kind_of_their_own(form):
    graph = random_graph(np.random.default_rng(0), form).graph
    columns = torch.randn(3, len(graph), dtype=torch.float64, generator=torch.manual_seed(1))
    scores = 10 * torch.randn(2, len(graph), dtype=torch.float64, generator=torch.manual_seed(0))
    links = [links_of(graph, kind) for kind in graph.kinds]
    split = MinimumNorm(links, len(graph), columns).split(scores)
    every = np.concatenate([dense(graph), columns.numpy().T], axis=1)
    inverse = np.linalg.inv(np.eye(len(graph)) + every @ every.T)
    constant = (scores.numpy() @ inverse).sum(axis=1, keepdims=True) / inverse.sum()
    alpha = (scores.numpy() - constant) @ inverse
    np.testing.assert_allclose(split.fine, alpha, atol=1e-9)
    np.testing.assert_allclose(split.dense, alpha @ columns.numpy().T, atol=1e-9)
    coarse = np.concatenate([np.zeros((2, 0)), *split.coarse], axis=1)
    np.testing.assert_allclose(coarse, alpha @ dense(graph), atol=1e-9)
    total = constant + alpha + coarse @ dense(graph).T + split.dense.numpy() @ columns.numpy()
    np.testing.assert_allclose(total, scores, atol=1e-9)


@pytest.mark.deep
@pytest.mark.parametrize("form", FORMS)
def test_equals_a_dense_solution_on_every_form_of_graph(form):
    for seed in range(3):
        check(random_graph(np.random.default_rng(seed), form).graph)


@pytest.mark.parametrize("nested", [False, True])
def test_equals_a_dense_solution_on_a_larger_graph(nested):
    rng = np.random.default_rng(1)
    wide = np.sort(rng.permutation(np.concatenate([np.arange(120), rng.integers(0, 120, 280)])))
    parents = {"dish": wide, "place": rng.integers(0, 40, 400), "tofu": rng.integers(0, 2, 400)}
    parents["cuisine"] = wide // 20 if nested else rng.integers(0, 6, 400)
    parents["pork"] = (wide % 3 == 0).astype(int) if nested else rng.integers(0, 2, 400)
    check(fg.LabelGraph.from_parents([f"fine {i}" for i in range(400)], parents))


def test_combinations_of_small_kinds_are_used_where_there_are_few(way):
    graph = fg.LabelGraph.from_parents(
        [f"fine {i}" for i in range(40)], {"a": np.arange(40) % 2, "b": np.arange(40) // 2 % 2, "c": np.arange(40) // 4}
    )
    bundles = MinimumNorm([links_of(graph, kind) for kind in graph.kinds], 40)._rest
    assert (bundles._combined is not None) == (way == "kind by kind")


def test_a_preconditioner_that_is_not_positive_is_made_so(monkeypatch):
    failures = []
    found = torch.linalg.cholesky_ex

    def fails(matrix):
        factor, _ = found(matrix)
        failures.append(len(matrix))
        return factor, torch.ones((), dtype=torch.int32)

    monkeypatch.setattr(torch.linalg, "cholesky_ex", fails)
    for form in FORMS:
        check(random_graph(np.random.default_rng(5), form).graph)
    assert failures


def test_weights_of_a_label_without_scores_are_those_of_its_parents():
    graph = random_graph(np.random.default_rng(2), "mixed").graph
    solver = MinimumNorm([links_of(graph, kind) for kind in graph.kinds], len(graph))
    row = np.random.default_rng(3).random((2, dense(graph).shape[1]))
    weights = solver.weights_of(torch.from_numpy(row @ dense(graph).T))
    scores = np.random.default_rng(4).normal(size=(5, len(graph)))
    constant, alpha = solved(graph, scores)
    np.testing.assert_allclose(scores @ weights.numpy().T, constant + alpha @ dense(graph) @ row.T, atol=1e-10)
