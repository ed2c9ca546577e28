"""The command `finegraph study`: it runs, lists, goes on, and says what is wrong."""

import json
import shutil
import signal
from pathlib import Path

import jaxtyping
import pytest

from finegraph.cli.study import StudyDisplay
from training import tiny


@pytest.fixture(scope="module", autouse=True)
def _unchecked():
    """Shapes are checked where heads and losses are tested; here there are too many steps for that."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture(scope="module")
def manifest(tmp_path_factory):
    tiny.register()
    return tiny.make_photos(tmp_path_factory.mktemp("photos"))


@pytest.fixture
def file(manifest, tmp_path):
    path = tmp_path / "squares.toml"
    path.write_text(
        'title = "Squares"\ndata = "placeholder.csv"\nheads = ["softmax", "bipartite"]\namounts = [1, "all"]\n'
        'seeds = 2\nsettings = 4\nnetwork = "tiny"\nweights = "none"\nsplits = ["val"]\n'
        '[kinds]\ncolour = ["colour"]\n'
    )
    return path


def test_it_compares_and_goes_on(finegraph, file, manifest, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    graph = manifest.parent / "graph.csv"
    listed = finegraph("study", file, "--list")
    assert listed.code == 0, listed.err
    assert "6 cells, 0 done in runs/study-squares; 4 settings tried for every head" in listed.out
    assert not Path("runs").exists()
    result = finegraph("study", file, "--data", manifest, "--graph", graph)
    assert result.code == 0, result.err
    assert "Squares: 35 photos to draw from, 5 fine labels" in result.out
    assert "Every head tries 4 settings on the same validation photos" in result.out
    assert "top-1 % on val, 1 view, and the difference to softmax" in result.out
    table = [line for line in result.out.splitlines() if line.startswith(("head", "softmax", "bipartite"))]
    assert [line.split("  ")[0] for line in table] == ["head (kinds)", "softmax", "bipartite (colour)"]
    assert "6 of 6 cells" in result.err
    folder = Path("runs/study-squares")
    for name in ("study.toml", "results.csv", "results.json", "summary.csv", "summary.json", "tables.md"):
        assert (folder / name).is_file()
    assert (folder / "figures" / "accuracy-val.svg").is_file()
    assert "6 cells, 6 done" in finegraph("study", file, "--list").out
    again = finegraph("study", file, "--data", manifest, "--graph", graph, "--json")
    document = json.loads(again.out)
    assert document["finished"]
    assert document["cells"] == document["total"] == 6
    rows = json.loads((folder / "summary.json").read_text())["rows"]
    assert document["rows"] == rows
    changed = finegraph("study", file, "--data", manifest)
    assert changed.code == 3
    assert "another study was begun in this folder: graph was" in changed.err


def test_numbers_and_ordered_kinds_have_tables_of_their_own(finegraph, file, manifest, tmp_path):
    graph = tmp_path / "graph.csv"
    graph.write_text(
        'fine,colour [blue < grey < red],"price [number, EUR]"\nred small,red,2\nred large,red,3\nblue small,blue,4\n'
        "blue large,blue,5\ngrey,grey,6\n"
    )
    file.write_text(file.read_text().replace('["colour"]', '["*"]'))
    result = finegraph("study", file, "--data", manifest, "--graph", graph, "--output", tmp_path / "out")
    assert result.code == 0, result.err
    tables = result.out.split("\n\n")
    steps, price = (next(one.splitlines() for one in tables if one.startswith(start)) for start in ("Steps", "price"))
    place = "on val, 1 view, all photos, and the difference to softmax"
    assert steps[0] == f"Steps off the label of ordered kinds, {place}"
    assert price[0] == f"price, {place}"
    assert price[1].split("  ")[0] == "head (kinds)"
    for heading in ("mean absolute error, EUR", "in 90 % intervals, %", "Spearman"):
        assert heading in price[1]
    assert [line.split("  ")[0] for line in price[2:4]] == ["softmax", "bipartite (colour)"]


def test_the_list_as_json(finegraph, file):
    document = json.loads(finegraph("study", file, "--list", "--json").out)
    assert len(document["cells"]) == 6
    assert document["cells"][0] == {
        "head": "softmax", "kinds": "", "amount": "1", "seed": 0, "box": False, "done": False,
    }  # fmt: skip


def test_all_faults_of_a_file_are_printed(finegraph, file):
    file.write_text('heds = ["softmax"]\namounts = ["much"]\n')
    result = finegraph("study", file)
    assert result.code == 3
    assert "3 faults in the study" in result.err
    assert "unknown setting 'heds'; did you mean 'heads'?" in result.err
    assert "Traceback" not in result.err


def test_photos_that_are_not_there(finegraph, file, tmp_path):
    result = finegraph("study", file, "--output", tmp_path / "out")
    assert result.code == 3
    assert "placeholder.csv: there is no such file or folder" in result.err
    assert not (tmp_path / "out").exists()


def test_training_that_is_stopped_can_be_gone_on_with(finegraph, file, manifest, tmp_path, monkeypatch):
    text = file.read_text().replace("settings = 4\n", 'tune = "all"\n').replace("seeds = 2", "seeds = 1")
    file.write_text(text.replace('[1, "all"]', "[2]") + "[training]\nepochs = 1\nbatch_size = 8\n")
    arguments = ("study", file, "--data", manifest, "--graph", manifest.parent / "graph.csv", "-o", tmp_path / "out")
    step = StudyDisplay.step
    asked = []

    def ask(*told):
        if not asked:
            asked.append(signal.SIGINT)  # once: a second one would not wait
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(StudyDisplay, "step", ask)
    stopped = finegraph(*arguments)
    assert stopped.code == 130
    assert "stopped after 0 of 2 cells; the same command continues" in stopped.out
    monkeypatch.setattr(StudyDisplay, "step", step)
    assert finegraph(*arguments).code == 0


def test_a_list_of_another_study_is_refused(finegraph, file, manifest, tmp_path):
    graph = manifest.parent / "graph.csv"
    file.write_text(file.read_text().replace("seeds = 2", "seeds = 1").replace('[1, "all"]', "[1]"))
    out = tmp_path / "out"
    assert finegraph("study", file, "--data", manifest, "--graph", graph, "--output", out).code == 0
    assert "2 cells, 2 done" in finegraph("study", file, "--output", out, "--list").out
    file.write_text(file.read_text().replace("settings = 4", "settings = 8"))
    listed = finegraph("study", file, "--output", out, "--list")
    assert listed.code == 3
    assert "another study was begun in this folder: settings was 4, now 8;" in listed.err


def test_an_interruption_says_how_to_go_on(finegraph, file, manifest, tmp_path, monkeypatch):
    def interrupt(*told):
        raise KeyboardInterrupt

    monkeypatch.setattr(StudyDisplay, "cell", interrupt)
    graph = manifest.parent / "graph.csv"
    stopped = finegraph("study", file, "--data", manifest, "--graph", graph, "--output", tmp_path / "out")
    assert stopped.code == 130
    assert "stopped; the cells that are done are kept; the same command continues" in stopped.err


def test_a_bad_photo_comes_with_the_setting_that_leaves_it_out(finegraph, file, manifest, tmp_path):
    photos = tmp_path / "photos"
    shutil.copytree(manifest.parent, photos)
    (photos / "grey-0.png").write_bytes(b"no photo")
    arguments = ("--data", photos / manifest.name, "--graph", photos / "graph.csv", "--output", tmp_path / "out")
    result = finegraph("study", file, *arguments)
    assert result.code == 3
    assert f'on_bad_file = "skip" in {file}' in result.err
    assert "--on-bad-file" not in result.err  # there is no such flag here
    file.write_text('on_bad_file = "skip"\n' + file.read_text())
    assert finegraph("study", file, *arguments).code == 0
