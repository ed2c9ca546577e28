"""The minimiser on functions whose minimum is known."""

from __future__ import annotations

import pytest
import torch

from finegraph.model.fitting.lbfgs import minimise


def with_grad(function):
    def both(point):
        point = point.clone().requires_grad_()
        value = function(point)
        (grad,) = torch.autograd.grad(value, point)
        return float(value.detach()), grad

    return both


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_badly_scaled_quadratic_is_solved(dtype):
    curvature = torch.logspace(0, 3, 60, dtype=dtype)
    goal = torch.linspace(-1, 1, 60, dtype=dtype)
    end = minimise(
        with_grad(lambda x: 1 + 0.5 * (curvature * (x - goal) ** 2).sum()),
        torch.zeros(60, dtype=dtype),
        tolerance=1e-8,
        max_iter=500,
    )
    assert end.converged
    assert end.iterations < 250
    assert torch.allclose(end.point, goal, atol=1e-3)
    assert end.value - 1 <= (1e-8 if dtype == torch.float64 else 1e-6)


def test_a_curved_valley_that_is_not_convex_is_followed_to_its_end():
    def rosenbrock(x):
        return 1 + (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()

    start = torch.full((6,), -1.2, dtype=torch.float64)
    end = minimise(with_grad(rosenbrock), start, tolerance=1e-14, max_iter=500)
    assert end.converged
    assert end.value == pytest.approx(1.0, abs=1e-9)


def test_steps_into_infinity_are_taken_back():
    barrier = with_grad(lambda x: (x - x.log()).sum())  # NaN below 0, minimum 1 each at x = 1
    end = minimise(barrier, torch.full((3,), 30.0, dtype=torch.float64), tolerance=1e-12, max_iter=100)
    assert end.converged
    assert torch.allclose(end.point, torch.ones(3, dtype=torch.float64), atol=1e-5)


def test_steps_to_where_there_is_no_gradient_are_taken_back():
    def half_known(point):
        grad = 2 * (point - 1)
        return 1 + float(((point - 1) ** 2).sum()), torch.where(point > 1.5, torch.nan, grad)

    end = minimise(half_known, torch.full((2,), -9.0, dtype=torch.float64), tolerance=1e-10, max_iter=100)
    assert end.converged
    assert torch.allclose(end.point, torch.ones(2, dtype=torch.float64), atol=1e-4)


def test_a_start_at_the_minimum_is_the_answer():
    start = torch.zeros(4, dtype=torch.float64)
    end = minimise(with_grad(lambda x: (x**2).sum()), start, tolerance=1e-4, max_iter=10)
    assert (end.iterations, end.converged) == (0, True)
    assert torch.equal(end.point, start)


def test_too_few_steps_are_reported():
    curvature = torch.logspace(0, 4, 60, dtype=torch.float64)
    function = with_grad(lambda x: 1 + 0.5 * (curvature * (x - 1) ** 2).sum())
    end = minimise(function, torch.zeros(60, dtype=torch.float64), tolerance=1e-8, max_iter=3)
    assert (end.iterations, end.converged) == (3, False)
    assert end.value < function(torch.zeros(60, dtype=torch.float64))[0]


def test_a_function_that_cannot_be_lowered_ends_the_search():
    def wrong_way(point):
        return 1 + float(point.sum() ** 2), torch.ones_like(point)  # the gradient lies: the value rises on both sides

    end = minimise(wrong_way, torch.zeros(2, dtype=torch.float64), tolerance=1e-8, max_iter=100)
    assert (end.iterations, end.converged, end.value) == (0, False, 1.0)


def test_the_distance_to_the_minimum_is_as_promised():
    curvature = torch.logspace(0, 3, 40, dtype=torch.float64)  # at least 1, as the estimate asks for
    function = with_grad(lambda x: 2 + 0.5 * (curvature * (x - 1) ** 2).sum())
    for tolerance in (1e-2, 1e-4, 1e-6):
        end = minimise(function, torch.zeros(40, dtype=torch.float64), tolerance=tolerance, max_iter=500)
        assert end.converged
        assert tolerance**2 * end.value < end.value - 2 <= tolerance * end.value  # enough, and not far too much
