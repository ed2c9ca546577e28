"""Results of every released version are read for ever."""

import json
from pathlib import Path

from finegraph.evaluation import EvaluationResult

GOLDEN = Path(__file__).parents[1] / "golden" / "evaluation-1.json"


def test_every_part_is_read():
    result = EvaluationResult.read(GOLDEN)
    assert (result.top1, result.kinds, result.views) == (0.1, {"colour": 0.4}, 1)
    assert result.bad_photos[0].path == "photos/麺.jpg"
    assert result.temperature_fit.photos == 5
    assert result.mistakes.by_kind["colour"] == 0.6666666666666667
    assert result.calibration["fine"].bins[0].count == 10
    assert result.sure.wrong_at == {"fine": None, "colour": None}
    assert result.unknown.auroc_by_score["energy"] == 0.7
    assert result.retrieval.hierarchical_precision["1"] == 0.25


def test_this_version_writes_the_same(tmp_path):
    """While version 1 is the newest: names may be added, with a value where an old file has none; none may go."""
    EvaluationResult.read(GOLDEN).write(tmp_path / "again.json")
    old, new = (json.loads(path.read_text(encoding="utf-8")) for path in (GOLDEN, tmp_path / "again.json"))
    assert {name: new[name] for name in old} == old
