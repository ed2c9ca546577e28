"""Statistics for another graph, and photos that are held out of them."""

from dataclasses import replace

import pytest
import torch

from finegraph.errors import InputError
from finegraph.graph import LabelGraph
from finegraph.model.fitting.prototypes import fit_prototypes
from finegraph.model.structure.graph_statistics import head_posterior, held_out_probs, statistics_for
from finegraph.model.teaching.class_statistics import ClassStatistics

GRAPH = LabelGraph.from_table({f"label {n}": {"dish": str(n // 2), "shop": str(n % 3)} for n in range(8)})


@pytest.fixture(scope="module")
def seen():
    """Scaled features of three photos of each label, their labels, and the statistics of a fit."""
    random = torch.Generator().manual_seed(0)
    targets = torch.arange(8).repeat_interleave(3)
    centres = torch.randn(8, 10, generator=random)
    features = centres[targets] + 0.5 * torch.randn(24, 10, generator=random)
    fit = fit_prototypes(features, targets, GRAPH)
    return fit.scaling(features).detach(), targets, ClassStatistics.of_fit(fit, features, targets)


def test_a_photo_that_is_held_out_has_no_part_in_its_answer(seen):
    features, targets, statistics = seen
    held = torch.tensor([0, 4, 23])
    kept = torch.tensor([row for row in range(24) if row not in held.tolist()])
    probs, rows = held_out_probs(GRAPH, statistics, features, targets, [(kept, held)])
    counts = torch.bincount(targets[kept], minlength=8).double()
    sums = torch.zeros(8, 10, dtype=torch.float64).index_add_(0, targets[kept], features[kept].double())
    rest = ClassStatistics(counts=counts, sums=sums, variances=statistics.variances, strength=statistics.strength)
    assert rows.tolist() == held.tolist()
    torch.testing.assert_close(probs, head_posterior(rest.solve(GRAPH), features[held]).log_probs().exp())


def test_other_graphs_take_the_photos_of_labels_by_name(seen):
    statistics = seen[2]
    other = LabelGraph.from_table({"new": {"dish": "9"}, "label 3": {"dish": "1"}, "label 0": {"dish": "0"}})
    moved = statistics_for(other, GRAPH, statistics)
    assert moved.counts.tolist() == [0.0, 3.0, 3.0]
    assert torch.equal(moved.sums[1:], statistics.sums[[3, 0]])
    assert set(moved.variances.kinds) == {"dish"}
    with pytest.raises(InputError, match="another data set"):
        statistics_for(LabelGraph.from_table({"x": {}}), GRAPH, statistics)


@pytest.mark.parametrize("left_out", ["heat", "price", "dish"])
def test_a_graph_without_a_number_or_an_ordered_kind_keeps_the_regressions_of_the_others(left_out):
    table = {
        f"label {n}": {"dish": str(n // 2), "price": float(n % 4), "heat": ("mild", "medium", "hot")[n % 3]}
        for n in range(8)
    }
    graph = LabelGraph.from_table(table, {"price": "number", "heat": ("mild", "medium", "hot")})
    random = torch.Generator().manual_seed(0)
    targets = torch.arange(8).repeat_interleave(3)
    values = torch.tensor([[n % 4, n % 3] for n in range(8)]).float()
    centres = torch.cat([3 * values, torch.randn(8, 8, generator=random)], dim=1)
    features = centres[targets] + 0.3 * torch.randn(24, 10, generator=random)
    fit = fit_prototypes(features, targets, graph)
    statistics = ClassStatistics.of_fit(fit, features, targets)
    assert statistics.pulls is not None
    assert statistics.pulls.names == ("heat", "price")
    rest = graph.only([name for name in ("dish", "heat", "price") if name != left_out])
    moved = statistics_for(rest, graph, statistics)
    assert moved.pulls is not None
    assert moved.pulls.names == tuple(name for name in ("heat", "price") if name != left_out)
    for number, name in enumerate(moved.pulls.names):
        place = statistics.pulls.names.index(name)
        assert torch.equal(moved.pulls.weight[number], statistics.pulls.weight[place])
    posterior = head_posterior(moved.solve(rest), fit.scaling(features))
    assert (posterior.log_probs().argmax(dim=1) == targets).double().mean() > 0.9
    turned = graph.with_kind(replace(graph.kind("heat"), labels=("hot", "medium", "mild")))
    other = statistics_for(turned, graph, statistics).pulls
    assert other is not None
    assert other.names == ("price",)
