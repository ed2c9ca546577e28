"""How probable evidence was before one was told it; random graphs are in test_exactness.py."""

import math

import numpy as np
import pytest
import torch

import finegraph as fg
from finegraph.errors import EvidenceError, UnknownNameError

GRAPH = fg.LabelGraph.from_table(
    {
        "mapo tofu @ A": {"dish": "mapo tofu", "restaurant": "A", "tofu": True},
        "mapo tofu @ B": {"dish": "mapo tofu", "restaurant": "B", "tofu": True},
        "kung pao @ B": {"dish": "kung pao", "restaurant": "B", "tofu": False},
    }
)
PROBS = torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]], dtype=torch.float64)


@pytest.fixture
def posterior():
    return fg.Posterior(GRAPH, PROBS.log())


def probability(posterior, evidence):
    return posterior.log_prob_of(evidence).exp().tolist()


@pytest.mark.parametrize(
    ("evidence", "expected"),
    [
        ({}, [1.0, 1.0]),
        ({"restaurant": None}, [1.0, 1.0]),
        ({"restaurant": "B"}, [0.5, 0.9]),
        ({"tofu": True}, [0.8, 0.2]),
        ({"fine": "mapo tofu @ A"}, [0.5, 0.1]),
        ({"fine": {"mapo tofu @ A", "kung pao @ B"}}, [0.7, 0.9]),
        ({"restaurant": {"A", "B"}}, [1.0, 1.0]),
        ({"restaurant": ["A", None]}, [0.5, 1.0]),
        ({"restaurant": "B", "dish": "mapo tofu"}, [0.3, 0.1]),
        ({"restaurant": "A", "dish": "kung pao"}, [0.0, 0.0]),
        ({"restaurant": {"A": 1.0, "B": 0.1}}, [0.55, 0.19]),
        ({"restaurant": np.array([40.0, 4.0])}, [0.55, 0.19]),
    ],
)
def test_every_form(posterior, evidence, expected):
    assert probability(posterior, evidence) == pytest.approx(expected, abs=1e-12)


def test_keywords_and_what_is_given_twice(posterior):
    assert probability(posterior, {"restaurant": "B", "tofu": True}) == pytest.approx(
        posterior.log_prob_of({"tofu": True}, restaurant="B").exp().tolist()
    )
    with pytest.raises(EvidenceError, match="'tofu' is given twice"):
        posterior.log_prob_of({"tofu": True}, tofu=True)
    with pytest.raises(UnknownNameError, match="did you mean 'restaurant'"):
        posterior.log_prob_of(restaurnt="B")


def test_after_evidence_it_is_conditional(posterior):
    first, second = {"restaurant": "B"}, {"dish": "kung pao"}
    chained = posterior.log_prob_of(first) + posterior.given(first).log_prob_of(second)
    assert chained.tolist() == pytest.approx(posterior.log_prob_of({**first, **second}).tolist(), abs=1e-12)
    assert probability(posterior.given(first), first) == pytest.approx([1.0, 1.0])
    assert probability(posterior.given(first), {"restaurant": "A"}) == [0.0, 0.0]


def test_improbable_evidence_keeps_its_digits():
    """A probability far below what float32 can tell from 0 beside 1."""
    posterior = fg.Posterior(GRAPH, torch.tensor([[0.0, -200.0, -300.0]]))
    assert posterior.log_prob_of(restaurant="B").item() == pytest.approx(-200.0, abs=1e-4)
    assert posterior.log_prob_of(dish="kung pao").item() == pytest.approx(-300.0, abs=1e-4)
    assert posterior.log_prob_of(restaurant="A").item() == 0.0


def test_it_has_a_gradient():
    scores = torch.tensor([[0.3, -0.2, 0.8]], dtype=torch.float64, requires_grad=True)
    fg.Posterior(GRAPH, scores).log_prob_of(restaurant="B").sum().backward()
    p = torch.softmax(scores.detach(), dim=1)[0]
    told = p * torch.tensor([0.0, 1.0, 1.0]) / (p[1] + p[2])
    assert scores.grad[0].tolist() == pytest.approx((told - p).tolist(), abs=1e-12)


def test_a_latent_parent_counts_by_what_it_probably_is():
    graph = fg.LabelGraph.from_table({"a": {"dish": "x"}, "b": {"dish": "y"}, "c": {"dish": None}})
    posterior = fg.Posterior(graph, torch.tensor([[0.6, 0.2, 0.2]]).log(), {"dish": torch.zeros(1, 2)})
    assert math.exp(posterior.log_prob_of(dish="x").item()) == pytest.approx(0.7)
