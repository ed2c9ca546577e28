import numpy as np
import pytest
import torch

import finegraph as fg
from finegraph.data.dataset import MISSING
from finegraph.errors import InputError
from finegraph.evaluation.temperature import TemperatureSearch, fit_temperature
from reference.random_graphs import random_graph


def posterior_and_truth(form, photos, temperature, seed=0):
    """Scores that are too large by a factor, and fine labels drawn as the right scores say."""
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, form).graph
    fine = torch.tensor(rng.normal(0, 1.5, (photos, len(graph))))
    kinds = {name: torch.tensor(rng.normal(0, 1.0, (photos, len(graph.labels(name))))) for name in graph.kinds}
    right = fg.Posterior(graph, fine, kinds)
    truth = torch.multinomial(right.probs(), 1, generator=torch.Generator().manual_seed(seed)).squeeze(1)
    scores = {name: value * temperature for name, value in kinds.items()}
    return fg.Posterior(graph, fine * temperature, scores), truth


def likelihood(posterior, truth, temperature, views=1):
    """Minus the sum of log probabilities, and the prior on the temperature."""
    log_probs = posterior.tempered(temperature).mean_views(views).log_probs()
    total = -log_probs[torch.arange(len(truth)), truth].sum().item()
    return total + np.log(temperature) ** 2 / 2, total / len(truth)


def dense_search(posterior, truth, views=1):
    """The best of many temperatures, then of many around it."""
    middle, width = 0.0, 3.0
    for _ in range(2):
        each = np.linspace(middle - width, middle + width, 41)
        middle = each[np.argmin([likelihood(posterior, truth, np.exp(one), views)[0] for one in each])]
        width = each[1] - each[0]
    return np.exp(middle)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("form", ["one parent", "mixed", "no kinds"])
@pytest.mark.parametrize("temperature", [0.3, 1.0, 4.0])
def test_the_best_temperature_of_a_dense_search_is_found(form, temperature):
    posterior, truth = posterior_and_truth(form, 150, temperature)
    fit = fit_temperature(posterior, truth)
    assert fit.temperature == pytest.approx(dense_search(posterior, truth), rel=0.02)
    assert fit.nll_before == pytest.approx(likelihood(posterior, truth, 1.0)[1])
    assert fit.nll_after == pytest.approx(likelihood(posterior, truth, fit.temperature)[1], rel=1e-3)
    assert fit.photos == 150


def test_batches_and_photos_without_label():
    posterior, truth = posterior_and_truth("mixed", 60, 3.0)
    truth[5:12] = MISSING
    search = TemperatureSearch()
    for rows in (slice(0, 10), slice(10, 60)):
        part = fg.Posterior(posterior.graph, posterior.fine_scores[rows], posterior.coarse_scores[rows])
        search.add(part, truth[rows])
    fit = search.fit()
    whole = fit_temperature(posterior, truth)
    assert fit.temperature == pytest.approx(whole.temperature, rel=1e-9)
    known = truth != MISSING
    without = fg.Posterior(posterior.graph, posterior.fine_scores[known], posterior.coarse_scores[known])
    assert whole == fit_temperature(without, truth[known])
    assert fit.photos == whole.photos == 53


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("form", ["one parent", "mixed"])
def test_views_are_averaged_after_the_temperature(form):
    posterior, truth = posterior_and_truth(form, 120, 3.0)
    fit = fit_temperature(posterior, truth[::4], views=4)
    assert fit.temperature == pytest.approx(dense_search(posterior, truth[::4], views=4), rel=0.02)
    assert fit.nll_after == pytest.approx(likelihood(posterior, truth[::4], fit.temperature, views=4)[1], rel=1e-3)


def test_tiny_splits_give_sane_temperatures():
    graph = fg.LabelGraph(["a", "b"])
    right = fit_temperature(fg.Posterior(graph, torch.tensor([[3.0, 0.0]])), torch.tensor([0]))
    assert 0.5 < right.temperature < 1.0
    wrong = fit_temperature(fg.Posterior(graph, torch.tensor([[3.0, 0.0]])), torch.tensor([1]))
    assert 1.0 < wrong.temperature < 4.0
    even = fit_temperature(fg.Posterior(graph, torch.zeros(1, 2)), torch.tensor([1]))
    assert even.temperature == 1.0


def test_the_search_ends_at_its_limits():
    graph = fg.LabelGraph(["a", "b"])
    scores = torch.tensor([[1e6, 0.0]] * 50)
    assert fit_temperature(fg.Posterior(graph, scores), torch.tensor([0, 1] * 25)).temperature == pytest.approx(
        np.exp(4), rel=1e-6
    )


def test_nothing_to_fit_on():
    graph = fg.LabelGraph(["a", "b"])
    with pytest.raises(InputError, match="expected photos with a fine label to fit it on, got none"):
        TemperatureSearch().fit()
    with pytest.raises(InputError, match="expected photos with a fine label"):
        fit_temperature(fg.Posterior(graph, torch.zeros(1, 2)), torch.tensor([MISSING]))
    with pytest.raises(InputError, match="some true fine label has probability 0 at all of them"):
        fit_temperature(fg.Posterior(graph, torch.tensor([[0.0, -torch.inf]])), torch.tensor([1]))


def test_photos_that_a_head_was_fitted_by_count_as_much_as_others():
    posterior, truth = posterior_and_truth("one parent", 200, 1.6)
    search = TemperatureSearch()
    search.add(posterior, truth)
    alone, beside, many = (np.log(search.fit(count).temperature) for count in (0, 200, 20_000))
    assert alone > 0.3
    assert beside == pytest.approx(alone / 2, rel=0.2)
    assert abs(many) < 0.05 * alone
