"""The canonical form of a graph: JSON with a version.

    {"format": "finegraph.graph", "version": 1, "fine": [...],
     "kinds": [{"name": "dish", "labels": [...], "parents": [0, null, [[0, 0.7], [1, 0.3]]]}]}

Per fine label: a number is its one parent, null is unknown, a list of [label, weight] pairs is one of several.
A kind whose unknown parents are distributed evenly says `"unknown_prior": "uniform"`. Equal graphs give equal text.
"""

from __future__ import annotations

import json
from itertools import pairwise

from finegraph.graph.kind import GraphLike, Kind

FORMAT = "finegraph.graph"
VERSION = 1


def canonical_json(graph: GraphLike) -> str:
    """The graph as JSON text; equal graphs give equal text."""
    kinds = [_kind_entry(graph.kind(name)) for name in graph.kinds]
    content = {"format": FORMAT, "version": VERSION, "fine": list(graph.fine), "kinds": kinds}
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"))


def _kind_entry(kind: Kind) -> dict[str, object]:
    """One kind as it stands in the file."""
    coarse, weight = kind.coarse.tolist(), kind.weight.tolist()
    parents: list[object] = []
    for start, end in pairwise(kind.starts.tolist()):
        if end == start:
            parents.append(None)
        elif end == start + 1:
            parents.append(coarse[start])
        else:
            parents.append([[coarse[edge], weight[edge]] for edge in range(start, end)])
    entry: dict[str, object] = {"name": kind.name, "labels": list(kind.labels), "parents": parents}
    if kind.unknown_prior != "frequency":
        entry["unknown_prior"] = kind.unknown_prior
    return entry
