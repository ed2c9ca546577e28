"""Metrics of numbers and ordered kinds against slow obvious ones."""

import csv
import itertools
from pathlib import Path

import numpy as np
import pytest
import torch

from finegraph.data.samples import Sample, Samples
from finegraph.evaluation.collect import Collector
from finegraph.evaluation.number_metrics import kendall, spearman
from finegraph.evaluation.results import EvaluationResult
from finegraph.evaluation.sample_results import write_samples
from finegraph.evaluation.sure import judge_statements, sure_metrics
from finegraph.graph import LabelGraph
from finegraph.inference import Posterior

GRAPH = LabelGraph.from_table(
    {
        "a": {"heat": "mild", "price": 5.0},
        "b": {"heat": "hot", "price": (9.0, 1.0)},
        "c": {"heat": "medium", "price": None},
        "d": {"heat": None, "price": 15.0},
    },
    {"heat": ("mild", "medium", "hot"), "price": "number, EUR"},
)


def slow_kendall(one, two):
    agree = ties_one = ties_two = 0
    pairs = list(itertools.combinations(range(len(one)), 2))
    for i, j in pairs:
        a, b = np.sign(one[i] - one[j]), np.sign(two[i] - two[j])
        agree += a * b
        ties_one += a == 0
        ties_two += b == 0
    return agree / np.sqrt((len(pairs) - ties_one) * (len(pairs) - ties_two))


@pytest.mark.parametrize("count", [2, 5, 33, 200])
def test_rank_correlations(count):
    from scipy import stats

    random = np.random.default_rng(count)
    for values in (1000, 6):
        one = random.integers(0, values, count).astype(float)
        two = np.round(one / 2 + random.integers(0, values, count))
        one[:2], two[:2] = (0, 1), (1, 0)
        assert kendall(one, two) == pytest.approx(slow_kendall(one, two), abs=1e-12)
        assert kendall(one, two) == pytest.approx(stats.kendalltau(one, two).statistic, abs=1e-12)
        assert spearman(one, two) == pytest.approx(stats.spearmanr(one, two).statistic, abs=1e-12)


def test_constant_lists_have_no_order():
    assert kendall(np.ones(4), np.arange(4.0)) is None
    assert spearman(np.arange(4.0), np.ones(4)) is None


def collected(measured=None, batch=40):
    scores = torch.randn(batch, 4, generator=torch.Generator().manual_seed(3))
    fine = torch.arange(batch) % 4
    fine[0] = -100
    collector = Collector(GRAPH)
    targets = None if measured is None else {"price": measured}
    for part in (slice(0, 15), slice(15, batch)):
        own = None if targets is None else {name: values[part] for name, values in targets.items()}
        collector.add(Posterior(GRAPH, scores[part]), fine[part], own)
    return Posterior(GRAPH, scores), fine.numpy(), collector.result()


@pytest.mark.deep
def test_numbers_by_hand():
    posterior, fine, result = collected()
    values = GRAPH.values("price")
    rows = [row for row in range(len(fine)) if fine[row] >= 0 and not np.isnan(values[fine[row]])]
    true = np.array([values[fine[row]] for row in rows])
    value = posterior.value("price")
    told = value.mean.numpy()[rows]
    found = result.numbers["price"]
    assert (found.photos, found.unit) == (len(rows), "EUR")
    assert found.error == pytest.approx(np.abs(told - true).mean())
    assert found.relative_error == pytest.approx((np.abs(told - true) / true).mean())
    best = values[posterior.log_probs().argmax(dim=1).numpy()[rows]]
    assert found.best_label_error == pytest.approx(np.nanmean(np.abs(best - true)))
    low, high = (end.numpy()[rows] for end in value.interval(0.8))
    assert found.coverage["0.8"] == pytest.approx(np.mean((true >= low - 1e-6) & (true <= high + 1e-6)))
    assert found.kendall == pytest.approx(slow_kendall(told, true))
    assert found.median_error == pytest.approx(np.abs(value.quantile(0.5).numpy()[rows] - true).mean())


def test_orders_by_hand():
    posterior, fine, result = collected()
    parents = GRAPH.parents("heat")
    probs = posterior.probs("heat").double().numpy()
    steps, told, true = [], [], []
    for row, label in enumerate(fine):
        if label >= 0 and parents[label] >= 0:
            total, median = 0.0, 0
            for median, probability in enumerate(probs[row]):  # noqa: B007
                total += probability
                if total >= 0.5:
                    break
            steps.append(abs(median - parents[label]))
            told.append(median)
            true.append(parents[label])
    found = result.orders["heat"]
    assert found.photos == len(steps)
    assert found.steps == pytest.approx(np.mean(steps))
    assert found.within_one == pytest.approx(np.mean(np.array(steps) <= 1))
    assert found.kendall == pytest.approx(slow_kendall(np.array(told, float), np.array(true, float)))


def test_the_table_of_photos_has_their_values(tmp_path):
    scores = torch.randn(4, 4, generator=torch.Generator().manual_seed(3))
    fine = torch.tensor([0, 1, 2, -100])
    collector = Collector(GRAPH)
    collector.add(Posterior(GRAPH, scores), fine, {"price": torch.tensor([100.0, torch.nan, torch.nan, torch.nan])})
    samples = Samples([Sample(Path(f"{n}.jpg")) for n in range(5)])  # the last one could not be read
    write_samples(tmp_path / "samples.csv", collector.samples(), samples, GRAPH)
    with (tmp_path / "samples.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    value = Posterior(GRAPH, scores).value("price")
    low, high = value.interval(0.9)
    for row in range(4):
        told = [value.mean[row], value.quantile(0.5)[row], low[row], high[row]]
        found = [float(rows[row][f"{column}:price"]) for column in ("mean", "median", "low", "high")]
        assert found == pytest.approx([one.item() for one in told], rel=1e-5)
    price = GRAPH.values("price")
    expected = ["100", *("" if np.isnan(price[label]) else f"{price[label]:g}" for label in (1, 2)), ""]
    assert [row["true:price"] for row in rows[:4]] == expected
    assert rows[4]["mean:price"] == ""


@pytest.mark.deep
def test_measured_values_are_the_truth():
    measured = torch.full((40,), torch.nan)
    measured[:5] = 100.0  # also of the photo without a fine label, and of one whose label has no price
    _, _, with_measured = collected(measured)
    _, _, without = collected()
    assert with_measured.numbers["price"].photos == without.numbers["price"].photos + 2
    assert with_measured.numbers["price"].error > without.numbers["price"].error + 5


@pytest.mark.deep
def test_results_are_written_and_read(tmp_path):
    _, _, result = collected()
    result.write(tmp_path / "result.json")
    assert EvaluationResult.read(tmp_path / "result.json") == result
    content = result.to_dict()
    del content["numbers"], content["orders"]  # as earlier versions wrote it
    assert EvaluationResult.from_dict(content).numbers == {}


def test_a_graph_without_numbers():
    graph = LabelGraph.from_table({"a": {"dish": "x"}, "b": {"dish": "y"}})
    collector = Collector(graph)
    collector.add(Posterior(graph, torch.eye(2)), torch.tensor([0, 1]))
    assert (collector.result().numbers, collector.result().orders) == ({}, {})


def test_sure_ranges_are_judged():
    graph = LabelGraph.from_table(
        {name: {"heat": heat, "price": price} for name, heat, price in ROWS}, {"heat": ORDER, "price": "number, EUR"}
    )
    probs = torch.tensor([[0.4, 0.4, 0.18, 0.02, 0.0], [0.02, 0.3, 0.02, 0.33, 0.33]], dtype=torch.float64)
    posterior = Posterior(graph, probs.log())
    stated = posterior.answer(0.1)
    assert [one[:2] for one in stated] == [("heat", "mild to medium"), ("price", "9 to 15 EUR")]
    fine, measured = np.array([2, 0]), {"price": np.array([np.nan, 12.0])}
    found = judge_statements(graph, stated, fine, {})
    assert found.right.tolist() == [1, 0]
    assert (found.low.tolist(), found.high.tolist()) == ([0.0, 9.0], [1.0, 15.0])
    assert (found.level.tolist(), found.label.tolist()) == ([1, 2], [0, -1])
    assert judge_statements(graph, stated, np.array([3, -100]), {}).right.tolist() == [0, -1]
    assert judge_statements(graph, stated, fine, {"heat": np.array([3, -100])}, measured).right.tolist() == [0, 1]
    metrics = sure_metrics(graph, found, 0.1)
    assert metrics.levels == {"fine": 0.0, "heat": 0.5, "price": 0.5}


ORDER = ("mild", "medium", "hot", "fiery")
ROWS = [("a", "mild", 5.0), ("b", "medium", 9.0), ("c", "medium", 30.0), ("d", "hot", 14.0), ("e", "fiery", 15.0)]
