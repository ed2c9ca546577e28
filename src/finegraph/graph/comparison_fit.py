r"""From comparisons to numbers: Bradley and Terry's model with a Gaussian prior.

    P(i more than j) = 1 / (1 + exp(v_j - v_i)),      v_i ~ N(0, prior_spread^2),      "same" = half a vote either way

The values are the most probable ones, found by Newton's method, which is safe because the posterior is concave. Their
spreads are those of the Gaussian with the same curvature there (Laplace). What nobody compared stays unknown. By
default, the probability that one of two things has more is about uniformly distributed before any comparison: the
difference of their values has the variance of the logistic distribution, pi^2 / 3.

**Photos** of a fine label differ among themselves, with a spread s. So two photos say less about their fine labels than
a comparison of the labels would: the difference v_i - v_j is scaled by 1 / sqrt(1 + pi s^2 / 4) (the logistic
function, averaged over that noise). By default photos of one label differ as much as labels do.

**Known values.** If some labels already have values in a unit, v = slope x (inner value), the known ones are held
by their own spreads, and the others come out in that unit. The slope says how well people distinguish values; it is the
most probable one given the comparisons of two known labels.

Cost: cubic in the compared things, once, for their spreads; everything else is linear in the pairs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from finegraph.errors import InputError, unknown_name
from finegraph.graph.comparisons import Comparison
from finegraph.graph.kind import FloatArray, IntArray
from finegraph.graph.number import Number

PRIOR_SPREAD = math.pi / math.sqrt(6)
_MAX_STEPS = 100
_VALUE_TOLERANCE = 1e-10
"""Newton's method stops when no value moves by more than this."""
_STEP_TOLERANCE = 1e-10
"""The relative error of a step of Newton's method."""
_MIN_KNOWN_SPREAD = 1e-3
"""The smallest spread of a known value, relative to the spread of all."""
_SLOPES = np.geomspace(0.05, 50.0, 301)


@dataclass(frozen=True, eq=False)
class ComparisonTally:
    """The results of comparisons, pair by pair.

    Attributes:
        one: the index of the first of each pair.
        two: the second.
        wins: the votes that the first has more; "same" counts half for both.
        losses: the votes that the second has more.
        shown: the factor of the difference of values: 1 for a direct comparison, less for one of photos.
    """

    one: Int[IntArray, " pair"]
    two: Int[IntArray, " pair"]
    wins: Float[FloatArray, " pair"]
    losses: Float[FloatArray, " pair"]
    shown: Float[FloatArray, " pair"]

    @classmethod
    def of(cls, answers: Iterable[tuple[int, int, bool, float]]) -> ComparisonTally:
        """From comparisons as (more, less, same, shown)."""
        counts: dict[tuple[int, int, float], list[float]] = {}
        for more, less, same, shown in answers:
            own = counts.setdefault((min(more, less), max(more, less), shown), [0.0, 0.0])
            if same:
                own[0] += 0.5
                own[1] += 0.5
            else:
                own[int(more > less)] += 1.0
        keys = np.array([key[:2] for key in counts], dtype=np.int64).reshape(-1, 2)
        votes = np.array(list(counts.values()), dtype=np.float64).reshape(-1, 2)
        shown_of = np.array([key[2] for key in counts], dtype=np.float64)
        return cls(keys[:, 0], keys[:, 1], votes[:, 0], votes[:, 1], shown_of)

    def among(self, items: Int[IntArray, " column"]) -> ComparisonTally:
        """The same with indices into `items`, which holds everything that was compared, in rising order."""
        one, two = np.searchsorted(items, self.one), np.searchsorted(items, self.two)
        return ComparisonTally(one, two, self.wins, self.losses, self.shown)


@dataclass(frozen=True, eq=False)
class ComparisonFit:
    """Values fitted to comparisons of one kind.

    Attributes:
        number: the values with their spreads, unknown for what nobody compared.
        items: what was compared, as positions in the list of names, in rising order.
        values: the fitted values of the items, on the scale of the model.
        covariance: their covariance, given the comparisons.
        prior_mean: the mean of each value before any comparison, on the same scale.
        prior_spread: its standard deviation.
        slope: the slope of that scale per inner step of the known values; 1 if there are none.
    """

    number: Number
    items: Int[IntArray, " column"]
    values: Float[FloatArray, " column"]
    covariance: Float[FloatArray, "column column"]
    prior_mean: Float[FloatArray, " fine"]
    prior_spread: Float[FloatArray, " fine"]
    slope: float = 1.0

    def in_unit(self, known: Number | None) -> tuple[Float[FloatArray, " column"], Float[FloatArray, " column"]]:
        """The fitted values of the items and their spreads, in the unit of the known values."""
        return _in_unit(self.values / self.slope, np.sqrt(np.diag(self.covariance)) / self.slope, known)


def fit_comparisons(
    kind: str,
    names: Sequence[str],
    comparisons: Iterable[Comparison],
    prior_spread: float = PRIOR_SPREAD,
    *,
    known: Number | None = None,
    photo_spread: float | None = None,
) -> ComparisonFit:
    """Fit the values of one kind to comparisons.

    Args:
        kind: which comparisons count, and the name of the numbers.
        names: what may be compared, such as all fine labels; the numbers have a value for each.
        comparisons: of any kinds; those of other kinds are ignored. Comparisons of photos name their fine labels;
            see `between_labels`.
        prior_spread: the standard deviation of the values before any comparison.
        known: values that some names already have; they stay, and the others get values in their unit.
        photo_spread: the standard deviation among photos of one name; by default that among names.

    Raises:
        UnknownNameError: a comparison of something else.
        InputError: no comparison of this kind, or a spread that is not positive.
    """
    for what, spread in (("prior_spread", prior_spread), ("photo_spread", photo_spread)):
        if spread is not None and not ((spread == 0.0 and what == "photo_spread") or 0 < spread < math.inf):
            raise InputError(f"{what} must be a finite number above 0, got {spread!r}")
    through_photos = shown_by_photos(prior_spread if photo_spread is None else photo_spread)
    position = {name: index for index, name in enumerate(names)}
    answers: list[tuple[int, int, bool, float]] = []
    for one in comparisons:
        if one.kind == kind:
            for name in (one.more, one.less):
                if name not in position:
                    raise unknown_name("fine label", name, tuple(names), "in a comparison")
            shown = through_photos if one.photos else 1.0
            answers.append((position[one.more], position[one.less], one.same, shown))
    if not answers:
        raise InputError(f"there is no comparison of the kind {kind!r}")
    return fit_tally(kind, len(names), ComparisonTally.of(answers), prior_spread, known=known)


def shown_by_photos(photo_spread: float) -> float:
    """The factor by which a comparison of photos with this spread scales the difference of their labels."""
    return 1.0 / math.sqrt(1.0 + math.pi * photo_spread**2 / 4)


def fit_tally(
    kind: str, count: int, tally: ComparisonTally, prior_spread: float = PRIOR_SPREAD, *, known: Number | None = None
) -> ComparisonFit:
    """Fit the values of `count` names to a tally; see `fit_comparisons`."""
    slope, mean, spread = prior_of(count, tally, prior_spread, known)
    items = np.unique(np.concatenate([tally.one, tally.two]))
    values, covariance = likeliest_values(tally.among(items), mean[items], spread[items])
    fitted = _number(kind, count, items, values / slope, np.sqrt(np.diag(covariance)) / slope, known)
    return ComparisonFit(fitted, items, values, covariance, mean, spread, slope)


def prior_of(
    count: int, tally: ComparisonTally | None, prior_spread: float = PRIOR_SPREAD, known: Number | None = None
) -> tuple[float, Float[FloatArray, " fine"], Float[FloatArray, " fine"]]:
    """The slope of the scale, and the mean and spread of each value before any comparison."""
    if known is None or not known.known.any():
        return 1.0, np.zeros(count), np.full(count, prior_spread)
    values, spreads = known.standardised
    slope = prior_spread if tally is None else _slope(tally, known, prior_spread)
    return slope, slope * values, slope * np.maximum(spreads, _MIN_KNOWN_SPREAD)


def _slope(tally: ComparisonTally, known: Number, prior_spread: float) -> float:
    """The most probable slope given comparisons of known labels; the prior of its log is log(prior_spread) +- 1."""
    both = known.known[tally.one] & known.known[tally.two]
    apart = (known.standardised[0][tally.one] - known.standardised[0][tally.two])[both] * tally.shown[both]
    differences = _SLOPES[:, None] * apart
    fit = -(tally.wins[both] * np.logaddexp(0, -differences) + tally.losses[both] * np.logaddexp(0, differences))
    likely = fit.sum(axis=1) - np.log(_SLOPES / prior_spread) ** 2 / 2
    return float(_SLOPES[likely.argmax()]) if both.any() else prior_spread


def _number(
    kind: str, count: int, items: IntArray, values: FloatArray, spreads: FloatArray, known: Number | None
) -> Number:
    """Fitted values as a kind of numbers; values that were known stay as they were."""
    all_values, all_spreads = np.full(count, np.nan), np.zeros(count)
    all_values[items], all_spreads[items] = _in_unit(values, spreads, known)
    if known is None:
        return Number(kind, all_values, all_spreads)
    if not known.known.any():
        return Number(kind, all_values, all_spreads, "linear", known.unit)
    all_values = np.where(known.known, known.values, all_values)
    all_spreads = np.where(known.known, known.spreads, all_spreads)
    return Number(kind, all_values, all_spreads, known.scale, known.unit)


def _in_unit(values: FloatArray, spreads: FloatArray, known: Number | None) -> tuple[FloatArray, FloatArray]:
    """Inner values and spreads in the unit of the known values; unchanged if there are none."""
    if known is None or not known.known.any():
        return values, spreads
    outer = known.to_outer(values)
    return outer, known.width * spreads * (outer if known.scale == "log" else 1.0)


# ---- the most probable values ----------------------------------------------------------------------------------------


def likeliest_values(
    tally: ComparisonTally, mean: Float[FloatArray, " column"], spread: Float[FloatArray, " column"]
) -> tuple[Float[FloatArray, " column"], Float[FloatArray, "column column"]]:
    """The most probable values given a tally, and the inverse of the curvature there."""
    values: FloatArray = mean.copy()
    precision = spread**-2.0
    for _ in range(_MAX_STEPS):
        gradient, weight = _derivatives(values, tally, mean, precision)
        step = _newton_step(gradient, tally, weight, precision)
        length, here = 1.0, log_posterior(values, tally, mean, spread)
        while length > _VALUE_TOLERANCE and log_posterior(values + length * step, tally, mean, spread) < here:
            length /= 2
        values = values + length * step
        if np.abs(step).max() < _VALUE_TOLERANCE:
            break
    curvature = _curvature(tally, _derivatives(values, tally, mean, precision)[1], precision)
    return values, np.linalg.inv(curvature).astype(np.float64)


def log_posterior(
    values: Float[FloatArray, " column"],
    tally: ComparisonTally,
    mean: Float[FloatArray, " column"],
    spread: Float[FloatArray, " column"],
) -> float:
    """The log posterior density of values, up to a constant."""
    apart = tally.shown * (values[tally.one] - values[tally.two])
    log_likelihood = -tally.wins * np.logaddexp(0, -apart) - tally.losses * np.logaddexp(0, apart)
    return float(log_likelihood.sum() - (((values - mean) / spread) ** 2).sum() / 2)


def _derivatives(
    values: FloatArray, tally: ComparisonTally, mean: FloatArray, precision: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """The gradient of the log posterior, and what each pair adds to its curvature."""
    one, two, count = tally.one, tally.two, len(values)
    apart = tally.shown * (values[one] - values[two])
    loses = 1 / (1 + np.exp(np.clip(apart, -700, 700)))  # the probability that the first is said to have less
    pull = tally.shown * (tally.wins * loses - tally.losses * (1 - loses))
    gradient = np.bincount(one, pull, count) - np.bincount(two, pull, count) - (values - mean) * precision
    return gradient, tally.shown**2 * (tally.wins + tally.losses) * loses * (1 - loses)


def _curvature(tally: ComparisonTally, weight: FloatArray, precision: FloatArray) -> FloatArray:
    """The negative of the second derivatives of the log posterior: a graph Laplacian and the prior."""
    curvature = np.diag(precision + _degrees(tally, weight, len(precision)))
    np.add.at(curvature, (tally.one, tally.two), -weight)
    np.add.at(curvature, (tally.two, tally.one), -weight)
    return curvature


def _degrees(tally: ComparisonTally, weight: FloatArray, count: int) -> FloatArray:
    """The sum of the weights of the pairs of each item."""
    found: FloatArray = np.zeros(count)
    for items in (tally.one, tally.two):
        found += np.bincount(items, weight, count)
    return found


def _newton_step(gradient: FloatArray, tally: ComparisonTally, weight: FloatArray, precision: FloatArray) -> FloatArray:
    """The curvature's inverse times the gradient, by conjugate gradients: each step is linear in the pairs."""
    one, two, count = tally.one, tally.two, len(gradient)
    scale = 1 / (precision + _degrees(tally, weight, count))
    step, rest = np.zeros(count), gradient.copy()
    direction = scale * rest
    old = rest @ direction
    least = _STEP_TOLERANCE**2 * old
    for _ in range(10 * count):
        if old <= least or old == 0:
            break
        across = weight * (direction[one] - direction[two])
        bent = precision * direction + np.bincount(one, across, count) - np.bincount(two, across, count)
        length = old / (direction @ bent)
        step += length * direction
        rest -= length * bent
        new = rest @ (scale * rest)
        direction = scale * rest + (new / old) * direction
        old = new
    return step
