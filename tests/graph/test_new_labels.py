"""More fine labels for a graph."""

import pytest

from finegraph.errors import GraphError, UnknownNameError
from finegraph.graph import LabelGraph

TABLE = {
    "mapo @ A": {"dish": "mapo", "place": "A", "with": ["tofu", "pork"], "hot": True},
    "pao @ B": {"dish": "pao", "place": "B", "with": ["pork"], "hot": False},
}


def test_a_longer_table_gives_the_same_graph():
    row = {"dish": "mapo", "place": "C", "with": ["tofu"], "hot": True}
    longer = LabelGraph.from_table(TABLE).with_fine({"mapo @ C": row})
    assert longer == LabelGraph.from_table({**TABLE, "mapo @ C": row})


def test_a_kind_that_is_left_out_is_unknown_and_one_of_several_stays_so():
    longer = LabelGraph.from_table(TABLE).with_fine({"new": {"dish": {"mapo", "pao"}, "place": {"A": 3, "C": 1}}})
    assert longer.matrix("dish").tolist()[-1] == [0.5, 0.5]
    assert longer.matrix("place").tolist()[-1] == [0.75, 0.0, 0.25]
    assert longer.matrix("hot").tolist()[-1] == [0.0, 0.0]
    assert longer.fine == (*TABLE, "new")


def test_the_parts_of_a_group_may_be_given_one_by_one():
    graph = LabelGraph.from_table(TABLE)
    one = graph.with_fine({"new": {"with: tofu": True, "with: pork": "no"}})
    assert one == graph.with_fine({"new": {"with": ["tofu"]}})


@pytest.mark.parametrize(
    ("row", "error", "words"),
    [
        ({"dich": "mapo"}, UnknownNameError, "did you mean 'dish'"),
        ({"with": ["egg"]}, UnknownNameError, "unknown label 'egg' of the group 'with'"),
        ({"with": {"tofu", "pork"}}, GraphError, "give a list of all that hold"),
        ({"hot": "very"}, UnknownNameError, "unknown label 'very' of kind 'hot'"),
        ({"dish": ["mapo"]}, GraphError, "a kind has one label"),
        ({"dish": "Mapo "}, GraphError, "white space"),
        ({"dish": "MAPO"}, GraphError, "is spelt 'mapo' in the graph"),
        ({"with": ["tofu"], "with: tofu": True}, GraphError, "given twice"),
    ],
)
def test_what_cannot_be_meant_is_refused(row, error, words):
    with pytest.raises(error, match=words):
        LabelGraph.from_table(TABLE).with_fine({"new": row})


@pytest.mark.parametrize("label", ["mapo @ A", "Mapo  @ a"])
def test_a_label_that_is_there_is_refused(label):
    with pytest.raises(GraphError, match="the graph has 'mapo @ A' already"):
        LabelGraph.from_table(TABLE).with_fine({label: {}})
