"""A whole report: from runs and studies to the text of a page.

Sections are left out if there is nothing to show. The page is one text with its template, style, scripts and data, and
asks nothing of any network. Its content policy allows the one style sheet and the one script in it, by their hashes,
and pictures inside the page; so even a name that looked like a script could not run. Names are escaped by the template.
The same values give the same bytes. Cost: a second for a few thousand photos.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from finegraph._version import __version__
from finegraph.data.sources import LAYOUTS
from finegraph.graph.drawing.svg_drawing import draw_svg
from finegraph.reports import sections
from finegraph.reports.comparison import baseline_of, on_common_photos, photo_keys
from finegraph.reports.page.page_data import json_in_html, page_data, shared_folder
from finegraph.reports.page.svg_charts import run_mark
from finegraph.reports.run_results import RunResults
from finegraph.reports.structure_section import structure_section
from finegraph.reports.study_results import StudyResults
from finegraph.reports.study_section import study_section
from finegraph.reports.summary import summary_of

if TYPE_CHECKING:
    from jinja2 import Template

_CONTENTS = (
    ("summary", "Summary"),
    ("accuracy", "Accuracy"),
    ("studies", "Study"),
    ("examples", "Examples"),
    ("training", "Training photos"),
    ("mistakes", "Confusions"),
    ("classes", "Classes"),
    ("calibration", "Calibration"),
    ("values", "Numbers and orders"),
    ("sure", "Sure answers"),
    ("explanations", "What decides"),
    ("structure", "What was learnt"),
    ("graph", "Label graph"),
    ("facts", "How it was made"),
)
_SCRIPTS = (
    "data.js",
    "report_lightbox.js",
    "wrong_label.js",
    "photos.js",
    "pairs.js",
    "matrix.js",
    "classes.js",
    "start.js",
)
_IDS = {"studies": "study", "mistakes": "confusions"}
_LABEL_ADDRESS = "http://127.0.0.1:8377/"
"""The default address of `finegraph label`."""
_GRAPH_COPY = "labels.json"


@dataclass(frozen=True)
class Compared:
    """Runs on the photos that all of them answered.

    Attributes:
        runs: the runs.
        baseline: the run that the others are compared with.
        other: the run that is examined: the last, or the one before if that is the baseline.
        left_out: how many photos only some of them answered.
    """

    runs: list[RunResults]
    baseline: int
    other: int
    left_out: int


def compared(runs: Sequence[RunResults]) -> Compared:
    """Bring runs together.

    Raises:
        InputError: they cannot be compared.
    """
    common = on_common_photos(runs)
    baseline = baseline_of(common)
    last = len(common) - 1
    other = last if last != baseline or last == 0 else last - 1
    left_out = len({photo for run in runs for photo in photo_keys(run)}) - len(common[0].photos)
    return Compared(common, baseline, other, left_out)


def report_page(runs: Sequence[RunResults], studies: Sequence[StudyResults] = (), title: str | None = None) -> str:
    """The page as text.

    Args:
        runs: what was evaluated; may be empty if there is a study.
        studies: studies.
        title: what stands above; by default the names of the runs or studies.
    """
    values: dict[str, Any] = dict.fromkeys(name for name, _ in _CONTENTS)
    values |= {"kinds": [], "runs": [], "baseline": 0, "photos": "", "left_out": 0}
    values["studies"] = [study_section(study) for study in studies]
    data = "null"
    names = [*(run.name for run in runs), *(study.name for study in studies)]
    titles = [*(run.name for run in runs), *(study.title for study in studies)]
    lead = "A study of heads on the same photos, with intervals." if studies else ""
    if runs:
        comparison = compared(runs)
        values |= _run_values(comparison)
        lead = _lead(comparison)
        label = label_link(comparison.runs[comparison.other])
        data = json_in_html({**page_data(comparison.runs, comparison.baseline, comparison.other), "label": label})
    contents = [(_IDS.get(name, name), words) for name, words in _CONTENTS if values[name]]
    values |= {
        "title": title or " and ".join(titles),
        "lead": lead,
        "contents": contents,
        "sources": ", ".join(names),
    }
    return _rendered(values, data)


def _run_values(comparison: Compared) -> dict[str, Any]:
    """What the sections about runs show."""
    runs, baseline, other = comparison.runs, comparison.baseline, comparison.other
    shown = runs[other]
    return {
        "summary": summary_of(runs, baseline, other),
        "runs": [{"name": run.name, "head": run.head, "mark": run_mark(place)} for place, run in enumerate(runs)],
        "baseline": baseline,
        "photos": f"{len(runs[0].photos):,} photos",
        "accuracy": sections.accuracy_section(runs, baseline),
        "kinds": sections.kinds_section(runs),
        "examples": sections.examples_section(runs, baseline, other),
        "training": sections.training_section(shown),
        "mistakes": sections.mistakes_section(runs, other),
        "classes": True,
        "calibration": sections.calibration_section(runs),
        "values": sections.values_section(runs),
        "sure": sections.sure_section(runs),
        "explanations": sections.explanation_section(runs),
        "structure": structure_section(shown.structure, shown.structure_pictures),
        "graph": draw_svg(shown.graph, title="Fine labels and their coarse labels"),
        "facts": sections.facts_section(runs),
        "left_out": comparison.left_out,
    }


def _lead(comparison: Compared) -> str:
    """The evaluated photos and model, in a sentence or two."""
    run = comparison.runs[comparison.other]
    heads = ", ".join(dict.fromkeys(each.head for each in comparison.runs))
    text = (
        f"{len(run.photos):,} photos of {run.result.split or 'a data set'}, {len(run.graph):,} fine labels, "
        f"{len(run.graph.kinds):,} kinds of coarse labels; head: {heads}."
    )
    if len(comparison.runs) > 1:
        text += f" Compared with {comparison.runs[comparison.baseline].name}."
    if comparison.left_out:
        text += f" {comparison.left_out:,} photos that only some of the runs answered are left out."
    return text


def _rendered(values: Mapping[str, Any], data: str) -> str:
    """The page as text.

    Args:
        values: what the template fills in.
        data: the JSON for the scripts, safe to stand in a script element.
    """
    from markupsafe import Markup

    style, script = _file("report.css"), _script()
    return _template().render(
        **values,
        version=__version__,
        style=Markup(style),  # a file of this package
        script=script,
        data=data,
        policy=_content_policy(style, script),
    )


@functools.cache
def _template() -> Template:
    """The template of the page; compiling it takes longer than filling it in."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(_file("report.html"))


def _content_policy(style: str, script: str) -> str:
    """What the page may do: apply this style, run this script, show pictures that are inside of it."""
    return (
        f"default-src 'none'; img-src data:; style-src 'sha256-{_hash(style)}'; script-src 'sha256-{_hash(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")


def _script() -> str:
    """All scripts as one, in a function of their own."""
    parts = "\n".join(_file(name) for name in _SCRIPTS)
    return f'(() => {{\n"use strict";\n{parts}}})();\n'


def _file(name: str) -> str:
    return files("finegraph.reports").joinpath("page", name).read_text("utf-8")


# ---- from a photo into `finegraph label` -----------------------------------------------------------------------------


def label_link(run: RunResults) -> dict[str, Any]:
    """What the page needs to lead into labelling; a report starts nothing, so it shows the command to copy.

    Returns:
        `command` (None if it is not known what the run is of), `address`, `folder`: what stands before the short
        names of photos in the labelling page (None if that is not known), and `advice` on the class of a photo.
    """
    source = run.result.data or run.settings.get("data")
    return {
        "command": None if not source else _label_command(run, str(source)),
        "address": _LABEL_ADDRESS,
        "folder": _label_folder(run),
        "advice": _label_advice(None if not source else str(source)),
    }


def _label_command(run: RunResults, source: str) -> str:
    """The command, after one that copies the graph of the run if there is no graph file yet."""
    graph = run.settings.get("graph")
    if graph:
        place, _, version = str(graph).rpartition("@")
        graph = place if version.isdecimal() else graph  # to continue from, not to see as it was
        return shlex.join(["finegraph", "label", str(graph), "--data", source])
    folder = PurePath(run.result.model or ".")
    folder = folder.parent if folder.name == "model" else folder
    kept = folder / "evaluations" / run.evaluation / "graph.json"
    copied = shlex.join(["cp", os.fspath(kept), _GRAPH_COPY])
    return f"{copied}\n{shlex.join(['finegraph', 'label', _GRAPH_COPY, '--data', source])}"


def _label_folder(run: RunResults) -> str | None:
    """The folder that all photos share, as the labelling page names it: from that of the source on."""
    source, shared = run.about.get("source_folder"), shared_folder(run.photos)
    if source is None or not shared or not Path(shared).is_relative_to(source):
        return None
    inside = Path(shared).relative_to(source).as_posix()
    return "" if inside == "." else f"{inside}/"


def _label_advice(source: str | None) -> str:
    where = "move the file to the folder of the right one"
    if source is not None and source.lower().endswith(".csv"):
        where = f"change the row of this photo in {source}"
    elif source is not None and source.partition(":")[0] in LAYOUTS:
        where = "correct the lists of the data set"
    return f"If the class itself is wrong, {where}, then train and evaluate again:"
