"""How many questions settle how many photos equals an obvious loop, on graphs of every form."""

import numpy as np
import pytest
import torch

import finegraph as fg
from finegraph.data.dataset import MISSING
from finegraph.evaluation import Collector, asking
from finegraph.evaluation.asking import QuestionCollector, photos_to_ask
from finegraph.evaluation.results import EvaluationResult
from reference.random_graphs import FORMS, random_graph

GRAPH = fg.LabelGraph.from_table(
    {
        "mapo tofu @ A": {"dish": "mapo tofu", "restaurant": "A"},
        "mapo tofu @ B": {"dish": "mapo tofu", "restaurant": "B"},
        "kung pao @ B": {"dish": "kung pao", "restaurant": "B"},
        "kung pao @ A": {"dish": "kung pao", "restaurant": None},
    }
)


def slow(posterior, truth, risk, count):
    """One photo, step by step by `given` and `questions`: settled and right after each number of questions."""
    graph, told, settled, right, first = posterior.graph, {}, [], [], None
    for step in range(count + 1):
        now = posterior.given({kind: labels for kind, labels in told.items() if labels is not None})
        label, probability = now.top(1)[0][0]
        right.append(label == graph.fine[truth])
        settled.append(probability >= 1 - risk)
        asked = [one.kind for one in now.questions(99, risk)[0] if one.kind not in told]
        if settled[-1] or not asked or step == count:
            break
        first = first or asked[0]
        row = graph.matrix(asked[0])[truth] if not graph.kind(asked[0]).unknown[truth] else []
        told[asked[0]] = {graph.labels(asked[0])[c] for c in np.flatnonzero(row)} or None
    rest = count + 1 - len(settled)
    return settled + settled[-1:] * rest, right + right[-1:] * rest, first


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.deep), pytest.param(2, marks=pytest.mark.deep)])
@pytest.mark.parametrize("form", FORMS)
def test_equals_a_loop(form, seed):
    rng = np.random.default_rng([5, seed])
    graph = random_graph(rng, form).graph
    fine = torch.tensor(rng.normal(0, 1.5, (6, len(graph))))
    kinds = {name: torch.tensor(rng.normal(0, 1.5, (6, len(graph.labels(name))))) for name in graph.kinds}
    posterior, truth, risk = fg.Posterior(graph, fine, kinds), rng.integers(0, len(graph), 6), 0.2
    collector = QuestionCollector(graph, risk, 3)
    collector.add(posterior, truth, np.arange(6))
    found = collector.metrics()
    expected = [slow(posterior.some([row]), int(truth[row]), risk, 3) for row in range(6)]
    settled, right = (np.array([one[part] for one in expected]) for part in (0, 1))
    assert found.photos == 6
    assert found.settled == pytest.approx(settled.mean(axis=0))
    assert found.top1 == pytest.approx(right.mean(axis=0))
    of_settled = [own[done].mean() if done.any() else None for done, own in zip(settled.T, right.T, strict=True)]
    assert list(found.right) == pytest.approx(of_settled)
    for name in graph.kinds:
        assert found.first[name] == pytest.approx(np.mean([one[2] == name for one in expected]))


def test_by_hand():
    probs = torch.tensor([[0.5, 0.3, 0.15, 0.05], [0.97, 0.01, 0.01, 0.01], [0.6, 0.1, 0.2, 0.1]], dtype=torch.float64)
    collector = Collector(GRAPH, questions=QuestionCollector(GRAPH, 0.05, 2))
    collector.add(fg.Posterior(GRAPH, probs.log()), torch.tensor([1, 2, MISSING]))
    found = collector.result().questions
    # The first photo is mapo tofu @ B: the restaurant comes first, leaving kung pao; then the dish settles it. The
    # second is settled, wrongly, before anything is asked. The third has no label to answer from.
    assert found.photos == 2
    assert found.first == {"dish": 0.0, "restaurant": 0.5}
    assert found.settled == (0.5, 0.5, 1.0)
    assert found.right == (0.0, 0.0, 0.5)
    assert found.top1 == (0.0, 0.5, 0.5)


def test_what_is_unknown_is_answered_with_nothing_and_not_asked_again():
    probs = torch.tensor([[0.5, 0.3, 0.1, 0.1]], dtype=torch.float64)
    collector = QuestionCollector(GRAPH, 0.05, 3)
    collector.add(fg.Posterior(GRAPH, probs.log()), np.array([3]), np.array([0]))
    found = collector.metrics()
    assert found.first["restaurant"] == 1.0
    assert found.settled == (0.0,) * 4  # the dish leaves both kinds of kung pao, and nothing is left to ask
    assert found.top1 == (0.0, 0.0, 0.0, 0.0)


def test_only_some_of_many_photos_are_asked_about(monkeypatch):
    fine = np.array([0, MISSING, 2, 3, 1])
    order = np.array([5, 1, 9, 2, 7], dtype=np.uint64)
    assert photos_to_ask(GRAPH, order, fine).tolist() == [3, 0, 4, 2]
    monkeypatch.setattr(asking, "MAX_PHOTOS", 2)
    chosen = photos_to_ask(GRAPH, order, fine)
    assert chosen.tolist() == [3, 0]
    monkeypatch.setattr(asking, "MAX_NUMBERS", 12)  # a photo of this graph takes 4 labels and 7 links
    assert photos_to_ask(GRAPH, order, fine).tolist() == [3]
    collector = QuestionCollector(GRAPH, 0.05, 1, chosen)
    for start in (0, 2):
        collector.add(fg.Posterior(GRAPH, torch.zeros(2, 4)), fine[start : start + 2], np.arange(start, start + 2))
    assert collector.metrics().photos == 2


def test_nothing_to_ask_about():
    collector = QuestionCollector(GRAPH, 0.05, 3)
    collector.add(fg.Posterior(GRAPH, torch.zeros(1, 4)), np.array([MISSING]), np.array([0]))
    assert collector.metrics() is None
    graph = fg.LabelGraph(["a", "b"], [])
    collector = QuestionCollector(graph, 0.05, 3)
    collector.add(fg.Posterior(graph, torch.tensor([[9.0, 0.0], [0.0, 0.0]])), np.array([0, 1]), np.arange(2))
    assert collector.metrics().settled == (0.5,) * 4


def test_results_go_through_files_and_old_ones_load(tmp_path):
    collector = Collector(GRAPH, questions=QuestionCollector(GRAPH, 0.05, 2))
    collector.add(fg.Posterior(GRAPH, torch.randn(5, 4)), torch.tensor([1, 2, 0, 3, 1]))
    result = collector.result()
    result.write(tmp_path / "result.json")
    assert EvaluationResult.read(tmp_path / "result.json") == result
    content = result.to_dict()
    del content["questions"]
    assert EvaluationResult.from_dict(content).questions is None


def test_numbers_are_asked_about_until_it_is_settled():
    table = {f"item {i}": {"price": price} for i, price in enumerate([5.0, 8.0, 12.0, 15.0, None])}
    graph = fg.LabelGraph.from_table(table, {"price": "number, EUR"})
    probs = torch.tensor([[0.24, 0.24, 0.25, 0.26, 0.01], [0.3, 0.2, 0.2, 0.2, 0.1]], dtype=torch.float64)
    collector = QuestionCollector(graph, 0.05, 3)
    collector.add(fg.Posterior(graph, probs.log()), np.array([2, 4]), np.arange(2))
    found = collector.metrics()
    # Above 10? Yes. Above 14? No. The second photo is of the item whose price nobody knows: there is no answer.
    assert found.settled == (0.0, 0.0, 0.5, 0.5)
    assert found.top1 == (0.0, 0.0, 0.5, 0.5)
    assert found.first == {"price": 1.0}
