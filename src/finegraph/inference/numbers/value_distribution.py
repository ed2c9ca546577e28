"""The posterior distribution of a value: a mixture of normal distributions, one per component of the number.

    P(v <= x)  =  sum_u P(u) P(v <= x | u)          P(u) = the probability of the fine labels of component u

On a log scale, the components are log-normal in the user's unit. Evidence may cut them to an interval. An exact value
is a point, at which the distribution function jumps. All answers are in the user's unit and in float64.

`mixture_search.py` finds quantiles and shortest intervals, `large_mixture.py` those of very many components.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from finegraph.errors import InputError
from finegraph.graph import Number
from finegraph.inference.numbers.known_values import interval_of
from finegraph.inference.numbers.large_mixture import Search, search_of
from finegraph.inference.numbers.normal import cut_moments
from finegraph.inference.numbers.potential import Components

_ROUNDING = 1e-13
"""The relative rounding error of a value that went to the inner scale and back."""


class Interval(NamedTuple):
    """The ends of an interval, for each sample, in the user's unit."""

    low: Float[Tensor, " batch"]
    high: Float[Tensor, " batch"]


@dataclass(frozen=True, eq=False)
class ValueDistribution:
    """The distribution of one number for each sample of a batch; `Posterior.value` returns it.

    Attributes:
        number: the number, with its scale and unit.
        weights: the probability of each component.
        components: the components on the inner scale.

    Example:
        >>> from finegraph import LabelGraph, Number, Posterior
        >>> price = Number.from_values("price", [9.0, 12.0, 15.0], unit="EUR")
        >>> graph = LabelGraph(["soup", "noodles", "duck"], numbers=[price])
        >>> value = Posterior(graph, torch.tensor([[0.5, 0.3, 0.2]]).log()).value("price")
        >>> round(value.mean.item(), 6), value.quantile(0.5).item(), round(value.probability("<= 12").item(), 6)
        (11.1, 9.0, 0.8)
        >>> [end.item() for end in value.interval(0.8)]
        [9.0, 12.0]
    """

    number: Number
    weights: Float[Tensor, "batch component"]
    components: Components

    def __len__(self) -> int:
        return len(self.weights)

    def __repr__(self) -> str:
        return f"ValueDistribution({self.number.name!r}, {len(self)} samples)"

    @property
    def name(self) -> str:
        """The name of the number."""
        return self.number.name

    @property
    def unit(self) -> str:
        """The unit of the number; may be empty."""
        return self.number.unit

    # ---- mean and spread --------------------------------------------------------------------------------------------

    @cached_property
    def _moments(self) -> tuple[Float[Tensor, "batch component"], Float[Tensor, "batch component"]]:
        """The mean and variance of each component, in the user's unit and after the cut."""
        centre, width = self.number.centre, self.number.width
        log = self.number.scale == "log"
        _, mean, variance, low, high = self._expanded
        if low is not None and high is not None:
            return cut_moments(mean, variance, low, high, self.to_outer, growth=width if log else 0.0)
        if not log:
            return centre + width * mean, width * width * variance
        spread = width * width * variance
        average = torch.exp(centre + width * mean + 0.5 * spread)
        return average, average * average * torch.expm1(spread)

    @property
    def mean(self) -> Float[Tensor, " batch"]:
        """The expected value; differentiable, so that it can be trained on."""
        return self._total(self._moments[0])

    @property
    def spread(self) -> Float[Tensor, " batch"]:
        """The standard deviation."""
        mean, variance = self._moments
        difference = mean - self.mean.unsqueeze(1)
        return self._total(variance + difference * difference).sqrt()

    def _total(self, values: Float[Tensor, "batch component"]) -> Float[Tensor, " batch"]:
        """The sum over components, weighted by probability; impossible ones may hold NaN and do not count."""
        return torch.where(self.weights == 0, 0.0, self.weights * values).sum(dim=1)

    def _known(self, values: Float[Tensor, "batch 1"]) -> Float[Tensor, " batch"]:
        """Values found by a search, in the user's unit; NaN for samples whose probabilities are NaN.

        A value of a fine label comes back as it was given, without the rounding of the inner scale.
        """
        outer = self.to_outer(values).squeeze(1)
        given = torch.from_numpy(self.number.distinct).to(outer)
        if len(given):
            after = torch.searchsorted(given, outer.contiguous())
            near = torch.stack([given[(after - 1).clamp_min(0)], given[after.clamp_max(len(given) - 1)]])
            size = _ROUNDING * (outer.abs() + (abs(self.number.centre) if self.number.scale == "linear" else 0.0))
            for one in near:
                outer = torch.where((outer - one).abs() <= size, one, outer)
        return outer.masked_fill(self.weights.isnan().any(dim=1), torch.nan)

    # ---- probabilities ----------------------------------------------------------------------------------------------

    def probability(self, condition: object) -> Float[Tensor, " batch"]:
        """The probability of a condition: `"<= 15"`, `"> 10"`, `"10 to 15"`, or a pair `(10, 15)`, ends included."""
        low, high = interval_of(self.number, condition)
        with torch.no_grad():
            ends = (self.weights.new_full((len(self), 1), end) for end in (low, high))
            return self._total(self.component_probabilities(*ends)).clamp(0.0, 1.0)

    def component_probabilities(
        self, low: Float[Tensor, "batch 1"], high: Float[Tensor, "batch 1"]
    ) -> Float[Tensor, "batch component"]:
        """The probability of an interval on the inner scale, ends included, given each component."""
        return self._expanded.interval_probabilities(low, high)

    def quantile(self, q: float) -> Float[Tensor, " batch"]:
        """The smallest value that is not exceeded with a probability of at least `q`."""
        if not isinstance(q, Real) or not 0.0 <= float(q) <= 1.0:
            raise InputError(f"quantile: expected a probability from 0 to 1, got {q!r}")
        with torch.no_grad():
            return self._known(self._search.quantile(self.weights.new_full((len(self), 1), q)))

    def interval(self, probability: float) -> Interval:
        """The shortest interval, ends included, that holds the value with at least this probability."""
        if not isinstance(probability, Real) or not 0.0 < float(probability) < 1.0:
            raise InputError(f"interval: expected a probability above 0 and below 1, got {probability!r}")
        low, high = self.inner_interval(probability)
        return Interval(self._known(low), self._known(high))

    def inner_interval(self, probability: float) -> tuple[Float[Tensor, "batch 1"], Float[Tensor, "batch 1"]]:
        """The ends of `interval` on the inner scale, computed once for each probability."""
        if probability not in self._intervals:
            with torch.no_grad():
                growth = self.number.width if self.number.scale == "log" else 0.0
                self._intervals[probability] = self._search.shortest_interval(probability, self.to_outer, growth)
        return self._intervals[probability]

    @cached_property
    def _intervals(self) -> dict[float, tuple[Tensor, Tensor]]:
        return {}

    @cached_property
    def _search(self) -> Search:
        _, mean, variance, low, high = self._expanded
        return search_of(self.weights.detach(), mean.detach(), variance.detach(), low, high)

    @property
    def _expanded(self) -> Components:
        """The components, expanded to one row per sample."""
        term, mean, variance, low, high = self.components
        shape = self.weights.shape
        return Components(term.expand(shape), mean.expand(shape), variance.expand(shape), low, high)

    def to_outer(self, inner: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Convert inner values to the user's unit."""
        value = self.number.centre + self.number.width * inner
        return value.exp() if self.number.scale == "log" else value
