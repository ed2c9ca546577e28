"""The shipped studies of the paper's four experiments, on a few photos in the layouts of their data sets."""

import csv
from dataclasses import replace
from pathlib import Path

import jaxtyping
import paper_layouts
import pytest

from finegraph.workflows import study as running
from finegraph.workflows.studies.grid import plan
from finegraph.workflows.studies.spec import read_study
from finegraph.workflows.study import run_study
from training import tiny

STUDIES = Path(__file__).parents[2] / "studies"
CARS = "fine,type,model\na,SUV,x\nb,SUV,y\nc,sedan,x\nd,sedan,y\n"
DISHES = (
    "fine,dish,ingredient,restaurant\na @ A,a,tofu & pork,A\na @ B,a,tofu,B\nb @ A,b,beef,A\nc @ B,c,beef & pork,B\n"
)


@pytest.fixture(scope="module", autouse=True)
def _unchecked():
    """Shapes are checked where heads and losses are tested; here there are too many steps for that."""
    tiny.register()
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


class Silent:
    """Takes what it is told."""

    def __getattr__(self, name):
        return lambda *told: None


def tables_of(tmp_path, name, source, graph=None):
    """The tables of a shipped study, with everything but the networks and the number of settings as in its file."""
    shipped = read_study(STUDIES / f"{name}.toml", data=source, graph=graph)
    study = replace(
        shipped, network="tiny", second_network="tiny_auxiliary", weights="none", settings=4, amounts=("all",),
        val_share=0.34,
    )  # fmt: skip
    outcome = run_study(study, tmp_path / "study", Silent())
    assert outcome.cells == len(plan(study))
    with (outcome.folder / "summary.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    return outcome, (outcome.folder / "tables.md").read_text(), rows


@pytest.mark.slow
def test_stanford_cars(tmp_path):
    _, text, rows = tables_of(tmp_path, "stanford-cars", paper_layouts.cars(tmp_path / "cars"))
    assert (
        "| head (kinds) | test, 1 view | test, 1 view, with box | test, 10 views | test, 10 views, with box |" in text
    )
    assert "\n## Coarse accuracy on test, 10 views, with box, all photos\n\n| head (kinds) | model | type |" in text
    for method in ("softmax", "independent (type)", "bipartite (model)", "bipartite-two (type + model)", "ensemble"):
        assert text.count(f"\n| {method} | ") >= 8  # accuracies of all four protocols among them
    nll = {
        (row["views"], row["box"]): row["mean"] for row in rows if (row["head"], row["metric"]) == ("softmax", "nll")
    }
    assert len(set(nll.values())) == len(nll) == 4  # four protocols, four answers


@pytest.mark.slow
def test_cub(tmp_path):
    outcome, text, rows = tables_of(tmp_path, "cub", paper_layouts.cub(tmp_path / "cub"))
    assert (
        "\n## Coarse accuracy on test, 1 view, all photos\n\n| head (kinds) | wing color | wing shape | bill shape |"
        in text
    )
    assert {row["kinds"] for row in rows} == {"", "wing", "attributes"}
    assert "accuracy-test-10views-box.svg" in outcome.plots or "difference-test-10views-box.svg" in outcome.plots


def test_car_333(tmp_path, monkeypatch):
    monkeypatch.setattr(running, "draw_study", lambda *_, **__: [])  # drawing takes longer than the study
    _, text, rows = tables_of(
        tmp_path, "car-333", *paper_layouts.manifest(tmp_path / "cars", CARS, {"train": 6, "test": 2})
    )
    assert {row["kinds"] for row in rows if row["head"] == "bipartite"} == {"type", "model", "both"}
    assert "test, 10 views, with box" in text


@pytest.mark.slow
def test_food_975(tmp_path):
    source = paper_layouts.manifest(tmp_path / "food", DISHES, {"train": 6, "test": 2, "wild": 1})
    _, text, rows = tables_of(tmp_path, "food-975", *source)
    assert "| head (kinds) | test, 1 view | test, 10 views | wild, 1 view | wild, 10 views |" in text
    assert "| head (kinds) | dish | restaurant | ingredient (mean of 3) |" in text
    sets = {"dish", "ingredient", "both", "both + restaurant"}
    assert {row["kinds"] for row in rows if row["head"] == "bipartite"} == sets
    assert {row["split"] for row in rows} == {"test", "wild", "train"}
