"""Graph files of either format, CSV or JSON by the ending of the name.

Nothing is silently repaired: a file is read exactly or refused with all its faults. A written file reads back as an
equal graph, and appears whole or not at all.
"""

from __future__ import annotations

import os

from finegraph.graph.faults import FaultList, one_fault
from finegraph.graph.formats.csv_reader import read_csv
from finegraph.graph.formats.csv_writer import format_csv
from finegraph.graph.formats.json_reader import read_json
from finegraph.graph.formats.json_writer import canonical_json
from finegraph.graph.formats.text_file import decode, read_bytes, write_text
from finegraph.graph.graph_like import FileContent, GraphLike


def read_graph_file(path: str) -> tuple[FileContent, list[int] | None]:
    """The parts of the graph in a file, and for CSV the line of each fine label.

    Raises:
        GraphFileError: with all faults of the file.
    """
    is_csv = _is_csv(path)
    faults = FaultList()
    text = decode(read_bytes(path), faults)
    if text is None:
        faults.raise_if_any(path)
        raise AssertionError("text that cannot be decoded is a fault")
    return read_csv(text, path, faults) if is_csv else (read_json(text, path, faults), None)


def write_graph_file(graph: GraphLike, path: str) -> None:
    """Write a graph to a file, in one step; after a failure the old file is unchanged.

    Raises:
        GraphFileError: the file cannot be written.
        GraphError: the graph holds something that CSV cannot represent.
    """
    write_text(path, format_csv(graph, safe=True) if _is_csv(path) else canonical_json(graph) + "\n")


def _is_csv(path: str) -> bool:
    """Whether the name ends in .csv rather than .json; any other ending is refused."""
    ending = os.path.splitext(path)[1].lower()
    if ending not in (".csv", ".json"):
        got = f"the ending {ending!r}" if ending else "no ending"
        raise one_fault(path, "unknown-ending", f"a graph file ends in .csv or .json, got {got}", "rename it")
    return ending == ".csv"
