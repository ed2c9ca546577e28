"""Regressions of values on features: of each number, and of the place in each ordered kind.

Class means that share effects (class_means.py) capture how classes differ by a value along one direction. The other
direction, from features to the value, captures more. With values v of variance 1 among the fine labels,

    m(z) = w' z + c         the ridge regression of class values on class means, its strength chosen by classes left out
    s^2                     the mean squared error of m for a photo of a class that was left out

is a normal distribution of v given z; divided by the prior N(0, 1) it is the likelihood of z, so a fine label with the
value v gains

    share (a v - b v^2 / 2)          a = m(z) / s^2,   b = 1 / s^2 - 1

and nothing if the value is unknown. It is linear in z, so it is part of the rows of the fine labels. The scores already
contain some of it: `share`, the same for all, is chosen on held-out samples (prototype_strengths.py).

Values measured on photos show how a photo differs from its class, whose value has a spread t. That is the
potential of the head (docs/idea.md): given the fine label, the value has the mean (v + a t^2) / (1 + b t^2) and the
variance t^2 / (1 + b t^2). For a given b the pull a = w' z + c is a ridge regression; b and its strength are those
under which each measured value is most likely given all others. Its effect on fine labels, which the scores and the
share above already contain, is subtracted from their rows, so that it changes only answers about values.

Cost: an eigenvalue problem of the size of the fine labels with samples, and a product with the features; with measured
values one of the samples, of which there are at most 1,024, for each b.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from finegraph.graph import LabelGraph
from finegraph.nn.number_layer import NumberLayer, inverse_softplus

_RIDGES = (0.003, 0.03, 0.3, 3.0, 30.0)
"""The candidate ridges, as multiples of the mean square of a class mean."""
_MIN_CLASSES = 5
"""With fewer classes of known value there is no regression: any direction of the features would fit them."""
_MIN_MEASURED, _MAX_MEASURED = 20, 1024
"""The minimum number of measured values for a potential, and the maximum that is used."""
_PRECISIONS = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0)
_STRENGTHS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
"""The candidate precisions and strengths of the ridge."""
_MIN_ERRORS_AHEAD = 2.0
"""A gain of more standard errors is more than chance."""


@dataclass(frozen=True, kw_only=True)
class ValuePulls:
    """Linear functions of features that pull towards high or low values.

    Attributes:
        names: the numbers and ordered kinds.
        weight: per number, the row w / s^2.
        bias: c / s^2.
        precision: b.
        centre: the value that is 0 in the regression, on the inner scale of the number or as a place in the order.
        width: the length of 1 on that scale.
    """

    names: tuple[str, ...]
    weight: Float[Tensor, "number feature"]
    bias: Float[Tensor, " number"]
    precision: Float[Tensor, " number"]
    centre: Float[Tensor, " number"]
    width: Float[Tensor, " number"]

    def only(self, names: tuple[str, ...]) -> ValuePulls:
        """Those of some of the numbers and ordered kinds, in the order in which they are here."""
        places = [place for place, name in enumerate(self.names) if name in names]
        parts = {one.name: getattr(self, one.name)[places] for one in fields(self) if one.name != "names"}
        return replace(self, names=tuple(self.names[place] for place in places), **parts)

    def values(self, columns: Float[Tensor, "fine number"]) -> Float[Tensor, "fine number"]:
        """The values of fine labels on the scales of the regressions; 0 where they are unknown."""
        return ((columns - self.centre) / self.width).nan_to_num(nan=0.0)

    def rows(
        self, columns: Float[Tensor, "fine number"], share: float
    ) -> tuple[Float[Tensor, "fine feature"], Float[Tensor, " fine"]]:
        """What to add to the weights and the bias of each fine label.

        Args:
            columns: the values of the fine labels; see `value_columns`.
            share: the share to add.
        """
        values = share * self.values(columns)
        return values @ self.weight, values @ self.bias - 0.5 * (values * self.values(columns)) @ self.precision

    def scores(
        self, features: Float[Tensor, "batch feature"], columns: Float[Tensor, "fine number"]
    ) -> Float[Tensor, "batch fine"]:
        """What all of it (share 1) adds to the scores of samples."""
        values = self.values(columns)
        return (features @ self.weight.t() + self.bias) @ values.t() - 0.5 * values.square() @ self.precision


@dataclass(frozen=True, kw_only=True)
class ValuePotentials:
    """Potentials of numbers with values measured on photos.

    Attributes:
        names: the numbers.
        weight: per number, the weights of its pull a.
        bias: the bias of a.
        precision: b.
        centre: the value that is 0 on their scale (after the logarithm, on a log scale).
        width: the length of 1 on that scale.
        around: the mean variance of the values of fine labels.
    """

    names: tuple[str, ...]
    weight: Float[Tensor, "number feature"]
    bias: Float[Tensor, " number"]
    precision: Float[Tensor, " number"]
    centre: Float[Tensor, " number"]
    width: Float[Tensor, " number"]
    around: Float[Tensor, " number"]

    def only(self, names: tuple[str, ...]) -> ValuePotentials | None:
        """Those of some of the numbers, in the order in which they are here; None if there are none."""
        places = [place for place, name in enumerate(self.names) if name in names]
        parts = {one.name: getattr(self, one.name)[places] for one in fields(self) if one.name != "names"}
        return replace(self, names=tuple(self.names[place] for place in places), **parts) if places else None

    def rows(
        self, columns: Float[Tensor, "fine number"]
    ) -> tuple[Float[Tensor, "fine feature"], Float[Tensor, " fine"]]:
        """What to subtract from the weights and the bias of each fine label, by their values; see `value_columns`."""
        values = ((columns - self.centre) / self.width).nan_to_num(nan=0.0) / (1.0 + self.precision * self.around)
        halves = 0.5 * values.square() * (1.0 + self.precision * self.around)
        return values @ self.weight, values @ self.bias - halves @ self.precision

    def layer(self, graph: LabelGraph) -> NumberLayer:
        """The number layer of a head; numbers that were not measured have no potential."""
        layer = NumberLayer(self.weight.shape[1], len(graph.numbers)).to(self.weight)
        layer.silence()
        with torch.no_grad():
            for own, name in enumerate(self.names):
                place, number = graph.numbers.index(name), graph.number(name)
                layer.weight[2 * place] = self.weight[own]
                layer.bias[2 * place] = self.bias[own]
                layer.bias[2 * place + 1] = inverse_softplus(float(self.precision[own]))
                centre, width = float(self.centre[own]), float(self.width[own])
                layer.scale[place, 0] = number.width / width
                layer.scale[place, 1] = (number.centre - centre) / width
        return layer


def value_names(graph: LabelGraph) -> tuple[str, ...]:
    """The ordered kinds and numbers of a graph."""
    return (*(name for name in graph.kinds if graph.kind(name).ordered), *graph.numbers)


def value_columns(graph: LabelGraph, names: tuple[str, ...]) -> Float[Tensor, "fine number"]:
    """The values of all fine labels, NaN where they are unknown.

    For a number the value, or its logarithm on a log scale; for an ordered kind the mean place of the parents.
    """
    found = [np.zeros((len(graph), 0))]
    for name in names:
        if name in graph.numbers:
            number = graph.number(name)
            column = np.where(number.known, number.standardised[0] * number.width + number.centre, np.nan)
        else:
            fine, coarse, weight = graph.edges(name)
            column = np.bincount(fine, weights=weight * coarse, minlength=len(graph)).astype(np.float64)
            column[np.bincount(fine, minlength=len(graph)) == 0] = np.nan
        found.append(column[:, None])
    return torch.from_numpy(np.concatenate(found, axis=1))


def fit_pulls(
    names: tuple[str, ...],
    columns: Float[Tensor, "fine number"],
    counts: Float[Tensor, " fine"],
    means: Float[Tensor, "fine feature"],
    noise: float,
) -> ValuePulls:
    """The regressions of values on class means.

    Args:
        names: the numbers and ordered kinds.
        columns: the values of the fine labels; see `value_columns`.
        counts: how many samples each fine label has; may be 0.
        means: their mean.
        noise: the variance of a single sample around it, in each direction.
    """
    found = [_regression(columns[:, place], counts, means, noise) for place in range(len(names))]
    weight = torch.stack([one[0] for one in found]) if found else means.new_zeros(0, means.shape[1])
    numbers = means.new_tensor([one[1] for one in found]).reshape(len(found), 4)
    bias, precision, centre, width = numbers.unbind(dim=1)
    return ValuePulls(names=names, weight=weight, bias=bias, precision=precision, centre=centre, width=width)


def _regression(
    column: Float[Tensor, " fine"], counts: Float[Tensor, " fine"], means: Float[Tensor, "fine feature"], noise: float
) -> tuple[Float[Tensor, " feature"], tuple[float, float, float, float]]:
    """The weights of one pull; its bias, precision, centre and width."""
    nothing = torch.zeros_like(means[0])
    used = (counts > 0) & ~column.isnan()
    if int(used.sum()) < _MIN_CLASSES:
        return nothing, (0.0, 0.0, 0.0, 1.0)
    values, shown = column[used], means[used]
    centre, width = float(values.mean()), float(values.std(correction=0))
    if not width > 0.0:
        return nothing, (0.0, 0.0, centre, 1.0)
    values = (values - centre) / width
    middle = shown.mean(dim=0)
    shown = shown - middle
    squares, axes = torch.linalg.eigh(shown @ shown.t())
    squares, along = squares.clamp_min(0.0), axes.t() @ values
    beyond = noise * (1.0 - 1.0 / counts[used].clamp_min(1.0)).mean()
    best: tuple[float, Tensor] = (1.0, nothing)
    for multiple in _RIDGES:
        ridge = multiple * (float(squares.mean()) or 1.0)
        inverse = 1.0 / (squares + ridge)
        force = axes @ (inverse * along)
        # The mean of all values is not shrunk, so its direction is excluded.
        left_out = force / (axes.square() @ inverse - 1.0 / (ridge * len(values)))
        weight = force @ shown
        error = float(left_out.square().mean() + beyond * weight.square().sum())
        if error < best[0]:
            best = (error, weight)
    error, weight = best
    return weight / error, (float(-(weight @ middle)) / error, 1.0 / error - 1.0, centre, width)


def fit_potentials(
    graph: LabelGraph,
    features: Float[Tensor, "batch feature"],
    targets: Int[Tensor, " batch"],
    measured: Mapping[str, Float[Tensor, " batch"]],
) -> ValuePotentials | None:
    """The potentials of numbers from values measured on samples; None if no number gains from them.

    Args:
        graph: the label graph.
        features: the scaled features of the samples.
        targets: their fine labels.
        measured: per number the value measured on each sample, in the user's unit; NaN if there is none.
    """
    found = []
    for name, values in measured.items():
        number = graph.number(name)
        inner, spreads = (torch.from_numpy(np.array(part)) for part in number.standardised)
        read = torch.from_numpy(number.to_inner(values.double().numpy()))
        used = (~values.isnan() & (spreads[targets] > 0)).nonzero()[:, 0]
        if len(used) < _MIN_MEASURED:
            continue
        if len(used) > _MAX_MEASURED:
            used = used[torch.linspace(0, len(used) - 1, _MAX_MEASURED).long()]
        own, variance = inner[targets[used]], spreads[targets[used]].square()
        one = _potential(features[used].double(), read[used], own, variance)
        if one is not None:
            around = float(spreads[torch.from_numpy(np.array(number.known))].square().mean().nan_to_num(nan=1.0))
            found.append((name, one[0], [*one[1], number.centre, number.width, around]))
    if not found:
        return None
    names, weights, numbers = zip(*found, strict=True)
    columns = torch.tensor(numbers, dtype=torch.float64).unbind(dim=1)
    of = dict(zip(("bias", "precision", "centre", "width", "around"), columns, strict=True))
    return ValuePotentials(names=tuple(names), weight=torch.stack(weights), **of)


def _potential(
    features: Float[Tensor, "batch feature"],
    read: Float[Tensor, " batch"],
    value: Float[Tensor, " batch"],
    variance: Float[Tensor, " batch"],
) -> tuple[Float[Tensor, " feature"], tuple[float, float]] | None:
    """The weights of a pull, its bias and the precision; None if nothing is gained.

    Args:
        features: the features of the samples.
        read: the measured values, on the inner scale.
        value: the values of their fine labels.
        variance: the variances of these values.
    """
    middle = features.mean(dim=0)
    centred = features - middle
    count = features.shape[1]
    alike = centred @ centred.t() / count + 1.0  # the last for the bias
    nothing = _log_density(read - value, variance)
    best: tuple[float, float, Tensor, Tensor] | None = None
    for precision in _PRECISIONS:
        gain = 1.0 + precision * variance
        # (v + a t^2) / gain is read with the variance t^2 / gain, so a is seen with the variance gain / t^2.
        error = (gain / variance).sqrt()
        seen = (gain * read - value) / variance / error
        sizes, axes = torch.linalg.eigh(alike / error / error[:, None])
        along = axes.t() @ seen
        for strength in _STRENGTHS:
            inverse = 1.0 / (1.0 + strength * sizes.clamp_min(0.0))
            force = axes @ (inverse * along)
            left_out = force / (axes.square() @ inverse) * error * variance / gain
            ahead = _log_density(left_out, variance / gain) - nothing
            mean = float(ahead.mean())
            if best is None or mean > best[0]:
                best = (mean, precision, strength * force / error, ahead)
    assert best is not None
    mean, precision, force, ahead = best
    if mean <= _MIN_ERRORS_AHEAD * float(ahead.std()) / math.sqrt(len(ahead)):
        return None
    weight = force @ centred / count
    return weight, (float(force.sum() - weight @ middle), precision)


def _log_density(away: Float[Tensor, " batch"], variance: Float[Tensor, " batch"]) -> Float[Tensor, " batch"]:
    return -0.5 * (away.square() / variance + variance.log())
