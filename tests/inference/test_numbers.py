"""Numbers in the posterior equal quadrature on 1,000 random graphs, mixed with all other forms of kinds.

The first 24 graphs, two of each form, are in the fast tier, the first 120 in `make test`, all in `make test-all`.
"""

import math
import re
from dataclasses import replace

import numpy as np
import pytest
import torch

import finegraph as fg
from reference import enumeration as ref
from reference import values as quadrature
from reference.random_graphs import random_graphs, random_scores
from reference.random_numbers import random_potential, with_numbers

pytestmark = pytest.mark.usefixtures("unchecked")

PARTS = [
    range(24),
    pytest.param(range(24, 120), marks=pytest.mark.deep),
    *(pytest.param(range(n, n + 176), marks=pytest.mark.slow) for n in range(120, 1000, 176)),
]
TOLERANCE = 1e-8


class Sample:
    """One random graph with numbers and one sample of scores, for both sides."""

    def __init__(self, number, case):
        rng = self.rng = np.random.default_rng([31, number])
        self.case = case
        self.graph, self.numbers = with_numbers(rng, case, int(rng.integers(1, 4)))
        self.scores = random_scores(rng, case, scale=float(rng.choice([0.3, 2.0])))
        self.potentials = [random_potential(rng, float(rng.choice([0.5, 3.0]))) for _ in self.numbers]

    def posterior(self, dtype=torch.float64):
        """Ours."""
        fine = torch.tensor(self.scores.fine, dtype=dtype)[None]
        coarse = {
            kind: torch.tensor(own, dtype=dtype)[None]
            for kind, own in zip(self.graph.kinds, self.scores.kinds, strict=True)
        }
        scores = torch.tensor([[[one.pull, one.precision] for one in self.potentials]], dtype=dtype)
        return fg.Posterior(self.graph, fine, coarse, number_scores=scores)

    def terms(self, potentials):
        """What each number multiplies each fine label by, in logs: (number, fine), by quadrature."""
        return np.array(
            [
                [
                    quadrature.fine_value(*pair, potential).log_total
                    for pair in zip(one.values, one.spreads, strict=True)
                ]
                for one, potential in zip(self.numbers, potentials, strict=True)
            ]
        )

    def joint(self, potentials):
        """The joint distribution of all labels by enumeration, numbers summed out by quadrature."""
        fine = self.scores.fine + self.terms(potentials).sum(axis=0)
        return ref.log_joint(fine, self.scores.kinds, self.case.matrices)

    def mixture(self, place, potentials):
        """The value of one number by quadrature."""
        terms = self.terms(potentials)
        others = np.delete(terms, place, axis=0).sum(axis=0)
        plain = ref.fine_log_probs(ref.log_joint(self.scores.fine, self.scores.kinds, self.case.matrices))
        one = self.numbers[place]
        return plain + others, one.values, one.spreads, potentials[place]


def samples(numbers):
    for number, case in zip(numbers, random_graphs(len(numbers), seed=29, start=numbers.start), strict=True):
        yield Sample(number, case)


def close(ours, theirs, tolerance=TOLERANCE):
    """Whether numbers agree, relative to their size if that is large; infinities exactly."""
    ours, theirs = np.asarray(ours, dtype=np.float64), np.asarray(theirs, dtype=np.float64)
    return np.allclose(ours, theirs, rtol=tolerance, atol=tolerance)


def assert_same_labels(sample, posterior, potentials):
    joint = sample.joint(potentials)
    assert close(posterior.log_probs()[0], ref.fine_log_probs(joint))
    for j, kind in enumerate(sample.graph.kinds):
        assert close(posterior.log_probs(kind)[0], ref.kind_log_probs(joint, j))


def assert_same_values(sample, posterior, potentials):
    for place, one in enumerate(sample.numbers):
        given = sample.mixture(place, potentials)
        mixture = quadrature.mixture(*given)
        value = posterior.value(one.number.name)
        assert close(value.mean[0], mixture.mean(one.outer))
        assert close(value.spread[0], mixture.spread(one.outer))
        low, high = np.sort(sample.rng.uniform(-1.5, 1.5, 2))
        expected = quadrature.interval_probability(*given, low, high)
        found = value.probability((float(one.outer(low)), float(one.outer(high))))
        assert close(found[0], expected)


@pytest.mark.deep
@pytest.mark.parametrize("numbers", PARTS, ids=lambda numbers: f"{numbers.start}-{numbers.stop - 1}")
def test_labels_and_values_equal_quadrature(numbers):
    for sample in samples(numbers):
        posterior = sample.posterior()
        assert_same_labels(sample, posterior, sample.potentials)
        assert_same_values(sample, posterior, sample.potentials)


def random_evidence(sample):
    """Evidence on all numbers for our side, and the potentials with it."""
    given, potentials = {}, []
    for one, potential in zip(sample.numbers, sample.potentials, strict=True):
        form = sample.rng.integers(4)
        low, high = np.sort(sample.rng.uniform(-2.5, 2.5, 2))
        name = one.number.name
        if form == 0:
            given[name], change = (float(one.outer(low)), float(one.outer(high))), {"low": low, "high": high}
        elif form == 1:
            given[name], change = f"<= {float(one.outer(high))!r}", {"high": high}
        elif form == 2:
            spread = float(sample.rng.uniform(0.1, 2.0))
            outer = spread * one.width * (float(one.outer(low)) if one.number.scale == "log" else 1.0)
            given[name] = fg.Around(float(one.outer(low)), outer)
            change = {"likely": low, "likely_precision": spread**-2}
        else:
            given[name], change = None, {}
        potentials.append(replace(potential, **change))
    return given, potentials


@pytest.mark.deep
@pytest.mark.parametrize("numbers", PARTS, ids=lambda numbers: f"{numbers.start}-{numbers.stop - 1}")
def test_evidence_equals_quadrature(numbers):
    for sample in samples(numbers):
        posterior = sample.posterior()
        given, potentials = random_evidence(sample)
        terms = sample.terms(potentials) - sample.terms(sample.potentials)
        before = ref.fine_log_probs(sample.joint(sample.potentials))
        expected = ref.log_sum(before + terms.sum(axis=0))
        assert close(posterior.log_prob_of(given)[0], expected)
        if expected == -math.inf:
            with pytest.raises(fg.errors.EvidenceError, match="probability 0 for sample 0"):
                posterior.given(given)
            continue
        told = posterior.given(given)
        assert_same_labels(sample, told, potentials)
        assert_same_values(sample, told, potentials)
        again = dict.fromkeys(sample.graph.numbers, (None, None))
        assert close(told.log_prob_of(again)[0], 0.0)


@pytest.mark.deep
@pytest.mark.parametrize("sign", [">=", "<=", ">", "<", "to"])
def test_ranges_of_ordered_kinds_equal_enumeration(sign):
    compared = 0
    for sample in samples(range(40)):
        kinds = [sample.graph.kind(name) for name in sample.graph.kinds]
        kinds = [replace(kind, ordered=len(kind.labels) > 1) for kind in kinds]
        numbers = [sample.graph.number(name) for name in sample.graph.numbers]
        sample.graph = fg.LabelGraph(sample.graph.fine, kinds, numbers)
        for place, kind in enumerate(kinds):
            if not kind.ordered:
                continue
            count, label = len(kind.labels), int(sample.rng.integers(len(kind.labels)))
            kept = {
                ">=": range(label, count),
                "<=": range(label + 1),
                ">": range(label + 1, count),
                "<": range(label),
                "to": range(label, count),
            }[sign]
            joint = sample.joint(sample.potentials)
            if ref.evidence_log_prob(joint, {place: set(kept)}) == -math.inf:
                continue
            last = kind.labels[-1]
            text = f"{kind.labels[label]} to {last}" if sign == "to" else f"{sign} {kind.labels[label]}"
            posterior = sample.posterior()
            assert close(posterior.log_prob_of({kind.name: text}), ref.evidence_log_prob(joint, {place: set(kept)}))
            told, expected = posterior.given({kind.name: text}), ref.given(joint, {place: set(kept)})
            assert close(told.log_probs()[0], ref.fine_log_probs(expected))
            for other, name in enumerate(sample.graph.kinds):
                assert close(told.log_probs(name)[0], ref.kind_log_probs(expected, other))
            compared += 1
    assert compared > 20


@pytest.mark.deep
def test_evidence_in_two_steps_is_evidence_at_once():
    for sample in samples(range(24)):
        posterior = sample.posterior()
        one, first = random_evidence(sample)
        two, _ = random_evidence(sample)
        if (
            ref.log_sum(ref.fine_log_probs(sample.joint(sample.potentials)) + sample.terms(first).sum(axis=0))
            == -math.inf
        ):
            continue
        told = posterior.given(one)
        second = told.log_prob_of(two)
        assert close(posterior.log_prob_of(one) + second, in_one_step(posterior, one, two))
        if second.item() > -math.inf:
            other = posterior.given(two).given(one)
            assert close(told.given(two).log_probs(), other.log_probs())
            for name in sample.graph.numbers:
                assert close(told.given(two).value(name).mean, other.value(name).mean)


def in_one_step(posterior, one, two):
    """The log probability of both, the other way round."""
    if posterior.log_prob_of(two).item() == -math.inf:
        return posterior.log_prob_of(two)
    return posterior.log_prob_of(two) + posterior.given(two).log_prob_of(one)


@pytest.mark.deep
@pytest.mark.parametrize("evidence", [False, True])
def test_quantiles_and_intervals_fit_the_distribution(evidence):
    for sample in samples(range(12)):
        posterior, potentials = sample.posterior(), sample.potentials
        if evidence:
            given, potentials = random_evidence(sample)
            if posterior.log_prob_of(given).item() == -math.inf:
                continue
            posterior = posterior.given(given)
        for place, one in enumerate(sample.numbers):
            given = sample.mixture(place, potentials)
            value = posterior.value(one.number.name)
            for q in (0.02, 0.5, 0.9):
                at = float(sample_inner(one, value.quantile(q)[0]))
                gap = 1e-7
                assert quadrature.interval_probability(*given, -math.inf, at + gap) >= q - 1e-9
                assert quadrature.interval_probability(*given, -math.inf, at - gap) <= q + 1e-9
            for probability in (0.5, 0.8, 0.995):
                check_shortest(one, value, given, probability)


def sample_inner(one, outer):
    """A value of the user's unit on the inner scale."""
    outer = np.asarray(outer)
    return ((np.log(outer) if one.number.scale == "log" else outer) - one.centre) / one.width


def check_shortest(one, value, given, probability):
    """No interval from a fine grid of places is shorter, and the one that was found has the probability."""
    low, high = (end.item() for end in value.interval(probability))
    inside = quadrature.interval_probability(*given, sample_inner(one, low) - 1e-9, sample_inner(one, high) + 1e-9)
    assert inside >= probability - 1e-7
    mixture = quadrature.mixture(*given)
    sums = np.cumsum(mixture.mass)
    outer = one.outer(mixture.nodes)
    # An interval from just after one node to another has at least what the nodes between them have, but for a step.
    stops = np.searchsorted(sums, np.concatenate([[0.0], sums[:-1]]) + probability)
    possible = stops < len(outer)
    step = mixture.mass[mixture.mass < 0.05].max(initial=0.0)
    shortest = (outer[stops[possible]] - outer[possible]).min()
    assert high - low <= shortest * (1 + 1e-9) + 20 * step * (outer[-1] - outer[0]) + 1e-9


@pytest.mark.parametrize("scale", ["linear", "log"])
@pytest.mark.parametrize("spread", [0.0, 1e-3])
def test_values_of_labels_come_back_as_they_were_given(scale, spread):
    values = [6.5, 7.3, 9.1, 10.7, 0.1, 1e6, 123456.7]
    number = fg.Number.from_values("price", values, [spread, *[0.0] * 6], scale)
    scores = torch.full((6, 7), -40.0, dtype=torch.float64)
    scores[torch.arange(6), torch.arange(1, 7)] = 0.0
    value = fg.Posterior(fg.LabelGraph("abcdefg", numbers=[number]), scores).value("price")
    assert value.quantile(0.5).tolist() == values[1:]
    assert value.interval(0.9).low.tolist() == values[1:]


def test_points_have_exact_quantiles_and_intervals():
    number = fg.Number.from_values("year", [2010.0, 2011.0, 2011.0, 2014.0])
    graph = fg.LabelGraph("abcd", numbers=[number])
    value = fg.Posterior(graph, torch.tensor([[0.1, 0.25, 0.25, 0.4]], dtype=torch.float64).log()).value("year")
    assert [value.quantile(q).item() for q in (0.05, 0.1, 0.11, 0.6, 0.61, 1.0)] == [2010, 2010, 2011, 2011, 2014, 2014]
    assert [[end.item() for end in value.interval(p)] for p in (0.3, 0.6, 0.9)] == [
        [2011, 2011],
        [2010, 2011],
        [2011, 2014],
    ]
    assert value.probability("> 2010").item() == pytest.approx(0.9)
    assert value.probability(">= 2010").item() == pytest.approx(1.0)
    assert value.probability("< 2011").item() == pytest.approx(0.1)
    assert value.probability(2011).item() == pytest.approx(0.5)
    assert value.mean.item() == pytest.approx(0.1 * 2010 + 0.5 * 2011 + 0.4 * 2014)


@pytest.mark.deep
@pytest.mark.parametrize("evidence", ["<= 1e50", ">= -1e50", (-1e60, 1e50), (-1e99, None)])
@pytest.mark.parametrize("scale", ["linear", "log"])
def test_a_far_limit_changes_no_quantile(evidence, scale):
    number = fg.Number.from_values("price", [1.0, 2.0, 3.0], [0.5, 0.3, 0.2], scale)
    posterior = fg.Posterior(fg.LabelGraph("abc", numbers=[number]), torch.zeros(1, 3, dtype=torch.float64))
    free, cut = posterior.value("price"), posterior.given(price=evidence).value("price")
    for q in (0.01, 0.5, 0.99):
        assert cut.quantile(q).item() == pytest.approx(free.quantile(q).item(), rel=1e-12)
    assert torch.cat(cut.interval(0.9)).tolist() == pytest.approx(torch.cat(free.interval(0.9)).tolist(), rel=1e-6)


@pytest.mark.parametrize(
    ("evidence", "text"),
    [
        ("1e300 +- 1", "a value is a finite number of size at most 1e.100, got 1e.300"),
        ("<= 1e400", "a value is a finite number of size at most 1e.100, got inf"),
        (10**400, "of size at most 1e.100 or None, got a whole number that is too large"),
        (10**5000, "got a whole number that is too large"),
        ((0, 10**400), "got a whole number that is too large"),
        ((10**5000, "x"), "an interval is a pair of numbers"),
        (fg.Around(2, 1e-99), None),
        (fg.Around(2, 1e-300), "the spread 1e-300 is too small to compute with"),
    ],
    ids=range(8),
)
@pytest.mark.parametrize("scale", ["linear", "log"])
def test_evidence_beyond_what_can_be_computed_is_refused_in_words(evidence, text, scale):
    number = fg.Number.from_values("price", [1.0, 2.0, 3.0], [0.5, 0.3, 0.2], scale)
    posterior = fg.Posterior(fg.LabelGraph("abc", numbers=[number]), torch.zeros(1, 3, dtype=torch.float64))
    if text is None:
        assert posterior.given(price=evidence).value("price").mean.item() == pytest.approx(2)
        return
    with pytest.raises(fg.errors.EvidenceError, match=text):
        posterior.given(price=evidence)


@pytest.mark.parametrize("value", [1e300, 10**400, math.inf, math.nan], ids=range(4))
def test_around_refuses_numbers_beyond_those_of_a_graph(value):
    for pair in ((value, 1), (1, value)):
        with pytest.raises(fg.errors.EvidenceError, match=r"expected a finite number as .*of size at most 1e.100"):
            fg.Around(*pair)


def test_scores_that_are_no_numbers_give_values_that_are_none():
    number = fg.Number.from_values("price", [1.0, 2.0, 3.0], [0.5, 0.3, 0.2])
    graph = fg.LabelGraph("abc", numbers=[number])
    with_nan = fg.Posterior(graph, torch.tensor([[math.nan, 0, 0], [0, 0, 0]])).value("price")
    scores = torch.tensor([[[0.0, -1e3]], [[0.0, 0.0]]])  # a precision is never below 0
    negative = fg.Posterior(graph, torch.zeros(2, 3), number_scores=scores).value("price")
    for value in (with_nan, negative):
        answers = [value.mean, value.spread, value.quantile(0.5), *value.interval(0.5), value.probability("<= 2")]
        assert [answer.isnan().tolist() for answer in answers] == [[True, False]] * 6


def test_evidence_of_every_form_agrees():
    number = fg.Number.from_values("price", [9.0, 12.0, 15.0], unit="EUR")
    graph = fg.LabelGraph("abc", numbers=[number])
    posterior = fg.Posterior(graph, torch.zeros(2, 3, dtype=torch.float64))
    expected = posterior.given(fine={"b", "c"}).log_probs()
    for form in (
        ">= 12",
        "> 9",
        "≥ 12 EUR",
        "12 EUR to 15 EUR",
        "EUR 12..15",
        (12, 15),
        (12, None),
        "12 to 15",
        "12..15",
        "> 9 and <= 15 EUR",
        ["> 9", (10.0, 20.0)],
        [">= 12"] * 2,
    ):
        assert torch.allclose(posterior.given(price=form).log_probs(), expected), form
    one = posterior.given(price=[12, None]).probs()
    assert one.tolist() == [[0, 1, 0], pytest.approx([1 / 3] * 3)]
    assert torch.equal(one, posterior.given(price=torch.tensor([12.0, math.nan])).probs())
    assert torch.allclose(
        posterior.given(price="12 +- 2").log_probs(), posterior.given(price=fg.Around(12, 2)).log_probs()
    )
    assert close(posterior.log_prob_of(price="> 9"), math.log(2 / 3))


@pytest.mark.parametrize(
    ("evidence", "text"),
    [
        ({"price": "cheap"}, "'cheap' is not a condition on a number; write '<= 15 EUR'"),
        (
            {"price": "<= 12 USD"},
            "'<= 12 USD' is in 'USD', but the number has the unit 'EUR'; values are not converted",
        ),
        ({"price": "10 to 12 kEUR"}, "is in 'kEUR', but the number has the unit 'EUR'"),
        ({"price": "<= 12 +- 3 USD"}, "is not a condition on a number"),
        ({"price": "> 12 and <= 9"}, "no value is '> 12 and <= 9'; one part rules out the other"),
        ({"price": (15, 10)}, "the interval .15, 10. is empty; write the lower end first"),
        ({"price": "9..5 EUR"}, "the interval '9..5 EUR' is empty; write the lower end first"),
        (
            {"price": "12,5"},
            "'12,5' is not a condition on a number; did you mean 12.5[?] a number has a point, not a comma",
        ),
        ({"price": "<= 12,5 EUR"}, "did you mean <= 12.5[?] a number has a point"),
        ({"price": "10,5 to 12,25"}, "did you mean 10.5 to 12.25[?]"),
        ({"price": "> 1,200"}, "write > 1200 or > 1.200; a number has a point, and nothing between its thousands"),
        ({"price": (1, 2, 3)}, "an interval is a pair of numbers"),
        ({"price": [1.0]}, "one value per sample, expected 2, got 1"),
        ({"price": True}, "expected a limit such as"),
        ({"price": math.inf}, "finite number"),
        ({"price": "> 100"}, "the evidence has probability 0 for sample 0 .price is '> 100'"),
        ({"price": (10, 11)}, "the evidence has probability 0 for sample 0"),
    ],
)
def test_bad_evidence_is_explained(evidence, text):
    number = fg.Number.from_values("price", [9.0, 12.0, 15.0], unit="EUR")
    posterior = fg.Posterior(fg.LabelGraph("abc", numbers=[number]), torch.zeros(2, 3))
    with pytest.raises(fg.errors.EvidenceError, match=text):
        posterior.given(evidence)
    with pytest.raises(fg.errors.UnknownNameError, match="did you mean 'price'"):
        posterior.given(prise=3)
    with pytest.raises(fg.errors.UnknownNameError, match="did you mean 'price'"):
        fg.joint_loss(posterior, torch.tensor([0, 1]), kind_targets={"prise": torch.ones(2)})
    for q in ("0.5", [0.5], 2):
        with pytest.raises(fg.errors.InputError, match="quantile: expected a probability from 0 to 1, got"):
            posterior.value("price").quantile(q)
        with pytest.raises(fg.errors.InputError, match="interval: expected a probability above 0 and below 1, got"):
            posterior.value("price").interval(q)
    with pytest.raises(fg.errors.EvidenceError, match="a spread above 0"):
        fg.Around(3, 0)


@pytest.mark.deep
def test_the_gradient_equals_finite_differences():
    for sample in samples(range(24)):
        posterior = sample.posterior()
        known = None
        if sample.rng.random() < 0.5:
            given, _ = random_evidence(sample)
            if posterior.log_prob_of(given).item() > -math.inf:
                known = posterior.given(given).number_evidence
        fine = posterior.fine_scores.requires_grad_()
        scores = posterior.number_scores
        scores[..., 1] += 0.1  # differences to both sides need room above 0
        scores.requires_grad_()
        name = sample.graph.numbers[0]

        def answers(fine, scores, posterior=posterior, known=known, name=name):
            again = fg.Posterior(
                posterior.graph, fine, posterior.coarse_scores, number_scores=scores, number_evidence=known
            )
            return again.probs(), again.value(name).mean

        assert torch.autograd.gradcheck(answers, (fine, scores), atol=1e-6)


def test_float32_stays_exact_for_large_scores():
    rng = np.random.default_rng(3)
    number = fg.Number("price", rng.uniform(1, 9, 50).round(2), np.zeros(50))
    graph = fg.LabelGraph([f"fine {i}" for i in range(50)], numbers=[number])
    scores = torch.tensor([[[3e4, 2e4]], [[-1e6, 1e6]], [[1e-6, 0.0]]])
    fine = torch.tensor(rng.normal(size=(3, 50)), dtype=torch.float32)
    found = fg.Posterior(graph, fine, number_scores=scores).log_probs().double()
    expected = fg.Posterior(graph, fine.double(), number_scores=scores.double()).log_probs()
    likely = expected > -30
    assert (found - expected)[likely].abs().max() < 1e-4
    assert found.isfinite().all()


def test_views_are_averaged():
    for sample in samples(range(12)):
        many = sample.posterior()
        other = sample.posterior().tempered(1.7)
        both = fg.Posterior(
            sample.graph,
            torch.cat([many.fine_scores, other.fine_scores]),
            None if many.coarse_scores is None else torch.cat([many.coarse_scores, other.coarse_scores]),
            number_scores=torch.cat([many.number_scores, other.number_scores]),
        )
        expected = (many.probs() + other.probs()) / 2
        assert torch.allclose(both.mean_views(2).probs(), expected, atol=1e-10)
        assert torch.equal(both.some([1]).log_probs(), other.log_probs())
        name = sample.graph.numbers[0]
        assert close(both.some([1]).value(name).mean, other.value(name).mean, 1e-12)


def test_scores_of_wrong_shape_are_refused():
    graph = fg.LabelGraph("abc", numbers=[fg.Number.from_values("price", [1.0, 2.0, 3.0])])
    with pytest.raises(fg.errors.ShapeError, match=r"expected shape \(2, 1, 2\), a pull and a precision"):
        fg.Posterior(graph, torch.zeros(2, 3), number_scores=torch.zeros(2, 2))
    with pytest.raises(fg.errors.ShapeError, match=r"scores of number 'price': expected shape \(2, 2\)"):
        fg.Posterior(graph, torch.zeros(2, 3), number_scores={"price": torch.zeros(2, 3)})
    with pytest.raises(fg.errors.UnknownNameError, match="did you mean 'price'"):
        fg.Posterior(graph, torch.zeros(2, 3)).value("prce")
    posterior = fg.Posterior(graph, torch.zeros(2, 3), number_scores={"price": torch.ones(2, 2)})
    assert posterior.number_scores.shape == (2, 1, 2)
    with pytest.raises(fg.errors.InputError, match="from 0 to 1"):
        posterior.value("price").quantile(1.2)
    with pytest.raises(fg.errors.InputError, match="above 0 and below 1"):
        posterior.value("price").interval(1.0)


class TestOrderedKinds:
    @pytest.fixture
    def posterior(self):
        heat = fg.Kind.from_parents("heat", ("mild", "medium", "hot"), np.array([0, 1, 2]))
        graph = fg.LabelGraph("abc", [replace(heat, ordered=True)])
        return fg.Posterior(graph, torch.tensor([[0.2, 0.3, 0.5]], dtype=torch.float64).log())

    @pytest.mark.parametrize(
        ("text", "labels"),
        [
            (">= medium", {"medium", "hot"}),
            ("> medium", {"hot"}),
            ("<= medium", {"mild", "medium"}),
            ("<medium", {"mild"}),
            ("mild to medium", {"mild", "medium"}),
            ("medium..hot", {"medium", "hot"}),
        ],
    )
    def test_ranges_are_evidence(self, posterior, text, labels):
        expected = posterior.given(heat=labels).log_probs()
        assert torch.equal(posterior.given(heat=text).log_probs(), expected)
        assert torch.equal(posterior.given(heat=[text]).log_probs(), expected)

    @pytest.mark.parametrize("text", [">= a", "<d", "≤ a", "a to c", "a..c"])
    def test_labels_without_an_order_have_no_range(self, text):
        kinds = fg.Kind.from_parents("dish", ("a", "c"), np.array([0, 1, 1]))
        posterior = fg.Posterior(fg.LabelGraph("abc", [kinds]), torch.zeros(1, 3))
        what = "limit" if text[0] in "<>≤≥" else "range"
        words = f"evidence on 'dish': '{text}' is a {what}, but the labels of 'dish' have no order; name a label"
        for given in (text, [text]):
            with pytest.raises(fg.errors.EvidenceError, match=re.escape(words)) as caught:
                posterior.given(dish=given)
            assert "'heat [mild < medium < hot]'" in str(caught.value)
        with pytest.raises(fg.errors.EvidenceError, match="but fine labels have no order; name a label") as caught:
            posterior.given(fine=text)
        assert "heat" not in str(caught.value)

    def test_a_label_may_look_like_a_limit(self):
        kinds = fg.Kind.from_parents("size", ("< 5", "> 5", "1 to 2"), np.array([0, 1, 2]))
        posterior = fg.Posterior(fg.LabelGraph("abc", [kinds]), torch.zeros(1, 3))
        assert posterior.given(size="> 5").top(1)[0][0].label == "b"
        with pytest.raises(fg.errors.UnknownNameError, match="unknown label '5'"):
            posterior.given(size="5")

    def test_what_is_no_range_is_explained(self, posterior):
        with pytest.raises(fg.errors.UnknownNameError, match="did you mean 'medium'"):
            posterior.given(heat=">= medum")
        with pytest.raises(fg.errors.EvidenceError, match="rules out every label"):
            posterior.given(heat="> hot")
