"""Reading, writing and checking graph files: CSV or JSON by the ending of the name.

Nothing is silently repaired: a file is read exactly or refused with all its faults. A written file reads back as an
equal graph, and appears whole or not at all.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from finegraph.errors import Fault, GraphFileError
from finegraph.graph.faults import FaultList, one_fault
from finegraph.graph.formats.csv_reader import parse_csv
from finegraph.graph.formats.csv_writer import format_csv
from finegraph.graph.formats.json_reader import parse_json
from finegraph.graph.formats.json_writer import canonical_json
from finegraph.graph.formats.text_file import decode, read_bytes, write_text
from finegraph.graph.label_graph import LabelGraph
from finegraph.graph.lint import lint

_NAME_RULES = frozenset({"misspelt-label", "alike-names"})
_MAX_WRONG = 1000
"""With so many lines that have errors, there is enough to do."""


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
    text = format_csv(graph, safe=True) if _is_csv(name) else canonical_json(graph) + "\n"
    write_text(name, text)


def check_graph_file(path: str | os.PathLike[str]) -> list[Fault]:
    """What is wrong with a graph file: all errors, and what is legal but doubtful.

    Where there are errors, only doubtful names are looked for, in the lines without one: what is said of a whole kind
    could change once the errors are mended.
    """
    name = os.fspath(path)
    try:
        graph, lines = _read(name)
    except GraphFileError as error:
        faults = list(error.faults)
        return sorted(faults + _doubtful_names(name, faults), key=lambda fault: fault.line or 0)
    return lint(graph, lines)


def _doubtful_names(path: str, faults: Sequence[Fault]) -> list[Fault]:
    """The warnings about names in the lines of a CSV file that have no error; none where nothing can be read."""
    wrong = {fault.line for fault in faults if fault.line is not None}
    if not path.lower().endswith(".csv") or len(wrong) >= _MAX_WRONG:
        return []
    try:
        text = decode(read_bytes(path), FaultList())
        graph, lines = parse_csv(text or "", path, without=wrong - {1})
    except GraphFileError:
        return []
    return [fault for fault in lint(graph, lines) if fault.rule in _NAME_RULES]


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
