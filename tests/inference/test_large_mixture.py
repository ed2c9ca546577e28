"""Searches among very many components find what the search among all of them finds."""

import math

import numpy as np
import pytest
import torch

import finegraph as fg
from finegraph.inference.numbers import large_mixture, thresholds
from finegraph.inference.numbers.large_mixture import LargeMixture, merged_components, search_of
from finegraph.inference.numbers.mixture_search import MixtureSearch
from finegraph.inference.numbers.normal import interval_log_prob, log_interval

pytestmark = pytest.mark.usefixtures("unchecked")

CASES = [(points, cut) for points in (0.0, 0.4) for cut in (None, (-0.5, 0.4), (-math.inf, 0.2))]


def mixture(seed, count, points=0.0, cut=None):
    """The components of one random sample; a share of them are points."""
    generator = torch.Generator().manual_seed(seed)
    weights = torch.randn(1, count, generator=generator, dtype=torch.float64).exp()
    mean = torch.randn(1, count, generator=generator, dtype=torch.float64)
    deviation = 0.04 + 0.4 * torch.rand(1, count, generator=generator, dtype=torch.float64)
    deviation = deviation.masked_fill(torch.rand(1, count, generator=generator) < points, 0.0)
    low = high = None
    if cut is not None:
        low, high = (torch.tensor([[end]], dtype=torch.float64) for end in cut)
        weights = weights * interval_log_prob(mean, deviation.square(), low, high).exp()
    return weights / weights.sum(), mean, deviation.square(), low, high


def outer(value):
    return (0.5 * value).exp()


@pytest.mark.parametrize(
    ("points", "cut"), [pytest.param(*case, marks=() if case[1] is None else pytest.mark.deep) for case in CASES]
)
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_quantiles_and_intervals_are_those_of_one_search(points, cut, seed):
    whole = MixtureSearch.of(*mixture(seed, 500, points, cut))
    large = LargeMixture(whole)
    q = torch.tensor([[0.0, 1e-6, 0.05, 0.5, 0.9, 0.999, 1.0]], dtype=torch.float64)
    assert torch.allclose(large.quantile(q), whole.quantile(q), rtol=1e-9, atol=1e-9)
    for probability in (0.5, 0.95):
        low, high = large.shortest_interval(probability, outer, 0.5)
        assert (whole.cdf(high) - whole.cdf(low, before=True)).item() >= probability - 1e-11
        one = whole.shortest_interval(probability, outer, 0.5)
        assert (outer(high) - outer(low)).item() <= (outer(one[1]) - outer(one[0])).item() * (1 + 1e-3)


@pytest.mark.parametrize(("points", "cut"), CASES)
def test_expansions_equal_sums_over_all_components(points, cut):
    whole = MixtureSearch.of(*mixture(5, 3000, points, cut))
    for centre in (-0.4, 0.0, 0.15):
        near = LargeMixture(whole).near(centre)
        assert 0.001 < near.high - near.low < 0.5
        assert near.rest.mean.shape[1] < 1024
        places = torch.linspace(near.low, near.high, 33, dtype=torch.float64)
        for before in (False, True):
            expected = whole.cdf(places[None], before=before)[0]
            assert torch.allclose(near.cdf(places, before=before), expected, rtol=0, atol=2e-15)
        assert torch.allclose(near.density(places), whole.density(places[None])[0], rtol=1e-11, atol=0)


def test_no_interval_from_evenly_spaced_places_is_shorter():
    """Also at the tails, which no very probable component is near."""
    for seed, count in ((1, 300), (2, 6000)):
        components = mixture(seed, count)
        found = search_of(*components)
        assert isinstance(found, MixtureSearch) == (count < large_mixture.MANY_COMPONENTS)
        whole = MixtureSearch.of(*components)
        places = torch.linspace(-5, 5, 400, dtype=torch.float64)[None]
        sums = whole.cdf(places)
        for probability in (0.5, 0.99, 0.999):
            low, high = found.shortest_interval(probability, outer, 0.5)
            stop = torch.searchsorted(sums, sums + probability)
            length = outer(places.gather(1, stop.clamp(max=399))) - outer(places)
            assert (outer(high) - outer(low)).item() <= length[stop < 400].min().item()


def test_merged_components_keep_mass_mean_and_variance():
    weights, mean, variance, _, _ = (None if part is None else part[0] for part in mixture(7, 20_000, 0.2))
    merged = merged_components(weights, mean, variance.sqrt())
    assert len(merged[0]) < 1500
    average = (weights @ mean).item()
    assert merged[0].sum().item() == pytest.approx(1.0)
    assert (merged[0] @ merged[1]).item() == pytest.approx(average)
    square = (weights @ (variance + (mean - average) ** 2)).item()
    assert (merged[0] @ (merged[2] ** 2 + (merged[1] - average) ** 2)).item() == pytest.approx(square)


def test_batches_and_questions_of_many_labels(monkeypatch):
    torch.manual_seed(0)
    price = fg.Number.from_values("price", torch.rand(300).exp().numpy(), 0.05 + 0.1 * torch.rand(300).numpy())
    graph = fg.LabelGraph([f"fine {i}" for i in range(300)], numbers=[price])
    scores = torch.randn(3, 300, dtype=torch.float64)
    number_scores = torch.rand(3, 1, 2, dtype=torch.float64)

    def answers():
        posterior = fg.Posterior(graph, scores, number_scores=number_scores)
        value, (questions, *_) = posterior.value("price"), zip(*posterior.questions(), strict=True)
        return value.quantile(0.5), *value.interval(0.9), torch.tensor([one.gain for one in questions])

    expected = answers()
    monkeypatch.setattr(large_mixture, "MANY_COMPONENTS", 100)
    monkeypatch.setattr(thresholds, "MANY_COMPONENTS", 100)
    found = answers()
    assert torch.allclose(found[0], expected[0], rtol=1e-10)
    assert torch.allclose(found[2] - found[1], expected[2] - expected[1], rtol=1e-4)
    assert torch.allclose(found[3], expected[3], rtol=1e-2)
    scores[1] = torch.nan
    assert fg.Posterior(graph, scores, number_scores=number_scores).value("price").quantile(0.5).isnan().tolist() == [
        False,
        True,
        False,
    ]


def test_logs_of_very_many_intervals_equal_those_of_few():
    rng = np.random.default_rng(7)
    low = np.concatenate([rng.normal(0.0, 6.0, 4000), [-np.inf, 40.0, -45.0, 3.0, 0.0]])
    width = np.concatenate([np.exp(rng.normal(-1.0, 3.0, 4000)), [np.inf, 2.0, 1.0, 0.0, 1e-9]])
    high = np.where(np.isinf(width), 1.0, low + np.where(np.isinf(width), 0.0, width))
    low, high, width = (torch.from_numpy(values) for values in (low, high, width))
    few = [log_interval(*parts) for parts in zip(low.split(100), high.split(100), width.split(100), strict=True)]
    torch.testing.assert_close(log_interval(low, high, width), torch.cat(few), rtol=1e-12, atol=1e-13)


def test_components_that_are_kept_serve_gradients_too():
    price = fg.Number.from_values("price", [9.0, 12.0, 15.0], [1.0, 0.5, 2.0])
    graph = fg.LabelGraph(["soup", "noodles", "duck"], numbers=[price])
    fine = torch.tensor([[0.1, 0.2, 0.3]], requires_grad=True)
    gradients = []
    for first in (False, True):
        posterior = fg.Posterior(graph, fine).given(price="<= 13")
        with torch.inference_mode():
            kept = posterior.value("price").mean if first else None
        mean = posterior.value("price").mean
        gradients.append(torch.autograd.grad(mean.sum(), fine)[0])
    assert torch.equal(kept, mean)
    assert torch.equal(*gradients)
