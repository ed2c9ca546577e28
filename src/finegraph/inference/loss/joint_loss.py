"""The loss of the paper, for whole, partial, set-valued and image-level labels.

    L = -log p_y - sum_j weight_j log p^j[t_j]        t_j = the parent of y in kind j, or the label seen on this photo

What was not observed is left out: an unknown parent, a fine label or a kind marked with `ignore_index`. A sample of
which nothing was observed contributes 0. Time and memory are a few times those of a plain cross-entropy; see
`formulas.py` for how.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from finegraph.errors import InputError, ShapeError
from finegraph.inference.loss.autograd import compiled_loss, differentiable_loss
from finegraph.inference.loss.targets import KindWeights, batch_targets, check_types, photo_labels, weight_of_kinds
from finegraph.inference.posterior import Posterior

Reduction = Literal["mean", "sum", "none"]


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
            be one of several fine labels, a mask (batch, fine) of these; or None if no fine label was observed.
        kind_targets: for some kinds the label seen on each photo; `ignore_index` where it was not observed, `FROM_FINE`
            (-2) where it is what the graph says of the fine label. By default, and for the other kinds, all are that.
        kind_weights: the weight of each kind's term: one number for all, or one per kind. By default 1, as in the
            paper.
        reduction: "mean" over the samples of which anything was observed, "sum", or "none" for one loss per sample.
        ignore_index: marks what was not observed.

    Example:
        >>> from finegraph import LabelGraph
        >>> graph = LabelGraph.from_table({"a": {"dish": "x"}, "b": {"dish": "x"}, "c": {"dish": "y"}})
        >>> posterior = Posterior(graph, torch.zeros(2, 3), {"dish": torch.zeros(2, 2)})
        >>> joint_loss(posterior, torch.tensor([0, 2])).item()   # (log 3 + log 3/2 + log 3 + log 3) / 2
        1.8506...
    """
    if reduction not in ("mean", "sum", "none"):
        raise InputError(f"reduction is 'mean', 'sum' or 'none', got {reduction!r}")
    graph, tensors, kind_targets = posterior.graph, posterior.tensors, kind_targets or {}
    weights = weight_of_kinds(graph, kind_weights)
    check_types(graph, target, kind_targets)
    if target is not None and target.dtype == torch.bool:
        return _set_loss(posterior, target, kind_targets, weights, reduction, ignore_index)
    fine, coarse = posterior.scores_with_evidence()
    tables = tensors.tables_for(coarse)
    batch, dtype = len(posterior), tables.dtype_of(fine, coarse)
    if target is None:
        target = torch.full((batch,), ignore_index, device=fine.device)
    targets, observed = batch_targets(tensors, tables, target, kind_targets, weights, ignore_index, batch, dtype)
    divisor = _divisor(reduction, batch, observed)
    if torch.compiler.is_compiling():
        return compiled_loss(tensors, fine, coarse, targets, divisor)
    return differentiable_loss(tables, fine, coarse, targets, divisor)


def _divisor(reduction: Reduction, batch: int, observed: Bool[Tensor, " batch"] | None) -> float | Tensor | None:
    """What to divide the summed loss by; None if it is not summed."""
    if reduction == "none":
        return None
    if reduction == "sum":
        return 1.0
    return float(max(batch, 1)) if observed is None else observed.sum().clamp_min(1)


def _set_loss(
    posterior: Posterior,
    target: Bool[Tensor, "batch fine"],
    kind_targets: Mapping[str, Int[Tensor, " batch"]],
    weights: list[float] | None,
    reduction: Reduction,
    ignore_index: int,
) -> Float[Tensor, ""] | Float[Tensor, " batch"]:
    """The loss for fine labels known only to be one of a set; a kind's term uses the union of their parents."""
    tensors, log_probs = posterior.tensors, posterior.log_probs()
    if target.shape != log_probs.shape:
        raise ShapeError(f"target: expected a mask of shape {tuple(log_probs.shape)}, got {tuple(target.shape)}")
    observed = target.any(dim=1)
    loss = -_log_sum(log_probs, target)
    for kind in tensors.each():
        union = kind.union_of_parents(target)
        if kind.name in kind_targets:
            labels = photo_labels(tensors, kind.name, kind_targets[kind.name], len(loss), ignore_index)
            one = torch.nn.functional.one_hot(labels.label, kind.label_count).bool()
            union = (one & labels.seen.unsqueeze(1)) | (union & labels.from_fine.unsqueeze(1))
            observed = observed | labels.seen
        weight = 1.0 if weights is None else weights[kind.number]
        loss = loss - weight * _log_sum(posterior.kind_log_probs(kind.name, log_probs), union)
    divisor = _divisor(reduction, len(loss), observed)
    return loss if divisor is None else loss.sum() / divisor


def _log_sum(log_probs: Float[Tensor, "batch label"], mask: Bool[Tensor, "batch label"]) -> Float[Tensor, " batch"]:
    """The log of the summed probability of each sample's set; 0 for an empty set, which says nothing."""
    some = mask.any(dim=1)
    terms = log_probs.masked_fill(~mask, -torch.inf)
    possible = ~terms.isneginf().all(dim=1)
    # Sets that say nothing, or are impossible, are replaced before the logarithm, so that no NaN enters the gradient.
    total = torch.logsumexp(torch.where(possible.unsqueeze(1), terms, 0.0), dim=1)
    return torch.where(possible, total, torch.where(some, -torch.inf, 0.0))
