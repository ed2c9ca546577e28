"""Learning the cells of a graph from what a model has seen, and writing those that are accepted to a new file.

A model whose head was fitted in closed form keeps counts and means of the photos of each fine label. That is all that
is needed: no photo is opened. Nothing that exists is changed; accepted cells go to a file that is not there yet.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from finegraph.errors import DataError, InputError
from finegraph.files.durable import reason_of, write_over
from finegraph.graph import LabelGraph
from finegraph.graph.formats.cells import text_only, without_mark
from finegraph.model.structure.cell_learning import LearntCell, learn_cells
from finegraph.model.structure.graph_statistics import statistics_for
from finegraph.workflows.labels.graph_sources import accepted_in_store, read_graph_of
from finegraph.workflows.structure.kept_structure import accepted_before, cell_entry, cells_part, keep_structure
from finegraph.workflows.structure.seen_photos import see_photos

COLUMNS = ("accept", "fine", "kind", "label", "odds", "odds_if_empty", "table", "photos")
"""The columns of a file of learnt cells."""
_YES, _NO = {"yes", "y", "x", "1", "true"}, {"", "no", "n", "0", "false"}
_MAX_FAULTS = 20
"""How many faults of a file are listed."""


@dataclass(frozen=True, kw_only=True)
class GraphLearning:
    """The learnt facts about a graph.

    Attributes:
        empty: the cells that the table leaves empty, the surest first.
        doubtful: the cells in which the table says something else, the most doubtful first.
        accepted: those of both that were accepted.
        output: the file that was written; None if nothing was accepted.
        error: the share of filled cells that are wrong, as estimated.
        error_range: the range in which that probably is.
        trust: how much photos, related kinds and names count, for each kind.
    """

    empty: tuple[LearntCell, ...]
    doubtful: tuple[LearntCell, ...]
    accepted: tuple[LearntCell, ...]
    output: str | None
    error: float
    error_range: tuple[float, float]
    trust: dict[str, dict[str, float]]

    def to_dict(self) -> dict[str, Any]:
        """The result as JSON data."""
        return {
            "empty": [cell_entry(cell) for cell in self.empty],
            "doubtful": [cell_entry(cell) for cell in self.doubtful],
            "accepted": [cell_entry(cell) for cell in self.accepted],
            "output": self.output,
            "error": self.error,
            "error_range": list(self.error_range),
            "trust": self.trust,
        }


def learn_graph(
    model: str | os.PathLike[str],
    *,
    graph: str | os.PathLike[str] | None = None,
    kinds: Sequence[str] | None = None,
    accept: str | None = None,
    cells: str | os.PathLike[str] | None = None,
    output: str | os.PathLike[str] | None = None,
) -> GraphLearning:
    """Learn the empty and the doubtful cells of a graph.

    Args:
        model: a run folder or a model folder. If its head was not fitted in closed form, that is done now, by the
            photos of the run.
        graph: the graph to learn, if not that of the model; fine labels that the model does not know
            have no photos.
        kinds: the kinds to learn; by default all.
        accept: which cells are accepted: odds, such as "40", or a file of cells in which some are marked.
        cells: a file to write all learnt cells to, to be looked through and marked.
        output: the graph file to write with what was accepted; it must not exist.

    Raises:
        ModelFolderError: there is no model, or it is damaged.
        InputError: the model has no statistics and its photos are gone, or what was given does not go together.
        DataError: the file of cells has faults.
    """
    if (accept is None) != (output is None):
        raise InputError("accept and output: expected both or none; what is accepted is written to a new file")
    if output is not None and Path(output).exists():
        raise InputError(f"{os.fspath(output)}: exists already; nothing is overwritten, so give another name")
    seen = see_photos(model, None if graph is None else read_graph_of(graph), photos=False)
    own, statistics = seen.graph, seen.statistics
    if graph is None and seen.given is not None:  # cells that training filled are still empty in the table
        own, statistics = seen.given, statistics_for(seen.given, seen.graph, seen.statistics)
    chosen = None if kinds is None else [own.kind(name).name for name in kinds]
    learnt = learn_cells(own, statistics.counts, statistics.means, statistics.variances)
    found = [cell for cell in learnt.cells() if chosen is None or cell.kind in chosen]
    empty = tuple(sorted((cell for cell in found if cell.table is None), key=lambda cell: -cell.probability))
    doubtful = tuple(cell for cell in found if cell.contradicts)
    accepted = () if accept is None else _accepted(accept, (*doubtful, *empty), found, own)
    if cells is not None:
        write_cells(cells, (*doubtful, *empty))
    if output is not None:
        with_cells(own, accepted).write(output)
    if seen.run is not None:
        before = [*accepted_before(seen.run), *([] if graph is None else accepted_in_store(graph))]
        kept = cells_part(own, statistics, (*doubtful, *empty), seen.listed, accepted, before)
        keep_structure(seen.run, {"cells": kept})
    return GraphLearning(
        empty=empty,
        doubtful=doubtful,
        accepted=accepted,
        output=None if output is None else os.fspath(output),
        error=learnt.error,
        error_range=learnt.error_range,
        trust=learnt.trust,
    )


def _accepted(
    accept: str, cells: Sequence[LearntCell], all_cells: Sequence[LearntCell], graph: LabelGraph
) -> tuple[LearntCell, ...]:
    """The cells that are accepted: by odds of those that are listed, or by a file of any."""
    try:
        odds = float(accept)
    except ValueError:
        marked = read_cells(accept, graph)
        return tuple(
            replace(cell, label=marked[cell.fine, cell.kind]) for cell in all_cells if (cell.fine, cell.kind) in marked
        )
    if not odds > 0:
        raise InputError(f"accept: expected odds above 0, or a file of cells, got {accept!r}")
    return tuple(cell for cell in cells if cell.odds >= odds)


def with_cells(graph: LabelGraph, cells: Sequence[LearntCell]) -> LabelGraph:
    """The graph with some cells filled in or changed."""
    by_kind: dict[str, dict[int, int]] = {}
    for cell in cells:
        by_kind.setdefault(cell.kind, {})[graph.fine_index(cell.fine)] = graph.label_index(cell.kind, cell.label)
    for name, changes in by_kind.items():
        kind = graph.kind(name)
        matrix = kind.matrix()
        for fine, label in changes.items():
            matrix[fine] = np.arange(len(kind.labels)) == label
        graph = graph.with_kind(kind.with_matrix(matrix))
    return graph


# ---- files of cells --------------------------------------------------------------------------------------------------


def write_cells(path: str | os.PathLike[str], cells: Sequence[LearntCell]) -> None:
    """Write learnt cells to a CSV file, with an empty column to mark those that are accepted.

    Raises:
        InputError: the file cannot be written.
    """
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(COLUMNS)
    for cell in cells:
        names = [text_only(name) for name in (cell.fine, cell.kind, cell.label)]
        table.writerow(
            ["", *names, f"{cell.odds:.3g}", f"{cell.odds_if_empty:.3g}", text_only(cell.table or ""), cell.photos]
        )
    try:
        write_over(Path(path), text.getvalue().encode("utf-8", "surrogateescape"))
    except OSError as error:
        raise InputError(f"{os.fspath(path)}: cannot be written: {reason_of(error)}") from error


def read_cells(path: str | os.PathLike[str], graph: LabelGraph) -> dict[tuple[str, str], str]:
    """The cells that are marked in a file: the label by fine label and kind. Labels may have been edited.

    Raises:
        DataError: the file cannot be read, has marks other than yes and no, or names what the graph does not have; all
            faults at once, with their lines.
    """
    place = os.fspath(path)
    try:
        with Path(path).open(newline="", encoding="utf-8-sig", errors="surrogateescape") as file:
            reader = csv.DictReader(file)
            rows = [(reader.line_num, row) for row in reader]
    except (OSError, csv.Error) as error:
        reason = reason_of(error) if isinstance(error, OSError) else str(error)
        raise DataError(f"{place}: expected odds or a file of cells, and no such file can be read: {reason}") from error
    if rows and not {"accept", "fine", "kind", "label"} <= rows[0][1].keys():
        raise DataError(f"{place}: expected the columns accept, fine, kind and label, got {', '.join(rows[0][1])}")
    marked, faults = {}, []
    fine_labels = set(graph.fine)
    for line, row in rows:
        mark = (row["accept"] or "").strip()
        fine, kind, label = (without_mark(row[name] or "") for name in ("fine", "kind", "label"))
        if mark.casefold() not in _YES | _NO:
            faults.append(f"line {line}: expected yes, no or nothing in the column accept, got {mark!r}")
        elif fine not in fine_labels or kind not in graph.kinds:
            faults.append(f"line {line}: the graph has no cell {fine!r}, {kind!r}")
        elif mark.casefold() in _NO:
            continue
        elif label not in graph.labels(kind):
            faults.append(f"line {line}: {kind!r} has no label {label!r}")
        elif graph.kind(kind).row_sizes[graph.fine_index(fine)] > 1:
            faults.append(f"line {line}: {fine!r} has several labels of {kind!r}, which are no single cell to change")
        else:
            marked[fine, kind] = label
    if faults:
        more = f"; and {len(faults) - _MAX_FAULTS:,} more" if len(faults) > _MAX_FAULTS else ""
        raise DataError(f"{place}: " + "; ".join(faults[:_MAX_FAULTS]) + more)
    return marked
