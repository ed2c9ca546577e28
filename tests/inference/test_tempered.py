"""Posteriors at a temperature."""

import pytest
import torch

from finegraph.errors import InputError
from finegraph.graph import LabelGraph
from finegraph.inference import Posterior

GRAPH = LabelGraph.from_table(
    {
        "a": {"dish": "x", "egg": True},
        "b": {"dish": "x", "egg": False},
        "c": {"dish": "y", "egg": True},
        "d": {"dish": "z", "egg": False},
    }
)
MIXED = LabelGraph.from_table({"a": {"dish": {"x", "y"}}, "b": {"dish": "x"}, "c": {"dish": None}})


def posterior_of(graph, coarse=True, dtype=torch.float64):
    generator = torch.Generator().manual_seed(3)
    fine = 3 * torch.randn(5, len(graph), generator=generator, dtype=torch.float64)
    scores = {
        kind: 3 * torch.randn(5, len(graph.labels(kind)), generator=generator, dtype=torch.float64).to(dtype)
        for kind in graph.kinds
    }
    return Posterior(graph, fine.to(dtype), scores if coarse else None)


@pytest.mark.parametrize("coarse", [True, False])
@pytest.mark.parametrize("temperature", [0.3, 1.0, 2.5])
def test_joint_scores_are_divided(coarse, temperature):
    posterior = posterior_of(GRAPH, coarse)
    expected = torch.log_softmax(posterior.joint_scores().scores / temperature, dim=1)
    torch.testing.assert_close(posterior.tempered(temperature).log_probs(), expected)


@pytest.mark.parametrize("graph", [GRAPH, MIXED])
def test_by_enumeration(graph):
    posterior, temperature = posterior_of(graph), 1.7
    table, tempered = posterior.enumerate_joint(), posterior.tempered(temperature)
    scores = posterior.fine_scores[:, table.fine].clone()
    for kind, labels in table.kinds.items():
        scores += posterior.coarse_scores[:, posterior.tensors.columns[kind]][:, labels]
    weights = Posterior(graph, torch.zeros(1, len(graph), dtype=torch.float64)).enumerate_joint().log_probs[0]
    # The weights of the graph are facts about labels, not scores: no temperature changes them.
    expected = torch.log_softmax(weights + scores / temperature, dim=1)
    torch.testing.assert_close(tempered.enumerate_joint().log_probs, expected)


def test_evidence_counts_as_it_is():
    evidence = {"egg": {"yes": 0.9, "no": 0.2}, "dish": {"x", "y"}}
    posterior = posterior_of(GRAPH)
    one, two = posterior.given(evidence).tempered(2.0), posterior.tempered(2.0).given(evidence)
    torch.testing.assert_close(one.log_probs(), two.log_probs())
    assert float(one.probs("dish")[:, 2].max()) == 0.0


def test_hotter_is_less_sure():
    entropies = [posterior_of(GRAPH).tempered(t).entropy().mean().item() for t in (0.1, 0.5, 1.0, 3.0, 100.0)]
    assert entropies == sorted(entropies)
    assert posterior_of(GRAPH).tempered(0.1).top(1) != posterior_of(GRAPH).top(1)
    order = posterior_of(GRAPH).log_probs().argsort(dim=1)
    assert torch.equal(posterior_of(GRAPH).tempered(7.0).log_probs().argsort(dim=1), order)


def test_half_precision_is_rounded_once():
    posterior = posterior_of(GRAPH, dtype=torch.bfloat16)
    wide = Posterior(GRAPH, posterior.fine_scores.double(), posterior.coarse_scores.double())
    torch.testing.assert_close(
        posterior.tempered(1.37).log_probs().double(), wide.tempered(1.37).log_probs(), rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize("temperature", [0.0, -1.0, float("inf"), float("nan")])
def test_temperatures_that_are_none(temperature):
    with pytest.raises(InputError, match="temperature: expected a finite number above 0, got "):
        posterior_of(GRAPH).tempered(temperature)
