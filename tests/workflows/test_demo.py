import csv
import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import finegraph as fg
from finegraph.cli import demo as demo_command
from finegraph.cli import next_commands
from finegraph.cli.main import run
from finegraph.data.menu import Menu
from finegraph.errors import RunFolderError
from finegraph.workflows import demo as demo_module
from finegraph.workflows.demo import run_demo

PER_SPLIT = {"train": 4, "val": 1, "test": 2, "wild": 1}


class Silent:
    def __init__(self):
        self.stages = set()

    def stage(self, name, done, total):
        self.stages.add(name)

    def data(self, data, folder):
        pass

    def note(self, text):
        pass


def few_photos(folder, size, progress):
    """The first eight items of the small menu, with few photos each, drawn for real."""
    menu = Menu(size, 0)
    graph = menu.graph()
    some = set(graph.fine[:8])
    rows, counts = [], {}
    for photo in menu.photos:
        place = photo.label, photo.split
        if photo.label in some and counts.get(place, 0) < PER_SPLIT[photo.split]:
            counts[place] = counts.get(place, 0) + 1
            (folder / photo.path).parent.mkdir(parents=True, exist_ok=True)
            menu.draw(photo).save(folder / photo.path)
            rows.append((photo.path, photo.label, photo.split))
    with (folder / "images.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("path", "label", "split"), *rows])
    graph.write(folder / "graph.csv")
    progress(len(rows), len(rows))


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo") / "runs"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo_module, "write_menu", few_photos)
        patch.setenv("FINEGRAPH_CACHE", str(folder / "cache"))
        watcher = Silent()
        found = run_demo(folder, watcher)
    assert {"photos drawn", "test", "wild"} <= watcher.stages
    return found


def test_the_metrics_belong_together(demo):
    assert demo.photos["train"] == 32
    for one in demo.comparisons:
        softmax, bipartite = (one.results[head].top1 for head in ("softmax", "bipartite"))
        assert one.gain.mean == pytest.approx(bipartite - softmax)
        assert (one.fixed - one.broken) / one.results["softmax"].photos == pytest.approx(bipartite - softmax)


def test_the_photo_is_asked_about_for_real(demo):
    question = demo.question
    again = fg.load(f"{demo.folder}/bipartite").predict(question.photo, given={"restaurant": question.known})
    assert again.top[0].probability == pytest.approx(question.after.top[0].probability, abs=1e-6)
    assert question.truth.endswith(question.known)
    assert question.after.top[0].label.endswith(question.known)


def test_a_report_is_written_and_nothing_is_overwritten(demo):
    assert "<html" in Path(demo.report).read_text(encoding="utf-8")
    with pytest.raises(RunFolderError, match="a demo was here already; choose another name"):
        run_demo(demo.folder, Silent())


def test_it_is_printed_with_what_to_do_next(demo, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(demo_module, "run_demo", lambda out, watcher: replace(demo, folder=str(out)))
    (tmp_path / "runs" / "demo").mkdir(parents=True)
    assert run(["demo"]) == 0
    out = capsys.readouterr().out
    for words in (
        "softmax",
        "bipartite against softmax:",
        "you know the restaurant",
        "finegraph serve runs/demo-2/bip",
    ):
        assert words in out
    assert run(["demo", "--json", "--output", "here"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["folder"] == "here"
    assert {"top1", "top5", "nll", "kinds"} == set(document["comparisons"][0]["heads"]["bipartite"])


def test_next_commands_are_as_one_types_them_here(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    script = tmp_path / ".venv" / "bin" / "finegraph"
    script.parent.mkdir(parents=True)
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sys.argv", [".venv/bin/finegraph", "demo"])  # as make calls it
    assert next_commands.own_command() == ".venv/bin/finegraph"
    monkeypatch.setattr("sys.argv", [str(script), "demo"])
    assert next_commands.own_command() == ".venv/bin/finegraph"
    monkeypatch.setenv("PATH", str(script.parent))
    assert next_commands.own_command() == "finegraph"
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sys.argv", [str(tmp_path / "__main__.py"), "demo"])  # python -m finegraph
    assert next_commands.own_command() == f"{sys.executable} -m finegraph"


def test_a_page_is_opened_by_what_is_there(monkeypatch, tmp_path):
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert next_commands.opener() == ""
    (tmp_path / "xdg-open").write_text("#!/bin/sh\n")
    (tmp_path / "xdg-open").chmod(0o755)
    assert next_commands.opener() == "xdg-open "
    monkeypatch.setattr("sys.platform", "win32")
    assert next_commands.opener() == "start "


def test_what_serving_needs_is_said_where_it_is_missing(demo, monkeypatch, capsys):
    monkeypatch.setattr("finegraph.cli.next_commands.find_spec", lambda name: None)
    demo_command._print(demo)
    assert "the same as a web page, where it learns from you; the server needs fastapi" in capsys.readouterr().out
