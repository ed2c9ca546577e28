"""Kinds that are suggested: what the graph says already is left out, and what is confused or alike is found."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from drawn_means import drawn

from finegraph.graph import LabelGraph
from finegraph.graph.kind import Kind
from finegraph.model.fitting.class_means import Variances
from finegraph.model.structure.label_groups import adjusted_rand
from finegraph.model.structure.suggested_kinds import (
    CONFUSED,
    has_groups,
    kind_by_confusions,
    kinds_by_looks,
    kinds_by_names,
    news,
    with_suggested,
)
from finegraph.model.teaching.class_statistics import ClassStatistics

NAMES = ("ramen @ A", "ramen @ B", "udon @ A", "udon @ B")


def _statistics(counts, means, variances, kinds=()):
    own = Variances(own=variances.own, kinds={kind: variances.kinds[kind] for kind in kinds}, noise=variances.noise)
    return ClassStatistics(counts=counts, sums=means * counts[:, None], variances=own, strength=1.0 / own.noise)


def test_what_the_graph_says_in_other_words_is_not_suggested():
    graph = LabelGraph.from_table({name: {"shop": f"shop {name[-1]}"} for name in NAMES})
    assert [one.name for one in kinds_by_names(graph)] == ["before @"]
    names = (
        "1 milk red cup",
        "2 milk red mug",
        "3 soup red jar",
        "4 soup blue pan",
        "5 tea blue pot",
        "6 tea blue box",
    )
    drinks = LabelGraph.from_table({name: {"drink": name.split()[1]} for name in names})
    (words,) = (one for one in kinds_by_names(drinks) if one.kinds)
    assert words.columns == ("word: red", "word: blue")
    years = LabelGraph.from_table({f"{2000 + n % 3} car {n}": {} for n in range(9)})
    (year,) = [one for one in kinds_by_names(years) if one.number is not None]
    assert (year.name, year.columns) == ("year", ("year",))
    assert year.on(years).numbers == ("year",)
    assert not [one for one in kinds_by_names(year.on(years)) if one.number is not None]


def test_groups_that_names_tell_too_are_not_suggested_twice():
    graph = LabelGraph.from_table({name: {} for name in NAMES})
    by_names = kinds_by_names(graph)
    same = replace(by_names[0], name="look 1", source="looks")
    other = replace(same, kinds=(Kind.from_parents("look 2", ["x", "y"], np.array([0, 1, 1, 0])),))
    assert news([*by_names, same, other, other]) == [*by_names, other]


@pytest.mark.parametrize(
    "names", [("a",), ("麻婆豆腐 店甲", "麻婆豆腐 店乙", "担担面 店甲", "担担面 店乙"), ("कढ़ी १", "कढ़ी २")]
)
def test_names_of_any_script_and_single_labels_are_taken(names):
    graph = LabelGraph.from_table({name: {} for name in names})
    found = with_suggested(graph, kinds_by_names(graph))
    assert found.fine == graph.fine


@pytest.mark.deep
def test_groups_are_found_beside_the_kinds_that_are_known():
    graph, counts, means, variances = drawn()
    without = graph.only(["tofu"])
    found = kinds_by_looks(without, _statistics(counts, means, variances, ["tofu"]), draws=3)
    assert [one.name for one in found] == ["look"] or found[0].name == "look 1"
    groups, dishes = found[-1].kinds[0].parents, graph.parents("dish")
    for group in np.unique(groups):
        assert len(np.unique(dishes[groups == group])) == 1
    assert found[-1].stability > 0.8
    assert len(found[-1].label_stability) == len(found[-1].kinds[0].labels)
    known = kinds_by_looks(graph, _statistics(counts, means, variances, ["dish", "tofu"]), draws=1)
    assert all(adjusted_rand(one.kinds[0].parents, dishes) < 0.2 for one in known)  # they are taken off


def test_what_is_confused_is_one_kind():
    graph = LabelGraph.from_table({name: {} for name in NAMES})
    probs = torch.tensor([[0.6, 0.4, 0, 0], [0.5, 0.5, 0, 0], [0, 0, 0.9, 0.1], [0, 0, 0.0, 1.0]]).repeat(4, 1)
    targets = torch.tensor([0, 1, 2, 3]).repeat(4)
    (found,) = kind_by_confusions(graph, probs, targets, draws=4)
    assert found.name == CONFUSED
    assert found.kinds[0].parents.tolist() == [0, 0, 1, 1]
    assert found.kinds[0].labels == ("ramen", "udon")
    assert kind_by_confusions(found.on(graph), probs, targets, draws=1) == []  # the graph says it now
    assert kind_by_confusions(graph, torch.eye(4), torch.arange(4), draws=1) == []


def test_a_near_copy_of_found_groups_is_not_suggested_again():
    groups = np.array([0, 0, 0, 1, 1, 1, 2, 2, 2])
    near = np.array([0, 0, 0, 1, 1, 1, 2, 2, 3])
    for name, known in (("often confused", True), ("shelf", False)):
        graph = LabelGraph([f"item {number}" for number in range(9)]).with_kind(
            Kind.from_parents(name, ["a", "b", "c"], groups)
        )
        assert has_groups(graph, near) is known
