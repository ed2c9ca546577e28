"""The canonical form of a graph: JSON with a version.

    {"format": "finegraph.graph", "version": 1, "fine": [...],
     "kinds": [{"name": "dish", "labels": [...], "parents": [0, null, [[0, 0.7], [1, 0.3]]]}]}

Per fine label: a number is its one parent, null is unknown, a list of [label, weight] pairs is one of several.
A kind whose unknown parents are distributed evenly says `"unknown_prior": "uniform"`. Equal graphs give equal text.

A graph with ordered kinds or numbers has version 2, which readers of version 1 refuse; any other still has version 1:

    "kinds": [{"name": "heat", "labels": ["mild", "hot"], "parents": [...], "ordered": true}],
    "numbers": [{"name": "price", "values": [12.5, null], "spreads": [1.5, 0.0], "scale": "log", "unit": "EUR"}]

In an entry of numbers, spreads that are all 0, the linear scale and an empty unit are left out.
"""

from __future__ import annotations

import json
from itertools import pairwise

from finegraph.graph.graph_like import GraphLike
from finegraph.graph.kind import Kind
from finegraph.graph.number import Number

FORMAT = "finegraph.graph"
VERSION = 2
"""The newest version; a graph that needs nothing of it is written as version 1."""


def canonical_json(graph: GraphLike) -> str:
    """The graph as JSON text; equal graphs give equal text."""
    kinds = [_kind_entry(graph.kind(name)) for name in graph.kinds]
    numbers = [_number_entry(graph.number(name)) for name in graph.numbers]
    version = 2 if numbers or any("ordered" in entry for entry in kinds) else 1
    content = {"format": FORMAT, "version": version, "fine": list(graph.fine), "kinds": kinds}
    if numbers:
        content["numbers"] = numbers
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"))


def _kind_entry(kind: Kind) -> dict[str, object]:
    """The entry of one kind."""
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
    if kind.ordered:
        entry["ordered"] = True
    return entry


def _number_entry(number: Number) -> dict[str, object]:
    """The entry of one kind of numbers."""
    values = [value if known else None for value, known in zip(number.values.tolist(), number.known, strict=True)]
    entry: dict[str, object] = {"name": number.name, "values": values}
    if number.spreads.any():
        entry["spreads"] = number.spreads.tolist()
    if number.scale != "linear":
        entry["scale"] = number.scale
    if number.unit:
        entry["unit"] = number.unit
    return entry
