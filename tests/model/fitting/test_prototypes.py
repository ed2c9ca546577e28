"""The closed-form fit: what it gives, and what it does with odd data."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from sklearn.datasets import load_iris

import finegraph as fg
from finegraph.errors import InputError, ShapeError
from finegraph.model.fitting import prototype_strengths, shared_samples
from finegraph.model.fitting.alike_folds import alike_folds
from finegraph.model.fitting.class_means import LinkMatrices, class_means, score_factors, solve_effects
from finegraph.model.fitting.prototypes import PrototypeSettings, fit_prototypes

SIZE = 24


def _graph(fine: int = 12, *, odd: bool = False) -> fg.LabelGraph:
    table = {f"label {i}": {"dish": f"dish {i // 3}", "shop": f"shop {i % 4}"} for i in range(fine)}
    if odd:
        table["label 0"]["dish"] = None
        table["label 1"]["dish"] = {"dish 0": 0.5, "dish 1": 0.5}
    return fg.LabelGraph.from_table(table)


def _photos(graph: fg.LabelGraph, counts: list[int], seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Samples of classes whose means depend on the graph."""
    generator = torch.Generator().manual_seed(seed)

    def rows(count: int) -> torch.Tensor:
        return torch.randn(count, SIZE, generator=generator, dtype=torch.float64)

    means = 0.5 * rows(len(graph)) + rows(len(graph.labels("dish")))[[i // 3 for i in range(len(graph))]]
    targets = torch.repeat_interleave(torch.arange(len(graph)), torch.tensor(counts))
    return means[targets] + 0.7 * rows(len(targets)) + 5.0, targets


def test_the_head_scores_by_class_means():
    graph = _graph()
    x, y = _photos(graph, [4] * 12)
    fit = fit_prototypes(x, y, graph)
    assert fit.held_out == len(y)
    z = fit.scaling(x)
    shown = torch.stack([z[y == label].mean(dim=0) for label in range(12)])
    links, counts = LinkMatrices(graph, graph.kinds), torch.full((12,), 4.0, dtype=torch.float64)
    means = class_means(links, solve_effects(links, fit.variances, counts, shown))
    lengths, share = means.norm(dim=1), 4.0 / 9.0
    typical = lengths.square().mean()
    rows = means * (typical.sqrt() / lengths).pow(share)[:, None]
    scores = fit.strengths.factor * (z @ rows.t() - 0.5 * (1.0 - share) * lengths.square())
    scores /= (1.0 + fit.head.doubt * (scores.amax(dim=1) - scores.mean(dim=1))).sqrt()[:, None]
    torch.testing.assert_close(torch.log_softmax(scores, dim=1), fit.head(z).log_probs())
    folded = fit.head.fold()
    torch.testing.assert_close(folded(z).log_probs(), fit.head(z).log_probs())


def test_views_that_are_alike_change_nothing(unchecked):
    graph = _graph()
    x, y = _photos(graph, [4] * 12)
    plain, viewed = fit_prototypes(x, y, graph), fit_prototypes(x, y, graph, views=x[:, None].repeat(1, 3, 1))
    torch.testing.assert_close(viewed.head(viewed.scaling(x)).log_probs(), plain.head(plain.scaling(x)).log_probs())
    with pytest.raises(ShapeError, match=r"views: expected \(48, views, 24\) features of views, got \(48, 24\)"):
        fit_prototypes(x, y, graph, views=x)


def test_features_are_whitened_by_single_views():
    graph = _graph()
    x, y = _photos(graph, [4] * 12)
    views = x[:, None] + 0.5 * torch.randn(48, 3, SIZE, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    mean = views.mean(dim=1)
    fit = fit_prototypes(mean, y, graph, views=views)
    inside = (views - torch.stack([views[y == label].mean(dim=(0, 1)) for label in range(12)])[y][:, None]).flatten(
        0, 1
    )
    covariance = inside.t() @ inside / 3.0 / (48 - 12)
    floor = fit.shrinkage * covariance.diagonal().mean()
    values, vectors = torch.linalg.eigh(covariance + floor * torch.eye(SIZE))
    white = (mean - mean.mean(dim=0)) @ (vectors * values.rsqrt()) @ vectors.t()
    torch.testing.assert_close(fit.scaling(mean), SIZE**0.5 * torch.nn.functional.normalize(white, dim=1))


def test_samples_are_judged_by_the_view_that_a_model_sees():
    graph = _graph()
    x, y = _photos(graph, [6] * 12)
    noise = torch.randn(72, SIZE, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    seen_badly = torch.stack([x + 2.0 * noise, x - 2.0 * noise, x], dim=1)
    fits = [fit_prototypes(x, y, graph, views=seen_badly[:, order]) for order in ([2, 0, 1], [0, 1, 2])]
    assert fits[0].strengths.log_likelihood > fits[1].strengths.log_likelihood + 0.1
    assert fits[0].variances.noise == pytest.approx(fits[1].variances.noise, rel=0.05)


def test_blocks_of_features_are_whitened_each_on_its_own():
    graph = _graph()
    x, y = _photos(graph, [4] * 12)
    mixing = torch.randn(SIZE, SIZE, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    both = torch.cat([x, 100.0 * _photos(graph, [4] * 12, seed=1)[0] @ mixing], dim=1)
    fit = fit_prototypes(both, y, graph, block_sizes=[SIZE, SIZE])
    first, second = fit.scaling(both).split(SIZE, dim=1)
    torch.testing.assert_close(first.norm(dim=1), second.norm(dim=1))
    alone = fit_prototypes(x, y, graph)
    accuracy = [
        (one.head(one.scaling(features)).log_probs().argmax(dim=1) == y).double().mean().item()
        for one, features in ((fit, both), (alone, x))
    ]
    assert accuracy[0] >= accuracy[1]
    assert fit.log_likelihood > alone.log_likelihood
    with pytest.raises(ShapeError, match=r"block_sizes: expected sizes that add up to 48 features, got \(12, 4\)"):
        fit_prototypes(both, y, graph, block_sizes=[12, 4])


@pytest.mark.parametrize("odd", [False, True], ids=["plain", "unknown and several parents"])
def test_the_order_of_labels_does_not_matter(odd):
    graph = _graph(odd=odd)
    x, y = _photos(graph, [1] * 12)
    order = torch.randperm(12, generator=torch.Generator().manual_seed(1))
    turned = fg.LabelGraph(
        [graph.fine[i] for i in order], [graph.kind(name).rows(order.numpy()) for name in graph.kinds]
    )
    place = torch.argsort(order)
    one, other = fit_prototypes(x, y, graph), fit_prototypes(x, place[y], turned)
    found = one.head(one.scaling(x)).log_probs()[:, order]
    torch.testing.assert_close(other.head(other.scaling(x)).log_probs(), found, atol=1e-6, rtol=1e-6)


def test_a_label_without_a_sample_is_predicted_by_its_parents():
    graph = _graph()
    x, y = _photos(graph, [6] * 12)
    some = y != 5
    fit = fit_prototypes(x[some], y[some], graph)
    with torch.no_grad():
        log_probs = fit.head(fit.scaling(x[~some])).log_probs("dish")
    assert (log_probs.argmax(dim=1) == graph.labels("dish").index("dish 1")).all()


def test_one_sample_of_each_label_is_enough():
    graph = _graph()
    x, y = _photos(graph, [1] * 12)
    fit = fit_prototypes(x, y, graph)
    assert (fit.held_out, fit.covariance) == (12, "total")
    plain = fg.LabelGraph(graph.fine, [])
    alone = fit_prototypes(x, y, plain)
    assert (alone.held_out, alone.log_likelihood) == (0, None)
    assert (fit.head(fit.scaling(x)).log_probs().argmax(dim=1) == y).all()


def test_a_graph_that_tells_nothing_can_be_left_out():
    graph = _graph()
    x, y = _photos(graph, [5] * 12)
    fit = fit_prototypes(x, y, graph, PrototypeSettings(graph=False))
    assert fit.variances.kinds == {}
    assert not fit.head.coarse.weight.any()
    assert fit_prototypes(x, y, graph, PrototypeSettings(graph=True)).variances.kinds.keys() == {"dish", "shop"}


def test_the_graph_makes_few_samples_go_further():
    graph = _graph(48)
    x, y = _photos(graph, [2] * 48)
    rest, truth = _photos(graph, [20] * 48)  # the same means: they are drawn before the samples
    right = {}
    for used in (True, False):
        fit = fit_prototypes(x, y, graph, PrototypeSettings(graph=used))
        right[used] = (fit.head(fit.scaling(rest)).log_probs().argmax(dim=1) == truth).double().mean()
    assert right[True] > right[False]


@pytest.mark.parametrize("power", [-500, -60, 60, 500])
def test_the_size_of_features_does_not_matter(power):
    """Powers of two round nothing, so that every choice on the way is the same."""
    scale = 2.0**power
    graph = _graph()
    x, y = _photos(graph, [3] * 12)
    one, other = fit_prototypes(x, y, graph), fit_prototypes(scale * x, y, graph)
    found = other.head(other.scaling(scale * x)).log_probs()
    torch.testing.assert_close(found, one.head(one.scaling(x)).log_probs(), atol=1e-6, rtol=1e-6)


@pytest.mark.deep
def test_weights_count_as_copies_and_samples_of_weight_0_are_absent():
    graph = _graph()
    x, y = _photos(graph, [3] * 12)
    weight = torch.ones(len(y), dtype=torch.float64)
    weight[::5] = 0.0
    used = weight > 0
    one = fit_prototypes(x, y, graph, sample_weight=weight)
    other = fit_prototypes(x[used], y[used], graph)
    torch.testing.assert_close(one.head.fine.weight, other.head.fine.weight)
    unlabelled = torch.where(used, y, torch.full_like(y, -100))
    third = fit_prototypes(x, unlabelled, graph)
    torch.testing.assert_close(third.head.fine.weight, other.head.fine.weight)


def test_copies_of_a_photo_are_held_out_together():
    x, y = _photos(_graph(), [4] * 12)
    twice = torch.arange(len(y)).repeat_interleave(2)
    for kept, held in alike_folds(x[twice], y[twice], 5):
        assert not set(twice[kept].tolist()) & set(twice[held].tolist())
        assert set(y[twice][held].tolist()) <= set(y[twice][kept].tolist())


def test_strengths_of_many_labels_are_chosen_by_some_of_them(monkeypatch):
    graph = _graph(48)
    x, y = _photos(graph, [3] * 48)
    monkeypatch.setattr(shared_samples, "MAX_SELECTION_LABELS", 9)
    fit = fit_prototypes(x, y, graph)
    assert 0 < fit.held_out <= 27
    assert (fit.head(fit.scaling(x)).log_probs().argmax(dim=1) == y).double().mean() > 0.9


def test_bad_input_is_refused_in_words():
    graph = _graph()
    x, y = _photos(graph, [2] * 12)
    with pytest.raises(InputError, match="at least one sample with a fine label"):
        fit_prototypes(x, torch.full_like(y, -100), graph)
    broken = x.clone()
    broken[7, 3] = float("nan")
    with pytest.raises(InputError, match=r"expected finite numbers, got .* in row 7"):
        fit_prototypes(broken, y, graph)
    with pytest.raises(InputError, match="shrinkage: expected a finite number above 0"):
        PrototypeSettings(shrinkage=0.0)


def test_one_class_alone():
    graph = fg.LabelGraph.from_table({"a": {"dish": "x"}})
    fit = fit_prototypes(torch.ones(3, 4), torch.zeros(3, dtype=torch.long), graph)
    assert fit.head(fit.scaling(torch.ones(1, 4))).log_probs().tolist() == [[0.0]]


@pytest.mark.parametrize("value", [0.0, 0.1])
@pytest.mark.parametrize("size", [4, 40], ids=["fewer features than samples", "more"])
@pytest.mark.parametrize("count", [1, 12, 24], ids=["one sample", "one of each class", "two"])
def test_features_that_never_change_say_nothing(value, size, count):
    x = torch.full((count, size), value)
    fit = fit_prototypes(x, torch.arange(count) % 12, _graph())
    probs = fit.head(fit.scaling(x)).log_probs().exp()
    torch.testing.assert_close(probs, torch.full((count, 12), 1.0 / 12.0))


def test_a_doubt_is_chosen_where_leads_say_too_much_and_none_where_they_do_not():
    generator = torch.Generator().manual_seed(0)
    scores = (
        torch.randn(4000, 6, generator=generator, dtype=torch.float64) * torch.rand(4000, 1, generator=generator) * 8
    )
    for doubt in (0.0, 0.4):
        probs = torch.softmax(prototype_strengths.doubted(scores, doubt), dim=1)
        targets = torch.multinomial(probs, 1, generator=generator)[:, 0]
        weight = torch.ones(len(scores), dtype=torch.float64)
        held = prototype_strengths._Held(
            scores, targets, weight, lambda joint, at=targets: torch.log_softmax(joint, 1).gather(1, at[:, None])[:, 0]
        )
        found = prototype_strengths._doubt(held, 1.0 if not doubt else 0.7)
        assert (found.strength > 0.5) == (doubt > 0.0), found


def test_scores_of_the_usual_lead_stay_under_a_doubt():
    x, y = _photos(_graph(), [4] * 12)
    fit = fit_prototypes(x, y, _graph())
    plain = fit_prototypes(x, y, _graph(), PrototypeSettings(doubt=False), strengths=fit.strengths)
    assert fit.head.doubt > 0.0 == plain.head.doubt
    usual = (fit.strengths.gain**2 - 1.0) / fit.head.doubt
    scores = torch.zeros(1, 12, dtype=torch.float64)
    scores[0, 0] = usual * 12 / 11
    torch.testing.assert_close(
        prototype_strengths.doubted(scores, fit.head.doubt), scores / fit.strengths.gain, rtol=1e-5, atol=0.0
    )
    assert torch.equal(
        fit.head(fit.scaling(x)).log_probs().argmax(1), plain.head(plain.scaling(x)).log_probs().argmax(1)
    )


@pytest.mark.deep
def test_validation_samples_move_the_sharpness_to_what_suits_them():
    graph = _graph()
    x, y = _photos(graph, [3] * 12)
    near = fit_prototypes(x, y, graph)
    noise = 2.0 * torch.randn(len(x) * 3, SIZE, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    far, labels = x.repeat(3, 1) + noise, y.repeat(3)
    told = fit_prototypes(x, y, graph, val=(far, labels))
    assert told.strengths.sharpness < 0.8 * near.strengths.sharpness
    assert told.held_out == near.held_out  # of the samples themselves

    def likelihood(fit):
        log_probs = fit.head(fit.scaling(far)).log_probs()
        return log_probs.gather(1, labels[:, None]).mean().item()

    assert likelihood(told) > likelihood(near)


def test_validation_samples_choose_where_each_class_has_one_sample():
    graph = _graph()
    x, y = _photos(graph, [1] * 12)
    val, labels = _photos(graph, [5] * 12)
    fit = fit_prototypes(x, y, graph, val=(val, labels))
    assert (fit.covariance, fit.held_out) == ("total", 0)
    shuffled = labels[torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))]
    unsure = fit_prototypes(x, y, graph, val=(val, shuffled))
    assert unsure.strengths.sharpness < 0.5 * fit.strengths.sharpness


def test_validation_samples_that_say_nothing_change_nothing(unchecked):
    graph = _graph()
    x, y = _photos(graph, [4] * 11 + [0])
    plain = fit_prototypes(x, y, graph).strengths
    val, labels = _photos(graph, [0] * 11 + [3])  # of a label that no training sample has
    assert fit_prototypes(x, y, graph, val=(val, labels)).strengths == plain
    assert fit_prototypes(x, y, graph, val=(val, torch.full_like(labels, -100))).strengths == plain
    with pytest.raises(ShapeError, match="val: expected one row of 24 features per target"):
        fit_prototypes(x, y, graph, val=(val[:, :3], labels))


def test_labels_without_samples_attract_as_many_photos_as_held_out_classes_support():
    """Their means come from their parents alone and are short, so all photos are near them: the bias decides."""
    graph = _graph(30)
    features, targets = _photos(graph, [20] * 30, seed=3)
    without, first = torch.arange(0, 30, 7), torch.arange(len(targets)) % 20 < 8
    kept = first & ~torch.isin(targets, without)
    fit = fit_prototypes(features[kept], targets[kept], graph)
    likelihoods, shares = {}, []
    for share in (fit.strengths.unseen_share, 0.0, 0.25, 0.5, 0.75, 1.0):
        strengths = replace(fit.strengths, unseen_share=share)
        one = fit_prototypes(features[kept], targets[kept], graph, strengths=strengths)
        log_probs = one.head(one.scaling(features[~first])).log_probs().detach()
        likelihoods[share] = float(log_probs.gather(1, targets[~first, None]).mean())
        shares.append(float(log_probs[:, without].exp().sum(dim=1).mean()))
    assert shares[1:] == sorted(shares[1:], reverse=True)
    assert likelihoods[fit.strengths.unseen_share] > max(likelihoods.values()) - 0.01
    assert likelihoods[0.75] < max(likelihoods.values()) - 0.1


def test_a_label_without_samples_leaves_those_of_its_only_sibling_alone():
    """Its mean is long there and points the same way, so that it took all of them."""
    features, targets = (torch.from_numpy(part) for part in load_iris(return_X_y=True))
    parents = {"setosa": "a", "versicolor": "b", "virginica": "b", "unseen": "a"}
    graph = fg.LabelGraph.from_table({label: {"k": parent} for label, parent in parents.items()})
    fit = fit_prototypes(features, targets, graph)
    free = fit_prototypes(features, targets, graph, strengths=replace(fit.strengths, unseen_reach=0.0))
    taken = [int((one.head(one.scaling(features)).log_probs().argmax(dim=1) == 3).sum()) for one in (fit, free)]
    assert taken[0] < 10 < 40 < taken[1]


def test_classes_keep_samples_near_their_means_from_labels_without_any():
    generator = torch.Generator().manual_seed(0)
    means = torch.randn(9, 6, generator=generator).double()
    means[6:] = means[:3] * torch.tensor([[1.0], [1.5], [3.0]])  # three labels without samples
    counts = torch.tensor([8.0] * 6 + [0.0] * 3).double()
    for reach in (0.3, 2.0):
        factors, bias = score_factors(means, counts, 0.2, reach)
        weights = factors[:, None] * means
        for label in range(6):
            for other in range(6, 9):
                away = torch.nn.functional.normalize(weights[other] - weights[label], dim=0)
                scores = weights @ (means[label] + reach * away) + bias  # as near to the other as samples there are
                assert scores[other] <= scores[label] + 1e-9
    factors, bias = score_factors(means, counts, 0.2)
    scores = factors * (means @ means[1]) + bias
    assert scores[7] > scores[1] + 0.1  # it would not without
