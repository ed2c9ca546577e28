"""The numbers of a graph as tensors: for each number, the normal distributions of its fine labels.

Fine labels with the same value and spread, such as all cars of one year or all dishes with an unknown price, form one
*component*: a normal distribution on the inner scale of the number. Components are sorted by value. A number without
spreads and unknown values consists of *points*; its terms in the joint scores are then linear in its two scores.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from finegraph.errors import unknown_name
from finegraph.graph import LabelGraph, Number
from finegraph.inference.numerics import Constants

READING_ERROR = 0.1
"""The smallest standard deviation, on the inner scale, of the error with which the loss reads a value. Differences
below a tenth of the spread of all values are not worth learning, however many digits the values have."""
_MAX_TABLE = 1 << 23
"""The largest table of likelihoods to keep."""


class NumberTensors(Constants):
    """The tensors of one number.

    Attributes:
        number: the number of the graph.
        place: its position among the numbers of the graph.
        value: the mean of each component on the inner scale, in rising order and in float64.
        variance: the variance of each component; 0 for an exact value.
        component: the component of each fine label.
        fine_value: the inner value of each fine label; NaN if unknown.
        points: whether all values are known and exact.
        distinct: whether component i is fine label i alone.
        resolution: half the smallest step between values, on the inner scale.
        measured_variance: the variance of the error with which the loss reads a value measured on a photo.
        reading_variance: the same for the value of each component, with its own variance added.
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
        """The name of the number."""
        return self.number.name

    @property
    def count(self) -> int:
        """The number of components."""
        return len(self.value)

    def to_fine(self, components: Float[Tensor, "batch component"]) -> Float[Tensor, "batch fine"]:
        """The value of the component of each fine label."""
        return components if self.distinct else components.index_select(1, self.component)

    def to_components(self, fine: Float[Tensor, "batch fine"]) -> Float[Tensor, "batch component"]:
        """The sum over the fine labels of each component."""
        if self.distinct:
            return fine
        return fine.new_zeros(fine.shape[0], self.count).index_add(1, self.component, fine)

    def largest_of_components(self, probs: Float[Tensor, "batch fine"]) -> Float[Tensor, "batch component"]:
        """The largest probability among the fine labels of each component."""
        if self.distinct:
            return probs
        places = self.component.expand_as(probs)
        return probs.new_zeros(len(probs), self.count).scatter_reduce(1, places, probs, reduce="amax")


class NumberTable(Constants):
    """All numbers of a graph.

    Attributes:
        numbers: the tensors of each number, in the order of the graph.
        fine_count: the number of fine labels.
        points: the positions of numbers that consist of points.
        spread: the positions of the others.
        largest_value: the largest absolute inner value.
        largest_variance: the largest variance of an inner value.
        largest: the largest term that numbers can add to a joint score, for scores of at most 1.
        known: 1 for each fine label and number whose value is known, else 0.
        all_known: whether all values are known.
        design: for numbers that consist of points, the factors v and - v^2 / 2 of the two scores, number after number.
    """

    known: Tensor
    design: Tensor

    def __init__(self, graph: LabelGraph) -> None:
        self.fine_count = len(graph)
        self.numbers = [NumberTensors(graph.number(name), place) for place, name in enumerate(graph.numbers)]
        self.points = [each.place for each in self.numbers if each.points]
        rows = [each.number.standardised[0] for each in self.numbers if each.points]
        design = [np.zeros((0, len(graph))), *(np.stack([row, -0.5 * row * row]) for row in rows)]
        known = [np.zeros((len(graph), 0)), *(each.number.known[:, None] for each in self.numbers)]
        self.store_arrays({"design": np.concatenate(design), "known": np.concatenate(known, axis=1)})
        self.all_known = bool(self.known.all())
        self.largest = float(np.abs(self.design.numpy()).sum(axis=0).max(initial=0.0))
        self.spread = [each.place for each in self.numbers if not each.points]
        standardised = [each.number.standardised for each in self.numbers]
        self.largest_value, self.largest_variance = (
            max((float(np.abs(pair[part]).max(initial=0.0)) for pair in standardised), default=0.0) for part in (0, 1)
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
        for number in self.numbers:
            if number.name == name:
                return number
        raise unknown_name("number", name, [number.name for number in self.numbers])

    def design_of(self, dtype: torch.dtype) -> Float[Tensor, "row fine"]:
        """`design` in a dtype."""
        return self._cached("design", dtype, lambda: self.design)

    def values_of(
        self, dtype: torch.dtype, places: Sequence[int]
    ) -> tuple[Float[Tensor, "number fine"], Float[Tensor, "number fine"]]:
        """The inner values of all fine labels and their variances, for some numbers and in a dtype."""
        values = self._cached("values", dtype, self._values)
        chosen = values if len(places) == len(self) else values[list(places)]
        return chosen[:, 0], chosen[:, 1]

    def _values(self) -> Float[Tensor, "number 2 fine"]:
        pairs = [torch.stack([each.value[each.component], each.variance[each.component]]) for each in self.numbers]
        return torch.stack(pairs)

    def of_places(
        self, table: Shaped[Tensor, "batch number *shape"], places: Sequence[int]
    ) -> Shaped[Tensor, "batch _ *shape"]:
        """The columns of some numbers, in rising order; the table itself if these are all."""
        return table if len(places) == len(self) else table[:, list(places)]

    def own_readings(
        self, dtype: torch.dtype, fine: Int[Tensor, " batch"]
    ) -> tuple[Float[Tensor, "batch number"], Float[Tensor, "batch number"]]:
        """The values of fine labels, as the loss reads them, and the variances of their errors."""
        value, variance = self._cached("own readings", dtype, self._own_readings).index_select(1, fine)
        return value, variance

    def _own_readings(self) -> Float[Tensor, "2 fine number"]:
        values = torch.stack([each.value[each.component] for each in self.numbers], dim=1)
        variances = torch.stack([each.reading_variance[each.component] for each in self.numbers], dim=1)
        return torch.stack([values, variances])

    @property
    def has_reading_table(self) -> bool:
        """Whether all values are exact and `reading_table` is small enough to keep."""
        return self.linear and len(self) * self.fine_count**2 <= _MAX_TABLE

    def reading_table(self, dtype: torch.dtype) -> Float[Tensor, "row fine"]:
        """For each fine label and number, the likelihoods (n3) of reading its exact value given all fine labels.

        It has fine x fine entries per number.
        """
        return self._cached("readings", dtype, lambda: self._readings(dtype))

    def reading_rows(self, fine: Int[Tensor, " batch"]) -> Int[Tensor, " _"]:
        """The rows of `reading_table` for the numbers of some fine labels, one label after the other."""
        return self._cached("rows", torch.int64, self._rows).index_select(0, fine).view(-1)

    def _rows(self) -> Int[Tensor, "fine number"]:
        return torch.arange(self.known.numel(), device=self.known.device).view(self.known.shape)

    def _readings(self, dtype: torch.dtype) -> Float[Tensor, "row fine"]:
        table = self.design.new_empty(self.fine_count, len(self), self.fine_count, dtype=dtype)
        for number in self.numbers:
            value = number.value[number.component]
            difference = value.unsqueeze(1) - value
            table[:, number.place] = difference.square_().div_(-2.0 * number.measured_variance).exp_()
        return table.view(-1, self.fine_count)

    def _cached(self, name: str, dtype: torch.dtype, make: Callable[[], Tensor]) -> Tensor:
        """A tensor in a dtype, made once per device."""
        if (name, dtype) not in self._formats:
            with torch.inference_mode(False):
                self._formats[name, dtype] = make().to(dtype)
        return self._formats[name, dtype]

    def on(self, device: torch.device) -> NumberTable:
        """A copy on a device."""
        copy = super().on(device)
        copy._formats = {}
        return copy

    @property
    def linear(self) -> bool:
        """Whether the terms of all numbers in the joint scores are linear in their scores."""
        return len(self.points) == len(self.numbers)
