"""`finegraph report`, as one types it."""

import json
import sys

import pytest

from reports.made_up_runs import made_up_graph, make_run


@pytest.mark.deep
def test_writes_a_page_and_says_where(finegraph, tmp_path):
    run = make_run(tmp_path / "menu", made_up_graph(), 20)
    done = finegraph("report", run)
    assert (done.code, done.err) == (0, "")
    first, *sentences, last = done.out.splitlines()
    assert first == "menu, 20 photos"
    assert len(sentences) == 5
    assert sentences[0].startswith("- menu is right about the fine label for ")
    assert "\u2068" not in done.out  # marks of direction are for pages
    assert last.startswith(f"report: {run / 'report.html'} (")
    assert (run / "report.html").read_text("utf-8").startswith("<!doctype html>")


@pytest.mark.deep
def test_json(finegraph, tmp_path):
    runs = [make_run(tmp_path / name, made_up_graph(), 20, seed=seed) for seed, name in enumerate(("one", "two"))]
    done = finegraph("report", *runs, "-o", tmp_path / "r.html", "--title", "Two", "--evaluation", "test", "--json")
    content = json.loads(done.out)
    assert content["runs"] == ["one", "two"]
    assert len(content["summary"]) == 5
    assert "than one" in content["summary"][0]
    assert content["path"] == str(tmp_path / "r.html")
    assert content["size"] == (tmp_path / "r.html").stat().st_size
    assert "<title>Two</title>" in (tmp_path / "r.html").read_text("utf-8")


@pytest.mark.deep
def test_the_former_flag_of_the_output_still_works(finegraph, tmp_path):
    run = make_run(tmp_path / "one", made_up_graph(), 20)
    assert finegraph("report", run, "--out", tmp_path / "former.html").code == 0
    assert (tmp_path / "former.html").is_file()


@pytest.mark.deep
def test_the_former_flag_of_plots_still_works(finegraph, tmp_path, monkeypatch):
    monkeypatch.setattr("finegraph.reports.plots.plot_style.DPI", 40)
    run = make_run(tmp_path / "one", made_up_graph(), 20)
    content = json.loads(finegraph("report", run, "--figures", tmp_path / "drawn", "--json").out)
    assert content["figures"] == content["plots"]
    assert str(tmp_path / "drawn" / "accuracy.svg") in content["plots"]
    help_text = finegraph("report", "--help").out
    assert "--plots" in help_text
    assert "--figures" not in help_text


@pytest.mark.deep
def test_without_matplotlib_plots_are_refused_and_the_page_is_not(finegraph, tmp_path, monkeypatch):
    run = make_run(tmp_path / "menu", made_up_graph(), 20)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    done = finegraph("report", run, "--plots", tmp_path / "plots")
    assert done.code != 0
    assert 'which is not installed; install it with `pip install "finegraph[plots]"`' in done.err
    assert not (tmp_path / "plots").exists()
    assert not (run / "report.html").exists()
    assert finegraph("report", run).code == 0
    assert (run / "report.html").is_file()


def test_what_is_missing_is_said(finegraph, tmp_path):
    (tmp_path / "empty").mkdir()
    done = finegraph("report", tmp_path / "empty")
    assert done.code != 0
    assert "there are no evaluations in this run; evaluate it first" in done.err
