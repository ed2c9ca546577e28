"""The numbers of a graph as tensors: for each, the normal distributions that its fine labels have.

Fine labels with the same value and spread, such as all cars of one year, or all with an unknown price, are one
*component*: a normal distribution on the inner scale of the number. Components are sorted by value. A number without
spreads and unknown values has *points* alone; what it adds to the joint scores is then linear in its two scores.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from finegraph.errors import unknown_name
from finegraph.graph import LabelGraph, Number
from finegraph.inference.numerics import Constants

READING_ERROR = 0.1
"""The smallest standard deviation, on the inner scale, of the error with which the loss reads a value: what differs by
less than a tenth of the spread of all values is not worth telling apart, whatever the number of digits."""


_MAX_TABLE = 1 << 23
"""How many likelihoods are kept as a table at the most."""


class NumberTensors(Constants):
    """The tensors of one number.

    Attributes:
        number: what the graph has of it.
        place: its place among the numbers of the graph.
        value: the mean of each component on the inner scale, rising; in float64.
        variance: the variance of each component; 0 for an exact value.
        component: the component of each fine label.
        fine_value: the inner value of each fine label, NaN where it is unknown.
        points: whether all values are known and exact.
        distinct: whether each fine label is a component of its own, in their order.
        resolution: the smallest spread that makes sense, on the inner scale.
        measured_variance: that of the error with which the loss reads a value that was measured on a photo.
        reading_variance: the same for the value of each component: its own variance is added.
    """

    value: Tensor
    variance: Tensor
    component: Tensor
    fine_value: Tensor
    reading_variance: Tensor

    def __init__(self, number: Number, place: int) -> None:
        self.number, self.place, self.resolution = number, place, number.resolution
        values, spreads = number.standardised
        pairs, component = np.unique(np.stack([values, spreads], axis=1), axis=0, return_inverse=True)
        component = component.reshape(-1).astype(np.int64)
        self.store_arrays({"value": pairs[:, 0], "variance": pairs[:, 1] ** 2, "component": component})
        self.measured_variance = max(number.resolution, READING_ERROR) ** 2
        self.store_arrays({"fine_value": np.where(number.known, values, np.nan)})
        self.store_arrays({"reading_variance": pairs[:, 1] ** 2 + self.measured_variance})
        self.points = not spreads.any()
        self.distinct = len(pairs) == len(component) and bool((component == np.arange(len(component))).all())

    @property
    def name(self) -> str:
        """What is measured."""
        return self.number.name

    @property
    def count(self) -> int:
        """How many components there are."""
        return len(self.value)

    def to_fine(self, components: Float[Tensor, "batch component"]) -> Float[Tensor, "batch fine"]:
        """For each fine label what its component has."""
        return components if self.distinct else components.index_select(1, self.component)

    def to_components(self, fine: Float[Tensor, "batch fine"]) -> Float[Tensor, "batch component"]:
        """For each component the sum over its fine labels."""
        if self.distinct:
            return fine
        return fine.new_zeros(fine.shape[0], self.count).index_add(1, self.component, fine)

    def largest_of_components(self, probs: Float[Tensor, "batch fine"]) -> Float[Tensor, "batch component"]:
        """For each component the largest probability of its fine labels."""
        if self.distinct:
            return probs
        places = self.component.expand_as(probs)
        return probs.new_zeros(len(probs), self.count).scatter_reduce(1, places, probs, reduce="amax")


class NumberTable(Constants):
    """All numbers of a graph.

    Attributes:
        numbers: in the order of the graph.
        fine_count: how many fine labels there are.
        points: those that have points alone.
        spread: those that have not.
        largest_value: the largest size of an inner value.
        largest_variance: the largest variance of one.
        largest: how large what numbers add to a joint score can be, for scores of at most 1.
        known: 1 for each fine label and number whose value is known, else 0.
        design: what a point v multiplies the two scores of its number by, v and - v^2 / 2, number after number.
    """

    known: Tensor
    design: Tensor

    def __init__(self, graph: LabelGraph) -> None:
        self.fine_count = len(graph)
        self.numbers = [NumberTensors(graph.number(name), place) for place, name in enumerate(graph.numbers)]
        self.points = [one.place for one in self.numbers if one.points]
        rows = [one.number.standardised[0] for one in self.numbers if one.points]
        design = [np.zeros((0, len(graph))), *(np.stack([row, -0.5 * row * row]) for row in rows)]
        known = [np.zeros((len(graph), 0)), *(one.number.known[:, None] for one in self.numbers)]
        self.store_arrays({"design": np.concatenate(design), "known": np.concatenate(known, axis=1)})
        self.largest = float(np.abs(self.design.numpy()).sum(axis=0).max(initial=0.0))
        self.spread = [one.place for one in self.numbers if not one.points]
        around = [one.number.standardised for one in self.numbers]
        self.largest_value, self.largest_variance = (
            max((float(np.abs(pair[part]).max(initial=0.0)) for pair in around), default=0.0) for part in (0, 1)
        )
        self.largest_variance **= 2
        self._formats: dict[tuple[str, torch.dtype], Tensor] = {}

    def __len__(self) -> int:
        return len(self.numbers)

    def number(self, name: str) -> NumberTensors:
        """The tensors of one number.

        Raises:
            UnknownNameError: the graph has no such number.
        """
        for one in self.numbers:
            if one.name == name:
                return one
        raise unknown_name("number", name, [one.name for one in self.numbers])

    def design_of(self, dtype: torch.dtype) -> Float[Tensor, "row fine"]:
        """`design` in a number format."""
        return self._kept("design", dtype, lambda: self.design)

    def values_of(
        self, dtype: torch.dtype, places: Sequence[int]
    ) -> tuple[Float[Tensor, "number fine"], Float[Tensor, "number fine"]]:
        """The inner values of all fine labels, and their variances, for some numbers in a number format."""
        both = self._kept("values", dtype, self._values)
        chosen = both if len(places) == len(self) else both[list(places)]
        return chosen[:, 0], chosen[:, 1]

    def _values(self) -> Float[Tensor, "number 2 fine"]:
        pairs = [torch.stack([one.value[one.component], one.variance[one.component]]) for one in self.numbers]
        return torch.stack(pairs)

    @property
    def has_reading_table(self) -> bool:
        """Whether all values are exact and `reading_table` is not too large to be kept."""
        return self.linear and len(self) * self.fine_count**2 <= _MAX_TABLE

    def reading_table(self, dtype: torch.dtype) -> Float[Tensor, "fine number _"]:
        """For each fine label and number, the likelihoods (n3) of reading its exact value given all fine labels.

        It has fine x fine entries per number.
        """
        return self._kept("readings", dtype, self._readings)

    def _readings(self) -> Float[Tensor, "fine number _"]:
        rows = self.design[0::2]
        variance = self.design.new_tensor([one.measured_variance for one in self.numbers])
        away = rows.t().unsqueeze(2) - rows.unsqueeze(0)
        return (away.square() / (-2.0 * variance[:, None])).exp()

    def _kept(self, name: str, dtype: torch.dtype, make: Callable[[], Tensor]) -> Tensor:
        """A tensor in a number format, made once; tables of a device other than the first are made there."""
        if (name, dtype) not in self._formats:
            with torch.inference_mode(False):
                self._formats[name, dtype] = make().to(dtype)
        return self._formats[name, dtype]

    def on(self, device: torch.device) -> NumberTable:
        """The same on a device."""
        twin = super().on(device)
        twin._formats = {}
        return twin

    @property
    def linear(self) -> bool:
        """Whether what all numbers add to the joint scores is linear in their scores."""
        return len(self.points) == len(self.numbers)
