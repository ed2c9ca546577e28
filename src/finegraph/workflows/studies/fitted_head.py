"""What fitting a head of a study gives: answers for photos, how it was fitted, and the time of a training step.

Answers of fine labels are those of the head; those of kinds and numbers that it does not have follow through the graph.

The time is that of the last layer and the loss, for a batch of 128 photos, as in the paper. Forward is from features to
the loss, backward from the loss to the gradients of the head's weights; the network below, which is the same for all
heads and takes far longer, is left out. Of several repetitions the quickest counts: what is slower was disturbed. Cost:
some dozens of steps on features that are at hand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from time import perf_counter
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from finegraph.evaluation.judgements import Indices
from finegraph.evaluation.number_metrics import median_labels, ordered_kinds
from finegraph.graph import LabelGraph
from finegraph.inference import Posterior, ValueDistribution, joint_loss
from finegraph.model.fitting import FitSettings
from finegraph.model.fitting.head_solver import SolvedHead
from finegraph.nn import BipartiteHead, SoftmaxHead
from finegraph.nn.scaling import Scaling
from finegraph.workflows.studies.photo_sets import PhotoMatrices

TOLERANCE = 1e-3
"""As in `finegraph train`: ten times nearer takes twice as long and changes no metric."""
_NAMED = ("l2", "coarse_ratio", "kind_weight")
BATCH = 128
_WARM, _TIMED = 3, 12

Loss = Callable[[], Float[Tensor, ""]]


class HeadAnswer(NamedTuple):
    """What a head says of some photos.

    Attributes:
        log_probs: the log probabilities of the fine labels.
        labels: per kind the number of the most probable label.
        medians: per ordered kind whose errors are counted in steps, the number of the median label.
        values: per number the distribution of its value.
    """

    log_probs: Float[Tensor, "batch fine"]
    labels: dict[str, Int[Tensor, " batch"]]
    medians: dict[str, Int[Indices, " batch"]]
    values: dict[str, ValueDistribution]


class Model(Protocol):
    """Something fitted, which answers for photos."""

    def answer(
        self, features: Float[Tensor, "row feature"], coarse: Float[Tensor, "row coarse_feature"] | None, views: int
    ) -> HeadAnswer:
        """The answer to photos; the rows of the views of a photo follow each other."""

    def step(self, part: PhotoMatrices) -> tuple[float, float] | None:
        """The milliseconds of a forward and of a backward pass of a batch; None where no step trains it."""


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

    def add_descent(self, layer: str, solved: SolvedHead, seconds: float) -> None:
        """Take in how a layer was fitted by descent."""
        settings = solved.chosen
        assert isinstance(settings, FitSettings)
        strengths = {name: value for name, value in asdict(settings).items() if name in _NAMED and value is not None}
        if settings.is_softmax:
            strengths["coarse_ratio"] = "infinite"  # JSON has no such number
        self.add(layer, strengths, seconds, iterations=solved.iterations, converged=solved.converged)


def middles(first: float, last: float, count: int) -> tuple[float, ...]:
    """Strengths to try from one end of a range to the other: the middles of equal parts, on a scale of ratios."""
    ends = np.geomspace(first, last, count + 1)
    return tuple(float(np.sqrt(one * two)) for one, two in pairwise(ends))


def step_milliseconds(heads: Sequence[nn.Module], loss: Loss) -> tuple[float, float]:
    """The times of a forward and of a backward pass.

    Args:
        heads: what is trained; their weights stay as they are.
        loss: the loss of a batch.
    """
    weights = [weight for head in heads for weight in head.parameters()]
    trained = [weight.requires_grad for weight in weights]
    forward, backward = [], []
    try:
        for weight in weights:
            weight.requires_grad_(True)
        for _ in range(_WARM + _TIMED):
            began = perf_counter()
            value = loss()
            middle = perf_counter()
            torch.autograd.grad(value, weights, allow_unused=True)
            forward.append(middle - began)
            backward.append(perf_counter() - middle)
    finally:
        for weight, before in zip(weights, trained, strict=True):
            weight.requires_grad_(before)
    return 1000 * min(forward[_WARM:]), 1000 * min(backward[_WARM:])


def batch_of(part: PhotoMatrices) -> PhotoMatrices:
    """A batch of photos, repeated if there are too few."""
    return part.at([number % len(part) for number in range(BATCH)])


def head_loss(
    head: BipartiteHead | SoftmaxHead,
    features: Float[Tensor, "batch feature"],
    coarse: Float[Tensor, "batch coarse_feature"] | None,
    target: Int[Tensor, " batch"],
) -> Float[Tensor, ""]:
    """The loss of all kinds."""
    posterior = head(features) if coarse is None else head(features, coarse)
    return joint_loss(posterior, target)


def softmax_loss(
    head: SoftmaxHead, features: Float[Tensor, "batch feature"], target: Int[Tensor, " batch"]
) -> Float[Tensor, ""]:
    """The loss of the fine labels alone."""
    return functional.cross_entropy(head.scores(features), target)


class JointAnswers:
    """A softmax or bipartite head that answers for photos."""

    def __init__(
        self,
        graph: LabelGraph,
        head: BipartiteHead | SoftmaxHead,
        *,
        two: bool = False,
        kinds_count: bool = True,
        scaling: Scaling | None = None,
        trained: bool = True,
    ) -> None:
        """Answer with a head.

        Args:
            graph: with all kinds that are measured.
            head: what was fitted.
            two: whether coarse scores are on the features of the second network.
            kinds_count: whether kinds are part of the loss.
            scaling: what brings features to the form that the head takes.
            trained: whether steps of descent train the head.
        """
        self.graph, self.two, self.kinds_count, self.scaling, self.trained = graph, two, kinds_count, scaling, trained
        self.head = head.requires_grad_(False)

    def answer(
        self, features: Float[Tensor, "row feature"], coarse: Float[Tensor, "row coarse_feature"] | None, views: int
    ) -> HeadAnswer:
        """The answer to photos; the rows of the views of a photo follow each other."""
        features = features if self.scaling is None else self.scaling(features)
        posterior: Posterior = self.head(features, coarse) if self.two else self.head(features)
        return answer_of(self.graph, posterior, views)

    def step(self, part: PhotoMatrices) -> tuple[float, float] | None:
        """The milliseconds of a forward and of a backward pass."""
        if not self.trained:
            return None
        head, batch = self.head, batch_of(part)
        if isinstance(head, SoftmaxHead) and not self.kinds_count:
            return step_milliseconds([head], lambda: softmax_loss(head, batch.fine, batch.target))
        coarse = batch.coarse if self.two else None
        return step_milliseconds([head], lambda: head_loss(head, batch.fine, coarse, batch.target))


def answer_of(graph: LabelGraph, posterior: Posterior, views: int) -> HeadAnswer:
    """The answer of a posterior, also about kinds and numbers of a larger graph that it does not have."""
    posterior = posterior if views == 1 else posterior.mean_views(views)
    log_probs = posterior.log_probs()
    kinds = [name for name in graph.kinds if name in posterior.graph.kinds]
    numbers = [name for name in graph.numbers if name in posterior.graph.numbers]
    return with_implied(graph, _answer(posterior, log_probs, kinds, numbers))


def with_implied(graph: LabelGraph, answer: HeadAnswer) -> HeadAnswer:
    """The answer, with what its fine labels imply of the kinds and numbers of a graph that it says nothing of."""
    kinds = [name for name in graph.kinds if name not in answer.labels]
    numbers = [name for name in graph.numbers if name not in answer.values]
    implied = _answer(Posterior(graph, answer.log_probs), answer.log_probs, kinds, numbers)
    return HeadAnswer(
        answer.log_probs,
        {**answer.labels, **implied.labels},
        {**answer.medians, **implied.medians},
        {**answer.values, **implied.values},
    )


def _answer(
    posterior: Posterior, log_probs: Float[Tensor, "batch fine"], kinds: Sequence[str], numbers: Sequence[str]
) -> HeadAnswer:
    """The answer of a posterior about some of its kinds and numbers."""
    ordered = ordered_kinds(posterior.graph)
    labels, medians = {}, {}
    for name in kinds:
        kind_log_probs = posterior.kind_log_probs(name, log_probs)
        labels[name] = kind_log_probs.argmax(dim=1)
        if name in ordered:
            medians[name] = median_labels(kind_log_probs.double().exp().numpy())
    return HeadAnswer(log_probs, labels, medians, {name: posterior.value(name, log_probs) for name in numbers})
