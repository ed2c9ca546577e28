"""Labels that stand in the names of classes: where they stand is learnt, and accepting one may add it."""

import pytest

from finegraph.errors import ConflictError, GraphError, InputError
from finegraph.graph import LabelGraph
from finegraph.labelling import Decision, LabelStore
from finegraph.labelling.store.graph_columns import store_columns
from finegraph.labelling.suggestions.name_parts import learn_places


def proposed(rows):
    """What the names of undecided classes suggest for the kind "k", given names with their labels."""
    graph = LabelGraph.from_table({name: {"k": label} for name, label in rows.items()})
    place = learn_places(graph.fine, store_columns(graph)).get("k")
    found = {name: place and place.propose(name) for name, label in rows.items() if label is None}
    return {name: one.value for name, one in found.items() if one}


DISHES = ("mapo tofu @ Lei Garden", "mapo tofu @ Chef Yu", "kung pao chicken @ Lei Garden", "shumai @ Golden Wok")


@pytest.mark.parametrize(
    ("names", "labels", "expected"),
    [
        (DISHES, ("mapo tofu", "mapo tofu"), ("kung pao chicken", "shumai")),
        (DISHES, ("Lei Garden", "Chef Yu"), ("Lei Garden", "Golden Wok")),
        (("2012 BMW M3 Coupe", "2010 Audi S4", "1999 Ford F-150 Cab"), ("2012", "2010"), ("1999",)),
        (("BMW M3 Coupe 2012", "Audi S4 2010", "Ford F-150 1999"), ("2012", "2010"), ("1999",)),
        (("BMW M3 Coupe 2012", "Audi S4 2010", "Ford F-150 1999"), ("BMW M3 Coupe", "Audi S4"), ("Ford F-150",)),
        (("Mapo Tofu (Lei Garden)", "Bao (Wok)", "Tea (The Old Inn)"), ("Lei Garden", "Wok"), ("The Old Inn",)),
        (("Tofu at Lei Garden", "Bao at Wok", "Tea at The Inn"), ("Lei Garden", "Wok"), ("The Inn",)),
        (("1.Black_footed_Albatross", "2.Laysan_Albatross", "3.Fish_Crow"), ("Albatross", "Albatross"), ("Crow",)),
        (("Tofu - Spicy - Large", "Bao - Mild - Small", "Tea - Hot - Medium"), ("Spicy", "Mild"), ("Hot",)),
    ],
)
def test_labels_are_found_where_those_of_decided_classes_stand(names, labels, expected):
    decided = dict(zip(names, labels, strict=False))
    found = proposed({name: decided.get(name) for name in names})
    assert tuple(found.values()) == expected


def test_one_class_is_enough_where_a_sign_separates_its_parts():
    assert proposed({"mapo tofu @ A": "mapo tofu", "bao @ B": None}) == {"bao @ B": "bao"}


def test_a_label_that_exists_is_written_as_it_is():
    rows = {"Tofu @ A1": "tofu", "Bao @ A1": "bao", "TOFU @ B2": None}
    assert proposed(rows) == {"TOFU @ B2": "tofu"}


@pytest.mark.parametrize(
    "rows",
    [
        {"tofu small": "tofu", "bao large": None},
        {"tofu @ A": "bowl", "bao @ B": "plate", "tea @ C": None},
        {"tofu @ A": "tofu", "bao @ A": "bao", "x @ 1": "p", "y @ 2": "q", "z @ 3": "r", "tea @ C": None},
    ],
    ids=["one example", "not in the name", "wrong too often"],
)
def test_what_is_not_learnt_is_not_suggested(rows):
    assert proposed(rows) == {}


@pytest.mark.parametrize("name", ["tea", "@ C", "?! @ C", f"{'long ' * 30}@ C"])
def test_names_that_have_nothing_at_the_place(name):
    assert proposed({"tofu @ A": "tofu", "bao @ B": "bao", name: None}) == {}


def test_yes_and_no_and_several_labels_are_left_alone():
    table = {"no @ A": {"k": False, "m": ["no", "A"]}, "yes @ B": {"k": True, "m": ["yes", "B"]}}
    graph = LabelGraph.from_table(table | {"no @ C": {"k": None, "m": None}})
    assert learn_places(graph.fine, store_columns(graph)) == {}


# ---- accepting -------------------------------------------------------------------------------------------------------


@pytest.fixture
def menu_store(tmp_path):
    table = {name: {"dish": "mapo tofu" if name.startswith("mapo") else None} for name in DISHES}
    with LabelStore.create(tmp_path / "s.db") as store:
        store.import_graph(LabelGraph.from_table(table), person="import", edit_id="first")
        yield store


def named(fine, label, seen=0):
    return Decision(fine=fine, kind="dish", value=label, seen=seen)


def accept(store, *decisions, edit_id="accept-1"):
    return store.accept([], person="ann", edit_id=edit_id, named=decisions)


def labels(store):
    return store.kinds()[0].labels


def test_accepting_adds_the_labels_and_is_one_undo(menu_store):
    before = menu_store.graph().digest
    done = accept(menu_store, named(DISHES[2], "kung pao chicken"), named(DISHES[3], "shumai"))
    assert done.text == "accepted 2 suggestions and added 2 labels"
    assert labels(menu_store) == ("mapo tofu", "kung pao chicken", "shumai")
    assert [menu_store.cell(fine, "dish").value for fine in DISHES[2:]] == ["kung pao chicken", "shumai"]
    assert accept(menu_store, named(DISHES[2], "kung pao chicken"), named(DISHES[3], "shumai")).repeated
    menu_store.undo(done.batch, person="ann", edit_id="undo-1")
    assert menu_store.graph().digest == before


def test_a_label_that_two_classes_get_is_added_once(menu_store):
    accept(menu_store, named(DISHES[2], "soup"), named(DISHES[3], "soup"))
    assert labels(menu_store) == ("mapo tofu", "soup")


def test_a_label_that_somebody_else_uses_meanwhile_is_not_undone(menu_store):
    done = accept(menu_store, named(DISHES[2], "soup"))
    assert done.text == "accepted 1 suggestion and added the label 'soup'"
    menu_store.decide(DISHES[3], "dish", "soup", person="bo", edit_id="decide-1", seen=0)
    with pytest.raises(ConflictError):
        menu_store.undo(done.batch, person="ann", edit_id="undo-1")
    assert menu_store.cell(DISHES[3], "dish").value == "soup"


def test_nothing_is_added_where_a_cell_was_changed_meanwhile(menu_store):
    menu_store.decide(DISHES[2], "dish", "mapo tofu", person="bo", edit_id="decide-1", seen=0)
    with pytest.raises(ConflictError):
        accept(menu_store, named(DISHES[2], "kung pao chicken"))
    assert labels(menu_store) == ("mapo tofu",)


def test_what_cannot_be_a_label_is_refused(menu_store):
    with pytest.raises(GraphError):
        accept(menu_store, named(DISHES[2], "two\nlines"))
    with pytest.raises(InputError, match="at least one suggestion"):
        accept(menu_store)
