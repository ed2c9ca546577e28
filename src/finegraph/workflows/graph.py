"""Checking and showing label graphs from any source.

Each verb is a plain function from a place to a dataclass; nothing is printed here. Linear in the size of the file.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from finegraph.errors import DataFileError, Fault, GraphFileError, InputError
from finegraph.graph import LabelGraph
from finegraph.graph.describe import GraphSummary, describe
from finegraph.graph.drawing.svg_drawing import draw_svg
from finegraph.graph.formats.text_file import write_text
from finegraph.graph.graph_files import check_graph_file
from finegraph.graph.kind_worth import KindWorth
from finegraph.graph.lint import lint
from finegraph.workflows.labels.graph_sources import is_graph_file, read_graph_of, shown_source, worth_of

NO_FILE = frozenset({"missing-file", "not-a-file", "unreadable-file", "unknown-ending"})
"""Rules for graphs with nothing to check."""


@dataclass(frozen=True, kw_only=True)
class GraphCheck:
    """What a check of a graph found.

    Attributes:
        file: the place, as it was given, without a password.
        fine: the number of fine labels; None if errors keep the graph from being read.
        kinds: the number of kinds; None likewise.
        findings: all errors and warnings, in the order of the file; if there are errors, only warnings about names.
        worth: what each kind is worth to a model whose head was fitted in closed form; None for all other places.
        numbers: how many kinds of numbers there are.
    """

    file: str
    fine: int | None
    kinds: int | None
    findings: tuple[Fault, ...]
    worth: KindWorth | None = None
    numbers: int = 0

    @property
    def errors(self) -> int:
        """The number of errors."""
        return sum(fault.severity == "error" for fault in self.findings)

    @property
    def warnings(self) -> int:
        """The number of warnings."""
        return len(self.findings) - self.errors


@dataclass(frozen=True, kw_only=True)
class GraphView:
    """The summary of a graph, and its picture.

    Attributes:
        file: the place, as it was given, without a password.
        summary: the numbers of the graph.
        picture: the path of the picture that was drawn, if one was asked for.
    """

    file: str
    summary: GraphSummary
    picture: str | None


def check_graph(path: str | os.PathLike[str]) -> GraphCheck:
    """Check a graph.

    Args:
        path: whatever has a graph; see `read_stored`.

    Raises:
        GraphFileError: there is no file to check. Faults of files are not raised but returned.
        FinegraphError: a store or a model that cannot be opened.
    """
    file = os.fspath(path)
    if not is_graph_file(file):
        return _check_place(file)
    findings = check_graph_file(file)
    if missing := [fault for fault in findings if fault.rule in NO_FILE]:
        raise GraphFileError(missing[0].text(file), missing)
    if any(fault.severity == "error" for fault in findings):
        return GraphCheck(file=file, fine=None, kinds=None, findings=tuple(findings))
    graph = LabelGraph.read(file)
    return _checked(file, graph, findings)


def _check_place(place: str) -> GraphCheck:
    """Check a graph that is in no graph file; its findings have no lines."""
    shown = shown_source(place)
    try:
        graph = read_graph_of(place)
    except (GraphFileError, DataFileError) as error:
        if not error.faults:
            raise
        return GraphCheck(file=shown, fine=None, kinds=None, findings=tuple(error.faults))
    worth = worth_of(place)
    return _checked(shown, graph, lint(graph), worth)


def _checked(file: str, graph: LabelGraph, findings: Sequence[Fault], worth: KindWorth | None = None) -> GraphCheck:
    """The result for a graph that could be read."""
    return GraphCheck(
        file=file,
        fine=len(graph),
        kinds=len(graph.kinds),
        numbers=len(graph.numbers),
        findings=tuple(findings),
        worth=worth,
    )


def show_graph(
    path: str | os.PathLike[str], kinds: Sequence[str] | None = None, svg: str | os.PathLike[str] | None = None
) -> GraphView:
    """Read a graph, count what is in it and draw it if asked to.

    Args:
        path: whatever has a graph; see `read_stored`.
        kinds: the kinds or groups to show; by default all.
        svg: where to write a drawing of the graph. A file of that name is replaced.

    Raises:
        GraphFileError: the graph file has faults, or the picture cannot be written.
        UnknownNameError: a kind that the graph does not have.
        InputError: the picture would replace the graph file itself.
    """
    place, file = os.fspath(path), shown_source(os.fspath(path))
    graph = read_graph_of(place)
    summary = describe(graph, kinds)
    if svg is None:
        return GraphView(file=file, summary=summary, picture=None)
    target = os.fspath(svg)
    if os.path.exists(target) and os.path.exists(place) and os.path.samefile(place, target):
        raise InputError(f"{target}: the picture would replace the graph file itself; give it another name")
    write_text(target, draw_svg(graph, kinds, title=os.path.basename(file)))
    return GraphView(file=file, summary=summary, picture=target)
