"""Reading, writing and checking graph files: CSV or JSON by the ending of the name.

Nothing is silently repaired: a file is read exactly or refused with all its faults. A written file reads back as an
equal graph, and appears whole or not at all.
"""

from __future__ import annotations

import os

from finegraph.errors import GraphFileError
from finegraph.graph.csv_file import parse_csv
from finegraph.graph.csv_writer import format_csv
from finegraph.graph.faults import Fault, FaultList, one_fault
from finegraph.graph.json_file import canonical_json
from finegraph.graph.json_reader import parse_json
from finegraph.graph.label_graph import LabelGraph
from finegraph.graph.lint import lint
from finegraph.graph.text_file import decode, read_bytes, write_text


def read_graph(path: str | os.PathLike[str]) -> LabelGraph:
    """The graph in a file.

    Raises:
        GraphFileError: with all faults of the file.
    """
    return _read(os.fspath(path))[0]


def write_graph(graph: LabelGraph, path: str | os.PathLike[str]) -> None:
    """Write the graph to a file, in one step; after a failure an old file is as it was.

    Raises:
        GraphFileError: the file cannot be written.
        GraphError: the graph holds something that CSV cannot.
    """
    name = os.fspath(path)
    text = format_csv(graph) if _is_csv(name) else canonical_json(graph) + "\n"
    write_text(name, text)


def check_graph_file(path: str | os.PathLike[str]) -> list[Fault]:
    """What is wrong with a graph file: all errors or, where there are none, what is legal but doubtful."""
    try:
        graph, lines = _read(os.fspath(path))
    except GraphFileError as error:
        return list(error.faults)
    return lint(graph, lines)


def _read(path: str) -> tuple[LabelGraph, list[int] | None]:
    """The graph in a file, and for CSV the line of each fine label."""
    is_csv = _is_csv(path)
    faults = FaultList()
    text = decode(read_bytes(path), faults)
    if text is None:
        faults.raise_if_any(path)
        raise AssertionError("text that cannot be decoded is a fault")
    return parse_csv(text, path, faults) if is_csv else (parse_json(text, path, faults), None)


def _is_csv(path: str) -> bool:
    """Whether the name ends in .csv rather than .json; any other ending is refused."""
    ending = os.path.splitext(path)[1].lower()
    if ending not in (".csv", ".json"):
        got = f"the ending {ending!r}" if ending else "no ending"
        raise one_fault(path, "unknown-ending", f"a graph file ends in .csv or .json, got {got}", "rename it")
    return ending == ".csv"
