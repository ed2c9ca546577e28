"""Numbers in fits: class means, pulls, potentials and descent, each against the same thing said plainly."""

import math

import numpy as np
import pytest
import torch

import finegraph as fg
from finegraph.errors import GraphError, InputError, ShapeError
from finegraph.graph import LabelGraph, Number
from finegraph.model.fitting.class_means import LinkMatrices, Variances, class_means, fit_variances, solve_effects
from finegraph.model.fitting.descent import FitSettings, fit_head
from finegraph.model.fitting.prototypes import PrototypeSettings, fit_prototypes
from finegraph.model.fitting.value_pulls import fit_potentials, fit_pulls, value_columns, value_names
from finegraph.model.teaching.class_statistics import ClassStatistics
from finegraph.model.teaching.solved_effects import SolvedEffects

KINDS = {"dish": ["x", "y", "z"], "heat": ["mild", "medium", "hot"]}


def menu(fine=12, spread=0.0, unknown=(), seed=0):
    """A graph with a kind, an ordered kind and two numbers, of which one may have spreads and unknown values."""
    random = np.random.default_rng(seed)
    values = random.lognormal(3, 0.5, fine)
    values[list(unknown)] = np.nan
    table = {
        f"item {i}": {
            "dish": "xyz"[i % 3],
            "heat": KINDS["heat"][int(random.integers(3))],
            "price": float(random.uniform(5, 20)),
            "portion": None if np.isnan(values[i]) else (float(values[i]), spread * float(values[i])),
        }
        for i in range(fine)
    }
    types = {"heat": ("mild", "medium", "hot"), "price": "number, EUR", "portion": "log number, g"}
    return LabelGraph.from_table(table, types)


def photos(graph, count, seed=0, size=10):
    """Samples that show the dish, the price and the portion of their class, and their own portion."""
    generator = torch.Generator().manual_seed(seed)
    target = torch.arange(len(graph)).repeat(count)
    price, portion = (torch.tensor(np.array(graph.number(name).standardised[0])) for name in ("price", "portion"))
    own = torch.tensor(np.array(graph.number("portion").standardised[1]))[target]
    own = own * torch.randn(len(target), generator=generator, dtype=torch.float64)
    base = torch.randn(3, size, generator=generator, dtype=torch.float64)
    ways = torch.randn(2, size, generator=generator, dtype=torch.float64)
    shown = base[torch.from_numpy(graph.parents("dish"))[target]] + price[target, None] * ways[0]
    shown = shown + (portion[target] + own)[:, None] * ways[1]
    shown = shown + 0.3 * torch.randn(len(target), size, generator=generator, dtype=torch.float64)
    grams = graph.number("portion").to_outer((portion[target] + own).numpy())
    return shown, target, torch.from_numpy(np.array(grams))


# ---- class means -----------------------------------------------------------------------------------------------------


def test_class_means_with_numbers_and_orders_are_those_of_the_joint_gaussian():
    graph = menu(9, spread=0.2, unknown=(1, 5))
    variances = Variances(own=0.3, kinds={"dish": 0.7, "heat": 0.4}, noise=0.9, numbers={"price": 0.6, "portion": 0.5})
    counts = torch.tensor([3.0, 1, 0, 2, 5, 1, 0, 2, 2], dtype=torch.float64)
    means = torch.randn(9, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    links = LinkMatrices(graph, graph.kinds, graph.numbers)
    found = class_means(links, solve_effects(links, variances, counts, means))

    kernel = 0.3 * np.eye(9)
    dish, heat = (graph.parents(kind) for kind in ("dish", "heat"))
    # A walk over three labels around its mean, whose variances sum to 2: steps of variance 3 / 2, places 0, 1 and 2.
    walk = np.array([[0, 0], [1, 0], [1, 1]]) - np.array([2, 1]) / 3
    walk *= math.sqrt(2 / (walk**2).sum())
    for i in range(9):
        for j in range(9):
            kernel[i, j] += 0.7 * (dish[i] == dish[j]) + 0.4 * walk[heat[i]] @ walk[heat[j]]
    for name, strength in variances.numbers.items():
        value, spread = graph.number(name).standardised
        kernel += strength * (np.outer(value, value) + np.diag(spread**2))
    seen = counts.numpy() > 0
    centre = means.numpy()[seen].mean(axis=0)
    shown = kernel[np.ix_(seen, seen)] + np.diag(0.9 / counts.numpy()[seen])
    expected = centre + kernel[:, seen] @ np.linalg.inv(shown) @ (means.numpy()[seen] - centre)
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-12)


def test_variances_tell_which_number_shows():
    graph = menu(40)
    value = torch.tensor(np.array(graph.number("price").standardised[0]))
    generator = torch.Generator().manual_seed(1)
    way = torch.randn(30, generator=generator, dtype=torch.float64)
    means = value[:, None] * way + 0.3 * torch.randn(40, 30, generator=generator, dtype=torch.float64)
    links = LinkMatrices(graph, graph.kinds, graph.numbers)
    found = fit_variances(links, torch.full((40,), 5.0).double(), means, noise=0.1, features=30)
    assert found.numbers["price"] == pytest.approx(float(way.square().mean()), rel=0.1)
    assert found.numbers["portion"] < 0.01
    assert set(found.kinds) == {"dish", "heat"}


def test_lessons_move_effects_of_numbers_as_solving_anew_does():
    graph = menu(10, spread=0.1)
    variances = Variances(own=0.3, kinds={"dish": 0.7, "heat": 0.4}, noise=0.9, numbers={"price": 0.6, "portion": 0.5})
    links = LinkMatrices(graph, graph.kinds, graph.numbers)
    generator = torch.Generator().manual_seed(2)
    counts, sums = torch.full((10,), 2.0).double(), torch.randn(10, 4, generator=generator).double()
    start = ClassStatistics(counts=counts, sums=sums, variances=variances, strength=1.0, scales=links.scales)
    larger = graph.with_fine({"new": {"dish": "x", "price": 30.0, "portion": (50.0, 3.0)}})
    now = start.larger(larger)
    now.counts[[0, 10]] += 1.0
    now.sums[[0, 10]] += torch.randn(2, 4, generator=generator).double()
    wider = now.links(larger)
    found = SolvedEffects(links, start).changed(wider, now, torch.tensor([0, 10]))
    expected = solve_effects(wider, variances, now.counts, now.means)
    for name in wider.names:
        torch.testing.assert_close(found.coarse[name], expected.coarse[name], atol=1e-12, rtol=0)
    # The values of the labels that were there are what they were: the new one has moved no scale.
    torch.testing.assert_close(wider.designs["price"].to_dense()[:10], links.designs["price"].to_dense())


# ---- pulls and potentials --------------------------------------------------------------------------------------------


def test_pulls_are_regressions_with_their_errors_on_classes_left_out():
    graph = menu(14, unknown=(3,))
    x, y, _ = photos(graph, 3)
    counts = torch.full((14,), 3.0).double()
    means = torch.stack([x[y == i].mean(dim=0) for i in range(14)])
    names = value_names(graph)
    assert names == ("heat", "price", "portion")
    columns = value_columns(graph, names)
    pulls = fit_pulls(names, columns, counts, means, noise=0.09)
    for place in range(3):
        known = ~columns[:, place].isnan()
        values = columns[known, place]
        values = (values - values.mean()) / values.std(correction=0)
        errors = {}
        for multiple in (0.003, 0.03, 0.3, 3.0, 30.0):
            shown = means[known] - means[known].mean(dim=0)
            ridge = multiple * float(shown.square().sum()) / len(values)
            left_out = []
            for out in range(len(values)):
                rest = torch.arange(len(values)) != out
                fitted = _ridge(means[known][rest], values[rest], ridge)
                left_out.append(values[out] - fitted(means[known][out]))
            whole = _ridge(means[known], values, ridge)
            weight = whole(torch.eye(10).double()) - whole(torch.zeros(10).double())
            error = float(torch.stack(left_out).square().mean() + 0.09 * (2 / 3) * weight.square().sum())
            errors[min(error, 1.0)] = whole if error < 1 else (lambda at: torch.zeros(len(at)).double())
        best = min(errors)
        assert float(pulls.precision[place]) == pytest.approx(1 / best - 1, rel=1e-8)
        expected = errors[best](means) / best
        torch.testing.assert_close(means @ pulls.weight[place] + pulls.bias[place], expected, atol=1e-9, rtol=1e-8)
    values = pulls.values(columns)
    weight, bias = pulls.rows(columns, 0.3)
    torch.testing.assert_close(x @ weight.t() + bias, 0.3 * pulls.scores(x, columns))
    assert float(values[3, 2]) == 0.0


def _ridge(features, values, strength):
    """Ridge regression with a mean that is not shrunk."""
    middle, mean = features.mean(dim=0), values.mean()
    centred = features - middle
    matrix = centred.t() @ centred + strength * torch.eye(features.shape[1]).double()
    weight = torch.linalg.solve(matrix, centred.t() @ (values - mean))
    return lambda at: (at - middle) @ weight + mean


def test_few_classes_or_equal_values_say_nothing():
    graph = menu(4)
    columns = value_columns(graph, ("price",))
    means = torch.randn(4, 6).double()
    assert not fit_pulls(("price",), columns, torch.ones(4).double(), means, 0.1).weight.any()
    same = torch.full((9, 1), 3.0).double()
    assert not fit_pulls(("price",), same, torch.ones(9).double(), torch.randn(9, 6).double(), 0.1).precision.any()


@pytest.fixture(scope="module")
def fitted():
    graph = menu(16, spread=0.3)
    x, y, grams = photos(graph, 8)
    return graph, fit_prototypes(x, y, graph), fit_prototypes(x, y, graph, measured={"portion": grams}), (x, y)


def test_measured_values_tell_how_photos_differ_from_their_class_and_leave_labels_alone(fitted):
    graph, plain, measured, _ = fitted
    x, _, grams = photos(graph, 8, seed=0)
    with torch.no_grad():
        one, two = (fit.head(fit.scaling(x)) for fit in (plain, measured))
    assert measured.potentials is not None
    assert measured.potentials.names == ("portion",)
    # All values have the same spread on the log scale, so the answers about labels are the same.
    torch.testing.assert_close(two.log_probs(), one.log_probs(), atol=1e-5, rtol=0)
    errors = [(post.value("portion").mean - grams).abs().mean() for post in (one, two)]
    assert errors[1] < 0.7 * errors[0]


def test_values_that_features_do_not_show_make_no_potential():
    graph = menu(16, spread=0.3)
    x, y, _ = photos(graph, 4)
    number = graph.number("portion")
    generator = torch.Generator().manual_seed(4)
    noise = torch.tensor(number.standardised[1])[y] * torch.randn(len(y), generator=generator, dtype=torch.float64)
    random = torch.from_numpy(np.array(number.to_outer((torch.tensor(number.standardised[0])[y] + noise).numpy())))
    assert fit_potentials(graph, x, y, {"portion": random}) is None
    assert fit_potentials(graph, x, y, {"portion": torch.full((len(y),), math.nan).double()}) is None


def test_values_are_told_better_with_numbers_than_by_softmax():
    graph = menu(24)
    errors = {}
    test, truth, _ = photos(graph, 6, seed=0)
    x, y, test, truth = test[:48], truth[:48], test[48:], truth[48:]
    for name, settings in (("softmax", PrototypeSettings(head="softmax")), ("numbers", None)):
        fit = fit_prototypes(x, y, graph, settings)
        with torch.no_grad():
            told = fit.head(fit.scaling(test)).value("price").mean
        errors[name] = float((told - torch.tensor(graph.number("price").values)[truth]).abs().mean())
        assert (fit.strengths.share > 0) == (name == "numbers")
    assert errors["numbers"] < 0.9 * errors["softmax"]


@pytest.mark.parametrize("with_measured", [False, True])
def test_statistics_keep_all_that_the_head_follows_from(fitted, with_measured):
    graph, plain, measured, (x, y) = fitted
    fit = measured if with_measured else plain
    statistics = ClassStatistics.of_fit(fit, x, y)
    kept = ClassStatistics.from_parts(*statistics.to_parts(), graph)
    with torch.no_grad():
        head = kept.solve(graph).double()
        one, two = fit.head(fit.scaling(x)), head(fit.scaling(x))
    torch.testing.assert_close(two.log_probs(), one.log_probs(), atol=2e-5, rtol=0)
    torch.testing.assert_close(two.value("portion").mean, one.value("portion").mean, atol=0, rtol=1e-5)
    # A new label changes the inner scale of the graph; what is said of the labels that were there stays.
    larger = graph.with_fine({"new": {"price": 300.0, "portion": (900.0, 3.0)}})
    with torch.no_grad():
        more = kept.larger(larger).solve(larger).double()(fit.scaling(x))
    shift = more.log_probs()[:, :-1].log_softmax(dim=1) - one.log_probs()
    assert float(shift.abs().max()) < (5e-2 if with_measured else 2e-5)


# ---- descent ---------------------------------------------------------------------------------------------------------

SETTINGS = FitSettings(l2=0.05, tolerance=1e-12)


def public_objective(head, x, y, measured=None, centre=None):
    """The objective in the public words of the package."""
    value = fg.joint_loss(head(x), y, measured, SETTINGS.kind_weights(head.graph))
    coarse = SETTINGS.strengths(head.graph).coarse
    pulls = [(head.numbers.scale[place, 0].double() * head.numbers.weight[2 * place]) for place in (0, 1)]
    rows = [(0.05, head.fine.weight), (coarse, head.coarse.weight), *((coarse, pull) for pull in pulls)]
    middle = [0.0] * 4
    if centre is not None:
        middle = [centre.fine.weight, centre.coarse.weight, centre.numbers.weight[0], centre.numbers.weight[2]]
    return value + sum(
        0.5 * strength * (row - own).square().sum() for (strength, row), own in zip(rows, middle, strict=True)
    )


@pytest.mark.deep
@pytest.mark.parametrize("measuring", [False, True])
@pytest.mark.parametrize("spread", [0.0, 0.3])
def test_descent_ends_in_a_minimum_of_the_loss_with_numbers(spread, measuring):
    graph = menu(9, spread=spread, unknown=(2,) if spread else ())
    x, y, grams = photos(graph, 3)
    measured = {"portion": torch.where(torch.arange(len(y)) % 2 == 0, grams, math.nan)} if measuring else None
    fit = fit_head(x, y, graph, SETTINGS, kind_targets=measured)
    value = public_objective(fit.head, x, y, measured)
    assert fit.converged
    assert value.item() == pytest.approx(fit.objective, rel=1e-9)
    layer = fit.head.numbers
    parameters = [fit.head.fine.weight, fit.head.coarse.weight, fit.head.fine.bias, layer.weight, layer.bias]
    *grads, weight, bias = torch.autograd.grad(value, parameters)
    assert max(float(grad.abs().max()) for grad in grads) < 1e-5
    assert float(weight[0::2].abs().max()) < 1e-5
    assert float(bias.abs().max()) < 1e-5  # that of a precision of exact values, too: biases know all that it says
    assert all(layer.constant_precisions())


def test_descent_knows_values_better_than_without_their_terms():
    graph = menu(12)
    x, y, _ = photos(graph, 2)
    test, truth, _ = photos(graph, 8)
    errors = {}
    for weight in (0.0, 1.0):
        settings = FitSettings(l2=0.1, kind_weight={"price": weight, "portion": 0.0, "dish": 0.0, "heat": 0.0})
        head = fit_head(x, y, graph, settings).head
        with torch.no_grad():
            told = head(test[24:]).value("price").mean
        errors[weight] = float((told - torch.tensor(graph.number("price").values)[truth[24:]]).abs().mean())
    assert errors[1.0] < errors[0.0]


@pytest.mark.deep
@pytest.mark.parametrize("spread", [0.0, 0.3])
def test_labels_without_samples_get_what_their_values_say(spread):
    graph = menu(9, spread=spread)
    x, y, _ = photos(graph, 3)
    kept = y != 4
    head = fit_head(x[kept], y[kept], graph, SETTINGS).head
    part = fit_head(x[kept], torch.where(y > 4, y - 1, y)[kept], _without(graph, 4), SETTINGS).head
    with torch.no_grad():
        one, two = head(x).log_probs(), part(x).log_probs()
    seen = torch.arange(9) != 4
    torch.testing.assert_close(one[:, seen].log_softmax(dim=1), two, atol=1e-6, rtol=0)
    assert torch.isfinite(one).all()


def _without(graph, place):
    rows = np.array([i for i in range(len(graph)) if i != place])
    kinds = [graph.kind(name).rows(rows) for name in graph.kinds]
    return LabelGraph([graph.fine[i] for i in rows], kinds, [graph.number(name).rows(rows) for name in graph.numbers])


@pytest.mark.deep
@pytest.mark.parametrize("spread", [0.0, 0.3])
def test_starting_anywhere_and_being_drawn_to_a_head_with_numbers(spread):
    graph = menu(9, spread=spread)
    x, y, _ = photos(graph, 3)
    first = fit_head(x, y, graph, FitSettings(l2=1.0)).head
    plain, again = (fit_head(x, y, graph, SETTINGS, start=start) for start in (None, first))
    assert again.objective == pytest.approx(plain.objective, rel=1e-8)
    torch.testing.assert_close(again.head(x).log_probs(), plain.head(x).log_probs(), atol=1e-3, rtol=0)
    same = fit_head(x, y, graph, FitSettings(l2=1e8), centre=first).head
    torch.testing.assert_close(same.fine.weight, first.fine.weight, atol=1e-6, rtol=0)
    torch.testing.assert_close(same.numbers.weight, first.numbers.weight, atol=1e-6, rtol=0)
    drawn = fit_head(x, y, graph, SETTINGS, centre=first)
    value = public_objective(drawn.head, x, y, centre=first)
    assert value.item() == pytest.approx(drawn.objective, rel=1e-9)


def test_measured_values_must_be_floats_and_labels_indices():
    graph = menu(6)
    x, y, _ = photos(graph, 2)
    with pytest.raises(ShapeError, match="portion: expected measured values as floating-point numbers"):
        fit_head(x, y, graph, kind_targets={"portion": y})
    with pytest.raises(ShapeError, match="dish: expected label indices"):
        fit_head(x, y, graph, kind_targets={"dish": y.double()})


@pytest.mark.deep
def test_a_number_that_few_know_keeps_the_fit_finite():
    graph = menu(6).with_number(Number.from_values("rare", [1.0] + [None] * 5))
    x, y, _ = photos(graph, 2)
    for head in (fit_head(x, y, graph).head, fit_prototypes(x, y, graph).head):
        assert torch.isfinite(head(x).log_probs()).all()


def test_the_estimator_takes_measured_values():
    graph = menu(16, spread=0.3)
    x, y, grams = photos(graph, 8)
    labels = [graph.fine[label] for label in y]
    values = [None if place % 5 == 0 else float(value) for place, value in enumerate(grams)]
    model = fg.BipartiteClassifier(graph, solver="prototypes").fit(x.numpy(), labels, kind_targets={"portion": values})
    assert model.prototypes_.potentials is not None
    with pytest.raises(InputError, match="exact for all classes, say nothing about class means; leave out price, or"):
        model.fit(x.numpy(), labels, kind_targets={"price": [9.0] * len(labels)})
    with pytest.raises(GraphError, match=r"kind_targets\['portion'\], sample 0: on a log scale a value is above 0"):
        model.fit(x.numpy(), labels, kind_targets={"portion": [-1.0] * len(labels)})
