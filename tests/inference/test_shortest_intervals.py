"""Shortest intervals have the length of closed forms for cut normal distributions; of mixtures, none is shorter."""

import math

import pytest
import torch

import finegraph as fg
from finegraph.inference.numbers.large_mixture import LargeMixture
from finegraph.inference.numbers.mixture_search import MixtureSearch
from finegraph.inference.numbers.normal import interval_log_prob

pytestmark = pytest.mark.usefixtures("unchecked")

PROBABILITIES = (0.5, 0.8, 0.9, 0.95, 0.99, 0.995, 0.999)
FREE = (-math.inf, math.inf)


def shortest_of_cut_normal(low, high, probability):
    """The length of the shortest interval of a standard normal variable that is cut to an interval."""
    if low > 0:
        low, high = -high, -low  # a mirror image, whose tail keeps its digits

    def mass(start, stop):
        return 0.5 * (math.erfc(-stop / math.sqrt(2)) - math.erfc(-start / math.sqrt(2)))

    def ends(size):
        return (max(low, high - size), high) if high <= 0 else (max(low, -size / 2), min(high, size / 2))

    goal = probability * mass(low, high)
    short, long = 0.0, 40.0
    for _ in range(100):
        middle = 0.5 * (short + long)
        short, long = (middle, long) if mass(*ends(middle)) < goal else (short, middle)
    start, stop = ends(long)
    return stop - start


def search_of_one(mean, deviation, low, high):
    """A search among one normal distribution per sample."""
    mean, deviation, low, high = (
        torch.tensor(part, dtype=torch.float64).view(-1, 1) for part in (mean, deviation, low, high)
    )
    cut = (low, high) if bool((low.isfinite() | high.isfinite()).any()) else (None, None)
    return MixtureSearch.of(torch.ones_like(mean), mean, deviation.square(), *cut)


@pytest.mark.parametrize("probability", PROBABILITIES)
@pytest.mark.parametrize(
    "cut",
    [
        FREE,
        (-3, 3),
        (-100, -20),
        (20, 100),
        (-math.inf, -7 / 3),
        (-math.inf, 5 / 3),
        (-0.3, math.inf),
        (0.2, 0.7),
        (-38, -2),
    ],
)
def test_one_cut_normal_has_the_length_of_its_closed_form(cut, probability):
    search = search_of_one([0.0], [1.0], *([end] for end in cut))
    low, high = search.shortest_interval(probability, lambda value: value)
    expected = shortest_of_cut_normal(*cut, probability)
    assert (high - low).item() == pytest.approx(expected, rel=1e-9)
    assert (search.cdf(high) - search.cdf(low, before=True)).item() >= probability - 1e-12


@pytest.mark.parametrize("probability", PROBABILITIES)
@pytest.mark.parametrize("cut", [False, True])
def test_a_narrow_normal_far_from_the_ends_is_found(cut, probability):
    generator = torch.Generator().manual_seed(3)
    mean, size = torch.rand(2, 60, generator=generator, dtype=torch.float64)
    deviation = 10 ** (-1 - 3 * size)
    ends = (torch.full_like(mean, -2.42), torch.full_like(mean, 3.3)) if cut else (mean - math.inf, mean + math.inf)
    low, high = search_of_one(*(part.tolist() for part in (mean, deviation, *ends))).shortest_interval(
        probability, lambda value: value
    )
    expected = shortest_of_cut_normal(*FREE, probability)
    assert ((high - low).squeeze(1) / deviation).tolist() == pytest.approx([expected] * 60, rel=1e-9)


@pytest.mark.deep
@pytest.mark.parametrize("count", [3, pytest.param(40, marks=pytest.mark.slow)])
@pytest.mark.parametrize("cut", [(-math.inf, -6.0), (-50.0, -8.0), (6.0, math.inf), (-math.inf, -1.0), (-0.5, 0.4)])
def test_no_start_gives_a_shorter_interval_of_a_mixture(count, cut):
    generator = torch.Generator().manual_seed(count)
    mean = torch.randn(1, count, generator=generator, dtype=torch.float64)
    deviation = 0.3 + 0.4 * torch.rand(1, count, generator=generator, dtype=torch.float64)
    low, high = (torch.tensor([[end]], dtype=torch.float64) for end in cut)
    weights = interval_log_prob(mean, deviation.square(), low, high) + torch.randn(1, count, generator=generator)
    search = MixtureSearch.of(weights.softmax(dim=1), mean, deviation.square(), low, high)
    for growth in (0.0, 0.5):

        def outer(value, growth=growth):
            return (growth * value).exp() if growth else value

        for probability in (0.5, 0.995):
            shares = torch.linspace(0, 1 - probability, 401, dtype=torch.float64)[None]
            starts, ends = search.quantile(shares), search.quantile((shares + probability).clamp_max(1.0))
            length = (outer(ends) - outer(starts)).nan_to_num(math.inf).min().item()
            for found, tolerance in ((search, 1e-9), (LargeMixture(search), 1e-6)):
                start, end = found.shortest_interval(probability, outer, growth)
                assert (outer(end) - outer(start)).item() <= length * (1 + tolerance)
                assert (search.cdf(end) - search.cdf(start, before=True)).item() >= probability - 1e-11


@pytest.mark.parametrize("scale", ["linear", "log"])
def test_a_limit_below_all_values_leaves_the_interval_below_it(scale):
    price = fg.Number.from_values("price", [12.5, 40.0], [1.5, 1.0], scale, unit="EUR")
    graph = fg.LabelGraph(["soup", "duck"], numbers=[price])
    value = fg.Posterior(graph, torch.zeros(1, 2, dtype=torch.float64)).given(price="<= 9").value("price")
    low, high = (end.item() for end in value.interval(0.995))
    if scale == "linear":
        assert high - low == pytest.approx(1.5 * shortest_of_cut_normal(-math.inf, -7 / 3, 0.995), rel=1e-6)
    assert 6 < low < 8
    assert high == pytest.approx(9, rel=1e-9)
    assert value.probability((low, high)).item() == pytest.approx(0.995)
