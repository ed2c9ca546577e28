import json
import re

import pytest

from evaluation.tiny_runs import make_foreign, make_photos, make_run, register
from finegraph.data.sources import read_samples
from finegraph.evaluation import EvaluationResult


@pytest.fixture
def run(tmp_path, monkeypatch):
    register(monkeypatch)
    return make_run(tmp_path / "run", make_photos(tmp_path / "photos"))


@pytest.mark.deep
def test_table(finegraph, run, tmp_path):
    outcome = finegraph("evaluate", run)
    assert (outcome.code, outcome.err) == (0, "")
    lines = outcome.out.splitlines()
    assert lines[0] == f"12 photos of {tmp_path}/photos/images.csv, test"
    result = EvaluationResult.read(run / "evaluations/test/result.json")
    cells = {line.rsplit(maxsplit=1)[0].strip(): line.split()[-1] for line in lines[1:10]}
    assert cells["top 1"] == f"{result.top1:.1%}"
    assert cells["negative log-likelihood"] == f"{result.nll:.3f}"
    assert cells["mistake severity (kinds that differ)"] == f"{result.mistake_severity:.3f}"
    kinds = {line.split()[0]: line.split()[1:] for line in lines[10:14]}
    assert kinds["kind"] == ["accuracy", "calibration", "error", "photos"]
    assert kinds["framed"] == [f"{result.kinds['framed']:.1%}", f"{result.calibration['framed'].error:.1%}", "6"]
    assert lines[14].startswith(f"sure answers at a risk of 5.0%: for {result.sure.coverage:.1%} of the photos")
    asked = result.questions
    assert lines[15].startswith("the best questions about 12 photos, answered as the graph says")
    assert lines[16].split() == ["questions", "settled", "right", "of", "these", "top", "1"]
    for number, line in enumerate(lines[17:21]):
        right = "-" if asked.right[number] is None else f"{asked.right[number]:.1%}"
        assert line.split() == [str(number), f"{asked.settled[number]:.1%}", right, f"{asked.top1[number]:.1%}"]
    assert lines[21:25] == ["temperature 1, not fitted", f"kept in {run}/evaluations/test", "", "Next"]
    assert [line.split("finegraph ")[-1] for line in lines[25::2]] == [
        f"report {run}",
        f"predict {run} PHOTO",
        f"serve {run}",
    ]
    again = finegraph("evaluate", run, "--name", "other", "--questions", 0)
    assert f"finegraph report {run} --evaluation other\n" in again.out
    assert "the best questions" not in again.out
    assert EvaluationResult.read(run / "evaluations/other/result.json").questions is None
    assert "finegraph report" not in finegraph("evaluate", run, "--no-details").out


def test_json_is_the_result(finegraph, run):
    outcome = finegraph("evaluate", run, "--json", "--views", 10, "--box", "--risk", 0.2, "--name", "mine")
    assert (outcome.code, outcome.err) == (0, "")
    document = json.loads(outcome.out)
    assert document.pop("folder") == str(run / "evaluations/mine")
    assert document.pop("trained_on") == 0
    assert document == json.loads((run / "evaluations/mine/result.json").read_text())
    assert (document["views"], document["box"], document["sure"]["risk"]) == (10, True, 0.2)


@pytest.mark.deep
def test_calibration_and_unknown_photos(finegraph, run, tmp_path):
    foreign = make_foreign(tmp_path / "foreign")
    outcome = finegraph(
        "evaluate", run, "--calibrate", "val", "--unknown", foreign, "--save-calibration", "--score", "entropy",
        "--kept", 0.9,
    )  # fmt: skip
    assert outcome.code == 0
    assert re.search(r"temperature \S+, fitted on 16 photos of val \(.*\), saved with the model\n", outcome.out)
    assert re.search(r"unknown photos \(entropy above \S+\): \S+ of the known photos are kept, 90.0% were", outcome.out)
    assert re.search(r"of 5 photos of none of the classes: \S+ found, AUROC", outcome.out)
    assert re.search(r"AUROC of all scores: \w+ \S+%, ", outcome.out)
    outcome = finegraph("evaluate", run, "--unknown", foreign)
    assert "unknown photos (entropy above" in outcome.out


@pytest.mark.deep
def test_bad_photos_are_named_on_standard_error(finegraph, run, tmp_path):
    bad = read_samples(tmp_path / "photos/images.csv").split("test")[0].path
    bad.write_bytes(b"<html>")
    outcome = finegraph("evaluate", run)
    assert outcome.code == 3
    assert f"error: {bad}: this is no photo of a known format" in outcome.err
    outcome = finegraph("evaluate", run, "--on-bad-file", "skip", "--json")
    assert outcome.code == 0
    assert json.loads(outcome.out)["photos"] == 11
    assert outcome.err.splitlines()[0] == "left out as they cannot be read: 1 photo"
    assert str(bad) in outcome.err.splitlines()[1]


@pytest.mark.deep
def test_on_a_terminal_many_kinds_are_cut(finegraph, run, monkeypatch):
    for name, value in {"TTY_COMPATIBLE": "1", "NO_COLOR": "1", "TERM": "xterm", "COLUMNS": "100"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("finegraph.cli.evaluate.MAX_KINDS", 1)
    outcome = finegraph("evaluate", run)
    assert outcome.code == 0
    out = re.sub("\x1b\\[[0-9;]*m", "", outcome.out)
    assert "the 1 kinds with the lowest accuracy of 3; --json has them all" in out
    assert "44/44" in outcome.err  # those of the gallery and those that were trained on come on top of the 12


def test_errors(finegraph, run, tmp_path):
    for arguments, message in [
        (("nowhere",), "nowhere: there is no such folder"),
        ((run, "--split", "tset"), "unknown split 'tset' in"),
        ((run, "--views", 3), "views: expected 1 or 10, got 3"),
        ((run, "--save-calibration"), "there is no calibration to save"),
        ((run, "--calibrate", "val", "--score", "energie"), "did you mean 'energy'"),
    ]:
        outcome = finegraph("evaluate", *arguments)
        assert outcome.code == 3
        assert message in outcome.err
    assert finegraph("evaluate", run, "--risk", 2).code == 2


@pytest.mark.deep
def test_how_good_features_are_for_search(finegraph, run):
    outcome = finegraph("evaluate", run, "--retrieval", "--name", "search")
    assert outcome.code == 0
    found = EvaluationResult.read(run / "evaluations/search/result.json").retrieval
    assert (
        f"search among 12 photos (12 asked): mean average precision {found.mean_average_precision:.1%}, " in outcome.out
    )
    assert f"{found.hierarchical_precision['10']:.1%} of the first 10" in outcome.out
