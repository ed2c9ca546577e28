"""One photo as a card, like the examples in the paper.

The photo, its coarse predictions, the first five answers of each run side by side with the right one marked, why the
first rather than the second, and similar training photos. Everything is plain values for a template; pictures are data
addresses. Cost: a few kilobytes per photo.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from finegraph.data.dataset import MISSING
from finegraph.evaluation.details import NOT_KNOWN
from finegraph.reports.comparison import widest_graph
from finegraph.reports.page.page_data import REST, data_address, largest_parts
from finegraph.reports.page.svg_charts import odds_bars, share_bar
from finegraph.reports.run_results import RunResults

MAX_KINDS = 6
"""How many kinds a card shows; of more, those on which the runs are least sure or wrong."""


def example_card(runs: Sequence[RunResults], row: int, name: str, shown: int) -> dict[str, Any]:
    """A photo in full.

    Args:
        runs: on the same photos, in the order in which they stand on the card.
        row: the photo.
        name: its short name.
        shown: the run whose explanation is shown.
    """
    first = runs[0]
    true = int(first.arrays["fine"][row])
    return {
        "row": row,
        "name": name,
        "picture": _picture(runs, row),
        "truth": None if true == MISSING else first.graph.fine[true],
        "kinds": kind_answers(runs, row),
        "answers": [_answers(run, row, true) for run in runs],
        "why": _explanation(runs[shown], row),
        "why_run": runs[shown].name,
        "similar": [
            {**similar_photo, "picture": data_address(similar_photo["bytes"])}
            for similar_photo in similar_photos([runs[shown], *runs], row, true)
        ],
    }


def _picture(runs: Sequence[RunResults], row: int) -> str | None:
    """The largest picture of a photo that any run has."""
    for pictures in ("gallery", "thumbnails"):
        for run in runs:
            picture = getattr(run, pictures).get(int(run.arrays["sample"][row]))
            if picture is not None:
                return data_address(picture)
    return None


def _answers(run: RunResults, row: int, true: int) -> dict[str, Any]:
    """The first answers of a run."""
    labels, shares = run.arrays["top_labels"][row].tolist(), run.arrays["top_probabilities"][row].tolist()
    return {
        "run": run.name,
        "head": run.head,
        "right": bool(labels[0] == true),
        "rank": int(run.arrays["rank"][row]),
        "rows": [
            {
                "label": run.graph.fine[label],
                "share": share,
                "right": label == true,
                "bar": share_bar(share, "right" if label == true else ""),
            }
            for label, share in zip(labels, shares, strict=True)
        ],
    }


def kind_answers(runs: Sequence[RunResults], row: int, max_kinds: int = MAX_KINDS) -> list[dict[str, Any]]:
    """What each run says of each kind, and what is true; of many kinds those most worth showing."""
    first = runs[widest_graph(runs)]
    kinds = list(first.graph.kinds)
    if len(kinds) > max_kinds:
        kinds = sorted(kinds, key=lambda kind: _interest(runs, row, kind))[:max_kinds]
    listed = []
    for kind in kinds:
        place = first.graph.kinds.index(kind)
        true = int(first.arrays["kinds_true"][row, place])
        answers = []
        for run in runs:
            if kind not in run.graph.kinds:
                continue
            column = run.graph.kinds.index(kind)
            answers.append(
                {
                    "run": run.name,
                    "label": run.graph.labels(kind)[int(run.arrays["kinds_predicted"][row, column])],
                    "share": float(run.arrays["kinds_probability"][row, column]),
                    "right": int(run.arrays["kinds_right"][row, column]),
                }
            )
        truth = None if true == NOT_KNOWN else first.graph.labels(kind)[true]
        listed.append({"kind": kind, "truth": truth, "answers": answers})
    return listed


def _interest(runs: Sequence[RunResults], row: int, kind: str) -> tuple[int, float]:
    """What makes a kind worth showing: a wrong answer, then an unsure one."""
    places = [(run, run.graph.kinds.index(kind)) for run in runs if kind in run.graph.kinds]
    right = min(int(run.arrays["kinds_right"][row, column] != 0) for run, column in places)
    sure = min(float(run.arrays["kinds_probability"][row, column]) for run, column in places)
    return right, sure


def _explanation(run: RunResults, row: int) -> dict[str, Any] | None:
    """The exact log odds of the first answer against the second, split; None if it was not kept."""
    places = np.flatnonzero(run.arrays["gallery"] == run.arrays["sample"][row])
    if not len(places):
        return None
    parts = run.arrays["parts"][places[0]]
    if np.isnan(parts).any():
        return None
    labels = run.arrays["top_labels"][row]
    one, two = run.graph.fine[int(labels[0])], run.graph.fine[int(labels[1])]
    sources = ("fine label", *run.sources[1:])
    rows = [("all other kinds" if source == REST else sources[source], value) for source, value in largest_parts(parts)]
    total = float(parts.sum())
    words = "; ".join(f"{name} {value:+.2f}" for name, value in rows)
    alt = f"Log odds of {one} against {two}: {total:+.2f} in all; {words}"
    return {"first": one, "second": two, "log_odds": total, "chart": odds_bars(rows, alt)}


def similar_photos(runs: Sequence[RunResults], row: int, true: int) -> list[dict[str, Any]]:
    """Similar training photos, from the first run that kept them of this photo."""
    for run in runs:
        places = np.flatnonzero(run.arrays["gallery"] == run.arrays["sample"][row])
        photos = run.about.get("similar")
        if not len(places) or not photos or "similar" not in run.arrays:
            continue
        numbers = run.arrays["similar"][places[0]].tolist()
        distances = run.arrays["similar_distances"][places[0]].tolist()
        truth = None if true == MISSING else run.graph.fine[true]
        return [
            {
                "bytes": run.similar.get(number),
                "label": photos[number]["label"] or "label not known",
                "same": truth is not None and photos[number]["label"] == truth,
                "distance": distance,
            }
            for number, distance in zip(numbers, distances, strict=True)
            if number >= 0
        ]
    return []
