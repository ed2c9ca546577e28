"""What a report shows of single photos: the same whether scores or features are kept, and found once."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

import tiny_classifier as tiny
from finegraph.data.samples import Sample, Samples
from finegraph.evaluation import details as details_file
from finegraph.evaluation.collect import Collector
from finegraph.evaluation.details import DetailCollector, draw_order
from finegraph.evaluation.photo_evaluation import evaluate_photos
from finegraph.graph import LabelGraph
from finegraph.inference import Posterior
from finegraph.model.answering.pipeline import known_posteriors
from finegraph.model.features import Features

GRAPH = LabelGraph.from_table(
    {
        f"item {n}": {
            "dish": f"dish {n % 9}",
            "place": {f"place {n % 4}", f"place {(n + 1) % 4}"},
            "hot": None if n % 5 == 0 else n % 2 == 0,
            "price": 5.0 + n % 7,
        }
        for n in range(40)
    },
    types={"price": "number"},
)


def made_samples(count):
    return Samples([Sample(Path(f"/photos/{n}.jpg"), GRAPH.fine[n % 40]) for n in range(count)], "made up")


def made_features(samples, views, coarse):
    torch.manual_seed(1)
    fine = torch.randn(len(samples), views, 12)
    other = torch.randn(len(samples), views, 20) if coarse else None
    return Features(fine=fine, coarse=other, samples=samples, numbers=tuple(range(len(samples))))


@pytest.mark.parametrize(("views", "coarse"), [(1, False), (1, True), (3, False)])
def test_details_from_features_are_those_from_scores(monkeypatch, views, coarse):
    tiny.register(monkeypatch)
    classifier = tiny.classifier(GRAPH, coarse_network="other" if coarse else None)
    samples = made_samples(30)
    features = made_features(samples, views, coarse)
    found = {}
    for kept in ("scores", "features"):
        details = DetailCollector(GRAPH, draw_order(samples), gallery=8)
        collector = Collector(
            GRAPH,
            temperature=1.7,
            views=views,
            details=details,
            score_again=partial(scored_again, classifier) if kept == "features" else None,
        )
        for batch in known_posteriors(classifier.network, features):
            fine = torch.tensor([number % 40 for number in batch.numbers])
            collector.add(
                batch.posterior, fine, None, torch.tensor(batch.numbers), (batch.features, batch.coarse_features)
            )
        sizes = {one.parts[0].numel() for one in (*details._any, *details._wrong)}
        assert sizes == ({12 * views} if kept == "features" else {40})
        found[kept] = details.details().arrays()
    assert np.isfinite(found["scores"]["parts"]).any()
    for name, values in found["scores"].items():
        np.testing.assert_array_equal(found["features"][name], values, err_msg=name)


def scored_again(classifier, fine, coarse):
    features = Features(fine=fine, coarse=coarse, samples=made_samples(len(fine)), numbers=tuple(range(len(fine))))
    (batch,) = known_posteriors(classifier.network, features)
    return batch.posterior


def test_an_evaluation_keeps_features_and_finds_parents_and_kinds_once(monkeypatch):
    tiny.register(monkeypatch)
    classifier, samples = tiny.classifier(GRAPH), made_samples(600)  # in three batches
    sorted_kinds, asked_kinds = [], []
    heaviest, kind_log_probs = details_file._heaviest, Posterior.kind_log_probs
    monkeypatch.setattr(
        details_file, "_heaviest", lambda graph, kind: sorted_kinds.append(kind) or heaviest(graph, kind)
    )
    details = DetailCollector(GRAPH, draw_order(samples), gallery=5)
    add = DetailCollector.add

    def count_asked(self, *arguments):
        with monkeypatch.context() as patch:
            patch.setattr(
                Posterior, "kind_log_probs", lambda p, *rest: asked_kinds.append(rest) or kind_log_probs(p, *rest)
            )
            return add(self, *arguments)

    monkeypatch.setattr(DetailCollector, "add", count_asked)
    evaluate_photos(classifier, samples, details=details, known=made_features(samples, 1, False))
    assert sorted(sorted_kinds) == sorted(GRAPH.kinds)
    assert asked_kinds == []
    assert {one.parts[0].shape for one in details._any} == {(1, 12)}


def test_the_heaviest_parent_is_the_first_among_equals():
    table = {"a": {"k": {"x": 0.2, "y": 0.8}}, "b": {"k": {"y": 0.5, "x": 0.5}}, "c": {"k": None}, "d": {"k": "y"}}
    graph = LabelGraph.from_table(table)
    labels = graph.labels("k")
    found = details_file._heaviest(graph, "k").tolist()
    first = min(labels.index("x"), labels.index("y"))
    assert found == [labels.index("y"), first, -1, labels.index("y")]
