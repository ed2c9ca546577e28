"""Cells as evidence of groups: likelihoods by enumeration, kinds that cross, and groups by looks and cells together."""

import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch

from finegraph.graph import LabelGraph
from finegraph.graph.kind import Kind
from finegraph.model.fitting.class_means import Variances
from finegraph.model.structure.group_cells import GroupCells, crossing_gain
from finegraph.model.structure.suggested_groups import crossing_of, groups_of
from finegraph.model.teaching.class_statistics import ClassStatistics


def test_the_likelihood_of_cells_sums_to_one():
    """Over all cells of a group of three fine labels, relative to cells drawn by frequency alone."""
    shares = torch.tensor([[0.7, 0.3]], dtype=torch.float64)
    none = torch.zeros(1, 0, dtype=torch.float64)
    total = 0.0
    for labels in product((0, 1), repeat=3):
        counts = torch.tensor([[[labels.count(0), labels.count(1)]]], dtype=torch.float64)
        cells = GroupCells(binary=counts, crossing=none, shares=shares, concentration=0.8)
        by_chance = math.prod(float(shares[0, label]) for label in labels)
        total += by_chance * math.exp(float(cells.log_likelihood(counts, none)))
    assert total == pytest.approx(1.0)


def menu():
    """Sixteen dishes of two items each in four restaurants, which differ in looks and ingredients."""
    random = np.random.default_rng(5)
    dish = np.arange(32) // 2
    place = np.array([(number // 2 + (number % 2) * (1 + number % 3)) % 4 for number in range(32)])
    having = random.random((16, 10)) < 0.4
    parents = {"place": place, **{f"with: {name}": having[dish, name].astype(int) for name in range(10)}}
    labels = {"place": list("ABCD"), **{f"with: {name}": ["no", "yes"] for name in range(10)}}
    graph = LabelGraph.from_parents([f"item {number}" for number in range(32)], parents, labels)
    means = 1.0 * random.normal(0, 1, (16, 40))[dish] + random.normal(0, 0.9, (32, 40))
    counts = torch.full((32,), 4.0, dtype=torch.float64)
    variances = Variances(own=0.5, kinds=dict.fromkeys(graph.kinds, 0.05), noise=0.6)
    sums = torch.from_numpy(means) * counts[:, None]
    return graph, ClassStatistics(counts=counts, sums=sums, variances=variances, strength=1.0), dish


def right_pairs(groups, dish):
    same, true = (own[:, None] == own for own in (groups, dish))
    others = ~np.eye(len(dish), dtype=bool)
    return float((same & true & others).sum() / max((same & others).sum(), 1)), float((same & true & others).sum() / 32)


@pytest.mark.deep
def test_binary_kinds_speak_beside_looks():
    graph, statistics, dish = menu()
    level, *_ = groups_of(graph, statistics)
    exact, found = right_pairs(level.groups, dish)
    assert exact > 0.9
    assert found > 0.9


@pytest.mark.deep
def test_a_kind_that_never_repeats_in_groups_crosses():
    graph, statistics, dish = menu()
    assert crossing_of(graph, statistics) == ("place",)
    assert crossing_gain(graph, "place", np.arange(32), dish) > 0
    assert crossing_gain(graph, "place", np.arange(32), np.arange(32)) == 0


@pytest.mark.deep
def test_a_kind_that_groups_tell_does_not_cross():
    graph, statistics, dish = menu()
    told = graph.only([kind for kind in graph.kinds if kind != "place"])
    told = told.with_kind(Kind.from_parents("cuisine", list("ABCD"), dish % 4))
    variances = replace(statistics.variances, kinds=dict.fromkeys(told.kinds, 0.05))
    assert crossing_of(told, replace(statistics, variances=variances)) == ()
