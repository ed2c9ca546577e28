"""Class means over a graph against the joint Gaussian written out."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import finegraph as fg
from finegraph.model.fitting import class_means as module
from finegraph.model.fitting.class_means import (
    LinkMatrices,
    Variances,
    class_means,
    fit_variances,
    score_factors,
    solve_effects,
)

GRAPH = fg.LabelGraph.from_table(
    {
        "a": {"dish": "x", "shop": "1"},
        "b": {"dish": "x", "shop": "2"},
        "c": {"dish": "y", "shop": "1"},
        "d": {"dish": "y", "shop": None},
        "e": {"dish": {"x": 0.25, "y": 0.75}, "shop": "2"},
    }
)
VARIANCES = Variances(own=0.3, kinds={"dish": 0.7, "shop": 0.4}, noise=0.9)
COUNTS = torch.tensor([3.0, 1.0, 0.0, 2.0, 5.0], dtype=torch.float64)


def _means(seed: int = 0) -> torch.Tensor:
    return torch.randn(len(GRAPH), 4, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def _kernel(graph: fg.LabelGraph, variances: Variances) -> np.ndarray:
    """The covariance of class means, pair by pair."""
    size = len(graph)
    kernel = variances.own * np.eye(size)
    for kind in graph.kinds:
        matrix = graph.matrix(kind)
        for i in range(size):
            for j in range(size):
                kernel[i, j] += variances.kinds[kind] * float(matrix[i] @ matrix[j])
            kernel[i, i] += variances.kinds[kind] * (1.0 - float(matrix[i] @ matrix[i]))  # a parent that is not known
    return kernel


def test_means_are_those_of_the_joint_gaussian():
    means = _means()
    found = class_means(
        LinkMatrices(GRAPH, GRAPH.kinds), solve_effects(LinkMatrices(GRAPH, GRAPH.kinds), VARIANCES, COUNTS, means)
    )
    kernel, seen = _kernel(GRAPH, VARIANCES), COUNTS.numpy() > 0
    centre = means.numpy()[seen].mean(axis=0)
    shown = kernel[np.ix_(seen, seen)] + np.diag(0.9 / COUNTS.numpy()[seen])
    expected = centre + kernel[:, seen] @ np.linalg.inv(shown) @ (means.numpy()[seen] - centre)
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-12)


@pytest.mark.deep
def test_a_label_without_a_sample_has_the_mean_of_its_parents():
    effects = solve_effects(LinkMatrices(GRAPH, GRAPH.kinds), VARIANCES, COUNTS, _means())
    mean = class_means(LinkMatrices(GRAPH, GRAPH.kinds), effects)[2]
    parents = effects.coarse["dish"][1] + effects.coarse["shop"][0]
    torch.testing.assert_close(mean, effects.centre + parents)
    assert not effects.fine[2].any()


def test_conjugate_gradients_find_what_the_dense_system_gives(monkeypatch):
    generator = torch.Generator().manual_seed(1)
    size = 60
    table = {
        f"label {i}": {"dish": str(int(torch.randint(20, (), generator=generator))), "shop": str(i % 3)}
        for i in range(size)
    }
    graph = fg.LabelGraph.from_table(table)
    links, variances = (
        LinkMatrices(graph, graph.kinds),
        Variances(own=0.01, kinds={"dish": 2.0, "shop": 5.0}, noise=0.5),
    )
    means = torch.randn(size, 7, generator=generator, dtype=torch.float64)
    counts = torch.randint(0, 4, (size,), generator=generator).double()
    dense = solve_effects(links, variances, counts, means)
    monkeypatch.setattr(module, "MAX_DENSE_LABELS", 0)
    found = solve_effects(links, variances, counts, means)
    torch.testing.assert_close(found.fine, dense.fine, atol=1e-7, rtol=1e-7)
    for kind in graph.kinds:
        torch.testing.assert_close(found.coarse[kind], dense.coarse[kind], atol=1e-7, rtol=1e-7)


def _log_likelihood(graph: fg.LabelGraph, variances: Variances, counts: np.ndarray, means: np.ndarray) -> float:
    """The log likelihood of class means, their centre being free."""
    seen = counts > 0
    shown = means[seen] - means[seen].mean(axis=0)
    spread = (shown**2).mean(axis=0).sum() / means.shape[1]
    covariance = _kernel(graph, variances)[np.ix_(seen, seen)] + np.diag(variances.noise / counts[seen]) + 10 * spread
    inverse, size = np.linalg.inv(covariance), means.shape[1]
    return -0.5 * (np.linalg.slogdet(covariance)[1] * size + np.trace(inverse @ shown @ shown.T))


def test_variances_are_at_the_top_of_the_likelihood():
    generator = torch.Generator().manual_seed(2)
    table = {f"label {i}": {"dish": str(i // 4), "shop": str(i % 5)} for i in range(40)}
    graph = fg.LabelGraph.from_table(table)
    links = LinkMatrices(graph, graph.kinds)
    coarse = {
        "dish": torch.randn(10, 300, generator=generator, dtype=torch.float64),
        "shop": 0.5 * torch.randn(5, 300, generator=generator, dtype=torch.float64),
    }
    own = 0.7 * torch.randn(40, 300, generator=generator, dtype=torch.float64)
    counts = torch.randint(1, 5, (40,), generator=generator).double()
    noise = torch.randn(40, 300, generator=generator, dtype=torch.float64) / counts.sqrt()[:, None]
    means = links.down(coarse) + own + noise
    found = fit_variances(links, counts, means, noise=1.0, features=300, tolerance=1e-6, max_iter=2000)
    top = _log_likelihood(graph, found, counts.numpy(), means.numpy())
    for name in ("own", "dish", "shop"):
        for factor in (0.97, 1.03):
            kinds = {kind: value * (factor if kind == name else 1.0) for kind, value in found.kinds.items()}
            near = Variances(own=found.own * (factor if name == "own" else 1.0), kinds=kinds, noise=1.0)
            assert _log_likelihood(graph, near, counts.numpy(), means.numpy()) < top
    assert found.own == pytest.approx(0.49, rel=0.1)
    assert found.kinds["dish"] == pytest.approx(1.0, rel=0.5)


def test_a_kind_that_says_nothing_gets_no_variance():
    generator = torch.Generator().manual_seed(3)
    graph = fg.LabelGraph.from_table({f"label {i}": {"random": str(i * 7 % 10)} for i in range(40)})
    means = torch.randn(40, 500, generator=generator, dtype=torch.float64)
    counts = torch.ones(40, dtype=torch.float64)
    found = fit_variances(LinkMatrices(graph, graph.kinds), counts, means, noise=0.5, features=500, max_iter=1000)
    assert found.kinds["random"] < 0.05 * found.own


def test_means_of_many_samples_come_to_one_length_and_those_of_few_keep_theirs():
    means = _means()
    factors, bias = score_factors(means, torch.tensor([1e9, 1e9, 0.0, 0.0, 1e9], dtype=torch.float64))
    lengths = means.norm(dim=1)
    typical = lengths[[0, 1, 4]].square().mean().sqrt()
    torch.testing.assert_close(
        factors * lengths, torch.stack([typical, typical, *lengths[2:4], typical]), rtol=1e-6, atol=0
    )
    expected = -0.5 * torch.stack([typical, typical, *lengths[2:4], typical]).square()
    torch.testing.assert_close(bias, expected - expected.max(), rtol=1e-6, atol=1e-6)
    nothing = score_factors(torch.zeros(2, 4).double(), torch.zeros(2).double())
    assert torch.isfinite(torch.stack(nothing)).all()


def test_kinds_of_which_all_classes_have_one_label_contribute_nothing():
    """Rounding makes their contribution negative in some of these draws, which has no root."""
    graph = fg.LabelGraph.from_table({f"label {i}": {f"kind {j}": "no" for j in range(12)} for i in range(3)})
    links, counts = LinkMatrices(graph, graph.kinds), torch.full((3,), 10.0, dtype=torch.float64)
    for seed in range(40):
        generator = torch.Generator().manual_seed(seed)
        means = torch.randn(3, 200, generator=generator, dtype=torch.float64) * 2.5 + 0.1
        found = fit_variances(links, counts, means, noise=1.0, features=200)
        assert math.isfinite(found.own)
        assert max(found.kinds.values()) < 1e-3 * found.own
