"""Choosing strengths by cross-validation."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import finegraph as fg
from finegraph.errors import InputError, UnknownNameError
from finegraph.model import FitSettings, fit_head
from finegraph.model.fitting import target_log_probs
from finegraph.model.fitting.feature_scales import FeatureScales
from finegraph.model.fitting.selection import (
    SOFTMAX_RATIO,
    LabelledFeatures,
    compare_settings,
    deal_folds,
    default_grid,
    grid_settings,
    search,
)
from finegraph.model.fitting.span import span_of

GRAPH = fg.LabelGraph.from_parents(["a", "b", "c", "d"], {"pair": [0, 0, 1, 1]})


def samples(per_label=6, noise=1.0):
    generator = torch.Generator().manual_seed(2)
    target = torch.arange(4).repeat_interleave(per_label)
    shown = torch.cat([torch.eye(2)[target // 2], torch.eye(4)[target], torch.zeros(len(target), 4)], dim=1)
    return (shown + noise * torch.randn(shown.shape, generator=generator)).double(), target


# ---- folds -----------------------------------------------------------------------------------------------------------


def test_every_sample_is_held_out_once_and_classes_are_spread_evenly():
    targets = np.repeat(np.arange(3), [10, 5, 20])
    folds = deal_folds(targets, 5)
    assert np.array_equal(np.sort(np.concatenate([held for _, held in folds])), np.arange(35))
    for train, held in folds:
        assert np.array_equal(np.sort(np.concatenate([train, held])), np.arange(35))
        assert np.bincount(targets[held]).tolist() == [2, 1, 4]
    assert folds[0][1].tolist() == [0, 1, 10, 15, 16, 17, 18]  # neighbours stay together


def test_small_classes_are_always_trained_on_and_take_turns():
    targets = np.repeat(np.arange(10), 2)
    folds = deal_folds(targets, 5)
    assert [len(held) for _, held in folds] == [4] * 5
    assert all(set(targets[train]) == set(range(10)) for train, _ in folds)


def test_a_class_of_one_is_never_held_out():
    folds = deal_folds(np.array([0, 1, 1, 2, 2]), 5)
    assert all(0 in train for train, _ in folds)
    assert sorted(int(index) for _, held in folds for index in held) == [1, 2, 3, 4]
    assert deal_folds(np.array([0, 1, 2]), 5) == []


def test_samples_without_a_fine_label_are_never_held_out():
    folds = deal_folds(np.array([-100, 0, 0, -100, 1, 1]), 2)
    assert [held.tolist() for _, held in folds] == [[1, 4], [2, 5]]


def dealt_class_by_class(targets, count):
    """The folds as a loop over classes, each of which is looked for among all samples."""
    fold, first = np.full(len(targets), -1), 0
    for label in sorted(set(targets.tolist()) - {-100}):
        own = [place for place, target in enumerate(targets) if target == label]
        if len(own) < 2:
            continue
        for place, sample in enumerate(own):
            fold[sample] = (first + place * count // len(own)) % count
        first += min(len(own), count)
    return [(np.flatnonzero(fold != held), np.flatnonzero(fold == held)) for held in range(count) if held in fold]


@pytest.mark.parametrize("seed", range(20))
def test_folds_are_those_of_a_loop_over_classes(seed):
    rng = np.random.default_rng(seed)
    targets = rng.choice([-100, *rng.integers(0, 1000, 12)], size=rng.integers(0, 60)).astype(np.int64)
    count = int(rng.integers(2, 8))
    found, expected = deal_folds(targets, count), dealt_class_by_class(targets, count)
    assert len(found) == len(expected)
    for one, two in zip(found, expected, strict=True):
        assert all(a.dtype == b.dtype and np.array_equal(a, b) for a, b in zip(one, two, strict=True))


def test_held_out_samples_are_scored_some_at_a_time(monkeypatch):
    features, target = samples(per_label=12)
    head = fit_head(features, target, GRAPH, FitSettings()).head
    expected = head(features).log_probs().gather(1, target[:, None])[:, 0].detach()
    sizes = []

    def answer(part):
        sizes.append(len(part))
        return head(part)

    monkeypatch.setattr(target_log_probs, "_MAX_SCORES", 6 * 16)  # of 4 fine labels and 2 pairs
    found = target_log_probs.target_log_probs(answer, GRAPH, [features], target)
    assert sizes == [16, 16, 16]
    torch.testing.assert_close(found, expected)
    assert target_log_probs.target_log_probs(answer, GRAPH, [features[:0]], target[:0]).tolist() == []


def test_one_fold_is_refused():
    with pytest.raises(InputError, match=r"cross-validation needs at least 2 folds, got 1"):
        deal_folds(np.array([0, 0]), 1)


# ---- grids -----------------------------------------------------------------------------------------------------------


def test_both_heads_have_the_same_number_of_settings():
    counts = {
        head: len(grid_settings(FitSettings(head=head), default_grid(head, GRAPH))) for head in ("softmax", "bipartite")
    }
    assert counts == {"softmax": 28, "bipartite": 28}
    without_kinds = default_grid("bipartite", GRAPH.only([]))
    assert len(grid_settings(FitSettings(), without_kinds)) == 28


def test_settings_run_from_the_strongest_prior_to_the_weakest():
    settings = grid_settings(FitSettings(max_iter=7), {"kind_weight": [0.1, 0.2], "l2": [0.1, 10, 1]})
    assert [(each.kind_weight, each.l2) for each in settings] == [
        (0.1, 10), (0.1, 1), (0.1, 0.1), (0.2, 10), (0.2, 1), (0.2, 0.1),
    ]  # fmt: skip
    assert all(each.max_iter == 7 for each in settings)
    assert grid_settings(FitSettings(l2=0.4), {"laplacian": [0.5]}) == [FitSettings(l2=0.4, laplacian=0.5)]


def test_wrong_grids_are_refused():
    with pytest.raises(UnknownNameError, match=r"unknown strength 'L2' in the grid; did you mean 'l2'"):
        grid_settings(FitSettings(), {"L2": [1.0]})
    with pytest.raises(InputError, match=r"grid: 'l2' has no values"):
        grid_settings(FitSettings(), {"l2": []})
    with pytest.raises(InputError, match=r"l2: expected a finite number of at least 0, got -1"):
        grid_settings(FitSettings(), {"l2": [-1]})


# ---- scores ----------------------------------------------------------------------------------------------------------


@pytest.mark.deep
@pytest.mark.parametrize("per_label", [6, 2])  # with 2, features are looked at inside the span of the samples
def test_scores_are_held_out_log_likelihoods(per_label):
    features, target = samples(per_label)
    weight = torch.rand(len(target), generator=torch.Generator().manual_seed(0)).double() + 0.5
    folds = deal_folds(target.numpy(), 2)
    settings = grid_settings(FitSettings(tolerance=1e-12), {"l2": [1.0, 0.01], "kind_weight": [0.1, 1.0]})
    found = search(features, target, GRAPH, settings, folds, sample_weight=weight)
    expected = np.zeros((4, 2))
    for number, (train, held) in enumerate(folds):
        for index, setting in enumerate(settings):
            head = fit_head(features[train], target[train], GRAPH, setting, sample_weight=weight[train]).head
            likelihood = head(features[held]).log_probs()[range(len(held)), target[held]]
            expected[index, number] = (weight[held] @ likelihood).item() / weight[held].sum().item()
    assert np.allclose(found.scores, expected, atol=1e-4)
    sizes = np.array([weight[held].sum().item() for _, held in folds])
    assert np.allclose(found.mean_scores, expected @ sizes / sizes.sum(), atol=1e-4)
    assert found.best == int(np.argmax(expected @ sizes))


@pytest.mark.deep
def test_the_noisier_the_features_the_stronger_the_prior():
    chosen = []
    for noise in (0.2, 3.0):
        features, target = samples(per_label=10, noise=noise)
        settings = grid_settings(FitSettings(head="softmax"), {"l2": [1.0, 0.1, 0.01, 0.001, 0.0001]})
        found = search(features, target, GRAPH, settings, deal_folds(target.numpy(), 3))
        chosen.append(found.settings[found.best].l2)
    assert chosen[0] <= 0.01 < chosen[1]


def test_classes_that_a_training_part_lacks_are_scored_by_their_parents():
    features, target = samples()
    held = np.flatnonzero(target.numpy() == 1)
    train = np.flatnonzero(target.numpy() != 1)
    settings = FitSettings(tolerance=1e-12)
    found = search(features, target, GRAPH, [settings], [(train, held)])
    span = span_of(features, torch.full((len(target),), 1 / len(target)).double())
    head = fit_head(features[train], target[train], GRAPH, settings, spans=(span,)).head
    expected = head(features[held]).log_probs()[:, 1].mean().item()
    assert found.scores[0, 0] == pytest.approx(expected, abs=1e-4)


@pytest.mark.deep
def test_labels_of_the_graph_without_any_sample_do_not_disturb():
    features, target = samples()
    larger = fg.LabelGraph.from_parents(["0", "a", "b", "c", "d", "z"], {"pair": [1, 0, 0, 1, 1, 0]})
    folds = deal_folds(target.numpy(), 3)
    settings = [FitSettings(head="softmax", tolerance=1e-12)]  # strictly convex: one minimum, however it is reached
    one = search(features, target, GRAPH, settings, folds)
    two = search(features, target + 1, larger, settings, folds)
    assert np.allclose(one.scores, two.scores, atol=1e-4)


# ---- choosing --------------------------------------------------------------------------------------------------------


@pytest.mark.deep
def test_held_out_samples_choose_what_a_loop_over_the_settings_would():
    features, target = samples(noise=0.5)
    train = LabelledFeatures(features[::2], target[::2])
    val = LabelledFeatures(features[1::2], target[1::2])
    tried = grid_settings(FitSettings(tolerance=1e-8), {"l2": [10.0, 1.0, 0.1, 0.01, 0.001]})
    likelihood = []
    for setting in tried:
        head = fit_head(train.features, train.targets, GRAPH, setting).head
        with torch.no_grad():
            likelihood.append(head(val.features).log_probs()[torch.arange(len(val.targets)), val.targets].mean().item())
    assert 0 < np.argmax(likelihood) < len(tried) - 1
    assert compare_settings(tried, GRAPH, train, val).best == int(np.argmax(likelihood))


@pytest.mark.deep
def test_without_held_out_samples_folds_choose_and_without_folds_nothing_does():
    features, target = samples(noise=2.0)
    tried = grid_settings(FitSettings(), {"l2": [1.0, 0.1, 0.01]})
    found = search(features, target, GRAPH, tried, deal_folds(target.numpy(), 5))
    assert compare_settings(tried, GRAPH, LabelledFeatures(features, target)).best == found.best
    assert compare_settings(tried, GRAPH, LabelledFeatures(features[::6], target[::6])) is None


def test_labels_of_kinds_count_for_training_samples_only():
    features, target = samples(noise=2.0)
    kinds = {"pair": (target // 2)[::2]}
    train = LabelledFeatures(features[::2], torch.full_like(target[::2], -100), kind_targets=kinds)
    tried = grid_settings(FitSettings(), {"l2": [1.0, 0.01]})
    val = LabelledFeatures(features[1::2], target[1::2])
    assert np.isfinite(compare_settings(tried, GRAPH, train, val).scores).all()
    with pytest.raises(InputError, match="observed"):
        compare_settings(tried, GRAPH, train._replace(kind_targets=None), val)


# ---- scales ----------------------------------------------------------------------------------------------------------


def test_a_head_of_scaled_features_takes_them_as_they_are_after_undo():
    features, target = samples()
    large, small = 8.0 * features, features[:, :4] / 16.0
    scales = FeatureScales.of(large, small)
    assert FeatureScales.of(large).coarse == scales.fine
    torch.testing.assert_close((large / scales.fine).var(dim=0, correction=0).mean(), torch.tensor(1.0).double())
    torch.testing.assert_close((small / scales.coarse).var(dim=0, correction=0).mean(), torch.tensor(1.0).double())
    head = fit_head(large / scales.fine, target, GRAPH, coarse_features=small / scales.coarse).head
    with torch.no_grad():
        expected = head(large / scales.fine, small / scales.coarse).log_probs()
        scales.undo(head)
        torch.testing.assert_close(head(large, small).log_probs(), expected)


def test_features_that_do_not_vary_have_the_scale_1():
    assert FeatureScales.of(torch.full((3, 2), 7.0)) == (1.0, 1.0)


# ---- never below softmax, and hopeless settings ---------------------------------------------------------------------


@pytest.mark.parametrize("two", [False, True])
def test_the_settings_of_a_bipartite_head_include_softmax_exactly(two):
    features, target = samples()
    graph = fg.LabelGraph.from_parents(["a", "b", "c", "d", "new"], {"pair": [0, 0, 1, 1, 1]})
    own = [setting for setting in grid_settings(FitSettings(), default_grid("bipartite", graph)) if setting.is_softmax]
    assert len(own) == 7
    coarse = features[:, :3] if two else None
    for setting in own[2:4]:
        head = fit_head(features, target, graph, setting, coarse_features=coarse).head
        plain = fit_head(features, target, graph, FitSettings(head="softmax", l2=setting.l2)).head
        assert isinstance(head, fg.BipartiteHead)
        assert not head.coarse.weight.any()
        answers = head(features, coarse) if two else head(features)
        assert torch.equal(answers.log_probs(), plain(features).log_probs())


def test_softmax_among_the_settings_takes_no_notice_of_labels_seen_on_samples():
    features, target = samples()
    setting = FitSettings(coarse_ratio=SOFTMAX_RATIO)
    seen = fit_head(features, target, GRAPH, setting, kind_targets={"pair": 1 - target // 2}).head
    assert torch.equal(seen.fine.weight, fit_head(features, target, GRAPH, setting).head.fine.weight)
    with pytest.raises(InputError, match="laplacian: this prior ties fine to coarse weights"):
        FitSettings(coarse_ratio=SOFTMAX_RATIO, laplacian=0.1)
    tried = grid_settings(FitSettings(laplacian=0.1), default_grid("bipartite", GRAPH))
    assert len(tried) == 21
    assert not any(one.is_softmax for one in tried)


@pytest.mark.deep
def test_hopeless_settings_are_left_and_the_best_is_found_all_the_same():
    generator = torch.Generator().manual_seed(3)
    graph = fg.LabelGraph.from_parents([f"{i}" for i in range(20)], {"pair": [i // 2 for i in range(20)]})
    target = torch.arange(20).repeat_interleave(6)
    centres = torch.randn(20, 12, generator=generator)
    features = (centres[target] + torch.randn(120, 12, generator=generator)).double()
    tried = grid_settings(FitSettings(tolerance=1e-6), default_grid("bipartite", graph))[::3]
    folds = deal_folds(target.numpy(), 4)
    found = search(features, target, graph, tried, folds)
    missing = np.isnan(found.scores)
    assert missing.sum() > len(tried)
    assert not missing[found.best].any()
    every = [search(features, target, graph, [setting], folds).scores[0] for setting in tried]
    assert np.argmax(np.mean(every, axis=1)) == found.best
    assert np.allclose(np.where(missing, every, found.scores), every, atol=1e-2)  # paths start elsewhere
