"""Suggestions: computed with reasons, kept, listed with contradictions first, accepted as one action."""

import numpy as np
import pytest

from finegraph import LabelGraph
from finegraph.errors import ConflictError, InputError
from finegraph.labelling import LabelStore, MergeLabels, Proposal, RenameLabel
from finegraph.labelling.store.graph_columns import store_columns
from finegraph.labelling.suggestions.proposals import from_model, from_names, from_similar, name_words

DISHES = LabelGraph.from_table(
    {
        "mapo tofu @ A": {"dish": "mapo tofu", "tofu": True, "with": ["tofu", "pork"]},
        "fried tofu": {"dish": "fried", "tofu": True, "with": ["tofu"]},
        "tofu soup": {"dish": "soup", "tofu": True, "with": ["tofu"]},
        "Mapo  TOFU (large)": {"dish": None, "tofu": None, "with": None},
        "pork soup": {"dish": "soup", "tofu": False, "with": ["pork"]},
        "tofurkey": {"dish": None, "tofu": None, "with": None},
    }
)


def found(proposals):
    return {(one.fine, one.kind): one for one in proposals}


def test_names_suggest_labels_whose_words_they_contain():
    proposals = found(from_names(DISHES.fine, store_columns(DISHES)))
    tofu = proposals["Mapo  TOFU (large)", "tofu"]
    assert (tofu.value, tofu.score) == ("yes", pytest.approx(4 / 5))
    assert tofu.reason == "its name contains 'tofu'; 3 of 3 decided classes with it in their name have the label"
    assert proposals["Mapo  TOFU (large)", "dish"].value == "mapo tofu"
    assert proposals["Mapo  TOFU (large)", "with"].value == {"all_of": ["tofu"]}
    assert not [key for key in proposals if key[0] == "tofurkey"]  # a word, not a part of one
    assert name_words("Crème brûlée, 2") == ("creme", "brulee", "2")


def test_names_contradict_only_where_they_were_right_so_far():
    table = {f"tofu {number}": {"has": "yes"} for number in range(8)}
    graph = LabelGraph.from_table({**table, "tofu x": {"has": "no"}, "y": {"has": "no"}})
    columns = store_columns(LabelGraph(graph.fine, [graph.kind("has")]))
    assert not list(from_names(graph.fine, columns))  # the kind is called 'has', which no name contains
    named = LabelGraph.from_table(
        {fine: {"tofu": graph.parents("has")[row] == 1} for row, fine in enumerate(graph.fine)}
    )
    [only] = from_names(named.fine, store_columns(named))
    assert (only.fine, only.value, only.score) == ("tofu x", "yes", pytest.approx(9 / 11))


def test_a_model_suggests_what_it_sees_and_contradicts():
    columns = store_columns(DISHES)
    dish = np.full((6, 3), np.nan)
    dish[0] = [0.1, 0.1, 0.8]  # decided: mapo tofu
    dish[3] = [0.7, 0.2, 0.1]  # unknown
    dish[4] = [0.2, 0.1, 0.7]  # as decided
    dish[5] = [0.4, 0.3, 0.3]  # not sure
    group = np.full((6, 2), np.nan)
    group[3], group[0] = [0.9, 0.2], [0.95, 0.1]
    photos = [3, 0, 0, 1, 2, 2]
    proposals = found(from_model(DISHES.fine, columns, {"dish": dish, "with": group}, photos))
    assert set(proposals) == {
        ("mapo tofu @ A", "dish"),
        ("Mapo  TOFU (large)", "dish"),
        ("Mapo  TOFU (large)", "with"),
        ("mapo tofu @ A", "with"),
    }
    first = proposals["mapo tofu @ A", "dish"]
    assert (first.value, first.score) == ("soup", pytest.approx(0.8))
    assert (
        first.reason == "on 3 photos of the class the model finds 'soup' with 80%, and 'mapo tofu' with 10% on average"
    )
    assert proposals["Mapo  TOFU (large)", "with"].value == {"all_of": ["tofu"]}
    assert proposals["Mapo  TOFU (large)", "with"].score == pytest.approx(0.8)
    assert proposals["mapo tofu @ A", "with"].value == {"all_of": ["tofu"]}  # no pork


def test_similar_classes_suggest_what_they_share():
    columns = store_columns(DISHES)
    features = np.array([[0.0, 1], [0.1, 1.1], [1, 0], [0.95, 0.05], [1.1, 0.1], [np.nan, np.nan]])
    proposals = found(from_similar(DISHES.fine, columns, features))
    soup = proposals["Mapo  TOFU (large)", "dish"]
    assert soup.value == "soup"
    assert soup.reason == "looks most like 'tofu soup' and 'pork soup', which have 'soup'"
    assert not [key for key in proposals if key[0] == "tofurkey"]  # without photos it is like nothing


def proposals_for(store):
    store.put_suggestions(
        "model",
        [
            Proposal("mapo tofu @ A", "dish", "kung pao", "model", 0.7, "seen"),
            Proposal("kung pao @ B", "with", {"all_of": ["pork"]}, "model", 0.9, "seen"),
            Proposal("kung pao @ A", "dish", "kung pao", "model", 0.99, "as it is"),
        ],
    )
    store.put_suggestions("name", [Proposal("kung pao @ B", "with", {"all_of": ["tofu"]}, "name", 0.6, "named")])


def test_contradictions_come_first_and_what_is_followed_is_not_listed(store):
    proposals_for(store)
    page = store.suggestions()
    assert [(one.fine, one.text, one.contradicts) for one in page.rows] == [
        ("mapo tofu @ A", "kung pao", True),
        ("kung pao @ B", "pork", False),
        ("kung pao @ B", "tofu", False),
    ]
    assert page.total == 3
    assert [one.text for one in store.suggestions(source="name").rows] == ["tofu"]
    assert [one.text for one in store.suggestions(contradicting=True).rows] == ["kung pao"]
    assert store.suggestions(kind="with", least=0.8).total == 1
    assert store.suggestions(fine="kung pao @ B", offset=1).rows[0].text == "tofu"
    assert store.classes(order="attention").rows[0].fine == "mapo tofu @ A"
    assert {row.fine for row in store.classes(show="suggested").rows} == {"mapo tofu @ A", "kung pao @ B"}
    with pytest.raises(InputError, match="unknown source"):
        store.suggestions(source="luck")


def test_the_surest_suggestion_of_some_classes(store, new_id):
    """What a list of classes shows beside each; a class that is gone by now is no reason to fail."""
    proposals_for(store)
    best = store.best_suggestions("with", ["kung pao @ B", "mapo tofu @ A", "gone"])
    assert {fine: one.text for fine, one in best.items()} == {"kung pao @ B": "pork"}
    assert best["kung pao @ B"] == store.suggestions(kind="with").rows[0]
    assert [one.text for one in store.best_suggestions("dish", ["mapo tofu @ A", "kung pao @ A"]).values()] == [
        "kung pao"
    ]
    store.accept([best["kung pao @ B"].number], person="ann", edit_id=new_id())
    assert store.best_suggestions("with", ["kung pao @ B"])["kung pao @ B"].text == "tofu"
    assert store.best_suggestions("with", []) == {}


def test_accepting_many_is_one_action_and_one_undo(store, menu, new_id):
    proposals_for(store)
    chosen = store.suggestions(source="model").rows
    made = store.accept([one.number for one in chosen], person="ann", edit_id=new_id())
    assert (made.edits, made.text) == (2, "accepted 2 suggestions")
    assert store.cell("mapo tofu @ A", "dish").value == "kung pao"
    assert store.suggestions().total == 1
    store.undo(made.batch, person="ann", edit_id=new_id())
    assert store.graph() == menu
    assert store.suggestions().total == 3


def test_accepting_what_was_decided_meanwhile_is_a_conflict(store, new_id):
    proposals_for(store)
    rows = store.suggestions(kind="with").rows
    store.decide("kung pao @ B", "with", {"all_of": []}, person="bob", edit_id=new_id(), seen=0)
    with pytest.raises(ConflictError, match="bob made it '&'"):
        store.accept([rows[0].number], person="ann", edit_id=new_id(), seen={rows[0].number: rows[0].seen})
    with pytest.raises(InputError, match="two decisions on one cell"):
        store.accept([one.number for one in rows], person="ann", edit_id=new_id())
    with pytest.raises(InputError, match="no suggestion number 99"):
        store.accept([99], person="ann", edit_id=new_id())


def test_suggestions_of_labels_that_go_are_forgotten(store, new_id):
    proposals_for(store)
    store.apply(MergeLabels(kind="dish", labels=("kung pao",), into="mapo tofu"), person="ann", edit_id=new_id())
    assert {one.kind for one in store.suggestions().rows} == {"with"}


def test_confidence_follows_the_value(store, new_id):
    store.put_beliefs(
        {
            "dish": {"mapo tofu @ A": {"mapo tofu": 0.2, "kung pao": 0.8}},
            "with": {"mapo tofu @ A": {"tofu": 0.9, "pork": 0.4}},
        }
    )
    assert store.cell("mapo tofu @ A", "dish").confidence == pytest.approx(0.2)
    assert store.cell("mapo tofu @ A", "with").confidence == pytest.approx(0.4)
    assert [row.fine for row in store.classes(show="low_confidence", kind="dish").rows] == ["mapo tofu @ A"]
    made = store.decide("mapo tofu @ A", "dish", "kung pao", person="ann", edit_id=new_id(), seen=0)
    assert made.cells[0].confidence == pytest.approx(0.8)
    assert store.classes(show="low_confidence", kind="dish").total == 0
    store.decide(
        "mapo tofu @ A", "dish", {"one_of": ["kung pao", "mapo tofu"]}, person="ann", edit_id="x", seen=made.version
    )
    assert store.cell("mapo tofu @ A", "dish").confidence == pytest.approx(1.0)


def test_beliefs_of_another_time_are_replaced(tmp_path, menu):
    with LabelStore.create(tmp_path / "s.db") as store:
        store.import_graph(menu, person="import", edit_id="first")
        store.put_beliefs({"dish": {"mapo tofu @ A": {"mapo tofu": 0.2}}})
        store.put_beliefs({"dish": {"mapo tofu @ B": {"mapo tofu": 0.3}}})
        assert store.cell("mapo tofu @ A", "dish").confidence is None
        assert store.progress().kinds[0].low_confidence == 1


def test_beliefs_are_told_by_class_kind_and_label(tmp_path, menu):
    with LabelStore.create(tmp_path / "s.db") as store:
        store.import_graph(menu, person="import", edit_id="first")
        assert not store.has_beliefs
        assert store.beliefs(menu.fine) == {}
        said = {"mapo tofu @ A": {"mapo tofu": 0.2, "kung pao": 0.0001}, "mapo tofu @ B": {"mapo tofu": 0.3}}
        store.put_beliefs({"dish": said})
        assert store.has_beliefs
        assert store.beliefs(menu.fine) == {
            "mapo tofu @ A": {"dish": {"mapo tofu": 0.2}},  # too small ones are not kept
            "mapo tofu @ B": {"dish": {"mapo tofu": 0.3}},
        }
        assert store.beliefs(["mapo tofu @ B"], kind="dish") == {"mapo tofu @ B": {"dish": {"mapo tofu": 0.3}}}
        assert store.beliefs(menu.fine, kind="restaurant") == {}
        store.apply(RenameLabel(kind="dish", name="mapo tofu", to="tofu"), person="ann", edit_id="rename-1")
        assert store.beliefs(["mapo tofu @ A"]) == {"mapo tofu @ A": {"dish": {"tofu": 0.2}}}


def test_a_number_never_becomes_that_of_another_suggestion(store, new_id):
    """A page that was open while the suggestions were made anew must not accept another one."""
    proposals_for(store)
    [model, named] = [store.suggestions(kind="with", source=source).rows[0] for source in ("model", "name")]
    other = Proposal("mapo tofu @ A", "with", {"all_of": ["pork"]}, "name", 0.6, "named")
    store.put_suggestions("name", [other])
    with pytest.raises(InputError, match=f"no suggestion number {named.number} any more"):
        store.accept([named.number], person="ann", edit_id=new_id())
    store.put_suggestions("name", [])
    store.put_suggestions("name", [other])
    assert store.suggestions(source="name").rows[0].number > named.number + 1
    proposals_for(store)
    assert store.suggestions(kind="with", source="model").rows[0].number == model.number  # the same one made again
