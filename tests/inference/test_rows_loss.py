"""The loss from features on equals `joint_loss` of the scores, in value and in every gradient."""

import numpy as np
import pytest
import torch

import finegraph as fg
from finegraph.inference.loss.rows_loss import all_label_rows
from finegraph.inference.sums import groups, label_rows
from finegraph.inference.sums.targets import FROM_FINE
from reference.random_graphs import FORMS, random_graph

FEATURES = 5


@pytest.fixture(autouse=True)
def many_scores(monkeypatch):
    """Graphs of tests are small; none has so few scores that it is left to `joint_loss`."""
    monkeypatch.setattr("finegraph.nn.heads._FEW_SCORES", -1)


def made_head(graph, dtype=torch.float64, size=1.0, seed=0, **options):
    """A head with random weights, which start at 0 otherwise."""
    torch.manual_seed(seed)
    head = fg.BipartiteHead(FEATURES, graph, **options).to(dtype)
    with torch.no_grad():
        for parameter in head.parameters():
            parameter.copy_(size * torch.randn(parameter.shape))
    return head


def both(head, features, target, *others, **options):
    """The loss and all gradients, from the features on and by way of scores."""
    found = []
    for rows in (True, False):
        inputs = [one.clone().requires_grad_() for one in features]
        coarse = inputs[1:]
        if isinstance(getattr(head, "coarse_features", None), dict):
            coarse = [dict(zip(head.coarse_features, coarse, strict=True))]
        head.zero_grad()
        if rows:
            other = {"coarse_features": coarse[0]} if coarse else {}
            loss = head.loss(inputs[0], target, *others, **options, **other)
        else:
            loss = fg.joint_loss(head(inputs[0], *coarse), target, *others, **options)
        (loss * torch.arange(1, 1 + loss.numel()).view(loss.shape)).sum().backward()
        grads = [one.grad for one in (*inputs, *head.parameters())]
        found.append([loss.detach(), *(torch.zeros(()) if grad is None else grad for grad in grads)])
    return zip(*found, strict=True)


def check(head, features, target, *others, tolerance=1e-12, **options):
    for ours, theirs in both(head, features, target, *others, **options):
        assert torch.allclose(ours, theirs.to(ours.dtype), atol=tolerance, rtol=tolerance), (ours - theirs).abs().max()


@pytest.fixture(params=[1, 16, 10**9], ids=["listed", "some", "dense"])
def lists(request, monkeypatch):
    """Which kinds go by lists of children; and few rows at a time."""
    monkeypatch.setattr(label_rows, "_LISTED", request.param)
    monkeypatch.setattr(label_rows, "_MIN_ROWS", 3)
    monkeypatch.setattr(label_rows, "_CHUNK", 1)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.deep
def test_every_form_of_graph(form, lists):
    for seed in range(6):
        graph = random_graph(np.random.default_rng(seed), form).graph
        rng = np.random.default_rng(seed)
        target = torch.from_numpy(rng.integers(len(graph), size=4))
        target[seed % 4] = -100
        features = [torch.from_numpy(rng.normal(size=(4, FEATURES)))]
        seen = {
            name: torch.tensor([FROM_FINE, -100, int(graph.edges(name)[1][0]), FROM_FINE])
            for name in graph.kinds[:1]
            if len(graph.edges(name)[1])
        }
        weights = {name: float(place) / 2 for place, name in enumerate(graph.kinds)}
        for reduction in ("mean", "sum", "none"):
            check(made_head(graph, seed=seed), features, target, reduction=reduction)
        check(made_head(graph, bias=False), features, target, seen, weights)
        check(fg.SoftmaxHead(FEATURES, graph).double(), features, target, seen)
        features.append(torch.from_numpy(rng.normal(size=(4, 3))))
        check(made_head(graph, coarse_features=3), features, target)
        sizes = {name: 2 + place % 3 for place, name in enumerate(graph.kinds)}
        features[1:] = [torch.from_numpy(rng.normal(size=(4, size))) for size in sizes.values()]
        check(made_head(graph, coarse_features=sizes), features, target, seen, weights)


def test_probabilities_below_what_numbers_hold(lists):
    for form in FORMS:
        graph = random_graph(np.random.default_rng(3), form).graph
        features, target = [torch.randn(3, FEATURES, dtype=torch.float64)], torch.tensor([0, -100, len(graph) - 1])
        check(made_head(graph, size=400.0), features, target, tolerance=1e-9)


def test_float32_is_as_exact_as_the_scores_are(lists):
    for form in FORMS:
        graph = random_graph(np.random.default_rng(1), form).graph
        features, target = [torch.randn(3, FEATURES)], torch.tensor([0, -100, len(graph) - 1])
        for size in (1.0, 30.0):
            check(made_head(graph, torch.float32, size), features, target, tolerance=2e-5 * size)


def test_a_reference_that_later_labels_exceed(monkeypatch):
    monkeypatch.setattr(label_rows, "_MIN_ROWS", 1)
    monkeypatch.setattr(label_rows, "_CHUNK", 1)
    graph = fg.LabelGraph.from_parents(list("abcd"), {"kind": [0, 1, 0, 1]}, {"kind": ("x", "y")})
    head = made_head(graph)
    with torch.no_grad():
        head.fine.bias.copy_(torch.tensor([0.0, 300.0, 100.0, 500.0]))
    check(head, [torch.randn(2, FEATURES, dtype=torch.float64)], torch.tensor([3, 1]))


def test_what_goes_by_way_of_scores():
    graph = random_graph(np.random.default_rng(0), FORMS[0]).graph
    head, features = made_head(graph), torch.randn(2, FEATURES, dtype=torch.float64)
    mask = torch.zeros(2, len(graph), dtype=torch.bool)
    mask[:, 0] = True
    assert torch.equal(head.loss(features, mask), fg.joint_loss(head(features), mask))
    assert head.loss(features, None).item() == 0.0
    with pytest.raises(fg.errors.ShapeError, match=r"features: expected shape \(batch, 5\)"):
        head.loss(features[:, 1:], None)
    with pytest.raises(fg.errors.InputError, match="takes no coarse features"):
        fg.SoftmaxHead(FEATURES, graph).loss(features.float(), None, coarse_features=features)


def test_half_precision_and_autocast():
    graph = random_graph(np.random.default_rng(0), FORMS[0]).graph
    head, features = made_head(graph, torch.float32), torch.randn(2, FEATURES)
    target = torch.zeros(2, dtype=torch.int64)
    expected = head.loss(features, target)
    with torch.autocast("cpu", torch.bfloat16):
        assert head.loss(features, target).item() == pytest.approx(expected.item(), abs=0.05)
    half = made_head(graph, torch.float32).to(torch.bfloat16)
    loss = half.loss(features.bfloat16(), target)
    loss.backward()
    assert loss.item() == pytest.approx(expected.item(), abs=0.1)
    assert half.fine.weight.grad.dtype == torch.bfloat16


def test_a_second_backward_pass_and_a_gradient_for_some():
    graph = random_graph(np.random.default_rng(0), FORMS[0]).graph
    head, features = made_head(graph), torch.randn(2, FEATURES, dtype=torch.float64, requires_grad=True)
    loss = head.loss(features, torch.zeros(2, dtype=torch.int64))
    first = torch.autograd.grad(loss, features, retain_graph=True)[0]
    assert torch.equal(first, torch.autograd.grad(loss, features)[0])
    head.requires_grad_(False)
    only = torch.autograd.grad(head.loss(features, torch.zeros(2, dtype=torch.int64)), features)[0]
    assert torch.allclose(only, first)


def test_rows_are_made_once_per_graph():
    graph = random_graph(np.random.default_rng(0), FORMS[0]).graph
    head = made_head(graph)
    head.loss(torch.randn(1, FEATURES, dtype=torch.float64), torch.tensor([0]))
    assert any(key[0] is all_label_rows for key in graph.derived if isinstance(key, tuple))


def test_few_scores_are_left_to_the_loss_of_scores(monkeypatch):
    graph = random_graph(np.random.default_rng(0), FORMS[0]).graph
    head, features, target = made_head(graph), torch.randn(2, FEATURES, dtype=torch.float64), torch.tensor([0, 1])
    from_features = head.loss(features, target)
    assert "RowsLoss" in from_features.grad_fn.name()
    monkeypatch.setattr("finegraph.nn.heads._FEW_SCORES", 2 * len(graph))
    from_scores = head.loss(features, target)
    assert "RowsLoss" not in from_scores.grad_fn.name()
    torch.testing.assert_close(from_scores, from_features, rtol=1e-12, atol=0)


@pytest.mark.parametrize("options", [{}, {"kind_weights": {"price": 0.0}}, {"kind_weights": 0.5, "reduction": "none"}])
@pytest.mark.parametrize("apart", [1.0, 1e4], ids=["near", "far"])
def test_exact_numbers(options, apart):
    rng = np.random.default_rng(3)
    price = fg.Number.from_values("price", np.concatenate([rng.normal(0.0, 1.0, 11), [apart]]), unit="EUR")
    year = fg.Number.from_values("year", rng.integers(1990, 2020, 12).astype(float))
    parents = {"kind": rng.integers(0, 4, 12)}
    graph = fg.LabelGraph.from_parents([f"fine {i}" for i in range(12)], parents).with_number(price).with_number(year)
    features = [torch.randn(6, FEATURES, dtype=torch.float64)]
    target = torch.tensor([0, 11, 5, -100, 7, 11])
    measured = {"price": torch.tensor([0.3, float("nan"), float("nan"), 0.1, apart, -1.0], dtype=torch.float64)}
    for targets in ({}, measured):
        check(made_head(graph), features, target, targets, tolerance=1e-9, **options)
        head = made_head(graph, torch.float32)
        check(head, [features[0].float()], target, targets, tolerance=2e-4, **options)


def test_numbers_with_spreads_and_softmax_go_by_scores():
    price = fg.Number.from_values("price", [1.0, 2.0, 4.0], [0.5, 0.1, 0.2])
    graph = fg.LabelGraph(["a", "b", "c"], numbers=[price])
    features, target = [torch.randn(4, FEATURES, dtype=torch.float64)], torch.tensor([0, 1, 2, -100])
    check(made_head(graph), features, target)
    torch.manual_seed(0)
    check(fg.SoftmaxHead(FEATURES, graph).double(), features, target)


@pytest.mark.parametrize("form", FORMS)
def test_sets_read_from_lists_or_tables_have_the_same_parents(form, monkeypatch):
    case = random_graph(np.random.default_rng(4), form)
    tensors = fg.BipartiteHead(FEATURES, case.graph).tensors
    sets = torch.from_numpy(np.random.default_rng(5).random((8, len(case.graph))) < 0.3)
    found = []
    for few in (0, 10**9):
        monkeypatch.setattr(groups, "_FEW_IN_SETS", few)
        found.append([kind.union_of_parents(sets) for kind in tensors.kinds])
    for one, other in zip(*found, strict=True):
        assert torch.equal(one, other)
