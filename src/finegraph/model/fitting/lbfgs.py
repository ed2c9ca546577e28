"""Full-batch minimisation: limited-memory BFGS with a line search that survives rounding.

The caller passes coordinates that are already scaled. The two parts are classical. The direction comes from
the last few steps by the two-loop recursion. The step must lower the value enough and leave a flatter slope (the strong
Wolfe conditions), which keeps the curvature positive even if the function is not convex. Close to a minimum,
differences of values are lost in rounding; there, slopes decide instead (the approximate Wolfe condition of Hager and
Zhang). Everything is deterministic.

Cost: one evaluation per step, rarely two, and at most `MEMORY` pairs of tensors of the size of the point.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

MEMORY = 12
"""How many steps the direction remembers by default."""
_DECREASE, _FLATTER, _MUCH_FLATTER = 1e-4, 0.9, 0.1
"""The constants of the Wolfe conditions: share of the promised decrease, and of the slope that may remain."""
_MAX_TRIALS = 30
_ROUNDING = {torch.float32: 1e-6, torch.float64: 1e-14}
"""Smaller relative differences of values are rounding."""

ValueAndGrad = Callable[[Float[Tensor, " number"]], tuple[float, Float[Tensor, " number"]]]


class Minimum(NamedTuple):
    """The result of a minimisation.

    Attributes:
        point: the last point.
        value: the value there.
        iterations: the number of steps.
        converged: whether the value is within the tolerance.
    """

    point: Float[Tensor, " number"]
    value: float
    iterations: int
    converged: bool


class _Place(NamedTuple):
    """A point with its value, gradient, and the slope along the direction of search."""

    point: Tensor
    value: float
    grad: Tensor
    slope: float


def minimise(
    function: ValueAndGrad,
    start: Float[Tensor, " number"],
    *,
    tolerance: float,
    max_iter: int,
    memory: int = MEMORY,
) -> Minimum:
    """Minimise a smooth function.

    Args:
        function: the value and the gradient at a point.
        start: where to begin.
        tolerance: how far above the minimum the value may be, relative to it. The distance is estimated by half the
            square of the gradient, which is an upper bound if the second derivative is at least 1.
        max_iter: the maximum number of steps.
        memory: how many steps the direction remembers.
    """
    point = start
    value, grad = function(point)
    pairs: deque[tuple[Tensor, Tensor, float]] = deque(maxlen=memory)
    for iteration in range(max_iter + 1):
        norm = float(grad.norm())
        converged = norm * norm / 2 <= tolerance * abs(value)
        if converged or iteration == max_iter:
            break
        place = _step(function, _Place(point, value, grad, 0.0), pairs)
        if place is None:
            break
        change, grad_change = place.point - point, place.grad - grad
        curvature = _dot(change, grad_change)
        if curvature > 0:
            pairs.append((change, grad_change, curvature))
        point, value, grad = place.point, place.value, place.grad
    return Minimum(point, value, iteration, converged)


def _step(function: ValueAndGrad, here: _Place, pairs: deque[tuple[Tensor, Tensor, float]]) -> _Place | None:
    """The next point; None if no step lowers the value any more, not even along the gradient."""
    for attempt in ("remembered", "steepest"):
        if attempt == "steepest":
            if not pairs:
                return None
            pairs.clear()
        direction = _direction(here.grad, pairs)
        slope = _dot(here.grad, direction)
        # Without memory the length of the gradient means nothing: search along it carefully, from a step of length 1.
        flatter, length = (_FLATTER, 1.0) if pairs else (_MUCH_FLATTER, min(1.0, 1.0 / float(direction.norm())))
        if slope < 0 and (place := _line_search(function, here._replace(slope=slope), direction, length, flatter)):
            return place
    return None


def _direction(grad: Tensor, pairs: deque[tuple[Tensor, Tensor, float]]) -> Tensor:
    """Minus the gradient times the inverse Hessian that the last steps suggest."""
    direction = grad.neg()
    factors = []
    for change, grad_change, curvature in reversed(pairs):
        factor = _dot(change, direction) / curvature
        direction.sub_(grad_change, alpha=factor)
        factors.append(factor)
    if pairs:
        change, grad_change, curvature = pairs[-1]
        direction.mul_(curvature / _dot(grad_change, grad_change))
    for (change, grad_change, curvature), factor in zip(pairs, reversed(factors), strict=True):
        direction.add_(change, alpha=factor - _dot(grad_change, direction) / curvature)
    return direction


def _line_search(
    function: ValueAndGrad, here: _Place, direction: Tensor, length: float, flatter: float
) -> _Place | None:
    """A point along the direction that meets the Wolfe conditions, or None if rounding hides all progress."""
    low, high, low_slope = 0.0, math.inf, here.slope
    for _ in range(_MAX_TRIALS):
        point = torch.add(here.point, direction, alpha=length)
        value, grad = function(point)
        slope = _dot(grad, direction)
        if not _lower(here, value, slope, length, grad.dtype) or slope > -flatter * here.slope:
            high = length
        elif slope < flatter * here.slope:
            low, low_slope = length, slope
        else:
            return _Place(point, value, grad, slope)
        length = _next_length(low, high, low_slope, slope)
    return None


def _lower(here: _Place, value: float, slope: float, length: float, dtype: torch.dtype) -> bool:
    """Whether the value is low enough, or equal up to rounding with a slope that proves the decrease."""
    if not (math.isfinite(value) and math.isfinite(slope)):
        return False
    if value <= here.value + _DECREASE * length * here.slope:
        return True
    as_good = value <= here.value + _ROUNDING[dtype] * abs(here.value)
    return as_good and slope <= (2 * _DECREASE - 1) * here.slope


def _next_length(low: float, high: float, low_slope: float, slope: float) -> float:
    """A longer step while no upper end is known, else one inside the bracket, by the slopes if possible."""
    if high == math.inf:
        return low * 4
    width = high - low
    if not (math.isfinite(slope) and slope > low_slope):
        return low + width / 2
    guess = low + width * -low_slope / (slope - low_slope)
    return min(max(guess, low + 0.1 * width), low + 0.5 * width)


def _dot(one: Tensor, two: Tensor) -> float:
    return float(torch.dot(one.reshape(-1), two.reshape(-1)))
