"""Checking a source of photos.

Each verb is a plain function from names to a dataclass; nothing is printed here.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from finegraph.data.checks.photo_check import DataCheck, check_samples
from finegraph.data.checks.photo_findings import write_findings
from finegraph.data.samples import Samples
from finegraph.data.sources import parse_source, read_samples, source_graph
from finegraph.graph import LabelGraph
from finegraph.workflows.labels.graph_sources import read_graph_of


def check_data(
    source: str,
    graph: str | os.PathLike[str] | None = None,
    *,
    csv: str | os.PathLike[str] | None = None,
    workers: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> DataCheck:
    """Open every photo of a source and report what is wrong with the photos and their labels.

    Args:
        source: a folder, a manifest, or `LAYOUT:PATH`; see `finegraph.data.read_samples`.
        graph: a graph file or a store of label decisions to compare the labels with; by default, if a published data
            set labels its photos and its classes (CUB), the graph of its classes.
        csv: where to write all findings as CSV. Only an earlier table of that kind is replaced.
        workers: how many threads decode.
        progress: called with the number of photos done and the total.

    Raises:
        DataError: the source cannot be read. Bad photos are not raised but returned.
        GraphFileError: the graph file has faults, or the table cannot be written.
        InputError: the table would replace another file.
    """
    samples = read_samples(source)
    labels = _own_graph(source, samples) if graph is None else read_graph_of(graph)
    result = check_samples(samples, labels, progress=progress, workers=workers)
    if csv is not None:
        write_findings(csv, result.findings)
    return result


def _own_graph(source: str, samples: Samples) -> LabelGraph | None:
    """The graph of a data set's classes, if its photos have labels of their own that may contradict it."""
    layout, _ = parse_source(source)
    if layout in ("folder", "manifest") or not samples.kinds:
        return None
    return source_graph(source)
