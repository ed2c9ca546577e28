"""Model folders of every released version load for ever and give the answers that they gave when they were saved."""

import json
import tarfile
from pathlib import Path

import pytest

import finegraph as fg

GOLDEN = Path(__file__).parents[1] / "golden"
QUESTIONS = {"centre": {}, "ten": {"views": 10}, "given B": {"given": {"restaurant": "B"}}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("golden")
    with tarfile.open(GOLDEN / "model-1.tar.xz") as archive:
        # Python 3.11 before 3.11.4, such as Debian's, has no filters; the archive is ours.
        archive.extractall(place, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    return place / "model-1"


def near(value):
    """The same value, with room for the rounding of other processors."""
    if isinstance(value, dict):
        return {name: near(one) for name, one in value.items()}
    if isinstance(value, list):
        return [near(one) for one in value]
    return pytest.approx(value, abs=1e-4, rel=1e-4) if isinstance(value, float) else value


def said(found, before):
    """Of an answer, what the version said that gave the answer before: later versions say more of a photo."""
    if isinstance(before, dict) and isinstance(found, dict):
        return {name: said(found[name], one) for name, one in before.items() if name in found}
    if isinstance(before, list) and isinstance(found, list) and len(before) == len(found):
        return [said(*pair) for pair in zip(found, before, strict=True)]
    return found


def test_answers(folder):
    model = fg.load(folder)
    expected = json.loads((GOLDEN / "model-1.json").read_text(encoding="utf-8"))
    assert set(expected) == set(QUESTIONS)
    for name, question in QUESTIONS.items():
        found = {**model.predict(GOLDEN / "photo.png", **question).to_dict(), "photo": "photo.png"}
        assert said(found, expected[name]) == near(expected[name]), name


def test_everything_else(folder):
    model = fg.load(folder)
    assert model.temperature == 1.25
    assert model.unknown.to_dict() == {"score": "log_prob", "threshold": 0.5, "kept": 0.95}
    assert model.about["metrics"] == {"top1": 0.25}
    assert (model.views.size, model.views.resize, model.views.interpolation) == (64, 72, "bicubic")
    assert model.graph.fine[3] == "麻婆豆腐 | *C*"
    assert model.graph.matrix("served").tolist() == [[0.75, 0.25], [1.0, 0.0], [0.0, 0.0], [0.0, 1.0]]


def test_this_version_writes_the_same_files(folder, tmp_path):
    """While version 1 is the newest: what is written has not changed unnoticed."""
    fg.load(folder).save(tmp_path / "again")
    for name in ("model.safetensors", "graph.json", "preprocessing.json"):
        assert (tmp_path / "again" / name).read_bytes() == (folder / name).read_bytes(), name
    old, new = (json.loads((path / "config.json").read_text(encoding="utf-8")) for path in (folder, tmp_path / "again"))
    assert set(old) == set(new)
    assert {name: old[name] for name in old if name not in ("finegraph", "checksum")} == {
        name: new[name] for name in new if name not in ("finegraph", "checksum")
    }
