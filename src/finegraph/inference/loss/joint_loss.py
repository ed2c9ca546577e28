"""The loss of the paper, for whole, partial, set-valued and image-level labels.

    L = -log p_y - sum_j weight_j log p^j[t_j]        t_j = the parent of y in kind j, or the label seen on this photo

What was not observed is left out: an unknown parent, a fine label or a kind marked with `ignore_index`. A sample of
which nothing was observed contributes 0. Time and memory are a few times those of a plain cross-entropy; see
`marginal_loss.py` for how.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from finegraph.errors import InputError, ShapeError, TargetError, unknown_name
from finegraph.graph import LabelGraph
from finegraph.inference.loss.autograd import marginal_loss
from finegraph.inference.loss.targets import FROM_FINE, Targets
from finegraph.inference.posterior import Posterior
from finegraph.inference.sums.graph_tensors import GraphTensors, Way
from finegraph.inference.sums.joint_scores import Summands
from finegraph.inference.sums.target_table import SlotsOfBatch
from finegraph.inference.sums.weighted_loss import TooSmallError

Reduction = Literal["mean", "sum", "none"]
KindWeights = float | Mapping[str, float] | None


def joint_loss(
    posterior: Posterior,
    target: Int[Tensor, " batch"] | Bool[Tensor, "batch fine"] | None,
    kind_targets: Mapping[str, Int[Tensor, " batch"]] | None = None,
    kind_weights: KindWeights = None,
    reduction: Reduction = "mean",
    ignore_index: int = -100,
) -> Float[Tensor, ""] | Float[Tensor, " batch"]:
    """The joint negative log-likelihood of the fine label and of its coarse labels.

    Args:
        posterior: what a head answers.
        target: the fine label of each sample, `ignore_index` where it was not observed; or, for samples known only to
            be one of several fine labels, a mask (batch, fine) of these; or None where no fine label was observed.
        kind_targets: for some kinds the label seen on each photo; `ignore_index` where it was not observed, `FROM_FINE`
            (-2) where it is what the graph says of the fine label. By default, and for the other kinds, all are that.
        kind_weights: the weight of each kind's term: one number for all, or one per kind. 1, as in the paper, where
            nothing is given.
        reduction: "mean" over the samples of which anything was observed, "sum", or "none" for one loss per sample.
        ignore_index: marks what was not observed.

    Example:
        >>> graph = LabelGraph.from_table({"a": {"dish": "x"}, "b": {"dish": "x"}, "c": {"dish": "y"}})
        >>> posterior = Posterior(graph, torch.zeros(2, 3), {"dish": torch.zeros(2, 2)})
        >>> joint_loss(posterior, torch.tensor([0, 2])).item()   # (log 3 + log 3/2 + log 3 + log 3) / 2
        1.8506...
    """
    if reduction not in ("mean", "sum", "none"):
        raise InputError(f"reduction is 'mean', 'sum' or 'none', got {reduction!r}")
    weights = _kind_weights(posterior.graph, kind_weights)
    _check_types(posterior.graph, target, kind_targets)
    if target is not None and target.dtype == torch.bool:
        loss, seen = _set_loss(posterior, target, kind_targets, weights, ignore_index)
        divisor = _divisor(reduction, len(loss), seen)
        return loss if divisor is None else loss.sum() / divisor
    try:
        return _point_loss(posterior, target, kind_targets, weights, reduction, ignore_index, exact=False)
    except TooSmallError:
        return _point_loss(posterior, target, kind_targets, weights, reduction, ignore_index, exact=True)


def _point_loss(
    posterior: Posterior,
    target: Tensor | None,
    kind_targets: Mapping[str, Tensor] | None,
    weights: list[float] | None,
    reduction: Reduction,
    ignore_index: int,
    exact: bool,
) -> Tensor:
    """The loss for at most one fine label per sample, in the way that holds for all scores or in a quicker one."""
    parts = posterior.summands(exact)
    targets, observed = _targets(posterior, parts, target, kind_targets, weights, ignore_index)
    return marginal_loss(posterior.tensors, parts, targets, _divisor(reduction, len(posterior), observed))


def _divisor(reduction: Reduction, batch: int, observed: Tensor | None) -> float | Tensor | None:
    """What to divide the summed loss by; None where it is not summed."""
    if reduction == "none":
        return None
    if reduction == "sum":
        return 1.0
    return float(max(batch, 1)) if observed is None else observed.sum().clamp_min(1)


def _check_types(graph: LabelGraph, target: object, kind_targets: Mapping[str, object] | None) -> None:
    """Raise where targets are no tensors, or are for kinds that the graph does not have."""
    if target is not None and not isinstance(target, Tensor):
        raise TargetError(f"target: expected a tensor of label indices, got {type(target).__name__}")
    for name, labels in (kind_targets or {}).items():
        graph.kind(name)
        if not isinstance(labels, Tensor):
            raise TargetError(
                f"kind_targets[{name!r}]: expected a tensor of label indices, got {type(labels).__name__}"
            )


def _kind_weights(graph: LabelGraph, kind_weights: KindWeights) -> list[float] | None:
    """One weight per kind, or None where all are 1."""
    if kind_weights is None:
        return None
    if isinstance(kind_weights, Mapping):
        for name in kind_weights:
            if name not in graph.kinds:
                raise unknown_name("kind", name, graph.kinds, "in kind_weights")
        weights = [float(kind_weights.get(name, 1.0)) for name in graph.kinds]
    else:
        weights = [float(kind_weights)] * len(graph.kinds)
    for name, weight in zip(graph.kinds, weights, strict=True):
        if not 0.0 <= weight < float("inf"):
            raise InputError(f"the weight of kind {name!r} must be a finite number of at least 0, got {weight}")
    return weights


def _check_labels(
    what: str, target: Tensor, batch: int, count: int, ignore_index: int, from_fine: bool = False
) -> bool:
    """Raise where a target tensor has the wrong shape or type, or a value outside the graph.

    Returns:
        Whether all labels are known to be observed.
    """
    if target.shape != (batch,):
        raise ShapeError(f"{what}: expected one label per sample, shape ({batch},), got {tuple(target.shape)}")
    if target.dtype.is_floating_point or target.dtype == torch.bool or target.is_complex():
        raise TargetError(f"{what}: expected label indices (whole numbers), got {target.dtype}")
    if torch.compiler.is_compiling() or target.device.type != "cpu" or batch == 0:
        return False
    if from_fine:
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


def _targets(
    posterior: Posterior,
    parts: Summands,
    target: Tensor | None,
    kind_targets: Mapping[str, Tensor] | None,
    kind_weights: list[float] | None,
    ignore_index: int,
) -> tuple[Targets, Tensor | None]:
    """The targets of a batch, and which samples have anything observed (None: all)."""
    way, batch, device = parts.way, len(posterior), posterior.fine_scores.device
    if target is None:
        target = torch.full((batch,), ignore_index, device=device)
    complete = _check_labels("target", target, batch, len(posterior.graph), ignore_index)
    observed = None if complete else target != ignore_index
    fine = (target if observed is None else target.masked_fill(~observed, 0)).long()
    own = way.slots.of_batch(fine, weighted=not complete or bool(kind_targets))
    weighted = [] if way.weighted is None else [stack.targets(fine) for stack in way.weighted.stacks]
    if own.weight is None:
        targets = Targets(fine, own.column, None, own.kind, weighted)
        return targets if kind_weights is None else _times(targets, way, kind_weights, parts.dtype), None
    weight = torch.cat([own.weight.new_ones(batch, 1), own.weight], dim=1).to(parts.dtype)
    if observed is not None:
        weight = weight * observed.unsqueeze(1)
        weighted = [part * observed.unsqueeze(1) for part in weighted]
    targets = Targets(fine, own.column, weight, own.kind, weighted)
    for name, labels in (kind_targets or {}).items():
        seen = _put_image_labels(posterior.tensors, way, name, labels, ignore_index, own, targets)
        observed = None if observed is None else observed | seen
    return targets if kind_weights is None else _times(targets, way, kind_weights, parts.dtype), observed


def _times(targets: Targets, way: Way, kind_weights: list[float], dtype: torch.dtype) -> Targets:
    """Targets with the weights of their kinds."""
    factors = [1.0, *(kind_weights[way.numbers[kind]] for kind in targets.kind)]
    row = torch.tensor([factors], dtype=dtype, device=targets.fine.device)
    weight = row if targets.weight is None else targets.weight * row
    stacks = [] if way.weighted is None else way.weighted.stacks
    weighted = [
        part * part.new_tensor([kind_weights[number] for number in stack.numbers]).view(-1, 1, 1)
        for stack, part in zip(stacks, targets.weighted, strict=True)
    ]
    return targets._replace(weight=weight, weighted=weighted)


def _put_image_labels(
    tensors: GraphTensors,
    way: Way,
    name: str,
    labels: Tensor,
    ignore_index: int,
    slots: SlotsOfBatch,
    targets: Targets,
) -> Tensor:
    """Put the labels seen on photos into the targets of a kind; returns which samples have one."""
    kind = tensors.kind(name)
    _check_labels(f"kind_targets[{name!r}]", labels, len(targets.fine), kind.label_count, ignore_index, from_fine=True)
    as_fine = (labels == FROM_FINE) & (labels != ignore_index)
    seen = (labels != ignore_index) & ~as_fine
    label = labels.masked_fill(~seen, 0).long()
    _check_possible(tensors, name, label, seen)
    assert targets.weight is not None
    if name in way.places:
        own = slots.of_kind[way.places[name]]
        part = targets.weight[:, 1 + own.start : 1 + own.stop]
        part.mul_(as_fine.to(part.dtype).unsqueeze(1))
        part[:, 0] += seen.to(part.dtype)
        first = targets.column[:, own.start]
        targets.column[:, own.start] = torch.where(seen, kind.columns.start + label, first)
    elif way.weighted is not None:
        stack, place = way.weighted.place_of(tensors.position[name])
        part = targets.weighted[stack][place]
        part.mul_(as_fine.to(part.dtype).unsqueeze(1))
        part.scatter_add_(1, label.unsqueeze(1), seen.to(part.dtype).unsqueeze(1))
    return seen


def _check_possible(tensors: GraphTensors, name: str, labels: Tensor, seen: Tensor) -> None:
    """Raise where a label seen on a photo is one that no fine label can have."""
    if torch.compiler.is_compiling() or labels.device.type != "cpu":
        return
    impossible = seen & ~tensors.kind(name).possible[labels]
    if bool(impossible.any()):
        label = tensors.graph.labels(name)[int(labels[impossible][0])]
        raise TargetError(
            f"kind_targets[{name!r}]: no fine label of the graph can have the label {label!r}: its probability is 0; "
            "correct the label, or link it in the graph (see LabelGraph.with_image_labels)"
        )


def _set_loss(
    posterior: Posterior,
    target: Tensor,
    kind_targets: Mapping[str, Tensor] | None,
    weights: list[float] | None,
    ignore_index: int,
) -> tuple[Tensor, Tensor]:
    """The loss for fine labels known only to be one of a set; a kind's term uses the union of their parents."""
    tensors, log_probs = posterior.tensors, posterior.log_probs()
    if target.shape != log_probs.shape:
        raise ShapeError(f"target: expected a mask of shape {tuple(log_probs.shape)}, got {tuple(target.shape)}")
    observed = target.any(dim=1)
    loss = -_log_sum(log_probs, target)
    for index, (name, kind) in enumerate(zip(posterior.graph.kinds, tensors.each(), strict=True)):
        weight = 1.0 if weights is None else weights[index]
        if kind_targets is not None and name in kind_targets:
            labels = kind_targets[name]
            _check_labels(f"kind_targets[{name!r}]", labels, len(loss), kind.label_count, ignore_index, from_fine=True)
            as_fine = (labels == FROM_FINE) & (labels != ignore_index)
            seen = (labels != ignore_index) & ~as_fine
            label = labels.masked_fill(~seen, 0).long()
            _check_possible(tensors, name, label, seen)
            union = torch.nn.functional.one_hot(label, kind.label_count).bool() & seen.unsqueeze(1)
            union = union | (kind.union_of_parents(target) & as_fine.unsqueeze(1))
            observed = observed | seen
        else:
            union = kind.union_of_parents(target)
        loss = loss - weight * _log_sum(posterior.kind_log_probs(name, log_probs), union)
    return loss, observed


def _log_sum(log_probs: Tensor, mask: Tensor) -> Tensor:
    """The log of the summed probability of each sample's set; 0 for an empty set, which says nothing."""
    some = mask.any(dim=1)
    terms = log_probs.masked_fill(~mask, -torch.inf)
    possible = ~terms.isneginf().all(dim=1)
    # Sets that say nothing, or are impossible, are replaced before the logarithm, so that no NaN enters the gradient.
    total = torch.logsumexp(torch.where(possible.unsqueeze(1), terms, 0.0), dim=1)
    return torch.where(possible, total, torch.where(some, -torch.inf, 0.0))
