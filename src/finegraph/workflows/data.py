"""Checking a source of photos.

Each verb is a plain function from names to a dataclass; nothing is printed here.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from finegraph.data.check import DataCheck, check_samples
from finegraph.data.findings import write_findings
from finegraph.data.sources import read_samples
from finegraph.workflows.stored_labels import read_graph_of


def check_data(
    source: str,
    graph: str | os.PathLike[str] | None = None,
    *,
    table: str | os.PathLike[str] | None = None,
    workers: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> DataCheck:
    """Open every photo of a source and report what is wrong with the photos and their labels.

    Args:
        source: a folder, a manifest, or `LAYOUT:PATH`; see `finegraph.data.read_samples`.
        graph: a graph file or a store of label decisions to compare the labels with.
        table: where to write all findings as CSV. Only an earlier table of that kind is replaced.
        workers: how many threads decode.
        progress: is told how many of how many photos are done.

    Raises:
        DataError: the source cannot be read. Bad photos are not raised but returned.
        GraphFileError: the graph file has faults, or the table cannot be written.
        InputError: the table would replace another file.
    """
    labels = None if graph is None else read_graph_of(graph)
    result = check_samples(read_samples(source), labels, progress=progress, workers=workers)
    if table is not None:
        write_findings(table, result.findings)
    return result
