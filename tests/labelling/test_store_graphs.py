"""Graphs in and out: export then import is the identity, for graphs of every form, through every file form."""

import contextlib
import csv
import io
import itertools
import json
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from finegraph import LabelGraph
from finegraph.errors import EmptyGraphError, GraphError, InputError, UnknownNameError
from finegraph.graph.graph_files import graph_from_csv, graph_from_json
from finegraph.labelling import AddFine, AddKind, LabelStore, MergeLabels, PhotoLabel, RemoveFine
from finegraph.labelling.exchange.diffing import diff_graphs
from finegraph.labelling.exchange.label_studio import parse_tasks
from finegraph.labelling.store.graph_columns import store_columns, stored_graph

sys.path.insert(0, str(Path(__file__).parent.parent / "graph"))
from graph_strategies import NAMES, graphs

NUMBERS = itertools.count()
UNCHECKED = [HealthCheck.function_scoped_fixture, HealthCheck.filter_too_much]  # many texts are no names
FEW = settings(max_examples=12, deadline=None, suppress_health_check=UNCHECKED)


@pytest.mark.deep
@settings(max_examples=60, deadline=None)
@given(graphs())
def test_columns_are_another_form_of_the_graph(graph):
    assert stored_graph(graph.fine, store_columns(graph)) == graph


@pytest.mark.deep
@FEW
@given(graphs(), graphs())
def test_a_graph_goes_in_and_out_and_another_one_over_it(tmp_path, one, two):
    with LabelStore.create(tmp_path / f"{next(NUMBERS)}.db") as store:
        store.import_graph(one, person="ann", edit_id="1")
        assert store.graph() == one
        made = store.import_graph(two, person="ann", edit_id="2")
        assert store.graph() == two
        assert store.graph(1) == one
        if made.edits:
            store.undo(made.batch, person="ann", edit_id="3")
        assert store.graph() == one


@st.composite
def values(draw, kind):
    """A value of any form that a kind can have."""
    some = draw(st.lists(st.sampled_from(kind.labels), unique=True))
    if kind.mode == "all":
        return draw(st.sampled_from([None, {"all_of": some}]))
    if not some:
        return None
    weights = {label: draw(st.floats(0.001, 1000)) for label in some}
    return draw(st.sampled_from([some[0], {"one_of": some}, {"weights": weights}]))


@pytest.mark.deep
@FEW
@given(graphs(), st.data())
def test_every_file_form_reads_back_as_the_same_store(tmp_path, graph, data):
    with LabelStore.create(tmp_path / f"{next(NUMBERS)}.db") as store:
        store.import_graph(graph, person="ann", edit_id="1")
        for number, kind in enumerate(store.kinds()):
            fine, photo = data.draw(st.sampled_from(graph.fine)), data.draw(NAMES)
            whose = data.draw(st.sampled_from([None, *graph.fine]))
            value = data.draw(values(kind))
            store.label_photo(photo, kind.name, value, person="a", edit_id=f"p{number}", seen=0, fine=whose)
            for person in ("bob", "cat"):
                value = data.draw(values(kind))
                store.decide(fine, kind.name, value, person=person, edit_id=f"{person} {number}", seen=None)
            if data.draw(st.booleans()):
                value, seen = data.draw(values(kind)), store.cell(fine, kind.name).version
                store.resolve(fine, kind.name, value, person="dan", edit_id=f"r{number}", seen=seen)
            seen = store.one_class(fine).note_version
            store.set_note(fine, data.draw(NAMES), person="bob", edit_id=f"n{number}", seen=seen)
        graph, text = store.graph(), store.export_text("label-studio")
        assert graph_from_json(store.export_text("json")) == graph
        for safe in (True, False):
            assert graph_from_csv(store.export_text("csv", safe=safe), "x.csv")[0] == graph
        photos = store.export_text("photos")
        labels = store.photo_labels()
        assert store.parse_photos(photos) == labels
    with LabelStore.create(tmp_path / f"{next(NUMBERS)}.db") as copy:
        copy.import_content(parse_tasks(text, "x.json"), person="ann", edit_id="1")
        assert copy.graph() == graph
        assert copy.export_text("label-studio") == text
        assert copy.import_photos(labels, person="ann", edit_id="2").edits == 0
        assert copy.import_content(parse_tasks(text, "x.json"), person="ann", edit_id="3").edits == 0
        assert copy.photo_labels() == labels


@pytest.mark.deep
@FEW
@given(graphs(), graphs())
def test_a_label_studio_file_is_one_action_and_one_undo(tmp_path, one, two):
    """Graph, votes, notes and photos of one store taken over into another, and all of it undone at once."""
    texts, decided = [], []
    for name, graph in (("ann", one), ("bob", two)):
        with LabelStore.create(tmp_path / f"{next(NUMBERS)}.db") as store:
            store.import_graph(graph, person="import", edit_id="1")
            store.set_note(graph.fine[0], name, person=name, edit_id="2", seen=0)
            for number, kind in enumerate(store.kinds()):
                store.decide(graph.fine[-1], kind.name, kind.labels[0], person=name, edit_id=f"v{number}", seen=None)
                store.decide(graph.fine[-1], kind.name, kind.labels[-1], person="cat", edit_id=f"c{number}", seen=None)
                store.label_photo("1.jpg", kind.name, kind.labels[-1], person=name, edit_id=f"p{number}", seen=0)
            texts.append(store.export_text("label-studio"))
            decided.append(store.graph())
    with LabelStore.create(tmp_path / f"{next(NUMBERS)}.db") as store:
        assert store.import_content(parse_tasks(texts[0], "x"), person="dan", edit_id="first").batch == 1
        assert len(store.batches()) == 1
        assert store.export_text("label-studio") == texts[0]
        made = store.import_content(parse_tasks(texts[1], "x"), person="dan", edit_id="second")
        assert store.batches()[0].number == made.batch <= 2
        assert store.import_content(parse_tasks(texts[1], "x"), person="dan", edit_id="second").repeated
        assert store.graph() == decided[1]
        said = {kind.name: store.cell(two.fine[-1], kind.name).votes for kind in store.kinds()}
        assert all({"bob", "cat"} <= set(votes) for votes in said.values())
        if made.edits:
            store.undo(made.batch, person="dan", edit_id="third")
            assert store.export_text("label-studio") == texts[0]


def test_the_same_on_a_server(postgres, menu):
    with LabelStore.create(postgres.new_database()) as store:
        store.import_graph(menu, person="ann", edit_id="1")
        assert store.graph() == menu
        smaller = LabelGraph.from_table({"x": {"dish": "mapo tofu"}, "kung pao @ A": {"dish": "soup"}})
        made = store.import_graph(smaller, person="ann", edit_id="2")
        assert store.graph() == smaller
        store.undo(made.batch, person="ann", edit_id="3")
        assert store.graph() == menu


def test_an_import_that_is_repeated_or_changes_nothing(file_store, menu):
    again = file_store.import_graph(menu, person="import", edit_id="first")
    assert again.repeated
    assert file_store.import_graph(menu, person="ann", edit_id="second").edits == 0


def test_unknown_prior_goes_through(tmp_path, menu):
    graph = menu.with_unknown_prior("uniform", ["dish"])
    with LabelStore.create(tmp_path / "s.db") as store:
        with pytest.raises(EmptyGraphError, match="no graph yet"):
            store.graph()
        store.import_graph(graph, person="ann", edit_id="1")
        assert graph_from_json(store.export_text("json")) == graph
        with pytest.raises(GraphError, match="which a CSV file cannot hold"):
            store.export_text("csv")
        with pytest.raises(InputError, match="format: expected one of"):
            store.export_text("xml")


FORMULAS = ("=1+1", "+1", "-2", "@x", "=cmd|' /C calc'!A0", "＝1", "\\=x", "'=1")


def test_no_cell_of_a_csv_file_begins_a_formula(tmp_path):
    graph = LabelGraph.from_table(
        {name: {"=kind": name, "weights": {"=a": 0.3, "-b": 0.7}, "all": ["+x", "=y"]} for name in FORMULAS}
    )
    with LabelStore.create(tmp_path / "s.db") as store:
        store.import_graph(graph, person="ann", edit_id="1")
        for number, name in enumerate(FORMULAS):
            store.label_photo(f"={number}.jpg", "=kind", name, person="ann", edit_id=f"p{number}", seen=0, fine=name)
        for text in (store.export_text("csv"), store.export_text("photos")):
            cells = [cell for row in csv.reader(io.StringIO(text)) for cell in row]
            assert not [cell for cell in cells if cell[:1] in tuple("=+-@＝＋－＠\t\r")]
        assert graph_from_csv(store.export_text("csv"), "x.csv")[0] == graph
        assert store.parse_photos(store.export_text("photos")) == store.photo_labels()


def test_a_photo_file_with_faults_names_all_of_them(file_store):
    with pytest.raises(GraphError, match="must be called 'path' and 'fine'"):
        file_store.parse_photos("photo,dish\n1.jpg,a\n")
    with pytest.raises(GraphError) as caught:
        file_store.parse_photos("path,fine,dish,with\n1.jpg,,a|,\n2.jpg,,,a|b\n\\q,,,\n", "p.csv")
    assert "p.csv: 3 faults" in str(caught.value)


def test_label_studio_s_own_answers(menu):
    """Tasks that were answered in Label Studio: no ground truth, people by number, several choices that hold."""
    text = """[{"id": 1, "data": {"fine": "ramen"}, "annotations": [
        {"completed_by": 7, "result": [{"from_name": "with", "type": "choices", "value": {"choices": ["egg"]}}]},
        {"completed_by": {"id": 8, "email": "bob@example.org"}, "result": [
            {"from_name": "with", "type": "choices", "value": {"choices": ["egg", "pork"]}}]},
        {"completed_by": 9, "was_cancelled": true, "result": []}]},
        {"id": 2, "data": {"fine": "udon"}, "annotations": []}]"""
    content = parse_tasks(text, "x.json")
    assert content.graph.kinds == ("with: egg", "with: pork")
    assert content.graph.matrix("with: pork").tolist() == [[0, 1], [0, 0]]
    assert content.votes == {
        "ramen": {"person 7": {"with": {"all_of": ["egg"]}}, "bob@example.org": {"with": {"all_of": ["egg", "pork"]}}}
    }


def test_results_of_other_controls_are_left_out():
    """A project may ask for more than choices: a comment, a rating, a choice that nobody made."""
    text = """[{"data": {"fine": "ramen"}, "annotations": [{"completed_by": 7, "result": [
        {"from_name": "comment", "type": "textarea", "value": {"text": ["looks good"]}},
        {"from_name": "with", "type": "choices", "value": {"choices": ["egg"]}},
        {"from_name": "quality", "type": "rating", "value": {"rating": 4}},
        {"from_name": "box", "type": "rectanglelabels", "value": {"x": 1, "rectanglelabels": ["bowl"]}},
        {"from_name": "served", "type": "choices", "value": {"choices": []}},
        {"from_name": "odd", "type": "choices", "value": {}}]}]}]"""
    content = parse_tasks(text, "x.json")
    assert [(column.name, column.labels) for column in content.columns] == [("with", ("egg",))]
    assert content.votes == {"ramen": {"person 7": {"with": "egg"}}}


def test_our_own_export_may_come_back_with_results_of_other_controls(file_store):
    tasks = json.loads(file_store.export_text("label-studio"))
    comment = {"from_name": "comment", "type": "textarea", "value": {"text": ["looks good"]}}
    tasks[0]["annotations"][0]["result"].append(comment)
    assert file_store.import_content(parse_tasks(json.dumps(tasks), "x"), person="ann", edit_id="1").edits == 0
    tasks[0]["annotations"][0]["result"].append({**comment, "type": "choices", "value": {"choices": ["x"]}})
    with pytest.raises(InputError, match="task number 0: there is no kind 'comment'"):
        parse_tasks(json.dumps(tasks), "x")


def answered(result):
    """A file with one task that has one result."""
    return f'[{{"data": {{"fine": "a"}}, "annotations": [{{"result": [{result}]}}]}}]'


WEIGHTED = '{"from_name": "k", "value": {"choices": ["x", "y"]}, "meta": {"form": "weights", "weights": %s}}'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "expected the JSON export"),
        ("{}", "expected a list of tasks"),
        ('[{"data": {}}]', "names no class"),
        ('[{"data": {"fine": "a"}}, {"data": {"fine": "a"}}]', "has a task already"),
        (
            '[{"data": {"fine": "a"}, "annotations": {}}]',
            "task number 0: expected 'annotations' to be a list of objects",
        ),
        ('[{"data": {"fine": "a"}, "annotations": ["x"]}]', "expected 'annotations' to be a list of objects"),
        ('[{"data": {"fine": "a"}, "annotations": [{"result": 5}]}]', "expected 'result' to be a list of objects"),
        (answered('{"value": {"choices": ["x"]}}'), "the name of its control in 'from_name', got None"),
        (answered('{"from_name": "k", "value": {"choices": [1]}}'), "a result of 'k' is not a list of choices"),
        (answered('{"from_name": "k", "value": {"choices": []}, "meta": [1]}'), "expected 'meta' of a result of 'k'"),
        (answered(WEIGHTED % "[1]"), "expected 'weights' of 'k' to be a list with one for each of"),
        (answered(WEIGHTED % "null"), "expected 'weights' of 'k' to be a list"),
        (answered(WEIGHTED % '["a", "b"]'), "the weight of 'x' must be a finite number"),
        ('[{"data": {"fine": "a", "finegraph": {"name": "k"}}}]', "expected 'finegraph' to be a list of objects"),
        (
            '[{"data": {"fine": "a", "finegraph": [{"name": "k"}]}}]',
            "expected each kind in 'finegraph' to have a 'name'",
        ),
        ('[{"data": {"fine": "a", "settled": [[]]}}]', "'settled' is not a list of kinds"),
        ('[{"data": {"photo": "1.jpg", "label": 5}}]', "expected 'label' to be the class of the photo, got '5'"),
    ],
)
def test_what_is_no_label_studio_file(text, message):
    with pytest.raises(InputError, match=message):
        parse_tasks(text, "x.json")


def test_differences_of_two_graphs_and_of_two_versions(file_store, menu):
    file_store.decide("kung pao @ B", "with", "pork", person="ann", edit_id="a", seen=0)
    middle = file_store.version
    file_store.decide("mapo tofu @ A", "dish", None, person="ann", edit_id="b", seen=0)
    found = diff_graphs(menu, file_store.graph())
    assert found.counts == {"cell": 2}
    assert {change.text for change in found.changes} == {
        "cell 'kung pao @ B', 'with': unknown -> pork",
        "cell 'mapo tofu @ A', 'dish': mapo tofu -> unknown",
    }
    assert {change.text for change in file_store.diff(1).changes} == {change.text for change in found.changes}
    assert [change.fine for change in file_store.diff(middle).changes] == ["mapo tofu @ A"]
    assert file_store.diff(1, middle).counts == {"cell": 1}
    back = file_store.diff(file_store.version, 1)
    assert [(change.before, change.after) for change in back.changes] == [
        ({"all_of": ["pork"]}, None),
        (None, "mapo tofu"),
    ]
    assert {change.text for change in back.changes} == {
        change.text for change in diff_graphs(file_store.graph(), menu).changes
    }
    with pytest.raises(InputError, match="no version 99"):
        file_store.diff(99)
    smaller = LabelGraph(menu.fine[:3], [])
    assert diff_graphs(menu, smaller).counts == {"fine": 1, "kind": 4}


def test_a_photo_label_that_is_there_is_not_written_again(file_store):
    labels = [PhotoLabel("1.jpg", None, "dish", "kung pao")]
    assert file_store.import_photos(labels, person="ann", edit_id="1").edits == 1
    assert file_store.import_photos(labels, person="ann", edit_id="2").edits == 0


def test_a_version_inside_an_action_or_to_come_is_refused(file_store, menu):
    merge = MergeLabels(kind="dish", labels=("kung pao",), into="mapo tofu")
    merged = file_store.apply(merge, person="ann", edit_id="merge")
    inside = merged.version - 1
    for ask in (file_store.graph, file_store.photo_labels, lambda n: file_store.export_text("csv", version=n)):
        with pytest.raises(
            InputError, match=rf"version {inside} lies inside an action .* before it, 1, .*{merged.version}$"
        ):
            ask(inside)
        with pytest.raises(InputError, match=f"no version 99999; versions go from 1 to {merged.version}"):
            ask(99999)
    assert file_store.graph(1) == menu


def test_a_group_of_one_label_stays_a_group(file_store):
    file_store.apply(AddKind(name="side", labels=("egg",), mode="all"), person="ann", edit_id="1")
    file_store.decide("kung pao @ B", "side", "egg", person="ann", edit_id="2", seen=0)
    again = file_store.import_graph(file_store.graph(), person="ann", edit_id="3")
    assert (again.edits, file_store.kinds()[-1].name) == (0, "side")


def test_labels_of_photos_of_a_removed_class_come_out_and_in(store, place, menu, new_id, tmp_path):
    store.label_photo("1.jpg", "dish", "mapo tofu", person="ann", edit_id=new_id(), seen=0, fine="mapo tofu @ A")
    store.apply(RemoveFine(name="mapo tofu @ A"), person="ann", edit_id=new_id())
    assert [(one.photo, one.fine) for one in store.photo_labels()] == [("1.jpg", None)]
    with LabelStore.create(tmp_path / "other.db") as other:
        tasks = parse_tasks(store.export_text("label-studio"), "x.json")
        other.import_content(tasks, person="bob", edit_id=new_id())
        assert other.photo_labels() == store.photo_labels()
        again = other.parse_photos(store.export_text("photos"), "photos.csv")
        assert other.import_photos(again, person="bob", edit_id=new_id()).edits == 0


@pytest.mark.parametrize("name", [" a.jpg", "b.jpg ", "c\u2028d.jpg", "=1.jpg", "#2.jpg", 'q"u,o.jpg', "\\ ü.jpg"])
def test_odd_names_of_photos_come_out_and_in(store, new_id, name):
    store.label_photo(name, "dish", "mapo tofu", person="ann", edit_id=new_id(), seen=0)
    assert store.parse_photos(store.export_text("photos"), "photos.csv") == store.photo_labels()


@pytest.mark.parametrize("name", ["", "a\nb.jpg", "a\tb.jpg", "a\0b.jpg", "\udcff.jpg", "x" * 4001])
def test_names_of_photos_that_no_file_could_hold_are_refused(store, new_id, name):
    with pytest.raises(InputError, match="expected the path of a photo"):
        store.label_photo(name, "dish", "mapo tofu", person="ann", edit_id=new_id(), seen=0)
    with pytest.raises(InputError, match="expected the path of a photo"):
        store.import_photos([PhotoLabel(name, None, "dish", "mapo tofu")], person="ann", edit_id=new_id())


@pytest.mark.parametrize(("text", "why"), [("x" * 20_001, "at most 20000 characters"), ("a\x1bb", r"U\+001B")])
def test_a_note_has_the_same_rules_wherever_it_comes_from(store, new_id, text, why):
    with pytest.raises(InputError, match=why):
        store.set_note("kung pao @ B", text, person="ann", edit_id=new_id(), seen=0)
    with pytest.raises(InputError, match=why):
        store.apply(AddFine(name="ramen", note=text), person="ann", edit_id=new_id())
    content = parse_tasks(store.export_text("label-studio"), "x.json")
    content.notes["kung pao @ B"] = text
    with pytest.raises(InputError, match=why):
        store.import_content(content, person="ann", edit_id=new_id())


def test_what_a_database_cannot_hold_is_wrong_input(store):
    """PostgreSQL has smaller numbers than SQLite and no NUL; neither is a fault of the server."""
    for question in (
        lambda: store.numbered_classes([2**40]),
        lambda: store.classes(search="a\0b"),
        lambda: store.one_class("a\0b"),
        lambda: store.history(batch=2**40),
        lambda: store.suggestions(offset=2**40),
    ):
        with contextlib.suppress(InputError, UnknownNameError):
            question()
