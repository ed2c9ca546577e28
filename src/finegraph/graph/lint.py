"""Warnings about legal but doubtful parts of a graph: probable mistakes, and parts without use.

Each rule is a function that yields warnings; `RULES` lists them all. Every rule is linear in the edges, up to a sort.

Some rules compare how kinds divide the fine labels. A kind puts fine labels with the same parents into one class;
classes are numbered, and the numbers of several kinds are combined pair by pair.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np

from finegraph.errors import Fault
from finegraph.graph.faults import first_few, shorten
from finegraph.graph.kind import BINARY_LABELS, IntArray, Kind
from finegraph.graph.kind_columns import GROUP_SEPARATOR
from finegraph.graph.label_graph import LabelGraph
from finegraph.graph.lint_numbers import Doubt, idle_numbers, looks_numeric, looks_typed
from finegraph.graph.names import fold
from finegraph.graph.spelling import misspelt

Lines = Sequence[int] | None
_HEADER, _LABELS_ROW = 1, 2
_YES = BINARY_LABELS.index("yes")
_BOOLEAN_WORDS = (
    frozenset({"yes", "no"}),
    frozenset({"y", "n"}),
    frozenset({"true", "false"}),
    frozenset({"t", "f"}),
    frozenset({"1", "0"}),
)


def lint(graph: LabelGraph, lines: Lines = None) -> list[Fault]:
    """The doubtful places of a graph, as warnings.

    Args:
        graph: the graph to look at.
        lines: the line of each fine label in a CSV file, so that warnings can say where.
    """
    return [fault for rule in RULES.values() for fault in rule(graph, lines)]


def _warn(
    rule: str,
    message: str,
    hint: str,
    *,
    line: int | None = None,
    column: str | None = None,
    value: str | None = None,
) -> Fault:
    short = None if value is None else shorten(value)
    return Fault(rule=rule, message=message, line=line, column=column, value=short, hint=hint, severity="warning")


def _kinds(graph: LabelGraph) -> list[Kind]:
    return [graph.kind(name) for name in graph.kinds]


def _uses(kind: Kind) -> IntArray:
    """How many fine labels link to each label of a kind."""
    return np.bincount(kind.coarse, minlength=len(kind.labels)).astype(np.int64)


def _fine_line(lines: Lines, fine: int) -> int | None:
    return lines[fine] if lines else None


def _first_use(kind: Kind, label: int, lines: Lines) -> int | None:
    """The line of the first fine label that links to a label."""
    return _fine_line(lines, int(kind.edges[0][np.flatnonzero(kind.coarse == label)[0]])) if lines else None


# ---- uninformative kinds ---------------------------------------------------------------------------------------------


def _no_kinds(graph: LabelGraph, lines: Lines) -> Iterator[Fault]:
    """A graph without kinds is a plain list of labels."""
    if not graph.kinds and not graph.numbers:
        hint = "add a column for each kind of coarse label"
        yield _warn(
            "no-kinds", "there is no kind, so the labels do not form a graph", hint, line=_HEADER if lines else None
        )


def _one_label(graph: LabelGraph, lines: Lines) -> Iterator[Fault]:
    """A kind in which all known fine labels have the same label."""
    for kind in _kinds(graph):
        used = np.flatnonzero(_uses(kind))
        if len(used) == 1:
            label = kind.labels[used[0]]
            message = f"every known fine label has {shorten(label)!r}, so the kind tells nothing apart"
            line = _HEADER if lines else None
            yield _warn("one-label", message, "leave the kind out", line=line, column=kind.name, value=label)


def _unused_label(graph: LabelGraph, lines: Lines) -> Iterator[Fault]:
    """Labels of a kind that no fine label links to."""
    for kind in _kinds(graph):
        uses = _uses(kind)
        unused = [kind.labels[index] for index in np.flatnonzero(uses == 0)]
        if unused and np.count_nonzero(uses) > 1:
            what, them = (f"any of {len(unused)} labels", "them") if len(unused) > 1 else ("this label", "it")
            message = f"no fine label has {what} of the kind: {first_few(unused, len(unused))}"
            line = _LABELS_ROW if lines else None
            # The labels of an ordered kind are steps of a scale, so one may be unused.
            if not kind.ordered:
                yield _warn("unused-label", message, f"remove {them}", line=line, column=kind.name, value=unused[0])


def _mostly_unknown(graph: LabelGraph, lines: Lines) -> Iterator[Fault]:
    """A kind that is unknown for more than half of the fine labels."""
    for kind in _kinds(graph):
        share = float(kind.unknown.mean())
        if share > 0.5:
            message = f"unknown for {share:.0%} of the fine labels"
            hint = "fill in cells, or leave the kind out; where it does not apply, use a label that says so"
            yield _warn("mostly-unknown", message, hint, line=_HEADER if lines else None, column=kind.name)


def _same_as_fine(graph: LabelGraph, lines: Lines) -> Iterator[Fault]:
    """A kind in which every fine label has a label of its own."""
    for kind in _kinds(graph):
        if len(graph) > 1 and (kind.row_sizes == 1).all() and len(np.unique(kind.coarse)) == len(graph):
            message = "every fine label has a label of its own, so the kind says the same as the fine labels"
            line = _HEADER if lines else None
            yield _warn("same-as-fine", message, "leave the kind out, or group labels", line=line, column=kind.name)


def _same_kinds(graph: LabelGraph, lines: Lines) -> Iterator[Fault]:
    """Two kinds that divide the fine labels in the same way, whatever their labels are called."""
    first: dict[object, str] = {}
    for kind in _kinds(graph):
        if np.count_nonzero(_uses(kind)) < 2:
            continue
        other = first.setdefault(partition_key(kind), kind.name)
        if other != kind.name:
            message = f"divides the fine labels exactly as the kind {shorten(other)!r} does"
            line = _HEADER if lines else None
            yield _warn("same-kinds", message, "leave one of them out", line=line, column=kind.name, value=other)


def _indistinct(graph: LabelGraph, lines: Lines) -> Iterator[Fault]:
    """Fine labels that have the same labels in every kind."""
    groups = indistinct_groups(graph) if graph.kinds or graph.numbers else []
    if groups:
        names = [graph.fine[index] for index in groups[0]]
        count = sum(len(group) for group in groups)
        message = (
            f"{count} fine labels in {len(groups)} group{'s' if len(groups) > 1 else ''} are told apart by no kind; "
            f"the first group is {first_few(names, len(names))}"
        )
        hint = "check that they are different things, or add a kind that tells them apart"
        line = _fine_line(lines, groups[0][0])
        yield _warn("not-told-apart", message, hint, line=line, column="fine", value=names[0])


# ---- cells that may mean something else ------------------------------------------------------------------------------


def _looks_all_of(graph: LabelGraph, lines: Lines) -> Iterator[Fault]:
    """A kind of `|` cells that look as if ` & ` was meant.

    "One of" is rare and its choices are fixed ("plate or bowl"); things that hold together come in ever new
    combinations. So the rule is: all cells with several labels have equal weights, there are at least 3 of them and at
    least 1 in 5 known cells, they hold at least 3 different combinations, and at least half of their labels occur in
    two or more of these.
    """
    for kind in _kinds(graph):
        several = np.flatnonzero(kind.row_sizes > 1)
        if len(several) < 3 or len(several) * 5 < np.count_nonzero(kind.row_sizes):
            continue
        expected = 1.0 / np.repeat(kind.row_sizes, kind.row_sizes)
        if not np.allclose(kind.weight, expected, rtol=1e-9, atol=0):
            continue
        starts, coarse = kind.starts.tolist(), kind.coarse.tolist()
        combinations = {tuple(coarse[starts[row] : starts[row + 1]]) for row in several.tolist()}
        times = np.bincount([label for labels in combinations for label in labels])
        if len(combinations) >= 3 and np.count_nonzero(times > 1) * 2 >= np.count_nonzero(times):
            text = "|".join(kind.labels[label] for label in coarse[starts[several[0]] : starts[several[0] + 1]])
            message = f"{len(several)} cells list several labels in {len(combinations)} combinations as one of them (|)"
            line = _fine_line(lines, int(several[0]))
            hint = "if all of them hold together, write ' & '"
            yield _warn("looks-all-of", message, hint, line=line, column=kind.name, value=text)


def _looks_binary(graph: LabelGraph, lines: Lines) -> Iterator[Fault]:
    """A kind whose labels are yes and no in another spelling."""
    for kind in _kinds(graph):
        if not kind.binary and len(kind.labels) == 2 and {fold(label) for label in kind.labels} in _BOOLEAN_WORDS:
            message = f"the labels {first_few(kind.labels, 2)} look like yes and no but do not make a binary kind"
            line = _HEADER if lines else None
            yield _warn("looks-binary", message, "write exactly yes and no", line=line, column=kind.name)


# ---- names -----------------------------------------------------------------------------------------------------------


def _not_nfc(graph: LabelGraph, lines: Lines) -> Iterator[Fault]:
    """Names in a Unicode form that other programs write differently."""
    hint = "save them in the composed form (NFC), which keyboards and most programs produce"

    def odd(names: Sequence[str]) -> list[int]:
        return [index for index, name in enumerate(names) if not unicodedata.is_normalized("NFC", name)]

    def warn(what: str, names: Sequence[str], found: Sequence[int], line: int | None, column: str) -> Fault:
        shown = first_few((names[index] for index in found), len(found))
        return _warn("not-nfc", f"{what} not in NFC: {shown}", hint, line=line, column=column, value=names[found[0]])

    if found := odd(graph.fine):
        yield warn("fine labels", graph.fine, found, _fine_line(lines, found[0]), "fine")
    names = (*graph.kinds, *graph.numbers)
    if found := odd(names):
        yield warn("names of kinds", names, found, _HEADER if lines else None, names[found[0]])
    for kind in _kinds(graph):
        if found := odd(kind.labels):
            used = np.isin(found, kind.coarse)
            line = (
                _first_use(kind, found[int(np.argmax(used))], lines) if used.any() else _LABELS_ROW if lines else None
            )
            yield warn("labels", kind.labels, found, line, kind.name)


def _misspelt_label(graph: LabelGraph, lines: Lines) -> Iterator[Fault]:
    """A label, or a fine label, that is spelt nearly like another; see `spelling`."""
    for one, other in misspelt(graph.fine, np.ones(len(graph), dtype=np.int64)):
        meant = repr(shorten(graph.fine[other]))
        hint = f"did you mean {meant}? if both are meant, leave them"
        line_of = _fine_line(lines, one)
        yield _warn("misspelt-label", f"looks like {meant}", hint, line=line_of, column="fine", value=graph.fine[one])
    for column, names, counts, line in _label_sets(graph, lines):
        for one, other in misspelt(names, counts):
            meant = repr(shorten(names[other]))
            message = f"occurs {_times(counts[one])} and looks like {meant}, which occurs {_times(counts[other])}"
            hint = f"did you mean {meant}?"
            yield _warn("misspelt-label", message, hint, line=line(one), column=column, value=names[one])


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number:,} times"


def _alike(graph: LabelGraph, lines: Lines) -> Iterator[Fault]:
    """Labels of one kind, or fine labels, that differ only in case, white space or invisible characters."""
    message = "differs from {!r} only in case, white space or invisible signs"
    for one, other in _alike_pairs(graph.fine):
        line, text = _fine_line(lines, one), message.format(shorten(graph.fine[other]))
        yield _warn("alike-names", text, "check that both are meant", line=line, column="fine", value=graph.fine[one])
    for column, names, _, line_of in _label_sets(graph, lines):
        for one, other in _alike_pairs(names):
            text = message.format(shorten(names[other]))
            yield _warn("alike-names", text, "use one spelling", line=line_of(one), column=column, value=names[one])


def _alike_pairs(names: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Pairs (later, first) of names that are easily taken for each other."""
    first: dict[str, int] = {}
    for index, name in enumerate(names):
        if not name.isascii():
            name = "".join(sign for sign in unicodedata.normalize("NFKC", name) if unicodedata.category(sign) != "Cf")
        other = first.setdefault(fold(name), index)
        if other != index:
            yield index, other


def _label_sets(
    graph: LabelGraph, lines: Lines
) -> Iterator[tuple[str, Sequence[str], IntArray, Callable[[int], int | None]]]:
    """Labels that belong together: of each kind, and of each group of binary kinds (`ingredient: tofu`, ...).

    Yields:
        The name of the column, the labels, how often each occurs, and a function from a label to its first line.
    """
    groups: dict[str, list[Kind]] = {}
    for kind in _kinds(graph):
        if not kind.binary:
            yield kind.name, kind.labels, _uses(kind), partial(_label_line, kind, lines)
        elif GROUP_SEPARATOR in kind.name:
            groups.setdefault(kind.name.partition(GROUP_SEPARATOR)[0], []).append(kind)
    for name, members in groups.items():
        labels = [kind.name.partition(GROUP_SEPARATOR)[2] for kind in members]
        counts = np.array([_uses(kind)[_YES] for kind in members], dtype=np.int64)
        yield name, labels, counts, partial(_member_line, members, lines)


def _label_line(kind: Kind, lines: Lines, label: int) -> int | None:
    """The line of the first use of a label, or of its declaration if it is unused."""
    if not lines:
        return None
    return _first_use(kind, label, lines) if _uses(kind)[label] else _LABELS_ROW


def _member_line(members: Sequence[Kind], lines: Lines, member: int) -> int | None:
    """The same for a label that is a binary kind of a group."""
    return _label_line(members[member], lines, _YES)


def _in_header(rule: Callable[[LabelGraph], Iterator[Doubt]]) -> Callable[[LabelGraph, Lines], Iterator[Fault]]:
    """Make a rule about whole columns; its warnings point at the header."""

    def found(graph: LabelGraph, lines: Lines) -> Iterator[Fault]:
        for name, message, hint, column in rule(graph):
            yield _warn(name, message, hint, line=_HEADER if lines else None, column=column)

    return found


RULES: dict[str, Callable[[LabelGraph, Lines], Iterator[Fault]]] = {
    "no-kinds": _no_kinds,
    "one-label": _one_label,
    "unused-label": _unused_label,
    "mostly-unknown": _mostly_unknown,
    "same-as-fine": _same_as_fine,
    "same-kinds": _same_kinds,
    "not-told-apart": _indistinct,
    "looks-all-of": _looks_all_of,
    "looks-binary": _looks_binary,
    "looks-numeric": _in_header(looks_numeric),
    "looks-typed": _in_header(looks_typed),
    "one-value": _in_header(idle_numbers),
    "not-nfc": _not_nfc,
    "misspelt-label": _misspelt_label,
    "alike-names": _alike,
}
"""The name of each rule and the function that checks it."""


def partition_key(kind: Kind) -> object:
    """A key that two kinds share if they differ only in the names and the order of their labels."""
    if kind.one_parent:
        _, first, classes = np.unique(kind.parents, return_index=True, return_inverse=True)
        rank = np.empty(len(first), dtype=np.int64)
        rank[np.argsort(first)] = np.arange(len(first))  # classes in order of appearance, whatever their labels
        return hashlib.sha256(rank[classes].tobytes() + kind.unknown.tobytes()).digest()
    fine, coarse, weight = kind.edges
    order = np.lexsort((fine, coarse))
    ends = np.flatnonzero(np.diff(coarse[order])) + 1
    children = zip(np.split(fine[order], ends), np.split(weight[order], ends), strict=True)
    return tuple(sorted(hashlib.sha256(rows.tobytes() + parts.tobytes()).digest() for rows, parts in children))


def indistinct_groups(graph: LabelGraph) -> list[list[int]]:
    """Fine labels that are equal in every kind and number, in groups of two or more, in order of appearance."""
    classes = np.zeros(len(graph), dtype=np.int64)
    for rows in (
        *(_row_classes(graph.kind(name)) for name in graph.kinds),
        *(np.unique(graph.values(name), return_inverse=True)[1] for name in graph.numbers),
    ):
        classes = np.unique(classes * (int(rows.max()) + 1) + rows, return_inverse=True)[1]
        if classes.max() + 1 == len(graph):
            return []
    order = np.argsort(classes, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(classes[order])) + 1)
    return sorted([int(index) for index in group] for group in groups if len(group) > 1)


def _row_classes(kind: Kind) -> IntArray:
    """A number from 0 on for each fine label, the same for the same parents and weights; 0 is unknown."""
    classes = np.zeros(kind.fine_count, dtype=np.int64)
    sizes = kind.row_sizes
    classes[sizes == 1] = kind.coarse[kind.starts[:-1][sizes == 1]] + 1
    seen: dict[tuple[bytes, bytes], int] = {}
    for row in np.flatnonzero(sizes > 1).tolist():
        part = slice(kind.starts[row], kind.starts[row + 1])
        key = (kind.coarse[part].tobytes(), kind.weight[part].tobytes())
        classes[row] = seen.setdefault(key, len(kind.labels) + 1 + len(seen))
    return classes
