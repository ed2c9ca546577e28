"""The findings of `finegraph graph check` in the live state of a store, and where they occur.

The check reports lines and columns of a file; here a line stands for a class and a column for a kind. Cost: that of the
check, linear in the cells up to a sort.
"""

from __future__ import annotations

import re

import numpy as np

from finegraph.errors import Fault
from finegraph.graph import LabelGraph
from finegraph.graph.kind import BINARY_LABELS
from finegraph.graph.kind_columns import GROUP_SEPARATOR
from finegraph.graph.lint import indistinct_groups, lint
from finegraph.labelling.store.catalogue import Catalogue
from finegraph.labelling.store.records import LiveFinding

_CLASSES = {"fine label": "class", "fine labels": "classes"}
_QUOTED_OR_FINE = re.compile(r"""('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")|\bfine labels?\b""")
_FIRST_CLASS_LINE = 3
"""The line of the first class: after a header and a row of labels."""


def find(graph: LabelGraph, catalogue: Catalogue) -> tuple[LiveFinding, ...]:
    """All findings in the graph of a store."""
    lines = range(_FIRST_CLASS_LINE, _FIRST_CLASS_LINE + len(graph))
    return tuple(_located(graph, catalogue, fault) for fault in lint(graph, lines))


def _located(graph: LabelGraph, catalogue: Catalogue, fault: Fault) -> LiveFinding:
    kind, label = _kind_and_label(catalogue, fault)
    return LiveFinding(
        rule=fault.rule,
        severity=fault.severity,
        message=in_classes(fault.message),
        hint=None if fault.hint is None else in_classes(fault.hint),
        kind=kind,
        fine=_classes(graph, fault, kind, label),
        label=label,
    )


def in_classes(text: str) -> str:
    """A message of the graph check in the words of the page, where fine labels are classes; quoted names stay."""
    return _QUOTED_OR_FINE.sub(lambda match: match[1] or _CLASSES[match[0]], text)


def _kind_and_label(catalogue: Catalogue, fault: Fault) -> tuple[str | None, str | None]:
    """The kind of the store, and its label, that a finding is about."""
    column = fault.column
    if column is None or column == "fine":
        return None, None
    group, _, member = column.partition(GROUP_SEPARATOR)
    if column not in catalogue.by_name and group in catalogue.by_name:
        return group, member
    kind = catalogue.by_name.get(column)
    return column, fault.value if kind is not None and fault.value in kind.ids else None


def _classes(graph: LabelGraph, fault: Fault, kind: str | None, label: str | None) -> tuple[str, ...]:
    """The classes that a finding concerns; indistinct classes come group by group."""
    if fault.rule == "not-told-apart":
        return tuple(graph.fine[index] for group in indistinct_groups(graph) for index in group)
    if kind is not None and (fault.rule == "mostly-unknown" or label is not None):
        return tuple(graph.fine[index] for index in _cells(graph, fault, kind, label))
    if fault.line is not None and fault.line >= _FIRST_CLASS_LINE:
        return (graph.fine[fault.line - _FIRST_CLASS_LINE],)
    return ()


def _cells(graph: LabelGraph, fault: Fault, kind: str, label: str | None) -> list[int]:
    """The classes whose cell is unknown, or names a label."""
    if kind in graph.numbers:
        return [int(index) for index in np.flatnonzero(~graph.number(kind).known)]
    name = kind if kind in graph.kinds else kind + GROUP_SEPARATOR + (label or "")
    if name not in graph.kinds:
        return []
    entry = graph.kind(name)
    if fault.rule == "mostly-unknown":
        return [int(index) for index in np.flatnonzero(entry.unknown)]
    number = entry.labels.index(label) if label in entry.labels else BINARY_LABELS.index("yes")
    rows = entry.edges[0][entry.coarse == number]
    return [int(index) for index in rows]
