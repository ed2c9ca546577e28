"""Why one fine label rather than another: the exact log odds, split by kind.

Coarse scores are not identifiable: a vector moved from a coarse label to all its children changes no answer. Of all the
splits s = mu + a_i + sum_j b^j[parent_j(i)] that give the same joint scores, the one with the smallest squares is

    alpha = (I + G G')^-1 (s - mu),    a = alpha,    b^j = G_j' alpha

with mu, a constant that changes no posterior, chosen so that alpha is smallest too. It depends on the posterior alone:
a shift of scores that changes no answer changes no explanation, and softmax and folded heads can be explained just as
well. Evidence is kept apart, since it is known rather than seen. Kinds with several or unknown parents have no linear
split; their part is the difference of their log sums, and says so.

The system is solved for the coarse labels, (I + G' G) beta = G' (s - mu) and alpha = s - mu - G beta, by conjugate
gradients scaled by the number of children. G is only ever multiplied, with one gather and one scatter for as many kinds
as fit into a little memory: a few dozen steps, each linear in the graph. If there are few labels, I + G' G is
factorised once per graph, and each split is two triangular solutions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from finegraph.errors import InputError
from finegraph.graph import LabelGraph
from finegraph.inference.numerics import refuse_nan
from finegraph.inference.sums.graph_tensors import GraphTensors, graph_tensors
from finegraph.inference.sums.kind_tensors import KindTensors

EVIDENCE = "evidence: "
"""What stands before the name of a kind in the source of a part that is known rather than seen."""


_PRECISION = 1e-12
_MAX_STEPS = 2000
MAX_TOGETHER = 1 << 20
"""How many numbers are gathered at once; small kinds one by one would take more time in Python than in sums."""
_MAX_LABELS = 1024
_MAX_CELLS = 1 << 22
"""How many coarse labels, and how many of these times fine labels, there may be for a factor."""


class Part(NamedTuple):
    """What one kind, the fine label itself or evidence adds to the log odds.

    Attributes:
        source: `"fine"`, the name of a kind, or `"evidence: "` and the name of a kind.
        first: the label of the first fine label in this kind; None where it is unknown or one of several.
        second: the same of the second.
        value: the log odds that it adds; positive speaks for the first.
        several: whether the kind has several or unknown parents, so that the part is a difference of log sums, which
            is not the only way to split them.
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
        second: the one it is compared with.
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
    """What a posterior is made of, without a gradient and on the CPU, in float64.

    Attributes:
        log_probs: the log probabilities of the fine labels.
        fine: the fine scores.
        coarse: the coarse scores, without evidence.
        evidence: the log likelihoods of the fine labels and then of all coarse labels; None without evidence.
    """

    log_probs: Float[Tensor, "batch fine"]
    fine: Float[Tensor, "batch fine"]
    coarse: Float[Tensor, "batch coarse"]
    evidence: Float[Tensor, "batch fine_and_coarse"] | None


def explain(graph: LabelGraph, posterior: PosteriorParts, first: list[int], second: list[int]) -> list[Explanation]:
    """One explanation per sample, of fine label `first[b]` against `second[b]`."""
    if not first:
        return []
    one, two = torch.tensor(first), torch.tensor(second)
    tensors = graph_tensors(graph)
    every = tensors.kinds
    with torch.no_grad():
        _refuse_impossible(graph, posterior.log_probs, one, two)
        names, values = ["fine"], []
        coarse = posterior.coarse
        linear = _linear_kinds(graph, tuple(kind.name for kind in every if kind.plain))
        fine, kinds = linear.split(posterior.fine, coarse)
        values.append(_differences(fine, one.unsqueeze(1), two.unsqueeze(1)))
        names += linear.kinds
        values.append(_differences(kinds, linear.places[one], linear.places[two]))
        for kind in every:
            if not kind.plain:
                names.append(kind.name)
                values.append(_group_odds(kind, one, two, coarse))
        if posterior.evidence is not None:
            known = coarse + posterior.evidence[:, len(graph) :]
            for kind in every:
                names.append(f"{EVIDENCE}{kind.name}")
                values.append(_group_odds(kind, one, two, known, coarse))
            names.append(f"{EVIDENCE}fine")
            values.append(_differences(posterior.evidence, one.unsqueeze(1), two.unsqueeze(1)))
        rows = torch.cat(values, dim=1).tolist()
    return [
        _explanation(tensors, zip(names, row, strict=True), *pair)
        for row, *pair in zip(rows, first, second, strict=True)
    ]


class _LinearKinds(NamedTuple):
    """The kinds that can be split linearly, and what makes that quick.

    Attributes:
        kinds: their names.
        links: their edges, kind by kind.
        joined: the same as if they were one kind.
        factor: see `factor_of`.
        columns: their columns among all coarse labels.
        places: (fine, kind) the parent of each fine label among the labels of these kinds side by side.
    """

    kinds: tuple[str, ...]
    links: list[Links]
    joined: Links
    factor: Tensor | None
    columns: Tensor
    places: Tensor

    def split(
        self, fine: Float[Tensor, "batch fine"], coarse: Float[Tensor, "batch coarse"]
    ) -> tuple[Float[Tensor, "batch fine"], Float[Tensor, "batch _"]]:
        """Parts of the fine labels and of the labels of these kinds side by side, from fine and all coarse scores."""
        if not self.kinds:
            split = minimum_norm_split([], _finite(fine))
            return split.fine, coarse[:, :0]
        few = len(self.joined.fine) * (len(fine) + 1) <= MAX_TOGETHER
        links = [self.joined] if few else self.links
        parts = torch.split(coarse.index_select(1, self.columns), [one.count for one in links], dim=1)
        scores = fine
        for one, own in zip(links, parts, strict=True):
            scores = scores + one.to_fine(own, fine.shape[1])
        found = minimum_norm_split(links, _finite(scores), self.factor)
        return found.fine, torch.cat(found.coarse, dim=1)


@lru_cache(maxsize=4)  # of some megabytes each; a server explains thousands of answers of one graph
def _linear_kinds(graph: LabelGraph, kinds: tuple[str, ...]) -> _LinearKinds:
    """What is needed to split by some kinds, each of whose fine labels has one parent."""
    links = [links_of(graph, kind) for kind in kinds]
    none = torch.zeros(0, dtype=torch.int64)
    joined = side_by_side(links) if links else Links(none, none, none.double(), 0)
    columns = graph_tensors(graph).columns
    wanted = [torch.arange(columns[kind].start, columns[kind].stop) for kind in kinds]
    # The edges of such a kind stand in the order of the fine labels, one for each.
    places = joined.coarse.reshape(len(kinds), len(graph)).t().contiguous()
    return _LinearKinds(kinds, links, joined, factor_of(links, len(graph)), torch.cat([none, *wanted]), places)


def _differences(
    values: Float[Tensor, "batch _"], one: Int[Tensor, "batch place"], two: Int[Tensor, "batch place"]
) -> Float[Tensor, "batch place"]:
    """By how much some columns of each sample exceed some others."""
    return values.gather(1, one) - values.gather(1, two)


def _group_odds(
    kind: KindTensors,
    one: Int[Tensor, " batch"],
    two: Int[Tensor, " batch"],
    coarse: Float[Tensor, "batch coarse"],
    before: Float[Tensor, "batch coarse"] | None = None,
) -> Float[Tensor, "batch 1"]:
    """By how much the scores of the groups of the first fine labels exceed those of the second, in one kind.

    Args:
        kind: on the CPU.
        one: the first fine labels.
        two: the second ones.
        coarse: the coarse scores.
        before: coarse scores that are taken away first; evidence that changes nothing then adds exactly nothing.
    """
    scores = kind.group_scores(coarse[:, kind.columns])
    if before is not None:
        scores = scores - kind.group_scores(before[:, kind.columns])
    return _differences(scores, kind.group[one].unsqueeze(1), kind.group[two].unsqueeze(1))


def links_of(graph: LabelGraph, kind: str) -> Links:
    """The edges of a kind as tensors in float64."""
    fine, coarse, weight = (torch.from_numpy(array) for array in graph.edges(kind))
    return Links(fine, coarse, weight, len(graph.labels(kind)))


def _finite(scores: Float[Tensor, "batch fine"]) -> Float[Tensor, "batch fine"]:
    """Scores in which fine labels that were ruled out stand at the lowest finite score, so that they can be split."""
    lowest = scores.masked_fill(scores.isneginf(), torch.inf).amin(dim=1, keepdim=True)
    return torch.where(scores.isneginf(), lowest, scores)


def _refuse_impossible(
    graph: LabelGraph, log_probs: Float[Tensor, "batch fine"], one: Int[Tensor, " batch"], two: Int[Tensor, " batch"]
) -> None:
    """Raise if a fine label to explain has probability 0, by its score or by evidence, or none that is a number."""
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
    """The explanation of one sample from its parts."""
    graph = tensors.graph
    listed = []
    for source, value in parts:
        if source.startswith(EVIDENCE) and value == 0.0:
            continue
        kind = source.removeprefix(EVIDENCE)
        if kind == "fine":
            listed.append(Part(source, graph.fine[first], graph.fine[second], value))
            continue
        labels = [_only_label(graph, kind, fine) for fine in (first, second)]
        listed.append(Part(source, labels[0], labels[1], value, several=not tensors.kind(kind).plain))
    listed.sort(key=lambda part: -abs(part.value))
    return Explanation(graph.fine[first], graph.fine[second], sum(part.value for part in listed), tuple(listed))


def _only_label(graph: LabelGraph, kind: str, fine: int) -> str | None:
    """The one parent of a fine label, or None."""
    rows = graph.kind(kind)
    start, stop = rows.starts[fine], rows.starts[fine + 1]
    return rows.labels[rows.coarse[start]] if stop == start + 1 else None


@dataclass(frozen=True)
class Links:
    """The edges of one kind as tensors: fine label, coarse label and weight of each, and how many labels there are."""

    fine: Int[Tensor, " edge"]
    coarse: Int[Tensor, " edge"]
    weight: Float[Tensor, " edge"]
    count: int

    def to_fine(self, values: Float[Tensor, "column coarse"], fine_count: int) -> Float[Tensor, "column fine"]:
        """G values: what the parents of each fine label have, summed."""
        out = values.new_zeros(len(values), fine_count)
        parts = values.gather(1, self.coarse.expand(len(values), -1)).mul_(self.weight)
        return out.scatter_add_(1, self.fine.expand(len(values), -1), parts)

    def to_coarse(self, values: Float[Tensor, "column fine"]) -> Float[Tensor, "column coarse"]:
        """G' values: what the children of each coarse label have, summed."""
        out = values.new_zeros(len(values), self.count)
        parts = values.gather(1, self.fine.expand(len(values), -1)).mul_(self.weight)
        return out.scatter_add_(1, self.coarse.expand(len(values), -1), parts)


@dataclass(frozen=True)
class Split:
    """A minimum-norm split: the constant, the parts of the fine labels, and those of each kind's labels."""

    constant: Float[Tensor, "column 1"]
    fine: Float[Tensor, "column fine"]
    coarse: list[Float[Tensor, "column _"]]


def minimum_norm_split(
    kinds: Sequence[Links], scores: Float[Tensor, "column fine"], factor: Float[Tensor, "coarse coarse"] | None = None
) -> Split:
    """Split each row of `scores` (float64) between fine labels and kinds.

    Args:
        kinds: the edges of each kind.
        scores: the joint scores.
        factor: what `factor_of` has for these kinds; it makes this quicker and changes nothing.
    """
    solved = _solve(kinds, torch.cat([scores, torch.ones_like(scores[:1])]), factor)
    solved, ones = solved[:-1], solved[-1:]
    constant = solved.sum(dim=1, keepdim=True) / ones.sum()
    alpha = solved - ones * constant
    return Split(constant, alpha, [kind.to_coarse(alpha) for kind in kinds])


def factor_of(kinds: Sequence[Links], fine_count: int) -> Float[Tensor, "coarse coarse"] | None:
    """The Cholesky factor of I + G' G, worth keeping; None where there are no labels or it would be large."""
    count = sum(kind.count for kind in kinds)
    if not count or count > _MAX_LABELS or count * fine_count > _MAX_CELLS:
        return None
    edges = side_by_side(kinds)
    matrix = torch.zeros(fine_count, count, dtype=torch.float64)
    matrix.index_put_((edges.fine, edges.coarse), edges.weight, accumulate=True)
    factor: Tensor = torch.linalg.cholesky(torch.eye(count, dtype=torch.float64) + matrix.T @ matrix)
    return factor


def _solve(
    kinds: Sequence[Links], right: Float[Tensor, "column fine"], factor: Float[Tensor, "coarse coarse"] | None
) -> Float[Tensor, "column fine"]:
    """(I + G G')^-1 of each row of `right`."""
    if not kinds:
        return right.clone()
    bundles = _bundles(kinds, MAX_TOGETHER // max(1, len(right)))
    sizes = [bundle.count for bundle in bundles]
    fine_count = right.shape[1]

    def up(values: Float[Tensor, "column fine"]) -> Float[Tensor, "column coarse"]:
        return torch.cat([bundle.to_coarse(values) for bundle in bundles], dim=1)

    def down(values: Float[Tensor, "column coarse"]) -> Float[Tensor, "column fine"]:
        total = values.new_zeros(len(values), fine_count)
        for bundle, part in zip(bundles, torch.split(values, sizes, dim=1), strict=True):
            total += bundle.to_fine(part, fine_count)
        return total

    if factor is not None:
        return right - down(torch.cholesky_solve(up(right).T, factor).T)
    scale = torch.cat([torch.bincount(bundle.coarse, bundle.weight**2, bundle.count) for bundle in bundles]).add(1.0)
    residual = up(right)
    solution = torch.zeros_like(residual)
    direction = residual / scale
    size = (residual * direction).sum(dim=1, keepdim=True)
    goal = size * _PRECISION**2
    tiny = torch.finfo(right.dtype).tiny
    for _ in range(_MAX_STEPS):
        if bool((size <= goal).all()):
            break
        image = direction + up(down(direction))
        step = size / (direction * image).sum(dim=1, keepdim=True).clamp_min(tiny)
        solution += step * direction
        residual -= step * image
        scaled = residual / scale
        new_size = (residual * scaled).sum(dim=1, keepdim=True)
        direction = scaled + new_size / size.clamp_min(tiny) * direction
        size = new_size
    return right - down(solution)


def _bundles(kinds: Sequence[Links], max_edges: int) -> list[Links]:
    """Kinds side by side as if they were one, in order; a bundle of several has at most `max_edges` edges."""
    groups: list[list[Links]] = []
    edges = 0
    for kind in kinds:
        if not groups or edges + len(kind.fine) > max_edges:
            groups.append([])
            edges = 0
        groups[-1].append(kind)
        edges += len(kind.fine)
    return [side_by_side(group) for group in groups]


def side_by_side(kinds: Sequence[Links]) -> Links:
    """Kinds as if they were one, the labels of each after those of the one before."""
    if len(kinds) == 1:
        return kinds[0]
    starts = torch.tensor([0, *(kind.count for kind in kinds)]).cumsum(0).tolist()
    return Links(
        torch.cat([kind.fine for kind in kinds]),
        torch.cat([kind.coarse + start for kind, start in zip(kinds, starts[:-1], strict=True)]),
        torch.cat([kind.weight for kind in kinds]),
        starts[-1],
    )
