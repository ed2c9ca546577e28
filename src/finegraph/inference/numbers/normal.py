"""Normal distributions, whole and truncated to an interval, without loss of digits in their tails.

    log_interval       log P(low <= z <= high) of a standard normal z, without a difference of nearly equal numbers
    interval_log_prob  the same for any mean and variance; with variance 0, a point is inside or outside
    cut_moments        the mean and variance of g(v) for a normal v cut to an interval

The closed forms for the moments of a truncated normal cancel far out in a tail. So they are computed by Gauss-Legendre
quadrature over the stretch that holds all but exp(-40) of the mass: exact up to rounding, wherever the cut is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

Rising = Callable[[Float[Tensor, "*shape"]], Float[Tensor, "*shape"]]
"""An increasing function, such as the map to the user's unit."""
_NODES = 96
_NEGLIGIBLE = 40.0
"""Densities below exp(-40) of the largest are left out of the quadrature."""
_NEAR = 8.0
"""Up to this many deviations from 0, `erfc` itself is as precise as its scaled form."""
_ROOT_HALF = math.sqrt(0.5)
_NARROW = 1e-2
"""On an interval narrower than this, relative to the length on which the density changes, the density is taken as
constant with a second-order correction."""


def log_interval(
    low: Float[Tensor, "*#shape"], high: Float[Tensor, "*#shape"], width: Float[Tensor, "*#shape"]
) -> Float[Tensor, "*#shape"]:
    """The log probability that a standard normal variable is in an interval, in float64.

    Args:
        low: the lower end, which may be minus infinity.
        high: the upper end, which may be infinity; at least `low`.
        width: high - low, computed by the caller without the rounding error of the two; at least 0.
    """
    if torch.compiler.is_compiling():
        return _log_interval_of(low, high, width)
    # The slower formulas are for special cases only, in batches of any size: one photo gets the digits that many do.
    narrow, empty = _special_cases(low, high, width)
    # An interval above 0 is mirrored to below 0. So near 0, tails are a difference that loses no digits.
    above = low > 0
    near, far = torch.where(above, -low, high), torch.where(above, -high, low)
    result: Tensor = torch.special.erfc(near * -_ROOT_HALF).sub_(torch.special.erfc(far * -_ROOT_HALF))
    result.mul_(0.5).log_()
    others = (narrow | empty | (near < -_NEAR)).view(-1).nonzero().squeeze(1)
    if len(others):
        few = (values.expand_as(narrow).reshape(-1)[others] for values in (low, high, width))
        result = result.expand_as(narrow).contiguous()
        result.view(-1)[others] = _log_interval_of(*few)
    return result


def _log_interval_of(
    low: Float[Tensor, "*#shape"], high: Float[Tensor, "*#shape"], width: Float[Tensor, "*#shape"]
) -> Float[Tensor, "*#shape"]:
    """`log_interval` wherever the interval is."""
    central = (low <= 0) & (high >= 0)
    narrow, empty = _special_cases(low, high, width)
    result = torch.where(central, _log_of_central(low, high), _log_of_tail(low, high, width))
    result = torch.where(narrow, _log_of_strip(low, high, width), result)
    return torch.where(empty, -torch.inf, result)


def _special_cases(
    low: Float[Tensor, "*#shape"], high: Float[Tensor, "*#shape"], width: Float[Tensor, "*#shape"]
) -> tuple[Bool[Tensor, "*#shape"], Bool[Tensor, "*#shape"]]:
    """Which intervals are narrow, and which are empty."""
    narrow = width * (0.5 * (low + high)).abs().clamp_min(1.0) < _NARROW
    return narrow, low.isposinf() | high.isneginf() | (width <= 0)


def _log_of_central(low: Float[Tensor, "*#shape"], high: Float[Tensor, "*#shape"]) -> Float[Tensor, "*#shape"]:
    """`log_interval` of an interval around 0."""
    return torch.log(0.5 * (torch.special.erf(high / math.sqrt(2.0)) - torch.special.erf(low / math.sqrt(2.0))))


def _log_of_tail(
    low: Float[Tensor, "*#shape"], high: Float[Tensor, "*#shape"], width: Float[Tensor, "*#shape"]
) -> Float[Tensor, "*#shape"]:
    """`log_interval` of an interval above or below 0."""
    # An interval above 0 is mirrored to below 0, so that both ends are negative.
    near = torch.where(low > 0, -low, high)
    far = torch.where(low > 0, -high, low)
    decay = torch.exp(0.5 * width * (near + far))
    beyond = decay * torch.special.erfcx(-far / math.sqrt(2.0))
    beyond = torch.where(far.isinf(), 0.0, beyond)
    return torch.log(0.5 * (torch.special.erfcx(-near / math.sqrt(2.0)) - beyond)) - 0.5 * near * near


def _log_of_strip(
    low: Float[Tensor, "*#shape"], high: Float[Tensor, "*#shape"], width: Float[Tensor, "*#shape"]
) -> Float[Tensor, "*#shape"]:
    """`log_interval` of an interval on which the density hardly changes."""
    middle = 0.5 * (low + high)
    return (
        torch.log(width)
        + torch.log1p(width * width * (middle * middle - 1.0) / 24.0)
        - 0.5 * (middle * middle + math.log(2.0 * math.pi))
    )


def interval_log_prob(
    mean: Float[Tensor, "#batch component"],
    variance: Float[Tensor, "#batch component"],
    low: Float[Tensor, "#batch 1"],
    high: Float[Tensor, "#batch 1"],
) -> Float[Tensor, "_ component"]:
    """The log probability that normal variables are in an interval, ends included; variance 0 is a point."""
    point = variance == 0
    at_point = torch.where((low <= mean) & (mean <= high), 0.0, -torch.inf).to(mean.dtype)
    if not torch.compiler.is_compiling() and bool(point.all()):
        return at_point
    deviation = torch.where(point, 1.0, variance).sqrt()
    inside = log_interval((low - mean) / deviation, (high - mean) / deviation, (high - low) / deviation)
    return torch.where(point, at_point, inside)


def cut_moments(
    mean: Float[Tensor, "batch component"],
    variance: Float[Tensor, "batch component"],
    low: Float[Tensor, "batch 1"],
    high: Float[Tensor, "batch 1"],
    of: Rising = lambda value: value,
    growth: float = 0.0,
) -> tuple[Float[Tensor, "batch component"], Float[Tensor, "batch component"]]:
    """The mean and variance of a function of normal variables that are cut to an interval.

    Args:
        mean: the mean before the cut.
        variance: the variance before the cut; 0 is a point.
        low: the lower end of the interval.
        high: the upper end of the interval.
        of: the function; the identity by default.
        growth: an upper bound on the growth rate of the function, as a rate of its logarithm.
    """
    point = variance == 0
    deviation = torch.where(point, 1.0, variance).sqrt()
    start, stop = _stretch(mean, deviation, low, high, growth)
    top = mean.clamp(low, high)
    nodes, weights = _gauss_legendre(_NODES)
    half, middle = 0.5 * (stop - start), 0.5 * (stop + start)
    total = torch.zeros_like(half)
    first, second = torch.zeros_like(half), torch.zeros_like(half)
    base = of(top)
    for node, weight in zip(nodes, weights, strict=True):
        place = middle + node * half
        # Relative to the density at the top, so that nothing underflows far out in a tail.
        offset = (place - top) / deviation
        density = weight * torch.exp(-offset * (0.5 * offset + (top - mean) / deviation))
        value = of(place) - base
        total = total + density
        first = first + density * value
        second = second + density * value * value
    shift = torch.where(point, 0.0, first / total)
    spread = torch.where(point, 0.0, second / total - shift * shift)
    return torch.where(point, of(mean), base + shift), spread.clamp_min(0.0)


def _stretch(
    mean: Float[Tensor, "batch component"],
    deviation: Float[Tensor, "batch component"],
    low: Float[Tensor, "batch 1"],
    high: Float[Tensor, "batch 1"],
    growth: float,
) -> tuple[Float[Tensor, "batch component"], Float[Tensor, "batch component"]]:
    """The stretch on which the cut density, also times the square of a growing function, is not negligible."""
    ends = []
    for centre in (mean, mean + 2.0 * growth * deviation * deviation):
        top = centre.clamp(low, high)
        distance = (top - centre).abs() / deviation
        reach = deviation * 2.0 * _NEGLIGIBLE / (distance + (distance * distance + 2.0 * _NEGLIGIBLE).sqrt())
        ends.append((torch.maximum(top - reach, low), torch.minimum(top + reach, high)))
    return torch.minimum(ends[0][0], ends[1][0]), torch.maximum(ends[0][1], ends[1][1])


@lru_cache(maxsize=1)
def _gauss_legendre(count: int) -> tuple[list[float], list[float]]:
    """Nodes between -1 and 1, and their weights."""
    nodes, weights = np.polynomial.legendre.leggauss(count)
    return nodes.tolist(), weights.tolist()
