"""All metrics of a collector equal obvious loops, on graphs of every form."""

import dataclasses

import numpy as np
import pytest
import torch
from slow_metrics import metrics as slow_metrics

import finegraph as fg
from finegraph.data.dataset import MISSING
from finegraph.errors import InputError, ShapeError, TargetError, UnknownNameError
from finegraph.evaluation import Collector
from finegraph.model.answering.unknown import UNKNOWN_SCORES, unknown_scores
from reference.random_graphs import FORMS, random_graph

GRAPH = fg.LabelGraph.from_table(
    {
        "mapo tofu @ A": {"dish": "mapo tofu", "restaurant": "A"},
        "mapo tofu @ B": {"dish": "mapo tofu", "restaurant": "B"},
        "kung pao @ B": {"dish": "kung pao", "restaurant": "B"},
    }
)


def random_posterior(graph, photos, rng, scale=2.0):
    fine = torch.tensor(rng.normal(0, scale, (photos, len(graph))))
    kinds = {name: torch.tensor(rng.normal(0, scale, (photos, len(graph.labels(name))))) for name in graph.kinds}
    return fg.Posterior(graph, fine, kinds)


def random_truth(graph, photos, rng):
    """Fine labels, some of which are not known, and labels seen on some photos of some kinds."""
    fine = rng.integers(0, len(graph), photos)
    fine[rng.random(photos) < 0.2] = MISSING
    seen = {}
    for name in graph.kinds[::2]:
        labels = rng.integers(0, len(graph.labels(name)), photos)
        seen[name] = np.where(rng.random(photos) < 0.5, labels, MISSING)
    return fine, seen


def some(posterior, rows):
    return fg.Posterior(posterior.graph, posterior.fine_scores[rows], posterior.coarse_scores[rows])


def slow(posterior, fine, seen, risk):
    graph = posterior.graph
    parents = {}
    for name in graph.kinds:
        parents[name] = [set(np.flatnonzero(row).tolist()) for row in graph.matrix(name)]
    probs = posterior.probs().tolist()
    kinds = {name: posterior.probs(name).tolist() for name in graph.kinds}
    photos = []
    for place, statement in enumerate(posterior.answer(risk)):
        sure = None
        if statement is not None:
            labels = graph.fine if statement.kind is None else graph.labels(statement.kind)
            sure = (statement.kind, labels.index(statement.label))
        photos.append(
            {
                "probs": probs[place],
                "kinds": {name: rows[place] for name, rows in kinds.items()},
                "fine": None if fine[place] == MISSING else int(fine[place]),
                "seen": {name: None if labels[place] == MISSING else labels[place] for name, labels in seen.items()},
                "sure": sure,
            }
        )
    return slow_metrics(photos, parents, len(graph))


def same(found, expected):
    """Whether nested metrics agree; None only equals None."""
    if isinstance(expected, dict):
        assert set(found) == set(expected)
        for name in expected:
            same(found[name], expected[name])
    elif expected is None:
        assert found is None
    else:
        assert found == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("form", FORMS)
def test_metrics_equal_loops(form):
    rng = np.random.default_rng(list(form.encode()))
    case = random_graph(rng, form)
    posterior = random_posterior(case.graph, 40, rng)
    fine, seen = random_truth(case.graph, 40, rng)
    collector = Collector(case.graph, risk=0.3)
    order = rng.permutation(40)
    for rows in (order[:7], order[7:8], order[8:]):
        targets = {name: torch.tensor(labels[rows]) for name, labels in seen.items()}
        numbers = torch.tensor(rows)
        part = some(posterior, rows) if case.graph.kinds else fg.Posterior(case.graph, posterior.fine_scores[rows])
        collector.add(part, torch.tensor(fine[rows]), targets, numbers)
    result = collector.result()
    expected = slow(posterior, fine, seen, risk=0.3)
    for name in ("per_class", "class_photos"):
        expected[name] = {case.graph.fine[label]: value for label, value in expected[name].items()}
    found = dataclasses.asdict(result)
    for name, value in expected.items():
        one = found[name]
        same({key: one[key] for key in value} if name == "sure" else one, value)
    assert (len(collector), result.sure.risk, result.graph) == (40, 0.3, case.graph.digest)
    assert list(result.calibration) == ["fine", *case.graph.kinds]
    for name in (None, *case.graph.kinds):
        found = result.calibration[name or "fine"]
        right = result.top1 if name is None else result.kinds[name]
        judged = result.labelled if name is None else result.kind_photos[name]
        assert found.count == judged
        if judged == 40:
            confidence = posterior.probs(name).amax(dim=1).mean().item()
            assert found.overconfidence == pytest.approx(confidence - right, abs=1e-6)
    assert collector.samples().sample.tolist() == list(range(40))


def test_graphs_in_which_metrics_differ():
    """A hand-made case, so that no metric above is trivially equal to another."""
    probs = torch.tensor([[0.4, 0.25, 0.35], [0.3, 0.5, 0.2], [0.1, 0.2, 0.7], [0.6, 0.3, 0.1]], dtype=torch.float64)
    collector = Collector(GRAPH, risk=0.1)
    collector.add(fg.Posterior(GRAPH, probs.log()), torch.tensor([0, 0, 2, 2]))
    result = collector.result()
    assert result.top1 == 0.5
    assert result.kinds == {"dish": 0.75, "restaurant": 0.25}  # B is more probable than A in the first photo
    assert result.full_path == 0.25
    assert result.inconsistency == 0.25
    assert result.mistake_severity == 1.5
    assert result.mistakes.by_kind == {"dish": 0.5, "restaurant": 1.0}
    assert result.per_class == {"mapo tofu @ A": 0.5, "kung pao @ B": 0.5}
    assert result.nll == pytest.approx(-np.log([0.4, 0.3, 0.7, 0.1]).mean())
    confidences = {"fine": [0.4, 0.5, 0.7, 0.6], "dish": [0.65, 0.8, 0.7, 0.9], "restaurant": [0.6, 0.7, 0.9, 0.6]}
    for name, values in confidences.items():
        right = result.top1 if name == "fine" else result.kinds[name]
        assert result.calibration[name].error == pytest.approx(abs(np.mean(values) - right))
    assert result.sure.coverage == 0.5  # restaurant B at 0.9 in the third, dish at 0.9 in the fourth
    assert result.sure.realised_risk == 0.5
    assert result.sure.levels == {"fine": 0.0, "dish": 0.25, "restaurant": 0.25}


def test_temperature_and_views():
    rng = np.random.default_rng(0)
    posterior = random_posterior(GRAPH, 12, rng)
    fine = torch.tensor([0, 1, 2, MISSING])
    collector = Collector(GRAPH, temperature=2.0, views=3, scores=tuple(UNKNOWN_SCORES))
    collector.add(posterior, fine)
    plain = Collector(GRAPH)
    plain.add(posterior.tempered(2.0).mean_views(3), fine)
    found, expected = collector.result(), plain.result()
    assert found == dataclasses.replace(expected, temperature=2.0, views=3)
    for name, scores in collector.samples().unknown.items():
        assert scores.tolist() == unknown_scores(posterior, name, views=3).tolist()


def test_labels_of_photos_without_any():
    collector = Collector(GRAPH)
    collector.add(random_posterior(GRAPH, 3, np.random.default_rng(0)), torch.full((3,), MISSING))
    result = collector.result()
    assert (result.photos, result.labelled) == (3, 0)
    assert (result.top1, result.nll, result.full_path, result.mistake_severity, result.mean_per_class) == (None,) * 5
    assert result.kinds == {"dish": None, "restaurant": None}
    assert result.calibration["dish"].error is None
    assert result.sure.realised_risk is None
    assert result.inconsistency is not None
    assert result.per_class == {}


def test_many_fine_labels_are_not_kept():
    graph = fg.LabelGraph.from_parents([str(i) for i in range(50_000)], {"half": np.arange(50_000) % 2})
    collector = Collector(graph)
    scores = torch.randn(4, 50_000, generator=torch.Generator().manual_seed(0))
    for _ in range(3):
        collector.add(fg.Posterior(graph, scores), torch.arange(4))
    kept = [value for part in collector._parts for value in vars(part).values() if isinstance(value, np.ndarray)]
    assert sum(array.nbytes for array in kept) < 12 * 100


@pytest.mark.usefixtures("unchecked")
def test_wrong_arguments():
    collector = Collector(GRAPH)
    posterior = random_posterior(GRAPH, 3, np.random.default_rng(0))
    with pytest.raises(InputError, match="nothing to evaluate: expected at least one photo"):
        collector.result()
    with pytest.raises(ShapeError, match="expected one fine label for each of 3 photos, got"):
        collector.add(posterior, torch.tensor([0, 1]))
    with pytest.raises(UnknownNameError, match="unknown kind 'dishes'"):
        collector.add(posterior, torch.tensor([0, 1, 2]), {"dishes": torch.tensor([0, 0, 0])})
    with pytest.raises(ShapeError, match=r"kind_targets\['dish'\]: expected 3 labels"):
        collector.add(posterior, torch.tensor([0, 1, 2]), {"dish": torch.tensor([0, 0])})
    with pytest.raises(TargetError, match="fine: got label 3, expected 0 to 2, or -100 for not known"):
        collector.add(posterior, torch.tensor([0, 3, 2]))
    with pytest.raises(TargetError, match=r"kind_targets\['dish'\]: got label -1, expected 0 to 1"):
        collector.add(posterior, torch.tensor([0, 1, 2]), {"dish": torch.tensor([0, -1, 0])})
    with pytest.raises(InputError, match="risk must be at least 0 and below 1, got 1"):
        Collector(GRAPH, risk=1)
    scores = torch.zeros(3, 3)
    scores[1, 1] = torch.nan
    with pytest.raises(InputError, match="photo 8: the network gives scores that are not numbers"):
        Collector(GRAPH, name_of="photo {}".format).add(
            fg.Posterior(GRAPH, scores), torch.tensor([0, 1, 2]), None, torch.tensor([7, 8, 9])
        )
    assert len(collector) == 0
