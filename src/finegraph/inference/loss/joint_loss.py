"""The joint loss of the paper, for complete, partial and set-valued labels, photo labels, and values of numbers.

    L = -log p_y - sum_j weight_j log p^j[t_j]        t_j = the parent of y in kind j, or the photo label

A number adds minus the log probability of reading the value of y, or the value measured on the photo (`readings.py`).
What was not observed is left out: an unknown parent, or a fine label or kind marked with `ignore_index`. A sample with
nothing observed contributes 0. Time and memory are a few times those of plain cross-entropy (`formulas.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from finegraph.errors import InputError, ShapeError, TargetError, unknown_name
from finegraph.graph import LabelGraph
from finegraph.inference.loss.autograd import batch_loss, compiled_loss, with_gradients
from finegraph.inference.loss.formulas import LossOptions
from finegraph.inference.numbers.number_tensors import NumberTensors
from finegraph.inference.numbers.potential import components_of
from finegraph.inference.numbers.readings import Readings
from finegraph.inference.posterior import Posterior
from finegraph.inference.sums.graph_tensors import GraphTensors, SumTables
from finegraph.inference.sums.targets import Targets

Reduction = Literal["mean", "sum", "none"]
KindWeights = float | Mapping[str, float] | None

FROM_FINE = -2
"""In place of a label of a kind: use the parent of the sample's fine label."""
_MAX_DISTANCE = 1e15
"""The largest measured value on the inner scale, and the largest score of a number in float32. Squares stay finite."""
_MAX_SCORE = 1e150
"""The largest score of a number in float64."""


def joint_loss(
    posterior: Posterior,
    target: Int[Tensor, " batch"] | Bool[Tensor, "batch fine"] | None,
    kind_targets: Mapping[str, Int[Tensor, " batch"] | Float[Tensor, " batch"]] | None = None,
    kind_weights: KindWeights = None,
    reduction: Reduction = "mean",
    ignore_index: int = -100,
) -> Float[Tensor, ""] | Float[Tensor, " batch"]:
    """The joint negative log-likelihood of the fine label and of its coarse labels.

    Args:
        posterior: the output of a head.
        target: the fine label of each sample, or `ignore_index` if it was not observed. For samples known only to be
            one of several fine labels, a mask (batch, fine). None if no fine label was observed.
        kind_targets: for some kinds, the photo label of each sample: `ignore_index` if it was not observed, `FROM_FINE`
            (-2) for the parent of the fine label. Other kinds use the parent of the fine label. For numbers, the value
            measured on each photo, in the user's unit; NaN for the value of the fine label, if that is known.
        kind_weights: the weight of the term of each kind and number: one for all, or a mapping. By default 1, as in the
            paper.
        reduction: "mean" over the samples with anything observed, "sum", or "none" for one loss per sample.
        ignore_index: marks labels that were not observed.

    Example:
        >>> from finegraph import LabelGraph
        >>> graph = LabelGraph.from_table({"a": {"dish": "x"}, "b": {"dish": "x"}, "c": {"dish": "y"}})
        >>> posterior = Posterior(graph, torch.zeros(2, 3), {"dish": torch.zeros(2, 2)})
        >>> joint_loss(posterior, torch.tensor([0, 2])).item()   # (log 3 + log 3/2 + log 3 + log 3) / 2
        1.8506...
    """
    graph, tensors, kind_targets = posterior.graph, posterior.tensors, kind_targets or {}
    weights = weights_of_kinds(graph, kind_weights)
    check_types(graph, target, kind_targets)
    measured = _measured_values(posterior, kind_targets)
    _check_number_scores(posterior)
    kind_targets = {name: labels for name, labels in kind_targets.items() if name not in graph.numbers}
    fine, coarse = posterior.scores_with_evidence()
    if target is not None and target.dtype == torch.bool:
        log_probs = torch.log_softmax(tensors.joint_scores(fine, coarse), dim=1)
        return _set_loss(posterior, log_probs, target, kind_targets, measured, weights, reduction, ignore_index)
    tables = tensors.tables_for(coarse)
    batch, dtype = len(posterior), tables.dtype_of(fine, coarse)
    if target is None:
        target = torch.full((batch,), ignore_index, device=fine.device)
    targets, observed = batch_targets(tensors, tables, target, kind_targets, weights, ignore_index, batch, dtype)
    readings = _readings(posterior, targets.fine, target != ignore_index, measured, weights)
    if observed is not None and measured is not None:
        observed = observed | ~measured.isnan().all(dim=1)
    divisor = divisor_of(reduction, batch, observed, dtype)
    if torch.compiler.is_compiling():
        return compiled_loss(tensors, fine, coarse, targets, divisor, readings)
    needs_coarse = torch.is_grad_enabled() and coarse is not None and coarse.requires_grad
    needs_any = needs_coarse or (torch.is_grad_enabled() and fine.requires_grad)
    scale = 1.0 if divisor is None else 1.0 / divisor
    options = LossOptions(divisor is not None, scale, gradient=needs_any, coarse_gradient=needs_coarse)
    with torch.no_grad():
        computed = batch_loss(tables, fine, coarse, targets, options, readings)
    return with_gradients(computed, tables, fine, coarse, targets, options, readings) if needs_any else computed.loss


def _measured_values(posterior: Posterior, kind_targets: Mapping[str, Tensor]) -> Float[Tensor, "batch number"] | None:
    """The values measured on photos, on the inner scales, NaN if missing; None if nothing was measured."""
    numbers = posterior.tensors.numbers.numbers
    if not any(tensors.name in kind_targets for tensors in numbers):
        return None
    columns = []
    for tensors in numbers:
        number, values = tensors.number, kind_targets.get(tensors.name)
        if values is None:
            columns.append(posterior.fine_scores.new_full((len(posterior),), torch.nan, dtype=torch.float64))
            continue
        if values.shape != (len(posterior),) or not values.dtype.is_floating_point:
            raise TargetError(
                f"kind_targets[{tensors.name!r}]: expected one value per sample as floating-point numbers, NaN where "
                f"none was measured, shape ({len(posterior)},), got {values.dtype} of shape {tuple(values.shape)}"
            )
        inner = values.to(posterior.fine_scores.device).double()
        inner = ((inner.log() if number.scale == "log" else inner) - number.centre) / number.width
        if not torch.compiler.is_compiling() and bool((~(inner.abs() <= _MAX_DISTANCE) & ~values.isnan()).any()):
            above = " above 0" if number.scale == "log" else ""
            raise TargetError(
                f"kind_targets[{tensors.name!r}]: expected finite values{above} that are not more than "
                f"{_MAX_DISTANCE:g} times as far from those of the graph as these are from each other, or NaN where "
                "none was measured"
            )
        columns.append(inner)
    return torch.stack(columns, dim=1)


def _check_number_scores(posterior: Posterior) -> None:
    """Raise if scores of numbers with spreads, which the loss takes to the square, are too large for their dtype."""
    scores, table = posterior.number_scores, posterior.tensors.numbers
    if scores is None or not table.spread or torch.compiler.is_compiling() or not scores.numel():
        return
    limit = _MAX_SCORE if scores.dtype == torch.float64 else _MAX_DISTANCE
    if (largest := float(scores.detach().abs().amax())) > limit:
        raise InputError(
            f"number_scores: expected pulls and precisions of size at most {limit:g} in {scores.dtype}, got "
            f"{largest:g}; lower the learning rate if a training came to this"
        )


def _readings(
    posterior: Posterior,
    fine: Int[Tensor, " batch"],
    known: Bool[Tensor, " batch"],
    measured: Float[Tensor, "batch number"] | None,
    weights: list[float] | None,
) -> Readings | None:
    """The readings that the loss needs; None if no number has a term.

    Args:
        posterior: the output of a head.
        fine: the fine label of each sample; arbitrary if it was not observed.
        known: which fine labels were observed.
        measured: the values measured on photos.
        weights: one weight per kind and number; None if all are 1.
    """
    table = posterior.tensors.numbers
    number_weights = None if weights is None else weights[len(posterior.graph.kinds) :]
    if not len(table) or (number_weights is not None and not any(number_weights)):
        return None
    # A sample has a term if its label is known and has a value, or if a value was measured.
    weight = table.known.index_select(0, fine) * known.unsqueeze(1)
    if measured is not None:
        weight = torch.where(measured.isnan(), weight, 1.0)
    if number_weights is not None:
        weight = weight * weight.new_tensor(number_weights)
    return Readings(table, fine, measured, weight, posterior.number_scores, posterior.number_evidence)


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


def _set_loss(
    posterior: Posterior,
    log_probs: Float[Tensor, "batch fine"],
    target: Bool[Tensor, "batch fine"],
    kind_targets: Mapping[str, Int[Tensor, " batch"]],
    measured: Float[Tensor, "batch number"] | None,
    weights: list[float] | None,
    reduction: Reduction,
    ignore_index: int,
) -> Float[Tensor, ""] | Float[Tensor, " batch"]:
    """The loss for samples whose fine label is only known to be in a set.

    The term of a kind uses the union of the parents of the set. The term of a number reads the range from the smallest
    to the largest value of the set.

    Args:
        posterior: the output of a head.
        log_probs: the log probabilities of the fine labels.
        target: the set of each sample.
        kind_targets: for some kinds, the photo label of each sample.
        measured: the values measured on photos.
        weights: one weight per kind and number; None if all are 1.
        reduction: "mean", "sum" or "none".
        ignore_index: marks labels that were not observed.
    """
    tensors = posterior.tensors
    if target.shape != log_probs.shape:
        raise ShapeError(f"target: expected a mask of shape {tuple(log_probs.shape)}, got {tuple(target.shape)}")
    observed = target.any(dim=1)
    loss = -_log_sum(log_probs, target)
    for kind in tensors.kinds:
        union = kind.union_of_parents(target)
        if kind.name in kind_targets:
            labels = _photo_labels(tensors, kind.name, kind_targets[kind.name], len(loss), ignore_index)
            one_hot = torch.nn.functional.one_hot(labels.label, kind.label_count).bool()
            union = (one_hot & labels.seen.unsqueeze(1)) | (union & labels.from_fine.unsqueeze(1))
            observed = observed | labels.seen
        weight = 1.0 if weights is None else weights[kind.number]
        loss = loss - weight * _log_sum(posterior.kind_log_probs(kind.name, log_probs), union)
    for number in tensors.numbers.numbers:
        weight = 1.0 if weights is None else weights[len(tensors.kinds) + number.place]
        column = None if measured is None else measured[:, number.place]
        if column is not None:
            observed = observed | ~column.isnan()
        if weight > 0:
            loss = loss - weight * _log_prob_of_range(posterior, number, log_probs, target, column)
    divisor = divisor_of(reduction, len(loss), observed, loss.dtype)
    return loss if divisor is None else loss.sum() / divisor


def _log_prob_of_range(
    posterior: Posterior,
    number: NumberTensors,
    log_probs: Float[Tensor, "batch fine"],
    target: Bool[Tensor, "batch fine"],
    measured: Float[Tensor, " batch"] | None,
) -> Float[Tensor, " batch"]:
    """The log probability of reading a value in the range of a set of fine labels; 0 if one of their values is unknown.

    The likelihood of a value is 1 inside the range and falls with the distance outside. A value measured on the photo
    takes the place of the range.
    """
    if posterior.number_evidence is not None:
        raise InputError("joint_loss: evidence on numbers together with sets of fine labels has no closed form")
    values, variances = number.value[number.component], number.reading_variance[number.component]
    low = values.expand_as(target).masked_fill(~target, torch.inf).amin(dim=1)
    high = values.expand_as(target).masked_fill(~target, -torch.inf).amax(dim=1)
    error = variances.expand_as(target).masked_fill(~target, 0.0).amax(dim=1)
    known = target.any(dim=1) & ~(target & number.fine_value.isnan()).any(dim=1)
    if measured is not None:
        seen = ~measured.isnan()
        low, high = torch.where(seen, measured, low), torch.where(seen, measured, high)
        error, known = torch.where(seen, number.measured_variance, error), known | seen
    # Samples without a range are replaced before the logarithm, so that no NaN enters the gradient.
    low, high = (torch.where(known, end, 0.0).unsqueeze(1) for end in (low, high))
    error = torch.where(known, error, 1.0).unsqueeze(1)
    parts = components_of(number, posterior.number_scores, None)
    distance = (low - parts.mean).clamp_min(0.0) + (parts.mean - high).clamp_min(0.0)
    log_likelihood = -0.5 * (distance.square() / (parts.variance + error) + torch.log1p(parts.variance / error))
    total = torch.logsumexp(log_probs.double() + number.to_fine(log_likelihood), dim=1)
    return torch.where(known, total, 0.0).to(log_probs.dtype)


def _log_sum(log_probs: Float[Tensor, "batch label"], mask: Bool[Tensor, "batch label"]) -> Float[Tensor, " batch"]:
    """The log of the summed probability of each sample's set; 0 for an empty set, which says nothing."""
    nonempty = mask.any(dim=1)
    terms = log_probs.masked_fill(~mask, -torch.inf)
    possible = ~terms.isneginf().all(dim=1)
    # Empty and impossible sets are replaced before the logarithm, so that no NaN enters the gradient.
    total = torch.logsumexp(torch.where(possible.unsqueeze(1), terms, 0.0), dim=1)
    return torch.where(possible, total, torch.where(nonempty, -torch.inf, 0.0))


class _PhotoLabels(NamedTuple):
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
        if name not in graph.numbers:
            graph.kind(name)
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
    tensors: GraphTensors,
    tables: SumTables,
    target: Int[Tensor, " batch"],
    kind_targets: Mapping[str, Int[Tensor, " batch"]],
    kind_weights: list[float] | None,
    ignore_index: int,
    batch: int,
    dtype: torch.dtype,
) -> tuple[Targets, Bool[Tensor, " batch"] | None]:
    """The targets of a batch, and which samples have anything observed (None: all).

    Args:
        tensors: the tensors of the graph.
        tables: the tables of the sums over the graph.
        target: the fine label of each sample.
        kind_targets: for some kinds, the photo label of each sample.
        kind_weights: one weight per kind; None if all are 1.
        ignore_index: marks labels that were not observed.
        batch: the number of samples.
        dtype: the dtype of the weights.
    """
    complete = _check_labels("target", target, batch, len(tensors.graph), ignore_index)
    observed = None if complete else target != ignore_index
    fine = (target if observed is None else target.masked_fill(~observed, 0)).long()
    targets = tables.targets.of_batch(fine, weighted=not complete or bool(kind_targets))
    if targets.weight is not None:
        weight = targets.weight.to(dtype)
        targets = targets._replace(weight=weight if observed is None else weight * observed.unsqueeze(1))
    for name, labels in kind_targets.items():
        photo_labels = _photo_labels(tensors, name, labels, batch, ignore_index)
        _replace_by_photo_labels(tensors, tables, name, photo_labels, targets)
        observed = None if observed is None else observed | photo_labels.seen
    return targets if kind_weights is None else _times_kind_weights(targets, kind_weights, dtype), observed


def _photo_labels(
    tensors: GraphTensors, name: str, labels: Int[Tensor, " batch"], batch: int, ignore_index: int
) -> _PhotoLabels:
    """The photo labels of one kind, checked."""
    count = tensors.kind(name).label_count
    _check_labels(f"kind_targets[{name!r}]", labels, batch, count, ignore_index, may_be_from_fine=True)
    from_fine = (labels == FROM_FINE) & (labels != ignore_index)
    seen = (labels != ignore_index) & ~from_fine
    label = labels.masked_fill(~seen, 0).long()
    _check_possible(tensors, name, label, seen)
    return _PhotoLabels(label, seen, from_fine)


def _replace_by_photo_labels(
    tensors: GraphTensors, tables: SumTables, name: str, labels: _PhotoLabels, targets: Targets
) -> None:
    """Replace the targets of a kind that come from the graph by photo labels, in place."""
    assert targets.weight is not None
    kind = tensors.kind(name)
    places = targets.places_of(kind.number)
    weight = targets.weight[:, 1 + places.start : 1 + places.stop]
    seen = labels.seen.to(weight.dtype)
    weight.mul_(labels.from_fine.to(weight.dtype).unsqueeze(1))
    if kind.number in tables.targets.label_kinds:
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
    tensors: GraphTensors, name: str, labels: Int[Tensor, " batch"], seen: Bool[Tensor, " batch"]
) -> None:
    """Raise if no fine label can have one of the photo labels."""
    if torch.compiler.is_compiling() or labels.device.type != "cpu":
        return
    impossible = seen & ~tensors.kind(name).possible[labels]
    if bool(impossible.any()):
        label = tensors.graph.labels(name)[int(labels[impossible][0])]
        raise TargetError(
            f"kind_targets[{name!r}]: no fine label of the graph can have the label {label!r}: its probability is 0; "
            "correct the label, or link it in the graph (see LabelGraph.with_photo_labels)"
        )
