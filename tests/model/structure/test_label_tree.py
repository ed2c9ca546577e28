"""Trees over fine labels: the true one is found beside another kind, and what is settled does not move again."""

import numpy as np
import pytest
import torch

from finegraph.errors import InputError
from finegraph.graph import LabelGraph
from finegraph.model.fitting.class_means import Variances
from finegraph.model.structure.label_groups import adjusted_rand
from finegraph.model.structure.label_tree import MIN_GAIN, NAME, LabelTree, learn_tree, moves_between
from finegraph.model.teaching.class_statistics import ClassStatistics


@pytest.fixture(scope="module")
def drawn_tree():
    """60 classes of 10 parents in 3 families, sold in 4 shops that look different; the tree is not in the graph."""
    random = np.random.default_rng(0)
    family, parent, shop = random.integers(0, 3, 10), np.arange(60) % 10, random.integers(0, 4, 60)
    means = random.normal(0, 1.5, (3, 40))[family][parent] + random.normal(0, 1.0, (10, 40))[parent]
    means = means + random.normal(0, 1.2, (4, 40))[shop] + random.normal(0, 0.5, (60, 40))
    graph = LabelGraph.from_parents([f"class {n}" for n in range(60)], {"shop": shop})
    counts = torch.full((60,), 4.0, dtype=torch.float64)
    counts[59] = 0.0
    variances = Variances(own=1.0, kinds={"shop": 1.0}, noise=0.4)
    sums = torch.from_numpy(means) * counts[:, None]
    statistics = ClassStatistics(counts=counts, sums=sums, variances=variances, strength=2.5)
    return graph, statistics, parent


def test_the_true_parents_are_found(drawn_tree):
    graph, statistics, parent = drawn_tree
    tree = learn_tree(graph, statistics)
    assert max(adjusted_rand(level[:59], parent[:59]) for level in tree.levels) > 0.95
    assert all(level[59] == -1 for level in tree.levels)  # without a photo there is no parent
    named = tree.named_on(graph)
    assert named.kinds == ("shop", *reversed(tree.kinds))
    assert tree.kinds[-1] == f"{NAME} 1"
    assert [len(named.labels(kind)) for kind in tree.kinds] == [int(level.max()) + 1 for level in tree.levels]
    with_room = tree.on(graph)
    assert [len(with_room.labels(kind)) for kind in tree.kinds] == list(tree.room)
    assert with_room.parents(tree.kinds[0]).tolist() == tree.levels[0].tolist()


@pytest.mark.deep
def test_what_is_settled_stays_and_what_is_not_moves(drawn_tree):
    graph, statistics, _ = drawn_tree
    tree = learn_tree(graph, statistics)
    again = learn_tree(graph, statistics, start=tree)
    assert again.same_as(tree)
    assert again.moves == ()
    first = tree.levels[0].copy()
    first[0] = first[1]
    spoilt = LabelTree.from_dict(
        {"levels": [first.tolist(), *(x.tolist() for x in tree.levels[1:])], "room": tree.room}
    )
    mended = learn_tree(graph, statistics, start=spoilt)
    assert np.array_equal(mended.levels[0], tree.levels[0])
    assert [move.fine for move in mended.moves] == ["class 0"]
    assert "class 0 moved to the group of class " in mended.moves[0].words
    assert mended.room == tree.room


@pytest.mark.deep
def test_a_kind_that_is_called_like_the_tree_is_refused(drawn_tree):
    graph, statistics, _ = drawn_tree
    with pytest.raises(InputError, match="a kind tree already"):
        learn_tree(learn_tree(graph, statistics).named_on(graph), statistics)


def test_moves_between_two_trees_are_those_of_labels_that_are_elsewhere():
    graph = LabelGraph(list("abcdef"))

    def tree(groups):
        return LabelTree(levels=(np.array(groups),), room=(6,))

    def moved(before, after):
        return [(move.fine, move.to) for move in moves_between(graph, tree(before), tree(after))]

    assert moved([0, 0, 0, 1, 1, 1], [0, 0, 0, 1, 1, 1]) == []
    assert moved([0, 0, 0, 1, 1, 1], [1, 1, 1, 0, 0, 0]) == []
    assert moved([0, 0, 0, 1, 1, 1], [0, 0, 1, 1, 1, 1]) == [("c", "d")]
    assert moved([0, 0, 0, 1, 1, 1], [0, 0, 2, 1, 1, 1]) == [("c", "c")]


@pytest.mark.deep
def test_a_tree_that_is_learnt_again_needs_more_than_a_small_gain():
    """With means that moved a little, as those of photos that a network learnt do, nobody leaves their group."""
    random = np.random.default_rng(2)
    centres = random.normal(0, 1, (4, 40))[np.arange(24) % 4]
    means = torch.from_numpy(centres + random.normal(0, 0.5, (24, 40)))
    graph = LabelGraph([f"item {number}" for number in range(24)])
    counts = torch.full((24,), 3.0, dtype=torch.float64)

    def statistics(own):
        variances = Variances(own=0.5, kinds={}, noise=0.3)
        return ClassStatistics(counts=counts, sums=own * counts[:, None], variances=variances, strength=0.3)

    tree = learn_tree(graph, statistics(means))
    again = learn_tree(graph, statistics(means + 0.1 * torch.randn(24, 40, dtype=torch.float64)), start=tree)
    assert all(move.gain >= MIN_GAIN for move in again.moves)
    assert np.array_equal(again.levels[0], tree.levels[0])
