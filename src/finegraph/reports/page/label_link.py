"""From a photo of a report into `finegraph label`: the command that opens the photos, and the address of one.

A report is a file and starts nothing. So it shows the command to copy, and links to the page that the command serves at
its default address, at the class and the photo. The class of a photo itself is where its list or folder says.
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path, PurePath
from typing import Any

from finegraph.data.sources import LAYOUTS
from finegraph.reports.page.page_data import shared_folder
from finegraph.reports.run_results import RunResults

ADDRESS = "http://127.0.0.1:8377/"
"""The default address of `finegraph label`."""
_COPY = "labels.json"


def label_link(run: RunResults) -> dict[str, Any]:
    """What the page needs to lead into labelling.

    Returns:
        `command` (None if it is not known what the run is of), `address`, `folder`: what stands before the short
        names of photos in the labelling page (None if that is not known), and `advice` on the class of a photo.
    """
    source = run.result.data or run.settings.get("data")
    return {
        "command": None if not source else _command(run, str(source)),
        "address": ADDRESS,
        "folder": _folder(run),
        "advice": _advice(None if not source else str(source)),
    }


def _command(run: RunResults, source: str) -> str:
    """The command, after one that copies the graph of the run if there is no graph file yet."""
    graph = run.settings.get("graph")
    if graph:
        place, _, version = str(graph).rpartition("@")
        graph = place if version.isdecimal() else graph  # to go on from, not to look at as it was
        return shlex.join(["finegraph", "label", str(graph), "--data", source])
    folder = PurePath(run.result.model or ".")
    folder = folder.parent if folder.name == "model" else folder
    kept = folder / "evaluations" / run.evaluation / "graph.json"
    copied = shlex.join(["cp", os.fspath(kept), _COPY])
    return f"{copied}\n{shlex.join(['finegraph', 'label', _COPY, '--data', source])}"


def _folder(run: RunResults) -> str | None:
    """The folder that all photos share, as the labelling page names it: from that of the source on."""
    source, shared = run.about.get("source_folder"), shared_folder(run.photos)
    if source is None or not shared or not Path(shared).is_relative_to(source):
        return None
    inside = Path(shared).relative_to(source).as_posix()
    return "" if inside == "." else f"{inside}/"


def _advice(source: str | None) -> str:
    where = "move the file to the folder of the right one"
    if source is not None and source.lower().endswith(".csv"):
        where = f"change the row of this photo in {source}"
    elif source is not None and source.partition(":")[0] in LAYOUTS:
        where = "correct the lists of the data set"
    return f"If the class itself is wrong, {where}, then train and evaluate again:"
