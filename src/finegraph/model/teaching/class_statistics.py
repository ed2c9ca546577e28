"""The statistics of a closed-form fit, and the head that follows from them.

Counts and sums of scaled features per fine label, and the strengths that were chosen: everything that a fitted head
follows from. More photos add to counts and sums; the scaling and the strengths stay.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, TypeVar

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from finegraph.data.photo_parts import MAX_VIEWS
from finegraph.errors import InputError
from finegraph.graph import LabelGraph
from finegraph.model.fitting.class_means import LinkMatrices, MeanComponents, Variances, score_factors, solve_effects
from finegraph.model.fitting.class_sums import ClassSums
from finegraph.model.fitting.fit_samples import NOT_OBSERVED
from finegraph.model.fitting.prototypes import PrototypeFit
from finegraph.model.fitting.value_pulls import ValuePotentials, ValuePulls, value_columns
from finegraph.nn import BipartiteHead, SoftmaxHead
from finegraph.nn.number_layer import NumberLayer

_CHUNK = 4096
Values = TypeVar("Values", ValuePulls, ValuePotentials)


@dataclass(frozen=True, eq=False, kw_only=True)
class ClassStatistics:
    """The statistics of a fit.

    Attributes:
        counts: how many photos each fine label has.
        sums: the sum of their scaled features.
        variances: how far class means are spread by each kind, by their own, and by noise.
        strength: what scores are multiplied by.
        doubt: that of the head.
        unseen_share: that of `score_factors`, for fine labels without photos.
        unseen_reach: that of `score_factors`.
        head: which head the fit made.
        views: how many views of each photo counted as one; photos that are taught get as many.
        scales: per number that class means depend on, what is 0 and what is 1 among its values.
        pulls: what features say of values by themselves; None if that takes no part.
        share: how much of it.
        potentials: how photos differ in their values from their classes; None if nothing is known of that.
    """

    counts: Float[Tensor, " fine"]
    sums: Float[Tensor, "fine feature"]
    variances: Variances
    strength: float
    head: Literal["bipartite", "softmax"] = "bipartite"
    views: int = 1
    scales: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    pulls: ValuePulls | None = None
    share: float = 0.0
    potentials: ValuePotentials | None = None
    doubt: float = 0.0
    unseen_share: float = 0.0
    unseen_reach: float = 0.0

    @classmethod
    def of_fit(
        cls,
        fit: PrototypeFit,
        features: Float[Tensor, "batch feature"],
        targets: Int[Tensor, " batch"],
        *,
        sample_weight: Float[Tensor, " batch"] | None = None,
        views: int = 1,
    ) -> ClassStatistics:
        """The statistics of a fit and of some samples, such as those that it was made from."""
        weight = torch.ones(len(targets)) if sample_weight is None else sample_weight
        chunks = torch.split((targets != NOT_OBSERVED).nonzero()[:, 0], _CHUNK)
        scaled = ((fit.scaling(features[rows]), targets[rows], weight[rows].double()) for rows in chunks)
        sums = ClassSums.of_chunks(scaled, len(fit.head.graph), features.shape[1])
        return cls.of_sums(fit, sums, views=views)

    @classmethod
    def of_sums(cls, fit: PrototypeFit, sums: ClassSums | None = None, *, views: int = 1) -> ClassStatistics:
        """The statistics of a fit.

        Args:
            fit: the fit.
            sums: the counts and sums of scaled features, around 0; by default those that it was made from.
            views: how many views of each photo counted as one.
        """
        graph, sums = fit.head.graph, fit.sums if sums is None else sums
        return cls(
            counts=sums.counts,
            sums=sums.sums,
            variances=fit.variances,
            strength=fit.strengths.factor,
            head="bipartite" if isinstance(fit.head, BipartiteHead) else "softmax",
            views=views,
            scales=LinkMatrices(graph, (), tuple(fit.variances.numbers)).scales,
            pulls=fit.pulls,
            share=fit.strengths.share,
            potentials=fit.potentials,
            doubt=fit.head.doubt,
            unseen_share=fit.strengths.unseen_share,
            unseen_reach=fit.strengths.unseen_reach,
        )

    @property
    def means(self) -> Float[Tensor, "fine feature"]:
        """The mean of each fine label; zero where there is no photo."""
        return self.sums / self.counts.clamp_min(torch.finfo(torch.float64).tiny)[:, None]

    def links(self, graph: LabelGraph) -> LinkMatrices:
        """The links and values of a graph that class means depend on."""
        return LinkMatrices(graph, tuple(self.variances.kinds), tuple(self.variances.numbers), self.scales)

    def solve(self, graph: LabelGraph) -> BipartiteHead | SoftmaxHead:
        """The head of these statistics, solved from the beginning."""
        links = self.links(graph)
        return self.head_of(graph, links, solve_effects(links, self.variances, self.counts, self.means))

    def head_of(self, graph: LabelGraph, links: LinkMatrices, effects: MeanComponents) -> BipartiteHead | SoftmaxHead:
        """The head with these effects. Those of kinds whose rows do not add up linearly go to the fine labels."""
        means = self._class_means(links, effects)
        factors, bias = score_factors(means, self.counts, self.unseen_share, self.unseen_reach)
        with torch.device("meta"):  # no weights are drawn that would be overwritten
            head = (BipartiteHead if self.head == "bipartite" else SoftmaxHead)(self.sums.shape[1], graph)
        plain = {kind.name for kind in head.tensors.kinds if kind.plain}
        fine = torch.addcmul(effects.fine, (factors - 1.0)[:, None], means)
        for name in links.names:
            if name not in plain:
                fine = fine + torch.sparse.mm(links.designs[name], effects.coarse[name])
        fine, bias = fine.mul_(self.strength), self.strength * bias
        for one, sign in ((self.pulls, 1.0), (self.potentials, -1.0)):
            if one is not None:
                columns = value_columns(graph, one.names)
                more = one.rows(columns, self.share) if isinstance(one, ValuePulls) else one.rows(columns)
                fine, bias = fine.add_(more[0], alpha=sign), bias.add_(more[1], alpha=sign)
        weights = {
            "graph_digest": torch.tensor(list(bytes.fromhex(graph.digest)), dtype=torch.uint8),
            "fine.weight": fine.float(),
            "fine.bias": bias.float(),
        }
        if isinstance(head, BipartiteHead):
            rows = torch.zeros(head.tensors.coarse_count, self.sums.shape[1])
            for kind, places in head.tensors.columns.items():
                if kind in plain and kind in effects.coarse:
                    rows[places] = (self.strength * links.of_labels(kind, effects.coarse[kind])).float()
            weights |= {"coarse.weight": rows, "coarse.bias": torch.zeros(len(rows))}
            if graph.numbers:
                layer = NumberLayer(self.sums.shape[1], len(graph.numbers))
                layer.silence()
                layer = layer if self.potentials is None else self.potentials.layer(graph).float()
                weights |= {f"numbers.{name}": value for name, value in layer.state_dict().items()}
        if self.doubt:
            weights["doubt_factor"] = torch.tensor(self.doubt, dtype=torch.float32)
        head.load_state_dict(weights, assign=True)
        return head.requires_grad_(True)

    def _class_means(self, links: LinkMatrices, effects: MeanComponents) -> Float[Tensor, "fine feature"]:
        """The same as `class_means`, without the sums over parents for labels that have photos.

        There the system that the effects solve says how far class means are from those of the photos:
        V B = M - mu_0 and e = own B give mean = M - noise / n B.
        """
        # A lesson waits for this: as few passes over fine x feature numbers as there can be.
        seen = self.counts > 0
        counts = torch.where(seen, self.counts, 1.0)
        share = torch.where(seen, self.variances.noise / (counts * links.own_variance(self.variances)), 0.0)
        means = self.sums / counts[:, None]
        means.addcmul_(share[:, None], effects.fine, value=-1.0)
        rest = (~seen).nonzero()[:, 0]
        if len(rest):
            means[rest] = effects.centre
            for name in links.names:
                means[rest] += torch.sparse.mm(links.designs[name].index_select(0, rest), effects.coarse[name])
        return means

    def larger(self, graph: LabelGraph) -> ClassStatistics:
        """The statistics for a graph with more fine labels behind its own; they have no photo."""
        more = len(graph) - len(self.counts)
        if not more:
            return self
        counts = torch.cat([self.counts, torch.zeros(more, dtype=torch.float64)])
        return replace(self, counts=counts, sums=torch.cat([self.sums, self.sums.new_zeros(more, self.sums.shape[1])]))

    # ---- as files hold them -----------------------------------------------------------------------------------------

    def to_parts(self) -> tuple[dict[str, Shaped[Tensor, " ..."]], dict[str, Any]]:
        """The tensors, and the rest as JSON data."""
        facts: dict[str, Any] = {
            "head": self.head,
            "strength": self.strength,
            "own": self.variances.own,
            "kinds": dict(self.variances.kinds),
            "noise": self.variances.noise,
            **({} if self.views == 1 else {"views": self.views}),
            **({"doubt": self.doubt} if self.doubt else {}),
            **({"unseen_share": self.unseen_share} if self.unseen_share else {}),
            **({"unseen_reach": self.unseen_reach} if self.unseen_reach else {}),
        }
        tensors = {"counts": self.counts, "sums": self.sums}
        if self.variances.numbers:
            facts["numbers"] = dict(self.variances.numbers)
            facts["scales"] = {name: list(scale) for name, scale in self.scales.items()}
        for name, number_values in (("pulls", self.pulls), ("potentials", self.potentials)):
            if number_values is not None:
                facts[name] = list(number_values.names)
                tensors |= {
                    f"{name}.{column}": getattr(number_values, column) for column in _columns_of(type(number_values))
                }
        return tensors, facts if self.pulls is None else {**facts, "share": self.share}

    @classmethod
    def from_parts(
        cls, tensors: Mapping[str, Shaped[Tensor, " ..."]], facts: Mapping[str, Any], graph: LabelGraph
    ) -> ClassStatistics:
        """From the form that `to_parts` gives.

        Raises:
            InputError: they are not of this form, or of another graph.
        """
        try:
            counts, sums = tensors["counts"], tensors["sums"]
            kinds = {graph.kind(str(name)).name: float(value) for name, value in facts["kinds"].items()}
            numbers = {graph.number(str(name)).name: float(one) for name, one in facts.get("numbers", {}).items()}
            variances = Variances(own=float(facts["own"]), kinds=kinds, noise=float(facts["noise"]), numbers=numbers)
            strength, head, views = float(facts["strength"]), facts["head"], facts.get("views", 1)
            scales = {name: (float(facts["scales"][name][0]), float(facts["scales"][name][1])) for name in numbers}
            share, doubt = float(facts.get("share", 0.0)), float(facts.get("doubt", 0.0))
            unseen_share, unseen_reach = (float(facts.get(name, 0.0)) for name in ("unseen_share", "unseen_reach"))
            pulls = _values_from(ValuePulls, "pulls", tensors, facts, graph)
            potentials = _values_from(ValuePotentials, "potentials", tensors, facts, graph)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InputError(f"expected the statistics of a fit, got something else ({error})") from error
        good = (
            counts.shape == (len(graph),)
            and sums.ndim == 2
            and len(sums) == len(graph)
            and counts.dtype == sums.dtype == torch.float64
            and bool(torch.isfinite(counts).all() and torch.isfinite(sums).all() and (counts >= 0).all())
            and all(
                0.0 <= value < float("inf")
                for value in (variances.own, share, doubt, unseen_reach, *kinds.values(), *numbers.values())
            )
            and all(math.isfinite(centre) and 0.0 < width < math.inf for centre, width in scales.values())
            and all(one is None or one.weight.shape[1] == sums.shape[1] for one in (pulls, potentials))
            and 0.0 <= unseen_share <= 1.0
            and 0.0 < variances.noise < float("inf")
            and 0.0 < strength < float("inf")
            and head in ("bipartite", "softmax")
            and type(views) is int
            and 1 <= views <= MAX_VIEWS
        )
        if not good:
            raise InputError(f"expected the statistics of {len(graph)} fine labels, finite numbers in float64")
        return cls(
            counts=counts,
            sums=sums,
            variances=variances,
            strength=strength,
            head=head,
            views=views,
            scales=scales,
            pulls=pulls,
            share=share,
            potentials=potentials,
            doubt=doubt,
            unseen_share=unseen_share,
            unseen_reach=unseen_reach,
        )


def _columns_of(of: type[ValuePulls | ValuePotentials]) -> list[str]:
    """The names of the tensors of pulls or potentials."""
    return [one.name for one in fields(of) if one.name != "names"]


def _values_from(
    of: type[Values],
    name: str,
    tensors: Mapping[str, Shaped[Tensor, " ..."]],
    facts: Mapping[str, Any],
    graph: LabelGraph,
) -> Values | None:
    """Pulls or potentials from the form that files hold; None if there are none.

    Raises:
        KeyError: a tensor is missing.
        ValueError: a tensor is of another form.
    """
    if name not in facts:
        return None
    known = (*graph.kinds, *graph.numbers)
    names = tuple(known[known.index(one)] for one in facts[name])
    columns = {column: tensors[f"{name}.{column}"] for column in _columns_of(of)}
    for column, tensor in columns.items():
        if (
            tensor.dtype != torch.float64
            or tensor.ndim != (2 if column == "weight" else 1)
            or len(tensor) != len(names)
        ):
            raise ValueError(f"{name}.{column} is of shape {tuple(tensor.shape)}")
        if not bool(torch.isfinite(tensor).all()):
            raise ValueError(f"{name}.{column} is not finite")
    return of(names=names, **columns)
