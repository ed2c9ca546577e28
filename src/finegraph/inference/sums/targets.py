"""The targets of the loss: for each sample, the fine label and the coarse labels whose probabilities the loss contains.

A kind has one target per parent of a fine label; in the paper, that is one. The columns and weights of the targets are
a table (fine, target), except for kinds in which a few fine labels have far more parents than the others: their targets
are read from lists, as many as a batch needs. A kind that is summed by weights has one target per label, and these come
last.

The targets of a batch come from its fine labels, its photo labels and the weights of kinds, which are checked here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor

from finegraph.errors import InputError, ShapeError, TargetError, unknown_name
from finegraph.graph import Kind, LabelGraph
from finegraph.inference.numerics import Constants, compact_indices
from finegraph.inference.sums.groups import KindTensors

Reduction = Literal["mean", "sum", "none"]
KindWeights = float | Mapping[str, float] | None

FROM_FINE = -2
"""In place of a label of a kind: use the parent of the sample's fine label."""
_MAX_PLACES = 4
"""The targets of a kind are a table if it has at most this many entries per edge or fine label."""


class Targets(NamedTuple):
    """The labels of each sample in the loss: its fine label, and some coarse labels.

    Attributes:
        fine: the fine label; arbitrary if it was not observed.
        column: the coarse column of the label of each target.
        weight: the weight of the fine label, then of each target; 0 if it was not observed. One row if all samples have
            the same weights, None if all are 1.
        kind: the number of the kind of each target.
    """

    fine: Int[Tensor, " batch"]
    column: Int[Tensor, "batch target"]
    weight: Float[Tensor, "_ term"] | None
    kind: list[int]

    def part(self, samples: slice) -> Targets:
        """The targets of some of the samples."""
        weight = self.weight if self.weight is None or len(self.weight) == 1 else self.weight[samples]
        return Targets(self.fine[samples], self.column[samples], weight, self.kind)

    def first(self, count: int) -> Targets:
        """The first targets of all samples."""
        weight = None if self.weight is None else self.weight[:, : 1 + count]
        return Targets(self.fine, self.column[:, :count], weight, self.kind[:count])

    def places_of(self, kind: int) -> slice:
        """The targets of a kind, which are contiguous."""
        start = self.kind.index(kind)
        return slice(start, start + self.kind.count(kind))


class KindColumns(NamedTuple):
    """A kind of the graph, its number, and its first coarse column."""

    kind: Kind
    number: int
    start: int


class TargetTable(Constants):
    """The targets of all fine labels.

    Attributes:
        column: the columns of the targets in the table.
        weighted: which of the targets in the table do not have the weight 1 for all fine labels.
        weight: the weights of the links of these in float64; 0 if a fine label has fewer parents.
        label_column: the columns of kinds that have one target per label.
        label_weight: the weights of their links in float64.
        label_kinds: the number of the kind of each such target.
    """

    column: Tensor
    weighted: Tensor
    weight: Tensor
    label_column: Tensor
    label_weight: Tensor

    def __init__(
        self, fine_count: int, kinds: Sequence[KindColumns], by_label: Sequence[tuple[KindColumns, int]]
    ) -> None:
        """Make the table.

        Args:
            fine_count: the number of fine labels.
            kinds: the kinds with one target per parent.
            by_label: the kinds with one target per label, each with its number of targets, padding included.
        """
        columns, weights = [np.zeros((fine_count, 0), np.int64)], [np.zeros((fine_count, 0))]
        weighted: list[int] = []
        self.kind: list[int] = []
        self.listed: list[_ListedTargets] = []
        for kind, number, start in kinds:
            width = max(int(kind.row_sizes.max()), 1)
            if width > 1 and width * fine_count > _MAX_PLACES * (fine_count + len(kind.coarse)):
                self.listed.append(_ListedTargets(kind, number, start))
                continue
            label, weight = _parent_table(kind, width)
            columns.append(label + start)
            if (weight != 1).any():
                weighted += range(len(self.kind), len(self.kind) + width)
                weights.append(weight)
            self.kind += [number] * width
        self.store_arrays({"column": compact_indices(np.concatenate(columns, axis=1))})
        self.store_arrays({"weighted": np.array(weighted, np.int64), "weight": np.concatenate(weights, axis=1)})
        self._store_label_targets(fine_count, by_label)
        self.all_one = not self.listed and not by_label and not weighted

    def _store_label_targets(self, fine_count: int, by_label: Sequence[tuple[KindColumns, int]]) -> None:
        """Store the targets of kinds with one per label; padding repeats the first column with weight 0."""
        self.label_kinds = [entry.number for entry, width in by_label for _ in range(width)]
        column, weight = np.zeros(len(self.label_kinds), np.int64), np.zeros((fine_count, len(self.label_kinds)))
        stop = 0
        for (kind, _, first_column), width in by_label:
            start, stop = stop, stop + width
            column[start:stop] = first_column
            column[start : start + len(kind.labels)] += np.arange(len(kind.labels))
            weight[:, start : start + len(kind.labels)] = kind.matrix()
        self.store_arrays({"label_column": column, "label_weight": weight})

    def of_batch(self, fine: Int[Tensor, " batch"], weighted: bool) -> Targets:
        """The targets of fine labels; the first column of the weights is 1, for the fine label itself.

        Args:
            fine: the fine labels.
            weighted: whether weights are needed even if all are 1.
        """
        column = self.column.index_select(0, fine).long()
        if self.all_one and not weighted:
            return Targets(fine, column, None, self.kind)
        table = self.weight.new_ones(len(fine), 1 + len(self.kind))
        if len(self.weighted):
            table = table.index_copy(1, 1 + self.weighted, self.weight.index_select(0, fine))
        columns, weights, kind = [column], [table], list(self.kind)
        for listed in self.listed:
            column, weight = listed.of_batch(fine)
            columns.append(column)
            weights.append(weight)
            kind += [listed.number] * column.shape[1]
        if self.label_kinds:
            columns.append(self.label_column.expand(len(fine), -1))
            weights.append(self.label_weight.index_select(0, fine))
            kind += self.label_kinds
        return Targets(fine, torch.cat(columns, dim=1), torch.cat(weights, dim=1), kind)

    def max_kinds(self) -> list[int]:
        """The number of the kind of each target, in a batch that needs as many targets as possible."""
        return [*self.kind, *(kind.number for kind in self.listed for _ in range(kind.width)), *self.label_kinds]


class _ListedTargets(Constants):
    """The targets of one kind as lists."""

    def __init__(self, kind: Kind, number: int, first_column: int) -> None:
        self.number, self.width = number, int(kind.row_sizes.max())
        self.starts = torch.from_numpy(kind.starts.copy())
        self.column = torch.from_numpy(kind.coarse + first_column)
        self.weight = torch.from_numpy(kind.weight.copy())

    def of_batch(
        self, fine: Int[Tensor, " batch"]
    ) -> tuple[Int[Tensor, "batch target"], Float[Tensor, "batch target"]]:
        """The columns and weights of the targets of fine labels."""
        start = self.starts.index_select(0, fine).unsqueeze(1)
        size = self.starts.index_select(0, fine + 1).unsqueeze(1) - start
        # In a compiled program, widths may depend on the graph only.
        width = self.width if torch.compiler.is_compiling() or not len(fine) else max(int(size.amax()), 1)
        step = torch.arange(width, device=fine.device)
        edge = (start + step).clamp_max(len(self.column) - 1)
        return self.column[edge], self.weight[edge] * (step < size)


def _parent_table(kind: Kind, width: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The labels and weights of the parents of each fine label, both (fine, parent)."""
    label = np.zeros((kind.fine_count, width), np.int64)
    weight = np.zeros((kind.fine_count, width))
    fine, coarse, link = kind.edges
    place = np.arange(len(fine)) - np.repeat(kind.starts[:-1], kind.row_sizes)
    label[fine, place] = coarse
    weight[fine, place] = link
    return label, weight


class PhotoLabels(NamedTuple):
    """The photo labels of one kind.

    Attributes:
        label: the photo label of each sample; arbitrary if it has none.
        seen: which samples have a photo label.
        from_fine: which samples use the parent of their fine label.
    """

    label: Int[Tensor, " batch"]
    seen: Bool[Tensor, " batch"]
    from_fine: Bool[Tensor, " batch"]


def check_types(graph: LabelGraph, target: object, kind_targets: Mapping[str, object] | None) -> None:
    """Raise if a target is not a tensor, or is for a kind that the graph does not have."""
    if target is not None and not isinstance(target, Tensor):
        raise TargetError(f"target: expected a tensor of label indices, got {type(target).__name__}")
    for name, labels in (kind_targets or {}).items():
        if name not in graph.numbers and name not in graph.kinds:
            raise unknown_name("kind", name, (*graph.kinds, *graph.numbers))
        if not isinstance(labels, Tensor):
            what = "values" if name in graph.numbers else "label indices"
            raise TargetError(f"kind_targets[{name!r}]: expected a tensor of {what}, got {type(labels).__name__}")


def weights_of_kinds(graph: LabelGraph, kind_weights: KindWeights) -> list[float] | None:
    """One weight per kind and then per number; None if all are 1."""
    if kind_weights is None:
        return None
    names = (*graph.kinds, *graph.numbers)
    if isinstance(kind_weights, Mapping):
        for name in kind_weights:
            if name not in names:
                raise unknown_name("kind", name, names, "in kind_weights")
        weights = [float(kind_weights.get(name, 1.0)) for name in names]
    else:
        weights = [float(kind_weights)] * len(names)
    for name, weight in zip(names, weights, strict=True):
        if not 0.0 <= weight < float("inf"):
            raise InputError(f"the weight of kind {name!r} must be a finite number of at least 0, got {weight}")
    return weights


def batch_targets(
    graph: LabelGraph,
    kinds: Sequence[KindTensors],
    table: TargetTable,
    target: Int[Tensor, " batch"],
    kind_targets: Mapping[str, Int[Tensor, " batch"]],
    kind_weights: list[float] | None,
    ignore_index: int,
    batch: int,
    dtype: torch.dtype,
) -> tuple[Targets, Bool[Tensor, " batch"] | None]:
    """The targets of a batch, and which samples have anything observed (None: all).

    Args:
        graph: the label graph.
        kinds: the tensors of all its kinds.
        table: the targets of all fine labels.
        target: the fine label of each sample.
        kind_targets: for some kinds, the photo label of each sample.
        kind_weights: one weight per kind; None if all are 1.
        ignore_index: marks labels that were not observed.
        batch: the number of samples.
        dtype: the dtype of the weights.
    """
    complete = _check_labels("target", target, batch, len(graph), ignore_index)
    observed = None if complete else target != ignore_index
    fine = (target if observed is None else target.masked_fill(~observed, 0)).long()
    targets = table.of_batch(fine, weighted=not complete or bool(kind_targets))
    if targets.weight is not None:
        weight = targets.weight.to(dtype)
        targets = targets._replace(weight=weight if observed is None else weight * observed.unsqueeze(1))
    for kind in kinds if kind_targets else ():
        if kind.name in kind_targets:
            labels = photo_labels(graph, kind, kind_targets[kind.name], batch, ignore_index)
            _replace_by_photo_labels(kind, table, labels, targets)
            observed = None if observed is None else observed | labels.seen
    return targets if kind_weights is None else _times_kind_weights(targets, kind_weights, dtype), observed


def photo_labels(
    graph: LabelGraph, kind: KindTensors, labels: Int[Tensor, " batch"], batch: int, ignore_index: int
) -> PhotoLabels:
    """The photo labels of one kind, checked."""
    _check_labels(f"kind_targets[{kind.name!r}]", labels, batch, kind.label_count, ignore_index, may_be_from_fine=True)
    from_fine = (labels == FROM_FINE) & (labels != ignore_index)
    seen = (labels != ignore_index) & ~from_fine
    label = labels.masked_fill(~seen, 0).long()
    _check_possible(graph, kind, label, seen)
    return PhotoLabels(label, seen, from_fine)


def _replace_by_photo_labels(kind: KindTensors, table: TargetTable, labels: PhotoLabels, targets: Targets) -> None:
    """Replace the targets of a kind that come from the graph by photo labels, in place."""
    assert targets.weight is not None
    places = targets.places_of(kind.number)
    weight = targets.weight[:, 1 + places.start : 1 + places.stop]
    seen = labels.seen.to(weight.dtype)
    weight.mul_(labels.from_fine.to(weight.dtype).unsqueeze(1))
    if kind.number in table.label_kinds:
        weight.scatter_add_(1, labels.label.unsqueeze(1), seen.unsqueeze(1))
        return
    weight[:, 0] += seen
    column = targets.column[:, places.start]
    targets.column[:, places.start] = torch.where(labels.seen, kind.columns.start + labels.label, column)


def _times_kind_weights(targets: Targets, kind_weights: list[float], dtype: torch.dtype) -> Targets:
    """The targets with their weights multiplied by those of their kinds."""
    factors = [1.0, *(kind_weights[kind] for kind in targets.kind)]
    row: Float[Tensor, "1 term"] = torch.tensor([factors], dtype=dtype, device=targets.fine.device)
    return targets._replace(weight=row if targets.weight is None else targets.weight * row)


def _check_labels(
    what: str,
    target: Tensor,
    batch: int,
    count: int,
    ignore_index: int,
    may_be_from_fine: bool = False,
) -> bool:
    """Raise if a target tensor has the wrong shape or type, or a label outside the graph.

    Values are only checked on the CPU and outside compiled programs.

    Returns:
        Whether all labels are known to be observed.
    """
    if target.shape != (batch,):
        raise ShapeError(f"{what}: expected one label per sample, shape ({batch},), got {tuple(target.shape)}")
    if target.dtype.is_floating_point or target.dtype == torch.bool or target.is_complex():
        raise TargetError(f"{what}: expected label indices (whole numbers), got {target.dtype}")
    if torch.compiler.is_compiling() or target.device.type != "cpu" or batch == 0:
        return False
    if may_be_from_fine:
        target = target.masked_fill(target == FROM_FINE, ignore_index)
    low, high = (value.item() for value in torch.aminmax(target))
    if low >= 0 and high < count and not low <= ignore_index <= high:
        return True
    wrong = ((target < 0) | (target >= count)) & (target != ignore_index)
    if wrong.any():
        sample = int(wrong.nonzero()[0])
        raise TargetError(
            f"{what}: sample {sample} has label {int(target[sample])}, expected 0 to {count - 1}, "
            f"or {ignore_index} where it was not observed"
        )
    return False


def _check_possible(
    graph: LabelGraph, kind: KindTensors, labels: Int[Tensor, " batch"], seen: Bool[Tensor, " batch"]
) -> None:
    """Raise if no fine label can have one of the photo labels."""
    if torch.compiler.is_compiling() or labels.device.type != "cpu":
        return
    impossible = seen & ~kind.possible[labels]
    if bool(impossible.any()):
        label = graph.labels(kind.name)[int(labels[impossible][0])]
        raise TargetError(
            f"kind_targets[{kind.name!r}]: no fine label of the graph can have the label {label!r}: its probability is "
            "0; correct the label, or link it in the graph (see LabelGraph.with_photo_labels)"
        )


def divisor_of(
    reduction: Reduction, batch: int, observed: Bool[Tensor, " batch"] | None, dtype: torch.dtype
) -> float | Float[Tensor, ""] | None:
    """The divisor of the summed loss; None if the loss is not summed. A plain float if all samples count."""
    if reduction not in ("mean", "sum", "none"):
        raise InputError(f"reduction is 'mean', 'sum' or 'none', got {reduction!r}")
    if reduction == "none":
        return None
    if reduction == "sum":
        return 1.0
    return float(max(batch, 1)) if observed is None else observed.sum().clamp_min(1).to(dtype)
