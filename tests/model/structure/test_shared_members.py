"""Two groupings compared by the groups that share members: as tables of groups x groups say, without such a table."""

import tracemalloc

import numpy as np
import pytest

from finegraph.graph import LabelGraph
from finegraph.model.structure.label_groups import adjusted_rand, shared_members
from finegraph.model.structure.label_tree import LabelTree, moves_between
from finegraph.model.structure.suggested_groups import shared_part


def table_of(one, other):
    """How many members each group of one grouping shares with each of the other, slowly."""
    table = np.zeros((max(one) + 1, max(other) + 1))
    for first, second in zip(one, other, strict=True):
        table[first, second] += 1.0
    return table


def moves_by_table(one, two):
    """The moves as rows and where to, label by label from the whole table."""
    known = [row for row in range(len(one)) if one[row] >= 0 and two[row] >= 0]
    table = table_of([one[row] for row in known], [two[row] for row in known])
    goes_on = table.argmax(axis=0)
    found = []
    for row in known:
        if goes_on[two[row]] != one[row]:
            others = [other for other in known if two[other] == two[row] and goes_on[two[other]] == one[other]]
            found.append((row, others[0]))
    for group in range(table.shape[1]):
        old = goes_on[group]
        if table[old, group] and group != table[old].argmax():
            rows = [row for row in known if two[row] == group and one[row] == old]
            found += [(row, rows[0]) for row in rows]
    return found


def drawn(seed):
    """Two groupings of some labels, most of which stay; with gaps, and labels in no group where allowed."""
    random = np.random.default_rng(seed)
    count, groups = int(random.integers(1, 40)), int(random.integers(1, 9))
    one = random.integers(0, groups, count)
    moved = random.random(count) < random.choice([0.1, 0.5, 1.0])
    return one, np.where(moved, random.integers(0, groups + 2, count), one if seed % 2 else groups - one)


@pytest.mark.parametrize("seed", range(60))
def test_pairs_are_the_entries_of_the_table(seed):
    one, other = drawn(seed)
    table = table_of(one, other)
    first, second, counts = shared_members(one, other)
    assert (first.tolist(), second.tolist()) == tuple(place.tolist() for place in np.nonzero(table))
    assert counts.tolist() == table[table > 0].tolist()
    sizes, others = table.sum(axis=1), table.sum(axis=0)
    union = sizes[:, None] + others - table
    overlap = np.divide(table, union, out=np.zeros_like(table), where=union > 0).max(axis=1)
    assert np.array_equal(shared_part(one, other), overlap)


@pytest.mark.parametrize("seed", range(120))
def test_moves_are_those_that_the_table_says(seed):
    one, two = (groups.copy() for groups in drawn(seed))
    unseen = np.random.default_rng(seed).random((2, len(one))) < 0.1
    one[unseen[0]], two[unseen[1]] = -1, -1
    graph = LabelGraph([f"item {number}" for number in range(len(one))])
    trees = [LabelTree(levels=(groups,), room=(20,)) for groups in (one, two)]
    moves = [(graph.fine_index(move.fine), graph.fine_index(move.to)) for move in moves_between(graph, *trees)]
    assert moves == (moves_by_table(one, two) if ((one >= 0) & (two >= 0)).any() else [])


def test_many_groups_take_no_table():
    labels = 20_000
    random = np.random.default_rng(0)
    one, two = random.permutation(labels), random.integers(0, labels, labels)
    graph = LabelGraph([f"item {number}" for number in range(labels)])
    trees = [LabelTree(levels=(groups,), room=(labels,)) for groups in (one, two)]
    tracemalloc.start()
    try:
        adjusted_rand(one, two)
        shared_part(one, two)
        moves_between(graph, *trees)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1000 * labels  # a table of labels x labels has 160,000 bytes for each
