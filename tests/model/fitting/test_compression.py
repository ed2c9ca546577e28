"""How strongly features are compressed before class means are fitted."""

import pytest
import torch

from finegraph.graph import LabelGraph
from finegraph.model.fitting import FitSettings
from finegraph.model.fitting.compression import (
    MAX_COMPRESSION,
    compressed,
    compressions_of,
    feature_sizes,
    likely_compression,
)
from finegraph.model.fitting.labelled_samples import LabelledSamples
from finegraph.model.fitting.prototypes import PrototypeSettings, fit_prototypes
from finegraph.model.fitting.solver_choice import choose_solver
from finegraph.model.teaching.class_statistics import ClassStatistics
from finegraph.nn.scaling import compress

GRAPH = LabelGraph.from_table({f"label {i}": {"dish": f"dish {i // 3}"} for i in range(12)})


def samples(features, targets, block_sizes=None):
    return LabelledSamples(features, targets, torch.ones(len(targets)), block_sizes or (features.shape[1],))


def photos(count, seed=0, size=20):
    """Normal features around class means, whose exponentials are like what networks give; and the fine labels."""
    chance = torch.Generator().manual_seed(seed)
    means = torch.randn(12, size, generator=chance, dtype=torch.float64)
    targets = torch.arange(12).repeat_interleave(count)
    return means[targets] + torch.randn(len(targets), size, generator=chance, dtype=torch.float64), targets


def test_skewed_features_are_compressed_and_normal_ones_are_not():
    normal, targets = photos(10)
    assert likely_compression(samples(normal.exp(), targets)) == MAX_COMPRESSION
    assert likely_compression(samples(-normal.exp(), targets)) == MAX_COMPRESSION
    assert likely_compression(samples(normal, targets)) == 0.0
    assert likely_compression(samples(normal + 20.0, targets)) == 0.0


def test_what_was_compressed_a_little_is_likely_to_be_a_little():
    normal, targets = photos(40)
    strength = 0.2
    heavy = torch.sign(normal) * torch.expm1(normal.abs() * strength) / strength  # its inverse
    found = likely_compression(samples(heavy, targets))
    assert 0.1 < found < MAX_COMPRESSION
    assert found / feature_sizes(samples(heavy, targets))[0] == pytest.approx(strength, rel=0.2)


def test_features_that_do_not_vary_within_classes_say_nothing():
    normal, targets = photos(4)
    more = torch.cat([normal.exp(), torch.ones(48, 3), targets[:, None].double()], dim=1)
    assert likely_compression(samples(more, targets)) == MAX_COMPRESSION
    assert likely_compression(samples(more[:, 20:], targets)) == 0.0


def test_with_one_photo_of_each_class_nothing_is_compressed():
    normal, targets = photos(1)
    assert likely_compression(samples(normal.exp(), targets)) == 0.0


def test_each_block_is_compressed_by_its_own_size():
    normal, targets = photos(4)
    both = samples(torch.cat([normal.exp(), 100.0 * normal.exp()], dim=1), targets, (20, 20))
    strengths = compressions_of(both, 0.5)
    assert strengths[0] == pytest.approx(100.0 * strengths[1])
    moved = compressed(both, strengths).features
    torch.testing.assert_close(moved[:, 20:], 100.0 * moved[:, :20])
    torch.testing.assert_close(moved[:, :20], compress(normal.exp(), 0.5 / feature_sizes(both)[0]), rtol=1e-6, atol=0)
    assert compressed(both, compressions_of(both, 0.0)) is both


@pytest.mark.parametrize("factor", [0.0, 1e-300, 1e300])
def test_features_of_any_size(factor):
    normal, targets = photos(4)
    features = factor * normal.exp()
    assert compressions_of(samples(features, targets), 0.5) == [0.0 if factor else 1.0]
    assert 0.0 <= likely_compression(samples(features, targets)) <= MAX_COMPRESSION
    if factor:
        fit = fit_prototypes(features, targets, GRAPH)
        assert bool(torch.isfinite(fit.head(fit.scaling(features)).log_probs()).all())


@pytest.mark.deep
def test_a_fit_compresses_and_says_so():
    normal, targets = photos(6)
    test, truth = photos(6, seed=0)[0] + torch.randn(72, 20, generator=torch.Generator().manual_seed(5)), targets
    answers = {}
    for on in (True, False):
        fit = fit_prototypes(normal.exp(), targets, GRAPH, PrototypeSettings(compress=on))
        assert fit.scaling.compressed is on
        assert fit.strengths.compression == (MAX_COMPRESSION if on else 0.0)
        with torch.no_grad():
            answers[on] = float(fit.head(fit.scaling(test.exp())).log_probs()[torch.arange(72), truth].mean())
    assert answers[True] > answers[False]
    again = fit_prototypes(
        normal.exp(), targets, GRAPH, strengths=fit_prototypes(normal.exp(), targets, GRAPH).strengths
    )
    assert again.scaling.compressed
    statistics = ClassStatistics.of_fit(again, normal.exp(), targets)
    for name, value in statistics.solve(GRAPH).state_dict().items():
        torch.testing.assert_close(again.head.state_dict()[name].to(value), value, rtol=1e-5, atol=1e-5)


@pytest.mark.deep
def test_the_contest_judges_the_closed_form_as_it_was_fitted():
    normal, targets = photos(8)
    fit = fit_prototypes(normal.exp(), targets, GRAPH)
    plain = fit_prototypes(normal.exp(), targets, GRAPH, PrototypeSettings(compress=False))
    found = [
        choose_solver(normal.exp(), targets, GRAPH, one.strengths, FitSettings()).log_likelihoods["prototypes"]
        for one in (fit, plain)
    ]
    assert found[0] == pytest.approx(fit.log_likelihood, abs=0.1)  # the folds are of compressed features there
    assert found[0] > found[1]
