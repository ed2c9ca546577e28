"""Quantiles and shortest intervals of mixtures with very many components, in two steps.

First, components with nearly equal means and deviations are merged into some hundred normal distributions. The search
of `mixture_search.py` among these finds about where the answer is. Then the distribution function of all components is
expanded around this value x, with z = (x - mean) / deviation of each component u:

    F(x + d)  =  sum_k c_k d^k          c_k  =  sum_u w_u (-1)^(k-1) He_(k-1)(z_u) phi(z_u) / (k! deviation_u^k)

The rest of this series is below w_u 0.44 sqrt(n!) / (n + 1)! exp(-z^2 / 4) (d / deviation_u)^(n + 1) for the degree n
(Cramer's bound of Hermite polynomials). Components for which it may exceed 1e-20 are summed one by one, and so are
points, so the expansion is exact up to rounding within its reach. If the answer turns out to lie outside, the expansion
is made again there. Cost per sample: a few dozen passes over the components.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from finegraph.inference.numbers.mixture_search import PLACES, ROUNDING, MixtureSearch, interval_lengths
from finegraph.inference.numbers.normal import Rising, log_interval

MANY_COMPONENTS = 4096
"""With more components, the two steps take less time than a search among all."""
_DEGREE, _MAX_ERROR = 10, 1e-20
"""The degree of expansions, and the error of a component that is expanded."""
_REACH, _NARROW, _FAR, _EXAMPLES = 0.09, 256, 12.0, 8192
"""The reach of an expansion in deviations of a narrow component; how many components may be narrower; beyond how many
deviations a component is not counted among these; and how many components are compared to find it."""
_MAX_REST = 1024
"""The reach is halved until at most this many components are summed one by one."""
_CLASSES, _CLASS, _CELLS, _CELL = 24, 0.5, 64, 0.8
"""Merging: how many classes of deviations at most, and how far apart their logarithms to base 2 are at least; how many
cells of means there are in each, and the width of a cell in deviations."""
_ALONE = 128
"""How many of the most probable components are not merged."""
_TRIES, _PARTS, _STEPS, _ROUNDS, _NEWTON_STEPS = 8, 16, 40, 6, 4
"""How often an expansion is made again; into how many parts a stretch is divided, and how often, for quantiles
and for starts of intervals; the number of Newton steps for the end of each interval."""
_FARTHEST = 32.0
"""How many times its reach an expansion is moved at most."""
_PLACES, _HEAVY, _TAIL, _HALVINGS = 256, 32, 1e-6, 9
"""How many evenly spaced starts are tried among the merged components, around how many of the most probable ones more
starts are tried, the probability beyond all starts, and how often a stretch is halved."""
_SIMILAR, _APART, _BESIDE, _SEPARATE = 1e-2, 2e-2, 1e-3, 3
"""The relative difference of lengths up to which several starts are followed; how far these are apart at least, and how
far beside a start the slope of the length is compared, in lengths; how many are followed at most with points."""
_POINTS, _ZOOMS = 128, 8
"""With points: how many are tried as the start of an interval, and how often the best stretch is divided."""


@runtime_checkable
class Search(Protocol):
    """What finds quantiles and shortest intervals; see `MixtureSearch`."""

    def quantile(self, q: Float[Tensor, "batch place"]) -> Float[Tensor, "batch place"]:
        """The smallest value whose distribution function is at least q."""

    def shortest_interval(
        self, probability: float, outer: Rising, growth: float = 0.0
    ) -> tuple[Float[Tensor, "batch 1"], Float[Tensor, "batch 1"]]:
        """The ends of the shortest interval with at least this probability."""


def search_of(
    weights: Float[Tensor, "batch component"],
    mean: Float[Tensor, "batch component"],
    variance: Float[Tensor, "batch component"],
    low: Float[Tensor, "batch 1"] | None,
    high: Float[Tensor, "batch 1"] | None,
) -> Search:
    """The search that takes the least time for this many components; arguments are as for `MixtureSearch.of`."""
    whole = MixtureSearch.of
    if weights.shape[1] <= MANY_COMPONENTS or not len(weights) or not bool(variance.any()):
        return whole(weights, mean, variance, low, high)
    samples: list[Search] = []
    for row in range(len(weights)):
        one = slice(row, row + 1)
        if bool(weights[row, 0].isnan()):  # there is no answer, and no need to look for it
            samples.append(whole(weights[one, :1], mean[one, :1], variance[one, :1], None, None))
            continue
        ends = (None if end is None else end.expand(len(weights), 1)[one] for end in (low, high))
        search = whole(weights[one], mean[one], variance[one], *ends)
        # Few components may have a probability that counts.
        many = search.mean.shape[1] > MANY_COMPONENTS and not search.points
        samples.append(LargeMixture(search) if many else search)
    return _SampleSearches(samples)


@dataclass(frozen=True, eq=False)
class _SampleSearches:
    """A search for each sample."""

    searches: Sequence[Search]

    def quantile(self, q: Float[Tensor, "batch place"]) -> Float[Tensor, "batch place"]:
        """The quantiles of each sample."""
        return torch.cat([search.quantile(row) for search, row in zip(self.searches, torch.split(q, 1), strict=True)])

    def shortest_interval(
        self, probability: float, outer: Rising, growth: float = 0.0
    ) -> tuple[Float[Tensor, "batch 1"], Float[Tensor, "batch 1"]]:
        """The shortest interval of each sample."""
        found = [search.shortest_interval(probability, outer, growth) for search in self.searches]
        low, high = (torch.cat(ends) for ends in zip(*found, strict=True))
        return low, high


def merged_components(
    weights: Float[Tensor, " component"], mean: Float[Tensor, " component"], deviation: Float[Tensor, " component"]
) -> tuple[Float[Tensor, " _"], Float[Tensor, " _"], Float[Tensor, " _"]]:
    """The weights, means and deviations of groups of components with nearly equal means and deviations.

    Args:
        weights: the probabilities of the components; not all 0.
        mean: their means.
        deviation: their standard deviations; 0 for a point.
    """
    sum_of_weights = weights.sum()
    centre = weights @ mean / sum_of_weights
    away = mean - centre
    half = 4.5 * (weights @ away.square() / sum_of_weights).sqrt() + torch.finfo(mean.dtype).tiny
    size = deviation.log2()
    smallest = size.masked_fill(deviation == 0, torch.inf).amin()
    step = ((size.amax() - smallest) / _CLASSES).clamp_min(_CLASS)
    group = ((size - smallest) / step).clamp_(0, _CLASSES - 1).floor_().masked_fill_(deviation == 0, _CLASSES).long()
    width = torch.exp2(smallest + step * torch.arange(_CLASSES + 1, dtype=mean.dtype, device=mean.device))
    width = (_CELL * width).clamp_min(2 * half / _CELLS)
    width[_CLASSES] = 2 * half / _CELLS  # points
    cell = group * _CELLS + ((away + half) / width[group]).clamp_(0, _CELLS - 1).long()
    total, first, second = (
        torch.bincount(cell, values, (_CLASSES + 1) * _CELLS)
        for values in (weights, weights * away, weights * (away * away).addcmul_(deviation, deviation))
    )
    used = total > 0
    total, first, second = (values[used] for values in (total, first, second))
    first, second = first / total, second / total
    return total, centre + first, (second - first * first).clamp_min_(0.0).sqrt_()


@dataclass(frozen=True, eq=False)
class LargeMixture:
    """The mixture of one sample, which has many components.

    Attributes:
        search: the search among all components.
    """

    search: MixtureSearch

    @cached_property
    def merged(self) -> MixtureSearch:
        """The search among normal distributions with the means and variances of groups of components."""
        return self._merged(self.search.weights[0])

    @cached_property
    def _heavy(self) -> Int[Tensor, " component"]:
        """The most probable components, which are not merged."""
        return self.search.weights[0].topk(min(_ALONE, self.search.weights.shape[1])).indices

    def _merged(self, weights: Float[Tensor, " component"]) -> MixtureSearch:
        """The components merged where these weights are above 0, but for the most probable ones."""
        search, heavy = self.search, self._heavy
        mean, deviation = search.mean[0], search.deviation[0]
        parts = [(weights[heavy], mean[heavy], deviation[heavy])]
        rest = weights.index_fill(0, heavy, 0.0)
        if bool(rest.any()):
            parts.append(merged_components(rest, mean, deviation))
        total, mean, deviation = (torch.cat(values)[None] for values in zip(*parts, strict=True))
        return MixtureSearch(total, mean, deviation, search.low, search.high)

    def near(self, centre: float) -> Expansion:
        """The distribution function near a value."""
        return Expansion(self.search, centre)

    def quantile(self, q: Float[Tensor, "1 place"]) -> Float[Tensor, "1 place"]:
        """The smallest value whose distribution function is at least q."""
        found = [self._quantile(one) for one in q[0].tolist()]
        return q.new_tensor([found])

    def _quantile(self, q: float) -> float:
        _, _, start, stop = (end.item() for end in self.search.ends())
        if q <= 0.0 or q >= 1.0:
            return start if q <= 0.0 else stop
        near = self._around(q)
        asked = self.search.weights.new_tensor([q])
        return (self.search.quantile(asked[None]) if near is None else near.quantile(asked)).item()

    def _around(self, q: float) -> Expansion | None:
        """The distribution function near a quantile; None if this is not found."""
        asked = q
        for _ in range(_TRIES):
            centre = self.merged.quantile(self.search.weights.new_tensor([[min(max(asked, 1e-12), 1.0 - 1e-12)]]))
            near = self.near(centre.item())
            below, here, above = near.cdf(centre.new_tensor([near.low, near.centre, near.high])).tolist()
            if below < q * (1.0 - ROUNDING) <= above:
                return near
            # What the merged components get wrong changes little from here to there.
            asked = q + self.merged.cdf(centre).item() - here
        return None

    def shortest_interval(
        self, probability: float, outer: Rising, growth: float = 0.0
    ) -> tuple[Float[Tensor, "1 1"], Float[Tensor, "1 1"]]:
        """The ends of the shortest interval with at least this probability.

        Args:
            probability: above 0 and below 1.
            outer: the increasing map in which lengths are measured.
            growth: the growth rate of the slope of `outer`.
        """
        found = [
            self._interval_near(start, probability, outer, growth) for start in self._starts(probability, outer, growth)
        ]
        if self._may_end_at_the_cut(found, probability, outer):
            assert self.search.high is not None
            start = self._quantile(1.0 - probability)
            found.append(self._interval_near(start, probability, outer, growth))
            found.append((math.nextafter(start, -math.inf), self.search.high.item()))
        if any(pair is None for pair in found):
            return self.search.shortest_interval(probability, outer, growth)
        low, high = self._ends_of(found)
        best = interval_lengths(low, high, outer).argmin()
        return low[best].view(1, 1), high[best].view(1, 1)

    def _ends_of(self, found: Sequence[tuple[float, float] | None]) -> tuple[Float[Tensor, " _"], Float[Tensor, " _"]]:
        """The lower and the upper ends of intervals."""
        pairs = [pair for pair in found if pair is not None]
        low, high = self.search.mean.new_tensor(pairs).view(-1, 2).unbind(dim=1)
        return low, high

    def _may_end_at_the_cut(
        self, found: Sequence[tuple[float, float] | None], probability: float, outer: Rising
    ) -> bool:
        """Whether the interval that ends at the cut may be shorter than those found, by the merged components."""
        high = self.search.high
        if high is None or high.item() == math.inf:
            return False
        start = self.merged.quantile(torch.full_like(high, 1.0 - probability))
        others = interval_lengths(*self._ends_of(found), outer)
        return bool((interval_lengths(start, high, outer) <= (1.0 + _SIMILAR) * others).all())

    def _places(self) -> Float[Tensor, " place"]:
        """Values at which intervals are tried, in rising order: evenly, and around the most probable components."""
        low, high = (end.item() for end in self.merged.ends()[:2])
        mean = self.search.mean
        even = torch.linspace(low, high, _PLACES, dtype=mean.dtype, device=mean.device)
        sums = self.merged.cdf(even[None])[0]
        first, last = torch.searchsorted(sums, sums.new_tensor([_TAIL, 1.0 - _TAIL])).tolist()
        low, high = even[max(first - 1, 0)].item(), even[min(last, _PLACES - 1)].item()
        even = torch.linspace(low, high, _PLACES, dtype=mean.dtype, device=mean.device)
        heavy = self._heavy[:_HEAVY]
        centre, deviation = mean[0, heavy], self.search.deviation[0, heavy]
        around = centre.unsqueeze(1) + deviation.unsqueeze(1) * mean.new_tensor(PLACES)
        places: Tensor = torch.cat([even, around.view(-1).clamp(low, high)]).sort().values
        return places[torch.diff(places, prepend=places[:1] - 1.0) > 0]

    def _starts(self, probability: float, outer: Rising, growth: float) -> list[float]:
        """About where the intervals start that may be the shortest, by the merged components."""
        places = self._places()
        if bool((self.search.deviation == 0).any()):
            return self._starts_among_points(places, probability, outer)
        merged, row = self.merged, places[None]
        sums = merged.cdf(row)
        starts, _ = merged.smooth_starts(probability, outer, growth, row, sums, _HALVINGS)
        starts = starts.expand(3, -1).clone()
        near = _BESIDE * (merged.near_quantile(merged.cdf(starts[:1]) + probability, row, sums) - starts[:1])
        starts = (starts + torch.cat([torch.zeros_like(near), -near, near])).view(1, -1)
        q = merged.cdf(starts) + probability
        ends = merged.near_quantile(q, row, sums)
        length = interval_lengths(starts, ends, outer).masked_fill_(q >= 1.0, torch.inf)[0, : near.shape[1]]
        slope = merged.density(starts) * torch.exp(growth * (ends - starts)) - merged.density(ends)
        _, before, after = slope.masked_fill_(q >= 1.0, torch.inf).view(3, -1)
        # Not an end of a stretch beyond which intervals are even shorter.
        followed = (before <= 0) & (after > 0) & (length <= (1.0 + _SIMILAR) * length.amin())
        followed[length.argmin()] = True
        starts, near, length = (values[0, : near.shape[1]][followed] for values in (starts, near, length[None]))
        found: list[float] = []
        for place in length.argsort().tolist():
            if all(abs(starts[place].item() - one) > _APART / _BESIDE * near[place].item() for one in found):
                found.append(starts[place].item())
        return found

    def _starts_among_points(self, places: Float[Tensor, " place"], probability: float, outer: Rising) -> list[float]:
        """The same if there are points, at which the length jumps."""
        weights, mean = self.search.weights[0], self.search.mean[0]
        point = self.search.deviation[0] == 0
        smooth = self._merged(weights.masked_fill(point, 0.0)).cdf(places[None])[0]
        points, own = mean[point], weights[point]
        used = (points >= places[0]) & (points <= places[-1])
        starts, order = torch.cat([points[used], places]).sort()
        left = (torch.searchsorted(places, starts) - 1).clamp_(0, len(places) - 2)
        share = (starts - places[left]) / (places[left + 1] - places[left])
        sums = torch.lerp(smooth[left], smooth[left + 1], share)
        jump = torch.cat([own[used], torch.zeros_like(places)])[order]
        after = sums + jump.cumsum(dim=0) + own[points < places[0]].sum()
        before = after - jump
        last = len(starts) - 1
        place = torch.searchsorted(after, before + probability)
        stop, previous = place.clamp(max=last), (place - 1).clamp(0, last)
        part = (before + probability - after[previous]) / (before[stop] - after[previous]).clamp_min(1e-300)
        ends = torch.lerp(starts[previous], starts[stop], part.clamp(0.0, 1.0))
        length = interval_lengths(starts, ends, outer).masked_fill(place > last, torch.inf)
        shortest = length.amin()
        found: list[float] = []
        for _ in range(_SEPARATE):
            best = length.argmin()
            if not found or length[best] <= (1.0 + _SIMILAR) * shortest:
                found.append(starts[best].item())
            # The next one starts elsewhere: neighbours have nearly the same length.
            length = length.masked_fill(
                (starts - starts[best]).abs() <= _APART * (ends[best] - starts[best]), torch.inf
            )
        return found

    def _interval_near(
        self, start: float, probability: float, outer: Rising, growth: float
    ) -> tuple[float, float] | None:
        """The shortest interval that starts near a value; None if it is not found."""
        for _ in range(_TRIES):
            first = self.near(start)
            q = first.cdf(self.search.mean.new_tensor([start]), before=True).item() + probability
            if q > 1.0 + ROUNDING:
                start = self._quantile(1.0 - probability)
                continue
            second = self._around(min(q, 1.0 - 1e-9))
            if second is None:
                return None
            pair = _Pair(first, second, probability, outer, growth)
            start = pair.divided_start() if pair.has_points else pair.stationary_start()
            if not pair.is_at_an_open_end(start, self.search):
                place = self.search.mean.new_tensor([start])
                return start, second.quantile(pair.sums_at(place).clamp_max(1.0)).item()
            start = pair.extrapolated_start(start)
        return None


class Expansion:
    """The distribution function of a mixture near a value, exact up to rounding.

    Attributes:
        centre: the value.
        low: the lower end of where it holds.
        high: the upper end of where it holds.
    """

    def __init__(self, search: MixtureSearch, centre: float) -> None:
        """Expand a mixture.

        Args:
            search: the components of one sample.
            centre: the value.
        """
        point = search.deviation[0] == 0
        log_mass = None if search.low is None else search.log_mass[0]
        self.centre = centre
        weights, mean, deviation = search.weights[0], search.mean[0], search.deviation[0]
        self.points, order = mean[point].sort()
        self.point_sums = torch.nn.functional.pad(weights[point][order].cumsum(dim=0), (1, 0))
        if bool(point.any()):
            weights, mean, deviation = weights[~point], mean[~point], deviation[~point]
            log_mass = None if log_mass is None else log_mass[~point]
        z = (centre - mean) / deviation
        reach, error = self._reach(z, weights, deviation, log_mass)
        low, high = (end.item() for end in search.ends()[:2])
        self.low, self.high = max(centre - reach, low), min(centre + reach, high)
        rest = error > _MAX_ERROR
        self.rest = MixtureSearch(weights[rest][None], mean[rest][None], deviation[rest][None], search.low, search.high)
        others = ~rest
        if bool(rest.any()):
            weights, deviation, z = weights[others], deviation[others], z[others]
            log_mass = None if log_mass is None else log_mass[others]
        cut = None if search.low is None else search.low.item()
        self.terms = self._terms(z, weights, deviation, log_mass, cut)

    def _reach(
        self,
        z: Float[Tensor, " component"],
        weights: Float[Tensor, " component"],
        deviation: Float[Tensor, " component"],
        log_mass: Float[Tensor, " component"] | None,
    ) -> tuple[float, Float[Tensor, " component"]]:
        """How far an expansion reaches, and the error of each component there."""
        if len(z) <= _NARROW:
            return math.inf, torch.full_like(z, torch.inf)
        step = max(1, len(z) // _EXAMPLES)
        near = deviation[::step].masked_fill(z[::step].abs() > _FAR, torch.inf)
        reach = _REACH * near.kthvalue(max(1, _NARROW // step)).values.item()
        reach = reach if reach < math.inf else _REACH * deviation.amin().item()
        factor = 0.44 * math.sqrt(math.factorial(_DEGREE)) / math.factorial(_DEGREE + 1)
        while True:
            share = reach / deviation
            distance = (z.abs() - share).clamp_min_(0.0)
            exponent = distance.square_().mul_(-0.25)
            if log_mass is not None:
                exponent -= log_mass
            error = exponent.exp_().mul_(weights).mul_(factor)
            for _ in range(_DEGREE + 1):
                error.mul_(share)
            if int((error > _MAX_ERROR).sum()) <= _MAX_REST:
                return reach, error
            reach *= 0.5

    def _terms(
        self,
        z: Float[Tensor, " component"],
        weights: Float[Tensor, " component"],
        deviation: Float[Tensor, " component"],
        log_mass: Float[Tensor, " component"] | None,
        low: float | None,
    ) -> Float[Tensor, " term"]:
        """The coefficients c_k of the components that are expanded."""
        if log_mass is None or low is None:
            inside, exponent = torch.special.ndtr(z), -0.5 * z * z
        else:
            width = (self.centre - low) / deviation
            inside = (log_interval(z - width, z, width) - log_mass).exp_()
            exponent = -0.5 * z * z - log_mass
        scale = deviation.reciprocal()
        one = exponent.exp_().mul_(weights).mul_(scale).mul_(1.0 / math.sqrt(2.0 * math.pi))
        sums, before = [weights @ inside, one.sum()], torch.zeros_like(one)
        step, square = z * scale, scale.square()
        # u_(k+1) = - z / deviation u_k / (k + 1) - (k - 1) / ((k + 1) k) u_(k-1) / deviation^2
        for k in range(1, _DEGREE):
            after = (step * one).mul_(-1.0 / (k + 1)).addcmul_(square, before, value=-(k - 1) / ((k + 1) * k))
            before, one = one, after
            sums.append(one.sum())
        return torch.stack(sums)

    def cdf(self, value: Float[Tensor, " place"], *, before: bool = False) -> Float[Tensor, " place"]:
        """The probability of at most each value; of less than it if `before`."""
        away = value - self.centre
        total = self.terms[-1].expand_as(away)
        for term in self.terms[:-1].flip(0):
            total = torch.addcmul(term, total, away)
        points = self.point_sums[torch.searchsorted(self.points, value, right=not before)]
        return total + self.rest.cdf(value[None])[0] + points

    def density(self, value: Float[Tensor, " place"]) -> Float[Tensor, " place"]:
        """The density; points have none."""
        away = value - self.centre
        total = torch.zeros_like(away)
        for k in range(len(self.terms) - 1, 0, -1):
            total = torch.addcmul(k * self.terms[k], total, away)
        return total + self.rest.density(value[None])[0]

    def quantile(self, q: Float[Tensor, " place"]) -> Float[Tensor, " place"]:
        """The smallest value up to `high` whose distribution function is at least q."""
        goal = (q * (1.0 - ROUNDING)).unsqueeze(1)
        low, high = torch.full_like(q, self.low), torch.full_like(q, self.high)
        parts = torch.arange(1, _PARTS, device=q.device) / _PARTS
        for _ in range(_STEPS):
            inner = low.unsqueeze(1) + (high - low).unsqueeze(1) * parts
            inner = torch.minimum(torch.maximum(inner, low.unsqueeze(1)), high.unsqueeze(1))
            enough = self.cdf(inner.view(-1)).view_as(inner) >= goal
            new_low = torch.where(enough, low.unsqueeze(1), inner).amax(dim=1)
            new_high = torch.where(enough, inner, high.unsqueeze(1)).amin(dim=1)
            # Once low and high are neighbouring floating-point numbers, nothing changes any more.
            if bool(((new_low == low) & (new_high == high)).all()):
                break
            low, high = new_low, new_high
        return high

    def near_quantile(self, q: Float[Tensor, " place"]) -> Float[Tensor, " place"]:
        """The same without points and without its last digits, by a few Newton steps."""
        low, high = torch.full_like(q, self.low), torch.full_like(q, self.high)
        value = torch.full_like(q, self.centre)
        for _ in range(_NEWTON_STEPS):
            sums = self.cdf(value)
            low, high = torch.where(sums < q, value, low), torch.where(sums < q, high, value)
            step = value - (sums - q) / self.density(value)
            value = torch.where((step >= low) & (step <= high), step, 0.5 * (low + high))
        return value


@dataclass(frozen=True, eq=False)
class _Pair:
    """The distribution function near the start and near the end of a shortest interval.

    Attributes:
        first: near the start.
        second: near the end.
        probability: the probability of the interval.
        outer: the increasing map in which lengths are measured.
        growth: the growth rate of the slope of `outer`.
    """

    first: Expansion
    second: Expansion
    probability: float
    outer: Rising
    growth: float

    @property
    def has_points(self) -> bool:
        """Whether the distribution function jumps near the start or the end."""
        return any(
            bool(((one.points >= one.low) & (one.points <= one.high)).any()) for one in (self.first, self.second)
        )

    def sums_at(self, start: Float[Tensor, " place"]) -> Float[Tensor, " place"]:
        """The distribution function at the ends of intervals with these starts."""
        return self.first.cdf(start, before=True) + self.probability

    def is_at_an_open_end(self, start: float, search: MixtureSearch) -> bool:
        """Whether an interval may be shorter if it starts beyond the reach of the first, or ends beyond the second."""
        if start <= self.first.low:
            return search.low is None or start > search.low.item()
        place = self.first.terms.new_tensor([start])
        sums = self.sums_at(place)
        low, high = self.second.cdf(sums.new_tensor([self.second.low, self.second.high])).tolist()
        return start >= self.first.high or not (low < sums.item() <= high or abs(sums.item() - 1.0) <= ROUNDING)

    def slope(self, start: Float[Tensor, " place"]) -> Float[Tensor, " place"]:
        """A positive multiple of the slope of the length, without points; infinite if there is no such interval."""
        q = self.sums_at(start)
        end = self.second.near_quantile(q)
        slope = self.first.density(start) * torch.exp(self.growth * (end - start)) - self.second.density(end)
        return slope.masked_fill(q >= 1.0, torch.inf)

    def extrapolated_start(self, start: float) -> float:
        """The start beyond an end of the reach at which the length is probably stationary."""
        reach = self.first.high - self.first.low
        ends = (
            start + torch.tensor([-0.25, 0.0] if start >= self.first.high else [0.0, 0.25], dtype=torch.float64) * reach
        )
        before, after = self.slope(ends).tolist()
        step = -4.0 * reach * math.copysign(1.0, before)
        if before < after < math.inf:
            step = min(max(-before * 0.25 * reach / (after - before), -_FARTHEST * reach), _FARTHEST * reach)
        return start + step

    def stationary_start(self) -> float:
        """The start at which the length is stationary, without points; an end of the reach if there is none."""
        left, right = self.first.low, self.first.high
        shares = torch.arange(_PARTS + 1, dtype=torch.float64) / _PARTS
        for _ in range(_ROUNDS):
            start = left + (right - left) * shares
            grows = self.slope(start) > 0
            place = int(grows.int().argmax()) if bool(grows.any()) else _PARTS + 1
            if place in (0, _PARTS + 1):
                return left if place == 0 else right
            new_left, new_right = start[place - 1].item(), start[place].item()
            if (new_left, new_right) == (left, right):
                break
            left, right = new_left, new_right
        return left

    def divided_start(self) -> float:
        """The best start found by dividing the best stretch again and again; points are tried too."""
        first = self.first
        left, right = first.low, first.high
        points = first.points[(first.points >= left) & (first.points <= right)]
        nearest = (points - first.centre).abs().topk(min(_POINTS, len(points)), largest=False).indices
        shares = torch.arange(_PARTS + 1, dtype=torch.float64) / _PARTS
        starts = torch.cat([points[nearest], left + (right - left) * shares]).sort().values
        best, shortest = first.centre, math.inf
        for _ in range(_ZOOMS):
            q = self.sums_at(starts)
            outside = (q > self.second.cdf(q.new_tensor([self.second.high])) + ROUNDING) | (q > 1.0 + ROUNDING)
            ends = self.second.quantile(q.clamp_max(1.0)).masked_fill(outside, torch.inf)
            length = interval_lengths(starts, ends, self.outer)
            place = int(length.argmin())
            if length[place].item() < shortest:
                best, shortest = starts[place].item(), length[place].item()
            left, right = starts[max(place - 1, 0)].item(), starts[min(place + 1, len(starts) - 1)].item()
            starts = left + (right - left) * shares
        return best
