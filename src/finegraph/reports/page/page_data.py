"""The data that the page of a report works with: answers to single photos, small pictures, orders of labels.

Of labels, those that are shown are kept, by numbers of their own (shown_labels.py). It stands in the page as JSON; long
columns are packed as base64 of little-endian numbers, so that ten thousand labels
or photos are read in a moment. Nothing in it can end the element that it stands in. Cost: linear in photos x kinds.

Its pictures are one of each photo, and training photos of classes that are taken for each other. A photo answered
wrongly is shown close if the evaluation kept such a picture and the page has room for it, those of the run that is
shown first; every other photo is shown small. Cost: linear in the photos.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Shaped
from numpy.typing import NDArray

from finegraph.data.dataset import MISSING
from finegraph.evaluation.photo_pack import CLOSE_BYTES
from finegraph.reports.comparison import widest_graph
from finegraph.reports.orders import first_parents, order_by_coarse, order_by_confusion
from finegraph.reports.page.shown_labels import ShownLabels, renumbered_sure, shown_fine, shown_of_kind
from finegraph.reports.run_results import RunResults

MAX_KINDS = 400
"""Answers of more kinds than this are left out of the page; the metrics of all kinds are in its tables."""
MAX_PARTS = 6
"""How many parts of an explanation are kept; the rest is one part more."""
_SHOWN = 0.005
"""Log odds below this are shown as 0.00."""
REST = -1
Array = NDArray[Any]
_WEBP = b"RIFF"


def page_data(runs: Sequence[RunResults], baseline: int, other: int) -> dict[str, Any]:
    """Everything that scripts of the page need, as JSON data.

    Args:
        runs: on the same photos.
        baseline: which of them the others are compared with.
        other: which of them is examined.
    """
    first = runs[widest_graph(runs)]
    graph = first.graph
    kinds = graph.kinds[:MAX_KINDS]
    truth = np.where(first.arrays["fine"] == MISSING, -1, first.arrays["fine"])
    kinds_true = first.arrays["kinds_true"]
    judge = runs[baseline].arrays
    kind_orders = {
        kind: order_by_confusion(
            kinds_true[:, place], first.arrays["kinds_predicted"][:, place], len(graph.labels(kind))
        )
        for place, kind in enumerate(graph.kinds)
    }
    by_confusion = order_by_confusion(truth, judge["predicted"], len(graph))
    training = runs[other].about.get("training")
    train = None if training is None else np.array(training["fine"], dtype=np.int64)
    pictures = training_picture_files(runs[other])
    fine = shown_fine(runs, truth, [*pictures, *([] if train is None else np.flatnonzero(train).tolist())])
    shown = {kind: shown_of_kind(runs, graph, kind, fine) for kind in kinds}
    return {
        "fine": fine.names(graph.fine),
        "leftOut": len(graph) - len(fine),
        "kinds": [
            {
                "name": kind,
                "labels": shown[kind].names(graph.labels(kind)),
                "parents": packed(shown[kind].renumbered(first_parents(graph, kind)[fine.numbers])),
                "truth": packed(shown[kind].renumbered(kinds_true[:, place])),
                "order": packed(shown[kind].ordered(kind_orders[kind])),
            }
            for place, kind in enumerate(kinds)
        ],
        "orders": {
            "coarse": packed(fine.ordered(order_by_coarse(graph, by_confusion, kind_orders))),
            "confusion": packed(fine.ordered(by_confusion)),
        },
        "truth": packed(fine.renumbered(truth)),
        "train": None if train is None else packed(train[fine.numbers]),
        "trainOf": runs[other].name if len(runs) > 1 else "",
        "names": short_names(first.photos),
        "pictures": page_pictures(runs, other),
        "training": {str(fine.places[number]): photos for number, photos in pictures.items()},
        "runs": [_run(run, first, fine, shown) for run in runs],
        "baseline": baseline,
        "other": other,
    }


def _run(run: RunResults, first: RunResults, fine: ShownLabels, kinds: Mapping[str, ShownLabels]) -> dict[str, Any]:
    """The answers of a run; kinds that it does not have, or with other labels, are null."""
    arrays, graph_of_run = run.arrays, run.graph
    places = {
        kind: graph_of_run.kinds.index(kind)
        if kind in graph_of_run.kinds and graph_of_run.labels(kind) == first.graph.labels(kind)
        else None
        for kind in kinds
    }
    of_levels = {place + 1: kinds[kind] for kind, place in places.items() if place is not None}
    sure = renumbered_sure(run, {0: fine, **of_levels})
    return {
        "name": run.name,
        "head": run.head,
        "sources": ["fine", *run.graph.kinds, *run.graph.numbers],
        "predicted": packed(fine.renumbered(arrays["predicted"])),
        "logProb": packed(arrays["log_prob"].astype(np.float32)),
        "rank": packed(arrays["rank"]),
        "top": packed(fine.renumbered(arrays["top_labels"])),
        "topProbability": packed_shares(arrays["top_probabilities"]),
        "places": int(arrays["top_labels"].shape[1]),
        "kinds": [
            None
            if place is None
            else {
                "predicted": packed(kinds[kind].renumbered(arrays["kinds_predicted"][:, place])),
                "probability": packed_shares(arrays["kinds_probability"][:, place]),
                "right": packed(arrays["kinds_right"][:, place]),
            }
            for kind, place in places.items()
        ],
        "sure": {
            "level": packed(arrays["sure_level"]),
            "label": packed(sure["label"]),
            "probability": packed_shares(np.nan_to_num(arrays["sure_probability"])),
            "ranges": _ranges(sure),
        },
        "explained": _explained(run),
    }


def _ranges(sure: Mapping[str, Array]) -> dict[str, list[float]]:
    """The ends of the sure answers that are ranges, by row; evaluations of earlier versions have none."""
    low, high = (sure.get(end) for end in ("low", "high"))
    if low is None or high is None:
        return {}
    return {str(row): [float(low[row]), float(high[row])] for row in np.flatnonzero(~np.isnan(low)).tolist()}


def _explained(run: RunResults) -> dict[str, Any]:
    """The largest parts of each explanation, and the sum of the others."""
    rows = {number: row for row, number in enumerate(run.arrays["sample"].tolist())}
    listed: dict[str, list[list[float]]] = {}
    for number, parts in zip(run.arrays["gallery"].tolist(), run.arrays["parts"], strict=True):
        if number in rows and not np.isnan(parts).any():
            listed[str(rows[number])] = [[source, round(value, 3)] for source, value in largest_parts(parts)]
    return listed


def largest_parts(parts: Shaped[Array, " item"], max_parts: int = MAX_PARTS) -> list[tuple[int, float]]:
    """The parts with the largest values, and `REST` with the sum of the others if there are more.

    Parts that would be shown as 0.00 count to the rest; if all of that is 0.00 too, it is left out.
    """
    order = np.argsort(-np.abs(parts), kind="stable").tolist()
    shown = max(1, min(max_parts, int((np.abs(parts) >= _SHOWN).sum())))
    largest = [(place, float(parts[place])) for place in order[:shown]]
    rest = float(parts[order[shown:]].sum())
    return [*largest, (REST, rest)] if abs(rest) >= _SHOWN else largest


def packed(values: Shaped[Array, " ..."]) -> dict[str, str]:
    """A column of whole or real numbers as text."""
    flat = np.ascontiguousarray(values).reshape(-1)
    if flat.dtype.kind == "f":
        kind = "f4"
    else:
        low, high = (int(flat.min()), int(flat.max())) if len(flat) else (0, 0)
        kind = next(name for name, end in (("i1", 2**7), ("i2", 2**15), ("i4", 2**31)) if -end <= low and high < end)
    return {"form": kind, "base64": base64.b64encode(flat.astype("<" + kind).tobytes()).decode("ascii")}


def packed_shares(values: Shaped[Array, " ..."]) -> dict[str, str]:
    """A column of shares between 0 and 1, in steps of 1 / 65535."""
    steps = np.round(np.clip(values.reshape(-1).astype(np.float64), 0.0, 1.0) * 65535.0)
    return {"form": "share", "base64": base64.b64encode(steps.astype("<u2").tobytes()).decode("ascii")}


def short_names(paths: Sequence[str]) -> list[str]:
    """Paths without the folders that all of them share: a report may go to other people."""
    shared = shared_folder(paths)
    return [os.path.relpath(path, shared) if shared else path for path in paths]


def shared_folder(paths: Sequence[str]) -> str:
    """The folder that all paths share; empty if they are not all absolute."""
    folders = [os.path.dirname(path) for path in paths]
    return os.path.commonpath(folders) if folders and all(os.path.isabs(each) for each in folders) else ""


def json_in_html(data: object) -> str:
    """JSON that can stand inside of a script element: no character of it can end the element or open a comment."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    text = text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    text = text.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def data_address(picture: bytes | None) -> str | None:
    """A picture as an address that holds it."""
    if picture is None:
        return None
    kind = "webp" if picture.startswith(_WEBP) else "jpeg"
    return f"data:image/{kind};base64,{base64.b64encode(picture).decode('ascii')}"


def page_pictures(runs: Sequence[RunResults], other: int) -> list[str]:
    """The address of a picture of each photo; empty if none was kept.

    Args:
        runs: on the same photos.
        other: the run that is examined.
    """
    order = [runs[other], *(run for place, run in enumerate(runs) if place != other)]
    pictures: dict[int, bytes] = {}
    room = CLOSE_BYTES
    for run in order:
        wrong = np.flatnonzero((run.arrays["fine"] != MISSING) & ~run.right)
        for row in wrong.tolist():
            picture = run.gallery.get(int(run.arrays["sample"][row]))
            if picture is not None and row not in pictures and len(picture) <= room:
                pictures[row] = picture
                room -= len(picture)
    for row in range(len(runs[0].photos)):
        if row not in pictures:
            small = (run.thumbnails.get(int(run.arrays["sample"][row])) for run in order)
            pictures[row] = next((picture for picture in small if picture is not None), b"")
    return [data_address(pictures[row]) or "" if pictures[row] else "" for row in range(len(runs[0].photos))]


def training_picture_files(run: RunResults) -> dict[int, list[dict[str, Any]]]:
    """Training photos of fine labels, by the number of the label: the address of each picture, and its file."""
    numbers = {label: number for number, label in enumerate(run.graph.fine)}
    listed: dict[int, list[dict[str, Any]]] = {}
    for place, photo in enumerate(run.about.get("training_photos") or []):
        picture = data_address(run.training.get(place))
        if picture is not None and photo["label"] in numbers:
            photos_of_label = listed.setdefault(numbers[photo["label"]], [])
            photos_of_label.append({"picture": picture, "name": photo["path"].replace("\\", "/").rsplit("/", 1)[-1]})
    return listed
