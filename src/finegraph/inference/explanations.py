"""Why one fine label rather than another: the exact log odds, split by kind.

Coarse scores are not identifiable: moving a vector from a coarse label to all its children changes no answer. Of all
splits s = mu + a_i + sum_j b^j[parent_j(i)] with the same joint scores, the one with the smallest sum of squares is

    alpha = (I + G G')^-1 (s - mu),    a = alpha,    b^j = G_j' alpha

where mu, a constant that changes no posterior, is also chosen to make alpha smallest. The split depends on the
posterior alone: a shift of scores that changes no answer changes no explanation, and softmax and folded heads can be
explained just as well. Evidence is listed separately, since it is known rather than seen. Kinds with several or unknown
parents have no linear split; their part is the difference of their log sums and is marked as such.

A number whose values v are exact adds two columns to G, v and - v^2 / 2, the factors of its pull and its precision. Its
part is the sum of both. A number with spreads or unknown values is treated like a kind with several parents.

`minimum_norm.py` finds the smallest split in time linear in the graph.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from finegraph.errors import InputError
from finegraph.graph import LabelGraph, Number
from finegraph.graph.number_cells import format_number
from finegraph.inference.minimum_norm import MinimumNorm, links_of
from finegraph.inference.numbers.number_tensors import NumberTensors
from finegraph.inference.numbers.potential import components_of
from finegraph.inference.numerics import CPU, Constants, refuse_nan, shared_constants
from finegraph.inference.sums.graph_tensors import GraphTensors, graph_tensors
from finegraph.inference.sums.groups import KindTensors

EVIDENCE = "evidence: "
"""The prefix of the source of a part that comes from evidence."""


class Part(NamedTuple):
    """What one source adds to the log odds: a kind, a number, the fine label itself, or evidence.

    Attributes:
        source: `"fine"`, the name of a kind or number, or `"evidence: "` followed by such a name.
        first: the label of the first fine label in this kind, or its value as text; None if it is unknown or not
            unique.
        second: the same for the second fine label.
        value: the log odds that the source adds; positive values favour the first fine label.
        several: whether the kind has several or unknown parents, or the number has spreads or unknown values. The part
            is then a difference of log sums, which is not the only possible split.
    """

    source: str
    first: str | None
    second: str | None
    value: float
    several: bool = False


@dataclass(frozen=True)
class Explanation:
    """Why one fine label rather than another, for one sample: log odds = the sum of the parts.

    Attributes:
        first: the fine label that is explained.
        second: the fine label it is compared with.
        log_odds: log p(first) - log p(second).
        parts: what each source adds, the largest first.
    """

    first: str
    second: str
    log_odds: float
    parts: tuple[Part, ...]

    def __str__(self) -> str:
        lines = [f"{self.first} rather than {self.second}: log odds {self.log_odds:+.2f}"]
        for part in self.parts:
            labels = (
                f" ({part.first} / {part.second})" if part.first and part.second and part.first != part.second else ""
            )
            lines.append(f"  {part.value:+7.2f}  {part.source}{labels}")
        return "\n".join(lines)


class PosteriorParts(NamedTuple):
    """The components of a posterior, detached, on the CPU and in float64.

    Attributes:
        log_probs: the log probabilities of the fine labels.
        fine: the fine scores.
        coarse: the coarse scores, without evidence.
        evidence: the log likelihoods of the fine labels and then of all coarse labels; None without evidence.
        numbers: the scores of the numbers, without evidence.
        number_evidence: the evidence on the numbers; None if there is none.
    """

    log_probs: Float[Tensor, "batch fine"]
    fine: Float[Tensor, "batch fine"]
    coarse: Float[Tensor, "batch coarse"]
    evidence: Float[Tensor, "batch fine_and_coarse"] | None
    numbers: Float[Tensor, "batch number 2"]
    number_evidence: Float[Tensor, "batch number 4"] | None


def explain(graph: LabelGraph, posterior: PosteriorParts, first: list[int], second: list[int]) -> list[Explanation]:
    """One explanation per sample b, of fine label `first[b]` against `second[b]`."""
    if not first:
        return []
    one, two = torch.tensor(first), torch.tensor(second)
    tensors = graph_tensors(graph)
    every = tensors.kinds
    with torch.no_grad():
        _refuse_impossible(graph, posterior.log_probs, one, two)
        coarse = posterior.coarse
        linear = shared_constants(_LinearParts, graph, CPU)
        names, values = linear.names, [linear.odds(posterior, one, two)]
        for kind in every:
            if not kind.plain:
                names.append(kind.name)
                values.append(_group_odds(kind, one, two, coarse))
        for number in tensors.numbers.numbers:
            if not number.points:
                names.append(number.name)
                values.append(_component_odds(number, one, two, posterior.numbers))
        if posterior.evidence is not None:
            known = coarse + posterior.evidence[:, len(graph) :]
            for kind in every:
                names.append(f"{EVIDENCE}{kind.name}")
                values.append(_group_odds(kind, one, two, known, coarse))
            names.append(f"{EVIDENCE}fine")
            values.append(_differences(posterior.evidence, one.unsqueeze(1), two.unsqueeze(1)))
        if posterior.number_evidence is not None:
            for number in tensors.numbers.numbers:
                names.append(f"{EVIDENCE}{number.name}")
                values.append(_component_odds(number, one, two, posterior.numbers, posterior.number_evidence))
        rows = torch.cat(values, dim=1).tolist()
    return [
        _explanation(tensors, zip(names, row, strict=True), *pair)
        for row, *pair in zip(rows, first, second, strict=True)
    ]


class _LinearParts(Constants):
    """The sources that can be split linearly: kinds with one parent per fine label, and numbers with exact values.

    Attributes:
        kinds: the tensors of these kinds.
        numbers: the tensors of these numbers.
        design: two rows per number, the factors of its two scores.
        solver: splits joint scores.
    """

    design: Tensor

    def __init__(self, graph: LabelGraph) -> None:
        tensors = graph_tensors(graph)
        self.kinds = [kind for kind in tensors.kinds if kind.plain]
        self.numbers = [number for number in tensors.numbers.numbers if number.points]
        self.design = tensors.numbers.design
        links = [links_of(graph, kind.name) for kind in self.kinds]
        self.solver = MinimumNorm(links, len(graph), self.design)

    @property
    def names(self) -> list[str]:
        """The sources of the parts: the fine labels, these kinds, these numbers."""
        return ["fine", *(kind.name for kind in self.kinds), *(number.name for number in self.numbers)]

    def odds(
        self, posterior: PosteriorParts, one: Int[Tensor, " batch"], two: Int[Tensor, " batch"]
    ) -> Float[Tensor, "batch term"]:
        """What each of these sources adds to the log odds of `one` over `two`."""
        scores = posterior.fine.clone()
        for kind in self.kinds:
            scores += posterior.coarse[:, kind.columns].gather(1, kind.group.expand_as(scores))
        places = [number.place for number in self.numbers]
        scores += posterior.numbers[:, places].flatten(start_dim=1) @ self.design
        split = self.solver.split(_finite(scores))
        parts = [_differences(split.fine, one.unsqueeze(1), two.unsqueeze(1))]
        for kind, part in zip(self.kinds, split.coarse, strict=True):
            parts.append(_differences(part, kind.group[one].unsqueeze(1), kind.group[two].unsqueeze(1)))
        for row in range(0, len(self.design), 2):
            design = self.design[row : row + 2]
            difference = (design[:, one] - design[:, two]).T
            parts.append((split.dense[:, row : row + 2] * difference).sum(dim=1, keepdim=True))
        return torch.cat(parts, dim=1)


def _differences(
    values: Float[Tensor, "batch _"], one: Int[Tensor, "batch place"], two: Int[Tensor, "batch place"]
) -> Float[Tensor, "batch place"]:
    """The columns `one` of each sample minus its columns `two`."""
    return values.gather(1, one) - values.gather(1, two)


def _group_odds(
    kind: KindTensors,
    one: Int[Tensor, " batch"],
    two: Int[Tensor, " batch"],
    coarse: Float[Tensor, "batch coarse"],
    before: Float[Tensor, "batch coarse"] | None = None,
) -> Float[Tensor, "batch 1"]:
    """The score of the group of the first fine label minus that of the second, in one kind.

    Args:
        kind: the tensors of the kind, on the CPU.
        one: the first fine label of each sample.
        two: the second one.
        coarse: the coarse scores.
        before: coarse scores to subtract before the comparison, so that evidence without an effect adds exactly 0.
    """
    scores = kind.group_scores(coarse[:, kind.columns])
    if before is not None:
        scores = scores - kind.group_scores(before[:, kind.columns])
    return _differences(scores, kind.group[one].unsqueeze(1), kind.group[two].unsqueeze(1))


def _component_odds(
    number: NumberTensors,
    one: Int[Tensor, " batch"],
    two: Int[Tensor, " batch"],
    scores: Float[Tensor, "batch number 2"],
    evidence: Float[Tensor, "batch number 4"] | None = None,
) -> Float[Tensor, "batch 1"]:
    """The term of the component of the first fine label minus that of the second, in one number.

    Args:
        number: the tensors of the number, on the CPU.
        one: the first fine label of each sample.
        two: the second one.
        scores: the scores of the numbers.
        evidence: evidence on the numbers, for what it adds to the terms; None for the terms without evidence.
    """
    pair = number.component[torch.stack([one, two], dim=1)]
    terms = components_of(number, scores, None, pair).term
    if evidence is not None:
        terms = components_of(number, scores, evidence, pair).term - terms
    return terms[:, :1] - terms[:, 1:]


def _finite(scores: Float[Tensor, "batch fine"]) -> Float[Tensor, "batch fine"]:
    """Replace the scores of ruled-out fine labels by the lowest finite score, so that they can be split."""
    lowest = scores.masked_fill(scores.isneginf(), torch.inf).amin(dim=1, keepdim=True)
    return torch.where(scores.isneginf(), lowest, scores)


def _refuse_impossible(
    graph: LabelGraph, log_probs: Float[Tensor, "batch fine"], one: Int[Tensor, " batch"], two: Int[Tensor, " batch"]
) -> None:
    """Raise if a fine label to explain has probability 0, by its score or by evidence, or if a probability is NaN."""
    refuse_nan(log_probs)
    for index in (one, two):
        bad = log_probs.gather(1, index.unsqueeze(1)).isneginf().squeeze(1).nonzero()
        if len(bad):
            sample = int(bad[0])
            raise InputError(
                f"sample {sample}: the fine label {graph.fine[int(index[sample])]!r} has probability 0, "
                "so there are no log odds to explain; choose fine labels that are possible"
            )


def _explanation(tensors: GraphTensors, parts: Iterable[tuple[str, float]], first: int, second: int) -> Explanation:
    """The explanation of one sample, from its parts."""
    graph = tensors.graph
    listed = []
    for source, value in parts:
        if source.startswith(EVIDENCE) and value == 0.0:
            continue
        kind = source.removeprefix(EVIDENCE)
        if kind == "fine":
            listed.append(Part(source, graph.fine[first], graph.fine[second], value))
            continue
        if kind in graph.numbers:
            texts = [_value_text(graph.number(kind), fine) for fine in (first, second)]
            listed.append(Part(source, texts[0], texts[1], value, several=not tensors.numbers.number(kind).points))
            continue
        labels = [_only_label(graph, kind, fine) for fine in (first, second)]
        listed.append(Part(source, labels[0], labels[1], value, several=not tensors.kind(kind).plain))
    listed.sort(key=lambda part: -abs(part.value))
    return Explanation(graph.fine[first], graph.fine[second], sum(part.value for part in listed), tuple(listed))


def _only_label(graph: LabelGraph, kind: str, fine: int) -> str | None:
    """The only parent of a fine label; None if there is none or there are several."""
    links = graph.kind(kind)
    start, stop = links.starts[fine], links.starts[fine + 1]
    return links.labels[links.coarse[start]] if stop == start + 1 else None


def _value_text(number: Number, fine: int) -> str | None:
    """The value of a fine label with its unit; None if it is unknown."""
    text = format_number(float(number.values[fine]), float(number.spreads[fine]), number.scale)
    return f"{text} {number.unit}".rstrip() if text else None
