"""Undo of any edit or action, and of undos."""

import pytest

from finegraph.errors import ConflictError, InputError
from finegraph.labelling import AddLabel, Decision, MergeLabels, RemoveFine

CELL = ("kung pao @ B", "with")


def test_undo_and_redo_of_a_decision(store, menu, new_id):
    made = store.decide(*CELL, "pork", person="ann", edit_id=new_id(), seen=0)
    undone = store.undo(made.batch, person="ann", edit_id=new_id())
    assert store.graph() == menu
    assert store.cell(*CELL).votes == {}
    assert undone.text.startswith("undid: decided")
    again = store.undo(undone.batch, person="bob", edit_id=new_id())
    assert again.text.startswith("redid: decided")
    cell = store.cell(*CELL)
    assert (cell.value, cell.by, cell.votes) == ({"all_of": ["pork"]}, "ann", {"ann": {"all_of": ["pork"]}})
    store.undo(made.batch, person="ann", edit_id=new_id())
    assert store.graph() == menu


def test_what_is_undone_is_not_undone_again(store, new_id):
    made = store.decide(*CELL, "pork", person="ann", edit_id=new_id(), seen=0)
    store.undo(made.batch, person="ann", edit_id=new_id())
    with pytest.raises(InputError, match="is undone already"):
        store.undo(made.batch, person="ann", edit_id=new_id())
    with pytest.raises(InputError, match="first import of a graph cannot be undone"):
        store.undo(1, person="ann", edit_id=new_id())
    with pytest.raises(InputError, match="no action number 99"):
        store.undo(99, person="ann", edit_id=new_id())


def test_an_earlier_edit_is_undone_unless_it_was_changed_again(store, new_id):
    one = store.decide("mapo tofu @ A", "dish", "kung pao", person="ann", edit_id=new_id(), seen=0)
    two = store.decide("mapo tofu @ B", "dish", "kung pao", person="ann", edit_id=new_id(), seen=0)
    three = store.decide("mapo tofu @ B", "dish", None, person="bob", edit_id=new_id(), seen=two.version)
    store.undo(one.batch, person="ann", edit_id=new_id())
    assert store.cell("mapo tofu @ A", "dish").value == "mapo tofu"
    with pytest.raises(ConflictError, match="changed again since") as caught:
        store.undo(two.batch, person="ann", edit_id=new_id())
    conflict = caught.value.conflicts[0]
    assert (conflict.fine, conflict.yours, conflict.theirs) == ("mapo tofu @ B", "mapo tofu", None)
    store.undo(three.batch, person="bob", edit_id=new_id())
    store.undo(two.batch, person="ann", edit_id=new_id())
    assert store.cell("mapo tofu @ B", "dish").value == "mapo tofu"


def test_who_agreed_keeps_the_value_when_the_first_one_undoes(store, new_id):
    one = store.decide(*CELL, "pork", person="ann", edit_id=new_id(), seen=0)
    store.decide(*CELL, "pork", person="bob", edit_id=new_id(), seen=one.version)
    store.undo(one.batch, person="ann", edit_id=new_id())
    cell = store.cell(*CELL)
    assert (cell.value, cell.by, cell.votes) == ({"all_of": ["pork"]}, "bob", {"bob": {"all_of": ["pork"]}})


def test_one_edit_of_an_action_and_then_the_rest(store, menu, new_id):
    decisions = [Decision(fine=fine, kind="dish", value=None, seen=0) for fine in menu.fine]
    made = store.decide_many(decisions, person="ann", edit_id=new_id())
    numbers = [edit.number for edit in store.history(batch=made.batch)]
    store.undo_edit(numbers[1], person="ann", edit_id=new_id())
    assert sum(store.cell(fine, "dish").value is not None for fine in menu.fine) == 1
    assert not store.batches()[1].undone
    store.undo(made.batch, person="ann", edit_id=new_id())
    assert store.graph() == menu
    with pytest.raises(InputError, match="no edit number 999"):
        store.undo_edit(999, person="ann", edit_id=new_id())


def test_the_last_action_that_a_person_can_undo(store, new_id):
    assert store.last_undoable("ann") is None
    one = store.decide(*CELL, "pork", person="ann", edit_id=new_id(), seen=0)
    two = store.decide(*CELL, "tofu", person="ann", edit_id=new_id(), seen=one.version)
    store.set_note("kung pao @ B", "x", person="bob", edit_id=new_id(), seen=0)
    assert store.last_undoable("ann") == two.batch
    store.undo(two.batch, person="ann", edit_id=new_id())
    assert store.last_undoable("ann") == one.batch
    store.undo(one.batch, person="ann", edit_id=new_id())
    assert store.last_undoable("ann") is None
    assert store.last_undoable("import") is None


def test_an_undo_never_leads_to_a_label_that_is_gone(store, new_id):
    made = store.decide("mapo tofu @ A", "dish", "kung pao", person="ann", edit_id=new_id(), seen=0)
    merged = store.apply(
        MergeLabels(kind="dish", labels=("mapo tofu",), into="kung pao"), person="bob", edit_id=new_id()
    )
    with pytest.raises(ConflictError, match="the label 'mapo tofu' of kind 'dish' was removed or merged since"):
        store.undo(made.batch, person="ann", edit_id=new_id())
    store.undo(merged.batch, person="bob", edit_id=new_id())
    store.undo(made.batch, person="ann", edit_id=new_id())
    assert store.cell("mapo tofu @ A", "dish").value == "mapo tofu"


def test_adding_a_label_is_not_undone_while_it_is_in_use(store, new_id):
    added = store.apply(AddLabel(kind="dish", name="ramen"), person="ann", edit_id=new_id())
    used = store.decide("mapo tofu @ A", "dish", "ramen", person="bob", edit_id=new_id(), seen=0)
    with pytest.raises(ConflictError, match="the label 'ramen' of kind 'dish' is in use since"):
        store.undo(added.batch, person="ann", edit_id=new_id())
    store.undo(used.batch, person="bob", edit_id=new_id())
    store.undo(added.batch, person="ann", edit_id=new_id())
    assert store.kinds()[0].labels == ("mapo tofu", "kung pao")


def test_notes_photos_and_classes_come_back(store, menu, new_id):
    note = store.set_note("kung pao @ A", "x", person="ann", edit_id=new_id(), seen=0)
    photo = store.label_photo("1.jpg", "dish", "kung pao", person="ann", edit_id=new_id(), seen=0)
    gone = store.apply(RemoveFine(name="kung pao @ A"), person="ann", edit_id=new_id())
    assert len(store.graph()) == 3
    for batch in (gone.batch, photo.batch, note.batch):
        undone = store.undo(batch, person="ann", edit_id=new_id())
        redone = store.undo(undone.batch, person="ann", edit_id=new_id())
        store.undo(redone.batch, person="ann", edit_id=new_id())
    assert store.graph() == menu
    assert store.one_class("kung pao @ A").note == ""
    assert store.photo_labels() == []


def test_a_merge_that_later_edits_touched(store, menu, new_id):
    """The later decision is not overwritten: both values come back; undone in turn, everything is as it was."""
    merge = MergeLabels(kind="dish", labels=("kung pao",), into="mapo tofu")
    merged = store.apply(merge, person="ann", edit_id=new_id())
    seen = store.cell("kung pao @ A", "dish").version
    later = store.decide("kung pao @ A", "dish", None, person="bob", edit_id=new_id(), seen=seen)
    with pytest.raises(ConflictError, match="changed again since") as caught:
        store.undo(merged.batch, person="ann", edit_id=new_id())
    [conflict] = caught.value.conflicts
    assert (conflict.fine, conflict.yours, conflict.theirs, conflict.by) == ("kung pao @ A", "kung pao", None, "bob")
    for batch in (later.batch, merged.batch):
        store.undo(batch, person="ann", edit_id=new_id())
    assert store.graph() == menu
    again = store.undo(store.batches()[0].number, person="ann", edit_id=new_id())
    assert again.text.startswith("redid: merged")
    assert store.kinds()[0].labels == ("mapo tofu",)


def test_what_somebody_settled_is_not_overwritten(store, new_id):
    cell = ("mapo tofu @ A", "served")
    one = store.decide(*cell, "plate", person="bob", edit_id=new_id(), seen=0)
    two = store.decide(*cell, "bowl", person="ann", edit_id=new_id(), seen=one.version)
    settled = store.resolve(*cell, "bowl", person="cat", edit_id=new_id(), seen=two.version)
    with pytest.raises(ConflictError, match="changed again since"):
        store.undo(two.batch, person="ann", edit_id=new_id())
    assert (store.cell(*cell).value, store.cell(*cell).resolved) == ("bowl", True)
    store.undo(settled.batch, person="cat", edit_id=new_id())
    store.undo(two.batch, person="ann", edit_id=new_id())
    assert store.cell(*cell).value == "plate"


def test_who_confirmed_an_import_keeps_the_value_when_it_is_undone(store, new_id):
    cells = [("mapo tofu @ A", "dish"), ("mapo tofu @ B", "dish")]
    made = [store.decide(*cell, "kung pao", person="cat", edit_id=new_id(), seen=0) for cell in cells]
    graph = store.graph()
    for one in made:
        store.undo(one.batch, person="cat", edit_id=new_id())
    imported = store.import_graph(graph, person="ann", edit_id=new_id())
    seen = store.cell(*cells[0]).version
    store.decide(*cells[0], "kung pao", person="bob", edit_id=new_id(), seen=seen)
    at = store.cell(*cells[0]).at
    store.undo(imported.batch, person="ann", edit_id=new_id())
    cell = store.cell(*cells[0])
    assert (cell.value, cell.by, cell.votes, cell.at[:19]) == ("kung pao", "bob", {"bob": "kung pao"}, at[:19])
    assert store.cell(*cells[1]).value == "mapo tofu"


def test_an_earlier_blind_vote_does_not_keep_the_value(store, new_id):
    cell = ("mapo tofu @ A", "dish")
    store.decide(*cell, "kung pao", person="bob", edit_id=new_id(), seen=None)
    made = store.decide(*cell, "kung pao", person="ann", edit_id=new_id(), seen=store.cell(*cell).version)
    assert store.cell(*cell).value == "kung pao"
    store.undo(made.batch, person="ann", edit_id=new_id())
    found = store.cell(*cell)
    assert (found.value, found.by, found.votes) == ("mapo tofu", "import", {"bob": "kung pao"})
