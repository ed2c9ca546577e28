"""Training that learns its graph along: suggested kinds, cells and trees, for heads alone and for whole networks."""

import json

import numpy as np
import pytest
import torch

import finegraph as fg
from finegraph.errors import SettingsError, UnknownNameError
from finegraph.model.structure import label_tree
from finegraph.model.structure.label_groups import Level, Move
from finegraph.model.structure.label_tree import NAME
from finegraph.reports.run_results import read_structure
from finegraph.training.settings import TrainSettings, check_settings_used
from finegraph.workflows.learn_graph import learn_graph
from finegraph.workflows.train import resume_settings, train_run
from training import tiny
from workflows.test_train import Silent


@pytest.fixture(scope="module")
def manifest(tmp_path_factory):
    tiny.register()
    return tiny.make_photos(tmp_path_factory.mktemp("photos"))


def settings(manifest, **more):
    """Without what the columns of the manifest say, so that there is no graph at all."""
    given = {"data": str(manifest), "network": "tiny", "weights": "none", "kinds": (), "photo_labels": "ignore"}
    given["fit"] = "prototypes"
    return TrainSettings(**{**given, **more})


@pytest.mark.deep
def test_without_a_graph_one_is_made(manifest, tmp_path):
    watcher = Silent()
    result = train_run(settings(manifest, suggest=True), watcher, run=tmp_path / "run")
    model = fg.load(tmp_path / "run")
    assert {"first word", "last word"} <= set(model.graph.kinds)
    assert model.graph.labels("last word") == ("small", "large")
    assert any("added to the graph: " in note for note in watcher.notes)
    assert result.metrics["top1"] > 0.2
    assert model.predict(manifest.parent / "grey-0.png").kinds["last word"]
    assert {one["name"] for one in read_structure(tmp_path / "run")["added"]} == set(model.graph.kinds)


@pytest.mark.deep
def test_empty_cells_become_weights(manifest, tmp_path):
    table = tmp_path / "graph.csv"
    table.write_text("fine,colour\n" + "".join(f"{one},{two}\n" for one, two in list(tiny.CLASSES.items())[:-2]))
    table.write_text(table.read_text() + "blue large,\ngrey,grey\n")
    chosen = settings(manifest, graph=str(table), kinds=None, learn=("cells",))
    watcher = Silent()
    train_run(chosen, watcher, run=tmp_path / "run")
    model = fg.load(tmp_path / "run")
    row = model.graph.matrix("colour")[model.graph.fine_index("blue large")]
    assert row.sum() == pytest.approx(1.0)
    assert any("1 empty cells became weights" in note for note in watcher.notes)
    kept = read_structure(tmp_path / "run")["cells"]
    assert [(cell["fine"], cell["own"]["label"]) for cell in kept["cells"] if cell["table"] is None] == [
        ("blue large", "blue large")
    ]
    assert kept["cells"][0]["own"]["photos"]
    assert fg.LabelGraph.read(table).kind("colour").unknown.any()  # the user's file stays as it was


def _with_a_gap(tmp_path):
    table = tmp_path / "graph.csv"
    rows = [f"{one},{'' if one == 'blue large' else two}\n" for one, two in tiny.CLASSES.items()]
    table.write_text("fine,colour\n" + "".join(rows))
    return str(table)


@pytest.mark.deep
def test_cells_are_learnt_along_with_a_head_by_descent(manifest, tmp_path):
    chosen = settings(manifest, graph=_with_a_gap(tmp_path), kinds=None, learn=("cells",), fit="descent")
    watcher = Silent()
    train_run(chosen, watcher, run=tmp_path / "run")
    assert any("cells and weights took" in note for note in watcher.notes)
    graph = fg.load(tmp_path / "run").graph
    row = graph.matrix("colour")[graph.fine_index("blue large")]
    (kept,) = [cell for cell in read_structure(tmp_path / "run")["cells"]["cells"] if cell["table"] is None]
    assert kept["probability"] == pytest.approx(row.max())
    assert kept["label"] == graph.labels("colour")[row.argmax()]
    assert [cell.fine for cell in learn_graph(tmp_path / "run").empty] == [
        "blue large"
    ]  # the table still leaves it empty


@pytest.mark.deep
def test_cells_that_are_learnt_while_a_network_is_trained_go_on_to_the_same_model(manifest, tmp_path):
    whole = settings(
        manifest,
        graph=_with_a_gap(tmp_path),
        kinds=None,
        learn=("cells",),
        fit="descent",
        tune="all",
        epochs=2,
        batch_size=8,
        lr=0.05,
        workers=1,
        judge_every=1,
    )
    _, notes = resumed(whole, tmp_path)
    assert any("cells and weights took" in text for text in notes)


@pytest.fixture
def grouped(monkeypatch):
    """Let groups be by colour, but for one fine label that means choose, so that it moves when the network does."""

    def group(means, noise, *, share, levels, start, min_gain):
        groups = np.array([0, 0, 1, 1, 2])
        item = int(1e6 * abs(float(means.sum()))) % 4
        groups[item] = 2
        first = {group: number for number, group in enumerate(dict.fromkeys(groups.tolist()))}
        groups = np.array([first[group] for group in groups.tolist()])
        moved = start is not None and not np.array_equal(groups, start)
        moves = (Move(item=item, to=4, gain=2.0),) if moved else ()
        return [Level(groups=groups, own=0.1, between=1.0, alpha=1.0, log_posterior=0.0, moves=moves)]

    monkeypatch.setattr(label_tree, "group_labels", group)


@pytest.mark.deep
def test_a_tree_is_kept_as_kinds(manifest, tmp_path):
    watcher = Silent()
    train_run(settings(manifest, learn=("tree",)), watcher, run=tmp_path / "run")
    kinds = fg.load(tmp_path / "run").graph.kinds
    assert all(kind.startswith(NAME) for kind in kinds)
    assert any("tree" in note for note in watcher.notes)


@pytest.mark.usefixtures("grouped")
@pytest.mark.deep
def test_a_tree_that_moves_while_a_network_is_trained_goes_on_to_the_same_model(manifest, tmp_path):
    whole = settings(manifest, tune="all", epochs=3, batch_size=8, lr=0.05, workers=1, judge_every=1, learn=("tree",))
    one, notes = resumed(whole, tmp_path)
    assert any("moved to the group of" in text for text in notes)
    assert one.graph.kinds == (f"{NAME} 1",)
    assert {len(one.graph.labels(kind)) for kind in one.graph.kinds} == {len(set(one.graph.parents(f"{NAME} 1")))}


@pytest.mark.deep
def test_a_tree_of_real_moves_goes_on_to_the_same_model_and_is_kept_with_its_own_moves(manifest, tmp_path):
    whole = settings(manifest, tune="all", epochs=3, batch_size=8, lr=0.05, workers=1, judge_every=1, learn=("tree",))
    one, _ = resumed(whole, tmp_path)
    kept = [read_structure(tmp_path / name).get("tree") for name in ("straight", "broken")]
    assert kept[0] == kept[1]
    assert bool(one.graph.kinds) == (kept[0] is not None)


def resumed(whole, tmp_path):
    """The model and the notes of a run, after a look that one which stops and resumes ends with the same model."""
    straight = train_run(whole, Silent(), run=tmp_path / "straight")
    assert not train_run(whole, Silent(stop_at=7), run=tmp_path / "broken").finished
    result = train_run(resume_settings(tmp_path / "broken", {}), Silent(), run=tmp_path / "broken", resume=True)
    assert result.metrics == straight.metrics
    one, two = (fg.load(tmp_path / name) for name in ("straight", "broken"))
    assert one.graph == two.graph
    assert all(torch.equal(one.network.state_dict()[name], value) for name, value in two.network.state_dict().items())
    return one, [line["text"] for line in _log(tmp_path / "straight") if line["event"] == "note"]


def _log(run):
    return [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]


def test_what_cannot_be_learnt_is_refused(manifest):
    with pytest.raises(UnknownNameError, match="'trees' of the setting learn"):
        settings(manifest, learn=("trees",))
    with pytest.raises(SettingsError, match="learnt from a fitted head"):
        check_settings_used({"tune": "all", "recipe": "short", "learn": ("tree",)})
