"""The last layer of a network: features in, a posterior over the label graph out.

    SoftmaxHead     SM      f = W x                                marginals of the kinds follow from the fine labels
    BipartiteHead   BGL_1   f = W x,   f^j = W_j x                 one feature
                    BGL_m   f = W x,   f^j = W_j x' (or W_j x^j)   another feature, or one per kind, for coarse labels

A bipartite head also gives each number of the graph two scores, from the features of the coarse labels (see
`number_layer.py`); with softmax, values follow from the fine labels. All heads return the same `Posterior`, so a
training loop works with any of them. With one feature, one known parent per kind and exact values, `fold` turns a
trained bipartite head into a softmax head with exactly the same answers: the graph then costs nothing at inference.

A head may have a doubt, one number: all scores of a photo are then divided by sqrt(1 + doubt * lead), where the lead is
how far its largest joint score is above the mean one (`Posterior.doubted`). With a doubt of 0, the default, scores are
those of the layers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from finegraph.errors import GraphMismatchError, InputError, SeveralParentsError
from finegraph.graph import LabelGraph
from finegraph.inference import Posterior, joint_loss
from finegraph.inference.loss.rows_loss import all_number_rows, rows_loss, rows_task
from finegraph.inference.numerics import CPU, shared_constants
from finegraph.inference.sums.graph_tensors import GraphTensors, graph_tensors
from finegraph.inference.sums.targets import KindWeights, Reduction
from finegraph.nn.coarse_inputs import (
    CoarseFeatures,
    check_columns,
    check_sizes,
    common_input,
    inputs_by_name,
    stacked_weights,
)
from finegraph.nn.extending import Extension
from finegraph.nn.number_layer import NumberLayer, starting_terms
from finegraph.nn.prior import LaplacianEdges, laplacian, laplacian_edges

_FEW_SCORES = 1 << 19
"""Scores that stay in the caches of a processor while `joint_loss` reads them several times."""


class Head(nn.Module):
    """Base class of the heads: the graph, its tensors, and the check that saved weights belong to the graph."""

    graph_digest: Tensor
    doubt_factor: Tensor | None
    __call__: Callable[..., Posterior]
    """Calls `forward`, as in every module; declared for type checkers."""

    def __init__(self, features: int, graph: LabelGraph, bias: bool) -> None:
        super().__init__()
        if not hasattr(features, "__index__") or features < 1:
            raise InputError(f"features: expected the number of columns of the features, at least 1, got {features!r}")
        self.features, self.graph = features, graph
        self.fine = nn.Linear(features, len(graph), bias=bias)
        self._doubt = 0.0
        self.register_buffer("graph_digest", None)
        self.register_buffer("doubt_factor", None)
        self._move_tensors()
        self.register_load_state_dict_post_hook(_move_tensors_of_loaded)  # type: ignore[no-untyped-call]

    def _move_tensors(self) -> None:
        """Recreate the graph's digest and tensors on the device of the weights."""
        device = self.fine.weight.device
        self.graph_digest = torch.tensor(list(bytes.fromhex(self.graph.digest)), dtype=torch.uint8, device=device)
        self.doubt_factor = torch.tensor(self._doubt, device=device) if self._doubt else None
        self._tensors = graph_tensors(self.graph, CPU if device.type == "meta" else device)

    @property
    def doubt(self) -> float:
        """How much of a photo's lead is doubted; 0 for scores as the layers give them. In single precision."""
        return self._doubt

    @doubt.setter
    def doubt(self, value: float) -> None:
        if not 0.0 <= value < float("inf"):
            raise InputError(f"doubt: expected a finite number of at least 0, got {value!r}")
        self._doubt = float(torch.tensor(value, dtype=torch.float32))
        self._move_tensors()

    def _doubted(self, posterior: Posterior) -> Posterior:
        return posterior.doubted(self._doubt) if self._doubt else posterior

    def relink(self, graph: LabelGraph) -> None:
        """Replace the graph by one with the same fine labels, kinds and numbers but other links; the weights stay.

        Raises:
            GraphMismatchError: the new graph has other labels, which the weights do not belong to.
        """
        own = [(kind, len(self.graph.labels(kind))) for kind in self.graph.kinds]
        new = [(kind, len(graph.labels(kind))) for kind in graph.kinds]
        if (graph.fine, graph.numbers, new) != (self.graph.fine, self.graph.numbers, own):
            raise GraphMismatchError(
                "relink: expected a graph with the same fine labels, and as many labels in each kind; build a new head"
            )
        self.graph = graph
        self._move_tensors()

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Head:
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self._move_tensors()
        return self

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("_tensors", "_edges")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        self._move_tensors()

    @property
    def tensors(self) -> GraphTensors:
        """The graph as index tensors, on the device of the weights; heads of one graph share them."""
        device = self.fine.weight.device
        return self._tensors if self._tensors.device == device else graph_tensors(self.graph, device)

    def _load_from_state_dict(self, state_dict: Mapping[str, Any], prefix: str, *rest: Any) -> None:
        saved = state_dict.get(prefix + "graph_digest")
        digest = None if saved is None else bytes(saved.tolist()).hex()
        if digest is not None and digest != self.graph.digest:
            raise GraphMismatchError(
                f"these weights were made for another label graph (digest {digest[:12]}, this "
                f"head has {self.graph.digest[:12]}): labels differ in name, order or links. Build the head with the "
                "graph saved beside the weights; to add fine labels, load them there and use head.extend(graph)"
            )
        factor = state_dict.get(prefix + "doubt_factor")
        self._doubt = 0.0
        self.doubt_factor = None if factor is None else torch.zeros((), device=self.fine.weight.device)
        if factor is not None:
            self.doubt = float(factor)
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def loss(
        self,
        features: Float[Tensor, "batch feature"],
        target: Int[Tensor, " batch"] | Bool[Tensor, "batch fine"] | None,
        kind_targets: Mapping[str, Int[Tensor, " batch"] | Float[Tensor, " batch"]] | None = None,
        kind_weights: KindWeights = None,
        reduction: Reduction = "mean",
        ignore_index: int = -100,
        *,
        coarse_features: CoarseFeatures = None,
    ) -> Float[Tensor, ""] | Float[Tensor, " batch"]:
        """`joint_loss(head(features), target, ...)` with the same value and gradient, and less memory for many labels.

        The scores of all labels are held once rather than three times, and are computed while they are in the caches.
        Batches of few scores, numbers with spreads, softmax heads of graphs with numbers, heads with a doubt, sets of
        fine labels and compiled programs use scores and `joint_loss`, which is faster as long as all scores stay in
        the caches.

        Args:
            features: as for the head itself.
            target: the fine label of each sample; see `joint_loss` for this and the following.
            kind_targets: for some kinds, the photo label of each sample.
            kind_weights: the weight of the term of each kind and number.
            reduction: "mean", "sum" or "none".
            ignore_index: marks labels that were not observed.
            coarse_features: as for the head itself.
        """
        others = (kind_targets, kind_weights, reduction, ignore_index)
        in_sets = isinstance(target, Tensor) and target.dtype == torch.bool
        few = len(features) * len(self.graph) <= _FEW_SCORES
        if few or in_sets or self._doubt or torch.compiler.is_compiling() or features.is_meta or not self._has_rows:
            posterior: Posterior = self(features) if coarse_features is None else self(features, coarse_features)
            return joint_loss(posterior, target, *others)
        check_columns("features", features, self.features)
        coarse, scores = self._coarse_rows(features, coarse_features), self._number_rows(features, coarse_features)
        numbers = None if scores is None else shared_constants(all_number_rows, self.graph, self.tensors.device)
        task = rows_task(self.tensors, len(features), target, *others, numbers=numbers)
        return rows_loss(task, features, self.fine.weight, self.fine.bias, coarse, scores)

    @property
    def _has_rows(self) -> bool:
        """Whether the loss can be computed from features for this graph."""
        return not self.graph.numbers

    def _coarse_rows(
        self, features: Float[Tensor, "batch feature"], coarse_features: CoarseFeatures
    ) -> Float[Tensor, "batch coarse"] | None:
        """The coarse scores of a batch, if the head has any."""
        raise NotImplementedError

    def _number_rows(
        self, features: Float[Tensor, "batch feature"], coarse_features: CoarseFeatures
    ) -> Float[Tensor, "batch number 2"] | None:
        """The scores of the numbers of a batch, if the head has any."""
        return None


def _move_tensors_of_loaded(head: Head, _: object) -> None:
    """Loading weights may have moved them to another device."""
    head._move_tensors()


class SoftmaxHead(Head):
    """The baseline, SM: one linear layer and softmax. Kind marginals are sums over the fine labels.

    Example:
        >>> graph = LabelGraph.from_table({"a": {"dish": "x"}, "b": {"dish": "x"}, "c": {"dish": "y"}})
        >>> SoftmaxHead(8, graph)(torch.randn(2, 8)).log_probs("dish").shape
        torch.Size([2, 2])
    """

    def __init__(self, features: int, graph: LabelGraph, *, bias: bool = True) -> None:
        """Make an untrained head.

        Args:
            features: the number of columns of the features.
            graph: the label graph.
            bias: whether the linear layer has a bias.
        """
        super().__init__(features, graph, bias)

    def scores(self, features: Float[Tensor, "batch feature"]) -> Float[Tensor, "batch fine"]:
        """The fine scores alone."""
        check_columns("features", features, self.features)
        scores: Tensor = self.fine(features)
        return scores if not self._doubt else self._doubted(self._plain(scores)).fine_scores

    def forward(self, features: Float[Tensor, "batch feature"]) -> Posterior:
        """The posterior of each row of features."""
        return self._plain(self.scores(features))

    def _plain(self, scores: Float[Tensor, "batch fine"]) -> Posterior:
        return Posterior(self.graph, scores, tensors=self.tensors)

    def _coarse_rows(
        self, features: Float[Tensor, "batch feature"], coarse_features: CoarseFeatures
    ) -> Float[Tensor, "batch coarse"] | None:
        if coarse_features is not None:
            raise InputError("a softmax head takes no coarse features")
        return None

    def extend(self, graph: LabelGraph) -> SoftmaxHead:
        """A head for a graph with more fine labels; new ones start from the weights of related labels."""
        head = SoftmaxHead(self.features, graph, bias=self.fine.bias is not None).to(self.fine.weight)
        with torch.no_grad():
            extension = Extension(self.graph, graph)
            head.fine.weight.copy_(extension.weights(self.fine.weight, None).fine)
            if self.fine.bias is not None:
                head.fine.bias.copy_(extension.weights(self.fine.bias[:, None], None).fine[:, 0])
        head.doubt = self._doubt
        return head

    def parameter_groups(self, lr: float) -> list[dict[str, Any]]:
        """Parameters with their learning rates for an optimizer; see `BipartiteHead.parameter_groups`."""
        return [{"params": list(self.parameters()), "lr": lr}]


class BipartiteHead(Head):
    """The paper's head, BGL: fine and coarse scores, joined by the label graph.

    Each number of the graph, such as a price, has two scores per photo on its inner scale (values with mean 0 and
    variance 1, after a logarithm on a log scale): a pull a, linear in the features, and a precision b > 0, the softplus
    of a linear score. They are `number_scores` of the posterior, of shape (batch, number, 2), and define the potential
    exp(a v - b v^2 / 2); see docs/idea.md. If the graph has no numbers, `numbers` is None.

    Example:
        >>> graph = LabelGraph.from_table({"a": {"dish": "x"}, "b": {"dish": "x"}, "c": {"dish": "y"}})
        >>> head = BipartiteHead(8, graph)
        >>> head(torch.randn(2, 8)).log_probs().shape
        torch.Size([2, 3])
        >>> two = BipartiteHead(8, graph, coarse_features=4)
        >>> two(torch.randn(2, 8), torch.randn(2, 4)).log_probs("dish").shape
        torch.Size([2, 2])
    """

    def __init__(
        self,
        features: int,
        graph: LabelGraph,
        *,
        coarse_features: int | Mapping[str, int] | None = None,
        bias: bool = True,
    ) -> None:
        """Make an untrained head.

        Args:
            features: the number of columns of the features.
            graph: the label graph.
            coarse_features: for BGL_m, the number of columns of the features of coarse labels and numbers, or one size
                per kind and number. By default they use the same features as the fine labels (BGL_1).
            bias: whether the linear layers have a bias.
        """
        super().__init__(features, graph, bias)
        check_sizes(coarse_features, graph)
        self.coarse_features = coarse_features
        self.numbers: NumberLayer | nn.ModuleList | None = None
        if isinstance(coarse_features, Mapping):
            sizes = [(coarse_features[name], len(graph.labels(name))) for name in graph.kinds]
            self.coarse: nn.Linear | nn.ModuleList = nn.ModuleList(_linear(*size, bias=bias) for size in sizes)
            if graph.numbers:
                own = [NumberLayer(coarse_features[name], 1, bias=bias) for name in graph.numbers]
                self.numbers = nn.ModuleList(own)
        else:
            self.coarse = _linear(coarse_features or features, self.tensors.coarse_count, bias=bias)
            if graph.numbers:
                self.numbers = NumberLayer(coarse_features or features, len(graph.numbers), bias=bias)
        # Joint weights are sums over all kinds. With coarse weights of 0 they start like those of a softmax head,
        # whatever the number of kinds.
        for parameter in self.coarse.parameters():
            nn.init.zeros_(parameter)
        if graph.numbers and bias:
            # The precisions of numbers do not start at 0, so their initial terms are subtracted from the biases.
            with torch.no_grad():
                self.fine.bias.sub_(starting_terms(graph_tensors(graph).numbers).to(self.fine.bias))

    def _move_tensors(self) -> None:
        super()._move_tensors()
        self._edges = laplacian_edges(self.graph, self._tensors.device)

    @property
    def edges(self) -> LaplacianEdges:
        """The edges of the graph for the weight prior, on the device of the weights; heads of one graph share them."""
        device = self.fine.weight.device
        return self._edges if self._tensors.device == device else laplacian_edges(self.graph, device)

    def scores(
        self, features: Float[Tensor, "batch feature"], coarse_features: CoarseFeatures = None
    ) -> tuple[Float[Tensor, "batch fine"], dict[str, Float[Tensor, "batch label"]]]:
        """The fine scores; and per kind the coarse scores, per number its pull and precision.

        Raw scores are not identifiable; show marginals instead.
        """
        posterior = self(features) if coarse_features is None else self(features, coarse_features)
        fine, coarse, numbers = posterior.fine_scores, posterior.coarse_scores, posterior.number_scores
        assert coarse is not None
        by_name = {name: coarse[:, columns] for name, columns in self.tensors.columns.items()}
        if numbers is not None:
            by_name |= {name: numbers[:, place] for place, name in enumerate(self.graph.numbers)}
        return fine, by_name

    def forward(self, features: Float[Tensor, "batch feature"], coarse_features: CoarseFeatures = None) -> Posterior:
        """The posterior of each row of features.

        Args:
            features: the features of the fine labels; in a one-feature head also of the coarse labels and numbers.
            coarse_features: the features of the coarse labels and numbers of a two-feature head: one tensor, or one
                per kind and number if the head has a size for each.
        """
        fine, coarse, numbers = self._score_matrices(features, coarse_features)
        return self._doubted(Posterior(self.graph, fine, coarse, number_scores=numbers, tensors=self.tensors))

    def _score_matrices(
        self, features: Tensor, coarse_features: CoarseFeatures
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """The fine scores, the coarse scores side by side, and the scores of the numbers."""
        check_columns("features", features, self.features)
        fine: Tensor = self.fine(features)
        if isinstance(self.coarse, nn.ModuleList):
            return fine, *self._scores_per_kind(fine, coarse_features)
        coarse_features = self._coarse_input(features, coarse_features)
        coarse: Tensor = self.coarse(coarse_features)
        return fine, coarse, None if self.numbers is None else self.numbers(coarse_features)

    def _coarse_rows(
        self, features: Float[Tensor, "batch feature"], coarse_features: CoarseFeatures
    ) -> Float[Tensor, "batch coarse"] | None:
        if not self.graph.kinds:
            return None
        if isinstance(self.coarse, nn.ModuleList):
            return self._scores_per_kind(features, coarse_features)[0]
        coarse_features = self._coarse_input(features, coarse_features)
        # Labels are rows here, as the sums over fine labels need them.
        rows = self.coarse.weight @ coarse_features.to(self.coarse.weight.dtype).t()
        return (rows if self.coarse.bias is None else rows + self.coarse.bias.unsqueeze(1)).t()

    @property
    def _has_rows(self) -> bool:
        # With spreads, scores take less time: their likelihoods and moments are computed once.
        return self.tensors.numbers.linear

    def _number_rows(
        self, features: Float[Tensor, "batch feature"], coarse_features: CoarseFeatures
    ) -> Float[Tensor, "batch number 2"] | None:
        if not self.graph.numbers:
            return None
        if isinstance(self.coarse, nn.ModuleList):
            return self._scores_per_kind(features, coarse_features)[1]
        assert self.numbers is not None
        scores: Tensor = self.numbers(self._coarse_input(features, coarse_features))
        return scores

    def _coarse_input(
        self, features: Float[Tensor, "batch feature"], coarse_features: CoarseFeatures
    ) -> Float[Tensor, "batch _"]:
        """The input of the layer of all coarse labels, checked."""
        assert not isinstance(self.coarse, nn.ModuleList)
        return common_input(
            features, coarse_features, None if self.coarse_features is None else self.coarse.in_features
        )

    def _scores_per_kind(self, fine: Tensor, coarse_features: CoarseFeatures) -> tuple[Tensor, Tensor | None]:
        """The coarse scores and the scores of the numbers, from separate features."""
        assert isinstance(self.coarse, nn.ModuleList)
        assert isinstance(self.coarse_features, Mapping)
        inputs = inputs_by_name(coarse_features, self.coarse_features, self.graph)
        layers = [*self.coarse, *(self.numbers if isinstance(self.numbers, nn.ModuleList) else ())]
        parts: list[Tensor] = [layer(own) for layer, own in zip(layers, inputs, strict=True)]
        count = len(self.graph.kinds)
        coarse = torch.cat(parts[:count], dim=1) if count else fine.new_zeros(len(fine), 0)
        return coarse, torch.cat(parts[count:], dim=1) if self.graph.numbers else None

    def silence_numbers(self) -> None:
        """Switch off the scores of numbers, so that values follow from the labels alone, as in softmax.

        Raises:
            InputError: the head has no biases, so that its precisions cannot be 0.
        """
        for layer in self.modules():
            if isinstance(layer, NumberLayer):
                layer.silence()

    def coarse_weights(self) -> Float[Tensor, "coarse feature"]:
        """The weights of all coarse labels, kind after kind; all must have features of one size."""
        return stacked_weights(self.coarse)

    def fold(self) -> SoftmaxHead:
        """A softmax head with the same answers and marginals, as cheap as plain softmax.

        A two-feature head folds to one over both features side by side: call it with `torch.cat([x, coarse_x], 1)`.
        Kinds with several or unknown parents have no linear form and cannot be folded. Nor can numbers, unless all
        values are known and exact and their precisions are the same for all photos.
        """
        for kind in self.tensors.kinds:
            if not kind.plain:
                raise SeveralParentsError(
                    f"kind {kind.name!r} has fine labels with several or unknown parents, so this head is no linear "
                    "layer and cannot be folded; fold a head without this kind, or use this one as it is"
                )
        if isinstance(self.coarse, nn.ModuleList):
            raise InputError("a head with separate features per kind cannot be folded into one layer; use it as it is")
        assert not isinstance(self.numbers, nn.ModuleList)
        with torch.no_grad():
            # In float64, so that half precision is rounded once rather than once per kind.
            coarse, fine = self.edges.to_fine(self.coarse.weight.double()), self.fine.weight.double()
            bias = fine.new_zeros(len(fine), 1)
            if self.fine.bias is not None:
                bias = self.fine.bias.double()[:, None] + self.edges.to_fine(self.coarse.bias.double()[:, None])
            if self.numbers is not None:
                own, own_bias = self._folded_numbers(self.numbers)
                coarse, bias = coarse + own, bias + own_bias
            weight = fine + coarse if self.coarse_features is None else torch.cat([fine, coarse], dim=1)
            has_bias = self.fine.bias is not None or self.numbers is not None
            head = SoftmaxHead(weight.shape[1], self.graph, bias=has_bias).to(self.fine.weight)
            head.fine.weight.copy_(weight)
            if has_bias:
                head.fine.bias.copy_(bias[:, 0])
        head.doubt = self._doubt
        return head

    def _folded_numbers(self, layer: NumberLayer) -> tuple[Float[Tensor, "fine _"], Float[Tensor, "fine 1"]]:
        """The terms of numbers in the weights and the bias of each fine label."""
        table = self.tensors.numbers
        for number, constant in zip(table.numbers, layer.constant_precisions(), strict=True):
            if not number.points:
                raise InputError(
                    f"number {number.name!r} has fine labels with spreads or unknown values, so this head is no linear "
                    "layer and cannot be folded; fold a head without this number, or use this one as it is"
                )
            if not constant:
                raise InputError(
                    f"the precision of number {number.name!r} depends on the features, so this head is not a linear "
                    "layer and cannot be folded; use this one as it is"
                )
        weight, scores = layer.with_constant_precisions()
        return table.design[0::2].t() @ weight, (scores.flatten() @ table.design)[:, None]

    def extend(self, graph: LabelGraph) -> BipartiteHead:
        """A head for a graph with more fine labels, such as a new menu item.

        Labels with known names keep their weights. A new fine label starts with weights from its parents (see
        `extending.py`) and its values, so that it can be predicted before there is any photo of it. Kinds and numbers
        must stay the same; kinds may have new labels. An unknown value is distributed like the known ones, so that new
        values change it a little; known values keep their scores.
        """
        if isinstance(self.coarse, nn.ModuleList):
            raise InputError("a head with separate features per kind cannot be extended; train a new one")
        bias = self.fine.bias is not None
        head = BipartiteHead(self.features, graph, coarse_features=self.coarse_features, bias=bias).to(self.fine.weight)
        assert isinstance(head.coarse, nn.Linear)
        shared = self.coarse_features is None
        with torch.no_grad():
            extension = Extension(self.graph, graph)
            weight = extension.weights(self.fine.weight, self.coarse.weight, shared=shared)
            head.fine.weight.copy_(weight.fine)
            head.coarse.weight.copy_(weight.coarse)
            if isinstance(self.numbers, NumberLayer) and isinstance(head.numbers, NumberLayer):
                head.numbers.take(self.numbers, *([g.number(name) for name in g.numbers] for g in (self.graph, graph)))
            if bias:
                biases = extension.weights(self._biases_with_precisions(), self.coarse.bias[:, None])
                head.fine.bias.copy_(biases.fine[:, 0] - head._precision_terms())
                head.coarse.bias.copy_(biases.coarse[:, 0])
        head.doubt = self._doubt
        return head

    def _biases_with_precisions(self) -> Float[Tensor, "fine 1"]:
        """The biases of the fine labels plus the terms of precisions; only their sum is identifiable."""
        return (self.fine.bias.cpu() + self._precision_terms())[:, None]

    def _precision_terms(self) -> Float[Tensor, " fine"] | float:
        """The terms of precisions in the joint scores of all photos, in float64 on the CPU."""
        if not isinstance(self.numbers, NumberLayer):
            return 0.0
        return self.numbers.precision_terms(self.tensors.numbers).cpu()

    def parameter_groups(self, lr: float) -> list[dict[str, Any]]:
        """Parameters with learning rates, scaled so that `lr` has the same effect as for a softmax head.

        A step changes every fine score through its own weights and through one block per kind and number, so all blocks
        get lr / (kinds + numbers + 1). Without this, training with many kinds diverges at rates that suit softmax.
        """
        scaled = lr / (len(self.graph.kinds) + len(self.graph.numbers) + 1)
        return [{"params": list(self.parameters()), "lr": scaled}]


class _NoOutputs(nn.Linear):
    """The layer of a graph without kinds: no outputs, so nothing to initialise."""

    def reset_parameters(self) -> None:
        """Do nothing."""


def _linear(features: int, count: int, *, bias: bool) -> nn.Linear:
    return nn.Linear(features, count, bias=bias) if count else _NoOutputs(features, 0, bias=bias)


def laplacian_prior(head: nn.Module) -> Float[Tensor, ""]:
    """The paper's prior on the weights of a bipartite head: -log p_w / lambda.

    Add `strength * laplacian_prior(head)` to a mean loss; the paper sums the loss over n samples, so its lambda is
    `strength * n`.
    """
    if not isinstance(head, BipartiteHead):
        raise InputError(f"the weight prior needs a BipartiteHead, which has coarse weights; got {type(head).__name__}")
    return laplacian(head.edges, head.fine.weight, head.coarse_weights())
