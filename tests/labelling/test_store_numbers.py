"""Numbers and ordered kinds in a store: kept, decided, undone and given back as they were."""

import numpy as np
import pytest

from finegraph import LabelGraph
from finegraph.errors import GraphError
from finegraph.labelling import AddKind, AddLabel, LabelStore, RemoveLabel, RenameKind, RenameLabel
from finegraph.labelling.exchange.diffing import diff_graphs

GRAPH = LabelGraph.from_table(
    {
        "mapo": {"dish": "tofu", "price": (12.5, 1.5), "mass": 300, "heat": "hot"},
        "ramen": {"dish": "noodles", "price": 9, "mass": None, "heat": {"mild", "medium"}},
        "udon": {"dish": "noodles", "price": None, "mass": 0.1, "heat": None},
    },
    {"price": "number, EUR", "mass": "log number", "heat": ("mild", "medium", "hot")},
)


@pytest.fixture
def store(tmp_path):
    with LabelStore.create(tmp_path / "menu.db") as store:
        store.import_graph(GRAPH, person="ann", edit_id="import")
        yield store


def test_people_decide_values_and_undo_them(store):
    store.apply(AddLabel(kind="price", name="7.25"), person="ann", edit_id="1")
    made = store.decide("udon", "price", "7.25", person="ann", edit_id="2", seen=None)
    assert store.graph().values("price").tolist() == [12.5, 9, 7.25]
    assert store.graph().number("price").unit == "EUR"
    store.undo(made.batch, person="ann", edit_id="3")
    assert store.graph() == GRAPH
    assert store.graph(1) == GRAPH


def test_one_of_several_values_is_their_mean_with_a_spread_that_covers_them(store):
    store.decide("udon", "price", {"weights": {"12.5 +- 1.5": 0.25, "9": 0.75}}, person="ann", edit_id="1", seen=None)
    price = store.graph().number("price")
    rng = np.random.default_rng(0)
    drawn = np.where(rng.random(400_000) < 0.25, rng.normal(12.5, 1.5, 400_000), 9.0)
    assert price.values[2] == pytest.approx(drawn.mean(), abs=0.02)
    assert price.spreads[2] == pytest.approx(drawn.std(), abs=0.02)


def test_what_is_no_number_is_refused_in_words(store):
    for number, change in enumerate(
        [
            AddLabel(kind="price", name="cheap"),
            RenameLabel(kind="price", name="9", to="9 USD"),
            AddLabel(kind="mass", name="-3"),
        ]
    ):
        with pytest.raises(GraphError, match="holds numbers, but got"):
            store.apply(change, person="ann", edit_id=str(number))
    assert store.graph() == GRAPH


def test_other_edits_keep_numbers_and_orders(store):
    store.apply(RenameKind(name="price", to="cost"), person="ann", edit_id="1")
    store.apply(AddKind(name="colour", mode="one", labels=("red",)), person="ann", edit_id="2")
    store.apply(AddLabel(kind="heat", name="scorching"), person="ann", edit_id="3")
    graph = store.graph()
    assert (graph.kinds, graph.numbers) == (("dish", "heat", "colour"), ("cost", "mass"))
    assert graph.labels("heat") == ("mild", "medium", "hot", "scorching")
    assert graph.kind("heat").ordered
    assert not graph.kind("dish").ordered


def test_an_order_of_one_label_is_none(store):
    for number, name in enumerate(("mild", "medium")):
        store.apply(RemoveLabel(kind="heat", name=name), person="ann", edit_id=str(number))
    assert not store.graph().kind("heat").ordered


def test_an_export_is_the_graph_and_differences_are_seen(store):
    assert diff_graphs(GRAPH, store.graph()).changes == ()
    dearer = GRAPH.with_number(GRAPH.number("price").rows(np.array([0, 1, 0])))
    assert [change.what for change in diff_graphs(GRAPH, dearer).changes] == ["cell"]
    assert all(finding.severity == "warning" for finding in store.findings())
