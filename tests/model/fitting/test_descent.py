"""Fitted heads: minima of what they should minimise, and equal to scikit-learn's where both can do the same."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

import finegraph as fg
from finegraph.errors import InputError, ShapeError, TargetError, UnknownNameError
from finegraph.model import FitSettings, fit_head
from reference.random_graphs import FORMS, random_graph

EXACT = {"tolerance": 1e-12}
MENU = fg.LabelGraph.from_table(
    {f"{dish} @ {place}": {"dish": dish, "place": place} for dish in ("mapo", "kung pao", "dan dan") for place in "ABC"}
)


def menu_samples(per_label=4, noise=0.3, dtype=torch.float64):
    """Features that show the dish and the place of each sample, and a little of both together."""
    generator = torch.Generator().manual_seed(5)
    target = torch.arange(len(MENU)).repeat(per_label)
    dish, place = (torch.from_numpy(MENU.parents(kind))[target] for kind in MENU.kinds)
    shown = torch.cat([torch.eye(3)[dish], torch.eye(3)[place], 0.3 * torch.eye(9)[target]], dim=1)
    return (shown + noise * torch.randn(shown.shape, generator=generator)).to(dtype), target


def public_objective(head, features, target, settings, **loss):
    """The objective in the public words of the package."""
    kinds = len(head.graph.kinds)
    weights = {} if kinds == 0 else settings.kind_weights(head.graph)
    value = fg.joint_loss(head(features), target, kind_weights=weights, **loss)
    value = value + settings.l2 / 2 * head.fine.weight.square().sum()
    if isinstance(head, fg.BipartiteHead):
        ratio = kinds / 16 if settings.coarse_ratio is None else settings.coarse_ratio
        value = value + settings.l2 * ratio / 2 * head.coarse.weight.square().sum()
        value = value + settings.laplacian * fg.laplacian_prior(head)
    return value


def slope(fit, features, target, settings, **loss):
    """The objective, and the largest derivative of it."""
    value = public_objective(fit.head, features, target, settings, **loss)
    grads = torch.autograd.grad(value, list(fit.head.parameters()), materialize_grads=True)
    return value.item(), max(float(grad.abs().max()) for grad in grads if grad.numel())


def assert_same_minimum(one, two, settings):
    """Two fits of one objective agree as far as the tolerance says, which holds on every processor.

    Each value is within `tolerance * objective` of the minimum. The weights of softmax, whose objective curves by `l2`
    at least, are then within `sqrt(2 * tolerance * objective / l2)` of those at the minimum. With kinds the objective
    may be as flat as it likes, and nothing is promised of weights and probabilities.
    """
    assert one.converged
    assert two.converged
    assert two.objective == pytest.approx(one.objective, rel=2 * settings.tolerance + 1e-13)
    if settings.head == "softmax":
        apart = 2 * math.sqrt(2 * settings.tolerance * one.objective / settings.l2)
        assert torch.dist(two.head.fine.weight, one.head.fine.weight).item() < apart


# ---- the minimum -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("samples", "dtype"), [(150, np.float64), (20, np.float64), (150, np.float32)])
def test_softmax_is_logistic_regression(samples, dtype):
    features, labels = load_digits(return_X_y=True)
    features = (features[:, ::2] / 16).astype(dtype)
    features, rest = features[:samples], features[samples:]
    labels, l2 = labels[:samples], 0.003
    graph = fg.LabelGraph([str(digit) for digit in range(10)])
    settings = FitSettings(head="softmax", l2=l2, tolerance=1e-12 if dtype == np.float64 else 1e-6)
    fit = fit_head(torch.from_numpy(features), torch.from_numpy(labels), graph, settings)
    other = LogisticRegression(C=1 / (l2 * samples), solver="newton-cholesky", tol=1e-8).fit(
        features.astype(np.float64), labels
    )
    assert fit.converged
    apart = math.sqrt(2 * settings.tolerance * fit.objective / l2)  # see assert_same_minimum; the other is exact
    assert np.linalg.norm(fit.head.fine.weight.detach().numpy() - other.coef_) < apart
    probs = fit.head(torch.from_numpy(rest)).probs().detach().numpy()
    far = np.linalg.norm(rest - features.mean(axis=0), axis=1).max()  # scores move by the weights times this
    assert np.abs(probs - other.predict_proba(rest.astype(np.float64))).max() < apart * far


@pytest.mark.deep
@pytest.mark.parametrize("form", FORMS)
def test_bipartite_heads_reach_a_minimum_on_every_form_of_graph(form):
    graph = random_graph(np.random.default_rng([4, FORMS.index(form)]), form).graph
    torch.manual_seed(1)
    target = torch.arange(len(graph)).repeat(3)
    features = torch.randn(len(target), 4, dtype=torch.float64)
    settings = FitSettings(l2=0.05, laplacian=0.02, **EXACT)
    fit = fit_head(features, target, graph, settings)
    value, largest = slope(fit, features, target, settings)
    assert fit.converged
    assert fit.objective == pytest.approx(value, rel=1e-10)
    assert largest < 1e-5
    zero = fg.BipartiteHead(4, graph).double()
    for parameter in zero.parameters():
        torch.nn.init.zeros_(parameter)
    assert value <= public_objective(zero, features, target, settings).item() + 1e-12


@pytest.mark.deep
@pytest.mark.parametrize(
    "changes",
    [
        {"head": "softmax"},
        {"head": "softmax", "kind_weight": 0.7},
        {"kind_weight": 1.0},
        {"kind_weight": {"dish": 0.0, "place": 2.0}},
        {"kind_weight": {"dish": 2.0}},
        {"coarse_ratio": 3.0},
        {"l2": 0.0, "laplacian": 0.1},
    ],
)
def test_every_setting_is_obeyed(changes):
    features, target = menu_samples()
    settings = FitSettings(**{"l2": 0.02, **EXACT, **changes})
    fit = fit_head(features, target, MENU, settings)
    _, largest = slope(fit, features, target, settings)
    assert largest < 1e-5
    other = fit_head(features, target, MENU, FitSettings(l2=0.02, **EXACT))
    assert not torch.allclose(fit.head(features).probs(), other.head(features).probs(), atol=1e-3)


def test_defaults_are_as_documented():
    settings = FitSettings()
    assert settings.kind_weights(MENU) == {"dish": 0.5, "place": 0.5}
    assert settings.strengths(MENU) == (0.005, 0.005 / 8, 0.0)
    assert FitSettings(head="softmax").kind_weights(MENU) == {"dish": 0.0, "place": 0.0}
    assert FitSettings(kind_weight={"place": 3}).kind_weights(MENU) == {"dish": 0.5, "place": 3.0}
    assert FitSettings().kind_weights(MENU.only([])) == {}


@pytest.mark.parametrize("head", ["softmax", "bipartite"])
def test_few_and_many_samples_of_the_same_thing_agree(head):
    """With few, features are looked at inside the span of the samples; copies change nothing but that."""
    features, target = menu_samples(per_label=1)
    settings = FitSettings(head=head, l2=0.02, **EXACT)
    few = fit_head(features, target, MENU, settings)
    many = fit_head(features.repeat(4, 1), target.repeat(4), MENU, settings)
    assert_same_minimum(few, many, settings)
    for fit in (few, many):
        value, largest = slope(fit, features, target, settings)
        assert fit.objective == pytest.approx(value, rel=1e-10)
        assert largest < 1e-5


@pytest.mark.parametrize("head", ["softmax", "bipartite"])
def test_shifting_the_features_changes_no_weights(head):
    features, target = menu_samples()
    settings = FitSettings(head=head, l2=0.02, **EXACT)
    one = fit_head(features, target, MENU, settings)
    two = fit_head(features + 100.0, target, MENU, settings)
    assert_same_minimum(one, two, settings)
    with torch.no_grad():  # shifted back, it is a minimum for the features as they were
        for layer in (two.head.fine, *([two.head.coarse] if head == "bipartite" else [])):
            layer.bias += 100.0 * layer.weight.sum(dim=1)
    value, largest = slope(two, features, target, settings)
    assert two.objective == pytest.approx(value, rel=1e-10)
    assert largest < 1e-5


def test_with_kinds_the_objective_is_not_convex():
    """Why the start is part of the definition: between two points the loss can lie above both."""
    graph = fg.LabelGraph.from_parents(["a", "b", "c"], {"kind": [0, 0, 1]})
    scores = torch.tensor([[-2.0, 2.0, 3.0], [2.0, -2.0, 3.0], [0.0, 0.0, 3.0]])
    one, two, between = fg.joint_loss(fg.Posterior(graph, scores), torch.tensor([0, 0, 0]), reduction="none").tolist()
    assert between > (one + two) / 2 + 0.1


# ---- how it is reached -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [FitSettings(), FitSettings(head="softmax")])
@pytest.mark.parametrize("labels", [9, 8])
def test_the_same_twice_and_no_random_numbers_drawn(settings, labels):
    features, target = menu_samples()
    features, target = features[target < labels], target[target < labels]
    state = torch.get_rng_state()
    one, two = (fit_head(features, target, MENU, settings) for _ in range(2))
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(a, b) for a, b in zip(one.head.parameters(), two.head.parameters(), strict=True))


@pytest.mark.parametrize("head", ["softmax", "bipartite"])
def test_a_start_saves_steps_and_changes_nothing(head):
    features, target = menu_samples(per_label=1)
    features, target = features[:-1], target[:-1]  # the last label has no sample
    near = fit_head(features, target, MENU, FitSettings(head=head, l2=0.011, coarse_ratio=0.5, **EXACT))
    settings = FitSettings(head=head, l2=0.01, coarse_ratio=0.5, **EXACT)
    cold = fit_head(features, target, MENU, settings)
    warm = fit_head(features, target, MENU, settings, start=near.head)
    assert warm.iterations < cold.iterations
    assert_same_minimum(cold, warm, settings)


# ---- drawn to another head -------------------------------------------------------------------------------------------


@pytest.mark.deep
@pytest.mark.parametrize("head", ["softmax", "bipartite"])
def test_few_scores_at_a_time_and_few_steps_remembered_lead_to_the_same_minimum(monkeypatch, head):
    settings = FitSettings(head=head, **EXACT)
    features, target = menu_samples()
    whole = fit_head(features, target, MENU, settings)
    monkeypatch.setattr("finegraph.model.fitting.objective._MAX_SCORES", 2 * len(MENU))
    monkeypatch.setattr("finegraph.model.fitting.descent._MAX_REMEMBERED", 1)
    in_parts = fit_head(features, target, MENU, settings)
    assert in_parts.converged
    assert in_parts.iterations != whole.iterations  # fewer steps were remembered
    assert slope(in_parts, features, target, settings) == pytest.approx(
        slope(whole, features, target, settings), rel=1e-9, abs=1e-5
    )
    assert_same_minimum(in_parts, whole, settings)


def centre_of(head, per_label=4):
    """A head that is not a minimum of anything, for priors to draw to."""
    torch.manual_seed(3)
    kinds = {"softmax": fg.SoftmaxHead, "bipartite": fg.BipartiteHead}
    return kinds[head](menu_samples(per_label)[0].shape[1], MENU).double()


@pytest.mark.parametrize("per_label", [1, 4])  # with fewer samples than features these are rotated into their span
@pytest.mark.parametrize("head", ["softmax", "bipartite"])
def test_priors_draw_to_the_centre(head, per_label):
    features, target = menu_samples(per_label)
    centre = centre_of(head)
    settings = FitSettings(head=head, l2=0.05, **EXACT)
    fit = fit_head(features, target, MENU, settings, centre=centre)
    weights = settings.kind_weights(MENU)
    value = fg.joint_loss(fit.head(features), target, kind_weights=weights)
    value = value + settings.l2 / 2 * (fit.head.fine.weight - centre.fine.weight.detach()).square().sum()
    if head == "bipartite":
        away = fit.head.coarse.weight - centre.coarse.weight.detach()
        value = value + settings.l2 * len(MENU.kinds) / 32 * away.square().sum()
    grads = torch.autograd.grad(value, list(fit.head.parameters()))
    assert fit.converged
    assert fit.objective == pytest.approx(value.item(), rel=1e-10)
    assert max(float(grad.abs().max()) for grad in grads) < 1e-5


@pytest.mark.parametrize("head", ["softmax", "bipartite"])
def test_strong_priors_leave_the_weights_of_the_centre(head):
    features, target = menu_samples()
    centre = centre_of(head)
    fit = fit_head(features, target, MENU, FitSettings(head=head, l2=1e8, **EXACT), centre=centre)
    torch.testing.assert_close(fit.head.fine.weight, centre.fine.weight, atol=1e-7, rtol=0)
    assert fit.head is not centre


def test_labels_without_samples_keep_the_weights_of_the_centre():
    features, target = menu_samples()
    features, target = features[target != 2], target[target != 2]
    centre = centre_of("bipartite")
    head = fit_head(features, target, MENU, FitSettings(l2=0.05), centre=centre).head
    torch.testing.assert_close(head.fine.weight[2], centre.fine.weight[2], atol=0, rtol=0)
    assert not torch.equal(head.fine.weight[3], centre.fine.weight[3])


def test_a_centre_of_0_changes_nothing():
    features, target = menu_samples()
    centre = centre_of("bipartite")
    for parameter in centre.parameters():
        torch.nn.init.zeros_(parameter)
    settings = FitSettings(l2=0.05, **EXACT)
    plain, drawn = (fit_head(features, target, MENU, settings, centre=one).head for one in (None, centre))
    torch.testing.assert_close(drawn(features).log_probs(), plain(features).log_probs(), atol=1e-12, rtol=0)


def test_too_few_steps_are_reported():
    features, target = menu_samples()
    fit = fit_head(features, target, MENU, FitSettings(max_iter=2))
    assert (fit.iterations, fit.converged) == (2, False)


def test_float32_features_give_a_float32_head_that_is_as_good():
    features, target = menu_samples()
    wide, narrow = fit_head(features, target, MENU), fit_head(features.float(), target, MENU)
    assert narrow.head.fine.weight.dtype == torch.float32
    assert narrow.converged
    assert narrow.objective == pytest.approx(wide.objective, rel=2e-4)


# ---- which samples count ---------------------------------------------------------------------------------------------


def copies_of(features, target, weight):
    return features.repeat_interleave(weight, dim=0), target.repeat_interleave(weight)


@pytest.mark.deep
@pytest.mark.parametrize("head", ["softmax", "bipartite"])
def test_weights_count_as_copies(head):
    features, target = menu_samples()
    weight = torch.randint(1, 4, (len(target),), generator=torch.Generator().manual_seed(0))
    settings = FitSettings(head=head, **EXACT)
    weighted = fit_head(features, target, MENU, settings, sample_weight=weight.double())
    copies = copies_of(features, target, weight)
    assert_same_minimum(weighted, fit_head(*copies, MENU, settings), settings)
    value, largest = slope(weighted, *copies, settings)
    assert weighted.objective == pytest.approx(value, rel=1e-10)
    assert largest < 1e-5


def test_a_weight_of_0_counts_as_absence():
    features, target = menu_samples()
    weight = torch.randint(0, 3, (len(target),), generator=torch.Generator().manual_seed(0))
    weight[target == 4] = 0  # all samples of one label, which then is one without samples
    settings = FitSettings(**EXACT)
    weighted = fit_head(features, target, MENU, settings, sample_weight=weight.double())
    copies = copies_of(features, target, weight)
    assert_same_minimum(weighted, fit_head(*copies, MENU, settings), settings)
    assert not weighted.head.fine.weight[4].any()
    assert weighted.head.fine(copies[0].mean(dim=0))[4].item() == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("settings", [{"head": "softmax"}, {}, {"laplacian": 0.01}])
def test_a_label_without_samples_is_known_by_its_parents(settings):
    features, target = menu_samples(per_label=6, noise=0.1)
    unseen = MENU.fine_index("kung pao @ B")
    seen = target != unseen
    fit = fit_head(features[seen], target[seen], MENU, FitSettings(**settings))
    assert torch.equal(fit.head(features).probs().argmax(dim=1), target)


@pytest.mark.parametrize("laplacian", [0.0, 0.05])
def test_labels_without_samples_have_the_weights_that_the_priors_expect(laplacian):
    """Were they part of the fit, with no loss of their own, these weights would be the best for the priors."""
    features, target = menu_samples(per_label=2)
    seen = target < 6
    settings = FitSettings(l2=0.02, laplacian=laplacian, **EXACT)
    head = fit_head(features[seen], target[seen], MENU, settings).head
    prior = 0.01 * head.fine.weight.square().sum() + laplacian * fg.laplacian_prior(head)
    (grad,) = torch.autograd.grad(prior, head.fine.weight)
    assert grad[6:].abs().max() < 1e-12
    assert bool(head.fine.weight[6:].any()) == (laplacian > 0)
    mean = features[seen].mean(dim=0)
    assert torch.allclose(head.fine(mean)[6:], torch.zeros(3).double(), atol=1e-12)


@pytest.mark.deep
def test_samples_with_only_a_coarse_label_help():
    features, target = menu_samples(per_label=8, noise=0.5)
    dish = torch.from_numpy(MENU.parents("dish"))[target]
    known = torch.arange(len(target)) < 9
    partial = torch.where(known, target, -100)
    settings = FitSettings(**EXACT)
    fit = fit_head(features, partial, MENU, settings, kind_targets={"dish": dish})
    _, largest = slope(fit, features, partial, settings, kind_targets={"dish": dish})
    assert largest < 1e-5
    without = fit_head(features[known], target[known], MENU, settings)
    test, truth = menu_samples(per_label=30, noise=0.5)
    expected = torch.from_numpy(MENU.parents("dish"))[truth]
    right, right_without = (
        (each.head(test).log_probs("dish").argmax(dim=1) == expected).double().mean() for each in (fit, without)
    )
    assert right > right_without


@pytest.mark.parametrize("head", ["softmax", "bipartite"])
def test_samples_of_which_nothing_was_observed_do_not_count(head):
    features, target = menu_samples()
    partial = torch.where(torch.arange(len(target)) < 20, target, -100)
    settings = FitSettings(head=head, **EXACT)
    some = fit_head(features, partial, MENU, settings)
    assert_same_minimum(some, fit_head(features[:20], target[:20], MENU, settings), settings)
    assert slope(some, features[:20], target[:20], settings)[1] < 1e-5


def test_labels_seen_on_samples_may_be_those_of_fine_labels_without_samples():
    features, target = menu_samples()
    few = target < 3  # all samples are of the first dish
    dish = torch.where(torch.arange(int(few.sum())) < 3, 2, -100)
    fit = fit_head(features[few], target[few], MENU, FitSettings(l2=0.1), kind_targets={"dish": dish})
    seen, others = (fit.head(features[few][rows]).probs("dish")[:, 2].mean() for rows in (dish == 2, dish != 2))
    assert seen > others


# ---- wrong input -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"head": "linear"}, r"head: expected 'bipartite' or 'softmax', got 'linear'"),
        ({"l2": -1.0}, r"l2: expected a finite number of at least 0, got -1.0"),
        ({"l2": None}, r"l2: expected a finite number of at least 0, got None"),
        ({"coarse_ratio": float("nan")}, r"coarse_ratio: expected a finite number of at least 0, got nan"),
        ({"laplacian": float("inf")}, r"laplacian: expected a finite number"),
        (
            {"head": "softmax", "laplacian": 0.1},
            r"laplacian: .* a softmax head has none .* use 0, or the bipartite head",
        ),
        ({"max_iter": 0}, r"max_iter: expected at least 1, got 0"),
    ],
)
def test_wrong_settings_are_refused(settings, message):
    with pytest.raises(InputError, match=message):
        FitSettings(**settings)


def test_wrong_kind_weights_are_refused():
    features, target = menu_samples()
    with pytest.raises(UnknownNameError, match=r"unknown kind 'dishes' in kind_weight; did you mean 'dish'"):
        fit_head(features, target, MENU, FitSettings(kind_weight={"dishes": 1.0}))
    with pytest.raises(InputError, match=r"kind_weight of 'dish': expected a finite number of at least 0, got -1.0"):
        fit_head(features, target, MENU, FitSettings(kind_weight=-1.0))


@pytest.mark.usefixtures("unchecked")
def test_wrong_samples_are_refused():
    features, target = menu_samples()
    with pytest.raises(
        ShapeError, match=r"features: expected a float32 or float64 matrix .* torch.int64 of shape \(36, 15\)"
    ):
        fit_head(features.long(), target, MENU)
    with pytest.raises(ShapeError, match=r"targets: expected label indices, one for each of 36 samples, .* \(35,\)"):
        fit_head(features, target[1:], MENU)
    with pytest.raises(TargetError, match=r"targets: got label 9, expected 0 to 8, or -100"):
        fit_head(features, target + 1, MENU)
    with pytest.raises(TargetError, match=r"no sample with an observed label and a weight above 0"):
        fit_head(features, torch.full_like(target, -100), MENU)
    with pytest.raises(InputError, match=r"sample_weight: expected 36 finite numbers of at least 0"):
        fit_head(features, target, MENU, sample_weight=-torch.ones(36))
    broken = features.clone()
    broken[3, 4] = float("nan")
    with pytest.raises(InputError, match=r"features: expected finite numbers, got NaN or infinity"):
        fit_head(broken, target, MENU)


def test_a_start_of_another_form_is_refused():
    features, target = menu_samples()
    head = fit_head(features, target, MENU).head
    with pytest.raises(InputError, match=r"start: expected a softmax head of the same graph, got a BipartiteHead"):
        fit_head(features, target, MENU, FitSettings(head="softmax"), start=head)
    with pytest.raises(InputError, match=r"start: expected a bipartite head of the same graph"):
        fit_head(features, target, MENU.only(["dish"]), start=head)
    with pytest.raises(InputError, match=r"centre: expected a softmax head of the same graph"):
        fit_head(features, target, MENU, FitSettings(head="softmax"), centre=head)
    with pytest.raises(InputError, match=r"centre: expected a finite coarse_ratio beside it"):
        fit_head(features, target, MENU, FitSettings(coarse_ratio=math.inf), centre=head)


def test_numbers_of_numpy_are_numbers():
    assert FitSettings(l2=np.float32(0.5), laplacian=np.int64(1)).l2 == 0.5


def test_labels_that_would_be_ignored_are_refused():
    features, target = menu_samples()
    dish = torch.from_numpy(MENU.parents("dish"))[target]
    with pytest.raises(InputError, match=r"kind_targets: labels of the kind 'dish' .* its weight in the loss is 0"):
        fit_head(features, target, MENU, FitSettings(head="softmax"), kind_targets={"dish": dish})
    with pytest.raises(UnknownNameError, match=r"unknown kind 'dash' in kind_targets; did you mean 'dish'"):
        fit_head(features, target, MENU, kind_targets={"dash": dish})
