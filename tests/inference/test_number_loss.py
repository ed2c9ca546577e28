"""The terms of numbers in the loss equal quadrature, and their gradients finite differences."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

import finegraph as fg
from finegraph.errors import TargetError, UnknownNameError
from finegraph.inference.numbers.number_tensors import READING_ERROR
from finegraph.inference.numbers.readings import TableRows
from finegraph.inference.sums.graph_tensors import GraphTensors
from finegraph.inference.sums.strategy import Strategy
from reference import values as quadrature
from reference.random_graphs import random_graphs, random_scores
from reference.random_numbers import random_potential, with_numbers

pytestmark = pytest.mark.usefixtures("unchecked")

PARTS = [
    range(24),
    pytest.param(range(24, 120), marks=pytest.mark.deep),
    *(pytest.param(range(n, n + 135), marks=pytest.mark.slow) for n in range(120, 390, 135)),
]


STEP = 2.0**-11
"""The step of finite differences of fourth order: small enough for their error, large enough for rounding."""


class Batch:
    """A random graph with numbers, and samples of it: scores, targets, and values measured on some photos."""

    def __init__(self, number, case, size=3, scale=1.0):
        rng = self.rng = np.random.default_rng([37, number])
        self.case = case
        self.graph, self.numbers = with_numbers(rng, case, int(rng.integers(1, 4)))
        self.scores = [random_scores(rng, case, scale=scale) for _ in range(size)]
        self.potentials = [[random_potential(rng, scale) for _ in self.numbers] for _ in range(size)]
        self.fine = rng.integers(0, len(self.graph), size)
        self.measured = {
            one.number.name: one.outer(np.where(rng.random(size) < 0.5, rng.normal(size=size), np.nan))
            for one in self.numbers
            if rng.random() < 0.5
        }

    @property
    def leaves(self):
        """The fine, the coarse and the number scores."""
        fine = torch.tensor(np.array([one.fine for one in self.scores]))
        coarse = torch.tensor(np.array([np.concatenate([np.zeros(0), *one.kinds]) for one in self.scores]))
        numbers = [[[one.pull, one.precision] for one in row] for row in self.potentials]
        return fine, coarse, torch.tensor(numbers, dtype=torch.float64)

    def posterior(self, fine, coarse, numbers, tensors=None):
        return fg.Posterior(self.graph, fine, coarse, number_scores=numbers, tensors=tensors)

    @property
    def targets(self):
        return {name: torch.tensor(values) for name, values in self.measured.items()}

    def term(self, row, place, weights):
        """The term of one number for one sample, by quadrature; `weights` are the log probabilities without it."""
        one, potential = self.numbers[place], self.potentials[row][place]
        steps = np.diff(np.unique(one.values[one.number.known]))
        error = max(float(steps.min()) / 2 if len(steps) else 0.5, READING_ERROR)
        value = one.values[self.fine[row]]
        given = self.measured.get(one.number.name, np.full(len(self.fine), np.nan))[row]
        if np.isnan(given):
            if not one.number.known[self.fine[row]]:
                return 0.0
            error = math.hypot(error, one.spreads[self.fine[row]])
        else:
            value = float((np.log(given) if one.number.scale == "log" else given) - one.centre) / one.width
        found = quadrature.reading_log_density(weights, one.values, one.spreads, potential, value, error)
        return -(found + math.log(error * math.sqrt(2 * math.pi)))

    def without(self, place, others):
        """The posterior without one number, whose scores are 0 in `others`."""
        return self.posterior(*self.leaves[:2], others)

    def terms(self):
        """The terms of all numbers, summed for each sample."""
        total = np.zeros(len(self.fine))
        own = torch.tensor([[[p.pull, p.precision] for p in row] for row in self.potentials], dtype=torch.float64)
        for place in range(len(self.numbers)):
            others = own.clone()
            others[:, place] = 0.0
            log_probs = self.without(place, others).log_probs().numpy()
            # Without scores of its own, the number weighs fine labels by nothing.
            for row in range(len(self.fine)):
                total[row] += self.term(row, place, log_probs[row])
        return total


class BatchWithEvidence(Batch):
    """The same, with evidence on the numbers: about a value, at most a value, or both."""

    def __init__(self, number, case):
        super().__init__(number, case)
        self.evidence = {}
        for place, one in enumerate(self.numbers):
            known = {}
            texts = []
            if self.rng.random() < 0.7:
                likely, spread = float(self.rng.normal()), float(self.rng.uniform(0.4, 1.5))
                known |= {"likely": likely, "likely_precision": spread**-2.0}
                value = float(one.outer(likely))
                scale = value if one.number.scale == "log" else 1.0
                texts.append(f"{value!r} +- {spread * one.width * scale!r}")
            if not texts or self.rng.random() < 0.5:
                known["high"] = float(one.values[self.fine].max()) + 0.2  # the labels of all samples stay possible
                texts.append(f"<= {float(one.outer(known['high']))!r}")
            self.evidence[one.number.name] = " and ".join(texts)
            for row in self.potentials:
                row[place] = replace(row[place], **known)

    def posterior(self, fine, coarse, numbers, tensors=None, without=None):
        told = {name: text for name, text in self.evidence.items() if name != without}
        posterior = super().posterior(fine, coarse, numbers, tensors)
        return posterior.given(told) if told else posterior

    def without(self, place, others):
        return self.posterior(*self.leaves[:2], others, without=self.numbers[place].number.name)


def batches(numbers, kind=Batch, **options):
    for number, case in zip(numbers, random_graphs(len(numbers), seed=41, start=numbers.start), strict=True):
        yield kind(number, case, **options)


@pytest.mark.deep
@pytest.mark.parametrize("kind", [Batch, BatchWithEvidence])
@pytest.mark.parametrize("numbers", PARTS, ids=lambda numbers: f"{numbers.start}-{numbers.stop - 1}")
def test_terms_equal_quadrature(numbers, kind):
    for batch in batches(numbers, kind):
        posterior, fine = batch.posterior(*batch.leaves), torch.tensor(batch.fine)
        with_terms = fg.joint_loss(posterior, fine, batch.targets, reduction="none")
        kinds = dict.fromkeys(batch.graph.numbers, 0.0)
        without = fg.joint_loss(posterior, fine, kind_weights=kinds, reduction="none")
        assert np.allclose(with_terms - without, batch.terms(), rtol=1e-8, atol=1e-8)
        weighted = fg.joint_loss(posterior, fine, batch.targets, dict.fromkeys(batch.graph.numbers, 0.3), "none")
        assert torch.allclose(weighted - without, 0.3 * (with_terms - without), atol=1e-10)


def assert_right_gradient(loss, leaves, rng):
    """Whether the gradient has the slope of the loss along some random directions."""
    leaves = [leaf.detach().requires_grad_() for leaf in leaves]
    grads = torch.autograd.grad(loss(*leaves), leaves)
    for _ in range(3):
        way = [torch.tensor(rng.normal(size=leaf.shape)) for leaf in leaves]
        with torch.no_grad():
            far_up, up, down, far_down = (
                float(loss(*(leaf + step * one for leaf, one in zip(leaves, way, strict=True))))
                for step in (2 * STEP, STEP, -STEP, -2 * STEP)
            )
        expected = (8 * (up - down) - (far_up - far_down)) / (12 * STEP)
        slope = sum(float((grad * one).sum()) for grad, one in zip(grads, way, strict=True))
        assert slope == pytest.approx(expected, rel=1e-8, abs=1e-8)


def above_0(numbers):
    """Scores of numbers whose precisions stay above 0 on the way of finite differences."""
    return torch.stack([numbers[..., 0], numbers[..., 1] + 0.1], dim=-1)


@pytest.mark.deep
@pytest.mark.parametrize("kind", [Batch, BatchWithEvidence])
@pytest.mark.parametrize("by", ["rows", "columns"])
def test_gradients_equal_finite_differences(by, kind):
    for number, batch in enumerate(batches(range(12), kind)):
        fine = torch.tensor(batch.fine)
        fine[0] = -100 if number % 3 == 0 else fine[0]
        tensors = GraphTensors(batch.graph, Strategy(by=by))

        def loss(fine_scores, coarse, numbers, batch=batch, fine=fine, tensors=tensors):
            posterior = batch.posterior(fine_scores, coarse, above_0(numbers), tensors)
            return fg.joint_loss(posterior, fine, batch.targets, 0.7, reduction="none").sum()

        assert_right_gradient(loss, batch.leaves, batch.rng)


@pytest.mark.deep
def test_gradients_of_sets_equal_finite_differences_and_one_member_is_that_label():
    for batch in batches(range(12)):
        fine = torch.tensor(batch.fine)
        one = torch.nn.functional.one_hot(fine, len(batch.graph)).bool()
        posterior, weights = batch.posterior(*batch.leaves), dict.fromkeys(batch.graph.kinds, 0.0)
        expected = fg.joint_loss(posterior, fine, batch.targets, weights, reduction="none")
        found = fg.joint_loss(posterior, one, batch.targets, weights, reduction="none")
        assert torch.allclose(found, expected, atol=1e-10)
        several = one | torch.tensor(batch.rng.random(one.shape) < 0.4)

        def loss(fine_scores, coarse, numbers, batch=batch, several=several):
            posterior = batch.posterior(fine_scores, coarse, above_0(numbers))
            return fg.joint_loss(posterior, several, batch.targets)

        assert_right_gradient(loss, batch.leaves, batch.rng)


MENU = fg.LabelGraph.from_table(
    {f"at {price}": {"half": "low" if price < 5 else "high", "price": float(price)} for price in range(1, 10)},
    types={"price": "number"},
)
TWO = MENU.with_number(fg.Number.from_values("mass", [1.0, 2.0, None, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0], 0.5))


def test_a_set_of_labels_is_a_range():
    """Where the photo says nothing, the range from 3 to 7 holds five of nine prices, and their neighbours a little."""
    posterior = fg.Posterior(MENU, torch.zeros(1, 9, dtype=torch.float64))
    target = torch.zeros(1, 9, dtype=torch.bool)
    target[0, [2, 6]] = True
    loss = fg.joint_loss(posterior, target, kind_weights={"half": 0.0})
    error = MENU.number("price").resolution * MENU.number("price").width
    outside = 2 * sum(math.exp(-0.5 * (step / error) ** 2) for step in (1, 2))
    assert loss.item() == pytest.approx(-math.log(2 / 9) - math.log((5 + outside) / 9), abs=1e-9)


@pytest.mark.parametrize("graph", [MENU, TWO], ids=["exact", "spreads"])
@pytest.mark.parametrize("size", [30.0, 1e4])
def test_extreme_scores_stay_finite_and_right(graph, size):
    generator = torch.Generator().manual_seed(0)
    fine, target = size * torch.randn(32, 9, generator=generator), torch.randint(9, (32,), generator=generator)
    numbers = size * torch.randn(32, len(graph.numbers), 2, generator=generator).abs()
    numbers[..., 0] *= torch.where(torch.rand(32, len(graph.numbers), generator=generator) < 0.5, -1, 1)
    losses, grads = [], []
    for dtype in (torch.float32, torch.float64):
        leaves = [one.detach().clone().to(dtype).requires_grad_() for one in (fine, numbers)]
        posterior = fg.Posterior(graph, leaves[0], number_scores=leaves[1])
        loss = fg.joint_loss(posterior, target, reduction="none")
        loss.sum().backward()
        losses.append(loss.detach().double())
        grads.append([leaf.grad.double() for leaf in leaves])
        assert all(bool(one.isfinite().all()) for one in (loss, *grads[-1]))
    assert torch.allclose(*losses, rtol=1e-4, atol=size * 1e-6)
    log_probs = fg.Posterior(graph, fine.double(), number_scores=numbers.double())
    for name in graph.numbers:
        known = ~torch.tensor(graph.number(name).values).isnan()[target]
        value = log_probs.value(name)
        assert bool(value.mean[known].isfinite().all())


def test_values_far_out_and_tiny_spreads():
    values = [1.0, 1.0 + 1e-9, 2.0, 1e6]
    for spreads in (0.0, [1e-9, 0.0, 1e-12, 1e-3]):
        graph = fg.LabelGraph(["a", "b", "c", "d"], numbers=[fg.Number.from_values("price", values, spreads)])
        fine = torch.zeros(2, 4, dtype=torch.float64, requires_grad=True)
        scores = torch.tensor([[[3.0, 2.0]], [[-1e3, 1e3]]], dtype=torch.float64, requires_grad=True)
        posterior = fg.Posterior(graph, fine, number_scores=scores)
        measured = {"price": torch.tensor([-1e9, math.nan], dtype=torch.float64)}
        loss = fg.joint_loss(posterior, torch.tensor([0, 3]), measured, reduction="none")
        loss.sum().backward()
        assert bool(loss.isfinite().all() and fine.grad.isfinite().all() and scores.grad.isfinite().all())
        assert loss[0] > 1e4


@pytest.mark.parametrize("spreads", [0.0, [0.5, 0.3, 0.2]])
def test_scores_and_values_too_large_for_the_loss_are_refused_in_words(spreads):
    number = fg.Number.from_values("price", [1.0, 2.0, 3.0], spreads)
    graph = fg.LabelGraph("abc", numbers=[number])
    fine = torch.zeros(1, 3, requires_grad=True)
    for value in (1e300, 1e99, math.inf):
        with pytest.raises(TargetError, match=r"not more than 1e.15 times as far"):
            fg.joint_loss(fg.Posterior(graph, fine), torch.tensor([0]), {"price": torch.tensor([value]).double()})
    far = fg.joint_loss(fg.Posterior(graph, fine), torch.tensor([0]), {"price": torch.tensor([1e14])})
    far.backward()
    assert far.isfinite()
    assert fine.grad.isfinite().all()
    for size in (1e14, 1e30):
        for dtype in (torch.float32, torch.float64):
            scores = torch.tensor([[[size, 0.0]]], dtype=dtype, requires_grad=True)
            posterior = fg.Posterior(graph, torch.zeros(1, 3, dtype=dtype), number_scores=scores)
            if spreads and size > 1e15 and dtype == torch.float32:
                with pytest.raises(fg.errors.InputError, match=r"pulls and precisions of size at most 1e.15"):
                    fg.joint_loss(posterior, torch.tensor([0]))
                continue
            loss = fg.joint_loss(posterior, torch.tensor([0]))
            loss.backward()
            assert loss.isfinite()
            assert scores.grad.isfinite().all()


def test_nothing_observed_contributes_nothing():
    posterior = fg.Posterior(TWO, torch.randn(3, 9, dtype=torch.float64))
    target = torch.tensor([2, -100, 4])
    whole = fg.joint_loss(posterior, target, reduction="none")
    assert whole[1] == 0.0
    assert fg.joint_loss(posterior, target) == pytest.approx(float(whole.sum()) / 2)
    only = fg.joint_loss(posterior, None, {"mass": torch.tensor([math.nan, 3.0, math.nan])}, reduction="none")
    assert (only > 0).tolist() == [False, True, False]


def test_large_batches_in_chunks_are_the_same():
    torch.manual_seed(1)
    tensors = GraphTensors(TWO, Strategy(by="columns", chunk=9 * 4))
    assert tensors.by_groups.max_samples(True, torch.float32) < 20
    grads = []
    for own in (tensors, None):
        torch.manual_seed(2)
        leaves = [torch.randn(20, 9), torch.randn(20, 2), torch.randn(20, 2, 2).abs()]
        leaves = [one.requires_grad_() for one in leaves]
        posterior = fg.Posterior(TWO, leaves[0], leaves[1], number_scores=leaves[2], tensors=own)
        loss = fg.joint_loss(posterior, torch.arange(20) % 9, {"price": torch.full((20,), 3.3)}, reduction="sum")
        loss.backward()
        grads.append([loss.detach(), *(leaf.grad for leaf in leaves)])
    for one, two in zip(*grads, strict=True):
        assert torch.allclose(one, two, rtol=1e-5, atol=1e-5)


def test_likelihoods_read_where_they_lie_are_those_of_a_copy():
    torch.manual_seed(3)
    for dtype in (torch.float32, torch.float64):
        for fine in (torch.tensor([4, 0, 4, 8]), torch.zeros(0, dtype=torch.int64)):
            rows = TableRows.of_labels(GraphTensors(TWO).numbers, fine, dtype)
            copy, probs = rows.copied(), torch.rand(len(fine), 9, dtype=dtype)
            weight = torch.rand(len(fine), 2, dtype=dtype)
            assert copy.shape == (len(fine), 2, 9)
            assert torch.allclose(rows.summed(probs), torch.einsum("bnf,bf->bn", copy, probs), rtol=1e-6)
            assert torch.allclose(rows.combined(weight), torch.einsum("bnf,bn->bf", copy, weight), rtol=1e-6)


def test_evidence_and_a_second_backward_pass():
    scores = torch.tensor([[[0.5, 0.4], [0.3, 0.2]]], dtype=torch.float64, requires_grad=True)
    posterior = fg.Posterior(TWO, torch.zeros(1, 9, dtype=torch.float64), number_scores=scores)
    told = posterior.given(price="<= 6", mass=fg.Around(3, 2))
    loss = fg.joint_loss(told, torch.tensor([3]))
    expected = -told.log_probs()[0, 3]
    expected = expected - told.log_probs("half")[0, TWO.label_index("half", "low")]
    for name in TWO.numbers:
        number, place = TWO.number(name), 3
        error = math.hypot(max(number.resolution, READING_ERROR) * number.width, number.spreads[place])
        expected = expected - told.log_prob_of({name: fg.Around(float(number.values[place]), error)})[0]
    assert loss.item() == pytest.approx(expected.item(), abs=1e-9)
    (first,) = torch.autograd.grad(loss, scores, retain_graph=True)
    (second,) = torch.autograd.grad(loss, scores)
    assert torch.allclose(first, second)
    assert first.abs().sum() > 0


def test_bad_targets_are_refused():
    posterior = fg.Posterior(TWO, torch.zeros(2, 9))
    target = torch.tensor([0, 1])
    for targets, text in [
        ({"price": torch.tensor([1, 2])}, r"kind_targets\['price'\]: expected one value per sample as floating-point"),
        ({"price": torch.zeros(3)}, r"got torch.float32 of shape \(3,\)"),
        ({"price": torch.tensor([math.inf, 1.0])}, "expected finite values that are not more than .* or NaN"),
        ({"price": [1.0, 2.0]}, "expected a tensor of values, got list"),
    ]:
        with pytest.raises(TargetError, match=text):
            fg.joint_loss(posterior, target, targets)
    with pytest.raises(UnknownNameError, match="'prce' in kind_weights"):
        fg.joint_loss(posterior, target, kind_weights={"prce": 1.0})
