"""Graphs from the text of files, and the faults of a graph file."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence

from finegraph.errors import Fault, GraphFileError
from finegraph.graph.faults import FaultList
from finegraph.graph.formats.by_ending import read_graph_file
from finegraph.graph.formats.csv_reader import read_csv
from finegraph.graph.formats.json_reader import read_json
from finegraph.graph.formats.text_file import decode, read_bytes
from finegraph.graph.label_graph import LabelGraph, graph_of_file
from finegraph.graph.lint import lint

_NAME_RULES = frozenset({"misspelt-label", "alike-names"})
_MAX_FAULTY_LINES = 1000
"""With more faulty lines than this, no warnings are looked for."""


def graph_from_csv(text: str, path: str, without: Collection[int] = ()) -> tuple[LabelGraph, list[int]]:
    """The graph in the text of a CSV file, and the line of each fine label.

    Args:
        text: the content of the file.
        path: the name of the file, for messages.
        without: lines of rows to leave out.

    Raises:
        GraphFileError: with all faults of the text.
    """
    content, lines = read_csv(text, path, without=without)
    return graph_of_file(path, content), lines


def graph_from_json(text: str, path: str = "graph.json") -> LabelGraph:
    """The graph in the text of a JSON file, or in the output of `canonical_json`.

    Args:
        text: the content of the file.
        path: the name of the file, for messages.

    Raises:
        GraphFileError: with all faults of the text.
    """
    return graph_of_file(path, read_json(text, path))


def check_graph_file(path: str | os.PathLike[str]) -> list[Fault]:
    """All errors of a graph file, and warnings about what is legal but doubtful.

    If there are errors, warnings cover only names in lines without one: findings about a whole kind could change once
    the errors are fixed.
    """
    name = os.fspath(path)
    try:
        content, lines = read_graph_file(name)
        return lint(graph_of_file(name, content), lines)
    except GraphFileError as error:
        faults = list(error.faults)
        return sorted(faults + _doubtful_names(name, faults), key=lambda fault: fault.line or 0)


def _doubtful_names(path: str, faults: Sequence[Fault]) -> list[Fault]:
    """Warnings about names in those lines of a CSV file that have no error; none if nothing can be read."""
    wrong = {fault.line for fault in faults if fault.line is not None}
    if not path.lower().endswith(".csv") or len(wrong) >= _MAX_FAULTY_LINES:
        return []
    try:
        text = decode(read_bytes(path), FaultList())
        graph, lines = graph_from_csv(text or "", path, without=wrong - {1})
    except GraphFileError:
        return []
    return [fault for fault in lint(graph, lines) if fault.rule in _NAME_RULES]
