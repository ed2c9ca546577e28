"""What was learnt about the graph of a run, kept in the run so that its report can show it.

It consists of plain values with photos: cells with their reasons, suggested kinds, and the tree of fine labels. Its
form is that of reports/run_results.py. Parts are replaced one by one, the others stay. It follows from the run and can
be made again; nothing but reports reads it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int
from numpy.typing import NDArray

from finegraph.data.samples import Sample, Samples
from finegraph.errors import RunFolderError
from finegraph.evaluation.photo_pack import pack_photos
from finegraph.files.durable import reason_of, write_over
from finegraph.graph import LabelGraph
from finegraph.graph.group_names import group_name
from finegraph.model.structure.cell_learning import LearntCell, alike_with_label
from finegraph.model.teaching.class_statistics import ClassStatistics
from finegraph.reports.run_results import STRUCTURE, STRUCTURE_FORMAT, STRUCTURE_PICTURES, read_structure

MAX_PICTURES = 600
"""How many photos have a small picture at the most."""
MAX_CELLS = 60
"""How many doubtful and how many empty cells are kept with photos."""
_CELL_PHOTOS, _LEAF_PHOTOS = 3, 1


def keep_structure(run: Path, parts: Mapping[str, Any]) -> None:
    """Keep parts of the learnt structure; parts that are not given stay as they were.

    Args:
        run: the run folder.
        parts: by name, as JSON can hold them: suggested, cells, tree. Photos are lists of paths under the key `photos`.

    Raises:
        RunFolderError: the files cannot be written.
    """
    from safetensors.numpy import save

    known = read_structure(run) or {}
    content = {
        **STRUCTURE_FORMAT,
        **{name: value for name, value in known.items() if name not in STRUCTURE_FORMAT},
        **parts,
    }
    paths = list(dict.fromkeys(_photos_in(content)))[:MAX_PICTURES]
    content["pictures"] = paths
    samples = {number: Sample(path=Path(path), label=None) for number, path in enumerate(paths)}
    pack = pack_photos({"photos": samples})["photos"]
    try:
        write_over(run / STRUCTURE_PICTURES, save({name: np.ascontiguousarray(array) for name, array in pack.items()}))
        text = json.dumps(content, allow_nan=False, ensure_ascii=False) + "\n"
        write_over(run / STRUCTURE, text.encode("utf-8", "backslashreplace"))
    except OSError as error:
        raise RunFolderError(f"{run}: what was learnt cannot be written: {reason_of(error)}") from error


def _photos_in(value: Any) -> Iterator[str]:
    """The paths of all photos that are named somewhere."""
    if isinstance(value, dict):
        for name, own in value.items():
            if name == "photos" and isinstance(own, list | tuple):
                yield from (path for path in own if isinstance(path, str))
            elif name != "pictures":
                yield from _photos_in(own)
    elif isinstance(value, list | tuple):
        for own in value:
            yield from _photos_in(own)


def accepted_before(run: Path) -> list[dict[str, str]]:
    """The cells that were accepted before: fine, kind and label of each."""
    cells = (read_structure(run) or {}).get("cells") or {}
    return list(cells.get("accepted") or [])


def photos_by_label(samples: Samples) -> dict[str, list[str]]:
    """The paths of photos by fine label."""
    found: dict[str, list[str]] = {}
    for sample in samples:
        found.setdefault(sample.label or "", []).append(os.fspath(sample.path))
    return found


def example_photos(fine: Sequence[str], by_label: dict[str, list[str]], count: int) -> tuple[str, ...]:
    """A few photos of some fine labels, one of each before a second one of any."""
    found: list[str] = []
    for turn in range(count):
        for label in fine:
            photos = by_label.get(label, [])
            if len(found) < count and turn < len(photos):
                found.append(photos[turn])
    return tuple(found)


def cell_entry(cell: LearntCell) -> dict[str, Any]:
    """A learnt cell as JSON can hold it."""
    return {**asdict(cell), "odds": cell.odds, "odds_if_empty": cell.odds_if_empty, "source": cell.source}


def cells_part(
    graph: LabelGraph,
    statistics: ClassStatistics,
    cells: Sequence[LearntCell],
    samples: Samples | None,
    accepted: Sequence[LearntCell] = (),
    before: Sequence[Mapping[str, str]] = (),
) -> dict[str, Any]:
    """Learnt cells with photos of their fine label, and of others that have the label and look most alike.

    Args:
        graph: the label graph.
        statistics: what photos show of its fine labels.
        cells: the cells, those with the most evidence first.
        samples: the training photos; None if they are gone.
        accepted: those of the cells that somebody accepted.
        before: what was accepted before, as this part has it; a later decision on a cell takes the place of it.
    """
    by_label = {} if samples is None else photos_by_label(samples)
    doubtful = [cell for cell in cells if cell.contradicts]
    empty = [cell for cell in cells if cell.table is None]
    chosen = [*doubtful[:MAX_CELLS], *empty[:MAX_CELLS]]
    listed = []
    for cell, alike in zip(chosen, alike_with_label(graph, statistics, chosen), strict=True):
        own = {"label": cell.fine, "photos": list(example_photos([cell.fine], by_label, _CELL_PHOTOS))}
        others = [{"label": fine, "photos": list(example_photos([fine], by_label, 1))} for fine in alike]
        odds = {"odds": min(cell.odds, 1e12), "odds_if_empty": min(cell.odds_if_empty, 1e12)}
        listed.append({**cell_entry(cell), **odds, "own": own, "alike": others})
    return {
        "cells": listed,
        "doubtful": len(doubtful),
        "empty": len(empty),
        "accepted": [
            {"fine": fine, "kind": kind, "label": label}
            for (fine, kind), label in {
                **{(one["fine"], one["kind"]): one["label"] for one in before},
                **{(cell.fine, cell.kind): cell.label for cell in accepted},
            }.items()
        ],
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
            leaves = [{"label": name, "photos": list(example_photos([name], by_label, _LEAF_PHOTOS))} for name in fine]
            return leaves[0] if len(rows) == 1 else {"label": group_name(graph, rows), "children": leaves}
        own = levels[depth][rows]
        groups = [rows[own == group] for group in dict.fromkeys(own.tolist())]
        if len(groups) == 1:
            return node(rows, depth - 1)
        children = [node(part, depth - 1) for part in groups]
        return {"label": group_name(graph, rows), "children": children}

    root = {**node(np.arange(len(graph)), len(levels) - 1), "label": "all"}
    return {"root": root, "fine": len(graph), "moves": list(moves)}
