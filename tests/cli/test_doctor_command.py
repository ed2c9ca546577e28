import json

from finegraph import __version__
from finegraph.workflows.doctor import Diagnosis, Extra, InstalledPart

SICK = Diagnosis(
    parts=(
        InstalledPart(name="numpy", state="2.0"),
        InstalledPart(name="torch", state="broken", problem="OSError: no libgomp"),
    ),
    extras=(Extra(name="sklearn", enables="a classifier", missing=("some-package",), install="pip install 'x[y]'"),),
)


def test_doctor(finegraph):
    outcome = finegraph("doctor")
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.splitlines()[1].split() == ["finegraph", __version__]
    assert outcome.out.endswith("everything that finegraph needs is there and works\n")


def test_doctor_as_json(finegraph):
    outcome = finegraph("doctor", "--json")
    document = json.loads(outcome.out)
    assert (outcome.code, outcome.err, document["healthy"]) == (0, "", True)
    assert {"finegraph", "python", "torch", "numpy", "threads"} <= {part["name"] for part in document["parts"]}


def test_sick_installation(finegraph, monkeypatch):
    monkeypatch.setattr("finegraph.workflows.doctor.examine", lambda: SICK)
    outcome = finegraph("doctor")
    assert outcome.code == 1
    assert "OSError: no libgomp" in outcome.out
    assert "pip install 'x[y]'" in outcome.out
    assert outcome.out.endswith("does not work: torch\n")
    document = json.loads(finegraph("doctor", "--json").out)
    assert document["healthy"] is False
    assert document["extras"][0]["present"] is False


def test_doctor_keeps_to_80_columns(finegraph):
    assert max(map(len, finegraph("doctor").out.splitlines())) <= 80
