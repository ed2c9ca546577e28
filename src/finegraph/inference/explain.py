"""Why one fine label rather than another: the exact log odds, split by kind.

The split is the minimum-norm one of `split.py`, so it depends on the posterior alone: a shift of scores that changes no
answer changes no explanation, and softmax and folded heads can be explained just as well. Evidence is kept apart, since
it is known rather than seen. The kinds with several or unknown parents have no linear split; for them the difference of
their log sums is the part, and it says so.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from finegraph.errors import InputError
from finegraph.graph import LabelGraph
from finegraph.inference.answers import Explanation, Part
from finegraph.inference.split import Links, factor_of, minimum_norm_split

if TYPE_CHECKING:
    from finegraph.inference.posterior import Posterior
    from finegraph.inference.tensors import GraphTensors


def explain(posterior: Posterior, first: list[int], second: list[int]) -> list[Explanation]:
    """One explanation per sample, of fine label `first[b]` against `second[b]`."""
    if not first:
        return []
    tensors = posterior.tensors
    plain = [kind for kind in tensors.each() if kind.plain]
    rows = torch.arange(len(first))
    one, two = torch.tensor(first), torch.tensor(second)
    with torch.no_grad():
        groups = _group_columns(posterior, evidence=False)
        all_groups = _group_columns(posterior, evidence=True)
        scores = posterior.fine_scores.detach().double().cpu()
        for kind in plain:
            scores = scores + groups[kind.name].index_select(1, kind.group.cpu())
        _refuse_impossible(posterior, rows, one, two)
        links, factor = _links(posterior.graph, tuple(kind.name for kind in plain))
        split = minimum_norm_split(links, _finite(scores), factor)
        fine = split.fine
        parts = {"fine": fine[rows, one] - fine[rows, two]}
        for kind, coarse in zip(plain, split.coarse, strict=True):
            parts[kind.name] = coarse[rows, kind.group.cpu()[one]] - coarse[rows, kind.group.cpu()[two]]
        for kind in tensors.each():
            group = kind.group.cpu()
            if not kind.plain:
                parts[kind.name] = groups[kind.name][rows, group[one]] - groups[kind.name][rows, group[two]]
            if posterior.evidence is not None:
                change = all_groups[kind.name] - groups[kind.name]
                parts[f"evidence: {kind.name}"] = change[rows, group[one]] - change[rows, group[two]]
        if posterior.evidence is not None:
            fine_evidence = posterior.evidence.double().cpu()
            parts["evidence: fine"] = fine_evidence[rows, one] - fine_evidence[rows, two]
    return [_explanation(tensors, parts, sample, first[sample], second[sample]) for sample in range(len(first))]


@lru_cache(maxsize=4)  # of some megabytes each; a server explains thousands of answers of one graph
def _links(graph: LabelGraph, kinds: tuple[str, ...]) -> tuple[list[Links], Tensor | None]:
    """The edges of kinds, and what makes splitting by them quick."""
    links = [links_of(graph, kind) for kind in kinds]
    return links, factor_of(links, len(graph))


def links_of(graph: LabelGraph, kind: str) -> Links:
    """The edges of a kind as tensors in float64."""
    fine, coarse, weight = (torch.from_numpy(array) for array in graph.edges(kind))
    return Links(fine, coarse, weight, len(graph.labels(kind)))


def _group_columns(posterior: Posterior, evidence: bool) -> dict[str, Tensor]:
    """Per kind, the scores of its groups (batch, groups) in float64, with or without evidence."""
    batch = len(posterior.fine_scores)
    scores = torch.zeros(batch, posterior.tensors.coarse_count, dtype=torch.float64)
    if posterior.coarse_scores is not None:
        scores = posterior.coarse_scores.detach().double().cpu()
    if evidence and posterior.evidence is not None:
        scores = scores + posterior.evidence[:, len(posterior.graph) :].double().cpu()
    columns = {}
    for kind in posterior.tensors.each():
        own = scores[:, kind.columns]
        columns[kind.name] = own if kind.plain else kind.cpu_copy().group_scores(own)
    return columns


def _finite(scores: Tensor) -> Tensor:
    """Scores in which fine labels that were ruled out stand at the lowest finite score, so that they can be split."""
    lowest = scores.masked_fill(scores.isneginf(), torch.inf).amin(dim=1, keepdim=True)
    return torch.where(scores.isneginf(), lowest, scores)


def _refuse_impossible(posterior: Posterior, rows: Tensor, one: Tensor, two: Tensor) -> None:
    """Raise where a fine label to explain has probability 0, by its score or by evidence."""
    log_probs = posterior.log_probs().cpu()
    for index in (one, two):
        bad = log_probs[rows, index].isneginf().nonzero()
        if len(bad):
            sample = int(bad[0])
            raise InputError(
                f"sample {sample}: the fine label {posterior.graph.fine[int(index[sample])]!r} has probability 0, "
                "so there are no log odds to explain; choose fine labels that are possible"
            )


def _explanation(tensors: GraphTensors, parts: dict[str, Tensor], sample: int, first: int, second: int) -> Explanation:
    """The explanation of one sample from the parts of all."""
    graph = tensors.graph
    listed = []
    for source, values in parts.items():
        value = float(values[sample])
        kind = source.removeprefix("evidence: ")
        if source.startswith("evidence: ") and value == 0.0:
            continue
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
