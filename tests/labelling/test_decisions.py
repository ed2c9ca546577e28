"""Decisions: versions, conflicts, votes, disagreements, retries, notes and photos."""

import threading
from itertools import pairwise

import pytest

from finegraph.errors import ConflictError, InputError, UnknownNameError
from finegraph.labelling import Decision

CELL = ("kung pao @ B", "with")


@pytest.mark.parametrize(
    ("fine", "kind", "value", "canonical", "text"),
    [
        ("mapo tofu @ A", "dish", "kung pao", "kung pao", "kung pao"),
        ("mapo tofu @ A", "dish", None, None, ""),
        ("mapo tofu @ A", "dish", {"one_of": ["kung pao", "mapo tofu"]}, {"one_of": ["mapo tofu", "kung pao"]}, None),
        ("mapo tofu @ A", "dish", {"one_of": ["kung pao"]}, "kung pao", "kung pao"),
        (
            "mapo tofu @ A",
            "served",
            {"weights": {"plate": 3, "bowl": 1}},
            {"weights": {"bowl": 0.25, "plate": 0.75}},
            "bowl:0.25|plate:0.75",
        ),
        ("mapo tofu @ A", "served", {"weights": {"plate": 2, "bowl": 2}}, {"one_of": ["bowl", "plate"]}, "bowl|plate"),
        ("mapo tofu @ A", "with", {"all_of": ["pork", "tofu"]}, {"all_of": ["tofu", "pork"]}, "tofu & pork"),
        ("mapo tofu @ A", "with", {"all_of": []}, {"all_of": []}, "&"),
        ("mapo tofu @ A", "with", "pork", {"all_of": ["pork"]}, "pork"),
    ],
)
def test_every_form_of_a_cell_comes_back_in_one_canonical_form(store, new_id, fine, kind, value, canonical, text):
    result = store.decide(fine, kind, value, person="ann", edit_id=new_id(), seen=0)
    assert result.cells[0].value == canonical == store.cell(fine, kind).value
    assert text is None or store.cell(fine, kind).text == text
    assert store.cell(fine, kind).votes == {"ann": canonical}


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        ("dish", {"all_of": ["kung pao"]}, "names one label"),
        ("with", {"one_of": ["pork"]}, "names labels that all hold"),
        ("dish", 3, "expected None"),
        ("dish", {"some": []}, "expected None"),
        ("dish", {"one_of": []}, "no label to choose from"),
        ("served", {"weights": {"plate": -1, "bowl": 1}}, "finite number above 0"),
        ("served", {"weights": {"plate": float("nan"), "bowl": 1}}, "finite number above 0"),
        ("dish", "kung poo", "did you mean 'kung pao'"),
        ("dsh", "kung pao", "did you mean 'dish'"),
    ],
)
def test_wrong_values_are_refused_and_nothing_changes(file_store, new_id, kind, value, message):
    before = file_store.version
    with pytest.raises(InputError, match=message):
        file_store.decide("mapo tofu @ A", kind, value, person="ann", edit_id=new_id(), seen=0)
    assert file_store.version == before


def test_unknown_class_and_bad_person_are_refused(file_store, new_id):
    with pytest.raises(UnknownNameError, match="did you mean 'mapo tofu @ A'"):
        file_store.decide("mapo tofu @A", "dish", "kung pao", person="ann", edit_id=new_id(), seen=0)
    for person in ("", "  ", "a\nb", "x" * 81):
        with pytest.raises(InputError, match="person"):
            file_store.decide("mapo tofu @ A", "dish", "kung pao", person=person, edit_id=new_id(), seen=0)


def test_a_conflict_has_both_values_and_changes_nothing(store, new_id):
    first = store.decide(*CELL, {"all_of": ["pork"]}, person="ann", edit_id=new_id(), seen=0)
    with pytest.raises(ConflictError, match="ann made it 'pork' since you looked, you chose 'tofu'") as caught:
        store.decide(*CELL, {"all_of": ["tofu"]}, person="bob", edit_id=new_id(), seen=0)
    [conflict] = caught.value.conflicts
    assert (conflict.yours, conflict.theirs) == ({"all_of": ["tofu"]}, {"all_of": ["pork"]})
    assert (conflict.by, conflict.version) == ("ann", first.version)
    assert store.cell(*CELL).votes == {"ann": {"all_of": ["pork"]}}


def test_the_same_choice_as_somebody_else_is_no_conflict_but_a_vote(store, new_id):
    store.decide(*CELL, {"all_of": ["pork"]}, person="ann", edit_id=new_id(), seen=0)
    store.decide(*CELL, {"all_of": ["pork"]}, person="bob", edit_id=new_id(), seen=0)
    cell = store.cell(*CELL)
    assert set(cell.votes) == {"ann", "bob"}
    assert not cell.disagreement


def test_disagreement_is_shown_until_it_is_settled_and_opens_again(store, new_id):
    one = store.decide(*CELL, "pork", person="ann", edit_id=new_id(), seen=0)
    two = store.decide(*CELL, "tofu", person="bob", edit_id=new_id(), seen=one.version)
    assert store.cell(*CELL).disagreement
    assert [row.fine for row in store.classes(show="disagreement").rows] == [CELL[0]]
    three = store.resolve(*CELL, "pork", person="cat", edit_id=new_id(), seen=two.version)
    cell = store.cell(*CELL)
    assert (cell.value, cell.disagreement, cell.resolved) == ({"all_of": ["pork"]}, False, True)
    assert cell.votes == {"ann": {"all_of": ["pork"]}, "bob": {"all_of": ["tofu"]}}
    store.decide(*CELL, "tofu", person="dan", edit_id=new_id(), seen=three.version)
    assert store.cell(*CELL).disagreement


def test_unknown_contradicts_nobody(store, new_id):
    one = store.decide(*CELL, "pork", person="ann", edit_id=new_id(), seen=0)
    store.decide(*CELL, None, person="bob", edit_id=new_id(), seen=one.version)
    cell = store.cell(*CELL)
    assert (cell.value, cell.disagreement) == (None, False)
    assert cell.votes == {"ann": {"all_of": ["pork"]}, "bob": None}


def test_a_blind_vote_never_replaces_what_somebody_else_decided(store, new_id):
    store.decide(*CELL, "pork", person="ann", edit_id=new_id(), seen=None)
    assert store.cell(*CELL).value == {"all_of": ["pork"]}  # nobody had decided it
    store.decide(*CELL, "tofu", person="bob", edit_id=new_id(), seen=None)
    cell = store.cell(*CELL)
    assert (cell.value, cell.by, cell.disagreement) == ({"all_of": ["pork"]}, "ann", True)
    store.decide("mapo tofu @ A", "dish", "kung pao", person="bob", edit_id=new_id(), seen=None)
    assert store.cell("mapo tofu @ A", "dish").value == "mapo tofu"  # it was known from the import


def test_a_repeated_edit_is_made_once_and_gives_the_first_result(store):
    first = store.decide(*CELL, "pork", person="ann", edit_id="same", seen=0)
    store.decide(*CELL, "tofu", person="ann", edit_id="other", seen=first.version)
    again = store.decide(*CELL, "pork", person="ann", edit_id="same", seen=0)
    assert again.repeated
    assert (again.batch, again.version, again.cells[0].value) == (first.batch, first.version, first.cells[0].value)
    assert store.cell(*CELL).value == {"all_of": ["tofu"]}
    assert len(store.history(person="ann")) == 2


def test_an_edit_id_belongs_to_one_edit(store):
    store.decide(*CELL, "pork", person="ann", edit_id="same", seen=0)
    with pytest.raises(InputError, match="'same' is that of another edit, made by 'ann'"):
        store.decide(*CELL, "tofu", person="ann", edit_id="same", seen=0)
    with pytest.raises(InputError, match="edit_id: expected a text"):
        store.decide(*CELL, "tofu", person="ann", edit_id="", seen=0)


def test_many_decisions_are_all_made_or_none(store, new_id):
    good = Decision(fine="mapo tofu @ A", kind="dish", value="kung pao", seen=0)
    stale = Decision(fine="kung pao @ A", kind="dish", value="mapo tofu", seen=99)
    with pytest.raises(ConflictError):
        store.decide_many([good, stale], person="ann", edit_id=new_id())
    assert store.cell("mapo tofu @ A", "dish").value == "mapo tofu"
    with pytest.raises(InputError, match="two decisions on one cell"):
        store.decide_many([good, good], person="ann", edit_id=new_id())
    with pytest.raises(InputError, match="at least one"):
        store.decide_many([], person="ann", edit_id=new_id())
    other = Decision(fine="kung pao @ A", kind="dish", value="mapo tofu", seen=0)
    assert store.decide_many([good, other], person="ann", edit_id=new_id()).edits == 2


def test_people_at_once_each_edit_once_in_one_order(store):
    """Six people edit one cell at once, each again and again until it is theirs: all edits are in the log once."""
    failures, acknowledged = [], []

    def person(name):
        try:
            for step in range(3):
                value = "pork" if step % 2 else "tofu"
                while True:
                    seen = store.cell(*CELL).version
                    try:
                        made = store.decide(*CELL, value, person=name, edit_id=f"{name} {step}", seen=seen)
                    except ConflictError:
                        continue
                    acknowledged.append(made.batch)
                    break
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=person, args=(f"p{number}",)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    edits = store.history(fine=CELL[0], kind=CELL[1], limit=1000)
    assert sorted(edit.batch for edit in edits) == sorted(acknowledged)
    assert len(edits) == 18
    chain = list(reversed(edits))
    assert all(one.after == two.before for one, two in pairwise(chain))


def test_notes_have_versions_too(store, new_id):
    first = store.set_note("kung pao @ A", "peanuts\nor cashews?", person="ann", edit_id=new_id(), seen=0)
    row = store.one_class("kung pao @ A")
    assert (row.note, row.note_version) == ("peanuts\nor cashews?", first.note_version)
    with pytest.raises(ConflictError, match="ann has changed the note") as caught:
        store.set_note("kung pao @ A", "none", person="bob", edit_id=new_id(), seen=0)
    assert caught.value.conflicts[0].theirs == "peanuts\nor cashews?"
    with pytest.raises(InputError, match="control character"):
        store.set_note("kung pao @ A", "a\0b", person="bob", edit_id=new_id(), seen=first.note_version)
    assert [r.fine for r in store.classes(show="noted").rows] == ["kung pao @ A"]


def test_photos_have_labels_of_their_own(store, new_id):
    one = store.label_photo("a/1.jpg", "served", "bowl", person="ann", edit_id=new_id(), seen=0, fine="kung pao @ B")
    store.label_photo("a/2.jpg", "with", {"all_of": ["pork"]}, person="ann", edit_id=new_id(), seen=0)
    assert store.cell("kung pao @ B", "served").value == "plate"  # the class stays as it is
    found = store.photo_cells(["a/1.jpg", "a/2.jpg", "a/3.jpg"])
    assert found["a/1.jpg"]["served"].value == "bowl"
    assert found["a/2.jpg"]["with"].value == {"all_of": ["pork"]}
    assert "a/3.jpg" not in found
    with pytest.raises(ConflictError, match=r"ann has labelled 'a/1\.jpg'"):
        store.label_photo("a/1.jpg", "served", "plate", person="bob", edit_id=new_id(), seen=0)
    store.label_photo("a/1.jpg", "served", None, person="bob", edit_id=new_id(), seen=one.version)
    assert [label.photo for label in store.photo_labels()] == ["a/2.jpg"]
    assert [edit.person for edit in store.history(photo="a/1.jpg")] == ["bob", "ann"]
