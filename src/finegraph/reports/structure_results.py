"""What was learnt about the graph of a run, read: cells, kinds and the tree of fine labels.

    RUN/structure.json           what was suggested, learnt and accepted, and the tree
        structure.safetensors    small pictures of the photos that it names

Cost: reading both files.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from finegraph.evaluation.photo_pack import unpack_photos

STRUCTURE, STRUCTURE_PICTURES = "structure.json", "structure.safetensors"
STRUCTURE_FORMAT = {"format": "finegraph.structure", "version": 1}


def read_structure(run: Path) -> dict[str, Any] | None:
    """What was learnt about the graph of a run; None if nothing was, or it cannot be read any more."""
    try:
        content = json.loads((run / STRUCTURE).read_text("utf-8"))
    except (OSError, ValueError):
        return None
    good = isinstance(content, dict) and all(content.get(name) == value for name, value in STRUCTURE_FORMAT.items())
    return content if good else None


def read_structure_pictures(run: Path, structure: Mapping[str, Any]) -> dict[str, bytes]:
    """The small pictures of what was learnt, by the paths of the photos; none if they cannot be read."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        found = unpack_photos(load((run / STRUCTURE_PICTURES).read_bytes()))
    except (OSError, SafetensorError, ValueError, KeyError):
        return {}
    paths = structure.get("pictures", [])
    return {paths[number]: picture for number, picture in found.items() if number < len(paths)}
