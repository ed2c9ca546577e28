"""Kappas: textbook values, slow obvious versions, and the store's own votes."""

import random
from fractions import Fraction
from itertools import combinations

import pytest

from finegraph.labelling.questions.team import cohen, fleiss


def test_cohen_of_the_textbook():
    """Two readers of 50 proposals: 20 yes-yes, 5 yes-no, 10 no-yes, 15 no-no; observed 0.7, chance 0.5, kappa 0.4."""
    pairs = [("yes", "yes")] * 20 + [("yes", "no")] * 5 + [("no", "yes")] * 10 + [("no", "no")] * 15
    observed, kappa = cohen(pairs)
    assert observed == pytest.approx(0.7)
    assert kappa == pytest.approx(0.4)


def test_fleiss_of_the_textbook():
    """Fourteen raters of ten subjects in five categories; kappa 0.210."""
    table = [
        (0, 0, 0, 0, 14),
        (0, 2, 6, 4, 2),
        (0, 0, 3, 5, 6),
        (0, 3, 9, 2, 0),
        (2, 2, 8, 1, 1),
        (7, 7, 0, 0, 0),
        (3, 2, 6, 3, 0),
        (2, 5, 3, 2, 2),
        (6, 5, 2, 1, 0),
        (0, 2, 2, 3, 7),
    ]
    observed, kappa = fleiss([[c for c, n in enumerate(row) for _ in range(n)] for row in table])
    assert observed == pytest.approx(0.378, abs=5e-4)
    assert kappa == pytest.approx(0.210, abs=5e-4)


def slow_cohen(pairs):
    """By the definition, counting every pair of independent answers."""
    observed = Fraction(sum(a == b for a, b in pairs), len(pairs))
    chance = Fraction(sum(a == b for a, _ in pairs for _, b in pairs), len(pairs) ** 2)
    return None if chance == 1 else float((observed - chance) / (1 - chance))


def slow_fleiss(cells):
    """By the definition, counting every pair of votes on one cell and every pair of votes at all."""
    cells = [votes for votes in cells if len(votes) > 1]
    shares = [Fraction(sum(a == b for a, b in combinations(v, 2)), len(list(combinations(v, 2)))) for v in cells]
    everything = [vote for votes in cells for vote in votes]
    chance = Fraction(sum(a == b for a in everything for b in everything), len(everything) ** 2)
    observed = sum(shares, Fraction(0)) / len(shares)
    return None if chance == 1 else float((observed - chance) / (1 - chance))


@pytest.mark.parametrize("seed", range(20))
def test_both_equal_the_slow_versions(seed):
    chance = random.Random(seed)
    labels = "abc"[: chance.randint(1, 3)]
    pairs = [(chance.choice(labels), chance.choice(labels)) for _ in range(chance.randint(1, 30))]
    expected = slow_cohen(pairs)
    assert cohen(pairs)[1] == (None if expected is None else pytest.approx(expected))
    cells = [[chance.choice(labels) for _ in range(chance.randint(0, 5))] for _ in range(20)] + [["a", "a"]]
    expected = slow_fleiss(cells)
    assert fleiss(cells)[1] == (None if expected is None else pytest.approx(expected))


def test_nothing_to_compare():
    assert fleiss([["a"], []]) == (None, None)


def test_the_agreement_of_a_store(store, menu, new_id):
    answers = {
        "ann": ["mapo tofu", "mapo tofu", "kung pao", "kung pao"],
        "bob": ["mapo tofu", "kung pao", "kung pao", None],
    }
    for person, values in answers.items():
        for fine, value in zip(menu.fine, values, strict=True):
            store.decide(fine, "dish", value, person=person, edit_id=new_id(), seen=None)
    found = store.agreement("dish")
    [pair] = found.pairs
    expected = slow_cohen(list(zip(answers["ann"][:3], answers["bob"][:3], strict=True)))  # unknown says nothing
    assert (pair.one, pair.two, pair.cells, pair.kappa) == ("ann", "bob", 3, pytest.approx(expected))
    assert found.kinds[0].fleiss == pytest.approx(slow_fleiss([["m", "m"], ["m", "k"], ["k", "k"]]))
    assert (found.kinds[0].cells, found.kinds[0].people) == (3, 2)
    assert [kind.cells for kind in store.agreement().kinds] == [3, 0, 0, 0]
