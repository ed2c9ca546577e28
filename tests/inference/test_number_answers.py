"""Sure ranges, explanations and questions with numbers and ordered kinds equal enumeration and quadrature."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

import finegraph as fg
from finegraph.inference import answers
from finegraph.inference.answers import interval_words
from finegraph.inference.explanations import EVIDENCE
from finegraph.inference.numbers import thresholds as threshold_file
from finegraph.inference.numbers.thresholds import thresholds_of
from reference import enumeration as ref
from reference import values as quadrature
from reference.random_graphs import random_graphs, random_scores
from reference.random_numbers import random_potential, with_numbers

pytestmark = pytest.mark.usefixtures("unchecked")

PARTS = [
    range(12),
    pytest.param(range(12, 120), marks=pytest.mark.deep),
    *(pytest.param(range(n, n + 220), marks=pytest.mark.slow) for n in range(120, 1000, 220)),
]


class Sample:
    """One random graph with numbers and ordered kinds, and one sample of scores, for both sides."""

    def __init__(self, place, case):
        rng = self.rng = np.random.default_rng([37, place])
        graph, self.numbers = with_numbers(rng, case, int(rng.integers(1, 3)))
        kinds = [replace(graph.kind(name), ordered=len(graph.labels(name)) > 2) for name in graph.kinds]
        self.graph = fg.LabelGraph(graph.fine, kinds, [graph.number(name) for name in graph.numbers])
        self.case = case
        self.scores = random_scores(rng, case, scale=float(rng.choice([0.5, 2.0, 4.0])))
        self.potentials = [random_potential(rng, float(rng.choice([0.5, 2.0]))) for _ in self.numbers]
        fine, coarse = (
            torch.tensor(self.scores.fine)[None].double(),
            [torch.tensor(one)[None] for one in self.scores.kinds],
        )
        scores = torch.tensor([[[one.pull, one.precision] for one in self.potentials]], dtype=torch.float64)
        kinds = dict(zip(self.graph.kinds, coarse, strict=True))
        self.posterior = fg.Posterior(self.graph, fine, kinds, number_scores=scores)
        if rng.random() < 0.5:
            self.tell_a_limit()

    def tell_a_limit(self):
        """Evidence on the first number, unless it is impossible."""
        high = float(self.rng.uniform(-0.5, 1.5))
        one = self.numbers[0]
        evidence = {one.number.name: f"<= {float(one.outer(np.array(high)))!r}"}
        if self.posterior.log_prob_of(evidence).item() > -math.inf:
            self.posterior = self.posterior.given(evidence)
            self.potentials[0] = replace(self.potentials[0], high=high)

    def terms(self, place, potential):
        one = self.numbers[place]
        pairs = zip(one.values, one.spreads, strict=True)
        return np.array([quadrature.fine_value(*pair, potential).log_total for pair in pairs])

    def joint(self):
        """The joint distribution of all labels, numbers summed out by quadrature."""
        total = sum(self.terms(place, potential) for place, potential in enumerate(self.potentials))
        return ref.log_joint(self.scores.fine + total, self.scores.kinds, self.case.matrices)

    def shares(self, place, low, high):
        """P(low <= v <= high | i) of each fine label."""
        potential = self.potentials[place]
        cut = replace(potential, low=max(low, potential.low), high=min(high, potential.high))
        if cut.low > cut.high:
            return np.zeros(len(self.graph))
        whole, part = self.terms(place, potential), self.terms(place, cut)
        return np.where(whole == -math.inf, 0.0, np.exp(part - np.where(whole == -math.inf, 0.0, whole)))


def samples(numbers):
    for place, case in zip(numbers, random_graphs(len(numbers), seed=41, start=numbers.start), strict=True):
        yield Sample(place, case)


def inner(one, outer):
    return (math.log(outer) if one.number.scale == "log" else outer) / one.width - one.centre / one.width


def candidates(sample, joint, risk, values):
    """All statements in order: name, label or ends, probability, compatible fine labels."""
    possible = ref.fine_log_probs(joint) > -math.inf
    left = [np.asarray(matrix)[possible] for matrix in sample.case.matrices]
    for kind, label, probability, compatible in ref.statements(joint, left):
        yield sample.graph.kinds[kind] if kind is not None else None, label, probability, compatible
    for place, name in enumerate(sample.graph.kinds):
        if sample.graph.kind(name).ordered:
            for ends, probability, compatible in ref.range_statements(joint, place, sample.case.matrices[place]):
                yield name, ends, probability, compatible
    probs = np.exp(ref.fine_log_probs(joint))
    for place, one in enumerate(sample.numbers):
        ends = [end.item() for end in values[place].interval(1 - risk)]
        shares = sample.shares(place, inner(one, ends[0]) - 1e-9, inner(one, ends[1]) + 1e-9)
        compatible = int(((shares >= risk) & possible).sum())
        if compatible < possible.sum():
            yield one.number.name, tuple(ends), float(probs @ shares), compatible


def named(graph, statement):
    """A statement of ours as a candidate."""
    if statement.kind is None:
        return None, graph.fine.index(statement.label)
    if statement.kind in graph.numbers:
        return statement.kind, (pytest.approx(statement.low, rel=1e-9), pytest.approx(statement.high, rel=1e-9))
    labels = graph.labels(statement.kind)
    if statement.low is None:
        return statement.kind, labels.index(statement.label)
    assert statement.label == f"{statement.low} to {statement.high}"
    return statement.kind, (labels.index(statement.low), labels.index(statement.high))


@pytest.mark.deep
@pytest.mark.parametrize("numbers", PARTS, ids=lambda numbers: f"{numbers.start}-{numbers.stop - 1}")
def test_sure_answers_are_the_most_specific_statements(numbers):
    kinds_of_answers = set()
    for place, sample in enumerate(samples(numbers)):
        risk = (0.05, 0.3)[place % 2]
        values = [sample.posterior.value(name) for name in sample.graph.numbers]  # the search is the slow part
        listed = [one for one in candidates(sample, sample.joint(), risk, values) if one[2] >= 1 - risk - 1e-7]
        ours = sample.posterior.answer(risk, values=values)[0]
        if not listed:
            assert ours is None
            continue
        fewest = min(one[3] for one in listed)
        best = max(one[2] for one in listed if one[3] == fewest)
        expected = next(one for one in listed if one[3] == fewest and one[2] >= best - 1e-7)
        assert named(sample.graph, ours) == expected[:2]
        assert (ours.probability, ours.compatible) == (pytest.approx(expected[2], abs=1e-7), expected[3])
        kinds_of_answers.add((ours.kind in sample.graph.numbers, ours.low is not None))
    assert kinds_of_answers == {(False, False), (False, True), (True, True)}


def test_ranges_by_hand(monkeypatch):
    table = {f"car {year} {n}": {"year": year, "size": size} for year, n, size in CARS}
    graph = fg.LabelGraph.from_table(table, types={"year": "number", "size": ("small", "medium", "large")})
    probs = torch.tensor([[0.02, 0.33, 0.3, 0.31, 0.02, 0.02], [0.35, 0.3, 0.02, 0.01, 0.02, 0.3]], dtype=torch.float64)
    posterior = fg.Posterior(graph, probs.log())
    assert posterior.answer(0.07) == [
        ("year", "2010 to 2012", pytest.approx(0.94), 3, 2010, 2012),
        ("size", "small to medium", pytest.approx(0.97), 4, "small", "medium"),
    ]
    # Both leave the same two cars; the kind comes first. At no risk at all nothing is ruled out.
    assert posterior.given(year="<= 2011").answer(0.05)[0][:2] == ("size", "medium to large")
    assert posterior.answer(0.0) == [None, None]
    whole = posterior.answer(0.07)
    monkeypatch.setattr(answers, "MAX_TOGETHER", 1)
    assert posterior.answer(0.07) == whole


CARS = [
    (2008, 1, "small"),
    (2010, 1, "medium"),
    (2011, 1, "large"),
    (2012, 1, "large"),
    (2015, 1, "small"),
    (2016, 1, "medium"),
]


@pytest.mark.parametrize(
    ("ends", "text"),
    [
        ((2010.0, 2012.0), "2010 to 2012"),
        ((12.5, 12.5), "12.5"),
        ((11.2345, 14.7123), "11.2 to 14.8"),
        ((-0.012345, 0.98765), "-0.02 to 0.99"),
        ((123456.7, 198765.4), "123000 to 199000"),
        ((9.0, 14.70001), "9 to 14.8"),
    ],
)
def test_intervals_in_words_stay_true(ends, text):
    assert interval_words(*ends) == text
    assert interval_words(*ends, "EUR") == f"{text} EUR"


# ---- explanations ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("numbers", PARTS, ids=lambda numbers: f"{numbers.start}-{numbers.stop - 1}")
def test_explanations_add_up_and_equal_the_minimum_norm_split(numbers):
    for sample in samples(numbers):
        posterior, graph = sample.posterior, sample.graph
        log_probs = posterior.log_probs()[0]
        possible = np.flatnonzero(~log_probs.isneginf().numpy())
        if len(possible) < 2:
            continue
        one, two = possible[0], possible[-1]
        (found,) = posterior.explain(graph.fine[one], graph.fine[two])
        assert found.log_odds == pytest.approx((log_probs[one] - log_probs[two]).item(), abs=1e-8)
        # Evidence that says nothing of the two leaves a part of rounding, or none.
        parts = {part.source: part for part in found.parts if not is_nothing(part)}
        expected = expected_parts(sample, one, two)
        assert {name: part.value for name, part in parts.items()} == {
            name: pytest.approx(value, abs=1e-8) for name, value in expected.items()
        }
        for number in sample.numbers:
            exact = not number.spreads.any()
            assert parts[number.number.name].several == (not exact)


def is_nothing(part):
    return part.source.startswith(EVIDENCE) and abs(part.value) < 1e-8


def expected_parts(sample, one, two):
    """The parts by a dense solution: exact numbers are two columns, the others differ by their terms."""
    plain = {
        name: m for name, m in zip(sample.graph.kinds, sample.case.matrices, strict=True) if one_parent(sample, name)
    }
    without = [replace(potential, low=-math.inf, high=math.inf) for potential in sample.potentials]
    exact = [place for place, number in enumerate(sample.numbers) if not number.spreads.any()]
    kinds = list(sample.graph.kinds)
    own = ref.joint_scores(
        sample.scores.fine, [sample.scores.kinds[kinds.index(name)] for name in plain], list(plain.values())
    )
    scores = own + sum((sample.terms(place, without[place]) for place in exact), start=np.zeros(len(own)))
    columns = [
        np.stack([sample.numbers[place].values, -0.5 * sample.numbers[place].values ** 2], axis=1) for place in exact
    ]
    matrices = [*plain.values(), *columns]
    matrix = np.concatenate([np.zeros((len(scores), 0)), *matrices], axis=1)
    inverse = np.linalg.inv(np.eye(len(scores)) + matrix @ matrix.T)
    fine, split = ref.minimum_norm_split(scores - (inverse @ scores).sum() / inverse.sum(), matrices)
    names = ["fine", *plain, *(sample.numbers[place].number.name for place in exact)]
    found = {name: part[one] - part[two] for name, part in zip(names, [fine, *split], strict=True)}
    for name, own_scores, rows in zip(kinds, sample.scores.kinds, sample.case.matrices, strict=True):
        if name not in plain:
            both = ref.joint_scores(np.zeros(len(scores)), [own_scores], [rows])
            found[name] = both[one] - both[two]
    for place, number in enumerate(sample.numbers):
        before, after = (sample.terms(place, one_of[place]) for one_of in (without, sample.potentials))
        if place not in exact:
            found[number.number.name] = before[one] - before[two]
        known = (after[one] - before[one]) - (after[two] - before[two])
        if abs(known) >= 1e-8:
            found[f"evidence: {number.number.name}"] = known
    return found


def one_parent(sample, name):
    kind = sample.graph.kind(name)
    return bool((kind.row_sizes == 1).all())


def test_a_shift_of_a_number_that_changes_no_answer_changes_no_explanation():
    rng = np.random.default_rng(5)
    prices = rng.uniform(1, 9, 12).round(1)
    table = {f"item {i}": {"dish": f"dish {i // 3}", "price": price} for i, price in enumerate(prices)}
    graph = fg.LabelGraph.from_table(table, types={"price": "number, EUR"})
    fine, coarse = (torch.randn(2, n, dtype=torch.float64) for n in (12, 4))
    scores = torch.rand(2, 1, 2, dtype=torch.float64)
    posterior = fg.Posterior(graph, fine, {"dish": coarse}, number_scores=scores)
    inner_value, change = (
        torch.from_numpy(graph.number("price").standardised[0].copy()),
        torch.rand(2, 2, dtype=torch.float64),
    )
    moved = change[:, :1] * inner_value - change[:, 1:] * inner_value**2 / 2
    shifted = fg.Posterior(graph, fine - moved + 3.0, {"dish": coarse}, number_scores=scores + change[:, None])
    assert torch.allclose(shifted.log_probs(), posterior.log_probs())
    for ours, theirs in zip(posterior.explain("item 0", "item 7"), shifted.explain("item 0", "item 7"), strict=True):
        assert {p.source: pytest.approx(p.value, abs=1e-8) for p in ours.parts} == {
            p.source: p.value for p in theirs.parts
        }
        texts = {p.source: (p.first, p.second) for p in ours.parts}
        assert texts["price"] == (f"{prices[0]:g} EUR", f"{prices[7]:g} EUR")


# ---- questions -------------------------------------------------------------------------------------------------------


def entropy(probs):
    probs = probs[probs > 0]
    return -math.fsum(probs * np.log2(probs))


def effect(sample, joint, place, threshold, risk):
    """What knowing whether a number is above a threshold is expected to do: both answers in turn, weighed."""
    probs = np.exp(ref.fine_log_probs(joint))
    under = sample.shares(place, -math.inf, inner(sample.numbers[place], threshold) + 1e-12)
    gain, after, settles = entropy(probs), 0.0, 0.0
    for share in (under, 1 - under):
        answer = float(probs @ share)
        if answer < 1e-12:
            continue
        told = probs * share / answer
        gain -= answer * entropy(told)
        after += answer * told.max()
        settles += answer if told.max() >= 1 - risk else 0.0
    return gain, after, settles


@pytest.mark.deep
@pytest.mark.parametrize("numbers", PARTS, ids=lambda numbers: f"{numbers.start}-{numbers.stop - 1}")
def test_questions_about_numbers_equal_quadrature(numbers):
    asked = 0
    for sample in samples(numbers):
        joint = sample.joint()
        listed = {question.kind: question for question in sample.posterior.questions(99, risk=0.2)[0]}
        for place, one in enumerate(sample.numbers):
            effects = [effect(sample, joint, place, c, 0.2) for c in thresholds_of(one.number).tolist()]
            best = max((gain for gain, *_ in effects), default=0.0)
            question = listed.get(one.number.name)
            if question is None:
                assert best < 1e-8
                continue
            gain, after, settles = effect(sample, joint, place, question.above, 0.2)
            assert (question.gain, question.after) == (pytest.approx(gain, abs=1e-8), pytest.approx(after, abs=1e-8))
            assert question.settles == pytest.approx(settles, abs=1e-8)
            assert question.gain == pytest.approx(best, abs=1e-8)
            assert question.binary
            asked += 1
    assert asked > len(numbers) / 2


@pytest.mark.parametrize("spread", [0.0, 0.05])
def test_of_many_thresholds_a_good_one_is_asked(spread, monkeypatch):
    rng = np.random.default_rng(2)
    number = fg.Number.from_values("price", np.sort(rng.uniform(1, 90, 300)), spread)
    graph = fg.LabelGraph([f"item {i}" for i in range(300)], numbers=[number])
    posterior = fg.Posterior(graph, torch.randn(2, 300, dtype=torch.float64))
    monkeypatch.setattr(threshold_file, "MAX_TOGETHER", 1)
    for (question,) in posterior.questions():
        assert question.gain > 0.98
        assert 10 < question.above < 80


def test_thresholds_are_round():
    number = fg.Number.from_values("price", [9.0, 12.0, 12.5, 20.4, 119.0, 121.0, None], unit="EUR")
    assert thresholds_of(number).tolist() == [10, 12, 20, 100, 120]
    years = fg.Number.from_values("year", [2009, 2010, 2012])
    assert thresholds_of(years).tolist() == [2009, 2010]
    small = fg.Number.from_values("part", [-0.31, -0.052, 0.00071, 0.00074])
    assert thresholds_of(small).tolist() == [-0.2, 0, 0.00072]
    assert thresholds_of(fg.Number.from_values("none", [None, 3.0])).tolist() == []


def test_what_is_asked_can_be_told():
    number = fg.Number.from_values("price", [9.0, 12.0, 15.0], unit="EUR")
    posterior = fg.Posterior(fg.LabelGraph("abc", numbers=[number]), torch.tensor([[0.5, 0.3, 0.2]]).log())
    (question,) = posterior.questions()[0]
    assert question.text == "Is the price above 10 EUR?"
    assert str(question) == "Is the price above 10 EUR? (+1.00 bits, best 50% -> 80%)"
    told = posterior.given(price=f"> {question.above}")
    assert told.probs().tolist() == [pytest.approx([0.0, 0.6, 0.4])]
    assert told.questions()[0][0].text == "Is the price above 14 EUR?"
    assert told.given(price="> 14").questions() == [[]]
