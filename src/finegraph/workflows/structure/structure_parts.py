"""What was learnt about a graph as plain values with photos: cells with their reasons, and the tree of fine labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from jaxtyping import Int
from numpy.typing import NDArray

from finegraph.data.samples import Samples
from finegraph.graph import LabelGraph
from finegraph.model.structure.cell_learning import LearntCell
from finegraph.model.structure.cell_reasons import alike_with_label
from finegraph.model.structure.suggested_groups import group_name
from finegraph.model.teaching.class_statistics import ClassStatistics
from finegraph.workflows.structure.kept_structure import photos_by_label, photos_of

MAX_CELLS = 60
"""How many doubtful and how many empty cells are kept with photos."""
_CELL_PHOTOS, _LEAF_PHOTOS = 3, 1


def cell_entry(cell: LearntCell) -> dict[str, Any]:
    """A learnt cell as JSON can hold it."""
    return {**asdict(cell), "odds": cell.odds}


def cells_part(
    graph: LabelGraph,
    statistics: ClassStatistics,
    cells: Sequence[LearntCell],
    samples: Samples | None,
    accepted: Sequence[LearntCell] = (),
) -> dict[str, Any]:
    """Learnt cells with photos of their fine label, and of others that have the label and look most alike.

    Args:
        graph: the label graph.
        statistics: what photos show of its fine labels.
        cells: the cells, those with the most evidence first.
        samples: the training photos; None if they are gone.
        accepted: those of the cells that somebody accepted.
    """
    by_label = {} if samples is None else photos_by_label(samples)
    doubtful = [cell for cell in cells if cell.contradicts]
    empty = [cell for cell in cells if cell.table is None]
    chosen = [*doubtful[:MAX_CELLS], *empty[:MAX_CELLS]]
    listed = []
    for cell, alike in zip(chosen, alike_with_label(graph, statistics, chosen), strict=True):
        own = {"label": cell.fine, "photos": list(photos_of([cell.fine], by_label, _CELL_PHOTOS))}
        others = [{"label": fine, "photos": list(photos_of([fine], by_label, 1))} for fine in alike]
        listed.append({**cell_entry(cell), "odds": min(cell.odds, 1e12), "own": own, "alike": others})
    return {
        "cells": listed,
        "doubtful": len(doubtful),
        "empty": len(empty),
        "accepted": [{"fine": cell.fine, "kind": cell.kind, "label": cell.label} for cell in accepted],
    }


def tree_part(
    graph: LabelGraph,
    levels: Sequence[Int[NDArray[np.int64], " fine"]],
    samples: Samples | None,
    moves: Sequence[str] = (),
) -> dict[str, Any]:
    """The tree of fine labels, from the root on.

    Args:
        graph: the label graph, whose names and kinds name the groups.
        levels: the group of each fine label, the smallest groups first; -1 for none.
        samples: the training photos; None if they are gone.
        moves: what moved, in words.
    """
    by_label = {} if samples is None else photos_by_label(samples)

    def node(rows: NDArray[np.int64], depth: int) -> dict[str, Any]:
        if depth < 0 or len(rows) == 1:
            fine = [graph.fine[row] for row in rows.tolist()]
            leaves = [{"label": name, "photos": list(photos_of([name], by_label, _LEAF_PHOTOS))} for name in fine]
            return leaves[0] if len(rows) == 1 else {"label": group_name(graph, rows), "children": leaves}
        own = levels[depth][rows]
        groups = [rows[own == group] for group in dict.fromkeys(own.tolist())]
        if len(groups) == 1:
            return node(rows, depth - 1)
        children = [node(part, depth - 1) for part in groups]
        return {"label": group_name(graph, rows), "children": children}

    root = {**node(np.arange(len(graph)), len(levels) - 1), "label": "all"}
    return {"root": root, "fine": len(graph), "moves": list(moves)}
