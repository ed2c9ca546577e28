"""The samples of one fit in closed form, read some at a time, in one process or in several.

Each process has some of the samples. What the fit needs of all of them are sums, which are taken chunk by chunk and
added up over processes, and a bounded part of the samples, which all processes get: whole families of fine labels, to
choose strengths on. So no process holds the features of all samples, and none copies those that it has.

Sums are those of one process up to their rounding. The part is the same: which samples are in it depends on their
features and labels, not on who has them or in which order. Cost: one pass for the mean and the size of the features,
one for the scatter, one for the class means; exchanged are 8 bytes for each fine label and feature, twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from finegraph.errors import TargetError
from finegraph.graph import LabelGraph
from finegraph.inference.processes import ONE_PROCESS, Processes
from finegraph.model.fitting.class_sums import Chunk, ClassSums
from finegraph.model.fitting.descent import graph_of
from finegraph.model.fitting.labelled_samples import LabelledSamples, without_copies
from finegraph.model.fitting.whitening import Axes, BlockAxes, Covariance, principal_axes
from finegraph.nn.scaling import compress_blocks

MAX_SELECTION_LABELS = 512
MAX_SELECTION_SAMPLES = 4096
MAX_SELECTION_PHOTOS = 64
"""The maximum numbers of fine labels, of samples, and of samples per fine label used to choose strengths."""

_MAX_NUMBERS = 1 << 22
"""About how many features are in work at a time."""


class SharedSamples:
    """The samples of a fit, compressed if asked, centred and scaled so that no square overflows or underflows.

    All processes make it, and call its methods, together.

    Attributes:
        own: the samples of this process, as they were given.
        counts: the weight of the samples of each fine label, of all processes.
        shift: the mean of all samples.
        size: the largest absolute value of all features after that.
    """

    def __init__(
        self,
        own: LabelledSamples,
        graph: LabelGraph,
        processes: Processes = ONE_PROCESS,
        compressions: Sequence[float] = (),
    ) -> None:
        """Count the samples, and find the mean and the size of their features.

        Args:
            own: the samples of this process; there may be none.
            graph: the label graph.
            processes: this process among those of the fit.
            compressions: the compression of each block of features; empty for none.

        Raises:
            TargetError: in all processes, if none has a sample.
        """
        self.own, self.graph, self._processes, self._compressions = own, graph, processes, tuple(compressions)
        features = sum(own.block_sizes)
        self.counts = torch.zeros(len(graph), dtype=torch.float64).index_add_(0, own.targets, own.weight)
        total = torch.zeros(features, dtype=torch.float64)
        ends = torch.full((2 * features,), -torch.inf, dtype=torch.float64)
        for part in self._parts():
            rows = self._compressed(own.features[part].double())
            total += own.weight[part] @ rows
            ends = torch.maximum(ends, torch.cat([rows.amax(dim=0), -rows.amin(dim=0)]))
        self._rows = torch.tensor([len(own) * own.view_count])
        processes.sum([self._rows])
        processes.sum([self.counts, total])
        processes.largest(ends)
        if not int(self._rows):
            raise TargetError("targets: expected at least one sample with a fine label and a weight above 0, got none")
        self.shift = total / self.counts.sum()
        self.size = float((ends - torch.cat([self.shift, -self.shift])).amax()) or 1.0

    @property
    def seen(self) -> Int[Tensor, " label"]:
        """The fine labels that samples have, of all processes."""
        return (self.counts > 0).nonzero()[:, 0]

    def scaled(self, samples: LabelledSamples) -> LabelledSamples:
        """Some samples, compressed, centred and scaled, in float64."""
        views = None if samples.views is None else self._scaled(samples.views)
        return replace(samples, features=self._scaled(samples.features), views=views)

    def given(self, samples: LabelledSamples) -> LabelledSamples:
        """Scaled samples as they were before, if nothing was compressed."""
        views = None if samples.views is None else samples.views * self.size + self.shift
        return replace(samples, features=samples.features * self.size + self.shift, views=views)

    def _scaled(self, features: Float[Tensor, "*batch feature"]) -> Float[Tensor, "*batch feature"]:
        return (self._compressed(features.double()) - self.shift).div_(self.size)

    def _compressed(self, features: Float[Tensor, "*batch feature"]) -> Float[Tensor, "*batch feature"]:
        sizes = self.own.block_sizes
        return compress_blocks(features, sizes, self._compressions) if self._compressions else features

    def chunks(self) -> Iterator[LabelledSamples]:
        """The samples of this process, centred and scaled, some at a time."""
        for part in self._parts():
            yield self.scaled(self.own.rows(part))

    # ---- a part of them ---------------------------------------------------------------------------------------------

    def selected(
        self, max_labels: int | None = None, max_samples: int = MAX_SELECTION_SAMPLES
    ) -> tuple[LabelledSamples, Int[Tensor, " label"], LabelGraph]:
        """A part that is large enough to choose by: whole families of fine labels, and at most some samples of each.

        Samples are scaled, in an order that follows from their features, and without copies: these are one sample of
        more weight, so that none can be held out while another stays.

        Args:
            max_labels: how many fine labels to take at the most; by default `MAX_SELECTION_LABELS`.
            max_samples: how many samples to take at the most, but for two of each label.

        Returns:
            The samples, whose labels are those of the graph of the part; the fine labels in it; and this graph.
        """
        max_labels = MAX_SELECTION_LABELS if max_labels is None else max_labels
        labels = self.seen
        if len(labels) > max_labels:
            labels = _families(self.graph, labels, max_labels).sort().values
        count = selection_photos(len(labels), max_samples)
        place = torch.searchsorted(labels, self.own.targets).clamp_max(len(labels) - 1)
        chosen = (labels[place] == self.own.targets).nonzero()[:, 0]
        some = replace(self.own, targets=place)
        some = some if len(chosen) == len(some) else some.rows(chosen)
        # A sample that is among the first ones of all processes is among those of its own process.
        some = self._first(self._of_all(self._first(some, count)), count)
        return self.scaled(some), labels, graph_of(self.graph, labels)

    def _first(self, samples: LabelledSamples, count: int) -> LabelledSamples:
        """The first samples of each label, without copies, in the order of their scaled features."""
        samples = without_copies(samples)
        keys = [torch.zeros(0, dtype=torch.float64)]
        factors = torch.arange(1.0, samples.features.shape[1] + 1.0, dtype=torch.float64).cos()
        for part in self._parts(len(samples)):
            keys.append(self._scaled(samples.features[part]) @ factors)
        order = torch.argsort(torch.cat(keys), stable=True)
        return samples.rows(order[_evenly(samples.targets[order], count)])

    def _of_all(self, samples: LabelledSamples) -> LabelledSamples:
        """Some samples of each process together, in all of them."""
        views = samples.features.new_zeros(len(samples), 0) if samples.views is None else samples.views.flatten(1)
        about = torch.stack([samples.targets.double(), samples.weight], dim=1)
        count = samples.features.shape[1]
        rows = self._processes.all_rows(torch.cat([about, samples.features.double(), views.double()], dim=1))
        features = rows[:, 2 : 2 + count].to(samples.features.dtype)
        views = rows[:, 2 + count :].to(samples.features.dtype)
        return replace(
            samples,
            features=features,
            targets=rows[:, 0].long(),
            weight=rows[:, 1].contiguous(),
            views=None if samples.views is None else views.reshape(len(rows), -1, count),
        )

    # ---- sums -------------------------------------------------------------------------------------------------------

    def axes(self, covariance: Covariance) -> BlockAxes:
        """The axes of the scatter of the features of all samples; of all single views, if there are several."""
        if int(self._rows) < max(self.own.block_sizes):
            # Fewer samples than features, so few that all processes can have them; their span is smaller, too.
            return self.scaled(self._of_all(self.own)).axes(covariance)
        seen = self.seen
        found: list[Axes] = []
        for start, size in zip(self._starts(), self.own.block_sizes, strict=True):
            block = slice(start, start + size)
            statistics = ClassSums.of_chunks(self._views(seen, block), len(seen), size, scatter=True)
            found.append(principal_axes(statistics.of_all(self._processes), covariance))
        return BlockAxes(tuple(found))

    def class_sums(self, axes: BlockAxes, shrinkage: float) -> ClassSums:
        """Counts and sums of the whitened samples of each fine label, along the axes."""

        def white() -> Iterator[Chunk]:
            for some in self.chunks():
                yield axes.white(axes.coordinates(some.features), shrinkage), some.targets, some.weight

        return ClassSums.of_chunks(white(), len(self.graph), axes.axis_count).of_all(self._processes)

    def _views(self, seen: Int[Tensor, " label"], block: slice) -> Iterator[Chunk]:
        """A block of the features of all single views; they share the weight of their sample.

        Differences between views of one photo say nothing about its class, so they are scatter too.
        """
        for some in self.chunks():
            targets, weight, features = torch.searchsorted(seen, some.targets), some.weight, some.features
            if some.views is not None:
                count = some.view_count
                targets, weight = (one.repeat_interleave(count) for one in (targets, weight / count))
                features = some.views.flatten(0, 1)
            yield features[:, block], targets, weight

    def _starts(self) -> list[int]:
        sizes = self.own.block_sizes
        return [sum(sizes[:number]) for number in range(len(sizes))]

    def _parts(self, count: int | None = None) -> Iterator[slice]:
        """Slices of samples that are in work together."""
        step = max(64, _MAX_NUMBERS // (sum(self.own.block_sizes) * self.own.view_count))
        for start in range(0, len(self.own) if count is None else count, step):
            yield slice(start, start + step)


def of_labels(samples: LabelledSamples, labels: Int[Tensor, " label"], count: int) -> LabelledSamples:
    """At most `count` samples of each of some fine labels, in their order; their labels become places among these."""
    place = torch.searchsorted(labels, samples.targets).clamp_max(len(labels) - 1)
    some = replace(samples, targets=place).rows(labels[place] == samples.targets)
    return some.rows(_evenly(some.targets, count).sort().values)


def selection_photos(labels: int, max_samples: int = MAX_SELECTION_SAMPLES) -> int:
    """How many samples of each of some fine labels strengths are chosen on."""
    return max(min(MAX_SELECTION_PHOTOS, max_samples // labels), 2)


def _families(graph: LabelGraph, seen: Int[Tensor, " label"], count: int) -> Int[Tensor, " some"]:
    """A number of fine labels, siblings together: without siblings the variance of a kind cannot be estimated."""
    order = torch.randperm(len(graph), generator=torch.Generator().manual_seed(0))
    rank = order.double()
    if graph.kinds:
        kind = max(graph.kinds, key=lambda name: len(graph.labels(name)))
        fine, coarse, _ = graph.edges(kind)
        shuffled = torch.randperm(len(graph.labels(kind)), generator=torch.Generator().manual_seed(0))
        rank[torch.from_numpy(fine)] = shuffled[torch.from_numpy(coarse)].double() / len(shuffled) * len(graph)
    return seen[torch.argsort(rank[seen], stable=True)[:count]]


def _evenly(targets: Int[Tensor, " batch"], count: int) -> Int[Tensor, " some"]:
    """At most `count` samples of each label, the first ones."""
    order = torch.argsort(targets, stable=True)
    ordered = targets[order]
    first = torch.searchsorted(ordered, ordered)
    return order[torch.arange(len(order)) - first < count].sort().values
