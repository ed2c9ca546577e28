"""Kinds that are multiplied together or one by one, or factorised once, give the same split."""

import pytest
import torch

from finegraph.graph.sample_menu import sample_menu
from finegraph.inference import explanations
from finegraph.inference.explanations import links_of


@pytest.mark.parametrize("max_edges", [1, 40, 100])
def test_bundles_of_kinds_change_nothing(monkeypatch, max_edges):
    graph = sample_menu()
    kinds = [links_of(graph, kind) for kind in graph.kinds]
    scores = 10 * torch.randn(3, len(graph), dtype=torch.float64, generator=torch.manual_seed(0))
    together = explanations.minimum_norm_split(kinds, scores)
    assert len(explanations._bundles(kinds, explanations.MAX_TOGETHER // 4)) == 1
    monkeypatch.setattr(explanations, "MAX_TOGETHER", max_edges * 4)
    assert len(explanations._bundles(kinds, max_edges)) > 1
    found = explanations.minimum_norm_split(kinds, scores)
    torch.testing.assert_close(found.fine, together.fine)
    for one, two in zip(found.coarse, together.coarse, strict=True):
        torch.testing.assert_close(one, two)
    rebuilt = found.constant + found.fine
    for kind, coarse in zip(kinds, found.coarse, strict=True):
        rebuilt = rebuilt + kind.to_fine(coarse, len(graph))
    torch.testing.assert_close(rebuilt, scores)


def test_a_factor_changes_nothing():
    graph = sample_menu()
    kinds = [links_of(graph, kind) for kind in graph.kinds]
    scores = 10 * torch.randn(3, len(graph), dtype=torch.float64, generator=torch.manual_seed(0))
    factor = explanations.factor_of(kinds, len(graph))
    assert factor is not None
    found, slow = explanations.minimum_norm_split(kinds, scores, factor), explanations.minimum_norm_split(kinds, scores)
    torch.testing.assert_close(found.fine, slow.fine)
    for one, two in zip(found.coarse, slow.coarse, strict=True):
        torch.testing.assert_close(one, two)


def test_large_graphs_have_no_factor(monkeypatch):
    graph = sample_menu()
    kinds = [links_of(graph, kind) for kind in graph.kinds]
    count = sum(kind.count for kind in kinds)
    monkeypatch.setattr(explanations, "_MAX_LABELS", count - 1)
    assert explanations.factor_of(kinds, len(graph)) is None
    monkeypatch.setattr(explanations, "_MAX_LABELS", count)
    monkeypatch.setattr(explanations, "_MAX_CELLS", count * len(graph) - 1)
    assert explanations.factor_of(kinds, len(graph)) is None
    assert explanations.factor_of([], len(graph)) is None
