"""The exact posterior as ONNX operations: scores and evidence in, log probabilities out.

The same sums as in `finegraph.inference`, for all kinds at once; see docs/idea.md for the formulas and
`inference/sums/groups.py` for what groups and mixed rows are:

    scores of labels + log evidence  ->  scores of mixed rows  ->  s_i = f_i + sum_j e^j[group_j(i)]     in float64
    log p_i = s_i - logsumexp(s)     ->  log p of groups       ->  log p of coarse labels                in float32

There are gathers, sums and log-sum-exps alone: nothing is clamped, and minus infinity stays what it is. Size and cost
are linear in the links of the graph. Evidence that no fine label agrees with, and likelihoods that are negative,
infinite or NaN, make every log probability of their sample minus infinity and `possible` false; nothing becomes NaN.
Inside, labels are rows and samples are columns; see `node_writer.py`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from finegraph.graph import LabelGraph
from finegraph.inference.sums.graph_tensors import graph_tensors
from finegraph.model.export.export_names import KIND_LOG_PROBS, LOG_PROBS, POSSIBLE
from finegraph.model.export.node_writer import NodeWriter, floored, list_log_sum_exp, list_tables, log_sum_exp
from finegraph.model.export.number_nodes import NumberInputs, NumberScores, add_terms, add_values, scored_numbers

_WIDE, _NARROW = np.float64, np.float32


class EvidenceNodes(NamedTuple):
    """Evidence on some labels: log likelihoods (label, _) in float64, and (1, _) minus infinity for unusable ones."""

    log: str
    penalty: str


def add_posterior(
    to: NodeWriter,
    graph: LabelGraph,
    fine_scores: str,
    coarse_scores: str | None,
    fine_evidence: str,
    evidence: str | None,
    number_scores: NumberScores | None = None,
    number_inputs: NumberInputs | None = None,
) -> None:
    """Write the posterior; its outputs have the names of `export_names.py`.

    Args:
        to: what is written to.
        graph: the label graph.
        fine_scores: (batch, fine) the fine scores.
        coarse_scores: (batch, coarse) the coarse scores; None for a softmax head, which has none.
        fine_evidence: (batch or 1, fine) likelihoods of the fine labels.
        evidence: (batch or 1, coarse) likelihoods of the coarse labels; None if there are no kinds.
        number_scores: those of the numbers; None for a softmax head, or if there are none.
        number_inputs: the evidence on the numbers; None if none can be given.
    """
    table = graph_tensors(graph).numbers
    numbers = scored_numbers(to, table, number_scores, number_inputs)
    given = _read_evidence(to, fine_evidence)
    joint = to.node("Add", to.node("Add", to.cast(to.turn(fine_scores), _WIDE), given.log), given.penalty)
    joint = add_terms(to, table, numbers, joint)
    log_probs = _finish(to, joint) if evidence is None else _with_kinds(to, graph, joint, coarse_scores, evidence)
    if numbers:
        add_values(to, table, numbers, log_probs)


def _with_kinds(to: NodeWriter, graph: LabelGraph, joint: str, coarse_scores: str | None, evidence: str) -> str:
    """The log probabilities of the fine labels and of the labels of all kinds; the name of the former."""
    kinds_given = _read_evidence(to, evidence)
    joint = to.node("Add", joint, kinds_given.penalty)
    coarse = kinds_given.log
    if coarse_scores is not None:
        coarse = to.node("Add", to.cast(to.turn(coarse_scores), _WIDE), coarse)
    joint, mixing = _with_coarse(to, graph, joint, coarse)
    log_probs = _finish(to, joint)
    _kinds(to, graph, log_probs, mixing)
    return log_probs


def _with_coarse(to: NodeWriter, graph: LabelGraph, joint: str, coarse: str) -> tuple[str, str | None]:
    """Joint scores with what coarse scores (coarse, batch) add, and log r of mixed rows if there are any."""
    layout = graph_tensors(graph).by_groups.layout
    groups, mixing = coarse, None
    if len(layout.edge_row):
        groups, mixing = _mixed_rows(to, graph, coarse)
    for group in layout.group_columns:
        joint = to.node("Add", joint, to.gather(groups, group.numpy()))
    return joint, mixing


def doubt_factor(
    to: NodeWriter,
    graph: LabelGraph,
    fine_scores: str,
    coarse_scores: str | None,
    number_scores: NumberScores | None,
    doubt: float,
) -> str:
    """(batch, 1) what a doubt multiplies all scores by, which are those of `add_posterior`; see `Posterior.doubted`."""
    table = graph_tensors(graph).numbers
    joint = to.cast(to.turn(fine_scores), _WIDE)
    joint = add_terms(to, table, scored_numbers(to, table, number_scores), joint)
    if coarse_scores is not None:
        joint, _ = _with_coarse(to, graph, joint, to.cast(to.turn(coarse_scores), _WIDE))
    lead = to.node("Sub", to.reduce("ReduceMax", joint, 0), to.reduce("ReduceMean", joint, 0))
    part = to.node("Add", to.node("Mul", lead, to.number(doubt, _WIDE)), to.number(1.0, _WIDE))
    return to.cast(to.turn(to.node("Reciprocal", to.node("Sqrt", part))), _NARROW)


def _read_evidence(to: NodeWriter, evidence: str) -> EvidenceNodes:
    """Likelihoods as logarithms."""
    evidence = to.turn(evidence)
    low, high = to.number(0.0, _NARROW), to.number(float(np.finfo(_NARROW).max), _NARROW)
    usable = to.node("And", to.node("GreaterOrEqual", evidence, low), to.node("LessOrEqual", evidence, high))
    log = to.node("Log", to.cast(to.node("Where", usable, evidence, low), _WIDE))
    unusable = to.reduce("ReduceMax", to.cast(to.node("Not", usable), _NARROW), 0)
    # log(1 - 0) = 0 and log(1 - 1) = minus infinity, once per sample.
    penalty = to.cast(to.node("Log", to.node("Sub", to.number(1.0, _NARROW), unusable)), _WIDE)
    return EvidenceNodes(log, penalty)


def _mixed_rows(to: NodeWriter, graph: LabelGraph, coarse: str) -> tuple[str, str]:
    """The scores of all groups, and log r: the log probability of each edge of a mixed row given the row."""
    layout = graph_tensors(graph).by_groups.layout
    row = layout.edge_row.numpy() - layout.coarse_count
    weights = to.constant(layout.edge_log_weight.numpy()[:, None], _WIDE)
    edges = to.node("Add", to.gather(coarse, layout.edge_column.numpy()), weights)
    lists = list_tables(np.arange(len(row)), row, layout.group_count - layout.coarse_count, len(row))
    rows = list_log_sum_exp(to, edges, lists, _WIDE)
    mixing = to.node("Sub", edges, to.gather(floored(to, rows, _WIDE), row))
    return to.node("Concat", coarse, rows, axis=0), mixing


def _finish(to: NodeWriter, joint: str) -> str:
    """The log probabilities of the fine labels from their joint scores, and whether the evidence is possible."""
    total = log_sum_exp(to, joint, 0, _WIDE)
    lowest = to.number(float(np.finfo(_WIDE).min), _WIDE)
    to.node("Squeeze", to.node("Greater", total, lowest), to.constant([0], np.int64), output=POSSIBLE)
    log_probs = to.cast(to.node("Sub", joint, floored(to, total, _WIDE)), _NARROW)
    to.turn(log_probs, output=LOG_PROBS)
    return log_probs


def _kinds(to: NodeWriter, graph: LabelGraph, log_probs: str, mixing: str | None) -> None:
    """The log probabilities of the labels of all kinds side by side."""
    layout = graph_tensors(graph).by_groups.layout
    groups = [group.numpy() for group in layout.group_columns]
    fine = np.tile(np.arange(len(graph)), len(groups))
    members = list_tables(fine, np.concatenate(groups), layout.group_count, len(graph))
    of_groups = list_log_sum_exp(to, log_probs, members, _NARROW)
    if mixing is not None:
        row, label = layout.edge_row.numpy(), layout.edge_column.numpy()
        edges = to.node("Add", to.gather(of_groups, row), to.cast(mixing, _NARROW))
        item = np.concatenate([np.arange(layout.coarse_count), layout.group_count + np.arange(len(row))])
        owner = np.concatenate([np.arange(layout.coarse_count), label])
        lists = list_tables(item, owner, layout.coarse_count, layout.group_count + len(row))
        of_groups = list_log_sum_exp(to, to.node("Concat", of_groups, edges, axis=0), lists, _NARROW)
    to.turn(of_groups, output=KIND_LOG_PROBS)
