r"""Normal distributions cut to an interval, in closed forms that a traced program can hold, in float64.

All is computed relative to the density at the *top*, the point of the interval that is nearest to the mean m. With the
deviation d, c = (top - m) / d, z = (x - m) / d and the distance o = (x - top) / d:

    Q(x)  =  1/2 exp(-o (o / 2 + c)) erfcx(|z| / sqrt 2)               never a difference of nearly equal numbers
    H(x)  =  Q(x) for z < 0, else (1 if c = 0 else 0) - Q(x)           increases on the interval

    log P(low <= v <= high)  =  log(H(high) - H(low)) - c^2 / 2
    P(v <= x | low <= v <= high)  =  (H(x) - H(low)) / (H(high) - H(low))
    E[v]  =  m + d (exp(-o_low (o_low / 2 + c)) - exp(-o_high (o_high / 2 + c))) / (sqrt(2 pi) (H(high) - H(low)))

An interval that is narrow, relative to the length on which the density changes, is taken as a strip with a correction
of second order. Values with variance 0 are exact. `cut_normal_nodes.py` writes the same as ONNX operations.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

NARROW = 1e-2
"""An interval is narrow if its width, relative to the length on which the density changes, is below this."""
_HALF_LOG = 0.5 * math.log(2.0 * math.pi)


class Ends(NamedTuple):
    """The ends of the interval of each sample; infinite where there is none."""

    low: Float[Tensor, "batch 1"]
    high: Float[Tensor, "batch 1"]


class CutNormals:
    """Normal distributions cut to the interval of each sample.

    Attributes:
        mean, variance: (batch or 1, component) before the cut.
        ends: the interval.
    """

    def __init__(self, mean: Float[Tensor, "_ component"], variance: Float[Tensor, "_ component"], ends: Ends) -> None:
        self.mean, self.variance, self.ends = mean, variance, ends
        self.exact: Bool[Tensor, "_ component"] = variance == 0
        self.deviation = torch.where(self.exact, 1.0, variance).sqrt()
        self.top = torch.minimum(torch.maximum(mean, ends.low), ends.high)
        self.c = (self.top - mean) / self.deviation
        self.central = (self.c == 0).to(mean.dtype)
        self.low_level = self._level(ends.low)
        self.mass = self._level(ends.high) - self.low_level
        self.width = (ends.high - ends.low) / self.deviation
        self.middle = 0.5 * ((ends.low - mean) / self.deviation + (ends.high - mean) / self.deviation)
        self.narrow = self.width * self.middle.abs().clamp_min(1.0) < NARROW

    def probability_below(self, value: Float[Tensor, "*place batch 1"]) -> Float[Tensor, "*place batch component"]:
        """The probability that each cut variable is at most a value inside of the interval."""
        share = (value - self.ends.low) / (self.ends.high - self.ends.low)
        share = share * (1.0 + 0.5 * self.width * self.middle * (1.0 - share))
        below = torch.where(self.narrow, share, (self._level(value) - self.low_level) / self.mass)
        return torch.where(self.exact, (value >= self.mean).to(below.dtype), below)

    def mean_of(self) -> Float[Tensor, "batch component"]:
        """The mean of each cut variable."""
        low, high = (self._density(self._distance(end)) for end in self.ends)
        mean = self.mean + self.deviation * (low - high) / (math.sqrt(2.0 * math.pi) * self.mass)
        strip = 0.5 * (self.ends.low + self.ends.high) - self.deviation * self.middle * self.width.square() / 12.0
        mean = torch.where(self.narrow, strip, mean)
        mean = torch.minimum(torch.maximum(mean, self.ends.low), self.ends.high)
        return torch.where(self.exact, self.mean, mean)

    def log_mean_of_exp(self, factor: float) -> Float[Tensor, "batch component"]:
        """The log of the expected value of exp(factor v) of each cut variable v.

        exp(factor v) times a normal density is that of another mean, times a constant. The squares of both c are taken
        together, as one alone may be larger than all digits.

        Args:
            factor: what the variables are multiplied by.
        """
        other = CutNormals(self.mean + factor * self.variance, self.variance, self.ends)
        step = (self.top - other.top) / self.deviation + factor * self.deviation
        found = other.rest - self.rest + step * 0.5 * (self.c + other.c)
        plain = factor * self.mean
        return torch.where(self.exact, plain, plain + (0.5 * factor * factor * self.variance + found))

    @cached_property
    def rest(self) -> Float[Tensor, "batch component"]:
        """What log P(low <= v <= high) + c^2 / 2 is."""
        across = self.width * self.middle
        bend = (across * across - self.width * self.width) / 24.0
        step = (0.5 * (self.ends.low + self.ends.high) - self.top) / self.deviation
        strip = self.width.log() + torch.log1p(bend) - step * 0.5 * (self.middle + self.c) - _HALF_LOG
        return torch.where(self.narrow, strip, self.mass.log())

    def _distance(self, value: Float[Tensor, "*place batch 1"]) -> Float[Tensor, "*place batch component"]:
        return (value - self.top) / self.deviation

    def _density(self, distance: Float[Tensor, "*place batch component"]) -> Float[Tensor, "*place batch component"]:
        """exp(-o (o / 2 + c)): the density relative to that at the top."""
        return torch.exp(-distance * (0.5 * distance + self.c))

    def _level(self, value: Float[Tensor, "*place batch 1"]) -> Float[Tensor, "*place batch component"]:
        """H of a value."""
        distance = self._distance(value)
        z = self.c + distance
        tail = 0.5 * self._density(distance) * torch.special.erfcx(z.abs() * math.sqrt(0.5))
        return torch.where(z < 0, tail, self.central - tail)
