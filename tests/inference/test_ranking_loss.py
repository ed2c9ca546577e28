"""The loss of comparisons: as its formula says, with exact gradients, whatever the values are."""

import math

import pytest
import torch

import finegraph as fg
from finegraph.errors import InputError, ShapeError


def by_hand(more, less, same, scale):
    losses = []
    for one, two, equal in zip(more.tolist(), less.tolist(), same.tolist(), strict=True):
        told = [-math.log(1 / (1 + math.exp(-sign * (one - two) / scale))) for sign in (1, -1)]
        losses.append(sum(told) / 2 if equal else told[0])
    return losses


def test_the_formula_and_its_gradient():
    torch.manual_seed(0)
    more, less = torch.randn(6, dtype=torch.float64), torch.randn(6, dtype=torch.float64)
    same = torch.tensor([False, True, False, False, True, False])
    expected = by_hand(more, less, same, 0.7)
    assert fg.ranking_loss(more, less, same, 0.7, "none").tolist() == pytest.approx(expected)
    assert fg.ranking_loss(more, less, same, 0.7).item() == pytest.approx(sum(expected) / 6)
    assert fg.ranking_loss(more, less, same, 0.7, "sum").item() == pytest.approx(sum(expected))
    values = more.requires_grad_(), less.requires_grad_()
    assert torch.autograd.gradcheck(lambda one, two: fg.ranking_loss(one, two, same, 0.7), values)


def test_extreme_and_missing_values():
    more = torch.tensor([1e30, -1e30, float("nan"), 0.0, float("nan")], requires_grad=True)
    less = torch.tensor([-1e30, 1e30, 1.0, float("nan"), 2.0], requires_grad=True)
    losses = fg.ranking_loss(more, less, reduction="none")
    assert losses.tolist() == pytest.approx([0.0, 2e30, 0.0, 0.0, 0.0])
    fg.ranking_loss(more, less).backward()
    assert more.grad.tolist() == pytest.approx([0.0, -0.5, 0.0, 0.0, 0.0])
    assert less.grad.tolist() == pytest.approx([0.0, 0.5, 0.0, 0.0, 0.0])
    nothing = torch.full((2,), float("nan"))
    assert fg.ranking_loss(nothing, nothing).item() == 0.0
    assert fg.ranking_loss(torch.empty(0), torch.empty(0)).item() == 0.0


def test_infinite_values():
    infinite = float("inf")
    more = torch.tensor([infinite, -infinite, infinite, 0.0], requires_grad=True)
    less = torch.tensor([infinite, -infinite, 0.0, infinite], requires_grad=True)
    for same in (None, torch.tensor([True, True, False, False])):
        losses = fg.ranking_loss(more, less, same, reduction="none")
        assert losses.tolist() == pytest.approx([math.log(2), math.log(2), 0, infinite])
        slopes = torch.autograd.grad(losses[:3].sum(), (more, less))
        assert [slope.tolist() for slope in slopes] == [[0.0] * 4] * 2


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_does_not_overflow(dtype):
    more, less = torch.tensor([-6e4, 1.0], dtype=dtype, requires_grad=True), torch.tensor([6e4, 1.0], dtype=dtype)
    losses = fg.ranking_loss(more, less, reduction="none")
    assert losses.dtype == torch.float32
    assert losses.tolist() == pytest.approx([1.2e5, math.log(2)], rel=1e-2)
    losses.sum().backward()
    assert more.grad.tolist() == [-1, -0.5]


def test_training_by_it_orders_what_a_posterior_expects():
    """The mean of a value is differentiable, of a head without scores for numbers too."""
    heat = fg.Number.from_values("heat", [0.0, 1.0, 3.0])
    graph = fg.LabelGraph(["udon", "ramen", "mapo"], numbers=[heat])
    scores = torch.zeros(3, 3, requires_grad=True)
    more, less = torch.tensor([0, 1, 0]), torch.tensor([1, 2, 2])
    step = torch.optim.SGD([scores], lr=1.0)
    losses = []
    for _ in range(30):
        step.zero_grad()
        value = fg.Posterior(graph, scores).value("heat").mean
        loss = fg.ranking_loss(value[more], value[less], scale=heat.width)
        loss.backward()
        step.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]
    assert value[0] > value[1] > value[2]


@pytest.mark.usefixtures("unchecked")
def test_what_cannot_be_meant():
    pair = torch.zeros(2)
    with pytest.raises(ShapeError, match="one per pair"):
        fg.ranking_loss(pair, torch.zeros(3))
    with pytest.raises(ShapeError, match="two tensors of values, one per pair, got list"):
        fg.ranking_loss(pair, [0.0, 1.0])
    with pytest.raises(ShapeError, match="a mask of 2 pairs"):
        fg.ranking_loss(pair, pair, torch.zeros(2))
    with pytest.raises(ShapeError, match="same: expected a tensor, a mask of 2 pairs, got list"):
        fg.ranking_loss(pair, pair, [True, False])
    for scale in (0, "x", None, True, float("nan")):
        with pytest.raises(InputError, match="scale: expected a finite number above 0, got"):
            fg.ranking_loss(pair, pair, scale=scale)
    with pytest.raises(InputError, match="reduction"):
        fg.ranking_loss(pair, pair, reduction="median")
