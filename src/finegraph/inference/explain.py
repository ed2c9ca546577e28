"""Why one fine label rather than another: the exact log odds, split by kind.

The split is the minimum-norm one of `split.py`, so it depends on the posterior alone: a shift of scores that changes no
answer changes no explanation, and softmax and folded heads can be explained just as well. Evidence is kept apart, since
it is known rather than seen. The kinds with several or unknown parents have no linear split; for them the difference of
their log sums is the part, and it says so.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from finegraph.errors import InputError
from finegraph.graph import LabelGraph
from finegraph.inference.answers import Explanation, Part
from finegraph.inference.finite import refuse_nan
from finegraph.inference.split import MAX_TOGETHER, Links, factor_of, minimum_norm_split, side_by_side
from finegraph.inference.sums.graph_tensors import GraphTensors, graph_tensors
from finegraph.inference.sums.kind_tensors import KindTensors

EVIDENCE = "evidence: "
"""What stands before the name of a kind in the source of a part that is known rather than seen."""


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
    every = tensors.each()
    with torch.no_grad():
        _refuse_impossible(graph, posterior.log_probs, one, two)
        names, values = ["fine"], []
        coarse = posterior.coarse
        plain = _plain(graph, tuple(kind.name for kind in every if kind.plain))
        fine, kinds = plain.split(posterior.fine, coarse)
        values.append(_odds(fine, one.unsqueeze(1), two.unsqueeze(1)))
        names += plain.kinds
        values.append(_odds(kinds, plain.places[one], plain.places[two]))
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
            values.append(_odds(posterior.evidence, one.unsqueeze(1), two.unsqueeze(1)))
        rows = torch.cat(values, dim=1).tolist()
    return [
        _explanation(tensors, zip(names, row, strict=True), *pair)
        for row, *pair in zip(rows, first, second, strict=True)
    ]


class _Plain(NamedTuple):
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
            scores = scores + one.down(own, fine.shape[1])
        found = minimum_norm_split(links, _finite(scores), self.factor)
        return found.fine, torch.cat(found.coarse, dim=1)


@lru_cache(maxsize=4)  # of some megabytes each; a server explains thousands of answers of one graph
def _plain(graph: LabelGraph, kinds: tuple[str, ...]) -> _Plain:
    """What is needed to split by some kinds, each of whose fine labels has one parent."""
    links = [links_of(graph, kind) for kind in kinds]
    none = torch.zeros(0, dtype=torch.int64)
    joined = side_by_side(links) if links else Links(none, none, none.double(), 0)
    columns = graph_tensors(graph).columns
    wanted = [torch.arange(columns[kind].start, columns[kind].stop) for kind in kinds]
    # The edges of such a kind stand in the order of the fine labels, one for each.
    places = joined.coarse.reshape(len(kinds), len(graph)).t().contiguous()
    return _Plain(kinds, links, joined, factor_of(links, len(graph)), torch.cat([none, *wanted]), places)


def _odds(
    values: Float[Tensor, "batch _"], one: Int[Tensor, "batch place"], two: Int[Tensor, "batch place"]
) -> Float[Tensor, "batch place"]:
    """What some columns of each sample have more than some others."""
    return values.gather(1, one) - values.gather(1, two)


def _group_odds(
    kind: KindTensors,
    one: Int[Tensor, " batch"],
    two: Int[Tensor, " batch"],
    coarse: Float[Tensor, "batch coarse"],
    before: Float[Tensor, "batch coarse"] | None = None,
) -> Float[Tensor, "batch 1"]:
    """How much more the groups of the first fine labels have than those of the second, in one kind.

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
    return _odds(scores, kind.group[one].unsqueeze(1), kind.group[two].unsqueeze(1))


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
