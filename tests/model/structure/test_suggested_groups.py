"""Groups as kinds: their names, how stable they are, and sets that are confused."""

import numpy as np
import torch

from finegraph.graph import LabelGraph
from finegraph.model.fitting.class_means import Variances
from finegraph.model.structure.suggested_groups import groups_of, stability_of, with_groups
from finegraph.model.structure.suggested_kinds import confused_sets
from finegraph.model.teaching.class_statistics import ClassStatistics


def statistics_of(means, counts, kinds=None):
    variances = Variances(own=0.2, kinds=kinds or {}, noise=0.2)
    return ClassStatistics(counts=counts, sums=means * counts[:, None], variances=variances, strength=5.0)


def drawn(scale=1.0):
    """Twelve fine labels of three groups; the last has no photo."""
    random = np.random.default_rng(0)
    centres = scale * random.normal(0, 1, (3, 24))[np.arange(12) % 3]
    means = torch.from_numpy(centres + random.normal(0, 0.2, (12, 24)))
    counts = torch.full((12,), 4.0, dtype=torch.float64)
    counts[11] = 0
    return LabelGraph([f"item {number}" for number in range(12)]), statistics_of(means, counts)


def test_groups_are_found_and_labels_without_photos_are_alone():
    graph, statistics = drawn()
    level, *_ = groups_of(graph, statistics)
    assert level.groups.tolist() == [0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 3]
    grown = with_groups(graph, [level])
    assert grown.kinds == ("look 1",)
    assert grown.parents("look 1").tolist() == level.groups.tolist()


def test_true_groups_are_stable_and_those_of_chance_are_not():
    graph, statistics = drawn()
    levels = groups_of(graph, statistics, 1)
    assert stability_of(graph, statistics, levels, draws=3)[0].mean > 0.9
    _, chance = drawn(scale=0.0)
    [found] = stability_of(graph, chance, levels, draws=3)
    assert found.mean < 0.7


def test_what_kinds_tell_is_taken_off():
    random = np.random.default_rng(1)
    table = LabelGraph.from_parents(
        [f"i{number}" for number in range(16)],
        {"place": np.arange(16) % 2},
        {"place": ["A", "B"]},
    )
    places, dishes = 3 * random.normal(0, 1, (2, 30)), random.normal(0, 1, (4, 30))
    means = torch.from_numpy(places[np.arange(16) % 2] + dishes[np.arange(16) // 4] + random.normal(0, 0.1, (16, 30)))
    counts = torch.full((16,), 5.0, dtype=torch.float64)
    level, *_ = groups_of(table, statistics_of(means, counts, {"place": 9.0}))
    assert level.groups.tolist() == [0] * 4 + [1] * 4 + [2] * 4 + [3] * 4


def test_confused_labels_are_joined_up_to_a_size():
    probs = torch.full((4, 4), 0.01) + 0.97 * torch.eye(4)
    probs[0, 1], probs[1, 0] = 0.4, 0.4
    assert confused_sets(probs, torch.arange(4)).tolist() == [0, 0, 1, 2]
    assert confused_sets(probs, torch.arange(4), least=0.0, max_size=2).tolist() == [0, 0, 1, 1]
    assert confused_sets(probs, torch.arange(4), max_size=1).tolist() == [0, 1, 2, 3]
    assert confused_sets(torch.ones(1, 1), torch.zeros(1, dtype=torch.long)).tolist() == [0]
