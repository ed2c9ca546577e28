"""The panel with what was learnt about the graph: what it shows, what is left out, and names that are markup."""

import json

import pytest

from finegraph.reports.run_results import read_structure
from finegraph.reports.structure_section import structure_section
from finegraph.workflows.report import write_report
from finegraph.workflows.structure.kept_structure import keep_structure
from reports.made_up_runs import made_up_graph, make_run, picture

ODD = "<b>bold</b>"
INTERVAL = {"mean": 0.01, "low": -0.01, "high": 0.03, "method": "bootstrap over photos"}
EFFECT = {
    **dict.fromkeys(("log_likelihood", "top1", "sure", "named"), INTERVAL),
    "sure_wrong": 0.01,
    "verdict": "helps",
}


@pytest.fixture
def run(tmp_path):
    """A run that learnt a cell, a kind and a tree, with one picture."""
    folder = make_run(tmp_path / "run", made_up_graph(6), 30)
    photo = str(tmp_path / "photo.png")
    (tmp_path / "photo.png").write_bytes(picture(0))
    cell = {"fine": ODD, "kind": "tofu", "label": "yes", "table": "no", "odds": 1.2, "odds_if_empty": 40.2, "photos": 3}
    cell["source"] = "photos"
    cell |= {"own": {"label": ODD, "photos": [photo]}, "alike": [{"label": "soup", "photos": [photo]}]}
    empty = {**cell, "fine": "rice", "table": None, "odds": 1e9, "source": "other cells and the name", "alike": []}
    keep_structure(
        folder,
        {
            "cells": {
                "cells": [cell, empty],
                "doubtful": 5,
                "empty": 1,
                "accepted": [
                    {"fine": "rice", "kind": "tofu", "label": "yes"},
                    {"fine": ODD, "kind": "tofu", "label": "some"},
                ],
            }
        },
    )
    label = {"label": "noodles", "fine": ["ramen", "udon"], "stability": 0.9, "photos": [photo, "gone.png"]}
    kind = {"name": "look", "reason": "alike", "stability": 0.8, "effect": EFFECT, "labels": [label]}
    suggested = {"judged": "30 photos", "accepted": ["look"], "suggestions": [kind]}
    suggested["present"] = [{"name": "dish", "effect": EFFECT}]
    leaves = [{"label": name, "photos": [photo]} for name in ("ramen", "udon")]
    root = {"label": "all", "children": [{"label": "noodles", "children": leaves}, {"label": ODD, "photos": []}]}
    tree = {"root": root, "fine": 3, "moves": ["udon moved to the group of ramen (log odds 3.0)"]}
    keep_structure(folder, {"suggested": suggested, "tree": tree})
    return folder


def test_parts_are_kept_side_by_side(run):
    kept = read_structure(run)
    assert {"cells", "suggested", "tree"} <= set(kept)
    assert [path.rpartition("/")[2] for path in kept["pictures"]] == ["photo.png", "gone.png"]
    (run / "structure.json").write_text(json.dumps({**kept, "version": 2}))
    assert read_structure(run) is None
    assert structure_section(None, {}) is None


def test_what_was_learnt_is_shown_and_the_tree_unfolds(page, run, tmp_path):
    write_report([run], tmp_path / "report.html")
    page.goto((tmp_path / "report.html").as_uri())
    panel = page.locator("#structure")
    text = panel.inner_text()
    said = f"{ODD}: photos say tofu: yes; the table says no. Odds 1.2 to 1, or 40 to 1 as if the cell were empty."
    assert f"{said} accepted: some" in text
    assert "rice: other cells and the name say tofu: yes, odds more than 1,000 to 1. accepted" in text
    assert "2 cells were accepted" in text
    assert "alike; stable 80 %; helps accepted" in " ".join(text.split())
    assert panel.locator("b").count() == 0
    images = panel.locator("img")
    assert images.count() > 4
    leaf = panel.locator(".tree .leaf", has_text="udon")
    assert not leaf.is_visible()
    panel.locator(".tree summary", has_text="noodles").click()
    assert leaf.is_visible()
    panel.locator(".learnt-cell .enlarge").first.click()
    assert page.locator("#lightbox").is_visible()


def test_without_it_there_is_no_panel(page, tmp_path):
    folder = make_run(tmp_path / "run", made_up_graph(6), 20)
    write_report([folder], tmp_path / "report.html")
    page.goto((tmp_path / "report.html").as_uri())
    assert page.locator("#structure").count() == 0


@pytest.mark.parametrize("alone", [6, 7])
def test_many_labels_outside_all_groups_are_folded(alone):
    group = {"label": "noodles", "children": [{"label": name, "photos": []} for name in ("ramen", "udon")]}
    single = [{"label": f"dish {number}", "photos": []} for number in range(alone)]
    tree = {"root": {"label": "all", "children": [*single, group]}, "fine": alone + 2, "moves": []}
    root = structure_section({"tree": tree, "pictures": {}}, {})["tree"]["root"]
    assert root["count"] == alone + 2
    assert root["children"][0]["label"] == "noodles"
    if alone == 6:
        assert [child["label"] for child in root["children"][1:]] == [one["label"] for one in single]
    else:
        (folded,) = root["children"][1:]
        assert (folded["label"], folded["count"], len(folded["children"])) == ("each by itself", 7, 7)
