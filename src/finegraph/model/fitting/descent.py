"""Fit the last layer to given features: full batch, to the minimum, without learning rates.

The objective is `mean joint loss + priors` (objective.py). For softmax with an L2 prior it is convex. With kind terms
it is not: such a term, the log of the whole sum minus the log of a part of it, is a difference of convex functions. So
the starting point, all weights 0, is part of the definition. The same data give the same head; there is no seed.

A fine label without samples cannot be learnt: its bias, which has no prior, would fall without bound. It is left out of
the fit and then gets its weights from its parents: those that the priors expect, or for a softmax head those of
`head.extend`. If samples without a fine label, or photo labels, are given, all fine labels take part.

The priors may pull towards the weights of another head, `centre`, instead of 0, such as class means in closed form,
which are good with few samples and can be corrected by many. A label without samples keeps its weights from
`centre`.

Coarse labels may have features of their own (BGL_m). All of this holds for them too, except that the Laplacian prior
then needs features of equal size and assumes that they mean the same.

Cost per step: two matrix products of the features with the folded weights, as for softmax; a few dozen steps. Memory:
about 7 times the weights of the head, up to 1 GiB of earlier steps (at least three, which is 6 times the weights), and
some 150 MiB of scores, however many samples and labels there are; and the features, three times.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from finegraph.errors import InputError, unknown_name
from finegraph.graph import LabelGraph
from finegraph.model.fitting.fit_samples import (
    NOT_OBSERVED,
    FitSamples,
    check_coarse_features,
    check_fine,
    check_used,
    sample_weights,
)
from finegraph.model.fitting.head_rows import head_of_rows, move_numbers, rows_of_head, with_unseen
from finegraph.model.fitting.lbfgs import MEMORY, Minimum, minimise
from finegraph.model.fitting.objective import Objective
from finegraph.model.fitting.rows import Blocks, Strengths, exact_numbers, rows_of
from finegraph.model.fitting.span import Span, spans_of
from finegraph.nn import BipartiteHead, SoftmaxHead

_MAX_REMEMBERED, _MIN_STEPS_REMEMBERED = 1 << 30, 3
"""About how many bytes of earlier steps the minimiser remembers, and how many steps at least."""
SOFTMAX_RATIO = math.inf
"""The `coarse_ratio` that holds coarse weights at 0."""
HEADS: dict[str, type[BipartiteHead] | type[SoftmaxHead]] = {"bipartite": BipartiteHead, "softmax": SoftmaxHead}


@dataclass(frozen=True, kw_only=True)
class FitSettings:
    """How to fit a head. Strengths are relative to the mean loss; for a loss summed over n samples, multiply by n."""

    head: Literal["bipartite", "softmax"] = "bipartite"
    """The type of head: fine and coarse scores joined by the graph, or fine scores alone."""

    l2: float = 0.005
    """The strength of `1/2 |W|^2` on the weights of the fine labels. The default suits features whose variance is 1."""

    coarse_ratio: float | None = None
    """The same strength for the weights of the coarse labels, as a multiple of `l2`. By default a sixteenth of
    the number of kinds and numbers, so that their joint influence does not grow with it. `SOFTMAX_RATIO`, which
    is infinity, holds coarse weights at 0: without kind terms that is softmax, in a head that has coarse scores."""

    laplacian: float = 0.0
    """The strength of the paper's prior, which pulls the weights of linked labels together; bipartite heads only."""

    kind_weight: float | Mapping[str, float] | None = None
    """The weight of the term of each kind and number in the loss: one for all, or one each. By default 1 / (kinds +
    numbers) for a bipartite head, so that together they count as much as the fine label, and 0 for softmax, also if
    `coarse_ratio` makes it one. The paper uses 1."""

    max_iter: int = 1000
    """The maximum number of steps."""

    tolerance: float = 1e-4
    """Stop when the objective is within this share of its minimum, as estimated from the gradient and the priors."""

    def __post_init__(self) -> None:
        if self.head not in HEADS:
            raise InputError(f"head: expected 'bipartite' or 'softmax', got {self.head!r}")
        for name in ("l2", "coarse_ratio", "laplacian", "tolerance"):
            value = getattr(self, name)
            if not (name == "coarse_ratio" and value in (None, SOFTMAX_RATIO)) and not _is_strength(value):
                raise InputError(f"{name}: expected a finite number of at least 0, got {value!r}")
        if self.laplacian and (self.head == "softmax" or self.is_softmax):
            raise InputError(
                f"laplacian: this prior ties fine to coarse weights and a softmax head has none of these, got "
                f"{self.laplacian}; use 0, or the bipartite head with a finite coarse_ratio"
            )
        if self.max_iter < 1:
            raise InputError(f"max_iter: expected at least 1, got {self.max_iter!r}")

    @property
    def is_softmax(self) -> bool:
        """Whether coarse weights are held at 0, which makes a bipartite head equivalent to softmax."""
        return self.head == "bipartite" and self.coarse_ratio == SOFTMAX_RATIO

    def kind_weights(self, graph: LabelGraph) -> dict[str, float]:
        """The weight of the term of each kind and number."""
        names = (*graph.kinds, *graph.numbers)
        if isinstance(self.kind_weight, Mapping):
            for name in self.kind_weight:
                if name not in names:
                    raise unknown_name("kind", name, names, "in kind_weight")
        default = 0.0 if self.head == "softmax" or self.is_softmax else 1.0 / max(len(names), 1)
        given = self.kind_weight
        chosen = given if isinstance(given, Mapping) else dict.fromkeys(names, default if given is None else given)
        weights = {name: float(chosen.get(name, default)) for name in names}
        for name, weight in weights.items():
            if not 0.0 <= weight < float("inf"):
                raise InputError(f"kind_weight of {name!r}: expected a finite number of at least 0, got {weight}")
        return weights

    def strengths(self, graph: LabelGraph) -> Strengths:
        """The strengths of the priors for a graph."""
        ratio = (len(graph.kinds) + len(graph.numbers)) / 16 if self.coarse_ratio is None else self.coarse_ratio
        return Strengths(self.l2, self.l2 * ratio, self.laplacian)


@dataclass(frozen=True, kw_only=True)
class Fit:
    """A fitted head and the course of the fit.

    Attributes:
        head: the head, on the given features.
        iterations: the number of steps.
        converged: whether the objective is within the tolerance of a minimum.
        objective: the mean loss plus the priors at the end.
    """

    head: BipartiteHead | SoftmaxHead
    iterations: int
    converged: bool
    objective: float


def fit_head(
    features: Float[Tensor, "batch feature"],
    targets: Int[Tensor, " batch"],
    graph: LabelGraph,
    settings: FitSettings | None = None,
    *,
    coarse_features: Float[Tensor, "batch coarse_feature"] | None = None,
    kind_targets: Mapping[str, Int[Tensor, " batch"] | Float[Tensor, " batch"]] | None = None,
    sample_weight: Float[Tensor, " batch"] | None = None,
    start: BipartiteHead | SoftmaxHead | None = None,
    centre: BipartiteHead | SoftmaxHead | None = None,
    spans: tuple[Span, ...] | None = None,
) -> Fit:
    """Fit a head to features.

    Args:
        features: one row per sample, in float32 or float64; the fit uses the same dtype.
        targets: the fine label of each sample, -100 if not observed.
        graph: the label graph.
        settings: the head and how to fit it; by default `FitSettings()`.
        coarse_features: the features of the coarse labels, for a two-feature head (BGL_m); by default the same.
        kind_targets: for some kinds the photo label of each sample, -100 if there is none; for some numbers the value
            measured on it, in the user's unit, NaN if there is none. By default those of the graph.
        sample_weight: the weight of each sample; by default all are equal.
        start: a head of the same form to start from instead of 0, such as one fitted with similar settings.
        centre: a head of the same form, on these features, towards whose weights the priors pull instead of 0. It is
            also the starting point, unless `start` is given.
        spans: the span of the features, and of the coarse features if there are any, if already computed.

    Example:
        >>> graph = LabelGraph.from_table({"a": {"dish": "x"}, "b": {"dish": "x"}, "c": {"dish": "y"}})
        >>> fit = fit_head(torch.eye(3), torch.tensor([0, 1, 2]), graph)
        >>> fit.head(torch.eye(3)).log_probs().argmax(dim=1).tolist(), fit.converged
        ([0, 1, 2], True)
    """
    settings = settings or FitSettings()
    if settings.is_softmax:
        if centre is not None:
            raise InputError(
                "centre: expected a finite coarse_ratio beside it; to hold coarse weights, use a large one"
            )
        return _fit_softmax(
            features, targets, graph, settings, coarse_features, kind_targets, sample_weight, start, spans
        )
    check_used(settings.kind_weights(graph), kind_targets or {})
    weight = sample_weights(features, targets, kind_targets or {}, sample_weight, graph.numbers)
    matrices = _matrices(features, coarse_features, settings)
    if bool((weight == 0).any()):
        # A sample of weight 0 must not count, not even to make its label seen.
        used = weight > 0
        targets, weight = targets[used], weight[used]
        matrices = tuple(matrix[used] for matrix in matrices)
        kind_targets = {name: label[used] for name, label in (kind_targets or {}).items()}
    seen = torch.unique(targets)
    check_fine(seen, graph)
    partial = bool(kind_targets) or bool((seen == NOT_OBSERVED).any())
    part = graph if partial else graph_of(graph, seen)
    if part is not graph:
        targets = torch.searchsorted(seen, targets)
    spans = spans or spans_of(matrices, weight, tied=settings.laplacian > 0)
    columns = tuple(span.columns(matrix) for span, matrix in zip(spans, matrices, strict=True))
    samples = FitSamples(columns, targets, kind_targets or {}, weight)
    exact = exact_numbers(graph) if settings.head == "bipartite" else {}
    first, middle = (
        None if one is None else _rows_of_other(name, one, graph, settings, seen, part, spans)
        for name, one in (("start", start), ("centre", centre))
    )
    end, objective = _solve(part, samples, settings, exact, first, middle)
    rows = objective.rows(end.point)
    if centre is not None:
        moved = head_of_rows(objective.away(end.point), part, spans, bipartite=settings.head == "bipartite")
        head = _moved(centre, moved, seen if part is not graph else slice(None))
        if graph.numbers and isinstance(head, BipartiteHead) and isinstance(moved, BipartiteHead):
            move_numbers(head, rows, moved, part, spans)
        return Fit(head=head, iterations=end.iterations, converged=end.converged, objective=end.value)
    with torch.random.fork_rng(devices=[]):  # new layers draw weights; the caller's generator must not advance
        if settings.head == "softmax":
            head = head_of_rows(rows, part, spans, bipartite=False)
            head = head if part is graph else head.extend(graph)
        else:
            rows = rows if part is graph else with_unseen(rows, graph, seen, settings.strengths(graph))
            head = head_of_rows(rows, graph, spans, bipartite=True, part=part, columns=columns[-1])
    return Fit(head=head, iterations=end.iterations, converged=end.converged, objective=end.value)


def _fit_softmax(
    features: Tensor,
    targets: Tensor,
    graph: LabelGraph,
    settings: FitSettings,
    coarse_features: Tensor | None,
    kind_targets: Mapping[str, Tensor] | None,
    sample_weight: Tensor | None,
    start: BipartiteHead | SoftmaxHead | None,
    spans: tuple[Span, ...] | None,
) -> Fit:
    """Fit softmax, and put it into a bipartite head whose coarse weights are 0."""
    weights = settings.kind_weights(graph)
    plain = replace(settings, head="softmax", coarse_ratio=None, kind_weight=weights)
    sizes = [matrix.shape[1] if spans is None else spans[place].feature_count
             for place, matrix in enumerate(_matrices(features, coarse_features, settings))]  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        if start is not None:
            _check_form("start", start, graph, settings, sizes)
            start = _with_fine_rows(SoftmaxHead(sizes[0], graph), start)
        fit = fit_head(
            features,
            targets,
            graph,
            plain,
            kind_targets={name: labels for name, labels in (kind_targets or {}).items() if weights[name] > 0},
            sample_weight=sample_weight,
            start=start,
            spans=None if spans is None else spans[:1],
        )
        own = BipartiteHead(sizes[0], graph, coarse_features=sizes[1] if len(sizes) == 2 else None)
    assert isinstance(own.coarse, nn.Linear)
    nn.init.zeros_(own.coarse.weight)
    nn.init.zeros_(own.coarse.bias)
    own.silence_numbers()
    return replace(fit, head=_with_fine_rows(own, fit.head))


def _with_fine_rows(
    head: BipartiteHead | SoftmaxHead, other: BipartiteHead | SoftmaxHead
) -> BipartiteHead | SoftmaxHead:
    """A head with the fine weights of another head."""
    head = head.to(other.fine.weight)
    head.fine.load_state_dict(other.fine.state_dict())
    return head


def _matrices(features: Tensor, coarse_features: Tensor | None, settings: FitSettings) -> tuple[Tensor, ...]:
    """The features, and those of coarse labels if they have their own. Raises if they cannot be used."""
    if coarse_features is None:
        return (features,)
    if settings.head == "softmax":
        raise InputError(
            "coarse features: a softmax head has no coarse scores; leave them out, or fit a bipartite head"
        )
    check_coarse_features(coarse_features, features)
    if settings.laplacian and coarse_features.shape[1] != features.shape[1]:
        raise InputError(
            f"laplacian: this prior compares fine with coarse weights, so it needs features of one size, got "
            f"{features.shape[1]} and {coarse_features.shape[1]}; use 0"
        )
    return features, coarse_features


def _is_strength(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and 0.0 <= float(value) < float("inf")


def graph_of(graph: LabelGraph, seen: Int[Tensor, " fine"]) -> LabelGraph:
    """The graph restricted to some fine labels, given by rising indices; all coarse labels stay."""
    if len(seen) == len(graph):
        return graph
    index = seen.cpu().numpy()
    kinds = [graph.kind(name).rows(index) for name in graph.kinds]
    numbers = [graph.number(name).rows(index) for name in graph.numbers]
    return LabelGraph([graph.fine[i] for i in index], kinds, numbers)


def _check_form(
    name: str, head: BipartiteHead | SoftmaxHead, graph: LabelGraph, settings: FitSettings, sizes: Sequence[int]
) -> None:
    """Raise if `start` or `centre` does not have the form that is fitted."""
    if not isinstance(head, HEADS[settings.head]) or head.graph != graph:
        raise InputError(
            f"{name}: expected a {settings.head} head of the same graph, got a {type(head).__name__} of "
            f"{head.graph!r}; leave it out, or give one that was fitted with such settings"
        )
    own = [head.features, *([head.coarse_features] if getattr(head, "coarse_features", None) is not None else [])]
    if own != list(sizes):
        raise InputError(f"{name}: expected a head on features of size {list(sizes)}, got one on {own}; leave it out")


def _rows_of_other(
    name: str,
    head: BipartiteHead | SoftmaxHead,
    graph: LabelGraph,
    settings: FitSettings,
    seen: Tensor,
    part: LabelGraph,
    spans: tuple[Span, ...],
) -> Blocks:
    """The rows of a given head for the fine labels that are fitted."""
    _check_form(name, head, graph, settings, [span.feature_count for span in spans])
    return rows_of_head(head, None if part is graph else seen, spans, part)


def _moved(
    head: BipartiteHead | SoftmaxHead, by: BipartiteHead | SoftmaxHead, seen: Tensor | slice
) -> BipartiteHead | SoftmaxHead:
    """A copy of a head with the weights of another added, for some fine labels and all coarse ones."""
    moved = copy.deepcopy(head).to(by.fine.weight)
    with torch.no_grad():
        moved.fine.weight[seen] += by.fine.weight
        moved.fine.bias[seen] += by.fine.bias
        if isinstance(moved, BipartiteHead) and isinstance(by, BipartiteHead):
            assert isinstance(moved.coarse, nn.Linear)
            assert isinstance(by.coarse, nn.Linear)
            moved.coarse.weight.add_(by.coarse.weight)
            moved.coarse.bias.add_(by.coarse.bias)
    return moved


def _solve(
    graph: LabelGraph,
    samples: FitSamples,
    settings: FitSettings,
    exact: Mapping[str, bool],
    first: Blocks | None,
    centre: Blocks | None,
) -> tuple[Minimum, Objective]:
    """Minimise; returns the minimum and the objective."""
    kinds = graph.kinds if settings.head == "bipartite" else ()
    variances = [
        float(samples.weight @ columns[:, :-1].square().sum(dim=1)) / columns.shape[1] for columns in samples.columns
    ]
    rows = rows_of(graph, kinds, settings.strengths(graph), variances, samples.columns[0], exact)
    objective = Objective(graph, rows, samples, settings.kind_weights(graph), centre)
    start = objective.origin if first is None else objective.point(first)
    memory = max(_MIN_STEPS_REMEMBERED, min(MEMORY, _MAX_REMEMBERED // (2 * start.numel() * start.element_size())))
    found = minimise(objective, start, tolerance=settings.tolerance, max_iter=settings.max_iter, memory=memory)
    return found, objective
