"""Heads whose coarse labels have features of their own (BGL_m), fitted: the same objective, minima and rules."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import finegraph as fg
from finegraph.errors import InputError, ShapeError
from finegraph.model import FitSettings, fit_head
from finegraph.model.fitting.fit_samples import FitSamples
from finegraph.model.fitting.objective import Objective
from finegraph.model.fitting.rows import Strengths, rows_of
from finegraph.model.fitting.selection import deal_folds, grid_settings, search
from finegraph.model.fitting.span import spans_of
from reference import enumeration
from reference.random_graphs import FORMS, random_graph

EXACT = {"tolerance": 1e-12}
MENU = fg.LabelGraph.from_table(
    {f"{dish} @ {place}": {"dish": dish, "place": place} for dish in ("mapo", "kung pao", "dan dan") for place in "ABC"}
)


def menu_samples(per_label=4, noise=0.3):
    """Features that show the fine label a little, and others that show the dish and the place."""
    generator = torch.Generator().manual_seed(5)
    target = torch.arange(len(MENU)).repeat(per_label)
    dish, place = (torch.from_numpy(MENU.parents(kind))[target] for kind in MENU.kinds)
    fine, coarse = torch.eye(9)[target], torch.cat([torch.eye(3)[dish], torch.eye(3)[place]], dim=1)
    return *((x + noise * torch.randn(x.shape, generator=generator)).double() for x in (fine, coarse)), target


def public_objective(head, features, coarse, target, settings, **loss):
    """The objective in the public words of the package."""
    weights = settings.kind_weights(head.graph) or None
    value = fg.joint_loss(head(features, coarse), target, kind_weights=weights, **loss)
    value = value + settings.l2 / 2 * head.fine.weight.square().sum()
    ratio = len(head.graph.kinds) / 16 if settings.coarse_ratio is None else settings.coarse_ratio
    value = value + settings.l2 * ratio / 2 * head.coarse.weight.square().sum()
    return value + settings.laplacian * fg.laplacian_prior(head) if settings.laplacian else value


def slope(fit, features, coarse, target, settings, **loss):
    """The objective, and the largest derivative of it."""
    value = public_objective(fit.head, features, coarse, target, settings, **loss)
    grads = torch.autograd.grad(value, list(fit.head.parameters()), materialize_grads=True)
    return value.item(), max(float(grad.abs().max()) for grad in grads if grad.numel())


# ---- the objective ---------------------------------------------------------------------------------------------------


def make(form, sizes=(3, 5), constants=(2.0, 0.5)):
    """A random graph, a random two-feature head, samples, and the weights of kinds."""
    case = random_graph(np.random.default_rng([7, FORMS.index(form)]), form)
    torch.manual_seed(FORMS.index(form))
    head = fg.BipartiteHead(sizes[0], case.graph, coarse_features=sizes[1]).double()
    for parameter in head.parameters():
        torch.nn.init.normal_(parameter)
    matrices = [torch.randn(8, size, dtype=torch.float64) for size in sizes]
    columns = tuple(
        torch.cat([matrix, torch.full((8, 1), constant, dtype=torch.float64)], dim=1)
        for matrix, constant in zip(matrices, constants, strict=True)
    )
    target = torch.randint(len(case.graph), (8,))
    target[0] = -100
    weight = torch.rand(8, dtype=torch.float64)
    kind_weights = {name: 0.5 + index for index, name in enumerate(case.graph.kinds)}
    return case, head, matrices, FitSamples(columns, target, {}, weight / weight.sum()), kind_weights


def blocks_of(head, constants=(2.0, 0.5)):
    layers = zip((head.fine, head.coarse), constants, strict=True)
    return tuple(torch.cat([one.weight, one.bias[:, None] / constant], dim=1).detach() for one, constant in layers)


@pytest.mark.parametrize(("sizes", "laplacian"), [((3, 5), 0.0), ((4, 4), 0.0), ((4, 4), 0.2)])
@pytest.mark.parametrize("form", FORMS)
def test_value_and_gradient_are_those_of_the_public_parts(form, sizes, laplacian):
    case, head, matrices, samples, kind_weights = make(form, sizes)
    strengths = Strengths(0.3, 0.7, laplacian)
    loss = fg.joint_loss(head(*matrices), samples.target, {}, kind_weights or None, reduction="none")
    expected = samples.weight @ loss + 0.15 * head.fine.weight.square().sum() + 0.35 * head.coarse.weight.square().sum()
    expected = expected + (laplacian * fg.laplacian_prior(head) if laplacian else 0.0)
    layers = [head.fine, head.coarse]
    parameters = [one for layer in layers for one in (layer.weight, layer.bias)]
    grads = torch.autograd.grad(expected, parameters, materialize_grads=True)
    rows = rows_of(case.graph, case.graph.kinds, strengths, [1.0, 3.0], samples.columns[0])
    objective = Objective(case.graph, rows, samples, kind_weights)
    value, grad = objective(objective.point(blocks_of(head)))
    assert value == pytest.approx(expected.item(), rel=1e-12)
    blocks = [
        torch.cat([grads[2 * place], constant * grads[2 * place + 1][:, None]], dim=1) * block.scale[:, None]
        for place, (constant, block) in enumerate(zip((2.0, 0.5), rows.blocks, strict=True))
    ]
    assert torch.allclose(grad, torch.cat([block.reshape(-1) for block in blocks]), atol=1e-11)


@pytest.mark.parametrize("form", FORMS)
def test_value_and_gradient_are_those_of_enumeration(form):
    """The slow way: every state of the joint distribution, one sample at a time, and differences for the gradient."""
    case, head, _, samples, kind_weights = make(form)
    rows = rows_of(case.graph, case.graph.kinds, Strengths(0.3, 0.7, 0.0), [1.0, 3.0], samples.columns[0])
    objective = Objective(case.graph, rows, samples, kind_weights)

    def slowly(blocks):
        values = []
        scores = [columns @ block.t() for columns, block in zip(samples.columns, blocks, strict=True)]
        ends = np.cumsum([len(case.graph.labels(kind)) for kind in case.graph.kinds])
        for number, target in enumerate(samples.target.tolist()):
            kinds = np.split(scores[1][number].numpy(), ends[:-1]) if len(ends) else []
            joint = enumeration.log_joint(scores[0][number].numpy(), kinds, case.matrices)
            terms = enumeration.loss_terms(
                case.raw, None if target < 0 else target, kind_weights=list(kind_weights.values())
            )
            values.append(float(samples.weight[number]) * enumeration.loss(joint, terms))
        squares = [float(block[:, :-1].square().sum()) for block in blocks]
        return math.fsum([*values, 0.15 * squares[0], 0.35 * squares[1]])

    point = objective.point(blocks_of(head))
    value, grad = objective(point)
    assert value == pytest.approx(slowly(objective.rows(point)), rel=1e-10)
    generator = torch.Generator().manual_seed(1)
    for _ in range(3):
        direction = torch.randn(point.shape, generator=generator, dtype=torch.float64)
        step = 1e-5 * direction
        difference = slowly(objective.rows(point + step)) - slowly(objective.rows(point - step))
        assert float(grad @ direction) == pytest.approx(difference / 2e-5, rel=1e-5, abs=1e-7)


def test_each_block_is_scaled_by_the_spread_of_its_own_features():
    graph = fg.LabelGraph.from_parents(["a", "b"], {"kind": [0, 1]})
    fine, coarse = (
        rows_of(graph, graph.kinds, Strengths(0.0, 0.0, 0.0), variances, torch.zeros(1)).blocks
        for variances in ([1.0, 1.0], [1.0, 4.0])
    )
    assert torch.equal(fine[0].scale, coarse[0].scale)
    assert torch.allclose(fine[1].scale, 2 * coarse[1].scale)


def test_taking_samples_some_at_a_time_changes_nothing(monkeypatch):
    case, head, _, samples, kind_weights = make("mixed")
    rows = rows_of(case.graph, case.graph.kinds, Strengths(0.3, 0.7, 0.0), [1.0, 1.0], samples.columns[0])
    at_once = Objective(case.graph, rows, samples, kind_weights)
    monkeypatch.setattr("finegraph.model.fitting.objective._MAX_SCORES", 3 * rows.score_count)
    in_parts = Objective(case.graph, rows, samples, kind_weights)
    point = at_once.point(blocks_of(head))
    (value, grad), (same_value, same_grad) = at_once(point), in_parts(point)
    assert same_value == pytest.approx(value, rel=1e-13)
    assert torch.allclose(same_grad, grad, atol=1e-13)


# ---- fits ------------------------------------------------------------------------------------------------------------


@pytest.mark.deep
@pytest.mark.parametrize("form", FORMS)
def test_heads_reach_a_minimum_on_every_form_of_graph(form):
    graph = random_graph(np.random.default_rng([4, FORMS.index(form)]), form).graph
    torch.manual_seed(1)
    target = torch.arange(len(graph)).repeat(3)
    features, coarse = (torch.randn(len(target), size, dtype=torch.float64) for size in (4, 3))
    settings = FitSettings(l2=0.05, **EXACT)
    fit = fit_head(features, target, graph, settings, coarse_features=coarse)
    assert fit.converged
    assert (fit.head.features, fit.head.coarse_features) == (4, 3)
    value, largest = slope(fit, features, coarse, target, settings)
    assert fit.objective == pytest.approx(value, rel=1e-10)
    assert largest < 1e-5


@pytest.mark.deep
@pytest.mark.parametrize(
    "changes",
    [
        {"kind_weight": 1.0},
        {"kind_weight": {"dish": 0.0, "place": 2.0}},
        {"coarse_ratio": 3.0},
        {"l2": 0.2},
    ],
)
@pytest.mark.parametrize("per_label", [4, 1])  # with 1, features are looked at inside the span of the samples
def test_every_setting_is_obeyed(changes, per_label):
    features, coarse, target = menu_samples(per_label)
    features = torch.cat([features, torch.zeros(len(target), 9).double()], dim=1)
    settings = FitSettings(**{"l2": 0.02, **EXACT, **changes})
    fit = fit_head(features, target, MENU, settings, coarse_features=coarse)
    assert slope(fit, features, coarse, target, settings)[1] < 1e-5
    other = fit_head(features, target, MENU, FitSettings(l2=0.02, **EXACT), coarse_features=coarse)
    both = [each.head(features, coarse).probs() for each in (fit, other)]
    assert not torch.allclose(*both, atol=1e-3)


def test_the_laplacian_with_features_of_one_size():
    features, coarse, target = menu_samples(per_label=1)
    # More of them than samples, so that without this prior each would be looked at inside a span of its own.
    features, coarse = (torch.cat([x, torch.randn(9, 16 - x.shape[1]).double()], dim=1) for x in (features, coarse))
    settings = FitSettings(l2=0.02, laplacian=0.05, **EXACT)
    fit = fit_head(features, target, MENU, settings, coarse_features=coarse)
    assert slope(fit, features, coarse, target, settings)[1] < 1e-5


@pytest.mark.deep
@pytest.mark.parametrize("form", ["one parent", "unknown cells"])
def test_the_same_features_twice_are_one_feature(form):
    graph = random_graph(np.random.default_rng([9, FORMS.index(form)]), form).graph
    torch.manual_seed(2)
    target = torch.arange(len(graph)).repeat(4)
    features = torch.randn(len(target), 5, dtype=torch.float64)
    settings = FitSettings(l2=0.05, coarse_ratio=0.5, **EXACT)
    one = fit_head(features, target, graph, settings)
    two = fit_head(features, target, graph, settings, coarse_features=features)
    assert two.objective == pytest.approx(one.objective, rel=1e-9)
    assert slope(two, features, features, target, settings)[1] < 1e-5
    one.head.load_state_dict(two.head.state_dict())
    value = fg.joint_loss(one.head(features), target, kind_weights=settings.kind_weights(graph))
    same = fg.joint_loss(two.head(features, features), target, kind_weights=settings.kind_weights(graph))
    assert value.item() == pytest.approx(same.item(), rel=1e-12)


@pytest.mark.deep
def test_features_of_coarse_labels_help_where_those_of_fine_labels_are_poor():
    features, coarse, target = menu_samples(per_label=12, noise=0.8)
    test_features, test_coarse, truth = (x.flip(0) for x in menu_samples(per_label=60, noise=0.8))
    one = fit_head(features, target, MENU).head(test_features)
    two = fit_head(features, target, MENU, coarse_features=coarse).head(test_features, test_coarse)
    right = [(each.log_probs().argmax(dim=1) == truth).double().mean() for each in (one, two)]
    assert right[1] > right[0] + 0.05


@pytest.mark.deep
def test_a_start_saves_steps_and_changes_nothing():
    features, coarse, target = menu_samples(per_label=2)
    features, coarse, target = features[:-1], coarse[:-1], target[:-1]
    some = target < 8  # the last label has no sample
    arguments = (features[some], target[some], MENU)
    near = fit_head(*arguments, FitSettings(l2=0.011, coarse_ratio=0.5, **EXACT), coarse_features=coarse[some])
    settings = FitSettings(l2=0.01, coarse_ratio=0.5, **EXACT)
    cold = fit_head(*arguments, settings, coarse_features=coarse[some])
    warm = fit_head(*arguments, settings, coarse_features=coarse[some], start=near.head)
    assert warm.iterations < cold.iterations
    assert (warm.converged, cold.converged) == (True, True)
    assert warm.objective == pytest.approx(cold.objective, rel=1e-11)


@pytest.mark.parametrize("laplacian", [0.0, 0.05])
def test_a_label_without_samples_is_known_by_its_parents(laplacian):
    features, coarse, target = menu_samples(per_label=6, noise=0.1)
    coarse = torch.cat([coarse, torch.zeros(len(target), 3).double()], dim=1)
    unseen = MENU.fine_index("kung pao @ B")
    seen = target != unseen
    settings = FitSettings(laplacian=laplacian, kind_weight=1.0)
    head = fit_head(features[seen], target[seen], MENU, settings, coarse_features=coarse[seen]).head
    prior = settings.l2 / 2 * head.fine.weight.square().sum() + laplacian * fg.laplacian_prior(head)
    (grad,) = torch.autograd.grad(prior, head.fine.weight)
    assert grad[unseen].abs().max() < 1e-12
    assert bool(head.fine.weight[unseen].any()) == (laplacian > 0)
    if laplacian:
        return  # here the two features do not mean the same, as this prior supposes
    guess = head(features[~seen], coarse[~seen])
    assert (guess.log_probs("dish").argmax(dim=1) == MENU.parents("dish")[unseen]).all()
    assert (guess.log_probs("place").argmax(dim=1) == MENU.parents("place")[unseen]).all()


@pytest.mark.deep
def test_weights_count_as_copies_and_0_as_absence():
    features, coarse, target = menu_samples()
    weight = torch.randint(0, 3, (len(target),), generator=torch.Generator().manual_seed(0))
    weight[target == 4] = 0
    settings = FitSettings(**EXACT)
    weighted = fit_head(features, target, MENU, settings, coarse_features=coarse, sample_weight=weight.double())
    copies = [values.repeat_interleave(weight, dim=0) for values in (features, target, coarse)]
    repeated = fit_head(*copies[:2], MENU, settings, coarse_features=copies[2])
    assert (weighted.converged, repeated.converged) == (True, True)
    assert weighted.objective == pytest.approx(repeated.objective, rel=1e-11)
    assert not weighted.head.fine.weight[4].any()


def test_weights_make_the_objective_that_copies_make():
    features, coarse, target = menu_samples()
    weight = torch.randint(1, 4, (len(target),), generator=torch.Generator().manual_seed(0))
    settings = FitSettings(**EXACT)
    weighted = fit_head(features, target, MENU, settings, coarse_features=coarse, sample_weight=weight.double())
    copies = [values.repeat_interleave(weight, dim=0) for values in (features, coarse, target)]
    value, largest = slope(weighted, *copies, settings)
    assert weighted.objective == pytest.approx(value, rel=1e-10)
    assert largest < 1e-5


@pytest.mark.deep
def test_samples_with_only_a_coarse_label_count():
    features, coarse, target = menu_samples(per_label=6)
    dish = torch.from_numpy(MENU.parents("dish"))[target]
    partial = torch.where(torch.arange(len(target)) < 18, target, -100)
    settings = FitSettings(**EXACT)
    fit = fit_head(features, partial, MENU, settings, coarse_features=coarse, kind_targets={"dish": dish})
    assert slope(fit, features, coarse, partial, settings, kind_targets={"dish": dish})[1] < 1e-5


def test_a_graph_without_kinds_makes_no_use_of_them():
    features, coarse, target = menu_samples()
    plain = MENU.only([])
    settings = FitSettings(**EXACT)
    two = fit_head(features, target, plain, settings, coarse_features=coarse)
    one = fit_head(features, target, plain, FitSettings(head="softmax", **EXACT))
    # Without kinds the objective curves by `l2` at least, so a small value bounds how far weights are apart.
    apart = 2 * math.sqrt(2 * settings.tolerance * one.objective / settings.l2)
    assert two.objective == pytest.approx(one.objective, rel=1e-11)
    assert torch.dist(two.head.fine.weight, one.head.fine.weight).item() < apart


def test_float32():
    features, coarse, target = menu_samples()
    wide = fit_head(features, target, MENU, coarse_features=coarse)
    narrow = fit_head(features.float(), target, MENU, coarse_features=coarse.float())
    assert narrow.head.coarse.weight.dtype == torch.float32
    assert narrow.objective == pytest.approx(wide.objective, rel=2e-4)


# ---- search ----------------------------------------------------------------------------------------------------------


@pytest.mark.deep
@pytest.mark.parametrize("laplacian", [0.0, 0.05])
def test_scores_are_held_out_log_likelihoods(laplacian):
    features, coarse, target = menu_samples(per_label=2)
    coarse = torch.cat([coarse, torch.zeros(len(target), 3).double()], dim=1)
    folds = deal_folds(target.numpy(), 2)
    settings = grid_settings(FitSettings(tolerance=1e-12, laplacian=laplacian, coarse_ratio=0.5), {"l2": [0.1, 0.01]})
    found = search(features, target, MENU, settings, folds, coarse_features=coarse)
    even = torch.full((len(target),), 1 / len(target)).double()
    spans = spans_of((features, coarse), even, tied=laplacian > 0)
    for number, (train, held) in enumerate(folds):
        for index, setting in enumerate(settings):
            head = fit_head(
                features[train], target[train], MENU, setting, coarse_features=coarse[train], spans=spans
            ).head
            likelihood = head(features[held], coarse[held]).log_probs()[range(len(held)), target[held]]
            given_up = index != found.best and np.isnan(found.scores[index, number])
            assert given_up or found.scores[index, number] == pytest.approx(likelihood.mean().item(), abs=1e-4)


# ---- wrong input -----------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("unchecked")
def test_wrong_coarse_features_are_refused():
    features, coarse, target = menu_samples()

    def fit(coarse, **settings):
        return fit_head(features, target, MENU, FitSettings(**settings), coarse_features=coarse)

    with pytest.raises(InputError, match=r"coarse features: a softmax head has no coarse scores"):
        fit(coarse, head="softmax")
    with pytest.raises(InputError, match=r"laplacian: .* needs features of one size, got 9 and 6; use 0"):
        fit(coarse, laplacian=0.1)
    with pytest.raises(ShapeError, match=r"coarse features: expected 36 rows of torch.float64, .* got 35 of"):
        fit(coarse[1:])
    with pytest.raises(ShapeError, match=r"coarse features: expected 36 rows of torch.float64, .* of torch.float32"):
        fit(coarse.float())
    with pytest.raises(ShapeError, match=r"coarse features: expected a float32 or float64 matrix"):
        fit(coarse[:, 0])
    with pytest.raises(InputError, match=r"coarse features: expected finite numbers"):
        fit(coarse / 0)
    with pytest.raises(ShapeError, match=r"coarse features: expected 36 rows"):
        search(features, target, MENU, [FitSettings()], deal_folds(target.numpy(), 2), coarse_features=coarse[1:])


def test_a_start_on_other_features_is_refused():
    features, coarse, target = menu_samples()
    one, two = fit_head(features, target, MENU).head, fit_head(features, target, MENU, coarse_features=coarse).head
    with pytest.raises(InputError, match=r"start: expected a head on features of size \[9, 6\], got one on \[9\]"):
        fit_head(features, target, MENU, coarse_features=coarse, start=one)
    with pytest.raises(InputError, match=r"start: expected a head on features of size \[9\], got one on \[9, 6\]"):
        fit_head(features, target, MENU, start=two)
