"""Reasons for learnt cells that people can look at: fine labels with the label in question that look most alike.

"Photos say tofu: yes" is believed when photos of two dishes with tofu lie beside those of the dish. Distances are those
of class means in scaled features. Cost: fine labels x features for each cell.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from finegraph.graph import LabelGraph
from finegraph.model.structure.cell_learning import LearntCell
from finegraph.model.teaching.class_statistics import ClassStatistics


def alike_with_label(
    graph: LabelGraph, statistics: ClassStatistics, cells: Sequence[LearntCell], count: int = 3
) -> list[tuple[str, ...]]:
    """For each cell the fine labels with photos that have its label and look most like its own, the nearest first.

    Args:
        graph: the label graph.
        statistics: what photos show of its fine labels.
        cells: the cells.
        count: how many fine labels at the most.
    """
    seen = statistics.counts > 0
    means = statistics.means
    found: list[tuple[str, ...]] = []
    for cell in cells:
        fine, kind = graph.fine_index(cell.fine), graph.kind(cell.kind)
        label = graph.label_index(cell.kind, cell.label)
        one = np.flatnonzero(kind.row_sizes == 1)
        having = one[kind.coarse[kind.starts[:-1][one]] == label]
        rows = torch.from_numpy(having[having != fine])
        rows = rows[seen[rows]]
        if not len(rows) or not bool(seen[fine]):
            found.append(())
            continue
        near = torch.linalg.vector_norm(means[rows] - means[fine], dim=1).argsort(stable=True)[:count]
        found.append(tuple(graph.fine[row] for row in rows[near].tolist()))
    return found
