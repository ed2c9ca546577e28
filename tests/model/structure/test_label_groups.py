"""Groups of fine labels: a known tree is found again, moves only ever gain, and the score is the one it says it is."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal
from sklearn.metrics import adjusted_rand_score

from finegraph.errors import InputError
from finegraph.model.structure import label_groups
from finegraph.model.structure.label_groups import adjusted_rand, group_labels, likely_alpha


def drawn_tree(seed=0, features=32):
    """48 fine labels of 8 parents in 2 families."""
    random = np.random.default_rng(seed)
    family, parent = np.arange(8) % 2, np.arange(48) % 8
    centres = 2.0 * random.normal(0, 1, (2, features))[family] + random.normal(0, 1, (8, features))
    means = centres[parent] + random.normal(0, 0.3, (48, features)) + random.normal(0, 0.3, (48, features))
    return torch.from_numpy(means), torch.full((48,), 0.09, dtype=torch.float64), parent, family[parent]


def test_a_known_tree_is_found_at_both_levels():
    means, noise, parent, family = drawn_tree()
    first, *others = group_labels(means, noise)
    assert adjusted_rand(first.groups.tolist(), parent.tolist()) == 1.0
    assert max(adjusted_rand(level.groups.tolist(), family.tolist()) for level in others) == 1.0
    assert 0.03 < first.own < 0.3
    assert first.between > 1.0


def test_labels_in_wrong_groups_move_out_and_every_move_gains():
    means, noise, parent, _ = drawn_tree()
    start = parent.copy()
    start[[0, 9, 18]] = [5, 6, 7]
    level, *_ = group_labels(means, noise, start=start, levels=1)
    assert adjusted_rand(level.groups.tolist(), parent.tolist()) == 1.0
    assert {move.item for move in level.moves} == {0, 9, 18}
    assert all(move.gain > 0 for move in level.moves)


def test_the_posterior_is_that_of_normal_distributions_and_of_the_restaurant():
    means, noise, _, _ = drawn_tree(features=3)
    search = label_groups._Search(means[:10], noise[:10], 1.0)
    groups = np.array([0, 0, 1, 2, 1, 0, 3, 3, 3, 2])
    search.own, search.between, search.alpha = 0.2, 0.7, 1.5
    covariance = np.diag(0.2 + noise[:10].numpy()) + 0.7 * (groups[:, None] == groups)
    normal = sum(multivariate_normal(cov=covariance).logpdf(means[:10, one].numpy()) for one in range(3))
    normal += 0.5 * 3 * 10 * math.log(2 * math.pi)  # a constant that the search leaves out
    seats, tables = 0.0, {}
    for number, group in enumerate(groups.tolist()):  # guests come one after the other
        seats += math.log(tables.get(group, 1.5) / (number + 1.5))
        tables[group] = tables.get(group, 0) + 1
    assert search._log_posterior(groups) == pytest.approx(normal + seats, rel=1e-9)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_few_labels(count):
    levels = group_labels(torch.randn(count, 4, dtype=torch.float64), torch.ones(count, dtype=torch.float64))
    assert all(len(level.groups) == count for level in levels)


def test_labels_that_are_all_alike_make_no_groups():
    assert group_labels(torch.ones(6, 4, dtype=torch.float64), torch.ones(6, dtype=torch.float64)) == []


def test_too_many_labels_are_refused(monkeypatch):
    monkeypatch.setattr(label_groups, "MAX_LABELS", 5)
    with pytest.raises(InputError, match="at most 5 fine labels with photos, got 6"):
        group_labels(torch.randn(6, 4), torch.ones(6))


def test_agreement_of_groupings():
    random = np.random.default_rng(0)
    for _ in range(5):
        one, other = random.integers(0, 4, 30), random.integers(0, 5, 30)
        assert adjusted_rand(one.tolist(), other.tolist()) == pytest.approx(adjusted_rand_score(one, other))
    assert adjusted_rand([0, 0, 1], [5, 5, 2]) == 1.0


def test_more_groups_come_of_a_larger_alpha():
    assert likely_alpha(50, 1) == pytest.approx(0.1, rel=1e-3)
    assert likely_alpha(50, 5) < likely_alpha(50, 20) < likely_alpha(50, 49)
