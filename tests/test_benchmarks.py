"""What benchmarks conclude from what they measure: a miss must show, and must be the exit code."""

import contextlib
import importlib.util
import io
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from finegraph.cli.main import run
from finegraph.data.checks.photo_findings import Finding
from reports.made_up_runs import made_up_graph, make_run

FOLDER = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def benchmark(monkeypatch):
    """A benchmark as a module; where it looks for other modules is forgotten afterwards."""

    def load(name):
        monkeypatch.setattr(sys, "path", [*sys.path, str(FOLDER)])
        spec = importlib.util.spec_from_file_location(f"benchmark_{name}", FOLDER / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load


def command_here(words, **_):
    """Carry out a command in this process, silently."""
    assert words[:2] == [sys.executable, "-c"]
    with contextlib.redirect_stdout(io.StringIO()):
        assert run(words[3:]) == 0


def test_every_command_is_started(benchmark):
    module = benchmark("start")
    found = [" ".join(words) for words in module.commands(module.get_command(module.app))]
    assert {"", "train", "report", "evaluate", "study", "graph", "graph check", "data check"} <= set(found)
    assert len(found) == len(set(found)) > 15


def test_both_limits_of_extraction(benchmark):
    module = benchmark("extraction")
    assert module.verdict(3.0, module.QUICKER, at_least=True) == (True, "at least 3: reached")
    assert module.verdict(2.9, module.QUICKER, at_least=True) == (False, "at least 3: NOT REACHED")
    assert module.verdict(1.31, module.LONGER, at_least=False) == (False, "at most 1.3: NOT REACHED")


@pytest.mark.parametrize(("limit", "words", "code"), [(1e6, "yes\n", 0), (0.0, "OVER THE LIMIT\n", 1)])
def test_a_report_that_takes_too_long(benchmark, tmp_path, monkeypatch, capsys, limit, words, code):
    module = benchmark("report")
    if limit == 0.0:  # one of the two in processes of its own, which take two seconds each to begin
        monkeypatch.setattr(module.subprocess, "run", command_here)
    made = make_run(tmp_path / "run", made_up_graph(), 20)
    monkeypatch.setattr(module, "SMALL", limit)
    monkeypatch.setattr(sys, "argv", ["report.py", "--run", str(made)])
    assert module.main() == code
    assert capsys.readouterr().out.endswith(words)


@pytest.mark.filterwarnings("ignore")  # the decoders' remarks on what is broken
def test_a_bad_file_that_only_the_check_names_is_a_miss(benchmark, tmp_path, monkeypatch):
    module = benchmark("bad_files")
    check = module.check_samples

    def names_more(samples):
        found = check(samples)
        one = Finding(rule="bad-file", severity="error", message="of no kind", files=("nowhere.jpg",))
        return replace(found, findings=(*found.findings, one))

    monkeypatch.setitem(module.build.BACKBONES, "tiny", None)  # the drill registers its own, for itself
    found = module.photos_drill(tmp_path, 12, seed=0)
    assert found["named once, by both"] == found["bad"] > 0
    monkeypatch.setattr(module, "check_samples", names_more)
    (tmp_path / "again").mkdir()
    found = module.photos_drill(tmp_path / "again", 12, seed=0)
    assert found["named once, by both"] == found["bad"] - 1


@pytest.mark.parametrize(("draws", "t"), [(2, 12.7062), (3, 4.3027), (5, 2.7764), (10, 2.2622), (20, 2.0930)])
def test_intervals_of_accuracy_know_how_many_draws_there_were(benchmark, draws, t):
    """With Student's t of ten draws, the interval of two would be six times too narrow."""
    gains = np.random.default_rng(draws).normal(1.0, 0.5, draws)
    others = np.linspace(40.0, 60.0, draws)
    rows, rivals = ([{"top5": value} for value in values] for values in (others + gains, others))
    found = benchmark("accuracy").interval(rows, rivals, "top5")
    half = t * gains.std(ddof=1) / np.sqrt(draws)
    assert (found.mean, found.low, found.high) == pytest.approx(
        (gains.mean(), gains.mean() - half, gains.mean() + half), rel=1e-4
    )


def test_the_interval_of_one_draw_is_over_photos(benchmark):
    right, other = np.arange(400) % 4 > 0, np.arange(400) % 2 > 0
    module = benchmark("accuracy")
    found = module.interval([{"right": right}], [{"right": other}], "top1")
    assert found.mean == pytest.approx(25.0)
    assert 18.0 < found.low < 25.0 < found.high < 32.0
    assert module.interval([{"nll": 1.0}], [{"nll": 2.0}], "nll") is None
