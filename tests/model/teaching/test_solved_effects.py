"""A change of few labels against solving anew."""

import numpy as np
import pytest
import torch

from finegraph.graph import LabelGraph
from finegraph.model.fitting.class_means import LinkMatrices, Variances, solve_effects
from finegraph.model.teaching.class_statistics import ClassStatistics
from finegraph.model.teaching.solved_effects import SolvedEffects

VARIANCES = Variances(own=0.3, kinds={"dish": 0.7, "shop": 0.4}, noise=0.9)
FEATURES = 5


def _statistics(counts, sums, variances=VARIANCES):
    return ClassStatistics(counts=counts, sums=sums, variances=variances, strength=2.0)


def _graph(count, seed=0):
    random = np.random.default_rng(seed)
    return LabelGraph.from_parents(
        [f"label {number}" for number in range(count)],
        {"dish": random.integers(-1, 4, count), "shop": random.integers(0, 3, count)},
        {"dish": list("abcd"), "shop": list("xyz")},
    )


def _observed(graph, seed=0):
    generator = torch.Generator().manual_seed(seed)
    counts = torch.randint(0, 4, (len(graph),), generator=generator).double()
    counts[0] = 2.0
    sums = counts[:, None] * torch.randn(len(graph), FEATURES, generator=generator, dtype=torch.float64)
    return _statistics(counts, sums)


def _assert_same(found, graph, observed):
    expected = solve_effects(LinkMatrices(graph, graph.kinds), VARIANCES, observed.counts, observed.means)
    torch.testing.assert_close(found.centre, expected.centre, atol=1e-12, rtol=0)
    torch.testing.assert_close(found.fine, expected.fine, atol=1e-12, rtol=0)
    for kind in graph.kinds:
        torch.testing.assert_close(found.coarse[kind], expected.coarse[kind], atol=1e-12, rtol=0)


@pytest.mark.parametrize("seed", range(4))
def test_photos_of_some_labels_known_new_and_never_seen(seed):
    graph = _graph(12, seed)
    observed = _observed(graph, seed)
    solved = SolvedEffects(LinkMatrices(graph, graph.kinds), observed)
    _assert_same(solved.effects(), graph, observed)

    rows = {"new": {"dish": "b", "shop": "w"}, "odd": {"shop": "x"}, "waiting": {"dish": "v"}}
    larger = graph.with_fine(rows)
    counts = torch.cat([observed.counts, torch.zeros(3).double()])
    sums = torch.cat([observed.sums, torch.zeros(3, FEATURES).double()])
    labels = torch.tensor([0, 3, 4, 7, 12, 13])
    generator = torch.Generator().manual_seed(seed + 100)
    for label in labels.tolist():
        counts[label] += 1 + label % 2
        sums[label] += torch.randn(FEATURES, generator=generator, dtype=torch.float64)
    found = solved.changed(LinkMatrices(larger, larger.kinds), _statistics(counts, sums), labels)
    _assert_same(found, larger, _statistics(counts, sums))


def test_another_photo_in_place_of_one_and_one_photo_less():
    graph = _graph(8)
    observed = _statistics(torch.full((8,), 2.0).double(), torch.randn(8, FEATURES).double())
    solved = SolvedEffects(LinkMatrices(graph, graph.kinds), observed)
    counts, sums = observed.counts.clone(), observed.sums.clone()
    sums[1] += 1.0
    counts[2] -= 1.0
    found = solved.changed(LinkMatrices(graph, graph.kinds), _statistics(counts, sums), torch.tensor([1, 2]))
    _assert_same(found, graph, _statistics(counts, sums))


def test_nothing_changed_changes_nothing():
    graph = _graph(8)
    observed = _observed(graph)
    solved = SolvedEffects(LinkMatrices(graph, graph.kinds), observed)
    found = solved.changed(LinkMatrices(graph, graph.kinds), observed, torch.tensor([], dtype=torch.int64))
    torch.testing.assert_close(found.fine, solved.effects().fine, atol=1e-14, rtol=0)


def test_a_graph_without_kinds():
    graph = LabelGraph(["a", "b", "c"])
    variances = Variances(own=0.5, kinds={}, noise=1.0)
    observed = _statistics(torch.tensor([1.0, 2.0, 0.0]).double(), torch.randn(3, FEATURES).double(), variances)
    solved = SolvedEffects(LinkMatrices(graph, ()), observed)
    counts = torch.tensor([1.0, 2.0, 1.0]).double()
    found = solved.changed(LinkMatrices(graph, ()), _statistics(counts, observed.sums, variances), torch.tensor([2]))
    expected = solve_effects(LinkMatrices(graph, ()), variances, counts, _statistics(counts, observed.sums).means)
    torch.testing.assert_close(found.fine, expected.fine, atol=1e-12, rtol=0)
