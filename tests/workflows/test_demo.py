"""The tour: everything it prints is computed in the run."""

import json
import xml.etree.ElementTree as ElementTree

import pytest
import torch

from finegraph.cli.main import run
from finegraph.workflows.demo import run_demo


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    torch.manual_seed(5)
    return run_demo(tmp_path_factory.mktemp("demo"), draws=1)


def test_the_answers_belong_together(demo):
    assert demo.truth in demo.graph.fine
    assert demo.top_given[0].label.endswith(demo.known["restaurant"])
    assert (demo.explanation.first, demo.explanation.second) == tuple(answer.label for answer in demo.top_given[:2])
    assert demo.explanation.log_odds > 0
    for score in demo.scores:
        assert 1 / len(demo.graph) < score.fine <= score.dish <= 1
    assert 0 <= demo.new_item_first <= demo.new_item_third <= 1


def test_it_is_the_same_again_and_leaves_random_numbers_alone(demo, tmp_path):
    torch.manual_seed(7)
    expected = torch.rand(1)
    torch.manual_seed(7)
    again = run_demo(tmp_path, draws=1)
    assert torch.equal(torch.rand(1), expected)
    assert again.scores == demo.scores
    assert again.top == demo.top


def test_the_drawing_is_written(demo):
    ElementTree.parse(demo.drawing)


def test_the_command_prints_json(tmp_path, capsys):
    assert run(["demo", "--json", "--out", str(tmp_path)]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [score["head"] for score in document["scores"]] == ["softmax", "bipartite"]
    assert document["drawing"] == str(tmp_path / "menu.svg")


def test_the_command_prints_a_tour(tmp_path, capsys):
    assert run(["demo", "--out", str(tmp_path)]) == 0
    text = capsys.readouterr().out
    for line in ("A menu as a label graph", "Two heads", "Why", "A new menu item", "finegraph graph check"):
        assert line in text
