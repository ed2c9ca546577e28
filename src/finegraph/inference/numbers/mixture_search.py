"""Quantiles and shortest intervals of mixtures of normal distributions and points.

If all components are points, both are exact searches in sorted sums. Otherwise a quantile is found by dividing an
interval down to neighbouring floating-point numbers, so that steps of the distribution function are found exactly. The
search for the shortest interval tries many starting points and interpolates the end of each. Around the few best ones,
bisection finds the start at which the length is stationary:

    d length / d start  =  g'(end) f(start) / f(end) - g'(start)          f the density, g the map to the user's unit

If some components are points, the length jumps, and the best stretches are subdivided instead. Components with a total
probability below 1e-14 are left out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float, Int
from torch import Tensor

from finegraph.inference.numbers.normal import Rising, log_interval

_NEGLIGIBLE = 1e-14
ROUNDING = 1e-13
"""The relative tolerance of probabilities, so that rounding decides nothing."""
_MAX_DEVIATIONS = 38.5
"""Beyond this many standard deviations the normal distribution underflows in float64."""
_DIVISIONS, _MAX_STEPS = 16, 40
"""The number of parts an interval is divided into in each step, and the maximum number of steps."""
PLACES = (-3.0, -2.4, -2.0, -1.7, -1.4, -1.2, -1.0, -0.8, -0.6, -0.4, -0.2, 0.0, 0.3, 0.6, 1.0, 1.5, 2.0, 3.0)
"""Starting points of the search for shortest intervals, in standard deviations from the mean of a component."""
_TAIL_PLACES, _MAX_TAILS = (-10.0, -6.0, -4.0, 4.0, 6.0, 10.0), 8
"""How many of the most probable components have more places around them: between near places, few steps suffice."""
_MAX_CENTRES = 64
"""The search starts around this many components, the most probable ones."""
_EVEN = 255
"""With more components, into how many stretches all values are divided."""
_STRETCHES, _ZOOMS, _NEWTON_STEPS = 4, 7, 8
"""With points: the number of stretches that are refined, of refinements, and of Newton steps for the end of each
interval."""
_HALVINGS, _SMOOTH_STEPS = 24, 4
"""Without points: the number of bisections and of Newton steps. Few steps suffice, since a stretch is shorter than the
narrowest component."""
_MAX_TOGETHER = 1 << 22
"""The largest number of values held at a time."""


@dataclass(frozen=True, eq=False)
class MixtureSearch:
    """The components of each sample that are not negligible, in float64; if all are points, sorted by their mean.

    Attributes:
        weights: the probabilities of the components.
        mean: the mean before the cut.
        deviation: the standard deviation before the cut; 0 for a point.
        low: the lower end of the cut; None if nothing is cut.
        high: the upper end of the cut.
    """

    weights: Float[Tensor, "batch component"]
    mean: Float[Tensor, "batch component"]
    deviation: Float[Tensor, "batch component"]
    low: Float[Tensor, "batch 1"] | None
    high: Float[Tensor, "batch 1"] | None

    @classmethod
    def of(
        cls,
        weights: Float[Tensor, "batch component"],
        mean: Float[Tensor, "batch component"],
        variance: Float[Tensor, "batch component"],
        low: Float[Tensor, "batch 1"] | None,
        high: Float[Tensor, "batch 1"] | None,
    ) -> MixtureSearch:
        """Drop negligible components and sort the others; arguments are as the attributes, but with the variance.

        A single sample's components are not sorted unless all are points: nothing else needs their order.
        """
        if len(weights) == 1:
            # Sorting many components takes longer than all the rest, so what is in order already is not sorted.
            possible = (weights[0] > _NEGLIGIBLE / max(1, weights.shape[1])).nonzero().squeeze(1)
            if 0 < len(possible) < weights.shape[1]:
                weights, mean, variance = (values.index_select(1, possible) for values in (weights, mean, variance))
            in_order = bool(variance.any()) or bool((mean[:, 1:] >= mean[:, :-1]).all())
            order = None if in_order else mean.argsort(dim=1)
        else:
            sorted_weights, order = weights.sort(dim=1, descending=True)
            rest = sorted_weights.flip(1).cumsum(dim=1).flip(1)
            kept = max(1, int((rest > _NEGLIGIBLE).sum(dim=1).max())) if len(weights) else 1
            chosen = order[:, :kept]
            order = chosen.gather(1, mean.gather(1, chosen).argsort(dim=1))
        if order is not None:
            weights, mean, variance = (values.gather(1, order) for values in (weights, mean, variance))
        return cls(weights / weights.sum(dim=1, keepdim=True), mean, variance.sqrt(), low, high)

    @property
    def points(self) -> bool:
        """Whether all components are points."""
        return not bool(self.deviation.any())

    @cached_property
    def log_mass(self) -> Float[Tensor, "batch component"]:
        """The log probability that each component is within the cut; of points, nothing that is used."""
        assert self.low is not None
        assert self.high is not None
        scale = torch.where(self.deviation == 0, 1.0, self.deviation)
        low, high = ((end - self.mean) / scale for end in (self.low, self.high))
        return log_interval(low, high, (self.high - self.low) / scale)

    def quantile(self, q: Float[Tensor, "batch place"]) -> Float[Tensor, "batch place"]:
        """The smallest value whose distribution function is at least q."""
        goal = q * (1.0 - ROUNDING)
        if self.points:
            place = torch.searchsorted(self.weights.cumsum(dim=1), goal).clamp_max(self.mean.shape[1] - 1)
            return self.mean.gather(1, place)
        below, above, start, stop = self.ends()
        # Start one floating-point number below, so that a point at the very end is found too.
        low = torch.nextafter(below, torch.full_like(below, -torch.inf)).expand_as(q)
        high = above.expand_as(q)
        parts = torch.arange(1, _DIVISIONS, device=q.device) / _DIVISIONS
        for _ in range(_MAX_STEPS):
            inner = low.unsqueeze(2) + (high - low).unsqueeze(2) * parts
            inner = torch.minimum(torch.maximum(inner, low.unsqueeze(2)), high.unsqueeze(2))
            enough = self.cdf(inner.flatten(start_dim=1)).view_as(inner) >= goal.unsqueeze(2)
            new_low = torch.where(enough, low.unsqueeze(2), inner).amax(dim=2)
            new_high = torch.where(enough, inner, high.unsqueeze(2)).amin(dim=2)
            # Once low and high are neighbouring floating-point numbers, nothing changes any more.
            if bool(((new_low == low) & (new_high == high)).all()):
                break
            low, high = new_low, new_high
        return torch.where(q <= 0, start, torch.where(q >= 1, stop, high))

    def ends(
        self,
    ) -> tuple[Float[Tensor, "batch 1"], Float[Tensor, "batch 1"], Float[Tensor, "_ 1"], Float[Tensor, "_ 1"]]:
        """Bounds below and above all values with a density in float64, and the ends of the support."""
        reach = _MAX_DEVIATIONS * self.deviation
        if self.low is None or self.high is None:
            below, above = (self.mean - reach).amin(dim=1, keepdim=True), (self.mean + reach).amax(dim=1, keepdim=True)
            return below, above, torch.full_like(below, -torch.inf), torch.full_like(above, torch.inf)
        # A component cut in its tail falls from that end faster than it does from its mean, so the reach holds there.
        top = self.mean.clamp(self.low, self.high)
        below = torch.maximum((top - reach).amin(dim=1, keepdim=True), self.low)
        above = torch.minimum((top + reach).amax(dim=1, keepdim=True), self.high)
        return below, above, self.low, self.high

    def cdf(self, value: Float[Tensor, "batch place"], *, before: bool = False) -> Float[Tensor, "batch place"]:
        """The probability of at most each value; of less than it if `before`."""
        size = max(1, _MAX_TOGETHER // max(1, self.mean.numel()))
        parts = [self._cdf(part, before) for part in torch.split(value, size, dim=1)]
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)

    def _cdf(self, value: Float[Tensor, "batch place"], before: bool) -> Float[Tensor, "batch place"]:
        place, mean, deviation = value.unsqueeze(2), self.mean.unsqueeze(1), self.deviation.unsqueeze(1)
        point = deviation == 0
        scale = torch.where(point, 1.0, deviation)
        if self.low is None or self.high is None:
            inside = torch.special.ndtr((place - mean) / scale)
        else:
            low, high = self.low.unsqueeze(2), self.high.unsqueeze(2)
            end = torch.minimum(place, high)
            start = (low - mean) / scale
            part = log_interval(start, (end - mean) / scale, (end - low) / scale)
            whole = self.log_mass.unsqueeze(1)
            inside = torch.where(whole.isneginf(), 0.0, (part - whole).exp())
        at_point = (mean < place) if before else (mean <= place)
        inside = torch.where(point, at_point.to(inside.dtype), inside)
        return (self.weights.unsqueeze(1) * inside).sum(dim=2)

    def shortest_interval(
        self, probability: float, outer: Rising, growth: float = 0.0
    ) -> tuple[Float[Tensor, "batch 1"], Float[Tensor, "batch 1"]]:
        """The ends of the shortest interval with at least this probability.

        Args:
            probability: above 0 and below 1.
            outer: the increasing map in which lengths are measured.
            growth: the growth rate of the slope of `outer`.
        """
        if self.points:
            return self._shortest_between_points(probability, outer)
        places, at_ends = self._places(probability)
        sums = self.cdf(places).contiguous()
        smooth = bool((self.deviation > 0).all())
        if smooth:
            starts, best = self.smooth_starts(probability, outer, growth, places, sums)
        else:
            starts, best = self._divided_starts(probability, outer, places, sums)
        starts = torch.cat([starts, places.gather(1, best), at_ends], dim=1)
        q = self.cdf(starts, before=True) + probability
        if smooth:
            # The shortest interval can be chosen without the last digits of its end.
            length = interval_lengths(starts, self.near_quantile(q, places, sums), outer)
            chosen = length.masked_fill(q > 1.0 + ROUNDING, torch.inf).argmin(dim=1, keepdim=True)
            starts, q = starts.gather(1, chosen), q.gather(1, chosen)
        ends = torch.where(q > 1.0 + ROUNDING, torch.inf, self.quantile(q.clamp_max(1.0)))
        chosen = interval_lengths(starts, ends, outer).argmin(dim=1, keepdim=True)
        return starts.gather(1, chosen), ends.gather(1, chosen)

    def smooth_starts(
        self,
        probability: float,
        outer: Rising,
        growth: float,
        places: Float[Tensor, "batch place"],
        sums: Float[Tensor, "batch place"],
        halvings: int = _HALVINGS,
    ) -> tuple[Float[Tensor, "batch item"], Int[Tensor, "batch item"]]:
        """The starts of the shortest intervals in the best stretches, without points, and the indices of their places.

        Args:
            probability: the probability of the intervals.
            outer: the increasing map in which lengths are measured.
            growth: the growth rate of the slope of `outer`.
            places: the starting points, sorted.
            sums: the distribution function at the starting points.
            halvings: how often a stretch is halved.
        """
        best = best_places(interval_lengths(places, quantiles_between(sums + probability, places, sums), outer))
        left, right = (places.gather(1, (best + step).clamp(0, places.shape[1] - 1)) for step in (-1, 1))
        for _ in range(halvings):
            start = 0.5 * (left + right)
            q = self.cdf(start) + probability
            end = self.near_quantile(q, places, sums, _SMOOTH_STEPS)
            grows = self.density(start) * torch.exp(growth * (end - start)) > self.density(end)
            grows |= (q >= 1.0) | ~end.isfinite()
            left, right = torch.where(grows, left, start), torch.where(grows, start, right)
        # Where the density rises to the cut, the best interval ends there, and none starts beyond `left`.
        return left, best

    def _divided_starts(
        self,
        probability: float,
        outer: Rising,
        places: Float[Tensor, "batch place"],
        sums: Float[Tensor, "batch place"],
    ) -> tuple[Float[Tensor, "batch item"], Int[Tensor, "batch item"]]:
        """The same if there are points, at which lengths jump; arguments are as for `smooth_starts`."""
        length = interval_lengths(
            places, self.near_quantile(self.cdf(places, before=True) + probability, places, sums), outer
        )
        best = best_places(length)
        left, right = (places.gather(1, (best + step).clamp(0, places.shape[1] - 1)) for step in (-1, 1))
        parts = torch.arange(_DIVISIONS + 1, device=places.device) / _DIVISIONS
        for _ in range(_ZOOMS):
            starts = (left.unsqueeze(2) + (right - left).unsqueeze(2) * parts).flatten(start_dim=1)
            ends = self.near_quantile(self.cdf(starts, before=True) + probability, places, sums)
            chosen = interval_lengths(starts, ends, outer).view(*left.shape, -1).argmin(dim=2, keepdim=True)
            starts = starts.view(*left.shape, -1)
            left, right = (starts.gather(2, (chosen + step).clamp(0, _DIVISIONS)).squeeze(2) for step in (-1, 1))
        return 0.5 * (left + right), best

    def _shortest_between_points(
        self, probability: float, outer: Rising
    ) -> tuple[Float[Tensor, "batch 1"], Float[Tensor, "batch 1"]]:
        """The shortest interval from a point to the first one at which the sum suffices; ties go to the first."""
        sums = self.weights.cumsum(dim=1)
        goal = (sums - self.weights + probability) * (1.0 - ROUNDING)
        stop = torch.searchsorted(sums, goal)
        last = self.mean.shape[1] - 1
        ends = self.mean.gather(1, stop.clamp_max(last))
        length = torch.where(stop <= last, interval_lengths(self.mean, ends, outer), torch.inf)
        shortest = length.amin(dim=1, keepdim=True)
        chosen = (length <= shortest + ROUNDING * shortest.abs()).int().argmax(dim=1, keepdim=True)
        return self.mean.gather(1, chosen), ends.gather(1, chosen)

    def _places(self, probability: float) -> tuple[Float[Tensor, "batch place"], Float[Tensor, "batch item"]]:
        """The starting points of the search, sorted; and the starts of the intervals that begin or end at the cut."""
        heavy = self.weights.topk(min(_MAX_CENTRES, self.weights.shape[1]), dim=1).indices
        mean, deviation = self.mean.gather(1, heavy).unsqueeze(2), self.deviation.gather(1, heavy).unsqueeze(2)
        tails = mean[:, :_MAX_TAILS] + deviation[:, :_MAX_TAILS] * self.mean.new_tensor(_TAIL_PLACES)
        places = (mean + deviation * self.mean.new_tensor(PLACES)).flatten(start_dim=1)
        places = torch.cat([places, tails.flatten(start_dim=1)], dim=1)
        if self.mean.shape[1] > _MAX_CENTRES:
            # The tails may be those of components that are not among these.
            reach = 4.0 * self.deviation
            low, high = (self.mean - reach).amin(dim=1, keepdim=True), (self.mean + reach).amax(dim=1, keepdim=True)
            shares = torch.arange(_EVEN + 1, dtype=places.dtype, device=places.device) / _EVEN
            places = torch.cat([places, low + (high - low) * shares], dim=1)
        below, above, _, _ = self.ends()
        at_ends = below[:, :0]
        if self.low is not None and self.high is not None:
            shares = torch.arange(1, 65, dtype=places.dtype, device=places.device) / 64
            shares[-1] = 1.0 - probability
            between = self.quantile(shares.expand(len(places), -1))
            last = between[:, -1:]
            # Rounded up, the last start may leave too little, so one floating-point number below is tried too.
            at_ends = torch.cat([below, last, torch.nextafter(last, torch.full_like(last, -torch.inf))], dim=1)
            places = torch.cat([places.clamp(below, above), between], dim=1)
        return torch.cat([places, below, above], dim=1).sort(dim=1).values, at_ends

    def near_quantile(
        self,
        q: Float[Tensor, "batch item"],
        places: Float[Tensor, "batch place"],
        sums: Float[Tensor, "batch place"],
        steps: int = _NEWTON_STEPS,
    ) -> Float[Tensor, "batch item"]:
        """Approximate quantiles by a few Newton steps between two places; exact at points; infinite beyond the last.

        Args:
            q: probabilities.
            places: some values, sorted.
            sums: the distribution function at the places.
            steps: the number of Newton steps.
        """
        after, last = torch.searchsorted(sums, q.contiguous()), places.shape[1] - 1
        low, high = places.gather(1, (after - 1).clamp(0, last)), places.gather(1, after.clamp_max(last))
        value = high
        if steps < _NEWTON_STEPS:
            value = quantiles_between(q, places, sums)
            value = torch.where(value.isfinite(), value, high)
        for _ in range(steps):
            sum_here = self.cdf(value)
            low, high = torch.where(sum_here < q, value, low), torch.where(sum_here < q, high, value)
            step = value - (sum_here - q) / self.density(value)
            # A step that rounds to nothing has arrived, so it may end where it began.
            value = torch.where((step >= low) & (step <= high), step, 0.5 * (low + high))
        # If the distribution function jumps over q at a place, the quantile is that place.
        jumps = self.cdf(high, before=True) < q
        return torch.where(after > last, torch.inf, torch.where(jumps, high, value))

    def density(self, value: Float[Tensor, "batch item"]) -> Float[Tensor, "batch item"]:
        """The density; points have none."""
        place, mean, deviation = value.unsqueeze(2), self.mean.unsqueeze(1), self.deviation.unsqueeze(1)
        scale = torch.where(deviation == 0, 1.0, deviation)
        log_density = -0.5 * ((place - mean) / scale).square() - scale.log() - 0.5 * math.log(2.0 * math.pi)
        if self.low is not None and self.high is not None:
            log_density = log_density - self.log_mass.unsqueeze(1)
        return torch.where(deviation == 0, 0.0, self.weights.unsqueeze(1) * log_density.exp()).sum(dim=2)


def interval_lengths(
    low: Float[Tensor, "batch place"], high: Float[Tensor, "batch place"], outer: Rising
) -> Float[Tensor, "batch place"]:
    """The lengths of intervals; infinite if an end is."""
    length = outer(high) - outer(low)
    return torch.where(high.isposinf() | length.isnan(), torch.inf, length)


def quantiles_between(
    q: Float[Tensor, "batch item"], places: Float[Tensor, "batch place"], sums: Float[Tensor, "batch place"]
) -> Float[Tensor, "batch item"]:
    """Quantiles by linear interpolation between places; infinite beyond the last."""
    after, last = torch.searchsorted(sums, q.contiguous()), places.shape[1] - 1
    left, right = (after - 1).clamp(0, last), after.clamp_max(last)
    low, high = places.gather(1, left), places.gather(1, right)
    below, above = sums.gather(1, left), sums.gather(1, right)
    share = ((q - below) / (above - below).clamp_min(torch.finfo(q.dtype).tiny)).clamp(0.0, 1.0)
    return torch.where(after > last, torch.inf, low + share * (high - low))


def best_places(length: Float[Tensor, "batch place"]) -> Int[Tensor, "batch item"]:
    """The best local minima. Being local minima, they lie in different stretches."""
    padded = torch.nn.functional.pad(length, (1, 1), value=torch.inf)
    lowest = torch.where((length <= padded[:, :-2]) & (length <= padded[:, 2:]), length, torch.inf)
    return lowest.topk(min(_STRETCHES, length.shape[1]), dim=1, largest=False).indices
