"""A study that trains whole networks: its cells are trained by the code of training, stopped, resumed and measured."""

import json
import shutil
import signal

import jaxtyping
import pytest

from finegraph.graph import LabelGraph
from finegraph.workflows import study as running
from finegraph.workflows.studies.fine_tuning import train_settings
from finegraph.workflows.studies.grid import plan
from finegraph.workflows.studies.photo_sets import read_study_data
from finegraph.workflows.studies.spec import study_of
from finegraph.workflows.studies.study_folder import StudyFolder
from finegraph.workflows.study import run_study
from training import tiny


@pytest.fixture(scope="module", autouse=True)
def _unchecked():
    """Shapes are checked where heads and losses are tested; here there are too many steps for that."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture(autouse=True)
def _no_plots(monkeypatch):
    """They take longer than the study, and those of `test_study_run.py` are like them."""
    monkeypatch.setattr(running, "draw_study", lambda *_, **__: [])


class Silent:
    """Takes what it is told; asks training to stop at a step of the whole study."""

    def __init__(self, stop_at=None):
        self.cells, self.steps, self.stop_at = [], 0, stop_at

    def stage(self, name, done, total):
        pass

    def cell(self, text, done, total, seconds_left):
        self.cells.append((text, done, total))

    def step(self, done, total, loss, rate):
        self.steps += 1
        if self.steps == self.stop_at:
            signal.raise_signal(signal.SIGINT)

    def epoch(self, row):
        pass

    def note(self, text):
        pass


@pytest.fixture(scope="module")
def manifest(tmp_path_factory):
    tiny.register()
    return tiny.make_photos(tmp_path_factory.mktemp("photos"))


def study_for(manifest, **changes):
    usual = {
        "data": str(manifest),
        "graph": str(manifest.parent / "graph.csv"),
        "tune": "all",
        "heads": ["softmax", "bipartite"],
        "amounts": [2, "50%"],
        "network": "tiny",
        "weights": "none",
        "splits": ["val"],
        "training": {"epochs": 2, "batch_size": 8, "lr": 0.02},
    }
    return study_of({**usual, **changes})


def test_it_is_stopped_in_the_middle_and_ends_as_if_it_had_not_been(manifest, tmp_path):
    study = study_for(manifest, views=[1, 10])
    whole = run_study(study, tmp_path / "whole", Silent())
    assert whole.finished
    assert whole.cells == 4
    stopped = run_study(study, tmp_path / "parts", Silent(stop_at=3))
    assert not stopped.finished
    assert stopped.cells < 4
    rest = run_study(study, tmp_path / "parts", Silent())
    assert rest.finished
    without = [[row for row in found.summary.rows if row["split"] != "train"] for found in (whole, rest)]
    assert without[0] == without[1]
    times = {(row["head"], row["amount"]) for row in rest.summary.rows if row["split"] == "train"}
    cells = {(cell.head, cell.amount) for cell in plan(study)}
    assert len(cells - times) == 1  # what was stopped in between was not timed
    assert {row["views"] for row in rest.summary.rows} == {1, 10}
    folder = StudyFolder(tmp_path / "parts")
    for cell in plan(study):
        assert (folder.runs / cell.name / "metrics.csv").is_file()
        assert not (folder.runs / cell.name / "checkpoints").exists()  # a study keeps metrics, not networks


def test_what_single_photos_show_is_no_part_of_a_study(manifest, tmp_path):
    """Some would contradict the graph, and then could not be trained on at all."""
    shutil.copytree(manifest.parent, tmp_path / "photos")
    other = tmp_path / "photos" / manifest.name
    text = other.read_text()
    other.write_text(text.replace("grey-0.png,grey,train,grey", "grey-0.png,grey,train,red"))
    assert other.read_text() != text
    study = study_for(other, heads=["softmax"], amounts=["all"])
    assert all(not sample.kinds for sample in read_study_data(study, lambda *told: None).train)
    assert run_study(study, tmp_path / "study", Silent()).finished


def test_photos_that_cannot_be_read_are_named(manifest, tmp_path):
    shutil.copytree(manifest.parent, tmp_path / "photos")
    other = tmp_path / "photos" / manifest.name
    bad = [tmp_path / "photos" / name for name in ("grey-0.png", "grey-7.png")]  # to train on, and to judge on
    for path in bad:
        path.write_bytes(b"")
    study = study_for(other, heads=["softmax"], amounts=["all"], views=[1, 10], on_bad_file="skip")
    outcome = run_study(study, tmp_path / "study", Silent())
    about = json.loads((outcome.folder / "results.json").read_text())
    assert [one["path"] for one in about["bad_photos"]] == [str(path) for path in bad]
    assert {cell["photos"] for cell in about["cells"]} == {34}
    text = (outcome.folder / "tables.md").read_text()
    assert "- 2 photos could not be read and were left out: " in text
    assert "one of all photos" not in text  # whole networks are trained once for every seed
    assert run_study(study, tmp_path / "study", Silent()).about["bad_photos"] == about["bad_photos"]


def test_every_head_has_its_recipe(manifest):
    heads = ["softmax", "softmax-marginal", "bipartite", "bipartite-two"]
    study = study_for(manifest, heads=heads, second_network="tiny_auxiliary", seeds=[3])
    found = {cell.head: train_settings(study, cell, ("colour", "size"), "x") for cell in plan(study)}
    assert {name: one.kind_weight for name, one in found.items()} == {
        "softmax": 0.0,
        "softmax-marginal": 0.5,
        "bipartite": None,
        "bipartite-two": None,
    }
    assert [one.head for one in found.values()] == ["softmax", "softmax", "bipartite", "bipartite"]
    assert found["bipartite-two"].coarse_network == "tiny_auxiliary"
    assert found["bipartite"].coarse_network is None
    assert {one.seed for one in found.values()} == {3}
    assert {one.epochs for one in found.values()} == {2}


def test_whole_networks_are_measured_on_values_too(manifest, tmp_path):
    rows = {fine: {"colour": colour, "price": 2.0 + n} for n, (fine, colour) in enumerate(tiny.CLASSES.items())}
    graph = LabelGraph.from_table(rows, {"colour": ("blue", "grey", "red"), "price": "number, EUR"})
    graph.write(tmp_path / "graph.csv")
    header, *lines = manifest.read_text().splitlines()
    source = manifest.parent / "measured.csv"  # all photos cost 100, which no head can know
    source.write_text("\n".join([f"{header},price", *(f"{line},100" for line in lines)]) + "\n")
    changes = {"data": str(source), "graph": str(tmp_path / "graph.csv"), "kinds": {"all": ["*"]}, "amounts": [2]}
    outcome = run_study(study_for(manifest, **changes), tmp_path / "study", Silent())
    for head in ("softmax", "bipartite"):
        found = {row["metric"]: row["mean"] for row in outcome.summary.rows
                 if row["head"] == head and row["split"] == "val"}  # fmt: skip
        assert 94.0 <= found["error:price"] <= 98.0
        assert found["coverage:price"] == 0.0
        assert 0.0 <= found["steps:colour"] <= 2.0
        assert "spearman:price" not in found  # all true values are the same
