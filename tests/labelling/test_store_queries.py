"""Lists, searches, filters, progress, history and live findings."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from finegraph import LabelGraph
from finegraph.errors import InputError, UnknownNameError
from finegraph.labelling import (
    AddKind,
    AddLabel,
    Decision,
    LabelStore,
    Numbers,
    Proposal,
    RemoveFine,
    RemoveKind,
    RenameFine,
    RenameKind,
    RenameLabel,
)
from finegraph.labelling.questions.queries import ORDERS, SHOWN


def names(page):
    return names_of(page.rows)


def names_of(rows):
    return [row.fine for row in rows]


def test_pages_in_the_order_of_the_graph_and_by_name(store, menu):
    assert names(store.classes()) == list(menu.fine)
    assert names(store.classes(order="name")) == sorted(menu.fine)
    page = store.classes(offset=1, limit=2)
    assert (names(page), page.total, page.offset) == (list(menu.fine[1:3]), 4, 1)
    assert set(page.rows[0].cells) == {"dish", "restaurant", "with", "served"}
    assert set(store.classes(kinds=["dish"]).rows[0].cells) == {"dish"}


def test_search_by_words_without_case_and_accents(tmp_path):
    fine = ["Crème Brûlée", "creme caramel", "100%_pure", "日本 ramen", "a' OR 1=1 --"]
    with LabelStore.create(tmp_path / "s.db") as store:
        store.import_graph(LabelGraph(fine, []), person="import", edit_id="first")
        assert names(store.classes(search="CREME")) == fine[:2]
        assert names(store.classes(search="brulee  crème")) == fine[:1]
        assert names(store.classes(search="%")) == [fine[2]]
        assert names(store.classes(search="_")) == [fine[2]]
        assert names(store.classes(search="日本")) == [fine[3]]
        assert names(store.classes(search="' or 1")) == [fine[4]]
        assert names(store.classes(search="nothing")) == []


def test_search_on_a_server(store):
    assert names(store.classes(search="KUNG b")) == ["kung pao @ B"]


def test_questions_in_a_block_see_one_state(store, menu, new_id):
    fine = menu.fine[0]

    def edit():
        seen = store.cell(fine, "dish").version
        return store.decide(fine, "dish", None, person="ann", edit_id=new_id(), seen=seen).version

    with store.one_state():
        version, before = store.version, store.one_class(fine).cells["dish"]
        with ThreadPoolExecutor(1) as other:
            made = other.submit(edit).result()  # another thread sees what is there now
            assert other.submit(lambda: store.version).result() == made == version + 1
        with store.one_state():  # in a block that is open already: the same state
            assert store.one_class(fine).cells["dish"] == before != store.cell(menu.fine[1], "dish")
        assert (store.version, store.changes(version).edits) == (version, ())
    assert store.version == made
    assert store.one_class(fine).cells["dish"].value is None
    assert [edit["number"] for edit in store.changes(version).edits] == [made]


def test_a_block_that_fails_leaves_no_state_behind(store, menu, new_id):
    with pytest.raises(UnknownNameError, match="no such class"), store.one_state():
        store.one_class("no such class")
    version = store.version
    store.set_note(menu.fine[0], "seen", person="ann", edit_id=new_id(), seen=0)
    assert store.version == version + 1


def test_filters(store, menu, new_id):
    assert names(store.classes(show="unknown")) == ["kung pao @ B"]
    assert names(store.classes(show="unknown", kind="with")) == ["kung pao @ B"]
    assert names(store.classes(show="unknown", kind="dish")) == []
    assert names(store.classes(show="known", kind="with")) == [fine for fine in menu.fine if fine != "kung pao @ B"]
    assert store.classes(show="known").total == 3
    assert names(store.classes(kind="with", label="tofu")) == ["mapo tofu @ A", "mapo tofu @ B"]
    assert names(store.classes(kind="served", label="bowl")) == ["mapo tofu @ A", "mapo tofu @ B", "kung pao @ A"]
    assert store.label_counts("served") == {"bowl": 3, "plate": 3}
    store.decide("kung pao @ B", "with", "pork", person="ann", edit_id=new_id(), seen=0)
    assert store.classes(show="unknown").total == 0
    made = store.apply(AddKind(name="hot", labels=("no", "yes")), person="ann", edit_id=new_id())
    assert store.classes(show="unknown").total == 4
    store.decide("kung pao @ B", "hot", True, person="ann", edit_id=new_id(), seen=0)
    assert names(store.classes(show="known")) == ["kung pao @ B"]
    store.apply(RemoveKind(name="hot"), person="ann", edit_id=new_id())
    assert store.classes(show="unknown").total == 0
    assert made.edits == 3


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ({"show": "some"}, "show: expected one of"),
        ({"order": "size"}, "order: expected one of"),
        ({"limit": 0}, "1 to 1000 classes"),
        ({"offset": -1}, "an offset of 0 or more"),
        ({"label": "tofu"}, "name the kind too"),
    ],
)
def test_wrong_questions(file_store, question, message):
    with pytest.raises(InputError, match=message):
        file_store.classes(**question)
    with pytest.raises(UnknownNameError, match="did you mean 'dish'"):
        file_store.classes(kind="dsh")


def test_progress_per_kind_and_person(store, menu, new_id):
    store.decide("kung pao @ B", "with", "pork", person="ann", edit_id=new_id(), seen=0)
    store.decide("kung pao @ B", "with", "tofu", person="bob", edit_id=new_id(), seen=None)
    store.decide("kung pao @ B", "dish", "kung pao", person="bob", edit_id=new_id(), seen=None)
    found = store.progress()
    by_kind = {kind.kind: kind for kind in found.kinds}
    assert (by_kind["with"].known, by_kind["with"].unknown, by_kind["with"].disagreements) == (4, 0, 1)
    assert by_kind["dish"].total == found.classes == 4
    people = {person.person: person for person in found.people}
    assert people["bob"].kinds == {"dish": 1, "with": 1}
    assert (people["ann"].decisions, people["ann"].today) == (1, 1)
    assert store.people() == ("ann", "bob", "import")


def test_classes_that_are_removed_count_nowhere(file_store, new_id):
    file_store.apply(RemoveFine(name="kung pao @ B"), person="ann", edit_id=new_id())
    assert (file_store.classes().total, file_store.classes(show="unknown").total) == (3, 0)
    assert file_store.progress().kinds[0].total == 3
    assert file_store.label_counts("dish") == {"mapo tofu": 2, "kung pao": 1}


def test_history_of_one_cell_speaks_in_present_names(store, new_id):
    one = store.decide("kung pao @ B", "with", "pork", person="ann", edit_id=new_id(), seen=0)
    store.decide("kung pao @ B", "with", "tofu", person="bob", edit_id=new_id(), seen=one.version)
    store.apply(RenameLabel(kind="with", name="pork", to="beef"), person="ann", edit_id=new_id())
    edits = store.history(fine="kung pao @ B", kind="with")
    assert [(edit.person, edit.before, edit.after) for edit in edits] == [
        ("bob", {"all_of": ["beef"]}, {"all_of": ["tofu"]}),
        ("ann", None, {"all_of": ["beef"]}),
    ]
    assert [edit.number for edit in store.history(before=3, limit=1)] == [2]
    assert store.history(person="nobody") == []
    assert [batch.action for batch in store.batches()] == ["rename_label", "decide", "decide", "import"]
    assert [batch.can_undo for batch in store.batches()] == [True, True, True, False]


def test_live_findings_name_the_cells(tmp_path, new_id):
    table = {f"dish {n}": {"dish": "ramen" if n < 6 else "udon", "egg": "yes" if n % 2 else "no"} for n in range(8)}
    table["dish 8"] = {"dish": "ramem", "egg": None}
    with LabelStore.create(tmp_path / "s.db") as store:
        store.import_graph(LabelGraph.from_table(table), person="import", edit_id="first")
        by_rule = {finding.rule: finding for finding in store.findings()}
        assert (by_rule["misspelt-label"].kind, by_rule["misspelt-label"].label) == ("dish", "ramem")
        assert by_rule["misspelt-label"].fine == ("dish 8",)
        assert set(by_rule["not-told-apart"].fine) >= {"dish 0", "dish 2"}
        store.decide("dish 8", "dish", "ramen", person="ann", edit_id=new_id(), seen=0)
        assert "misspelt-label" not in {finding.rule for finding in store.findings()}
        assert {f.label for f in store.findings() if f.rule == "unused-label"} == {"ramem"}


def test_findings_of_a_group_are_those_of_its_column(tmp_path):
    table = {f"d{n}": {"with": ["egg", "pork"] if n else ["egg"]} for n in range(5)}
    with LabelStore.create(tmp_path / "s.db") as store:
        store.import_graph(LabelGraph.from_table(table), person="import", edit_id="first")
        found = [finding for finding in store.findings() if finding.rule == "one-label"]
        assert [(finding.kind, finding.label) for finding in found] == [("with", "egg")]


def test_records_are_json(file_store):
    import json

    for record in (file_store.classes(), file_store.progress(), file_store.agreement(), *file_store.kinds()):
        json.dumps(record.to_dict())


@pytest.mark.deep
def test_what_has_changed_since_a_version(store, new_id):
    start = store.version
    assert store.changes(start).to_dict() == {"version": start, "edits": [], "cells": [], "more": False}
    one = store.decide("kung pao @ B", "with", "pork", person="ann", edit_id=new_id(), seen=0)
    store.changes(start)
    store.decide("kung pao @ B", "with", "tofu", person="bob", edit_id=new_id(), seen=one.version)
    found = store.changes(start)
    assert [edit["person"] for edit in found.edits] == ["bob", "ann"]
    [cell] = found.cells
    assert cell == store.cell("kung pao @ B", "with").to_dict()
    assert [edit["person"] for edit in store.changes(one.version).edits] == ["bob"]
    store.undo(one.batch + 1, person="bob", edit_id=new_id())
    assert [edit["undone"] for edit in store.changes(start).edits] == [False, True, False]
    store.apply(RenameFine(name="kung pao @ B", to="gong bao @ B"), person="ann", edit_id=new_id())
    assert {edit["fine"] for edit in store.changes(start).edits} == {"gong bao @ B"}
    for number in range(120):
        store.set_note(
            "kung pao @ A", str(number), person="ann", edit_id=f"n{number}", seen=store.version * (number > 0)
        )
    assert store.changes(start).more
    assert len(store.changes(store.version - 3).edits) == 3
    assert not store.changes(store.version - 3).more


def test_a_rehearsal_writes_nothing(store):
    before = (store.version, store.export_text("label-studio"), store.people())
    store.rehearse()
    assert (store.version, store.export_text("label-studio"), store.people()) == before


def test_classes_that_photos_contradict_the_surest_first(tmp_path):
    table = {"café": {"dish": "x"}, "soup": {"dish": "y"}, "rice": {"dish": "y"}, "tea": {"dish": None}}
    with LabelStore.create(tmp_path / "x.db") as store:
        store.import_graph(LabelGraph.from_table(table), person="import", edit_id="1")
        seen = {"café": ("y", 0.7), "soup": ("x", 0.9), "tea": ("x", 0.95)}
        store.put_suggestions("model", [Proposal(f, "dish", v, "model", p, "seen") for f, (v, p) in seen.items()])
        store.put_suggestions("name", [Proposal("rice", "dish", "x", "name", 0.99, "a name is no photo")])
        for kind in (None, "dish"):
            page = store.classes(kind=kind, show="contradicted", order="attention")
            assert ([row.fine for row in page.rows], page.total) == (["soup", "café"], 2)
        assert [row.fine for row in store.classes(show="contradicted").rows] == ["café", "soup"]
        assert names(store.classes(show="contradicted", search="CAFE")) == ["café"]


def test_what_is_unknown_in_a_kind_needs_attention_in_it(store):
    assert names(store.classes(kind="with", order="attention"))[0] == "kung pao @ B"
    assert names(store.classes(kind="dish", order="attention")) == names(store.classes())


def test_a_list_by_numbers_is_the_list(store, new_id):
    store.put_suggestions("model", [Proposal("mapo tofu @ A", "dish", "kung pao", "model", 0.9, "seen")])
    store.set_note("mapo tofu @ B", "hot", person="ann", edit_id=new_id(), seen=0)
    for person, value in (("ann", "A"), ("bob", "B")):
        store.decide("kung pao @ B", "restaurant", value, person=person, edit_id=new_id(), seen=None)
    questions = [{"show": show, "order": order} for show in SHOWN for order in ORDERS]
    questions += [{"search": "tofu"}, {"kind": "served", "label": "bowl"}, {"kind": "with", "show": "unknown"}]
    for question in questions:
        rows = store.numbered_classes(store.class_numbers(**question))
        assert rows == list(store.classes(**question).rows)
    numbers = store.class_numbers()
    assert names_of(store.numbered_classes([numbers[3], numbers[0]])) == ["kung pao @ A", "mapo tofu @ A"]
    assert set(store.numbered_classes(numbers, kinds=["dish"])[0].cells) == {"dish"}


def test_numbers_stay_when_names_change(store, new_id):
    numbers = store.class_numbers()
    store.apply(RenameFine(name="kung pao @ B", to="gong bao @ B"), person="ann", edit_id=new_id())
    store.apply(RemoveFine(name="mapo tofu @ B"), person="ann", edit_id=new_id())
    rows = store.numbered_classes(numbers)
    assert names_of(rows) == ["mapo tofu @ A", "mapo tofu @ B", "gong bao @ B", "kung pao @ A"]
    assert [row.removed for row in rows] == [False, True, False, False]
    assert store.one_class("kung pao @ B", number=numbers[2]).fine == "gong bao @ B"
    with pytest.raises(UnknownNameError, match="mapo tofu @ B"):
        store.one_class("mapo tofu @ B", number=numbers[1])


def test_numbers_say_what_names_meant(store, new_id):
    row = store.one_class("kung pao @ B")
    kinds = {kind.name: kind for kind in store.kinds()}
    meant = {
        name: Numbers(
            fine=row.number,
            kind=kinds[name].number,
            labels=dict(zip(kinds[name].labels, kinds[name].label_numbers, strict=True)),
        )
        for name in ("with", "served")
    }
    for change in (
        RenameLabel(kind="with", name="tofu", to="bean curd"),
        AddLabel(kind="with", name="tofu"),
        RenameLabel(kind="served", name="plate", to="dish"),
        RenameFine(name="kung pao @ B", to="gong bao"),
        RenameFine(name="kung pao @ A", to="kung pao @ B"),
        RenameKind(name="served", to="in"),
    ):
        store.apply(change, person="bob", edit_id=new_id())
    one = Decision(fine="kung pao @ B", kind="with", value={"all_of": ["tofu"]}, seen=0, numbers=meant["with"])
    two = Decision(
        fine="kung pao @ B", kind="served", value={"one_of": ["plate", "bowl"]}, seen=0, numbers=meant["served"]
    )
    done = store.decide_many([one, two], person="ann", edit_id="both")
    assert store.cell("gong bao", "with").value == {"all_of": ["bean curd"]}
    assert set(store.cell("gong bao", "in").value["one_of"]) == {"dish", "bowl"}
    assert store.cell("kung pao @ B", "with").value == {"all_of": ["pork"]}
    store.apply(RenameFine(name="gong bao", to="third name"), person="bob", edit_id=new_id())
    again = store.decide_many([one, two], person="ann", edit_id="both")
    assert (again.repeated, again.batch) == (True, done.batch)
    weights = {"weights": {"plate": 0.75, "bowl": 0.25}}
    given = {"person": "ann", "seen": 0, "numbers": meant["served"]}
    store.label_photo("a.jpg", "served", weights, edit_id=new_id(), **given)
    assert store.photo_cells(["a.jpg"])["a.jpg"]["in"].value == {"weights": {"dish": 0.75, "bowl": 0.25}}
    store.set_note("kung pao @ B", "hot", edit_id=new_id(), **given)
    assert store.one_class("third name").note == "hot"


@pytest.mark.parametrize("number", [2**63, 10**30])
def test_huge_numbers_are_refused(file_store, number):
    questions = [
        lambda: file_store.history(before=number),
        lambda: file_store.history(batch=number),
        lambda: file_store.batches(before=number),
        lambda: file_store.undo(number, person="a", edit_id="1"),
        lambda: file_store.undo_edit(number, person="a", edit_id="2"),
        lambda: file_store.accept([number], person="a", edit_id="3"),
        lambda: file_store.classes(offset=number),
        lambda: file_store.one_class("kung pao @ B", number=number),
        lambda: file_store.suggestions(offset=number),
    ]
    for question in questions:
        with pytest.raises(InputError, match="expected a number of 0 to"):
            question()
    with pytest.raises(InputError, match="there is no version"):
        file_store.graph(number)
    weights = {"weights": {"plate": number**30, "bowl": 1}}
    with pytest.raises(InputError, match="'plate' must be a finite number above 0, got a larger number than can be"):
        file_store.decide("kung pao @ B", "served", weights, person="a", edit_id="4", seen=0)


def test_a_class_has_the_cells_that_each_kind_has(store, menu, new_id):
    store.decide("mapo tofu @ A", "dish", None, person="ann", edit_id=new_id(), seen=None)
    store.decide("mapo tofu @ A", "served", "plate", person="bo", edit_id=new_id(), seen=None)
    for fine in menu.fine:
        row = store.one_class(fine)
        assert list(row.cells) == [kind.name for kind in store.kinds()]
        assert row.cells == {kind.name: store.cell(fine, kind.name) for kind in store.kinds()}
