"""Suggesting kinds: what is found, what it would change, what is written, and what is kept for the report."""

import json

import numpy as np
import pytest

import taught_classifier
import tiny_classifier
from finegraph.errors import InputError, UnknownNameError
from finegraph.graph import LabelGraph
from finegraph.graph.kind import Kind
from finegraph.labelling import LabelStore
from finegraph.labelling.suggestions.proposals import Proposal
from finegraph.reports.run_results import read_structure
from finegraph.workflows.labels.graph_sources import read_graph_of
from finegraph.workflows.learn_graph import learn_graph
from finegraph.workflows.suggest_graph import suggest_graph
from finegraph.workflows.train import train_run
from training import tiny
from workflows.test_train import Silent, settings


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run whose graph says the colour, and has a kind that says nothing."""
    folder = tmp_path_factory.mktemp("run")
    tiny.register()
    manifest = tiny.make_photos(folder / "photos", per_class=5, val=3)
    rows = {
        fine: {"colour": colour, "chance": str(int(n in (0, 3)))}
        for n, (fine, colour) in enumerate(tiny.CLASSES.items())
    }
    LabelGraph.from_table(rows).write(folder / "graph.csv")
    chosen = settings(manifest, graph=str(folder / "graph.csv"), fit="prototypes", photo_labels="ignore", train_views=1)
    train_run(chosen, Silent(), run=folder / "run")
    return folder / "run"


@pytest.mark.deep
def test_kinds_are_suggested_with_what_they_would_change(run):
    found = suggest_graph(run)
    by_name = {one.name: one for one in found.suggestions}
    assert "first word" not in by_name  # the colour says it
    size = by_name["last word"]
    assert {label.label: label.fine for label in size.labels} == {
        "small": ("red small", "blue small"),
        "large": ("red large", "blue large"),
    }
    assert all(len(label.photos) == 4 for label in size.labels)
    assert found.judged == "15 validation photos"
    assert size.effect.log_likelihood.low <= size.effect.log_likelihood.mean <= size.effect.log_likelihood.high
    assert {one.name for one in found.present} == {"colour", "chance"}
    means = [one.effect.log_likelihood.mean for one in found.present]
    assert means == sorted(means)
    assert read_structure(run)["suggested"] == json.loads(json.dumps(found.to_dict()))


@pytest.mark.deep
def test_what_a_kind_changes_is_the_difference_of_two_graphs(run):
    """The effect of a kind that is present is minus that of leaving it out."""
    with_it = suggest_graph(run)
    without = suggest_graph(run, graph=_written(run, LabelGraph.read(run.parent / "graph.csv").only(["colour"])))
    (chance,) = (one for one in with_it.present if one.name == "chance")
    assert chance.effect.log_likelihood.mean == pytest.approx(
        with_it.now["log_likelihood"] - without.now["log_likelihood"], abs=1e-6
    )


def test_numbers_and_ordered_kinds_are_judged_like_other_kinds(run, tmp_path):
    rows = {
        fine: {"colour": colour, "price": 3.0 + n, "size": "big" if n % 2 else "small"}
        for n, (fine, colour) in enumerate(tiny.CLASSES.items())
    }
    LabelGraph.from_table(rows, {"price": "number, EUR", "size": ("small", "big")}).write(tmp_path / "graph.csv")
    photos = run.parent / "photos/images.csv"
    chosen = settings(photos, graph=str(tmp_path / "graph.csv"), fit="prototypes", photo_labels="ignore", train_views=1)
    train_run(chosen, Silent(), run=tmp_path / "run")
    assert {one.name for one in suggest_graph(tmp_path / "run").present} == {"colour", "price", "size"}


def _written(run, graph):
    path = run.parent / "without.csv"
    graph.write(path)
    return path


@pytest.mark.deep
def test_what_is_accepted_opens_in_label(run, tmp_path):
    found = suggest_graph(run, accept=["last word"], output=tmp_path / "new.csv")
    assert found.accepted == ("last word",)
    graph = LabelGraph.read(tmp_path / "new.csv")
    assert set(graph.kinds) == {"colour", "chance", "last word"}
    with LabelStore.create(tmp_path / "new.db") as store:
        store.import_graph(graph, person="import", edit_id="first")
        assert "last word" in [column.name for column in store.columns()[1]]
    everything = suggest_graph(run, accept=["1", "all"], output=tmp_path / "all.csv")
    assert len(everything.accepted) == len(everything.suggestions)
    with pytest.raises(UnknownNameError, match="did you mean 'last word'"):
        suggest_graph(run, accept=["last words"], output=tmp_path / "other.csv")
    with pytest.raises(InputError, match="expected both or none"):
        suggest_graph(run, accept=["all"])
    with pytest.raises(InputError, match="exists already"):
        suggest_graph(run, accept=["all"], output=tmp_path / "new.csv")


def test_of_a_graph_there_are_names_alone(tmp_path):
    rows = {f"{2000 + n % 4} car {'AB'[n % 2]}{n}": {} for n in range(20)}
    LabelGraph.from_table(rows).write(tmp_path / "cars.csv")
    found = suggest_graph(tmp_path / "cars.csv", accept=["year"], output=tmp_path / "new.csv")
    assert "year" in [one.name for one in found.suggestions]
    assert "no model" in found.notes[0]
    assert read_graph_of(tmp_path / "new.csv").values("year")[:5].tolist() == [2000, 2001, 2002, 2003, 2000]
    LabelGraph.from_table({"one": {}}).write(tmp_path / "one.csv")
    assert suggest_graph(tmp_path / "one.csv").suggestions == ()


@pytest.mark.deep
def test_a_model_without_its_photos_still_groups(tmp_path, monkeypatch):
    tiny_classifier.register(monkeypatch)
    taught_classifier.fitted().save(tmp_path / "model")
    found = suggest_graph(tmp_path / "model")
    assert found.judged is None
    assert all(one.effect is None for one in found.suggestions)
    assert any("in no run folder" in note for note in found.notes)
    tiny_classifier.classifier().save(tmp_path / "descent")
    with pytest.raises(InputError, match="fitted by descent"):
        suggest_graph(tmp_path / "descent")


def test_learnt_cells_are_kept_with_photos(run):
    learn_graph(run, graph=_with_gap(run))
    kept = read_structure(run)
    (cell,) = (one for one in kept["cells"]["cells"] if one["table"] is None)
    assert cell["own"]["label"] == "blue large"
    assert len(cell["own"]["photos"]) == 3
    assert len(kept["pictures"]) == len(set(kept["pictures"]))
    assert set(cell["own"]["photos"]) <= set(kept["pictures"])
    assert all(one["photos"] for one in cell["alike"])


@pytest.mark.deep
def test_what_was_accepted_stays_known(run, tmp_path):
    """Also after learning again, and what was accepted on the labelling page with it."""
    cells = tmp_path / "cells.csv"
    cells.write_text("accept,fine,kind,label\nyes,blue large,colour,blue\n")
    learn_graph(run, graph=_with_gap(run), accept=str(cells), output=tmp_path / "new.csv")
    learn_graph(run)
    first = {"fine": "blue large", "kind": "colour", "label": "blue"}
    assert read_structure(run)["cells"]["accepted"] == [first]
    with LabelStore.create(tmp_path / "labels.db") as store:
        store.import_graph(LabelGraph.read(_with_gap(run)), person="import", edit_id="first")
        told = {"source": "model", "score": 0.9, "reason": "seen"}
        store.put_suggestions(
            "model", [Proposal("grey", "chance", "1", **told), Proposal("red small", "chance", "0", **told)]
        )
        numbers = [one.number for one in store.suggestions().rows]
        undone = store.accept(numbers[1:], person="ann", edit_id="second")
        store.accept(numbers[:1], person="ann", edit_id="third")
        store.undo(undone.batch, person="ann", edit_id="fourth")
        (kept,) = (edit for edit in store.history(target="cell") if edit.action == "accept" and not edit.undone)
    learn_graph(run, graph=tmp_path / "labels.db")
    accepted = read_structure(run)["cells"]["accepted"]
    assert accepted == [first, {"fine": kept.fine, "kind": "chance", "label": kept.after}]


def _with_gap(run):
    graph = LabelGraph.read(run.parent / "graph.csv")
    matrix = graph.matrix("colour")
    matrix[3] = 0.0
    path = run.parent / "gap.csv"
    graph.with_kind(Kind.from_matrix("colour", graph.labels("colour"), np.asarray(matrix))).write(path)
    return path
