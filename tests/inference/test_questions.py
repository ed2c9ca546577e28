"""What to ask next; the numbers on random graphs are in test_exactness.py."""

import math

import pytest
import torch

import finegraph as fg
from finegraph.errors import InputError
from finegraph.inference import Question
from finegraph.inference.sums import graph_tensors

TABLE = {
    "mapo tofu @ A": {"dish": "mapo tofu", "restaurant": "A", "with": ["tofu"]},
    "mapo tofu @ B": {"dish": "mapo tofu", "restaurant": "B", "with": ["tofu"]},
    "kung pao @ B": {"dish": "kung pao", "restaurant": "B", "with": ["nut"]},
    "kung pao @ A": {"dish": "kung pao", "restaurant": "A", "with": ["nut"]},
}
GRAPH = fg.LabelGraph.from_table(TABLE)
PROBS = torch.tensor([[0.5, 0.4, 0.08, 0.02]], dtype=torch.float64)


@pytest.fixture
def posterior():
    return fg.Posterior(GRAPH, PROBS.log())


def entropy(*probs):
    return -sum(p * math.log2(p) for p in probs if p)


def test_by_hand(posterior):
    best, *others = posterior.questions(4, risk=0.07)[0]
    assert best == Question(
        "restaurant",
        False,
        pytest.approx(entropy(0.52, 0.48)),
        pytest.approx(0.5),
        pytest.approx(0.9),
        pytest.approx(0.52),  # A leaves 0.5 / 0.52 = 96 %, B only 0.4 / 0.48 = 83 %
    )
    assert [one.kind for one in others] == ["dish", "with: tofu", "with: nut"]  # equal ones in the order of the graph
    assert [one.gain for one in others] == pytest.approx([entropy(0.9, 0.1)] * 3)
    assert [one.after for one in others] == pytest.approx([0.58] * 3)
    assert [one.settles for one in others] == [0.0] * 3


def test_the_count_and_what_is_known_already(posterior):
    assert [one.kind for one in posterior.questions(1)[0]] == ["restaurant"]
    assert [one.kind for one in posterior.given(restaurant="B").questions(9)[0]] == ["dish", "with: tofu", "with: nut"]
    assert posterior.given(dish="kung pao").questions()[0][0].kind == "restaurant"
    assert len(posterior.given(dish="kung pao").questions()[0]) == 1  # what is in it is known with the dish
    assert posterior.given(fine="kung pao @ A").questions() == [[]]
    assert [one.kind for one in posterior.given(restaurant={"A": 0.9, "B": 0.3}).questions(1)[0]] == ["restaurant"]


def test_a_kind_that_says_nothing_of_the_fine_label_is_not_asked():
    """Where every parent is unknown the label of the kind is open, and knowing it changes nothing."""
    graph = fg.LabelGraph.from_table(
        {
            "a": {"dish": "x", "mood": None},
            "b": {"dish": "y", "mood": None},
            "c": {"dish": "z", "mood": {"good", "bad"}},
        }
    )
    asked = fg.Posterior(graph, torch.tensor([[0.5, 0.5, -40.0]])).questions(5)[0]
    assert [one.kind for one in asked] == ["dish"]
    assert asked[0].gain == pytest.approx(1.0, abs=1e-6)


def test_float32_is_no_noise():
    """Sums over many labels in float32 are off by more than what a question is worth here."""
    graph = fg.LabelGraph.from_table({f"f{i}": {"one": "same", "half": i % 2 == 0} for i in range(5000)})
    posterior = fg.Posterior(graph, torch.randn(2, 5000, generator=torch.Generator().manual_seed(0)))
    for asked in posterior.questions(5):
        assert [one.kind for one in asked] == ["half"]
        assert 0.9 < asked[0].gain <= 1.0


def test_many_samples_are_taken_in_parts(monkeypatch):
    posterior = fg.Posterior(GRAPH, torch.randn(7, 4, dtype=torch.float64))
    whole = posterior.questions(4)
    monkeypatch.setattr("finegraph.inference.answers.MAX_TOGETHER", 40)
    assert graph_tensors.GroupMembers(GRAPH).size < 40  # so there are at least two parts
    assert posterior.questions(4) == whole
    assert fg.Posterior(GRAPH, torch.zeros(0, 4)).questions() == []


def test_without_kinds_there_is_nothing_to_ask():
    assert fg.Posterior(fg.LabelGraph(["a", "b"], []), torch.zeros(2, 2)).questions() == [[], []]


def test_words():
    numbers = (0.5, 0.4, 0.6, 0.2)
    assert Question("restaurant", False, *numbers).text == "Which restaurant?"
    assert Question("ingredient: scallion", True, *numbers).text == "Is there scallion?"
    assert Question("spicy", True, *numbers).text == "spicy: yes or no?"
    assert str(Question("restaurant", False, *numbers)) == "Which restaurant? (+0.50 bits, best 40% -> 60%)"


@pytest.mark.parametrize("count", [0, -1, True])
def test_wrong_counts(posterior, count):
    with pytest.raises(InputError, match="questions: expected a count of at least 1"):
        posterior.questions(count)


def test_wrong_risk(posterior):
    with pytest.raises(InputError, match="questions: risk must be at least 0 and below 1, got 1"):
        posterior.questions(risk=1.0)
