"""The heads of a study on made-up features: equal budgets, and answers that equal obvious versions."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from finegraph.errors import MissingExtraError, SettingsError
from finegraph.evaluation.collect import Collector
from finegraph.graph import LabelGraph
from finegraph.inference import Posterior
from finegraph.model.fitting import FitSettings, fit_head, target_log_probs
from finegraph.model.fitting.prototypes import PrototypeSettings, fit_prototypes
from finegraph.model.fitting.selection import grid_settings
from finegraph.workflows.studies import measure as measure_module
from finegraph.workflows.studies import sklearn_heads
from finegraph.workflows.studies.closed_form_heads import mean_log_prob, shrinkages
from finegraph.workflows.studies.fitted_head import HeadAnswer, answer_of, with_implied
from finegraph.workflows.studies.head_fits import fit_study_head, grid_of, only_parent
from finegraph.workflows.studies.measure import joined, judged, measure, photo_metrics
from finegraph.workflows.studies.photo_sets import PhotoMatrices, kind_groups
from finegraph.workflows.studies.spec import HEADS

GRAPH = LabelGraph.from_table(
    {
        "mapo tofu @ A": {"dish": "mapo tofu", "place": "A", "with": ["tofu", "pork"]},
        "mapo tofu @ B": {"dish": "mapo tofu", "place": "B", "with": ["tofu"]},
        "kung pao @ A": {"dish": "kung pao", "place": "A", "with": ["pork"]},
        "kung pao @ B": {"dish": "kung pao", "place": "B", "with": ["pork"]},
    }
)
"""With a group of two kinds."""


def make_part(per_class, seed, views=None):
    """Features around the sum of what dish, place and class look like, for two networks."""
    world = np.random.default_rng(7)
    looks = [world.normal(0, 1, (count, 10)) for count in (2, 2, 4)]
    dish, place = GRAPH.parents("dish"), GRAPH.parents("place")
    fine = np.repeat(np.arange(4), per_class)
    random = np.random.default_rng(seed)
    centre = looks[0][dish[fine]] + looks[1][place[fine]] + 0.5 * looks[2][fine]
    shape = (len(fine), views, 10) if views else (len(fine), 10)
    noisy = [(centre if views is None else centre[:, None]) + random.normal(0, 1.2, shape) for _ in range(2)]
    one, two = (torch.from_numpy(own).float() for own in noisy)
    return PhotoMatrices(one, two[..., :6], torch.from_numpy(fine))


TRAIN, VAL, TEST = make_part(4, 0), make_part(5, 1), make_part(20, 2)


@pytest.mark.parametrize("settings", [4, 8, 12, 28])
@pytest.mark.parametrize("head", ["softmax", "softmax-marginal", "bipartite", "bipartite-two"])
def test_every_head_tries_as_many_settings(head, settings):
    grid = grid_of(head, GRAPH.only(["dish", "place"]), settings)
    assert len(set(map(str, grid_settings(FitSettings(), grid)))) == settings


@pytest.mark.deep
@pytest.mark.parametrize("head", HEADS)
def test_every_head_learns(head):
    fitted = fit_study_head(head, GRAPH, ("dish", "place"), TRAIN, VAL, 8)
    metrics = photo_metrics(measure(fitted.model, TEST, GRAPH, 1))
    assert metrics["top1"] > 0.4  # chance is 0.25
    assert metrics["kind:dish"] > 0.6
    assert set(metrics) == {"top1", "top5", "nll", *(f"kind:{name}" for name in (*GRAPH.kinds, "with"))}
    assert fitted.tried == (0 if head == "auto" else 8)
    assert fitted.converged
    assert fitted.seconds > 0
    assert len(fitted.chosen) == {"independent": 3, "ensemble": 2}.get(head, 1)


def test_the_marginal_loss_moves_softmax_and_nothing_else():
    plain = fit_study_head("softmax", GRAPH, (), TRAIN, VAL, 4)
    marginal = fit_study_head("softmax-marginal", GRAPH, ("dish",), TRAIN, VAL, 4)
    assert type(marginal.model.head).__name__ == "SoftmaxHead"
    chosen = marginal.chosen[0]
    assert chosen["kind_weight"] > 0
    strengths = FitSettings(head="softmax", l2=chosen["l2"], tolerance=1e-3)
    without = fit_head(TRAIN.fine, TRAIN.target, GRAPH, strengths).head
    assert not torch.allclose(marginal.model.head.fine.weight, without.fine.weight, atol=1e-4)
    assert "kind_weight" not in plain.chosen[0]


def test_softmax_is_the_best_setting_fitted_from_nothing():
    fitted = fit_study_head("softmax", GRAPH, (), TRAIN, VAL, 8)
    scores = {}
    for l2 in grid_of("softmax", GRAPH, 8)["l2"]:
        head = fit_head(TRAIN.fine, TRAIN.target, GRAPH, FitSettings(head="softmax", l2=l2, tolerance=1e-3)).head
        log_probs = head(VAL.fine).log_probs().detach()
        scores[l2] = float(log_probs.gather(1, VAL.target[:, None]).mean())
    best = max(scores, key=scores.get)
    assert scores[fitted.chosen[0]["l2"]] == pytest.approx(scores[best], abs=1e-3)


def test_the_fine_labels_of_independent_heads_are_those_of_softmax():
    alone = fit_study_head("softmax", GRAPH, (), TRAIN, VAL, 8)
    apart = fit_study_head("independent", GRAPH, ("dish",), TRAIN, VAL, 8)
    one, two = (model.answer(TEST.fine, None, 1)[0] for model in (alone.model, apart.model))
    torch.testing.assert_close(one, two, atol=0.02, rtol=0)
    dish = apart.model.kinds["dish"][1]
    assert dish.graph.fine == GRAPH.labels("dish")
    assert torch.equal(apart.model.answer(TEST.fine, None, 1)[1]["dish"], dish(TEST.fine).log_probs().argmax(dim=1))


def test_a_kind_with_one_label_in_sight_has_one_answer():
    some = TRAIN.at([number for number, fine in enumerate(TRAIN.target) if fine in (0, 1)])
    apart = fit_study_head("independent", GRAPH, ("dish", "with: tofu"), some, VAL, 4)
    labels = apart.model.answer(TEST.fine, None, 1).labels
    assert labels["dish"].unique().tolist() == [GRAPH.label_index("dish", "mapo tofu")]
    assert labels["with: tofu"].unique().tolist() == [1]


def test_an_ensemble_is_the_mean_of_two():
    fitted = fit_study_head("ensemble", GRAPH, (), TRAIN, VAL, 4)
    one, two = fitted.model.heads
    mean = (one(TEST.fine).probs() + two(TEST.coarse).probs()) / 2
    answer, labels, *_ = fitted.model.answer(TEST.fine, TEST.coarse, 1)
    torch.testing.assert_close(answer.exp(), mean)
    dish = torch.from_numpy(GRAPH.parents("dish"))
    summed = torch.stack([mean[:, dish == label].sum(dim=1) for label in range(2)], dim=1)
    assert torch.equal(labels["dish"], summed.argmax(dim=1))


@pytest.mark.deep
@pytest.mark.parametrize("head", HEADS)
def test_ten_views_are_averaged_as_probabilities(head):
    fitted = fit_study_head(head, GRAPH, ("dish",), TRAIN, VAL, 4)
    ten = make_part(3, 5, views=10)
    rows, coarse = ten.fine.flatten(0, 1), ten.coarse.flatten(0, 1)
    slow = []
    for photo in range(len(ten)):
        own = [
            fitted.model.answer(ten.fine[photo, view : view + 1], ten.coarse[photo, view : view + 1], 1)[0].exp()
            for view in range(10)
        ]
        slow.append(torch.cat(own).double().mean(dim=0))
    if head == "ensemble":  # the mean of means is the mean of all
        assert len(fitted.model.heads) == 2
    torch.testing.assert_close(
        fitted.model.answer(rows, coarse, 10)[0].exp().double(), torch.stack(slow), atol=1e-5, rtol=0
    )
    assert len(measure(fitted.model, ten, GRAPH, 10)["top1"]) == len(ten)


@pytest.mark.parametrize("views", [1, 10])
def test_photos_are_measured_fewer_at_a_time_the_more_labels_there_are(monkeypatch, views):
    fitted = fit_study_head("prototypes", GRAPH, ("dish",), TRAIN, VAL, 2)
    part = TEST if views == 1 else make_part(6, 5, views=10)
    whole, likelihood = measure(fitted.model, part, GRAPH, views), log_likelihood_of(fitted, VAL)
    monkeypatch.setattr(target_log_probs, "_MAX_SCORES", 1)
    answer, rows = fitted.model.answer, []
    monkeypatch.setattr(fitted.model, "answer", lambda fine, *rest: rows.append(len(fine)) or answer(fine, *rest))
    parts = measure(fitted.model, part, GRAPH, views)
    assert max(rows) == (16 if views == 1 else 10)
    assert parts.keys() == whole.keys()
    for name, values in whole.items():
        np.testing.assert_allclose(parts[name], values, atol=1e-6)
    assert log_likelihood_of(fitted, VAL) == pytest.approx(likelihood, abs=1e-6)


def log_likelihood_of(fitted, part):
    fit = SimpleNamespace(head=fitted.model.head, scaling=fitted.model.scaling)
    return mean_log_prob(fit, part)


@pytest.mark.deep
def test_kinds_outside_the_set_follow_from_the_fine_labels():
    fitted = fit_study_head("bipartite", GRAPH, ("dish",), TRAIN, VAL, 4)
    assert fitted.model.head.graph.kinds == ("dish",)
    log_probs, labels, *_ = fitted.model.answer(TEST.fine, None, 1)
    place = torch.from_numpy(GRAPH.parents("place"))
    summed = torch.stack([log_probs.exp()[:, place == label].sum(dim=1) for label in range(2)], dim=1)
    assert torch.equal(labels["place"], summed.argmax(dim=1))


def test_metrics_are_those_of_a_slow_loop():
    fitted = fit_study_head("softmax", GRAPH, (), TRAIN, VAL, 4)
    answer = answer_of(GRAPH, fitted.model.head(TEST.fine), 1)
    found = photo_metrics(judged(answer, TEST.target, GRAPH))
    top1 = nll = dish = group = 0.0
    for photo, truth in enumerate(TEST.target.tolist()):
        probs = answer[0][photo].exp().tolist()
        top1 += probs.index(max(probs)) == truth
        nll -= math.log(probs[truth])
        dish += int(answer[1]["dish"][photo]) == GRAPH.parents("dish")[truth]
        members = kind_groups(GRAPH)["with"]
        group += sum(int(answer[1][name][photo]) == GRAPH.parents(name)[truth] for name in members) / len(members)
    count = len(TEST)
    assert found["top1"] == pytest.approx(top1 / count)
    assert found["nll"] == pytest.approx(nll / count, rel=1e-5)
    assert found["kind:dish"] == pytest.approx(dish / count)
    assert found["kind:with"] == pytest.approx(group / count)
    assert found["top5"] == 1.0
    halves = [judged(answer_of(GRAPH, fitted.model.head(own.fine), 1), own.target, GRAPH)
              for own in (TEST.at(list(range(30))), TEST.at(list(range(30, 80))))]  # fmt: skip
    assert photo_metrics(joined(halves)) == pytest.approx(found)


def test_only_certain_parents_are_targets():
    graph = LabelGraph.from_table({"a": {"dish": "x"}, "b": {"dish": {"x", "y"}}, "c": {"dish": None}})
    assert only_parent(graph.kind("dish"), torch.tensor([0, 1, 2])).tolist() == [0, -100, -100]


def mean_at_target(log_probs, part):
    return float(log_probs.detach().gather(1, part.target[:, None]).mean())


@pytest.mark.deep
@pytest.mark.parametrize("head", ["prototypes", "prototypes-without-graph"])
def test_the_closed_form_has_the_best_of_its_shrinkages(head):
    fitted = fit_study_head(head, GRAPH, ("dish",), TRAIN, VAL, 4)
    own = GRAPH.only(["dish"])
    scores = {}
    for shrinkage in shrinkages(4):
        name = "bipartite" if head == "prototypes" else "softmax"
        fit = fit_prototypes(TRAIN.fine, TRAIN.target, own, PrototypeSettings(head=name, shrinkage=shrinkage))
        scores[shrinkage] = mean_at_target(fit.head(fit.scaling(VAL.fine)).log_probs(), VAL)
    assert fitted.chosen[0]["shrinkage"] == max(scores, key=scores.get)
    assert mean_at_target(fitted.model.answer(VAL.fine, None, 1)[0], VAL) == pytest.approx(max(scores.values()))
    assert fitted.model.step(TRAIN) is None  # no step of descent trains it


@pytest.mark.deep
def test_auto_is_what_train_fits_and_does_not_look_at_validation_photos():
    one = fit_study_head("auto", GRAPH, ("dish",), TRAIN, VAL, 4)
    two = fit_study_head("auto", GRAPH, ("dish",), TRAIN, TEST, 4)
    assert torch.equal(one.model.answer(TEST.fine, None, 1)[0], two.model.answer(TEST.fine, None, 1)[0])
    fit = fit_prototypes(TRAIN.fine, TRAIN.target, GRAPH.only(["dish"]))
    assert one.chosen[0]["solver"] == "prototypes"
    torch.testing.assert_close(
        one.model.answer(TEST.fine, None, 1)[0], fit.head(fit.scaling(TEST.fine)).log_probs().detach()
    )


def test_auto_takes_descent_where_the_training_photos_say_so(monkeypatch):
    from finegraph.model.fitting import head_solver
    from finegraph.model.fitting.solver_choice import SolverChoice

    chosen = SolverChoice(solver="descent", reason="", settings=FitSettings(l2=0.01), log_likelihoods={})
    monkeypatch.setattr(head_solver, "choose_solver", lambda *_, **__: chosen)
    fitted = fit_study_head("auto", GRAPH, ("dish",), TRAIN, VAL, 4)
    assert (fitted.chosen[0]["solver"], fitted.chosen[0]["l2"]) == ("descent", 0.01)
    expected = fit_head(TRAIN.fine, TRAIN.target, GRAPH.only(["dish"]), FitSettings(l2=0.01, tolerance=1e-3)).head
    torch.testing.assert_close(fitted.model.head.fine.weight, expected.fine.weight.detach())
    assert fitted.model.step(TRAIN) is not None


@pytest.mark.deep
def test_members_of_a_joined_network_are_whitened_apart():
    both = PhotoMatrices(torch.cat([TRAIN.fine, 50 * TRAIN.coarse], dim=1), None, TRAIN.target, (10, 6))
    held = PhotoMatrices(torch.cat([VAL.fine, 50 * VAL.coarse], dim=1), None, VAL.target, (10, 6))
    fitted = fit_study_head("auto", GRAPH, ("dish",), both.at(list(range(len(both)))), held, 4)
    fit = fit_prototypes(both.fine, both.target, GRAPH.only(["dish"]), block_sizes=(10, 6))
    torch.testing.assert_close(
        fitted.model.answer(held.fine, None, 1)[0], fit.head(fit.scaling(held.fine)).log_probs().detach()
    )


def test_logistic_regression_of_scikit_learn_equals_softmax():
    ours = fit_study_head("softmax", GRAPH, (), TRAIN, VAL, 8)
    theirs = fit_study_head("sklearn-logistic", GRAPH, (), TRAIN, VAL, 8)
    assert theirs.chosen[0]["l2"] == pytest.approx(ours.chosen[0]["l2"])
    settings = FitSettings(head="softmax", l2=ours.chosen[0]["l2"], tolerance=1e-6)
    exact = fit_head(TRAIN.fine, TRAIN.target, GRAPH, settings).head(TEST.fine).log_probs().detach()
    torch.testing.assert_close(exact.double(), theirs.model.answer(TEST.fine, None, 1)[0], atol=0.05, rtol=0)
    assert theirs.model.step(TRAIN) is None


def test_discriminant_analysis_is_as_likely_as_the_best_of_its_settings():
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    fitted = fit_study_head("sklearn-discriminant", GRAPH, (), TRAIN, VAL, 8)
    best = -math.inf
    for shrinkage in shrinkages(2):
        other = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=shrinkage / (1 + shrinkage))
        scores = other.fit(TRAIN.fine.numpy(), TRAIN.target.numpy()).decision_function(VAL.fine.numpy())
        for temperature in torch.logspace(-0.6, 3.6, 200).tolist():
            log_probs = torch.log_softmax(torch.from_numpy(scores).double() / temperature, dim=1)
            best = max(best, mean_at_target(log_probs, VAL))
    assert mean_at_target(fitted.model.answer(VAL.fine, None, 1)[0], VAL) == pytest.approx(best, abs=1e-3)


@pytest.mark.parametrize("head", ["sklearn-logistic", "sklearn-discriminant"])
def test_fine_labels_without_a_photo_are_unlikely_not_impossible(head):
    some = TRAIN.at([number for number, fine in enumerate(TRAIN.target) if fine in (1, 3)])
    fitted = fit_study_head(head, GRAPH, (), some, VAL, 4)
    log_probs, labels, *_ = fitted.model.answer(TEST.fine, None, 1)
    assert torch.isfinite(log_probs).all()
    assert set(log_probs.argmax(dim=1).tolist()) == {1, 3}
    assert float(log_probs[:, [0, 2]].exp().max()) < 1e-9
    torch.testing.assert_close(log_probs.exp().sum(dim=1), torch.ones(len(TEST), dtype=log_probs.dtype))
    assert set(labels) == set(GRAPH.kinds)


def test_heads_of_scikit_learn_are_refused_where_it_is_missing(monkeypatch):
    monkeypatch.setattr(sklearn_heads, "find_spec", lambda _: None)
    sklearn_heads.check_installed(["softmax", "auto"])
    with pytest.raises(MissingExtraError, match=r"sklearn-logistic needs scikit-learn.*finegraph\[sklearn\]"):
        sklearn_heads.check_installed(["softmax", "sklearn-logistic"])


def test_discriminant_analysis_needs_two_photos_of_some_class():
    sklearn_heads.check_photos("sklearn-discriminant", "2", 8, 4)
    sklearn_heads.check_photos("sklearn-logistic", "1", 4, 4)
    with pytest.raises(SettingsError, match=r'skip = \[\{heads = \["sklearn-discriminant"\], amounts = \["1"\]\}\]'):
        sklearn_heads.check_photos("sklearn-discriminant", "1", 4, 4)


VALUES = LabelGraph.from_table(
    {
        "a": {"heat": "mild", "price": 1.0, "portion": (100.0, 20.0)},
        "b": {"heat": "medium", "price": 2.0, "portion": (200.0, 30.0)},
        "c": {"heat": "hot", "price": 3.0, "portion": None},
        "d": {"heat": "hot", "price": 4.0, "portion": (400.0, 50.0)},
    },
    {"heat": ("mild", "medium", "hot"), "price": "number, EUR", "portion": "log number, g"},
)
PRICES = VALUES.only(["heat", "price"])


def test_metrics_of_values_are_those_computed_by_hand():
    probs = torch.tensor([[0.50, 0.30, 0.18, 0.02], [0.02, 0.95, 0.02, 0.01], [0.04, 0.04, 0.12, 0.80]])
    answer = with_implied(PRICES, HeadAnswer(probs.log(), {}, {}, {}))
    true = torch.tensor([0, 3, 2])  # 1, 4 and 3 EUR; mild, hot and hot
    values = judged(answer, true, PRICES)
    # Expected: 0.5 + 0.6 + 0.54 + 0.08 = 1.72, 0.02 + 1.90 + 0.06 + 0.04 = 2.02, 0.04 + 0.08 + 0.36 + 3.20 = 3.68 EUR.
    np.testing.assert_allclose(values["error:price"], [0.72, 1.98, 0.68], atol=1e-6)
    # The shortest intervals with 90 %: from 1 to 3 (0.98), 2 alone (0.95), and from 3 to 4 (0.92).
    assert values["coverage:price"].tolist() == [1.0, 0.0, 1.0]
    # The first label with at least half of the probability: mild (0.50), medium (0.97), hot (1.00).
    assert values["steps:heat"].tolist() == [0.0, 1.0, 0.0]
    found = photo_metrics(values)
    assert found["error:price"] == pytest.approx((0.72 + 1.98 + 0.68) / 3)
    assert found["coverage:price"] == pytest.approx(2 / 3)
    assert found["steps:heat"] == pytest.approx(1 / 3)
    assert found["spearman:price"] == pytest.approx(0.5)  # ranks 1, 2, 3 and 1, 3, 2: 1 - 6 (0 + 1 + 1) / (3 x 8)
    assert {name for name in found if ":" in name} == {
        "kind:heat", "steps:heat", "error:price", "coverage:price", "spearman:price",
    }  # fmt: skip
    # What was measured on a photo comes before the value of its fine label.
    measured = judged(answer, true, PRICES, {"price": np.array([np.nan, 2.0, np.nan])})
    np.testing.assert_allclose(measured["error:price"], [0.72, 0.02, 0.68], atol=1e-6)
    assert measured["coverage:price"].tolist() == [1.0, 1.0, 1.0]
    assert photo_metrics(measured)["spearman:price"] == pytest.approx(1.0)


@pytest.mark.deep
@pytest.mark.parametrize("head", ["softmax", "bipartite", "prototypes", "sklearn-logistic", "ensemble"])
def test_metrics_of_values_are_those_of_an_evaluation(head):
    kinds = ("heat", "price", "portion") if head in ("bipartite", "prototypes") else ()
    fitted = fit_study_head(head, VALUES, kinds, TRAIN, VAL, 4)
    found = photo_metrics(measure(fitted.model, TEST, VALUES, 1))
    collector = Collector(VALUES)
    with torch.no_grad():
        if head in ("softmax", "bipartite", "prototypes"):
            scaling = fitted.model.scaling
            posterior = fitted.model.head(TEST.fine if scaling is None else scaling(TEST.fine))
            assert (posterior.number_scores is None) == (head == "softmax")
        else:  # no scores of numbers: the mixture that the probabilities of fine labels imply
            posterior = Posterior(VALUES, fitted.model.answer(TEST.fine, TEST.coarse, 1).log_probs)
        collector.add(posterior, TEST.target)
    result = collector.result()
    for name in ("price", "portion"):
        expected = result.numbers[name]
        assert found[f"error:{name}"] == pytest.approx(expected.error)
        assert found[f"coverage:{name}"] == pytest.approx(expected.coverage["0.9"])
        assert found[f"spearman:{name}"] == pytest.approx(expected.spearman)
    assert found["steps:heat"] == pytest.approx(result.orders["heat"].steps)


def test_values_outside_the_set_follow_from_the_fine_labels():
    fitted = fit_study_head("bipartite", VALUES, ("heat",), TRAIN, VAL, 4)
    assert fitted.model.head.graph.numbers == ()
    answer = fitted.model.answer(TEST.fine, None, 1)
    prices = torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=torch.float64)
    torch.testing.assert_close(answer.values["price"].mean, answer.log_probs.double().exp() @ prices)


def test_the_median_of_independent_heads_is_that_of_their_own_layer():
    apart = fit_study_head("independent", VALUES, ("heat",), TRAIN, VAL, 4)
    seen, layer = apart.model.kinds["heat"]
    assert seen.tolist() == [0, 1, 2]
    total = layer(TEST.fine).probs().double().cumsum(dim=1)
    first = [next(label for label in range(3) if row[label] >= 0.5) for row in total.tolist()]
    assert apart.model.answer(TEST.fine, None, 1).medians["heat"].tolist() == first
    some = TRAIN.at([number for number, fine in enumerate(TRAIN.target) if fine in (2, 3)])
    hot = fit_study_head("independent", VALUES, ("heat",), some, VAL, 4)
    assert set(hot.model.answer(TEST.fine, None, 1).medians["heat"].tolist()) == {2}


def test_of_many_photos_and_labels_some_are_searched_for_intervals(monkeypatch):
    fitted = fit_study_head("softmax", VALUES, (), TRAIN, VAL, 4)
    whole = measure(fitted.model, TEST, VALUES, 1)
    assert not np.isnan(whole["coverage:price"]).any()
    monkeypatch.setattr(measure_module, "_MAX_SEARCHES", 4 * 27)  # of 4 labels, and 80 photos
    monkeypatch.setattr(measure_module, "_MAX_ROWS", 7)
    some = measure(fitted.model, TEST, VALUES, 1)
    judged_photos = [number for number in range(0, 80, 3) if TEST.target[number] != 2]  # c has no portion
    assert np.flatnonzero(~np.isnan(some["coverage:portion"])).tolist() == judged_photos
    np.testing.assert_array_equal(some["coverage:portion"][judged_photos], whole["coverage:portion"][judged_photos])
    for name in ("coverage:price", "error:price", "error:portion"):  # exact values need no search
        np.testing.assert_allclose(some[name], whole[name], atol=1e-4)
