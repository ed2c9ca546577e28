"""The panel of a report with what was learnt about the graph: cells and kinds with photos, and a tree to unfold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from finegraph.reports.page.page_data import data_address
from finegraph.reports.page.svg_charts import signed

_MAX_CELLS, _MAX_LABELS, _MAX_MOVES, _MAX_ALONE = 40, 8, 60, 6
"""How many cells, labels of a kind and moves are shown, and labels outside all groups that are not folded."""
_PICTURES = 4


def structure_section(structure: Mapping[str, Any] | None, pictures: Mapping[str, bytes]) -> dict[str, Any] | None:
    """The panel: cells, kinds and the tree; None if nothing was learnt.

    Args:
        structure: what `structure.json` says.
        pictures: small pictures by the paths of photos.
    """
    if structure is None:
        return None
    cells, suggested, tree = (structure.get(name) for name in ("cells", "suggested", "tree"))
    found = {
        "cells": None if cells is None else _cells(cells, pictures),
        "suggested": None if suggested is None else _suggested(suggested, pictures),
        "added": structure.get("added") or [],
        "tree": None if tree is None else _tree(tree, pictures),
    }
    return found if any(found.values()) else None


def _shown(photos: Sequence[str], pictures: Mapping[str, bytes]) -> list[str]:
    """The addresses of pictures of photos that have one."""
    return [address for path in photos if (address := data_address(pictures.get(path))) is not None]


def _cells(cells: Mapping[str, Any], pictures: Mapping[str, bytes]) -> dict[str, Any]:
    accepted = {(one["fine"], one["kind"]): one["label"] for one in cells["accepted"]}
    shown = [
        {
            "fine": cell["fine"],
            "kind": cell["kind"],
            "label": cell["label"],
            "table": cell["table"],
            "source": cell.get("source", "photos"),
            "odds": _odds(cell["odds"]),
            "odds_if_empty": None if cell["table"] is None else _odds(cell.get("odds_if_empty", cell["odds"])),
            "accepted": accepted.get((cell["fine"], cell["kind"])),
            "own": _shown(cell["own"]["photos"], pictures),
            "alike": [
                {"label": one["label"], "picture": shown[0]}
                for one in cell["alike"]
                if (shown := _shown(one["photos"], pictures))
            ],
        }
        for cell in cells["cells"]
    ]
    doubtful = [cell for cell in shown if cell["table"] is not None]
    empty = [cell for cell in shown if cell["table"] is None]
    return {
        "groups": [
            {"title": "Doubtful cells", "of": cells["doubtful"], "cells": doubtful[:_MAX_CELLS]},
            {"title": "Empty cells", "of": cells["empty"], "cells": empty[:_MAX_CELLS]},
        ],
        "accepted": len(accepted),
    }


def _odds(odds: float) -> str:
    if odds > 1000:
        return "more than 1,000"
    return f"{odds:,.{0 if odds >= 10 else 1}f}" if odds >= 0.1 else "less than 0.1"


def _suggested(suggested: Mapping[str, Any], pictures: Mapping[str, bytes]) -> dict[str, Any]:
    accepted = set(suggested["accepted"])
    return {
        "judged": suggested["judged"],
        "kinds": [
            {
                "name": one["name"],
                "reason": one["reason"],
                "stability": one["stability"],
                "effect": _effect(one["effect"]),
                "accepted": one["name"] in accepted,
                "labels": [
                    {
                        "label": label["label"],
                        "stability": label["stability"],
                        "fine": label["fine"][:6],
                        "more": max(0, len(label["fine"]) - 6),
                        "pictures": _shown(label["photos"][:_PICTURES], pictures),
                    }
                    for label in one["labels"][:_MAX_LABELS]
                ],
                "more": max(0, len(one["labels"]) - _MAX_LABELS),
            }
            for one in suggested["suggestions"]
        ],
        "present": [{"name": one["name"], "effect": _effect(one["effect"])} for one in suggested["present"]],
    }


def _effect(effect: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """What a kind changes, in words and numbers."""
    if effect is None:
        return None
    scales = {"log_likelihood": (1.0, 3), "top1": (100.0, 1), "sure": (100.0, 1), "named": (1.0, 1)}
    numbers = {
        name: {end: signed(scale * effect[name][end], digits) for end in ("mean", "low", "high")}
        for name, (scale, digits) in scales.items()
    }
    return {"verdict": effect["verdict"], **numbers}


def _tree(tree: Mapping[str, Any], pictures: Mapping[str, bytes]) -> dict[str, Any]:
    moves = tree["moves"]
    return {
        "root": _node(tree["root"], pictures),
        "fine": tree["fine"],
        "moves": moves[:_MAX_MOVES],
        "more_moves": max(0, len(moves) - _MAX_MOVES),
    }


def _node(node: Mapping[str, Any], pictures: Mapping[str, bytes]) -> dict[str, Any]:
    """A group with its parts, or a fine label, with how many fine labels are below and a few pictures of them."""
    if "children" not in node:
        return {"label": node["label"], "count": 1, "children": [], "pictures": _shown(node["photos"], pictures)}
    children = [_node(child, pictures) for child in node["children"]]
    children.sort(key=lambda child: -child["count"])
    groups, alone = ([child for child in children if bool(child["children"]) is group] for group in (True, False))
    if groups and len(alone) > _MAX_ALONE:  # else the few groups drown in a list of all labels
        children = [*groups, _group("each by itself", alone)]
    return _group(node["label"], children)


def _group(label: str, children: list[dict[str, Any]]) -> dict[str, Any]:
    firsts = [child["pictures"][0] for child in children if child["pictures"]]
    return {
        "label": label,
        "count": sum(child["count"] for child in children),
        "children": children,
        "pictures": firsts[:_PICTURES],
    }
