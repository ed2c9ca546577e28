"""What fitting a head of a study gives: something that answers for photos, and how it was fitted."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from jaxtyping import Float, Int
from torch import Tensor

from finegraph.model.fitting import Fit, FitSettings
from finegraph.workflows.studies.photo_sets import Part

Answer = tuple[Float[Tensor, "batch fine"], dict[str, Int[Tensor, " batch"]]]
"""The log probabilities of the fine labels, and per kind the number of the most probable label."""
TOLERANCE = 1e-3
"""As in `finegraph train`: ten times nearer takes twice as long and changes no metric."""
_NAMED = ("l2", "coarse_ratio", "kind_weight")


class Model(Protocol):
    """Something fitted, which answers for photos."""

    def answer(
        self, features: Float[Tensor, "row feature"], coarse: Float[Tensor, "row coarse_feature"] | None, views: int
    ) -> Answer:
        """The answer to photos; the rows of the views of a photo follow each other."""

    def step(self, part: Part) -> tuple[float, float] | None:
        """The milliseconds of a forward and of a backward pass of a batch (timing.py); None where no step trains it."""


@dataclass
class Fitted:
    """A head of a study after fitting.

    Attributes:
        model: what answers.
        tried: how many settings were tried.
        seconds: how long the last fit took.
        chosen: the strengths that were chosen, one for each layer that was fitted on its own.
        iterations: how many steps the last fit took.
        converged: whether all of them came to a minimum.
    """

    model: Model
    tried: int
    seconds: float = 0.0
    chosen: list[dict[str, Any]] = field(default_factory=list)
    iterations: int = 0
    converged: bool = True

    def add(
        self, layer: str, strengths: dict[str, Any], seconds: float, *, iterations: int = 1, converged: bool = True
    ) -> None:
        """Take in how a layer was fitted."""
        self.chosen.append({"layer": layer, **strengths})
        self.seconds += seconds
        self.iterations += iterations
        self.converged &= converged

    def add_descent(self, layer: str, fit: Fit, settings: FitSettings, seconds: float) -> None:
        """Take in how a layer was fitted by descent."""
        strengths = {name: value for name, value in asdict(settings).items() if name in _NAMED and value is not None}
        if settings.is_softmax:
            strengths["coarse_ratio"] = "infinite"  # JSON has no such number
        self.add(layer, strengths, seconds, iterations=fit.iterations, converged=fit.converged)


def middles(first: float, last: float, count: int) -> tuple[float, ...]:
    """Strengths to try from one end of a range to the other: the middles of equal parts, on a scale of ratios."""
    ends = np.geomspace(first, last, count + 1)
    return tuple(float(np.sqrt(one * two)) for one, two in pairwise(ends))
