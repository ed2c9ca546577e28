"""Numbers in exported files: means and quantiles equal those of the posterior, in ONNX and as torch traces them."""

import numpy as np
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

from finegraph import LabelGraph, Number, Posterior
from finegraph.inference import Around
from finegraph.inference.sums.graph_tensors import graph_tensors
from finegraph.model.export.cut_normal_nodes import scaled_erfc_coefficients
from finegraph.model.export.export_check import _of_values, draw_evidence
from finegraph.model.export.export_names import (
    NO_ESTIMATE,
    NO_RANGE,
    NUMBER_ESTIMATES,
    NUMBER_MEANS,
    NUMBER_QUANTILES,
    NUMBER_RANGES,
    POSSIBLE,
    QUANTILES,
)
from finegraph.model.export.node_writer import NodeWriter
from finegraph.model.export.number_nodes import NumberInputs, NumberScores
from finegraph.model.export.posterior_nodes import add_posterior
from finegraph.model.export.torch_file import number_evidence
from finegraph.model.export.tracing import traced_mean, traced_quantiles
from reference.random_graphs import FORMS, random_graph, random_scores
from reference.random_numbers import with_numbers

pytestmark = pytest.mark.usefixtures("unchecked")


def session_of(graph, coarse, numbers, operations, evidence=False):
    """The posterior of a graph as an ONNX model that takes scores; number scores or none, and evidence on numbers."""
    import onnxruntime

    counts = {"fine_scores": len(graph), "fine_evidence": len(graph)}
    counts |= {"coarse_scores": coarse, "evidence": coarse} if coarse else {}
    counts |= dict.fromkeys(("pulls", "precisions"), len(graph.numbers)) if numbers else {}
    to = NodeWriter(operations)
    for name in counts:
        if "evidence" in name:
            to.constants.append(numpy_helper.from_array(np.ones((1, counts[name]), np.float32), name))
    if evidence:
        for name, nothing in ((NUMBER_RANGES, NO_RANGE), (NUMBER_ESTIMATES, NO_ESTIMATE)):
            to.constants.append(numpy_helper.from_array(np.tile(np.array(nothing), (1, len(graph.numbers), 1)), name))
    value = helper.make_tensor_value_info
    inputs = [value(one, TensorProto.FLOAT, [f"{one}_rows", counts[one]]) for one in counts]
    if evidence:
        given = (NUMBER_RANGES, NUMBER_ESTIMATES)
        inputs += [value(one, TensorProto.DOUBLE, [f"{one}_rows", len(graph.numbers), 2]) for one in given]
    outputs = [
        value("log_probs", TensorProto.FLOAT, ["batch", len(graph)]),
        value(NUMBER_MEANS, TensorProto.FLOAT, ["batch", len(graph.numbers)]),
        value(NUMBER_QUANTILES, TensorProto.FLOAT, ["batch", len(graph.numbers), len(QUANTILES)]),
        value(POSSIBLE, TensorProto.BOOL, ["batch"]),
    ]
    kinds = ("coarse_scores", "evidence") if coarse else (None, None)
    scores = NumberScores("pulls", "precisions") if numbers else None
    given = NumberInputs(NUMBER_RANGES, NUMBER_ESTIMATES) if evidence else None
    add_posterior(to, graph, "fine_scores", kinds[0], "fine_evidence", kinds[1], scores, given)
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 3, 1
    content = to.model("posterior", inputs, outputs, 8).SerializeToString()
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.deep
def test_values_equal_those_of_the_posterior(form):
    rng = np.random.default_rng([51, FORMS.index(form)])
    case = random_graph(rng, form, 4000)
    graph, _ = with_numbers(rng, case, 2)
    samples = [random_scores(rng, case, 2.0) for _ in range(3)]
    fine = torch.tensor(np.array([one.fine for one in samples]), dtype=torch.float32)
    coarse = torch.tensor(np.array([np.concatenate([np.zeros(0), *one.kinds]) for one in samples]), dtype=torch.float32)
    scored = FORMS.index(form) % 3 > 0
    scores = torch.tensor(rng.normal(size=(3, 2, 2)), dtype=torch.float32).abs() if scored else None
    likelihood = torch.tensor(rng.uniform(0.1, 1.0, (3, len(graph))), dtype=torch.float32)
    posterior = Posterior(graph, fine, coarse if coarse.shape[1] else None, number_scores=scores).given(fine=likelihood)

    given = {"fine_scores": fine.numpy(), "fine_evidence": likelihood.numpy()}
    given |= {"coarse_scores": coarse.numpy()} if coarse.shape[1] else {}
    given |= {"pulls": scores[..., 0].numpy(), "precisions": scores[..., 1].numpy()} if scored else {}
    session = session_of(graph, coarse.shape[1], scored, 17 + FORMS.index(form) % 2)
    log_probs, means, quantiles, _ = session.run(None, given)

    np.testing.assert_allclose(np.exp(log_probs), posterior.probs(), atol=1e-6)
    values = [posterior.value(name) for name in graph.numbers]
    expected = np.stack([value.mean for value in values], axis=1)
    assert _of_values(graph, expected, expected, means.astype(np.float64)).max() < 1e-5
    low, high = (between(values, step) for step in (-1e-5, 1e-5))
    assert _of_values(graph, low, high, quantiles.astype(np.float64)).max() < 1e-5
    table = graph_tensors(graph).numbers
    traced = [traced_quantiles(*pair, QUANTILES) for pair in zip(table.numbers, values, strict=True)]
    low, high = (between(values, step) for step in (-2e-7, 2e-7))
    assert _of_values(graph, low, high, np.stack(traced, axis=1)).max() < 1e-7


def between(values, step):
    """The quantiles of slightly other probabilities: (batch, number, quantile)."""
    return np.stack([np.stack([value.quantile(q + step) for q in QUANTILES], axis=1) for value in values], axis=1)


class Asked:
    """Random scores of a graph with numbers, and its posterior in three ways: the package, ONNX, torch's program."""

    def __init__(self, graph, fine, coarse, scores, operations=17):
        self.graph, self.scored = graph, scores is not None
        self.posterior = Posterior(graph, fine, coarse if coarse.shape[1] else None, number_scores=scores)
        self.session = session_of(graph, coarse.shape[1], self.scored, operations, evidence=True)
        self.inputs = {"fine_scores": fine.numpy()} | ({"coarse_scores": coarse.numpy()} if coarse.shape[1] else {})
        if scores is not None:
            self.inputs |= {"pulls": scores[..., 0].numpy(), "precisions": scores[..., 1].numpy()}

    def onnx(self, ranges, estimates):
        given = {NUMBER_RANGES: ranges, NUMBER_ESTIMATES: estimates}
        return self.session.run(None, self.inputs | {name: np.ascontiguousarray(part) for name, part in given.items()})

    def package(self, ranges, estimates):
        """The posterior by `given`, told each piece in the words of a user."""
        posterior = self.posterior
        for place, name in enumerate(self.graph.numbers):
            limits = [None if one == NO_RANGE else one for one in map(tuple, ranges[:, place].tolist())]
            around = [None if spread == np.inf else Around(value, spread) for value, spread in estimates[:, place]]
            posterior = posterior.given({name: limits}).given({name: around})
        return posterior

    def torch(self, ranges, estimates):
        """The posterior, means and quantiles as the traced program computes them."""
        table = graph_tensors(self.graph).numbers
        given = number_evidence(table, torch.from_numpy(ranges), torch.from_numpy(estimates))
        posterior = self.posterior.with_evidence(None, given.known)
        values = [(number, posterior.value(number.name)) for number in table.numbers]
        means = torch.stack([traced_mean(*pair) for pair in values], dim=1)
        quantiles = torch.stack([traced_quantiles(*pair, QUANTILES) for pair in values], dim=1)
        return posterior.probs().numpy(), means.numpy(), quantiles.numpy(), given.usable

    def agree(self, ranges, estimates, limit=1e-5):
        """Compare all three."""
        expected = self.package(ranges, estimates)
        values = [expected.value(name) for name in self.graph.numbers]
        mean = np.stack([value.mean for value in values], axis=1)
        low, high = (between(values, step) for step in (-limit, limit))
        log_probs, *found = self.onnx(ranges, estimates)
        for probs, means, quantiles, usable in ((np.exp(log_probs), *found), self.torch(ranges, estimates)):
            np.testing.assert_allclose(probs, expected.probs(), atol=1e-6)
            assert _of_values(self.graph, mean, mean, means.astype(np.float64)).max() < limit
            assert _of_values(self.graph, low, high, quantiles.astype(np.float64)).max() < limit
            assert usable.all()


def asked_of(form, samples, seed=52, size=300):
    """A random graph of a form with three numbers, and random scores; two forms of three have scores of numbers."""
    rng = np.random.default_rng([seed, FORMS.index(form)])
    case = random_graph(rng, form, size)
    graph, _ = with_numbers(rng, case, 3)
    drawn = [random_scores(rng, case, 2.0) for _ in range(samples)]
    fine = torch.tensor(np.array([one.fine for one in drawn]), dtype=torch.float32)
    coarse = torch.tensor(np.array([np.concatenate([np.zeros(0), *one.kinds]) for one in drawn]), dtype=torch.float32)
    scores = torch.tensor(rng.normal(size=(samples, 3, 2)), dtype=torch.float32)
    scores[..., 1].abs_()
    return Asked(graph, fine, coarse, scores if FORMS.index(form) % 3 else None, 17 + FORMS.index(form) % 2), rng


@pytest.mark.deep
@pytest.mark.parametrize("form", FORMS)
def test_evidence_on_numbers_equals_that_of_the_posterior(form):
    asked, rng = asked_of(form, 8)
    for _ in range(2):
        given = draw_evidence(asked.graph, 8, rng)
        asked.agree(given.ranges, given.estimates)
        # One row may serve the whole batch, for each input.
        ranges, estimates = (part[:1].repeat(8, axis=0) for part in (given.ranges, given.estimates))
        for one, two, whole in (
            (given.ranges[:1], given.estimates[:1], (ranges, estimates)),
            (given.ranges[:1], given.estimates, (ranges, given.estimates)),
            (given.ranges, given.estimates[:1], (given.ranges, estimates)),
        ):
            for part, again in zip(asked.onnx(one, two), asked.onnx(*whole), strict=True):
                np.testing.assert_array_equal(part, again)


@pytest.mark.deep
@pytest.mark.parametrize("form", FORMS[:3])
def test_without_evidence_the_answers_are_those_of_a_file_without_its_inputs(form):
    asked, _ = asked_of(form, 4)
    before = session_of(asked.graph, asked.posterior.tensors.coarse_count, asked.scored, 17).run(None, asked.inputs)
    nothing = [np.tile(np.array(one), (4, 3, 1)) for one in (NO_RANGE, NO_ESTIMATE)]
    for found in (asked.session.run(None, asked.inputs), asked.onnx(*nothing)):
        for one, two in zip(found, before, strict=True):
            np.testing.assert_array_equal(one, two)


FAR = Number.from_values("far", [1.0, 2.0, 3.0, None, 5.0, 5.0], [0.1, 0.001, 0.0, 0.0, 2.0, 0.5])
SCALES = {"linear": FAR, "log": Number("far", FAR.values, FAR.spreads, "log")}


@pytest.mark.deep
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("size", [1.0, 1e4])
@pytest.mark.parametrize(
    "limits",
    [(40, 41), (-300, -200), (1e5, np.inf), (7, 7 + 1e-9), (3, 3), (2.9999, 3.0001), (3.0000001, np.inf), (0, 1e-4)],
)
def test_far_and_narrow_limits_with_extreme_scores(scale, size, limits):
    if scale == "log" and limits[1] <= 0:
        limits = tuple(sorted(1 / abs(one) for one in limits))
    graph = LabelGraph(list("abcdef"), numbers=[SCALES[scale]])
    rng = np.random.default_rng(3)
    fine = torch.tensor(size * rng.normal(size=(3, 6)), dtype=torch.float32)
    scores = torch.tensor(np.abs(rng.normal(size=(3, 1, 2))), dtype=torch.float32)
    asked = Asked(graph, fine, torch.zeros(3, 0), scores * torch.tensor([size**0.5, 1.0]))
    asked.agree(np.tile(np.array(limits, np.float64), (3, 1, 1)), np.tile(np.array(NO_ESTIMATE), (3, 1, 1)), 2e-5)


@pytest.mark.deep
def test_what_cannot_be_true_of_a_number_spoils_its_own_row_alone():
    number = Number.from_values("mass", [1.0, 2.0, 4.0], scale="log")
    heat = Number.from_values("heat", [1.0, None, 3.0], [0.5, 0.0, 0.0])
    graph = LabelGraph(list("abc"), numbers=[number, heat])
    faults = [
        ((np.nan, 3), NO_ESTIMATE), ((3, 2), NO_ESTIMATE), ((-2, -1), NO_ESTIMATE), ((2.5, 3), NO_ESTIMATE),
        ((np.inf, np.inf), NO_ESTIMATE), ((1e200, np.inf), NO_ESTIMATE), (NO_RANGE, (2, 0)), (NO_RANGE, (2, -1)),
        (NO_RANGE, (-2, 1)), (NO_RANGE, (np.nan, 1)), (NO_RANGE, (2, np.nan)), (NO_RANGE, (2, 1e-300)),
    ]  # fmt: skip
    fine = torch.zeros(len(faults) + 1, 3)
    asked = Asked(graph, fine, torch.zeros(len(fine), 0), torch.ones(len(fine), 2, 2))
    ranges, estimates = (np.tile(np.array(one, np.float64), (len(fine), 2, 1)) for one in (NO_RANGE, NO_ESTIMATE))
    for row, (limits, estimate) in enumerate(faults):
        ranges[row, 0], estimates[row, 0] = limits, estimate
    log_probs, means, quantiles, possible = asked.onnx(ranges, estimates)
    assert possible.tolist() == [False] * len(faults) + [True]
    assert np.isneginf(log_probs[:-1]).all()
    assert np.isfinite(means).all()
    assert np.isfinite(quantiles).all()
    np.testing.assert_allclose(np.exp(log_probs[-1]), asked.posterior.probs()[-1], atol=1e-6)
    probs, *_, usable = asked.torch(ranges, estimates)
    assert (usable.numpy() & np.isfinite(probs).all(axis=1)).tolist() == [False] * 3 + [False] + [False] * 8 + [True]


def test_a_limit_that_is_the_value_of_a_fine_label_holds_it():
    values = np.random.default_rng(0).uniform(0.1, 9.0, 200)
    graph = LabelGraph([str(one) for one in range(200)], numbers=[Number.from_values("mass", values, scale="log")])
    asked = Asked(graph, torch.zeros(200, 200), torch.zeros(200, 0), None)
    for ranges in (np.stack([values, values], axis=1), np.stack([values, np.full(200, np.inf)], axis=1)):
        given = ranges[:, None], np.tile(np.array(NO_ESTIMATE), (200, 1, 1))
        log_probs, *_ = asked.onnx(*given)
        allowed = (values >= ranges[:, :1]) & (values <= ranges[:, 1:])
        np.testing.assert_array_equal(np.isfinite(log_probs), allowed)
        np.testing.assert_array_equal(asked.torch(*given)[0] > 0, allowed)


def test_the_polynomial_of_the_error_function():
    x = np.concatenate([np.linspace(0, 5, 1000), np.geomspace(1e-9, 1e12, 1000)])
    t = 2 / (2 + x)
    found = t * np.exp(np.polynomial.chebyshev.chebval(2 * t - 1, scaled_erfc_coefficients()))
    np.testing.assert_allclose(found, torch.special.erfcx(torch.from_numpy(x)), rtol=5e-14)
