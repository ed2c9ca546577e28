"""The answers of a head of a study: of fine labels as they are, of kinds that it does not have through the graph."""

from __future__ import annotations

from collections.abc import Sequence

from jaxtyping import Float, Int
from torch import Tensor

from finegraph.graph import LabelGraph
from finegraph.inference import Posterior
from finegraph.nn import BipartiteHead, SoftmaxHead
from finegraph.nn.scaling import Scaling
from finegraph.workflows.studies.fitted_head import Answer
from finegraph.workflows.studies.photo_sets import Part
from finegraph.workflows.studies.timing import batch_of, head_loss, softmax_loss, step_milliseconds


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
    ) -> Answer:
        """The answer to photos; the rows of the views of a photo follow each other."""
        features = features if self.scaling is None else self.scaling(features)
        posterior: Posterior = self.head(features, coarse) if self.two else self.head(features)
        return answer_of(self.graph, posterior, views)

    def step(self, part: Part) -> tuple[float, float] | None:
        """The milliseconds of a forward and of a backward pass."""
        if not self.trained:
            return None
        head, batch = self.head, batch_of(part)
        if isinstance(head, SoftmaxHead) and not self.kinds_count:
            return step_milliseconds([head], lambda: softmax_loss(head, batch.fine, batch.target))
        coarse = batch.coarse if self.two else None
        return step_milliseconds([head], lambda: head_loss(head, batch.fine, coarse, batch.target))


def answer_of(graph: LabelGraph, posterior: Posterior, views: int) -> Answer:
    """The answer of a posterior, also about kinds of a larger graph that it does not have."""
    posterior = posterior if views == 1 else posterior.mean_views(views)
    log_probs = posterior.log_probs()
    shared_kinds = [name for name in graph.kinds if name in posterior.graph.kinds]
    labels = likeliest_labels(posterior, log_probs, shared_kinds)
    others = [name for name in graph.kinds if name not in labels]
    return log_probs, {**labels, **likeliest_labels(Posterior(graph, log_probs), log_probs, others)}


def likeliest_labels(
    posterior: Posterior, log_probs: Float[Tensor, "batch fine"], kinds: Sequence[str]
) -> dict[str, Int[Tensor, " batch"]]:
    """The most probable label of each kind."""
    return {name: posterior.kind_log_probs(name, log_probs).argmax(dim=1) for name in kinds}
