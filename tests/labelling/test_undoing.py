"""Undo of any edit or action, and of undos."""

import pytest

from finegraph.errors import ConflictError, InputError
from finegraph.labelling import (
    AddFine,
    AddKind,
    AddLabel,
    Decision,
    MergeLabels,
    RemoveFine,
    RemoveKind,
    RemoveLabel,
    SplitKind,
)

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


# ---- undos of undos --------------------------------------------------------------------------------------------------


def in_effect(store, number):
    """Which of the first actions after the import hold, by what the log says."""
    return [batch.number for batch in reversed(store.batches()) if 1 < batch.number <= number and not batch.undone]


def test_an_undo_of_a_redo_undoes_the_first_action_again(store, menu, new_id):
    made = store.decide(*CELL, "pork", person="ann", edit_id=new_id(), seen=0)
    earlier, turns = made.batch, 0
    assert store.last_undoable("ann") == made.batch
    while turns < 5:
        earlier, turns = store.undo(earlier, person="ann", edit_id=new_id()).batch, turns + 1
        undone = turns % 2 == 1
        # Every other action of the chain holds: the last one always, those that it has undone do not.
        assert in_effect(store, earlier) == list(range(made.batch + turns % 2, earlier + 1, 2))
        assert store.last_undoable("ann") == (None if undone else made.batch)
        assert [batch.is_undo for batch in store.batches(limit=2)] == [undone, turns > 1 and not undone]
        assert store.batches()[0].text == f"{'undid' if undone else 'redid'}: decided 'kung pao @ B', 'with'"
        assert store.cell(*CELL).value == (None if undone else {"all_of": ["pork"]})
    assert store.graph() == menu


def test_an_undo_of_one_edit_is_no_action_to_undo_next(store, new_id):
    first = store.decide("mapo tofu @ A", "dish", "kung pao", person="ann", edit_id=new_id(), seen=0)
    second = store.decide(*CELL, "pork", person="ann", edit_id=new_id(), seen=0)
    undone = store.undo_edit(second.version, person="ann", edit_id=new_id())
    assert store.batches()[0].undoes == second.batch
    assert store.last_undoable("ann") == first.batch
    redone = store.undo(undone.batch, person="ann", edit_id=new_id())
    assert redone.text == "redid one edit of: decided 'kung pao @ B', 'with'"
    assert store.last_undoable("ann") == second.batch


# ---- kinds and classes that would go ---------------------------------------------------------------------------------

SPICY = AddKind(name="spicy", labels=("no", "yes"))


def test_adding_a_kind_is_not_undone_while_people_have_decided_in_it(store, menu, new_id):
    added = store.apply(SPICY, person="ann", edit_id=new_id())
    made = [store.decide(fine, "spicy", "yes", person="bob", edit_id=new_id(), seen=0) for fine in menu.fine[:3]]
    blind = store.decide(menu.fine[3], "spicy", "no", person="cat", edit_id=new_id(), seen=None)
    photo = store.label_photo("1.jpg", "spicy", "no", person="bob", edit_id=new_id(), seen=0)
    text = "the kind 'spicy' holds 5 decisions made since, the last by 'bob'; undo them first, or remove it by name"
    with pytest.raises(ConflictError, match=text) as caught:
        store.undo(added.batch, person="ann", edit_id=new_id())
    [conflict] = caught.value.conflicts
    assert (conflict.what, conflict.kind, conflict.by, conflict.theirs) == ("kind", "spicy", "bob", "5 decisions")
    for one in (*made, blind):
        store.undo(one.batch, person="bob", edit_id=new_id())
    with pytest.raises(ConflictError, match="holds 1 decision made since"):
        store.undo(added.batch, person="ann", edit_id=new_id())
    store.undo(photo.batch, person="bob", edit_id=new_id())
    store.undo(added.batch, person="ann", edit_id=new_id())
    assert store.graph() == menu


def test_what_was_made_unknown_again_is_no_reason_to_keep_a_kind(store, menu, new_id):
    added = store.apply(SPICY, person="ann", edit_id=new_id())
    made = store.decide(menu.fine[0], "spicy", "yes", person="ann", edit_id=new_id(), seen=0)
    store.decide(menu.fine[0], "spicy", None, person="ann", edit_id=new_id(), seen=made.version)
    store.undo(added.batch, person="ann", edit_id=new_id())
    assert store.graph() == menu


@pytest.mark.parametrize("what", ["cell", "note", "photo"])
def test_adding_a_class_is_not_undone_while_something_is_said_of_it(store, menu, new_id, what):
    added = store.apply(AddFine(name="ramen @ C"), person="ann", edit_id=new_id())
    if what == "cell":
        made = store.decide("ramen @ C", "served", "bowl", person="bob", edit_id=new_id(), seen=0)
    elif what == "photo":
        arguments = {"fine": "ramen @ C", "person": "bob", "edit_id": new_id(), "seen": 0}
        made = store.label_photo("1.jpg", "served", "bowl", **arguments)
    else:
        made = store.set_note("ramen @ C", "hot", person="bob", edit_id=new_id(), seen=0)
    with pytest.raises(ConflictError, match="the class 'ramen @ C' holds 1 decision made since"):
        store.undo(added.batch, person="ann", edit_id=new_id())
    store.undo(made.batch, person="bob", edit_id=new_id())
    store.undo(added.batch, person="ann", edit_id=new_id())
    assert store.graph() == menu


def test_a_kind_that_was_removed_is_not_removed_again_with_new_decisions(store, new_id):
    removed = store.apply(RemoveKind(name="served"), person="ann", edit_id=new_id())
    back = store.undo(removed.batch, person="ann", edit_id=new_id())
    again = store.undo(back.batch, person="ann", edit_id=new_id())  # nobody has decided anything: redo as ever
    back = store.undo(again.batch, person="ann", edit_id=new_id())
    store.decide("mapo tofu @ A", "served", "plate", person="bob", edit_id=new_id(), seen=0)
    with pytest.raises(ConflictError, match="the kind 'served' holds 1 decision made since, the last by 'bob'"):
        store.undo(back.batch, person="ann", edit_id=new_id())
    store.apply(RemoveKind(name="served"), person="ann", edit_id=new_id())  # what one asks for by name is done


def test_a_split_is_not_undone_with_decisions_in_cells_that_it_did_not_touch(store, menu, new_id):
    split = store.apply(SplitKind(name="served", into={"on": ("plate",)}), person="ann", edit_id=new_id())
    assert store.cell("mapo tofu @ A", "on").value is None
    later = store.decide("mapo tofu @ A", "on", "plate", person="bob", edit_id=new_id(), seen=0)
    confirmed = store.cell("kung pao @ B", "on").version
    agreed = store.decide("kung pao @ B", "on", "plate", person="bob", edit_id=new_id(), seen=confirmed)
    with pytest.raises(ConflictError, match="the kind 'on' holds 2 decisions made since"):
        store.undo(split.batch, person="ann", edit_id=new_id())
    for one in (later, agreed, split):
        store.undo(one.batch, person="bob", edit_id=new_id())
    assert store.graph() == menu


def test_an_import_is_not_undone_with_what_was_decided_in_what_it_brought(store, menu, new_id):
    store.apply(SPICY, person="ann", edit_id=new_id())
    store.apply(AddFine(name="ramen @ C"), person="ann", edit_id=new_id())
    graph = store.graph()
    for batch in store.batches(limit=2):
        store.undo(batch.number, person="ann", edit_id=new_id())
    imported = store.import_graph(graph, person="ann", edit_id=new_id())
    cells = [(menu.fine[0], "spicy"), ("ramen @ C", "dish"), ("ramen @ C", "spicy")]
    values = ["yes", "kung pao", "no"]
    made = [
        store.decide(*cell, value, person="bob", edit_id=new_id(), seen=0)
        for cell, value in zip(cells, values, strict=True)
    ]
    with pytest.raises(ConflictError, match=r"the kind 'spicy' holds 2 decisions .* \(and 1 more such\)") as caught:
        store.undo(imported.batch, person="ann", edit_id=new_id())
    assert [(one.kind, one.fine) for one in caught.value.conflicts] == [("spicy", None), (None, "ramen @ C")]
    for one in made:
        store.undo(one.batch, person="bob", edit_id=new_id())
    store.undo(imported.batch, person="ann", edit_id=new_id())
    assert store.graph() == menu


def test_a_kind_does_not_come_back_with_a_label_that_went_meanwhile(store, new_id):
    """While a kind is removed nobody sees its cells; what they name must still be there when it comes back."""
    added = store.apply(AddLabel(kind="dish", name="ramen"), person="ann", edit_id=new_id())
    store.decide("kung pao @ B", "dish", "ramen", person="bob", edit_id=new_id(), seen=0)
    removed = store.apply(RemoveKind(name="dish"), person="ann", edit_id=new_id())
    gone = store.undo(added.batch, person="ann", edit_id=new_id())
    before = store.graph()
    with pytest.raises(ConflictError, match="'ramen' of kind 'dish' was removed or merged since; undo that first"):
        store.undo(removed.batch, person="ann", edit_id=new_id())
    assert store.graph() == before
    store.undo(gone.batch, person="ann", edit_id=new_id())
    store.undo(removed.batch, person="ann", edit_id=new_id())
    assert store.cell("kung pao @ B", "dish").value == "ramen"
    assert store.graph().kind("dish")
    assert store.label_counts("dish")["ramen"] == 1


def test_one_edit_of_a_removed_kind_is_not_undone_into_a_label_that_is_gone(store, new_id):
    label = store.apply(RemoveLabel(kind="dish", name="kung pao"), person="ann", edit_id=new_id())
    kind = store.apply(RemoveKind(name="dish"), person="ann", edit_id=new_id())
    cell = next(edit for edit in store.history(batch=label.batch) if edit.target == "cell")
    store.undo_edit(cell.number, person="ann", edit_id=new_id())
    with pytest.raises(ConflictError, match="'kung pao' of kind 'dish' was removed or merged since"):
        store.undo(kind.batch, person="ann", edit_id=new_id())
    assert store.export_text("csv")
