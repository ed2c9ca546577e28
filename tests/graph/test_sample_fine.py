"""Fine labels that stand for all: in proportion from every coarse label, and one of each at least."""

import numpy as np
import pytest

from finegraph.graph import LabelGraph
from finegraph.graph.drawing.shown_links import sample_fine
from finegraph.graph.drawing.svg_drawing import draw_svg


def shares(sizes, count):
    parents = np.repeat(np.arange(len(sizes)), sizes)
    chosen = sample_fine([parents], len(parents), count)
    assert len(set(chosen.tolist())) == count
    return np.bincount(parents[chosen], minlength=len(sizes)).tolist()


def test_in_proportion():
    assert shares([100, 50, 50], 60) == [30, 15, 15]


def test_a_small_group_has_one_at_least():
    found = shares([1, 190, 2, 7], 20)
    assert found[0] == found[2] == found[3] == 1
    assert found[1] == 17


def test_no_group_has_more_places_than_labels():
    assert shares([1, 2, 3], 5) == [1, 2, 2]


def test_inside_of_a_group_other_parents_are_spread_too():
    first, second = np.zeros(40, dtype=int), np.arange(40) % 4
    chosen = sample_fine([first, second], 40, 8)
    assert np.bincount(second[chosen]).tolist() == [2, 2, 2, 2]


def test_more_groups_than_places_and_no_groups_at_all():
    assert len(sample_fine([np.arange(50)], 50, 10)) == 10
    assert sample_fine([], 100, 4).tolist() == [12, 37, 62, 87]
    assert sample_fine([], 3, 4).tolist() == [0, 1, 2]


@pytest.mark.parametrize("late", ["last", "first"])
def test_a_drawing_shows_groups_that_come_late_in_the_file(late):
    """The first 60 of a sorted file would all be of one group."""
    groups = ["fruit"] * 70 + ["vegetable"] * 30
    if late == "first":
        groups.reverse()
    graph = LabelGraph.from_table({f"item {n}": {"group": group} for n, group in enumerate(groups)})
    text = draw_svg(graph, max_fine=20)
    assert "fruit: 14 links" in text
    assert "vegetable: 6 links" in text
    assert "20 of 100 fine labels, in proportion from every group." in text
