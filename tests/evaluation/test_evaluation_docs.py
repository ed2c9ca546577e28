"""The names in docs/evaluation.md are those of the dataclasses, in their order."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

from finegraph.evaluation.asking import Asked
from finegraph.evaluation.metrics import Bin, Calibration, Mistakes
from finegraph.evaluation.number_metrics import NumberMetrics, OrderMetrics
from finegraph.evaluation.results import BadPhoto, EvaluationResult
from finegraph.evaluation.retrieval import Retrieval
from finegraph.evaluation.sample_results import COLUMNS
from finegraph.evaluation.sure import Sure
from finegraph.evaluation.temperature import TemperatureFit
from finegraph.evaluation.unknown_metrics import Unknown
from finegraph.model.answering.unknown import DEFAULT_SCORE, UNKNOWN_SCORES

TEXT = (Path(__file__).parents[2] / "docs/evaluation.md").read_text(encoding="utf-8")


def tables():
    """The names in the first column of each table, by the paragraph before it."""
    found, before = {}, ""
    for block in TEXT.split("\n\n"):
        lines = [line for line in block.splitlines() if not line.startswith("#")]
        if lines and lines[0].startswith("| "):
            found[before] = re.findall(r"^\| `(\w+)` \|", block, flags=re.MULTILINE)
        elif lines:
            before = " ".join(lines)
    return found


def names_after(start):
    matching = [names for before, names in tables().items() if before.startswith(start) or before.endswith(start)]
    assert len(matching) == 1, start
    return matching[0]


@pytest.mark.parametrize(
    ("start", "kind"),
    [
        ("It begins with", EvaluationResult),
        ("Each of `bad_photos`:", BadPhoto),
        ("`temperature_fit`:", TemperatureFit),
        ("`mistakes`, by the graph alone", Mistakes),
        ("Each of `calibration`:", Calibration),
        ("Each of `bins`:", Bin),
        ("`sure`: for each photo", Sure),
        ("`unknown`:", Unknown),
        ("`retrieval`, with `--retrieval`", Retrieval),
        ("`questions`: a photo is settled", Asked),
        ("`numbers`: the truth is", NumberMetrics),
        ("`orders`: for each ordered kind", OrderMetrics),
    ],
)
def test_every_name_is_documented(start, kind):
    assert names_after(start) == [field.name for field in fields(kind)]


def test_columns_and_scores():
    assert names_after("One row per photo") == list(COLUMNS)
    scores = names_after("photos that show none of the classes.")
    assert sorted(scores) == sorted(UNKNOWN_SCORES)
    assert f"| `{DEFAULT_SCORE}` | minus the log probability of the most probable label, mean" in TEXT
    assert re.search(rf"\| `{DEFAULT_SCORE}` .*\(the default\)", TEXT)


def test_options_are_those_of_the_command():
    import typer

    from finegraph.cli.evaluate import evaluate
    from finegraph.cli.train import train

    options = set()
    for own in (evaluate, train):
        app = typer.Typer()
        app.command()(own)
        command = typer.main.get_command(app)
        options |= {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", TEXT)) <= options
